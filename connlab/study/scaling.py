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
from scipy.optimize import least_squares

from connlab.study.interval import LEVEL, Interval, sample
from connlab.variances import TRIALS_MIN

MIN_LEVELS = 6
"""Three parameters need at least so many different N."""

_METHOD = "bootstrap over blocks"
_STEPS = 200


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
    """Least squares for (α, β, γ); γ is scaled inside so that steps compare."""
    scale = float(np.max(x / n))
    weight = 1 / x if relative else np.full(len(x), 1 / float(np.mean(x)))

    def residuals(p):
        return (usl_throughput(n, p[0], p[1], p[2] * scale) - x) * weight

    starts = [(0.01, 1e-4, 1.0), (0.3, 1e-3, 1.0), (0.0, 0.0, 1.0)]
    bounds = ([0, 0, 1e-9], [np.inf, np.inf, np.inf])
    fits = [
        least_squares(
            residuals,
            np.maximum(s, [1e-6, 1e-9, 1e-6]),
            bounds=bounds,
            x_scale=[0.1, 1 / n.max() ** 2, 1.0],
            xtol=1e-12,
            ftol=1e-12,
        )
        for s in starts
    ]
    p = min(fits, key=lambda f: f.cost).x
    return np.array([p[0], p[1], p[2] * scale])


def _fit_again(n, x, counts, relative, start) -> np.ndarray:
    """Return the fits of all resamples at once, shape (resamples, 3).

    Levenberg and Marquardt's steps within the bounds of `_fit`: a parameter stays at
    its bound while its gradient leads out. `counts`: how often each resample drew each
    trial.
    """
    gamma = start[2]
    weight = counts * (1 / x**2 if relative else 1 / np.mean(x) ** 2)
    p = np.tile([start[0], start[1], 1.0], (len(counts), 1))
    lowest = np.array([0.0, 0.0, 1e-9])
    cost, slope, curve = _squares(n, x, weight, gamma, p)
    damping = np.full(len(p), 1e-3)
    for _ in range(_STEPS):
        stuck = (p <= lowest) & (slope > 0)
        free = ~stuck[:, :, None] & ~stuck[:, None, :]
        diagonal = curve * np.eye(3)
        damped = np.where(free, curve + damping[:, None, None] * diagonal, 0.0)
        damped += np.eye(3) * (stuck[:, :, None] | (diagonal == 0))
        step = np.linalg.solve(damped, np.where(stuck, 0.0, -slope)[:, :, None])
        tried = np.maximum(p + step[:, :, 0], lowest)
        moved, up, bend = _squares(n, x, weight, gamma, tried)
        better = moved < cost
        gained = np.where(better, cost - moved, 0.0)
        p = np.where(better[:, None], tried, p)
        slope = np.where(better[:, None], up, slope)
        curve = np.where(better[:, None, None], bend, curve)
        cost = np.where(better, moved, cost)
        damping = np.clip(np.where(better, damping / 5, damping * 5), 1e-9, 1e9)
        if (gained <= 1e-12 * cost).all() and (better | (damping > 1e3)).all():
            break
    return p * [1, 1, gamma]


def _squares(n, x, weight, gamma, p) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums of squares, half their gradients, and half Gauss's Hessians."""
    a, b, g = (p[:, k, None] for k in range(3))
    denominator = 1 + a * (n - 1) + b * n * (n - 1)
    fitted = g * gamma * n / denominator
    to_a = -fitted * (n - 1) / denominator
    to_b = -fitted * n * (n - 1) / denominator
    jacobian = np.stack([to_a, to_b, fitted / g], axis=2)
    residual = fitted - x
    weighted = jacobian * weight[:, :, None]
    return (
        (weight * residual**2).sum(axis=1),
        np.einsum("rtk,rt->rk", weighted, residual),
        np.einsum("rtk,rtl->rkl", weighted, jacobian),
    )


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
