"""Rules that turn trials into a verdict on a claim.

    trials of a study + a rule's own words -> effect, interval, verdict, reason

Each rule is a small function of a frame and of what the ledger says to look at. A
claim is never called false: conditions differ, and an interval may be too wide to
say anything. What a rule may answer is in `VERDICTS`, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from connlab.study import sizing
from connlab.study.cells import is_bound, mostly_client_bound, pair
from connlab.study.comparing import (
    MARGIN,
    Equivalence,
    ratio_of_means,
    tost,
)
from connlab.study.formatting import counted, in_best_unit, listing, number_text
from connlab.study.frames import failed_only, speaking, usable
from connlab.study.interval import LEVEL, Interval, t_interval
from connlab.study.metrics import client_matters
from connlab.study.metrics import metric as metric_of

Verdict = Literal["holds", "holds in part", "does not hold", "not testable here"]
VERDICTS: tuple[Verdict, ...] = (
    "holds",
    "holds in part",
    "does not hold",
    "not testable here",
)

_RESAMPLES = 2000


class RuleError(ValueError):
    """A rule was given words that it does not understand."""


@dataclass(frozen=True)
class Finding:
    """What a rule found.

    `effect` is the number that the verdict rests on, in `unit` ("ratio" for a ratio);
    None where the verdict rests on a count of cells. `why` is one clause, fit for a
    table.
    """

    verdict: Verdict
    why: str
    effect: Interval | None = None
    unit: str = "ratio"
    parts: tuple[Finding, ...] = field(default=())

    @property
    def effect_text(self) -> str:
        """The effect with its interval, or an empty text."""
        if self.effect is None:
            return ""
        if self.unit == "ratio":
            return "×\u202f" + number_text(self.effect)
        return number_text(*in_best_unit(self.effect, self.unit))


def untestable(why: str) -> Finding:
    """Return the finding of a rule that could not be applied."""
    return Finding("not testable here", why)


# ---- selecting -----------------------------------------------------------------


def _cell_text(cell: Mapping[str, Any]) -> str:
    return ", ".join(_level_text(k, v) for k, v in cell.items() if v is not None)


def _level_text(column: str, level: Any) -> str:
    if isinstance(level, list):
        return " or ".join(_level_text(column, one) for one in level)
    return level if isinstance(level, str) else f"{column.replace('_', ' ')} {level}"


def select(frame: pd.DataFrame, cell: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials of one cell; empty where the study has no such factor.

    A list allows several levels; None wants trials for which nothing was said.
    """
    chosen = pd.Series(True, index=frame.index)
    for column, wanted in cell.items():
        if column not in frame:
            return frame.iloc[:0]
        values = wanted if isinstance(wanted, list) else [wanted]
        found = frame[column].isna() if wanted is None else frame[column].isin(values)
        chosen &= found
    return frame[chosen]


def _sides(frame, metric, arm, baseline):
    """Return the usable trials of two cells, or why they cannot be compared."""
    sides = []
    for cell in (arm, baseline):
        every = select(frame, cell)
        if every.empty:
            return None, f"not measured here: {_cell_text(cell)}"
        good = speaking(every, metric) if metric in every else every.iloc[:0]
        if len(good) < 2:
            reasons = every["failure"].dropna()
            why = f": {reasons.iloc[0]}" if len(reasons) else ""
            return None, f"fewer than 2 usable trials of {_cell_text(cell)}{why}"
        distorted = client_matters(metric) and mostly_client_bound(good)
        if distorted and not is_bound(good, metric):
            return None, _SATURATED + _cell_text(cell)
        sides.append(good)
    return sides, ""


_SATURATED = "the client was the bottleneck of "


# ---- the rules -----------------------------------------------------------------


