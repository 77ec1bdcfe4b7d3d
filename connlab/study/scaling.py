"""The Universal Scalability Law: how throughput grows, and when it stops.

    X(N) = γ·N / (1 + α·(N − 1) + β·N·(N − 1))

γ is what one unit does alone, α the share that has to queue for something
common, β what it costs that everyone has to agree with everyone. With β = 0
there is a ceiling (Amdahl); with β > 0 there is a peak, and beyond it more
makes it slower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats as st
from scipy.optimize import least_squares

from connlab.study.interval import LEVEL, Interval, sample

MIN_LEVELS = 6
"""Three parameters need at least so many different N."""

MIN_BLOCKS = 4
"""Fewer blocks give too few different resamples to bound anything."""


@dataclass(frozen=True)
class UslFit:
    """A fitted scalability law."""

    alpha: Interval
    beta: Interval
    gamma: Interval
    peak: Interval | None
    """N of the highest throughput; None when no peak is shown."""
    verdict: str
    """One sentence about the peak."""
    residuals: pd.DataFrame = field(repr=False)
    """Columns n, throughput, fitted, residual (relative to fitted)."""

    def predict(self, n: Sequence[float]) -> np.ndarray:
        """Throughput at `n`, shape of `n`."""
        return usl_throughput(
            n, alpha=self.alpha.value, beta=self.beta.value, gamma=self.gamma.value
        )


def usl_throughput(
    n: Sequence[float], *, alpha: float, beta: float, gamma: float
) -> np.ndarray:
    """Throughput that the law gives at `n`."""
    n = np.asarray(n, dtype=float)
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


def usl_fit(
    n: Sequence[float],
    throughput: Sequence[float],
    *,
    blocks: Sequence[int] | None = None,
    relative: bool = False,
    level: float = LEVEL,
    resamples: int = 1000,
    seed: int = 1,
) -> UslFit:
    """Fit the law to trials, with bootstrap intervals.

    1. Least squares with α, β ≥ 0 and γ > 0.
    2. The same on resampled trials: within each N, or whole blocks at once
       when `blocks` is given, because trials of a block share their weather.
       One trial (block) fewer is drawn than there is, which gives the means
       their unbiased variance.
    3. Percentiles of the resampled parameters are the intervals, as far out
       as Student's t reaches for so many trials (blocks). Without 2 and 3 the
       intervals of three to six trials cover 70 to 90 % instead of 95 %.

    Parameters
    ----------
    n, throughput : sequence of float, shape (trials,)
        Cores, workers or clients of a trial, and its requests per second.
    blocks : sequence of int, shape (trials,), optional
        Block of each trial.
    relative : bool
        Weigh residuals by 1 / throughput, for noise that grows with it.
    level, resamples, seed
        Confidence level, bootstrap samples, seed.

    Returns
    -------
    UslFit
        `peak` is None and `verdict` says so when β's interval holds 0 or the
        peak lies outside of the N measured.

    Raises
    ------
    ValueError
        With fewer than six different N.

    References
    ----------
    Gunther, Guerrilla Capacity Planning (2007); Rao & Wu, JASA 83 (1988) for
    step 2; Hesterberg, The American Statistician 69 (2015) for step 3.
    """
    n, x = sample(n), sample(throughput)
    levels = len(np.unique(n))
    if len(n) != len(x):
        raise ValueError(f"{len(n)} values of n and {len(x)} of throughput")
    if levels < MIN_LEVELS:
        raise ValueError(f"{levels} different n: the fit needs {MIN_LEVELS}")
    if n.min() <= 0 or x.min() <= 0:
        raise ValueError("n and throughput have to be above 0")
    best = _fit(n, x, relative, None)
    rng = np.random.default_rng(seed)
    draws, degrees = _resampler(n, blocks, rng)
    boot = np.array(
        [_fit(n[i], x[i], relative, best) for i in (draws() for _ in range(resamples))]
    )
    tail = float(st.norm.cdf(st.t.ppf((1 - level) / 2, max(degrees, 1))))
    return _describe(n, x, best, boot, level, tail, _too_few(n, blocks))


def _fit(n, x, relative, start) -> np.ndarray:
    """Least squares for (α, β, γ); γ is scaled inside so that steps compare."""
    scale = float(np.max(x / n))
    weight = 1 / x if relative else np.full(len(x), 1 / float(np.mean(x)))

    def residuals(p):
        model = usl_throughput(n, alpha=p[0], beta=p[1], gamma=p[2] * scale)
        return (model - x) * weight

    if start is None:
        starts = [(0.01, 1e-4, 1.0), (0.3, 1e-3, 1.0), (0.0, 0.0, 1.0)]
    else:
        starts = [(start[0], start[1], start[2] / scale)]
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


def _too_few(n, blocks) -> str:
    """Why there is nothing to resample; empty when there is."""
    if blocks is not None and len(set(blocks)) < MIN_BLOCKS:
        return f"{len(set(blocks))} blocks: resampling them needs {MIN_BLOCKS}"
    if len(n) == len(np.unique(n)):
        return "one trial per level: nothing to resample"
    return ""


def _resampler(n, blocks, rng):
    """Return a function that draws one bootstrap sample, and its degrees."""
    if blocks is not None:
        labels = np.asarray(blocks)
        rows = [np.flatnonzero(labels == b) for b in np.unique(labels)]
        many = max(len(rows) - 1, 1)
        return lambda: np.concatenate(
            [rows[i] for i in rng.integers(len(rows), size=many)]
        ), many
    cells = [np.flatnonzero(n == v) for v in np.unique(n)]
    return lambda: np.concatenate(
        [rng.choice(c, size=max(len(c) - 1, 1)) for c in cells]
    ), len(n) - len(cells)


def _describe(n, x, best, boot, level, tail, why) -> UslFit:
    """Turn parameters and their bootstrap into intervals and a sentence."""
    lo, hi = np.quantile(boot, [tail, 1 - tail], axis=0)
    zero = np.array([1e-4, 1e-3 / n.max() ** 2, 0.0])
    lo = np.where(lo < zero, 0.0, lo)
    a, b, g = (
        Interval(
            float(best[k]),
            math.nan if why else float(lo[k]),
            math.nan if why else float(hi[k]),
            len(x),
            level,
            "bootstrap over trials",
            why,
        )
        for k in range(3)
    )
    peak, verdict = _peak(n, best, boot, b, tail)
    fitted = usl_throughput(n, alpha=best[0], beta=best[1], gamma=best[2])
    table = pd.DataFrame(
        {"n": n, "throughput": x, "fitted": fitted, "residual": x / fitted - 1}
    ).sort_values("n", ignore_index=True)
    return UslFit(a, b, g, peak, verdict, table)


def _peak(n, best, boot, beta, tail) -> tuple[Interval | None, str]:
    """Where throughput peaks: sqrt((1 − α) / β), if that is shown."""
    none = f"no peak within the measured range ({n.min():g} to {n.max():g})"
    if not beta.determined:
        return None, none + ": too few trials to bound β"
    if beta.lo <= 0:
        return None, none + ": the interval of β holds 0"
    where = np.sqrt(np.maximum(1 - boot[:, 0], 0) / np.maximum(boot[:, 1], 1e-300))
    value = math.sqrt(max(1 - best[0], 0) / best[1])
    lo, hi = np.quantile(where, [tail, 1 - tail])
    if value > n.max():
        return (
            None,
            none + f": the fit puts it at {value:.3g}, beyond what was measured",
        )
    if value < n.min():
        return None, none + ": the fit falls from the fewest on"
    peak = Interval(
        value, float(lo), float(hi), beta.n, beta.level, "bootstrap over trials"
    )
    return peak, f"throughput peaks at {value:.3g}"
