"""What queues predict of a pool of workers.

A pool of c workers under random arrivals is the oldest model in this paper.
Where a server follows it, waiting is explained by the numbers of workers and
their service time alone; where it does not, something else is at work.

All times in seconds, all rates per second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


def busy_workers(*, throughput: float, service: float) -> float:
    """Workers that are busy on average: X·S (Little's law inside the server)."""
    return throughput * service


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
