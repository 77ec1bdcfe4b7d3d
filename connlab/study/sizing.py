"""How large a pool is large enough: what is predicted, and where growth ends.

    small pools: CPU time per request, its wait -> cores · (1 + wait / compute)
    small pools: throughput per worker    |
    all pools:   the highest throughput   | -> workers that the highest needs

Throughput grows with the size along a straight line and then stays: the two lines
meet at the size that was looked for. Near that corner a real pool is below both.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from connlab.study.comparing import ratio_paired, tost
from connlab.study.frames import usable
from connlab.study.interval import Interval, t_interval
from connlab.study.queueing import best_pool

NEARLY = 0.95
"""A pool is large enough once it reaches this share of the highest throughput."""

BUSY = 0.85
"""A pool counts as small while so many of its workers are busy, on average."""

ABOUT = 0.25
"""What a rule of thumb may be off."""

_NEEDS = (
    "throughput_rps",
    "server_cpu_per_request_s",
    "delay_mean_s",
    "busy_workers",
    "server_cores",
)


@dataclass(frozen=True)
class Knee:
    """The size beyond which a pool gains nothing, found and predicted."""

    predicted: Interval
    """Cores · (1 + wait / compute), over blocks."""
    found: Interval
    """Where the line of small pools reaches the highest throughput, over blocks."""
    ratio: Interval
    """Predicted over found, paired by block."""
    alike: bool
    """Whether they are shown to be within `ABOUT` of each other."""
    enough: int
    """Smallest size measured that nearly reaches the highest throughput."""
    ends: bool
    """Whether growth was seen to end: a larger pool than `enough` was measured."""


def knee(frame: pd.DataFrame, *, along: str = "workers") -> Knee | None:
    """Return where throughput stops growing with the size, and where it should.

    1. Sizes whose workers are nearly all busy are small: what a worker adds is their
       throughput over their size, and what a request computes is their CPU time over
       their requests, both as totals of a block.
    2. The size with the highest mean throughput shows what the cores can do.
    3. Found: the highest throughput over what a worker adds. Predicted: cores ·
       (1 + wait / compute). Both of each block, with Student's t over blocks.

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`; trials of one pool at several sizes.
    along : str
        The column of the size.

    Returns
    -------
    Knee or None
        None with fewer than three sizes, without a small one, or without two blocks
        that hold a small one and the highest.
    """
    good = usable(frame, *_NEEDS, along)
    means = good.groupby(along)[["throughput_rps", "busy_workers"]].mean().sort_index()
    small = means.index[means["busy_workers"] >= BUSY * means.index]
    if len(means) < 3 or not len(small):
        return None
    rates = means["throughput_rps"]
    pairs = [
        (_predicted(rows[rows[along].isin(small)]), _found(rows, small, rates, along))
        for _, rows in good.groupby("block")
        if rows[along].isin(small).any() and (rows[along] == rates.idxmax()).any()
    ]
    if len(pairs) < 2:
        return None
    predicted, found = (list(values) for values in zip(*pairs, strict=True))
    enough = rates.index[rates >= NEARLY * rates.max()][0]
    return Knee(
        t_interval(predicted),
        t_interval(found),
        ratio_paired(predicted, found),
        tost(predicted, found, paired=True, margin=ABOUT).equivalent,
        int(enough),
        bool((rates.index > enough).any()),
    )


def _predicted(rows: pd.DataFrame) -> float:
    """Return cores · (1 + wait / compute) of the small pools of one block."""
    weight = rows["throughput_rps"] * rows["window_s"]
    cpu = (rows["server_cpu_per_request_s"] * weight).sum() / weight.sum()
    wait = (rows["delay_mean_s"] * weight).sum() / weight.sum()
    cores = int(rows["server_cores"].iloc[0])
    return best_pool(cores=cores, wait=float(wait), compute=float(cpu))


def _found(rows: pd.DataFrame, small, rates: pd.Series, along: str) -> float:
    """Return the highest throughput of a block over what a worker adds."""
    few = rows[rows[along].isin(small)]
    each = few["throughput_rps"].sum() / few[along].sum()
    top = rows.loc[rows[along] == rates.idxmax(), "throughput_rps"].mean()
    return float(top / each)
