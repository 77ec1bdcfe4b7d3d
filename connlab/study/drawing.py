"""Parts that figures share: axes, direct labels, strips of failures, alt text.

A `Picture` is a figure with the data that it shows and the words that say it to
somebody who does not see it. Layout is by hand, in inches: labels at the ends of
curves need to know how wide they are, and the same figure must come out the same
every time.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from connlab.study import look
from connlab.study.cells import CLIENT_BOUND
from connlab.study.formatting import plain, rounded
from connlab.study.interval import Interval

LABEL_SIZE = 8
SMALL = 7.2
LEFT, TOP, BOTTOM = 0.62, 0.16, 0.46
"""Inches around axes."""

_ROW = 0.19
"""Inches of one row in a strip of failures."""
_CROSS = 0.08
"""Inches from the middle of a cross that a word keeps."""

_MOST_LETTERS = 40
_MOST_GAPS = 6
"""Rows of crosses that a figure has room for."""


@dataclass(frozen=True)
class Picture:
    """A figure, the data that it shows, and the same in words."""

    figure: Figure = field(repr=False)
    data: pd.DataFrame = field(repr=False)
    alt: str

    def save(self, folder: Path, name: str) -> dict[str, str]:
        """Write NAME.svg, NAME.pdf and NAME.csv; return their names by kind.

        The same data give the same bytes: no date, a fixed salt for ids.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with look.paper():
            self.figure.savefig(folder / f"{name}.pdf", metadata=_PDF)
        (folder / f"{name}.svg").write_text(self.svg())
        self.data.to_csv(folder / f"{name}.csv", index=False)
        return {kind: f"{name}.{kind}" for kind in ("svg", "pdf", "csv")}

    def svg(self) -> str:
        """Return the picture as SVG text."""
        out = io.StringIO()
        with look.paper():
            self.figure.savefig(out, format="svg", metadata=_SVG)
        return compact(out.getvalue())

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"image/svg+xml": self.svg(), "text/plain": self.alt}


def compact(svg: str) -> str:
    """Return a picture in a fifth less text: it stands in pages, notebooks and runs.

    The font is named once; indentation, empty groups, turns by nothing and what lies
    below a hundredth of a point are left out.
    """

    def coarse(attribute: re.Match) -> str:
        return re.sub(r"(\d\.\d\d)\d+", r"\1", attribute[0])

    if font := re.search(r"font-family: ([^;\"]+); ", svg):
        svg = svg.replace(font[0], "").replace(
            "<svg ", f'<svg font-family="{font[1]}" ', 1
        )
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    svg = re.sub(r'\b(?:d|x|y|transform)="[^"]*"', coarse, svg)
    svg = re.sub(r'<g id="[^"]*"/>', "", svg)
    return re.sub(r"\n\s*(?=<)", "\n", svg)


_SVG = {"Date": None, "Creator": "connlab"}
_PDF = {"CreationDate": None, "ModDate": None, "Creator": "connlab", "Producer": None}


def canvas(width: float, height: float) -> Figure:
    """Return an empty figure that no global state knows of."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def place(figure: Figure, left: float, bottom: float, width: float, height: float):
    """Add axes at a place given in inches from the lower left."""
    w, h = figure.get_size_inches()
    return figure.add_axes((left / w, bottom / h, width / w, height / h))


def tidy(ax: Axes, *, grid: str = "both") -> None:
    """Take away what carries no data."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(False)
    if grid != "none":
        ax.grid(True, axis=grid)
    ax.set_axisbelow(True)


def text_width(figure: Figure, text: str, size: float) -> float:
    """Return the width of a text in inches."""
    probe = figure.text(0, 0, text, fontsize=size)
    box = probe.get_window_extent(figure.canvas.get_renderer())
    probe.remove()
    return box.width / figure.dpi


def darker(color: str) -> tuple[float, float, float]:
    """Return a colour dark enough to read text in."""
    return tuple(0.72 * c for c in colors.to_rgb(color))


