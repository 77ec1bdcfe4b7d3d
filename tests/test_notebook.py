"""Running a notebook: found by a word, refused, failed, interrupted, finished."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import nbformat
import psutil
import pytest
from conftest import ROOT, is_running, wait_for

from connlab import notebook
from connlab.drive import machine
from connlab.schema import alone

PARAMETERS = 'run: str = "manual"  # name of the run\nn: int = 1  # how often'


def write(path: Path, *cells: str) -> Path:
    """Write a notebook with a parameters cell and the given code cells."""
    document = nbformat.v4.new_notebook()
    document.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    document.cells = [
        nbformat.v4.new_markdown_cell("# What is it?"),
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        *(nbformat.v4.new_code_cell(cell) for cell in cells),
    ]
    path.parent.mkdir(exist_ok=True)
    nbformat.write(document, path)
    return path


@pytest.fixture
def books(tmp_path, monkeypatch) -> Path:
    """Let a notebook that works and one that fails be those of the project."""
    folder = tmp_path / "notebooks"
    monkeypatch.setattr(notebook, "home", lambda: folder)
    write(folder / "01-good-one.ipynb", "import sys\nprint(run, n, sys.executable)")
    write(folder / "02-bad.ipynb", "print('so far')", "# the culprit\n1 / 0")
    return folder


@pytest.fixture
def run(books, tmp_path):
    """Return what runs a notebook of that directory, below the folder of the test."""
    return partial(notebook.run, run="r", root=tmp_path)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


FAILED = {"notebook.failed.ipynb", "failure.json"}


def texts(path: Path) -> str:
    """Return all that a notebook's cells printed."""
    cells = nbformat.read(path, as_version=4).cells
    outputs = [out for cell in cells for out in cell.get("outputs", [])]
    return "".join(out.get("text", "") for out in outputs)


@pytest.mark.parametrize(
    "word", ["1", "01", "good-one", "01-good-one", "01-good-one.ipynb"]
)
def test_a_number_or_a_name_finds_the_notebook(books, word):
    assert notebook.find(word) == books / "01-good-one.ipynb"


def test_a_path_finds_the_notebook_which_says_its_question(books):
    path = books / "02-bad.ipynb"
    assert notebook.find(str(path)) == path
    assert notebook.title_of(path) == "What is it?"


@pytest.mark.parametrize(
    ("word", "hint"),
    [("god-one", "'good-one'.*"), *((w, "") for w in ("3", "", "01-good", "no.ipynb"))],
)
def test_an_unknown_word_names_what_there_is(books, word, hint):
    with pytest.raises(ValueError, match=f"{hint}01-good-one, 02-bad"):
        notebook.find(word)


def test_a_finished_notebook_is_kept_with_its_parameters(
    run, tmp_path, capsys, monkeypatch
):
    """In the Python that asks for it, whatever kernels are installed."""
    spec = tmp_path / "jupyter/kernels/python3/kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["/nowhere"], "display_name": "broken"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    done = run("1", parameters={"n": 7})
    assert done == tmp_path / "r" / "good-one" / "notebook.ipynb"
    printed = f"r 7 {sys.executable}\n"
    assert capsys.readouterr().out == printed  # as it ran
    assert texts(done) == machine.without_paths(printed)
    assert files(done.parent) == {"notebook.ipynb"}


def kernels_here() -> list[int]:
    """Return the kernels that this process has started and that still run."""
    children = psutil.Process().children()
    return [child.pid for child in children if "connlab.kernel" in child.cmdline()]


def test_the_next_kernel_starts_while_a_notebook_draws(books, run):
    """The next notebook runs in it, with the right folder; none is left over."""
    process = "import os\nprint(os.getpid(), os.getcwd())"
    write(books / "03-draws.ipynb", "def Report(): print('drawn')", "Report()")
    write(books / "04-tells.ipynb", process, "Report = print\nReport('again')")
    with notebook.Kernels() as kernels:
        run("3", kernels=kernels)
        (waiting,) = kernels_here()
        done = run("4", kernels=kernels)
        here = machine.without_paths(f"{waiting} {ROOT}")
        assert texts(done).splitlines()[0] == here
        assert len(kernels_here()) == 1
    assert kernels_here() == []
    run("3")
    assert kernels_here() == []


