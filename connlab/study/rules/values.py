"""One cell: the value that it has, and the pool that serves it best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from connlab.studies import pools
from connlab.study.finding import (
    Finding,
    cell_text,
    select,
    unmeasured,
    untestable,
)
from connlab.study.formatting import number_text
from connlab.study.frames import usable
from connlab.study.interval import t_interval
from connlab.study.metrics import metric as metric_of


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
        return unmeasured(frame, arm)
    good = usable(cell, metric) if metric in cell else cell.iloc[:0]
    if len(good) < 2:
        return untestable(f"fewer than 2 usable trials of {cell_text(arm)}")
    found = t_interval(good[metric].to_numpy())
    unit = metric_of(metric).unit
    if not found.determined:
        return replace(untestable(found.note), effect=found, unit=unit)
    if at_least <= found.lo and found.hi <= at_most:
        return Finding("holds", "the interval lies within the bounds", found, unit)
    if found.hi < at_least or found.lo > at_most:
        return Finding("does not hold", "the interval lies outside", found, unit)
    return Finding("not testable here", "the interval crosses a bound", found, unit)


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
        return unmeasured(frame, arm)
    found = pools.knee(cell, along=along)
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
    if ratio.hi < pools.NEARLY:
        return Finding("does not hold", why, ratio)
    if ratio.lo < pools.NEARLY or not found.ends:
        open_ = "too wide to tell" if found.ends else growing
        return Finding("not testable here", f"{why}: {open_}", ratio)
    if found.halved is not None and found.halved.lo >= pools.NEARLY:
        why = f"{predicted}; {found.half} workers serve as much as the best pool"
        return Finding("does not hold", why, found.halved)
    return Finding("holds", why, ratio)
