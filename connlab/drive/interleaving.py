"""Cells that are measured together: their servers take turns under one client.

    the slots of a round -> sets of cells that differ in `beside` only
        -> turns.run -> for each server an outcome as from trials.run

Each server of a set has a line of its own, with the facts of any trial and in ``turns``
the rounds that it shares with the others: trials of one block and the same factors but
those of `beside` were measured under the same client within milliseconds. The baseline
stands beside many others as several servers (`baselines_beside`).

Sets whose cells differ in their number of connections as well can share a trial, each
server with users of its own: then what more of them cost is told by rounds too.

What cannot take turns is measured alone: a model that is not available, one that would
leave some of its users unserved, a trial that counts requests or stops a server.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from connlab import schema
from connlab.drive import capacity, flags, gates, grid, samples, servers, trials, turns
from connlab.drive.host import Host

#: connections that select holds beside its own descriptors
FDSETSIZE_HOLDS = 1000
#: what a set is compared with by default, if the set has it
BASELINE = {"model": "epoll"}
#: over hosts, the factor by which pauses grow, and their length at most, in slices
PAUSE_LONGER, PAUSE_MOST = 4, 3
_ROUND_COLUMNS = ("round", "lead_in_requests", "requests", "response_ns", "seconds")
#: targets of one client at most: MAX_TARGETS of ``src_c/client/client_plan.h``
TARGETS_MOST = 64
#: factors of the client that a target has of its own
OWN_OF_TARGETS = ("connections",)
_MEASURED_ALONE = ("requests", "stall", "byte_rate", "connect_rate", "descriptors")


@dataclass(frozen=True)
class Set:
    """Cells that are to share trials, by number.

    `baseline` is what the others are compared with; None where a cell is measured
    alone. Sets with the same `trial` share it with each other. `only`: the baseline is
    a server at an address, which cannot be started once more.
    """

    members: tuple[int, ...]
    baseline: int | None = None
    trial: str | None = None
    only: bool = False

    @property
    def servers(self) -> int:
        """How many take turns, with those that the baseline is besides its own."""
        others = len(self.members) - 1
        return others + baselines_beside(others, only=self.only)


@dataclass(frozen=True)
class Group:
    """The slots that are measured together, and the sets that they are of.

    `carried` are baselines that are measured once more: where they are not among the
    slots, as a ratio needs both sides in one trial, and beside many others. Without
    `sets` the only slot is measured alone.
    """

    slots: tuple[grid.Slot, ...]
    sets: tuple[Set, ...] = ()

    @property
    def baselines(self) -> dict[int, int]:
        """The cell that each cell is compared with."""
        return {cell: s.baseline for s in self.sets for cell in s.members}

    @property
    def carried(self) -> tuple[grid.Slot, ...]:
        cells = {slot.cell for slot in self.slots}
        carried: list[grid.Slot] = []
        for each in self.sets:
            if others := cells.intersection(each.members) - {each.baseline}:
                count = baselines_beside(len(others), only=each.only)
                more = count - (each.baseline in cells)
                carried += [
                    replace(self.slots[0], cell=each.baseline, copy=copy)
                    for copy in range(1, more + 1)
                ]
        return tuple(carried)

    @property
    def all(self) -> tuple[grid.Slot, ...]:
        """The slots, and the carried ones after them."""
        return (*self.slots, *self.carried)

    def without(self, kept: Collection[grid.Slot]) -> Group:
        """Return the group of the slots that are not kept already."""
        slots = tuple(slot for slot in self.slots if slot not in kept)
        return replace(self, slots=slots)


def baselines_beside(others: int, *, only: bool = False) -> int:
    """Return how many servers of a baseline take turns with so many others.

    All of these are compared with it, so that its own noise is in every ratio. Of n
    turns in all the k others are told from a baseline best when that has √k times as
    many as each (Dunnett, JASA 50, 1955). They go to fresh servers, each with
    one turn a round as all have: a server with more turns would find its caches warmer.
    An `only` one runs already, and cannot be started once more.
    """
    return 1 if only else max(1, math.isqrt(others))


def sets(
    cells: Sequence[Mapping[str, Any]],
    models: Mapping[str, schema.Model],
    *,
    beside: Sequence[str],
    baseline: Mapping[str, Any] | None = None,
    unavailable: Collection[int] = (),
    tasks: int,
) -> tuple[Set, ...]:
    """Return the sets that the cells of a sweep form, which differ in `beside` only.

    Levels of `OWN_OF_TARGETS` in `beside` make sets of their own, which share trials:
    a server is compared with the baseline that has as many connections. The baseline of
    a set is the first cell that has the levels of `baseline`
    (`BASELINE` by default), else the first of all. Cells that are `unavailable` cannot
    be measured at all. `tasks` is how many the system of the servers allows.
    """
    together: dict[tuple[str, str], list[int]] = {}
    alone, compared = [], []
    for number, cell in enumerate(cells):
        available = number not in unavailable
        if beside and available and takes_turns(models[cell["model"]], cell, tasks):
            shared = {k: v for k, v in cell.items() if k not in beside}
            own = {k: cell.get(k) for k in beside if k in OWN_OF_TARGETS}
            names = grid.cell_key(shared), grid.cell_key({**shared, **own})
            together.setdefault(names, []).append(number)
        else:
            alone.append(Set((number,)))
    levels = (BASELINE if baseline is None else baseline).items()
    for (trial, _), members in together.items():
        if len(members) == 1:  # in turns it would only rest between its slices
            alone.append(Set(tuple(members)))
            continue
        has = (n for n in members if all(cells[n].get(k) == v for k, v in levels))
        first = next(has, members[0])
        only = servers.address_of(cells[first]["model"]) is not None
        compared.append(Set(tuple(members), first, trial, only))
    return *alone, *compared


def unheld(
    sets: Sequence[Set], cells: Sequence[Mapping[str, Any]], descriptors: int | None
) -> dict[int, str]:
    """Return which cells a client cannot hold beside their baselines, and why not.

    Trials are divided down to such pairs, and the programs would have been started.
    """
    reasons = {}
    for compared in (s for s in sets if s.baseline is not None):
        beside = cells[compared.baseline].get("connections") or 1
        for n in set(compared.members) - {compared.baseline}:
            reasons[n] = flags.unheld(cells[n], descriptors, beside=beside)
    return {n: reason for n, reason in reasons.items() if reason}


def sharing(sets: Sequence[Set]) -> tuple[tuple[int, ...], ...]:
    """Return the cells of the sets that share trials, together."""
    members: dict[Hashable, tuple[int, ...]] = {}
    for cell_set in sets:
        trial = cell_set.trial or cell_set
        members[trial] = members.get(trial, ()) + cell_set.members
    return tuple(members.values())


def groups(
    slots: Sequence[grid.Slot],
    cells: Sequence[Mapping[str, Any]],
    models: Mapping[str, schema.Model],
    sets: Sequence[Set],
    room: Callable[[], capacity.Room],
) -> list[Group]:
    """Return the slots of a round in the order of measuring, sets together.

    What shares a trial stands where the first of its slots stood. Where there is no
    room for all of it, it is divided, and each part carries the baseline; so does a set
    whose baseline is kept already. What differs in its number of connections only stays
    together if it can. `room` returns the room, and is asked where sets are compared.
    """
    trial_of = {cell: each.trial for each in sets for cell in each.members}
    slots_of: dict[Hashable, list[grid.Slot]] = {}
    for slot in slots:
        slots_of.setdefault(trial_of[slot.cell] or slot, []).append(slot)
    free = room() if any(trial_of.values()) else capacity.Room()
    result = []
    for trial, members in slots_of.items():
        whole = Group(tuple(members), tuple(s for s in sets if s.trial == trial))
        result += _divided(whole, cells, models, free) if whole.sets else [whole]
    return result


def _divided(
    whole: Group,
    cells: Sequence[Mapping[str, Any]],
    models: Mapping[str, schema.Model],
    room: capacity.Room,
) -> list[Group]:
    """Divide a trial into as few parts as there is room for beside their baselines.

    Parts hold about as many servers each: beside few others a baseline takes turns as
    a single server, whose noise is in all of their ratios.
    """
    baselines = whole.baselines
    need = {n: capacity.needed(models[cells[n]["model"]], cells[n]) for n in baselines}

    def fits(part: Sequence[grid.Slot]) -> bool:
        beside = replace(whole, slots=tuple(part)).all
        if len(beside) > TARGETS_MOST:
            return False
        return room.holds(sum((need[slot.cell] for slot in beside), capacity.Room()))

    # slots whose cells differ in `OWN_OF_TARGETS` only, baselines first, then what
    # needs most
    units: dict[str, list[grid.Slot]] = {}
    first = set(baselines.values())
    need_of = {slot: room.share(need[slot.cell]) for slot in whole.slots}
    for slot in sorted(whole.slots, key=lambda s: (s.cell not in first, -need_of[s])):
        own = {k: v for k, v in cells[slot.cell].items() if k not in OWN_OF_TARGETS}
        units.setdefault(grid.cell_key(own), []).append(slot)
    pieces: list[list[grid.Slot]] = []
    for unit in units.values():
        pieces += [unit] if fits(unit) else [[slot] for slot in unit]
    counts = range(1, len(pieces) + 1)
    parts = next(filter(None, (_placed(pieces, n, baselines, fits) for n in counts)))
    return [replace(whole, slots=tuple(part)) for part in parts]


def _placed(
    pieces: Sequence[Sequence[grid.Slot]],
    count: int,
    baselines: Mapping[int, int],
    fits: Callable[[Sequence[grid.Slot]], bool],
) -> list[list[grid.Slot]] | None:
    """Place each piece in the part of so many that has fewest; None without room."""
    parts: list[list[grid.Slot]] = [[] for _ in range(count)]

    def others(part: Sequence[grid.Slot]) -> int:
        return sum(baselines[slot.cell] != slot.cell for slot in part)

    for piece in pieces:
        its_own = {baselines[slot.cell] for slot in piece}
        for part in sorted(parts, key=others):
            # beside its baseline alone there has to be room
            if its_own.issuperset(s.cell for s in part) or fits([*part, *piece]):
                part += piece
                break
        else:
            return None
    return [part for part in parts if part]


def takes_turns(model: schema.Model, cell: Mapping[str, Any], tasks: int) -> bool:
    """Whether a cell's server serves all of its users, for a time, as they come.

    `tasks` is how many its system allows in all. A cell without a slice is measured
    alone as well.
    """
    if not model.available or cell.get("slice") is None:
        return False
    if any(cell.get(name) is not None for name in _MEASURED_ALONE):
        return False
    connections = cell.get("connections") or 1
    holds = {
        "one": 1,
        "workers": min(capacity.workers(cell), tasks // 8),
        "fd_setsize": FDSETSIZE_HOLDS,
        "processes": tasks // 8,
        "threads": tasks // 4,
    }
    return connections <= holds.get(model.holds or "", connections)


def run(
    cells: Sequence[Mapping[str, Any]],
    setting: trials.Setting,
    *,
    models: Mapping[str, schema.Model],
    host: Host,
    clients: turns.Turning | None = None,
) -> list[trials.Outcome] | None:
    """Measure cells side by side and return an outcome for each, in their order.

    A server that does not come up fails alone: the others are measured without it. The
    `setting` is that of the first cell, with the factors of the client, which are the
    same in all. None when a signal asked to stop meanwhile.
    """
    outcomes: dict[int, trials.Outcome] = {}
    model_of = [models[cell["model"]] for cell in cells]
    while left := [n for n in range(len(cells)) if n not in outcomes]:
        servers, began_s = [cells[n] for n in left], time.monotonic()
        try:
            name = grid.cell_key({**setting.factors, "model": len(servers)})
            of_all = in_turns(servers, setting)
            outcome = run_set(of_all, name=name, host=host, clients=clients)
        except turns.SetError as error:
            failing = left if error.server is None else [left[error.server]]
            seconds = (time.monotonic() - began_s) / len(failing)
            for n in failing:
                lost = trials.not_measured(model_of[n], error.kind, str(error))
                outcomes[n] = replace(lost, seconds=seconds)
            continue
        if outcome is None:
            return None
        others = _others(outcome)
        for place, n in enumerate(left):
            outcomes[n] = _outcome(outcome, model_of[n], place, others)
    return [outcomes[n] for n in range(len(cells))]


def run_set(
    setting: turns.Setting, *, name: str, host: Host, clients: turns.Turning | None
) -> turns.Outcome | None:
    """Run a set; with `clients` on hosts again, if answers take longer than pauses.

    They remember the length of pauses by the `name` of the set. None, and SetError, as
    from `connlab.drive.turns.run`.
    """
    if clients is None:
        return turns.run(setting, host=host)
    while True:
        pause = clients.pauses.get(name, turns.PAUSE_REMOTE)
        setting = replace(setting, pause_s=pause * setting.slice_s)
        with clients.unwatched():
            outcome = turns.run(setting, host=host, clients=clients)
        if outcome is None or pause >= PAUSE_MOST:
            return outcome
        report = outcome.client
        seen = report["rounds"] + report["late_rounds"]
        had_time = seen >= 2 * report["overran_rounds"]  # at least half of them
        # there is none where slices were over before they began, or servers died
        if had_time and (seen or any(server.failure for server in outcome.served)):
            return outcome
        clients.pauses[name] = pause * PAUSE_LONGER


@dataclass(frozen=True)
class _Others:
    """Cores that other programs and guests took while a set ran."""

    busy: float
    steal: float
    by_round: Mapping[int, float]
    disturbed: Sequence[int]


def _others(outcome: turns.Outcome) -> _Others:
    ours = {"companion_cpu_s": outcome.companion_cpu_s}
    busy, steal = turns.others_share(outcome.slices, **ours)
    by_round, seconds = turns.others_by_round(outcome.slices, **ours)
    sets = outcome.setting.cores
    # with clients on other hosts only the server's cores are looked at
    client = sets.client if outcome.setting.pause_s is None else ()
    cores = len({*sets.server, *client})
    disturbed = gates.disturbed(by_round, seconds, cores=cores)
    return _Others(busy, steal, by_round, disturbed)


def in_turns(
    servers: Sequence[Mapping[str, Any]], setting: trials.Setting
) -> turns.Setting:
    """Return the setting of a set; each server gets the time that a trial would."""
    client = dict(setting.factors)
    for name in ("duration", "warmup", "duration_max"):
        if client.get(name) is not None:
            client[name] *= len(servers)
    return turns.Setting(
        servers=tuple(
            # the client's own number is the most that one of them has
            {**server, "connections": server.get("connections") or 1}
            for server in servers
        ),
        client=client,
        seed=setting.seed,
        cores=setting.cores,
        programs=setting.programs,
        slice_s=client["slice"] / 1e3,
    )


def _outcome(
    outcome: turns.Outcome, model: schema.Model, place: int, others: _Others
) -> trials.Outcome:
    served = outcome.served[place]
    rounds = _rounds(outcome, place, others)
    server = schema.Server(
        model=model,
        ready=schema.Ready.model_validate(served.ready),
        stats=trials.counted(served.ended),
        samples=None if served.at else _samples(outcome, served, rounds, others),
        unseen=served.at.why if served.at else None,
        exit=served.ended.exit,
        diagnostics=trials.diagnostics(served.ended),
    )
    client, malformed = trials.checked(outcome.reports[place])
    failure = trials.server_died(served.ended) or malformed
    failure = failure or never_in_time(outcome) or trials.empty(client)
    seconds = outcome.seconds / len(outcome.served)
    return trials.Outcome(server, client, failure, {}, seconds, rounds)


def never_in_time(outcome: turns.Outcome) -> schema.Failure | None:
    """Return the failure of a set on other hosts of which no round was whole."""
    if outcome.setting.pause_s is None or outcome.client["rounds"]:
        return None
    late = outcome.client["late_rounds"]
    reason = f"none of {late} rounds was whole and on time on all hosts"
    return trials.failed("no-requests", reason)


def _rounds(outcome: turns.Outcome, place: int, others: _Others) -> schema.Turns:
    rows = [r for r in outcome.slices if r["target"] == place and r["counted"]]
    pause_s = outcome.setting.pause_s
    p99s_ns = [row.get("response_p99_ns") for row in rows]
    return schema.Turns(
        beside=len(outcome.served),
        slice_ms=outcome.setting.slice_s * 1e3,
        lead_in_ms=outcome.setting.lead_in_s * 1e3,
        pause_ms=None if pause_s is None else pause_s * 1e3,
        others=[round(others.by_round.get(row["round"], 0.0), 3) for row in rows],
        disturbed=list(others.disturbed),
        late=outcome.client.get("late_rounds"),
        repeated=outcome.client.get("repeated"),
        server_cpu_ns=[row["server_cpu_ns"] for row in rows],
        rest_cpu_ns=[row["rest_cpu_ns"] for row in rows],
        response_p99_ns=p99s_ns if any(p99s_ns) else [],
        **{name: [row[name] or 0 for row in rows] for name in _ROUND_COLUMNS},
    )


def _samples(
    outcome: turns.Outcome, served: turns.Served, rounds: schema.Turns, others: _Others
) -> schema.Samples:
    """Return the samples of one server, its CPU time in the slices that count.

    The clock of a process does not tell user from system time; the server's own count
    over its whole life gives their proportion.
    """
    stats = trials.last_line(served.ended, "stats", "usage") or {}
    spent_s = sum(ns or 0 for ns in rounds.server_cpu_ns) / 1e9
    user, system = (stats.get(f"cpu_{kind}_s") or 0.0 for kind in ("user", "system"))
    window_s = rounds.slices_s
    # companions do the same for a request of any server, at any time: requests divide
    # their time, those before the first slice as well
    total = sum(schema.pick(r, "requests.completed") or 0 for r in outcome.reports)
    requests = sum(rounds.lead_in_requests) + sum(rounds.requests)
    return schema.Samples(
        window_s=window_s,
        window_from="slices",
        other_cpu_s=others.busy * window_s,
        steal_s=others.steal * window_s,
        companion_cpu_s=outcome.companion_cpu_s * requests / total if total else 0.0,
        context_switches_voluntary=stats.get("context_switches_voluntary"),
        context_switches_involuntary=stats.get("context_switches_involuntary"),
        **samples.user_and_system_s(spent_s, user, system),
        **samples.peaks(served.looks),
    )
