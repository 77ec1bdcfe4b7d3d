"""A sweep: from a grid of factors to the trials of one study.

    check the arguments -> print the estimate -> round after round: trial -> gates
        -> one line on disk -> are the intervals narrow enough? -> report

Trials that are already on disk, made by the same programs in the same class of
environment, are not measured again; so a sweep that was interrupted goes on where it
stopped when it is called again with the same arguments. Where the study holds trials of
another class, nothing is measured: trials of two classes cannot be analysed together.
"""

from __future__ import annotations

import contextlib
import gzip
import inspect
import itertools
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import (
    evaluation,
    flags,
    gates,
    grid,
    interleaving,
    interrupt,
    machine,
    ratios,
    servers,
    services,
    stopping,
    store,
    timelines,
    trials,
    turns,
)
from connlab.drive.host import Host, HostLost, LocalHost
from connlab.drive.location import Location
from connlab.drive.plan import (
    SweepPlan,
    cost,
    foreign_trials,
    guess_s,
    prepare,
    resumable,
)
from connlab.drive.programs import Programs
from connlab.drive.progress import Show, duration_text, say, shown
from connlab.drive.reports import Estimate, Reached, SweepReport
from connlab.variances import TRIALS_MIN

#: how much longer a budget lasts while no cell can have an interval: a slow machine
#: would else spend nearly all of it for nothing that can be said
_NO_INTERVALS_YET = 1.5


@dataclass
class _State:
    """What a sweep has done so far; `rows` are flat, per cell."""

    rows: list[list[dict]]
    began: float = field(default_factory=time.monotonic)
    started_at: str = field(default_factory=machine.now)
    done: int = 0
    resumed: int = 0
    resumed_s: float = 0.0
    failed: int = 0
    flagged: int = 0
    window_s: float = 0.0
    rounds: int = 0
    disturbed: int = 0
    late: int = 0
    repeated: int = 0
    planned: int = 0
    reason: str = ""
    complete: bool = False
    remarks: list[str] = field(default_factory=list)

    @property
    def trials(self) -> int:
        return self.done + self.resumed

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def spent_s(self) -> float:
        """What a budget pays for: trials of earlier calls, and all of this call."""
        return self.resumed_s + self.seconds

    @property
    def window_share(self) -> float | None:
        return self.window_s / self.seconds if self.done and self.seconds else None


