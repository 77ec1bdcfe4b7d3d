"""Running a notebook: found by a word, refused, failed, interrupted, finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from conftest import ROOT

from connlab import notebook

PARAMETERS = 'run: str = "manual"  # name of the run\nn: int = 1  # how often'


def write(path: Path, *cells: str) -> Path:
    """Write a notebook with a parameters cell and the given code cells."""
    made = nbformat.v4.new_notebook()
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    made.cells = [
        nbformat.v4.new_markdown_cell("# What is it?"),
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        *(nbformat.v4.new_code_cell(cell) for cell in cells),
    ]
    path.parent.mkdir(exist_ok=True)
    nbformat.write(made, path)
    return path


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """Return a directory with a notebook that works and one that fails."""
    folder = tmp_path / "notebooks"
    write(folder / "01-good-one.ipynb", "import sys\nprint(run, n, sys.executable)")
    write(folder / "02-bad.ipynb", "print('so far')", "# the culprit\n1 / 0")
    return folder


def texts(path: Path) -> str:
    """Return all that a notebook's cells printed."""
    cells = nbformat.read(path, as_version=4).cells
    outputs = [out for cell in cells for out in cell.get("outputs", [])]
    return "".join(out.get("text", "") for out in outputs)


@pytest.mark.parametrize(
    "word", ["1", "01", "good-one", "01-good-one", "01-good-one.ipynb"]
)
def test_a_number_or_a_name_finds_the_notebook(books: Path, word: str) -> None:
    assert notebook.find(word, directory=books) == books / "01-good-one.ipynb"


def test_a_path_finds_the_notebook(books: Path) -> None:
    path = books / "02-bad.ipynb"
    assert notebook.find(str(path)) == path


@pytest.mark.parametrize("word", ["3", "god-one", "", "01-good", "no.ipynb"])
def test_an_unknown_word_names_what_there_is(books: Path, word: str) -> None:
    with pytest.raises(notebook.NoSuchNotebook, match="01-good-one, 02-bad"):
        notebook.find(word, directory=books)


def test_a_misspelt_name_gets_a_suggestion(books: Path) -> None:
    with pytest.raises(notebook.NoSuchNotebook, match="did you mean 'good-one'"):
        notebook.find("god-one", directory=books)


def test_a_notebook_says_its_question(books: Path) -> None:
    assert notebook.title_of(books / "02-bad.ipynb") == "What is it?"


def test_a_finished_notebook_is_kept_with_its_parameters(
    books: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    done = notebook.run(
        "1", run="r", parameters={"n": 7}, root=tmp_path, directory=books
    )
    assert done.notebook == tmp_path / "r" / "good-one" / "notebook.ipynb"
    assert texts(done.notebook) == f"r 7 {sys.executable}\n"
    assert capsys.readouterr().out == texts(done.notebook)  # printed as it ran
    assert [p.name for p in done.directory.iterdir()] == ["notebook.ipynb"]


def test_installed_kernels_do_not_matter(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "jupyter/kernels/python3/kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["/nowhere"], "display_name": "broken"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    done = notebook.run("1", run="r", root=tmp_path, directory=books)
    assert sys.executable in texts(done.notebook)


def test_a_failed_notebook_never_looks_finished(books: Path, tmp_path: Path) -> None:
    with pytest.raises(notebook.NotebookError) as caught:
        notebook.run("bad", run="r", root=tmp_path, directory=books)
    said = str(caught.value)
    assert "ZeroDivisionError: division by zero" in said
    assert "# the culprit" in said
    assert "\n" not in said
    left = {p.name for p in (tmp_path / "r" / "bad").iterdir()}
    assert left == {"notebook.failed.ipynb", "failure.json"}
    failure = json.loads((tmp_path / "r/bad/failure.json").read_text())
    assert "division by zero" in failure["reason"]


def test_a_later_success_clears_the_failure(books: Path, tmp_path: Path) -> None:
    with pytest.raises(notebook.NotebookError):
        notebook.run("bad", run="r", root=tmp_path, directory=books)
    write(books / "02-bad.ipynb", "print('good now')")
    notebook.run("bad", run="r", root=tmp_path, directory=books)
    assert [p.name for p in (tmp_path / "r/bad").iterdir()] == ["notebook.ipynb"]


@pytest.mark.parametrize(
    ("given", "names"),
    [({"m": 1}, "m"), ({"n": "many"}, "n"), ({"n": [1, 2]}, "n")],
)
def test_a_wrong_parameter_is_refused_before_anything_runs(
    books: Path, tmp_path: Path, given: dict, names: str
) -> None:
    with pytest.raises(ValueError, match=rf"\b{names}\b"):
        notebook.run("1", run="r", parameters=given, root=tmp_path, directory=books)
    assert not (tmp_path / "r").exists()


def patience_s() -> float:
    """Return two seconds; more where others keep every core busy meanwhile."""
    return 2.0 if os.getloadavg()[0] < 1.5 * os.cpu_count() else 8.0


LISTENS = "time.sleep(60)"
IS_DEAF = """while True:
    try: time.sleep(60)
    except KeyboardInterrupt: pass"""


@pytest.mark.serial
@pytest.mark.parametrize("cell", [LISTENS, IS_DEAF], ids=["listens", "is deaf"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_takes_two_seconds_and_leaves_nothing(
    tmp_path: Path, cell: str, number: int
) -> None:
    start = "import subprocess, time\nchild = subprocess.Popen(['sleep', '60'])\n"
    tell = "print(child.pid, flush=True)\n"
    write(tmp_path / "nb/01-long.ipynb", start + tell + cell)
    code = (
        "import sys; from connlab import notebook\n"
        f"try: notebook.run('1', run='r', root={str(tmp_path)!r},"
        f" directory=notebook.Path({str(tmp_path / 'nb')!r}))\n"
        "except notebook.Interrupted: sys.exit(130)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        sleeper = psutil.Process(int(process.stdout.readline()))
        family = [sleeper, *psutil.Process(process.pid).children(recursive=True)]
        asked = time.monotonic()
        os.kill(process.pid, number)
        process.stdout.read()
        assert process.wait(10) == 130
    assert time.monotonic() - asked < patience_s()
    _, alive = psutil.wait_procs(family, timeout=1)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    assert list((tmp_path / "r/long").iterdir()) == []
