"""What the tests of connlab.drive share: the fake programs, and a sweep of them."""

import contextlib
import errno
import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from connlab import drive, schema
from connlab.drive import cores, plan, progress, sweeps, trials
from connlab.drive.host import LocalHost

FAKES = Path(__file__).parent / "fakes"
ROOT = Path(__file__).parent.parent
#: in the environment of a test's programs, and of all that those start: whose they are
WHOSE = "CONNLAB_TEST_FAKES"


def programs() -> drive.Programs:
    python = (sys.executable, "-S", "-E")
    return drive.Programs(
        (*python, str(FAKES / "server.py")), (*python, str(FAKES / "client.py"))
    )


def measure(root: Path, study: str = "s", **options) -> drive.SweepReport:
    """Sweep once into the run ``r``, with the built programs unless told otherwise."""
    common = {"run": "r", "root": root, "trials": 1, "progress": False}
    return drive.sweep(study, **common | options)


def asked(models=("good",), **changes) -> dict:
    """Return what is asked of a short sweep of the fakes."""
    options = {
        "factors": {"model": list(models)},
        "fixed": {"connections": 3},
        "duration": 0.2,
        "warmup": 0.05,
        "programs": programs(),
    }
    return options | changes


def sweep(root: Path, models=("good",), **changes) -> drive.SweepReport:
    """Run a short sweep of the fakes into ``root/r/s``."""
    return measure(root, **asked(models, **changes))


def planned(study: str, **arguments) -> plan.SweepPlan:
    """Return the plan of a sweep with the same arguments."""
    bound = inspect.signature(drive.sweep).bind(study, **arguments)
    bound.apply_defaults()
    return plan.prepare(bound.arguments)


def estimate(study: str, **arguments) -> progress.Estimate:
    """Return what a sweep with the same arguments would cost."""
    made = planned(study, **arguments)
    on_disk = schema.read_log(made.folder / schema.TRIALS).trials
    return plan.cost(made, {trial["key"]: trial for trial in on_disk})


def under_way(*, began: float = 0.0, **changes) -> sweeps._Sweep:
    """Return a sweep that has measured nothing yet, of a grid without cells."""
    plan = SimpleNamespace(cells=())
    return sweeps._Sweep(plan, None, {}, print, [], began, **changes)


def trial(model: str = "good", **factors) -> trials.Outcome:
    """Run one short trial of a fake server with three connections."""
    usual = {"model": model, "workload": "echo", "connections": 3}
    usual |= {"duration": 0.3, "warmup": 0.05}
    sets, host = cores.split(cores.available()), LocalHost()
    setting = trials.Setting(usual | factors, 5, sets, programs())
    outcome = trials.run(setting, server_host=host, client_host=host)
    assert not host._programs
    return outcome


def rows(root: Path, study: str = "s") -> list[dict]:
    text = (root / "r" / study / "trials.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def trials_of(root: Path, servers: list[str], **options) -> dict[str, schema.Trial]:
    """Sweep servers with four connections; return the trial of each."""
    options = {"duration": 0.3, "fixed": {"connections": 4}} | options
    measure(root, factors={"server": servers}, warmup=0.1, **options)
    made = [schema.Trial.model_validate(row) for row in rows(root)]
    return {trial.factors["model"]: trial for trial in made}


def manifest(root: Path) -> dict:
    return json.loads((root / "r" / "manifest.json").read_text())


def sweep_in_process(root: Path, **changes) -> subprocess.Popen:
    """Start `sweep` in a Python of its own, whose output is a pipe."""
    code = (
        "import sys, json, pathlib; from tests import drive_fakes;"
        "drive_fakes.sweep(pathlib.Path(sys.argv[1]), **json.loads(sys.argv[2]))"
    )
    return in_background("-c", code, str(root), json.dumps(changes))


def in_background(*words: str, **options) -> subprocess.Popen:
    """Start Python in the project's folder; all that it says is a pipe."""
    command = [sys.executable, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    options |= {"cwd": ROOT, "preexec_fn": hear_sigint}
    return subprocess.Popen(command, **pipes, **options)


def programs_in(space: str) -> list[tuple[int, str]]:
    """Return process ids and names in a network namespace."""
    words = ["ip", "netns", "pids", space]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    named = []
    for pid in map(int, done.stdout.split()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            named.append((pid, Path(f"/proc/{pid}/comm").read_text().strip()))
    return named


def running(space: str) -> list[str]:
    return [name for _, name in programs_in(space) if name in ("server", "client")]


def hear_sigint() -> None:
    """Undo what a shell does to a job in the background: ignoring Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def alive(*words: object) -> list[str]:
    """Return the command lines with these words of what this test has started.

    By the mark of the fixture `nobody_left`; orphans are found, too.
    """
    mark = f"{WHOSE}={os.environ[WHOSE]}".encode()
    lines = [
        line.replace(b"\0", b" ").decode()
        for pid, line, environ in processes()
        if mark in environ and line and pid != os.getpid()
    ]
    return [line for line in lines if all(str(word) in line for word in words)]


def processes() -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Yield id, command line and environment of every process that can be read."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            environ = (folder / "environ").read_bytes().split(b"\0")
            yield int(folder.name), line, environ


def models(*names: str) -> list[schema.Model]:
    """Return models of the built server."""
    return [model for model in drive.models() if model.name in names]


def full(*_: object) -> None:
    """Stand for a call of the system on a disk that is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
