"""A sweep: from a grid of factors to the trials of one study.

    check -> estimate, said -> round after round: trial -> gates -> one line on disk
        -> look: narrow enough? -> report

Trials that are already on disk, made by the same programs in the same class of
environment, are taken as they are; so a sweep that was interrupted goes on where it
stopped when it is called again with the same arguments. Where the study holds trials of
another class, nothing is measured: both together could not be read.
"""

from __future__ import annotations

import contextlib
import gzip
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
    plan,
    ratios,
    servers,
    services,
    stopping,
    store,
    timelines,
    turns,
)
from connlab.drive.host import Host, HostLost, LocalHost
from connlab.drive.location import Location
from connlab.drive.plan import SweepPlan
from connlab.drive.programs import Programs
from connlab.drive.progress import Show, duration_text, say, shown
from connlab.drive.reports import Estimate, Reached, SweepReport
from connlab.drive.trials import Outcome, Setting, unavailable
from connlab.drive.trials import run as run_trial


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
    planned: int = 0
    reason: str = ""
    complete: bool = False
    remarks: list[str] = field(default_factory=list)

    @property
    def there(self) -> int:
        return self.done + self.resumed

    @property
    def spent_s(self) -> float:
        """What a budget pays for: earlier calls' trials, and all of this call."""
        return self.resumed_s + time.monotonic() - self.began


