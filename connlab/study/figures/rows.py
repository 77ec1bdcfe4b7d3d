"""Rows: ratios with the margin of "alike", parts of a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from connlab.study import drawing as draw
from connlab.study import look
from connlab.study.comparing import MARGIN
from connlab.study.drawing import Picture
from connlab.study.formatting import plain, rounded


def _row_axes(labels: Sequence[str], panels: int, *, right: float = 0.15):
    """Return axes side by side that share rows with these labels (lowest first)."""
    figure = draw.canvas(look.WIDTH, 1)
    size = 8 if len(labels) <= _MANY else draw.SMALL
    left = 0.15 + max(draw.text_width(figure, t, size) for t in labels)
    gap, height = 0.2, _row_height(len(labels)) * len(labels) + 0.2
    figure.set_size_inches(look.WIDTH, height + draw.TOP + draw.BOTTOM)
    width = (look.WIDTH - left - right - gap * (panels - 1)) / panels
    axes = [
        draw.place(figure, left + k * (width + gap), draw.BOTTOM, width, height)
        for k in range(panels)
    ]
    for k, ax in enumerate(axes):
        ax.set_ylim(-0.6, len(labels) - 0.4)
        ax.set_yticks(range(len(labels)), labels if k == 0 else [], fontsize=size)
        ax.tick_params(axis="y", length=0)
    return figure, axes


_MANY = 12
"""More rows than this stand closer, in smaller letters."""


def _row_height(rows: int) -> float:
    """Return the inches from row to row."""
    return 0.21 if rows <= _MANY else 0.155


def _dot(ax: Axes, place: int, row: pd.DataFrame, style: look.Style) -> None:
    value = float(row["value"].iloc[0])
    if not math.isfinite(value):
        reason = row["reason"].iloc[0]
        text = "not measured" if pd.isna(reason) else str(reason)
        ax.annotate(
            f"× {text}",
            (0.01, place),
            xycoords=("axes fraction", "data"),
            fontsize=draw.SMALL,
            color=draw.darker(style.color),
            va="center",
        )
        return
    hollow = not math.isfinite(float(row["lo"].iloc[0]))
    draw.bars(ax, [place], row, style.color, flat=True)
    ax.plot(
        [value],
        [place],
        marker=style.marker,
        color="white" if hollow else style.color,
        markeredgecolor=style.color if hollow else "white",
        markeredgewidth=1.0 if hollow else 0.6,
        markersize=6,
        linestyle="none",
        zorder=3,
    )


def forest(
    ratios: pd.DataFrame,
    *,
    labels: Sequence[str],
    margin: float = MARGIN,
    x_label: str = "ratio",
    styles: Mapping[str, look.Style] | None = None,
) -> Picture:
    """Draw ratios with their intervals, the margin of "alike", and their words.

    Parameters
    ----------
    ratios : DataFrame
        Columns arm, value, lo, hi, word, as from `connlab.study.cells.ratio_frame`.
    labels : sequence of str
        One per row: what is compared where.
    margin : float
        Half-width of the band around 1.
    x_label : str
        What the ratio is of: "response time of the first / of the second".
    styles : mapping of str to Style, optional
        By the name in `arm`.
    """
    data = ratios.reset_index(drop=True).assign(label=list(labels))
    words = [_short_word(w) for w in data["word"]]
    with look.paper():
        probe = draw.canvas(look.WIDTH, 1)
        right = 0.25 + max(draw.text_width(probe, w, draw.SMALL) for w in words)
        figure, (ax,) = _row_axes(list(data["label"])[::-1], 1, right=right)
        _ratio_axis(ax, data, margin)
        for place, (row, word) in enumerate(
            zip(data[::-1].itertuples(), words[::-1], strict=True)
        ):
            style = (styles or {}).get(row.arm, look.Style("", look.INK, "o"))
            _dot(
                ax, place, data[data.index == row.Index].assign(reason=row.word), style
            )
            ax.annotate(
                word,
                (1.02, place),
                xycoords=("axes fraction", "data"),
                fontsize=draw.SMALL,
                va="center",
                annotation_clip=False,
            )
        ax.set_xlabel(draw.sentence(x_label))
    said = [
        f"{row.label}: {rounded(row.value, 2)} "
        f"[{rounded(row.lo, 2)}, {rounded(row.hi, 2)}], {word}."
        for row, word in zip(data.itertuples(), words, strict=True)
    ]
    alt = f"Ratios with intervals, {x_label}; a band marks {margin:.0%} around 1. "
    return Picture(figure, data, alt + " ".join(said))


def _short_word(word: str) -> str:
    return word.removesuffix(" than").removesuffix(" from")


def _ratio_axis(ax: Axes, data: pd.DataFrame, margin: float) -> None:
    ends = data[["value", "lo", "hi"]].to_numpy(dtype=float).ravel()
    ends = ends[np.isfinite(ends) & (ends > 0)]
    reach = max(np.abs(np.log(ends)).max(initial=0), math.log(1 + 2 * margin)) * 1.1
    ax.set_xscale("log")
    ax.set_xlim(math.exp(-reach), math.exp(reach))
    draw.tidy(ax, grid="x")
    ax.axvspan(1 / (1 + margin), 1 + margin, color=look.FAINT, alpha=0.5, linewidth=0)
    ax.axvline(1, color=look.QUIET, linewidth=1)
    ticks = _ratio_ticks(ax, reach)
    ax.set_xticks(ticks, [plain(tick) for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())


_RATIO_TICKS = (
    (0.95, 1, 1.05),
    (0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5),
    (0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3),
    (0.33, 0.5, 0.67, 1, 1.5, 2, 3),
    (0.1, 0.2, 0.5, 1, 2, 5, 10),
    (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
    (0.001, 0.01, 0.1, 1, 10, 100, 1000),
    (1e-6, 1e-4, 0.01, 1, 100, 1e4, 1e6),
    (0.8, 1, 1.25),
    (0.5, 1, 2),
)
"""From narrow to wide; at last what fits an axis with hardly any room."""


def _ratio_ticks(ax: Axes, reach: float) -> list[float]:
    """Return the ticks of a ratio's axis: those that spread out and do not collide.

    Of the sets of which at least three lie on the axis and no two labels touch, the
    one that reaches furthest out; 1 alone where none does.
    """
    room = ax.get_position().width * ax.figure.get_size_inches()[0]
    best, furthest = [1.0], 0.0
    for steps in _RATIO_TICKS:
        inside = [float(s) for s in steps if abs(math.log(s)) <= reach]
        out = math.log(max(inside))
        if len(inside) >= 3 and out > furthest and _apart(ax, inside, reach, room):
            best, furthest = inside, out
    return best


def _apart(ax: Axes, ticks: Sequence[float], reach: float, room: float) -> bool:
    """Whether labels of these ticks leave a gap between each other."""
    wide = [draw.text_width(ax.figure, plain(tick), 8) for tick in ticks]
    at = [(math.log(tick) / reach + 1) / 2 * room for tick in ticks]
    return all(
        at[i + 1] - at[i] > (wide[i] + wide[i + 1]) / 2 + 0.06
        for i in range(len(ticks) - 1)
    )
