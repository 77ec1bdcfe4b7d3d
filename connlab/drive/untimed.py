"""Facts that are no trials: of servers that run apart from all that is timed.

    cells + how -> key -> not in the file yet -> measure -> one line

A line says everything about itself, as a trial does; what is there is not repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import machine, programs, store


def measure(
    path: Path,
    asked: Iterable[Mapping[str, Any]],
    one: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> None:
    """Append a line for each of what is asked that the file does not hold yet.

    Parameters
    ----------
    path : Path
        A file of lines, below the folder of a study.
    asked : iterable of mapping
        What defines a line. The class of environment, with the server's binary, is
        added, and all of it makes the ``key``.
    one : callable
        Returns the rest of a line, with ``failure``: None, or what went wrong.
    """
    kind = _environment()
    with store.journal(path) as (log, append):
        there = {row.get("key") for row in log.trials}
        for about in ({**given, "environment": kind} for given in asked):
            text = json.dumps(about, sort_keys=True, default=str)
            key = hashlib.sha256(text.encode()).hexdigest()[:16]
            if key not in there:
                row = {"schema": schema.SCHEMA, "key": key, **about, **one(about)}
                append(json.dumps(row, default=str))


def _environment() -> str:
    binary = Path(programs.built().server[-1]).read_bytes()
    digest = hashlib.sha256(binary).hexdigest()[:16]
    return machine.environment_class(machine.environment({"server": digest}))
