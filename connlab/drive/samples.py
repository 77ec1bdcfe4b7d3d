"""From snapshots at a running server to the samples of a trial.

CPU time is cut to the measurement window, each counter by the times at which it was
read itself: where thousands of threads want the cores, the driver waits up to a second
between two files. Between the last reading in the window and the first after it the
clients stop to ask, so that a straight line would count the rest that follows as part
of the window: of half a second, about 1 % too little. So what was used from that last
reading on is taken at the rate between the readings in the window; it is at most what
the next reading says. The window's start is treated alike where the clients began to
ask after the reading before it. Where looks are so dear that no two span half of the
window, the rate is that since the clients began to ask, as the server had rested; where
that does not tell it either, the line is straight.

The client does not share a clock with the driver, but it reports how long it connected
and warmed up after it was started, and when it was started is known here
(``window_from`` is then ``start``; a process needs about 2 ms to begin). Without these
times its window is taken to have ended when it reported (``end``). Two points of its
CPU time are known without a look: zero when it started, and the total in its report, as
it ends soon after.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connlab import schema
from connlab.drive.host import Reading

#: CPU times that belong to the machine of driver and client
_CLIENT_SIDE = ("driver_cpu_s", "companion_cpu_s", "client_cpu_s")

#: how often the driver looks at both programs
LOOK_S = 0.1
#: which part of the window readings must span to tell the rate in it, and, where no two
#: of them do, one reading in it and the moment at which clients began to ask
_SPANNED, _SPANNED_FROM_REST = 0.5, 0.2

Point = tuple[float, float]
"""A time on the driver's monotonic clock and the value of a counter; seconds."""


@dataclass(frozen=True)
class Snapshot:
    """One look at both programs and, at `time_s`, at driver and companions."""

    server: Reading
    client: Reading | None
    time_s: float
    driver_cpu_s: float
    companion_cpu_s: float = 0.0


@dataclass(frozen=True)
class Report:
    """The client's report, None without one, and when it started and reported."""

    client: dict | None
    started_at_s: float
    reported_at_s: float


@dataclass(frozen=True)
class Window:
    """The measurement window on the driver's monotonic clock, in seconds.

    The clients ask from `asking_s`, the beginning of the warm-up; None: not known.
    """

    start_s: float
    end_s: float
    known_from: str
    asking_s: float | None = None


def window(report: Report) -> Window | None:
    """Return the client's window, None when its report has no figures."""
    client = report.client or {}
    window_s = schema.pick(client, "window.seconds")
    if not isinstance(window_s, int | float) or window_s <= 0:
        return None
    dialing_s = schema.pick(client, "self.dialing_s")
    warmup_s = schema.pick(client, "window.warmup_s")
    if dialing_s is None or warmup_s is None:
        return Window(report.reported_at_s - window_s, report.reported_at_s, "end")
    asking_s = report.started_at_s + dialing_s
    start_s = asking_s + warmup_s
    return Window(start_s, start_s + window_s, "start", asking_s)


def summarise(
    snapshots: Sequence[Snapshot],
    report: Report,
    *,
    stats: dict | None,
    same_host: bool = True,
) -> schema.Samples:
    """Condense the snapshots of one trial.

    `snapshots` are in order of time, the first one at the idle server, with memory.
    `stats` is the server's last line; its context switches cover its whole life.
    `same_host`: client, driver and companions ran on the server's machine.
    """
    readings = [each.server for each in snapshots]
    machine = [r.machine for r in readings if r.machine]
    facts: dict[str, Any] = peaks(readings) | _context_switches(readings, stats)
    if machine:
        first, last = machine[0], machine[-1]
        facts |= {
            "socket_memory_bytes": max(m.socket_memory_bytes for m in machine),
            "socket_memory_baseline_bytes": first.socket_memory_bytes,
            "sockets_max": max(m.sockets for m in machine),
            "time_wait_start": first.time_wait,
            "listen_overflows": last.listen_overflows - first.listen_overflows,
            "listen_drops": last.listen_drops - first.listen_drops,
        }
    if span := window(report):
        facts["window_from"] = span.known_from
        facts |= _cpu(snapshots, report, span, same_host)
    return schema.Samples(**facts)


def peaks(readings: Sequence[Reading]) -> dict[str, int | None]:
    """Return the memory of the idle server, and the largest figures of all readings."""
    alive = [r.processes for r in readings if r.processes]
    pss = [r.pss_bytes for r in readings if r.pss_bytes is not None]
    return {
        "samples": len(readings),
        "memory_samples": len(pss),
        "pss_bytes": max(pss, default=None),
        "pss_baseline_bytes": readings[0].pss_bytes if readings else None,
        "threads_max": max((p.threads for p in alive), default=None),
        "processes_max": max((p.processes for p in alive), default=None),
    }


