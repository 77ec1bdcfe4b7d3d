"""Study 11: waiting times by queueing theory, and the knee of a latency curve."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from connlab.study.frames import as_trials, usable


def waiting(
    rate: float, service: float, *, cv2: float = 0.0, servers: int = 1
) -> float:
    """Return the mean time that a request waits for a server, in seconds.

    Of a queue with Poisson arrivals and first come, first served. With one server it is
    exact (Pollaczek and Khinchine); with more it is that of exponential service times,
    scaled (Allen and Cunneen; Allen, Probability, Statistics and Queueing Theory, 2nd
    edition, 1990).

    Parameters
    ----------
    rate : float
        Arrivals per second.
    service : float
        Mean seconds that a request occupies a server.
    cv2 : float
        Variance of the service times over their mean squared: 0 where all are alike
        (M/D/c), 1 where they are exponential (M/M/c).
    servers : int
        How many serve at once.

    Returns
    -------
    float
        Infinite where more arrives than can be served.

    Examples
    --------
    >>> waiting(500, 1e-3)  # M/D/1, half of its capacity: half a service time
    0.0005
    """
    offered = rate * service
    if offered >= servers:
        return math.inf
    return (1 + cv2) / 2 * _erlang_c(offered, servers) * service / (servers - offered)


def _erlang_c(offered: float, servers: int) -> float:
    """Return the share of arrivals that wait in M/M/c, by way of Erlang's B."""
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return servers * blocked / (servers - offered * (1 - blocked))


def knee(
    loads: Sequence[float], latencies: Sequence[float], *, factor: float = 2.0
) -> float:
    """Return the load at which a latency is `factor` times that of the lowest load.

    Between two loads the logarithm of the latency is taken to be linear.

    Parameters
    ----------
    loads, latencies : sequence of float, shape (n,)
        As measured; in any order.

    Returns
    -------
    float
        NaN where the latency stays below, or nothing was measured.
    """
    order = np.argsort(loads)
    x = np.asarray(loads, dtype=float)[order]
    y = np.asarray(latencies, dtype=float)[order]
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    over = np.flatnonzero(y >= factor * y[:1])
    if not len(over):
        return math.nan
    b = over[0]
    a = b - 1
    goal, log_a, log_b = (math.log(t) for t in (factor * y[0], y[a], y[b]))
    return float(x[a] + (x[b] - x[a]) * (goal - log_a) / (log_b - log_a))


def knees(trials: pd.DataFrame, latency: str, by: Sequence[str]) -> pd.DataFrame:
    """Return the `knee` of each cell in each block, as rows of trials.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`, with a column load; those that are `counted`
        matter.
    latency : str
        A column that is positive.
    by : sequence of str
        Columns that define a cell.

    Returns
    -------
    DataFrame
        Columns `by`, block, knee (NaN where the latency stays below); ok, label and
        reason as of trials. No row without the lowest load, to which others compare.
    """
    good = usable(trials, latency)
    rows = [
        (*key, knee(block["load"].tolist(), block[latency].tolist()))
        for key, block in good.groupby([*by, "block"])
        if (block["load"] == trials["load"].min()).any()
    ]
    return as_trials(pd.DataFrame(rows, columns=[*by, "block", "knee"]))
