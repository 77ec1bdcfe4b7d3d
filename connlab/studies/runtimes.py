"""Study 13: each server against a model of its own, all pairs in one family."""

from collections.abc import Sequence

import pandas as pd

from connlab.intervals import ratios


def ratios_to(
    trials: pd.DataFrame,
    metric: str,
    *,
    pairs: Sequence[tuple[str, str]],
    within: Sequence[str],
) -> pd.DataFrame:
    """Return the ratio of each model to the one it is paired with.

    All pairs are one family: their intervals hold at once, so that they can be counted
    together whatever model each is compared with. Those at the same levels of `within`
    scatter alike. `pairs` are of a model and of what it is compared with; all else is
    as of `connlab.intervals.ratios`.
    """
    sides = [
        trials[trials["model"].isin(pair)].assign(
            pair=number, side=lambda t, arm=pair[0]: t["model"] == arm
        )
        for number, pair in enumerate(pairs)
    ]
    stacked = pd.concat([trials.iloc[:0].assign(pair=0, side=False), *sides])
    cell = {"within": ["pair", *within], "alike": within}
    found = ratios(stacked, metric, by="side", baseline=False, **cell)
    named = [pairs[number] for number in found["pair"]]
    names = pd.DataFrame(named, columns=["model", "against"])
    others = found.drop(columns=["pair", *within, "side", "against"])
    return pd.concat([found[[*within]], names, others], axis=1)
