"""Tables: cells of text with their units, and every gap explained in a note.

A cell that has no value holds a dash and a letter; the note below with that letter
says why. A cell that some of its trials had to be left out of carries a letter too.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from connlab.study import look
from connlab.study.cells import CLIENT_BOUND, interval_of, summarise
from connlab.study.formatting import display_unit, level_text, number_text, plus_minus
from connlab.study.metrics import metric as metric_of

GAP = "—"


@dataclass(frozen=True)
class Column:
    """Head of a column."""

    name: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose cells are text already."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def frame(self) -> pd.DataFrame:
        """Return the table as a frame of text, heads with their units."""
        heads = [f"{c.label} ({c.unit})" if c.unit else c.label for c in self.columns]
        return pd.DataFrame(list(self.rows), columns=heads)

    def _repr_html_(self) -> str:
        below = "".join(f"<p><small>{note}</small></p>" for note in self.notes)
        return self.frame().to_html(index=False) + below


@dataclass
class _Notes:
    """Letters for reasons, each given once."""

    letters: dict[str, str] = field(default_factory=dict)

    def letter(self, reason: str) -> str:
        """Return the letter of a reason."""
        letters = string.ascii_lowercase
        return self.letters.setdefault(reason, letters[len(self.letters) % 26])

    def said(self) -> tuple[str, ...]:
        """Return the notes, in the order of their letters."""
        return tuple(f"({c}) {reason}" for reason, c in self.letters.items())


def grid(
    frame: pd.DataFrame,
    metric: str,
    *,
    rows: str = "connections",
    columns: str = "model",
    how: str = "mean",
    unit: str | None = None,
) -> Table:
    """Return a metric by two factors, an interval in each cell.

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`.
    metric : str
        Column to show.
    rows, columns : str
        Factors that span the table.
    how : str
        See `connlab.study.cells.summarise`.
    unit : str, optional
        "ms", "µs", "s": if not the one that suits the median value.

    Returns
    -------
    Table
        One column per level of `columns`; its cells like ``9.2 ± 0.2``.
    """
    table = summarise(frame, metric, by=[rows, columns], how=how)
    info = metric_of(metric)
    factor, shown = display_unit(info.unit, table["value"])
    if unit is not None:
        factor, shown = {"s": 1.0, "ms": 1e3, "µs": 1e6}[unit], unit
    styles = look.styles(frame, columns)
    notes = _Notes()
    lines = []
    for level, group in table.groupby(rows):
        cells = {str(r[columns]): r for _, r in group.iterrows()}
        texts = [_cell(cells.get(name), factor, notes) for name in styles]
        lines.append((level_text(level), *texts))
    heads = [Column(rows, rows.replace("_", " "))]
    heads += [Column(name, style.label, shown) for name, style in styles.items()]
    return Table(tuple(heads), tuple(lines), notes.said())


def _cell(row: pd.Series | None, factor: float, notes: _Notes) -> str:
    """Return the text of one cell, with a letter where something is amiss."""
    if row is None:
        return f"{GAP} ({notes.letter('not asked for')})"
    reason = "not measured" if pd.isna(row["reason"]) else str(row["reason"])
    if pd.isna(row["value"]):
        return f"{GAP} ({notes.letter(reason)})"
    text = plus_minus(interval_of(row).scaled(factor))
    if pd.isna(row["lo"]):
        text += f" ({notes.letter('one usable trial, so no interval')})"
    elif str(row["label"]) == CLIENT_BOUND:
        text += f" ({notes.letter('the client was the bottleneck: a bound')})"
    elif row["n"] < row["trials"]:
        some = f"some trials left out: {reason}"
        text += f" ({notes.letter(some)})"
    return text


def per_model(
    frame: pd.DataFrame,
    metrics: Sequence[str],
    *,
    by: str = "model",
    how: str = "mean",
) -> Table:
    """Return several metrics, a row per model; for frames of one cell per model.

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`.
    metrics : sequence of str
        Columns to show.
    by, how
        As in `grid`.
    """
    styles = look.styles(frame, by)
    notes, heads = _Notes(), [Column(by, by.replace("_", " "))]
    lines = {name: [style.label] for name, style in styles.items()}
    for metric in metrics:
        table = summarise(frame, metric, by=[by], how=how)
        info = metric_of(metric)
        factor, unit = display_unit(info.unit, table["value"])
        heads.append(Column(metric, info.label, unit))
        for _, row in table.iterrows():
            lines[str(row[by])].append(_cell(row, factor, notes))
    return Table(tuple(heads), tuple(map(tuple, lines.values())), notes.said())


def ratios(
    found: pd.DataFrame, *, labels: Sequence[str], styles: Mapping[str, look.Style]
) -> Table:
    """Return comparisons, a row each: what, where, ratio, word, p.

    Parameters
    ----------
    found : DataFrame
        As from `connlab.study.cells.ratio_frame`.
    labels : sequence of str
        Where each comparison was made ("at 100 connections").
    styles : mapping of str to Style
        Names of the arms.
    """
    lines = []
    for (_, row), where in zip(found.iterrows(), labels, strict=True):
        i = interval_of({"level": 0.95, "method": "", "note": "", **row})
        p = row["p_adjusted"] if pd.notna(row["p_adjusted"]) else row["p"]
        arm, base = (styles[row[k]].label for k in ("arm", "baseline"))
        lines.append((f"{arm} / {base}", where, number_text(i), row["word"], _p(p)))
    heads = ("first / second", "where", "ratio", "so the first is", "p (Holm)")
    columns = tuple(Column(h.split(" ")[0], h) for h in heads)
    return Table(columns, tuple(lines))


def _p(p: float) -> str:
    if pd.isna(p):
        return GAP
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
