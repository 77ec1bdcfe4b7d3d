"""The plan of a sweep: its arguments, checked, and what it will cost."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from connlab import schema
from connlab.drive import (
    capacity,
    flags,
    grid,
    interleaving,
    machine,
    servers,
    stopping,
    trials,
    turns,
)
from connlab.drive.location import Location, configured
from connlab.drive.programs import Programs, built, registry, unknown
from connlab.drive.progress import Estimate

# What a trial takes beside warm-up and window, in seconds, as fitted to 1400 trials of
# a quick run on two cores: programs that start and end, and connections with a thread
# or process each. In turns the first connections cost more than further ones.
_ALONE_S, _ALONE_PER_CONNECTION_S = 0.03, 120e-6
#: the same over hosts, whose clients agree on a moment to begin
_REMOTE_S = 0.4
_IN_SET_S, _FIRST, _FIRST_S, _PER_CONNECTION_S = 0.01, 100, 150e-6, 45e-6
#: windows and warm-ups in turns are whole slices, which end with their last answer
_SLICES = 1.02
#: time of server and client for an answer, of the slower servers
_ANSWER_S = {"http": 100e-6}
_ANSWER_USUAL_S = 20e-6
#: what servers of one set may differ in: all that their client does not see
_SERVER_FACTORS = (
    *("arm", "model"),
    *(name for name in flags.SERVER if name not in flags.CLIENT),
)
_BESIDE = (*_SERVER_FACTORS, *interleaving.OWN_OF_TARGETS)
#: arguments that a manifest keeps as they came
_AS_ASKED = (
    *("trials", "max_trials", "duration", "warmup", "seed", "budget"),
    *("response_times", "duration_max"),
)


@dataclass(frozen=True)
class SweepPlan:
    """All that is fixed before the first trial of a sweep."""

    run: str
    study: str
    folder: Path
    cells: tuple[dict[str, Any], ...]
    varied: tuple[str, ...]
    models: Mapping[str, schema.Model]
    programs: Programs
    binaries: Mapping[str, str]
    environment: str
    rule: stopping.Rule
    seed: int
    histograms: bool
    parameters: Mapping[str, Any]
    sets: tuple[interleaving.Set, ...]
    unavailable: Mapping[int, str]
    """Why cells cannot be measured where the sweep is."""
    location: Location

    @cached_property
    def sweep(self) -> str:
        """A hash of its cells."""
        return grid.cell_key({"cells": sorted(map(grid.cell_key, self.cells))})

    def key(
        self, cell: int, repeat: int, *, carried_by: str | None = None, copy: int = 1
    ) -> str:
        """Return the key of a cell's trial number `repeat`; see `grid.key`."""
        factors = self.cells[cell]
        return grid.key(
            factors,
            repeat=repeat,
            binaries=self.binaries_of(self.models[factors["model"]]),
            environment=self.environment,
            unavailable=self.unavailable.get(cell),
            carried_by=carried_by,
            copy=copy,
        )

    def copies(
        self, cell: int, repeat: int, name: str, trials: Mapping[str, dict]
    ) -> dict[str, dict]:
        """Return the trials of a baseline's copies in the set of this name, by key."""
        numbers = itertools.count(1)
        keys = (self.key(cell, repeat, carried_by=name, copy=n) for n in numbers)
        return {
            key: trials[key] for key in itertools.takewhile(trials.__contains__, keys)
        }

    def binaries_of(self, model: schema.Model) -> dict[str, str]:
        """Return the hashes of the programs that a trial of this server runs."""
        digest = (model.model_extra or {}).get("digest")
        return dict(self.binaries) | ({"external": digest} if digest else {})

    def levels(self, cell: int) -> dict[str, Any]:
        """Return a cell's levels of the factors that vary."""
        factors = self.cells[cell]
        return {name: factors[name] for name in self.varied if name in factors}


