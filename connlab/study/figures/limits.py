"""Limits: between which two levels a model broke, and where it was expected to."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from connlab.study import drawing as draw
from connlab.study import look
from connlab.study.drawing import Picture
from connlab.study.figures.rows import _row_axes
from connlab.study.formatting import plain


def limits(
    table: pd.DataFrame, *, styles: Mapping[str, look.Style], x_label: str
) -> Picture:
    """Draw a row per model: carried up to, broke at, and the limit predicted.

    Parameters
    ----------
    table : DataFrame
        Columns model, carried, broke, predicted, symptom; `broke` and `predicted`
        are missing where nothing broke or nothing was predicted.
    styles : mapping of str to Style
        By model, in the order to show them.
    x_label : str
        What is counted.

    Returns
    -------
    Picture
    """
    names = [n for n in styles if (table["model"] == n).any()][::-1]
    rows = {n: table[table["model"] == n].iloc[0] for n in names}
    with look.paper():
        probe = draw.canvas(look.WIDTH, 1)
        texts = {n: _text(rows[n]) for n in names}
        wide = max(draw.text_width(probe, t, draw.SMALL) for t in texts.values())
        figure, (ax,) = _row_axes(
            [styles[n].label for n in names], 1, right=0.25 + wide
        )
        _axis(ax, table, x_label)
        for place, name in enumerate(names):
            _row(ax, place, rows[name], styles[name])
            ax.annotate(
                texts[name],
                (1.02, place),
                xycoords=("axes fraction", "data"),
                fontsize=draw.SMALL,
                va="center",
                annotation_clip=False,
            )
        _legend(figure, ax)
    said = [f"{styles[n].label}: {_words(rows[n])}." for n in names[::-1]]
    alt = f"Limits by model, in {x_label}. " + " ".join(said)
    return Picture(figure, table, alt)


def _axis(ax, table: pd.DataFrame, x_label: str) -> None:
    values = table[["carried", "broke", "predicted"]].to_numpy(dtype=float).ravel()
    values = [v for v in values if math.isfinite(v) and v > 0]
    ax.set_xscale("log")
    ax.set_xlim(min(values, default=1) / 1.5, max(values, default=1) * 1.6)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))
    ax.xaxis.set_minor_locator(NullLocator())
    draw.tidy(ax, grid="x")
    ax.set_xlabel(x_label)


def _row(ax, place: int, row: pd.Series, style: look.Style) -> None:
    carried, broke, predicted = (row[k] for k in ("carried", "broke", "predicted"))
    low = ax.get_xlim()[0]
    start = carried if carried > 0 else low
    ax.plot([low, start], [place, place], color=style.color, linewidth=2.2, zorder=2)
    if pd.notna(broke):
        ends = [start, broke]
        ax.plot(ends, [place, place], color=style.color, linewidth=1, linestyle=":")
        ax.plot([broke], [place], marker="x", color=style.color, markersize=6)
    if carried > 0:
        ax.plot([carried], [place], marker=style.marker, color=style.color, zorder=3)
    if pd.notna(predicted):
        ends = [place - 0.32, place + 0.32]
        ax.plot([predicted, predicted], ends, color=look.INK, linewidth=1.4, zorder=4)


def _text(row: pd.Series) -> str:
    return str(row["symptom"]) if pd.notna(row["broke"]) else "did not break"


def _words(row: pd.Series) -> str:
    said = f"carried {plain(float(row['carried']))}"
    if pd.notna(row["broke"]):
        said += f", broke at {plain(float(row['broke']))} ({row['symptom']})"
    else:
        said += ", did not break"
    if pd.notna(row["predicted"]):
        said += f"; predicted {plain(float(row['predicted']))}"
    return said


def _legend(figure, ax) -> None:
    quiet = {"color": look.QUIET, "linestyle": "none"}
    bar = {"color": look.INK, "linestyle": "none", "markeredgewidth": 1.4}
    handles = [
        Line2D([], [], marker="o", label="carried", **quiet),
        Line2D([], [], marker="x", label="broke", **quiet),
        Line2D([], [], marker="|", markersize=9, label="predicted", **bar),
    ]
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=3,
        borderaxespad=0,
        handletextpad=0.3,
    )
    w, h = figure.get_size_inches()
    box, extra = ax.get_position(), 0.2
    figure.set_size_inches(w, h + extra)
    tall = h / (h + extra)
    ax.set_position((box.x0, box.y0 * tall, box.width, box.height * tall))