# ---- axes --------------------------------------------------------------------


def scale_x(ax: Axes, levels: Sequence[float], *, log: bool | None = None) -> None:
    """Set the x axis: logarithmic for levels that span a factor of 20 or more."""
    levels = np.unique(np.asarray(levels, dtype=float))
    if log is None:
        low = levels[levels > 0].min(initial=np.inf)
        log = bool(len(levels) > 2 and levels.max() / low >= 20)
    if not log:
        _linear(ax, levels)
        return
    if levels.min() <= 0:
        low = levels[levels > 0].min()
        ax.set_xscale("symlog", linthresh=low, linscale=0.5)
        # By itself it marks powers of ten next to 0, where there is no room.
        tens = 10.0 ** np.arange(math.ceil(math.log10(low)), 12)
        inside = tens[tens <= levels.max()]
        ax.set_xticks(levels if len(levels) <= 6 else [0.0, *inside])
        ax.set_xlim(-low / 4, levels.max() * 1.25)
    else:
        ax.set_xscale("log")
        ax.set_xlim(levels.min() / 1.3, levels.max() * 1.3)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _linear(ax: Axes, levels: np.ndarray) -> None:
    span = np.ptp(levels) or max(abs(levels[0]), 1.0)
    ax.set_xlim(levels.min() - 0.05 * span, levels.max() + 0.05 * span)
    if len(levels) <= 8 and np.diff(levels).min(initial=span) > 0.08 * span:
        ax.set_xticks(levels)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))


def scale_y(
    ax: Axes,
    values: Sequence[float],
    bounds: Sequence[float] = (),
    *,
    log: bool | None = None,
    zero: bool = True,
) -> None:
    """Set the y axis: logarithmic for values that span a factor of 20 or more.

    A linear axis starts at 0, so that lengths compare as numbers do, unless `zero` is
    False. Bounds of intervals have room above; below 0, where no value is, they are
    cut.
    """
    v, b = (np.asarray(a, dtype=float) for a in (values, bounds))
    v, b = v[np.isfinite(v)], b[np.isfinite(b)]
    if not len(v):
        ax.set_ylim(0, 1)
        return
    if log is None:
        log = bool(v.min() > 0 and v.max() / v.min() >= 20)
    if log:
        b = b[b > v[v > 0].min() / 5]
    elif v.min() >= 0:
        b = b[b >= 0]
    v = np.concatenate([v, b])
    if log:
        v = v[v > 0]
        ax.set_yscale("log")
        ax.set_ylim(v.min() / 1.5, v.max() * 1.6)
        short = v.max() / v.min() < 200
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if short else (1,)))
        ax.yaxis.set_minor_locator(NullLocator())
    else:
        room = 0.08 * (np.ptp(v) or abs(v[0]) or 1.0)
        low = min(0.0, v.min() * 1.05) if zero else v.min() - room
        ax.set_ylim(low, v.max() + (0.08 * v.max() if zero else room) or 1.0)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _tick(y)))


def _tick(value: float) -> str:
    if value == int(value) or abs(value) >= 100:
        return rounded(value, 0)
    return f"{value:.3g}"


# ---- what is drawn on them ---------------------------------------------------


def points(ax: Axes, rows: pd.DataFrame, x: str, style: look.Style, **how) -> None:
    """Draw a curve: its points, their intervals, and a line between them.

    Hollow are points without an interval, and those that are a bound only.
    """
    rows = rows.dropna(subset=["value"]).sort_values(x)
    if rows.empty:
        return
    color = style.color
    ax.plot(
        rows[x],
        rows["value"],
        marker=style.marker,
        color=color,
        markeredgecolor="white",
        markeredgewidth=0.6,
        zorder=3,
        **how,
    )
    bars(ax, rows[x], rows, color)
    bound = rows.get("label", rows["lo"]).astype(str).eq(CLIENT_BOUND)
    alone = rows[rows["lo"].isna() | bound]
    ax.plot(
        alone[x],
        alone["value"],
        marker=style.marker,
        linestyle="none",
        color="white",
        markeredgecolor=color,
        markeredgewidth=1.0,
        zorder=3.5,
    )


