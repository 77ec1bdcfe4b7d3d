"""Study 11: waiting times by queueing theory, overload, and the knee of a curve.

turns of a trial, or its rate and answers -> strain -> cells that are overloaded
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from connlab import schema
from connlab.intervals import CLIENT_BOUND, NUMBERS, ratio
from connlab.study import formatting
from connlab.study.formatting import DONE, listing
from connlab.study.frames import as_trials, counted, passed, usable

TIMES = [f"response_{name}_s" for name in ("mean", "p50", "p99", "p999")]
TIMES += ["slice_p99_s"]

_RATE = "throughput_rps"

OVERLOAD = 1.05
"""From this strain on a server is overloaded.

At 126 loads below the capacity of epoll, on two machines, turns lasted 4.8 % longer
than planned at most, or 8.9 % and more.
"""

KEPT = 1.05
"""What a server may answer at most of its capacity, or that is not its capacity."""


def waiting(rate: float, service: float, *, servers: int = 1) -> float:
    """Return the mean time that a request waits for a server, in seconds.

    Of a queue with Poisson arrivals, first come, first served, whose service times are
    all alike (M/D/c). With one server it is exact (Pollaczek and Khinchine); with more
    it is half of that of exponential service times (Allen and Cunneen; Allen,
    Probability, Statistics and Queueing Theory, 2nd edition, 1990).

    Parameters
    ----------
    rate : float
        Arrivals per second.
    service : float
        Seconds that a request occupies a server.
    servers : int
        How many serve at once.

    Returns
    -------
    float
        Infinite where more arrives than can be served.

    Examples
    --------
    >>> waiting(500, 1e-3)  # half of its capacity: half a service time
    0.0005
    """
    offered = rate * service
    if offered >= servers:
        return math.inf
    return _erlang_c(offered, servers) * service / (servers - offered) / 2


def _erlang_c(offered: float, servers: int) -> float:
    """Return the share of arrivals that wait in M/M/c, by way of Erlang's B."""
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return servers * blocked / (servers - offered * (1 - blocked))


AS_ASKED = 0.05
"""Loads are called as they were asked for when they are as near as this."""


def as_asked(loads: pd.Series, asked: Sequence[float]) -> pd.Series:
    """Return for each load the nearest asked for where that is near, else two digits.

    The rates of a run were set by the capacity that was known then; computed again, it
    may have moved by a few percent.

    Examples
    --------
    >>> as_asked(pd.Series([0.71, 0.6, None]), [0.5, 0.7]).tolist()
    [0.7, 0.6, nan]
    """
    found = loads.astype(float)
    nearest = found.map(
        lambda x: min(asked, key=lambda share: abs(x / share - 1), default=math.nan)
    ).astype(float)
    return found.round(2).mask((found / nearest - 1).abs() <= AS_ASKED, nearest)


