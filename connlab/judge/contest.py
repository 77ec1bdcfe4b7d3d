"""Throughput, cost and tails of judged servers, in turns with models of connlab.

at 1 connection:   epoll, iterative,          the judged
at 50 connections: epoll, thread, poll, uring, the judged that serve so many
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connlab.drive import interrupt, programs, turns

BASELINE = "epoll"
CONNECTIONS = 50
#: connections -> the models that take part, the baseline first
MODELS = {
    1: (BASELINE, "iterative"),
    CONNECTIONS: (BASELINE, "thread", "poll", "uring"),
}
METRICS = ("rate", "cpu", "p50", "p99")
#: seconds for a contest, and more for each judged server beyond the first
BUDGET_S = {1: 14.0, CONNECTIONS: 36.0}
_MORE_S = 5.0
_UNTIL = 0.02


@dataclass(frozen=True)
class Contest:
    """What turns at one number of connections gave.

    `levels` and `ratios` (to the baseline) hold, by server and metric, ``value``,
    ``lo`` and ``hi``; a ratio also the ``word`` for what it shows. `busy` is the share
    of a core that a server, and the client for it, used.
    """

    connections: int
    sets: int
    levels: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    ratios: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    busy: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    others_share: float = 0.0


def hold(judged: Sequence[str], *, connections: int) -> Contest:
    """Let judged servers and models take turns; judged ones that fail are named."""
    from connlab.compare import comparison, measure, plan

    there = {one.name for one in programs.models() if one.available}
    models = [name for name in MODELS[connections] if name in there]
    budget_s = BUDGET_S[connections] + _MORE_S * max(0, len(judged) - 1)
    failed: dict[str, str] = {}
    here = [name for name in judged if name not in models]
    while True:
        asked = plan.make_plan(
            [*models, *here],
            connections=connections,
            until=_UNTIL,
            budget_s=max(budget_s, _least_s(len(models) + len(here))),
        )
        try:
            with (
                interrupt.noted(),
                contextlib.closing(measure.sets(asked)) as sets,
            ):
                made = comparison.compare(asked, sets, show=lambda made: None)
        except turns.SetError as error:
            if error.server is None or not len(models) <= error.server:
                raise
            failed[here.pop(error.server - len(models))] = str(error)
            if here:
                continue
            return Contest(connections, 0, failed=failed)
        if made.stopped == "interrupted":
            raise KeyboardInterrupt
        return _contest(connections, comparison.document(made), made, failed)


def _least_s(servers: int) -> float:
    """Return the seconds that a few sets of so many servers need."""
    return 5 * (turns.OVERHEAD_S + (servers + 1) * 45 * turns.SLICE_S)


def _contest(connections: int, told: dict, made: Any, failed: dict) -> Contest:
    by_metric = told["ratios"]
    return Contest(
        connections=connections,
        sets=told["sets"],
        levels=told["levels"],
        ratios={n: {m: by_metric[m][n] for m in METRICS} for n in by_metric["rate"]},
        busy={name: tuple(map(_rounded, both)) for name, both in made.busy().items()},
        failed=failed | told["failed"],
        others_share=told["others_share"],
    )


def _rounded(share: float) -> float:
    return round(share, 3) if math.isfinite(share) else 0.0
