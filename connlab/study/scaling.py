"""The Universal Scalability Law: how throughput grows, and when it stops.

    X(N) = γ·N / (1 + α·(N − 1) + β·N·(N − 1))

γ is what one unit does alone, α the share that has to queue for something
common, β what it costs that everyone has to agree with everyone. With β = 0
there is a ceiling (Amdahl); with β > 0 there is a peak, and beyond it more
makes it slower.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats as st
from scipy.optimize import OptimizeResult, least_squares

from connlab.study.interval import Interval, sample
from connlab.variances import LEVEL, TRIALS_MIN

MIN_LEVELS = 6
"""Three parameters need at least so many different N."""

_METHOD = "bootstrap over blocks"


@dataclass(frozen=True)
class UslFit:
    """A fitted scalability law."""

    alpha: Interval
    beta: Interval
    gamma: Interval
    peak: Interval | None
    """N of the highest throughput; None when no peak is shown."""
    residuals: pd.DataFrame = field(repr=False)
    """Columns n, throughput, fitted, residual (relative to fitted)."""

    def predict(self, n: Sequence[float]) -> np.ndarray:
        """Throughput at `n`, shape of `n`."""
        found = self.alpha.value, self.beta.value, self.gamma.value
        return usl_throughput(np.asarray(n, dtype=float), *found)


def usl_throughput(
    n: np.ndarray, alpha: float, beta: float, gamma: float
) -> np.ndarray:
    """Throughput that the law gives at `n`."""
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


def resample_blocks(
    blocks: int, resamples: int, *, seed: int
) -> tuple[np.ndarray, float]:
    """Draw whole blocks for a bootstrap: trials of a block share what disturbed them.

    1. One block fewer is drawn than there is, which gives the means their unbiased
       variance.
    2. Percentiles of what is resampled are the bounds, as far out as Student's t
       reaches for so many blocks. Without 1 and 2 the intervals of three to six
       trials cover 70 to 90 % instead of 95 %; with them those of four, beyond the
       outermost of which no resample lies, still cover 88 %, those of five 92 %.

    Rao & Wu, JASA 83 (1988) for step 1; Hesterberg, The American Statistician 69
    (2015) for step 2. Returned are the blocks drawn, of shape (resamples, blocks − 1),
    and the share of resamples beyond either bound.
    """
    degrees = max(blocks - 1, 1)
    drawn = np.random.default_rng(seed).integers(blocks, size=(resamples, degrees))
    return drawn, float(st.norm.cdf(st.t.ppf((1 - LEVEL) / 2, degrees)))


def usl_fit(
    n: Sequence[float],
    throughput: Sequence[float],
    *,
    blocks: Sequence[int],
    relative: bool = False,
    resamples: int = 1000,
    seed: int = 1,
) -> UslFit:
    """Fit the law to trials, with bootstrap intervals.

    1. Least squares with α, β ≥ 0 and γ > 0.
    2. The same on resampled blocks (`resample_blocks`), whose percentiles are the
       intervals.

    Parameters
    ----------
    n, throughput : sequence of float, shape (trials,)
        Cores, workers or clients of a trial, and its requests per second.
    blocks : sequence of int, shape (trials,)
        Block of each trial; fewer than four bound nothing.
    relative : bool
        Weigh residuals by 1 / throughput, for noise that grows with it.
    resamples, seed
        Bootstrap samples, seed.

    Returns
    -------
    UslFit
        The n of an interval is that of blocks. `peak` is None when β's interval holds 0
        or the peak lies outside of the N measured.

    Raises
    ------
    ValueError
        With fewer than six different N.

    References
    ----------
    Gunther, Guerrilla Capacity Planning (2007).
    """
    n, x = sample(n), sample(throughput)
    levels = len(np.unique(n))
    if len(n) != len(x):
        raise ValueError(f"{len(n)} values of n and {len(x)} of throughput")
    if levels < MIN_LEVELS:
        raise ValueError(f"{levels} different n: the fit needs {MIN_LEVELS}")
    if n.min() <= 0 or x.min() <= 0:
        raise ValueError("n and throughput have to be above 0")
    best = _fit(n, x, relative)
    labels = np.asarray(blocks)
    rows = [np.flatnonzero(labels == block) for block in np.unique(labels)]
    drawn, tail = resample_blocks(len(rows), resamples, seed=seed)
    trials = [np.concatenate([rows[i] for i in chosen]) for chosen in drawn]
    counts = np.array([np.bincount(drawn, minlength=len(n)) for drawn in trials])
    boot = _fit_again(n, x, counts, relative, best)
    return _describe(n, x, best, boot, tail, len(rows))


def _fit(n, x, relative) -> np.ndarray:
    """Least squares for (α, β, γ), the best from three starts."""
    every = np.ones(len(n))
    starts = [(0.01, 1e-4, 1.0), (0.3, 1e-3, 1.0), (0.0, 0.0, 1.0)]
    unit = [1, 1, float(np.max(x / n))]
    fits = [_fit_from(np.multiply(s, unit), n, x, every, relative) for s in starts]
    return min(fits, key=lambda fit: fit.cost).x * unit


def _fit_from(start, n, x, counts, relative) -> OptimizeResult:
    """Fit from a start, in units of its γ so that steps compare.

    `counts`: how often each trial counts, as a resample draws some more than once.
    """
    weight = np.sqrt(counts) / (x if relative else np.mean(x))

    def residuals(p):
        return (usl_throughput(n, p[0], p[1], p[2] * start[2]) - x) * weight

    return least_squares(
        residuals,
        np.maximum([start[0], start[1], 1.0], [1e-6, 1e-9, 1e-6]),
        bounds=([0, 0, 1e-9], np.inf),
        x_scale=[0.1, 1 / n.max() ** 2, 1.0],
        xtol=1e-12,
        ftol=1e-12,
    )


def _fit_again(n, x, counts, relative, start) -> np.ndarray:
    """Return the fits of all resamples, shape (resamples, 3)."""
    fits = [_fit_from(start, n, x, drawn, relative).x for drawn in counts]
    return np.array(fits) * [1, 1, start[2]]


def _describe(n, x, best, boot, tail, blocks) -> UslFit:
    few = blocks < TRIALS_MIN
    note = f"{blocks} blocks: resampling them needs {TRIALS_MIN}" if few else ""
    lo, hi = np.quantile(boot, [tail, 1 - tail], axis=0)
    zero = np.array([1e-4, 1e-3 / n.max() ** 2, 0.0])
    lo = np.where(lo < zero, 0.0, lo)
    if few:
        lo, hi = np.full((2, 3), math.nan)
    a, b, g = (
        Interval(*map(float, bounds), blocks, LEVEL, _METHOD, note)
        for bounds in zip(best, lo, hi, strict=True)
    )
    peak = _peak(n, best, boot, b, tail)
    fitted = usl_throughput(n, *best)
    table = pd.DataFrame(
        {"n": n, "throughput": x, "fitted": fitted, "residual": x / fitted - 1}
    ).sort_values("n", ignore_index=True)
    return UslFit(a, b, g, peak, table)


def _peak(n, best, boot, beta, tail) -> Interval | None:
    """Where throughput peaks: sqrt((1 − α) / β), if that is shown."""
    if not (beta.determined and beta.lo > 0):
        return None
    peaks = np.sqrt(np.maximum(1 - boot[:, 0], 0) / np.maximum(boot[:, 1], 1e-300))
    value = math.sqrt(max(1 - best[0], 0) / best[1])
    if not n.min() <= value <= n.max():
        return None
    lo, hi = np.quantile(peaks, [tail, 1 - tail])
    return Interval(value, float(lo), float(hi), beta.n, beta.level, _METHOD)
