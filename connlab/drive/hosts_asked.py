"""Whether sweeps measure on other hosts than this machine.

    CONNLAB_HOSTS=hosts.toml -> the servers on their host, clients on theirs

What cannot be measured so says it in one line, before anything is measured.
"""

from __future__ import annotations

import os
from pathlib import Path

from connlab.drive import evaluation

#: environment variable: the file that says who is who
ROSTER = "CONNLAB_HOSTS"

#: studies that need one machine, and what for
ONE_MACHINE = {
    "the-machine": "it measures the calls of one kernel",
    "breaking-points": "it lowers limits of the machine that it runs on",
    "pools": "its bursts end with the last answer of one client",
    "guestbook": "its database stands beside the server",
    "why": "it counts with perf on the machine that it runs on",
    "runtimes": "servers of others listen on loopback only",
    "winsock": "servers of others listen on loopback only",
}


def roster() -> Path | None:
    """Return the ``hosts.toml`` that is asked for; None: this machine measures.

    None as well while a run is evaluated again, as nothing is measured then.
    """
    told = os.environ.get(ROSTER)
    return Path(told) if told and not evaluation.folder() else None


def why_not(study: str) -> str | None:
    """Return why a study cannot be measured over the hosts that are asked for.

    None where it can, or where no hosts are asked for.
    """
    needs = ONE_MACHINE.get(study)
    return f"not over several hosts: {needs}" if needs and roster() else None


def refuse(what: str) -> None:
    """Raise ValueError, where hosts are asked for, of what one machine does alone."""
    if there := roster():
        raise ValueError(f"{ROSTER}: {there.name}; {what} on this machine only")
