"""Takes a lab down when its owner has died, however it died.

    owner --- pipe ---> keeper       reads a word: the owner has taken it down itself
                                     reads the end: the owner is dead; down with it

A process of its own, in a session of its own, so that neither Ctrl-C nor SIGKILL of the
owner ends it. The kernel closes the owner's end of the pipe whatever becomes of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from connlab import schema

#: a command of the owner may have been under way, and make something yet
_AGAIN_S = 0.5


class Keeper:
    """The owner's side of it."""

    def __init__(self, folder: Path, number: int) -> None:
        path = [str(schema.project_root()), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": ":".join(filter(None, path))},
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def release(self) -> None:
        """Let it end, as there is nothing left to keep."""
        self._process.communicate(b"done")


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
