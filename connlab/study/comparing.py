"""Two cells: the ratio of their means, and the word that it allows.

    trials of two arms -> ratio with interval -> TOST -> faster / slower /
                                             indistinguishable / undetermined

Where the arms took turns under one client, the ratio is the geometric mean of what
their rounds gave (`compare_logs`); else it is a ratio of means (never a mean of
ratios), paired by block where blocks pair the arms. "Indistinguishable" has to be
shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import stats as st

from connlab.study.interval import LEVEL, Interval, sample, undetermined
from connlab.study.turns import MARGIN, geometric_mean

Word = Literal["faster than", "slower than", "indistinguishable from", "undetermined"]


def fieller(
    y: Sequence[float], x: Sequence[float], *, level: float = LEVEL
) -> Interval:
    """Interval of mean(y) / mean(x) for two independent samples.

    With h² = t²·S²/n of each arm (t with the arm's own n − 1 degrees), the
    bounds are the roots of (Y − ρX)² = h_y² + ρ²·h_x².

    Parameters
    ----------
    y, x : sequence of float
        Trials of the numerator and of the denominator.
    level : float
        Confidence level.

    Returns
    -------
    Interval
        `value` is the ratio of the means (never a mean of ratios).
        Undetermined when the denominator's own interval reaches zero, where
        any ratio would be compatible with the data, or an arm has n < 2.

    References
    ----------
    Fieller, J. R. Stat. Soc. B 16 (1954); Kalibera & Jones, ISMM 2013.
    """
    b, a = sample(y), sample(x)
    n = min(len(a), len(b))
    method = "Fieller, arms independent"
    if n < 2:
        return _no_ratio(b, a, method, level, "each arm needs 2 trials")
    h2 = [_half_width(s, level) ** 2 for s in (b, a)]
    return _fieller_roots(b, a, h2[0], h2[1], 0.0, n, method, level)


def ratio_paired(
    y: Sequence[float], x: Sequence[float], *, level: float = LEVEL
) -> Interval:
    """Interval of mean(y) / mean(x) when trial i of both shares a block.

    The set of ratios ρ for which a t test on y_i − ρ·x_i does not reject: it
    is exact for normal trials, uses that a slow minute slows both arms, and
    estimates the same ratio of means as `fieller`. With work and seconds as
    `y` and `x` it is the interval of a rate: total work / total time.

    Parameters
    ----------
    y, x : sequence of float, shape (n,)
        Numerator and denominator, one pair per block.
    level : float
        Confidence level.

    Returns
    -------
    Interval
        Undetermined for n < 2 or a denominator not clearly apart from zero.
    """
    b, a = sample(y), sample(x)
    if len(a) != len(b):
        raise ValueError(f"y has {len(b)} trials and x {len(a)}: pairs need as many")
    method = "Fieller, paired by block"
    n = len(a)
    if n < 2:
        return _no_ratio(b, a, method, level, "pairs from 2 blocks are needed")
    t2 = st.t.ppf((1 + level) / 2, n - 1) ** 2 / n
    syy, sxx = b.var(ddof=1), a.var(ddof=1)
    sxy = float(np.cov(b, a)[0, 1])
    return _fieller_roots(b, a, t2 * syy, t2 * sxx, t2 * sxy, n, method, level)


def ratio_of_means(
    y: Sequence[float], x: Sequence[float], *, paired: bool, level: float = LEVEL
) -> Interval:
    """Interval of mean(y) / mean(x): `ratio_paired` or `fieller`.

    Parameters
    ----------
    y, x : sequence of float
        Numerator and denominator.
    paired : bool
        Whether trial i of both shares a block.
    level : float
        Confidence level.
    """
    return (ratio_paired if paired else fieller)(y, x, level=level)


def _half_width(a: np.ndarray, level: float) -> float:
    """Half the t interval of the mean of `a`."""
    t = st.t.ppf((1 + level) / 2, len(a) - 1)
    return float(t * a.std(ddof=1) / math.sqrt(len(a)))


def _fieller_roots(b, a, vyy, vxx, vxy, n, method, level) -> Interval:
    """Solve (Y − ρX)² = vyy − 2ρ·vxy + ρ²·vxx for ρ."""
    top, bottom = float(b.mean()), float(a.mean())
    square = bottom**2 - vxx
    if square <= 1e-12 * bottom**2 or bottom == 0:
        why = "the interval of the denominator reaches zero"
        return _no_ratio(b, a, method, level, why)
    half = top * bottom - vxy
    root = math.sqrt(max(half**2 - square * (top**2 - vyy), 0.0))
    lo, hi = (half - root) / square, (half + root) / square
    return Interval(top / bottom, float(lo), float(hi), n, level, method)


def _no_ratio(b, a, method, level, why) -> Interval:
    """Return an undetermined ratio that still carries its point estimate."""
    ok = len(a) and len(b) and a.mean() != 0
    value = float(b.mean() / a.mean()) if ok else math.nan
    short = b if len(b) < len(a) else a
    return undetermined(short, value=value, method=method, level=level, note=why)


def ratio_p_value(y: Sequence[float], x: Sequence[float], *, paired: bool) -> float:
    """Two-sided p that the means are equal: t over pairs, else Welch's t.

    What `holm` corrects. Not a number when an arm has n < 2.
    """
    b, a = sample(y), sample(x)
    if min(len(a), len(b)) < 2:
        return math.nan
    return _t_p(b, a, paired, "two-sided")


def _t_p(b: np.ndarray, a: np.ndarray, paired: bool, side: str) -> float:
    """P of a t test of mean(b) against mean(a); exact ties give 0 or 1."""
    gap = b - a if paired else None
    spread = np.ptp(gap) if paired else max(np.ptp(b), np.ptp(a))
    scale = max(abs(b.mean()), abs(a.mean()), 1e-300)
    if spread <= 1e-12 * scale:
        return _p_of_a_sure_gap(b.mean() - a.mean(), 1e-12 * scale, side)
    if paired:
        return float(st.ttest_rel(b, a, alternative=side).pvalue)
    return float(st.ttest_ind(b, a, equal_var=False, alternative=side).pvalue)


def _p_of_a_sure_gap(gap: float, tiny: float, side: str) -> float:
    """P of a difference that does not vary at all."""
    if abs(gap) <= tiny:
        return 1.0 if side == "two-sided" else 0.5
    true = {"two-sided": True, "greater": gap > 0, "less": gap < 0}[side]
    return 0.0 if true else 1.0


@dataclass(frozen=True)
class Equivalence:
    """Outcome of two one-sided tests."""

    equivalent: bool
    p: float
    """The larger of the two one-sided p; not a number when undetermined."""
    margin: float
    bounds: tuple[float, float]
    """The ratio has to be shown to lie between these."""
    alpha: float


def tost(
    y: Sequence[float],
    x: Sequence[float],
    *,
    paired: bool,
    margin: float = MARGIN,
    alpha: float = 0.05,
) -> Equivalence:
    """Test whether mean(y) / mean(x) is shown to be within ± `margin` of 1.

    "No difference" is not the absence of a significant difference: two
    noisy means are never significantly different. Here the burden is the
    other way round: both "the ratio is at or under 1 / (1 + margin)" and "at
    or over 1 + margin" must be rejected. The bounds are reciprocal, so that
    the verdict on a / b is the verdict on b / a.

    Parameters
    ----------
    y, x : sequence of float
        Trials of both arms; as many in each when `paired`.
    paired : bool
        Whether trial i of both shares a block (else Welch's test).
    margin : float
        How much difference does not matter, above 0.
    alpha : float
        Level of each one-sided test.

    References
    ----------
    Schuirmann, J. Pharmacokin. Biopharm. 15 (1987); Sasabuchi, Biometrika
    67 (1980) for the ratio.
    """
    if margin <= 0:
        raise ValueError(f"margin is {margin}: it has to be above 0")
    b, a = sample(y), sample(x)
    bounds = (1 / (1 + margin), 1 + margin)
    if min(len(a), len(b)) < 2 or a.mean() <= 0:
        return Equivalence(False, math.nan, margin, bounds, alpha)
    above = _t_p(b, bounds[0] * a, paired, "greater")
    below = _t_p(b, bounds[1] * a, paired, "less")
    p = max(above, below)
    return Equivalence(p < alpha, p, margin, bounds, alpha)


@dataclass(frozen=True)
class Comparison:
    """One arm against another: the effect, and the word that it allows."""

    word: Word
    ratio: Interval
    """mean(y) / mean(x)."""
    equivalence: Equivalence
    p: float
    """Two-sided p of "equal means", uncorrected."""
    better: Literal["lower", "higher"]
    rule: str
    p_adjusted: float | None = None
    """After Holm, where the comparison belongs to a family."""

    def corrected(
        self, p_adjusted: float, alike: float, *, alpha: float = 0.05
    ) -> Comparison:
        """Return this comparison as a member of a family.

        A word becomes "undetermined" when the corrected p of the test that it
        rests on is not under `alpha`: that of the difference for "faster" and
        "slower", that of the equivalence for "indistinguishable from".

        Parameters
        ----------
        p_adjusted : float
            `p` after Holm, among the differences of the family.
        alike : float
            The p of `equivalence` after Holm, among those of the family.
        alpha : float
        """
        same = self.word == "indistinguishable from"
        p, test = (alike, "TOST p") if same else (p_adjusted, "p")
        return replace(
            self,
            p_adjusted=p_adjusted,
            word=self.word if p < alpha else "undetermined",
            rule=self.rule + f"; Holm-corrected {test} {p:.2g}",
        )


def compare(
    y: Sequence[float],
    x: Sequence[float],
    *,
    better: Literal["lower", "higher"],
    paired: bool,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> Comparison:
    """Say whether `y` is faster than, slower than or as fast as `x`.

    1. Within ± `margin` by `tost`: "indistinguishable from", even where the
       interval leaves out 1 (a difference that is sure, and too small).
    2. The interval of the ratio leaves out 1: "faster than" or "slower than".
    3. Else "undetermined": too few or too noisy trials to say either.

    Parameters
    ----------
    y, x : sequence of float
        Trials of the two arms, of a positive quantity.
    better : {"lower", "higher"}
        "lower" for times and costs, "higher" for rates.
    paired : bool
        Whether trial i of both shares a block.
    margin, level
        See `tost` and `ratio_paired`.
    """
    if better not in ("lower", "higher"):
        raise ValueError(f"better is {better!r}: it has to be 'lower' or 'higher'")
    ratio = ratio_of_means(y, x, paired=paired, level=level)
    same = tost(y, x, paired=paired, margin=margin, alpha=1 - level)
    p = ratio_p_value(y, x, paired=paired)
    return _worded(ratio, same, p, better, margin)


def _worded(
    ratio: Interval, same: Equivalence, p: float, better: str, margin: float
) -> Comparison:
    """Return a comparison with the word that its interval and its tests allow."""
    test = f"{ratio.method}; margin ±{margin:.0%}"
    if not ratio.determined:
        word, why = "undetermined", ratio.note
    elif same.equivalent:
        word, why = "indistinguishable from", f"TOST p {same.p:.2g}"
    elif ratio.contains(1.0):
        word, why = "undetermined", "the interval holds 1 and TOST does not reject"
    else:
        lower = ratio.hi < 1
        word = "faster than" if lower == (better == "lower") else "slower than"
        why = "the interval of the ratio leaves out 1"
    return Comparison(word, ratio, same, p, better, f"{test}: {why}")


def compare_logs(
    logs: Sequence[float],
    *,
    better: Literal["lower", "higher"],
    margin: float = MARGIN,
    level: float = LEVEL,
) -> Comparison:
    """Say what log ratios of trials that took turns show; `compare` on the log scale.

    Parameters
    ----------
    logs : sequence of float
        log(y / x) of each trial, from its rounds.
    better, margin, level
        See `compare`.
    """
    a = sample(logs)
    ratio = geometric_mean(np.exp(a), level=level)
    bounds = (1 / (1 + margin), 1 + margin)
    p = alike = math.nan
    if ratio.determined:
        p = _t_p_of_logs(a, 0.0, "two-sided")
        above = _t_p_of_logs(a, math.log(bounds[0]), "greater")
        below = _t_p_of_logs(a, math.log(bounds[1]), "less")
        alike = max(above, below)
    same = Equivalence(alike < 1 - level, alike, margin, bounds, 1 - level)
    return _worded(ratio, same, p, better, margin)


def _t_p_of_logs(a: np.ndarray, shift: float, side: str) -> float:
    if np.ptp(a) == 0:
        return _p_of_a_sure_gap(float(a[0] - shift), 0.0, side)
    return float(st.ttest_1samp(a, shift, alternative=side).pvalue)


def holm(p: Sequence[float]) -> np.ndarray:
    """Adjust p values of a family so that any false alarm stays rare (Holm, 1979).

    The function of statsmodels collects garbage at each call: 70 ms beside a run's
    frames. Values that are not a number stay so and do not count as members.

    Returns
    -------
    ndarray, shape (len(p),)
    """
    p = np.asarray(p, dtype=float)
    adjusted = np.full(p.shape, math.nan)
    known = np.isfinite(p)
    if known.any():
        rising = np.argsort(p[known])
        factors = np.arange(known.sum(), 0, -1)
        worst_yet = np.maximum.accumulate(p[known][rising] * factors)
        adjusted[np.flatnonzero(known)[rising]] = np.minimum(1, worst_yet)
    return adjusted
