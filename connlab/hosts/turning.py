"""Clients on several hosts that turn between servers at the same fixed moments.

    driver   all have connected -> tell a moment -> quiet, a sign in a pause -> reports
    clients  |-- slice --|-- pause --|-- slice --|-- pause --| ...      each its clock
    server's host            reads       reads       reads      CPU time of all servers

To `connlab.drive.turns` all of it is one client. Every host is told the same seed for
the order of targets, and the first slice's beginning on its own clock. Nobody calls a
host while a slice is under way: signs that renew leases are asked for in pauses.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.drive import interrupt, turns
from connlab.drive.host import Ended, HostLost, ProgramError
from connlab.hosts import group, merged_turns, start_time
from connlab.hosts.agent import Agent
from connlab.hosts.carrier import Pending, RemoteHost, Server
from connlab.hosts.clock import Offset
from connlab.hosts.group import HostGroup, divided

#: between two signs of a host while slices are under way, and else
SIGN_S, LOOK_S = 1.0, 0.05
#: how far into a pause a sign is asked for, as a part of it: clocks may differ
_INTO_PAUSE = 0.25
#: how long programs may take to end by themselves, and after SIGTERM
_WAIT_S, _GRACE_S = 5.0, 1.0
#: how long clients may connect, and more for each connection; between two looks
_CONNECTING_S, _CONNECTING_EACH_S, _SOON_S = 30.0, 0.002, 0.02
_HANDLE = 1
#: what the reader of CPU clocks must be told as clients are
_SHARED = ("--slice", "--lead-in", "--pause", "--duration", "--warmup", "--order")


@dataclass(frozen=True)
class Grid:
    """When slices are, on the driver's clock; all in seconds."""

    begins_s: float
    slice_s: float
    pause_s: float
    count: int

    @property
    def ends_s(self) -> float:
        """When the last pause is over."""
        return self.begins_s + self.count * (self.slice_s + self.pause_s)

    def quiet_until_s(self, at_s: float) -> float:
        """Return the first moment from `at_s` on that lies in no slice."""
        if not self.begins_s - self.pause_s < at_s < self.ends_s:
            return at_s
        every_s = self.slice_s + self.pause_s
        first_s = self.begins_s + self.slice_s + _INTO_PAUSE * self.pause_s
        return first_s + max(0, -int((first_s - at_s) // every_s)) * every_s


class _Part:
    """A program of the set on one host."""

    def __init__(self, name: str, host: RemoteHost, handle: int) -> None:
        self.name, self.host, self.handle = name, host, handle
        self.connected = False
        self.report: dict | None = None
        self.ended: Ended | None = None
        self.why_lost = ""

    def ask(self) -> Pending:
        """Begin to ask for the report; where it is there, only renew the lease."""
        if self.report is not None:
            return self.host.call(Agent.renew)
        return self.host.call(Agent.ready, self.handle, 0.0)

    def ask_connected(self) -> Pending:
        """Begin to ask whether all has connected; if so, only renew the lease."""
        if self.connected:
            return self.host.call(Agent.renew)
        return self.ask()

    def take(self, told: Pending) -> None:
        """Take what was asked for."""
        try:
            line = told.result()
        except ProgramError as error:
            raise ProgramError(f"on {self.name}: {error}") from error
        if line is not None and line.get("event") == start_time.EVENT:
            self.connected = True
        else:
            self.report = line or self.report


class Turning:
    """The clients of a set, on hosts of their own; see `connlab.drive.turns.Clients`.

    Parameters
    ----------
    clients : HostGroup
    server : Server
        Where the servers are, and their CPU time is read.
    """

    def __init__(self, clients: HostGroup, server: Server) -> None:
        self.clients, self.server = clients, server
        self.pauses: dict[str, float] = {}
        self.grid = Grid(0, 0, 0, 0)
        self._parts: list[_Part] = []
        self._offsets: dict[str, Offset] = {}
        self._rows: list[dict[str, Any]] = []
        self._shared = False

    @property
    def begins_s(self) -> float:
        """When the first slice begins, on the driver's clock."""
        return self.grid.begins_s

    def start(
        self, argv: Sequence[str], *, cores: Sequence[int], beside: Sequence[int]
    ) -> int:
        """Start a client on every host, each with its share, and the reader.

        `beside` are the cores of the servers. Returns when all have connected and
        know when the first slice begins.
        """
        hosts = self.clients.hosts
        self._parts, self._rows = [], []
        self._shared = not set(cores).isdisjoint(beside)
        for host in (self.server, *hosts):
            host.revive()
        words, watched = _without(list(argv), "--watch")
        words += ["--order", value_of(words, "--seed")]
        try:
            shares = [
                divided(words, number, len(hosts)) for number in range(len(hosts))
            ]
            told = {"cores": cores, "files": ("slices", "histogram")}
            self._add(hosts, group.started(hosts, shares, **told))
            told = {"cores": beside, "files": ("slices",)}
            reading, there = [_only_watching(words, watched)], (self.server,)
            self._add(there, group.started(there, reading, **told))
            if self._connect(words):
                programs = [(part.host, part.handle) for part in self._parts]
                begins_s, self._offsets = start_time.told(programs)
                self.grid = _grid(words, begins_s)
        except (HostLost, ProgramError):
            self._end_all(grace_s=0, wait_s=0)
            raise
        return _HANDLE

    def _add(self, hosts: Sequence[RemoteHost], handles: Mapping[str, int]) -> None:
        parts = [_Part(host.name, host, handles[host.name]) for host in hosts]
        self._parts += parts

    def _connect(self, words: Sequence[str]) -> bool:
        """Wait until all have connected; False when a signal asked to stop."""
        count = int(value_of(words, "--connections")) * len(targets(words))
        allowed_s = _CONNECTING_S + _CONNECTING_EACH_S * count
        until_s = time.monotonic() + allowed_s
        while not interrupt.asked():
            asked = [(part, part.ask_connected()) for part in self._parts]
            for part, told in asked:
                part.take(told)
            late = [part.name for part in self._parts if not part.connected]
            if not late:
                return True
            if time.monotonic() > until_s:
                said = f"{', '.join(late)} not connected after {allowed_s:.0f} s"
                raise ProgramError(said)
            time.sleep(_SOON_S)
        return False

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """Let the agent of servers that are started meanwhile not look at them."""
        self.server.watches = False
        try:
            yield
        finally:
            del self.server.watches

    def ready(self, handle: int, *, timeout_s: float) -> dict | None:
        """Return the merged report when all have reported; see `Host.ready`."""
        until_s = time.monotonic() + timeout_s
        while True:
            asked = [(part, part.ask()) for part in self._parts]
            for part, told in asked:
                part.take(told)
            if all(part.report is not None for part in self._parts):
                return self._merged()
            now_s = time.monotonic()
            if now_s >= until_s or interrupt.asked():
                return None
            wanted_s = self.grid.quiet_until_s(min(until_s, now_s + self._between_s()))
            time.sleep(max(0.0, wanted_s - now_s))

    def _between_s(self) -> float:
        left_s = self.grid.ends_s - time.monotonic()
        return SIGN_S if left_s > SIGN_S else LOOK_S

    def stop(self, handle: int, *, grace_s: float, wait_s: float = 0) -> Ended:
        """End all at the same time; the file ``slices`` has the rows of all as one."""
        self._end_all(grace_s=grace_s, wait_s=wait_s)
        ends = [part.ended for part in self._parts if part.ended]
        return Ended(
            exit=next((end.exit for end in ends if end.exit), 0),
            early=any(end.early for end in ends),
            lines=(),
            diagnostics="\n".join(end.diagnostics for end in ends if end.diagnostics),
            files={"slices": merged_turns.table(self._rows)},
        )

    def _end_all(self, *, grace_s: float, wait_s: float) -> None:
        """Begin with all before the first is waited for."""
        ending = []
        for part in self._parts:
            if part.ended is None:
                with contextlib.suppress(HostLost):
                    stopping = part.host.stopping(
                        part.handle, grace_s=grace_s, wait_s=wait_s
                    )
                    ending.append((part, stopping))
        for part, stopping in ending:
            try:
                part.ended = stopping.result()
            except HostLost as error:
                part.why_lost = str(error)

    def _merged(self) -> dict:
        self._end_all(grace_s=_GRACE_S, wait_s=_WAIT_S)
        made = []
        for part in self._parts:
            if part.ended is None or part.report is None:
                raise HostLost(part.why_lost or part.host.lost)
            files = part.ended.files
            made.append(
                merged_turns.Part(
                    name=part.name,
                    report=part.report,
                    rows=turns.table(files["slices"]),
                    histogram=files.get("histogram", b""),
                )
            )
        hosts = (self.server, *self.clients.hosts)
        after = {host.name: host.measured_offset() for host in hosts}
        self.clients.check_clocks(self._offsets, after)
        clocks = {
            name: {
                "offset_ns": offset.ns,
                "bound_ns": offset.bound_ns,
                "offset_after_ns": after[name].ns,
            }
            for name, offset in self._offsets.items()
        }
        *clients, watch = made
        self._rows = merged_turns.merged_rows(
            [client.rows for client in clients],
            watch.rows,
            slice_s=self.grid.slice_s,
            pause_s=self.grid.pause_s,
            shared=self._shared,
        )
        return merged_turns.report(clients, watch, self._rows, clocks)


# ---- words -----------------------------------------------------------------------


def value_of(words: Sequence[str], flag: str) -> str:
    """Return the value of a flag that is given."""
    return words[words.index(flag) + 1]


def _without(words: list[str], flag: str) -> tuple[list[str], list[str]]:
    """Return the words without a flag, and what was taken out."""
    left, taken = [], []
    waiting = iter(words)
    for word in waiting:
        if word == flag:
            taken += [word, next(waiting)]
        else:
            left.append(word)
    return left, taken


def targets(words: Sequence[str]) -> list[str]:
    """Return the targets of a client: what stands before its first flag."""
    first = next(at for at, word in enumerate(words) if word.startswith("--"))
    return list(words[1:first])


def _only_watching(words: Sequence[str], watched: Sequence[str]) -> list[str]:
    """Return the words of the reader on the server's host."""
    told = [word for flag in _SHARED for word in (flag, value_of(words, flag))]
    return [words[0], *targets(words), *told, *watched, "--only-watch"]


def _grid(words: Sequence[str], begins_s: float) -> Grid:
    """Return when slices are; as ``src_c/client/client_grid.h`` counts them."""
    servers = len(targets(words))
    slice_ms, pause_ms = (
        float(value_of(words, flag).removesuffix("ms"))
        for flag in ("--slice", "--pause")
    )
    rounds = sum(
        -(-round(1e9 * float(value_of(words, flag))) // round(1e6 * slice_ms * servers))
        for flag in ("--warmup", "--duration")
    )
    return Grid(begins_s, slice_ms / 1e3, pause_ms / 1e3, rounds * servers)
