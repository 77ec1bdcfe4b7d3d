"""What idle connections take in a server and in the kernel, apart from timed runs.

    fresh server -> 8 connections -> read -> many more -> read -> difference / many

The memory of the kernel's objects is in ``/proc/slabinfo``, for the whole machine and
readable by root only. Both ends of a connection are on this machine: of what each end
has (a socket, its inode, a file) the server's is half. Only the server's side has the
rest: what epoll keeps of a socket, threads and processes with their stacks and page
tables. What sockets buffer is nothing while they are idle; names of files (dentry) are
left out, since any program makes them.
"""

import contextlib
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import hosts_asked, procfs, programs, untimed
from connlab.drive.host import ProgramError, all_descriptors
from connlab.drive.running import Running, running

FILE = "holding.jsonl"
#: fresh servers of each model in `pss_each`
REPEATS = 4
#: the first connections, which also pay for what all share
FIRST = 8
#: connections that stay silent; fewer where each has a thread or a process
IDLE, IDLE_WORKERS = {"descriptors": 1000, "fd_setsize": 900}, 200
SETTLE_S = 0.04
SLABINFO = "/proc/slabinfo"
#: caches of the kernel's objects of which each end of a connection has its own
OF_BOTH = ("TCP", "TCPv6", "sock_inode_cache", "filp")
#: and those of which the server has more than the client
OF_SERVER = (
    *("eventpoll_epi", "eventpoll_pwq", "ep_head", "io_kiocb", "task_struct"),
    *("signal_cache", "sighand_cache", "files_cache", "mm_struct", "vm_area_struct"),
)


def missing() -> str | None:
    """Return why the kernel's memory cannot be read here; None: it can."""
    slabs = parse_slabs(procfs.read_text(SLABINFO))
    return None if slabs else f"{SLABINFO} cannot be read (only root may)"


def parse_slabs(text: str) -> dict[str, int]:
    """Return the bytes of the objects in use by cache, from ``/proc/slabinfo``.

    >>> parse_slabs("slabinfo - version: 2.1\\n# name ...\\nTCP 105 169 2368 13 8")
    {'TCP': 248640}
    """
    rows = (line.split() for line in text.splitlines()[2:])
    return {row[0]: int(row[1]) * int(row[3]) for row in rows if len(row) > 3}


def hold(
    study: str,
    *,
    run: str,
    models: Sequence[str],
    repeats: int = 4,
    root: str | Path = "runs",
    measure: bool = True,
) -> str | None:
    """Measure what idle connections take; return why not, None when it was measured.

    A line a server goes to ``root/run/study/holding.jsonl``. With ``measure=False``
    nothing is measured, as the run is evaluated again.

    Parameters
    ----------
    models : sequence of str
        Those that hold more connections than they have workers; others are left out.
    repeats : int
        Fresh servers of each model; 0: none.

    Raises
    ------
    ValueError
        For `repeats` outside 0 to 1000.
    """
    if not measure:
        return None
    if not 0 <= repeats <= 1000:
        raise ValueError(f"repeats: {repeats}; allowed: 0 to 1000")
    if hosts_asked.roster():
        return "the server runs on another host"
    suitable = {model.name for model in programs.models() if holds(model)}
    names = [name for name in models if name in suitable]
    untimed.measure(
        schema.study_folder(run, study, root=root) / FILE,
        ({"model": name, "repeat": n} for n in range(repeats) for name in names),
        _measured,
    )
    return missing()


def pss_each(models: Sequence[schema.Model]) -> dict[str, list[float]]:
    """Return what each silent connection adds to a server's PSS, in bytes.

    `REPEATS` values a model, each of a fresh server. A model that holds no more
    connections than it has workers is left out: there an idle client costs a worker,
    not memory.
    """
    return {
        model.name: [_added(model)[1]["pss"] for _ in range(REPEATS)]
        for model in models
        if holds(model)
    }


def holds(model: schema.Model) -> bool:
    """Whether a model can run here and holds more connections than it has workers."""
    return model.concurrent and model.available and model.holds != "workers"


def _measured(model: schema.Model, _setting: Mapping[str, Any]) -> dict[str, Any]:
    try:
        count, added = _added(model)
    except (ProgramError, OSError) as error:
        return {"failure": str(error)}
    return {"failure": None, "connections": count, **_summed(added)}


def _added(model: schema.Model) -> tuple[int, dict[str, float]]:
    """Return how many silent connections a server got, and what each added in bytes."""
    count = IDLE.get(model.holds or "", IDLE_WORKERS)
    readings = []
    with (
        running(model.name) as server,
        all_descriptors(),
        contextlib.ExitStack() as connections,
    ):
        for more in (FIRST, count):
            for _ in range(more):
                connections.enter_context(socket.create_connection(server.address))
            readings.append(_bytes(server))
    before, after = readings
    return count, {name: (after[name] - before[name]) / count for name in before}


def _bytes(server: Running) -> Mapping[str, float]:
    """Return bytes by owner: the server, caches, stacks, page tables."""
    pss = settled_pss(server)
    pids = procfs.descendants(server.handle)
    tables = [procfs.field_bytes(f"/proc/{pid}/status", "VmPTE") for pid in pids]
    slabs = parse_slabs(procfs.read_text(SLABINFO))
    caches = (*OF_BOTH, *OF_SERVER) if slabs else ()
    return {
        "pss": pss,
        **{name: slabs.get(name, 0) for name in caches},
        "stacks": procfs.field_bytes("/proc/meminfo", "KernelStack") or 0,
        "page_tables": sum(size or 0 for size in tables),
    }


def settled_pss(server: Running) -> int:
    """Return the PSS of a server once it has stopped changing.

    Raises `ProgramError` when it is not known, as the server has ended.
    """
    last, now = -1, 0
    while now != last:
        time.sleep(SETTLE_S)
        reading = server.host.sample(server.handle, machine=False, memory=True)
        if reading.pss_bytes is None:
            raise ProgramError(f"{server.ready['model']}: its memory cannot be read")
        last, now = now, reading.pss_bytes
    return now


def _summed(added: Mapping[str, float]) -> dict[str, Any]:
    """Return the bytes of a connection in the server and in the kernel."""
    parts = {name: size for name, size in added.items() if name != "pss"}
    for name in OF_BOTH:
        if name in parts:
            parts[name] /= 2
    kernel = sum(parts.values()) if "TCP" in parts else None
    return {"server_bytes": added["pss"], "kernel_bytes": kernel, "kernel": parts}
