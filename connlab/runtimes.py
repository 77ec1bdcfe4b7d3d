"""`make runtimes`: build the servers of ``servers.toml`` that have their tools here.

    entry -> are its needs here? -> its build commands, in runtimes/NAME -> its version

What cannot be built is left out and said; nothing but a measurement that asks for it
needs it.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connlab import schema
from connlab.drive import programs, servers

#: lines of a failed command that are shown
_LAST_LINES = 5


@dataclass(frozen=True)
class Made:
    """What became of one entry. `failure` says why it cannot run; None: it can."""

    entry: servers.Entry
    failure: str | None = None


def make(
    names: Sequence[str] = (), *, say: Callable[[str], None] = print
) -> list[Made]:
    """Build entries by name, or all; say of each its version or why it is left out.

    Raises
    ------
    ValueError
        For a name that ``servers.toml`` does not have.
    """
    entries = servers.entries()
    for name in names:
        if name not in entries:
            raise ValueError(programs.unknown("server", name, entries))
    found = []
    for name in names or entries:
        found.append(_made(entries[name]))
        say(_line(found[-1]))
    return found


def _made(entry: servers.Entry) -> Made:
    if entry.lacks or entry.at:
        return Made(entry, entry.reason)
    entry.build_folder.mkdir(parents=True, exist_ok=True)
    for command in entry.build:
        done = subprocess.run(
            shlex.split(entry.fill(command)),
            cwd=entry.folder if entry.folder.is_dir() else schema.project_root(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            last = "\n  ".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
            return Made(entry, f"{command}: exit {done.returncode}\n  {last}")
    return Made(entry, entry.reason)


def _line(made: Made) -> str:
    name = f"{made.entry.name:24}"
    if made.failure:
        return f"{name}left out: {made.failure}"
    if made.entry.at:
        return f"{name}runs at {made.entry.at} already"
    return f"{name}{servers.version_of(made.entry) or 'ready'}"
