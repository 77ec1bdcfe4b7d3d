"""One cell: the value that it has, what it counts, and the pool that serves it best."""

import math

import pandas as pd

from connlab.claims.finding import (
    Finding,
    Untestable,
    Verdict,
    if_few,
    measured,
    outside,
    remaining,
    usable,
    within,
)
from connlab.claims.ratios import LIMITED
from connlab.intervals import client_bound, interval
from connlab.studies import pools
from connlab.study.formatting import number_text, plain, span
from connlab.study.frames import Cell
from connlab.study.metrics import metric as metric_of


def value(
    trials: pd.DataFrame,
    *,
    metric: str,
    arm: Cell,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    times: float = 1.0,
    unit: str | None = None,
) -> Finding:
    """Judge whether the mean of a cell and its interval lie between two bounds.

    Where the client was the bottleneck, one bound of the interval remains, which can
    refute a claim all the same. The metric is a column of the trials, or of a published
    table. `times` is a factor on its values, and `unit` that of the product: with a
    mean delay a rate becomes the number of busy workers (Little's law). A number whose
    unit is not given is named by its metric.
    """
    good = usable(trials, arm, metric)
    effect = interval(good[metric] * times)
    name = metric_of(metric).label if unit is None else ""
    unit = metric_of(metric).unit if unit is None else unit
    if not effect.determined:
        raise Untestable(effect.note or "no interval", effect, unit, of=name)
    limited = "label" in good and client_bound(good, metric)
    mean = remaining(effect, metric, limited)
    judged: tuple[Verdict, str]
    if within(mean, at_least, at_most):
        judged = "holds", "the interval lies within the bounds"
    elif outside(mean, at_least, at_most):
        judged = "does not hold", "the interval lies outside"
    else:
        judged = "not testable here", "the interval crosses a bound"
    return Finding(*judged, effect, unit, of=name)


def counts(
    trials: pd.DataFrame,
    *,
    metric: str,
    arm: Cell,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> Finding:
    """Judge whether every trial of a cell counted a number between two bounds.

    For what a server has by design, such as threads: that is counted and not estimated,
    so that each trial tells, and one that counts otherwise refutes the claim. Where
    they are too few for an interval, the finding says how many.
    """
    found = usable(trials, arm, metric)[metric]
    why = f"{span(plain(found.min()), plain(found.max()))} counted"
    why += if_few(len(found))
    if found.between(at_least, at_most).all():
        return Finding("holds", why)
    return Finding("does not hold", why)


def best_pool(trials: pd.DataFrame, *, arm: Cell) -> Finding:
    """Judge whether cores · (1 + wait / compute) workers serve as much as any pool.

    The prediction is made from small pools, whose workers are nearly all busy. It
    holds when the measured size nearest to it is shown to serve nearly as much as the
    best one, and half of it is shown to serve less; larger pools than that have to be
    measured, unless it serves less than another even so. A predicted size that lies
    between two measured ones, both of them clearly smaller or larger, has not been
    measured, and no verdict follows. The effect is the throughput of that size over
    that of the best; that of the half, where the half refutes the claim.
    Where the nearest size is the best itself, sizes beside it have to be measured, too.
    Where the client was the bottleneck of either size, the ratio shows the client.
    """
    knee = pools.knee(measured(trials, arm))
    if knee is None:
        raise Untestable("too few sizes of the pool, or none that is small")
    predicted = f"{number_text(knee.predicted)} predicted"
    growing = f"it was still growing at {knee.largest}, the largest pool"
    if not knee.near:
        other = "no pool of about that size was measured"
        raise Untestable(f"{predicted}; {other if knee.ends else growing}")
    of, of_half = (
        "" if size == knee.best else f"{size} against {knee.best} workers"
        for size in (knee.nearest, knee.half)
    )
    if knee.gap is not None:
        low, high = knee.gap
        raise Untestable(
            f"{predicted}, which lies between the sizes measured, {low} and {high}",
            knee.reached if knee.reached.determined else None,
            of=of,
        )
    best = "" if knee.nearest == knee.best else f"against {knee.best}, "
    why = f"{predicted}; {knee.nearest} workers, {best}the best pool"
    ratio = knee.reached
    if not ratio.determined:
        raise Untestable(ratio.note, ratio, of=of)
    for size in (knee.nearest, knee.best):
        rows = usable(trials, {**arm, "workers": size}, pools.RATE)
        if client_bound(rows, pools.RATE):
            raise Untestable(f"{predicted}; {LIMITED}{size} workers", ratio, of=of)
    if ratio.hi < pools.NEARLY:
        return Finding("does not hold", why, ratio, of=of)
    if ratio.lo < pools.NEARLY or not knee.ends:
        unsure = "too wide to tell" if knee.ends else growing
        raise Untestable(f"{why}: {unsure}", ratio, of=of)
    if knee.halved is not None and knee.halved.lo >= pools.NEARLY:
        why = f"{predicted}; {knee.half} workers serve as much as the best pool"
        return Finding("does not hold", why, knee.halved, of=of_half)
    if not knee.compared:
        lonely = "pools of half and of twice its size were not measured"
        raise Untestable(f"{why}: {lonely}", ratio, of=of)
    if knee.halved is None or not knee.halved.hi < pools.NEARLY:
        raise Untestable(f"{why}: half of its size may serve as much", ratio, of=of)
    return Finding("holds", why, ratio, of=of)
