"""`make runtimes`: build the servers of ``servers.toml`` that have their tools here.

    entry -> are its needs here? -> its build commands, in runtimes/NAME -> its version

What cannot be built is left out, with its reason; only measurements of it need it.
"""

import subprocess
from collections.abc import Callable, Sequence

from connlab import schema
from connlab.drive import programs, servers

#: lines of a failed command that are shown
_LAST_LINES = 5


def make(names: Sequence[str] = (), *, say: Callable[[str], None] = print) -> None:
    """Build entries by name, or all; say of each its version or why it is left out.

    ValueError for a name that ``servers.toml`` does not have.
    """
    entries = servers.entries()
    for name in names:
        if name not in entries:
            raise ValueError(programs.unknown("server", name, entries))
    for name in names or entries:
        say(f"{name:24}{_built(entries[name])}")


def _built(entry: servers.Entry) -> str:
    """Build an entry; return its version, or why it is left out."""
    if not (entry.lacks or entry.at):
        entry.build_folder.mkdir(parents=True, exist_ok=True)
        for command in entry.build:
            if failure := _failure(entry, command):
                return f"left out: {command}: {failure}"
    if entry.reason:
        return f"left out: {entry.reason}"
    if entry.at:
        return f"runs at {entry.at} already"
    return servers.version_of(entry) or "ready"


def _failure(entry: servers.Entry, command: str) -> str:
    """Run a build command; return why it failed, "" where it did not."""
    try:
        done = subprocess.run(
            entry.words(command),
            cwd=entry.folder if entry.folder.is_dir() else schema.project_root(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        return error.strerror or str(error)
    last = "\n  ".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
    return f"exit {done.returncode}\n  {last}" if done.returncode else ""
