"""What this machine can measure, what limits it, what is missing, what to change.

`doctor` gathers facts and judges them; the judging is a function of facts alone, so
that it can be tested with machines that nobody has.

How many connections a model can hold follows from what a connection costs it (``holds``
in ``server --list``) and the limits on that:

    descriptors   one per connection and process: the hard limit of a process, and
                  fs.file-max for both ends together
    threads       one per connection: threads-max, pid_max, RLIMIT_NPROC, the cgroup,
                  and max_map_count, as a stack and its guard page are two mappings
    processes     one per connection: the same without max_map_count
    fd_setsize    descriptors below 1024 in each process
    workers, one  as many as there are workers: the others wait
"""

from __future__ import annotations

import html
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from connlab import schema
from connlab.drive import cores, evaluation, machine, procfs, programs
from connlab.drive.floor import neighbour

#: descriptors that a server needs beside those of its connections
_OWN_DESCRIPTORS = 16
FD_SETSIZE = 1024
#: two mappings per thread (stack, guard), and what the program itself has
_MAPS_PER_THREAD = 2
_OWN_MAPS = 100
#: what one connection costs at least in memory, in bytes: both sockets in the kernel,
#: and for a thread or process its kernel stack, its task and its touched stack pages
_MEMORY = {"descriptors": 5_000, "threads": 45_000, "processes": 250_000}
_ENOUGH = 20_000
_BUSY = 0.05
_LATE_US = 200


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
    """All of `doctor`: what was found, and what each model can hold."""

    findings: tuple[Finding, ...]
    capacities: tuple[Capacity, ...]
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def doctor(*, descriptors: int | None = None) -> Checkup:
    """Look at this machine and say what it can measure.

    Takes about a second, in which it also looks whether anything else is running.
    While a run is evaluated again, it says what limited that run's machine.

    Parameters
    ----------
    descriptors : int, optional
        What `machine.lower_descriptors` left of the limit, where it was lowered.

    Returns
    -------
    Checkup
        Prints as a text; `findings` and `capacities` are the same as values.
    """
    if evaluation.folder():
        return _as_recorded(evaluation.manifest(), programs.registry(), descriptors)
    try:
        registry = programs.registry()
    except (FileNotFoundError, RuntimeError) as error:
        return judge(gather() | {"server": str(error)}, None)
    return judge(gather(), registry)


def gather() -> dict[str, Any]:
    """Return the facts that `judge` needs, read from this machine."""
    found = machine.manifest()
    known = found["machine"]
    return {
        "machine": known,
        "cores": list(cores.available()),
        "physical": [list(threads) for threads in cores.physical(cores.available())],
        "compiler": found["compiler"],
        "programs": found["programs"],
        "memory_available_bytes": _memory_available(),
        "busy": _busy(0.5),
        "neighbour": neighbour(),
        "timer_late_us": _timer_late_us(),
        "tools": {
            name: shutil.which(name) is not None
            for name in ("cc", "gcc", "clang", "make", "redis-server", "quarto", "git")
        },
        "time_wait": procfs.machine().time_wait,
    }


def judge(facts: Mapping[str, Any], registry: schema.Registry | None) -> Checkup:
    """Judge a machine's facts; see `doctor`."""
    findings = [
        _system(facts),
        _cores(facts),
        *_quota(facts),
        *_neighbour(facts),
        *_noise(facts),
        *_limits(facts),
        *_missing(facts, registry),
    ]
    return Checkup(tuple(findings), _capacities(registry, facts), dict(facts))


def _as_recorded(
    manifest: Mapping[str, Any], registry: schema.Registry, descriptors: int | None
) -> Checkup:
    """Return what can be known of a machine from a run's manifest."""
    known = manifest["machine"]
    if descriptors:
        limits = known["limits"] | {"descriptors": {"hard": descriptors}}
        known = known | {"limits": limits}
    facts = {"machine": known, "memory_available_bytes": known["memory_bytes"]}
    findings = (
        _system(facts),
        Finding("looked at", manifest["made_at"], means="nothing was looked at now"),
        *(_bound_finding(facts, what) for what in ("threads", "processes")),
    )
    return Checkup(findings, _capacities(registry, facts), facts)


