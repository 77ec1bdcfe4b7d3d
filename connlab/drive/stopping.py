"""When a sweep has measured enough.

    n_min whole blocks -> look -> block -> look -> … until each metric of each cell is
        as narrow as asked, or n_max blocks are there, or the budget is used

What has to be narrow is what will be printed. Of a cell measured alone that is its own
interval. Of servers that took turns it is the ratio of each to the baseline: its
interval is made of the log ratios of the trials, and holds together with those of all
other pairs of the sweep (Bonferroni). Its variance takes in what the other pairs of
its set say (`connlab.variances`), as in what the study prints. More trials go to whole
sets, those alone that have a ratio still too wide.

The rule looks after whole blocks only, so that every cell has as many trials as the
others when it is judged. Stopping as soon as an interval is narrow makes it cover
somewhat less than it says (0.91 to 0.94 in place of 0.95, see the method); n_min keeps
that loss small.

With a budget, time beyond n_min blocks goes where intervals are widest: a round then
holds only the sets and cells that are furthest from their target.
"""

from __future__ import annotations

import enum
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.variances import TRIALS_MIN, Fit, moderated_by_cell

#: relative half-widths to reach, where nothing else is asked
TARGETS = {"throughput_rps": 0.05, "response_p99_s": 0.10}
#: the same for the ratios of servers that take turns
RATIO_TARGETS = {"throughput_rps": 0.05, "server_cpu_per_request_s": 0.05}
#: where a row keeps the log ratios to its baseline
RATIOS = "log_ratios"
LEVEL = 0.95
#: n_max when only targets are given, as a multiple of n_min
_N_MAX = 3
#: a round of a budget takes the cells at least this near to the worst one
_NEAR_WORST = 0.5
#: gates that a trial may fail and the next one of its cell pass
PASSING = {"quiet", "lag"}
_UNITS = {"h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0, "": 1.0}


@dataclass(frozen=True)
class Rule:
    """When to stop: at least `n_min` trials per cell, at most `n_max`.

    `sets` holds the cells that are measured together; a cell in none is alone.
    """

    n_min: int
    n_max: int
    targets: Mapping[str, float]
    budget_s: float | None = None
    sets: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Width:
    """How wide the interval of one metric in one cell is.

    `half_width` is relative, to the mean or, of a `ratio`, to the geometric mean; None
    where usable trials are missing (two, of a ratio `TRIALS_MIN`). Then `hope`
    says whether more trials may help: they do where one was usable or the machine was
    not quiet, they do not where a limit was met.
    """

    cell: int
    metric: str
    n: int
    half_width: float | None
    target: float
    hope: bool = False
    ratio: bool = False

    @property
    def met(self) -> bool:
        """Whether it is as narrow as asked."""
        return self.half_width is not None and self.half_width <= self.target

    @property
    def pending(self) -> bool:
        """Whether more trials are worth their time."""
        return self.hope if self.half_width is None else not self.met

    @property
    def need(self) -> float:
        """How far it is from its target; 1 is just met."""
        return math.inf if self.half_width is None else self.half_width / self.target


class Why(enum.Enum):
    """Why a sweep has measured enough."""

    BLOCKS = "all blocks that were asked for are there"
    MET = "every target was met"
    NO_HOPE = "cells without an interval would not get one by more trials"
    MOST = "the most trials allowed are there"


@dataclass(frozen=True)
class Enough:
    """That no more trials are wanted, and why; as text, a sentence for people.

    `counts` holds the trials of each cell; `cells` is how many have no interval
    (`Why.NO_HOPE`) or one that is too wide (`Why.MOST`).
    """

    why: Why
    counts: tuple[int, ...]
    cells: int = 0

    def __str__(self) -> str:
        of = f"{self.cells} of {len(self.counts)} cells"
        return {
            Why.BLOCKS: f"all {min(self.counts)} blocks are there",
            Why.MET: f"every target was met after {self._blocks}",
            Why.NO_HOPE: f"no more trials would help after {self._blocks}: {of} have "
            "no interval, the others met their targets",
            Why.MOST: f"the most trials allowed ({max(self.counts)} per cell) are "
            f"there; {of} are wider than their target or have too few trials that may "
            "be used",
        }[self.why]

    @property
    def _blocks(self) -> str:
        low, high = min(self.counts), max(self.counts)
        return f"{low} blocks" if low == high else f"{low} to {high} trials per cell"


def rule(
    *,
    trials: int,
    max_trials: int | None = None,
    targets: Mapping[str, float] | float | None = None,
    budget: float | str | None = None,
    metrics: Sequence[str] = (),
    in_turns: bool = False,
) -> Rule:
    """Return the rule that a sweep's arguments mean.

    Without `max_trials`, `targets` and `budget` it is just `trials` blocks. With
    `max_trials` alone the targets are `TARGETS`, `in_turns` `RATIO_TARGETS`; with
    `targets` or `budget` alone there are at most three times `trials`. A number as
    `targets` is wanted of each of these metrics.

    Raises
    ------
    ValueError
        For numbers that cannot be, and metrics that are not in `metrics`.
    """
    if trials < 1:
        raise ValueError(f"trials: {trials}; allowed: 1 or more")
    if max_trials is not None and max_trials < trials:
        raise ValueError(f"max_trials: {max_trials}; allowed: {trials} (trials) up")
    adaptive = max_trials is not None or targets is not None or budget is not None
    if not adaptive:
        return Rule(trials, trials, {})
    usual = RATIO_TARGETS if in_turns else TARGETS
    if isinstance(targets, int | float):
        targets = dict.fromkeys(usual, float(targets))
    wanted = dict(usual if targets is None else targets)
    for metric, width in wanted.items():
        if metrics and metric not in metrics:
            raise ValueError(f"targets: unknown metric {metric!r}")
        if not 0 < width < 1:
            raise ValueError(f"targets: {metric}: {width}; allowed: between 0 and 1")
    most = _N_MAX * trials if max_trials is None else max_trials
    return Rule(trials, most, wanted, seconds(budget) if budget is not None else None)


def seconds(text: float | str) -> float:
    """Return a span of time in seconds: ``90``, ``"90s"``, ``"10m"``, ``"1h30m"``."""
    if isinstance(text, int | float):
        found = float(text)
    else:
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*(h|min|m|s|)", text.strip())
        if not parts or re.sub(r"[\d.\s]|h|min|m|s", "", text):
            raise ValueError(f"budget: {text!r}; allowed: 90, '90s', '10m', '1h30m'")
        found = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not found > 0:
        raise ValueError(f"budget: {text!r}; allowed: more than no time")
    return found


def relative_half_width(values: Sequence[float]) -> float | None:
    """Return the half-width of the 95 % t interval of a mean, over that mean.

    None for fewer than two values; infinite for a mean of 0 whose values differ.
    """
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values)
    if deviation == 0:
        return 0.0
    half = _t(LEVEL, len(values) - 1) * deviation / math.sqrt(len(values))
    return half / abs(mean) if mean else math.inf


