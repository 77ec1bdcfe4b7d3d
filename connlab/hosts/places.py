"""One server with its clients in several places, as the location of one sweep.

    arm=loopback   clients on the server's own host, through its loopback interface
    arm=1 host     clients on another one
    arm=2 hosts    on two, and so on

The places take turns block by block, so that drift of the machines meets all alike.
Where no hosts are asked for, a lab of namespaces on this machine stands in for them.
"""

import contextlib
from collections.abc import Iterator, Sequence

from connlab import schema
from connlab.drive import cores, hosts_asked
from connlab.drive.cores import Cores
from connlab.hosts import lab, remote
from connlab.hosts import roster as rosters
from connlab.hosts.carrier import Engine, RemoteHost
from connlab.hosts.remote import RemoteHosts

#: of a study's lab, apart from the one of `make lab`
NUMBER = 79


def name(count: int) -> str:
    """Return the name of the place with so many client hosts; 0: loopback."""
    return "loopback" if not count else f"{count} host{'s' * (count > 1)}"


def missing() -> str | None:
    """Return why nothing can be measured over hosts here; None: it can."""
    return None if hosts_asked.roster() else lab.missing()


def reachable(counts: Sequence[int]) -> list[int]:
    """Return how many client hosts each place has: no more than ``hosts.toml`` names.

    A profile asks for four; where two are named, its places have two at most.
    """
    path = hosts_asked.roster()
    most = (
        len(rosters.load_configured(path).clients) if path else max(counts, default=0)
    )
    return list(dict.fromkeys(min(count, most) for count in counts))


@contextlib.contextmanager
def over(
    counts: Sequence[int], *, measure: bool = True
) -> Iterator[RemoteHosts | None]:
    """Yield a server and its clients on so many hosts each, 0 being loopback.

    The hosts are those that ``CONNLAB_HOSTS`` names, else namespaces that are made here
    and removed at the end. None with ``measure=False``.

    Raises ValueError when there are fewer client hosts than a place needs, RuntimeError
    when no namespaces can be made here.
    """
    if not measure:
        yield None
        return
    if path := hosts_asked.roster():
        with Engine(rosters.load_configured(path)) as engine:
            yield _places(engine, counts)
        return
    # a folder that is known again, so that `up` ends what is left of another
    namespaces = lab.Lab(schema.project_root() / "build" / "lab-14", NUMBER)
    namespaces.up(1 + max(1, *counts), owned=True)
    try:
        with Engine(rosters.load(namespaces.roster)) as engine:
            yield _places(engine, counts, shared=cores.of_trial({}))
    finally:
        namespaces.down()


def _places(
    engine: Engine, counts: Sequence[int], *, shared: Cores | None = None
) -> RemoteHosts:
    """Return the places; `shared` are the cores of a machine that all hosts share."""
    roster = engine.roster
    if max(counts) > len(roster.clients):
        raise ValueError(
            f"hosts: {max(counts)}; allowed: 0 to {len(roster.clients)}, as many as"
            " hosts.toml has clients"
        )
    sets = shared or remote.split(RemoteHost(engine, roster.server))
    return RemoteHosts(
        engine,
        {name(count): roster.clients[:count] or (roster.server,) for count in counts},
        server_cores=sets.server,
        client_cores=sets.client,
        stand_in=shared is not None,
    )
