"""What is compared: servers by name, one load, and when it is enough."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from connlab import schema
from connlab.drive import (
    cores,
    flags,
    interleaving,
    programs,
    servers,
    turns,
    web_page,
    workers,
)
from connlab.drive.location import Location, ThisMachine

#: the baseline under a second name, as a control
AGAIN = "again"
WORKLOADS = ("echo", "work", "http")
#: slices of each server before those that are counted in a set. Where slices are short
#: a set has as many more of them: what it costs to start it stays the same
WARM_SLICES = 15
#: slices of each server that are counted: with many servers fewer, so that the sets
#: of a budget are enough for an interval
COUNTED_SLICES, COUNTED_MIN, COUNTED_OF_ALL = 25, 10, 150
#: the same over hosts, where slices are longer and a pause follows each
WARM_SLICES_AFAR, COUNTED_SLICES_AFAR = 6, 10
#: the fewest sets that give an interval (`connlab.variances.TRIALS_MIN`)
SETS_LEAST = 4
_SERVER_FACTORS = (
    *("workers", "processes", "queue", "backlog"),
    *("delay_kind", "buckets", "extra_ns"),
)


@dataclass(frozen=True)
class Server:
    """One of the servers: its name in the table, its settings for `drive`.

    ``against`` names the server that it is held against, if not the baseline; ``holds``
    says what bounds how many clients it serves (``server --list``).
    """

    name: str
    factors: Mapping[str, Any]
    against: str | None = None
    holds: str | None = None


@dataclass(frozen=True)
class Plan:
    """All that is fixed before the first set."""

    servers: tuple[Server, ...]
    client: Mapping[str, Any]
    page_bytes: int | None
    until: float
    budget_s: float
    seed: int
    cores: cores.Cores
    programs: programs.Programs
    slice_s: float = turns.SLICE_S
    location: Location = field(default_factory=ThisMachine)

    @property
    def baseline(self) -> str:
        """The server that the others are compared with."""
        return self.servers[0].name

    @property
    def control(self) -> str:
        """The baseline's second name."""
        return f"{self.baseline} {AGAIN}"

    @property
    def against(self) -> dict[str, str]:
        """Each server but the baseline, and the one that it is held against."""
        return {s.name: s.against or self.baseline for s in self.servers[1:]}

    @property
    def wanted(self) -> str:
        """The half-width that is narrow enough, as it is printed."""
        percent = self.until * 100
        return f"±{percent:.1f} %" if percent >= 0.1 else f"±{percent:.1g} %"

    @property
    def open_loop(self) -> bool:
        """Whether requests arrive at a rate, whatever the servers do."""
        return self.client.get("rate") is not None

    @property
    def whole_slices(self) -> bool:
        """Whether rates are of whole slices, as in trials of the same load."""
        users = {"loop": "open" if self.open_loop else "closed"}
        users["active"] = self.client["connections"]
        pause = turns.PAUSE_REMOTE if self.location.remote else None
        load = {"factors": self.client, "client": users, "turns": {"pause_ms": pause}}
        return schema.counts_whole_slices(load)

    @property
    def in_ticks(self) -> set[str]:
        """The servers whose CPU time in a slice is known in steps of 10 ms only."""
        return {
            server.name
            for server in self.servers
            if schema.cpu_in_ticks(
                {"factors": self.client, "server": {"model": {"holds": server.holds}}}
            )
        }

    @property
    def set_s(self) -> float:
        """What a set is expected to take, in seconds."""
        slices_s = self.client["duration"] + self.client["warmup"]
        pauses = 1 + turns.PAUSE_REMOTE if self.location.remote else 1
        warming_s = sum(servers.warm_up_s(server.factors) for server in self.servers)
        return turns.OVERHEAD_S + warming_s + pauses * slices_s


