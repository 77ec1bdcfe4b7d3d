"""Courses: what happened over a trial, and over a sweep."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from connlab.study import drawing as draw
from connlab.study import look
from connlab.study.drawing import Picture
from connlab.study.formatting import display_unit, listing, number_text
from connlab.study.repeating import Drift


def timeline(
    windows: pd.DataFrame,
    *,
    by: str = "model",
    styles: Mapping[str, look.Style] | None = None,
    events: Mapping[str, float] | None = None,
) -> Picture:
    """Draw requests per second while trials ran: each trial thin, their mean thick.

    Parameters
    ----------
    windows : DataFrame
        Columns `by`, key, start_s, throughput_rps, as from
        `connlab.study.frames.load_windows` merged with the frame.
    by, styles
        As in `curves_of`.
    events : mapping of str to float, optional
        What happened at which second.
    """
    styles = styles or look.styles(windows, by)
    factor, unit = display_unit("requests/s", windows["throughput_rps"])
    data = windows.assign(throughput=windows["throughput_rps"] * factor, unit=unit)
    names = [n for n in styles if (data[by].astype(str) == n).any()]
    with look.paper():
        figure = draw.canvas(look.WIDTH, draw.TOP + 0.2 + 1.8 + draw.BOTTOM)
        right = 0.3 + max(
            draw.text_width(figure, styles[n].label, draw.LABEL_SIZE) for n in names
        )
        ax = draw.place(
            figure, draw.LEFT, draw.BOTTOM, look.WIDTH - draw.LEFT - right, 1.8
        )
        draw.scale_x(ax, data["start_s"], log=False)
        draw.scale_y(ax, data["throughput"], log=False)
        draw.tidy(ax)
        ends = [_course(ax, data, by, n, styles[n]) for n in names]
        draw.direct_labels(ax, ends)
        _events(ax, events or {})
        ax.set_xlabel("seconds since the client started")
        draw.y_label(ax, "throughput", unit)
    said = []
    for name in names:
        v = data.loc[data[by].astype(str) == name, "throughput"]
        low, high = v.min(), v.max()
        said.append(f"{styles[name].label} between {low:.3g} and {high:.3g}")
    what = f"; marked: {listing(list(events))}" if events else ""
    alt = f"Throughput over time in {unit}: {'; '.join(said)}{what}."
    return Picture(figure, data.drop(columns="throughput_rps"), alt)


def _course(ax, data, by, name, style):
    mine = data[data[by].astype(str) == name]
    for _, one in mine.groupby("key"):
        ax.plot(
            one["start_s"],
            one["throughput"],
            color=style.color,
            alpha=0.25,
            linewidth=0.7,
        )
    mean = mine.groupby("start_s")["throughput"].mean()
    ax.plot(mean.index, mean, color=style.color, linewidth=1.8)
    return (mean.index[-1], mean.iloc[-1], style)


def _events(ax: Axes, events: Mapping[str, float]) -> None:
    for label, at in events.items():
        ax.axvline(at, color=look.QUIET, linewidth=1, linestyle=(0, (4, 2)))
        ax.annotate(
            label,
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, 2),
            textcoords="offset points",
            fontsize=draw.SMALL,
            color=look.QUIET,
        )


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
