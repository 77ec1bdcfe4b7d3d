"""What ``connlab hosts check`` prints of each host before anything is measured."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from connlab.drive import programs
from connlab.drive.host import HostLost
from connlab.hosts.agent import Agent
from connlab.hosts.carrier import Engine, RemoteHost

_CALLS = 20


@dataclass(frozen=True)
class Checked:
    """One host: what it says of itself, how far it is, what is wrong with it."""

    name: str
    facts: dict[str, Any]
    call_ms: float
    offset_us: float
    bound_us: float
    wrong: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = self.facts
        lines = [
            f"{self.name}: Linux {told['kernel']} {told['architecture']}, Python"
            f" {told['python']}, cores {len(told['cores'])}, descriptors"
            f" {told['descriptors']}",
            f"  call {self.call_ms:.2f} ms, clock {self.offset_us:+.0f} us"
            f" ± {self.bound_us:.0f} us",
            *(f"  problem: {text}" for text in self.wrong),
        ]
        return "\n".join(lines)


def check(engine: Engine, name: str) -> Checked:
    """Look at one host.

    Raises
    ------
    HostLost
        When it has no worker or does not answer.
    """
    host = engine.host(name)
    took = sorted(_call_s(host) for _ in range(_CALLS))
    return Checked(
        name,
        host.facts,
        1e3 * took[_CALLS // 2],
        host.offset.ns / 1e3,
        host.offset.bound_ns / 1e3,
        tuple(_other_programs(host)),
    )


def every(engine: Engine) -> tuple[list[Checked], list[str]]:
    """Return what is known of each host of a roster, and which could not be asked."""
    found, lost = [], []
    roster = engine.roster
    for name in dict.fromkeys((roster.server, *roster.clients)):
        try:
            found.append(check(engine, name))
        except HostLost as error:
            lost.append(str(error))
    return found, lost


def _call_s(host: RemoteHost) -> float:
    began = time.monotonic()
    host.call(Agent.renew).result()
    return time.monotonic() - began


def _other_programs(host: RemoteHost) -> list[str]:
    """Return what is wrong with the host's programs, compared with ours."""
    built = programs.built()
    paths = {"server": built.server[-1], "client": built.client[-1]}
    wrong = []
    for name, digest in built.digests().items():
        theirs = host.call(Agent.digest, paths[name]).result()
        if theirs is None:
            wrong.append(f"build/{name} is missing; run `make build` there")
        elif theirs != digest:
            wrong.append(f"build/{name} is {theirs}, here it is {digest}")
    return wrong
