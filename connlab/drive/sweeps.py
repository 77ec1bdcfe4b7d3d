"""A sweep: from a grid of factors to the trials of one study.

    check the arguments -> print the estimate -> round after round: trial -> gates
        -> one line on disk -> are the intervals narrow enough? -> report

Where the study holds trials of another class of environment, nothing is measured.
"""

import contextlib
import gzip
import itertools
import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import (
    flags,
    gates,
    grid,
    interleaving,
    interrupt,
    machine,
    servers,
    services,
    stopping,
    store,
    timelines,
    trials,
    turns,
)
from connlab.drive import plan as planning
from connlab.drive.host import Host, HostLost, LocalHost
from connlab.drive.location import Location
from connlab.drive.programs import Programs
from connlab.drive.progress import Show, SweepReport, display, duration_text, say
from connlab.variances import TRIALS_MIN

#: how much longer a budget lasts while no cell can have an interval: a slow machine
#: would else spend nearly all of it for nothing that can be said
_NO_INTERVALS_YET = 1.5


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
    histograms: bool = True,
    beside: str | Sequence[str] = (),
    baseline: Mapping[str, Any] | None = None,
    response_times: float = gates.RESPONSE_TIMES,
    duration_max: float | None = None,
    programs: Programs | None = None,
    location: Location | None = None,
    measure: bool = True,
) -> SweepReport:
    """Measure every cell of a grid, in shuffled blocks, and keep each trial.

    A trial that is on disk already is not repeated, so the same call goes on where an
    earlier one was interrupted.

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
        `budget` there are `trials` blocks, and two more at most if a busy machine
        spoilt so many that a cell has no interval.
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
    histograms : bool
        Keep each trial's histogram below ``latency/``.
    beside : str or sequence of str
        Factors whose levels are measured side by side: the servers of all cells of a
        block that differ only in these take turns under one client, every 20 ms, so
        that their ratios do not feel what else the machine does. Settings of the
        server, and ``connections``: each server then has as many users as its cell
        says, and is compared with the baseline that has as many
        (`connlab.drive.interleaving` says which cells are measured alone).
        The factor ``slice`` is the length of a turn in ms; with None among its levels
        the same cells are measured one by one as well.
    baseline : mapping of str to level, optional
        Which server of each set the others are compared with, as
        ``{"model": "epoll"}``, the default; the set's first if none has these levels.
        Where a machine has no room for a whole set, each part of it has the baseline.
        Beside k others it stands as √k servers, whose further trials are ``carried``.
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
    measure : bool
        False: nothing is measured, as the run is evaluated again; the report is of
        what is on disk.

    Returns
    -------
    SweepReport

    Raises
    ------
    ValueError
        For an unknown factor, model or workload (with the nearest known name), a value
        that is not allowed, or trials of another class of environment in the study.
        Nothing was measured then.
    FileNotFoundError
        When the programs have not been built.
    KeyboardInterrupt
        After Ctrl-C: within two seconds, with no process left; what was measured is
        on disk, and the report says how to go on.
    """
    arguments = dict(locals())
    if not measure:
        report = _as_recorded(schema.study_folder(run, study, root=root))
        if progress:
            say(str(report))
        return report
    plan = planning.prepare(arguments)
    began = time.monotonic()
    local = LocalHost()
    host = plan.location.server or local
    with interrupt.noted(), contextlib.closing(local):
        with store.journal(plan.folder / schema.TRIALS) as (log, append):
            manifest = schema.read_json(plan.folder.parent / store.MANIFEST) or {}
            kept, remarks = log.by_key()
            remarks += planning.baseline_absent(plan)
            planning.refuse_foreign_trials(plan, kept.values(), manifest)
            report = _Sweep(plan, host, kept, append, remarks, began).run(progress)
        stop_signal = interrupt.requested()
    if progress:
        say(str(report))
    if stop_signal == signal.SIGINT:
        raise KeyboardInterrupt(report.stopped_because)
    if stop_signal is not None:
        signal.raise_signal(stop_signal)
    return report


