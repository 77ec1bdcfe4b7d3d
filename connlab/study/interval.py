"""One cell: a number with its uncertainty, from one value per trial.

    trials -> t, bootstrap or order statistics -> Interval

The default for a mean is t; the bootstrap stands beside it where trials are
skewed; order statistics serve medians and quantiles.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats as st

LEVEL = 0.95
"""Confidence level unless another is asked for."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its bounds and where they come from.

    `lo` and `hi` are not a number when the bounds cannot be had; `note` then
    says why. An interval whose trials are all alike has lo = hi.
    """

    value: float
    lo: float
    hi: float
    n: int
    level: float
    method: str
    note: str = ""

    @property
    def determined(self) -> bool:
        """Whether both bounds are known."""
        return math.isfinite(self.lo) and math.isfinite(self.hi)

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds."""
        return (self.hi - self.lo) / 2

    @property
    def relative_half_width(self) -> float:
        """Half-width / |value|; not a number for a value of 0."""
        return self.half_width / abs(self.value) if self.value else math.nan

    def contains(self, x: float) -> bool:
        """Whether `x` lies within the bounds; False when undetermined."""
        return self.lo <= x <= self.hi

    def scaled(self, factor: float) -> Interval:
        """Return the interval in another unit; `factor` has to be above 0."""
        if not factor > 0:
            raise ValueError(f"factor is {factor}: it has to be above 0")
        return replace(
            self,
            value=self.value * factor,
            lo=self.lo * factor,
            hi=self.hi * factor,
        )


def undetermined(
    x: Sequence[float] | np.ndarray,
    *,
    method: str,
    level: float = LEVEL,
    note: str,
    value: float | None = None,
) -> Interval:
    """Return the estimate of `x` (its mean, or `value`) without bounds.

    Parameters
    ----------
    x : sequence of float
        The trials there are; may be empty.
    method, level
        What would have been computed.
    note : str
        Why there are no bounds.
    value : float, optional
        The point estimate when it is not the mean.
    """
    n = len(x)
    if value is None:
        value = float(np.mean(x)) if n else math.nan
    return Interval(value, math.nan, math.nan, n, level, method, note)


def sample(x: Sequence[float]) -> np.ndarray:
    """Return trials as a float array; refuse what is not a finite number.

    Raises
    ------
    ValueError
        When a value is missing or infinite: whoever left it in has to decide
        what a failed trial means, not the arithmetic.
    """
    a = np.asarray(x, dtype=float)
    if a.ndim != 1:
        raise ValueError(f"x has {a.ndim} dimensions: one number per trial is needed")
    bad = int(np.sum(~np.isfinite(a)))
    if bad:
        raise ValueError(f"{bad} of {len(a)} trials have no finite value")
    return a


