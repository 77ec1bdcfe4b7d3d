"""What the package may not hold: functions of tests, and the paper's sentences.

    python tools/lint_package.py      exit 1, and a line for each finding

A function that only tests call is code that nobody needs. A sentence that a function
returns belongs into a notebook or a section, where an author looks for it; messages,
errors, progress and what commands print are no such sentences (`_MESSAGES` names them).
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_DEFINITION = (ast.FunctionDef, ast.ClassDef)
_WORD = re.compile(r"[A-Za-z_]\w*")
_USERS = ("connlab/**/*.py", "notebooks/*.ipynb", "tools/*", ".ci/*", "pyproject.toml")
_SENTENCE = re.compile(r"[A-Z][^.?!]*(?:\s[^\s.?!]+){3,}.*[.?!]\s*$", re.DOTALL)
"""A capital letter, five words or more, and a full stop."""

_MESSAGES = {
    "connlab/claims": "verdicts say what they rest on; the ledger prints it",
    "connlab/drive": "progress, gates and what the machine cannot do",
    "connlab/judge": "what `connlab judge` prints",
    "connlab/compare": "what `connlab compare` prints",
    "connlab/bench": "what `make bench` prints",
    "connlab/publish": "stubs, stamps and problems of the sources",
    "connlab/__main__.py": "what commands print",
    "connlab/study/frames.py": "warnings about a run",
    "connlab/study/results.py": "factors, levels and trials below each question",
}
"""Where sentences are messages, and what they are for."""

_UNCALLED = {
    "dask_setup": "Dask, of the module that its workers load first",
    "send_signal": "Jupyter, of a kernel whose process group is gone",
}
"""What nothing here calls, and who does."""


def main() -> int:
    """Print every finding; return the exit status."""
    problems = [*unused(ROOT), *sentences(ROOT)]
    print("\n".join(problems), end="\n" if problems else "")
    return bool(problems)


def unused(root: Path) -> Iterator[str]:
    """Find public functions and classes that nothing but tests names.

    A name counts as used when the package, a notebook, a tool or the set-up asks for it
    but in an import. Commands are called by their decorator, Jupyter asks for
    ``_repr_…``.
    """
    paths = (p for pattern in _USERS for p in root.glob(pattern) if p.is_file())
    used = {name for path in paths for name in _names(path)} | _UNCALLED.keys()
    for path, node in _definitions(root):
        called = node.decorator_list or node.name.startswith(("__", "_repr_"))
        if not called and node.name not in used:
            yield f"{path}:{node.lineno}: nothing but tests uses {node.name}"


def _names(path: Path) -> Iterator[str]:
    """Yield the names in a file's code, not in comments, docstrings or Markdown."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        code = ("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        text = "\n".join(code)
    elif path.suffix != ".py":
        yield from _WORD.findall(text)
        return
    tree = ast.parse(text)
    callables = {node.name for node in tree.body if isinstance(node, _DEFINITION)}
    callables |= {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in callables:  # no local variable
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.name


def _definitions(root: Path) -> Iterator[tuple[Path, ast.FunctionDef | ast.ClassDef]]:
    for path in sorted(root.glob("connlab/**/*.py")):
        body = ast.parse(path.read_text("utf-8")).body
        methods = (m for c in body if isinstance(c, ast.ClassDef) for m in c.body)
        for node in (*body, *methods):
            if isinstance(node, _DEFINITION):
                yield path.relative_to(root), node


def sentences(root: Path) -> Iterator[str]:
    """Find functions that return a sentence, where no such are messages."""
    for path, node in _definitions(root):
        shown = isinstance(node, ast.ClassDef) or node.name.startswith("_repr_")
        if shown or path.as_posix().startswith(tuple(_MESSAGES)):  # methods come alone
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield from _sentences_of(path, node, inner.value)


def _sentences_of(path: Path, node: ast.AST, value: ast.expr) -> Iterator[str]:
    for part in ast.walk(value):
        if isinstance(part, ast.JoinedStr):
            text = "".join(
                str(v.value) if isinstance(v, ast.Constant) else "N"
                for v in part.values
            )
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            text = part.value
        else:
            continue
        if _SENTENCE.match(text):
            yield f"{path}:{part.lineno}: {node.name} returns the sentence {text!r}"


if __name__ == "__main__":
    sys.exit(main())
