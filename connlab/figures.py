"""The paper's look for seaborn's figures, and the few marks that seaborn lacks.

    style()                          fonts and lines of the paper
    palette(trials)                  a colour per model, the same everywhere
    names(trials)                    what figures call a model: as the text does
    line_ends(grid)                  names at the ends of lines, in place of a legend
    floors(grid, lines)              limits of study 00, and lines for orientation
    failed(grid, trials)             a cross for each cell without a usable trial
    hollow(grid, cells)              a white dot where the client was the bottleneck
    forest(ratios)                   ratios, their intervals, and the band of "alike"
    flames(frames)                   what was sampled in each function and its callees

Everything else is seaborn: ``errorbar=t95, estimator=centre`` of `connlab.intervals`
draws the same numbers that ``cells.csv`` holds, and `CURVE` joins them.
"""

import colorsys
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from IPython.display import Image, display
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MultipleLocator, NullFormatter
from matplotlib.transforms import Bbox
from scipy.optimize import isotonic_regression

from connlab.intervals import centre, t95
from connlab.schema import put
from connlab.study.calibration import LIMITS
from connlab.study.formatting import plain
from connlab.study.frames import counted
from connlab.study.interval import Interval
from connlab.study.style import FAINT, INK, QUIET, RC, WIDTH, styles, typeset
from connlab.study.turns import MARGIN

CURVE = {"kind": "line", "estimator": centre, "errorbar": t95, "err_style": "bars"}
CURVE |= {"marker": "o"}
"""For ``sns.relplot``: what ``cells.csv`` has, joined, with its intervals."""

_SVG = {"Date": None, "Creator": "connlab"}
_PAGE = b"""#set page(width: auto, height: auto, margin: 0pt)
#set document(date: none)
#image(bytes(sys.inputs.svg), format: "svg")"""
_SMALL = 8.0
#: inches between ticks whose labels do not touch, and beside names between facets
_LINE, _GAP = 0.16, 0.3
#: height of a line of crosses, as a share of the facet's, and that of all at most
_CROSS, _CROSSES = 0.05, 0.6
_LEADER = {"arrowstyle": "-", "linewidth": 0.4, "color": FAINT, "relpos": (0, 0.5)}
_OUTSIDE = {"textcoords": "axes fraction", "va": "center", "arrowprops": _LEADER}
_OUTSIDE |= {"annotation_clip": False}
_PALE = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.3}
_BESIDE = {"xytext": (4, 2), "textcoords": "offset points", "va": "bottom"}
_BESIDE |= {"bbox": _PALE, "zorder": 8}
"""Where the name of a line stands: right of the facet, or at the line's last point."""
_EARLY = 0.85
"""A line that ends left of this share of its facet has its name at its last point."""
_STEP, _STEPS = 2.4, 10
"""Points by which a name there may be moved up or down, and how often."""
_CLEAR = 2.75
"""Points from a name to lines beside it: half a marker's width."""
_BETWEEN = 50
"""Parts into which each stretch of a line is cut to see what a name covers."""
_HUE = 0.03
"""Colours whose hues differ by less are those of a family."""
_MARKS = (("-", "o"), ((0, (4, 1.5)), "s"), ((0, (1, 1.2)), "^"))
_MARKS += (((0, (5, 1.5, 1, 1.5)), "D"), ((0, (2, 1)), "v"), ((0, (7, 2)), "X"))
"""Dashes and markers by which the lines of a family are told apart."""
LEVELS = "os^DvP"
"""Markers of levels that stand in one row, which grey print tells apart as well."""
_FLAME, _ROW = 6.0, 0.12
"""Of a flame graph: letters (points; 9 px on a tablet), height of a row (inches)."""


def style() -> None:
    """Set fonts, lines and grid of the paper for all figures that follow."""
    rc = RC | {"legend.title_fontsize": 8}
    rc |= {"axes.spines.top": False, "axes.spines.right": False}
    sns.set_theme(style="whitegrid", palette="colorblind", rc=rc)


