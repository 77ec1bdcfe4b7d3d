"""Columns of a frame: each declared once, in ``columns.csv``.

    columns.csv  name, unit, type, scale, path, meaning, label, better
      -> COLUMNS, FACTORS        what `flatten` makes of a trial, one row
      -> runs/README.md          (`connlab.drive.describe`)
      -> connlab.study.metrics   how a column is printed

`type` is a pandas dtype that knows missing values; `unit` is ``1`` for ratios,
``count`` for counts, empty for text and truth values. `path` is dotted and leads into
the trial; the value there times `scale`, if any, is in `unit`. For a column in
`connlab.schema.derived` it is the formula in words. `label` is a name for figures and
tables; `better` is ``higher``, or empty for lower.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connlab.schema.derived import DERIVED, level_text, pick


@dataclass(frozen=True)
class Column:
    """A flat column: a line of ``columns.csv``."""

    name: str
    unit: str
    dtype: str
    scale: float | None
    path: str
    description: str
    label: str
    better: str


_LINES = Path(__file__).with_name("columns.csv").read_text("utf-8").splitlines()
COLUMNS = tuple(
    Column(name, unit, dtype, float(scale) if scale else None, *others)
    for name, unit, dtype, scale, *others in csv.reader(_LINES[1:])
)
FACTORS = tuple(c for c in COLUMNS if c.path.startswith("factors."))


def value_of(column: Column, trial: Mapping) -> Any:
    """Return the value of one column for one trial (a plain mapping)."""
    if column.name in DERIVED:
        return DERIVED[column.name](trial)
    value = pick(trial, column.path)
    return value if value is None or column.scale is None else value * column.scale


def flatten(trial: Mapping) -> dict[str, Any]:
    """Turn a trial, a line of ``trials.jsonl`` as parsed, into one flat row.

    One entry per column of `COLUMNS`, missing values as None, then the factors that
    `COLUMNS` does not know, under their own names.
    """
    row = {column.name: value_of(column, trial) for column in COLUMNS}
    for name, value in (trial.get("factors") or {}).items():
        row.setdefault(name, value)
    for column in FACTORS:
        level = row[column.name]
        if column.dtype == "string" and level is not None:
            row[column.name] = level_text(level)
    return row
