"""What Linux says about processes and the machine, read cheaply.

A sampler that costs much disturbs what it measures, so each function reads one or two
small files. CPU time of a process comes from its CPU clock (``clock_gettime`` on the
clock id of the process): nanoseconds, over all its threads, dead ones included, for
one system call, where ``/proc/PID/stat`` has ticks of 10 ms. The split into user and
system time exists only in ticks, and is used as a proportion.
"""

import contextlib
import functools
import os
import re
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CPUCLOCK_SCHED = 2
#: of a larger family of siblings only so many are looked at closely
FAMILY = 64
#: readings of a family whose members end meanwhile
READINGS = 4
CGROUPS = "/sys/fs/cgroup"
#: files of a cgroup's limit, and of its use where that is read, in both versions
CGROUP_FILES = {
    "cpu": (("cpu.max",), ("cpu.cfs_quota_us",)),
    "memory": (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ),
    "pids": (("pids.max", "pids.current"),),
}
#: states of sockets, as the kernel prints them
TCP_LISTEN, TCP_TIME_WAIT = "0A", "06"
_SWITCHES = re.compile(
    r"^voluntary_ctxt_switches:\s+(\d+)\nnonvoluntary_ctxt_switches:\s+(\d+)$", re.M
)


@dataclass(frozen=True)
class Processes:
    """A process and its descendants, summed. Times in seconds since their start.

    `time_s` is when CPU time was read, on the monotonic clock: a reader that is kept
    from its core takes a second from one file to the next. `weights` holds the
    processes that were read one by one, each with how many it stands for: 1, or more
    where it is a sample of its siblings.
    """

    time_s: float
    cpu_s: float
    user_s: float
    system_s: float
    threads: int
    processes: int
    weights: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Listener:
    """Where a process takes what comes: `protocol` is ``tcp`` or ``udp``."""

    protocol: str
    host: str
    port: int


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
        with open(path, "rb", buffering=0) as file:
            return file.readall().decode("utf-8", "replace")
    except OSError:
        return ""


def field_bytes(path: str, name: str) -> int | None:
    """Return a file's line ``name: 12 kB`` in bytes, None where there is none."""
    match = re.search(rf"^{name}:\s+(\d+) kB", read_text(path), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def cpu_clock_s(pid: int) -> float | None:
    """Return the CPU time of all threads of a process, or None when it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None


def share_since_boot(thread: str) -> float | None:
    """Return what kernel threads whose names begin so took of a core; None: none is.

    The kernel's threads are children of its own, process 2.
    """
    uptime_s = float((read_text("/proc/uptime").split() or ["0"])[0])
    named = [p for p in children(2) if read_text(f"/proc/{p}/comm").startswith(thread)]
    spent = [cpu_clock_s(pid) or 0.0 for pid in named]
    return sum(spent) / uptime_s if spent and uptime_s else None


def children(pid: int) -> list[int]:
    """Return the processes that the main thread of `pid` has forked and that live."""
    return [int(p) for p in read_text(f"/proc/{pid}/task/{pid}/children").split()]


def descendants(pid: int) -> list[int]:
    """Return `pid` and the processes below it; see `_tree` for large families."""
    pids, family = _tree(pid)
    return pids + family


def _tree(pid: int) -> tuple[list[int], list[int]]:
    """Return `pid` and its descendants, and apart from them members of large families.

    A process that forks one child per connection has thousands; reading a few files
    of each would disturb what is measured. Such children count as having none.
    """
    pids, family, queue = [], [], [pid]
    while queue:
        pids.append(queue.pop())
        forked = children(pids[-1])
        (queue if len(forked) <= FAMILY else family).extend(forked)
    return pids, family


def descriptors(pid: int) -> int:
    """Return how many files a process and its descendants have open."""
    return sum(len(_listed(f"/proc/{member}/fd")) for member in descendants(pid))


def zombies(pid: int) -> int:
    """Return how many descendants have ended and were not waited for."""
    return _in_state("Z", (f"/proc/{member}" for member in descendants(pid)))


def runs(pid: int) -> bool:
    """Whether a thread of a process or its descendants runs, or would with a core."""
    folders = (f"/proc/{member}/task" for member in descendants(pid))
    return bool(_in_state("R", (f"{f}/{tid}" for f in folders for tid in _listed(f))))


def _in_state(state: str, folders: Iterable[str]) -> int:
    stats = (read_text(f"{folder}/stat") for folder in folders)
    return sum(stat[stat.rindex(")") + 2] == state for stat in stats if stat)


def tasks(pids: Iterable[int]) -> int:
    """Return how many threads some processes have."""
    return sum(len(_listed(f"/proc/{pid}/task")) for pid in pids)


def owned(uid: int) -> list[int]:
    """Return the processes of a user."""
    pids = []
    for name in filter(str.isdigit, _listed("/proc")):
        with contextlib.suppress(OSError):  # ended meanwhile
            if os.stat(f"/proc/{name}").st_uid == uid:
                pids.append(int(name))
    return pids


def sockets(pids: Iterable[int]) -> int:
    """Return how many sockets some processes have open, except Unix sockets.

    Over those a server passes descriptors between its processes (prefork-pass).
    """
    lines = read_text("/proc/net/unix").splitlines()[1:]
    unix = {f"socket:[{line.split()[6]}]" for line in lines}
    held = [link for pid in pids for link in _links(f"/proc/{pid}/fd")]
    return sum(link.startswith("socket:") and link not in unix for link in held)


def listeners(pids: Iterable[int]) -> list[Listener]:
    """Return where some processes listen: TCP first, each place once."""
    held = {link for pid in pids for link in _links(f"/proc/{pid}/fd")}
    waiting = {"tcp": TCP_LISTEN, "udp": "07"}  # UDP that is not connected
    found = [
        Listener(name[:3], _address(host), port)
        for name in ("tcp", "tcp6", "udp", "udp6")
        for host, port, state, inode in socket_table(name)
        if state == waiting[name[:3]] and f"socket:[{inode}]" in held
    ]
    return list(dict.fromkeys(found))


def socket_table(name: str) -> Iterator[tuple[str, int, str, str]]:
    """Give address, port, state and inode of the sockets in ``/proc/net/NAME``.

    Address and state are the kernel's digits.
    """
    for fields in map(str.split, read_text(f"/proc/net/{name}").splitlines()[1:]):
        host, _, port = fields[1].partition(":")
        yield host, int(port, 16), fields[3], fields[9]


def _address(digits: str) -> str:
    """Return an address that the kernel printed in words of the machine's order."""
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, packed)


