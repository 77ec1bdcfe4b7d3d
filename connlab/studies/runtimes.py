"""Study 13: each server against a model of its own; how long a server takes to start.

trials -> ratios_to     all pairs in one family
ratios -> resolvable    of start-up times, those that two clocks can tell apart
"""

from collections.abc import Sequence

import pandas as pd

from connlab.intervals import ratios

START_APART_S = 0.002
"""Seconds by which two start-up times have to differ.

Our models say that they listen, and the time is that until the line is read. A port of
others is tried every millisecond (``src_c/external/guard.c``), from a later beginning.
"""


def ratios_to(
    trials: pd.DataFrame,
    metric: str,
    *,
    pairs: Sequence[tuple[str, str]],
    within: Sequence[str],
) -> pd.DataFrame:
    """Return the ratio of each model to the one it is paired with.

    All pairs are one family: their intervals hold at once, so that they can be counted
    together whatever model each is compared with.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`.
    metric : str
        A column that is positive.
    pairs : sequence of (model, against)
    within : sequence of str
        Columns that both share.

    Returns
    -------
    DataFrame
        As from `connlab.intervals.ratios`, `against` being that of each pair.
    """
    sides = [
        trials[trials["model"].isin(pair)].assign(
            pair=number, side=lambda t, arm=pair[0]: t["model"] == arm
        )
        for number, pair in enumerate(pairs)
    ]
    stacked = pd.concat([trials.iloc[:0].assign(pair=0, side=False), *sides])
    found = ratios(stacked, metric, by="side", baseline=False, within=["pair", *within])
    names = [pairs[number] for number in found["pair"]]
    first = [*within, "model", "against"]
    found = found.drop(columns=["pair", "side"]).assign(
        **pd.DataFrame(names, columns=["model", "against"])
    )
    return found[[*first, *found.columns.difference(first, sort=False)]]


def resolvable(
    pairs: pd.DataFrame, cells: pd.DataFrame, *, apart: float = START_APART_S
) -> pd.DataFrame:
    """Return the ratios of times that differ by more than clocks resolve.

    Parameters
    ----------
    pairs : DataFrame
        As from `connlab.intervals.ratios`, of models.
    cells : DataFrame
        As from `connlab.intervals.intervals`: a row per model, in seconds.
    apart : float
        Seconds.
    """
    value = cells.set_index("model")["value"]
    sides = (pairs[side].map(value) for side in ("model", "against"))
    gap = next(sides) - next(sides)
    return pairs[gap.abs() > apart]
