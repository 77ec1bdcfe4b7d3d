"""Moderated variances: the comparisons of one family inform each other's variance.

    log ratios of trials -> Fit each -> moderated -> the width that is printed

Both the rule that stops a sweep (`connlab.drive.stopping`) and the printed intervals
(`connlab.intervals`) use it: a sweep judged by other widths than the printed ones would
stop too late or too early.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from connlab.study.interval import Interval

LEVEL = 0.95
"""Confidence level unless another is asked for."""

TRIALS_MIN = 4
"""Trials without which there is no interval."""

FAMILY_MIN = 6
"""Comparisons that it takes to estimate the usual variance among them."""

TREND_MIN = 12
"""Comparisons that it takes to tell how the usual variance grows with the effect."""

LINE_MIN = 6
"""Trials without which no line is fitted to them: the degree of freedom that it takes
would widen the interval of fewer more than it narrows it."""

DF_GAIN = 3
"""How many times its own degrees of freedom a comparison has at most."""

_DF_INFINITE = 1e6


def level_of_each(comparisons: int) -> float:
    """Return the level of each interval by which so many hold at once (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(1, comparisons)


@dataclass(frozen=True)
class Fit:
    """A mean with its standard error and degrees of freedom.

    `worth` is how many values with nothing to adjust for would tell it as well: all `n`
    where there is nothing, which 0 stands for.
    """

    mean: float
    error: float
    df: float
    n: int
    worth: float = 0

    @classmethod
    def of(cls, x: Sequence[float], off: Sequence[float] = ()) -> Self:
        """Fit the mean of values; not a number without any.

        Where `LINE_MIN` values or more are `off` differently, what is fitted is a line
        through them by least squares, and the mean is where it has `off` zero (analysis
        of covariance: Cochran, Biometrics 13, 1957). `off` tells of each where a host
        had put our cores (`connlab.schema.placement`); it may be empty.
        """
        import numpy as np  # late: a first server starts before numpy is loaded

        y = np.asarray(x, dtype=float)
        n = len(y)
        mean = float(y.sum()) / n if n else math.nan
        if n < 2:
            return cls(mean, math.nan, n - 1, n)
        z = np.asarray(off, dtype=float)
        middle = float(z.sum()) / n
        spread = float(((z - middle) ** 2).sum()) if len(z) == n >= LINE_MIN else 0.0
        if not spread:
            squares = float(((y - mean) ** 2).sum())  # std() takes 4 × as long
            return cls(mean, math.sqrt(squares / (n - 1)) / math.sqrt(n), n - 1, n)
        slope = float(((z - middle) * (y - mean)).sum()) / spread
        rest = y - mean - slope * (z - middle)
        worth = 1 / (1 / n + middle**2 / spread)
        error = math.sqrt(float((rest**2).sum()) / (n - 2) / worth)
        return cls(mean - slope * middle, error, n - 2, n, worth)

    @property
    def variance(self) -> float:
        """The variance of one of the values."""
        return self.error**2 * (self.worth or self.n)

    @property
    def informative(self) -> bool:
        """Whether it informs the usual variance of its family."""
        return self.n >= TRIALS_MIN and self.error > 0

    @property
    def p(self) -> float:
        """Two-sided p of a mean of zero."""
        from scipy.special import stdtr

        if self.n < 2 or not math.isfinite(self.error):
            return math.nan
        if self.error == 0:
            return 0.0 if self.mean else 1.0
        return float(2 * stdtr(self.df, -abs(self.mean) / self.error))

    def reach(self, level: float) -> float:
        """Return the half-width of the interval at this level."""
        from scipy.special import stdtrit

        return float(stdtrit(self.df, (1 + level) / 2)) * self.error

    def interval(self, level: float, *, method: str, log: bool) -> Interval:
        """Return the interval of the mean; of logarithms (`log`) that of its exp."""
        import numpy as np

        from connlab.study.interval import Interval

        value = float(np.exp(self.mean)) if log else self.mean
        if self.n < TRIALS_MIN:
            note = f"an interval needs {TRIALS_MIN} trials"
            return Interval(value, math.nan, math.nan, self.n, level, method, note)
        bounds = self.mean - self.reach(level), self.mean + self.reach(level)
        lo, hi = map(math.exp, bounds) if log else bounds
        return Interval(value, float(lo), float(hi), self.n, level, method)


def moderated_by_cell(fits: Sequence[Fit], cells: Sequence[Hashable]) -> list[Fit]:
    """Return fits by one method, each `moderated` by those that scatter like it.

    Comparisons within a cell scatter alike rather than those at 1 and at 1000
    connections; cells with too few comparisons are put together.
    """
    informative = Counter(
        cell for cell, fit in zip(cells, fits, strict=True) if fit.informative
    )
    groups: dict[Hashable, list[int]] = {}
    for i, cell in enumerate(cells):
        enough = informative[cell] >= FAMILY_MIN
        groups.setdefault((cell,) if enough else "few", []).append(i)
    result = list(fits)
    for group in groups.values():
        for i, fit in zip(group, moderated([fits[i] for i in group]), strict=True):
            result[i] = fit
    return result


def moderated(fits: Sequence[Fit]) -> list[Fit]:
    """Return the fits of a family, each with its moderated variance.

    With four or five trials the variance of a comparison is hardly known, and its
    interval wide for that alone. Its neighbours were measured by the same client on
    the same machine: their variances, taken as draws from one distribution, are worth
    d0 degrees of freedom around a usual variance s0² (Smyth, Statistical Applications
    in Genetics and Molecular Biology 3 (1), 2004):

        (d0 s0² + d s²) / (d0 + d)    with d0 + d degrees of freedom

    What a machine does to a ratio, it does in proportion to it: servers that cost about
    the same scatter little, one that costs twice as much a lot. So s0² grows with the
    effect: log s0² by a slope times the root of the log ratio's size (a prior with a
    trend: Sartor et al., BMC Bioinformatics 7:538, 2006).

    The more the variances differ from it, the smaller d0: a mixed family stays as it
    is. Unlike there, no standard error shrinks, so that a comparison that scatters more
    than others keeps its width, and d0 counts up to twice d only. The intervals of
    simulated families of 6 to 80 comparisons over 4 to 12 trials then held all at once
    in 94 % and more (study 10).

    All fits are by one method. Those without an interval, or without any scatter,
    inform nothing; fewer than `FAMILY_MIN` others leave all as they are.
    """
    family = [f for f in fits if f.informative]
    if len(family) < FAMILY_MIN:
        return list(fits)
    slope = _slope(family) if len(family) >= TREND_MIN else 0.0
    flat = [f.variance / _trend(f, slope) for f in family]
    fitted = 2 if slope else 1
    usual, df = usual_variance(flat, [f.df for f in family], fitted=fitted)
    return [
        _shrunk(f, usual * _trend(f, slope), df) if f.n >= TRIALS_MIN else f
        for f in fits
    ]


def _trend(fit: Fit, slope: float) -> float:
    return math.exp(slope * math.sqrt(abs(fit.mean)))


def _slope(family: Sequence[Fit]) -> float:
    """Return by how much log s² grows with the root of the effect; never less than 0.

    By least squares. A mean is independent of its own variance's chance errors, so no
    comparison gets a narrow interval for having been lucky.
    """
    import numpy as np

    x = np.sqrt([abs(f.mean) for f in family])
    y = np.log([f.variance for f in family])
    return max(0.0, float(np.polyfit(x, y, 1)[0])) if np.ptp(x) > 0 else 0.0


def _shrunk(fit: Fit, variance: float, df: float) -> Fit:
    weight = df / (df + fit.df) if math.isfinite(df) else 1.0
    mixed = weight * variance + (1 - weight) * fit.variance
    error = max(fit.error, math.sqrt(mixed / (fit.worth or fit.n)))
    return replace(fit, error=error, df=fit.df + min(df, (DF_GAIN - 1) * fit.df))


def usual_variance(
    variances: Sequence[float], df: Sequence[float], *, fitted: int = 1
) -> tuple[float, float]:
    """Return the usual variance s0² of a family, and d0, the df that it is worth.

    By the moments of log s² (Smyth 2004, section 6.2). `variances` and `df` are those
    of each comparison, all above 0; `fitted` counts the parameters of log s0² that they
    told (itself, and a trend's). d0 is infinite where the variances differ no more than
    by chance.
    """
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import digamma, zeta

    trigamma = partial(zeta, 2)
    half = np.asarray(df, dtype=float) / 2
    logs = np.log(variances) - digamma(half) + np.log(half)
    excess = logs.var(ddof=fitted) - trigamma(half).mean()
    if excess <= trigamma(_DF_INFINITE / 2):
        return float(np.exp(logs.mean())), math.inf
    half_df = brentq(lambda x: trigamma(x) - excess, 1e-6, _DF_INFINITE)
    variance = np.exp(logs.mean() + digamma(half_df) - np.log(half_df))
    return float(variance), 2 * half_df