def prepare(arguments: Mapping[str, Any]) -> SweepPlan:
    """Return the plan of `connlab.drive.sweep`'s arguments, or raise its errors."""
    args = SimpleNamespace(**arguments)
    for argument, name in (("study", args.study), ("run", args.run)):
        if not re.fullmatch(r"[\w-][\w.-]*", name):
            raise ValueError(f"{argument}: {name!r}; allowed: letters, digits, - _ .")
    if not 0 < args.duration < math.inf:  # and no nan
        raise ValueError(f"duration: {args.duration}; allowed: more than 0 seconds")
    if not 0 <= args.warmup < math.inf:
        raise ValueError(f"warmup: {args.warmup}; allowed: 0 seconds or more")
    names = (args.beside,) if isinstance(args.beside, str) else args.beside
    beside = tuple(grid.with_models(dict.fromkeys(names)))
    flags.check_names(beside)
    for name in beside:
        if name not in _BESIDE:
            allowed = ", ".join(_BESIDE)
            raise ValueError(f"beside: {name!r}; allowed: {allowed}")
    location = args.location or configured()
    if location.remote:
        # the clients of hosts divide one number of users, that of all targets
        beside = tuple(n for n in beside if n not in interleaving.OWN_OF_TARGETS)
        # clients that prolong a window each by its own answers do not end it together
        args.response_times = 0
    fixed = dict(args.fixed or {})
    named = _models_named(args.factors, fixed)
    defaults = {"duration": args.duration, "warmup": args.warmup} | _windows(args)
    if beside:
        defaults["slice"] = (
            turns.SLICE_REMOTE_S * 1e3
            if location.remote
            else lambda cell: turns.usual_slice_s(cell, named) * 1e3
        )
    cells = grid.cells(args.factors, fixed, defaults)
    rule = stopping.rule(
        trials=args.trials,
        max_trials=args.max_trials,
        targets=args.targets,
        budget=args.budget,
        metrics=[col.name for col in schema.COLUMNS if col.dtype != "string"],
        in_turns=bool(beside),
    )
    programs = args.programs or built()
    baseline = None if args.baseline is None else grid.with_models(args.baseline)
    models = _checked_models(cells, programs, location, baseline=baseline)
    unavailable = {}
    for number, cell in enumerate(cells):
        model = models[cell["model"]]
        lack = location.lacks(cell, model) if model.available else model.reason or ""
        if lack is not None:
            unavailable[number] = lack
    together = {"beside": beside, "baseline": baseline, "tasks": location.tasks()}
    sets = interleaving.sets(cells, models, unavailable=unavailable, **together)
    if unheld := interleaving.unheld(sets, cells, location.descriptors()):
        unavailable |= unheld
        sets = interleaving.sets(cells, models, unavailable=unavailable, **together)
    for count, shared in {(cell.get("cores"), cell.get("together")) for cell in cells}:
        location.cores({"cores": count, "together": shared})
    if not location.remote:
        _check_descriptors(cells)
    environment = location.environment(programs.digests())
    targets = dict(args.targets) if isinstance(args.targets, Mapping) else args.targets
    grids = [{name: list(v) for name, v in g.items()} for g in grid.grids(args.factors)]
    parameters = {name: getattr(args, name) for name in _AS_ASKED} | {
        "factors": grids[0] if isinstance(args.factors, Mapping) else grids,
        "fixed": fixed,
        "targets": targets,
        "beside": list(beside),
        "baseline": baseline,
    }
    return SweepPlan(
        run=args.run,
        study=args.study,
        folder=schema.study_folder(args.run, args.study, root=args.root),
        cells=cells,
        varied=grid.varied(args.factors),
        models=models,
        programs=programs,
        binaries=environment["binaries"],  # of other hosts: those that they have
        environment=machine.environment_class(environment),
        rule=replace(
            rule,
            sets=tuple(cell_set.members for cell_set in sets),
            shared=interleaving.sharing(sets),
        ),
        seed=args.seed,
        histograms=args.histograms,
        parameters=parameters,
        sets=sets,
        unavailable=unavailable,
        location=location,
    )


