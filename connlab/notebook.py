"""Run one notebook of the study as a whole, or not at all.

    find -> validate -> execute in a kernel of this Python -> runs/NAME/STUDY/

Plain papermill works on the notebooks as well. What this adds: a misspelt or ill-typed
parameter is refused before anything is measured; the kernel is this very interpreter,
whatever kernels are installed; a half-run notebook never looks like a finished one;
Ctrl-C stops servers, clients and kernel within two seconds, and the same command goes
on where it stopped.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from connlab.schema import project_root, study_folder

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager
    from nbformat import NotebookNode

_GRACE_S = 1.3  # from the first Ctrl-C to the end of a kernel that does not listen
_SOCKET_PATH_MAX = 80  # of the 107 bytes that a Unix socket's address holds
#: where warnings and tracebacks place a cell
_CELL_FILE = re.compile(r"[^\s:'\"<>]*/ipykernel_\d+/\d+\.py")
#: parameters that say where results go, and what is to be used for them instead
_PLACES = {
    "run": "use --run NAME (from Python, run=)",
    "root": "commands keep runs in runs/ (from Python, root=; or use papermill)",
}


class NotebookError(RuntimeError):
    """A cell of a notebook failed."""


class NoSuchNotebook(ValueError):
    """What was asked for names no notebook."""


class Interrupted(KeyboardInterrupt):
    """Somebody asked the run to stop; what was measured is kept."""


@dataclass(frozen=True)
class Finished:
    """What a notebook left behind."""

    study: str
    directory: Path
    notebook: Path
    seconds: float


def home() -> Path:
    """Return the directory of the project's notebooks."""
    return project_root() / "notebooks"


def every(directory: Path | None = None) -> list[Path]:
    """Return the notebooks (``NN-name.ipynb``) in reading order."""
    return sorted(
        p for p in (directory or home()).glob("*.ipynb") if re.match(r"\d+-", p.name)
    )


def study_of(path: Path) -> str:
    """Return the study's name: the file's, without number and suffix."""
    return re.sub(r"^\d+-", "", path.stem)


def title_of(path: Path) -> str:
    """Return the question a notebook asks: its first heading."""
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("#"):
            return text.splitlines()[0].lstrip("# ")
    return study_of(path)


def find(nb: str | Path, *, directory: Path | None = None) -> Path:
    """Return the notebook meant by a number, a name or a path.

    Parameters
    ----------
    nb
        ``1``, ``01``, ``response-time``, ``01-response-time`` or a path to a file.
    directory
        Where numbers and names are looked up, if not in the project's notebooks.

    Raises
    ------
    NoSuchNotebook
        When nothing is meant by it; names what there is, the likeliest first.
    """
    word = str(nb)
    if word.endswith(".ipynb") and Path(word).is_file():
        return Path(word).resolve()
    known = every(directory)
    for path in known:
        names = {path.name, path.stem, study_of(path)}
        number = path.stem.split("-")[0]
        if word in names or (word.isdigit() and int(word) == int(number)):
            return path
    names = [study_of(p) for p in known]
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    have = ", ".join(p.stem for p in known) or "none"
    raise NoSuchNotebook(f"no notebook {word!r}; {hint}there are: {have}")


def run(
    nb: str | Path,
    *,
    run: str,
    parameters: Mapping[str, Any] | None = None,
    root: Path | str = "runs",
    directory: Path | None = None,
    kernels: Kernels | None = None,
) -> Finished:
    """Execute a notebook into ``runs/NAME/STUDY/notebook.ipynb``.

    The copy being executed has another name, and takes this one only when its last
    cell has run. A failed copy stays as ``notebook.failed.ipynb`` beside
    ``failure.json``, which says in one line why the study has no results. Neither copy
    names this machine's folders.

    Parameters
    ----------
    nb
        What `find` understands.
    run
        Name of the run; parameter ``run`` of the notebook.
    parameters
        Values for the notebook's parameters cell, checked by names, types, ranges;
        ``run`` and ``root`` are not among them.
    root
        The directory of runs, seen from the repository.
    directory
        Where notebooks are looked up, if not in the project's.
    kernels
        Where its kernel comes from, if others follow it.

    Raises
    ------
    NotebookError
        When one of its cells failed.
    ValueError
        When there is no such notebook, or a parameter is unknown, of the wrong type,
        out of range, or would move the results; or when hosts are asked for and the
        study needs one machine.
    Interrupted
        After SIGINT or SIGTERM.
    """
    from connlab.drive import hosts_asked
    from connlab.parameters import declared, validate

    path = find(nb, directory=directory)
    given = dict(parameters or {})
    for name, instead in _PLACES.items():
        if name in given:
            raise ValueError(f"{name}: {given[name]!r} cannot be given; {instead}")
    given["run"] = run
    if "root" in declared(path):
        given["root"] = str(root)
    values = validate(path, given)
    study = study_of(path)
    if why := hosts_asked.why_not(study):
        raise ValueError(f"{path.stem}: {why}")
    target = study_folder(run, study, root=root)
    target.mkdir(parents=True, exist_ok=True)
    partial = target / "notebook.partial.ipynb"
    failed = target / "notebook.failed.ipynb"
    failure = target / "failure.json"
    for old in (partial, failed, failure):
        old.unlink(missing_ok=True)
    start = time.monotonic()
    try:
        with contextlib.ExitStack() as own:
            source = kernels or own.enter_context(Kernels())
            _execute(source, path, partial, values, follow=kernels is not None)
    except _CellFailed as error:
        _keep(partial, failed)
        _note_failure(failure, study, str(error))
        raise NotebookError(f"{path.stem}: {error}; see {_short(failed)}") from None
    except KeyboardInterrupt:
        partial.unlink(missing_ok=True)
        raise
    _keep(partial, target / "notebook.ipynb")
    return Finished(
        study=study,
        directory=target,
        notebook=target / "notebook.ipynb",
        seconds=time.monotonic() - start,
    )


