"""Names for the values that the paper's text may ask a study for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from connlab.study.cells import interval_of, summarise
from connlab.study.metrics import metric as metric_of
from connlab.study.response_time import key
from connlab.study.results import Results


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