def sweep(
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
    progress: bool = True,
    root: str | Path = "runs",
    timeout: float | None = None,
    histograms: bool = True,
    mixed: bool = False,
    beside: str | Sequence[str] = (),
    baseline: Mapping[str, Any] | None = None,
    response_times: float = gates.RESPONSE_TIMES,
    duration_max: float | None = None,
    programs: Programs | None = None,
    location: Location | None = None,
    server_host: Host | None = None,
    client_host: Host | None = None,
) -> SweepReport:
    """Measure every cell of a grid, in shuffled blocks, and keep each trial.

    A trial that is on disk already is not repeated, so the same call goes on where an
    earlier one was interrupted. Nothing is measured while a run is evaluated again
    (`connlab.drive.evaluation`).

    Parameters
    ----------
    study, run : str
        Names; the trials go to ``root/run/study/trials.jsonl``.
    factors : mapping of str to sequence, or several of them
        What varies: every combination of the levels is a cell. Names are those of
        `connlab.drive.flags.FLAGS`. Several grids are joined into one sweep, so that
        a block still holds each cell once.
    fixed : mapping, optional
        Settings that all cells share.
    trials : int
        Blocks at least; a block holds every cell once.
    max_trials : int, optional
        Blocks at most, while a target is not met. Without `max_trials`, `targets` and
        `budget` there are just `trials` blocks.
    targets : mapping of str to float, or float, optional
        Relative half-width of the 95 % interval to reach, per column; 5 % for
        ``throughput_rps`` and 10 % for ``response_p99_s`` if only `max_trials` or
        `budget` is given. With `beside` it is that of the ratio to the baseline, and
        5 % for ``throughput_rps`` and ``server_cpu_per_request_s``. A number
        replaces each of these.
    duration, warmup : float
        Seconds of each trial's measurement window, at least, and before it.
    seed : int
        Fixes the order of the blocks and what the clients do.
    budget : float or str, optional
        Seconds, or ``"10m"``: stop then, or half as much later where fewer blocks are
        there than an interval takes; time beyond `trials` blocks is spent on the sets
        and cells whose intervals are widest. Trials of earlier calls are paid from it,
        so that the same call again measures nothing, and a larger budget goes on.
    progress : bool
        Print the estimate, the progress and the report.
    root : str or Path
        Folder of runs, relative to the project's.
    timeout : float, optional
        Seconds after which a client counts as hung.
    histograms : bool
        Keep each trial's histogram below ``latency/``.
    mixed : bool
        Go on where the study holds trials of another class of environment; whoever
        loads it then has to say which are meant.
    beside : str or sequence of str
        Factors whose levels are measured side by side: the servers of all cells of a
        block that differ only in these take turns under one client, every 20 ms, so
        that their ratios do not feel what else the machine does. Settings of the
        server only (`connlab.drive.interleaving` says which cells are measured alone).
        The factor ``slice`` is the length of a turn in ms; with None among its levels
        the same cells are measured one by one as well.
    baseline : mapping of str to level, optional
        Which server of each set the others are compared with, as
        ``{"model": "epoll"}``, the default; the set's first if none has these levels.
        Where a machine has no room for a whole set, each part of it has the baseline.
    response_times : float
        Mean response times that a window holds at least: windows (of a set: its
        rounds) are prolonged until they do. 0: they last `duration`.
    duration_max : float, optional
        But not beyond so many seconds; five times `duration` by default.
    programs : Programs, optional
        The two programs, if not ``build/server`` and ``build/client``.
    location : Location, optional
        Where to measure: over the hosts that ``CONNLAB_HOSTS`` names, else this
        machine, by default. A trial in which a host is lost is a line with that
        reason.
    server_host, client_host : Host, optional
        Where they run, if not at that location.

    Returns
    -------
    SweepReport

    Raises
    ------
    ValueError
        For an unknown factor, model or workload (with the nearest known name), a value
        that is not allowed, or trials of another class of environment in the study
        without `mixed`. Nothing was measured then.
    FileNotFoundError
        When the programs have not been built.
    KeyboardInterrupt
        After Ctrl-C: within two seconds, with no process left; what was measured is
        on disk, and the report says how to go on.
    """
    arguments = dict(locals())
    if folder := evaluation.study(study, run=run, root=root):
        report = _as_recorded(folder)
        if progress:
            say(str(report))
        return report
    plan = prepare(arguments)
    local = LocalHost()
    server = server_host or plan.location.server or local
    client = client_host or server
    with interrupt.noted():
        try:
            report = _swept(plan, (server, client), progress)
        finally:
            local.close()
        stop_signal = interrupt.caught()
    if progress:
        say(str(report))
    if stop_signal == signal.SIGINT:
        raise KeyboardInterrupt(report.stopped_because)
    if stop_signal is not None:
        signal.raise_signal(stop_signal)
    return report


def estimate(study: str, **arguments: Any) -> Estimate:
    """Return what `sweep` with the same arguments would cost, measuring nothing.

    Trials that are on disk say what their cells cost; others are guessed from their
    window, warm-up and connections.
    """
    plan = planned(study, **arguments)
    log = store.read(plan.folder / store.TRIALS)
    return cost(plan, resumable(plan, log.trials))


def planned(study: str, **arguments: Any) -> SweepPlan:
    """Return the plan of `sweep` with the same arguments."""
    bound = inspect.signature(sweep).bind(study, **arguments)
    bound.apply_defaults()
    return prepare(bound.arguments)