def _models_named(
    factors: Mapping | Sequence[Mapping], fixed: Mapping[str, Any]
) -> set[str]:
    """Return the names of all servers of a sweep, known or not."""
    grids = (*grid.grids(factors), {"model": [grid.with_models(fixed).get("model")]})
    levels = itertools.chain.from_iterable(g.get("model", ()) for g in grids)
    return {level for level in levels if isinstance(level, str)}


def _windows(args: SimpleNamespace) -> dict[str, Any]:
    """Return the settings that prolong windows, as far as there are any."""
    times, longest = args.response_times, args.duration_max
    if not 0 <= times < math.inf:
        raise ValueError(f"response_times: {times}; allowed: 0 or more")
    if longest is not None and not args.duration <= longest < math.inf:
        raise ValueError(
            f"duration_max: {longest}; allowed: {args.duration} (duration) up"
        )
    settings = {"response_times": times or None, "duration_max": longest}
    return {name: value for name, value in settings.items() if value is not None}


def _check_descriptors(cells: Sequence[Mapping]) -> None:
    """Raise ValueError where cells name a limit that the programs would not have."""
    hard = machine.limits()["descriptors"]["hard"]
    for limit in {cell.get("descriptors") for cell in cells} - {None, hard}:
        raise ValueError(
            f"descriptors: {limit}; the limit here is {hard or 'none'}, and programs "
            "get it as it is: lower RLIMIT_NOFILE of this process first"
        )


def _checked_models(
    cells: Sequence[Mapping],
    programs: Programs,
    location: Location,
    *,
    baseline: Mapping[str, Any] | None,
) -> dict[str, schema.Model]:
    registered = location.registry() or registry(programs=programs)
    names = dict.fromkeys(cell["model"] for cell in cells)
    models = {name: servers.check(name, programs, registered) for name in names}
    if baseline and "model" in baseline:
        servers.check(baseline["model"], programs, registered)
    workloads = [workload.name for workload in registered.workloads]
    for cell in cells:
        name, workload = cell["model"], cell["workload"]
        allowed = (models[name].model_extra or {}).get("workloads")  # of servers.toml
        if allowed and workload not in allowed:
            raise ValueError(
                f"server {name}: workload {workload!r}; allowed: {', '.join(allowed)}"
            )
        servers.check_settings(name, cell)
        address = servers.address_of(name)
        if address is not None and cell.get("stall"):
            raise ValueError(
                f"stall: {cell['stall']}; allowed for the server at {address}: none, "
                "as it cannot be stopped from here"
            )
        if workloads and workload not in workloads:
            raise ValueError(unknown("workload", workload, workloads))
    return models


def baseline_absent(plan: SweepPlan) -> list[str]:
    """Return a remark where no cell has the levels of the baseline that was named."""
    levels = (plan.parameters["baseline"] or {}).items()
    if any(levels <= cell.items() for cell in plan.cells):
        return []
    named = ", ".join(f"{name} {level}" for name, level in levels)
    return [f"the baseline ({named}) takes no part: nothing is compared with it"]


def refuse_foreign_trials(
    plan: SweepPlan, rows: Iterable[Mapping], manifest: Mapping
) -> None:
    """Raise ValueError where trials on disk are of another class of environment."""
    classes = Counter(row.get("environment") for row in rows)
    current = plan.location.environment(plan.binaries)
    recorded = manifest.get("environments") or {}
    foreign = [
        f"{count} trial{' is' if count == 1 else 's are'} of another class of "
        f"environment ({name}: other "
        f"{machine.differences(recorded.get(name), current)})"
        for name, count in classes.items()
        if name != plan.environment
    ]
    if foreign:
        raise ValueError(
            f"run: {plan.run!r}; in its study {plan.study!r} {'; '.join(foreign)}. "
            "They do not mix with what would be measured now: name another run "
            "(--run NAME, with make RUN=NAME), or `make evaluate` to measure nothing"
        )


