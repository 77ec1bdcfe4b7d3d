"""Ratios between arms, and whether the models reach what is expected of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connlab.bench.apart import Memory
from connlab.bench.plan import BASE, FLOOR, Arm, Plan
from connlab.bench.windows import Window
from connlab.study.comparing import ratio_paired
from connlab.study.interval import Interval, t_interval

RATE, PER_CPU = "throughput_rps", "requests_per_cpu_s"

#: bytes of an idle connection, by model or else by family
IDLE_MOST = {
    "readiness": 1024,
    "completion": 1024,
    "coroutine": 12 * 1024,
    "thread": 24 * 1024,
}


@dataclass(frozen=True)
class Verdict:
    """A target, what was found, and whether that reaches it."""

    target: str
    need: str
    found: Interval | None
    reached: str


def series(windows: Iterable[Window], arm: Arm, what: str) -> dict[int, float]:
    """Return one figure of an arm by round, without the windows that lack it."""
    return {
        w.round: value
        for w in windows
        if w.arm == arm and not w.failure and (value := getattr(w, what)) is not None
    }


def ratio(windows: Sequence[Window], y: Arm, x: Arm, what: str) -> Interval | None:
    """Return mean / mean of two arms over the rounds that have both, or None."""
    above, below = series(windows, y, what), series(windows, x, what)
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


def judge(
    plan: Plan, windows: Sequence[Window], memory: Sequence[Memory]
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
    name = f"thread of {BASE}, {few} connections"
    verdicts.append(at_least(0.7, name, echo("thread"), echo(BASE)))
    name = f"http of echo, {BASE}, {few} connections"
    verdicts.append(at_least(0.6, name, Arm("http", few, BASE), echo(BASE)))
    return verdicts + [v for row in memory if (v := _idle(plan, row))]


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