#: arguments of `sweep` that do not say what is measured, but how it is shown and where
_HOW = ("progress", "server_host", "client_host")


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
        5 % for ``throughput_rps`` and ``server_cpu_per_request_s``. A number is
        wanted in place of these.
    duration, warmup : float
        Seconds of each trial's measurement window, at least, and before it.
    seed : int
        Fixes the order of the blocks and what the clients do.
    budget : float or str, optional
        Seconds, or ``"10m"``: stop then; time beyond `trials` blocks is spent on the
        sets and cells whose intervals are widest. Trials of earlier calls are paid from
        it, so that the same call again measures nothing, and a larger budget goes on.
    progress : bool
        Say what it costs, how far it is, and the report.
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
        ``{"model": "epoll"}``, which holds if it is not said; the set's first if none
        has these levels. Where a machine has no room for a set at once, each part of it
        carries the baseline.
    response_times : float
        Mean response times that a window holds at least: windows (of a set: its
        rounds) are prolonged until they do. 0: as long as `duration` says.
    duration_max : float, optional
        But not beyond so many seconds; five times `duration` if not said.
    programs : Programs, optional
        The two programs, if not ``build/server`` and ``build/client``.
    location : Ground, optional
        Where is measured: over the hosts that ``CONNLAB_HOSTS`` names, else this
        machine, if not said. A trial in which a host is lost is a line with that
        reason.
    server_host, client_host : Host, optional
        Where they run, if not on that location.

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
        on disk, and how to go on has been said.
    """
    asked = {name: told for name, told in locals().items() if name not in _HOW}
    if there := evaluation.study(study, run=run, root=root):
        report = _as_recorded(there)
        if progress:
            say(str(report))
        return report
    work = plan.prepare(**asked)
    here = LocalHost()
    server = server_host or work.location.server or here
    client = client_host or server
    with interrupt.noted():
        try:
            report = _swept(work, (server, client), progress)
        finally:
            here.close()
        stopped = interrupt.caught()
    if progress:
        say(str(report))
    if stopped == signal.SIGINT:
        raise KeyboardInterrupt(report.stopped_because)
    if stopped is not None:
        signal.raise_signal(stopped)
    return report


def estimate(study: str, **arguments: Any) -> Estimate:
    """Return what `sweep` with the same arguments would cost, measuring nothing.

    Trials that are on disk say what their cells cost; others are guessed from their
    window, warm-up and connections.
    """
    asked = {name: told for name, told in arguments.items() if name not in _HOW}
    work = plan.prepare(study, **asked)
    log = store.read(work.folder / store.TRIALS)
    return plan.estimated(work, plan.known(work, log.trials))


def _swept(work: SweepPlan, hosts: tuple[Host, Host], progress: bool) -> SweepReport:
    state = _State(rows=[[] for _ in work.cells])
    run_folder = work.folder.parent
    with store.journal(work.folder / store.TRIALS) as (log, append):
        there = plan.known(work, log.trials)
        manifest = schema.read_json(run_folder / store.MANIFEST) or {}
        state.remarks += [*log.remarks, *plan.strangers(work, log.trials, manifest)]
        cost = plan.estimated(work, there)
        state.planned = cost.trials + min(cost.resumed, _least(work))
        if progress:
            for remark in state.remarks:
                say(f"{work.study}: {remark}")
            say(f"{work.study}: {cost}")
            if where := work.location.told():
                say(f"{work.study}: {where}")
        facts = work.location.manifest(work.programs)
        _note_in_manifest(work, state, facts)
        with shown(work.study, enabled=progress) as show:
            _measure(work, state, hosts, there, append, show)
        report = _report(work, state)
        _note_in_manifest(work, state, facts, report)
    _beat(work, state, report=report)
    return report


def _as_recorded(there: Path) -> SweepReport:
    """Return the report of a sweep that finds all trials of a study on disk."""
    log = store.read(there / store.TRIALS)
    state = _State(rows=[[]])
    for trial in log.trials:
        _count(state, 0, schema.flatten(trial))
    return SweepReport(
        run=there.parent.name,
        study=there.name,
        planned=len(log.trials),
        done=0,
        resumed=len(log.trials),
        failed=state.failed,
        flagged=state.flagged,
        seconds=0.0,
        window_share=None,
        stopped_because=evaluation.WHY,
        remarks=log.remarks,
    )


def _least(work: SweepPlan) -> int:
    return work.rule.n_min * len(work.cells)


def _measure(
    work: SweepPlan,
    state: _State,
    hosts: tuple[Host, Host],
    there: Mapping[str, dict],
    append: Callable[[str], None],
    show: Show,
) -> None:
    """Walk the rounds; take what is there, measure what is not, keep each at once."""
    for group in _groups(work, state):
        rows = {}
        for slot in group.slots:
            if (key := work.key(slot.cell, slot.repeat)) in there:
                rows[slot] = there[key]
        state.resumed += len(rows)
        state.resumed_s += sum(row["seconds"] for row in rows.values())
        todo = group.without(rows)
        if todo.slots:
            if _out_of_budget(work, state, [slot.cell for slot in todo.all]):
                return
            _beat(work, state, current=work.cells[todo.slots[0].cell])
            try:
                work.location.await_hosts()
                found = _measured(work, state, todo, hosts, append)
            except store.StoreError as error:
                state.reason = f"{error}; free some space, then the same call goes on"
                return
            except HostLost as error:
                state.reason = f"{error}; once it is back, the same call goes on"
                return
            if found is None:
                state.reason = _interrupted(state)
                return
            rows |= found
        flat = {slot: schema.flatten(row) for slot, row in rows.items()}
        if group.baseline is not None:
            _compare(work, group, rows, flat, there)
        for slot in group.slots:
            _count(state, slot.cell, flat[slot])
        show(
            done=state.there,
            planned=state.planned,
            eta_s=_eta_s(work, state),
            note=_note(work, state),
        )


def _note(work: SweepPlan, state: _State) -> str:
    lost = work.location.lost()
    return f"{state.failed} failed" + (f", lost: {', '.join(lost)}" if lost else "")


def _compare(
    work: SweepPlan,
    group: interleaving.Group,
    rows: Mapping[grid.Slot, dict],
    flat: Mapping[grid.Slot, dict],
    there: Mapping[str, dict],
) -> None:
    """Note in the flat rows of a set their log ratios to the baseline beside them."""
    bases = {
        row["turns"]["set"]: row
        for slot, row in rows.items()
        if slot.cell == group.baseline and row.get("turns")
    }
    metrics = tuple(work.rule.targets) or tuple(stopping.RATIO_TARGETS)
    for slot in group.slots:
        if slot.cell == group.baseline:
            flat[slot][stopping.RATIOS] = {}
            continue
        row = rows[slot]
        name = (row.get("turns") or {}).get("set")
        key = work.key(group.baseline, slot.repeat, carried_by=name)
        base = bases.get(name) or there.get(key)
        found = dict.fromkeys(metrics)
        if name and base and stopping.is_used(schema.flatten(base)):
            found = ratios.to_baseline(row, base, metrics)
        flat[slot][stopping.RATIOS] = found


def _groups(work: SweepPlan, state: _State) -> Iterator[interleaving.Group]:
    """Give group after group, looking after each round whether more is wanted.

    A group is one cell, or those that are measured side by side.
    """
    number = 0
    while True:
        wanted = stopping.next_round(state.rows, work.rule)
        if isinstance(wanted, stopping.Enough):
            state.reason, state.complete = str(wanted), True
            return
        counts = [len(rows) for rows in state.rows]
        state.planned = max(_least(work), state.there + len(wanted))
        slots = grid.round_of(wanted, number=number, counts=counts, seed=work.seed)
        yield from interleaving.groups(
            slots, work.cells, work.models, work.sets, most=work.location.room
        )
        number += 1


def _count(state: _State, cell: int, flat: dict) -> None:
    state.rows[cell].append(flat)
    failed = flat["failure"] is not None
    state.failed += failed
    state.flagged += not failed and not stopping.is_used(flat)


def _measured(
    work: SweepPlan,
    state: _State,
    group: interleaving.Group,
    hosts: tuple[Host, Host],
    append: Callable[[str], None],
) -> dict[grid.Slot, dict] | None:
    """Measure a group and keep its trials; None when a signal came meanwhile.

    The lines of a set are written at once: it is there as a whole, or not.
    """
    made = _trials(work, group, hosts)
    if made is None:
        return None
    for outcome, trial in made:
        if work.histograms and outcome.files.get("histogram"):
            _keep_histogram(work, state, trial.key, outcome.files["histogram"])
    append("\n".join(trial.model_dump_json(by_alias=True) for _, trial in made))
    rows = [trial.model_dump(by_alias=True) for _, trial in made]
    state.done += len(group.slots)
    state.window_s += sum(map(_measuring_s, rows))
    _count_rounds(state, rows)
    return dict(zip(group.all, rows, strict=True))


def _count_rounds(state: _State, rows: Sequence[Mapping]) -> None:
    """Count the rounds of a set, which its servers share."""
    turns = next((row["turns"] for row in rows if row["turns"]), None)
    if turns:
        state.rounds += len(turns["others"])
        state.disturbed += len(turns["disturbed"])
        state.late += turns.get("late") or 0


def _measuring_s(row: Mapping) -> float:
    """Return how much of a trial's time was measured: its window, or its slices."""
    if row.get("turns"):
        return sum(row["turns"]["slice_seconds"])
    return schema.pick(row, "client.window.seconds") or 0.0


