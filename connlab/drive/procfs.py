"""What Linux says about processes and the machine, read cheaply.

A sampler that costs much disturbs what it measures, so each function reads one or two
small files. CPU time of a process comes from its CPU clock (``clock_gettime`` on the
clock id of the process): nanoseconds, over all its threads, dead ones included, for
one system call, where ``/proc/PID/stat`` has ticks of 10 ms. The split into user and
system time exists only in ticks, and is used as a proportion.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CPUCLOCK_SCHED = 2
#: of a larger family of siblings only so many are looked at closely
FAMILY = 64
CGROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True)
class Processes:
    """A process and its descendants, summed. Times in seconds since their start.

    `time_s` is when CPU time was read, on the monotonic clock: a reader that is kept
    from its core takes a second from one file to the next. `closely` holds the
    processes that were looked at one by one, each with how many it stands for: 1, or
    more where it speaks for its siblings too.
    """

    time_s: float
    cpu_s: float
    user_s: float
    system_s: float
    threads: int
    processes: int
    closely: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Machine:
    """Counters of some cores' time, and of the whole machine (or network namespace).

    Those of time are of the moment `time_s`, on the monotonic clock.
    """

    time_s: float
    busy_s: float
    steal_s: float
    softirq_s: float
    socket_memory_bytes: int
    sockets: int
    time_wait: int
    listen_overflows: int
    listen_drops: int


def read_text(path: str) -> str:
    """Return a small file's text, or "" when it is not there (or not ours)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while chunk := os.read(fd, 65536):
            parts.append(chunk)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def cpu_clock_s(pid: int) -> float | None:
    """Return the CPU time of all threads of a process, or None when it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None


def children(pid: int) -> list[int]:
    """Return the processes that the main thread of `pid` has forked and that live."""
    return [int(p) for p in read_text(f"/proc/{pid}/task/{pid}/children").split()]


def tree(pid: int) -> tuple[list[int], list[int]]:
    """Return `pid` and its descendants, and apart from them members of large families.

    A process that forks one child per connection has thousands; reading a few files
    of each would disturb what is measured. Such children count as having none.
    """
    found, family, todo = [], [], [pid]
    while todo:
        found.append(todo.pop())
        born = children(found[-1])
        (todo if len(born) <= FAMILY else family).extend(born)
    return found, family


def descriptors(pid: int) -> int:
    """Return how many files a process and its descendants have open."""
    return sum(_entries(f"/proc/{one}/fd") for part in tree(pid) for one in part)


def tasks(pids: Iterable[int]) -> int:
    """Return how many threads some processes have."""
    return sum(_entries(f"/proc/{pid}/task") for pid in pids)


def sockets(pids: Iterable[int]) -> int:
    """Return how many sockets some processes have open, but for Unix sockets.

    Over those a server passes descriptors among its own, from a moment after it
    listens (prefork-pass).
    """
    lines = read_text("/proc/net/unix").splitlines()[1:]
    unix = {f"socket:[{line.split()[6]}]" for line in lines}
    held = [link for pid in pids for link in _links(f"/proc/{pid}/fd")]
    return sum(link.startswith("socket:") and link not in unix for link in held)


def _links(folder: str) -> Iterator[str]:
    """Give what the links in a folder lead to; nothing of what goes meanwhile."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                yield os.readlink(f"{folder}/{name}")


