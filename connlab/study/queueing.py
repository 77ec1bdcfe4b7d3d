"""What queues predict: Little's law, M/M/c, M/G/c and the bounds of a pool.

A pool of c workers under random arrivals is the oldest model in this paper.
Where a server follows it, waiting is explained by the numbers of workers and
their service time alone; where it does not, something else is at work.

All times in seconds, all rates per second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Little:
    """Little's law on one closed-loop trial."""

    population: float
    """N that throughput and times imply: X · (R + Z)."""
    asked: float
    ratio: float
    """Implied / asked: 1 when every user was in the loop all the time."""
    ok: bool
    tolerance: float


def little(
    *,
    throughput: float,
    response: float,
    population: float,
    think: float = 0.0,
    tolerance: float = 0.05,
) -> Little:
    """Check N = X·(R + Z): users are either waiting or thinking.

    It holds for any system in a steady state, whatever its distributions,
    so a trial that fails it was not steady, lost users, or timed something
    else than it says.

    Parameters
    ----------
    throughput : float
        X, requests per second.
    response, think : float
        R and Z, seconds.
    population : float
        N, the users there should be, above 0.
    tolerance : float
        Allowed distance of the ratio from 1.

    References
    ----------
    Little, Operations Research 9 (1961).
    """
    if population <= 0:
        raise ValueError(f"population is {population}: it has to be above 0")
    implied = throughput * (response + think)
    ratio = implied / population
    return Little(
        implied, population, ratio, abs(ratio - 1) <= tolerance + 1e-12, tolerance
    )


def busy_workers(*, throughput: float, service: float) -> float:
    """Workers that are busy on average: X·S (Little's law inside the server)."""
    return throughput * service


def erlang_b(servers: int, load: float) -> float:
    """Chance that all of `servers` are busy when nobody waits (Erlang B).

    Parameters
    ----------
    servers : int
        At least 1.
    load : float
        Offered load a = λ·S in Erlang, at least 0.
    """
    _check_pool(servers, load)
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked


def erlang_c(servers: int, load: float) -> float:
    """Chance that an arrival has to wait in M/M/c (Erlang C); 1 if overloaded."""
    _check_pool(servers, load)
    if load >= servers:
        return 1.0
    b = erlang_b(servers, load)
    return b / (1 - load / servers * (1 - b))


def _check_pool(servers: int, load: float) -> None:
    if servers < 1 or servers != int(servers):
        raise ValueError(f"servers is {servers}: a whole number, at least 1")
    if not load >= 0:
        raise ValueError(f"load is {load}: at least 0")


@dataclass(frozen=True)
class Queue:
    """Steady state of a queue; times infinite when it is overloaded."""

    utilisation: float
    """Share of time that a worker is busy (1 at most)."""
    chance_to_wait: float
    wait: float
    """Mean time in the queue, seconds."""
    response: float
    """Mean time in the queue and in service, seconds."""
    waiting: float
    """Mean number in the queue."""
    throughput: float
    """Requests per second that get through."""
    stable: bool


def mmc(*, arrivals: float, service: float, servers: int) -> Queue:
    """M/M/c: Poisson arrivals, exponential service, c workers, endless queue.

    Parameters
    ----------
    arrivals : float
        λ, requests per second.
    service : float
        Mean service time, seconds, above 0.
    servers : int
        c, at least 1.
    """
    return mgc(arrivals=arrivals, service=service, servers=servers, scv=1.0)


