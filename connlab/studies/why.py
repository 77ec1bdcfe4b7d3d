"""Where the CPU time of a request goes: counts of what it does, times their costs.

    counts.jsonl -> terms per request    (receive and send, waits, descriptors walked)
    half of the cells -> cost of a term  (least squares, none negative)
    the other half    -> predicted CPU time, against what was measured

Counts come from runs that were not timed, CPU times from runs that were not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from connlab import schema
from connlab.drive import counting, store

CELL = ["model", "connections", "active"]
TRANSFERS = ["recvfrom", "sendto", "read", "write"]
#: calls that are handed all connections each time
SCANS = ["poll", "select", "pselect6", "ppoll"]
WAITS = ["epoll_wait", "epoll_pwait", "epoll_pwait2", *SCANS, "io_uring_enter"]
TERMS = ["request", "transfers", "waits", "walked", "other_calls", "switches"]


def counts(run: str, study: str = "why", *, root: str | Path = "runs") -> pd.DataFrame:
    """Return the events per request of each cell; empty where none were counted."""
    path = schema.study_folder(run, study, root=root) / counting.FILE
    rows = [row for row in store.read(path).trials if not row.get("failure")]
    table = pd.DataFrame(
        [{name: row[name] for name in CELL} | row["per_request"] for row in rows],
        columns=[*CELL, *counting.EVENTS.values()],
    )
    return table.drop_duplicates(CELL, keep="last", ignore_index=True)


def terms(counted: pd.DataFrame) -> pd.DataFrame:
    """Return the terms of the model for each cell, per request.

    ``request`` is 1: what each request costs whatever calls it takes, such as the
    path through TCP. ``walked`` are the descriptors that `poll` and `select` look at.
    """
    filled = counted.drop(columns=CELL).astype(float).fillna(0.0)
    transfers, waits = filled[TRANSFERS].sum(axis=1), filled[WAITS].sum(axis=1)
    other = (filled["system_calls"] - transfers - waits).clip(lower=0)
    return counted[CELL].assign(
        request=1.0,
        transfers=transfers,
        waits=waits,
        walked=filled[SCANS].sum(axis=1) * counted["connections"],
        other_calls=other,
        switches=filled["switches"],
    )


def fit(table: pd.DataFrame, spent: str, names: Sequence[str] = TERMS) -> pd.Series:
    """Return the cost (s) of one of each term: least squares, none negative.

    A cell weighs by the inverse of its cost, so that relative errors are made small
    and not those of the dearest cells (Lawson and Hanson's algorithm, as in SciPy).

    Raises
    ------
    ValueError
        When a CPU time is not positive, or there is no cell.
    """
    cost = table[spent].to_numpy(float)
    if not len(cost) or not (cost > 0).all():
        raise ValueError(f"{spent}: {cost.tolist()}; allowed: one or more, positive")
    scaled = table[list(names)].to_numpy(float) / cost[:, None]
    size = np.linalg.norm(scaled, axis=0)
    size[size == 0] = 1.0
    solved, _rest = nnls(scaled / size, np.ones(len(cost)))
    return pd.Series(solved / size, index=list(names))


def predicted(table: pd.DataFrame, spent: str) -> pd.DataFrame:
    """Predict each half of the cells by costs that were fitted to the other half.

    Cells are dealt out like the fields of a chessboard, models against loads, so that
    both halves hold each model and each load. Adds columns ``predicted`` (s) and
    ``error`` (predicted over measured, less 1).
    """
    by_model = table.groupby("model")
    field = (by_model.ngroup() + by_model.cumcount()) % 2
    halves = [table[field == color] for color in (0, 1)]
    if not all(len(half) for half in halves):
        return table.assign(predicted=np.nan, error=np.nan)
    told = []
    for half, other in (halves, halves[::-1]):
        costs = fit(other, spent)
        told.append(half.assign(predicted=half[TERMS] @ costs))
    whole = pd.concat(told).sort_index()
    return whole.assign(error=whole["predicted"] / whole[spent] - 1)