def compare(
    frame: pd.DataFrame,
    *,
    metric: str,
    arm: Mapping[str, Any],
    baseline: Mapping[str, Any],
    expect: Literal["more", "less", "alike"],
    size: Sequence[float] | None = None,
    size_matters: bool = False,
    margin: float = MARGIN,
    overlook: Sequence[str] = (),
) -> Finding:
    """Compare two cells by the ratio of their means.

    1. The ratio's interval: paired by block where both cells share blocks, else
       Fieller.
    2. "alike" holds when TOST shows that the ratio lies within `margin` of 1; it does
       not hold when the interval lies outside. Between the two nothing can be said.
    3. "more" and "less" hold when the interval leaves out 1 on that side and, with
       `size`, touches that range of ratios; only the direction: in part, or not at
       all where `size_matters`. They do not hold when it leaves out 1 on the other
       side, nor when it holds 1 and leaves `size` out, nor when it holds 1 and TOST
       shows that the cells are alike. A direction alone holds in part where it is sure
       and TOST shows that the cells are alike: figures call such a pair
       indistinguishable.
    4. Where the client was the bottleneck of one cell, that server could only be
       better, so the ratio is a bound: what a larger (or smaller) one would still
       show is said, and nothing else.

    Parameters
    ----------
    metric : str
        A column of the frame.
    arm, baseline : mapping
        Column values that define the two cells; a list allows several levels.
    size : (low, high), optional
        Ratios that count as the published one.
    size_matters : bool
        Whether the size is what the claim says, so that a direction alone is not part
        of it.
    margin : float
        How far from 1 two means may be and still count as alike; see
        `connlab.study.comparing.tost`.
    overlook : sequence of str
        Gates that leave no trial out here: what they flag is what is asked.
    """
    asked = _Asked(expect, size, size_matters)
    sides, why = _sides(_overlooking(frame, overlook), metric, arm, baseline)
    if sides is None:
        return untestable(why)
    y, x, paired = _values(*sides, metric)
    ratio = ratio_of_means(y, x, paired=paired)
    if not ratio.determined:
        return replace(untestable(ratio.note), effect=ratio)
    bound = [is_bound(side, metric) for side in sides]
    if all(bound):
        return replace(untestable(_SATURATED + "both"), effect=ratio)
    same = tost(y, x, paired=paired, margin=margin)
    if any(bound):
        at_least = bound[0] == (metric_of(metric).better == "higher")
        found = _bounded(ratio, at_least, asked, same.bounds)
        why = f"{found[1]}: {_SATURATED}{_cell_text(arm if bound[0] else baseline)}"
        return Finding(found[0], why, ratio)
    if expect == "alike":
        return Finding(*_alike(ratio, same), ratio)
    return Finding(*_directed(ratio, asked, alike=same.equivalent), ratio)


@dataclass(frozen=True)
class _Asked:
    """What a claim says of a ratio: its direction and, perhaps, its size."""

    expect: Literal["more", "less", "alike"]
    size: Sequence[float] | None = None
    size_matters: bool = False

    def __post_init__(self) -> None:
        if self.expect not in ("more", "less", "alike"):
            raise RuleError(f"expect is {self.expect!r}: want more, less or alike")
        if self.size_matters and self.size is None:
            raise RuleError("size_matters is true, but there is no size")

    def leaves_out(self, ratio: Interval) -> bool:
        """Whether no ratio of the interval has the size that is claimed."""
        if self.size is None:
            return False
        low, high = self.size
        return ratio.lo > high or ratio.hi < low


def _overlooking(frame: pd.DataFrame, gates: Sequence[str]) -> pd.DataFrame:
    """Return the frame with those trials usable that failed none but these gates."""
    return frame.assign(ok=frame["ok"] | failed_only(frame, gates)) if gates else frame


def _values(arm: pd.DataFrame, base: pd.DataFrame, metric: str):
    """Pair by block when each block holds one trial of each; else all trials."""
    keys = ["block", "repeat"]
    if any(side.duplicated(keys).any() for side in (arm, base)):
        return arm[metric].to_numpy(), base[metric].to_numpy(), False
    return pair(arm, base, metric)


def _alike(ratio: Interval, same: Equivalence) -> tuple[Verdict, str]:
    if same.equivalent:
        return "holds", _SHOWN_ALIKE
    if ratio.hi < same.bounds[0] or ratio.lo > same.bounds[1]:
        return "does not hold", "the difference is beyond the margin"
    if not ratio.contains(1.0):
        return "not testable here", "a difference, which may lie within the margin"
    return "not testable here", "the interval is too wide to show likeness"


_SHOWN_ALIKE = "shown to be alike within the margin"


def _directed(ratio: Interval, asked: _Asked, *, alike: bool) -> tuple[Verdict, str]:
    other_size = asked.leaves_out(ratio)
    if ratio.contains(1.0):
        if alike and (asked.size is None or other_size):
            return "does not hold", _SHOWN_ALIKE
        if other_size:
            return "does not hold", "no difference is shown, and none of that size"
        return "not testable here", "the interval holds 1: no direction can be told"
    if (ratio.lo > 1) != (asked.expect == "more"):
        return "does not hold", "the difference has the other sign"
    if asked.size is None and alike:
        return "holds in part", f"same direction, but {_SHOWN_ALIKE}"
    if asked.size is None:
        return "holds", "same direction"
    if not other_size:
        return "holds", "same direction and size"
    verdict = "does not hold" if asked.size_matters else "holds in part"
    return verdict, "same direction, another size"