def user_and_system_s(spent_s: float, user: float, system: float) -> dict[str, float]:
    """Divide CPU time in the proportion of two counts of user and system time."""
    share = user / (user + system) if user + system else 0.0
    return {"cpu_user_s": spent_s * share, "cpu_system_s": spent_s * (1 - share)}


def _cpu(
    snapshots: Sequence[Snapshot], report: Report, span: Window, same_host: bool
) -> dict[str, float | None]:
    used_s, window_s = _growth(_of_server(snapshots, "processes", "cpu_s"), span)
    if used_s is None:
        return {}
    counters = {
        "driver_cpu_s": [(each.time_s, each.driver_cpu_s) for each in snapshots],
        "companion_cpu_s": [(each.time_s, each.companion_cpu_s) for each in snapshots],
        "client_cpu_s": _of_client(snapshots, report),
        "softirq_cpu_s": _of_server(snapshots, "machine", "softirq_s"),
    }
    spent = {name: _growth(points, span)[0] for name, points in counters.items()}
    user = _growth(_of_server(snapshots, "processes", "user_s"), span)[0] or 0.0
    system = _growth(_of_server(snapshots, "processes", "system_s"), span)[0] or 0.0
    facts = spent | user_and_system_s(used_s, user, system) | {"window_s": window_s}
    facts["steal_s"] = _growth(_of_server(snapshots, "machine", "steal_s"), span)[0]
    busy_s = _growth(_of_server(snapshots, "machine", "busy_s"), span)[0]
    if busy_s is not None:
        own_s = used_s + sum(
            spent_s or 0.0
            for name, spent_s in spent.items()
            if same_host or name not in _CLIENT_SIDE
        )
        facts["other_cpu_s"] = max(0.0, busy_s - own_s)
    return facts


# ---- counters over time ----------------------------------------------------------


def _of_server(snapshots: Sequence[Snapshot], part: str, name: str) -> list[Point]:
    """Return a counter of the server's processes, or of its machine."""
    readings = [getattr(each.server, part) for each in snapshots]
    return [(reading.time_s, getattr(reading, name)) for reading in readings if reading]


def _of_client(snapshots: Sequence[Snapshot], report: Report) -> list[Point]:
    """Return the client's CPU time from its start to its report, if that has it."""
    readings = [each.client.processes for each in snapshots if each.client]
    points = [(reading.time_s, reading.cpu_s) for reading in readings if reading]
    start = [(report.started_at_s, 0.0)]
    total_s = schema.client_cpu_s({"client": report.client})
    if total_s is None:
        return start + points
    points = [point for point in points if point[0] < report.reported_at_s]
    total_s = max([total_s, *(cpu_s for _time_s, cpu_s in points)])
    return start + points + [(report.reported_at_s, total_s)]


def _growth(points: Sequence[Point], span: Window) -> tuple[float | None, float]:
    """Return how much a counter grew in the window (None: not known), in what time."""
    if len(points) < 2:
        return None, 0.0
    start = max(span.start_s, points[0][0])
    end = min(span.end_s, points[-1][0])
    if end <= start:
        return None, 0.0
    import numpy as np  # late: a first server starts before numpy is loaded

    times, values = zip(*points, strict=True)
    before, after = np.interp([start, end], times, values)
    asking_s = span.asking_s or -math.inf
    resting = [point for point in points if point[0] < asking_s]
    busy = [point for point in points if asking_s <= point[0] <= end]
    began = (asking_s, resting[-1][1]) if resting else None
    if telling := _telling(began, busy, start, end):
        (first_s, first), (last_s, last) = telling
        rate = (last - first) / (last_s - first_s)
        following = next((value for time_s, value in points if time_s > last_s), last)
        after = min(last + rate * (end - last_s), following)
        if began and busy[0][0] >= start:
            before = max(first - rate * (first_s - start), began[1])
    return max(0.0, float(after - before)), end - start


def _telling(
    began: Point | None, busy: Sequence[Point], start: float, end: float
) -> tuple[Point, Point] | None:
    """Return two points that tell a counter's rate in a window; None: no two do.

    `busy` are those from when clients began to ask until the window's end; `began` is
    that moment, with what the server had used until then, where it was seen at rest.
    """
    inside = [point for point in busy if point[0] >= start]
    if inside and inside[-1][0] - inside[0][0] >= _SPANNED * (end - start):
        return inside[0], inside[-1]
    if began and busy and busy[-1][0] - began[0] >= _SPANNED_FROM_REST * (end - start):
        return began, busy[-1]
    return None


def _context_switches(readings: Sequence[Reading], stats: dict | None) -> dict:
    names = ("context_switches_voluntary", "context_switches_involuntary")
    counts = [(stats or {}).get(name) for name in names]
    if counts[0] is None:
        seen = [r.context_switches for r in readings if r.context_switches]
        counts = seen[-1] if seen else (None, None)
    return dict(zip(names, counts, strict=True))