def bars(ax: Axes, x, rows: pd.DataFrame, color, *, flat: bool = False) -> None:
    """Draw intervals, upright or lying; rows without one have none."""
    down = (rows["value"] - rows["lo"]).clip(lower=0).to_numpy(dtype=float)
    up = (rows["hi"] - rows["value"]).clip(lower=0).to_numpy(dtype=float)
    have = np.isfinite(down) & np.isfinite(up)
    if not have.any():
        return
    where, value = np.asarray(x)[have], rows["value"].to_numpy(dtype=float)[have]
    err = np.vstack([down[have], up[have]])
    common = {"fmt": "none", "ecolor": color, "elinewidth": 1.1, "capsize": 2.2}
    if flat:
        ax.errorbar(value, where, xerr=err, zorder=2.5, **common)
    else:
        ax.errorbar(where, value, yerr=err, zorder=2.5, **common)


LINE = 0.07
"""Height of a line of small text, as a part of the y axis."""


def bounds(
    ax: Axes,
    lines: Mapping[str, Interval | float],
    factor: float = 1.0,
    *,
    avoid: Sequence[tuple[float, float]] = (),
) -> None:
    """Draw floors and ceilings as labelled lines.

    The label stands above its line, or below where another line is close above, and at
    that end from which the points in `avoid` (x, y in data coordinates) keep more
    distance, but not beside another label.
    """
    heights = places(lines, factor)
    levels = [_level(ax, height) for height in heights]
    taken: list[tuple[bool, float]] = []
    for (label, at), height, level in zip(lines.items(), heights, levels, strict=True):
        if isinstance(at, Interval) and at.determined:
            ax.axhspan(
                at.lo * factor,
                at.hi * factor,
                color=look.QUIET,
                alpha=0.15,
                linewidth=0,
            )
        ax.axhline(height, color=look.QUIET, linewidth=1, linestyle=(0, (4, 2)))
        below = any(0 < other - level < LINE for other in levels)
        middle = level - LINE / 2 if below else level + LINE / 2
        right = _clearer_on_the_right(ax, middle, avoid)
        if any(side == right and abs(middle - other) < LINE for side, other in taken):
            right = not right
        taken.append((right, middle))
        ax.annotate(
            label,
            (0.99 if right else 0.01, height),
            xycoords=("axes fraction", "data"),
            xytext=(0, -2 if below else 2),
            textcoords="offset points",
            fontsize=SMALL,
            color=look.QUIET,
            ha="right" if right else "left",
            va="top" if below else "bottom",
        )


def _level(ax: Axes, height: float) -> float:
    """Return a place of the y axis as a part of its length."""
    return (ax.transData + ax.transAxes.inverted()).transform((1, height))[1]


def _clearer_on_the_right(ax: Axes, level: float, avoid) -> bool:
    """Whether points keep more distance from a label at the right than at the left."""
    to_axes = ax.transData + ax.transAxes.inverted()
    at = [to_axes.transform(p) for p in avoid]
    left = min((abs(y - level) for x, y in at if x < 0.4), default=1.0)
    right = min((abs(y - level) for x, y in at if x > 0.6), default=1.0)
    return right > left


def places(lines: Mapping[str, Interval | float], factor: float = 1.0) -> list[float]:
    """Return where floors and ceilings lie, for the limits of an axis."""
    values = (i.value if isinstance(i, Interval) else float(i) for i in lines.values())
    return [v * factor for v in values]


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move places apart so that neighbours are `gap` away, as little as possible.

    Pools neighbours that are too close into one block around their mean, until no
    two blocks touch; then shifts what sticks out back in.
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[list[float]] = []  # [centre, count]
    for i in order:
        blocks.append([float(wanted[i]), 1])
        while len(blocks) > 1 and (
            blocks[-1][0] - blocks[-2][0] < gap * (blocks[-1][1] + blocks[-2][1]) / 2
        ):
            b, a = blocks.pop(), blocks.pop()
            n = a[1] + b[1]
            blocks.append([(a[0] * a[1] + b[0] * b[1]) / n, n])
    out = np.empty(len(wanted))
    at = 0
    for centre, count in blocks:
        start = centre - gap * (count - 1) / 2
        for k in range(int(count)):
            out[order[at]] = start + gap * k
            at += 1
    return _pushed_in(out, order, gap, low, high)