def _bounded(
    ratio: Interval, at_least: bool, asked: _Asked, bounds: tuple[float, float]
) -> tuple[Verdict, str]:
    """Judge a ratio that is only known to be at least so large, or at most."""
    words = "at least so large" if at_least else "at most so large"
    beyond = ratio.lo > 1 if at_least else ratio.hi < 1
    size, expect = asked.size, asked.expect
    if expect == "alike":
        far = ratio.lo > bounds[1] if at_least else ratio.hi < bounds[0]
        if far:
            return "does not hold", f"the difference is beyond the margin, {words}"
        return "not testable here", f"the ratio is a bound, {words}"
    past = size and (ratio.lo > size[1] if at_least else ratio.hi < size[0])
    if beyond and at_least != (expect == "more"):
        return "does not hold", "the difference has the other sign"
    if beyond and size is None:
        return "holds", f"same direction, {words}"
    if beyond and past:
        verdict = "does not hold" if asked.size_matters else "holds in part"
        return verdict, f"same direction, another size, {words}"
    if beyond:
        verdict = "not testable here" if asked.size_matters else "holds in part"
        return verdict, f"same direction, of the size only a bound is known, {words}"
    if past:
        return "does not hold", f"none of that size, {words}"
    return "not testable here", f"the ratio is a bound, {words}"


def survives(
    frame: pd.DataFrame,
    *,
    arm: Mapping[str, Any],
    along: str = "connections",
    passes: Sequence[int] = (),
    fails: Sequence[int] = (),
) -> Finding:
    """Say whether cells pass and fail where the claim says so.

    A cell passes when every trial of it kept all its connections and met no failure;
    it fails when none did. Levels that were not measured are said and left out.
    """
    right, wrong, mixed, missing = [], [], [], []
    for level, expected in [(n, True) for n in passes] + [(n, False) for n in fails]:
        cell = select(frame, {**arm, along: level})
        if cell.empty:
            missing.append(str(level))
            continue
        share = float(_kept_all(cell).mean())
        if share not in (0.0, 1.0):
            mixed.append(str(level))
        else:
            (right if (share == 1.0) == expected else wrong).append(str(level))
    return _census_finding(right, wrong, mixed, missing, along)


def _kept_all(cell: pd.DataFrame) -> pd.Series:
    kept = (cell["surviving"] == cell["connections"]) & cell["failure"].isna()
    return kept.fillna(False).astype(bool)


def _census_finding(right, wrong, mixed, missing, along) -> Finding:
    said = []
    for levels, words in [
        (right, "as claimed at"),
        (wrong, "otherwise at"),
        (mixed, "now so, now otherwise at"),
        (missing, "not measured at"),
    ]:
        if levels:
            said.append(f"{words} {listing(levels)}")
    why = f"{along}: {'; '.join(said)}"
    if not right and not wrong and not mixed:
        return untestable(why)
    if wrong and not right:
        return Finding("does not hold", why)
    whole = not (wrong or mixed or missing)
    return Finding("holds" if whole else "holds in part", why)


def outlasts(
    frame: pd.DataFrame,
    *,
    arm: Mapping[str, Any],
    baseline: Mapping[str, Any],
    along: str = "connections",
) -> Finding:
    """Say whether one cell holds at higher levels than another.

    What counts is the highest measured level at which every trial kept all its
    connections. Two that both hold at the highest level measured cannot be told apart.
    """
    most = []
    for cell in (arm, baseline):
        trials = select(frame, cell)
        if trials.empty:
            return untestable(f"not measured here: {_cell_text(cell)}")
        whole = _kept_all(trials).groupby(trials[along]).all()
        most.append(int(max(whole.index[whole], default=0)))
    top = int(frame[along].max())
    why = f"whole up to {most[0]} {along}, against {most[1]}"
    if most[0] == most[1]:
        why += " (the most that was tried)" if most[0] == top else ""
        return untestable(why)
    return Finding("holds" if most[0] > most[1] else "does not hold", why)