def _entries(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


def processes(pid: int) -> Processes | None:
    """Sum a process and its descendants; None when the process is gone.

    Children that ended count once their parent has waited for them. CPU time is read
    from every process; of a large family, threads and the split into user and system
    time from 64 members, which speak for the others.
    """
    found, family = tree(pid)
    some = family[:: -(-len(family) // FAMILY) or 1]
    weight = len(family) / len(some) if some else 1.0
    closely = [(one, 1.0) for one in found] + [(one, weight) for one in some]
    cpu = user = system = threads = 0.0
    alive = []
    for one, share in closely:
        stat = read_text(f"/proc/{one}/stat")
        if not stat:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        utime, stime, cutime, cstime = (int(t) * TICK_S for t in fields[11:15])
        cpu += cutime + cstime
        user += (utime + cutime) * share
        system += (stime + cstime) * share
        threads += int(fields[17]) * share
        alive.append((one, share))
    if not alive:
        return None
    count = sum(share for _one, share in alive)
    began = time.monotonic()
    cpu += sum(cpu_clock_s(one) or 0.0 for one in (*found, *family))
    return Processes(
        time_s=(began + time.monotonic()) / 2,
        cpu_s=cpu,
        user_s=user,
        system_s=system,
        threads=round(threads),
        processes=round(count),
        closely=tuple(alive),
    )


def pss_bytes(
    closely: tuple[tuple[int, float], ...], *, what: str = "Pss"
) -> int | None:
    """Return the proportional set size of some processes together.

    A page that k processes share counts 1/k in each, so that the sum is what the
    processes together really hold. Each counts as often as it stands for others.
    Of files, libraries among them, strangers share pages: what their coming and going
    must not move is ``Pss_Anon`` (Linux 5.4).
    """
    total = None
    for pid, share in closely:
        text = read_text(f"/proc/{pid}/smaps_rollup")
        at = text.find(f"\n{what}:")
        if at >= 0:
            kib = int(text[at + len(what) + 2 :].split(None, 1)[0])
            total = (total or 0.0) + kib * 1024 * share
    return None if total is None else round(total)


def context_switches(pids: Iterable[int]) -> tuple[int, int] | None:
    """Return voluntary and involuntary switches of all living threads."""
    voluntary = involuntary = 0
    seen = False
    for pid in pids:
        try:
            tids = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for tid in tids:
            for line in read_text(f"/proc/{pid}/task/{tid}/status").splitlines()[-2:]:
                name, _, count = line.partition(":")
                if name == "voluntary_ctxt_switches":
                    voluntary, seen = voluntary + int(count), True
                elif name == "nonvoluntary_ctxt_switches":
                    involuntary += int(count)
    return (voluntary, involuntary) if seen else None


def machine(cores: Iterable[int] | None = None) -> Machine:
    """Read the machine's counters; times are those of `cores`, or of all."""
    of = None if cores is None else frozenset(cores)
    began = time.monotonic()
    busy, steal = parse_stat(read_text("/proc/stat"), of)
    softirq = softirq_s(of)
    time_s = (began + time.monotonic()) / 2
    sockets = parse_sockstat(read_text("/proc/net/sockstat"))
    sockets6 = parse_sockstat(read_text("/proc/net/sockstat6"))
    drops = parse_netstat(read_text("/proc/net/netstat"))
    tcp, tcp6 = sockets.get("TCP", {}), sockets6.get("TCP6", {})
    return Machine(
        time_s=time_s,
        busy_s=busy,
        steal_s=steal,
        softirq_s=softirq,
        socket_memory_bytes=tcp.get("mem", 0) * PAGE_BYTES,
        sockets=tcp.get("inuse", 0) + tcp6.get("inuse", 0),
        time_wait=tcp.get("tw", 0),
        listen_overflows=drops.get("ListenOverflows", 0),
        listen_drops=drops.get("ListenDrops", 0),
    )


def parse_stat(text: str, cores: frozenset[int] | None = None) -> tuple[float, float]:
    """Return busy and stolen seconds from ``/proc/stat``, over `cores` or over all.

    Over all as well where a core has no line of its own, as in a container that is
    told of other numbers than it may use.
    """
    told = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    lines = {name: fields for name, *fields in told}
    names = ["cpu"] if cores is None else [f"cpu{core}" for core in cores]
    if not set(names) <= set(lines):
        names = ["cpu"]
    each = [_busy_and_stolen(lines.get(name, ())) for name in names]
    return sum(busy for busy, _ in each), sum(stolen for _, stolen in each)


def _busy_and_stolen(fields: Iterable[str]) -> tuple[float, float]:
    ticks = [int(field) for field in fields] + [0] * 8
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
    return (user + nice + system + irq + softirq) * TICK_S, steal * TICK_S


def softirq_s(cores: frozenset[int] | None = None) -> float:
    """Return the CPU time of the kernel's own threads for packets (ksoftirqd).

    Those of `cores`, or of all; there is one for each.

    Over loopback a packet is received while it is sent, on the sender's account. What
    that cannot keep up with goes to these threads: work of the trial, on nobody's
    account. 0.0 where they cannot be seen, as in a container.
    """
    threads = _softirq_threads()
    pids = [pid for core, pid in threads.items() if cores is None or core in cores]
    told = (read_text(f"/proc/{pid}/schedstat") for pid in pids)
    return sum(int(text.split()[0]) for text in told if text) / 1e9


@functools.cache
def _softirq_threads() -> dict[int, int]:
    """Return the process id of each core's thread."""
    found = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        name, _, core = read_text(f"/proc/{pid}/comm").strip().partition("/")
        if name == "ksoftirqd" and core.isdigit():
            found[int(core)] = pid
    return found


def cgroup_paths() -> dict[str, str]:
    """Return the cgroup of this process by controller; "" is the unified hierarchy."""
    paths = {}
    for line in read_text("/proc/self/cgroup").splitlines():
        _number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        paths |= dict.fromkeys(names.split(","), path)
    return paths


def cpu_quota() -> float | None:
    """Return how many cores' time a container lets this process use; None: no limit.

    The least of what its own cgroup and those around it say, in either version.
    """
    paths = cgroup_paths()
    own, old = paths.get("", "/"), paths.get("cpu", "/")
    told = [read_text(f"{folder}/cpu.max") for folder in _around("", own)]
    told += [_first_version(folder) for folder in _around("/cpu", old)]
    quotas = [quota for text in told if (quota := parse_quota(text)) is not None]
    return min(quotas, default=None)


def _first_version(folder: str) -> str:
    """Return a cgroup's quota and period as the second version writes them."""
    files = (f"{folder}/cpu.cfs_{name}_us" for name in ("quota", "period"))
    return " ".join(map(read_text, files))


def _around(mount: str, path: str) -> list[str]:
    """Return the folders of a cgroup and of all those around it."""
    own = PurePosixPath(path)
    return [f"{CGROUPS}{mount}{one}".rstrip("/") for one in (own, *own.parents)]


def parse_quota(text: str) -> float | None:
    """Return ``cpu.max`` (a quota and its period, or ``max``) in cores."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    quota, period = map(int, words)
    return quota / period if period else None


def parse_sockstat(text: str) -> dict[str, dict[str, int]]:
    """Return ``{"TCP": {"inuse": …, "mem": …}, …}`` from ``/proc/net/sockstat``."""
    table = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        table[name] = {k: int(v) for k, v in zip(words[::2], words[1::2], strict=False)}
    return table


def parse_netstat(text: str) -> dict[str, int]:
    """Return the TcpExt counters of ``/proc/net/netstat`` by name."""
    lines = [line for line in text.splitlines() if line.startswith("TcpExt:")]
    if len(lines) < 2:
        return {}
    names, values = (line.split()[1:] for line in lines[:2])
    return dict(zip(names, map(int, values), strict=False))
