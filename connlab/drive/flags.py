"""From the names of factors to the flags of the two programs.

`FLAGS` is the only place where a factor's name meets a flag. A value of None means
that the flag is left out, so that the program's own default holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from connlab import schema
from connlab.drive.programs import unknown

SERVER, CLIENT, DRIVE = "server", "client", "drive"
#: what a client process opens beside its connections, generously
OWN_DESCRIPTORS = 64
#: how long a client waits at most for everybody's first answer
SETTLE_S = 3.0

#: connects per second at most to servers that others wrote
CONNECT_RATE = 10_000

#: windows last up to so many times their duration where ``duration_max`` is not said
LONGER = 5

#: factor -> the programs that get it, and the flag (without the dashes)
FLAGS: dict[str, tuple[tuple[str, ...], str]] = {
    "model": ((SERVER,), ""),
    "workload": ((SERVER, CLIENT), "workload"),
    "workers": ((SERVER,), "workers"),
    "processes": ((SERVER,), "processes"),
    "backlog": ((SERVER,), "backlog"),
    "extra_ns": ((SERVER,), "extra-ns"),
    "queue": ((SERVER,), "queue"),
    "buckets": ((SERVER, CLIENT), "buckets"),
    "delay_kind": ((SERVER,), "delay-kind"),
    "redis": ((SERVER,), "redis"),
    "remarks": ((DRIVE,), ""),
    "root": ((SERVER,), "root"),
    "cores": ((DRIVE,), ""),
    "together": ((DRIVE,), ""),
    "descriptors": ((DRIVE,), ""),
    "arm": ((DRIVE,), ""),
    "stall": ((DRIVE,), ""),
    "slice": ((DRIVE,), ""),
    "connections": ((CLIENT,), "connections"),
    "active": ((CLIENT,), "active"),
    "size": ((CLIENT,), "size"),
    "threads": ((CLIENT,), "threads"),
    "client_processes": ((CLIENT,), "processes"),
    "requests": ((CLIENT,), "requests"),
    "rate": ((CLIENT,), "rate"),
    "arrivals": ((CLIENT,), "arrivals"),
    "byte_rate": ((CLIENT,), "byte-rate"),
    "block": ((CLIENT,), "block"),
    "think": ((CLIENT,), "think"),
    "connect_rate": ((CLIENT,), "connect-rate"),
    "requests_per_connection": ((CLIENT,), "requests-per-connection"),
    "delay": ((CLIENT,), "delay"),
    "path": ((CLIENT,), "path"),
    "sources": ((CLIENT,), "sources"),
    "timeout": ((CLIENT,), "timeout"),
    "connect_timeout": ((CLIENT,), "connect-timeout"),
    "drain": ((CLIENT,), "drain"),
    "engine": ((CLIENT,), "engine"),
    "spin": ((CLIENT,), "spin"),
    "duration": ((CLIENT,), "duration"),
    "response_times": ((CLIENT,), "response-times"),
    "duration_max": ((CLIENT,), "duration-max"),
    "warmup": ((CLIENT,), "warmup"),
    "settle": ((CLIENT,), "settle"),
}


#: what prolongs a window; a trial of so many requests has none
LASTING = ("response_times", "duration_max")


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError for a factor that no program knows, naming the nearest."""
    for name in names:
        if name not in FLAGS:
            raise ValueError(unknown("factor", name, FLAGS))


def server_flags(factors: Mapping[str, Any]) -> list[str]:
    """Return the server's arguments, the model first."""
    return [str(factors["model"]), *_flags(SERVER, factors)]


def client_flags(factors: Mapping[str, Any], *, seed: int) -> list[str]:
    """Return the client's arguments, without the target."""
    if factors.get("requests") is not None:
        factors = {**factors, **dict.fromkeys(("duration", *LASTING))}
    return [*_flags(CLIENT, factors), "--seed", str(seed)]


def with_enough_processes(
    factors: Mapping[str, Any], *, descriptors: int | None, servers: int = 1
) -> dict[str, Any]:
    """Return the factors with as many client processes as the connections need.

    One process may have only so many `descriptors`; a client that cannot hold its
    connections to each of `servers` would measure itself. A number that the caller
    gave stays.
    """
    factors = dict(factors)
    connections = (factors.get("connections") or 1) * servers
    if descriptors and factors.get("client_processes") is None:
        most = max(1, descriptors - OWN_DESCRIPTORS)
        if connections > most:
            factors["client_processes"] = -(-connections // most)
    return factors


def with_time_to_settle(
    factors: Mapping[str, Any], *, model: schema.Model | None
) -> dict[str, Any]:
    """Return the factors with a wait for everybody's first answer, where possible.

    Accepting thousands, and starting a thread or a process for each, takes a server
    longer than a client takes to connect; under load even more so, and those accepted
    early would have it for themselves meanwhile. A model that serves some clients only
    after others have left would be waited for in vain, and the open loop has no users
    to wait for. A time that the caller gave stays.
    """
    serves_all = model is not None and model.holds not in ("one", "workers", None)
    closed = factors.get("rate") is None and factors.get("requests") is None
    if serves_all and closed and factors.get("settle") is None:
        return {**factors, "settle": SETTLE_S}
    return dict(factors)


def with_time_to_accept(
    factors: Mapping[str, Any], *, external: bool
) -> dict[str, Any]:
    """Return the factors with a bound on how fast clients come to another's server.

    Ours have the longest backlog that the system allows. Others do not: asyncio 100,
    Node.js 511. Beyond that the kernel drops a client's SYN, which is sent again after
    1, 3 and 7 seconds. A rate that the caller gave stays.
    """
    if external and factors.get("connect_rate") is None:
        return {**factors, "connect_rate": CONNECT_RATE}
    return dict(factors)


def _flags(program: str, factors: Mapping[str, Any]) -> list[str]:
    words = []
    for name, (programs, flag) in FLAGS.items():
        value = factors.get(name)
        if program in programs and flag and value is not None:
            words += [f"--{flag}", as_text(value)]
    return words


def mean_s(delay: Any) -> float:
    """Return the mean of a delay, in seconds: ``5`` (ms), ``uniform:250us:50us``."""
    match = re.search(r"([\d.]+)(us|ms|s|)", str(delay or "0"))
    if match is None:
        return 0.0
    return float(match[1]) * {"us": 1e-6, "s": 1.0}.get(match[2], 1e-3)


def as_text(value: Any) -> str:
    """Return a factor's value as a flag's argument; a pair becomes ``MIN-MAX``."""
    if isinstance(value, list | tuple):
        return "-".join(as_text(part) for part in value)
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value)