def _swept(plan: SweepPlan, hosts: tuple[Host, Host], progress: bool) -> SweepReport:
    state = _State(rows=[[] for _ in plan.cells])
    with store.journal(plan.folder / store.TRIALS) as (log, append):
        kept = resumable(plan, log.trials)
        manifest = schema.read_json(plan.folder.parent / store.MANIFEST) or {}
        state.remarks += [*log.remarks, *foreign_trials(plan, log.trials, manifest)]
        costs = cost(plan, kept)
        state.planned = costs.trials + min(costs.resumed, _least(plan))
        if progress:
            for line in (*state.remarks, costs, plan.location.summary()):
                if line:
                    say(f"{plan.study}: {line}")
        facts = plan.location.manifest(plan.programs)
        _note_in_manifest(plan, state, facts)
        with shown(plan.study, enabled=progress) as show:
            _measure(plan, state, hosts, kept, append, show)
        report = _report(plan, state)
        _note_in_manifest(plan, state, facts, report)
    _beat(plan, state, report=report)
    return report


def _as_recorded(folder: Path) -> SweepReport:
    """Return the report of a sweep that finds all trials of a study on disk."""
    log = store.read(folder / store.TRIALS)
    state = _State(rows=[[]])
    for trial in log.trials:
        _count(state, 0, schema.flatten(trial))
    return SweepReport(
        run=folder.parent.name,
        study=folder.name,
        planned=len(log.trials),
        done=0,
        resumed=len(log.trials),
        failed=state.failed,
        flagged=state.flagged,
        seconds=0.0,
        window_share=None,
        stopped_because=evaluation.REASON,
        remarks=log.remarks,
    )


def _least(plan: SweepPlan) -> int:
    return plan.rule.n_min * len(plan.cells)


def _measure(
    plan: SweepPlan,
    state: _State,
    hosts: tuple[Host, Host],
    kept: Mapping[str, dict],
    append: Callable[[str], None],
    show: Show,
) -> None:
    """Walk the rounds; take the trials on disk, measure the others, write each at once.

    `kept` are the trials on disk by key.
    """
    for group in _groups(plan, state):
        keys = {slot: plan.key(slot.cell, slot.repeat) for slot in group.slots}
        rows = {slot: kept[key] for slot, key in keys.items() if key in kept}
        state.resumed += len(rows)
        state.resumed_s += sum(row["seconds"] for row in rows.values())
        todo = group.without(rows)
        if todo.slots:
            if _out_of_budget(plan, state, [slot.cell for slot in todo.all]):
                return
            _beat(plan, state, current=plan.cells[todo.slots[0].cell])
            try:
                plan.location.await_hosts()
                measured = _measured(plan, state, todo, hosts, append)
            except store.StoreError as error:
                state.reason = f"{error}; free some space, then the same call goes on"
                return
            except HostLost as error:
                state.reason = f"{error}; once it is back, the same call goes on"
                return
            if measured is None:
                state.reason = _interrupted(state)
                return
            rows |= measured
        flat = {slot: schema.flatten(row) for slot, row in rows.items()}
        if group.baseline is not None:
            _add_log_ratios(plan, group, rows, flat, kept)
        for slot in group.slots:
            _count(state, slot.cell, flat[slot])
        lost = plan.location.lost()
        show(
            done=state.trials,
            planned=state.planned,
            eta_s=_eta_s(plan, state),
            note=f"{state.failed} failed"
            + (f", lost: {', '.join(lost)}" if lost else ""),
        )


def _add_log_ratios(
    plan: SweepPlan,
    group: interleaving.Group,
    rows: Mapping[grid.Slot, dict],
    flat: Mapping[grid.Slot, dict],
    kept: Mapping[str, dict],
) -> None:
    """Add to the flat rows of a set their log ratios to the baseline of that set."""
    baselines = {
        row["turns"]["set"]: row
        for slot, row in rows.items()
        if slot.cell == group.baseline and row.get("turns")
    }
    metrics = tuple(plan.rule.targets) or tuple(stopping.RATIO_TARGETS)
    for slot in group.slots:
        if slot.cell == group.baseline:
            flat[slot][stopping.RATIOS] = {}
            continue
        row = rows[slot]
        name = (row.get("turns") or {}).get("set")
        key = plan.key(group.baseline, slot.repeat, carried_by=name)
        baseline = baselines.get(name) or kept.get(key)
        logs = dict.fromkeys(metrics)
        if name and baseline and stopping.is_used(schema.flatten(baseline)):
            logs = ratios.to_baseline(row, baseline, metrics)
        flat[slot][stopping.RATIOS] = logs


