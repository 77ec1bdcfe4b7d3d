"""Throughput, cost and tails of judged servers, in turns with models of connlab.

at 1 connection:   epoll, iterative,          the judged
at 50 connections: epoll, thread, poll, uring, the judged that serve so many
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connlab.drive import interrupt, programs, servers, turns
from connlab.drive.location import ThisMachine

BASELINE = "epoll"
CONNECTIONS = 50
#: connections -> the models that take part, the baseline first
MODELS = {
    1: (BASELINE, "iterative"),
    CONNECTIONS: (BASELINE, "thread", "poll", "uring"),
}
#: seconds for a contest, and more for each judged server beyond the first
BUDGET_S = {1: 14.0, CONNECTIONS: 36.0}
_MORE_S = 5.0
_UNTIL = 0.02


@dataclass(frozen=True)
class Contest:
    """What turns at one number of connections gave.

    `levels` and `ratios` (to the baseline) hold, by server and metric, ``value``,
    ``lo`` and ``hi``; a ratio also the ``word`` for what it shows. `busy` is the share
    of a core that a server, and the client for it, used; they may have `shared` one.
    `limits` say what kept each from more, and `falling` whose cost was still falling
    (`connlab.compare.comparison`), though judged servers had `warm_up_s` of load first;
    `failure` why it ended early.
    """

    connections: int
    sets: int
    slice_s: float = turns.SLICE_S
    levels: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    ratios: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    busy: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    others_share: float = 0.0
    shared: bool = False
    limits: Mapping[str, str | None] = field(default_factory=dict)
    falling: Mapping[str, float] = field(default_factory=dict)
    warm_up_s: float = 0.0
    failure: str = ""


def divided(judged: Sequence[str], *, connections: int) -> list[list[str]]:
    """Return the judged servers of each contest: one client serves only so many.

    All models take part in each, the baseline twice.
    """
    from connlab.compare import plan

    room = plan.most_servers(connections, ThisMachine())
    each = max(1, room - len(MODELS[connections]) - 1)
    count = math.ceil(len(judged) / each)
    return [list(judged[n::count]) for n in range(count)]


def hold(
    judged: Sequence[str],
    *,
    connections: int,
    wait_s: float = 0,
    warm_up: float | None = None,
) -> Contest:
    """Let judged servers and models take turns; judged ones that fail are named.

    Each set waits `wait_s` for the slowest to start and to end, and each judged server
    has `warm_up` seconds of load first, or what is usual for it. A contest that cannot
    be held here has no result, and the reason for each of them.
    """
    from connlab.compare import comparison, measure, plan

    available = {model.name for model in programs.models() if model.available}
    models = [name for name in MODELS[connections] if name in available]
    budget_s = BUDGET_S[connections] + _MORE_S * max(0, len(judged) - 1)
    failed: dict[str, str] = {}
    remaining = [name for name in judged if name not in models]
    while True:
        slices = (len(models) + len(remaining) + 1) * 45
        warming_s = sum(_warm_up_s(name, warm_up) for name in remaining)
        set_s = turns.OVERHEAD_S + wait_s + warming_s + slices * turns.SLICE_S
        try:
            contest_plan = plan.make_plan(
                [*models, *remaining],
                connections=connections,
                until=_UNTIL,
                budget_s=max(budget_s, 5 * set_s),
                warm_up=None if all(map(servers.is_ours, remaining)) else warm_up,
            )
            sets = measure.sets(contest_plan)
            with interrupt.noted(), contextlib.closing(sets):
                result = comparison.compare(contest_plan, sets, show=lambda _: None)
                if interrupt.requested():
                    raise KeyboardInterrupt
        except (turns.SetError, ValueError, OSError) as error:
            # without a model, or the client, nobody can be held against anybody
            ended = error.name if isinstance(error, turns.SetError) else None
            lost = [ended] if ended in remaining else judged
            failed |= {name: str(error) for name in lost if name not in failed}
            remaining = [name for name in remaining if name not in failed]
            if failed.keys() >= set(judged):
                return Contest(connections, 0, failed=failed)
        else:
            return _contest(connections, comparison.document(result), result, failed)


def _warm_up_s(name: str, asked: float | None) -> float:
    of_model = 0.0 if servers.is_ours(name) else asked
    return servers.warm_up_s({"model": name, "warm_up": of_model})


def _contest(connections: int, document: dict, result: Any, failed: dict) -> Contest:
    ratios, names = document["ratios"], document["ratios"]["rate"]
    return Contest(
        connections=connections,
        sets=document["sets"],
        slice_s=result.plan.slice_s,
        levels=document["levels"],
        ratios={n: {m: of_all[n] for m, of_all in ratios.items()} for n in names},
        busy={name: tuple(map(_rounded, pair)) for name, pair in result.busy().items()},
        failed=failed | document["failed"],
        others_share=document["others_share"],
        shared=result.plan.cores.shared,
        limits=result.limits(),
        falling=document["falling"],
        warm_up_s=max(servers.warm_up_s(s.factors) for s in result.plan.servers),
        failure=result.failure,
    )


def _rounded(share: float) -> float:
    return round(share, 3) if math.isfinite(share) else 0.0
