"""From looks at a running server to the samples of a trial.

CPU time is cut to the measurement window by straight lines between the looks around
its two edges. The client does not share a clock with the driver, but it says how long
it dialled and warmed up after it was started, and when it was started is known here
(``window_from`` is then ``start``; a process needs about 2 ms to begin). A client that
does not say is taken to have reported when its window ended (``end``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connlab import schema
from connlab.drive.host import Reading


@dataclass(frozen=True)
class Look:
    """One look at both programs and at the CPU time of driver and companions."""

    server: Reading
    client: Reading | None
    driver_cpu_s: float
    companion_cpu_s: float = 0.0


@dataclass(frozen=True)
class Window:
    """The measurement window on the driver's monotonic clock, in seconds."""

    start_s: float
    end_s: float
    told_by: str


def window(
    client: dict | None, *, started_at_s: float, reported_at_s: float
) -> Window | None:
    """Return where the client's window lies, None when it has no figures."""
    told = client or {}
    width = schema.pick(told, "window.seconds")
    if not isinstance(width, int | float) or width <= 0:
        return None
    dialing = schema.pick(told, "self.dialing_s")
    warmup = schema.pick(told, "window.warmup_s")
    if dialing is None or warmup is None:
        return Window(reported_at_s - width, reported_at_s, "end")
    start_s = started_at_s + dialing + warmup
    return Window(start_s, start_s + width, "start")


def summarise(
    looks: Sequence[Look],
    *,
    window: Window | None,
    stats: dict | None,
    same_host: bool = True,
) -> schema.Samples:
    """Condense the looks of one trial.

    Parameters
    ----------
    looks : sequence of Look
        In order of time; the first one at the idle server, with memory.
    window : Window or None
        Without one there are no CPU figures.
    stats : dict or None
        The server's last line; its context switches cover its whole life.
    same_host : bool
        Whether the client's CPU time was burnt on the server's machine.
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
    if window:
        facts |= _cpu(looks, window, same_host=same_host)
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


def _cpu(looks: Sequence[Look], window: Window, *, same_host: bool) -> dict:
    """Return the CPU time in the window: the server's, the driver's, and others'."""
    found = {"window_from": window.told_by}
    server = _spent(looks, window, lambda k: k.server, lambda k: _cpu_s(k.server))
    if server is None:
        return found
    used, width = server
    user = _spent(looks, window, lambda k: k.server, lambda k: _part(k.server, "user"))
    system = _spent(
        looks, window, lambda k: k.server, lambda k: _part(k.server, "system")
    )
    ticks = (user[0] + system[0]) if user and system else 0
    share = user[0] / ticks if ticks else 0.0
    found |= {
        "window_s": width,
        "cpu_user_s": used * share,
        "cpu_system_s": used * (1 - share),
    }
    driver = _spent(looks, window, lambda k: k.server, lambda k: k.driver_cpu_s)
    beside = _spent(looks, window, lambda k: k.server, lambda k: k.companion_cpu_s)
    client = _spent(looks, window, lambda k: k.client, lambda k: _cpu_s(k.client))
    busy = _spent(looks, window, lambda k: k.server, lambda k: _busy(k, "busy_s"))
    steal = _spent(looks, window, lambda k: k.server, lambda k: _busy(k, "steal_s"))
    found["driver_cpu_s"] = driver[0] if driver else None
    found["companion_cpu_s"] = beside[0] if beside else None
    found["client_cpu_s"] = client[0] if client else None
    found["steal_s"] = steal[0] if steal else None
    softirq = _spent(looks, window, lambda k: k.server, lambda k: _busy(k, "softirq_s"))
    found["softirq_cpu_s"] = softirq[0] if softirq else None
    if busy and driver:
        ours = used + driver[0] + (client[0] if client and same_host else 0)
        ours += beside[0] if beside else 0
        ours += softirq[0] if softirq else 0
        found["other_cpu_s"] = max(0.0, busy[0] - ours)
    return found


def _cpu_s(reading: Reading | None) -> float | None:
    return reading.processes.cpu_s if reading and reading.processes else None


def _part(reading: Reading, which: str) -> float | None:
    found = reading.processes
    return getattr(found, f"{which}_s") if found else None


def _busy(look: Look, name: str) -> float | None:
    machine = look.server.machine
    return getattr(machine, name) if machine else None


def _spent(
    looks: Sequence[Look],
    window: Window,
    when: Callable[[Look], Reading | None],
    what: Callable[[Look], float | None],
) -> tuple[float, float] | None:
    """Return how much a counter grew in the window, and over how many seconds."""
    points = [
        (when(look).time_s, value)
        for look in looks
        if when(look) is not None and (value := what(look)) is not None
    ]
    if len(points) < 2:
        return None
    start = max(window.start_s, points[0][0])
    end = min(window.end_s, points[-1][0])
    if end <= start:
        return None
    return max(0.0, _at(points, end) - _at(points, start)), end - start


def _at(points: Sequence[tuple[float, float]], time_s: float) -> float:
    """Return a counter's value at a time, on the line between two looks."""
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
