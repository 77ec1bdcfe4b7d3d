"""Windows: one arm for a moment, with a fresh server and a fresh client."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.bench.plan import (
    FLOOR,
    PAGE,
    PAGE_BYTES,
    Arm,
    Plan,
    arms,
    factors,
    lesson_arms,
)
from connlab.drive import gates, trials
from connlab.drive.host import Host, LocalHost


@dataclass(frozen=True)
class Window:
    """What one window gave. What could not be measured is None.

    `others_share` is the number of cores that neither server, client nor driver used
    and that were busy all the same, `waiting_share` the part of the requests in flight
    that were answered and waited for the client.
    """

    round: int
    workload: str
    connections: int
    model: str
    throughput_rps: float | None = None
    server_cpu_per_request_s: float | None = None
    client_cpu_per_request_s: float | None = None
    client_share: float | None = None
    waiting_share: float | None = None
    switches_per_request: float | None = None
    others_share: float | None = None
    label: str | None = None
    failure: str | None = None

    @property
    def arm(self) -> Arm:
        """Which arm this is a window of."""
        return Arm(self.workload, self.connections, self.model)

    @property
    def requests_per_cpu_s(self) -> float | None:
        """Requests that a second of the server's CPU time answers."""
        cost = self.server_cpu_per_request_s
        return 1 / cost if cost else None


def measure(plan: Plan, *, say: Callable[[str], None] = print) -> list[Window]:
    """Measure every arm once per round, in an order shuffled anew for each."""
    host = LocalHost()
    order = random.Random(plan.seed)
    windows = []
    with web_root() as root:
        for number in range(plan.rounds):
            todo = arms(plan) + lesson_arms(plan)
            order.shuffle(todo)
            began = time.monotonic()
            windows += [_window(plan, arm, number, root, host) for arm in todo]
            took = f"{len(todo)} windows in {time.monotonic() - began:.0f} s"
            say(f"round {number + 1} of {plan.rounds}: {took}")
    return windows


def _window(plan: Plan, arm: Arm, number: int, root: str, host: Host) -> Window:
    place = Window(number, arm.workload, arm.connections, arm.model)
    if arm.model == FLOOR:
        return _floor_window(plan, place)
    if arm.lesson:
        plan = replace(plan, programs=plan.lesson(arm.lesson))
    outcome = run_trial(plan, factors(plan, arm, root=root), number, host)
    if reason := failure_of(outcome):
        return replace(place, failure=reason)
    return of_outcome(plan, place, outcome)


def run_trial(
    plan: Plan, told: Mapping[str, Any], number: int, host: Host
) -> trials.Outcome:
    """Run one trial with the settings `told`, in round `number`."""
    listed = {model.name: model for model in plan.models}
    setting = trials.Setting(
        factors=told,
        seed=plan.seed + number,
        cores=plan.cores,
        programs=plan.programs,
        model=listed.get(told["model"]),
        files=(),
    )
    outcome = trials.run(setting, server_host=host, client_host=host)
    if outcome is None:
        raise KeyboardInterrupt
    return outcome


def failure_of(outcome: trials.Outcome) -> str | None:
    """Return why a trial has no figures; None when it has."""
    if outcome.failure:
        return outcome.failure.reason
    return None if outcome.client else "no report"


def _floor_window(plan: Plan, place: Window) -> Window:
    pair = f"{plan.cores.server[0]},{plan.cores.client[0]}"
    told = {
        "what": "echo",
        "repeats": 1,
        "cores": pair,
        "connections": place.connections,
        "size": plan.size,
        "duration": plan.seconds,
    }
    done = subprocess.run(
        [plan.floor, *(f"--{name}={value}" for name, value in told.items())],
        capture_output=True,
        text=True,
        timeout=60 + plan.seconds,
        check=False,
    )
    if done.returncode:
        return replace(place, failure=done.stderr.strip())
    echo = json.loads(done.stdout)["echo"]
    return replace(
        place,
        throughput_rps=echo["throughput_rps"][0],
        server_cpu_per_request_s=echo["server_cpu_per_request_s"][0],
        client_share=1.0,
    )


def of_outcome(plan: Plan, place: Window, outcome: trials.Outcome) -> Window:
    """Condense one trial: what a request cost, and who was the bottleneck."""
    trial = {
        "server": outcome.server.model_dump(),
        "client": outcome.client.model_dump(by_alias=True),
        "cores": plan.cores.recorded(),
        "factors": {},
        "failure": None,
    }
    rate = trial["client"]["window"].get("throughput_rps")
    census = gates.census(trial)
    return replace(
        place,
        throughput_rps=rate,
        server_cpu_per_request_s=_cost(outcome.server.samples, rate),
        client_cpu_per_request_s=_own_cost(trial["client"]),
        client_share=gates.client_share(trial),
        waiting_share=trial["client"]["self"].get("waiting_share"),
        switches_per_request=_switches(trial["server"]["stats"] or {}),
        others_share=_others(outcome.server.samples),
        label=gates.label(trial),
        failure=census.why if census.ok is False else None,
    )


def _cost(found: schema.Samples | None, rate: float | None) -> float | None:
    if not found or not found.window_s or found.cpu_user_s is None or not rate:
        return None
    return (found.cpu_user_s + found.cpu_system_s) / found.window_s / rate


def _own_cost(client: Mapping) -> float | None:
    """Return the client's CPU time per request; it has clocks for its window."""
    spent, requests = client["self"].get("cpu_window_s"), client["window"]["requests"]
    return spent / requests if spent is not None and requests else None


def _others(found: schema.Samples | None) -> float | None:
    """Return how many cores somebody else kept busy meanwhile."""
    if not found or not found.window_s or found.other_cpu_s is None:
        return None
    return (found.other_cpu_s + (found.steal_s or 0)) / found.window_s


def _switches(stats: Mapping) -> float | None:
    switches = stats.get("context_switches_voluntary")
    if switches is None or not stats.get("requests"):
        return None
    return (switches + stats["context_switches_involuntary"]) / stats["requests"]


@contextlib.contextmanager
def web_root() -> Iterator[str]:
    """Yield a directory with the one page that http arms ask for."""
    with tempfile.TemporaryDirectory(prefix="connlab-bench-") as folder:
        Path(folder, PAGE).write_bytes(b"x" * PAGE_BYTES)
        yield folder
