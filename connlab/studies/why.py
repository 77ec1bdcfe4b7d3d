"""Where the CPU time of a request goes: counts of its operations times their costs.

    counts.jsonl -> terms per request (receive and send, waits, descriptors walked)
    cells of other models, kinds, loads -> cost of a term (least squares, none negative)
    cells left out -> predicted CPU time, against what was measured
    other models of a kind -> their mean, without any count: what to beat
    floor.jsonl -> cost of each kind, measured alone -> the sum, without a fit

Counts come from runs that were not timed, CPU times from runs that were not counted.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import nnls

from connlab.drive import counting
from connlab.study import calibration
from connlab.study.frames import as_trials, untimed_lines

CELL = ["model", "connections", "active"]
TRANSFERS = ["recvfrom", "sendto", "read", "write"]
#: calls that take all connections each time
SCANS = ["poll", "select", "pselect6", "ppoll"]
EPOLLS = ["epoll_wait", "epoll_pwait", "epoll_pwait2"]
WAITS = [*EPOLLS, *SCANS, "io_uring_enter"]
CALLS = ["transfers", "waits", "walked", "other_calls"]
SWITCHES = ["sleeps", "hand_overs", "cold_hand_overs"]
TERMS = ["request", "cold", *CALLS, *SWITCHES]


def counts(
    run: str, *, size: int | None = None, root: str | Path = "runs"
) -> pd.DataFrame:
    """Return the events per request of each cell; empty where none were counted.

    With messages of `size` bytes, or of any.
    """
    table = pd.DataFrame(
        [
            {name: row[name] for name in CELL} | row["per_request"]
            for row in untimed_lines(run, "why", counting.FILE, root=root, size=size)
        ],
        columns=[*CELL, *counting.EVENTS.values(), *counting.HARDWARE.values()],
    )
    return table.drop_duplicates(CELL, keep="last", ignore_index=True)


def terms(counted: pd.DataFrame) -> pd.DataFrame:
    """Return the terms of the model for each cell, per request.

    ``request`` is 1: the cost of each request whatever calls it takes, such as the
    path through TCP. ``walked`` are the descriptors that `poll` and `select` look at.
    ``scans`` are their calls, ``events`` the ready sockets that `epoll` reports: one a
    request. They are not in `TERMS`.
    """
    filled = counted.drop(columns=CELL).astype(float).fillna(0.0)
    transfers, waits = filled[TRANSFERS].sum(axis=1), filled[WAITS].sum(axis=1)
    scans = filled[SCANS].sum(axis=1)
    other = (filled["system_calls"] - transfers - waits).clip(lower=0)
    return counted[CELL].assign(
        request=1.0,
        transfers=transfers,
        waits=waits,
        walked=scans * counted["connections"],
        other_calls=other,
        switches=filled["switches"],
        scans=scans,
        events=(filled[EPOLLS].sum(axis=1) > 0).astype(float),
    )


def split(table: pd.DataFrame) -> pd.DataFrame:
    """Return the terms of `TERMS`, from the counts of `terms`.

    A switch is a ``sleep`` where no other thread of the server has work, so that the
    core falls idle and has to wake; else it hands over to the next thread. The more
    connections talk, the less of what a request or a thread touches is in a cache:
    ``cold`` grows by one for each doubling of them, ``cold_hand_overs`` with the square
    of the doublings, as a thread brings its stack along and leaves one cache after
    another. (Chosen on the two machines of the paper, by halves of their own cells: the
    square predicted 30 of 35 cells on one where a line did 26, and as many as a line on
    the other. So it fits these machines better than it will fit a third.)
    """
    threads = (table["waits"] == 0) & (table["active"] > 1)
    doublings = np.log2(table["active"].astype(float))
    hands = table["switches"].where(threads, 0.0)
    return table.assign(
        cold=doublings,
        sleeps=table["switches"].where(~threads, 0.0),
        hand_overs=hands,
        cold_hand_overs=hands * doublings**2,
    )


def fit(table: pd.DataFrame, spent: str) -> pd.Series:
    """Return the cost (s) of one of each term: least squares, none negative.

    A cell weighs by the inverse of its cost, so that relative errors are made small
    and not those of the dearest cells (Lawson and Hanson's algorithm, as in SciPy).
    ValueError when a CPU time is not positive, or there is no cell.
    """
    cost = table[spent].to_numpy(float)
    if not len(cost) or not (cost > 0).all():
        raise ValueError(f"{spent}: {cost.tolist()}; allowed: one or more, positive")
    scaled = table[TERMS].to_numpy(float) / cost[:, None]
    norm = np.linalg.norm(scaled, axis=0)
    norm[norm == 0] = 1.0
    coefficients, _residual = nnls(scaled / norm, np.ones(len(cost)))
    return pd.Series(coefficients / norm, index=TERMS)


def predicted(table: pd.DataFrame, spent: str, *, apart: Sequence[str]) -> pd.Series:
    """Predict the cells of each group by costs that were fitted to all others (s).

    Each server has a near copy, such as `select` and `poll`: where one of the two stays
    among those that teach, little is predicted. Kinds and loads have none.

    Parameters
    ----------
    table : DataFrame
        With `TERMS` and the columns `spent` and `apart`; its index is unique.
    spent : str
        Measured CPU time per request (s).
    apart : sequence of str
        Columns that are alike within a group: model, kind, or connections and active.

    Returns
    -------
    Series
        As `table` is ordered; not a number where there is one group only.
    """
    told = pd.Series(np.nan, index=table.index)
    for _, group in table.groupby(list(apart)):
        others = table.drop(index=group.index)
        if len(others):
            told[group.index] = group[TERMS] @ fit(others, spent)
    return told


def kinds(table: pd.DataFrame) -> pd.Series:
    """Return how the server of each cell learns of a request, from counts of `terms`.

    It blocks in its receives, hands over all descriptors, or is told which are ready or
    done.
    """
    names = ["hands over", "is told"]
    kind = np.select([table["scans"] > 0, table["waits"] > 0], names, "blocks")
    return pd.Series(kind, index=table.index, dtype=object)


def mean_of_kind(table: pd.DataFrame, spent: str) -> pd.Series:
    """Return what the other models of a kind cost at the same load, on average (s).

    A prediction without any count: what counts add has to show against it. Not a number
    without another model of the kind.
    """
    cost = table[spent].astype(float)
    groups = cost.groupby([table["connections"], table["active"], kinds(table)])
    others = groups.transform("count") - 1
    return (groups.transform("sum") - cost) / others.where(others > 0)


def within_a_tenth(cells: pd.DataFrame, way: str) -> pd.Series:
    """Mark, of the cells with a prediction, those where it is within 10 % of value."""
    told = cells.dropna(subset=[way])
    return (told[way] / told["value"] - 1).astype(float).abs() <= 0.1


def come_near_oftener(way: pd.Series, other: pd.Series) -> bool:
    """Whether one prediction comes near in more cells than another, beyond chance.

    McNemar's exact test (Psychometrika 12, 1947), one-sided at 5 %, over the cells in
    which only one of the two does; both are marks as of `within_a_tenth`.
    """
    only, others = int((way & ~other).sum()), int((other & ~way).sum())
    if not only:
        return False
    test = stats.binomtest(only, only + others, alternative="greater")
    return bool(test.pvalue < 0.05)


#: groups of ``build/floor`` that study 12 needs
MEASURED = ["ping-pong", "switch", "ring", "calls"]

WARM = 50
"""For more connections, a send and a receive were measured on sockets' first uses.

Each socket of 1000 was used a few times only, and the first time is dearer.
"""


def levels(connections: Sequence[int], active: int) -> list[int]:
    """Return for how many connections costs are measured; two at least."""
    return sorted({max(2, n) for n in (*connections, min(active, max(connections)))})


def costs(run: str, *, root: str | Path = "runs") -> pd.DataFrame:
    """Return each measured cost in each round, as rows of trials.

    Columns connections, cost (its name), cost_s; ok, label and reason. No row where
    none was measured.
    """
    rows = calibration.load_floors(run, "why", root=root).query("unit == 's'")
    return as_trials(rows.rename(columns={"metric": "cost", "value": "cost_s"}))


def foretold(counted: pd.DataFrame, price: pd.DataFrame) -> pd.DataFrame:
    """Return the CPU time per request that measured costs add up to, by part.

    1. A send and a receive with the path through TCP, by one thread over the active
       connections, `WARM` at most. For each call that a server saves, an entry is
       subtracted.
    2. A waiting call of its kind, and each socket that it reports or takes.
    3. A switch among as many threads as connections talk, where a server blocks in its
       receives and has another thread; else a sleep and a wake-up, since then the core
       falls idle. (Older runs know of a switch between two threads only.)
    4. An entry for each other call.

    Parameters
    ----------
    counted : DataFrame
        As from `terms`.
    price : DataFrame
        Mean costs (s): an index of connections, a column per cost.

    Returns
    -------
    DataFrame
        A column per part (s), as `counted` is ordered; NaN where costs are missing.
    """
    wanted = ["exchange_s", "answer_cpu_s", "entry_s", "epoll_s", "event_s"]
    wanted += ["poll_s", "walk_s", "switch_s", "ring_s", "pipe_s"]
    price = price.reindex(columns=wanted).astype(float)
    active, held = (_at(price, counted[n]) for n in ("active", "connections"))
    warm = price[price.index <= WARM]
    exchange = _at(warm if len(warm) else price, counted["active"])["exchange_s"]
    threads = (counted["waits"] == 0) & (counted["active"] > 1)
    sleep = (active["answer_cpu_s"] - exchange).clip(lower=0)
    switch = active["ring_s"].fillna(active["switch_s"])
    hand_over = (switch - active["pipe_s"]).clip(lower=0)
    epolls = counted["waits"] - counted["scans"]
    waits = epolls * active["epoll_s"] + counted["scans"] * active["poll_s"]
    reported = (counted["events"] - epolls).clip(lower=0) * counted["events"]
    sockets = reported * held["event_s"] + counted["walked"] * held["walk_s"]
    more_calls = (counted["transfers"] - 2) * active["entry_s"]
    return pd.DataFrame(
        {
            "receive and send": exchange + more_calls,
            "waiting call": waits,
            "sockets looked at": sockets,
            "other calls": counted["other_calls"] * active["entry_s"],
            "switch or sleep": counted["switches"] * hand_over.where(threads, sleep),
        }
    )


def _at(price: pd.DataFrame, connections: pd.Series) -> pd.DataFrame:
    """Return the costs at the nearest measured number of connections."""
    levels = price.index.to_numpy(float)
    if not len(levels):
        return price.reindex(connections).set_axis(connections.index)
    distance = np.abs(np.log(connections.to_numpy(float)[:, None] / levels))
    return price.iloc[distance.argmin(axis=1)].set_axis(connections.index)
