"""Programs that trials need beside server and client, such as Redis.

They run on the client's cores where it has more than one, else on the server's. Their
CPU time is kept with each trial, apart from that of the client and of other programs,
which disturb the measurement.
"""

import contextlib
import os
from collections.abc import Iterator

from connlab.drive import cores, procfs

#: cores of each by process id
_RUNNING: dict[int, tuple[int, ...]] = {}


@contextlib.contextmanager
def joined(pid: int) -> Iterator[None]:
    """Count a running program as a companion of all trials of a block of code."""
    sets = cores.split(cores.available())
    chosen = sets.client if len(sets.client) > 1 else sets.server
    os.sched_setaffinity(pid, chosen)
    _RUNNING[pid] = chosen
    try:
        yield
    finally:
        del _RUNNING[pid]


def cores_in_trial() -> dict[str, list[int]]:
    """Return the cores of the companions as a trial keeps them; nothing for none."""
    used = sorted({core for chosen in _RUNNING.values() for core in chosen})
    return {"companions": used} if used else {}


def cpu_s() -> float:
    """Return the CPU time of all companions that are running, in seconds."""
    return sum(procfs.cpu_clock_s(pid) or 0.0 for pid in _RUNNING)
