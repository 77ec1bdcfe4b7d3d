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
import json
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from connlab.parameters import cells_of, declared, suggestion, validate
from connlab.schema import alone, project_root, study_folder

if TYPE_CHECKING:
    from nbformat import NotebookNode

_LOG = logging.getLogger("papermill")
_TASKS = logging.getLogger("asyncio")  # of a cell that nobody waits for any more
_GRACE_S = 1.3  # from the first Ctrl-C to the end of a kernel that does not listen
_FAILURE = "failure.json"  # why a study of a run has no results
_SOCKET_PATH_MAX = 80  # of the 107 bytes that a Unix socket's address holds
#: the file of a cell in warnings and tracebacks
_CELL_FILE = re.compile(r"[^\s:'\"<>]*/ipykernel_\d+/\d+\.py")
#: parameters that say where results go, and what to use instead
_RESERVED = {
    "run": "use --run NAME (from Python, run=)",
    "root": "commands keep runs in runs/ (from Python, root=; or use papermill)",
}


class NotebookError(RuntimeError):
    """A cell of a notebook failed."""


class Interrupted(KeyboardInterrupt):
    """Somebody asked the run to stop; what was measured is kept."""

    def __str__(self) -> str:
        return "stopped; what was measured is kept, the same command goes on"


def home() -> Path:
    """Return the directory of the project's notebooks."""
    return project_root() / "notebooks"


def every() -> list[Path]:
    """Return the notebooks (``NN-name.ipynb``) in reading order."""
    return sorted(p for p in home().glob("*.ipynb") if re.match(r"\d+-", p.name))


def study_of(path: Path) -> str:
    """Return the study's name: the file's, without number and suffix."""
    return re.sub(r"^\d+-", "", path.stem)


def title_of(path: Path) -> str:
    """Return the question a notebook asks: its first heading."""
    for cell in cells_of(path):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("#"):
            return text.splitlines()[0].lstrip("# ")
    return study_of(path)


def find(nb: str | Path) -> Path:
    """Return a notebook's path.

    `nb` is ``1``, ``01``, ``response-time``, ``01-response-time`` or a path to a file.
    ValueError lists those there are, the likeliest first.
    """
    word = str(nb)
    if word.endswith(".ipynb") and Path(word).is_file():
        return Path(word).resolve()
    paths = every()
    for path in paths:
        names = {path.name, path.stem, study_of(path)}
        number = path.stem.split("-")[0]
        if word in names or (word.isdigit() and int(word) == int(number)):
            return path
    hint = suggestion(word.lower(), [study_of(p) for p in paths])
    stems = ", ".join(p.stem for p in paths) or "none"
    raise ValueError(f"no notebook {word!r}; {hint}there are: {stems}")


def run(
    nb: str | Path,
    *,
    run: str,
    parameters: Mapping[str, Any] | None = None,
    root: Path | str = "runs",
    kernels: Kernels | None = None,
) -> Path:
    """Execute a notebook into ``runs/NAME/STUDY/notebook.ipynb``; return that path.

    The copy being executed has another name, and takes this one only when its last
    cell has run. A failed copy stays as ``notebook.failed.ipynb`` beside
    ``failure.json``, which says in one line why the study has no results. Neither copy
    names this machine's folders.

    `nb` is that of `find`. `parameters` are values for the parameters cell, without
    ``run`` and ``root``. `root` is the directory of runs, seen from the repository. Of
    `kernels` one is taken, and the next prepared.

    Raises NotebookError when a cell failed, or another command runs the notebook in
    this run; Interrupted after SIGINT, SIGTERM or SIGHUP; and ValueError when there is
    no such notebook; when a parameter is unknown, of the wrong type, out of range, or
    would move the results; or when hosts are asked for and the study needs one machine.
    """
    from connlab.drive import hosts_asked

    path = find(nb)
    values = dict(parameters or {})
    for name, instead in _RESERVED.items():
        if name in values:
            raise ValueError(f"{name}: {values[name]!r} cannot be given; {instead}")
    values["run"] = run
    if "root" in declared(path):
        values["root"] = str(root)
    values = validate(path, values)
    study = study_of(path)
    reason = hosts_asked.why_not(study) if values.get("measure", True) else None
    if reason:
        raise ValueError(f"{path.stem}: {reason}")
    target = study_folder(run, study, root=root)
    target.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as lock:
        try:
            busy = f"{path.stem}: another command runs it in run {run!r}; wait for it"
            lock.enter_context(alone(target, or_else=busy))
        except RuntimeError as error:
            raise NotebookError(str(error)) from None
        return _run_alone(path, target, values, kernels)


