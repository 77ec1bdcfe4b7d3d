"""Agents carried by Dask distributed: a scheduler, a worker per host, an actor on each.

Workers are named like the hosts of ``hosts.toml``. Dask's own housekeeping (profiles,
system monitor, stealing) is switched off, as it would use cores that are measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
import yaml

from connlab.drive import interrupt
from connlab.drive.address import Address
from connlab.drive.host import Ended, HostLost, ProgramError, Reading
from connlab.hosts import certificates, clock
from connlab.hosts.agent import LEASE_S, Agent
from connlab.hosts.roster import Roster

#: an agent looks for a program's line so long before it lets other calls in
SLICE_S = 0.5
#: longer than a network that fails for two seconds needs to carry a call after all
PATIENCE_S = 6.0
#: a scheduler that does not take a connection in this time is not there
REACH_S = 5.0
#: how long a host that was lost may take to come back before the next trial
RETURN_S = 10.0
#: so many ports servers take in turn, below those that the kernel gives to clients
PORTS = 8192
#: the next of them of which one is taken, as other programs may listen on some
TRIED = 4
#: below them none is taken without privilege
ROOTS_PORTS = 1024
#: without a dashboard Dask serves HTTP all the same, by default on every address
LOCAL_HTTP = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
#: what a look is said to cost at most: who looks rarely lets a lease end
COST_MOST_S = 0.02

SETTINGS: dict[str, Any] = {
    "distributed": {
        "worker": {
            "preload": [Agent.__module__],
            "profile": {"enabled": False},
            "memory": {
                **dict.fromkeys(("target", "spill", "pause", "terminate"), False),
                "monitor-interval": "1h",
            },
            "http": {"routes": []},
        },
        "admin": {
            "tick": {"interval": "1h", "limit": "1h", "cycle": "1h"},
            "system-monitor": {"interval": "1h", "disk": False},
        },
        "scheduler": {
            "work-stealing": False,
            "active-memory-manager": {"start": False},
            "allowed-failures": 0,
            "worker-ttl": "30s",
            "http": {"routes": []},
        },
        "client": {"heartbeat": "30s", "scheduler-info-interval": "30s"},
        # below 11 s Dask cannot set its keep-alive probes
        "comm": {"timeouts": {"connect": "5s", "tcp": "12s"}},
        "diagnostics": {"nvml": False},
    }
}


def write_settings(folder: Path) -> None:
    """Write `SETTINGS` for a process that gets the folder as ``DASK_CONFIG``."""
    (folder / "dask.yaml").write_text(yaml.safe_dump(SETTINGS))


def scheduler_command(roster: Roster) -> list[str]:
    words = "-m", "distributed.cli.dask_scheduler", "--host", roster.scheduler
    flags = certificates.flags(roster.certificates, "scheduler")
    return [sys.executable, *words, *LOCAL_HTTP, *flags]


def worker_command(
    roster: Roster, name: str, *, keys: Path | None, folder: Path
) -> list[str]:
    """Return the command of a host's worker.

    `keys` is where its certificate lies there, and `folder` where it may keep files.
    """
    scheme = urlsplit(roster.scheduler).scheme
    address = Address(roster.hosts[name].address, 0)
    return [
        *(sys.executable, "-m", "distributed.cli.dask_worker", roster.scheduler),
        *("--name", name, "--host", f"{scheme}://{address}"),
        *("--nthreads", "1", "--no-nanny"),
        *("--memory-limit", "0", "--death-timeout", "20", *LOCAL_HTTP),
        *certificates.flags(keys, "worker"),
        *("--local-directory", str(folder)),
    ]


class Engine(contextlib.AbstractContextManager):
    """The connection of a driver to the agents of a roster."""

    def __init__(self, roster: Roster, *, lease_s: float = LEASE_S) -> None:
        dask.config.update(dask.config.config, SETTINGS)
        from distributed import Client, Security

        self.roster, self.lease_s = roster, lease_s
        security = None
        if roster.certificates:
            folder = roster.certificates
            (folder / certificates.AUTHORITY).stat()  # ssl would not name the file
            security = Security(
                tls_ca_file=str(folder / certificates.AUTHORITY),
                tls_client_cert=str(folder / "client.pem"),
                tls_client_key=str(folder / "client.key"),
                require_encryption=True,
            )
        _reach(roster.scheduler, security)
        self._client = Client(
            roster.scheduler, security=security, direct_to_workers=True, timeout=10
        )

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def workers(self) -> dict[str, str]:
        """Return the addresses of workers by name; to Dask a name may be a number.

        OSError when the scheduler has been away for so long that Dask gave it up.
        """
        known = self._client.scheduler_info(n_workers=-1)
        if "workers" not in known:
            raise OSError("it does not answer any more")
        workers = known["workers"].items()
        return {str(worker["name"]): address for address, worker in workers}

    def make_agent(self, name: str, watched: tuple[int, ...]) -> Any:
        """Return a new agent on a host; HostLost when it has no worker in time.

        It reads the CPU time of the cores `watched`, of all if there are none.
        """
        until = time.monotonic() + RETURN_S
        while not (worker := self._worker(name)):
            if time.monotonic() > until or interrupt.requested():
                raise HostLost(f"host {name}: no worker")
            time.sleep(0.05)
        made = Agent, self.roster.hosts[name].address, self.lease_s, watched
        how: dict[str, Any] = {"actor": True, "workers": [worker], "pure": False}
        try:
            return self._client.submit(*made, **how).result(timeout=PATIENCE_S)
        # a worker or the scheduler that goes meanwhile: Dask's errors of it have no
        # class in common
        except Exception as error:
            raise HostLost(f"host {name}: {_first_line(error)}") from error

    def _worker(self, name: str) -> str | None:
        try:
            return self.workers().get(name)
        except (OSError, RuntimeError) as error:
            reason = f"host {name}: no scheduler: {_first_line(error)}"
            raise HostLost(reason) from error

    def close(self) -> None:
        """Leave; agents end what they run."""
        self._client.close(timeout=2)


def _reach(scheduler: str, security: Any) -> None:
    """Raise OSError where no scheduler of this run answers.

    A Dask client that fails to connect is not to be had any more, and goes on trying,
    a descriptor each time.
    """
    url = urlsplit(scheduler)
    address = (url.hostname or "", url.port or 0)
    try:
        with socket.create_connection(address, timeout=REACH_S) as sock:
            if security is not None:
                context = security.get_connection_args("client")["ssl_context"]
                context.wrap_socket(sock, server_hostname=address[0]).close()
    except OSError as error:
        raise OSError(f"scheduler {scheduler}: {error}") from error


class RemoteHost:
    """Another host, by the agent on it.

    One that does not answer raises `HostLost` at once from then on, until it is
    revived. `cores` are those that its programs may use and its agent watches: else
    those that the roster names, else all.
    """

    def __init__(self, engine: Engine, name: str, cores: Sequence[int] = ()) -> None:
        self.engine, self.name, self.place = engine, name, engine.roster.hosts[name]
        self.cores = tuple(cores) or self.place.cores
        self.lost = f"host {name}: not asked yet"
        self.revive()

    def revive(self) -> None:
        """Make a new agent on a host that was lost; HostLost when it is not back."""
        if not self.lost:
            return
        agent = self.engine.make_agent(self.name, self.cores)
        self._agent, self.lost = agent, ""
        self.facts = self.call(Agent.introduce).result()
        self.offset = self.measured_offset()

    def call(self, method: Callable, *arguments: Any, **options: Any) -> Pending:
        """Begin to call a method of `Agent`; its result, or HostLost, comes later."""
        future = None
        if not self.lost:
            try:
                future = self._agent.do(method.__name__, *arguments, **options)
            except (OSError, RuntimeError) as error:
                self.gone(error)
        return Pending(self, future)

    def gone(self, error: Exception) -> HostLost:
        """Note that the host is lost; return what to raise."""
        self.lost = f"host {self.name}: {_first_line(error)}"
        return HostLost(self.lost)

    def measured_offset(self) -> clock.Offset:
        """Return how far the host's clock is ahead of ours."""
        port, token = self.facts["port"], self.facts["token"]
        try:
            return clock.offset(self.place.address, port, token)
        except OSError as error:
            raise self.gone(error) from error

    def starting(
        self,
        argv: Sequence[str],
        *,
        cores: Sequence[int] = (),
        files: Sequence[str] = (),
        **how: bool,
    ) -> Pending:
        """Begin to start a program; `how` are other arguments of `Agent.start`."""
        where = tuple(cores or self.cores)
        return self.call(Agent.start, argv, cores=where, files=tuple(files), **how)

    def stopping(self, handle: int, *, grace_s: float, wait_s: float) -> Pending:
        pending = self.call(Agent.stop, handle, grace_s=grace_s, wait_s=wait_s)
        pending.patience_s += grace_s + wait_s
        return pending


