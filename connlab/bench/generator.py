"""What the load generator promises: to cost little, to send in time, to time right.

What it costs is found where it shares one core with the server. With a core each, half
of what either spends goes into cache lines that the other has, and as both fill their
cores, the faster one finds few events at a time and spends more on each: there either
costs what the other does. The policy SCHED_BATCH keeps them from interrupting one
another, which a core each would not see either.

Lag is how late a request left, against the plan of an open loop. Time to connect lasts
from the start of the client until everybody has been tried. A delay that the server
adds has to be found again; it is the difference of two, so that what an answer takes
besides cancels. The server spins: a sleep ends later the longer it is.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from connlab.bench.plan import BASE, WARMUP_S, Plan
from connlab.bench.windows import Window, failure_of, of_outcome, run_trial
from connlab.drive import cores, flags, machine, trials
from connlab.drive.host import LocalHost

#: how the client waits: as studies have it, and with two plain calls a request
BEST, PLAIN = "auto", "epoll"
LAG_RATE = 50_000
LAG_CONNECTIONS = 50
#: connections, and the seconds that they may take
MANY = {19_000: 3.0, 100_000: 30.0}
MANY_REPEATS = 3
DELAYS_MS = (5, 10)


@dataclass(frozen=True)
class Cost:
    """CPU time of an echo request, in seconds, of two programs on one core."""

    round: int
    engine: str
    connections: int
    client_cpu_per_request_s: float | None = None
    server_cpu_per_request_s: float | None = None
    failure: str | None = None

    @property
    def arm(self) -> tuple[str, int]:
        """Which arm of a round this is."""
        return self.engine, self.connections


@dataclass(frozen=True)
class Lag:
    """How late a window's requests left (seconds), and the rate of their answers."""

    round: int
    throughput_rps: float | None = None
    p50_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Dialing:
    """How long it took until so many connections were established."""

    round: int
    connections: int
    seconds: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Delay:
    """What `DELAYS_MS[1] - DELAYS_MS[0]` more at the server are at the client."""

    round: int
    added_s: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Found:
    """All windows of each kind; none where it was left out."""

    cost: Sequence[Cost] = ()
    lag: Sequence[Lag] = ()
    delay: Sequence[Delay] = ()
    dialing: Sequence[Dialing] = ()


def measure(plan: Plan, *, timing: bool = True, many: bool = True) -> Found:
    """Measure `timing` in every round, then `many` connections some times.

    Many connections come last, because they leave as many closed sockets behind.
    """
    rounds = range(plan.rounds) if timing else ()
    costs = itertools.product(rounds, plan.connections, (BEST, PLAIN))
    repeats = range(MANY_REPEATS) if many else ()
    return Found(
        cost=[_cost(plan, engine, n, number) for number, n, engine in costs],
        lag=[_lag(plan, number) for number in rounds],
        delay=[_delay(plan, number) for number in rounds],
        dialing=[_dialing(plan, n, number) for n in MANY for number in repeats],
    )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let what is started meanwhile not be interrupted by others that wake up."""
    before, told = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, told)


def _cost(plan: Plan, engine: str, connections: int, number: int) -> Cost:
    place = Cost(number, engine, connections)
    alone = replace(plan, cores=cores.together(plan.cores.server))
    told = _echo(plan, connections) | {"engine": engine}
    with _uninterrupted():
        outcome = _run(alone, number, told)
    if isinstance(outcome, str):
        return replace(place, failure=outcome)
    window = of_outcome(alone, Window(number, "echo", connections, BASE), outcome)
    return replace(
        place,
        client_cpu_per_request_s=window.client_cpu_per_request_s,
        server_cpu_per_request_s=window.server_cpu_per_request_s,
        failure=window.failure,
    )


def _run(plan: Plan, number: int, told: Mapping[str, Any]) -> trials.Outcome | str:
    """Run one trial; return why it failed in place of its outcome."""
    outcome = run_trial(plan, {"model": BASE} | dict(told), number, LocalHost())
    return failure_of(outcome) or outcome


def _echo(plan: Plan, connections: int) -> dict[str, Any]:
    return {
        "workload": "echo",
        "size": plan.size,
        "connections": connections,
        "duration": plan.seconds,
        "warmup": WARMUP_S,
    }


def _lag(plan: Plan, number: int) -> Lag:
    told = _echo(plan, LAG_CONNECTIONS) | {"rate": LAG_RATE}
    outcome = _run(plan, number, told)
    if isinstance(outcome, str):
        return Lag(number, failure=outcome)
    late = {p: outcome.client.self_[f"lag_{p}_ns"] / 1e9 for p in ("p50", "p99", "max")}
    return Lag(
        number,
        throughput_rps=outcome.client.window["throughput_rps"],
        **{f"{p}_s": seconds for p, seconds in late.items()},
    )


def _delay(plan: Plan, number: int) -> Delay:
    means = []
    for delay in DELAYS_MS:
        told = {
            "workload": "work",
            "delay": f"fixed:{delay}",
            "delay_kind": "spin",
            "connections": 1,
            "duration": plan.seconds,
            "warmup": WARMUP_S,
        }
        outcome = _run(plan, number, told)
        if isinstance(outcome, str):
            return Delay(number, failure=outcome)
        means.append(outcome.client.response.mean_ns / 1e9)
    return Delay(number, added_s=means[1] - means[0])


def _dialing(plan: Plan, connections: int, number: int) -> Dialing:
    outcome = _run(plan, number, many(connections, machine.limits()["descriptors"]))
    if isinstance(outcome, str):
        return Dialing(number, connections, failure=outcome)
    established = outcome.client.connections.established
    if established < connections:
        why = f"{established:,} of {connections:,} established"
        return Dialing(number, connections, failure=why)
    return Dialing(number, connections, seconds=outcome.client.self_["dialing_s"])


def many(connections: int, descriptors: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the settings for so many connections, most of which stay silent.

    Both sides get processes enough for the descriptors that one may have. The kernel
    spreads connections over the server's by a hash, unevenly: one more has room.
    """
    told = {
        "workload": "echo",
        "connections": connections,
        "active": 10,
        "duration": 0.2,
        "warmup": 0,
    }
    told = flags.with_enough_processes(told, descriptors=descriptors["hard"])
    if clients := told.get("client_processes"):
        told["processes"] = clients + 1
    return told