def _links(folder: str) -> Iterator[str]:
    for name in _listed(folder):
        with contextlib.suppress(OSError):  # closed meanwhile
            yield os.readlink(f"{folder}/{name}")


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def processes(pid: int) -> Processes | None:
    """Sum a process and its descendants; None when the process is gone.

    Children that ended count once their parent has waited for them. CPU time is read
    from every process; of a large family, threads and the split into user and system
    time from 64 members, which speak for the others.

    A child that ends between the looks at it and at its parent is missed, and when all
    of a server's clients leave, all of its children end: so it is read again, up to
    `READINGS` times, until the family is the same before and after. Of readings that
    may lack somebody the one with most CPU time lacks least.
    """
    most: Processes | None = None
    tree = _tree(pid)
    for _ in range(READINGS):
        reading, before = _summed(*tree), tree
        if reading and (most is None or reading.cpu_s > most.cpu_s):
            most = reading
        if reading is None or (tree := _tree(pid)) == before:
            break
    return most


def _summed(pids: list[int], family: list[int]) -> Processes | None:
    sample = family[:: -(-len(family) // FAMILY) or 1]
    family_weight = len(family) / len(sample) if sample else 1.0
    members = [(pid, 1.0) for pid in pids] + [(pid, family_weight) for pid in sample]
    cpu = user = system = threads = 0.0
    weights = []
    for member, weight in members:
        stat = read_text(f"/proc/{member}/stat")
        if not stat:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        utime, stime, cutime, cstime = (int(t) * TICK_S for t in fields[11:15])
        cpu += cutime + cstime
        user += (utime + cutime) * weight
        system += (stime + cstime) * weight
        threads += int(fields[17]) * weight
        weights.append((member, weight))
    if not weights:
        return None
    start = time.monotonic()
    cpu += sum(cpu_clock_s(member) or 0.0 for member in (*pids, *family))
    return Processes(
        time_s=(start + time.monotonic()) / 2,
        cpu_s=cpu,
        user_s=user,
        system_s=system,
        threads=round(threads),
        processes=round(sum(weight for _pid, weight in weights)),
        weights=tuple(weights),
    )


def pss_bytes(
    weights: tuple[tuple[int, float], ...], *, field: str = "Pss"
) -> int | None:
    """Return the proportional set size of some processes together.

    A page that k processes share counts 1/k in each, so that the sum is what the
    processes together really hold. Each counts by its weight. Pages of files and
    libraries are shared with unrelated processes; ``Pss_Anon`` (Linux 5.4) does not
    depend on whether those run.
    """
    sizes = [
        size * weight
        for pid, weight in weights
        if (size := field_bytes(f"/proc/{pid}/smaps_rollup", field)) is not None
    ]
    return round(sum(sizes)) if sizes else None


def context_switches(pids: Iterable[int]) -> tuple[int, int] | None:
    """Return voluntary and involuntary switches of all living threads.

    They stand near the end of a file: since Linux 6.6 others may follow.
    """
    threads = [(pid, tid) for pid in pids for tid in _listed(f"/proc/{pid}/task")]
    texts = (read_text(f"/proc/{pid}/task/{tid}/status") for pid, tid in threads)
    found = [match for text in texts if (match := _SWITCHES.search(text))]
    if not found:
        return None
    return sum(int(match[1]) for match in found), sum(int(match[2]) for match in found)


def machine(cores: Iterable[int] | None = None) -> Machine:
    """Read the machine's counters; times are those of `cores`, or of all."""
    chosen = None if cores is None else frozenset(cores)
    start = time.monotonic()
    busy, steal = parse_stat(read_text("/proc/stat"), chosen)
    softirq = softirq_s(chosen)
    time_s = (start + time.monotonic()) / 2
    tcp = parse_sockstat(read_text("/proc/net/sockstat"), "TCP")
    tcp6 = parse_sockstat(read_text("/proc/net/sockstat6"), "TCP6")
    drops = parse_netstat(read_text("/proc/net/netstat"))
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

    Over all as well where a core has no line of its own, as in a container whose
    cores are numbered differently there. Busy holds interrupts (irq, softirq): whether
    processes are charged with them depends on CONFIG_IRQ_TIME_ACCOUNTING.
    """
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    ticks = {name: fields for name, *fields in lines}
    names = ["cpu"] if cores is None else [f"cpu{core}" for core in cores]
    if not set(names) <= set(ticks):
        names = ["cpu"]
    none = [0] * 8  # whole ticks, whose sum over cores does not depend on their order
    rows = [none, *([*map(int, ticks.get(name, ())), *none][:8] for name in names)]
    sums = [sum(column) for column in zip(*rows, strict=True)]
    user, nice, system, _idle, _iowait, irq, softirq, steal = sums
    return TICK_S * (user + nice + system + irq + softirq), TICK_S * steal


def softirq_s(cores: frozenset[int] | None = None) -> float:
    """Return the CPU time of the kernel's packet threads (ksoftirqd) of some cores.

    Over loopback a packet is received while it is sent, and the sender is charged for
    it (by kernels without CONFIG_IRQ_TIME_ACCOUNTING). What exceeds that goes to these
    threads: work of the trial that no process is charged for. 0.0 where they cannot be
    seen, as in a container.
    """
    threads = _softirq_threads()
    pids = [pid for core, pid in threads.items() if cores is None or core in cores]
    texts = (read_text(f"/proc/{pid}/schedstat") for pid in pids)
    return sum(int(text.split()[0]) for text in texts if text) / 1e9


@functools.cache
def _softirq_threads() -> dict[int, int]:
    threads = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        name, _, core = read_text(f"/proc/{pid}/comm").strip().partition("/")
        if name == "ksoftirqd" and core.isdigit():
            threads[int(core)] = pid
    return threads


def cgroup_paths() -> dict[str, str]:
    """Return the cgroup of this process by controller; "" is the unified hierarchy."""
    paths = {}
    for line in read_text("/proc/self/cgroup").splitlines():
        _number, names, path = line.split(":", 2)
        paths |= dict.fromkeys(names.split(","), path)
    return paths


def cpu_quota() -> float | None:
    """Return how many cores' time a container lets this process use; None: no limit.

    The least of its own cgroup and all those above it, in either version.
    """
    quotas = []
    for folder in cgroups("cpu"):
        v1 = [read_text(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period")]
        quotas += map(parse_quota, [read_text(f"{folder}/cpu.max"), " ".join(v1)])
    return min((quota for quota in quotas if quota is not None), default=None)


def cgroups(controller: str) -> list[str]:
    """Return the folders of our cgroup and of those above it, in both versions."""
    paths = cgroup_paths()
    hierarchies = {CGROUPS: paths.get("", "/")}
    hierarchies[f"{CGROUPS}/{controller}"] = paths.get(controller, "/")
    return [
        f"{root}{folder}"
        for root, path in hierarchies.items()
        for folder in (PurePosixPath(path), *PurePosixPath(path).parents)
    ]


def parse_quota(text: str) -> float | None:
    """Return ``cpu.max`` (a quota and its period, or ``max``) in cores."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    quota, period = map(int, words)
    return quota / period if period else None


def parse_sockstat(text: str, protocol: str) -> dict[str, int]:
    """Return ``{"inuse": …, "mem": …}`` of a protocol from ``/proc/net/sockstat``."""
    rows = {line.partition(":")[0]: line.split()[1:] for line in text.splitlines()}
    words = rows.get(protocol, [])
    return {k: int(v) for k, v in zip(words[::2], words[1::2], strict=False)}


def parse_netstat(text: str) -> dict[str, int]:
    """Return the TcpExt counters of ``/proc/net/netstat`` by name."""
    lines = [line for line in text.splitlines() if line.startswith("TcpExt:")]
    if len(lines) < 2:
        return {}
    names, values = (line.split()[1:] for line in lines[:2])
    return dict(zip(names, map(int, values), strict=False))
