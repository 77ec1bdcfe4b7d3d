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


def make(names: Sequence[str] = (), *, say: Callable[[str], None] = print) -> list[str]:
    """Build entries by name, or all; say of each its version or why it is left out.

    Return those that are left out. ValueError for a name that ``servers.toml`` does
    not have.
    """
    entries = servers.entries()
    for name in names:
        if name not in entries:
            raise ValueError(programs.unknown("server", name, entries))
    left_out = []
    for name in names or entries:
        if reason := _build(entries[name]):
            left_out.append(name)
            said = f"left out: {reason}"
        elif at := entries[name].at:
            said = f"runs at {at} already"
        else:
            said = servers.version_of(entries[name]) or "ready"
        say(f"{name:24}{said}")
    return left_out


def _build(entry: servers.Entry) -> str | None:
    """Build an entry; return why it is left out, None where it is not."""
    if not (entry.lacks or entry.at):
        entry.build_folder.mkdir(parents=True, exist_ok=True)
        if entry.build:  # of what is half built the product may be there
            entry.built_from.write_text("")
        for command in entry.build:
            if failure := _failure(entry, command):
                return f"{command}: {failure}"
        if entry.build:
            entry.built_from.write_text(entry.source)
    return entry.reason


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
            errors="replace",
            check=False,
        )
    except OSError as error:
        return error.strerror or str(error)
    last = "\n  ".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
    return f"exit {done.returncode}\n  {last}" if done.returncode else ""
