"""One column of a frame, and how its value is found in a trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """A flat column: where its value stands in a trial and what it means.

    Attributes
    ----------
    name, unit, dtype, description : str
        `dtype` is a pandas dtype that knows missing values; `unit` is ``"1"`` for
        ratios, ``"count"`` for counts, ``""`` for text and truth values.
    path : str
        Dotted path into the trial, or a formula in words when `derive` is set.
    scale : float
        What the value at `path` is multiplied by to get to `unit`.
    derive : callable, optional
        Computes the value from the whole trial; then `path` only documents it.
    """

    name: str
    unit: str
    dtype: str
    path: str
    description: str
    scale: float | None = None
    derive: Callable[[Mapping], Any] | None = None


def pick(trial: Mapping, path: str) -> Any:
    """Return the value at a dotted `path` of nested mappings, or None."""
    value: Any = trial
    for step in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def value_of(column: Column, trial: Mapping) -> Any:
    """Return the value of one column for one trial (a plain mapping)."""
    if column.derive is not None:
        return column.derive(trial)
    value = pick(trial, column.path)
    return value if value is None or column.scale is None else value * column.scale


def ratio(above: float | None, below: float | None) -> float | None:
    """Return above / below; None where either is missing, or below is zero."""
    return None if above is None or not below else above / below


def total(*values: float | None) -> float | None:
    """Return the sum of all; None where one is missing."""
    return None if any(value is None for value in values) else sum(values)


def product(a: float | None, b: float | None) -> float | None:
    """Return a × b; None where either is missing."""
    return None if a is None or b is None else a * b
