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

from collections.abc import Mapping, Sequence
from typing import Any

from connlab import schema
from connlab.drive import machine, plan, trials, turns
from connlab.drive.host import Host

#: where select ends is a question of its own; this many it holds beside its own
FDSETSIZE_HOLDS = 1000
WORKERS_DEFAULT = 8
#: connections of a set in all; more take longer to connect than to measure
CONNECTIONS_MOST = 40_000
_KEPT = (
    "round",
    "lead_in_requests",
    "requests",
    "response_ns",
    "seconds",
    "slice_seconds",
    "server_cpu_ns",
)
_ALONE = ("requests", "stall", "byte_rate", "connect_rate", "descriptors")


def groups(
    slots: Sequence[plan.Slot],
    cells: Sequence[Mapping[str, Any]],
    models: Mapping[str, schema.Model],
    *,
    beside: Sequence[str],
) -> list[list[plan.Slot]]:
    """Return the slots of a round in the order of measuring, sets together.

    A set stands where the first of its slots stood.
    """
    if not beside:
        return [[slot] for slot in slots]
    found: dict[str, list[plan.Slot]] = {}
    for slot in slots:
        cell = cells[slot.cell]
        shared = {k: v for k, v in cell.items() if k not in beside}
        own = "" if takes_turns(models[cell["model"]], cell) else str(slot.cell)
        found.setdefault(f"{plan.cell_key(shared)}/{own}", []).append(slot)
    return [part for group in found.values() for part in _parts(group, cells)]


def _parts(
    group: Sequence[plan.Slot], cells: Sequence[Mapping[str, Any]]
) -> list[list[plan.Slot]]:
    """Divide a set where its connections in all are more than a set may have."""
    each = cells[group[0].cell].get("connections") or 1
    most = max(1, CONNECTIONS_MOST // each)
    return [list(group[i : i + most]) for i in range(0, len(group), most)]


def takes_turns(model: schema.Model, cell: Mapping[str, Any]) -> bool:
    """Whether a cell's server serves all of its users, for a time, as they come."""
    connections = cell.get("connections") or 1
    if not model.available or any(cell.get(name) is not None for name in _ALONE):
        return False
    workers = (cell.get("workers") or WORKERS_DEFAULT) * (cell.get("processes") or 1)
    tasks = _tasks() // 8
    holds = {
        "one": 1,
        "workers": min(workers, tasks),
        "fd_setsize": FDSETSIZE_HOLDS,
        "processes": tasks,
        "threads": tasks,
    }
    return connections <= holds.get(model.holds or "", connections)


def _tasks() -> int:
    """Return how many threads and processes the system allows in all."""
    limits = [machine.sysctl(name) for name in ("kernel.pid_max", "kernel.threads-max")]
    return min(int(limit) for limit in limits if limit)


def run(
    cells: Sequence[Mapping[str, Any]],
    setting: trials.Setting,
    *,
    models: Mapping[str, schema.Model],
    host: Host,
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

    Returns
    -------
    list of Outcome
        None when a signal asked to stop meanwhile.
    """
    found: dict[int, trials.Outcome] = {}
    while here := [place for place in range(len(cells)) if place not in found]:
        servers = [cells[place] for place in here]
        try:
            outcome = turns.run(in_turns(servers, setting), host=host)
        except turns.SetError as error:
            lost = here if error.server is None else [here[error.server]]
            found |= {n: _failed(error, models[cells[n]["model"]]) for n in lost}
            continue
        if outcome is None:
            return None
        others = turns.others_share(
            outcome.slices, companion_cpu_s=outcome.companion_cpu_s
        )
        for at, place in enumerate(here):
            model = models[cells[place]["model"]]
            found[place] = _outcome(outcome, model, at, others)
    return [found[place] for place in range(len(cells))]


def in_turns(
    servers: Sequence[Mapping[str, Any]], setting: trials.Setting
) -> turns.Setting:
    """Return the setting of a set; each server gets the time that a trial would."""
    client = dict(setting.factors)
    for name in ("duration", "warmup"):
        client[name] *= len(servers)
    return turns.Setting(
        servers=tuple(servers),
        client=client,
        seed=setting.seed,
        cores=setting.cores,
        programs=setting.programs,
        slice_s=client["slice"] / 1e3,
    )


def _failed(error: turns.SetError, model: schema.Model) -> trials.Outcome:
    """Return the outcome of a server that gave nothing."""
    reason = machine.without_paths(str(error))[:500]
    failure = schema.Failure(kind=error.kind, reason=reason)
    return trials.Outcome(schema.Server(model=model), None, failure, {}, 0.0)


def _outcome(
    outcome: turns.Outcome,
    model: schema.Model,
    place: int,
    others: tuple[float, float],
) -> trials.Outcome:
    """Return what one server of a set gave, as a trial of its own would."""
    served = outcome.served[place]
    rounds = _rounds(outcome, place)
    stats = trials.last_stats(served.ended)
    server = schema.Server(
        model=model,
        ready=schema.Ready.model_validate(served.ready),
        stats=schema.Stats.model_validate(stats) if stats else None,
        samples=_samples(
            served,
            rounds,
            trials.last_usage(served.ended) or {},
            others,
            _of_companions(outcome, rounds),
        ),
        exit=served.ended.exit,
        diagnostics=trials.said(served.ended),
    )
    client, malformed = trials.checked(outcome.reports[place])
    failure = trials.server_died(served.ended) or malformed or trials.empty(client)
    seconds = outcome.seconds / len(outcome.served)
    return trials.Outcome(server, client, failure, {}, seconds, rounds)


def _of_companions(outcome: turns.Outcome, rounds: schema.Turns) -> float:
    """Return what companions used for one server's counted requests.

    They do the same for a request whoever asks, so that requests divide their time.
    """
    names = ("lead_in_requests", "requests")
    every = sum(row[name] for row in outcome.slices for name in names)
    mine = sum(rounds.lead_in_requests) + sum(rounds.requests)
    return outcome.companion_cpu_s * mine / every if every else 0.0


def _rounds(outcome: turns.Outcome, place: int) -> schema.Turns:
    rows = [r for r in outcome.slices if r["target"] == place and r["counted"]]
    return schema.Turns(
        beside=len(outcome.served),
        slice_ms=outcome.setting.slice_s * 1e3,
        lead_in_ms=outcome.setting.lead_in_s * 1e3,
        **{name: [row[name] or 0 for row in rows] for name in _KEPT},
    )


def _samples(
    served: turns.Served,
    rounds: schema.Turns,
    stats: Mapping[str, Any],
    others: tuple[float, float],
    companion_cpu_s: float,
) -> schema.Samples:
    """Return what was seen of one server, its CPU time in the slices that count.

    The clock of a process does not tell user from system time; the server's own count
    over its whole life gives their proportion.
    """
    spent_s = sum(rounds.server_cpu_ns) / 1e9
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
        other_cpu_s=others[0] * window_s,
        steal_s=others[1] * window_s,
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
