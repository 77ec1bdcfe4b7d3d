"""``runs/README.md`` is what the schema says."""

from pathlib import Path

from connlab import schema
from connlab.drive import describe

README = Path(__file__).parent.parent / "runs" / "README.md"


def test_the_readme_agrees_with_the_schema():
    assert README.read_text() == describe.readme(), (
        "run `python -m connlab.drive.describe > runs/README.md`"
    )


def test_every_column_stands_there_with_its_unit():
    lines = README.read_text().splitlines()
    for column in schema.COLUMNS:
        row = f"| `{column.name}` | {column.unit or '–'} |"
        assert any(line.startswith(row) for line in lines), column.name
