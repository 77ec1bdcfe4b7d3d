"""The hosts of a roster as the location of a sweep; see `connlab.drive.location`.

The class of environment holds the facts of every host, so that trials over other hosts
do not mix with these.
"""

import contextlib
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import cores, flags, machine
from connlab.drive.capacity import Room
from connlab.drive.cores import Cores
from connlab.drive.host import HostLost
from connlab.drive.location import ThisMachine
from connlab.drive.programs import Programs
from connlab.hosts import roster as rosters
from connlab.hosts.agent import Agent
from connlab.hosts.carrier import Engine, RemoteHost, Server
from connlab.hosts.group import HostGroup
from connlab.hosts.turning import Turning

#: factors that need server and client, or the driver, on one machine
_ONE_MACHINE = {
    "together": "server and client have no core in common",
    "descriptors": "limits of other hosts are not lowered",
    "sources": "clients have the addresses of their hosts",
    "redis": "the database stands beside the driver",
}
#: factors that several clients cannot share
_ONE_CLIENT = {
    "requests": "a burst ends with the last answer of each client",
    "byte_rate": "a block of connections belongs to one client",
    "response_times": "each client would prolong its window by its own answers",
    "settle": "each client would begin when its own users were answered",
}


class RemoteHosts:
    """A server's host, and those of its clients; the server's among them is loopback.

    `clients` are names of hosts; where one server has clients in several places, those
    of each place by its name, a level of the factor `arm`. What holds of all is asked
    of the place that has most hosts. Servers use `server_cores`, else those that the
    roster names, else all; clients have `client_cores` where they are on the server's
    machine. With `stand_in` all are: hosts are namespaces of this machine, which the
    run's manifest describes. None: the class of environment does not say.

    HostLost when one does not answer, ValueError when one has not built the programs.
    """

    remote = True

    def __init__(
        self,
        engine: Engine,
        clients: Sequence[str] | Mapping[str, Sequence[str]],
        *,
        server_cores: Sequence[int] = (),
        client_cores: Sequence[int] = (),
        stand_in: bool | None = None,
    ) -> None:
        self.engine, self.stand_in = engine, stand_in
        self.server = Server(engine, engine.roster.server, server_cores)
        self._client_cores = tuple(client_cores)
        places = clients if isinstance(clients, Mapping) else {"": clients}
        self._clients = {
            name: RemoteHost(engine, name, self._cores_beside(name))
            for name in dict.fromkeys(itertools.chain(*places.values()))
        }
        #: also the clients' hosts of other places than the widest
        self._every = (self.server, *self._clients.values())
        self._places = {
            place: Turning(HostGroup([self._clients[n] for n in names], self.server))
            for place, names in places.items()
        }
        self._widest = max(self._places.values(), key=lambda p: len(p.clients.hosts))
        self._manifests = {host.name: _described(host) for host in self.hosts}
        self._rooms = _rooms(self.hosts)

    def _cores_beside(self, client: str) -> tuple[int, ...]:
        """Return the cores of a client's host that are beside those of the server."""
        return self._client_cores if self.stand_in or client == self.server.name else ()

    @property
    def hosts(self) -> tuple[RemoteHost, ...]:
        """The server's host, then those of the clients."""
        return (self.server, *self._widest.clients.hosts)

    def turning(self, factors: Mapping[str, Any]) -> Turning:
        return self._places.get(factors.get("arm", ""), self._widest)

    def environment(self, binaries: Mapping[str, str]) -> dict[str, Any]:
        """Return the server's facts, and beside them those of each client's host."""
        server, *clients = map(self._environment, self.hosts)
        said = {} if self.stand_in is None else {"stand_in": self.stand_in}
        return server | {"clients": clients} | said

    def _environment(self, host: RemoteHost) -> dict[str, Any]:
        manifest = self._manifests[host.name]
        facts = manifest["environments"][manifest["environment"]]
        chosen = {"chosen_cores": list(host.cores)} if host.cores else {}
        return facts | {"cores": len(_cores_of(host))} | chosen

    def manifest(self, programs: Programs) -> dict[str, Any]:
        """Return what the server's host says of itself, and each host's machine."""
        environment = self.environment(programs.digests())
        name = machine.environment_class(environment)
        if self.stand_in:
            facts = machine.manifest(programs)
        else:
            now = {"environment": name, "environments": {}, "made_at": machine.now()}
            facts = self._manifests[self.server.name] | now
        facts["environments"] |= {name: environment}
        facts["hosts"] = {
            host.name: {
                "serves": host is self.server,
                "machine": self._manifests[host.name]["machine"],
            }
            for host in reversed(self.hosts)  # on loopback one is both
        }
        return facts

    def core_to_core(self, sets: Cores) -> float | None:
        """Return the seconds from the server's core to the client's and back.

        None where these are on several machines.
        """
        return ThisMachine().core_to_core(sets) if self.stand_in else None

    def registry(self) -> schema.Registry | None:
        registry = self._manifests[self.server.name]["registry"]
        return registry and schema.Registry.model_validate(registry)

    def cores(self, factors: Mapping[str, Any]) -> Cores:
        """Return the server's cores, so many of its host as a trial asks for."""
        chosen, count = _cores_of(self.server), factors.get("cores")
        if count is not None and not factors.get("together"):
            chosen = split(self.server, count).server
        client = self._cores_beside(self.turning(factors).clients.hosts[0].name)
        shared = not set(chosen).isdisjoint(client)
        return Cores(chosen, client, shared, remote=True)

    def cores_in_trial(self) -> dict[str, list[int]]:
        """Return the cores of the server's host on which other programs are noted."""
        return {"watched": list(_cores_of(self.server))}

    def descriptors(self) -> int | None:
        limits = [host.facts["descriptors"] for host in self.hosts]
        return min((limit for limit in limits if limit > 0), default=None)

    def room(self) -> Room:
        """Return the server's tasks and memory, and as many connections as all hold.

        Connections are dealt out evenly, so that the client with the least room decides
        for all; its ports do not, as each server of a set is another peer for them.
        While a host is lost, what was known before.
        """
        with contextlib.suppress(HostLost):
            self._rooms = _rooms(self.hosts)
        (server, _), *clients = self._rooms
        least = min(room.connections for room, _ in clients)
        connections = min(server.connections, len(clients) * least)
        return replace(server, connections=connections)

    def tasks(self) -> int:
        (_, tasks), *_ = self._rooms
        return tasks

    def lacks(self, factors: Mapping[str, Any], model: schema.Model) -> str | None:
        if (model.model_extra or {}).get("digest"):
            reason = "servers from servers.toml listen on loopback only"
            return f"not over several hosts: {reason}"
        hosts = len(self.turning(factors).clients.hosts)
        for name, reason in (_ONE_MACHINE | (_ONE_CLIENT if hosts > 1 else {})).items():
            if factors.get(name):
                return f"not over several hosts: {name}: {reason}"
        if (users := flags.users(factors)) < hosts:
            which = "active " if factors.get("active") else ""
            return f"{users} {which}connections are fewer than {hosts} hosts"
        return flags.unheld(factors, self.descriptors())

    def await_hosts(self) -> None:
        """Ask every host for a sign; make a new agent on one that was lost."""
        for host in self._every:
            try:
                host.call(Agent.renew).result()
            except HostLost:
                host.revive()

    def lost(self) -> list[str]:
        return list(dict.fromkeys(host.name for host in self._every if host.lost))

    def summary(self) -> str:
        texts = []
        for name, place in self._places.items():
            clients = ", ".join(host.name for host in place.clients.hosts)
            text = f"server on {self.server.name}, clients on {clients}"
            texts.append(f"{name}: {text}" if name else text)
        return "; ".join(texts)


def _cores_of(host: RemoteHost) -> tuple[int, ...]:
    """Return the cores that programs on a host may use."""
    return host.cores or tuple(host.facts["cores"])


def split(host: RemoteHost, count: int | None = None) -> Cores:
    """Give the server so many cores of its host, which says what shares a core."""
    physical = host.facts["physical"]
    return cores.split(
        _cores_of(host), server=count, place=lambda core: physical.get(core, core)
    )


def _described(host: RemoteHost) -> dict[str, Any]:
    manifest = host.call(Agent.describe).result()
    if not manifest["programs"]:
        reason = "programs are missing; run `make build` there"
        raise ValueError(f"host {host.name}: {reason}")
    return manifest


def _rooms(hosts: Sequence[RemoteHost]) -> list[tuple[Room, int]]:
    """Return what each host has room for, and its limit of tasks, in their order."""
    calls = [host.call(Agent.room) for host in hosts]
    return [call.result() for call in calls]


@functools.cache
def connected(path: Path) -> RemoteHosts:
    """Return the hosts of a ``hosts.toml``, connected once for the whole process."""
    roster = rosters.load_configured(path)
    return RemoteHosts(Engine(roster), roster.clients)
