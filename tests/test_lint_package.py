"""tools/lint_package.py finds what it is for, and only that."""

import sys
from pathlib import Path

import pytest
from conftest import ROOT, lay, ran

PROGRAM = ROOT / "tools" / "lint_package.py"

USED = """
def used() -> str:
    return "a word"

class Kept:
    def _repr_html_(self) -> str:
        return "It is shown here as a table of its rows."

    def asked(self) -> int:
        return 1
"""
CALLER = "from connlab.made import used\nkept = used()\nkept.asked()\nx.Kept\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project in which nothing is to be found."""
    lay(tmp_path, {"connlab/made.py": USED, "connlab/caller.py": CALLER})
    lay(tmp_path, {"tools/lint_package.py": PROGRAM.read_bytes()})
    return tmp_path


def said(project: Path) -> list[str]:
    done = ran(sys.executable, project / "tools" / "lint_package.py")
    assert not done.stderr
    assert done.returncode == bool(done.stdout)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("def spare():\n    pass\n", "more.py:1: nothing but tests uses spare"),
        ("class Spare:\n    pass\n", "more.py:1: nothing but tests uses Spare"),
        (
            "class _C:\n    def spare(self):\n        pass\n_C()\n",
            "more.py:2: nothing but tests uses spare",
        ),
        (
            "def _told():\n    return 'The servers that wait are the slower ones.'\n"
            "_told()\n",
            "more.py:2: _told returns the sentence",
        ),
        (
            "def _told(n):\n    return f'All of the {n} servers were measured twice.'\n"
            "_told(1)\n",
            "_told returns the sentence 'All of the N servers were measured twice.'",
        ),
    ],
    ids=["function", "class", "method", "sentence", "f-string"],
)
def test_what_nobody_needs_and_what_is_for_authors_is_found(project, text, finding):
    lay(project, {"connlab/more.py": text})
    (found,) = said(project)
    assert found.startswith("connlab/more.py")
    assert finding in found


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("more", "def _a():\n    return 'No sentence'\n_a()\n"),
        ("more", "def _a():\n    raise ValueError('It is wrong in all.')\n_a()\n"),
        ("more", '@cli\ndef command():\n    """Print all of it for those here."""\n'),
        ("drive/more", "def _a():\n    return 'This machine has no perf.'\n_a()\n"),
    ],
    ids=["words", "error", "command", "message"],
)
def test_errors_messages_and_commands_are_no_findings(project, file, text):
    lay(project, {f"connlab/{file}.py": text})
    assert said(project) == []


def test_an_import_or_a_test_makes_nothing_used(project):
    lay(project, {"connlab/more.py": "def spare():\n    pass\n"})
    lay(project, {"connlab/other.py": "from connlab.more import spare\n"})
    lay(project, {"tests/test_more.py": "from x import spare\nspare()\n"})
    assert len(said(project)) == 1
