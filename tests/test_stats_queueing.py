"""Laws of queues, against published values, Markov chains and simulation."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from connlab.study import queueing


def _chain(arrivals, service, servers, states=4000):
    """M/M/c as a birth-death chain, solved by detailed balance."""
    log = [0.0]
    for n in range(1, states):
        log.append(log[-1] + math.log(arrivals * service / min(n, servers)))
    p = np.exp(np.array(log) - max(log))
    p /= p.sum()
    n = np.arange(states)
    waiting = (np.maximum(n - servers, 0) * p).sum()
    return waiting / arrivals, p[servers:].sum()


def _simulate(arrivals, draw, servers, requests=60_000, seed=1):
    """First come, first served: mean wait of a simulated queue."""
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(1 / arrivals, requests))
    need = draw(rng, requests)
    free, waits = [0.0] * servers, np.empty(requests)
    for i in range(requests):
        start = max(at[i], heapq.heappop(free))
        waits[i] = start - at[i]
        heapq.heappush(free, start + need[i])
    return waits[requests // 10 :].mean()


def test_little_on_the_pool_of_the_third_report():
    """7.7 requests per second at a mean delay of 2 s: 15.4 busy threads."""
    assert queueing.busy_workers(throughput=7.7, service=2.0) == pytest.approx(15.4)


def test_one_user_never_waits():
    q = queueing.finite_source(population=1, think=3.0, service=1.0, servers=4)
    assert q.wait == pytest.approx(0, abs=1e-12)
    assert q.throughput == pytest.approx(1 / (3.0 + 1.0))


def test_one_worker_that_many_want_is_always_busy():
    q = queueing.finite_source(population=500, think=1.0, service=1.0, servers=1)
    assert q.utilisation == pytest.approx(1)
    assert q.response == pytest.approx(499.0, rel=1e-6)


@given(
    some.integers(1, 200),
    some.floats(0.01, 10),
    some.floats(1e-3, 5),
    some.integers(1, 64),
)
def test_a_finite_source_obeys_littles_law(population, think, service, servers):
    q = queueing.finite_source(
        population=population, think=think, service=service, servers=servers
    )
    assert q.throughput * (q.response + think) == pytest.approx(population)
    assert 0 <= q.utilisation <= 1 + 1e-12
    assert q.wait >= -1e-9


def test_best_pool():
    assert queueing.best_pool(cores=2, wait=9.0, compute=1.0) == 20
    assert queueing.best_pool(cores=4, wait=0.0, compute=1.0) == 4
    assert math.isinf(queueing.best_pool(cores=4, wait=1.0, compute=0.0))
