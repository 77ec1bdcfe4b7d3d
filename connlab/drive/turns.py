"""One interleaved set: several fresh servers, one fresh client that takes turns.

    start each server -> ready -> client HOST:PORT HOST:PORT … --slice … -> its report
        -> stop the client -> stop each server -> slices, reports, failures

`trials.run` does the same for one server. The set ends if a server does not come up,
and the error names it; a server that dies ends its own slices, and the others go on.
"""

from __future__ import annotations

import contextlib
import csv
import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connlab.drive import (
    address,
    flags,
    gates,
    interrupt,
    procfs,
    servers,
    services,
    trials,
    warming,
)
from connlab.drive.cores import Cores
from connlab.drive.host import Ended, Host, HostLost, ProgramError, Reading
from connlab.drive.programs import Programs

if TYPE_CHECKING:
    from connlab.hosts.turning import Turning

#: time of a set beside its slices: programs that start and end, connections
OVERHEAD_S = 0.5
#: the length of a slice, and the part at its beginning that is not counted
SLICE_S = 0.02
LEAD_IN_S = 0.001
#: A server that connlab did not write may have more to find again after each rest than
#: an event loop's caches: a scheduler that parks its threads, megabytes of code and of
#: heap. Go's cost per request was 1.65, 1.40, 1.27 and 1.26 times that of epoll in
#: slices of 5, 20, 100 and 500 ms, asyncio's 3.40, 3.08, 2.9 and 2.8; libuv's and
#: tokio's were the same from 20 ms on, thread's fell by 4 % (50 connections). In an
#: open loop servers rest between requests anyway, and a turn's 99th percentile is the
#: better known the fewer disturbances meet it: within 34 % after 7 sets of turns of
#: 20 ms, within 70 % after 16 of 100 ms
SLICE_OTHERS_S = 0.1
#: a user or two leave both cores idle between requests, and how long an idle core takes
#: to wake (halt polling, sleep states) changes every few tens of ms: in short slices it
#: meets all servers of a round alike. With more users a slice this short would be
#: mostly a server that warms its caches
SLICE_FEW_S, FEW_USERS = 0.002, 2
#: the lead-in, as a part of a slice, where requests come at a rate: a queue takes time
#: to grow, and each slice begins with none
LEAD_IN_OPEN = 0.2
#: with clients on other hosts slices begin at fixed moments: the lead-in covers the
#: difference of their clocks, the pause the last answers; both are parts of a slice
SLICE_REMOTE_S, LEAD_IN_AFAR, PAUSE_REMOTE = 0.05, 0.2, 0.2
#: how long a server that hangs keeps its client before it is given up: so many slices
#: (LONGEST_SLICES of ``src_c/client/client_slices.c``), and then ``--drain``
HANGING_SLICES, HANGING_DRAIN_S = 25, 5.0
#: how long a look at one server's memory keeps the driver from the next, at most
_LOOK_S = 0.05
_OWN_CPU = ("server_cpu_ns", "rest_cpu_ns", "client_cpu_ns")


def usual_slice_s(cell: Mapping[str, Any], models: Iterable[str] = ()) -> float:
    """Return the default length of a slice of a cell, in seconds.

    Short only where answers take microseconds: echo, as fast as it comes; long in a
    closed loop where connlab did not write one of the `models` that take turns.
    """
    few = flags.users(cell) <= FEW_USERS
    waits = any(cell.get(name) is not None for name in ("rate", "think", "delay"))
    quick = cell.get("workload") == "echo" and not waits
    if quick and few:
        return SLICE_FEW_S
    at_a_rate = cell.get("rate") is not None
    return SLICE_S if at_a_rate or all(map(servers.is_ours, models)) else SLICE_OTHERS_S


@dataclass(frozen=True)
class Setting:
    """What is run: the settings of each server, and of the client for all of them.

    `servers` and `client` are factors by the names of `flags.FLAGS`; `duration` and
    `warmup` of the client are the seconds of the whole set, for all servers together.
    Each server has as many users as its own `connections` say.
    """

    servers: tuple[Mapping[str, Any], ...]
    client: Mapping[str, Any]
    seed: int
    cores: Cores
    programs: Programs
    slice_s: float = SLICE_S
    pause_s: float | None = None
    """Between slices at fixed moments; None: each slice follows the one before."""

    @property
    def lead_in_s(self) -> float:
        """The seconds at the beginning of a slice that are not counted."""
        if self.pause_s is not None:
            return LEAD_IN_AFAR * self.slice_s
        if self.client.get("rate") is not None:
            return LEAD_IN_OPEN * self.slice_s
        return min(LEAD_IN_S, self.slice_s / 10)

    @property
    def connections(self) -> list[int]:
        """The users of each server."""
        usual = self.client.get("connections") or 1
        return [factors.get("connections") or usual for factors in self.servers]


