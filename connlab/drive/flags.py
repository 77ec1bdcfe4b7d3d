"""From the names of factors to the flags of the two programs.

`FLAGS` is the only place where a factor's name meets a flag. A value of None means
that the flag is left out, so that the program's own default holds.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from connlab import schema
from connlab.drive import procfs
from connlab.drive.cores import Cores
from connlab.drive.programs import unknown

#: what a client process opens beside its connections, generously
OWN_DESCRIPTORS = 64
#: processes that a client is divided into at most (``client --help``)
PROCESSES_MOST = 64
#: how long a client waits at most for everybody's first answer
SETTLE_S = 3.0

#: how long a client waits for an answer by default (``client --timeout``)
TIMEOUT_S = 10.0

#: and for the last answers, after the window (``client --drain``)
DRAIN_S = 0.2

#: connects per second at most to servers that others wrote
CONNECT_RATE = 10_000

#: windows last up to so many times their duration where ``duration_max`` is not said
LONGER = 5

#: factors that the server gets, in the order of its flags
SERVER = (
    *("workload", "workers", "processes", "backlog", "extra_ns", "queue", "buckets"),
    *("delay_kind", "redis", "root"),
)
#: the same of the client
CLIENT = (
    *("workload", "buckets", "connections", "active", "size", "threads"),
    *("client_processes", "requests", "rate", "arrivals", "byte_rate", "block"),
    *("think", "connect_rate", "requests_per_connection", "delay", "path", "sources"),
    *("timeout", "connect_timeout", "drain", "engine", "spin", "duration"),
    *("response_times", "duration_max", "warmup", "settle"),
)
#: factors without a flag; the model is the server's first argument
DRIVE = (
    *("remarks", "cores", "together", "descriptors", "arm", "stall", "slice"),
    "warm_up",
)
#: factor -> its flag, None where it has none
FLAGS: dict[str, str | None] = dict.fromkeys(("model", *DRIVE))
FLAGS |= {name: f"--{name.replace('_', '-')}" for name in (*SERVER, *CLIENT)}
FLAGS["client_processes"] = "--processes"

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


def client_flags(
    factors: Mapping[str, Any], *, seed: int, sets: Cores | None = None
) -> list[str]:
    """Return the client's arguments, without the target.

    On cores of its own, as `sets` say, a client never sleeps, unless it is remote or
    all its users are silent. A server would pay for waking it, the more often the
    slower it is, which one over a network does not: of 1000 users a thread for each
    took 3.0 times the CPU time of epoll, 3.9 where the client slept, asyncio 2.66 and
    2.83 times of 50. And what wakes the client's core besides decides how dear that is:
    beside a process that woke 500 times a second, taking 1 % of a core, asyncio took
    2.63 and 3.68 times. In an open loop users would wait for it, too: at a tenth of its
    capacity epoll answered requests of 50 us in 108 us for 64 us of CPU time, 147 and
    79 us where the client slept.
    """
    if factors.get("requests") is not None:
        factors = {**factors, **dict.fromkeys(("duration", *LASTING))}
    if sets and factors.get("spin") is None and _stays_awake(factors, sets):
        factors = {**factors, "spin": "always"}
    return [*_flags(CLIENT, factors), "--seed", str(seed)]


def _stays_awake(factors: Mapping[str, Any], sets: Cores) -> bool:
    """Whether a client looks for answers all the time, with a core for each thread.

    A container's quota has to leave something beside the cores that are busy then, or
    who drives the trial uses it up, and all stand still until the next period.
    """
    threads = (factors.get("threads") or 1) * (factors.get("client_processes") or 1)
    if sets.shared or sets.siblings or sets.remote or threads > len(sets.client):
        return False
    if factors.get("active") == 0:
        return False
    quota = procfs.cpu_quota()
    return quota is None or quota > len(sets.server) + threads


def completed(
    factors: Mapping[str, Any],
    *,
    descriptors: int | None,
    connections: int | None = None,
    models: Sequence[schema.Model] = (),
    burst_s: float = 0.0,
    agreed: bool = False,
) -> dict[str, Any]:
    """Return the factors with what the client of these `models` needs besides.

    What the caller gave stays. One process may have only so many `descriptors`; to
    several servers there are `connections` in all. A burst takes `burst_s`. Clients of
    several hosts have `agreed` on a moment to begin.
    """
    needed: dict[str, Any] = {}
    users = connections or factors.get("connections") or 1
    processes = math.ceil(users / _each(descriptors))
    if processes > 1:
        needed["client_processes"] = processes
    if 2 * burst_s > TIMEOUT_S:  # the last user is answered at its end
        needed["timeout"] = 2 * burst_s
    # Ours have the longest backlog that the system allows. Others do not: asyncio 100,
    # Node.js 511. Beyond that the kernel drops a client's SYN, which is sent again
    # after 1, 3 and 7 seconds.
    if any((model.model_extra or {}).get("external") for model in models):
        needed["connect_rate"] = CONNECT_RATE
    # Accepting thousands, and starting a thread or a process for each, takes a server
    # longer than a client takes to connect; under load even more so, and those accepted
    # early would have it for themselves meanwhile. A model that serves some clients
    # only after others have left would be waited for in vain, and the open loop has no
    # users to wait for. Of several that take turns each serves all its users, so one
    # that always does suffices.
    closed = factors.get("rate") is None and factors.get("requests") is None
    serves_all = any(m.holds not in ("one", "workers", None) for m in models)
    if serves_all and closed and not agreed:
        needed["settle"] = SETTLE_S
    return {**factors, **{k: v for k, v in needed.items() if factors.get(k) is None}}


def unheld(
    factors: Mapping[str, Any], descriptors: int | None, *, beside: int = 0
) -> str | None:
    """Return why a client has no processes for its connections; None: it has.

    `beside` are those that it has to the baseline as well, in turns.
    """
    connections = factors.get("connections") or 1
    most = PROCESSES_MOST * _each(descriptors)
    given = factors.get("client_processes") is not None
    if connections + beside <= most or given:
        return None
    others = f", beside {beside} to the baseline" if beside else ""
    return (
        f"connections: {connections}{others}; allowed here: 1 to {most}"
        f"{' together' if beside else ''} ({PROCESSES_MOST} "
        f"client processes, which may have {descriptors} descriptors each)"
    )


def _each(descriptors: int | None) -> float:
    """Return the connections of a process: with more it would measure itself."""
    return max(1, descriptors - OWN_DESCRIPTORS) if descriptors else math.inf


def _flags(names: Sequence[str], factors: Mapping[str, Any]) -> list[str]:
    words = []
    for name in names:
        if (value := factors.get(name)) is not None:
            words += [FLAGS[name], as_text(value)]
    return words


def users(factors: Mapping[str, Any]) -> int:
    """Return how many of a client's connections talk; all do by default."""
    return factors.get("active") or factors.get("connections") or 1


def mean_s(delay: Any) -> float:
    """Return the mean of a delay, in seconds: ``5`` (ms), ``uniform:250us:50us``."""
    match = re.search(r"([\d.]+(?:[eE][+-]?\d+)?)(ns|us|ms|s|)", str(delay or "0"))
    if match is None:
        return 0.0
    return float(match[1]) * {"ns": 1e-9, "us": 1e-6, "s": 1.0}.get(match[2], 1e-3)


def as_text(value: Any) -> str:
    """Return a factor's value as a flag's argument; a pair becomes ``MIN-MAX``."""
    if isinstance(value, list | tuple):
        return "-".join(as_text(part) for part in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)
