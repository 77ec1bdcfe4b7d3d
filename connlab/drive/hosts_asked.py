"""Whether sweeps measure on other hosts than this machine.

    CONNLAB_HOSTS=hosts.toml -> the servers on their host, clients on theirs

What cannot be measured over hosts is refused before anything is measured.
"""

import os
from pathlib import Path

#: environment variable: the file that names the hosts
ROSTER = "CONNLAB_HOSTS"

#: studies that need one machine, and what for
ONE_MACHINE = {
    "the-machine": "it measures the calls of one kernel",
    "breaking-points": "it lowers limits of the machine that it runs on",
    "pools": "its bursts end with the last answer of one client",
    "guestbook": "its database stands beside the server",
    "why": "it counts with perf on the machine that it runs on",
    "runtimes": "servers from servers.toml listen on loopback only",
    "winsock": "servers from servers.toml listen on loopback only",
}


def roster() -> Path | None:
    """Return the ``hosts.toml`` to measure over; None: this machine measures."""
    path = os.environ.get(ROSTER)
    return Path(path) if path else None


def why_not(study: str) -> str | None:
    """Return why a study cannot be measured over the configured hosts.

    None where it can, or where there are no such hosts.
    """
    reason = ONE_MACHINE.get(study)
    return f"not over several hosts: {reason}" if reason and roster() else None


def refuse(activity: str) -> None:
    """Raise ValueError, where hosts are configured, for what needs one machine."""
    if path := roster():
        raise ValueError(f"{ROSTER}: {path.name}; {activity} on this machine only")