def widths(rows: Sequence[Sequence[Mapping[str, Any]]], rule: Rule) -> list[Width]:
    """Return the width reached by each target metric in each cell.

    Parameters
    ----------
    rows : sequence of sequence of mapping
        Per cell its trials as flat rows (`connlab.schema.flatten`); only those count
        that no gate leaves out, and of them those that have the metric. A trial in
        turns has its log ratios to the baseline under `RATIOS`; a baseline has none,
        and no width.
    """
    ratios = {metric: _ratio_widths(rows, metric, rule) for metric in rule.targets}
    return [
        _width(cell, metric, trials, target, ratios[metric])
        for cell, trials in enumerate(rows)
        if not any(row.get(RATIOS) == {} for row in trials)
        for metric, target in rule.targets.items()
    ]


def _width(
    cell: int,
    metric: str,
    trials: Sequence[Mapping],
    target: float,
    ratios: Mapping[int, float | None],
) -> Width:
    ratio = cell in ratios
    values = _values(trials, metric)
    least = TRIALS_MIN if ratio else 2
    has = [row for row in trials if row.get(metric) is not None]
    hope = 0 < len(values) < least or any(_spoilt(row) for row in has)
    width = ratios[cell] if ratio else relative_half_width(values)
    return Width(cell, metric, len(values), width, target, hope, ratio)


