"""All columns, and one flat row for each trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connlab.schema.client_columns import CLIENT
from connlab.schema.column import Column, value_of
from connlab.schema.server_columns import SERVER
from connlab.schema.trial_columns import FACTORS, IDENTITY, VERDICT

COLUMNS: tuple[Column, ...] = FACTORS + IDENTITY + VERDICT + CLIENT + SERVER


def flatten(trial: Mapping) -> dict[str, Any]:
    """Turn a trial, as read from its JSON line, into one flat row.

    Parameters
    ----------
    trial : mapping
        ``json.loads`` of a line of ``trials.jsonl``.

    Returns
    -------
    dict
        One entry per column of `COLUMNS`, missing values as None, then the factors
        that `COLUMNS` does not know, under their own names.
    """
    row = {column.name: value_of(column, trial) for column in COLUMNS}
    for name, value in (trial.get("factors") or {}).items():
        row.setdefault(name, value)
    for column in FACTORS:
        if column.dtype == "string" and row[column.name] is not None:
            row[column.name] = _text(row[column.name])
    return row


def _text(level: Any) -> str:
    """Return a level of a factor as a flag spells it: a pair is ``MIN-MAX``."""
    if isinstance(level, list | tuple):
        return "-".join(map(str, level))
    return str(level)
