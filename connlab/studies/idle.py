"""Where two servers change places, and the memory of idle connections.

blocks of trials -> log(one / other) at each level -> level at which it passes zero
holding.jsonl    -> bytes of a connection in the server and in the kernel
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from connlab.drive import idle_memory
from connlab.study.frames import as_trials, counted, untimed_lines


def crossings(
    trials: pd.DataFrame, metric: str, *, sides: Sequence[str], along: str
) -> pd.DataFrame:
    """Return for each block where one model's metric passes the other's.

    `along` is a factor with positive levels. Between two of them the logarithm of the
    ratio is taken to be straight in the logarithm of the level. Trials that are
    `counted` matter.

    Returns
    -------
    DataFrame
        One row per block and repeat that has both sides at the lowest and the highest
        level: block, repeat, the two as `sides`, crossing (level of `along`; NaN where
        the sides do not change places, or do so more than once); ok, label and reason
        as of trials.
    """
    side, other = sides
    good = trials[counted(trials) & (trials[metric] > 0)]
    keys = ["block", "repeat"]
    empty = pd.DataFrame(columns=[*keys, "sides", "crossing", "ok", "label", "reason"])
    wide = good.pivot_table(index=keys, columns=["model", along], values=metric)
    if not {side, other} <= set(wide.columns.get_level_values(0)):
        return empty
    logs = np.log(wide[side] / wide[other]).sort_index(axis=1)
    logs = logs.dropna(axis=1, how="all")
    if len(logs.columns) < 2:
        return empty
    # beyond the last level of a trial the sides may have changed places unseen
    logs = logs.dropna(subset=[logs.columns[0], logs.columns[-1]])
    levels = [_zero(row.dropna()) for _, row in logs.iterrows()]
    rows = logs.reset_index()[keys]
    return as_trials(rows.assign(sides=f"{side} and {other}", crossing=levels))


def _zero(logs: pd.Series) -> float:
    """Return the level at which a row of log ratios passes zero, if it does once."""
    x, y = np.log(logs.index.to_numpy(dtype=float)), logs.to_numpy(dtype=float)
    changes = np.flatnonzero(np.sign(y[:-1]) != np.sign(y[1:]))
    if len(changes) != 1:
        return np.nan
    i = changes[0]
    return float(np.exp(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i])))


HELD = ["server_bytes", "kernel_bytes"]


def held(run: str, *, root: str | Path = "runs") -> pd.DataFrame:
    """Return the memory of an idle connection, one row per measured server.

    Columns model, server_bytes, kernel_bytes (NaN where unknown); ok, label and reason
    as of trials. No row where none was measured.
    """
    rows = untimed_lines(run, "idle", idle_memory.FILE, root=root)
    table = pd.DataFrame(rows, columns=["model", "repeat", *HELD])
    table[HELD] = table[HELD].astype(float)
    table = table.drop_duplicates(["model", "repeat"], keep="last", ignore_index=True)
    return as_trials(table)