def _run_alone(
    path: Path, target: Path, values: Mapping[str, Any], kernels: Kernels | None
) -> Path:
    """Execute a notebook into the folder of its study, which nobody else writes."""
    finished = target / "notebook.ipynb"
    partial = target / "notebook.partial.ipynb"
    failed = target / "notebook.failed.ipynb"
    partial.unlink(missing_ok=True)
    try:
        reason = _execute(path, partial, values, kernels)
    except KeyboardInterrupt:
        partial.unlink(missing_ok=True)
        raise
    if reason:
        _write_failure(target, study_of(path), reason)
        reason = f"{path.stem}: {reason}"
        if partial.exists():
            _keep(partial, failed)
            with contextlib.suppress(ValueError):
                failed = failed.relative_to(Path.cwd())
            reason += f"; see {failed}"
        raise NotebookError(reason)
    _keep(partial, finished)
    for old in (failed, target / _FAILURE):  # until then they say what there is
        old.unlink(missing_ok=True)
    return finished


def left_out(stem: str, *, run: str, root: Path | str = "runs") -> str | None:
    """Return why a study cannot be measured over several hosts, and keep the reason.

    It goes where the paper looks for results. None: the study can be measured, or no
    hosts are asked for.
    """
    from connlab.drive import hosts_asked

    study = study_of(Path(stem))
    reason = hosts_asked.why_not(study)
    if reason:
        _write_failure(study_folder(run, study, root=root), study, reason)
    return reason


def without_paths(notebook: Mapping[str, Any]) -> NotebookNode:
    """Return an executed notebook that does not say where this machine keeps it.

    Papermill records where it read and wrote, and outputs may show more (a traceback,
    a warning, the text of an object). What lies in the project becomes relative to
    it, home becomes ``~``; sources and pictures stay as they are.
    """
    import nbformat

    copy = nbformat.from_dict(notebook)
    papermill = copy.metadata.get("papermill", {})
    for name in ("input_path", "output_path"):
        if papermill.get(name):
            papermill[name] = _in_project(Path(papermill[name]))
    copy.metadata = _pathless(copy.metadata)
    for cell in copy.cells:
        if "outputs" in cell:
            cell.outputs = _pathless(cell.outputs)
    return nbformat.from_dict(copy)


def _pathless(value: Any) -> Any:
    """Remove this machine's folders from texts at any depth, but not from pictures."""
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
    import nbformat

    notebook = nbformat.read(partial, as_version=4)
    notebook.metadata.papermill.output_path = str(kept)
    nbformat.write(without_paths(notebook), partial)
    os.replace(partial, kept)


class Kernels:
    """Kernels for one notebook after another, each this very interpreter.

    The next one starts while a notebook draws, so that none waits for its imports. At
    the end of the context a kernel that nobody took is shut down.

    The imports of `forked` ones are done once for all (`connlab.kernel_server`). What
    those execute only reads trials, and takes seconds: it is written at its end.
    """

    def __init__(self, *, forked: bool = False) -> None:
        self.forked = forked
        self._spare: _Kernel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._spare:
            self._spare.end()

    def take(self) -> _Kernel:
        """Return the kernel that was prepared, or one that has not started.

        One that died while it waited is of no use: Jupyter would not start it again.
        """
        kernel, self._spare = self._spare, None
        if kernel and not kernel.is_alive():
            kernel.end()
            kernel = None
        return kernel or _Kernel(forked=self.forked)

    async def prepare(self) -> None:
        """Start the kernel of the next notebook; a forked one starts at once."""
        if self._spare is None and not self.forked:
            self._spare = _Kernel()
            await self._spare.start()


