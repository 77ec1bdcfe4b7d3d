"""What every study's notebook has to keep to, for the tests of the studies."""

import ast
import json
import re
import shutil
import sys
from pathlib import Path

from conftest import ROOT, ran

from connlab import parameters

BUILT = all((ROOT / "build" / name).exists() for name in ("server", "client", "floor"))
SPENT = "server_cpu_per_request_s"


def check(notebook: Path) -> None:
    """Assert what can be asserted without running it."""
    cells = json.loads(notebook.read_text())["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in code)
    title = "".join(cells[0]["source"]).splitlines()[0]
    assert title.startswith("# ")
    assert title.endswith("?")
    text = "\n".join("".join(cell["source"]) for cell in code)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 5
    check_evaluation(text)
    check_names(text)
    check_number(notebook, text)
    declared = parameters.declared(notebook)
    assert "run" in declared
    assert all(p.help for p in declared.values())
    defaults = {name: p.default for name, p in declared.items()}
    assert parameters.validate(notebook, defaults) == defaults


#: what describes the machine, and what measures: each is told of an evaluation
DESCRIBES = ("models", "core_count", "doctor")
MEASURES = ("sweep", "floor", "count", "profile", "hold", "serving", "over", "try_all")
MEASURES += ("ask_all",)


def check_evaluation(text: str) -> None:
    """Assert that all that measures or asks the machine hears of an evaluation."""
    in_words = '"measure": measure' in text
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        words = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if name in DESCRIBES:
            assert [*map(ast.unparse, node.args)] == ["recorded"]
        elif name in MEASURES or (name == "load" and "only" in words):
            joined = None in words and in_words  # as in **common
            assert words.get("measure") == "measure" or joined


def names_made(text: str) -> list[tuple[str, str]]:
    """Return kind and name of each figure, table and claim of a report."""
    return re.findall(r"""\breport\.(figure|table|claim)\(\s*["']([\w-]+)["']""", text)


def check_names(text: str) -> None:
    """Assert that each is named, and no two alike: one would replace the other."""
    names = names_made(text)
    calls = re.findall(r"\breport\.(?:figure|table|claim)\(", text)
    assert len(calls) == len(names) == len(set(names))


def check_number(notebook: Path, text: str) -> None:
    """Assert that a report has the number of its notebook's file, once at least."""
    numbers = set(re.findall(r'\bnumber(?:=|": )(\w+)', text))  # the latter in **about
    assert numbers == {str(int(notebook.stem.partition("-")[0]))}


def path_of(name: str) -> Path:
    return ROOT / "notebooks" / f"{name}.ipynb"


def code(name: str) -> dict[str, str]:
    """Return the code of a notebook of the project, by the ids of its cells."""
    cells = json.loads(path_of(name).read_text())["cells"]
    return {c["id"]: "".join(c["source"]) for c in cells if c["cell_type"] == "code"}


def begun(name: str) -> dict:
    """Return what a notebook has before it measures: its parameters and its imports.

    Its run is none that a clone may have.
    """
    sources, names = code(name), {}
    for id_ in ("cell-01", "cell-02"):
        tree = ast.parse(sources[id_])
        kept = (ast.AnnAssign, ast.Import, ast.ImportFrom)
        tree.body = [node for node in tree.body if isinstance(node, kept)]
        exec(compile(tree, f"{name}:{id_}", "exec"), names)
    return names | {"run": "none", "recorded": None}


def execute(name: str, *ids: str, **names) -> dict:
    """Run some cells of a notebook with what earlier ones made; return all names."""
    sources, names = code(name), begun(name) | names
    for id_ in ids:
        exec(compile(sources[id_], f"{name}:{id_}", "exec"), names)
    return names


def run(name: str, tmp_path: Path, **given) -> dict:
    """Run a notebook by plain papermill; return the results it wrote."""
    tool = shutil.which("papermill", path=str(Path(sys.executable).parent))
    values = {"run": "t", "root": tmp_path / "runs", **given}
    pairs = [word for pair in values.items() for word in ("-p", *pair)]
    done = ran(tool, path_of(name), tmp_path / "out.ipynb", *pairs, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    path = tmp_path / "runs" / "t" / name[3:] / "results.json"
    return json.loads(path.read_text())
