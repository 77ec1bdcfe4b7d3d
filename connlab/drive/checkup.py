"""What this machine can measure, what limits it, what is missing, what to change.

`doctor` gathers facts and judges them; the judging is a function of facts alone, so
that it can be tested with machines that nobody has.

How many connections a model can hold follows from what a connection costs it (``holds``
in ``server --list``) and the limits on that, which `bounds` names.
"""

import math
import os
import re
import shutil
import time
import timeit
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from connlab import schema
from connlab.drive import (
    cores,
    counting,
    idle_memory,
    machine,
    procfs,
    profiling,
    programs,
    servers,
    store,
)
from connlab.drive.capacity import RING_BYTES, free_bytes, lockable_bytes
from connlab.drive.floor import core_to_core_s, neighbour

#: descriptors that a server needs beside those of its connections
_OWN_DESCRIPTORS = 16
FD_SETSIZE = 1024
#: two mappings per thread (stack, guard), and what the program itself has
_MAPS_PER_THREAD = 2
#: from both of these on a guard is a mark in the page table (MADV_GUARD_INSTALL), so
#: that the stacks of all threads share one mapping
_GUARDS_ARE_MARKS = {"libc": (2, 42), "kernel": (6, 13)}
_OWN_MAPS = 100
#: what one connection costs at least in memory, in bytes: both sockets in the kernel,
#: and for a thread or process its kernel stack, its task and its touched stack pages
_MEMORY = {"descriptors": 5_000, "threads": 45_000, "processes": 250_000}
#: threads and processes of other programs, of all users
_OTHER_TASKS = 300
_ENOUGH = 20_000
#: connections from one address: PER_SOURCE of ``src_c/client/client_plan.c``
_PER_SOURCE = 10_000
#: rings of servers that study 01 has beside each other, and as much for the client
_RINGS = 38
_BUSY = 0.05
_LATE_US = 200
_BACKLOG = 4096
#: a connection takes one of these, however many threads or processes serve it
_BOTH_ENDS = "fs.file-max (both ends)"
_OF_DESCRIPTORS = ("descriptors per process", "fs.nr_open", _BOTH_ENDS)
#: what raises a bound on tasks that is no sysctl
_RAISING = {
    "processes per user": "raise nproc in /etc/security/limits.conf",
    "cgroup pids": "raise pids.max of the cgroup (docker --pids-limit)",
    "memory": "use a machine with more memory",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    `grade` is ``ok``, ``limit`` (it bounds what can be measured), ``noise`` (it spoils
    what is measured) or ``missing``. `change` says what would help.
    """

    name: str
    value: str
    grade: str = "ok"
    means: str = ""
    change: str = ""


@dataclass(frozen=True)
class Capacity:
    """How many connections a model can hold here at once, and what stops it there."""

    model: str
    connections: int | None
    limited_by: str
    note: str = ""


@dataclass(frozen=True)
class Checkup:
    """What `doctor` found, and how many connections each model can hold."""

    findings: tuple[Finding, ...]
    capacities: tuple[Capacity, ...]

    def __str__(self) -> str:
        marks = {"ok": " ", "limit": "!", "noise": "!", "missing": "-"}
        width = max(len(finding.name) for finding in self.findings)
        lines = []
        for finding in self.findings:
            text = f"{marks[finding.grade]} {finding.name:{width}}  {finding.value}"
            lines.append(text + (f": {finding.means}" if finding.means else ""))
            if finding.change and finding.grade != "ok":
                lines.append(f"  {'':{width}}  → {finding.change}")
        if self.capacities:
            lines += ["", "connections that each model can hold here:"]
            width = max(len(row.model) for row in self.capacities)
            lines += [_capacity_line(row, width) for row in self.capacities]
        if any(finding.grade != "ok" for finding in self.findings):
            lines += ["", "! bounds or spoils what is measured, - is missing"]
        bad = [f.name for f in self.findings if f.grade in ("noise", "missing")]
        summary = f"to look at: {', '.join(bad)}" if bad else "nothing is in the way"
        return "\n".join([*lines, "", summary])

    __repr__ = __str__


def doctor(
    recorded: Path | None = None,
    *,
    descriptors: int | None = None,
    parts: bool = True,
) -> Checkup:
    """Return what this machine can measure, and what limits it.

    Takes about a second, in which it also measures the load of other programs. With
    `recorded`, the folder of a run, it describes the machine of that run, and
    `descriptors` is what `machine.lower_descriptors` had left of the limit. Without
    `parts` it does not try what perf may count, or whether a lab can be made.
    """
    if recorded:
        return _as_recorded(recorded, descriptors)
    registry, facts = None, gather()
    facts["lacks"] = _lacks() if parts else {}
    try:
        registry = programs.registry()
    except (FileNotFoundError, RuntimeError) as error:
        facts["server"] = str(error)
    return judge(facts, registry)


def gather() -> dict[str, Any]:
    """Return the facts that `judge` needs, read from this machine."""
    manifest, available = machine.manifest(), cores.available()
    tools = ("cc", "gcc", "clang", "redis-server", "quarto")
    return {
        "machine": manifest["machine"],
        "cores": list(available),
        "physical": [list(threads) for threads in cores.physical(available)],
        "compiler": manifest["compiler"],
        "user_tasks": user_tasks(),
        "memory_available_bytes": free_bytes(),
        "lockable_bytes": lockable_bytes(),
        "busy": _busy(0.5),
        "neighbour": neighbour(),
        "timer_late_us": _timer_late_us(),
        "core_to_core_s": core_to_core_s(cores.one_each(available)),
        "memory_monitor": procfs.share_since_boot("kdamond"),
        "tools": {name: shutil.which(name) is not None for name in tools},
        "servers": {name: e.available for name, e in servers.entries().items()},
    }


def _lacks() -> dict[str, str | None]:
    """Return why a study lacks what takes more than sockets here; None: it does not."""
    from connlab.hosts import lab  # which only `doctor` asks from here

    return {
        "call counts": counting.missing(),
        "profiles": profiling.missing(),
        "kernel memory": idle_memory.missing(),
        "lab of hosts": lab.missing(),
    }


def judge(facts: Mapping[str, Any], registry: schema.Registry | None) -> Checkup:
    """Judge a machine's facts; see `doctor`."""
    findings = [_system(facts), _cores(facts), *_shares(facts), *_noise(facts)]
    findings += [*_limits(facts), *_missing(facts, registry), *_parts(facts)]
    return _checkup(findings, registry, facts)


def _as_recorded(run: Path, descriptors: int | None) -> Checkup:
    manifest = store.recorded_manifest(run)
    recorded = manifest["machine"]
    if descriptors:
        limits = recorded["limits"] | {"descriptors": {"hard": descriptors}}
        recorded = recorded | {"limits": limits}
    facts = {"machine": recorded, "memory_available_bytes": recorded["memory_bytes"]}
    findings = [
        _system(facts),
        Finding("looked at", manifest["made_at"], means="nothing was looked at now"),
        *(_bound_finding(facts, resource) for resource in ("threads", "processes")),
    ]
    return _checkup(findings, programs.registry(run), facts)


def _checkup(
    findings: list[Finding], registry: schema.Registry | None, facts: Mapping[str, Any]
) -> Checkup:
    models = [row for row in registry.models if row.available] if registry else []
    return Checkup(tuple(findings), tuple(capacity(model, facts) for model in models))


def bounds(facts: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return every bound on connections, by what a connection costs, then by name.

    A model that holds as many as it has workers is not bounded: the others wait.
    """
    limits, sysctls = facts["machine"]["limits"], facts["machine"]["sysctls"]
    cgroup = facts["machine"].get("cgroup") or {}
    files = {
        "descriptors per process": limits["descriptors"]["hard"],
        "fs.nr_open": _number(sysctls.get("fs.nr_open")),
    }
    files = _less(files, _OWN_DESCRIPTORS)
    both_ends = _number(sysctls.get("fs.file-max"))
    if both_ends is not None:
        files[_BOTH_ENDS] = both_ends // 2
    tasks = {
        "kernel.threads-max": _number(sysctls.get("kernel.threads-max")),
        "kernel.pid_max": _number(sysctls.get("kernel.pid_max")),
        "cgroup pids": _number(cgroup.get("pids")),
    }
    tasks = _less(tasks, _OTHER_TASKS)
    if (of_user := facts.get("user_tasks", _OTHER_TASKS)) is not None:
        tasks |= _less({"processes per user": limits["processes"]["hard"]}, of_user)
    threads = files | tasks
    maps = _number(sysctls.get("vm.max_map_count"))
    if maps and not _guards_are_marks(facts["machine"]):
        threads["vm.max_map_count"] = (maps - _OWN_MAPS) // _MAPS_PER_THREAD
    memory = {
        resource: {"memory": int(facts["memory_available_bytes"] * 0.9 / each)}
        for resource, each in _MEMORY.items()
    }
    return {
        "descriptors": files | memory["descriptors"],
        "fd_setsize": files | {"FD_SETSIZE": FD_SETSIZE - _OWN_DESCRIPTORS},
        "threads": threads | memory["threads"],
        "processes": tasks | memory["processes"],
    }


def capacity(model: schema.Model, facts: Mapping[str, Any]) -> Capacity:
    """Return how many connections one process of a model can hold here."""
    if model.holds == "one":
        return Capacity(model.name, 1, "one at a time", "the others wait")
    if model.holds == "workers":
        note = "as many as workers; others wait"
        return Capacity(model.name, None, "--workers", note)
    limits = bounds(facts).get(model.holds or "")
    if not limits:
        return Capacity(model.name, None, "unknown")
    for name in limits.keys() - set(_OF_DESCRIPTORS):
        limits[name] //= max(1, model.workers_each)
    name = min(limits, key=limits.get)
    of_each = model.holds in ("descriptors", "fd_setsize")
    more = of_each and name not in ("memory", _BOTH_ENDS)
    note = "× N with --processes N" if more else ""
    return Capacity(model.name, max(0, limits[name]), name, note)


def _capacity_line(capacity: Capacity, width: int) -> str:
    count = "–"
    if capacity.connections is not None:
        count = f"{capacity.connections:,}".replace(",", " ")
    note = f" ({capacity.note})" if capacity.note else ""
    return f"  {capacity.model:{width}}{count:>10}  {capacity.limited_by}{note}"


def _system(facts: Mapping) -> Finding:
    kernel = "Linux {kernel} {architecture}, {cpu}".format_map(facts["machine"])
    return Finding("system", kernel)


def _cores(facts: Mapping) -> Finding:
    count = len(facts["cores"])
    groups = facts.get("physical") or ()
    first_thread = {core: threads[0] for threads in groups for core in threads}
    sets = cores.split(facts["cores"], place=lambda core: first_thread.get(core, core))
    if sets.shared:
        means = "server and client share it, so each slows the other"
        change = "use a machine with two cores or more"
        return Finding("cores", str(count), "noise", means, change)
    means = f"server on {list(sets.server)}, client on {list(sets.client)}"
    if sets.siblings:
        value = f"{count} threads of one physical core"
        means += ": each slows the other"
        change = "use a machine with two physical cores or more"
        return Finding("cores", value, "noise", means, change)
    return Finding("cores", str(count), means=means)


def _shares(facts: Mapping) -> Iterator[Finding]:
    """Give what a quota of CPU time and a busy core cost, where they are known."""
    if (quota := facts["machine"].get("cpu_quota")) is not None:
        value = f"{quota:g} cores' time"
        means = "whenever it is used up, server and client are stopped together"
        change = "give whole cores (docker --cpuset-cpus) in place of a share (--cpus)"
        yield Finding("CPU quota", value, "noise", means, change)
    if (slowdown := facts.get("neighbour")) is not None:
        value = f"{slowdown:.2f} × the time alone"
        grade = "noise" if slowdown > schema.CORES_APART else "ok"
        means = "a computation on the server's core while the client's works"
        change = "the host lends two threads of one core: ask it for whole ones"
        yield Finding("busy neighbour", value, grade, means, change)
    if (seconds := facts.get("core_to_core_s")) is not None:
        means = "a cache line to the client's core and back; a host may move cores"
        yield Finding("core to core", f"{seconds * 1e9:.0f} ns", means=means)


def _noise(facts: Mapping) -> Iterator[Finding]:
    """Give what spoils measurements: other load, a coarse timer, a moving clock."""
    busy, late = facts["busy"], facts["timer_late_us"]
    grade = "noise" if busy > _BUSY else "ok"
    means = "trials will not pass the gate `quiet`" if busy > _BUSY else ""
    load = f"{busy:.0%} of the cores"
    yield Finding("other load", load, grade, means, "end other programs")
    grade = "noise" if late > _LATE_US else "ok"
    means = "the median of short sleeps"
    change = "open-loop arrivals are less exact; a real machine is better"
    yield Finding("timer", f"{late:.0f} µs late", grade, means, change)
    if (share := facts.get("memory_monitor")) is not None:
        # at 1000 connections to each of many servers, among them a thousand processes,
        # it took 5 % of a core, and `epoll` rested in a fifth of its turns
        value = f"DAMON, {100 * share:.2g} % of a core since boot"
        means = "the kernel looks at all memory again and again, while servers run"
        change = "echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/*/state"
        yield Finding("memory monitor", value, "noise", means, change)
    yield _mitigations(facts["machine"]["mitigations"])
    governor = facts["machine"].get("governor")
    if governor and governor != "performance":
        change = "cpupower frequency-set -g performance"
        means = "the clock rate follows the load"
        yield Finding("governor", governor, "noise", means, change)
    if facts["machine"].get("hypervisor"):
        means = "stolen time is watched in every trial"
        yield Finding("virtual machine", "yes", means=means)


def _mitigations(texts: Mapping[str, str]) -> Finding:
    """Name those in force, and what is left open: by choice, or for want of microcode.

    Without ``/sys``, as in some containers, nothing is known.
    """
    if not texts:
        return Finding("mitigations", "unknown", means="the kernel shows none here")
    active = [name for name, text in texts.items() if text.startswith("Mitigation")]
    left = [name for name, text in texts.items() if text.startswith("Vulnerable")]
    parts = [", ".join(active)] if active else []
    parts += [f"not mitigated: {', '.join(left)}"] if left else []
    means = "; ".join(parts) or "none needed"
    return Finding("mitigations", f"{len(active)} active", means=means)


def _limits(facts: Mapping) -> Iterator[Finding]:
    """Give what bounds connections: descriptors, tasks, ports, the backlog, memory."""
    sysctls = facts["machine"]["sysctls"]
    hard = facts["machine"]["limits"]["descriptors"]["hard"]
    grade = "limit" if hard is not None and hard < _ENOUGH else "ok"
    means = "with --processes N, N times that"
    change = "raise nofile in /etc/security/limits.conf, or use --processes"
    value = f"{hard or 'unlimited'} per process"
    yield Finding("descriptors", value, grade, means, change)
    yield _bound_finding(facts, "threads")
    yield _bound_finding(facts, "processes")
    ports = port_count(sysctls.get("net.ipv4.ip_local_port_range"))
    grade, means = "ok", "more connections take sources across 127/8 (done by itself)"
    if ports < _PER_SOURCE:
        grade, means = "limit", "more connections to a server fail"
    change = "sysctl -w net.ipv4.ip_local_port_range='32768 60999'"
    value = f"{ports} per source address and server port"
    yield Finding("ports", value, grade, means, change)
    backlog = _number(sysctls.get("net.core.somaxconn")) or 0
    grade, means = "ok", ""
    if backlog < _BACKLOG:
        grade, means = "limit", "bursts of connects beyond it are dropped"
    change = "sysctl -w net.core.somaxconn=65535"
    yield Finding("backlog", f"somaxconn {backlog}", grade, means, change)
    memory = f"{facts['memory_available_bytes'] / 2**30:.1f} GiB available"
    yield Finding("memory", memory)
    if (lockable := facts["lockable_bytes"]) != math.inf:
        rings = int(lockable // RING_BYTES)
        grade = "limit" if rings < _RINGS else "ok"
        value = f"{lockable / 2**20:g} MiB for all processes of a user"
        means = f"enough for {rings} io_urings of servers, where the kernel counts them"
        change = "raise memlock in /etc/security/limits.conf"
        yield Finding("locked memory", value, grade, means, change)


def _bound_finding(facts: Mapping, resource: str) -> Finding:
    limits = bounds(facts)[resource]
    name = min((k for k in limits if k not in _OF_DESCRIPTORS), key=limits.get)
    grade = "limit" if limits[name] < _ENOUGH else "ok"
    change = _RAISING.get(name, f"as root: sysctl -w {name}=N")
    return Finding(resource, str(limits[name]), grade, f"bounded by {name}", change)


def _missing(facts: Mapping, registry: schema.Registry | None) -> Iterator[Finding]:
    tools = facts["tools"]
    if not any(tools.get(name) for name in ("cc", "gcc", "clang")):
        means = "nothing can be compiled"
        yield Finding("compiler", "none", "missing", means, "install gcc")
    if registry is None:
        means = facts.get("server", "the server is not built")
        yield Finding("programs", "none", "missing", means, "make build")
    else:
        for row in (*registry.models, *registry.workloads):
            if not row.available:
                yield Finding(row.name, "not available", "missing", row.reason or "")
        yield _io_uring(facts, registry)
    if not tools.get("redis-server"):
        means = "the guestbook of workload http cannot be measured"
        yield Finding("redis", "none", "missing", means, "apt-get install redis-server")
    if not tools.get("quarto"):
        means = "RENDERER=quarto cannot be asked for; nothing else needs it"
        yield Finding("quarto", "none", "ok", means)


#: the study that has it, and what gives it to a user who lacks it
_PARTS = {
    "call counts": (12, "run as root, with perf installed"),
    "profiles": (12, "run as root, or sysctl -w kernel.perf_event_paranoid=1"),
    "kernel memory": (6, "run as root"),
    "lab of hosts": (14, "run as root, or name hosts (docs/hosts.md)"),
}


def _parts(facts: Mapping) -> Iterator[Finding]:
    """Give which parts of studies cannot be measured, and the servers of others."""
    for name, lack in facts["lacks"].items():
        number, change = _PARTS[name]
        if lack:
            means = f"study {number} goes without; {lack}"
            yield Finding(name, "none", "missing", means, change)
        else:
            yield Finding(name, "available", means=f"study {number}")
    known = facts["servers"]
    able = sum(known.values())
    means = "" if able == len(known) else "`make runtimes` says what the others need"
    yield Finding("other servers", f"{able} of {len(known)}", means=means)


def _io_uring(facts: Mapping, registry: schema.Registry) -> Finding:
    rows = [row for row in registry.models if row.family == "completion"]
    if any(row.available for row in rows):
        return Finding("io_uring", "available")
    disabled = facts["machine"]["sysctls"].get("kernel.io_uring_disabled")
    if disabled in ("1", "2"):
        means = "completion models cannot run"
        change = "sysctl -w kernel.io_uring_disabled=0"
        return Finding("io_uring", "disabled", "missing", means, change)
    compiler = facts["compiler"] or {}
    if compiler.get("uring") is False:
        means = "built without it; completion models are left out"
        change = "install liburing-dev (2.3 or later), then make build"
        return Finding("io_uring", "not built", "missing", means, change)
    if reasons := [row.reason for row in rows]:  # a seccomp filter, an old kernel
        return Finding("io_uring", "not available", "missing", reasons[0] or "")
    return Finding("io_uring", "available")


def port_count(text: str | None) -> int:
    """Return how many local ports a range such as ``32768 60999`` holds."""
    low, high = (int(part) for part in (text or "32768 60999").split())
    return high - low + 1


def _less(limits: Mapping[str, int | None], reserve: int) -> dict[str, int]:
    """Return the limits that there are, each without what others need of it."""
    known = {name: most for name, most in limits.items() if most is not None}
    return {name: max(0, most - reserve) for name, most in known.items()}


def _guards_are_marks(facts: Mapping[str, Any]) -> bool:
    return all(
        (found := re.search(r"(\d+)\.(\d+)", facts.get(name) or ""))
        and (int(found[1]), int(found[2])) >= since
        for name, since in _GUARDS_ARE_MARKS.items()
    )


def user_tasks() -> int | None:
    """Return how many tasks this user has; None for root, who may have any number.

    Root of a container with users of its own is bound as anybody is.
    """
    uid, ids = os.getuid(), procfs.read_text("/proc/self/uid_map").split()
    exempt = uid == 0 and ids[:2] == ["0", "0"]
    return None if exempt else procfs.tasks(procfs.owned(uid))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _busy(seconds: float) -> float:
    """Return the share of the available cores that other programs use meanwhile."""
    available, start = cores.available(), time.monotonic()
    before, own_start = procfs.machine(available), time.process_time()
    time.sleep(seconds)
    after = procfs.machine(available)
    core_seconds = (time.monotonic() - start) * len(available)
    used = after.busy_s - before.busy_s + after.steal_s - before.steal_s
    return max(0.0, used - (time.process_time() - own_start)) / core_seconds


def _timer_late_us() -> float:
    """Return by how much a sleep of 100 µs is late, in the median."""
    slept_s = timeit.repeat(lambda: time.sleep(1e-4), number=1, repeat=51)
    return (median(slept_s) - 1e-4) * 1e6
