"""A sweep's arguments, checked: the work that is to be done, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
from connlab.drive.gates import RESPONSE_TIMES
from connlab.drive.location import Location, ThisMachine
from connlab.drive.location import asked as asked_location
from connlab.drive.programs import Programs, built, registry, unknown
from connlab.drive.reports import Estimate

# What a trial takes beside warm-up and window, in seconds, as fitted to 1400 trials of
# a quick run on two cores: programs that start and end, and connections with a thread
# or process each. In turns the first connections cost more than further ones.
_ALONE_S, _ALONE_PER_CONNECTION_S = 0.03, 120e-6
#: the same over hosts, whose clients agree on a moment to begin
_REMOTE_S = 0.4
_IN_SET_S, _FIRST, _FIRST_S, _PER_CONNECTION_S = 0.01, 100, 150e-6, 45e-6
#: a client waits so long for answers which do not come (``client --drain``)
_DRAIN_S = 0.2
#: windows and warm-ups in turns are whole slices, which end with their last answer
_SLICES = 1.02
#: time of server and client for an answer, of the slower servers
_ANSWER_S = {"http": 100e-6}
_ANSWER_USUAL_S = 20e-6


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
    timeout: float | None
    histograms: bool
    parameters: Mapping[str, Any]
    mixed: bool = False
    beside: tuple[str, ...] = ()
    sets: tuple[interleaving.Set, ...] = ()
    location: Location = field(default_factory=ThisMachine)

    def key(self, cell: int, repeat: int, *, carried_by: str | None = None) -> str:
        """Return the key of a cell's trial number `repeat`.

        Of a baseline that was measured once more for a set, whose name is then given.
        """
        factors = self.cells[cell]
        model = self.models[factors["model"]]
        return grid.key(
            factors,
            repeat=repeat,
            binaries=self.binaries_of(model),
            environment=self.environment,
            unavailable=self.lacking(cell),
            carried_by=carried_by,
        )

    def lacking(self, cell: int) -> str | None:
        """Return why a cell cannot be measured where the sweep is; None: it can."""
        model = self.models[self.cells[cell]["model"]]
        if not model.available:
            return model.reason or ""
        return self.location.lacks(self.cells[cell], model)

    def binaries_of(self, model: schema.Model) -> dict[str, str]:
        """Return the hashes of the programs that a trial of this server runs."""
        own = (model.model_extra or {}).get("digest")
        return {**self.binaries, "external": own} if own else dict(self.binaries)

    def baseline(self, cell: int) -> int | None:
        """Return the cell that a cell is compared with in its set, if it is in one."""
        return next((s.baseline for s in self.sets if cell in s.members), None)

    def level(self, cell: int) -> dict[str, Any]:
        """Return a cell's levels of the factors that vary."""
        factors = self.cells[cell]
        return {name: factors[name] for name in self.varied if name in factors}


def prepare(
    study: str,
    *,
    run: str,
    factors: Mapping[str, Sequence] | Sequence[Mapping[str, Sequence]],
    fixed: Mapping[str, Any] | None = None,
    trials: int = 5,
    max_trials: int | None = None,
    targets: Mapping[str, float] | float | None = None,
    duration: float = 1.0,
    warmup: float = 0.1,
    seed: int = 1,
    budget: float | str | None = None,
    root: str | Path = "runs",
    timeout: float | None = None,
    histograms: bool = True,
    mixed: bool = False,
    beside: str | Sequence[str] = (),
    baseline: Mapping[str, Any] | None = None,
    response_times: float = RESPONSE_TIMES,
    duration_max: float | None = None,
    programs: Programs | None = None,
    location: Location | None = None,
) -> SweepPlan:
    """Check the arguments of `connlab.drive.sweep` and return the work they mean.

    Raises
    ------
    ValueError
        Naming the argument, the value that came, and what is allowed.
    FileNotFoundError
        When the programs have not been built.
    """
    _check_name("study", study)
    _check_name("run", run)
    if duration <= 0:
        raise ValueError(f"duration: {duration}; allowed: more than 0 seconds")
    if warmup < 0:
        raise ValueError(f"warmup: {warmup}; allowed: 0 seconds or more")
    together = (beside,) if isinstance(beside, str) else tuple(beside)
    together = tuple(grid.with_models(dict.fromkeys(together)))
    _check_beside(together)
    location = location or asked_location()
    if location.remote:
        # clients that prolong a window each by its own answers do not end it together
        response_times = 0
    fixed = dict(fixed or {})
    defaults = _windows(duration, response_times, duration_max)
    if together:
        defaults["slice"] = _slice_ms_remote if location.remote else _slice_ms
    cells = grid.cells(
        factors, fixed, duration=duration, warmup=warmup, defaults=defaults
    )
    metrics = [column.name for column in schema.COLUMNS if column.dtype != "string"]
    rule = stopping.rule(
        trials=trials,
        max_trials=max_trials,
        targets=targets,
        budget=budget,
        metrics=metrics,
        in_turns=bool(together),
    )
    both = programs or built()
    models = _checked_models(cells, both, location)
    told = None if baseline is None else grid.with_models(baseline)
    lacking = [n for n, c in enumerate(cells) if location.lacks(c, models[c["model"]])]
    sets = interleaving.sets(
        cells,
        models,
        beside=together,
        baseline=told,
        lacking=lacking,
        tasks=location.tasks(),
    )
    rule = replace(rule, sets=tuple(each.members for each in sets))
    for count, shared in {(c.get("cores"), c.get("together")) for c in cells}:
        location.cores({"cores": count, "together": shared})
    if not location.remote:
        _check_descriptors(cells)
    binaries = both.digests()
    return SweepPlan(
        run=run,
        study=study,
        folder=schema.study_folder(run, study, root=root),
        cells=cells,
        varied=grid.varied(factors),
        models=models,
        programs=both,
        binaries=binaries,
        environment=machine.environment_class(location.environment(binaries)),
        rule=rule,
        seed=seed,
        timeout=timeout,
        histograms=histograms,
        parameters={
            "factors": _asked(factors),
            "fixed": fixed,
            "trials": trials,
            "max_trials": max_trials,
            "targets": dict(targets) if isinstance(targets, Mapping) else targets,
            "duration": duration,
            "warmup": warmup,
            "seed": seed,
            "budget": budget,
            "beside": list(together),
            "baseline": None if baseline is None else dict(baseline),
            "response_times": response_times,
            "duration_max": duration_max,
        },
        mixed=mixed,
        beside=together,
        sets=sets,
        location=location,
    )