def palette(trials: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Return a colour for each model: its family's hue, darker or lighter.

    Models come in the order of the registry, so the mapping also orders a legend.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`; or any frame with the column model, and family
        where there is more than one.
    """
    models, colors = styles(trials), {}
    for base, relatives in models.groupby("color"):
        colors |= zip(relatives.index, _shades(base, len(relatives)), strict=True)
    return {model: colors[model] for model in models.index}


def _shades(base: str, count: int) -> list[tuple[float, float, float]]:
    r, g, b = mpl.colors.to_rgb(base)
    h, lightness, s = colorsys.rgb_to_hls(r, g, b)
    reach = 0.12 * (count - 1)
    darker, lighter = max(0.3, lightness - reach), min(0.66, lightness + reach)
    steps = np.linspace(lightness, darker if lightness > 0.55 else lighter, count)
    return [colorsys.hls_to_rgb(h, float(step), s) for step in steps]


def labels(trials: pd.DataFrame) -> dict[str, str]:
    """Return what each model is called on figures."""
    return styles(trials)["label"].to_dict()


def names(trials: pd.DataFrame) -> dict[str, str]:
    """Return what figures call a model: its short name, as the text does.

    Servers of other projects, which the registry does not list, have their labels.
    """
    listed = {row["name"] for row in trials.attrs.get("registry") or ()}
    return {
        model: model if model in listed else label
        for model, label in labels(trials).items()
    }


def axes_of(grid: sns.FacetGrid | Axes) -> list[Axes]:
    """Return the axes of a grid, or of a plain figure's only axes."""
    return list(grid.axes.flat) if isinstance(grid, sns.FacetGrid) else [grid]


def _facets(grid: sns.FacetGrid | Axes) -> Iterator[tuple[Axes, dict[str, Any]]]:
    """Give each axes with the levels that define its facet, by column."""
    if not isinstance(grid, sns.FacetGrid):
        yield grid, {}
        return
    columns = [c for c in (grid._row_var, grid._col_var) if c]
    for key, ax in grid.axes_dict.items() if columns else [((), grid.ax)]:
        levels = key if isinstance(key, tuple) else (key,)
        yield ax, dict(zip(columns, levels, strict=True))


def _within(rows: pd.DataFrame, facet: Mapping[str, Any]) -> pd.DataFrame:
    for column, level in facet.items():
        if column in rows:
            rows = rows[rows[column] == level]
    return rows


def log_x(grid: sns.FacetGrid | Axes, levels: Sequence[float]) -> None:
    """Set a logarithmic x axis with ticks at levels that were measured.

    A tick whose label would overlap that of the one before is left out.
    """
    ticks = sorted({float(level) for level in levels})
    for ax in axes_of(grid):
        if ticks[0] > 0:
            ax.set_xscale("log")
            ax.set_xlim(ticks[0] / 1.4, ticks[-1] * 1.4)
        else:
            lowest = ticks[1] if len(ticks) > 1 else 1
            ax.set_xscale("symlog", linthresh=lowest, linscale=0.4)
        width = ax.get_position().width * ax.figure.get_size_inches()[0]
        ax.set_xticks(_legible(ticks, inches=width))
        ax.xaxis.set_major_formatter(lambda v, _: plain(v))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.tick_params(axis="x", which="minor", length=0)


def _legible(ticks: Sequence[float], *, inches: float) -> list[float]:
    positive = [t for t in ticks if t > 0] or [1.0]
    span = np.log10(positive[-1] / positive[0]) or 1.0
    letter = 0.075 * span / inches  # of 8 points, in decades
    kept = [t for t in ticks if t <= 0]
    last = -np.inf
    for tick in positive:
        half = letter * (len(plain(tick)) + 1) / 2
        if np.log10(tick) - half >= last:
            kept.append(tick)
            last = np.log10(tick) + half
    return kept


def log_y(grid: sns.FacetGrid | Axes) -> None:
    """Set a logarithmic y axis with plain numbers at 1, 2 and 5.

    Where their labels would overlap, at 1 only. An axis without a value shows 0.1 to 1,
    unless it shares that of others.
    """
    for ax in axes_of(grid):
        ax.set_yscale("log")
        together = ax.get_shared_y_axes().get_siblings(ax)
        tops = [each.dataLim.y1 for each in together]
        if not any(np.isfinite(top) and top > 0 for top in tops):
            ax.set_ylim(0.1, 1)
        height = ax.get_position().height * ax.figure.get_size_inches()[1]
        decades = np.log10(np.divide(*ax.get_ylim()[::-1]))
        close = 3 * decades > height / _LINE
        ax.yaxis.set_major_locator(LogLocator(subs=(1,) if close else (1, 2, 5)))
        # between 1, 2 and 5 ticks may stand at 102.5 and 105
        ax.yaxis.set_major_formatter(lambda v, _: plain(v) if v >= 1e5 else f"{v:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())


def line_ends(grid: sns.FacetGrid) -> None:
    """Write the name of each line at its right end, and take the legend away.

    Names that would overlap are moved apart as little as possible. They stand at the
    heights of the axes as they are: whatever else sets those is called before. Lines of
    one family, whose colours are close, get a dash and a marker each; the name of one
    that ends early stands beside its last point, where it covers no line if it can.

    Parameters
    ----------
    grid : FacetGrid
        From ``sns.relplot(kind="line")`` with ``hue`` and ``legend="full"``.
    """
    levels = {mpl.colors.to_hex(c): name for name, c in _in_legend(grid).items()}
    if grid.legend:
        grid.legend.remove()
    marks = _marks(list(levels))
    _name_outer_axes(grid)
    grid.figure.draw_without_rendering()
    for ax in axes_of(grid):
        ends = {}
        for line in ax.get_lines():
            y = np.asarray(line.get_ydata(), dtype=float)
            color = mpl.colors.to_hex(line.get_color())
            level = levels.get(color)
            drawn = line.get_linestyle() != "None" and np.isfinite(y).any()
            if level is not None and drawn:
                dash, marker = marks[color]
                line.set_linestyle(dash)
                if line.get_marker() == "o":
                    line.set_marker(marker)
                last = np.flatnonzero(np.isfinite(y))[0 if ax.xaxis_inverted() else -1]
                ends[level] = (float(line.get_xdata()[last]), float(y[last]), line)
        _write_ends(ax, ends)
    _make_room(grid.figure, axes_of(grid))
    for ax in axes_of(grid):
        _find_room(ax)


def _in_legend(grid: sns.FacetGrid | Axes) -> dict[str, Any]:
    """Return the colour of each line that the legend of a grid names."""
    if not (isinstance(grid, sns.FacetGrid) and grid.legend):
        return {}
    entries = zip(grid.legend.legend_handles, grid.legend.texts, strict=True)
    return {text.get_text(): handle.get_color() for handle, text in entries}


def _marks(colors: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """Return a dash and a marker for each colour, unlike those of its family."""
    marks: dict[str, tuple[Any, str]] = {}
    families: list[list[float]] = []  # the hues of each, the first one's first
    for color in colors:
        hue, _, saturation = colorsys.rgb_to_hls(*mpl.colors.to_rgb(color))
        hue = hue if saturation > 0.05 else -1.0  # a grey has none
        family = next((f for f in families if abs(f[0] - hue) < _HUE), None)
        if family is None:
            families.append(family := [])
        marks[color] = _MARKS[len(family) % len(_MARKS)]
        family.append(hue)
    return marks


def _name_outer_axes(grid: sns.FacetGrid) -> None:
    # Seaborn hid only the labels of the ticks that the grid began with.
    for ax in grid._not_left_axes if grid._sharey else ():
        ax.set_ylabel("")
        ax.tick_params(axis="y", which="both", labelleft=False)
    for ax in grid._not_bottom_axes if grid._sharex else ():
        ax.set_xlabel("")
        ax.tick_params(axis="x", which="both", labelbottom=False)


def _write_ends(ax: Axes, ends: dict) -> None:
    to_axes = ax.transData + ax.transAxes.inverted()
    height = ax.get_window_extent().height / ax.figure.dpi
    gap = 1.2 * _SMALL / 72 / height
    places = {level: to_axes.transform(end[:2]) for level, end in ends.items()}
    late = [level for level, (x, _) in places.items() if x >= _EARLY]
    wanted = [float(places[level][1]) for level in late]
    heights = spread(wanted, gap, 0.0, 1.0) if wanted else []
    where = dict.fromkeys([level for level in ends if level not in late], _BESIDE)
    for level, height in zip(late, heights, strict=True):
        where[level] = _OUTSIDE | {"xytext": (1.04, height)}
    for level, place in where.items():
        x, y, line = ends[level]
        ink = [0.75 * c for c in mpl.colors.to_rgb(line.get_color())]  # to be read
        ax.annotate(level, (x, y), fontsize=_SMALL, color=ink, **place)


def _find_room(ax: Axes) -> None:
    """Put each name beside a last point where it covers least, as near as can be.

    Right of the point, above or below it, or left of it, and so many steps higher or
    lower. Worst is to leave the facet, then to cover another name, then lines.
    """
    dots = ax.figure.dpi / 72
    drawn = _drawn(ax)
    taken = [_box(text) for text in ax.texts if not text.get_bbox_patch()]
    for text in (text for text in ax.texts if text.get_bbox_patch()):
        box, right = _box(text), dots * text.xyann[0]
        aside = (0, -right - box.width / 2, -2 * right - box.width)
        moves = product(aside, dots * _STEP * np.arange(_STEPS, -_STEPS - 1, -1))
        moves = sorted(moves, key=lambda move: math.hypot(*move))
        places = [box.translated(*move) for move in moves]
        covered = [_covered(place, ax, taken, drawn) for place in places]
        best = covered.index(min(covered))
        taken.append(places[best])
        text.xyann = tuple(np.add(text.xyann, np.divide(moves[best], dots)))


def _covered(
    box: Bbox, ax: Axes, taken: Sequence[Bbox], drawn: np.ndarray
) -> tuple[bool, int, int]:
    """Return whether a name leaves its facet, how many others it covers, and points."""
    inside = box.x0 >= ax.bbox.x0 and ax.bbox.y0 <= box.y0 and box.y1 <= ax.bbox.y1
    near = box.padded(_CLEAR * ax.figure.dpi / 72)
    return not inside, sum(map(box.overlaps, taken)), near.count_contains(drawn)


def _drawn(ax: Axes) -> np.ndarray:
    """Return points of all that is drawn in a facet, close to each other (pixels)."""
    points = [np.empty((0, 2))]
    for line in ax.get_lines():
        path = line.get_transform().transform_path(line.get_path())
        joined = line.get_linestyle() != "None" and len(path)
        points.append((path.interpolated(_BETWEEN) if joined else path).vertices)
    for bars in ax.collections:
        for path in filter(len, bars.get_paths()):
            stretch = bars.get_transform().transform_path(path)
            points.append(stretch.interpolated(_BETWEEN).vertices)
    return np.concatenate(points)


def _box(text: Text) -> Bbox:
    """Return where a name stands, without its arrow, which begins in the facet."""
    text.get_window_extent()  # finds the place of an annotation
    return Text.get_window_extent(text)


def _make_room(figure: Figure, axes: Sequence[Axes]) -> None:
    widths = [_box(text).width for ax in axes for text in ax.texts]
    columns = axes[0].get_gridspec().ncols
    margins = figure.subplotpars
    share = margins.right - margins.left
    gap = max(widths, default=0) / figure.dpi + _GAP
    lacking = gap - 0.6 * share * figure.get_figwidth() / columns
    if columns > 1 and lacking > 0:  # facets would shrink to slits
        figure.set_figwidth(figure.get_figwidth() + (columns - 1) * lacking / share)
    facet = (share * figure.get_figwidth() - (columns - 1) * gap) / columns
    figure.subplots_adjust(wspace=gap / facet)


def floors(
    grid: sns.FacetGrid | Axes,
    lines: Mapping[str, Interval | float] | None,
    *,
    factor: float = 1.0,
) -> None:
    """Draw what study 00 measured as lines, each with its name.

    A limit is dashed, and its name says so; what is for orientation is dotted.

    Parameters
    ----------
    lines : mapping of str to Interval or float
        As `connlab.study.calibration.lines` gives them for a metric, in its base unit;
        None or empty where the run has no study 00.
    factor : float
        From the base unit to that of the axis.
    """
    lines = lines or {}
    heights = {n: factor * getattr(line, "value", line) for n, line in lines.items()}
    for ax in axes_of(grid):
        low, high = ax.get_ylim()
        low = min([low, *heights.values()])
        high = max([high, *(1.08 * y for y in heights.values())])
        ax.set_ylim(low, high)
        points = ax.get_window_extent().height / ax.figure.dpi * 72
        room = (2 + 1.2 * _SMALL) / points  # of a name, with its distance to its line
        above = math.inf
        for name, y in sorted(heights.items(), key=lambda item: -item[1]):
            at = ax.transAxes.inverted().transform(ax.transData.transform((0, y)))[1]
            close = above - at < room
            dashes = (4, 2) if name in LIMITS else (1, 2)
            ax.axhline(y, color=QUIET, linewidth=1, linestyle=(0, dashes))
            ax.annotate(
                f"limit: {name}" if name in LIMITS else name,
                (0.01, y),
                xycoords=("axes fraction", "data"),
                xytext=(0, -2 if close else 2),
                textcoords="offset points",
                va="top" if close else "bottom",
                fontsize=_SMALL,
                color=QUIET,
            )
            above = at


def hollow(grid: sns.FacetGrid | Axes, cells: pd.DataFrame, *, x: str) -> None:
    """Whiten the points of cells in which the client was the bottleneck.

    Parameters
    ----------
    cells : DataFrame
        As from `connlab.intervals.intervals`, in the unit of the axis.
    x : str
        The column on the x axis.
    """
    bound = _with_facets(cells[cells["bound"]], grid)
    for ax, facet in _facets(grid):
        shown = _within(bound, facet)
        ax.plot(shown[x], shown["value"], "o", color="white", markersize=2.4, zorder=9)


def _with_facets(cells: pd.DataFrame, grid: sns.FacetGrid | Axes) -> pd.DataFrame:
    """Add the columns of the facets to cells that lack them, by model."""
    if not isinstance(grid, sns.FacetGrid) or "model" not in cells:
        return cells
    lacking = [c for c in (grid._row_var, grid._col_var) if c and c not in cells]
    by_model = grid.data[["model", *lacking]].drop_duplicates()
    return cells.merge(by_model, on="model") if lacking else cells


def failed(grid: sns.FacetGrid | Axes, trials: pd.DataFrame, *, x: str) -> None:
    """Mark each cell that has no usable trial with a cross at the top of its facet.

    The axis grows by the room that the crosses need, a line for each model.
    """
    colors = palette(trials) | _in_legend(grid)  # which may be that of more models
    lost = {ax: _lost(_within(trials, facet), x) for ax, facet in _facets(grid)}
    lines = max(map(len, lost.values()))
    height = min(_CROSS, _CROSSES / max(lines, 1))  # or many would leave no room
    share = height * lines
    first = axes_of(grid)[0]
    scale = first.yaxis.get_transform()
    low, high = scale.transform(np.array(first.get_ylim()))
    high += (high - low) * share / (1 - share)
    first.set_ylim(top=float(scale.inverted().transform(np.array([high]))[0]))
    for ax, by_model in lost.items():
        for rank, (model, levels) in enumerate(by_model.items()):
            ax.plot(
                levels,
                [1 - height * (rank + 0.5)] * len(levels),
                "x",
                color=colors.get(model, INK),
                transform=ax.get_xaxis_transform(),
                markersize=5,
                clip_on=False,
            )


def _lost(trials: pd.DataFrame, x: str) -> dict[str, list]:
    """Return the levels of `x` without a usable trial, by model."""
    usable = counted(trials).groupby([trials["model"], trials[x]]).any()
    rows = usable[~usable].reset_index()
    return {str(model): list(cells[x]) for model, cells in rows.groupby("model")}


def forest(
    ratios: pd.DataFrame,
    *,
    row: str | Sequence[str] = "model",
    hue: str | None = None,
    names: Mapping[str, str] | None = None,
    xlabel: str = "ratio to the baseline",
    colors: Mapping[str, object] | None = None,
    ranked: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draw ratios with their intervals on a logarithmic axis, one row each.

    The grey band is where two servers count as alike. An open marker has no interval.

    Parameters
    ----------
    ratios : DataFrame
        As from `connlab.intervals.ratios`.
    row : str or sequence of str
        The columns that name a row; several are joined by a comma.
    hue : str, optional
        Column whose levels stand side by side within a row, each with a colour and
        a marker.
    names : mapping of str to str, optional
        What is written in place of a level of the first column.
    xlabel : str
        What was divided by what.
    colors : mapping, optional
        By level of `hue`, or of the first column of `row`.
    ranked : bool
        Whether rows are sorted by their largest ratio; else they come as they are.
    width : float
        Inches.
    """
    columns = [row] if isinstance(row, str) else list(row)
    table = ratios.reset_index(drop=True)
    labels = [_row_label(r, columns, names or {}) for r in table[columns].to_numpy()]
    order = list(dict.fromkeys(labels))
    if ranked:
        largest = table["value"].astype(float).groupby(labels).max().fillna(math.inf)
        order.sort(key=largest.get)
    levels = list(dict.fromkeys(table[hue])) if hue else [None]
    margin = 0.75 if hue else 0.5  # axis, its label, and the legend
    rows = 0.15 * max(2, len(order)) * max(1.0, 0.4 * len(levels))
    figure = Figure(figsize=(width, margin + rows), layout="constrained")
    ax = figure.add_subplot()
    colors = colors or dict(zip(levels, sns.color_palette("colorblind"), strict=False))
    marks = dict(zip(levels, cycle(LEVELS), strict=False))
    for label, ratio in zip(labels, table.itertuples(), strict=True):
        level = getattr(ratio, hue) if hue else None
        step = (levels.index(level) - (len(levels) - 1) / 2) * 0.7 / len(levels)
        color = colors.get(level if hue else getattr(ratio, columns[0]), INK)
        y = len(order) - 1 - order.index(label) - step
        _ratio(ax, ratio, y, color, marks[level])
    ax.axvspan(1 / (1 + MARGIN), 1 + MARGIN, color=FAINT, alpha=0.5, zorder=0)
    ax.axvline(1, color=QUIET, linewidth=0.8)
    _ratio_axis(ax, table)
    if not order:
        ax.text(0.5, 0.5, "no pair", transform=ax.transAxes, ha="center", va="center")
    ax.set_yticks(range(len(order)), order[::-1])
    ax.set_ylim(-0.6, len(order) - 0.4)
    ax.set_xlabel(xlabel)
    ax.grid(False, axis="y")
    sns.despine(ax=ax, left=True)
    if hue:
        figure.legend(
            [_sample(colors.get(level, INK), marks[level]) for level in levels],
            [_level_label(level, hue.replace("_", " ")) for level in levels],
            fontsize=_SMALL,
            frameon=False,
            loc="outside upper center",
            ncols=min(4, len(levels)),
        )
    return figure


def _level_label(level: str | float, noun: str) -> str:
    """Return ``1000 connections``, ``1 connection``, ``load 0.5``, ``system Linux``."""
    if isinstance(level, str):
        return f"{noun} {level}"
    if not noun.endswith("s"):
        return f"{noun} {plain(level)}"
    return f"{plain(level)} {noun.removesuffix('s') if level == 1 else noun}"


def _row_label(
    values: Sequence, columns: Sequence[str], names: Mapping[str, str]
) -> str:
    first, *rest = values
    others = [
        f"{plain(float(v))} {c}" if isinstance(v, int | float | np.number) else str(v)
        for v, c in zip(rest, columns[1:], strict=True)
    ]
    return ", ".join([names.get(str(first), str(first)), *others])


def _sample(color, mark: str) -> mpl.lines.Line2D:
    return mpl.lines.Line2D([], [], color=color, marker=mark, ls="")


def _ratio(ax: Axes, ratio, y: float, color, mark: str) -> None:
    bounded = np.isfinite(ratio.lo) and np.isfinite(ratio.hi)
    if bounded:
        ax.plot([ratio.lo, ratio.hi], [y, y], color=color, linewidth=1.4)
    fill = color if bounded else "white"
    ax.plot([ratio.value], [y], mark, color=fill, markeredgecolor=color, markersize=4.5)


def _ratio_axis(ax: Axes, table: pd.DataFrame) -> None:
    """Show all ratios, and of wide intervals what lies near them."""
    ends = table[["value", "lo", "hi"]].to_numpy(dtype=float)
    ends = ends[np.isfinite(ends)]
    values = table["value"].to_numpy(dtype=float)
    low, high = np.nanmin(values, initial=1.0), np.nanmax(values, initial=1.0)
    low, high = max(ends.min(initial=1), low / 3), min(ends.max(initial=1), high * 3)
    ax.set_xscale("log")
    low, high = min(low, 0.93), max(high, 1.08)
    room = max(1.03, (high / low) ** 0.03)  # a dot at the end is not cut
    ax.set_xlim(low / room, high * room)
    if high / low < 1.6:
        locator = MultipleLocator(0.1)
    elif high / low <= 4:
        locator = LogLocator(subs=(1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8, 9))
    else:
        close = (1, 2, 5) if high / low > 20 else (1, 1.5, 2, 3, 5, 7)
        locator = LogLocator(subs=(1,) if high / low > 1000 else close)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def flames(
    frames: pd.DataFrame,
    *,
    panel: str,
    colors: Mapping[str, object],
    names: Mapping[str, str] | None = None,
) -> Figure:
    """Draw flame graphs, a panel each: callers below, what they called above them.

    A name is written where it has room.

    Parameters
    ----------
    frames : DataFrame
        Columns function, depth, left and width (% of samples), part, and `panel`.
    panel : str
        Column whose levels have a panel each.
    colors : mapping
        By part, of which each function has one.
    names : mapping of str to str, optional
        What is written in place of a level of `panel`.
    """
    levels = list(dict.fromkeys(frames[panel]))
    rows = [int(frames.loc[frames[panel] == v, "depth"].max()) + 1 for v in levels]
    figure = Figure(figsize=(WIDTH, sum(_ROW * n + 0.3 for n in rows) + 0.4))
    grid = figure.subplots(len(levels), squeeze=False, height_ratios=rows)[:, 0]
    for ax, level in zip(grid, levels, strict=True):
        _flame(ax, frames[frames[panel] == level], colors)
        ax.set_title((names or {}).get(str(level), str(level)), fontsize=_SMALL)
    marks = {part: mpl.patches.Patch(color=colors[part]) for part in colors}
    figure.legend(
        marks.values(), marks, fontsize=_SMALL, loc="outside upper left", ncols=5
    )
    figure.set_layout_engine("constrained")
    return figure


def _flame(ax: Axes, frames: pd.DataFrame, colors: Mapping[str, object]) -> None:
    ax.barh(
        frames["depth"],
        left=frames["left"],
        width=frames["width"],
        height=1,
        color=[colors[part] for part in frames["part"]],
        align="edge",
        edgecolor="white",
        linewidth=0.3,
    )
    for frame in frames.itertuples():
        if frame.width > 0.94 * len(frame.function) + 0.5:
            x, y = frame.left + 0.3, frame.depth + 0.45
            ax.text(x, y, frame.function, fontsize=_FLAME, va="center", color=INK)
    ax.set(xlim=(0, 100), ylim=(0, frames["depth"].max() + 1))
    ax.set_axis_off()


def save(
    drawn: sns.FacetGrid | Figure | Axes, folder: Path, name: str
) -> dict[str, str]:
    """Write NAME.svg and NAME.pdf; return their names by kind.

    The same data give the same bytes: no date, a fixed salt for ids. Typst makes the
    PDF of the SVG, as in the paper; to draw it once more takes twenty times as long.
    """
    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    with mpl.rc_context(RC):
        figure.draw_without_rendering()
        figure.set_layout_engine(None)  # it is laid out; savefig would do so twice more
        box = figure.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=_SVG, bbox_inches=box)
    svg = compact(file.getvalue())
    put(folder / f"{name}.svg", svg.encode())
    put(folder / f"{name}.pdf", _printed(svg))
    return {kind: f"{name}.{kind}" for kind in ("svg", "pdf")}


def _printed(svg: str, **form: Any) -> bytes:
    """Return a picture as PDF, or in another `form` that Typst can give it."""
    return typeset(_PAGE, sys_inputs={"svg": svg}, **form)


def show(drawn: sns.FacetGrid | Figure | Axes, saved: Path) -> None:
    """Show a picture below its notebook cell, where there is one, as its SVG has it."""
    if get_ipython() is None:
        return
    plt.close(drawn if isinstance(drawn, Figure) else drawn.figure)  # not twice
    dpi = mpl.rcParams["figure.dpi"]
    display(Image(_printed(saved.read_text(), format="png", ppi=dpi)))


def compact(svg: str) -> str:
    """Return a picture in a fifth less text.

    The font is named once; indentation, empty groups, rotations by zero and digits
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


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return the places nearest to the wanted ones whose neighbours are `gap` apart.

    With rank · gap taken off, the nearest by least squares are an isotonic regression
    of the wanted ones; they are then shifted into the range from low to high.
    """
    order = np.argsort(wanted, kind="stable")
    gaps = gap * np.arange(len(order))
    packed = isotonic_regression(np.asarray(wanted, dtype=float)[order] - gaps).x
    places = np.empty(len(order))
    places[order] = np.minimum(np.maximum(packed, low), high - gaps[-1]) + gaps
    return places.tolist()