def published_rates(
    frame: pd.DataFrame,
    *,
    clients: str,
    times: Mapping[str, float],
    at_least: int,
    between: Sequence[float],
) -> Finding:
    """Say whether published times imply one rate, whatever the server and the load.

    In a closed loop throughput is clients / response time. `times` maps the columns of
    response times to seconds a unit. The effect is the mean rate over the published
    cells; its interval treats cells as trials, for want of any.
    """
    table = frame[frame[clients] >= at_least]
    rates = []
    for column, seconds in times.items():
        numbers = pd.to_numeric(table[column], errors="coerce")
        rates.append((table[clients] / (numbers * seconds)).dropna())
    every_rate = pd.concat(rates).to_numpy() if rates else np.array([])
    if len(every_rate) < 2:
        return untestable("fewer than 2 published cells")
    low, high = between
    inside = int(((every_rate >= low) & (every_rate <= high)).sum())
    why = f"{inside} of {len(every_rate)} published cells lie between the bounds"
    verdict: Verdict = "holds" if inside == len(every_rate) else "holds in part"
    if inside == 0:
        verdict = "does not hold"
    return Finding(verdict, why, t_interval(every_rate), "requests/s")


def all_true(frame: pd.DataFrame, *, column: str, arm: Mapping[str, Any]) -> Finding:
    """Say whether a column of yes and no is yes in every row.

    A row without an answer was not asked, and keeps the claim from holding whole.
    """
    answers = select(frame, arm)[column]
    asked = answers.dropna().astype(bool)
    if asked.empty:
        return untestable(f"nothing was asked: {_cell_text(arm)}")
    silent = len(answers) - len(asked)
    why = f"{int(asked.sum())} of {len(asked)} hold"
    why += f", {silent} not asked" if silent else ""
    if asked.all() and not silent:
        return Finding("holds", why)
    return Finding("holds in part" if asked.any() else "does not hold", why)


