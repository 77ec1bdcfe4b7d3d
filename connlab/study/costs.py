"""Costs compared: more or less of something, in place of faster and slower.

A cost per request is compared whoever was the bottleneck: a client that has no time
left sends fewer requests, and the server spends on each what it spends. It does depend
on how many requests a server finds at once, and so a little on who asks: study 09 asks
the same servers with two clients that wait differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from connlab.study.cells import Compared, compare_cells

WORDS = {"faster than": "cheaper than", "slower than": "dearer than"}
"""What the words of a comparison say of a cost."""


def whoever_was_the_limit(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials without the labels by which a limited client ranks nobody."""
    return frame.assign(label="not asked")


def compare_costs(
    frame: pd.DataFrame,
    metric: str,
    *,
    baseline: Any,
    within: Sequence[str],
    by: str = "model",
) -> list[Compared]:
    """Compare a cost of every level of `by` with that at `baseline`.

    As `connlab.study.cells.compare_cells`, but whoever was the bottleneck, and with
    words for costs.
    """
    anyone = whoever_was_the_limit(frame)
    found = compare_cells(anyone, metric, baseline=baseline, within=within, by=by)
    return [_in_words(one) for one in found]


def _in_words(one: Compared) -> Compared:
    word = WORDS.get(one.word, one.word)
    comparison = replace(one.comparison, word=word)
    return replace(one, baseline=str(one.baseline), comparison=comparison)
