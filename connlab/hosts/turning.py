"""Clients on several hosts that turn between servers at the same fixed moments.

    driver   all have connected -> tell a moment -> quiet, a sign in a pause -> reports
    clients  |-- slice --|-- pause --|-- slice --|-- pause --| ...      each its clock
    server's host            reads       reads       reads      CPU time of all servers

To `connlab.drive.turns` all of it is one client. Every host is told the same seed for
the order of targets, and the first slice's beginning on its own clock. Nobody calls a
host while a slice is under way: signs that renew leases are asked for in pauses, unless
a lease would end before the next one.
"""

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.drive import interrupt, turns
from connlab.drive.host import Ended, HostLost, ProgramError
from connlab.hosts import merged_turns
from connlab.hosts.group import HostGroup, divided, table
from connlab.hosts.remote_programs import RemotePrograms

#: between two signs of a host while slices are under way, and else
SIGN_S, LOOK_S = 1.0, 0.05
#: how far into a pause a sign is asked for, as a share of it: clocks may differ
_INTO_PAUSE = 0.25
#: how long programs may take to end by themselves, and after SIGTERM
_WAIT_S, _GRACE_S = 5.0, 1.0
#: how long clients may connect, and more for each connection; between two looks
_CONNECTING_S, _CONNECTING_EACH_S, _SOON_S = 30.0, 0.002, 0.02
_HANDLE = 1
#: what the reader of CPU clocks must be told as clients are
_LENGTHS = ("--slice", "--lead-in", "--pause", "--duration", "--warmup")


@dataclass(frozen=True)
class Grid:
    """When slices are, on the driver's clock; all in seconds."""

    begins_s: float
    slice_s: float
    pause_s: float
    count: int

    @property
    def ends_s(self) -> float:
        return self.begins_s + self.count * (self.slice_s + self.pause_s)

    def quiet_until_s(self, at_s: float) -> float:
        """Return the first moment from `at_s` on that lies in no slice."""
        if not self.begins_s - self.pause_s < at_s < self.ends_s:
            return at_s
        every_s = self.slice_s + self.pause_s
        first_s = self.begins_s + self.slice_s + _INTO_PAUSE * self.pause_s
        return first_s + max(0, -int((first_s - at_s) // every_s)) * every_s


class Turning(RemotePrograms):
    """The clients of a set, on hosts of their own; `connlab.drive.turns` runs them.

    The last of the programs reads CPU time, on the server's host. `pauses` keeps how
    long a pause must be, in slices, by the name of a set; `grid` is when slices are. A
    server that is measured alone has `clients` only.
    """

    def __init__(self, clients: HostGroup) -> None:
        super().__init__()
        self.clients, self.server = clients, clients.server
        self.pauses: dict[str, float] = {}
        self.grid = Grid(0, 0, 0, 0)
        self._rows: list[dict[str, Any]] = []
        self._shared = False

    def start(
        self,
        command: Sequence[str],
        words: Sequence[str],
        setting: turns.Setting,
        watched: Sequence[str],
    ) -> int:
        """Start a client on every host, each with its share, and who reads CPU time.

        `command` is a client with its targets, and `words` are its flags, each with a
        value; `watched` are processes of the servers. Returns when all have connected
        and know when the first slice begins.
        """
        hosts, cores = self.clients.hosts, setting.cores
        self.programs, self._rows = [], []
        self._shared = not set(cores.client).isdisjoint(cores.server)
        for host in (self.server, *hosts):
            host.revive()
        order = ["--order", str(setting.seed)]
        lengths = {flag: words[words.index(flag) + 1] for flag in _LENGTHS}
        watch = [word for pids in watched for word in ("--watch", pids)]
        reader = [*command, *itertools.chain(*lengths.items()), *order, *watch]
        try:
            self.start_all(
                hosts,
                divided([*command, *words, *order], len(hosts)),
                cores=cores.client,
                files=("slices", "histogram"),
            )
            self.start_all(
                [self.server],
                [[*reader, "--only-watch"]],
                cores=cores.server,
                files=("slices",),
            )
            if self._connect(sum(setting.connections)):
                self.grid = _grid(lengths, len(setting.servers), self.schedule())
        except (HostLost, ProgramError):
            self.end_all(grace_s=0, wait_s=0)
            raise
        return _HANDLE

    def _connect(self, connections: int) -> bool:
        """Wait until all have connected; False when a signal asked to stop."""
        allowed_s = _CONNECTING_S + _CONNECTING_EACH_S * connections
        until_s = time.monotonic() + allowed_s
        while not interrupt.requested():
            self.ask_all()
            if self.connected:
                return True
            if time.monotonic() > until_s:
                names = ", ".join(p.name for p in self.programs if not p.connected)
                raise ProgramError(f"{names} not connected after {allowed_s:.0f} s")
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
        until_s = time.monotonic() + timeout_s
        while True:
            self.ask_all()
            if self.reported:
                return self._merged()
            now_s = time.monotonic()
            if now_s >= until_s or interrupt.requested():
                return None
            between_s = SIGN_S if self.grid.ends_s - now_s > SIGN_S else LOOK_S
            next_s = self.grid.quiet_until_s(min(until_s, now_s + between_s))
            # rather a sign in a long slice than none before leases end
            next_s = min(next_s, now_s + self.server.engine.lease_s / 2)
            time.sleep(max(0.0, next_s - now_s))

    def stop(self, handle: int, *, grace_s: float, wait_s: float = 0) -> Ended:
        self.end_all(grace_s=grace_s, wait_s=wait_s)
        return self.ended_as_one(slices=table(self._rows))

    def _merged(self) -> dict:
        self.end_all(grace_s=_GRACE_S, wait_s=_WAIT_S)
        *clients, watched = (turns.table(p.files()["slices"]) for p in self.programs)
        ended = [merged_turns.ended_targets(p.report) for p in self.programs[:-1]]
        clocks = self.check_clocks()
        lengths = {"slice_s": self.grid.slice_s, "pause_s": self.grid.pause_s}
        self._rows = merged_turns.merged_rows(
            clients, watched, ended=ended, **lengths, shared=self._shared
        )
        return merged_turns.report(self.programs, self._rows, clocks)


def _grid(lengths: Mapping[str, str], servers: int, begins_s: float) -> Grid:
    """Return when slices are; as ``src_c/client/client_grid.h`` counts them."""
    slice_ms, pause_ms = (
        float(lengths[flag].removesuffix("ms")) for flag in ("--slice", "--pause")
    )
    round_ns = round(1e6 * slice_ms * servers)
    rounds = sum(
        -(-round(1e9 * float(lengths[flag])) // round_ns)
        for flag in ("--warmup", "--duration")
    )
    return Grid(begins_s, slice_ms / 1e3, pause_ms / 1e3, rounds * servers)
