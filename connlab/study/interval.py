"""One cell: a number with its uncertainty, from one value per trial.

    trials -> t, bootstrap or order statistics -> Interval

The default for a mean is t; the bootstrap stands beside it where trials are
skewed; order statistics serve medians and quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
