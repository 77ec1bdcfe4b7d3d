"""What a trial is: the facts on disk, and the columns that frames make of them.

This package is the one word that ``connlab.drive`` (which writes) and
``connlab.study`` (which reads) share:

- `places`: where the project, its runs and their studies stand;
- `facts`: pydantic models of the lines in ``runs/NAME/STUDY/trials.jsonl``;
- `trial_columns`, `client_columns`, `server_columns`: one `Column` per flat column:
  name, unit, type, where its value stands in a trial, and what it means
  (``runs/README.md`` is generated from them);
- `flat`: `flatten`, which turns one trial into one row.

Flat columns are in SI units without prefix (seconds, bytes, 1/s).
"""

from __future__ import annotations

from connlab.schema.client_columns import UNANSWERED, client_cpu_s
from connlab.schema.column import Column, pick, value_of
from connlab.schema.facts import (
    SCHEMA,
    Census,
    Client,
    Facts,
    Failure,
    Gate,
    Heartbeat,
    Latency,
    Model,
    Ready,
    Registry,
    Samples,
    Server,
    Stall,
    Stats,
    Timeline,
    Trial,
    Turns,
    Workload,
)
from connlab.schema.flat import COLUMNS, flatten
from connlab.schema.places import project_root, run_folder, study_folder
from connlab.schema.trial_columns import EXCLUDING, FACTORS, excluding, verdicts

CLIENT_QUEUE = 0.5
"""A client is the bottleneck when more than this part of the requests wait for it."""
CORES_APART = 1.1
"""Two cores count as two as long as a computation on one takes no more than so many
times as long while the other is busy."""

__all__ = [
    "CLIENT_QUEUE",
    "COLUMNS",
    "CORES_APART",
    "EXCLUDING",
    "FACTORS",
    "SCHEMA",
    "UNANSWERED",
    "Census",
    "Client",
    "Column",
    "Facts",
    "Failure",
    "Gate",
    "Heartbeat",
    "Latency",
    "Model",
    "Ready",
    "Registry",
    "Samples",
    "Server",
    "Stall",
    "Stats",
    "Timeline",
    "Trial",
    "Turns",
    "Workload",
    "client_cpu_s",
    "excluding",
    "flatten",
    "pick",
    "project_root",
    "run_folder",
    "study_folder",
    "value_of",
    "verdicts",
]
