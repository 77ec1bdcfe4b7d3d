"""Verdicts on claims, and the trials that a claim is about.

A claim is never called false: conditions differ, and an interval may be too wide to
show anything. A rule answers with one of `VERDICTS`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import pandas as pd

from connlab.study.formatting import in_best_unit, number_text, plain, span
from connlab.study.frames import Cell, failed_only, select
from connlab.study.interval import Interval
from connlab.study.metrics import metric as metric_of
from connlab.variances import TRIALS_MIN

Verdict = Literal["holds", "holds in part", "does not hold", "not testable here"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class RuleError(ValueError):
    """A rule of the ledger has arguments that it does not take."""


class Untestable(Exception):
    """A run cannot decide: why, and the effect that shows too little, if any."""

    def __init__(
        self,
        why: str,
        effect: Interval | None = None,
        unit: str = "ratio",
        of: str = "",
    ):
        super().__init__(why)
        self.finding = Finding("not testable here", why, effect, unit, of=of)


@dataclass(frozen=True)
class Finding:
    """The verdict of a rule.

    `effect` is the number that the verdict rests on, in `unit` ("ratio" for a ratio);
    None where the verdict rests on a count of cells. `why` is one clause, fit for a
    table. `claimed` are the bounds within which a ratio counts as the claimed one, and
    `of` names what the effect is of: the cells, or a number that is no ratio of them.
    """

    verdict: Verdict
    why: str
    effect: Interval | None = None
    unit: str = "ratio"
    claimed: tuple[float, float] | None = None
    of: str = ""

    @property
    def beyond(self) -> float:
        """How far the interval of a ratio lies outside the claimed bounds, in logs."""
        if self.effect is None or self.claimed is None or not self.effect.determined:
            return 0.0
        low, high = self.claimed
        farthest = max(1.0, low / self.effect.hi, self.effect.lo / high)
        return math.log(farthest)

    @property
    def effect_text(self) -> str:
        """The effect with its interval, or an empty text."""
        if self.effect is None:
            return ""
        if self.unit == "ratio":
            return "×\u202f" + number_text(self.effect)
        return number_text(*in_best_unit(self.effect, self.unit))


def within(interval: Interval, low: float, high: float) -> bool:
    """Whether all of an interval lies between two numbers."""
    return low <= interval.lo and interval.hi <= high


def outside(interval: Interval, low: float, high: float) -> bool:
    """Whether none of an interval lies between two numbers."""
    return interval.lo > high or interval.hi < low


def remaining(effect: Interval, metric: str, *limited: bool) -> Interval:
    """Return an interval whose unknown bounds are open, as a client was the bottleneck.

    That server could only be better: of a rate the interval's lower bound remains, of
    a time the upper one; of a ratio to a baseline that was limited, the other.
    `limited` is for the cell and, of a ratio, its baseline.
    """
    rises = metric_of(metric).better == "higher"
    upward = {(side == 0) == rises for side, bound in enumerate(limited) if bound}
    lo = -math.inf if False in upward else effect.lo
    return replace(effect, lo=lo, hi=math.inf if True in upward else effect.hi)


def if_few(*trials: int) -> str:
    """Return " (1 trial each)" where cells have fewer than an interval asks for.

    A count has no interval that would show how often it was made. Of no cell, or where
    all have enough, an empty text.
    """
    if min(trials, default=TRIALS_MIN) >= TRIALS_MIN:
        return ""
    fewest, most = min(trials), max(trials)
    number = span(fewest, most)
    return f" ({number} trial{'s' * (most > 1)}{' each' * (len(trials) > 1)})"


def cell_text(cell: Cell) -> str:
    """Name a cell by its levels, as tables do: ``epoll, connections 300``.

    A level has the name of its column before it where it has a digit.
    """
    texts = []
    for column, level in cell.items():
        if level is None:
            continue
        text = " or ".join(map(str, level if isinstance(level, list) else [level]))
        named = column != "model" and any(map(str.isdigit, text))
        texts.append(f"{column.replace('_', ' ')} {text}" if named else text)
    return ", ".join(texts)


_UNSAID = {"study", "arm", "work", "requests", "requests_per_connection", "buckets"}
_UNSAID |= {"delay", "delay_kind", "size", "byte_rate", "connect_rate", "server_cores"}
"""Factors that the conditions of a claim name and its effect does not."""


def effect_of(arm: Cell, baseline: Cell) -> str:
    """Name a cell and what it is compared with: the model, then the other levels.

    >>> effect_of({"model": "poll", "connections": 50}, {"model": "epoll"})
    'poll against epoll, 50 connections'
    """
    clauses = []
    for column, level in arm.items():
        other = baseline.get(column, level)
        if column in _UNSAID or any(isinstance(v, list | None) for v in (level, other)):
            continue
        text = _noun(column, level)
        if other != level:
            text = f"{_noun(column, level, short=True)} against {_noun(column, other)}"
        clauses.append(text)
    return ", ".join(clauses)


def _noun(column: str, level: Any, *, short: bool = False) -> str:
    """Return ``epoll``, ``50 connections``, ``50 % load``; in short no noun."""
    if isinstance(level, str):
        return level
    text = f"{100 * level:g}\u202f%" if column == "load" else plain(float(level))
    if short:
        return text
    if column == "load":
        return f"{text} load"
    noun = column.replace("_", " ")
    return f"{text} {noun.removesuffix('s') if level == 1 else noun}"


def measured(trials: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """Return the trials of one cell; Untestable where there are none.

    Its message names the levels that were never measured, or all of them where each
    was, but not together.
    """
    rows = select(trials, cell)
    if rows.empty:
        lacking = {k: v for k, v in cell.items() if select(trials, {k: v}).empty}
        raise Untestable(f"not measured here: {cell_text(lacking or cell)}")
    return rows


def usable(
    trials: pd.DataFrame, cell: Cell, metric: str, overlook: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the trials of a cell that count and have a value of a metric.

    Of a published table every row counts. Gates to `overlook` leave no trial out: what
    they flag is what the claim is about. Untestable without such trials.
    """
    rows = measured(trials, cell)
    if metric not in rows:
        raise Untestable(f"no usable trial of {cell_text(cell)}")
    good = rows[metric].notna()
    if "ok" in rows:
        good &= rows["ok"] | failed_only(rows, overlook)
    if not good.any():
        failures = rows["failure"].dropna() if "failure" in rows else []
        why = f": {failures.iloc[0]}" if len(failures) else ""
        raise Untestable(f"no usable trial of {cell_text(cell)}{why}")
    return rows[good]