@dataclass
class Served:
    """One server of a set: its ready line, its samples, how it ended.

    `looks` are readings with memory: one of the idle server, and one while it holds
    its connections.
    """

    factors: Mapping[str, Any]
    handle: int
    ready: dict
    looks: list[Reading] = field(default_factory=list)
    ended: Ended | None = None

    @property
    def pid(self) -> int:
        return self.ready.get("pid", self.handle)

    @property
    def at(self) -> address.Address | None:
        """Where it runs already; None: it was started for this set."""
        return servers.address_of(self.factors["model"])

    @property
    def failure(self) -> str | None:
        """How it ended, if it was not asked to."""
        return trials.died(self.ended)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a set. `served` and `reports` are in the order of the set.

    `slices` holds the rows of the client's table (``client --help`` names its columns),
    with numbers as numbers and ``target`` a place in the set; `client` is its report on
    itself.
    """

    setting: Setting
    served: list[Served]
    reports: list[dict]
    slices: list[dict[str, Any]]
    client: dict
    seconds: float
    companion_cpu_s: float = 0.0
    """CPU time of companions such as Redis while the client ran."""


class SetError(RuntimeError):
    """A set without an outcome; the text says which program failed, and how.

    `kind` is that of a `connlab.schema.Failure`; `server` the place in the set of the
    server that did not come up, None where the client failed; `name`: what a caller
    calls that server.
    """

    name: str | None = None

    def __init__(self, text: str, *, kind: str, server: int | None = None) -> None:
        super().__init__(text)
        self.kind, self.server = kind, server


def run(
    setting: Setting, *, host: Host, clients: Turning | None = None
) -> Outcome | None:
    """Run one set; None when a signal asked to stop meanwhile (nothing is kept).

    The client runs beside the servers, unless there are `clients` on other hosts.

    SetError when a server does not come up, the client fails, or a host is lost.
    """
    began = time.monotonic()
    course = _Course(setting, host, clients)
    report = client_end = None
    companion_cpu_s = services.cpu_s()
    try:
        course.start_servers()
        if len(course.served) == len(setting.servers):
            report = course.client_report()
        companion_cpu_s = services.cpu_s() - companion_cpu_s
    except ProgramError as error:
        raise SetError(f"client: {error}", kind="client-failed") from error
    except HostLost as error:
        raise SetError(str(error), kind="host-lost") from None
    finally:
        grace_s = 0 if interrupt.requested() else trials.GRACE_S
        if course.client is not None:
            client_end = course.client_host.stop(
                course.client, grace_s=1.0, wait_s=grace_s
            )
        ends = course.stop_servers(grace_s)
    if None in ends:
        raise SetError("the servers' host was lost", kind="host-lost")
    if interrupt.requested():
        return None
    order = course.order()
    reports = dict(zip(order, report.get("targets") or [report], strict=True))
    rows = table(client_end.files["slices"])
    return Outcome(
        setting=setting,
        served=course.served,
        reports=[reports[place] for place in sorted(order)],
        slices=[row | {"target": order[row["target"]]} for row in rows],
        client=report,
        seconds=time.monotonic() - began,
        companion_cpu_s=companion_cpu_s,
    )


@dataclass
class _Course:
    """A set that is under way; `clients` is None where one runs beside the servers."""

    setting: Setting
    host: Host
    clients: Turning | None
    started: list[tuple[Host, int]] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    client: int | None = None

    @property
    def client_host(self) -> Host | Turning:
        return self.clients or self.host

    def start_servers(self) -> None:
        for place, factors in enumerate(self.setting.servers):
            argv = servers.argv(self.setting.programs, factors)
            host = servers.host_of(factors["model"], self.host)
            with _server_errors(place, factors):
                handle = host.start(argv, cores=self.setting.cores.server)
                self.started.append((host, handle))
        for place, factors in enumerate(self.setting.servers):
            host, handle = self.started[place]
            with _server_errors(place, factors):
                ready = trials.ready_line(host, handle, trials.READY_S)
                if interrupt.requested():
                    return
                if ready is None:
                    raise ProgramError(f"not ready after {trials.READY_S:g} s")
            self.served.append(Served(factors, handle, ready))
        # over hosts only our own servers are started, which need none
        if self.setting.client["warmup"] and self.clients is None:
            for server in self.served:
                self._warm_up(server)
        # only now, as PSS divides the pages that several servers share
        for server in self.watchable():
            self._look_at(server)

    def _warm_up(self, server: Served) -> None:
        """Give a server the load that it needs before it takes turns, if it does."""
        setting = self.setting
        target = f"{server.ready['host']}:{server.ready['port']}"

        def command(load: Mapping[str, Any]) -> list[str]:
            words = flags.client_flags(load, seed=setting.seed)
            return [*setting.programs.client, target, *words]

        factors = {**setting.client, **server.factors}
        warming.warm_up(factors, command, host=self.host, cores=setting.cores)

    def client_report(self) -> dict:
        """Run the client; return its report.

        It runs once more where it refused to watch a process that has ended since, as
        a daemon's first one does at some time after its server is ready.
        """
        watched = self._watched()
        try:
            self.client = self._start_client(watched)
            return self._attend(self.client)
        except ProgramError:
            if self._watched() == watched:
                raise
        if self.client is not None:
            self.client_host.stop(self.client, grace_s=0)
            self.client = None
        self.client = self._start_client(self._watched())
        return self._attend(self.client)

    def _watched(self) -> list[str]:
        """Return the processes of each server that the client shall watch."""
        if self.clients is None:
            return [_watched_pids(server) for server in self.watchable()]
        # on another host only the processes of this set run: the first suffices
        return [str(server.pid) for server in self.watchable()]

    def _start_client(self, watched: Sequence[str]) -> int:
        setting, order = self.setting, self.order()
        ready = [self.served[place].ready for place in order]
        targets = [f"{line['host']}:{line['port']}" for line in ready]
        command = [*setting.programs.client, *targets]
        words = client_flags(setting, order=order)
        if self.clients is not None:
            return self.clients.start(command, words, setting, watched)
        for pids in watched:
            words += ["--watch", pids]
        cores = setting.cores.client
        return self.host.start([*command, *words], cores=cores, files=("slices",))

    def _attend(self, client: int) -> dict:
        """Wait for the client's report; look once at each server's memory meanwhile.

        The looks are taken late in the warm-up, whose slices are not counted.
        """
        setting, began = self.setting, time.monotonic()
        longer = 1 + (setting.pause_s or 0) / setting.slice_s
        hanging_s = HANGING_SLICES * setting.slice_s
        hanging_s += setting.client.get("drain") or HANGING_DRAIN_S
        allowed_s = trials.timeout_s(setting.client) * longer
        allowed_s += hanging_s * len(self.served)
        if self.clients is None:
            begins = began + 0.1 + 60e-6 * sum(setting.connections)  # roughly
        else:
            begins = self.clients.grid.begins_s
        late_s = 0.5 * setting.client["warmup"]
        look_at, unseen = begins + late_s, self.watchable()
        look_s = min(_LOOK_S, late_s / max(1, len(unseen)))
        while True:
            left_s = began + allowed_s - time.monotonic()
            if unseen:
                left_s = min(left_s, max(look_s, look_at - time.monotonic()))
            report = self.client_host.ready(client, timeout_s=left_s)
            if report is not None or interrupt.requested():
                return report or {}
            if unseen and time.monotonic() >= look_at:
                self._look_at(unseen.pop())
            elif time.monotonic() >= began + allowed_s:
                reason = f"client: no report after {allowed_s:.0f} s"
                raise SetError(reason, kind="client-hung")

    def stop_servers(self, grace_s: float) -> list[Ended | None]:
        """End all servers at the same time; None for one whose host is lost."""
        for host, handle in self.started if grace_s else ():
            with contextlib.suppress(HostLost):
                host.ask_to_end(handle)
        ends: list[Ended | None] = []
        for host, handle in self.started:
            try:
                ends.append(host.stop(handle, grace_s=grace_s))
            except HostLost:
                ends.append(None)
        for server, ended in zip(self.served, ends, strict=False):
            server.ended = ended
        return ends

    def watchable(self) -> list[Served]:
        return [server for server in self.served if server.at is None]

    def order(self) -> list[int]:
        """Return the places of the set in the order of the client's targets.

        Those that cannot be watched stand last: the first ``--watch`` is of the first
        target, and so on.
        """
        places = range(len(self.served))
        return sorted(places, key=lambda place: self.served[place].at is not None)

    def _look_at(self, server: Served) -> None:
        server.looks.append(self.host.sample(server.handle, machine=False, memory=True))


@contextlib.contextmanager
def _server_errors(place: int, factors: Mapping[str, Any]) -> Iterator[None]:
    """Make a program's error that of the server at a place of the set."""
    try:
        yield
    except ProgramError as error:
        reason = f"server {factors['model']}: {error}"
        raise SetError(reason, kind="server-start", server=place) from error


