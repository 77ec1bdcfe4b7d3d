"""Comparisons that are measured a set each in turn, and the floor beside them."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from connlab import schema
from connlab.compare import measure
from connlab.compare.comparison import Comparison
from connlab.compare.plan import Plan, make_plan
from connlab.drive import cores, interrupt, programs, servers
from connlab.drive.floor import echo as floor_echo

BASE = "epoll"
FEW, MANY = 50, 1000
SIZE = 64
#: what a request of `DEARER` costs more than one of `BASE`
EXTRA_NS = 500
DEARER = f"{BASE}:extra-ns={EXTRA_NS}"
LAG_RATE = 50_000
FLOOR_S = 0.3


@dataclass
class Part:
    """One comparison, and of each of its sets what a request of the floor costs.

    The floor (``build/floor``) only receives and sends, two calls a request: it asks
    nobody which connections are ready. It cannot take turns, so it is measured before
    and after a set, and the cheaper of both counts: it never rests, so that whatever
    interrupts one of its halves makes the other spend more.
    """

    made: Comparison
    with_floor: bool = False
    floor_cpu_s: list[float] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """What is compared."""
        return self.made.plan


def parts(
    models: Sequence[schema.Model], *, lessons: bool, until: float, seed: int
) -> dict[str, Part]:
    """Return what is compared, by title; `BASE` is the baseline of each."""
    names = [m.name for m in models if m.concurrent and m.available and m.name != BASE]
    some = [name for name in ("epoll-et", "uring", "thread") if name in names]
    pair = [BASE, *(some[1:2] or names[:1] or [DEARER])]
    told = {"engine": "auto", "until": until, "seed": seed, "budget_s": math.inf}

    def plan(names: Sequence[str], connections: int = FEW, **load) -> Plan:
        return make_plan(names, connections=connections, **told, **load)

    def one_core(plan: Plan) -> Plan:
        return replace(plan, cores=cores.together(plan.cores.server))

    plans = {
        "models": plan([BASE, DEARER, *names]),
        "many": plan([BASE, *(some or pair[1:])], MANY),
        "http": plan(pair, workload="http"),
        "one core": one_core(plan(pair)),
        "one core, many": one_core(plan(pair, MANY)),
        "open loop": plan(pair, rate=LAG_RATE),
    }
    if lessons and (held := _lessons([BASE, *names])):
        taught = plan([word for pair in held.items() for word in reversed(pair)])
        own = [replace(s, against=held.get(s.name)) for s in taught.servers]
        plans["lessons"] = replace(taught, servers=tuple(own))
    floor = ("models", "many")
    return {name: Part(Comparison(p), name in floor) for name, p in plans.items()}


def _lessons(names: Sequence[str]) -> dict[str, str]:
    """Return the lesson that each model is held against, where there is one."""
    built = servers.lessons(programs.built())
    return {n: lesson for n in names if (lesson := f"{servers.LESSON}{n}") in built}


def run(made: dict[str, Part], *, budget_s: float, say: Callable[[str], None]) -> None:
    """Measure a set of each part in turn, until all are narrow or time is up."""
    began, rounds, lasted = time.monotonic(), 0, 0.0
    with interrupt.noted(), contextlib.ExitStack() as opened:
        sets = {
            name: opened.enter_context(contextlib.closing(measure.sets(part.plan)))
            for name, part in made.items()
        }
        while (spent := time.monotonic() - began) + lasted < budget_s:
            todo = [name for name, part in made.items() if not part.made.stopped]
            if not todo:
                break
            for name in todo:
                _add(made[name], sets[name])
            rounds, lasted = rounds + 1, time.monotonic() - began - spent
            say(f"round {rounds}: {len(todo)} sets in {lasted:.0f} s{_widths(made)}")
    for part in made.values():
        part.made.stopped = part.made.stopped or "budget"
        part.made.seconds = sum(part.made.set_seconds)


def _add(part: Part, sets: Iterator[measure.Set]) -> None:
    """Measure one more set of a part, with the floor before and after."""
    before = _floor_cpu_s(part)
    with cores.uninterrupted() if part.plan.cores.shared else contextlib.nullcontext():
        measured = next(sets, None)
    if measured is None:
        raise KeyboardInterrupt
    if before:
        part.floor_cpu_s.append(min(before, _floor_cpu_s(part)))
    part.made.add(measured)
    part.made.stopped = part.made.enough()


def _floor_cpu_s(part: Part) -> float:
    if not part.with_floor:
        return 0.0
    sets, count = part.plan.cores, part.plan.client["connections"]
    pair = (sets.server[0], sets.client[0])
    return floor_echo(count, size=SIZE, duration=FLOOR_S, pair=pair)


def _widths(made: dict[str, Part]) -> str:
    """Return to what each part is known, once that can be said."""
    found = {name: part.made.widest() for name, part in made.items()}
    known = [f"{n} ±{w:.1%}" for n, w in found.items() if math.isfinite(w)]
    return f": {', '.join(known)}".replace("%", " %") if known else ""
