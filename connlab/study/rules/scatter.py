"""How much cells scatter, and which factor moves a metric more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from connlab.study.cells import is_bound
from connlab.study.finding import Finding, select, untestable
from connlab.study.formatting import counted
from connlab.study.frames import speaking
from connlab.study.interval import LEVEL, Interval
from connlab.study.rules.ratios import SATURATED, Asked, directed, sides_of

_RESAMPLES = 2000


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
    sides, why = sides_of(frame, metric, arm, baseline)
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
    return Finding(*directed(ratio, Asked("less"), alike=False), ratio)


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
        why = f"{SATURATED}{bound} of {all_cells} cells"
        return replace(untestable(why), effect=ratio)
    return Finding(*directed(ratio, Asked("more"), alike=False), ratio)


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