def _watched_pids(served: Served) -> str:
    """Return the processes whose families are the server.

    One that `connlab.drive.servers` starts stands below the program that was started;
    it is named as well, so that its later children are found; unless it is a daemon's
    first process and has ended.
    """
    pids = dict.fromkeys([served.handle, served.pid])
    alive = [pid for pid in pids if procfs.cpu_clock_s(pid) is not None]
    return ",".join(map(str, alive or pids))


def client_flags(setting: Setting, *, order: Sequence[int] | None = None) -> list[str]:
    """Return the client's arguments, without those that depend on running servers.

    `order` is that of its targets, by place in the set; by default that of the set.
    """
    client, connections = dict(setting.client), setting.connections
    places = range(len(connections)) if order is None else order
    users = [str(connections[place]) for place in places]
    client["connections"] = ",".join(users if len({*users}) > 1 else users[:1])
    lengths = {"--slice": setting.slice_s, "--lead-in": setting.lead_in_s}
    if setting.pause_s is not None:
        lengths["--pause"] = setting.pause_s
    if setting.client.get("rate") is not None:
        lengths["--late"] = gates.LAG_NS / 1e9
    words = flags.client_flags(client, seed=setting.seed, sets=setting.cores)
    for flag, seconds in lengths.items():
        words += [flag, f"{seconds * 1e3:g}ms"]
    return words