def value(
    frame: pd.DataFrame,
    *,
    metric: str,
    arm: Mapping[str, Any],
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> Finding:
    """Say whether the mean of a cell lies between two bounds, interval and all."""
    cell = select(frame, arm)
    if cell.empty:
        return untestable(f"not measured here: {_cell_text(arm)}")
    good = usable(cell, metric) if metric in cell else cell.iloc[:0]
    if len(good) < 2:
        return untestable(f"fewer than 2 usable trials of {_cell_text(arm)}")
    found = t_interval(good[metric].to_numpy())
    unit = metric_of(metric).unit
    if not found.determined:
        return replace(untestable(found.note), effect=found, unit=unit)
    if at_least <= found.lo and found.hi <= at_most:
        return Finding("holds", "the interval lies within the bounds", found, unit)
    if found.hi < at_least or found.lo > at_most:
        return Finding("does not hold", "the interval lies outside", found, unit)
    return Finding("not testable here", "the interval crosses a bound", found, unit)


def steadier(
    frame: pd.DataFrame,
    *,
    metric: str,
    arm: Mapping[str, Any],
    baseline: Mapping[str, Any],
    seed: int = 1,
) -> Finding:
    """Say whether trials of one cell scatter less, relative to their mean.

    The effect is the ratio of coefficients of variation, with a bootstrap interval
    over trials.
    """
    sides, why = _sides(frame, metric, arm, baseline)
    if sides is None:
        return untestable(why)
    if any(is_bound(side, metric) for side in sides):
        return untestable("the client was the bottleneck, whose scatter it would be")
    y, x = (side[metric].to_numpy(dtype=float) for side in sides)
    if min(len(y), len(x)) < 4:
        return untestable("a scatter needs 4 trials of each cell")
    if min(np.ptp(y), np.ptp(x)) == 0:
        return untestable("the trials of a cell are all alike")
    ratio = _ratio_of_scatters(y, x, seed)
    return Finding(*_directed(ratio, _Asked("less"), alike=False), ratio)


def _ratio_of_scatters(y: np.ndarray, x: np.ndarray, seed: int) -> Interval:
    """Return the ratio of coefficients of variation with percentile bounds.

    Bounds are members of the bootstrap distribution, not points between two of them as
    in scipy: a resample of one trial again and again has no scatter, and between a
    finite ratio and an infinite one there is no point.
    """

    def scatter(a: np.ndarray) -> np.ndarray:
        return a.std(ddof=1, axis=-1) / a.mean(axis=-1)

    def ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return scatter(a) / scatter(b)

    dice = np.random.default_rng(seed)
    drawn = [dice.choice(side, size=(_RESAMPLES, len(side))) for side in (y, x)]
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    lo, hi = np.nanquantile(ratio(*drawn), tails, method="inverted_cdf")
    n = min(len(y), len(x))
    found = float(ratio(y, x))
    return Interval(found, float(lo), float(hi), n, LEVEL, "bootstrap over trials")


def outweighs(
    frame: pd.DataFrame,
    *,
    metric: str,
    factor: str,
    other: str,
    arm: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> Finding:
    """Say whether one factor moves a metric more than another.

    1. Every level of one factor has to have trials with every level of the other:
       else means of levels would be over unlike cells.
    2. The effect is the ratio of the two factors' sums of squares (main effects on the
       logarithm of the metric, cells balanced by their means).
    3. Its interval is a bootstrap over blocks, of those resamples in which every cell
       has a trial.
    4. Where the client was the bottleneck of a cell, that cell is a bound, and of the
       ratio nothing is known, not even a bound.
    """
    every = select(frame, arm or {})
    if every.empty or not {factor, other} <= set(every.columns):
        return untestable(f"not measured here: {factor} against {other}")
    good = speaking(every, metric, [factor, other]).dropna(subset=[factor, other])
    if good[factor].nunique() < 2 or good[other].nunique() < 2:
        return untestable(f"one level only of {factor} or {other}")
    cells = dict(list(good.groupby([factor, other])))
    all_cells = good[factor].nunique() * good[other].nunique()
    if len(cells) < all_cells:
        without = counted(all_cells - len(cells), "cell")
        return untestable(f"{without} of {all_cells} without a usable trial")
    if good["block"].nunique() < 2:
        return untestable("fewer than 2 blocks")
    ratio = _ratio_of_squares(good, metric, factor, other, seed)
    if not ratio.determined:
        return untestable(ratio.note or "the other factor moves nothing")
    bound = sum(is_bound(cell, metric) for cell in cells.values())
    if bound:
        why = f"{_SATURATED}{bound} of {all_cells} cells"
        return replace(untestable(why), effect=ratio)
    return Finding(*_directed(ratio, _Asked("more"), alike=False), ratio)


def _ratio_of_squares(
    good: pd.DataFrame, metric: str, factor: str, other: str, seed: int
) -> Interval:
    """Return sum of squares of `factor` over that of `other`, with its interval."""
    sums, counts = _by_block(good, metric, factor, other)
    blocks, drawn = len(sums), []
    dice = np.random.default_rng(seed)
    for _ in range(_RESAMPLES):
        chosen = dice.integers(blocks, size=blocks)
        many = counts[chosen].sum(axis=0)
        if many.all():
            drawn.append(_squares(sums[chosen].sum(axis=0) / many))
    found = _squares(sums.sum(axis=0) / counts.sum(axis=0))
    method, low = "bootstrap over blocks", (1 - LEVEL) / 2
    if len(drawn) < _RESAMPLES / 10:
        note = "hardly any choice of blocks holds every cell"
        return Interval(found, math.nan, math.nan, blocks, LEVEL, method, note)
    lo, hi = np.nanquantile(drawn, [low, 1 - low])
    return Interval(found, float(lo), float(hi), blocks, LEVEL, method)


def _by_block(
    good: pd.DataFrame, metric: str, factor: str, other: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of the logarithm, and counts: blocks × levels × other levels."""
    found = [pd.factorize(good[key]) for key in ("block", factor, other)]
    where = tuple(codes for codes, _ in found)
    sums, counts = np.zeros((2, *(len(levels) for _, levels in found)))
    np.add.at(sums, where, np.log(good[metric].to_numpy(dtype=float)))
    np.add.at(counts, where, 1)
    return sums, counts


def _squares(means: np.ndarray) -> float:
    """Return how much rows vary over how much columns do, each by its means."""
    rows, columns = (means.mean(axis=axis).var() for axis in (1, 0))
    return float(rows / columns) if columns > 0 else math.nan


def published_busy(
    frame: pd.DataFrame,
    *,
    rate: str,
    delay_s: float,
    arm: Mapping[str, Any],
    between: Sequence[float],
) -> Finding:
    """Say how many workers a published rate kept busy, by Little's law.

    `frame` holds the published trials; busy workers = rate × mean delay. No new
    measurement enters.
    """
    cell = select(frame, arm)
    if len(cell) < 2:
        return untestable(f"not published: {_cell_text(arm)}")
    busy = t_interval(cell[rate].to_numpy(dtype=float) * delay_s)
    unit = "busy workers"
    low, high = between
    if low <= busy.lo and busy.hi <= high:
        return Finding("holds", "Little's law over the published trials", busy, unit)
    if busy.hi < low or busy.lo > high:
        return Finding("does not hold", "Little's law says otherwise", busy, unit)
    return Finding("holds in part", "the interval crosses a bound", busy, unit)


def best_pool(
    frame: pd.DataFrame, *, arm: Mapping[str, Any], along: str = "workers"
) -> Finding:
    """Say whether a pool of cores · (1 + wait / compute) workers serves as much as any.

    The prediction is made from small pools, whose workers are nearly all busy. It
    holds when the size measured that is nearest to it is shown to serve nearly as much
    as the best one, and half of it is not; larger pools than that have to be measured,
    unless it serves less than another even so. The effect is the throughput of that
    size over that of the best; of the half, where that is what speaks against it.
    """
    cell = select(frame, arm)
    if cell.empty:
        return untestable(f"not measured here: {_cell_text(arm)}")
    found = sizing.knee(cell, along=along)
    if found is None:
        return untestable("too few sizes of the pool, or none that is small")
    predicted = f"{number_text(found.predicted)} predicted"
    growing = f"it was still growing at {found.largest}, the largest pool"
    if not found.near:
        other = "no pool of about that size was measured"
        return untestable(f"{predicted}; {other if found.ends else growing}")
    best = "" if found.nearest == found.best else f"against {found.best}, "
    why = f"{predicted}; {found.nearest} workers, {best}the best pool"
    ratio = found.reached
    if not ratio.determined:
        return replace(untestable(ratio.note), effect=ratio)
    if ratio.hi < sizing.NEARLY:
        return Finding("does not hold", why, ratio)
    if ratio.lo < sizing.NEARLY or not found.ends:
        open_ = "too wide to tell" if found.ends else growing
        return Finding("not testable here", f"{why}: {open_}", ratio)
    if found.halved is not None and found.halved.lo >= sizing.NEARLY:
        why = f"{predicted}; {found.half} workers serve as much as the best pool"
        return Finding("does not hold", why, found.halved)
    return Finding("holds", why, ratio)


def every(frame: pd.DataFrame, *, parts: Sequence[Mapping[str, Any]]) -> Finding:
    """Apply several rules; the claim holds when all of them hold.

    Parts that could not be tested keep a claim from holding whole, not from holding
    in part. The effect shown is that of the first part that has one.
    """
    found = tuple(apply(frame, part) for part in parts)
    if not found:
        return untestable("no part")
    words = {part.verdict for part in found}
    if len(words) == 1:
        verdict = found[0].verdict
    elif words & {"holds", "holds in part"}:
        verdict = "holds in part"
    else:
        verdict = "does not hold"
    effect = next((f for f in found if f.effect is not None), found[0])
    return Finding(verdict, _added_up(found), effect.effect, effect.unit, found)


_IN_SUMS: dict[Verdict, str] = {
    "holds in part": "in part",
    "does not hold": "not",
    "not testable here": "not testable",
}
"""What a sum of parts says of those that do not hold."""


def _added_up(found: Sequence[Finding]) -> str:
    """Count parts by verdict; say why those that do not hold do not.

    Where parts of one verdict have several reasons, the first is said.
    """
    holding = sum(part.verdict == "holds" for part in found)
    said = [f"{holding} of {len(found)} parts hold"]
    for verdict, words in _IN_SUMS.items():
        reasons = [part.why for part in found if part.verdict == verdict]
        if reasons:
            first = "" if len(set(reasons)) == 1 else "first: "
            said.append(f"{len(reasons)} {words} ({first}{reasons[0]})")
    return ", ".join(said)


RULES: dict[str, Callable[..., Finding]] = {
    "compare": compare,
    "survives": survives,
    "outlasts": outlasts,
    "value": value,
    "steadier": steadier,
    "outweighs": outweighs,
    "published_busy": published_busy,
    "published_rates": published_rates,
    "best_pool": best_pool,
    "all_true": all_true,
    "every": every,
}


def apply(frame: pd.DataFrame, rule: Mapping[str, Any]) -> Finding:
    """Apply a rule as the ledger writes it: its name under ``rule``, then its words.

    Raises
    ------
    RuleError
        For an unknown rule, or words that it does not take.
    """
    words = dict(rule)
    name = words.pop("rule", None)
    if name not in RULES:
        raise RuleError(f"unknown rule {name!r} (known: {', '.join(RULES)})")
    try:
        return RULES[name](frame, **words)
    except TypeError as error:
        raise RuleError(f"rule {name}: {error}") from error