def mgc(*, arrivals: float, service: float, servers: int, scv: float) -> Queue:
    """M/G/c by Lee and Longton: the wait of M/M/c times (1 + C²) / 2.

    Exact for one worker (Pollaczek and Khinchine) and for exponential
    service; else an approximation that is good in heavy traffic and a few
    per cent off elsewhere (the tests simulate it).

    Parameters
    ----------
    arrivals, service, servers
        As in `mmc`.
    scv : float
        C², squared coefficient of variation of the service time: 0 fixed,
        1/3 uniform from 0, 1 exponential.

    References
    ----------
    Lee & Longton, Operational Research Quarterly 10 (1959).
    """
    if arrivals < 0 or service <= 0 or scv < 0:
        raise ValueError(
            f"arrivals {arrivals}, service {service}, scv {scv}: "
            "at least 0, above 0, at least 0"
        )
    load = arrivals * service
    busy = load / servers
    c = erlang_c(servers, load)
    if busy >= 1:
        return Queue(1.0, c, math.inf, math.inf, math.inf, servers / service, False)
    wait = c * service / (servers * (1 - busy)) * (1 + scv) / 2
    return Queue(busy, c, wait, wait + service, arrivals * wait, arrivals, True)


def finite_source(
    *, population: int, think: float, service: float, servers: int
) -> Queue:
    """M/M/c with N users who think: a closed loop around a pool, exactly.

    A user thinks for an exponential time of mean Z, then asks c workers whose service
    takes an exponential time of mean S; users who wait do not ask again. With k
    requests in the pool the next arrives at rate (N − k)/Z and one leaves at rate
    min(k, c)/S. For large N it becomes M/M/c at the rate N / (Z + R).

    Parameters
    ----------
    population : int
        N, at least 1.
    think, service : float
        Z and S, seconds, above 0.
    servers : int
        c, at least 1.

    Returns
    -------
    Queue
        `chance_to_wait` is the share of arrivals that find all workers busy.

    References
    ----------
    Kleinrock, Queueing Systems 1 (1975), chapter 3 (finite customer population).
    """
    if population < 1 or servers < 1 or think <= 0 or service <= 0:
        raise ValueError(
            f"population {population}, servers {servers}, think {think}, "
            f"service {service}: at least 1, at least 1, above 0, above 0"
        )
    weights = [0.0]  # logarithms: they span hundreds of decades
    for k in range(population):
        up, down = (population - k) / think, min(k + 1, servers) / service
        weights.append(weights[-1] + math.log(up / down))
    top = max(weights)
    shares = [math.exp(w - top) for w in weights]
    total = sum(shares)
    chance = [s / total for s in shares]
    busy = sum(p * min(k, servers) for k, p in enumerate(chance))
    inside = sum(p * k for k, p in enumerate(chance))
    throughput = busy / service
    asking = [p * (population - k) / think for k, p in enumerate(chance)]
    response = inside / throughput
    return Queue(
        busy / servers,
        sum(asking[servers:]) / throughput,
        response - service,
        response,
        inside - busy,
        throughput,
        True,
    )


def closed_bounds(
    *, population: int, service: float, servers: int, think: float = 0.0
) -> tuple[float, float]:
    """Highest throughput and lowest response time of a pool in a closed loop.

    N users, c workers, no other resource: X ≤ min(N / (S + Z), c / S) and
    R ≥ max(S, N·S / c − Z). Both are reached when service times are fixed.

    Returns
    -------
    tuple of float
        Requests per second, seconds.
    """
    if population < 1 or servers < 1 or service <= 0 or think < 0:
        raise ValueError(
            f"population {population}, servers {servers}, service {service}, "
            f"think {think}: at least 1, at least 1, above 0, at least 0"
        )
    x = min(population / (service + think), servers / service)
    return x, max(service, population * service / servers - think)


def best_pool(*, cores: int, wait: float, compute: float) -> float:
    """Workers that keep `cores` busy: cores · (1 + wait / compute).

    Infinite when a request computes nothing: then no core limits the pool.

    References
    ----------
    Goetz et al., Java Concurrency in Practice (2006), section 8.2.
    """
    if cores < 1 or wait < 0 or compute < 0:
        raise ValueError(
            f"cores {cores}, wait {wait}, compute {compute}: at least 1, 0 and 0"
        )
    return math.inf if compute == 0 else cores * (1 + wait / compute)