def _slice_ms(cell: Mapping[str, Any]) -> float:
    return turns.usual_slice_s(cell) * 1e3


def _slice_ms_remote(_: Mapping[str, Any]) -> float:
    return turns.SLICE_REMOTE_S * 1e3


def _windows(
    duration: float, response_times: float, duration_max: float | None
) -> dict[str, Any]:
    """Return the settings that prolong windows, as far as there are any."""
    if response_times < 0:
        raise ValueError(f"response_times: {response_times}; allowed: 0 or more")
    if duration_max is not None and duration_max < duration:
        raise ValueError(
            f"duration_max: {duration_max}; allowed: {duration} (duration) up"
        )
    asked = {"response_times": response_times or None, "duration_max": duration_max}
    return {name: value for name, value in asked.items() if value is not None}


#: what servers of one set may differ in: all that their client does not see
_OWN = (
    "arm",
    *(name for name, (to, _flag) in flags.FLAGS.items() if to == (flags.SERVER,)),
)


def _check_beside(names: Sequence[str]) -> None:
    """Raise ValueError for a factor that servers of one set cannot differ in."""
    flags.check_names(names)
    for name in names:
        if name not in _OWN:
            raise ValueError(f"beside: {name!r}; allowed: {', '.join(_OWN)}")


def _asked(factors: Mapping | Sequence[Mapping]) -> dict | list[dict]:
    """Return the grids as the manifest keeps them: one as it is, several in a list."""
    asked = [{name: list(v) for name, v in g.items()} for g in grid.grids(factors)]
    return asked[0] if isinstance(factors, Mapping) else asked


def _check_name(what: str, name: str) -> None:
    allowed = name and all(c.isalnum() or c in "-_." for c in name)
    if not allowed or name.startswith("."):
        raise ValueError(f"{what}: {name!r}; allowed: letters, digits, - _ .")


def _check_descriptors(cells: Sequence[Mapping]) -> None:
    """Raise ValueError where cells name a limit that the programs would not have."""
    hard = machine.limits()["descriptors"]["hard"]
    for asked in {cell.get("descriptors") for cell in cells} - {None, hard}:
        raise ValueError(
            f"descriptors: {asked}; the limit here is {hard or 'none'}, and programs "
            "get it as it is: lower RLIMIT_NOFILE of this process first"
        )


def _checked_models(
    cells: Sequence[Mapping], programs: Programs, location: Location
) -> dict[str, schema.Model]:
    known = location.registry() or registry(programs)
    models = {model.name: model for model in known.models}
    workloads = [workload.name for workload in known.workloads]
    models |= servers.models({cell["model"] for cell in cells} - set(models))
    for cell in cells:
        if cell["model"] not in models:
            raise ValueError(unknown("model", cell["model"], models))
        _check_workload_of(models[cell["model"]], cell["workload"])
        _check_stall_of(cell)
        if workloads and cell["workload"] not in workloads:
            raise ValueError(unknown("workload", cell["workload"], workloads))
    return models


def _check_workload_of(model: schema.Model, workload: str) -> None:
    """Raise ValueError where an entry of ``servers.toml`` has no such workload."""
    allowed = (model.model_extra or {}).get("workloads")
    if allowed and workload not in allowed:
        raise ValueError(
            f"server {model.name}: workload {workload!r}; allowed: {', '.join(allowed)}"
        )


def _check_stall_of(cell: Mapping) -> None:
    """Raise ValueError where a server that runs already would have to stand still."""
    at = servers.at(cell["model"])
    if at is not None and cell.get("stall"):
        raise ValueError(
            f"stall: {cell['stall']}; allowed for the server at {at}: none, as it "
            "cannot be stopped from here"
        )


