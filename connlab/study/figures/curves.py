"""Curves: a metric against a factor, one line per model.

Up to seven curves share one panel and carry their names at their ends; more are told
apart in small multiples, a panel per family with the others behind it in grey.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from connlab.study import drawing as draw
from connlab.study import look
from connlab.study.cells import interval_of, summarise
from connlab.study.drawing import Picture
from connlab.study.formatting import display_unit, listing, number_text
from connlab.study.interval import Interval
from connlab.study.metrics import metric as metric_of

MOST_IN_ONE = 7
"""More curves than this are told apart in small multiples."""
_TOLD_BY_MARKER = 4
"""Up to so many curves of one colour are told apart by their markers alone."""
_APART = 0.12
"""How far from any other, as a part of a panel's height, a curve's end has room for
its name."""
_LEGEND_ROW = 0.13
"""Inches of one row of a panel's legend."""


def curves(
    frame: pd.DataFrame,
    metric: str,
    *,
    x: str = "connections",
    by: str = "model",
    lines: Mapping[str, Interval | float] | None = None,
    panels: bool | None = None,
    x_label: str | None = None,
    how: str = "mean",
    log_y: bool | None = None,
) -> Picture:
    """Draw a metric of the usable trials against a factor.

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`.
    metric : str
        Column for the y axis.
    x, by : str
        Factor along the axis; factor that makes the curves.
    lines : mapping of str to Interval or float, optional
        Floors and ceilings, by their label, in the base unit of the metric.
    panels : bool, optional
        One panel per family; by default when there are more than seven curves.
    x_label : str, optional
        If not the name of `x`.
    how : str
        See `connlab.study.cells.summarise`.
    log_y : bool, optional
        By default where values span a factor of 20 or more.

    Returns
    -------
    Picture
    """
    table = summarise(frame, metric, by=[by, x], how=how)
    return curves_of(
        table,
        label=metric_of(metric).label,
        unit=metric_of(metric).unit,
        x=x,
        by=by,
        styles=look.styles(frame, by),
        families=_families(frame, by),
        lines=lines,
        panels=panels,
        x_label=x_label,
        log_y=log_y,
    )


def curves_of(
    table: pd.DataFrame,
    *,
    label: str,
    unit: str,
    x: str,
    by: str,
    styles: Mapping[str, look.Style] | None = None,
    families: Mapping[str, str] | None = None,
    lines: Mapping[str, Interval | float] | None = None,
    panels: bool | None = None,
    x_label: str | None = None,
    log_y: bool | None = None,
    zero: bool = True,
) -> Picture:
    """Draw curves from a table with columns `by`, `x`, value, lo, hi, n, reason.

    What `curves` does after `summarise`; for tables that come from elsewhere.
    `unit` is a base unit (see `connlab.study.formatting.display_unit`); `zero` says
    whether a linear y axis starts at 0.
    """
    if styles is None:
        styles = look.styles(table, by)
    factor, unit_text = display_unit(unit, table["value"])
    data = draw.in_unit(table, factor)
    names = [n for n in styles if (data[by].astype(str) == n).any()]
    groups = _groups(names, families, panels)
    where = x_label or x.replace("_", " ")
    job = _Job(data, x, by, names, styles, lines or {}, factor, log_y, zero, where)
    with look.paper():
        if len(groups) == 1:
            figure, ax = _one_panel(job)
            firsts = [ax]
        else:
            figure, firsts = _many_panels(job, groups)
        for ax in firsts:
            draw.y_label(ax, label, unit_text)
    alt = _curves_alt(job, label, unit_text, len(groups))
    return Picture(figure, data.assign(unit=unit_text), alt)


@dataclass(frozen=True)
class _Job:
    """What the panels of one picture share."""

    data: pd.DataFrame
    x: str
    by: str
    names: list[str]
    styles: Mapping[str, look.Style]
    lines: Mapping[str, Interval | float]
    factor: float
    log_y: bool | None
    zero: bool
    x_label: str

    def rows(self, name: str) -> pd.DataFrame:
        """Return the cells of one curve."""
        return self.data[self.data[self.by].astype(str) == name]

    def there(self, name: str) -> pd.DataFrame:
        """Return those that have a value, along x."""
        return self.rows(name).dropna(subset=["value"]).sort_values(self.x)

    def gone(self, names: Sequence[str]) -> list:
        """Return the failures of these curves."""
        rows = self.data[self.data[self.by].astype(str).isin(names)]
        return draw.gaps(rows, self.by, self.x, self.styles)


