"""From looks at a running server to the samples of a trial.

CPU time is cut to the measurement window by straight lines between the readings around
its two edges, each counter by the times at which it was read itself: where thousands of
threads want the cores, the driver waits up to a second between two files. The client
does not share a clock with the driver, but it says how long it dialled and warmed up
after it was started, and when it was started is known here (``window_from`` is then
``start``; a process needs about 2 ms to begin). A client that does not say is taken to
have reported when its window ended (``end``). Of its CPU time two points are known
without a look: none when it started, and all of it in its report, after which it is
soon gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from connlab import schema
from connlab.drive.host import Reading

#: who works on the driver's machine, or the client's
_BESIDE = ("driver_cpu_s", "companion_cpu_s", "client_cpu_s")

Point = tuple[float, float]
"""A time on the driver's monotonic clock and what a counter was then; seconds."""


@dataclass(frozen=True)
class Look:
    """One look at both programs and, at `time_s`, at driver and companions."""

    server: Reading
    client: Reading | None
    time_s: float
    driver_cpu_s: float
    companion_cpu_s: float = 0.0


@dataclass(frozen=True)
class Report:
    """What the client told, None if it did not, and when it started and told it."""

    told: dict | None
    started_at_s: float
    reported_at_s: float


@dataclass(frozen=True)
class Window:
    """The measurement window on the driver's monotonic clock, in seconds."""

    start_s: float
    end_s: float
    told_by: str


def window(report: Report) -> Window | None:
    """Return where the client's window lies, None when it has no figures."""
    told = report.told or {}
    width = schema.pick(told, "window.seconds")
    if not isinstance(width, int | float) or width <= 0:
        return None
    dialing = schema.pick(told, "self.dialing_s")
    warmup = schema.pick(told, "window.warmup_s")
    if dialing is None or warmup is None:
        return Window(report.reported_at_s - width, report.reported_at_s, "end")
    start_s = report.started_at_s + dialing + warmup
    return Window(start_s, start_s + width, "start")


def summarise(
    looks: Sequence[Look],
    report: Report,
    *,
    stats: dict | None,
    same_host: bool = True,
) -> schema.Samples:
    """Condense the looks of one trial.

    Parameters
    ----------
    looks : sequence of Look
        In order of time; the first one at the idle server, with memory.
    report : Report
        Without figures in it there are no CPU figures.
    stats : dict or None
        The server's last line; its context switches cover its whole life.
    same_host : bool
        Whether client, driver and companions burnt theirs on the server's machine.
    """
    readings = [look.server for look in looks]
    alive = [r.processes for r in readings if r.processes]
    machine = [r.machine for r in readings if r.machine]
    pss = [r.pss_bytes for r in readings if r.pss_bytes is not None]
    switches = _context_switches(readings, stats)
    facts = {
        "samples": len(readings),
        "memory_samples": len(pss),
        "pss_bytes": max(pss, default=None),
        "pss_baseline_bytes": readings[0].pss_bytes if readings else None,
        "threads_max": max((p.threads for p in alive), default=None),
        "processes_max": max((p.processes for p in alive), default=None),
        "context_switches_voluntary": switches[0],
        "context_switches_involuntary": switches[1],
    }
    if machine:
        facts |= _kernel(machine)
    if cut := window(report):
        facts |= {"window_from": cut.told_by} | _cpu(looks, report, cut, same_host)
    return schema.Samples(**facts)


def _kernel(machine: Sequence) -> dict:
    first, last = machine[0], machine[-1]
    return {
        "socket_memory_bytes": max(m.socket_memory_bytes for m in machine),
        "socket_memory_baseline_bytes": first.socket_memory_bytes,
        "sockets_max": max(m.sockets for m in machine),
        "time_wait_start": first.time_wait,
        "listen_overflows": last.listen_overflows - first.listen_overflows,
        "listen_drops": last.listen_drops - first.listen_drops,
    }


def _cpu(
    looks: Sequence[Look], report: Report, cut: Window, same_host: bool
) -> dict[str, float | None]:
    """Return the CPU time in the window: the server's, the client's, and others'."""
    server = _spent(_of_server(looks, "cpu_s"), cut)
    if server is None:
        return {}
    used, width = server
    user, system = (
        _grown(_of_server(looks, name), cut) or 0.0 for name in ("user_s", "system_s")
    )
    share = user / (user + system) if user + system else 0.0
    own = {
        "driver_cpu_s": [(look.time_s, look.driver_cpu_s) for look in looks],
        "companion_cpu_s": [(look.time_s, look.companion_cpu_s) for look in looks],
        "client_cpu_s": _of_client(looks, report),
        "softirq_cpu_s": _of_machine(looks, "softirq_s"),
    }
    spent = {name: _grown(points, cut) for name, points in own.items()}
    found = spent | {
        "window_s": width,
        "cpu_user_s": used * share,
        "cpu_system_s": used * (1 - share),
        "steal_s": _grown(_of_machine(looks, "steal_s"), cut),
    }
    busy = _grown(_of_machine(looks, "busy_s"), cut)
    if busy is not None:
        there = [name for name in spent if same_host or name not in _BESIDE]
        ours = used + sum(spent[name] or 0.0 for name in there)
        found["other_cpu_s"] = max(0.0, busy - ours)
    return found


# ---- counters over time ----------------------------------------------------------


def _of_server(looks: Sequence[Look], name: str) -> list[Point]:
    seen = [look.server.processes for look in looks if look.server.processes]
    return [(processes.time_s, getattr(processes, name)) for processes in seen]


def _of_machine(looks: Sequence[Look], name: str) -> list[Point]:
    seen = [look.server.machine for look in looks if look.server.machine]
    return [(machine.time_s, getattr(machine, name)) for machine in seen]


def _of_client(looks: Sequence[Look], report: Report) -> list[Point]:
    """Return the client's CPU time from its start to its report, if it says it."""
    readings = [look.client.processes for look in looks if look.client]
    seen = [(one.time_s, one.cpu_s) for one in readings if one]
    told = schema.client_cpu_s({"client": report.told})
    begin = [(report.started_at_s, 0.0)]
    if told is None:
        return begin + seen
    seen = [point for point in seen if point[0] < report.reported_at_s]
    most = max([told, *(cpu_s for _time_s, cpu_s in seen)])
    return begin + seen + [(report.reported_at_s, most)]


def _grown(points: Sequence[Point], cut: Window) -> float | None:
    found = _spent(points, cut)
    return found[0] if found else None


def _spent(points: Sequence[Point], cut: Window) -> tuple[float, float] | None:
    """Return how much a counter grew in the window, and over how many seconds."""
    if len(points) < 2:
        return None
    start = max(cut.start_s, points[0][0])
    end = min(cut.end_s, points[-1][0])
    if end <= start:
        return None
    return max(0.0, _at(points, end) - _at(points, start)), end - start


def _at(points: Sequence[Point], time_s: float) -> float:
    """Return a counter's value at a time, on the line between two readings."""
    before = points[0]
    for point in points:
        if point[0] >= time_s:
            span = point[0] - before[0]
            share = (time_s - before[0]) / span if span > 0 else 1.0
            return before[1] + share * (point[1] - before[1])
        before = point
    return points[-1][1]


def _context_switches(
    readings: Sequence[Reading], stats: dict | None
) -> tuple[int | None, int | None]:
    told = stats or {}
    if told.get("context_switches_voluntary") is not None:
        return (
            told["context_switches_voluntary"],
            told.get("context_switches_involuntary"),
        )
    seen = [r.context_switches for r in readings if r.context_switches]
    return seen[-1] if seen else (None, None)
