"""How many connections, tasks and bytes a machine has room for at once.

    limits of the kernel, of this process and of its container -> Room
    a server and its clients -> what they need of it

Servers that take turns stand beside each other with all their connections. Where that
is more than there is room for, their set is divided (`connlab.drive.interleaving`).
"""

from __future__ import annotations

import math
import operator
import os
import re
import resource
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from connlab import schema
from connlab.drive import flags, machine, procfs

#: connections of a set in all; more take longer to connect than to measure
CONNECTIONS_MOST = 40_000
#: processes that one client is divided into at most, as each has a limit of descriptors
CLIENT_PROCESSES_MOST = 4
#: the part of the free resources that a set may use
PART = 0.5
#: processes of a set in all. They share the pages of one program, and whatever walks a
#: page's mappings (reclaim, DAMON, migration) holds a core for a time that grows with
#: their number: with 4 000 at rest, a fifth of the others' 20 ms slices stood still
PROCESSES_MOST = 1_500
_WORKERS_DEFAULT = 8
#: tasks of a machine that tells no limit: the least that the kernel allows by default
PID_MAX = 32_768
#: both ends of a connection in the kernel, without data; a thread's stacks; a process's
#: page tables and own pages (rough, on x86-64 and Linux 6)
CONNECTION_BYTES, THREAD_BYTES, PROCESS_BYTES = 16 << 10, 48 << 10, 512 << 10
#: locked by an io_uring of a server with its buffers' ring (``src_c/uring``): 39 fit
#: into 8 MiB on Linux 6.18
RING_BYTES = 208 << 10
#: who has it may lock as much as there is
_CAP_IPC_LOCK = 14


@dataclass(frozen=True)
class Room:
    """Connections, tasks (threads and processes), bytes of memory; processes.

    `locked_bytes` is memory of io_urings, which some kernels bound by user (``ulimit
    -l``). `processes` counts in a need only: what a set may have is the same on all
    machines (`PROCESSES_MOST`).
    """

    connections: float = 0
    tasks: float = 0
    memory_bytes: float = 0
    processes: float = 0
    locked_bytes: float = 0

    def __add__(self, other: Room) -> Room:
        return Room(*map(operator.add, astuple(self), astuple(other)))

    def holds(self, need: Room) -> bool:
        return self.share(need) <= 1

    def share(self, need: Room) -> float:
        """Return the largest part of any of it that is needed; inf where there is none.

        Of nothing 0.
        """
        room = replace(self, processes=PROCESSES_MOST)
        each = zip(astuple(need), astuple(room), strict=True)
        return max((n / has if has else math.inf for n, has in each if n), default=0)


def local_room(client_processes: int = CLIENT_PROCESSES_MOST) -> Room:
    """Return what one set may use of this machine as it is now.

    Its client may have so many processes: with more than it has cores, all of them
    sleep (`connlab.drive.flags.client_flags`).
    """
    connections = CONNECTIONS_MOST
    if hard := machine.limits()["descriptors"]["hard"]:  # of each client process
        each = max(1, hard - flags.OWN_DESCRIPTORS)
        processes = min(client_processes, CLIENT_PROCESSES_MOST)
        connections = min(connections, processes * each)
    # the system's descriptors, of both ends: used, unused, most
    used, _, most = (procfs.read_text("/proc/sys/fs/file-nr").split() + [""] * 3)[:3]
    if used.isdigit() and most.isdigit():
        connections = min(connections, PART * (int(most) - int(used)) / 2)
    tasks, memory = PART * free_tasks(), PART * free_bytes()
    return Room(connections, tasks, memory, locked_bytes=PART * lockable_bytes())


def needed(model: schema.Model, cell: Mapping[str, Any]) -> Room:
    """Return what a server and its clients need, at most and roughly."""
    connections = cell.get("connections") or 1
    total = workers(cell)
    by_kind = {"threads": connections, "processes": connections, "workers": total}
    tasks = by_kind.get(model.holds or "", total if model.workers == "fixed" else 1)
    processes = tasks if model.family == "processes" else 0
    bytes_each = PROCESS_BYTES if processes else THREAD_BYTES
    buffers = 2 * schema.largest_message(cell)
    memory = connections * (CONNECTION_BYTES + buffers) + tasks * bytes_each
    rings = tasks if model.family == "completion" else 0
    return Room(connections, tasks, memory, processes, rings * RING_BYTES)


def lockable_bytes() -> float:
    """Return the memory that all processes of this user together may lock."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    allowed = re.search(
        r"^CapEff:\s*(\w+)", procfs.read_text("/proc/self/status"), re.M
    )
    exempt = bool(allowed) and int(allowed[1], 16) >> _CAP_IPC_LOCK & 1
    return math.inf if exempt or soft == resource.RLIM_INFINITY else soft


def workers(cell: Mapping[str, Any]) -> int:
    """Return the workers of a server with a fixed number, over all its processes."""
    return (cell.get("workers") or _WORKERS_DEFAULT) * (cell.get("processes") or 1)


def tasks() -> int:
    """Return how many threads and processes the kernel, our user and cgroups allow."""
    return min(limit for limit, _ in _task_limits())


def free_tasks() -> int:
    """Return how many more threads and processes there may be."""
    return max(0, min(limit - used for limit, used in _task_limits()))


def free_bytes() -> int:
    """Return the memory that is free or can be freed, also within our cgroups."""
    free = procfs.field_bytes("/proc/meminfo", "MemAvailable")
    free = free or os.sysconf("SC_AVPHYS_PAGES") * procfs.PAGE_BYTES
    for folder, limit, used in _limited("memory"):
        cache = re.search(
            r"^(?:total_)?inactive_file (\d+)",
            procfs.read_text(f"{folder}/memory.stat"),
            re.MULTILINE,
        )
        free = min(free, limit - used + (int(cache[1]) if cache else 0))
    return max(0, free)


def _task_limits() -> Iterator[tuple[int, int]]:
    """Give limits on tasks, each with how many of those that it counts there are."""
    texts = [machine.sysctl(name) for name in ("kernel.pid_max", "kernel.threads-max")]
    limits = [int(text) for text in texts if text and text.isdigit()]
    # "0.20 0.18 0.12 1/80 11206": the fourth says how many tasks there are
    load = procfs.read_text("/proc/loadavg").split()
    running = int(load[3].partition("/")[2]) if len(load) > 3 else 0
    yield min(limits, default=PID_MAX), running
    if of_user := machine.limits()["processes"]["soft"]:
        yield of_user, procfs.tasks(procfs.owned(os.getuid()))
    yield from cgroup_tasks()


def cgroup_tasks() -> Iterator[tuple[int, int]]:
    """Give the limits of our cgroups on tasks, each with how many it counts."""
    for _, limit, used in _limited("pids"):
        yield limit, used


def _limited(controller: str) -> Iterator[tuple[str, int, int]]:
    """Give the folder, limit and use of our cgroups that have a limit."""
    for folder in procfs.cgroups(controller):
        for names in procfs.CGROUP_FILES[controller]:
            limit, used = (procfs.read_text(f"{folder}/{n}").strip() for n in names)
            if limit.isdigit() and used.isdigit():
                yield folder, int(limit), int(used)