def _one_panel(job: _Job) -> tuple[Figure, Axes]:
    """All curves together, their names at their ends, failures below."""
    gone = job.gone(job.names)
    figure = draw.canvas(look.WIDTH, 1)
    texts = [(job.styles[n].label, draw.LABEL_SIZE) for n in job.names]
    texts += [(gap.text, draw.SMALL) for gap in gone]
    right = 0.3 + max(draw.text_width(figure, *text) for text in texts)
    width = look.WIDTH - draw.LEFT - right
    height = 0.9 if job.data["value"].isna().all() else 2.2
    below = draw.strip_height(gone)
    figure.set_size_inches(look.WIDTH, draw.TOP + height + below + draw.BOTTOM)
    ax = draw.place(figure, draw.LEFT, draw.BOTTOM + below, width, height)
    _fill(ax, job, job.names)
    draw.direct_labels(ax, [_end(job, n) for n in job.names if len(job.there(n))])
    low = _foot(figure, ax, job, gone, below, inside=False)
    low.set_xlabel(job.x_label)
    return figure, ax


def _fill(ax: Axes, job: _Job, names: Sequence[str]) -> None:
    """Draw curves into axes of the scale that all panels share."""
    draw.scale_x(ax, job.data[job.x])
    values = [*job.data["value"], *draw.places(job.lines, job.factor)]
    bounds = job.data[["lo", "hi"]].to_numpy(dtype=float).ravel()
    draw.scale_y(ax, values, bounds, log=job.log_y, zero=job.zero)
    draw.tidy(ax)
    seen = job.data.dropna(subset=["value"])
    if seen.empty:
        draw.empty(ax)
    avoid = list(zip(seen[job.x], seen["value"], strict=True))
    draw.bounds(ax, job.lines, job.factor, avoid=avoid)
    for other in job.names:
        if other not in names:
            rows = job.there(other)
            ax.plot(rows[job.x], rows["value"], color=look.FAINT, linewidth=1, zorder=1)
    for name in names:
        style = job.styles[name]
        draw.points(ax, job.rows(name), job.x, style, label=style.label)


def _end(job: _Job, name: str) -> tuple[float, float, look.Style]:
    last = job.there(name).iloc[-1]
    return last[job.x], last["value"], job.styles[name]


def _foot(figure, ax, job, gone, below, *, inside: bool) -> Axes:
    """Draw failures under a panel; return the axes that carry the ticks of x."""
    if not gone:
        return ax
    w, h = figure.get_size_inches()
    box = ax.get_position()
    ax.tick_params(labelbottom=False)
    ax.spines["bottom"].set_color(look.FAINT)
    low = draw.place(figure, box.x0 * w, box.y0 * h - below, box.width * w, below)
    draw.scale_x(low, job.data[job.x])
    draw.strip(low, gone, inside=inside)
    return low


def _many_panels(job: _Job, groups: Mapping[str, list[str]]) -> tuple[Figure, list]:
    """One panel per family; the other families stay behind in grey."""
    pairs = [list(groups)[i : i + 2] for i in range(0, len(groups), 2)]
    gap, height, ticks = 0.18, 1.35, 0.24
    width = (look.WIDTH - draw.LEFT - 0.1 - gap) / 2
    figure = draw.canvas(look.WIDTH, 1)
    columns = {
        g: _legend_columns(figure, [job.styles[n].label for n in names], width)
        for g, names in groups.items()
    }
    heads = [
        _head(max(math.ceil(len(groups[g]) / columns[g]) for g in pair))
        for pair in pairs
    ]
    like_them = draw.place(figure, 0, 0, width, 1)
    draw.scale_x(like_them, job.data[job.x])
    feet = [
        max(draw.strip_height(job.gone(groups[g]), inside=like_them) for g in pair)
        for pair in pairs
    ]
    like_them.remove()
    tall = sum(heads) + sum(feet) + len(pairs) * (height + ticks)
    figure.set_size_inches(look.WIDTH, tall + draw.BOTTOM - ticks)
    top, firsts = tall + draw.BOTTOM - ticks, []
    for pair, head, foot in zip(pairs, heads, feet, strict=True):
        bottom = top - head - height
        for column, group in enumerate(pair):
            left = draw.LEFT + column * (width + gap)
            ax = draw.place(figure, left, bottom, width, height)
            low = _family_panel(
                figure, ax, job, group, groups[group], foot, columns[group]
            )
            ax.tick_params(labelleft=column == 0)
            if pair is pairs[-1]:
                low.set_xlabel(job.x_label)
            firsts += [ax] if column == 0 else []
        top = bottom - foot - ticks
    return figure, firsts


def _head(rows: int) -> float:
    """Inches above a panel: its title and so many rows of its legend."""
    return 0.25 + _LEGEND_ROW * rows


def _legend_columns(figure: Figure, labels: Sequence[str], width: float) -> int:
    """Return 2 where the two widest names fit beside each other, else 1."""
    handle = 0.36  # inches of line, marker and gaps beside a name
    widest = max(draw.text_width(figure, label, draw.SMALL) for label in labels)
    return 2 if len(labels) > 1 and 2 * (widest + handle) <= width else 1


