"""One direction: drive writes, study reads, and neither imports the other."""

import ast
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "connlab"


def _imports(path: Path) -> set[str]:
    """Return the full names of all modules that a file imports, wherever it does."""
    names = set()
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = parts[: len(parts) - node.level]
                base = ".".join([*up, *([base] if base else [])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("drive", ("connlab.study", "connlab.publish")),
        ("study", ("connlab.drive", "connlab.publish", "subprocess", "psutil")),
        ("publish", ("connlab.drive",)),
    ],
)
def test_no_arrow_points_back(package, forbidden):
    later = tuple(f"{name}." for name in forbidden)
    paths = sorted((PACKAGE / package).rglob("*.py"))
    assert paths
    for path in paths:
        wrong = [name for name in _imports(path) if f"{name}.".startswith(later)]
        assert not wrong, path.name


def test_the_schema_imports_no_other_package_of_connlab():
    paths = sorted((PACKAGE / "schema").glob("*.py"))
    assert paths
    for path in paths:
        names = {name for name in _imports(path) if "connlab" in name}
        assert not [name for name in names if not name.startswith("connlab.schema")]
