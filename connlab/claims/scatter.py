"""How much cells scatter, and which factor moves a metric more."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats as st

from connlab.claims.finding import Finding, Untestable, effect_of, usable
from connlab.claims.ratios import LIMITED, Expected, judge_ratio
from connlab.intervals import TRIALS_MIN, client_bound
from connlab.study.formatting import counted
from connlab.study.frames import Cell
from connlab.study.interval import Interval
from connlab.study.scaling import resample_blocks
from connlab.variances import LEVEL

_RESAMPLES = 2000


def steadier(
    trials: pd.DataFrame, *, metric: str, arm: Cell, baseline: Cell
) -> Finding:
    """Judge whether trials of one cell scatter less, relative to their mean.

    The effect is the ratio of standard deviations of the logarithm, which for a
    scatter of a few percent are coefficients of variation. Its interval allows for the
    tails of the trials (`_ratio_of_scatters`).
    """
    sides = [usable(trials, cell, metric) for cell in (arm, baseline)]
    if any(client_bound(side, metric) for side in sides):
        raise Untestable("the client was the bottleneck, whose scatter it would be")
    logs = [np.log(side[metric].to_numpy(dtype=float)) for side in sides]
    if min(map(len, logs)) < TRIALS_MIN:
        raise Untestable(f"a scatter needs {TRIALS_MIN} trials of each cell")
    if min(map(np.ptp, logs)) == 0:
        raise Untestable("the trials of a cell are all alike")
    ratio = _ratio_of_scatters(*logs)
    of = f"scatter of {effect_of(arm, baseline)}"
    return Finding(*judge_ratio(ratio, Expected("less", margin=0)), ratio, of=of)


def _ratio_of_scatters(y: np.ndarray, x: np.ndarray) -> Interval:
    """Return sd(y) / sd(x) of two samples, whatever the weight of their tails.

    An F test believes in normal trials: of two that scatter alike with the tails of
    Student's t at 3 degrees of freedom, it tells 18 % of pairs of 7 trials and 27 % of
    those of 20 apart. Here, where it is 6 % at most, the error of log variances follows
    from the kurtosis that both share (Bonett, Applied Psychological Measurement 30,
    2006).
    """
    z = float(st.norm.ppf((1 + LEVEL) / 2))
    kurtosis = _shared_kurtosis(y, x)
    error = math.sqrt(sum(_variance_of_log(len(a), kurtosis) for a in (y, x)))
    small = math.log((1 - z / len(x)) / (1 - z / len(y)))  # 0 for equal numbers
    log = math.log(y.var(ddof=1) / x.var(ddof=1))
    lo, hi = (math.exp((log + small + side * error) / 2) for side in (-z, z))
    n = min(len(y), len(x))
    return Interval(math.exp(log / 2), lo, hi, n, LEVEL, "Bonett over logs of trials")


def _variance_of_log(n: int, kurtosis: float) -> float:
    """Return the variance of the logarithm of the variance of n trials."""
    return (kurtosis - (n - 3) / n) / (n - 1)


def _shared_kurtosis(*samples: np.ndarray) -> float:
    """Return the kurtosis of several samples around their trimmed means."""
    fourth = sum(float(((a - _trimmed_mean(a)) ** 4).sum()) for a in samples)
    second = sum(float(((a - a.mean()) ** 2).sum()) for a in samples)
    return sum(map(len, samples)) * fourth / second**2


def _trimmed_mean(a: np.ndarray) -> float:
    """Return the mean of the middle; of five trials and fewer it is the median."""
    if len(a) <= 5:
        return float(np.median(a))
    return float(st.trim_mean(a, 0.5 / math.sqrt(len(a) - 4)))


def outweighs(
    trials: pd.DataFrame,
    *,
    metric: str,
    factor: str,
    other: str,
    arm: Cell | None = None,
    cores: int = 1,
) -> Finding:
    """Judge whether one factor moves a metric more than another.

    1. Every level of one factor needs trials with every level of the other: else means
       of levels would be over unlike cells.
    2. The effect is the ratio of the two factors' sums of squares (main effects on the
       logarithm of the metric, cells balanced by their means).
    3. Its interval is a bootstrap over blocks (`connlab.study.scaling`), of those
       resamples in which every cell has a trial.
    4. Where the client was the bottleneck of a cell, not even a bound of the ratio is
       known.
    5. A factor such as the number of workers has nothing to tune on fewer than so many
       `cores` of the server.
    6. The scatter of trials moves the means of levels as well, those of the factor with
       more levels more. The verdict takes it off both spreads (`_less_chance`).
    """
    if not {factor, other} <= set(trials.columns):
        raise Untestable(f"not measured here: {factor} against {other}")
    good = usable(trials, arm or {}, metric).dropna(subset=[factor, other])
    if cores > 1 and (most := good["server_cores"].max()) < cores:
        had = counted(int(most), "core")
        raise Untestable(f"the server had {had}, where {factor} change little")
    if good[factor].nunique() < 2 or good[other].nunique() < 2:
        raise Untestable(f"one level only of {factor} or {other}")
    cells = [cell for _, cell in good.groupby([factor, other])]
    all_cells = good[factor].nunique() * good[other].nunique()
    if len(cells) < all_cells:
        empty = counted(all_cells - len(cells), "cell")
        raise Untestable(f"{empty} of {all_cells} without a usable trial")
    if good["block"].nunique() < TRIALS_MIN:
        raise Untestable(f"resampling blocks needs {TRIALS_MIN} of them")
    sums, counts = _by_block_and_cell(good, metric, factor, other)
    ratio = _ratio_of_squares(sums, counts)
    if not ratio.determined:
        raise Untestable(ratio.note or "the other factor moves nothing")
    of = f"spread over {factor} against spread over {other}s"
    if bound := sum(client_bound(cell, metric) for cell in cells):
        raise Untestable(f"{LIMITED}{bound} of {all_cells} cells", ratio, of=of)
    known = _less_chance(ratio, sums, counts)
    verdict, why = judge_ratio(known, Expected("more", margin=0))
    if not ratio.contains(1) and known.contains(1):
        why = "chance may move the means of levels by as much"
    return Finding(verdict, why, ratio, of=of)


def _by_block_and_cell(
    good: pd.DataFrame, metric: str, factor: str, other: str
) -> np.ndarray:
    """Return sums of the logarithm, and counts: 2 × blocks × levels × other levels."""
    factors = [pd.factorize(good[key]) for key in ("block", factor, other)]
    cell = tuple(codes for codes, _ in factors)
    table = np.zeros((2, *(len(levels) for _, levels in factors)))
    np.add.at(table[0], cell, np.log(good[metric].to_numpy(dtype=float)))
    np.add.at(table[1], cell, 1)
    return table


def _ratio_of_squares(sums: np.ndarray, counts: np.ndarray) -> Interval:
    """Return sum of squares of levels over that of other levels, with its interval."""
    drawn, tail = resample_blocks(len(sums), _RESAMPLES, seed=1)
    resampled = []
    for chosen in drawn:
        n = counts[chosen].sum(axis=0)
        if n.all():
            resampled.append(_squares(sums[chosen].sum(axis=0) / n))
    ratio = _squares(sums.sum(axis=0) / counts.sum(axis=0))
    source = len(sums), LEVEL, "bootstrap over blocks"
    if len(resampled) < _RESAMPLES / 10:
        note = "hardly any choice of blocks holds every cell"
        return Interval(ratio, math.nan, math.nan, *source, note)
    lo, hi = np.nanquantile(resampled, [tail, 1 - tail])
    return Interval(ratio, float(lo), float(hi), *source)


def _squares(means: np.ndarray) -> float:
    """Return the variance of row means over that of column means."""
    rows, columns = (means.mean(axis=axis).var() for axis in (1, 0))
    return float(rows / columns) if columns > 0 else math.nan


def _less_chance(ratio: Interval, sums: np.ndarray, counts: np.ndarray) -> Interval:
    """Return bounds of a ratio of squares that chance cannot have put on one side of 1.

    The means of I levels over J others have a variance of s² (1 − 1 / I) / (J n) by the
    scatter s of n trials alone, and so have those that are resampled once more. With 3
    and 12 levels of which none has an effect, bounds without this were on one side of 1
    in seven of ten sweeps.
    """
    means = sums.sum(axis=0) / counts.sum(axis=0)
    levels, others = means.shape
    noise = _scatter_of_trials(sums, counts) * float((1 / counts.sum(axis=0)).mean())
    by_level = 2 * noise * (1 - 1 / levels) / others
    by_other = 2 * noise * (1 - 1 / others) / levels
    least = 1 - by_level / means.mean(axis=1).var()
    most = 1 - by_other / means.mean(axis=0).var()
    hi = ratio.hi / most if most > 0 else math.inf
    return replace(ratio, lo=ratio.lo * max(least, 0.0), hi=hi)


def _scatter_of_trials(sums: np.ndarray, counts: np.ndarray) -> float:
    """Return the variance of trials beside the means of their cells and blocks."""
    there = counts > 0
    off = np.where(there, sums / np.where(there, counts, 1), np.nan)
    off = off - np.nanmean(off, axis=0)
    off = off - np.nanmean(off, axis=(1, 2), keepdims=True)
    blocks, *shape = there.shape
    df = int(there.sum()) - blocks - math.prod(shape) + 1
    return float(np.nansum(off**2)) / df if df > 0 else math.inf