def _trials(
    work: SweepPlan, group: interleaving.Group, hosts: tuple[Host, Host]
) -> list[tuple[Outcome, schema.Trial]] | None:
    slots = group.all
    first = work.cells[slots[0].cell]
    sets = work.location.cores(first)
    seed = grid.client_seed(work.seed, slots[0].repeat)
    started_at = machine.now()
    told = _told(work, [work.cells[slot.cell] for slot in slots])
    setting = Setting(
        factors=told,
        seed=seed,
        cores=sets,
        programs=work.programs,
        model=work.models[first["model"]],
        timeout_s=work.timeout,
        files=("timeline", "histogram") if work.histograms else ("timeline",),
    )
    outcomes = _outcomes(work, group, setting, hosts)
    if outcomes is None:
        return None
    made = []
    name = work.key(slots[0].cell, slots[0].repeat)
    for slot, outcome in zip(slots, outcomes, strict=True):
        factors = work.cells[slot.cell]
        carried = slot is group.carried
        shared = {"set": name, "carried": carried}
        by = name if carried else None
        trial = schema.Trial(
            key=work.key(slot.cell, slot.repeat, carried_by=by),
            study=work.study,
            block=slot.block,
            order=slot.order,
            repeat=slot.repeat,
            seed=seed,
            factors=factors,
            started_at=started_at,
            seconds=outcome.seconds,
            environment=work.environment,
            binaries=work.binaries_of(work.models[factors["model"]]),
            commands=_commands(factors, setting, outcome),
            cores=sets.recorded() | services.recorded() | work.location.recorded(),
            server=outcome.server,
            client=outcome.client,
            timeline=_timeline(outcome),
            turns=outcome.turns and outcome.turns.model_copy(update=shared),
            failure=outcome.failure,
        )
        facts = trial.model_dump(by_alias=True)
        verdicts = {
            "gates": gates.judge(facts),
            "findings": gates.find(facts),
            "label": gates.label(facts),
        }
        made.append((outcome, trial.model_copy(update=verdicts)))
    return made


