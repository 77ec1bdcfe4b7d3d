"""Where a sweep measures: on this machine, or over the hosts of ``CONNLAB_HOSTS``.

A location knows where server and client run, of what class that environment is, which
cores and descriptors there are, and what cannot be measured there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from connlab import schema
from connlab.drive import capacity, cores, hosts_asked, machine
from connlab.drive.capacity import Room
from connlab.drive.cores import Cores
from connlab.drive.host import Host
from connlab.drive.programs import Programs
from connlab.drive.turns import Clients


class Location(Protocol):
    """Where a sweep measures; `ThisMachine` is this machine."""

    remote: bool
    server: Host | None
    """None: the sweep makes one on this machine."""

    def client_of(self, factors: Mapping[str, Any]) -> Host | None:
        """Return the clients of a cell; None: beside the server."""

    def turning(self, factors: Mapping[str, Any]) -> Clients | None:
        """Return the clients of servers that take turns; None: beside the servers."""

    def environment(self, binaries: Mapping[str, str]) -> dict[str, Any]:
        """Return what must be equal for two trials to be compared."""

    def manifest(self, programs: Programs) -> dict[str, Any]:
        """Return all that a run's manifest says of machines and software."""

    def registry(self) -> schema.Registry | None:
        """Return what the server can do there; None: what it can do here."""

    def cores(self, factors: Mapping[str, Any]) -> Cores:
        """Return the core sets of a trial; ValueError where there are not so many."""

    def core_count(self) -> int:
        """Return how many cores the machine of the server has for a run."""

    def recorded(self) -> dict[str, list[int] | bool]:
        """Return what a trial keeps about cores beside its own sets."""

    def descriptors(self) -> int | None:
        """Return how many one process may have; None: any number."""

    def room(self) -> Room:
        """Return what servers that take turns may use now, and their clients."""

    def tasks(self) -> int:
        """Return how many tasks the system of the servers allows in all."""

    def lacks(self, factors: Mapping[str, Any], model: schema.Model) -> str | None:
        """Return why a cell cannot be measured there; None: it can."""

    def await_hosts(self) -> None:
        """Return when all hosts answer; HostLost where one does not come back."""

    def lost(self) -> list[str]:
        """Return the names of hosts that do not answer now."""

    def summary(self) -> str:
        """Return what each host does, for a line of progress; may be empty."""


class ThisMachine:
    """This machine, with server and client beside each other."""

    remote = False
    server: Host | None = None

    def client_of(self, factors: Mapping[str, Any]) -> Host | None:
        """See `Location`, also for the methods below."""
        return None

    def turning(self, factors: Mapping[str, Any]) -> Clients | None:
        return None

    def environment(self, binaries: Mapping[str, str]) -> dict[str, Any]:
        return machine.environment(binaries)

    def manifest(self, programs: Programs) -> dict[str, Any]:
        return machine.manifest(programs)

    def registry(self) -> schema.Registry | None:
        return None

    def cores(self, factors: Mapping[str, Any]) -> Cores:
        return cores.asked(factors)

    def core_count(self) -> int:
        return cores.count()

    def recorded(self) -> dict[str, list[int] | bool]:
        return {}

    def descriptors(self) -> int | None:
        return machine.limits()["descriptors"]["hard"]

    def room(self) -> Room:
        return capacity.here()

    def tasks(self) -> int:
        return capacity.tasks()

    def lacks(self, factors: Mapping[str, Any], model: schema.Model) -> str | None:
        return None

    def await_hosts(self) -> None:
        return

    def lost(self) -> list[str]:
        return []

    def summary(self) -> str:
        return ""


def configured() -> Location:
    """Return the hosts that the environment names, this machine if it names none.

    Raises
    ------
    ValueError
        When the file is no roster, or a host lacks a program.
    HostLost, OSError
        When they cannot be reached.
    """
    path = hosts_asked.roster()
    if path is None:
        return ThisMachine()
    from connlab.hosts import remote

    return remote.connected(path)


def core_count() -> int:
    """Return how many cores the machine of the server has for a run.

    While a run is evaluated again: how many it had.
    """
    return configured().core_count()
