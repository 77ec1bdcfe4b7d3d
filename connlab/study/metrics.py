"""Label and unit of a column, and whether more of it is better."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from connlab import schema


@dataclass(frozen=True)
class Metric:
    """How a column is printed."""

    label: str
    unit: str
    """Base unit of the column; for rates with what is counted: "requests/s"."""
    better: Literal["lower", "higher"]


_MADE = {
    "received_per_s": ("bytes received by the server", "bytes/s", "higher"),
    "capacity_rps": ("throughput in a closed loop", "requests/s", "higher"),
    "cpu_per_mib_s": ("server CPU per MiB", "s", "lower"),
    "throughput_scaled_rps": ("throughput, time scaled", "requests/s", "higher"),
    "thread_create_s": ("creation and end of a thread", "s", "lower"),
    "switch_s": ("context switch", "s", "lower"),
}
"""Columns that notebooks derive, and what study 00 measures without a server."""
_COLUMNS = {column.name: column for column in schema.COLUMNS}


def _labels(name: str) -> dict[str, str]:
    path = Path(__file__).with_name(name)
    with path.open(encoding="utf-8", newline="") as file:
        return {row["metric"]: row["label"] for row in csv.DictReader(file)}


_LABELS = _labels("floor.csv") | _labels("derived.csv")
"""Of numbers that no trial holds: costs of study 00, and what studies derive."""


def named() -> set[str]:
    """Return the names that have a label here; others are printed as they are."""
    return {*_MADE, *_COLUMNS, *_LABELS}


def metric(name: str) -> Metric:
    """Return a column's label and unit; of an undeclared one less is better."""
    if name in _MADE:
        return Metric(*_MADE[name])
    if column := _COLUMNS.get(name):
        better = "higher" if column.better == "higher" else "lower"
        return Metric(column.label or column.description, column.unit, better)
    return Metric(_LABELS.get(name, name.replace("_", " ")), "", "lower")


def is_at_most_1(name: str) -> bool:
    """Whether a declared column is a share of a whole, or Jain's index of fairness.

    Or the share of connections kept, which study 02 derives.
    """
    declared = name in _COLUMNS and name.endswith(("_share", "_jain"))
    return declared or name == "share_kept"


_RATES_AND_TIMES = ("throughput", "bytes_per_s", "received_per_s", "capacity_rps")
_RATES_AND_TIMES += ("busy_workers", "response_", "service_", "slice_")


def is_bounded_by_client(name: str) -> bool:
    """Whether a saturated client leaves a bound on what the server can do.

    In a closed loop a better client could only have found more throughput, and so a
    shorter response time (Little's law). Of other columns nothing can be said.
    """
    return name.startswith(_RATES_AND_TIMES)