def t_interval(x: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Interval of the mean of trials, by Student's t.

    The default for a mean: right for any n when trials are normal, and close
    to right for the mild skew of throughputs. `bca_interval` beside it shows
    when the skew is not mild.

    Parameters
    ----------
    x : sequence of float, shape (n,)
        One number per trial, finite.
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    Interval
        `value` is the arithmetic mean. Undetermined for n < 2.

    Examples
    --------
    >>> i = t_interval([9.0, 9.2, 9.4])
    >>> round(i.lo, 2), round(i.hi, 2)
    (8.7, 9.7)
    """
    a = sample(x)
    method = "t over trials"
    if len(a) < 2:
        return undetermined(
            a, method=method, level=level, note="an interval needs 2 trials"
        )
    mean = float(a.mean())
    half = st.t.ppf((1 + level) / 2, len(a) - 1) * a.std(ddof=1) / math.sqrt(len(a))
    return Interval(mean, mean - half, mean + half, len(a), level, method)


def bca_interval(
    x: Sequence[float],
    *,
    statistic: Callable = np.mean,
    level: float = LEVEL,
    resamples: int = 9999,
    seed: int = 1,
) -> Interval:
    """Bias-corrected and accelerated bootstrap interval over trials.

    For what is skewed. It follows the skew that t ignores, but with few
    trials it is too narrow (the appendix notebook simulates by how much), so
    it is shown beside t and does not replace it.

    Parameters
    ----------
    x : sequence of float, shape (n,)
        One number per trial.
    statistic : callable
        Takes an array and `axis`, like `numpy.mean`.
    level, resamples, seed
        Confidence level, bootstrap samples, seed of the resampling.

    Returns
    -------
    Interval
        Undetermined for n < 3. Trials that are all alike give lo = hi.

    References
    ----------
    Efron, Better bootstrap confidence intervals, JASA 82 (1987).
    """
    a = sample(x)
    method = "BCa bootstrap over trials"
    if len(a) < 3:
        return undetermined(
            a, method=method, level=level, note="a bootstrap needs 3 trials"
        )
    value = float(statistic(a, axis=0))
    if np.ptp(a) == 0:
        return Interval(value, value, value, len(a), level, method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", st.DegenerateDataWarning)
        ci = st.bootstrap(
            (a,),
            statistic,
            confidence_level=level,
            n_resamples=resamples,
            method="BCa",
            vectorized=True,
            rng=np.random.default_rng(seed),
        ).confidence_interval
    if not (math.isfinite(ci.low) and math.isfinite(ci.high)):
        note = "the resamples of these trials are degenerate"
        return undetermined(a, value=value, method=method, level=level, note=note)
    return Interval(value, float(ci.low), float(ci.high), len(a), level, method)


def quantile_interval(
    x: Sequence[float], q: float, *, level: float = LEVEL
) -> Interval:
    """Distribution-free interval of a quantile, from two order statistics.

    The number of trials below the true quantile is binomial whatever their
    distribution, so the exact coverage of each pair of ranks is known. The
    pair taken is the closest pair whose coverage reaches `level`; among
    equally close pairs, the one with the most even tails.

    Parameters
    ----------
    x : sequence of float, shape (n,)
        One number per trial.
    q : float
        Which quantile, in (0, 1).
    level : float
        Coverage to reach at least.

    Returns
    -------
    Interval
        Undetermined when no pair of ranks reaches `level`: the note says how
        many trials would (6 for a median, 299 for a 99th percentile).

    References
    ----------
    Le Boudec, Performance Evaluation of Computer and Communication Systems
    (2010), section 2.2; Hoefler & Belli, SC 2015.
    """
    a = np.sort(sample(x))
    if not 0 < q < 1:
        raise ValueError(f"q is {q}: a quantile lies between 0 and 1")
    name = "median" if q == 0.5 else f"quantile {q:g}"
    method = f"order statistics ({name})"
    value = float(np.quantile(a, q)) if len(a) else math.nan
    ranks = _ranks(len(a), q, level)
    if ranks is None:
        need = min_trials_for_quantile(q, level=level)
        note = f"an interval of this {name} needs {need} trials"
        return undetermined(a, value=value, method=method, level=level, note=note)
    lo, hi = a[ranks[0] - 1], a[ranks[1] - 1]
    return Interval(value, float(lo), float(hi), len(a), level, method)


def median_interval(x: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Distribution-free interval of the median: `quantile_interval` at 0.5."""
    return quantile_interval(x, 0.5, level=level)


def min_trials_for_quantile(q: float, *, level: float = LEVEL) -> int:
    """Fewest trials whose smallest and largest cover quantile `q`."""
    n = 2
    while 1 - q**n - (1 - q) ** n < level:
        n += 1
    return n


def _ranks(n: int, q: float, level: float) -> tuple[int, int] | None:
    """Closest ranks (from 1) that hold quantile `q` with chance >= `level`."""
    if n < 2:
        return None
    below = st.binom.cdf(np.arange(n), n, q)  # P(at most k trials are below)
    best = None
    for lo in range(1, n):
        miss_low = below[lo - 1]
        hi = int(np.searchsorted(below, level + miss_low - 1e-12)) + 1
        if hi > n:
            break
        score = (hi - lo, abs(miss_low - (1 - below[hi - 1])))
        if best is None or score < best[0]:
            best = (score, (lo, hi))
    return best[1] if best else None


@dataclass(frozen=True)
class Checks:
    """What a reader should know of a sample before trusting its interval."""

    n: int
    cv: float
    """Standard deviation / mean."""
    skew: float
    shapiro_p: float
    """Shapiro–Wilk p; not a number for n < 3 or trials all alike."""
    outliers: int
    """Trials beyond 3 interquartile ranges of the quartiles. Kept."""
    warnings: tuple[str, ...] = ()
