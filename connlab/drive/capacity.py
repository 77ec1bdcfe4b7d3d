"""What a machine has room for at once: connections, tasks, memory.

    limits of the kernel, of this process and of its container -> Room
    a server and its clients -> what they need of it

Servers that take turns stand beside each other with all their connections. Where that
is more than there is room for, their set is divided (`connlab.drive.interleaving`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from connlab import schema
from connlab.drive import flags, machine, procfs

#: connections of a set in all; more take longer to connect than to measure
CONNECTIONS_MOST = 40_000
#: processes that one client is divided into at most, as each has a limit of descriptors
CLIENT_PROCESSES_MOST = 4
#: of what is free, the part that a set may use
PART = 0.5
#: processes of a set in all. They share the pages of one program, and whatever walks a
#: page's mappings (reclaim, DAMON, migration) holds a core for a time that grows with
#: their number: with 4 000 at rest, a fifth of the others' 20 ms slices stood still
PROCESSES_MOST = 1_500
WORKERS_DEFAULT = 8
#: both ends of a connection in the kernel, without data; a thread's stacks; a process's
#: page tables and own pages (rough, on x86-64 and Linux 6)
CONNECTION_BYTES, THREAD_BYTES, PROCESS_BYTES = 16 << 10, 48 << 10, 512 << 10


@dataclass(frozen=True)
class Room:
    """Connections, tasks (threads and processes), bytes of memory; processes.

    Of processes only what is needed is told: what a set may have of them is no
    machine's (`PROCESSES_MOST`).
    """

    connections: float = 0
    tasks: float = 0
    memory_bytes: float = 0
    processes: float = 0

    def __add__(self, other: Room) -> Room:
        return Room(
            *(a + b for a, b in zip(astuple(self), astuple(other), strict=True))
        )

    def holds(self, need: Room) -> bool:
        """Whether there is room for all that is needed."""
        most = replace(self, processes=PROCESSES_MOST)
        pairs = zip(astuple(most), astuple(need), strict=True)
        return all(there >= asked for there, asked in pairs)


def here() -> Room:
    """Return what one set may use of this machine as it is now."""
    return Room(_connections(), PART * _free_tasks(), PART * _free_bytes())


def needed(model: schema.Model, cell: Mapping[str, Any]) -> Room:
    """Return what a server and its clients need, at most and roughly."""
    connections = cell.get("connections") or 1
    workers = (cell.get("workers") or WORKERS_DEFAULT) * (cell.get("processes") or 1)
    each = {"threads": connections, "processes": connections, "workers": workers}
    tasks = each.get(model.holds or "", workers if model.workers == "fixed" else 1)
    processes = tasks if model.family == "processes" else 0
    bytes_each = PROCESS_BYTES if processes else THREAD_BYTES
    buffers = 2 * _largest_bytes(cell.get("size"))
    memory = connections * (CONNECTION_BYTES + buffers) + tasks * bytes_each
    return Room(connections, tasks, memory, processes)


def tasks() -> int:
    """Return how many threads and processes the system allows in all."""
    limits = [machine.sysctl(name) for name in ("kernel.pid_max", "kernel.threads-max")]
    ours = machine.limits()["processes"]["soft"]
    box = machine.cgroup()["pids"]
    found = [int(limit) for limit in (*limits, box) if limit and limit.isdigit()]
    return min([*found, ours] if ours else found)


def _free_tasks() -> float:
    # "0.20 0.18 0.12 1/80 11206": the fourth says how many there are
    load = procfs.read_text("/proc/loadavg").split()
    there = int(load[3].partition("/")[2]) if len(load) > 3 else 0
    return max(0, tasks() - there)


def _connections() -> float:
    """Each process of the client has its own limit of descriptors; the system has one.

    ``fs.file-nr`` counts both ends.
    """
    hard = machine.limits()["descriptors"]["hard"]
    held = CONNECTIONS_MOST
    if hard:
        held = min(held, CLIENT_PROCESSES_MOST * max(1, hard - flags.OWN_DESCRIPTORS))
    used, _, most = (procfs.read_text("/proc/sys/fs/file-nr").split() + [""] * 3)[:3]
    if used.isdigit() and most.isdigit():
        held = min(held, PART * (int(most) - int(used)) / 2)
    return held


def _free_bytes() -> float:
    """Return the memory that is free or can be freed, within a container's limit."""
    free = float("inf")
    for line in procfs.read_text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    box = machine.cgroup()["memory"]
    return min(free, int(box)) if box and box.isdigit() else free


def _largest_bytes(size: Any) -> int:
    """Return the largest message of a factor ``size``: a number or ``MIN-MAX``."""
    text = flags.as_text(size).rpartition("-")[2] if size else "0"
    return int(text) if text.isdigit() else 0