def left_out(stem: str, *, run: str, root: Path | str = "runs") -> str | None:
    """Return why a study cannot be measured over the hosts that are asked for.

    The reason is kept where the paper looks for results. None: it can be measured, or
    no hosts are asked for.
    """
    from connlab.drive import hosts_asked

    study = study_of(Path(stem))
    why = hosts_asked.why_not(study)
    if why:
        target = study_folder(run, study, root=root)
        target.mkdir(parents=True, exist_ok=True)
        _note_failure(target / "failure.json", study, why)
    return why


def without_paths(notebook: Mapping[str, Any]) -> NotebookNode:
    """Return an executed notebook that does not say where this machine keeps it.

    Papermill records where it read and wrote, and outputs may show more (a traceback,
    a warning, the text of an object). What lies in the project becomes relative to
    it, home becomes ``~``; sources and pictures stay as they are.

    Parameters
    ----------
    notebook
        As nbformat reads it.
    """
    import nbformat

    found = nbformat.from_dict(notebook)
    told = found.metadata.get("papermill", {})
    for name in ("input_path", "output_path"):
        if told.get(name):
            told[name] = _in_project(Path(told[name]))
    found.metadata = _pathless(found.metadata)
    for cell in found.cells:
        if "outputs" in cell:
            cell.outputs = _pathless(cell.outputs)
    return nbformat.from_dict(found)


def _pathless(value: Any) -> Any:
    """Return what a notebook holds with this machine's folders left out, at any depth.

    Pictures stay: base64 is no text.
    """
    from connlab.drive import machine

    if isinstance(value, str):
        return _CELL_FILE.sub("<cell>", machine.without_paths(value))
    if isinstance(value, list):
        return [_pathless(item) for item in value]
    if isinstance(value, dict):
        return {
            k: v if k.startswith("image/") else _pathless(v) for k, v in value.items()
        }
    return value


def _in_project(path: Path) -> str:
    """Return a path as seen from the project; of one elsewhere, the name."""
    if path.is_relative_to(project_root()):
        return str(path.relative_to(project_root()))
    return path.name if path.is_absolute() else str(path)


def _keep(partial: Path, kept: Path) -> None:
    """Give an executed copy the name under which it stays."""
    import nbformat

    notebook = nbformat.read(partial, as_version=4)
    notebook.metadata.papermill.output_path = str(kept)
    nbformat.write(without_paths(notebook), partial)
    os.replace(partial, kept)


class _CellFailed(Exception):
    """One line: which cell, what it said."""


class Kernels:
    """Kernels for one notebook after another, each this very interpreter.

    The next one starts while a notebook draws, so that none waits for its imports. At
    the end of the context a kernel that nobody took is shut down.
    """

    def __enter__(self) -> Self:
        self._spare: _Kernel | None = None
        return self

    def __exit__(self, *exc: object) -> None:
        if self._spare:
            self._spare.end()

    def take(self) -> _Kernel:
        """Return the kernel that was prepared, or one that has not started."""
        taken, self._spare = self._spare, None
        return taken or _Kernel()

    async def prepare(self) -> None:
        """Start the kernel of the next notebook."""
        if self._spare is None:
            self._spare = _Kernel()
            await self._spare.start()


