"""Comparisons that are measured a set each in turn, and the floor beside them."""

import contextlib
import math
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from connlab import schema
from connlab.compare import measure
from connlab.compare.comparison import Comparison
from connlab.compare.plan import Plan, make_plan
from connlab.drive import cores, interrupt, machine, programs, servers, turns
from connlab.drive.floor import echo as floor_echo

BASE = "epoll"
FEW, MANY = 50, 1000
SIZE = 64
#: what a request of `DEARER` costs more than one of `SLOWED`; both are slow enough to
#: be the limit, and their client never sleeps, not even without a core to itself: they
#: would pay for waking it
EXTRA_NS, SLOW_NS = 500, 4000
SLOWED, DEARER = (f"{BASE}:extra-ns={ns}" for ns in (SLOW_NS, SLOW_NS + EXTRA_NS))
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

    comparison: Comparison
    with_floor: bool = False
    floor_cpu_s: list[float] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return self.comparison.plan


def parts(
    models: Sequence[schema.Model], *, lessons: bool, until: float, seed: int
) -> dict[str, Part]:
    """Return what is compared with `BASE`, by title.

    The control has another baseline, and is to find the known `EXTRA_NS` again.
    """
    names = [m.name for m in models if m.concurrent and m.available and m.name != BASE]
    some = [name for name in ("epoll-et", "uring", "thread") if name in names]
    pair = [BASE, *(some[1:2] or names[:1] or [DEARER])]
    common = {"engine": "auto", "until": until, "seed": seed, "budget_s": math.inf}

    def plan(names: Sequence[str], connections: int = FEW, **load) -> Plan:
        return make_plan(names, connections=connections, **common, **load)

    def one_core(plan: Plan) -> Plan:
        return replace(plan, cores=cores.together(plan.cores.server))

    control = plan([SLOWED, DEARER])
    plans = {
        "models": plan([BASE, *(names or [DEARER])]),
        "control": replace(control, client={**control.client, "spin": "always"}),
        "many": plan([BASE, *(some or pair[1:])], MANY),
        "http": plan(pair, workload="http"),
        "one core": one_core(plan(pair)),
        "one core, many": one_core(plan(pair, MANY)),
        "open loop": plan(pair, rate=LAG_RATE),
    }
    built = servers.lessons(programs.built()) if lessons else ()
    taking = {n: f"{servers.LESSON}{n}" for n in [BASE, *names]}
    if held_against := {n: lesson for n, lesson in taking.items() if lesson in built}:
        taught = plan([name for pair in held_against.items() for name in pair[::-1]])
        held = (replace(s, against=held_against.get(s.name)) for s in taught.servers)
        plans["lessons"] = replace(taught, servers=tuple(held))
    floor = ("models", "many")
    return {name: Part(Comparison(p), name in floor) for name, p in plans.items()}


def run(
    by_title: dict[str, Part], *, budget_s: float, say: Callable[[str], None]
) -> None:
    """Measure a set of each part in turn, until all are narrow or time is up.

    One round is measured whatever the budget. A part of which a set fails keeps those
    before it, and the others go on. A signal ends all, and what was measured is kept:
    those that wanted more have ``interrupted`` in `Comparison.stopped`. Raises
    KeyboardInterrupt where it came before the first round was over.
    """
    estimate_s = sum(
        p.plan.set_s + 2 * FLOOR_S * p.with_floor for p in by_title.values()
    )
    say(
        f"{len(by_title)} comparisons, about {estimate_s:.0f} s a round, "
        f"until all are known or {budget_s:g} s are over"
    )
    began, rounds, round_s, ending = time.monotonic(), 0, 0.0, "budget"
    with interrupt.noted(), contextlib.ExitStack() as stack:
        sets = {
            name: stack.enter_context(contextlib.closing(measure.sets(part.plan)))
            for name, part in by_title.items()
        }
        while (spent := time.monotonic() - began) + round_s < budget_s:
            unfinished = [n for n, p in by_title.items() if not p.comparison.stopped]
            if not unfinished:
                break
            if not all(_add(by_title[name], sets[name]) for name in unfinished):
                if not rounds:
                    raise KeyboardInterrupt
                ending = "interrupted"
                break
            rounds, round_s = rounds + 1, time.monotonic() - began - spent
            widths = _widths(by_title)
            say(f"round {rounds}: {len(unfinished)} sets in {round_s:.0f} s{widths}")
    for part in by_title.values():
        part.comparison.stopped = part.comparison.stopped or ending
        part.comparison.seconds = sum(part.comparison.set_seconds)


def _add(part: Part, sets: Iterator[measure.Set]) -> bool:
    """Take in a set of a part, or that it failed; False where a signal came."""
    shared = part.plan.cores.shared
    try:
        before = _floor_cpu_s(part)
        with cores.uninterrupted() if shared else contextlib.nullcontext():
            measured = next(sets, None)
        after = 0.0 if measured is None else _floor_cpu_s(part)
    except turns.SetError as error:
        part.comparison.fail(error)
        return True
    if measured is None:
        return False
    if before:
        part.floor_cpu_s.append(min(before, after))
    part.comparison.add(measured)
    part.comparison.stopped = part.comparison.enough()
    return True


def _floor_cpu_s(part: Part) -> float:
    if not part.with_floor:
        return 0.0
    sets, count = part.plan.cores, part.plan.client["connections"]
    pair = (sets.server[0], sets.client[0])
    try:
        return floor_echo(count, size=SIZE, duration=FLOOR_S, pair=pair)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        reason = machine.without_paths(str(error))
        raise turns.SetError(reason, kind="client-failed") from error


def _widths(by_title: dict[str, Part]) -> str:
    widths = {name: part.comparison.widest() for name, part in by_title.items()}
    texts = [f"{n} ±{w:.1%}" for n, w in widths.items() if math.isfinite(w)]
    return f": {', '.join(texts)}".replace("%", " %") if texts else ""
