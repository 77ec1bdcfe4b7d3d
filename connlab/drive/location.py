"""Where a sweep measures: on this machine, or over the hosts of ``CONNLAB_HOSTS``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from connlab import schema
from connlab.drive import capacity, cores, flags, hosts_asked, machine, store
from connlab.drive.capacity import Room
from connlab.drive.cores import Cores
from connlab.drive.floor import core_to_core_s
from connlab.drive.host import Host
from connlab.drive.programs import Programs

if TYPE_CHECKING:
    from connlab.hosts.turning import Turning


class Location(Protocol):
    """Where a sweep measures; the bodies here are those of `ThisMachine`."""

    remote: bool = False
    server: Host | None = None
    """None: the sweep makes one on this machine."""

    def turning(self, factors: Mapping[str, Any]) -> Turning | None:
        """Return the clients of a cell, for servers in turns; None: beside the server.

        For one that is measured alone they are its `clients`.
        """
        return None

    def environment(self, binaries: Mapping[str, str]) -> dict[str, Any]:
        """Return what must be equal for two trials to be compared."""
        return machine.environment(binaries)

    def manifest(self, programs: Programs) -> dict[str, Any]:
        """Return all that a run's manifest says of machines and software."""
        return machine.manifest(programs)

    def registry(self) -> schema.Registry | None:
        """Return what the server can do there; None: what it can do here."""
        return None

    def cores(self, factors: Mapping[str, Any]) -> Cores:
        """Return the core sets of a trial; ValueError where there are not so many."""
        return cores.of_trial(factors)

    def core_to_core(self, sets: Cores) -> float | None:
        """Return the seconds from the server's core to the client's and back.

        None where they have one core, or are on several machines.
        """
        return core_to_core_s(sets)

    def cores_in_trial(self) -> dict[str, list[int]]:
        """Return what a trial keeps beside its own sets: the cores that a run has."""
        return {"watched": list(cores.available())}

    def descriptors(self) -> int | None:
        """Return how many one process may have; None: any number."""
        return machine.limits()["descriptors"]["hard"]

    def room(self) -> Room:
        """Return what servers that take turns may use now, and their clients."""
        return capacity.local_room(len(self.cores({}).client))

    def tasks(self) -> int:
        """Return how many tasks the system of the servers allows in all."""
        return capacity.tasks()

    def lacks(self, factors: Mapping[str, Any], model: schema.Model) -> str | None:
        """Return why a cell cannot be measured there; None: it can."""
        return flags.unheld(factors, self.descriptors())

    def await_hosts(self) -> None:
        """Return when all hosts answer; HostLost where one does not come back."""
        return

    def lost(self) -> list[str]:
        """Return the names of hosts that do not answer now."""
        return []

    def summary(self) -> str:
        """Return what each host does, for a line of progress; may be empty."""
        return ""


class ThisMachine(Location):
    """This machine, with server and client beside each other."""


def configured() -> Location:
    """Return the hosts that ``CONNLAB_HOSTS`` names, this machine if it names none.

    ValueError when the file is no roster, or a host lacks a program; HostLost and
    OSError when hosts cannot be reached.
    """
    path = hosts_asked.roster()
    if path is None:
        return ThisMachine()
    from connlab.hosts import remote

    return remote.connected(path)


def core_count(recorded: Path | None = None) -> int:
    """Return how many cores the machine of the server has for a run.

    With `recorded`, the folder of a run: how many it had.
    """
    if recorded:
        return store.recorded_manifest(recorded)["machine"]["cores"]
    return len(configured().cores_in_trial()["watched"])