class _Kernel:
    """A kernel, and the directory of its sockets, which nobody else may read."""

    def __init__(self) -> None:
        self._sockets = tempfile.TemporaryDirectory(prefix="connlab-")
        self.manager = _kernel_manager(self._sockets.name)

    async def start(self) -> None:
        await self.manager.start_kernel(
            cwd=str(project_root()),
            extra_arguments=["--HistoryManager.hist_file=:memory:"],
        )

    def end(self) -> None:
        _shut_down(self.manager)
        self._sockets.cleanup()


def _execute(
    kernels: Kernels,
    source: Path,
    output: Path,
    parameters: Mapping[str, Any],
    *,
    follow: bool,
) -> None:
    """Execute a notebook; with `follow`, another one comes after it."""
    kernel = kernels.take()

    async def prepare(cell: NotebookNode, **_: object) -> None:
        # all is measured by then: from here on figures are drawn, on one core
        if follow and "Report(" in cell.source:
            await kernels.prepare()

    try:
        _execute_in(kernel.manager, source, output, parameters, prepare)
    finally:
        kernel.end()


def _execute_in(
    km: AsyncKernelManager,
    source: Path,
    output: Path,
    parameters: Mapping[str, Any],
    on_cell_start: Callable,
) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    # names are checked already, by what reads every annotation
    logging.getLogger("papermill").setLevel(logging.ERROR)
    with _interruptible(km) as asked:
        try:
            papermill.execute_notebook(
                source,
                output,
                parameters=dict(parameters),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                stdout_file=sys.stdout,
                stderr_file=sys.stderr,
                cwd=str(project_root()),
                km=km,
                on_cell_start=on_cell_start,
            )
        except PapermillExecutionError as error:
            if asked:
                raise Interrupted from None
            raise _CellFailed(_one_line(error)) from None
        except DeadKernelError:
            if asked:
                raise Interrupted from None
            raise _CellFailed("the kernel died (out of memory?)") from None
        except Exception:
            if asked:  # a kernel that was ended while it started fails anyhow
                raise Interrupted from None
            raise
        if asked:
            raise Interrupted


def _kernel_manager(sockets: str) -> AsyncKernelManager:
    """Return a manager whose one kernel is this interpreter, whatever is installed.

    It talks through sockets in that directory, which nobody else on the machine may
    read, as long as their names fit into a socket's address.
    """
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    here = KernelSpec(
        argv=[sys.executable, "-m", "connlab.kernel", "-f", "{connection_file}"],
        display_name="connlab",
        language="python",
    )

    class OnlyThis(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return here

    km = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=OnlyThis())
    if len(sockets) < _SOCKET_PATH_MAX:
        km.transport = "ipc"
        km.connection_file = f"{sockets}/kernel.json"
    return km


def _shut_down(km: AsyncKernelManager) -> None:
    from jupyter_core.utils import run_sync

    with contextlib.suppress(RuntimeError):
        run_sync(km.shutdown_kernel)(now=True)


@contextlib.contextmanager
def _interruptible(km: AsyncKernelManager) -> Iterator[list[int]]:
    """Hand SIGINT and SIGTERM on to the kernel; end it when it does not listen.

    The kernel leads a session of its own, so a terminal's Ctrl-C does not reach it.
    It gets SIGINT from here, its sweep stops the trial in flight, and the cell fails.
    A second signal, ours after a while or the user's, does not wait for that. Yields
    the signals caught so far.
    """
    caught: list[int] = []
    timers: list[threading.Timer] = []

    def on_signal(number: int, _frame: object) -> None:
        caught.append(number)
        pid = getattr(km.provisioner, "pid", None)
        if pid is None or len(caught) > 1:
            _kill_group(pid)
            raise Interrupted
        print("\nstopping ...", file=sys.stderr, flush=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        again = [threading.get_ident(), signal.SIGINT]
        timers.append(threading.Timer(_GRACE_S, signal.pthread_kill, again))
        timers[-1].start()

    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    before = {n: signal.signal(n, on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _kill_group(pid: int | None) -> None:
    """Kill the kernel and what it started (the kernel leads a process group)."""
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _one_line(error: Any) -> str:
    """Return ``cell 7 (first line of it): ValueError: text``."""
    source = next((ln for ln in error.source.splitlines() if ln.strip()), "").strip()
    text = " ".join(str(error.evalue).split())
    said = f"{error.ename}: {text}" if text else str(error.ename)
    return f"cell {error.exec_count} ({source[:60]}): {said}"


def _note_failure(path: Path, study: str, reason: str) -> None:
    failure = {"schema": 1, "study": study, "reason": _pathless(reason)}
    path.write_text(json.dumps(failure, indent=1) + "\n")


def _short(path: Path) -> str:
    """Return a path as seen from here, when that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
