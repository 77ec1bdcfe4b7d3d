"""One cell: the value that it has, and the pool that serves it best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from connlab.claims.finding import (
    Finding,
    Untestable,
    known,
    limits,
    measured,
    usable,
)
from connlab.intervals import interval
from connlab.studies import pools
from connlab.study.formatting import number_text
from connlab.study.metrics import metric as metric_of


def value(
    trials: pd.DataFrame,
    *,
    metric: str,
    arm: Mapping[str, Any],
    at_least: float = -math.inf,
    at_most: float = math.inf,
    times: float = 1.0,
    unit: str | None = None,
) -> Finding:
    """Say whether the mean of a cell lies between two bounds, interval and all.

    Where the client was the bottleneck, one bound of the interval is left: that can
    refute a claim as well as any.

    Parameters
    ----------
    metric : str
        A column of the trials, or of a published table.
    times : float
        What its values are multiplied by: with a mean delay a rate becomes the number
        of busy workers (Little's law).
    unit : str, optional
        Of the product; by default the metric's own.
    """
    good = usable(trials, arm, metric)
    effect = interval(good[metric] * times)
    unit = metric_of(metric).unit if unit is None else unit
    if not effect.determined:
        raise Untestable(effect.note or "no interval", effect, unit)
    limited = "label" in good and limits(good, metric)
    mean = known(effect, metric, limited)
    if mean.within(at_least, at_most):
        return Finding("holds", "the interval lies within the bounds", effect, unit)
    if mean.apart(at_least, at_most):
        return Finding("does not hold", "the interval lies outside", effect, unit)
    raise Untestable("the interval crosses a bound", effect, unit)


def best_pool(
    trials: pd.DataFrame, *, arm: Mapping[str, Any], along: str = "workers"
) -> Finding:
    """Say whether a pool of cores · (1 + wait / compute) workers serves as much as any.

    The prediction is made from small pools, whose workers are nearly all busy. It
    holds when the size measured that is nearest to it is shown to serve nearly as much
    as the best one, and half of it is not; larger pools than that have to be measured,
    unless it serves less than another even so. The effect is the throughput of that
    size over that of the best; of the half, where that is what speaks against it.
    """
    found = pools.knee(measured(trials, arm), along=along)
    if found is None:
        raise Untestable("too few sizes of the pool, or none that is small")
    predicted = f"{number_text(found.predicted)} predicted"
    growing = f"it was still growing at {found.largest}, the largest pool"
    if not found.near:
        other = "no pool of about that size was measured"
        raise Untestable(f"{predicted}; {other if found.ends else growing}")
    best = "" if found.nearest == found.best else f"against {found.best}, "
    why = f"{predicted}; {found.nearest} workers, {best}the best pool"
    ratio = found.reached
    if not ratio.determined:
        raise Untestable(ratio.note, ratio)
    if ratio.hi < pools.NEARLY:
        return Finding("does not hold", why, ratio)
    if ratio.lo < pools.NEARLY or not found.ends:
        open_ = "too wide to tell" if found.ends else growing
        raise Untestable(f"{why}: {open_}", ratio)
    if found.halved is not None and found.halved.lo >= pools.NEARLY:
        why = f"{predicted}; {found.half} workers serve as much as the best pool"
        return Finding("does not hold", why, found.halved)
    return Finding("holds", why, ratio)
