"""What a rule finds of a claim, and which trials the claim speaks of.

A claim is never called false: conditions differ, and an interval may be too wide to
say anything. What a rule may answer is in `VERDICTS`, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from connlab.intervals import client_bound
from connlab.study.formatting import in_best_unit, number_text
from connlab.study.frames import failed_only
from connlab.study.interval import Interval
from connlab.study.metrics import is_bounded_by_client
from connlab.study.metrics import metric as metric_of

Verdict = Literal["holds", "holds in part", "does not hold", "not testable here"]
VERDICTS: tuple[Verdict, ...] = (
    "holds",
    "holds in part",
    "does not hold",
    "not testable here",
)


class RuleError(ValueError):
    """A rule was given words that it does not understand."""


class Untestable(Exception):
    """A run cannot tell: why, and the effect that says too little, if there is one."""

    def __init__(self, why: str, effect: Interval | None = None, unit: str = "ratio"):
        super().__init__(why)
        self.finding = Finding("not testable here", why, effect, unit)


@dataclass(frozen=True)
class Finding:
    """What a rule found.

    `effect` is the number that the verdict rests on, in `unit` ("ratio" for a ratio);
    None where the verdict rests on a count of cells. `why` is one clause, fit for a
    table. `asked` are the ends between which a ratio counts as the claimed one.
    """

    verdict: Verdict
    why: str
    effect: Interval | None = None
    unit: str = "ratio"
    parts: tuple[Finding, ...] = field(default=())
    asked: tuple[float, float] | None = None

    @property
    def effect_text(self) -> str:
        """The effect with its interval, or an empty text."""
        if self.effect is None:
            return ""
        if self.unit == "ratio":
            return "×\u202f" + number_text(self.effect)
        return number_text(*in_best_unit(self.effect, self.unit))


@dataclass(frozen=True)
class Range:
    """What is known of a quantity: an interval, or one of its bounds alone."""

    lo: float
    hi: float

    def within(self, low: float, high: float) -> bool:
        """Whether all of it lies between two numbers."""
        return low <= self.lo and self.hi <= high

    def apart(self, low: float, high: float) -> bool:
        """Whether none of it lies between two numbers."""
        return self.lo > high or self.hi < low


def known(effect: Interval, metric: str, *limited: bool) -> Range:
    """Return what an interval says where a client was the bottleneck.

    That server could only be better: of a rate the interval's lower bound is left, of
    a time the upper one; of a ratio to a baseline that was limited, the other.

    Parameters
    ----------
    effect : Interval
    metric : str
    *limited : bool
        Whether the client limited the cell and, of a ratio, its baseline.
    """
    rises = metric_of(metric).better == "higher"
    opened = {(at == 0) == rises for at, bound in enumerate(limited) if bound}
    lo = -math.inf if False in opened else effect.lo
    return Range(lo, math.inf if True in opened else effect.hi)


def limits(trials: pd.DataFrame, metric: str) -> bool:
    """Whether the client bounded what the trials of a cell show of a metric."""
    return is_bounded_by_client(metric) and client_bound(trials)


def cell_text(cell: Mapping[str, Any]) -> str:
    """Name a cell by its levels, as tables do: ``epoll, connections 300``."""
    return ", ".join(_level_text(k, v) for k, v in cell.items() if v is not None)


def _level_text(column: str, level: Any) -> str:
    """A word says by itself what it is a level of, a number does not."""
    levels = [str(each) for each in (level if isinstance(level, list) else [level])]
    named = any(character.isdigit() for text in levels for character in text)
    name = f"{column.replace('_', ' ')} " if named and column != "model" else ""
    return name + " or ".join(levels)


def select(trials: pd.DataFrame, cell: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials of one cell; empty where the study has no such factor.

    A list allows several levels; None wants trials for which nothing was said.
    """
    chosen = pd.Series(True, index=trials.index)
    for column, wanted in cell.items():
        if column not in trials:
            return trials.iloc[:0]
        values = wanted if isinstance(wanted, list) else [wanted]
        levels = trials[column]
        chosen &= levels.isna() if wanted is None else levels.isin(values)
    return trials[chosen]


def measured(trials: pd.DataFrame, cell: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials of one cell.

    Raises
    ------
    Untestable
        Where there are none: it says which level lacks, or all of them where each was
        measured, but not all together.
    """
    found = select(trials, cell)
    if found.empty:
        alone = {k: v for k, v in cell.items() if select(trials, {k: v}).empty}
        raise Untestable(f"not measured here: {cell_text(alone or cell)}")
    return found


def usable(
    trials: pd.DataFrame,
    cell: Mapping[str, Any],
    metric: str,
    overlook: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the trials of a cell that count and have a value of a metric.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`, or a published table, of which every row counts.
    cell : mapping
        Column values.
    metric : str
    overlook : sequence of str
        Gates that leave no trial out here: what they flag is what is asked.

    Raises
    ------
    Untestable
        Where no trial is of the cell, or none counts.
    """
    found = measured(trials, cell)
    if metric not in found:
        raise Untestable(f"no usable trial of {cell_text(cell)}")
    good = found[metric].notna()
    if "ok" in found:
        good &= found["ok"] | failed_only(found, overlook)
    if not good.any():
        reasons = found["failure"].dropna() if "failure" in found else []
        why = f": {reasons.iloc[0]}" if len(reasons) else ""
        raise Untestable(f"no usable trial of {cell_text(cell)}{why}")
    return found[good]