def test_a_kernel_that_died_while_it_waited_fails_no_notebook(books, run):
    """As one that was killed for its memory while the notebook before drew."""
    write(books / "03-draws.ipynb", "def Report(): print('drawn')", "Report()")
    with notebook.Kernels() as kernels:
        run("3", kernels=kernels)
        (waiting,) = kernels_here()
        os.kill(waiting, signal.SIGKILL)
        # to the end of its last thread: its first may be a zombie before
        os.waitid(os.P_PID, waiting, os.WEXITED | os.WNOWAIT)
        assert texts(run("1", kernels=kernels)).startswith("r 1 ")
    assert kernels_here() == []


@pytest.mark.parametrize("forked", [False, True])
def test_nothing_looks_for_a_kernel_that_ended(books, run, forked):
    """What did made a Python server 20 % dearer in a set after a dozen notebooks."""

    def threads() -> list[str]:
        return [each.read_text() for each in Path("/proc/self/task").glob("*/comm")]

    before = threads().count("ZMQbg/IO/0\n")
    with notebook.Kernels(forked=forked) as kernels:
        run("01", kernels=kernels)
        with pytest.raises(notebook.NotebookError, match="ZeroDivisionError"):
            run("02", kernels=kernels)
        assert threads().count("ZMQbg/IO/0\n") == before


def test_forked_kernels_import_once_and_share_nothing_else(books, run, monkeypatch):
    values = "os.getpid(), os.getsid(0), os.getcwd(), os.getenv('ASKED')"
    tells = f"import os, sys\nprint({values}, 'seaborn' in sys.modules)"
    write(books / "03-tells.ipynb", tells)
    pids = set()
    with notebook.Kernels(forked=True) as kernels:
        for word in ("once", "again"):
            monkeypatch.setenv("ASKED", word)
            told = texts(run("3", kernels=kernels)).split()
            pid, session, where, asked, imported = told
            pids.add(pid)
            assert session == pid
            assert (where, asked) == (machine.without_paths(str(ROOT)), word)
            assert imported == "True"
        with pytest.raises(notebook.NotebookError, match="ZeroDivisionError"):
            run("bad", kernels=kernels)
    assert len(pids) == 2
    assert kernels_here() == []


def test_a_kernel_that_does_not_start_fails_its_study_alone(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(notebook.NotebookError, match="kernel"):
        run("bad")
    assert files(tmp_path / "r/bad") == FAILED


def test_a_failed_notebook_never_looks_finished(books, run, tmp_path):
    with pytest.raises(notebook.NotebookError) as caught:
        run("bad")
    message = str(caught.value)
    assert "ZeroDivisionError" in message
    assert "# the culprit" in message
    assert "\n" not in message
    assert files(tmp_path / "r/bad") == FAILED
    failure = json.loads((tmp_path / "r/bad/failure.json").read_text())
    assert "ZeroDivisionError" in failure["reason"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notebook, "_execute", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run("bad")
    assert files(tmp_path / "r/bad") == FAILED, "still told"
    write(books / "02-bad.ipynb", "print('good now')")
    run("bad")
    assert files(tmp_path / "r/bad") == {"notebook.ipynb"}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"m": 1}, r"\bm\b"),
        ({"n": "many"}, r"\bn\b"),
        ({"n": [1, 2]}, r"\bn\b"),
        # would move the results
        ({"n": 2, "run": "elsewhere"}, "run: 'elsewhere'.*run="),
        ({"n": 2, "root": "elsewhere"}, "root: 'elsewhere'.*root="),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_runs(run, tmp_path, given, names):
    with pytest.raises(ValueError, match=names):
        run("1", parameters=given)
    assert not (tmp_path / "r").exists()