def _pushed_in(out, order, gap, low, high) -> list[float]:
    floor = low
    for i in order:
        out[i] = max(out[i], floor)
        floor = out[i] + gap
    ceiling = high
    for i in order[::-1]:
        out[i] = min(out[i], ceiling)
        ceiling = out[i] - gap
    return out.tolist()


def direct_labels(ax: Axes, ends: Sequence[tuple[float, float, look.Style]]) -> None:
    """Write each curve's name at its right end, apart from each other.

    Parameters
    ----------
    ends : sequence of (x, y, style)
        Last point of each curve, in data coordinates.
    """
    if not ends:
        return
    figure = ax.figure
    figure.canvas.get_renderer()
    to_axes = ax.transData + ax.transAxes.inverted()
    at = [to_axes.transform((x, y))[1] for x, y, _ in ends]
    inches = ax.get_position().height * figure.get_size_inches()[1]
    gap = LABEL_SIZE * 1.28 / 72 / inches
    heights = spread(at, gap, 0.01, 1.0)
    for (x, y, style), height in zip(ends, heights, strict=True):
        ax.annotate(
            style.label,
            (x, y),
            xytext=(1.035, height),
            textcoords="axes fraction",
            fontsize=LABEL_SIZE,
            color=darker(style.color),
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": style.color,
                "linewidth": 0.6,
                "alpha": 0.6,
                "shrinkA": 1,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )


@dataclass(frozen=True)
class Gap:
    """Cells without a value that share a reason: one row of crosses."""

    text: str
    color: str
    at: tuple[float, ...]


def gaps(
    table: pd.DataFrame, by: str, x: str, styles: Mapping[str, look.Style]
) -> list[Gap]:
    """Return the rows of crosses for the cells without a value.

    A row for each curve and reason; more than six are gathered by reason.
    """
    gone = table[table["value"].isna()]
    gone = gone.assign(why=gone["reason"].fillna("not measured"))
    rows = [
        Gap(
            _why_text(str(name), styles[str(name)].label, str(why)),
            styles[str(name)].color,
            tuple(sorted(cells[x])),
        )
        for (name, why), cells in gone.groupby([by, "why"], sort=False)
    ]
    if len(rows) <= _MOST_GAPS:
        return rows
    return [
        Gap(
            _short(f"{why}: {', '.join(sorted(cells[by].astype(str).unique()))}"),
            look.INK,
            tuple(sorted(cells[x].unique())),
        )
        for why, cells in gone.groupby("why", sort=False)
    ]


def _why_text(name: str, label: str, why: str) -> str:
    """Say whose cells have no value, and why; where room is short, in fewer letters."""
    text = f"{label}: {why}"
    return text if len(text) <= _MOST_LETTERS else _short(f"{name}: {why}")


def _short(text: str) -> str:
    return textwrap.shorten(text, _MOST_LETTERS, placeholder="…")


def strip_height(rows: Sequence[Gap], *, inside: Axes | None = None) -> float:
    """Return the inches that a strip of failures takes.

    The words of its rows stand at the right of the axes, or inside of axes as wide and
    scaled as these.
    """
    return _ROW * sum(_lines(inside, gap) if inside else 1 for gap in rows)


def _lines(ax: Axes, gap: Gap) -> float:
    """Return the lines of a row inside axes: more where its words meet its crosses."""
    first = (ax.transData + ax.transAxes.inverted()).transform((min(gap.at), 0))[0]
    room = first * ax.get_position().width * ax.figure.get_size_inches()[0]
    return 1 if text_width(ax.figure, gap.text, SMALL) < room - _CROSS else 1.8