class _Kernel:
    """A kernel that is this interpreter, whatever kernels are installed.

    It talks through sockets in a directory that nobody else on the machine may read,
    as long as their names fit into a socket's address.
    """

    def __init__(self, *, forked: bool = False) -> None:
        from jupyter_client.asynchronous.client import AsyncKernelClient
        from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
        from jupyter_client.manager import AsyncKernelManager

        spec = KernelSpec(
            argv=[sys.executable, "-m", "connlab.kernel", "-f", "{connection_file}"],
            display_name="connlab",
            language="python",
        )

        class OnlyThis(KernelSpecManager):
            def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
                return spec

        class Manager(AsyncKernelManager):
            def client(manager, **options: Any) -> AsyncKernelClient:
                self._clients.append(super().client(**options))
                return self._clients[-1]

        self._clients: list[AsyncKernelClient] = []
        self.manager = Manager(kernel_name="python3", kernel_spec_manager=OnlyThis())
        if forked:
            from connlab.kernel_server import Forked

            self.manager.provisioner = Forked(
                kernel_id="forked", kernel_spec=spec, parent=self.manager
            )
        self._sockets = tempfile.TemporaryDirectory(prefix="connlab-")
        if len(self._sockets.name) < _SOCKET_PATH_MAX:
            self.manager.transport = "ipc"
            self.manager.connection_file = f"{self._sockets.name}/kernel.json"

    async def start(self) -> None:
        await self.manager.start_kernel(
            cwd=str(project_root()),
            extra_arguments=["--HistoryManager.hist_file=:memory:"],
        )

    def is_alive(self) -> bool:
        from jupyter_core.utils import run_sync

        return run_sync(self.manager.is_alive)()

    def end(self) -> None:
        """End the kernel, and the sockets of who talked to it.

        nbclient closes those of a kernel that it started itself only. Left open they
        look for the kernel that is gone, 40 times a second for each notebook so far,
        beside what is measured next.
        """
        from jupyter_core.utils import run_sync

        with contextlib.suppress(RuntimeError):
            run_sync(self.manager.shutdown_kernel)(now=True)
        for client in self._clients:
            client.stop_channels()
        self._sockets.cleanup()


def _execute(
    source: Path, output: Path, parameters: Mapping[str, Any], kernels: Kernels | None
) -> str | None:
    """Execute a copy; return in one line which cell failed and why, None: none did."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    async def prepare_next(cell: NotebookNode, **_: object) -> None:
        # all is measured by then: from here on figures are drawn, on one core
        if kernels and "Report(" in cell.source:
            await kernels.prepare()

    # names are checked already, by what reads every annotation
    _LOG.setLevel(logging.ERROR)
    kernel = kernels.take() if kernels else _Kernel()
    try:
        with _interruptible(kernel):
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
                km=kernel.manager,
                request_save_on_cell_execute=not (kernels and kernels.forked),
                on_cell_start=prepare_next,
            )
    except PapermillExecutionError as error:
        return _one_line(error)
    except DeadKernelError:
        return "the kernel died (out of memory?)"
    except RuntimeError as error:
        return f"the kernel did not start: {error}"
    finally:
        kernel.end()
    return None


@contextlib.contextmanager
def _interruptible(kernel: _Kernel) -> Iterator[None]:
    """Hand a request to stop on to the kernel; end it when it does not listen.

    That is SIGINT, SIGTERM, or SIGHUP where nohup does not ignore it.
    The kernel leads a session of its own, so a terminal's Ctrl-C does not reach it.
    It gets SIGINT from here, its sweep stops the trial in flight, and the cell fails.
    A second signal, ours after a while or the user's, does not wait for that.
    Interrupted after a signal, however the block ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    timers: list[threading.Timer] = []

    def on_signal(number: int, _frame: object) -> None:
        caught.append(number)
        pid = getattr(kernel.manager.provisioner, "pid", None)
        if pid is None or len(caught) > 1:
            with contextlib.suppress(ProcessLookupError):
                if pid is not None:  # it leads a process group, with what it started
                    os.killpg(pid, signal.SIGKILL)
            raise Interrupted
        for log in (_LOG, _TASKS):  # that a kernel died is no news from here on
            log.setLevel(logging.CRITICAL)
        print("\nstopping ...", file=sys.stderr, flush=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        again = [threading.get_ident(), signal.SIGINT]
        timers.append(threading.Timer(_GRACE_S, signal.pthread_kill, again))
        timers[-1].start()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    except Exception:
        if caught:  # a kernel that is ended fails in many ways
            raise Interrupted from None
        raise
    finally:
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        raise Interrupted


def _one_line(error: Any) -> str:
    """Return ``cell 7 (first line of it): ValueError: text``."""
    source = next((ln for ln in error.source.splitlines() if ln.strip()), "").strip()
    text = " ".join(str(error.evalue).split())
    message = f"{error.ename}: {text}" if text else str(error.ename)
    return f"cell {error.exec_count} ({source[:60]}): {message}"


def _write_failure(folder: Path, study: str, reason: str) -> None:
    failure = {"schema": 1, "study": study, "reason": _pathless(reason)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _FAILURE).write_text(json.dumps(failure, indent=1) + "\n")
