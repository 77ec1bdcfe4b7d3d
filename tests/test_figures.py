"""Marks on seaborn's figures: each stands in the facet of its cell."""

from __future__ import annotations

import pandas as pd
import seaborn as sns

from connlab import figures


def test_a_white_dot_stands_in_the_facet_of_its_model():
    trials = pd.DataFrame(
        {"model": ["epoll", "thread"], "family": ["readiness", "threads"], "n": 1}
    )
    grid = sns.relplot(trials, x="n", y="n", hue="model", col="family", kind="line")
    before = {family: len(ax.lines) for family, ax in grid.axes_dict.items()}
    cells = pd.DataFrame({"model": ["epoll"], "n": 1, "value": 1.0, "bound": True})
    figures.hollow(grid, cells, x="n")
    dots = {
        family: sum(len(line.get_xdata()) for line in ax.lines[before[family] :])
        for family, ax in grid.axes_dict.items()
    }
    assert dots == {"readiness": 1, "threads": 0}
