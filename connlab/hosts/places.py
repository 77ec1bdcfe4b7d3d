"""One server with its clients in several places, as the location of one sweep.

    arm=loopback   clients on the server's own host, through its loopback interface
    arm=1 host     clients on another one
    arm=2 hosts    on two, and so on

The places take turns block by block, so that drift of the machines meets all alike.
Where no hosts are asked for, a lab of namespaces on this machine stands in for them.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from connlab import schema
from connlab.drive import cores, evaluation, hosts_asked, machine, programs
from connlab.drive.cores import Cores
from connlab.drive.host import Host
from connlab.drive.programs import Programs
from connlab.hosts import lab
from connlab.hosts import roster as rosters
from connlab.hosts.carrier import Engine, RemoteHost
from connlab.hosts.remote import RemoteHosts
from connlab.hosts.turning import Turning

#: of a study's lab, apart from the one of `make lab`
NUMBER = 79


def name(count: int) -> str:
    """Return the name of the place with so many client hosts; 0: loopback."""
    return "loopback" if not count else f"{count} host{'s' * (count > 1)}"


class Places:
    """The location of a sweep whose factor `arm` says where the clients are.

    All `locations`, by the name of the place, have the same server. With `stand_in` all
    hosts are namespaces of this machine. What is not defined here holds of all hosts,
    and is asked of the place that has most of them.
    """

    remote = True

    def __init__(self, locations: Mapping[str, RemoteHosts], *, stand_in: bool) -> None:
        self.locations, self.stand_in = dict(locations), stand_in
        self._widest = max(self.locations.values(), key=lambda place: len(place.hosts))
        self.server: Host = self._widest.server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._widest, name)

    def _of(self, factors: Mapping[str, Any]) -> RemoteHosts:
        return self.locations.get(factors.get("arm", ""), self._widest)

    def client_of(self, factors: Mapping[str, Any]) -> Host:
        """See `connlab.drive.location.Location`, as for all that follow."""
        return self._of(factors).client

    def turning(self, factors: Mapping[str, Any]) -> Turning:
        return self._of(factors).turning(factors)

    def environment(self, binaries: Mapping[str, str]) -> dict[str, Any]:
        return self._widest.environment(binaries) | {"stand_in": self.stand_in}

    def manifest(self, programs: Programs) -> dict[str, Any]:
        facts = self._widest.manifest(programs)
        environment = self.environment(programs.digests())
        name = machine.environment_class(environment)
        facts["environments"] |= {name: environment}
        return facts

    def cores(self, factors: Mapping[str, Any]) -> Cores:
        return self._of(factors).cores(factors)

    def lacks(self, factors: Mapping[str, Any], model: schema.Model) -> str | None:
        return self._of(factors).lacks(factors, model)

    def await_hosts(self) -> None:
        for location in self.locations.values():
            location.await_hosts()

    def lost(self) -> list[str]:
        names = (location.lost() for location in self.locations.values())
        return list(dict.fromkeys(itertools.chain.from_iterable(names)))

    def summary(self) -> str:
        places = self.locations.items()
        return "; ".join(f"{name}: {location.summary()}" for name, location in places)


def missing() -> str | None:
    """Return why nothing can be measured over hosts here; None: it can, or is there."""
    if evaluation.folder() or hosts_asked.roster():
        return None
    return lab.missing()


@contextlib.contextmanager
def over(counts: Sequence[int]) -> Iterator[Places | None]:
    """Yield a server and its clients on so many hosts each, 0 being loopback.

    The hosts are those that ``CONNLAB_HOSTS`` names, else namespaces that are made here
    and removed at the end. None while a run is evaluated, as nothing is measured then.

    Raises ValueError when there are fewer client hosts than a place needs, RuntimeError
    when no namespaces can be made here.
    """
    if evaluation.folder():
        yield None
        return
    if path := hosts_asked.roster():
        with Engine(rosters.asked(path)) as engine:
            yield _places(engine, counts)
        return
    # a folder that is known again, so that `up` ends what is left of another
    namespaces = lab.Lab(schema.project_root() / "build" / "lab-14", NUMBER)
    namespaces.up(1 + max(1, *counts), owned=True)
    try:
        with Engine(rosters.load(namespaces.roster)) as engine:
            yield _places(engine, counts, shared=cores.asked({}))
    finally:
        namespaces.down()


def _places(
    engine: Engine, counts: Sequence[int], *, shared: Cores | None = None
) -> Places:
    """Return the places; `shared` are the cores of a machine that all hosts share."""
    roster = engine.roster
    if max(counts) > len(roster.clients):
        raise ValueError(
            f"hosts: {max(counts)}; allowed: 0 to {len(roster.clients)}, as many as"
            " hosts.toml has clients"
        )
    server = RemoteHost(engine, roster.server)
    physical = server.facts["physical"]
    sets = shared or cores.split(
        server.cores or tuple(server.facts["cores"]),
        place=lambda core: physical.get(core, core),
    )
    manifest = machine.manifest(programs.built()) if shared else None
    locations = {
        name(count): RemoteHosts(
            engine,
            roster.clients[:count] or (roster.server,),
            server_cores=sets.server,
            client_cores=sets.client if shared or not count else (),
            manifest=manifest,
        )
        for count in counts
    }
    return Places(locations, stand_in=shared is not None)
