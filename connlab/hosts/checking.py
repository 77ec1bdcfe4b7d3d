"""Are the hosts of a roster fit to be measured on, and what does one trial give?

That is what ``connlab hosts check`` and ``connlab hosts trial`` print.
"""

import platform
import statistics
import timeit
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connlab.drive import machine, programs, trials
from connlab.drive.cores import Cores
from connlab.drive.host import HostLost
from connlab.hosts.agent import Agent
from connlab.hosts.carrier import Engine, RemoteHost, Server
from connlab.hosts.clock import Offset
from connlab.hosts.group import HostGroup
from connlab.hosts.roster import Roster

_CALLS, _WARMUP_S = 20, 0.2


@dataclass(frozen=True)
class Checked:
    """One host: what it says of itself, how far it is, what is wrong with it."""

    name: str
    facts: dict[str, Any]
    call_ms: float
    offset: Offset
    problems: tuple[str, ...]

    def __str__(self) -> str:
        facts = self.facts
        lines = [
            f"{self.name}: Linux {facts['kernel']} {facts['architecture']}, Python"
            f" {facts['python']}, cores {len(facts['cores'])}, descriptors"
            f" {facts['descriptors']}",
            f"  call {self.call_ms:.2f} ms, clock {self.offset}",
            *(f"  problem: {text}" for text in self.problems),
        ]
        return "\n".join(lines)


def check(engine: Engine, name: str) -> Checked:
    """Look at one host; HostLost when it has no worker or does not answer."""
    host = RemoteHost(engine, name)
    calls_s = timeit.repeat(
        lambda: host.call(Agent.renew).result(), number=1, repeat=_CALLS
    )
    return Checked(
        name,
        host.facts,
        call_ms=1e3 * statistics.median_high(calls_s),
        offset=host.offset,
        problems=tuple(problems(host)),
    )


def every(engine: Engine) -> tuple[list[Checked], list[str]]:
    """Return what is known of each host of a roster, and which could not be asked."""
    checked, lost = [], []
    for name in engine.roster.names:
        try:
            checked.append(check(engine, name))
        except HostLost as error:
            lost.append(str(error))
    return checked, lost


def problems(host: RemoteHost) -> Iterator[str]:
    """Tell in what a host differs from this one, as far as its trials are concerned."""
    built = programs.built()
    paths = {"server": built.server[-1], "client": built.client[-1]}
    for name, digest in built.digests().items():
        theirs = host.call(Agent.digest, paths[name]).result()
        if theirs is None:
            yield f"build/{name} is missing; run `make build` there"
        elif theirs != digest and host.facts["architecture"] == platform.machine():
            yield f"build/{name} is {theirs}, here it is {digest}"
    theirs, ours = host.call(Agent.describe).result()["git"], machine.manifest()["git"]
    if theirs and ours and theirs["commit"] != ours["commit"]:
        yield f"its commit is {theirs['commit']:.12}, here it is {ours['commit']:.12}"
    if not host.facts["quiet"]:
        yield "Dask's own housekeeping is on; give its worker DASK_CONFIG"


def trial(roster: Roster, factors: Mapping[str, Any]) -> trials.Outcome | None:
    """Run one trial; see `connlab.drive.trials.run`.

    Raises HostLost when a host cannot be reached before the trial begins, ValueError
    for a server that is none of our models.
    """
    names = [model.name for model in programs.models()]
    if factors["model"] not in names:
        raise ValueError(programs.unknown("model", factors["model"], names))
    setting = trials.Setting(
        factors={"warmup": _WARMUP_S} | dict(factors),
        seed=1,
        cores=Cores((), (), shared=False),
        programs=programs.built(),
    )
    with Engine(roster) as engine:
        server = Server(engine, roster.server)
        hosts = [RemoteHost(engine, name) for name in roster.clients]
        clients = HostGroup(hosts, server)
        return trials.run(setting, server_host=server, client_host=clients)


def lines(outcome: trials.Outcome) -> list[str]:
    """Return throughput and latency of all, then what each client host saw."""
    report = outcome.client.model_dump(by_alias=True)
    text = [f"all: {_figures(report)}"]
    for name, host in report["hosts"].items():
        offset = Offset(host["offset_ns"], host["bound_ns"])
        text.append(f"{name}: {_figures(host['report'])}, clock {offset}")
    return text


def _figures(report: Mapping[str, Any]) -> str:
    p99 = report["response"]["p99_ns"]
    p99_text = "unknown" if p99 is None else f"{p99 / 1e6:.3g} ms"
    return (
        f"{report['window']['throughput_rps']:.0f} requests/s, p99 {p99_text},"
        f" {report['connections']['established']} connections"
    )