def make_plan(
    names: Sequence[str],
    *,
    workload: str = "echo",
    connections: int = 50,
    size: int | None = None,
    rate: float | None = None,
    delay: str | None = None,
    requests_per_connection: int | None = None,
    engine: str | None = None,
    warm_up: float | None = None,
    until: float = 0.01,
    budget_s: float = 60.0,
    seed: int = 1,
    location: Location | None = None,
    **settings: int | None,
) -> Plan:
    """Check what is asked for and return how it is measured.

    Servers are models of ``server --list``, lessons (``lessons/epoll``), entries of
    ``servers.toml``, command lines with ``{port}``, or ``at:HOST:PORT`` of servers that
    run already; the baseline first. ``NAME:workers=4`` gives one server a setting of
    its own; `settings` are of all that take them.

    The load is the same for all: connections to each server, the `size` of a message in
    bytes (of the page, for http), a `rate` in requests/s in an open loop (to the server
    whose slice it is), the delay of a work request, requests before a user hangs up and
    connects anew, how the client waits (`engine`; ``client --help``). Orders of rounds,
    sizes and arrivals follow from `seed`. In each set those that connlab did not write
    have `warm_up` seconds of load before they take turns (`connlab.drive.warming`); by
    default what their entry says, or two for a command line. A half-width of
    `until` is narrow enough for a ratio, 0.01 for ±1 %; after `budget_s` seconds no
    further set begins.

    Raises ValueError naming what was wrong, the value that came and what is allowed.
    """
    binaries, location = programs.built(), location or ThisMachine()
    load: dict[str, Any] = {"connections": connections, "rate": rate}
    load |= {"requests_per_connection": requests_per_connection, "engine": engine}
    _check(workload, load, size=size, delay=delay, until=until, budget_s=budget_s)
    for name, count in settings.items():
        if count is not None and count < 1:
            raise ValueError(f"{name}: {count}; allowed: 1 and more")
    registry = location.registry() or programs.registry(programs=binaries)
    chosen = [
        _server(n, workload, connections, settings, binaries, registry) for n in names
    ]
    if len(chosen) < 2:
        raise ValueError(f"servers: {len(chosen)}; two are needed, the baseline first")
    if settings.get("workers") and not any("workers" in s.factors for s in chosen):
        text = f"workers: {settings['workers']}; none of {', '.join(names)} takes them"
        raise ValueError(text)
    counts = Counter(server.name for server in chosen)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise ValueError(f"servers: {', '.join(repeated)} twice; once is enough")
    chosen = _warmed(chosen, warm_up, remote=location.remote)
    baseline = chosen[0]
    chosen.append(replace(baseline, name=f"{baseline.name} {AGAIN}"))
    of_workload: dict[str, dict[str, Any]] = {
        "echo": {"size": size or 64},
        "work": {"delay": delay},
        "http": {"path": f"/{web_page.PAGE}"},
    }
    remote = location.remote
    lengths = _lengths(len(chosen), remote=remote)
    sets = location.cores({}) if remote else cores.split(cores.available(), server=1)
    client = {"workload": workload, **load, **of_workload[workload], **lengths}
    models = [
        servers.check(server.factors["model"], binaries, registry) for server in chosen
    ]
    plan = Plan(
        servers=tuple(chosen),
        client=flags.completed(client, descriptors=None, models=models, agreed=remote),
        page_bytes=(size or 1024) if workload == "http" else None,
        until=until,
        budget_s=budget_s,
        seed=seed,
        cores=sets,
        programs=binaries,
        slice_s=_slice_s(chosen, client, remote=remote),
        location=location,
    )
    _check_room(plan, connections)
    _check_hosts(plan, registry)
    return plan


def _warmed(
    chosen: Sequence[Server], warm_up: float | None, *, remote: bool
) -> list[Server]:
    """Return the servers, those that connlab did not write with this warm-up."""
    if warm_up is None:
        return list(chosen)
    if remote:
        raise ValueError(f"warm-up: {warm_up:g} s; allowed over several hosts: none")
    servers.check_warm_up(warm_up)
    if all(servers.is_ours(s.factors["model"]) for s in chosen):
        names = ", ".join(server.name for server in chosen)
        raise ValueError(
            f"warm-up: {warm_up:g} s; connlab wrote {names}: none needs it"
        )
    return [
        server
        if servers.is_ours(server.factors["model"])
        else replace(server, factors={**server.factors, "warm_up": warm_up})
        for server in chosen
    ]


def _slice_s(
    chosen: Sequence[Server], client: Mapping[str, Any], *, remote: bool
) -> float:
    """Return the length of a slice: that of sweeps, no short one where one is afar."""
    if remote:
        return turns.SLICE_REMOTE_S
    names = [server.factors["model"] for server in chosen]
    places = map(servers.address_of, names)
    here = all(place is None or place.here for place in places)
    slice_s = turns.usual_slice_s(client, names)
    return slice_s if here else max(slice_s, turns.SLICE_S)


