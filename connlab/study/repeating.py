"""Repetition: where the noise comes from, how much of it, and how it moves.

windows in trials             -> variance components -> windows a trial should have
a pilot                       -> trials for a width
trials in the order they ran  -> drift
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats as st

from connlab.study.interval import Interval, sample
from connlab.variances import LEVEL


@dataclass(frozen=True)
class VarianceComponents:
    """Variance of windows inside a trial, and what trials add beyond it."""

    mean: float
    window: float
    trial: float
    """Zero where the estimate came out negative."""
    windows: float
    """Harmonic mean of the windows of a trial."""


def variance_components(
    frame: pd.DataFrame, value: str, *, trial: str
) -> VarianceComponents:
    """Split the variance of `value` into that inside trials and that between them.

    1. S² of windows: their variance around the mean of their trial, averaged over
       trials.
    2. S² of trials: the variance of their means, which carry S²/n of the windows; that
       is taken off.

    For balanced data this is the analysis-of-variance estimate; unequal
    counts enter through their harmonic mean. The frame has a row per window, and a
    column `trial` that says of which.

    Raises ValueError without two windows in a trial, or two trials: how much these
    scatter cannot be told then.

    References
    ----------
    Kalibera & Jones, Rigorous benchmarking in reasonable time, ISMM 2013.
    """
    sample(frame[value])
    by_trial = frame.groupby(trial)[value]
    counts, means = by_trial.count(), by_trial.mean()
    for unit, most in (("window in each trial", counts.max()), ("trial", len(counts))):
        if most < 2:
            raise ValueError(f"one {unit}; allowed: 2 or more")
    window, windows = by_trial.var(ddof=1).mean(), st.hmean(counts)
    trials = max(means.var(ddof=1) - window / windows, 0.0)
    return VarianceComponents(*map(float, (means.mean(), window, trials, windows)))


def recommended_windows(
    components: VarianceComponents, *, window_s: float, trial_s: float
) -> float:
    """Return how many windows to run inside a trial, at least 1.

    m* = sqrt( (cost of a trial / cost of a window) · (variance within / variance
    between) ): the split that gives the narrowest interval for the time. Infinite
    where trials add no variance. In seconds, one more of each costs by itself: a window
    its length; a trial its start, warm-up and stop.
    """
    if components.trial == 0:
        return math.inf
    ratio = components.window / components.trial
    return max(math.sqrt(trial_s / window_s * ratio), 1)


def trials_needed(x: Sequence[float], *, relative_half_width: float) -> int:
    """Trials that a t interval needs to be so narrow, by a pilot of at least 2."""
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
    """Columns position (0 … 1), residual (value / median − 1)."""


def drift(x: Sequence[float]) -> Drift:
    """Test whether a metric moved over a sweep.

    1. Each trial is put in relation to the median of all.
    2. Trials stand at places from 0 (first) to 1 (last).
    3. Kendall's τ tests for a trend; Theil and Sen's slope says how much.

    Ranks and medians, so that one bad trial is no drift. `x` are the numbers of trials
    in the order in which these ran.
    """
    a = sample(x)
    position, residual = np.arange(len(a)) / max(len(a) - 1, 1), a / np.median(a) - 1
    points = pd.DataFrame({"position": position, "residual": residual})
    source = len(a), LEVEL, "Theil–Sen"
    if len(a) < 4 or np.ptp(residual) == 0:
        note = "a trend needs 4 trials that differ"
        unknown = Interval(residual.mean(), math.nan, math.nan, *source, note)
        return Drift(unknown, math.nan, False, points)
    p = float(st.kendalltau(position, residual).pvalue)
    slope = st.theilslopes(residual, position, alpha=LEVEL)
    bounds = slope.slope, slope.low_slope, slope.high_slope
    change = Interval(*map(float, bounds), *source)
    return Drift(change, p, p < 1 - LEVEL, points)
