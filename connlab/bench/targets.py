"""What is expected of servers and client, and whether it is so."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import pandas as pd

from connlab.bench.parts import BASE, DEARER, EXTRA_NS, LAG_RATE, SLOWED, Part
from connlab.compare.screen import OTHERS
from connlab.intervals import interval
from connlab.study.interval import Interval
from connlab.study.turns import per_round, width
from connlab.variances import LEVEL, TRIALS_MIN, Fit

#: most bytes of an idle connection, by model or else by family
IDLE_MOST = {"thread": 24 * 1024, "coroutine": 12 * 1024, "stackless": 1024}
IDLE_MOST |= {"readiness": 1024, "completion": 1024}


@dataclass(frozen=True)
class Target:
    """Something that has to lie between two bounds, and what was found."""

    what: str
    found: Interval | None
    least: float = -math.inf
    most: float = math.inf
    doubt: str = ""

    @property
    def need(self) -> str:
        bounds = {"≥": self.least, "<": self.most}
        return ", ".join(f"{k} {v:g}" for k, v in bounds.items() if math.isfinite(v))

    @property
    def verdict(self) -> str:
        """``reached``, ``not reached``, or ``undecided`` with the width that is known.

        An interval decides when it lies within the bounds, or outside of them, unless
        there is a `doubt` about what it was measured on.
        """
        found = self.found
        if found is None:
            return "not measured"
        if self.doubt:
            return f"undecided, {self.doubt}"
        if not found.determined:
            return "undecided, no interval"
        if self.least <= found.lo and found.hi < self.most:
            return "reached"
        if found.hi < self.least or found.lo >= self.most:
            return "not reached"
        relative_width = width(found) if found.lo > 0 else found.relative_half_width
        return f"undecided, ±{relative_width:.1%}".replace("%", " %")


def judge(
    parts: Mapping[str, Part],
    memory: Mapping[str, Sequence[float]],
    families: Mapping[str, str],
) -> list[Target]:
    """Return each target with what was found."""
    per_cpu = "requests / CPU s"
    models, http = parts["models"], parts["http"]
    targets = []
    for name, most in (("models", 0.7), ("many", 1.5)):
        part = parts[name]
        cost = part.comparison.ratios("cpu")
        uring = _inverse(cost.get("uring"))
        pairs = zip(part.floor_cpu_s, _column(part, "cpu"), strict=False)
        floor = _mean(of_two / of_base for of_two, of_base in pairs)
        doubt = _others_doubt(part)
        control = _width_of([cost.get(part.plan.control)])
        itself = f"{name}: CPU of {BASE} / itself, half-width, %"
        targets += [
            Target(f"{name}: {per_cpu}, {BASE} / two calls", floor, 0.85, doubt=doubt),
            Target(f"{name}: {per_cpu}, uring / {BASE}", uring, least=1.1),
            Target(itself, control, most=most),
        ]
    cost = models.comparison.ratios("cpu")
    widths = _width_of(r for name, r in cost.items() if name != models.plan.control)
    thread = models.comparison.ratios("rate").get("thread")
    extra, extra_bounds = _extra_ns(parts["control"]), (0.9 * EXTRA_NS, 1.1 * EXTRA_NS)
    of_echo = _mean(_column(models, "cpu") / _column(http, "cpu"))
    lag = _mean(_column(parts["open loop"], "lag_p99") * 1e6)
    lag_text = f"open loop: lag at {LAG_RATE} requests/s, p99, µs"
    doubt = _others_doubt(parts["open loop"])
    targets += [
        Target(f"models: CPU / {BASE}, half-width, median, %", widths, most=2),
        Target(f"models: rate, thread / {BASE}", thread, least=0.7),
        Target(f"control: {EXTRA_NS} ns more of work, ns", extra, *extra_bounds),
        Target(f"http: {per_cpu}, http / echo, {BASE}", of_echo, least=0.6),
        Target(lag_text, lag, most=100, doubt=doubt),
    ]
    for name in ("models", "many", "one core", "one core, many"):
        client = _column(parts[name], "client") / _column(parts[name], "cpu")
        title = f"{name}: CPU per request, client / {BASE}"
        targets.append(Target(title, _mean(client), most=0.9))
    return targets + [
        Target(f"idle connection of {name}, bytes", _mean(sizes), most=most)
        for name, sizes in memory.items()
        if (most := IDLE_MOST.get(name) or IDLE_MOST.get(families[name]))
    ]


def _column(part: Part, column: str) -> pd.Series:
    if not part.comparison.sets:
        return pd.Series(dtype=float)
    table = pd.concat(part.comparison.sets).set_index("trial")
    return table.loc[table["server"] == BASE, column]


def _extra_ns(part: Part) -> Interval | None:
    """Return what a request of `DEARER` costs more: the median over rounds, a set."""
    if part.comparison.n < TRIALS_MIN:
        return None
    rounds = per_round(pd.concat(part.comparison.slices))
    costs = rounds.set_index(["trial", "round", "server"])["cpu"].unstack()
    more = (costs[DEARER] - costs[SLOWED]).groupby(level="trial").median()
    return Fit.of(more * 1e9).interval(LEVEL, method="t over trials", log=False)


def _others_doubt(part: Part) -> str:
    """Return who else was at work, where that delays client or floor."""
    busy = part.comparison.others_share
    return f"others kept {busy:.2g} cores busy" if busy > OTHERS else ""


def _mean(values: Iterable[float]) -> Interval | None:
    positive = [value for value in values if value > 0]
    return interval(positive) if positive else None


def _inverse(ratio: Interval | None) -> Interval | None:
    if ratio is None:
        return None
    return replace(ratio, value=1 / ratio.value, lo=1 / ratio.hi, hi=1 / ratio.lo)


def _width_of(ratios: Iterable[Interval | None]) -> Interval | None:
    widths = [width(ratio) * 100 for ratio in ratios if ratio and ratio.determined]
    if not widths:
        return None
    value = median(widths)
    return Interval(value, value, value, len(widths), 1.0, "median of half-widths")
