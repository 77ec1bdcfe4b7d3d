"""Courses: what happened over a trial, and over a sweep."""

from __future__ import annotations

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from connlab.study import drawing as draw
from connlab.study import look
from connlab.study.drawing import Picture
from connlab.study.formatting import number_text
from connlab.study.repeating import Drift


def drifting(drift: Drift, *, label: str) -> Picture:
    """Draw each trial against its place in the sweep, with the trend.

    Parameters
    ----------
    drift : Drift
        From `connlab.study.repeating.drift`.
    label : str
        The metric.
    """
    data = drift.residuals
    with look.paper():
        figure = draw.canvas(look.WIDTH, draw.TOP + 1.6 + draw.BOTTOM)
        ax = draw.place(figure, 0.85, draw.BOTTOM, look.WIDTH - 1.0, 1.6)
        draw.tidy(ax)
        sns.scatterplot(
            data=data,
            x="position",
            y="residual",
            ax=ax,
            color=look.INK,
            s=14,
            alpha=0.6,
        )
        reach = (
            max(0.02, float(data["residual"].abs().max() if len(data) else 0)) * 1.15
        )
        ax.set_ylim(-reach, reach)
        ax.set_xlim(-0.02, 1.02)
        ax.axhline(0, color=look.QUIET, linewidth=1)
        if drift.change.determined:
            _trend(ax, drift)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:+.0%}"))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0%}"))
        ax.set_xlabel("place in the sweep")
        ax.set_ylabel(f"{draw.sentence(label)}\nagainst the median of its cell")
    found = "a trend" if drift.drifting else "no trend"
    change = "undetermined"
    if drift.change.determined:
        change = number_text(drift.change.scaled(100), "%")
    alt = (
        f"{len(data)} trials in the order they ran: {found} in {label} "
        f"(change over the sweep {change}, p {drift.p:.2g})."
    )
    return Picture(figure, data.assign(metric=label), alt)


def _trend(ax: Axes, drift: Drift) -> None:
    at = np.array([0.0, 1.0])
    middle = float(drift.residuals["residual"].median())
    for slope, width in ((drift.change.lo, 0.6), (drift.change.hi, 0.6)):
        ax.plot(at, middle + slope * (at - 0.5), color=look.QUIET, linewidth=width)
    ax.plot(
        at, middle + drift.change.value * (at - 0.5), color=look.QUIET, linewidth=1.6
    )
