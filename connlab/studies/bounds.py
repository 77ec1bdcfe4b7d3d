"""What intervals show of a bound: yes, no, or unknown (None).

rows with lo and hi -> more, within   claims of notebooks that no ratio decides
cells               -> complete       those without trials that lie beyond the range
"""

from math import nan

import pandas as pd


def more(row: pd.DataFrame, other: pd.DataFrame | float) -> bool | None:
    """Whether an interval lies above another, or above a number; None: unknown.

    Both are a row each of `connlab.intervals.intervals`, or none.
    """
    low, high = _bounds(row)
    lo, hi = _bounds(other) if isinstance(other, pd.DataFrame) else (other, other)
    return True if low > hi else False if high < lo else None


def _bounds(row: pd.DataFrame) -> tuple[float, float]:
    return (row["lo"].item(), row["hi"].item()) if len(row) == 1 else (nan, nan)


def within(rows: pd.DataFrame, least: float, most: float) -> bool | None:
    """Whether all intervals, rows with lo and hi, lie between two numbers.

    False where one of them lies outside altogether; None where it is unknown, as where
    a row has no bounds, and without any row.
    """
    if ((rows["lo"] > most) | (rows["hi"] < least)).any():
        return False
    inside = (rows["lo"] >= least) & (rows["hi"] <= most)
    return True if len(rows) and inside.all() else None


def complete(cells: pd.DataFrame) -> pd.DataFrame:
    """Return cells (`connlab.intervals.intervals`) with numbers where each trial has.

    For places such as a knee, of trials that are all usable: one that has none says
    that it lies beyond what was measured, and the mean of the others would lie too
    near.
    """
    numbers = cells[["value", "lo", "hi"]]
    return cells.assign(**numbers.where(cells["n"] == cells["trials"]))
