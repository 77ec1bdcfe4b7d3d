"""What the load generator promises: to send in time, to connect many, to time right.

Lag is how late a request left, against the plan of an open loop. Time to connect lasts
from the start of the client until everybody has been tried. A delay that the server
adds has to be found again; it is the difference of two, so that what an answer takes
besides cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.bench.plan import BASE, WARMUP_S, Plan
from connlab.bench.windows import failure_of, run_trial
from connlab.drive import flags, machine, trials
from connlab.drive.host import LocalHost

LAG_RATE = 50_000
LAG_CONNECTIONS = 50
#: connections, and the seconds that they may take
MANY = {19_000: 3.0, 100_000: 30.0}
MANY_REPEATS = 3
DELAYS_MS = (5, 10)
DELAY_CONNECTIONS = 4


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

    lag: Sequence[Lag] = ()
    delay: Sequence[Delay] = ()
    dialing: Sequence[Dialing] = ()


def measure(plan: Plan, *, timing: bool = True, many: bool = True) -> Found:
    """Measure `timing` in every round, then `many` connections some times.

    Many connections come last, because they leave as many closed sockets behind.
    """
    rounds = range(plan.rounds) if timing else ()
    repeats = range(MANY_REPEATS) if many else ()
    return Found(
        lag=[_lag(plan, number) for number in rounds],
        delay=[_delay(plan, number) for number in rounds],
        dialing=[_dialing(plan, n, number) for n in MANY for number in repeats],
    )


def _run(plan: Plan, number: int, told: Mapping[str, Any]) -> trials.Outcome | str:
    """Run one trial; return why it failed in place of its outcome."""
    outcome = run_trial(plan, {"model": BASE} | dict(told), number, LocalHost())
    return failure_of(outcome) or outcome


def _lag(plan: Plan, number: int) -> Lag:
    told = {
        "workload": "echo",
        "size": plan.size,
        "connections": LAG_CONNECTIONS,
        "rate": LAG_RATE,
        "duration": plan.seconds,
        "warmup": WARMUP_S,
    }
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
    medians = []
    for delay in DELAYS_MS:
        told = {
            "workload": "work",
            "delay": f"fixed:{delay}",
            "connections": DELAY_CONNECTIONS,
            "duration": plan.seconds,
            "warmup": WARMUP_S,
        }
        outcome = _run(plan, number, told)
        if isinstance(outcome, str):
            return Delay(number, failure=outcome)
        medians.append(outcome.client.response.p50_ns / 1e9)
    return Delay(number, added_s=medians[1] - medians[0])


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