def _lengths(count: int, *, remote: bool) -> dict[str, float]:
    warm, slice_s = WARM_SLICES, turns.SLICE_S
    counted = min(COUNTED_SLICES, max(COUNTED_MIN, COUNTED_OF_ALL // count))
    if remote:
        warm, counted = WARM_SLICES_AFAR, COUNTED_SLICES_AFAR
        slice_s = turns.SLICE_REMOTE_S
    return {"duration": counted * slice_s * count, "warmup": warm * slice_s * count}


def _check_hosts(plan: Plan, registry: schema.Registry) -> None:
    if plan.location.remote and plan.page_bytes:
        allowed = ", ".join(name for name in WORKLOADS if name != "http")
        raise ValueError(
            f"workload: http; allowed over several hosts: {allowed}, as the page that"
            " is asked for lies on the driver's machine"
        )
    for server in plan.servers:
        name = server.factors["model"]
        cell = {**plan.client, **server.factors}
        reason = plan.location.lacks(cell, servers.check(name, plan.programs, registry))
        if plan.location.remote and servers.is_lesson(name):
            reason = "not over several hosts: a lesson listens on loopback only"
        if reason:
            raise ValueError(f"server {server.name}: {reason}")


def _check(
    workload: str,
    load: Mapping[str, Any],
    *,
    size: int | None,
    delay: str | None,
    until: float,
    budget_s: float,
) -> None:
    connections, rate = load["connections"], load["rate"]
    per_connection = load["requests_per_connection"]
    if workload not in WORKLOADS:
        raise ValueError(programs.unknown("workload", workload, WORKLOADS))
    if connections < 1:
        raise ValueError(f"connections: {connections}; allowed: 1 and more")
    if not 0 < until < 1:
        raise ValueError(f"until: {until:.3g}; allowed: above 0 and below 100 %")
    if not budget_s > 0:
        raise ValueError(f"budget: {budget_s:g} s; allowed: more than 0")
    if size is not None and (size < 1 or workload == "work"):
        allowed = "for echo and http" if workload == "work" else "1 and more"
        raise ValueError(f"size: {size}; allowed: {allowed}")
    if delay is not None and workload != "work":
        raise ValueError(f"delay: {delay}; allowed: for work")
    if per_connection is not None and per_connection < 0:
        given = f"requests-per-connection: {per_connection}"
        raise ValueError(f"{given}; allowed: 0 and more")
    if rate is not None and not rate > 0:
        raise ValueError(f"rate: {rate:g}; allowed: more than 0 requests/s")


def most_servers(connections: int, location: Location) -> int:
    """Return how many servers one client can have so many connections to each of."""
    hard, most = location.descriptors(), interleaving.TARGETS_MOST
    if hard is None:
        return most
    return min(most, max(0, hard - flags.OWN_DESCRIPTORS) // connections)


def _check_room(plan: Plan, connections: int) -> None:
    count = len(plan.servers)
    if count > interleaving.TARGETS_MOST:
        most = interleaving.TARGETS_MOST - 1
        raise ValueError(f"servers: {count - 1}; allowed: {most} under one client")
    hard = plan.location.descriptors()
    most = (hard - flags.OWN_DESCRIPTORS) // count if hard else connections
    if connections > most:
        allowed = f"1 to {most}" if most > 0 else "none"
        raise ValueError(
            f"connections: {connections}; allowed here: {allowed} to each of "
            f"{count} servers (one client process may have {hard} descriptors)"
        )
    if plan.budget_s < SETS_LEAST * plan.set_s:
        raise ValueError(
            f"budget: {plan.budget_s:g} s; {count} servers need "
            f"{SETS_LEAST * plan.set_s:.0f} s at least for {SETS_LEAST} sets"
        )


def _server(
    text: str,
    workload: str,
    connections: int,
    settings: Mapping[str, int | None],
    binaries: programs.Programs,
    registry: schema.Registry,
) -> Server:
    name, _, own_settings = text.partition(":")
    if servers.is_command(text) or servers.is_address(text):
        name, own_settings = text, ""
    model = servers.able(name, workload, binaries, registry)
    if connections > 1 and not model.concurrent:
        raise ValueError(f"server {name} serves one client at a time: --connections 1")
    factors: dict[str, Any] = {"model": name, "workload": workload}
    factors |= _model_settings(model, connections, settings)
    own = [_setting(word, text) for word in own_settings.split(",") if word]
    for setting, count in Counter(setting for setting, _ in own).items():
        if count > 1:
            flag = setting.replace("_", "-")
            raise ValueError(f"server {text}: {flag} {count} times; allowed: once")
    factors |= dict(own)
    servers.check_settings(name, factors)
    return Server(text, factors, holds=model.holds)


def _model_settings(
    model: schema.Model, connections: int, settings: Mapping[str, int | None]
) -> dict[str, Any]:
    chosen = {name: value for name, value in settings.items() if value is not None}
    if model.workers != "fixed":
        chosen.pop("workers", None)
    elif count := workers.needed(model, connections):
        chosen.setdefault("workers", count)
    return chosen


def _setting(word: str, text: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    name = name.replace("-", "_")
    if name not in _SERVER_FACTORS or not equals or not value:
        flagged = ", ".join(factor.replace("_", "-") for factor in _SERVER_FACTORS)
        raise ValueError(f"server {text}: {word!r}; allowed: NAME=VALUE of {flagged}")
    return name, value
