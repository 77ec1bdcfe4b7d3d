"""Takes a lab down when its owner has died, however it died.

    owner --- pipe ---> keeper       reads a word: the owner has taken it down itself
                                     reads the end: the owner is dead; down with it

A process of its own, in a session of its own, so that neither Ctrl-C nor SIGKILL of the
owner ends it. The kernel closes the owner's end of the pipe whatever becomes of it.

Owner and keeper hold a lock on the number of the lab, the keeper until it is down: who
wants to make one with the same number waits for that.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from connlab import schema

#: a command of the owner may have been under way, and make something yet
_AGAIN_S = 0.5
#: how long another lab of the same number may be in use
_WAIT_S = 600.0


class Keeper:
    """The owner's side of it; RuntimeError when the number is in use for `_WAIT_S`."""

    def __init__(self, folder: Path, number: int) -> None:
        self._lock = _locked(number)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[self._lock],
            env=python_environment(),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def release(self) -> None:
        """Let it end, as there is nothing left to keep."""
        self._process.communicate(b"done")
        os.close(self._lock)


def python_environment() -> dict[str, str]:
    """Return an environment in which Python finds this package."""
    paths = [str(schema.project_root()), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": ":".join(filter(None, paths))}


def _locked(number: int) -> int:
    """Return a descriptor that holds the lock, as soon as nobody else has it."""
    path = Path(tempfile.gettempdir()) / f"connlab-lab-{number}"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(lock)
                raise RuntimeError(f"lab {number}: in use by another process") from None
            time.sleep(_AGAIN_S)


def main(folder: Path, number: int) -> None:
    """Wait for the owner's end; see above."""
    from connlab.hosts.lab import Lab

    if sys.stdin.buffer.read():
        return
    for _ in range(2):
        Lab(folder, number).down()
        time.sleep(_AGAIN_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
