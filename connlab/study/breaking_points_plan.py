"""What study 02 measures: a ramp of connections for each model, past its limit.

    settings of the machine -> predicted limit per model -> levels of the ramp

The ladder of levels is the same for all models; each gets levels closely below and
above its own limit as well, so that the ramp tells a limit from a coincidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NEAR = 0.05
"""The ramp looks so far below and above a predicted limit."""


@dataclass(frozen=True)
class Limit:
    """What the machine's settings say that a model can hold; None: not known."""

    connections: int | None
    by: str


def predicted(capacities: Sequence[Any], *, workers: int) -> dict[str, Limit]:
    """Return the predictions of ``drive.doctor().capacities``, by model.

    Models that keep a worker for a connection hold as many as there are `workers`.
    """
    return {
        one.model: Limit(
            workers if one.limited_by == "--workers" else one.connections,
            one.limited_by,
        )
        for one in capacities
    }


def ramp(ladder: Sequence[int], limit: Limit | None) -> list[int]:
    """Return the levels to try for one model.

    The ladder as far as the prediction, closely below and above it where the ladder
    goes beyond it, and one step further; all of the ladder without a prediction.
    """
    levels = sorted(set(ladder))
    most = limit.connections if limit else None
    if most is None or not levels or most >= levels[-1]:
        return levels
    near = {max(1, math.floor(most * (1 - NEAR))), math.ceil(most * (1 + NEAR))}
    beyond = next(n for n in levels if n > most)
    return sorted({n for n in levels if n <= most} | near | {beyond})


def grids(
    models: Sequence[str],
    ladder: Sequence[int],
    limits: Mapping[str, Limit],
    *,
    workers: int,
) -> list[dict[str, list]]:
    """Return one grid of factors per model, as `connlab.drive.sweep` takes them."""
    made = []
    for name in models:
        limit = limits.get(name)
        grid = {"model": [name], "connections": ramp(ladder, limit)}
        if limit and limit.by == "--workers":
            grid["workers"] = [workers]
        made.append(grid)
    return made