def table(text: bytes) -> list[dict[str, Any]]:
    """Return the client's table of slices; None where a value is missing."""
    rows = csv.DictReader(io.StringIO(text.decode()))
    return [{name: _number(value) for name, value in row.items()} for row in rows]


def _number(text: str) -> float | int | str | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def others_share(
    slices: Sequence[Mapping[str, Any]], *, companion_cpu_s: float = 0.0
) -> tuple[float, float]:
    """Return the cores that other programs, and other guests, kept busy in a set.

    The same for all servers of it, so that a gate lets in all of them or none. The CPU
    time of companions is not counted. A slice that its server ended says less: while
    the client waited for answers in vain, others went on.
    """
    totals = {
        name: sum(row[name] or 0 for row in slices if not row.get("ended"))
        for name in ("busy_ns", "steal_ns", "slice_seconds", *_OWN_CPU)
    }
    total_ns = totals["slice_seconds"] * 1e9 or 1.0
    own_ns = sum(totals[name] for name in _OWN_CPU) + companion_cpu_s * 1e9
    others_ns = max(0.0, totals["busy_ns"] - own_ns)
    return others_ns / total_ns, totals["steal_ns"] / total_ns


def others_by_round(
    slices: Sequence[Mapping[str, Any]], *, companion_cpu_s: float = 0.0
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the cores that others took in each counted round, and its seconds.

    With those that other guests took (steal). The CPU time of companions is spread
    evenly over all slices.
    """
    total_s = sum(row["slice_seconds"] for row in slices)
    rounds: dict[int, list] = {}
    for row in slices:
        if row["counted"]:
            rounds.setdefault(row["round"], []).append(row)
    seconds = {n: sum(r["slice_seconds"] for r in rows) for n, rows in rounds.items()}
    taken = {
        n: sum(
            others_share(rows, companion_cpu_s=companion_cpu_s * seconds[n] / total_s)
        )
        for n, rows in rounds.items()
        if seconds[n] > 0
    }
    return taken, seconds