def _as_recorded(folder: Path) -> SweepReport:
    """Return the report of a sweep that finds all trials of a study on disk."""
    trials, remarks = schema.read_log(folder / schema.TRIALS).by_key()
    asked = [c for c in schema.COLUMNS if c.name in ("failure", "excluded_by")]
    rows = ({c.name: schema.value_of(c, t) for c in asked} for t in trials.values())
    counts = _unused(rows)
    return SweepReport(
        run=folder.parent.name,
        study=folder.name,
        planned=len(trials),
        done=0,
        resumed=len(trials),
        **counts,
        seconds=0.0,
        window_share=None,
        stopped_because=store.NOT_MEASURED,
        remarks=tuple(remarks),
    )


def _unused(rows: Iterable[Mapping]) -> dict[str, int]:
    """Count flat rows with a failure, and those that a gate alone leaves out."""
    unused = [row["failure"] for row in rows if not stopping.is_used(row)]
    failures = [failure for failure in unused if failure is not None]
    return {
        "failed": len(failures),
        "flagged": len(unused) - len(failures),
        "unavailable": sum(text.startswith("unavailable: ") for text in failures),
    }


@dataclass
class _Sweep:
    """A sweep under way: what it has measured so far, and why it ends.

    `host` is that of the server, `kept` are the trials on disk by key; `append` writes
    lines to their file. `rows` are the flat rows of each cell.
    """

    plan: planning.SweepPlan
    host: Host
    kept: Mapping[str, dict]
    append: Callable[[str], None]
    remarks: list[str]
    began: float
    started_at: str = field(default_factory=machine.now)
    planned: int = 0
    done: int = 0
    resumed: int = 0
    resumed_s: float = 0.0
    window_s: float = 0.0
    rounds: Counter[str] = field(default_factory=Counter)
    reason: str = ""
    complete: bool = False
    longer_s: float | None = None

    def __post_init__(self) -> None:
        self.rows: list[list[dict]] = [[] for _ in self.plan.cells]
        self.facts: list[tuple[dict, dict]] = []  # each of the rows, and its trial

    @property
    def trials(self) -> int:
        return self.done + self.resumed

    @property
    def least(self) -> int:
        return self.plan.rule.n_min * len(self.plan.cells)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def spent_s(self) -> float:
        """What a budget pays for: trials of earlier calls, and all of this call."""
        return self.resumed_s + self.seconds

    @property
    def unused(self) -> dict[str, int]:
        return _unused(itertools.chain(*self.rows))

    def _counts(self) -> dict[str, Any]:
        """Return what heartbeat and report have in common."""
        seconds = self.seconds
        return {
            "run": self.plan.run,
            "study": self.plan.study,
            "planned": self.planned,
            "done": self.done,
            "resumed": self.resumed,
            "failed": self.unused["failed"],
            "seconds": seconds,
            "window_share": self.window_s / seconds if self.done else None,
        }

    def run(self, progress: bool) -> SweepReport:
        """Measure what is missing; return the report, which stands on disk as well."""
        plan = self.plan
        costs = planning.cost(plan, self.kept)
        self.planned = costs.trials + min(costs.resumed, self.least)
        if progress:
            for line in (*self.remarks, costs, plan.location.summary()):
                if line:
                    say(f"{plan.study}: {line}")
        facts = plan.location.manifest(plan.programs)
        self._note_in_manifest(facts)
        with display(plan.study, enabled=progress) as show:
            self._measure(show)
        report = self._report()
        self._note_in_manifest(facts, report)
        self._beat(report=report)
        return report

    def _measure(self, show: Show) -> None:
        """Walk the rounds: take the trials on disk, measure the others."""
        for group in self._groups():
            rows = {
                slot: row
                for slot in group.slots
                if (row := self.kept.get(self.plan.key(slot.cell, slot.repeat)))
            }
            self.resumed += len(rows)
            self.resumed_s += sum(row["seconds"] for row in rows.values())
            todo = group.without(rows)
            if todo.slots:
                spent = self._out_of_budget(group, todo)
                measured = None if spent else self._measured(todo)
                if measured is None:
                    return
                rows |= measured
            baseline_of = group.baselines
            for slot in group.slots:
                flat = schema.flatten(rows[slot])
                if slot.cell in baseline_of:
                    baseline = baseline_of[slot.cell]
                    flat[stopping.RATIOS] = self._log_ratios(slot, baseline, rows)
                self.rows[slot.cell].append(flat)
                self.facts.append((flat, rows[slot]))
            lost, unused = self.plan.location.lost(), self.unused
            show(
                done=self.trials,
                planned=self.planned,
                eta_s=self._eta_s(),
                note=f"{unused['failed'] - unused['unavailable']} failed"
                + (f", lost: {', '.join(lost)}" if lost else ""),
            )

    def _groups(self) -> Iterator[interleaving.Group]:
        """Yield groups; after each round the stopping rule says what is next."""
        plan = self.plan
        for number in itertools.count():
            self._note_moves()
            wanted = stopping.next_round(self.rows, plan.rule)
            if isinstance(wanted, str):
                self.reason, self.complete = wanted, True
                return
            counts = [len(rows) for rows in self.rows]
            self.planned = max(self.least, self.trials + len(wanted))
            slots = grid.round_of(wanted, number=number, counts=counts, seed=plan.seed)
            yield from interleaving.groups(
                slots, plan.cells, plan.models, plan.sets, room=plan.location.room
            )

    def _note_moves(self) -> None:
        """Note which trials had cores as far apart as usual; each one changes that."""
        schema.note_moves(trial for _, trial in self.facts)
        for flat, trial in self.facts:
            flat["cores_off"] = schema.pick(trial, "core_to_core.off")

    def _measured(self, group: interleaving.Group) -> dict[grid.Slot, dict] | None:
        """Measure a group and keep its trials; None where that ends the sweep.

        The lines of a set are written at once, that of a baseline first: where a crash
        cuts them, what is left can be compared.
        """
        self._beat(current=self.plan.cells[group.slots[0].cell])
        try:
            self.plan.location.await_hosts()
            measured = _trials(self.plan, group, self.host)
            if measured is None:
                number = interrupt.requested()
                ctrl_c = number == signal.SIGINT
                name = "Ctrl-C" if ctrl_c else signal.Signals(number).name
                there = f"{self.trials} trials are kept"
                self.reason = f"{name}; {there}, and the same call goes on from there"
                return None
            for outcome, trial in measured:
                if self.plan.histograms and outcome.files.get("histogram"):
                    self._keep_histogram(trial.key, outcome.files["histogram"])
            kept = dict(zip(group.all, (trial for _, trial in measured), strict=True))
            baselines = set(group.baselines.values())
            order = sorted(kept, key=lambda slot: slot.cell not in baselines)
            lines = [kept[slot].model_dump_json(by_alias=True) for slot in order]
            self.append("\n".join(lines))
        except store.StoreError as error:
            self.reason = f"{error}; free some space, then the same call goes on"
            return None
        except HostLost as error:
            self.reason = f"{error}; once it is back, the same call goes on"
            return None
        self.done += len(group.slots)
        self.window_s += sum(map(_measuring_s, kept.values()))
        self._count_rounds(kept.values())
        return {s: trial.model_dump(by_alias=True) for s, trial in kept.items()}

    def _log_ratios(
        self, slot: grid.Slot, baseline: int, rows: Mapping[grid.Slot, dict]
    ) -> dict[str, float | None]:
        """Return a trial's log ratios to the baseline, a cell; of itself there is none.

        It is held against those trials of its set that count, of `rows` and of those on
        disk, where room divides the set otherwise than when it was measured; of a key
        that a crash left there, and that was measured once more, the new one.
        """
        from connlab import rounds  # late: a first server starts before numpy is loaded

        if slot.cell == baseline:
            return {}
        metrics = tuple(self.plan.rule.targets) or tuple(stopping.RATIO_TARGETS)
        name = schema.pick(rows[slot], "turns.set")
        if name is None:
            return dict.fromkeys(metrics)
        there = self.plan.copies(baseline, slot.repeat, name, self.kept)
        own = {self.plan.key(baseline, slot.repeat)}
        there |= {key: self.kept[key] for key in own & self.kept.keys()}
        there |= {row["key"]: row for s, row in rows.items() if s.cell == baseline}
        used = [
            row
            for row in there.values()
            if schema.pick(row, "turns.set") == name
            and stopping.is_used(schema.flatten(row))
        ]
        return rounds.to_baseline(rows[slot], used, metrics)

    def _count_rounds(self, trials: Iterable[schema.Trial]) -> None:
        turns = next((trial.turns for trial in trials if trial.turns), None)
        if turns:
            self.rounds.update(
                all=len(turns.others),
                disturbed=len(turns.disturbed),
                late=turns.late or 0,
                repeated=turns.repeated or 0,
            )

    def _keep_histogram(self, key: str, data: bytes) -> None:
        path = self.plan.folder / "latency" / f"{key}.csv.gz"
        try:
            schema.put(path, gzip.compress(data, compresslevel=6, mtime=0), flush=True)
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()  # of a trial that was not kept, if there is one
            remark = f"a histogram was not kept: {error.strerror}"
            if remark not in self.remarks:
                self.remarks.append(remark)

    # ---- time --------------------------------------------------------------------

    def _guesses_s(self) -> list[float]:
        return [
            planning.guess_s(self.plan, cell, [row["seconds"] for row in rows])
            for cell, rows in enumerate(self.rows)
        ]

    def _out_of_budget(
        self, group: interleaving.Group, todo: interleaving.Group
    ) -> bool:
        """Whether what is left `todo` of a group would take more than there is."""
        rule = self.plan.rule
        if rule.budget_s is None:
            return False
        guesses_s = self._guesses_s()
        blocks = min(map(len, self.rows))
        longer = _NO_INTERVALS_YET if blocks < TRIALS_MIN <= rule.n_min else 1
        # those of its slots hold the time of carried baselines
        whole_s = sum(guesses_s[slot.cell] for slot in group.slots)
        wanted_s = whole_s * len(todo.all) / len(group.all)
        if self.spent_s + wanted_s <= longer * rule.budget_s:
            return False
        text = duration_text(rule.budget_s)
        self.reason = f"the budget of {text} is used; {self.trials} trials are there"
        self.longer_s = math.ceil(max(self.spent_s, rule.budget_s) + rule.budget_s)
        self.complete = blocks >= rule.n_min
        if not self.complete:
            self.reason += f", fewer than {rule.n_min} in some cells"
        return True

    def _eta_s(self) -> float:
        guesses_s = self._guesses_s()
        missing = [max(0, self.plan.rule.n_min - len(rows)) for rows in self.rows]
        if sum(missing):
            return sum(n * guess for n, guess in zip(missing, guesses_s, strict=True))
        return (self.planned - self.trials) * sum(guesses_s) / len(guesses_s)

    # ---- what is left of it --------------------------------------------------------

    def _report(self) -> SweepReport:
        self._note_moves()  # also of a round that was cut short
        used = [any(map(stopping.is_used, rows)) for rows in self.rows if rows]
        rounds, note = self.rounds, self.remarks.append
        if unusable := used.count(False):
            have = "has" if unusable == 1 else "have"
            cells = f"{unusable} of {len(self.rows)} cells {have}"
            note(f"{cells} no trial that may be used")
        if moved := sum(bool(flat["cores_off"]) for flat, _ in self.facts):
            of_all = f"{moved} of {len(self.facts)}"
            note(f"trials in which the host had moved the cores: {of_all}")
        if disturbed := rounds["disturbed"]:
            note(
                "rounds that other programs disturbed, and that count for no server: "
                f"{disturbed} of {rounds['all']}"
            )
        if repeated := rounds["repeated"]:
            note(f"turns repeated, as the client was late itself: {repeated}")
        if late := rounds["late"]:
            note(
                "rounds set aside for all servers, as the client was late itself: "
                f"{late}"
            )
        return SweepReport(
            **(self._counts() | self.unused),
            stopped_because=self.reason,
            complete=self.complete,
            reached=tuple(self._reached()),
            remarks=tuple(self.remarks),
            budget_s=self.longer_s,
        )

    def _reached(self) -> Iterator[str]:
        """Give the widest interval of each target metric, over all cells."""
        all_widths = stopping.widths(self.rows, self.plan.rule)
        for metric, target in self.plan.rule.targets.items():
            widths = [width for width in all_widths if width.metric == metric]
            known = [width for width in widths if width.half_width is not None]
            if known:
                widest = max(known, key=lambda width: width.half_width)
                levels = self.plan.levels(widest.cell).items()
                cell = ", ".join(f"{name} {level}" for name, level in levels)
                yield (
                    f"{'ratio of ' * widest.ratio}{metric}: ±{widest.half_width:.1%}"
                    f" at the widest ({cell}; n {widest.n}), target"
                    f" ±{100 * target:.3g}% met in {sum(width.met for width in known)}"
                    f" of {len(widths)} cells"
                )

    def _note_in_manifest(self, facts: dict, report: SweepReport | None = None) -> None:
        """Keep the arguments and, at the end, the report; a full disk stops nothing."""
        plan = self.plan
        entry: dict[str, Any] = {
            "sweep": plan.sweep,
            "started_at": self.started_at,
            "environment": plan.environment,
            "binaries": dict(plan.binaries),
            "parameters": dict(plan.parameters),
            "stopping": self._stopping_facts(report) if report else None,
        }
        whose = {"run": plan.run, "study": plan.study}
        try:
            machine.keep_manifest(plan.folder.parent, **whose, entry=entry, facts=facts)
        except OSError as error:
            self.remarks.append(f"{store.MANIFEST} was not renewed: {error.strerror}")

    def _stopping_facts(self, report: SweepReport) -> dict[str, Any]:
        """Return why it ended, and the interval that is widest against its target."""
        widths = stopping.widths(self.rows, self.plan.rule)
        known = [width for width in widths if width.half_width is not None]
        worst = sorted(known, key=lambda width: width.need)[-1:]
        return {
            "reason": report.stopped_because,
            "complete": report.complete,
            "rule": asdict(self.plan.rule),
            "seconds": report.seconds,
            "window_share": report.window_share,
            "met": all(width.met for width in widths),
            "widths": [
                {
                    "factors": self.plan.levels(width.cell),
                    "metric": width.metric,
                    "of": "ratio" if width.ratio else "mean",
                    "n": width.n,
                    "half_width": width.half_width,
                    "target": width.target,
                    "met": width.met,
                }
                for width in worst
            ],
        }

    def _beat(
        self, *, current: Mapping | None = None, report: SweepReport | None = None
    ) -> None:
        """Renew ``progress.json``; a disk that takes no heartbeat stops nothing."""
        ended = "done" if self.complete else "interrupted"
        beat = schema.Heartbeat(
            **self._counts(),
            state=ended if report else "running",
            started_at=self.started_at,
            updated_at=machine.now(),
            eta_s=None if report else self._eta_s(),
            current=dict(current) if current else None,
            message=report.stopped_because if report else None,
        )
        with contextlib.suppress(OSError):
            path = self.plan.folder / store.PROGRESS
            store.replace(path, beat.model_dump(by_alias=True))