def _groups(plan: SweepPlan, state: _State) -> Iterator[interleaving.Group]:
    """Yield group after group; after each round the stopping rule says what is next."""
    for number in itertools.count():
        wanted = stopping.next_round(state.rows, plan.rule)
        if isinstance(wanted, stopping.Enough):
            state.reason, state.complete = str(wanted), True
            return
        counts = [len(rows) for rows in state.rows]
        state.planned = max(_least(plan), state.trials + len(wanted))
        slots = grid.round_of(wanted, number=number, counts=counts, seed=plan.seed)
        yield from interleaving.groups(
            slots, plan.cells, plan.models, plan.sets, room=plan.location.room
        )


def _count(state: _State, cell: int, flat: dict) -> None:
    state.rows[cell].append(flat)
    failed = flat["failure"] is not None
    state.failed += failed
    state.flagged += not failed and not stopping.is_used(flat)


def _measured(
    plan: SweepPlan,
    state: _State,
    group: interleaving.Group,
    hosts: tuple[Host, Host],
    append: Callable[[str], None],
) -> dict[grid.Slot, dict] | None:
    """Measure a group and keep its trials; None when a signal came meanwhile.

    The lines of a set are written at once: all of them are kept, or none.
    """
    measured = _trials(plan, group, hosts)
    if measured is None:
        return None
    for outcome, trial in measured:
        if plan.histograms and outcome.files.get("histogram"):
            _keep_histogram(plan, state, trial.key, outcome.files["histogram"])
    append("\n".join(trial.model_dump_json(by_alias=True) for _, trial in measured))
    rows = [trial.model_dump(by_alias=True) for _, trial in measured]
    state.done += len(group.slots)
    state.window_s += sum(map(_measuring_s, rows))
    _count_rounds(state, rows)
    return dict(zip(group.all, rows, strict=True))


def _count_rounds(state: _State, rows: Sequence[Mapping]) -> None:
    turns = next((row["turns"] for row in rows if row["turns"]), None)
    if turns:
        state.rounds += len(turns["others"])
        state.disturbed += len(turns["disturbed"])
        state.late += turns.get("late") or 0
        state.repeated += turns.get("repeated") or 0


def _measuring_s(row: Mapping) -> float:
    if row.get("turns"):
        return schema.Turns.model_validate(row["turns"]).slices_s
    return schema.pick(row, "client.window.seconds") or 0.0


def _trials(
    plan: SweepPlan, group: interleaving.Group, hosts: tuple[Host, Host]
) -> list[tuple[trials.Outcome, schema.Trial]] | None:
    slots = group.all
    first = plan.cells[slots[0].cell]
    started_at = machine.now()
    setting = trials.Setting(
        factors=_client_factors(plan, [plan.cells[slot.cell] for slot in slots]),
        seed=grid.client_seed(plan.seed, slots[0].repeat),
        cores=plan.location.cores(first),
        programs=plan.programs,
        model=plan.models[first["model"]],
        timeout_s=plan.timeout,
        files=("timeline", "histogram") if plan.histograms else ("timeline",),
    )
    outcomes = _outcomes(plan, group, setting, hosts)
    if outcomes is None:
        return None
    return [
        (outcome, _judged(_trial(plan, group, slot, setting, outcome, started_at)))
        for slot, outcome in zip(slots, outcomes, strict=True)
    ]


