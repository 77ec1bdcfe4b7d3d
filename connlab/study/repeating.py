"""Repetition: where the noise comes from, how much of it, and when to stop.

windows in trials in sessions -> variance components -> repetitions
trials in the order they ran  -> drift
"stop when it is narrow"      -> what that does to coverage
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats as st

from connlab.study.interval import LEVEL, Interval, sample


@dataclass(frozen=True)
class VarianceComponents:
    """Variance that each level of a nested design adds, innermost first."""

    mean: float
    levels: tuple[str, ...]
    components: dict[str, float]
    """Variance by level; zero where the estimate came out negative."""
    counts: dict[str, float]
    """Harmonic mean of the units of this level inside one unit above it."""

    @property
    def shares(self) -> dict[str, float]:
        """Each component as a share of all variance."""
        total = sum(self.components.values())
        return {k: v / total if total else 0.0 for k, v in self.components.items()}


def variance_components(
    frame: pd.DataFrame, value: str, *, nesting: Sequence[str], innermost: str
) -> VarianceComponents:
    """Split the variance of `value` over nested levels of repetition.

    1. S² of a level: the variance of its units around the mean of the unit
       that holds them, averaged over those.
    2. A unit's mean carries S²/n of the level below; that is taken off.

    For balanced data this is the analysis-of-variance estimate; unequal
    counts enter through their harmonic mean.

    Parameters
    ----------
    frame : DataFrame
        One row per innermost measurement (a window of a trial, say).
    value : str
        The measured column.
    nesting : sequence of str
        Columns of the levels above a row, outermost first: ["session",
        "trial"] for windows inside trials inside sessions.
    innermost : str
        What a row is called: "window".

    Raises ValueError where no unit of a level stands beside another one: how much
    that level scatters cannot be told then.

    References
    ----------
    Kalibera & Jones, Rigorous benchmarking in reasonable time, ISMM 2013.
    """
    if not nesting:
        raise ValueError("nesting is empty: name at least the column of the trial")
    sample(frame[value])
    units, counts, spread = frame[value], {}, {}
    keys = [frame[c] for c in nesting]
    names = [innermost, *reversed(nesting)]
    for depth, name in enumerate(names):
        above = keys[: len(keys) - depth]
        grouped = units.groupby(above) if above else units.groupby(lambda _: 0)
        counted = grouped.count()
        if counted.max() < 2:
            where = f"each {above[-1].name}" if above else "all"
            raise ValueError(f"one {name} in {where}; allowed: 2 or more in one")
        counts[name] = float(st.hmean(counted))
        spread[name] = float(grouped.var(ddof=1).mean())
        units = grouped.mean()
        keys = [units.index.get_level_values(i) for i in range(len(above))]
    added, inner = {}, 0.0
    for name in names:
        added[name] = max(spread[name] - inner, 0.0)
        inner = spread[name] / counts[name]
    return VarianceComponents(float(units.iloc[0]), tuple(names), added, counts)


def recommended_repetitions(
    components: VarianceComponents, costs: Mapping[str, float]
) -> dict[str, float]:
    """How many units of each level to run inside one unit of the next.

    m* = sqrt( (cost of a new outer unit / cost of an inner unit) · (variance
    within / variance between) ): the split that gives the narrowest interval
    for the time. Infinite where the outer level adds no variance.

    Parameters
    ----------
    components : VarianceComponents
    costs : mapping of str to float
        Seconds that one more unit of each level costs by itself: a window its
        length; a trial its start, warm-up and stop.

    Returns
    -------
    dict of str to float
        By level, without the outermost; at least 1.
    """
    best = {}
    for inner, outer in zip(components.levels, components.levels[1:], strict=False):
        within, between = components.components[inner], components.components[outer]
        if between == 0:
            best[inner] = math.inf
            continue
        best[inner] = max(math.sqrt(costs[outer] / costs[inner] * within / between), 1)
    return best


def trials_needed(x: Sequence[float], *, relative_half_width: float) -> int:
    """Trials that a t interval of this spread needs to be so narrow.

    Parameters
    ----------
    x : sequence of float
        A pilot of at least 2 trials.
    relative_half_width : float
        Wanted half-width / mean.
    """
    a = sample(x)
    if len(a) < 2 or a.mean() == 0 or relative_half_width <= 0:
        raise ValueError("a pilot of 2 trials, a mean and a width above 0 are needed")
    cv = a.std(ddof=1) / abs(a.mean())
    n = np.arange(2, 1_000_001)
    wide = st.t.ppf((1 + LEVEL) / 2, n - 1) * cv / np.sqrt(n) > relative_half_width
    return int(n[np.argmin(wide)]) if not wide.all() else len(n)


@dataclass(frozen=True)
class Drift:
    """How a metric moved while a sweep ran."""

    change: Interval
    """Relative change from first to last trial (0.02: 2 % more at the end)."""
    p: float
    """Kendall's test of "no trend"."""
    drifting: bool
    residuals: pd.DataFrame = field(repr=False)
    """Columns position (0 … 1), residual (value / cell median − 1)."""


def drift(frame: pd.DataFrame, value: str, *, cell: Sequence[str], time: str) -> Drift:
    """Test whether a metric moved over a sweep, whatever the cell.

    1. Each trial is put in relation to the median of its own cell.
    2. Trials are lined up by `time`, from 0 (first) to 1 (last).
    3. Kendall's τ tests for a trend; Theil and Sen's slope says how much.

    Ranks and medians, so that one bad trial is no drift.

    Parameters
    ----------
    frame : DataFrame
        One row per trial; cells of a single trial carry no information and
        are left out.
    value : str
        The metric.
    cell : sequence of str
        Columns that define a cell.
    time : str
        Column that orders the trials (number or time stamp).
    """
    sample(frame[value])
    by_cell = frame.groupby(list(cell))[value]
    residual = frame[value] / by_cell.transform("median") - 1
    repeated = by_cell.transform("size") > 1
    rank = frame.loc[repeated, time].rank(method="first") - 1
    position = rank / max(len(rank) - 1, 1)
    points = pd.DataFrame({"position": position, "residual": residual[repeated]})
    points = points.sort_values("position", ignore_index=True)
    x, y = points["position"], points["residual"]
    source = len(points), LEVEL, "Theil–Sen"
    if len(points) < 4 or np.ptp(y) == 0:
        note = "a trend needs 4 trials that differ"
        unknown = Interval(y.mean(), math.nan, math.nan, *source, note)
        return Drift(unknown, math.nan, False, points)
    p = float(st.kendalltau(x, y).pvalue)
    slope = st.theilslopes(y, x, alpha=LEVEL)
    bounds = slope.slope, slope.low_slope, slope.high_slope
    change = Interval(*map(float, bounds), *source)
    return Drift(change, p, p < 1 - LEVEL, points)
