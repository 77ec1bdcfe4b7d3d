"""Ratios between arms, and whether the models reach what is expected of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.bench.apart import Memory
from connlab.bench.generator import BEST, DELAYS_MS, LAG_RATE, MANY, Found
from connlab.bench.plan import BASE, FLOOR, Arm, Plan
from connlab.bench.windows import Window
from connlab.study.comparing import ratio_paired
from connlab.study.interval import Interval, t_interval

RATE, PER_CPU = "throughput_rps", "requests_per_cpu_s"
CLIENT_COST = "client_cpu_per_request_s"
SERVER_COST = "server_cpu_per_request_s"

#: CPU time of the client per echo request, over that of the server
CLIENT_MOST = 0.9
#: microseconds; 99 % of requests leave sooner after they are due
LAG_MOST_US = 100
#: by how much a delay may be found too short or too long
DELAY_OFF = 0.01

#: bytes of an idle connection, by model or else by family
IDLE_MOST = {
    "readiness": 1024,
    "completion": 1024,
    "coroutine": 12 * 1024,
    "stackless": 1024,
    "thread": 24 * 1024,
}


@dataclass(frozen=True)
class Verdict:
    """A target, what was found, and whether that reaches it."""

    target: str
    need: str
    found: Interval | None
    reached: str


def series(windows: Iterable[Any], arm: Hashable, what: str) -> dict[int, float]:
    """Return one figure of an arm by round, without the windows that lack it."""
    return {
        w.round: value
        for w in windows
        if w.arm == arm and not w.failure and (value := getattr(w, what)) is not None
    }


def mean(windows: Sequence[Any], arm: Hashable, what: str) -> Interval | None:
    """Return one figure of an arm over its rounds; None where no window has it."""
    values = list(series(windows, arm, what).values())
    return t_interval(values) if values else None


def ratio(
    windows: Sequence[Any],
    y: Hashable,
    x: Hashable,
    what: str,
    *,
    over: str | None = None,
) -> Interval | None:
    """Return mean / mean of two arms over the rounds that have both, or None.

    The figure `what` of `y` is compared with `over` of `x`; with the same, if not said.
    """
    above, below = series(windows, y, what), series(windows, x, over or what)
    rounds = sorted(above.keys() & below.keys())
    if not rounds:
        return None
    return ratio_paired([above[r] for r in rounds], [below[r] for r in rounds])


def reached(found: Interval | None, need: float, *, at_most: bool = False) -> str:
    """Say on which side of `need` an interval lies, or that it lies across it."""
    if found is None:
        return "not measured"
    if not found.determined:
        return "undecided"
    good, bad = found.lo >= need, found.hi < need
    if at_most:
        good, bad = found.hi < need, found.lo >= need
    return "reached" if good else "not reached" if bad else "undecided"


def within(found: Interval | None, least: float, most: float) -> str:
    """Say whether an interval lies between two bounds, as `reached` does for one."""
    sides = {reached(found, least), reached(found, most, at_most=True)}
    if len(sides) == 1:
        return sides.pop()
    return "not reached" if "not reached" in sides else "undecided"


def judge(
    plan: Plan,
    windows: Sequence[Window],
    memory: Sequence[Memory],
    own: Found | None = None,
) -> list[Verdict]:
    """Put what was found beside what is expected."""
    few = min(plan.connections)

    def echo(model: str, count: int = few) -> Arm:
        return Arm("echo", count, model)

    def at_least(need: float, name: str, y: Arm, x: Arm, what: str = RATE) -> Verdict:
        found = ratio(windows, y, x, what)
        return Verdict(name, f"≥ {need:g}", found, reached(found, need))

    verdicts = []
    for n in plan.connections:
        for model in (BASE, "epoll-et"):
            name = f"{model} of the floor, {n} connections"
            verdicts.append(at_least(0.85, name, echo(model, n), echo(FLOOR, n)))
        name = f"uring of {BASE}, requests per CPU second, {n} connections"
        both = echo("uring", n), echo(BASE, n)
        verdicts.append(at_least(1.1, name, *both, PER_CPU))
        verdicts.append(_client(windows, echo(BASE, n)))
    name = f"thread of {BASE}, {few} connections"
    verdicts.append(at_least(0.7, name, echo("thread"), echo(BASE)))
    name = f"http of echo, {BASE}, {few} connections"
    verdicts.append(at_least(0.6, name, Arm("http", few, BASE), echo(BASE)))
    verdicts += [v for row in memory if (v := _idle(plan, row))]
    return verdicts + (_generator(own) if own else [])


def _client(windows: Sequence[Window], arm: Arm) -> Verdict:
    here = f"{arm.connections} connections, a core each"
    return _client_cost(windows, arm, f"client of {arm.model}, CPU per echo, {here}")


def _client_cost(windows: Sequence[Any], arm: Hashable, name: str) -> Verdict:
    found = ratio(windows, arm, arm, CLIENT_COST, over=SERVER_COST)
    verdict = reached(found, CLIENT_MOST, at_most=True)
    return Verdict(name, f"< {CLIENT_MOST}", found, verdict)


def _generator(own: Found) -> list[Verdict]:
    """Judge what was measured of the load generator alone."""

    def under(name: str, most: float, rows: Sequence, figure: Callable) -> Verdict:
        def judged(found: Interval) -> str:
            return reached(found, most, at_most=True)

        return _kept(name, f"< {most:g}", rows, figure, judged)

    verdicts = []
    for arm in dict.fromkeys(row.arm for row in own.cost if row.engine == BEST):
        name = f"client of {BASE}, CPU per echo, {arm[1]} connections, on one core"
        verdicts.append(_client_cost(own.cost, arm, name))
    if own.lag:
        name = f"client, p99 of lag at {LAG_RATE:,} requests/s, µs"
        verdicts.append(under(name, LAG_MOST_US, own.lag, lambda row: row.p99_s * 1e6))
    for n, most in MANY.items():
        rows = [row for row in own.dialing if row.connections == n]
        if rows:
            name = f"client, {n:,} connections established, s"
            verdicts.append(under(name, most, rows, lambda row: row.seconds))
    return verdicts + ([_delay(own)] if own.delay else [])


def _delay(own: Found) -> Verdict:
    added = DELAYS_MS[1] - DELAYS_MS[0]
    least, most = added * (1 - DELAY_OFF), added * (1 + DELAY_OFF)

    def judged(found: Interval) -> str:
        return within(found, least, most)

    name = f"client, {added} ms more of served delay are, ms"
    need = f"{least:g} to {most:g}"
    return _kept(name, need, own.delay, lambda row: row.added_s * 1e3, judged)


def _kept(
    name: str, need: str, rows: Sequence, figure: Callable, judged: Callable
) -> Verdict:
    """Judge the figures of all windows; one that failed has not reached anything."""
    failures = [row.failure for row in rows if row.failure]
    if failures:
        return Verdict(name, need, None, f"not reached: {failures[0]}")
    found = t_interval([figure(row) for row in rows])
    return Verdict(name, need, found, judged(found))


def _idle(plan: Plan, row: Memory) -> Verdict | None:
    family = plan.model(row.model).family
    most = IDLE_MOST.get(row.model) or IDLE_MOST.get(family)
    if not most:
        return None
    found = t_interval(row.bytes)
    verdict = reached(found, most, at_most=True)
    return Verdict(
        f"{row.model}, bytes per idle connection", f"< {most}", found, verdict
    )