SAYS_WHERE = """import warnings, os, pathlib, IPython.display as d
here = pathlib.Path.cwd()
print(f"in {here}/runs and {here}")
warnings.warn(f"{here}/connlab")
d.display({"text/plain": repr(here / "runs"), "image/png": f"{here}"}, raw=True)"""


def everything(path: Path) -> str:
    """Return an executed notebook's text without what its author wrote."""
    document = nbformat.read(path, as_version=4)
    for cell in document.cells:
        cell.source = ""
    return json.dumps(document, ensure_ascii=False)


def test_a_study_is_run_by_one_command_at_a_time(books, tmp_path):
    """Of two one read the half-written copy of the other: no JSON, it said."""
    folder = tmp_path / "runs/r/good-one"
    folder.mkdir(parents=True)
    begun = folder / "notebook.partial.ipynb"
    begun.write_text("{")
    said = "^01-good-one: another command runs it in run 'r'; wait for it$"
    with alone(folder), pytest.raises(notebook.NotebookError, match=said):
        notebook.run("1", run="r", root=tmp_path / "runs")
    assert list(folder.iterdir()) == [begun]
    assert begun.read_text() == "{"
    assert notebook.run("1", run="r", root=tmp_path / "runs").is_file()


def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *cells: str) -> Path:
    """Return a project with one notebook, in which all that follows runs."""
    root = tmp_path / "the project"
    (root / "notebooks").mkdir(parents=True)
    write(root / "notebooks/01-tells.ipynb", *cells)
    (tmp_path / "somebody").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    monkeypatch.setenv("CONNLAB_HOME", str(root))
    return root


def test_an_executed_notebook_does_not_say_where_it_ran(tmp_path, monkeypatch):
    home = "print(pathlib.Path.home() / 'x')"
    root = project(tmp_path, monkeypatch, SAYS_WHERE, home)
    done = notebook.run("1", run="r")
    papermill = nbformat.read(done, as_version=4).metadata.papermill
    assert papermill.input_path == "notebooks/01-tells.ipynb"
    assert papermill.output_path == "runs/r/tells/notebook.ipynb"
    text = everything(done)
    assert text.count(str(root)) == 1  # the picture, which is no text
    assert f'"image/png": "{root}"' in text
    assert "in ./runs and ." in text
    assert "PosixPath('./runs')" in text
    assert "~/x" in text
    assert "somebody" not in text
    assert "<cell>:" in text  # where the warning came from
    assert "ipykernel_" not in text


def test_nor_does_one_that_failed(tmp_path, monkeypatch):
    code = "import pathlib\nraise OSError(f'{pathlib.Path.cwd()}/runs is full')"
    root = project(tmp_path, monkeypatch, code)
    with pytest.raises(notebook.NotebookError):
        notebook.run("1", run="r")
    text = everything(root / "runs/r/tells/notebook.failed.ipynb")
    reason = (root / "runs/r/tells/failure.json").read_text()
    for kept in (text, reason):
        assert "./runs is full" in kept
        assert str(root) not in kept


def test_a_warning_about_a_run_is_one_line_without_code(tmp_path, monkeypatch):
    code = (
        "import warnings\nfrom connlab.study.frames import RunWarning\n"
        "warnings.warn('r/s: ended early', RunWarning)"
    )
    project(tmp_path, monkeypatch, code)
    cells = nbformat.read(notebook.run("1", run="r"), as_version=4).cells
    said = [out.text for cell in cells for out in cell.get("outputs", ())]
    assert said == ["r/s: ended early\n"]


def test_what_lies_outside_of_the_project_keeps_its_name_only():
    original = nbformat.v4.new_notebook()
    paths = {"input_path": "/data/x.ipynb", "output_path": "o.ipynb"}
    original.metadata.papermill = paths
    papermill = notebook.without_paths(original).metadata.papermill
    assert papermill == {"input_path": "x.ipynb", "output_path": "o.ipynb"}
    assert original.metadata.papermill.input_path == "/data/x.ipynb"  # a copy was made


