"""What the tests of connlab.drive share: the fake programs, and a sweep of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from connlab import drive

FAKES = Path(__file__).parent / "fakes"
ROOT = Path(__file__).parent.parent
#: in the environment of a test's programs, and of all that those start: whose they are
WHOSE = "CONNLAB_TEST_FAKES"


def programs() -> drive.Programs:
    """Return the fake server and the fake client."""
    python = (sys.executable, "-S", "-E")
    return drive.Programs(
        (*python, str(FAKES / "server.py")), (*python, str(FAKES / "client.py"))
    )


def sweep(root: Path, models=("good",), **changes) -> drive.SweepReport:
    """Run a short sweep of the fakes into ``root/r/s``."""
    options = {
        "run": "r",
        "root": root,
        "factors": {"model": list(models)},
        "fixed": {"connections": 3},
        "trials": 1,
        "duration": 0.2,
        "warmup": 0.05,
        "progress": False,
        "programs": programs(),
    } | changes
    return drive.sweep("s", **options)


def rows(root: Path) -> list[dict]:
    """Return the trials that `sweep` left."""
    text = (root / "r" / "s" / "trials.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def sweep_in_process(root: Path, **changes) -> subprocess.Popen:
    """Start `sweep` in a Python of its own, whose output is a pipe."""
    code = (
        "import sys, json, pathlib; sys.path.insert(0, 'tests'); import drive_fakes;"
        "drive_fakes.sweep(pathlib.Path(sys.argv[1]), **json.loads(sys.argv[2]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(root), json.dumps(changes)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_hear_sigint,
    )


def _hear_sigint() -> None:
    """Undo what a shell does to a job in the background: ignoring Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def fakes_alive(word: str) -> list[int]:
    """Return the fakes of this test in whose command line a word stands.

    Theirs are found even if who started them has gone; those of other tests are not.
    """
    ours = f"{WHOSE}={os.environ[WHOSE]}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            environ = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(FAKES) in words and word.encode() in words and ours in environ:
            found.append(int(folder.name))
    return found