# ---- the trials of a group -----------------------------------------------------------


def _trials(
    plan: planning.SweepPlan, group: interleaving.Group, host: Host
) -> list[tuple[trials.Outcome, schema.Trial]] | None:
    """Run one cell, or several side by side; None when a signal came meanwhile."""
    slots = group.all
    cells = [plan.cells[slot.cell] for slot in slots]
    started_at = machine.now()
    setting = trials.Setting(
        factors=_client_factors(plan, cells),
        seed=grid.client_seed(plan.seed, slots[0].repeat),
        cores=plan.location.cores(cells[0]),
        programs=plan.programs,
        model=plan.models[cells[0]["model"]],
        files=("timeline", "histogram") if plan.histograms else ("timeline",),
    )
    before_s = plan.location.core_to_core(setting.cores)
    outcomes = _outcomes(plan, group, cells, setting, host)
    if outcomes is None:
        return None
    after_s = plan.location.core_to_core(setting.cores)
    cores = setting.cores.in_trial() | services.cores_in_trial()
    cores |= plan.location.cores_in_trial()
    # by all of them: where a crash cut its lines, what is left keeps the old name
    keys = [plan.key(slot.cell, slot.repeat) for slot in group.slots]
    set_name = grid.cell_key({"set": keys})
    kept = []
    pairs = zip(cells, outcomes, strict=True)
    in_turns = [cell for cell, outcome in pairs if outcome.turns]
    whole = len(slots) / len(group.slots)
    for slot, factors, outcome in zip(slots, cells, outcomes, strict=True):
        carried = slot not in group.slots
        name = set_name if carried else None
        in_set = {"set": set_name, "carried": carried}
        trial = schema.Trial(
            key=plan.key(slot.cell, slot.repeat, carried_by=name, copy=slot.copy),
            study=plan.study,
            sweep=plan.sweep,
            block=slot.block,
            order=slot.order,
            repeat=slot.repeat,
            seed=setting.seed,
            factors=factors,
            started_at=started_at,
            # a budget, and who asks what is left, know of a group's own slots
            seconds=outcome.seconds * (1 if carried else whole),
            environment=plan.environment,
            binaries=plan.binaries_of(plan.models[factors["model"]]),
            commands=_commands(factors, in_turns, setting, outcome),
            cores=cores,
            core_to_core=schema.CoreToCore(before_s=before_s, after_s=after_s),
            server=outcome.server,
            client=outcome.client,
            timeline=_timeline(outcome),
            turns=outcome.turns and outcome.turns.model_copy(update=in_set),
            failure=outcome.failure,
        )
        facts = trial.model_dump(by_alias=True)
        verdicts = {
            "gates": gates.judge(facts),
            "findings": gates.judge(facts, schema.FINDINGS),
            "label": gates.label(facts),
        }
        kept.append((outcome, trial.model_copy(update=verdicts)))
    return kept