def patience_s() -> float:
    """Return two seconds; more where others keep every core busy meanwhile."""
    return 2.0 if os.getloadavg()[0] < 1.5 * os.cpu_count() else 8.0


LISTENS = "time.sleep(60)"
IS_DEAF = """while True:
    try: time.sleep(60)
    except KeyboardInterrupt: pass"""


def running(
    folder: Path, cell: str, kernels: str = "None", *, stderr: int = subprocess.DEVNULL
) -> subprocess.Popen:
    """Start a process that runs a notebook of one cell."""
    write(folder / "nb/01-long.ipynb", cell)
    code = (
        "import sys; from connlab import notebook\n"
        f"notebook.home = lambda: notebook.Path({str(folder / 'nb')!r})\n"
        f"kernels = {kernels}\n"
        f"try: notebook.run('1', run='r', root={str(folder)!r}, kernels=kernels)\n"
        "except notebook.Interrupted: sys.exit(130)"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": stderr, "text": True}
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, **pipes)


FORKED = "notebook.Kernels(forked=True)"


@pytest.mark.timed
@pytest.mark.parametrize(
    ("number", "cell", "kernels"),
    [
        (signal.SIGINT, LISTENS, "None"),
        (signal.SIGINT, LISTENS, FORKED),
        (signal.SIGTERM, IS_DEAF, "None"),
        (signal.SIGHUP, LISTENS, "None"),
    ],
)
def test_a_stop_takes_two_seconds_and_leaves_nothing(tmp_path, number, cell, kernels):
    start = "import subprocess, time\nchild = subprocess.Popen(['sleep', '60'])\n"
    report = "print(child.pid, flush=True)\n"
    with running(tmp_path, start + report + cell, kernels) as process:
        sleeper = int(process.stdout.readline())
        family = psutil.Process(process.pid).children(recursive=True)
        begin = time.monotonic()
        os.kill(process.pid, number)
        process.stdout.read()
        assert process.wait(10) == 130
    assert time.monotonic() - begin < patience_s()
    pids = [sleeper, *(member.pid for member in family)]
    wait_for(lambda: not any(map(is_running, pids)), seconds=1)
    assert list((tmp_path / "r/long").iterdir()) == []


@pytest.mark.timed
def test_a_stop_while_a_kernel_starts_says_nothing_of_the_kernel(tmp_path):
    def imports() -> bool:
        kernels = psutil.Process(process.pid).children()
        maps = [Path(f"/proc/{kernel.pid}/maps").read_text() for kernel in kernels]
        return any("/scipy/" in text for text in maps)

    with running(tmp_path, LISTENS, stderr=subprocess.PIPE) as process:
        wait_for(imports, seconds=30)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(10) == 130
    assert said.strip() == "stopping ..."


@pytest.mark.timed
def test_a_kernel_that_takes_long_to_end_has_no_traceback(tmp_path):
    """Its cell was still waited for, by a task that nobody asked again."""
    slow = (
        "None\nimport asyncio; from jupyter_core.utils import run_sync\n"
        "end, wait = notebook._Kernel.end, run_sync(asyncio.sleep)\n"
        "notebook._Kernel.end = lambda kernel: (wait(1.2), end(kernel))"
    )
    cell = f"import time\nprint('began', flush=True)\n{IS_DEAF}"
    with running(tmp_path, cell, slow, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        said = process.stderr.read()
        assert process.wait(10) == 130
    assert said.strip() == "stopping ..."


def test_a_forked_kernel_ends_with_the_process_that_asked(tmp_path):
    cell = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    with running(tmp_path, cell, FORKED) as process:
        kernel = int(process.stdout.readline())
        process.kill()
    wait_for(lambda: not is_running(kernel), seconds=patience_s() + 2)
