"""``runs/README.md`` is what the schema says."""

from pathlib import Path

from conftest import REFERENCE, with_reference

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


@with_reference
def test_every_kind_of_file_that_a_run_holds_stands_there():
    """Recoveries, and the two tables of printed numbers, were left out."""
    folders = ("figures", "latency")  # each of which has a line of its own
    files = (p for p in REFERENCE.resolve().rglob("*") if p.is_file())
    held = {p.name.removesuffix(".gz") for p in files if p.parent.name not in folders}
    named = describe.readme().partition("## A trial")[0]
    unnamed = {n for n in held if f"/{n}`" not in named}
    assert len(held) > 10
    assert unnamed == {"notebook.ipynb"}  # `*.ipynb`
