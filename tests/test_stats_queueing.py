"""Laws of queues, against published values, Markov chains and simulation."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from connlab.study import stats


def test_erlang_against_published_values():
    """Ten servers and eight Erlang: B = 0.1217, C = 0.4092 (any table)."""
    assert stats.erlang_b(10, 8) == pytest.approx(0.1217, abs=5e-5)
    assert stats.erlang_c(10, 8) == pytest.approx(0.4092, abs=5e-5)


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


@pytest.mark.parametrize("servers", [1, 2, 16, 100])
@pytest.mark.parametrize("busy", [0.3, 0.9])
def test_mmc_is_its_markov_chain(servers, busy):
    arrivals = busy * servers / 0.02
    q = stats.mmc(arrivals=arrivals, service=0.02, servers=servers)
    wait, chance = _chain(arrivals, 0.02, servers)
    assert q.wait == pytest.approx(wait, rel=1e-9, abs=1e-15)
    assert q.chance_to_wait == pytest.approx(chance, rel=1e-9)
    assert q.utilisation == pytest.approx(busy)


@given(some.floats(0.01, 0.99), some.integers(1, 64), some.floats(1e-6, 10))
def test_queues_obey_littles_law(busy, servers, service):
    arrivals = busy * servers / service
    q = stats.mmc(arrivals=arrivals, service=service, servers=servers)
    assert q.waiting == pytest.approx(q.throughput * q.wait)
    assert q.response == pytest.approx(q.wait + service)
    assert stats.busy_workers(
        throughput=q.throughput, service=service
    ) == pytest.approx(busy * servers)


def test_one_worker_is_pollaczek_and_khinchine():
    for scv in (0.0, 1 / 3, 1.0, 5.0):
        q = stats.mgc(arrivals=8.0, service=0.1, servers=1, scv=scv)
        assert q.wait == pytest.approx(0.8 * 0.1 * (1 + scv) / (2 * 0.2))


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


@pytest.mark.parametrize(
    ("scv", "draw"),
    [
        (0.0, lambda rng, n: np.full(n, 1.0)),
        (1 / 3, lambda rng, n: rng.uniform(0, 2, n)),
        (1.0, lambda rng, n: rng.exponential(1, n)),
    ],
)
def test_mgc_agrees_with_simulation(scv, draw):
    q = stats.mgc(arrivals=0.85 * 4, service=1.0, servers=4, scv=scv)
    assert q.wait == pytest.approx(_simulate(0.85 * 4, draw, 4), rel=0.12)


def test_an_overloaded_pool_serves_what_it_can():
    q = stats.mmc(arrivals=100, service=0.5, servers=16)
    assert not q.stable
    assert q.throughput == 32
    assert math.isinf(q.wait)
    assert q.chance_to_wait == 1.0


def test_little_on_the_table_of_the_first_report():
    """1000 clients at 9.239 ms: they imply 108 thousand messages per second."""
    x = 1000 / 9.239154434e-3
    law = stats.little(throughput=x, response=9.239154434e-3, population=1000)
    assert law.ok
    assert law.ratio == pytest.approx(1)
    assert x == pytest.approx(108_235, rel=1e-4)


def test_little_on_the_pool_of_the_third_report():
    """7.7 requests per second at a mean delay of 2 s: 15.4 busy threads."""
    assert stats.busy_workers(throughput=7.7, service=2.0) == pytest.approx(15.4)


@pytest.mark.parametrize(("population", "ok"), [(100, True), (104, True), (106, False)])
def test_little_fails_beyond_its_tolerance(population, ok):
    law = stats.little(
        throughput=1000, response=0.06, think=0.04, population=population
    )
    assert law.ok is ok


def test_closed_bounds_hold_at_both_ends():
    assert stats.closed_bounds(population=4, service=2.0, servers=16) == (2.0, 2.0)
    assert stats.closed_bounds(population=64, service=2.0, servers=16) == (8.0, 8.0)
    x, r = stats.closed_bounds(population=10, service=1.0, servers=20, think=4.0)
    assert (x, r) == (2.0, 1.0)


@given(
    some.integers(1, 1000),
    some.floats(1e-3, 10),
    some.integers(1, 64),
    some.floats(0, 10),
)
def test_closed_bounds_obey_littles_law(population, service, servers, think):
    x, r = stats.closed_bounds(
        population=population, service=service, servers=servers, think=think
    )
    assert x * (r + think) == pytest.approx(population)


def test_one_user_never_waits():
    q = stats.finite_source(population=1, think=3.0, service=1.0, servers=4)
    assert q.wait == pytest.approx(0, abs=1e-12)
    assert q.throughput == pytest.approx(1 / (3.0 + 1.0))


def test_one_worker_that_many_want_is_always_busy():
    q = stats.finite_source(population=500, think=1.0, service=1.0, servers=1)
    assert q.utilisation == pytest.approx(1)
    assert q.response == pytest.approx(499.0, rel=1e-6)


def test_many_users_who_think_long_are_poisson_arrivals():
    """M/M/c//N → M/M/c: an oracle with another derivation."""
    users, rate = 20_000, 3.2
    q = stats.finite_source(population=users, think=users / rate, service=1, servers=4)
    open_ = stats.mmc(arrivals=rate, service=1.0, servers=4)
    assert q.response == pytest.approx(open_.response, rel=5e-3)
    assert q.chance_to_wait == pytest.approx(open_.chance_to_wait, rel=5e-3)


@given(
    some.integers(1, 200),
    some.floats(0.01, 10),
    some.floats(1e-3, 5),
    some.integers(1, 64),
)
def test_a_finite_source_obeys_littles_law(population, think, service, servers):
    q = stats.finite_source(
        population=population, think=think, service=service, servers=servers
    )
    assert q.throughput * (q.response + think) == pytest.approx(population)
    assert 0 <= q.utilisation <= 1 + 1e-12
    assert q.wait >= -1e-9


def test_best_pool():
    assert stats.best_pool(cores=2, wait=9.0, compute=1.0) == 20
    assert stats.best_pool(cores=4, wait=0.0, compute=1.0) == 4
    assert math.isinf(stats.best_pool(cores=4, wait=1.0, compute=0.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.erlang_b(0, 1),
        lambda: stats.erlang_c(2.5, 1),
        lambda: stats.erlang_b(1, -1),
        lambda: stats.mgc(arrivals=1, service=0, servers=1, scv=1),
        lambda: stats.little(throughput=1, response=1, population=0),
        lambda: stats.closed_bounds(population=0, service=1, servers=1),
        lambda: stats.best_pool(cores=0, wait=1, compute=1),
        lambda: stats.finite_source(population=1, think=0, service=1, servers=1),
    ],
)
def test_what_makes_no_queue_is_refused(call):
    with pytest.raises(ValueError, match="at least|above"):
        call()