def _trial(
    plan: SweepPlan,
    group: interleaving.Group,
    slot: grid.Slot,
    setting: trials.Setting,
    outcome: trials.Outcome,
    started_at: str,
) -> schema.Trial:
    factors = plan.cells[slot.cell]
    carried = slot not in group.slots
    set_name = plan.key(group.all[0].cell, group.all[0].repeat)
    in_set = {"set": set_name, "carried": carried}
    cores = setting.cores.recorded() | services.recorded() | plan.location.recorded()
    return schema.Trial(
        key=plan.key(slot.cell, slot.repeat, carried_by=set_name if carried else None),
        study=plan.study,
        block=slot.block,
        order=slot.order,
        repeat=slot.repeat,
        seed=setting.seed,
        factors=factors,
        started_at=started_at,
        seconds=outcome.seconds,
        environment=plan.environment,
        binaries=plan.binaries_of(plan.models[factors["model"]]),
        commands=_commands(factors, setting, outcome),
        cores=cores,
        server=outcome.server,
        client=outcome.client,
        timeline=_timeline(outcome),
        turns=outcome.turns and outcome.turns.model_copy(update=in_set),
        failure=outcome.failure,
    )


def _judged(trial: schema.Trial) -> schema.Trial:
    facts = trial.model_dump(by_alias=True)
    verdicts = {
        "gates": gates.judge(facts),
        "findings": gates.find(facts),
        "label": gates.label(facts),
    }
    return trial.model_copy(update=verdicts)


