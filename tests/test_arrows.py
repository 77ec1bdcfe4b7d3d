"""One direction: drive writes, study reads, and neither imports the other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "connlab"


def _imports(path: Path) -> set[str]:
    """Return the full names of all modules that a file imports, wherever it does."""
    found = set()
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = parts[: len(parts) - node.level]
                base = ".".join([*up, *([base] if base else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("part", "forbidden"),
    [
        ("drive", ("connlab.study", "connlab.publish")),
        ("study", ("connlab.drive", "connlab.publish", "subprocess", "psutil")),
        ("publish", ("connlab.drive",)),
    ],
)
def test_no_arrow_points_back(part, forbidden):
    for path in sorted((PACKAGE / part).rglob("*.py")):
        wrong = [
            name
            for name in _imports(path)
            if any(f"{name}.".startswith(f"{other}.") for other in forbidden)
        ]
        assert not wrong, path.name


def test_the_schema_imports_nothing_of_ours():
    for path in sorted((PACKAGE / "schema").glob("*.py")):
        ours = {name for name in _imports(path) if "connlab" in name}
        assert not [name for name in ours if not name.startswith("connlab.schema")]


def test_drive_starts_without_the_heavy_libraries():
    """A sweep must not pay for imports that only figures need."""
    heavy = {"pandas", "matplotlib", "seaborn", "statsmodels", "IPython"}
    for path in (PACKAGE / "drive").rglob("*.py"):
        top = {name.split(".")[0] for name in _imports(path)}
        assert not top & heavy, path.name