def _family_panel(figure, ax, job, group, names, foot, columns) -> Axes:
    _fill(ax, job, names)
    rows = math.ceil(len(names) / columns)
    ax.set_title(group, fontweight="bold", pad=4 + 72 * _LEGEND_ROW * rows)
    if ax.get_legend_handles_labels()[0]:  # no curve at all has no legend
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=columns,
            fontsize=draw.SMALL,
            handlelength=1.6,
            columnspacing=1.0,
            labelspacing=0.25,
            borderaxespad=0.1,
            borderpad=0.1,
        )
    _name_those_apart(ax, job, names)
    return _foot(figure, ax, job, job.gone(names), foot, inside=True)


def _name_those_apart(ax: Axes, job: _Job, names: Sequence[str]) -> None:
    """Name curves at their ends where many share a panel and one leaves the others."""
    if len(names) <= _TOLD_BY_MARKER:
        return
    to_axes = ax.transData + ax.transAxes.inverted()
    paths = {
        name: to_axes.transform(job.there(name)[[job.x, "value"]].to_numpy(float))
        for name in names
        if len(job.there(name)) > 1
    }
    for name, path in paths.items():
        (_, before), (right, height) = path[-2:]
        others = [_height_at(p, right) for one, p in paths.items() if one != name]
        if not others or any(abs(height - other) < _APART for other in others):
            continue
        above = before <= height < 1 - _APART
        style = job.styles[name]
        ax.annotate(
            style.label,
            (right, height),
            xycoords="axes fraction",
            xytext=(0, 5 if above else -5),
            textcoords="offset points",
            fontsize=draw.SMALL,
            color=draw.darker(style.color),
            ha="right",
            va="bottom" if above else "top",
        )


def _height_at(path: np.ndarray, x: float) -> float:
    """Return the height at x of a curve of points (x, y); beyond its ends, NaN."""
    return float(np.interp(x, path[:, 0], path[:, 1], left=math.nan, right=math.nan))


def _groups(names, families, panels) -> dict[str, list[str]]:
    """Return the curves of each panel."""
    several = len(names) > MOST_IN_ONE if panels is None else panels
    if not several:
        return {"": list(names)}
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault((families or {}).get(name, name), []).append(name)
    return groups


def _families(frame: pd.DataFrame, by: str) -> dict[str, str]:
    if by != "model" or "family" not in frame:
        return {}
    return look.families(frame)


def _curves_alt(job: _Job, label: str, unit: str, panels: int) -> str:
    kind = "Line chart" if panels == 1 else f"{panels} line charts"

    def show(row):
        text = number_text(interval_of({**_ANY, **row}), bounds=False)
        return f"{text} {unit}".strip()

    said = [f"{kind} of {label} against {job.x_label}."]
    for name in job.names:
        style = job.styles[name]
        said.append(draw.curve_in_words(job.rows(name), job.x, style.label, show))
    if job.lines:
        said.append(f"Lines mark {listing(list(job.lines))}.")
    return " ".join(said)


_ANY = {"n": 0, "level": 0.95, "method": "", "note": "", "lo": math.nan, "hi": math.nan}


def tails(
    table: pd.DataFrame,
    *,
    label: str,
    by: str = "model",
    styles: Mapping[str, look.Style] | None = None,
) -> Picture:
    """Draw quantiles out to the tail; the axis gives each further nine a step.

    Parameters
    ----------
    table : DataFrame
        Columns `by`, quantile (0 … 1), value, lo, hi (seconds), n; the intervals are
        those of per-trial quantiles.
    label : str
        What was timed.
    by, styles
        As in `curves_of`.
    """
    table = table.assign(nines=-np.log10(1 - table["quantile"]), reason=None)
    picture = curves_of(
        table, label=label, unit="s", x="nines", by=by, styles=styles, panels=False
    )
    ax = picture.figure.axes[0]
    steps = [0.5, 0.9, 0.99, 0.999, 0.9999]
    top = table["nines"].max() + 0.05
    ticks = [(-math.log10(1 - q), f"{100 * q:g}\u202f%") for q in steps]
    ticks = [t for t in ticks if t[0] <= top]
    with look.paper():
        ax.set_xticks([t[0] for t in ticks], [t[1] for t in ticks])
        ax.set_xlabel("share of requests that were answered within")
    names = styles or look.styles(table, by)
    unit = picture.data["unit"].iloc[0]
    said = []
    for name, rows in picture.data.groupby(by, sort=False):
        values = ", ".join(
            f"{100 * r.quantile:g} % within {r.value:.3g} {unit}"
            for r in rows.sort_values("quantile").itertuples()
        )
        said.append(f"{names[str(name)].label}: {values}.")
    alt = f"Quantiles of {label}. " + " ".join(said)
    return Picture(picture.figure, picture.data.drop(columns="nines"), alt)
