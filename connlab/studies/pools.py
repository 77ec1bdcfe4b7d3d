"""How large a pool of workers should be: a rule of thumb, and queueing theory.

    small pools: CPU time per request, its wait -> cores · (1 + wait / compute)
                                                -> the nearest measured size
    all pools:   throughput                     -> the best, and that size beside it
    users, think and service time, workers      -> M/M/c with a finite population

The rule is judged by measured pools: one of about the size that it gives should serve
nearly as much as the best, and one of half that size should not.
All times in seconds, all rates per second.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import softmax

from connlab.intervals import interval, ratio
from connlab.study.frames import usable
from connlab.study.interval import Interval

NEARLY = 0.95
"""A pool is large enough once it reaches this share of the highest throughput."""

BUSY = 0.85
"""A pool counts as small while so many of its workers are busy, on average."""

ABOUT = 2.0
"""A size is about as predicted up to this ratio, either way."""

BESIDE = 2.1
"""A size lies beside another up to this ratio."""

RATE = "throughput_rps"
_CPU = "server_cpu_per_request_s"
_NEEDS = (RATE, _CPU, "delay_mean_s", "busy_workers", "server_cores", "workers")


@dataclass(frozen=True)
class Knee:
    """The size that a pool should have, and the throughput of pools of that size."""

    predicted: Interval
    """Cores · (1 + wait / compute), over blocks."""
    nearest: int
    """Size measured that is nearest to the prediction, by their ratio."""
    best: int
    """Size measured with the highest mean throughput."""
    reached: Interval
    """Throughput of `nearest` over that of `best`."""
    half: int | None
    """Largest size measured that is half the prediction at most; None without any."""
    halved: Interval | None
    """Throughput of `half` over that of `best`."""
    enough: int
    """Smallest size measured whose mean nearly reaches the highest throughput."""
    sizes: tuple[int, ...]
    """Sizes measured."""

    @property
    def largest(self) -> int:
        """Largest size measured."""
        return max(self.sizes)

    @property
    def ends(self) -> bool:
        """Whether growth ended: a larger pool than `enough` was measured."""
        return self.largest > self.enough

    @property
    def near(self) -> bool:
        """Whether a pool of about the predicted size was measured."""
        return 1 / ABOUT <= self.nearest / self.predicted.value <= ABOUT

    @property
    def gap(self) -> tuple[int, int] | None:
        """The measured sizes around the predicted one, where none is as large as that.

        A pool keeps no more than its own size busy. So one that is smaller than
        predicted by more than a pool may lack to be large enough serves less whatever
        the truth, and one that is larger by as much may serve more.
        """
        if NEARLY <= self.nearest / self.predicted.value <= 1 / NEARLY:
            return None
        smaller = [n for n in self.sizes if n < self.predicted.value]
        larger = [n for n in self.sizes if n > self.predicted.value]
        return (max(smaller), min(larger)) if smaller and larger else None

    @property
    def compared(self) -> bool:
        """Whether `reached` tells anything of the size `nearest`.

        The best pool has its own throughput, whatever its size, unless pools of about
        half and of twice as many workers were measured as well.
        """
        ratios = [size / self.nearest for size in self.sizes]
        smaller = any(1 / BESIDE <= ratio < 1 for ratio in ratios)
        larger = any(1 < ratio <= BESIDE for ratio in ratios)
        return self.nearest != self.best or (smaller and larger)


def knee(trials: pd.DataFrame) -> Knee | None:
    """Return how large a pool should be, and the throughput of pools of that size.

    From trials of one pool with several numbers of workers. None with fewer than three
    sizes, without a small one, or without two blocks that hold a small one.

    1. Sizes whose workers are nearly all busy are small: the computing time of a
       request is their CPU time over their requests, both as totals of a block.
    2. Predicted: cores · (1 + wait / compute) of each block, with an interval over
       blocks.
    3. The best size is the one with the highest mean throughput. It is found by the
       data that others are then compared with, so its lead is a little too large.
    4. The size nearest to the prediction, and the largest of half of it at most, are
       compared with the best: log ratios, by block where there are blocks enough.

    References
    ----------
    Goetz et al., Java Concurrency in Practice (2006), section 8.2, for step 2.
    """
    good = usable(trials, *_NEEDS)
    means = good.groupby("workers")[[RATE, "busy_workers"]].mean().sort_index()
    small = means.index[means["busy_workers"] >= BUSY * means.index]
    pools = good[good["workers"].isin(small)]
    if len(means) < 3 or pools["block"].nunique() < 2:
        return None
    predicted = interval([_predicted(rows) for _, rows in pools.groupby("block")])
    rates, sizes = means[RATE], [int(n) for n in means.index]
    best = int(rates.idxmax())
    nearest = min(sizes, key=lambda n: abs(math.log(n / predicted.value)))
    half = max((n for n in sizes if 2 * n <= predicted.value), default=None)
    return Knee(
        predicted,
        nearest,
        best,
        _against(good, nearest, best),
        half,
        None if half is None else _against(good, half, best),
        int(rates.index[rates >= NEARLY * rates.max()][0]),
        tuple(sizes),
    )


def _predicted(rows: pd.DataFrame) -> float:
    """Return cores · (1 + wait / compute) of the small pools of one block."""
    weight = rows[RATE] * rows["window_s"]
    wait, compute = (
        float((rows[name] * weight).sum() / weight.sum())
        for name in ("delay_mean_s", _CPU)
    )
    return int(rows["server_cores"].iloc[0]) * (1 + wait / compute)


def _against(good: pd.DataFrame, size: int, best: int) -> Interval:
    return ratio(good[good["workers"] == size], good[good["workers"] == best], RATE)


def finite_source(
    *, population: int, think: float, service: float, servers: int
) -> dict[str, float]:
    """Solve M/M/c with N users who think: a closed loop around a pool, exactly.

    A user thinks for an exponential time of mean Z, then asks c workers whose service
    takes an exponential time of mean S; users who wait do not ask again. With k
    requests in the pool the next arrives at rate (N − k)/Z and one leaves at rate
    min(k, c)/S. For large N it becomes M/M/c at the rate N / (Z + R).

    Parameters
    ----------
    population : int
        N, at least 1.
    think, service : float
        Z and S, seconds, above 0.
    servers : int
        c, at least 1.

    Returns
    -------
    dict of str to float
        In steady state: utilisation, the share of time that a worker is busy (1 at
        most); response, the mean time in the queue and in service (s); throughput,
        requests per second that get through.

    References
    ----------
    Kleinrock, Queueing Systems 1 (1975), chapter 3 (finite customer population).
    """
    if population < 1 or servers < 1 or think <= 0 or service <= 0:
        raise ValueError(
            f"population {population}, servers {servers}, think {think}, "
            f"service {service}: at least 1, at least 1, above 0, above 0"
        )
    k = np.arange(population + 1)
    working = np.minimum(k, servers)
    up, down = (population - k[:-1]) / think, working[1:] / service
    # logarithms, as weights span hundreds of decades
    chances = softmax(np.append(0, np.cumsum(np.log(up / down))))
    busy, inside = float(chances @ working), float(chances @ k)
    rate = busy / service
    response = inside / rate
    return {"utilisation": busy / servers, "response": response, "throughput": rate}