def _client_factors(
    plan: SweepPlan, cells: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the first cell's factors with what connecting to all of them needs."""
    models = [plan.models[cell["model"]] for cell in cells]
    factors = flags.with_enough_processes(
        cells[0], descriptors=plan.location.descriptors(), servers=len(cells)
    )
    external = any((model.model_extra or {}).get("external") for model in models)
    factors = flags.with_time_to_accept(factors, external=external)
    if plan.location.remote:
        return factors  # clients that have connected wait for an agreed moment
    return flags.with_time_to_settle(factors, model=models[0])


def _outcomes(
    plan: SweepPlan,
    group: interleaving.Group,
    setting: trials.Setting,
    hosts: tuple[Host, Host],
) -> list[trials.Outcome] | None:
    """Run a trial, or several cells side by side; None when a signal came."""
    server_host, client_host = hosts
    cells = [plan.cells[slot.cell] for slot in group.all]
    reason = plan.unavailable(group.all[0].cell)
    if reason is not None:
        reason = reason or "not available here"
        return [trials.not_measured(setting.model, "unavailable", reason)]
    if group.baseline is not None:
        return interleaving.run(
            cells,
            setting,
            models=plan.models,
            host=server_host,
            clients=plan.location.turning(cells[0]),
        )
    client_host = plan.location.client_of(cells[0]) or client_host
    outcome = trials.run(setting, server_host=server_host, client_host=client_host)
    return outcome and [outcome]


def _timeline(outcome: trials.Outcome) -> schema.Timeline | None:
    if outcome.client is None or outcome.turns is not None:
        return None
    window = outcome.client.window
    until_s = (window.get("warmup_s") or 0) + (window.get("seconds") or 0)
    return timelines.parse(outcome.files.get("timeline"), until_s=until_s)


def _commands(
    factors: Mapping[str, Any], setting: trials.Setting, outcome: trials.Outcome
) -> dict[str, str]:
    rounds = outcome.turns
    if rounds:
        count = rounds.beside
        pause = rounds.pause_ms and rounds.pause_ms / rounds.slice_ms
        in_turns = interleaving.in_turns([factors] * count, setting, pause=pause)
        words = turns.client_flags(in_turns)
    else:
        count = 1
        words = flags.client_flags(setting.factors, seed=setting.seed)
    client = ["client", *["HOST:PORT"] * count, *words]
    return {"server": servers.shown_command(factors), "client": " ".join(client)}


def _keep_histogram(plan: SweepPlan, state: _State, key: str, data: bytes) -> None:
    path = plan.folder / "latency" / f"{key}.csv.gz"
    try:
        store.put(path, gzip.compress(data, compresslevel=6, mtime=0), flush=True)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()  # of a trial that was not kept, if there is one
        remark = f"a histogram was not kept: {error.strerror}"
        if remark not in state.remarks:
            state.remarks.append(remark)


def _guesses_s(plan: SweepPlan, state: _State) -> list[float]:
    return [
        guess_s(plan, cell, [row["seconds"] for row in rows])
        for cell, rows in enumerate(state.rows)
    ]


def _out_of_budget(plan: SweepPlan, state: _State, cells: Sequence[int]) -> bool:
    budget_s = plan.rule.budget_s
    if budget_s is None:
        return False
    guesses_s = _guesses_s(plan, state)
    blocks = min(len(rows) for rows in state.rows)
    longer = _NO_INTERVALS_YET if blocks < TRIALS_MIN <= plan.rule.n_min else 1
    if state.spent_s + sum(guesses_s[cell] for cell in cells) <= longer * budget_s:
        return False
    text = duration_text(budget_s)
    state.reason = f"the budget of {text} is used; {state.trials} trials are there"
    state.complete = blocks >= plan.rule.n_min
    if not state.complete:
        state.reason += f", fewer than {plan.rule.n_min} in some cells"
    return True


def _eta_s(plan: SweepPlan, state: _State) -> float:
    guesses_s = _guesses_s(plan, state)
    missing = [max(0, plan.rule.n_min - len(rows)) for rows in state.rows]
    if sum(missing):
        return sum(n * guess for n, guess in zip(missing, guesses_s, strict=True))
    return (state.planned - state.trials) * sum(guesses_s) / len(guesses_s)


def _interrupted(state: _State) -> str:
    number = interrupt.caught() or signal.SIGINT
    name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    return (
        f"{name}; {state.trials} trials are kept, and the same call goes on from there"
    )


def _reached(plan: SweepPlan, widths: Sequence[stopping.Width]) -> tuple[Reached, ...]:
    reached = []
    for metric, target in plan.rule.targets.items():
        known = [w for w in widths if w.metric == metric and w.half_width is not None]
        if not known:
            continue
        widest = max(known, key=lambda width: width.half_width)
        reached.append(
            Reached(
                metric=metric,
                target=target,
                half_width=widest.half_width,
                n=widest.n,
                factors=plan.levels(widest.cell),
                ratio=widest.ratio,
                cells_met=sum(width.met for width in known),
                cells=sum(width.metric == metric for width in widths),
            )
        )
    return tuple(reached)


def _report(plan: SweepPlan, state: _State) -> SweepReport:
    unusable = sum(not any(map(stopping.is_used, rows)) for rows in state.rows if rows)
    if unusable:
        state.remarks.append(
            f"{unusable} of {len(plan.cells)} cells have no trial that may be used"
        )
    if state.disturbed:
        state.remarks.append(
            "rounds that other programs disturbed, and that count for no server: "
            f"{state.disturbed} of {state.rounds}"
        )
    if state.repeated:
        state.remarks.append(
            f"turns repeated, as the client was late itself: {state.repeated}"
        )
    if state.late:
        state.remarks.append(
            "rounds set aside for all servers, as the client was late itself: "
            f"{state.late}"
        )
    return SweepReport(
        run=plan.run,
        study=plan.study,
        planned=state.planned,
        done=state.done,
        resumed=state.resumed,
        failed=state.failed,
        flagged=state.flagged,
        seconds=state.seconds,
        window_share=state.window_share,
        stopped_because=state.reason,
        complete=state.complete,
        reached=_reached(plan, stopping.widths(state.rows, plan.rule)),
        remarks=tuple(state.remarks),
    )


def _note_in_manifest(
    plan: SweepPlan, state: _State, facts: dict, report: SweepReport | None = None
) -> None:
    """Keep the arguments and, at the end, the report; a full disk stops nothing."""
    entry: dict[str, Any] = {
        "sweep": grid.cell_key({"cells": sorted(map(grid.cell_key, plan.cells))}),
        "started_at": state.started_at,
        "environment": plan.environment,
        "binaries": dict(plan.binaries),
        "parameters": dict(plan.parameters),
        "stopping": _stopping_facts(plan, state, report) if report else None,
    }
    try:
        machine.keep_manifest(
            plan.folder.parent, run=plan.run, study=plan.study, entry=entry, facts=facts
        )
    except OSError as error:
        state.remarks.append(f"{store.MANIFEST} was not renewed: {error.strerror}")


def _stopping_facts(
    plan: SweepPlan, state: _State, report: SweepReport
) -> dict[str, Any]:
    widths = stopping.widths(state.rows, plan.rule)
    return {
        "reason": report.stopped_because,
        "complete": report.complete,
        "rule": asdict(plan.rule) | {"targets": dict(plan.rule.targets)},
        "trials_per_cell": [len(rows) for rows in state.rows],
        "trials": report.done + report.resumed,
        "failed": report.failed,
        "flagged": report.flagged,
        "seconds": report.seconds,
        "window_share": report.window_share,
        "widths": [_width_facts(plan, width) for width in widths],
        "sets": _set_facts(plan, state, report),
        "remarks": list(report.remarks),
    }


def _width_facts(plan: SweepPlan, width: stopping.Width) -> dict[str, Any]:
    return {
        "factors": plan.levels(width.cell),
        "metric": width.metric,
        "of": "ratio" if width.ratio else "mean",
        "n": width.n,
        "half_width": width.half_width,
        "target": width.target,
        "met": width.met,
    }


def _set_facts(plan: SweepPlan, state: _State, report: SweepReport) -> list[dict]:
    """Return how wide the widest ratio of each set and metric is, and why it ended.

    Also where no target was set: then of the metrics that usually have one.
    """
    has_targets = bool(plan.rule.targets)
    targets = plan.rule.targets or stopping.RATIO_TARGETS
    all_widths = stopping.widths(state.rows, replace(plan.rule, targets=targets))
    facts = []
    for cell_set in plan.sets:
        if cell_set.baseline is None:
            continue
        baseline = plan.levels(cell_set.baseline)
        shared = {k: v for k, v in baseline.items() if k not in plan.beside}
        for metric, target in targets.items():
            widths = [
                width
                for width in all_widths
                if width.cell in cell_set.members and width.metric == metric
            ]
            known = [w.half_width for w in widths if w.half_width is not None]
            facts.append(
                {
                    "factors": shared,
                    "baseline": baseline,
                    "metric": metric,
                    "pairs": len(widths),
                    "known": len(known),
                    "n": min((w.n for w in widths), default=0),
                    "half_width": max(known, default=None),
                    "target": target if has_targets else None,
                    "met": sum(w.met for w in widths) if has_targets else None,
                    "reason": _set_reason(plan, state, cell_set, widths, report),
                }
            )
    return facts


def _set_reason(
    plan: SweepPlan,
    state: _State,
    cell_set: interleaving.Set,
    widths: Sequence[stopping.Width],
    report: SweepReport,
) -> str:
    if plan.rule.targets and widths and all(width.met for width in widths):
        return "width"
    if min(len(state.rows[cell]) for cell in cell_set.members) >= plan.rule.n_max:
        return "most trials"
    pending = any(width.pending for width in widths)
    return report.stopped_because if pending or not report.complete else "no hope"


def _beat(
    plan: SweepPlan,
    state: _State,
    *,
    current: Mapping | None = None,
    report: SweepReport | None = None,
) -> None:
    """Renew ``progress.json``; a disk that takes no heartbeat stops nothing."""
    ended = "done" if state.complete else "interrupted"
    beat = schema.Heartbeat(
        run=plan.run,
        study=plan.study,
        state=ended if report else "running",
        planned=state.planned,
        done=state.done,
        resumed=state.resumed,
        failed=state.failed,
        started_at=state.started_at,
        updated_at=machine.now(),
        seconds=state.seconds,
        eta_s=None if report else _eta_s(plan, state),
        window_share=state.window_share,
        current=dict(current) if current else None,
        message=report.stopped_because if report else None,
    )
    with contextlib.suppress(OSError):
        store.replace(plan.folder / store.PROGRESS, beat.model_dump(by_alias=True))