class Server(RemoteHost):
    """The `connlab.drive.host.Host` of servers, with times of the driver's clock.

    They bind the address that ``hosts.toml`` names, each another port. A crowd that
    filled the ports of this host leaves them in TIME_WAIT for a minute, so that the
    kernel gives the next server a port that the last one had, to which as many ports of
    the clients are not free again.
    """

    #: whether the agent reads the programs' CPU time by itself
    watches = True
    #: what a look is said to cost at least
    cost_least_s = 0.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ports = itertools.count(random.randrange(PORTS))

    def _port(self) -> int:
        """Return the next port that is free.

        0, and the kernel chooses, also where clients may have all above those of root.
        """
        lowest = self.facts["ephemeral"] - PORTS
        if lowest < ROOTS_PORTS:
            return 0
        ports = [lowest + next(self._ports) % PORTS for _ in range(TRIED)]
        return self.call(Agent.vacant, self.place.address, ports).result()

    def start(self, argv: Sequence[str], **options: Sequence) -> int:
        """Start a server; on a host that was lost, after it has come back."""
        if not argv[0].endswith("/server"):
            raise ProgramError(f"{argv[0]}: only our own servers bind an address")
        self.revive()
        words = [*argv, "--listen", str(Address(self.place.address, self._port()))]
        handle = self.starting(words, watch=self.watches, **options).result()
        self.cost_least_s = 0.0
        if self.watches:  # its readings are cut to a window of the driver's clock
            self.offset = self.measured_offset()
        return handle

    def expect(self, *edges_s: float) -> None:
        """Tell the agent the edges of a window on the driver's clock.

        From then on it looks often around these only, and looks of the driver are said
        to cost as much as they may, so that they are rare.
        """
        ahead_s = self.offset.ns / 1e9
        self.call(Agent.expect, [edge + ahead_s for edge in edges_s]).result()
        self.cost_least_s = COST_MOST_S

    def ready(self, handle: int, *, timeout_s: float) -> dict | None:
        until = time.monotonic() + timeout_s
        while True:
            slice_s = min(until - time.monotonic(), SLICE_S)
            line = self.call(Agent.ready, handle, timeout_s=slice_s).result()
            if line is not None or time.monotonic() >= until or interrupt.requested():
                return line

    def sample(self, handle: int, **options: bool) -> Reading:
        """Look at the program; what it costs is the whole call, so looks are rare."""
        began = time.monotonic()
        reading = self.call(Agent.sample, handle, **options).result()
        before = tuple(map(self._on_our_clock, reading.before))
        cost_s = max(self.cost_least_s, min(time.monotonic() - began, COST_MOST_S))
        reading = self._on_our_clock(reading)
        return dataclasses.replace(reading, before=before, cost_s=cost_s)

    def _on_our_clock(self, reading: Reading) -> Reading:
        ahead_s = self.offset.ns / 1e9
        processes, machine = (
            facts and dataclasses.replace(facts, time_s=facts.time_s - ahead_s)
            for facts in (reading.processes, reading.machine)
        )
        return dataclasses.replace(reading, processes=processes, machine=machine)

    def ask_to_end(self, handle: int) -> None:
        self.call(Agent.ask_to_end, handle).result()

    def stop(self, handle: int, *, grace_s: float, wait_s: float = 0) -> Ended:
        return self.stopping(handle, grace_s=grace_s, wait_s=wait_s).result()

    def pause(self, handle: int) -> None:
        self.call(Agent.pause, handle).result()

    def resume(self, handle: int) -> None:
        self.call(Agent.resume, handle).result()


@dataclasses.dataclass
class Pending:
    """A call that is under way; without a future the host was lost before."""

    host: RemoteHost
    future: Any
    patience_s: float = PATIENCE_S

    def result(self) -> Any:
        """Return what the agent returned, or raise what it raised."""
        if self.future is None:
            raise HostLost(self.host.lost)
        try:
            return self.future.result(timeout=self.patience_s)
        except ProgramError:
            raise
        except TimeoutError:
            raise self.host.gone(TimeoutError("does not answer")) from None
        except ProcessLookupError as error:
            raise HostLost(f"host {self.host.name}: {error}") from error
        except (OSError, RuntimeError) as error:
            raise self.host.gone(error) from error


def _first_line(error: BaseException) -> str:
    return str(error).split("\n")[0] or type(error).__name__
