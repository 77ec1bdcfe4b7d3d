"""What intervals show of a bound: yes, no, or unknown (None).

rows with lo and hi -> more, within   claims of notebooks that no ratio decides
cells               -> complete       those without trials that lie beyond the range
"""

from math import nan

import pandas as pd


def more(row: pd.DataFrame, other: pd.DataFrame | float) -> bool | None:
    """Whether an interval lies above another, or above a number; None: unknown.

    Parameters
    ----------
    row, other : DataFrame
        A row each of `connlab.intervals.intervals`, or none; `other` may be a number.
    """
    low, high = _bounds(row)
    lo, hi = _bounds(other) if isinstance(other, pd.DataFrame) else (other, other)
    return True if low > hi else False if high < lo else None


def _bounds(row: pd.DataFrame) -> tuple[float, float]:
    return (row["lo"].item(), row["hi"].item()) if len(row) == 1 else (nan, nan)


def within(rows: pd.DataFrame, least: float, most: float) -> bool | None:
    """Whether all intervals lie between two numbers; None: unknown.

    Each row has one, in lo and hi. False where one of them lies outside altogether;
    unknown as well where a row has no bounds, and without any row.
    """
    if ((rows["lo"] > most) | (rows["hi"] < least)).any():
        return False
    inside = (rows["lo"] >= least) & (rows["hi"] <= most)
    return True if len(rows) and inside.all() else None


def complete(cells: pd.DataFrame) -> pd.DataFrame:
    """Return cells with their numbers where each trial has one, else without.

    For places such as a knee: a trial that has none says that it lies beyond what was
    measured, and the mean of the others would lie too near. The cells are as from
    `connlab.intervals.intervals`, of trials that are all usable.
    """
    numbers = cells[["value", "lo", "hi"]]
    return cells.assign(**numbers.where(cells["n"] == cells["trials"]))
