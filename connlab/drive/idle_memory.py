"""What idle connections take in a server and in the kernel, apart from timed runs.

    fresh server -> 8 connections -> read -> many more -> read -> difference / many

The memory of the kernel's objects is in ``/proc/slabinfo``, for the whole machine and
readable by root only. Both ends of a connection are on this machine: of what each end
has (a socket, its inode, a file) the server's is half. Only the server's side has the
rest: what epoll keeps of a socket, threads and processes with their stacks and page
tables. What sockets buffer is nothing while they are idle; names of files (dentry) are
left out, since any program makes them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import footprint, hosts_asked, procfs, programs, untimed
from connlab.drive.host import ProgramError
from connlab.drive.running import Running, running

FILE = "holding.jsonl"
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

    Parameters
    ----------
    study, run : str
        Names; a line a server goes to ``root/run/study/holding.jsonl``.
    models : sequence of str
        Those that hold more connections than they have workers; others are left out.
    repeats : int
        Fresh servers of each model; 0: none.
    root : str or Path
        Folder of runs, relative to the project's.
    measure : bool
        False: nothing is measured, as the run is evaluated again.

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
    suitable = {model.name for model in programs.models() if footprint.holds(model)}
    names = [name for name in models if name in suitable]
    untimed.measure(
        schema.study_folder(run, study, root=root) / FILE,
        ({"model": name, "repeat": n} for n in range(repeats) for name in names),
        _measured,
    )
    return missing()


def _measured(model: schema.Model, _setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a connection adds in bytes, or why that is not known."""
    try:
        with running(model.name) as server:
            count, before, after = footprint.before_and_after(model, server, _bytes)
    except (ProgramError, OSError) as error:
        return {"failure": str(error)}
    added = {name: (after[name] - before[name]) / count for name in before}
    return {"failure": None, "connections": count, **_summed(added)}


def _bytes(server: Running) -> Mapping[str, float]:
    """Return bytes by owner: the server, caches, stacks, page tables."""
    pss = footprint.settled_pss(server)
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


def _summed(added: Mapping[str, float]) -> dict[str, Any]:
    """Return the bytes of a connection in the server and in the kernel."""
    parts = {name: size for name, size in added.items() if name != "pss"}
    for name in OF_BOTH:
        if name in parts:
            parts[name] /= 2
    kernel = sum(parts.values()) if "TCP" in parts else None
    return {"server_bytes": added["pss"], "kernel_bytes": kernel, "kernel": parts}