def knee(loads: Sequence[float], latencies: Sequence[float]) -> float:
    """Return the load at which a latency is twice that of the lowest load.

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
    over = np.flatnonzero(y >= 2 * y[:1])
    if not len(over):
        return math.nan
    b = over[0]
    a = b - 1
    goal, log_a, log_b = (math.log(t) for t in (2 * y[0], y[a], y[b]))
    return float(x[a] + (x[b] - x[a]) * (goal - log_a) / (log_b - log_a))


def knees(trials: pd.DataFrame, latency: str, by: Sequence[str]) -> pd.DataFrame:
    """Return the `knee` of each cell in each block, as rows of trials.

    Of trials that are `counted`, with a column load; the columns `by` define a cell.
    Returned are these, block, knee (NaN where the latency stays below); ok, label and
    reason as of trials. No row without the lowest load, to which others compare.
    """
    good = usable(trials, latency)
    rows = [
        (*key, knee(block["load"].tolist(), block[latency].tolist()))
        for key, block in good.groupby([*by, "block"])
        if (block["load"] == trials["load"].min()).any()
    ]
    return as_trials(pd.DataFrame(rows, columns=[*by, "block", "knee"]))


def turns_over_plan(run: str, *, root: str | Path = "runs") -> dict[str, float]:
    """Return by key how long a trial's turns lasted, over how long was planned.

    The median over those that others did not disturb; trials without turns are absent.
    In an open loop nothing falls due after the planned end, and a turn ends with its
    last answer. So a server answers all that falls due, however much that is, and takes
    longer where it is more than it can.
    """
    path = schema.study_folder(run, "load", root=root) / schema.TRIALS
    lasted = {}
    for trial in schema.read_log(path).trials:
        if seconds := schema.counted_rounds(trial, "seconds"):
            turns = trial["turns"]
            lead_in_s, planned_s = turns["lead_in_ms"] / 1e3, turns["slice_ms"] / 1e3
            lasted[trial["key"]] = (lead_in_s + statistics.median(seconds)) / planned_s
    return lasted


def strain(trials: pd.DataFrame, lasted: Mapping[str, float]) -> pd.Series:
    """Return how much fell due in each trial, over what its server answered meanwhile.

    In turns that is how long these lasted, over how long was planned (by key, as from
    `turns_over_plan`). Not a number in a closed loop, where nothing falls due.
    """
    alone = (trials["rate"] / trials["throughput_rps"]).astype(float)
    in_turns = trials["key"].map(lasted).astype(float)
    return in_turns.fillna(alone).where(trials["rate"].notna())


def overloaded(trials: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """Mark the trials of cells whose servers answer less than falls due.

    The median of the column strain, as from `strain`, decides; the columns `by` define
    a cell.
    """
    strained = trials["strain"].where(passed(trials))
    medians = strained.groupby([trials[c] for c in by]).transform("median")
    return medians >= OVERLOAD


def client_limited(trials: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """Mark the trials of cells in most of which the client was the bottleneck.

    What they answer says nothing of the server, nor whom it made wait. Trials that are
    `counted` decide; the columns `by` define a cell.
    """
    ours = trials["label"].eq(CLIENT_BOUND).astype(float).where(counted(trials))
    return ours.groupby([trials[c] for c in by]).transform("mean") > 0.5


def kept(over: pd.DataFrame, alone: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return what servers answer under overload, over what they did in a closed loop.

    Both are means of trials, so the interval is of their ratio (Welch's: the closed
    loop was over before the first overload began). With the mean of the closed loop as
    if it were known, intervals were a third to nine tenths as wide in the references.

    The trials `over` have a rate, those `alone` have none. The columns `by` define a
    cell of the former; those of them but load, one of the latter. Returned are these,
    metric, value, lo, hi, n, level, method; no row where either has no trial that
    counts.
    """
    shared = [column for column in by if column != "load"]
    closed = usable(alone, _RATE).assign(block=lambda t: -1 - t["block"])
    cells = dict(list(closed.groupby(shared)))
    rows = []
    for levels, cell in usable(over, _RATE).groupby([*by]):
        named = dict(zip(by, levels, strict=True))
        base = cells.get(tuple(named[column] for column in shared))
        if base is not None:
            rows.append(named | {"metric": "kept"} | asdict(ratio(cell, base, _RATE)))
    return pd.DataFrame(rows, columns=[*by, "metric", *NUMBERS])


def evenness(trials: pd.DataFrame) -> pd.Series:
    """Return Jain's index of the answers per user, over that of Poisson arrivals.

    A server that treats all users alike gives each as many answers as requests fell due
    for him. With m on average these have variance m, so that Jain's index is
    1 / (1 + 1 / m) (Jain, Chiu and Hawe, DEC-TR-301, 1984, with Poisson's moments).
    """
    answers = trials["window_requests"].astype(float)
    users = trials["connections"].astype(float)
    return trials["fairness_jain"].astype(float) * (1 + users / answers)


def as_text(connections: pd.Series) -> pd.Series:
    """Return numbers of connections as text: ``1 connection``."""
    return connections.map(lambda n: formatting.counted(n, "connection")).astype(object)


def cells_text(cells: pd.DataFrame, names: Mapping[str, str]) -> str:
    """Return which cells these are, for a sentence; `names` are those of models.

    By model, work, connections and load; a cell may stand there more than once.
    """
    texts = []
    for (model, work, clients), rows in cells.groupby(["model", "work", "connections"]):
        loads = listing(f"{100 * x:.0f}" for x in sorted(rows["load"].unique()))
        connections = formatting.counted(clients, "connection")
        texts.append(f"{names[model]} ({DONE[work]}, {connections}, {loads} %)")
    return "; ".join(texts)