def guess_s(plan: SweepPlan, cell: int, past_s: Sequence[float]) -> float:
    """Return what a trial of a cell takes: the mean of past ones, or a guess."""
    if past_s:
        return sum(past_s) / len(past_s)
    if cell in plan.unavailable:
        return 0.0
    factors, model = plan.cells[cell], plan.models[plan.cells[cell]["model"]]
    connections = factors.get("connections") or 1
    measuring = factors["warmup"] + _window_s(factors, model)
    its_set = next(s for s in plan.sets if cell in s.members)
    if its_set.baseline is not None:
        warming_s = servers.warm_up_s(factors) if factors["warmup"] else 0.0
        first = min(connections, _FIRST) * _FIRST_S
        settling = flags.users(factors) * _answer_s(factors)  # all are answered once
        connecting = first + connections * _PER_CONNECTION_S + settling
        longer = 1 + turns.PAUSE_REMOTE if plan.location.remote else _SLICES
        servers_each = its_set.servers / len(its_set.members)
        turns_s = servers_each * (_IN_SET_S + connecting + longer * measuring)
        return warming_s + turns_s
    connecting = connections * _ALONE_PER_CONNECTION_S
    if rate := factors.get("connect_rate"):
        connecting = max(connecting, connections / rate)
    draining = flags.DRAIN_S if _leaves_some_waiting(factors, model) else 0.0
    alone_s = _REMOTE_S if plan.location.remote else _ALONE_S
    return alone_s + connecting + measuring + draining


def _answer_s(factors: Mapping[str, Any]) -> float:
    return _ANSWER_S.get(factors["workload"], _ANSWER_USUAL_S)


def burst_s(factors: Mapping[str, Any], model: schema.Model) -> float:
    """Guess how long a burst takes; 0 where a window is measured."""
    users, delay_s = flags.users(factors), flags.mean_s(factors.get("delay"))
    at_once = capacity.workers(factors) if model.workers == "fixed" else users
    at_once = 1 if model.holds == "one" else at_once
    each_s = max(_answer_s(factors), delay_s / at_once)
    if (requests := factors.get("requests")) is None:
        return 0.0
    thinking_s = requests * flags.mean_s(factors.get("think"))
    return users * requests * each_s + delay_s + thinking_s


def _window_s(factors: Mapping[str, Any], model: schema.Model) -> float:
    """Guess how long a window is, or a burst."""
    if factors.get("requests") is not None:
        return burst_s(factors, model)
    if factors.get("rate") is not None:
        return factors["duration"]
    wanted = factors.get("response_times") or 0
    wanted_s = wanted * flags.users(factors) * _answer_s(factors)
    return min(max(factors["duration"], wanted_s), trials.longest_s(factors))


def _leaves_some_waiting(factors: Mapping[str, Any], model: schema.Model) -> bool:
    """Whether clients are unanswered at the end, for all workers or the byte rate."""
    if factors.get("byte_rate") is not None:
        return True
    connections = factors.get("connections") or 1
    served = {"one": 1, "workers": capacity.workers(factors)}
    return factors.get("requests") is None and connections > served.get(
        model.holds, connections
    )


def cost(plan: SweepPlan, kept: Mapping[str, dict]) -> Estimate:
    """Return what is left to do beside the trials that are `kept` on disk."""
    rule = plan.rule
    counts, costs, resumed, spent_s = [0, 0], [0.0, 0.0], 0, 0.0
    for cell in range(len(plan.cells)):
        rows = [kept.get(plan.key(cell, n)) for n in range(rule.most)]
        past_s = [row["seconds"] for row in rows if row]
        resumed += len(past_s)
        spent_s += sum(past_s)
        trial_s = guess_s(plan, cell, past_s)
        for i, most in enumerate((rule.n_min, rule.n_max)):
            missing = sum(row is None for row in rows[:most])
            counts[i] += missing
            costs[i] += missing * trial_s
    if rule.budget_s is not None:
        costs = [min(cost, max(0.0, rule.budget_s - spent_s)) for cost in costs]
    return Estimate(
        trials=counts[0],
        seconds=costs[0],
        trials_max=counts[1],
        seconds_max=costs[1],
        cells=len(plan.cells),
        resumed=resumed,
    )