def known(work: SweepPlan, rows: Sequence[Mapping]) -> dict[str, dict]:
    """Return the trials on disk that this work may take as they are, by key.

    With them those of baselines that were measured once more for their sets.
    """
    wanted = {}
    for cell in range(len(work.cells)):
        base = work.baseline(cell)
        for repeat in range(work.rule.n_max):
            key = work.key(cell, repeat)
            wanted[key] = None if base is None else (base, repeat)
    every = {row.get("key"): row for row in rows}
    found = {key: every[key] for key in wanted.keys() & every}
    for key in list(found):
        if (base := wanted[key]) is not None and (turns := found[key].get("turns")):
            carried = work.key(*base, carried_by=turns["set"])
            found |= {carried: every[carried]} if carried in every else {}
    return found


def strangers(work: SweepPlan, rows: Sequence[Mapping], manifest: Mapping) -> list[str]:
    """Say which trials on disk are of another class of environment, and why.

    Raises
    ------
    ValueError
        When there are such trials and the work was not told to mix them: a study of
        two classes could be measured, but not read.
    """
    classes = Counter(row.get("environment") for row in rows)
    now = work.location.environment(work.binaries)
    before = manifest.get("environments") or {}
    found = [
        f"{count} trials are of another class of environment ({name}: other "
        f"{machine.differences(before.get(name), now)})"
        for name, count in classes.items()
        if name != work.environment
    ]
    if found and not work.mixed:
        raise ValueError(
            f"run: {work.run!r}; in its study {work.study!r} {'; '.join(found)}. They "
            "do not mix with what would be measured now: use another run name, "
            "mixed=True to keep both, or `make evaluate` to measure nothing"
        )
    return [f"{text}; they are kept and not counted" for text in found]


def guess_s(work: SweepPlan, cell: int, took: Sequence[float]) -> float:
    """Return what a trial of a cell costs: the mean so far, or a guess."""
    if took:
        return sum(took) / len(took)
    factors, model = work.cells[cell], work.models[work.cells[cell]["model"]]
    if work.lacking(cell) is not None:
        return 0.0
    connections = factors.get("connections") or 1
    measuring = factors["warmup"] + _window_s(factors, model)
    if work.baseline(cell) is not None:
        first = min(connections, _FIRST) * _FIRST_S
        connecting = first + connections * _PER_CONNECTION_S
        longer = 1 + turns.PAUSE_REMOTE if work.location.remote else _SLICES
        return _IN_SET_S + connecting + longer * measuring
    connecting = connections * _ALONE_PER_CONNECTION_S
    if rate := factors.get("connect_rate"):
        connecting = max(connecting, connections / rate)
    draining = _DRAIN_S if _leaves_some_waiting(factors, model) else 0.0
    alone_s = _REMOTE_S if work.location.remote else _ALONE_S
    return alone_s + connecting + measuring + draining


def _window_s(factors: Mapping[str, Any], model: schema.Model) -> float:
    """Guess how long a window is, or a burst."""
    users = factors.get("active") or factors.get("connections") or 1
    answer_s = _ANSWER_S.get(factors["workload"], _ANSWER_USUAL_S)
    requests = factors.get("requests")
    if requests is not None:
        delay_s = flags.mean_s(factors.get("delay"))
        at_once = users
        if model.workers == "fixed":
            at_once = factors.get("workers") or capacity.WORKERS_DEFAULT
        return users * requests * max(answer_s, delay_s / at_once) + delay_s
    if factors.get("rate") is not None:
        return factors["duration"]
    wanted_s = (factors.get("response_times") or 0) * users * answer_s
    return min(max(factors["duration"], wanted_s), trials.longest_s(factors))


def _leaves_some_waiting(factors: Mapping[str, Any], model: schema.Model) -> bool:
    """Whether some clients are unanswered at the end, as others hold all workers.

    Or as the byte rate keeps requests back.
    """
    if factors.get("byte_rate") is not None:
        return True
    if model.holds not in ("one", "workers") or factors.get("requests") is not None:
        return False
    workers = factors.get("workers") or capacity.WORKERS_DEFAULT
    return (factors.get("connections") or 1) > (1 if model.holds == "one" else workers)


def estimated(work: SweepPlan, there: Mapping[str, dict]) -> Estimate:
    """Return what is left to do, given the trials that are `there`."""
    rule = work.rule
    counts, costs = [0, 0], [0.0, 0.0]
    for cell in range(len(work.cells)):
        rows = [there.get(work.key(cell, n)) for n in range(rule.n_max)]
        each = guess_s(work, cell, [row["seconds"] for row in rows if row])
        for i, most in enumerate((rule.n_min, rule.n_max)):
            missing = sum(row is None for row in rows[:most])
            counts[i] += missing
            costs[i] += missing * each
    if rule.budget_s is not None:
        costs = [min(cost, rule.budget_s) for cost in costs]
    return Estimate(
        trials=counts[0],
        seconds=costs[0],
        trials_max=counts[1],
        seconds_max=costs[1],
        cells=len(work.cells),
        resumed=len(there),
    )