def _capacities(
    registry: schema.Registry | None, facts: Mapping[str, Any]
) -> tuple[Capacity, ...]:
    models = registry.models if registry else ()
    return tuple(capacity(model, facts) for model in models if model.available)


def bounds(facts: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return every bound on connections, by what a connection costs, then by name."""
    known = facts["machine"]
    limits, sysctls = known["limits"], known["sysctls"]
    files = _least(
        {
            "descriptors per process": limits["descriptors"]["hard"],
            "fs.nr_open": _number(sysctls.get("fs.nr_open")),
        },
        less=_OWN_DESCRIPTORS,
    )
    both_ends = _number(sysctls.get("fs.file-max"))
    if both_ends is not None:
        files["fs.file-max (both ends)"] = both_ends // 2
    tasks = _least(
        {
            "kernel.threads-max": _number(sysctls.get("kernel.threads-max")),
            "kernel.pid_max": _number(sysctls.get("kernel.pid_max")),
            "processes per user": limits["processes"]["hard"],
            "cgroup pids": _number((known.get("cgroup") or {}).get("pids")),
        },
        less=300,
    )
    maps = _number(sysctls.get("vm.max_map_count"))
    stacks = (
        {"vm.max_map_count": (maps - _OWN_MAPS) // _MAPS_PER_THREAD} if maps else {}
    )
    return {
        "descriptors": files | _memory(facts, "descriptors"),
        "fd_setsize": files | {"FD_SETSIZE": FD_SETSIZE - _OWN_DESCRIPTORS},
        "threads": files | tasks | stacks | _memory(facts, "threads"),
        "processes": tasks | _memory(facts, "processes"),
    }


def capacity(model: schema.Model, facts: Mapping[str, Any]) -> Capacity:
    """Return how many connections one process of a model can hold here."""
    if model.holds == "one":
        return Capacity(model.name, 1, "one at a time", "the others wait")
    if model.holds == "workers":
        return Capacity(
            model.name, None, "--workers", "as many as workers; others wait"
        )
    found = bounds(facts).get(model.holds or "")
    if not found:
        return Capacity(model.name, None, "unknown")
    found = {name: most // _each(model, name) for name, most in found.items()}
    name = min(found, key=found.get)
    note = ""
    if model.holds in ("descriptors", "fd_setsize") and "memory" not in name:
        note = "per process; --processes N holds N times that"
    return Capacity(model.name, max(0, found[name]), name, note)


def _each(model: schema.Model, bound: str) -> int:
    """Return how much of a bound a connection takes: one, or one for each worker."""
    of_workers = "descriptor" not in bound and "file" not in bound
    return max(1, model.workers_each) if of_workers else 1


def _lines(checkup: Checkup) -> list[str]:
    marks = {"ok": " ", "limit": "!", "noise": "!", "missing": "-"}
    wide = max(len(finding.name) for finding in checkup.findings)
    lines = []
    for finding in checkup.findings:
        text = f"{marks[finding.grade]} {finding.name:{wide}}  {finding.value}"
        lines.append(text + (f": {finding.means}" if finding.means else ""))
        if finding.change and finding.grade != "ok":
            lines.append(f"  {'':{wide}}  → {finding.change}")
    if checkup.capacities:
        lines += ["", "connections that each model can hold here:"]
        lines += [_capacity_line(found) for found in checkup.capacities]
    bad = [f.name for f in checkup.findings if f.grade in ("noise", "missing")]
    lines += ["", f"to look at: {', '.join(bad)}" if bad else "nothing is in the way"]
    return lines


def _capacity_line(found: Capacity) -> str:
    count = "–" if found.connections is None else f"{found.connections:,}"
    count = count.replace(",", " ")
    note = f" ({found.note})" if found.note else ""
    return f"  {found.model:16}{count:>9}  {found.limited_by}{note}"


def _system(facts: Mapping) -> Finding:
    known = facts["machine"]
    kernel = f"Linux {known['kernel']} {known['architecture']}"
    return Finding("system", f"{kernel}, {known['cpu']}")


def _cores(facts: Mapping) -> Finding:
    count = len(facts["cores"])
    place = _places(facts)
    sets = cores.split(facts["cores"], place=lambda core: place.get(core, core))
    if sets.shared:
        return Finding(
            "cores",
            str(count),
            "noise",
            "server and client share it, so each slows the other",
            "use a machine with two cores or more",
        )
    apart = f"server on {list(sets.server)}, client on {list(sets.client)}"
    if sets.siblings:
        return Finding(
            "cores",
            f"{count} threads of one physical core",
            "noise",
            f"{apart}: each slows the other",
            "use a machine with two physical cores or more",
        )
    return Finding("cores", str(count), means=apart)


def _places(facts: Mapping) -> dict[int, int]:
    """Return the first thread of the physical core that each core belongs to."""
    groups = facts.get("physical") or ()
    return {core: threads[0] for threads in groups for core in threads}


def _quota(facts: Mapping) -> list[Finding]:
    """Return what a container's quota of CPU time means, where there is one."""
    quota = facts["machine"].get("cpu_quota")
    if quota is None:
        return []
    return [
        Finding(
            "CPU quota",
            f"{quota:g} cores' time",
            "noise",
            "whenever it is used up, server and client are stopped together",
            "give whole cores (docker --cpuset-cpus) in place of a share (--cpus)",
        )
    ]


def _neighbour(facts: Mapping) -> list[Finding]:
    """Return what a busy core costs another, where it was measured."""
    slower = facts.get("neighbour")
    if slower is None:
        return []
    shared = slower > schema.CORES_APART
    return [
        Finding(
            "busy neighbour",
            f"{slower:.2f} × the time alone",
            "noise" if shared else "ok",
            "a computation on the server's core while the client's works",
            "the host lends two threads of one core: ask it for whole ones",
        )
    ]


def _noise(facts: Mapping) -> list[Finding]:
    """Return what spoils measurements: other load, a coarse timer, a moving clock."""
    busy, late = facts["busy"], facts["timer_late_us"]
    governor = facts["machine"].get("governor")
    mitigated = [
        name
        for name, text in facts["machine"]["mitigations"].items()
        if text.startswith("Mitigation")
    ]
    weak = ", ".join(mitigated) or "none needed"
    found = [
        Finding(
            "other load",
            f"{busy:.0%} of the cores",
            "noise" if busy > _BUSY else "ok",
            "trials will not pass the gate `quiet`" if busy > _BUSY else "",
            "end other programs",
        ),
        Finding(
            "timer",
            f"{late:.0f} µs late",
            "noise" if late > _LATE_US else "ok",
            "the median of short sleeps",
            "open-loop arrivals are less exact; a real machine is better",
        ),
        Finding("mitigations", f"{len(mitigated)} active", means=weak),
    ]
    if governor and governor != "performance":
        change = "cpupower frequency-set -g performance"
        means = "the clock rate follows the load"
        found.append(Finding("governor", governor, "noise", means, change))
    if facts["machine"].get("hypervisor"):
        means = "stolen time is watched in every trial"
        found.append(Finding("virtual machine", "yes", means=means))
    return found


def _limits(facts: Mapping) -> list[Finding]:
    known = facts["machine"]
    sysctls, limits = known["sysctls"], known["limits"]
    hard = limits["descriptors"]["hard"]
    few = hard is not None and hard < _ENOUGH
    backlog = _number(sysctls.get("net.core.somaxconn")) or 0
    ports = port_count(sysctls.get("net.ipv4.ip_local_port_range"))
    return [
        Finding(
            "descriptors",
            f"{hard or 'unlimited'} per process",
            "limit" if few else "ok",
            "with --processes N, N times that",
            "raise nofile in /etc/security/limits.conf, or use --processes",
        ),
        _bound_finding(facts, "threads"),
        _bound_finding(facts, "processes"),
        Finding(
            "ports",
            f"{ports} per source address and server port",
            means="more connections take sources across 127/8 (done by itself)",
        ),
        Finding(
            "backlog",
            f"somaxconn {backlog}",
            "limit" if backlog < 4096 else "ok",
            "bursts of connects beyond it are dropped" if backlog < 4096 else "",
            "sysctl -w net.core.somaxconn=65535",
        ),
        Finding(
            "memory",
            f"{facts['memory_available_bytes'] / 2**30:.1f} GiB available",
        ),
        Finding(
            "TIME_WAIT",
            f"{facts['time_wait']} sockets",
            means="they block no port: each trial's server has a port of its own",
        ),
    ]


def _bound_finding(facts: Mapping, what: str) -> Finding:
    found = {k: v for k, v in bounds(facts)[what].items() if "descriptors" not in k}
    name = min(found, key=found.get)
    grade = "limit" if found[name] < _ENOUGH else "ok"
    change = f"raise {name}" if grade == "limit" else ""
    return Finding(what, str(found[name]), grade, f"bounded by {name}", change)


def _missing(facts: Mapping, registry: schema.Registry | None) -> list[Finding]:
    tools = facts["tools"]
    found = []
    if not any(tools.get(name) for name in ("cc", "gcc", "clang")):
        lacks = "nothing can be compiled"
        found.append(Finding("compiler", "none", "missing", lacks, "install gcc"))
    if registry is None:
        means = facts.get("server", "the server is not built")
        found.append(Finding("programs", "none", "missing", means, "make build"))
    else:
        found += [
            Finding(row.name, "not available", "missing", row.reason or "", "")
            for row in (*registry.models, *registry.workloads)
            if not row.available
        ]
        found += _io_uring(facts)
    if not tools.get("redis-server"):
        lacks = "the guestbook of workload http cannot be measured"
        change = "apt-get install redis-server"
        found.append(Finding("redis", "none", "missing", lacks, change))
    if not tools.get("quarto"):
        means = "RENDERER=quarto cannot be asked for; nothing else needs it"
        found.append(Finding("quarto", "none", "ok", means))
    return found


def _io_uring(facts: Mapping) -> list[Finding]:
    disabled = facts["machine"]["sysctls"].get("kernel.io_uring_disabled")
    if disabled in ("1", "2"):
        means = "completion models cannot run"
        change = "sysctl -w kernel.io_uring_disabled=0"
        return [Finding("io_uring", "disabled", "missing", means, change)]
    compiler = facts["compiler"] or {}
    if compiler.get("uring") is False:
        means = "built without it; completion models are left out"
        change = "install liburing-dev, then make build"
        return [Finding("io_uring", "not built", "missing", means, change)]
    return [Finding("io_uring", "available")]


def port_count(text: str | None) -> int:
    """Return how many local ports a range such as ``32768 60999`` holds."""
    low, high = (int(part) for part in (text or "32768 60999").split())
    return high - low + 1


def _least(found: Mapping[str, int | None], *, less: int) -> dict[str, int]:
    return {name: value - less for name, value in found.items() if value is not None}


def _memory(facts: Mapping, what: str) -> dict[str, int]:
    return {"memory": int(facts["memory_available_bytes"] * 0.9 / _MEMORY[what])}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _memory_available() -> int:
    for line in procfs.read_text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * procfs.PAGE_BYTES


def _busy(seconds: float) -> float:
    """Return which part of our cores is in use by others, watched for a while."""
    there, began = cores.available(), time.monotonic()
    before, ours = procfs.machine(there), time.process_time()
    time.sleep(seconds)
    after = procfs.machine(there)
    wall = (time.monotonic() - began) * len(there)
    used = after.busy_s - before.busy_s + after.steal_s - before.steal_s
    return max(0.0, used - (time.process_time() - ours)) / wall


def _timer_late_us() -> float:
    """Return by how much a sleep of 100 µs is late, in the median."""
    late = []
    for _ in range(51):
        began = time.perf_counter()
        time.sleep(1e-4)
        late.append(time.perf_counter() - began - 1e-4)
    return median(late) * 1e6