def _client_factors(
    plan: planning.SweepPlan, cells: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the first cell's factors with what connecting to all of them needs.

    Its `connections` are the most that one has.
    """
    models = [plan.models[cell["model"]] for cell in cells]
    users = [cell.get("connections") or 1 for cell in cells]
    most = {"connections": max(users)} if len(set(users)) > 1 else {}
    return flags.completed(
        {**cells[0], **most},
        descriptors=plan.location.descriptors(),
        connections=sum(users),
        models=models,
        burst_s=planning.burst_s(cells[0], models[0]),
        agreed=plan.location.remote,
    )


def _outcomes(
    plan: planning.SweepPlan,
    group: interleaving.Group,
    cells: Sequence[Mapping[str, Any]],
    setting: trials.Setting,
    host: Host,
) -> list[trials.Outcome] | None:
    reason = plan.unavailable.get(group.all[0].cell)
    if reason is not None:
        reason = reason or "not available here"
        return [trials.not_measured(setting.model, "unavailable", reason)]
    clients = plan.location.turning(cells[0])
    if group.sets:
        return interleaving.run(
            cells, setting, models=plan.models, host=host, clients=clients
        )
    client_host = clients.clients if clients else host
    outcome = trials.run(setting, server_host=host, client_host=client_host)
    return outcome and [outcome]


def _measuring_s(trial: schema.Trial) -> float:
    if trial.turns:
        return trial.turns.slices_s
    return (trial.client and trial.client.window.get("seconds")) or 0.0


def _timeline(outcome: trials.Outcome) -> schema.Timeline | None:
    if outcome.client is None or outcome.turns is not None:
        return None
    window = outcome.client.window
    until_s = (window.get("warmup_s") or 0) + (window.get("seconds") or 0)
    return timelines.parse(outcome.files.get("timeline"), until_s=until_s)


def _commands(
    factors: Mapping[str, Any],
    beside: Sequence[Mapping[str, Any]],
    setting: trials.Setting,
    outcome: trials.Outcome,
) -> dict[str, str]:
    """Return the command lines of a server and of the client of all `beside` it."""
    count, rounds = 1, outcome.turns
    words = flags.client_flags(setting.factors, seed=setting.seed, sets=setting.cores)
    if rounds:
        count = len(beside)
        of_all = interleaving.in_turns(beside, setting)
        pause_s = rounds.pause_ms and rounds.pause_ms / 1e3
        words = turns.client_flags(replace(of_all, pause_s=pause_s))
    client = ["client", *["HOST:PORT"] * count, *words]
    return {"server": servers.shown_command(factors), "client": " ".join(client)}