def _told(work: SweepPlan, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the first cell's factors with what connecting to all of them needs."""
    hard = work.location.descriptors()
    first, models = cells[0], [work.models[cell["model"]] for cell in cells]
    told = flags.with_enough_processes(first, descriptors=hard, servers=len(cells))
    external = any((model.model_extra or {}).get("external") for model in models)
    told = flags.with_time_to_accept(told, external=external)
    if work.location.remote:
        return told  # clients that have connected wait for an agreed moment
    return flags.with_time_to_settle(told, model=models[0])


def _outcomes(
    work: SweepPlan,
    group: interleaving.Group,
    setting: Setting,
    hosts: tuple[Host, Host],
) -> list[Outcome] | None:
    """Run a trial, or several cells side by side; None when a signal came."""
    why = work.lacking(group.all[0].cell)
    if why is not None:
        return [unavailable(setting.model, why)]
    if group.baseline is not None:
        cells = [work.cells[slot.cell] for slot in group.all]
        return interleaving.run(
            cells,
            setting,
            models=work.models,
            host=hosts[0],
            clients=work.location.turning(cells[0]),
        )
    client = work.location.client_of(work.cells[group.all[0].cell]) or hosts[1]
    outcome = run_trial(setting, server_host=hosts[0], client_host=client)
    return outcome and [outcome]


def _timeline(outcome: Outcome) -> schema.Timeline | None:
    if outcome.client is None or outcome.turns is not None:
        return None
    window = outcome.client.window
    until_s = (window.get("warmup_s") or 0) + (window.get("seconds") or 0)
    return timelines.parse(outcome.files.get("timeline"), until_s=until_s)


def _commands(
    factors: Mapping[str, Any], setting: Setting, outcome: Outcome
) -> dict[str, str]:
    """Return both command lines as one would type them, without paths."""
    count = outcome.turns.beside if outcome.turns else 1
    words = flags.client_flags(setting.factors, seed=setting.seed)
    if outcome.turns:
        pause = (
            outcome.turns.pause_ms and outcome.turns.pause_ms / outcome.turns.slice_ms
        )
        told = interleaving.in_turns([factors] * count, setting, pause=pause)
        words = turns.client_flags(told)
    client = ["client", *["HOST:PORT"] * count, *words]
    return {"server": servers.shown_command(factors), "client": " ".join(client)}


def _keep_histogram(work: SweepPlan, state: _State, key: str, data: bytes) -> None:
    path = work.folder / "latency" / f"{key}.csv.gz"
    try:
        store.put(path, gzip.compress(data, compresslevel=6, mtime=0), flush=True)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()  # of a trial that was not kept, if there is one
        remark = f"a histogram was not kept: {error.strerror}"
        if remark not in state.remarks:
            state.remarks.append(remark)


def _out_of_budget(work: SweepPlan, state: _State, cells: Sequence[int]) -> bool:
    budget_s = work.rule.budget_s
    if budget_s is None:
        return False
    cost_s = sum(
        plan.guess_s(work, cell, [row["seconds"] for row in state.rows[cell]])
        for cell in cells
    )
    if state.spent_s + cost_s <= budget_s:
        return False
    text = duration_text(budget_s)
    state.reason = f"the budget of {text} is used; {state.there} trials are there"
    state.complete = min(len(rows) for rows in state.rows) >= work.rule.n_min
    if not state.complete:
        state.reason += f", fewer than {work.rule.n_min} in some cells"
    return True


def _eta_s(work: SweepPlan, state: _State) -> float:
    """Return what the trials that are planned now will take."""
    left = state.planned - state.there
    each = [
        plan.guess_s(work, cell, [row["seconds"] for row in rows])
        for cell, rows in enumerate(state.rows)
    ]
    missing = [max(0, work.rule.n_min - len(rows)) for rows in state.rows]
    if sum(missing):
        return sum(n * cost for n, cost in zip(missing, each, strict=True))
    return left * sum(each) / len(each)


def _interrupted(state: _State) -> str:
    number = interrupt.caught() or signal.SIGINT
    name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    return (
        f"{name}; {state.there} trials are kept, and the same call goes on from there"
    )


def _window_share(state: _State) -> float | None:
    spent = time.monotonic() - state.began
    return state.window_s / spent if state.done and spent > 0 else None


def _reached(work: SweepPlan, widths: Sequence[stopping.Width]) -> tuple[Reached, ...]:
    found = []
    for metric, target in work.rule.targets.items():
        known = [w for w in widths if w.metric == metric and w.half_width is not None]
        if not known:
            continue
        widest = max(known, key=lambda width: width.half_width)
        found.append(
            Reached(
                metric=metric,
                target=target,
                half_width=widest.half_width,
                n=widest.n,
                factors=work.level(widest.cell),
                ratio=widest.ratio,
                cells_met=sum(width.met for width in known),
                cells=sum(width.metric == metric for width in widths),
            )
        )
    return tuple(found)


def _report(work: SweepPlan, state: _State) -> SweepReport:
    unusable = sum(not any(map(stopping.is_used, r)) for r in state.rows if r)
    if unusable:
        state.remarks.append(
            f"{unusable} of {len(work.cells)} cells have no trial that may be used"
        )
    if state.disturbed:
        state.remarks.append(
            f"{state.disturbed} of {state.rounds} rounds were disturbed by other "
            "programs and count for no server"
        )
    if state.late:
        state.remarks.append(
            f"{state.late} rounds were set aside for all servers, as the client was "
            "late itself; others made up for them"
        )
    return SweepReport(
        run=work.run,
        study=work.study,
        planned=state.planned,
        done=state.done,
        resumed=state.resumed,
        failed=state.failed,
        flagged=state.flagged,
        seconds=time.monotonic() - state.began,
        window_share=_window_share(state),
        stopped_because=state.reason,
        complete=state.complete,
        reached=_reached(work, stopping.widths(state.rows, work.rule)),
        remarks=tuple(state.remarks),
    )


def _note_in_manifest(
    work: SweepPlan, state: _State, facts: dict, report: SweepReport | None = None
) -> None:
    """Keep what was asked and, at the end, how it ended; a full disk stops nothing."""
    entry: dict[str, Any] = {
        "sweep": grid.cell_key({"cells": sorted(map(grid.cell_key, work.cells))}),
        "started_at": state.started_at,
        "environment": work.environment,
        "binaries": dict(work.binaries),
        "parameters": dict(work.parameters),
        "stopping": None,
    }
    if report is not None:
        entry["stopping"] = _stopping(work, state, report)
    try:
        machine.keep_manifest(
            work.folder.parent, run=work.run, study=work.study, entry=entry, facts=facts
        )
    except OSError as error:
        state.remarks.append(f"{store.MANIFEST} was not renewed: {error.strerror}")


def _width_facts(work: SweepPlan, width: stopping.Width) -> dict[str, Any]:
    return {
        "factors": work.level(width.cell),
        "metric": width.metric,
        "of": "ratio" if width.ratio else "mean",
        "n": width.n,
        "half_width": width.half_width,
        "target": width.target,
        "met": width.met,
    }


def _set_facts(work: SweepPlan, state: _State, report: SweepReport) -> list[dict]:
    """Return how wide the widest ratio of each set and metric is, and why it ended.

    Also where no target was set: then of the metrics that usually have one.
    """
    targets = work.rule.targets or stopping.RATIO_TARGETS
    rule = replace(work.rule, targets=targets)
    found = []
    for each in work.sets:
        if each.baseline is None:
            continue
        for metric in targets:
            widths = [
                width
                for width in stopping.widths(state.rows, rule)
                if width.cell in each.members and width.metric == metric
            ]
            known = [w.half_width for w in widths if w.half_width is not None]
            asked = bool(work.rule.targets)
            found.append(
                {
                    "factors": _shared(work, each),
                    "baseline": work.level(each.baseline),
                    "metric": metric,
                    "pairs": len(widths),
                    "known": len(known),
                    "n": min((w.n for w in widths), default=0),
                    "half_width": max(known, default=None),
                    "target": targets[metric] if asked else None,
                    "met": sum(w.met for w in widths) if asked else None,
                    "reason": _why(work, state, each, widths, report),
                }
            )
    return found


def _shared(work: SweepPlan, each: interleaving.Set) -> dict[str, Any]:
    """Return the levels that all cells of a set have in common."""
    return {
        name: level
        for name, level in work.level(each.baseline).items()
        if name not in work.beside
    }


def _why(
    work: SweepPlan,
    state: _State,
    each: interleaving.Set,
    widths: Sequence[stopping.Width],
    report: SweepReport,
) -> str:
    """Return why a set was not measured further."""
    if work.rule.targets and widths and all(width.met for width in widths):
        return "width"
    if min(len(state.rows[cell]) for cell in each.members) >= work.rule.n_max:
        return "most trials"
    pending = any(width.pending for width in widths)
    return report.stopped_because if pending or not report.complete else "no hope"


def _stopping(work: SweepPlan, state: _State, report: SweepReport) -> dict[str, Any]:
    widths = stopping.widths(state.rows, work.rule)
    return {
        "reason": report.stopped_because,
        "complete": report.complete,
        "rule": asdict(work.rule) | {"targets": dict(work.rule.targets)},
        "trials_per_cell": [len(rows) for rows in state.rows],
        "trials": report.done + report.resumed,
        "failed": report.failed,
        "flagged": report.flagged,
        "seconds": report.seconds,
        "window_share": report.window_share,
        "widths": [_width_facts(work, width) for width in widths],
        "sets": _set_facts(work, state, report),
        "remarks": list(report.remarks),
    }


def _beat(
    work: SweepPlan,
    state: _State,
    *,
    current: Mapping | None = None,
    report: SweepReport | None = None,
) -> None:
    """Renew ``progress.json``; a disk that takes no heartbeat stops nothing."""
    ended = "done" if state.complete else "interrupted"
    beat = schema.Heartbeat(
        run=work.run,
        study=work.study,
        state=ended if report else "running",
        planned=state.planned,
        done=state.done,
        resumed=state.resumed,
        failed=state.failed,
        started_at=state.started_at,
        updated_at=machine.now(),
        seconds=time.monotonic() - state.began,
        eta_s=None if report else _eta_s(work, state),
        window_share=_window_share(state),
        current=dict(current) if current else None,
        message=report.stopped_because if report else None,
    )
    try:
        store.replace(work.folder / store.PROGRESS, beat.model_dump(by_alias=True))
    except OSError:
        return
