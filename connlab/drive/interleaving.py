"""Cells that share a trial: their servers take turns, and each leaves its own line.

    the slots of a round -> sets of cells that differ in `beside` only
        -> turns.run -> for each server what trials.run gives for one

A line of a set says what any trial says, of its own server, and in ``turns`` the rounds
that it shares with the others: trials of one block and the same factors but those of
`beside` were measured under the same client within milliseconds of each other.

What cannot take turns is measured alone, as before: a model that is not there, one that
would leave some of its users unserved, a trial that counts requests or stops a server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from connlab import schema
from connlab.drive import capacity, gates, grid, trials, turns
from connlab.drive.host import Host

#: where select ends is a question of its own; this many it holds beside its own
FDSETSIZE_HOLDS = 1000
#: what a set is compared with where it is not said and the set has it
BASELINE = {"model": "epoll"}
#: over hosts, how much longer pauses get at a time, and how long at most, in slices
PAUSE_LONGER, PAUSE_MOST = 4, 3
_KEPT = (
    "round",
    "lead_in_requests",
    "requests",
    "response_ns",
    "seconds",
    "slice_seconds",
)
_ALONE = ("requests", "stall", "byte_rate", "connect_rate", "descriptors")


@dataclass(frozen=True)
class Set:
    """Cells that are to share trials, by number.

    `baseline` is what the others are compared with; None where a cell is measured
    alone.
    """

    members: tuple[int, ...]
    baseline: int | None = None


@dataclass(frozen=True)
class Group:
    """The slots that are measured together, and the cell of their baseline.

    `carried` is a slot of the baseline where it is not among them: it is measured once
    more, as a ratio needs both sides in one set.
    """

    slots: tuple[grid.Slot, ...]
    baseline: int | None = None
    carried: grid.Slot | None = None

    @property
    def all(self) -> tuple[grid.Slot, ...]:
        """The slots, and the carried one after them."""
        return self.slots if self.carried is None else (*self.slots, self.carried)

    def without(self, there: Collection[grid.Slot]) -> Group:
        """Return the group of the slots that are not there, with its baseline."""
        left = tuple(slot for slot in self.slots if slot not in there)
        if not left or self.baseline is None:
            return Group(left, self.baseline)
        return Group(left, self.baseline, _carried(self.baseline, left))


def sets(
    cells: Sequence[Mapping[str, Any]],
    models: Mapping[str, schema.Model],
    *,
    beside: Sequence[str],
    baseline: Mapping[str, Any] | None = None,
    lacking: Collection[int] = (),
    tasks: int | None = None,
) -> tuple[Set, ...]:
    """Return the sets that the cells of a sweep form, which differ in `beside` only.

    The baseline of a set is the first cell that has the levels of `baseline`
    (`BASELINE` where it is not said), else the first of all. Cells that are `lacking`
    cannot be measured at all. `tasks` is how many the system of the servers allows;
    this machine's, if not said.
    """
    found: dict[str, list[int]] = {}
    alone = []
    tasks = capacity.tasks() if tasks is None else tasks
    for number, cell in enumerate(cells):
        there = number not in lacking
        if beside and there and takes_turns(models[cell["model"]], cell, tasks):
            shared = {k: v for k, v in cell.items() if k not in beside}
            found.setdefault(grid.cell_key(shared), []).append(number)
        else:
            alone.append(Set((number,)))
    wanted = (BASELINE if baseline is None else baseline).items()
    return *alone, *(
        Set(tuple(members), _first(members, cells, wanted))
        for members in found.values()
    )


def _first(members: Sequence[int], cells: Sequence[Mapping], levels: Any) -> int:
    having = (n for n in members if all(cells[n].get(k) == v for k, v in levels))
    return next(having, members[0])


def groups(
    slots: Sequence[grid.Slot],
    cells: Sequence[Mapping[str, Any]],
    models: Mapping[str, schema.Model],
    sets: Sequence[Set],
    most: Callable[[], capacity.Room] | None = None,
) -> list[Group]:
    """Return the slots of a round in the order of measuring, sets together.

    A set stands where the first of its slots stood. One that there is no room for is
    divided, and each part carries the baseline; so does a set of which the baseline is
    there already. `most` tells the room; of this machine, if not said.
    """
    own = {cell: whole for whole in sets for cell in whole.members}
    together: dict[Set, list[grid.Slot]] = {}
    for slot in slots:
        together.setdefault(own[slot.cell], []).append(slot)
    shared = any(whole.baseline is not None for whole in sets)
    there = (most or capacity.here)() if shared else capacity.Room()
    found = []
    for whole, members in together.items():
        if whole.baseline is None:
            found += [Group((slot,)) for slot in members]
        else:
            need = {
                n: capacity.needed(models[cells[n]["model"]], cells[n])
                for n in whole.members
            }
            found += _parts(members, whole.baseline, need, there)
    return found


def _parts(
    members: Sequence[grid.Slot],
    base: int,
    need: Mapping[int, capacity.Room],
    most: capacity.Room,
) -> list[Group]:
    """Divide a set until each part has room beside the baseline."""
    parts: list[list[grid.Slot]] = [[]]
    used = need[base]
    for slot in sorted(members, key=lambda slot: slot.cell != base):
        others = any(there.cell != base for there in parts[-1])
        if others and not most.holds(used + need[slot.cell]):
            parts.append([])
            used = need[base]
        parts[-1].append(slot)
        used += need[slot.cell] if slot.cell != base else capacity.Room()
    return [Group(tuple(part), base, _carried(base, part)) for part in parts]


def _carried(base: int, part: Sequence[grid.Slot]) -> grid.Slot | None:
    """Return the slot of a baseline that a part has not of its own."""
    if any(slot.cell == base for slot in part):
        return None
    first = part[0]
    return grid.Slot(base, repeat=first.repeat, block=first.block, order=first.order)


def takes_turns(model: schema.Model, cell: Mapping[str, Any], tasks: int) -> bool:
    """Whether a cell's server serves all of its users, for a time, as they come.

    Its system allows so many tasks in all. Without a slice it is measured alone as
    well.
    """
    connections = cell.get("connections") or 1
    if not model.available or any(cell.get(name) is not None for name in _ALONE):
        return False
    if cell.get("slice") is None:
        return False
    workers = (cell.get("workers") or capacity.WORKERS_DEFAULT) * (
        cell.get("processes") or 1
    )
    own = tasks // 8
    holds = {
        "one": 1,
        "workers": min(workers, own),
        "fd_setsize": FDSETSIZE_HOLDS,
        "processes": own,
        "threads": own,
    }
    return connections <= holds.get(model.holds or "", connections)


def run(
    cells: Sequence[Mapping[str, Any]],
    setting: trials.Setting,
    *,
    models: Mapping[str, schema.Model],
    host: Host,
    clients: turns.Clients | None = None,
) -> list[trials.Outcome] | None:
    """Measure cells side by side; one outcome for each, in their order.

    A server that does not come up fails alone: the others are measured without it.

    Parameters
    ----------
    cells : sequence of mapping
        Factors of each, with the client's the same in all.
    setting : connlab.drive.trials.Setting
        Of the first cell: seed, cores, programs; its factors are the client's.
    models : mapping of str to Model
        What the server says of each, by name.
    host : Host
        Where servers and client run.
    clients : connlab.drive.turns.Clients, optional
        The client, if it runs on other hosts.

    Returns
    -------
    list of Outcome
        None when a signal asked to stop meanwhile.
    """
    found: dict[int, trials.Outcome] = {}
    while here := [place for place in range(len(cells)) if place not in found]:
        servers = [cells[place] for place in here]
        try:
            outcome = _run(servers, setting, host, clients)
        except turns.SetError as error:
            lost = here if error.server is None else [here[error.server]]
            found |= {n: _failed(error, models[cells[n]["model"]]) for n in lost}
            continue
        if outcome is None:
            return None
        others = _others(outcome)
        for at, place in enumerate(here):
            model = models[cells[place]["model"]]
            found[place] = _outcome(outcome, model, at, others)
    return [found[place] for place in range(len(cells))]


def _run(
    servers: Sequence[Mapping[str, Any]],
    setting: trials.Setting,
    host: Host,
    clients: turns.Clients | None,
) -> turns.Outcome | None:
    """Run a set, on other hosts where there are `clients`."""
    if clients is None:
        return turns.run(in_turns(servers, setting), host=host)
    asked = in_turns(servers, setting, pause=turns.PAUSE_REMOTE)
    known_by = grid.cell_key({**setting.factors, "model": len(servers)})
    return patiently(asked, known_by=known_by, host=host, clients=clients)


def patiently(
    asked: turns.Setting, *, known_by: str, host: Host, clients: turns.Clients
) -> turns.Outcome | None:
    """Run a set over hosts, again with longer pauses if answers take longer.

    `clients` remember the length of pauses of what is `known_by` a name. None, and
    SetError, as from `connlab.drive.turns.run`.
    """
    while True:
        pause = clients.pauses.get(known_by, turns.PAUSE_REMOTE)
        asked = replace(asked, pause_s=pause * asked.slice_s)
        with clients.unwatched():
            outcome = turns.run(asked, host=host, clients=clients)
        if outcome is None or _is_enough(outcome) or pause >= PAUSE_MOST:
            return outcome
        clients.pauses[known_by] = pause * PAUSE_LONGER


def _is_enough(outcome: turns.Outcome) -> bool:
    """Whether at least half of the rounds count."""
    return outcome.client["rounds"] >= outcome.client["late_rounds"]


@dataclass(frozen=True)
class _Others:
    """What others took while a set ran: cores on average, and by round."""

    busy: float
    steal: float
    by_round: Mapping[int, float]
    disturbed: Sequence[int]


def _others(outcome: turns.Outcome) -> _Others:
    spent_s = outcome.companion_cpu_s
    busy, steal = turns.others_share(outcome.slices, companion_cpu_s=spent_s)
    taken, seconds = turns.others_by_round(outcome.slices, companion_cpu_s=spent_s)
    sets = outcome.setting.cores
    # clients elsewhere: only cores of the servers are looked at
    client = sets.client if outcome.setting.pause_s is None else ()
    cores = len({*sets.server, *client})
    return _Others(busy, steal, taken, gates.disturbed(taken, seconds, cores=cores))


def in_turns(
    servers: Sequence[Mapping[str, Any]],
    setting: trials.Setting,
    *,
    pause: float | None = None,
) -> turns.Setting:
    """Return the setting of a set; each server gets the time that a trial would.

    `pause` is its length in slices, where the client is on other hosts.
    """
    client = dict(setting.factors)
    for name in ("duration", "warmup", "duration_max"):
        if client.get(name) is not None:
            client[name] *= len(servers)
    slice_s, lead_in_s = client["slice"] / 1e3, turns.LEAD_IN_S
    if client.get("rate") is not None:
        lead_in_s = turns.LEAD_IN_OPEN * slice_s
    if pause is not None:
        lead_in_s = turns.LEAD_IN_AFAR * slice_s
    return turns.Setting(
        servers=tuple(servers),
        client=client,
        seed=setting.seed,
        cores=setting.cores,
        programs=setting.programs,
        slice_s=slice_s,
        lead_in_s=lead_in_s,
        pause_s=None if pause is None else pause * slice_s,
    )


def _failed(error: turns.SetError, model: schema.Model) -> trials.Outcome:
    """Return the outcome of a server that gave nothing."""
    failure = trials.failed(error.kind, str(error))
    return trials.Outcome(schema.Server(model=model), None, failure, {}, 0.0)


def _outcome(
    outcome: turns.Outcome,
    model: schema.Model,
    place: int,
    others: _Others,
) -> trials.Outcome:
    """Return what one server of a set gave, as a trial of its own would."""
    served = outcome.served[place]
    rounds = _rounds(outcome, place, others)
    stats = trials.last_stats(served.ended)
    looked = None
    if served.at is None:
        usage = trials.last_usage(served.ended) or {}
        spent_s = _of_companions(outcome, rounds)
        looked = _samples(served, rounds, usage, others, spent_s)
    server = schema.Server(
        model=model,
        ready=schema.Ready.model_validate(served.ready),
        stats=schema.Stats.model_validate(stats) if stats else None,
        samples=looked,
        unseen=served.at.why if served.at else None,
        exit=served.ended.exit,
        diagnostics=trials.said(served.ended),
    )
    client, malformed = trials.checked(outcome.reports[place])
    failure = trials.server_died(served.ended) or malformed
    failure = failure or _never_in_time(outcome) or trials.empty(client)
    seconds = outcome.seconds / len(outcome.served)
    return trials.Outcome(server, client, failure, {}, seconds, rounds)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _never_in_time(outcome: turns.Outcome) -> schema.Failure | None:
    """Return the failure of a set on other hosts of which no round was whole."""
    if outcome.setting.pause_s is None or outcome.client["rounds"]:
        return None
    reason = f"none of {outcome.client['late_rounds']} rounds was whole on all hosts"
    return trials.failed("no-requests", reason)


def _of_companions(outcome: turns.Outcome, rounds: schema.Turns) -> float:
    """Return what companions used for one server's counted requests.

    They do the same for a request whoever asks, so that requests divide their time.
    """
    names = ("lead_in_requests", "requests")
    every = sum(row[name] for row in outcome.slices for name in names)
    mine = sum(rounds.lead_in_requests) + sum(rounds.requests)
    return outcome.companion_cpu_s * mine / every if every else 0.0


def _rounds(outcome: turns.Outcome, place: int, others: _Others) -> schema.Turns:
    rows = [r for r in outcome.slices if r["target"] == place and r["counted"]]
    return schema.Turns(
        beside=len(outcome.served),
        slice_ms=outcome.setting.slice_s * 1e3,
        lead_in_ms=outcome.setting.lead_in_s * 1e3,
        pause_ms=_ms(outcome.setting.pause_s),
        others=[round(others.by_round.get(row["round"], 0.0), 3) for row in rows],
        disturbed=list(others.disturbed),
        late=outcome.client.get("late_rounds"),
        server_cpu_ns=[row["server_cpu_ns"] for row in rows],
        response_p99_ns=_p99s(rows),
        **{name: [row[name] or 0 for row in rows] for name in _KEPT},
    )


def _p99s(rows: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """Return the p99 of each slice; empty where the client took none."""
    found = [row.get("response_p99_ns") for row in rows]
    return found if any(found) else []


def _samples(
    served: turns.Served,
    rounds: schema.Turns,
    stats: Mapping[str, Any],
    others: _Others,
    companion_cpu_s: float,
) -> schema.Samples:
    """Return what was seen of one server, its CPU time in the slices that count.

    The clock of a process does not tell user from system time; the server's own count
    over its whole life gives their proportion.
    """
    spent_s = sum(ns or 0 for ns in rounds.server_cpu_ns) / 1e9
    user, system = (stats.get(f"cpu_{kind}_s") or 0.0 for kind in ("user", "system"))
    share = user / (user + system) if user + system else 0.0
    window_s = sum(rounds.slice_seconds)
    pss = [look.pss_bytes for look in served.looks if look.pss_bytes is not None]
    alive = [look.processes for look in served.looks if look.processes]
    return schema.Samples(
        window_s=window_s,
        window_from="slices",
        cpu_user_s=spent_s * share,
        cpu_system_s=spent_s * (1 - share),
        other_cpu_s=others.busy * window_s,
        steal_s=others.steal * window_s,
        companion_cpu_s=companion_cpu_s,
        pss_bytes=max(pss, default=None),
        pss_baseline_bytes=pss[0] if pss else None,
        threads_max=max((p.threads for p in alive), default=None),
        processes_max=max((p.processes for p in alive), default=None),
        context_switches_voluntary=stats.get("context_switches_voluntary"),
        context_switches_involuntary=stats.get("context_switches_involuntary"),
        samples=len(served.looks),
        memory_samples=len(pss),
    )
