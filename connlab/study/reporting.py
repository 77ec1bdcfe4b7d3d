"""Values by name, and a comparison as a sentence: for studies 02, 03 and 09."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from connlab.study.cells import (
    Compared,
    interval_of,
    summarise,
)
from connlab.study.formatting import (
    aside,
)
from connlab.study.frames import usable
from connlab.study.metrics import metric as metric_of
from connlab.study.results import Results

# ---- trials and levels --------------------------------------------------------


def baseline_of(frame: pd.DataFrame, wanted: str) -> str:
    """Return `wanted` if it was measured, else the model with most usable trials."""
    count = usable(frame)["model"].value_counts().sort_index()
    if wanted in count or count.empty:
        return wanted
    return str(count.idxmax())


# ---- values -------------------------------------------------------------------


def key(name: str) -> str:
    """Return a name as part of a value's: ``epoll-et`` → ``epoll_et``."""
    return re.sub(r"\W", "_", name)


def keep_values(
    results: Results,
    frame: pd.DataFrame,
    kinds: Mapping[str, str],
    *,
    by: Sequence[str],
) -> None:
    """Keep every cell's interval of every kind, as MODEL_KIND_LEVEL….

    Parameters
    ----------
    results : Results
        Where they are kept.
    frame : DataFrame
        As from `connlab.study.load`.
    kinds : mapping of str to str
        Short names of metrics, and their columns.
    by : sequence of str
        "model" first, then the other factors.
    """
    for kind, metric in kinds.items():
        table = summarise(frame, metric, by=by).dropna(subset=["value"])
        for _, row in table.iterrows():
            levels = [key(str(row[factor])) for factor in by]
            name = "_".join([levels[0], kind, *levels[1:]])
            results.value(name, interval_of(row), metric_of(metric).unit)


# ---- comparisons --------------------------------------------------------------


def settled(one: Compared, *, arm: str, base: str, times: str) -> str:
    """Say a word other than "undetermined": "A is faster than B (2 times …)."."""
    effect = aside(one.comparison.ratio, f"{{}} times {times}")
    return f"{arm} is {one.word} {base} {effect}."


def verdict(one: Compared, *, arm: str, base: str, question: str, times: str) -> str:
    """Say a comparison as a sentence, whatever its word is.

    Parameters
    ----------
    one : Compared
    arm, base : str
        What is compared, and with what, where.
    question : str
        What is open where the word is "undetermined": "Whether A or B serves more".
    times : str
        What the ratio counts: "its throughput".
    """
    if one.word == "undetermined":
        return f"{question} is undetermined {aside(one.comparison.ratio)}."
    return settled(one, arm=arm, base=base, times=times)