def _ratio_widths(
    rows: Sequence[Sequence[Mapping]], metric: str, rule: Rule
) -> dict[int, float | None]:
    """Return the half-width of the ratio of each cell that has one."""
    cells = [cell for cell, trials in enumerate(rows) if _has_ratio(trials)]
    own_set = {cell: members for members in rule.sets for cell in members}
    alone = [Fit.of(_values(rows[cell], metric)) for cell in cells]
    fits = moderated_by_cell(alone, [own_set.get(cell) for cell in cells])
    widths = [ratio_half_width(fit, len(cells)) for fit in fits]
    return dict(zip(cells, widths, strict=True))


def _has_ratio(trials: Sequence[Mapping]) -> bool:
    return any(row.get(RATIOS) for row in trials)


def _values(trials: Sequence[Mapping], metric: str) -> list[float]:
    """Return the metric of each trial that counts, in turns its log ratio."""
    used = [row for row in trials if is_used(row)]
    if _has_ratio(trials):
        used = [row.get(RATIOS) or {} for row in used]
    return [row[metric] for row in used if row.get(metric) is not None]


def is_used(row: Mapping[str, Any]) -> bool:
    """Whether no failure and no gate leaves a trial out."""
    return not row.get("failure") and not row.get("excluded_by")


def ratio_half_width(fit: Fit, family: int) -> float | None:
    """Return how far the bounds of a ratio lie from it: 0.05 for ±5 %.

    By t on logarithms, at the level that lets all pairs of the family hold together
    (Bonferroni); None for fewer than `TRIALS_MIN` trials.
    """
    if fit.n < TRIALS_MIN:
        return None
    each = 1 - (1 - LEVEL) / max(1, family)
    return math.expm1(min(_t(each, fit.df) * fit.error, 100.0))


def _t(level: float, df: float) -> float:
    """Return the quantile of Student's t for a two-sided interval."""
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + level / 2))


def _spoilt(row: Mapping[str, Any]) -> bool:
    """Return whether a trial was spoilt by what may be over next time."""
    failed = set((row.get("excluded_by") or "").split(", ")) - {""}
    return not row.get("failure") and bool(failed) and failed <= PASSING


def next_round(
    rows: Sequence[Sequence[Mapping]], rule: Rule
) -> tuple[int, ...] | Enough:
    """Return the cells to measure next, or why no more is wanted.

    Called after whole rounds only. Without a budget a round is all cells that are
    measured alone, if one of them is too wide, and all sets that have a ratio too wide.
    """
    counts = tuple(len(trials) for trials in rows)
    if min(counts) < rule.n_min:
        least = min(counts)
        return tuple(cell for cell, n in enumerate(counts) if n == least)
    if not rule.targets:
        return Enough(Why.BLOCKS, counts)
    reached = widths(rows, rule)
    pending = [width for width in reached if width.pending]
    if not pending:
        without = len({width.cell for width in reached if not width.met})
        return Enough(Why.NO_HOPE if without else Why.MET, counts, without)
    unit = _units(rule, reached, len(rows))
    need: dict[int, float] = {}
    for width in pending:
        if counts[width.cell] < rule.n_max:
            own = unit[width.cell]
            need[own] = max(width.need, need.get(own, 0.0))
    if not need:
        return Enough(Why.MOST, counts, len({width.cell for width in pending}))
    worst = max(need.values())
    limit = worst * _NEAR_WORST if math.isfinite(worst) else worst
    wanted = {own for own, far in need.items() if rule.budget_s is None or far >= limit}
    return tuple(cell for cell, own in enumerate(unit) if own in wanted)


def _units(rule: Rule, reached: Sequence[Width], cells: int) -> list[int]:
    """Return for each cell a number that it shares with those of its round.

    Those of its set; without a budget all cells alone share one, which is a block.
    """
    in_sets = {width.cell for width in reached if width.ratio}
    unit = list(range(cells))
    for members in rule.sets:
        if in_sets & set(members):
            for cell in members:
                unit[cell] = -1 - members[0]
    if rule.budget_s is None:
        unit = [0 if own >= 0 else own for own in unit]
    return unit