def strip(ax: Axes, rows: Sequence[Gap], *, inside: bool = False) -> None:
    """Draw a row of crosses for each reason, with the reason in words.

    The words stand at the right of the axes, or `inside`: left of the crosses where
    there is room, else above them.
    """
    top = ax.get_position().height * ax.figure.get_size_inches()[1] / _ROW
    ax.set_ylim(0, top)
    for gap in rows:
        lines = _lines(ax, gap) if inside else 1
        middle, apart = top - lines / 2, (lines - 1) / 2
        top -= lines
        ax.plot(
            gap.at,
            [middle - apart] * len(gap.at),
            linestyle="none",
            marker="x",
            color=gap.color,
            markersize=4.5,
            markeredgewidth=1.3,
            clip_on=False,
        )
        ax.annotate(
            gap.text,
            (0.0 if inside else 1.035, middle + apart),
            xycoords=("axes fraction", "data"),
            fontsize=SMALL,
            color=darker(gap.color),
            va="center",
            annotation_clip=False,
        )
    ax.set_yticks([])
    ax.grid(False)
    ax.patch.set_visible(False)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def empty(ax: Axes) -> None:
    """Say in the middle of axes that there is nothing to draw."""
    ax.set_yticks([])
    ax.grid(False)
    ax.text(
        0.5,
        0.5,
        "no usable trial",
        transform=ax.transAxes,
        ha="center",
        va="center",
        color=look.QUIET,
    )


# ---- words -------------------------------------------------------------------


def curve_in_words(
    rows: pd.DataFrame, x: str, label: str, show: Callable[[pd.Series], str]
) -> str:
    """Say a curve: its ends, its highest point if inside, and its gaps."""
    there = rows.dropna(subset=["value"]).sort_values(x)
    gone = rows[rows["value"].isna()].sort_values(x)
    said = []
    if len(there) == 1:
        said.append(f"{show(there.iloc[0])} at {plain(there[x].iloc[0])}")
    elif len(there) > 1:
        first, last = there.iloc[0], there.iloc[-1]
        said.append(
            f"{show(first)} at {plain(first[x])} to {show(last)} at {plain(last[x])}"
        )
        top = there.loc[there["value"].idxmax()]
        if top["value"] > 1.1 * max(first["value"], last["value"]):
            said.append(f"highest {show(top)} at {plain(top[x])}")
    for reason, cells in gone.groupby(gone["reason"].fillna("not measured")):
        where = ", ".join(plain(v) for v in sorted(cells[x]))
        said.append(f"no value at {where} ({reason})")
    return f"{label}: {'; '.join(said) or 'nothing measured'}."


def y_label(ax: Axes, label: str, unit: str) -> None:
    """Name the y axis with its unit; long numbers beside it push the axes right."""
    ax.set_ylabel(titled(label, unit))
    figure = ax.figure
    box = ax.yaxis.get_tightbbox(figure.canvas.get_renderer())
    missing = (0.03 - box.x0 / figure.dpi) / figure.get_size_inches()[0]
    if missing <= 0:
        return
    left = ax.get_position().x0
    for other in figure.axes:
        box = other.get_position()
        if abs(box.x0 - left) < 1e-6:
            corner = (box.x0 + missing, box.y0)
            other.set_position((*corner, box.width - missing, box.height))


def titled(label: str, unit: str) -> str:
    """Return ``Label (unit)``."""
    return sentence(label) + (f" ({unit})" if unit else "")


def in_unit(table: pd.DataFrame, factor: float) -> pd.DataFrame:
    """Return the table with value, lo and hi in another unit."""
    return table.assign(**{c: table[c] * factor for c in ("value", "lo", "hi")})


def sentence(text: str) -> str:
    """Return the text with a capital first letter and nothing else changed."""
    return text[:1].upper() + text[1:]
