"""Sizes of pools and M/M/c, against made-up pools and laws that have to hold."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some

from connlab.claims import apply
from connlab.studies import pools

WAIT_S, COMPUTE_S = 2e-3, 20e-6
BEST_POOL = {"rule": "best_pool", "arm": {"model": "pool"}}


def steady(sizes=(1, 4, 16, 64, 128, 256), *, slowed=None, cost=1.0, blocks=5):
    """Return trials of pools on one core: 101 workers keep it busy if cost is 1."""
    dice, rows = np.random.default_rng(1), []
    for block in range(blocks):
        for n in sizes:
            rate = min(n / (WAIT_S + COMPUTE_S), 1 / COMPUTE_S)
            rate *= (slowed or {}).get(n, 1) * (1 + 0.01 * dice.standard_normal())
            rows.append({"workers": n, "block": block, "throughput_rps": rate})
    frame = pd.DataFrame(rows)
    return frame.assign(
        model="pool",
        ok=True,
        failure=None,
        label="unsaturated",
        repeat=frame["block"],
        window_s=0.5,
        delay_mean_s=WAIT_S,
        server_cores=1,
        server_cpu_per_request_s=COMPUTE_S * cost,
        busy_workers=frame["throughput_rps"] * WAIT_S,
    )


# ---- how large a pool should be ------------------------------------------------


def test_cores_times_one_plus_wait_over_compute():
    assert pools.best_pool(cores=2, wait=9.0, compute=1.0) == 20
    assert pools.best_pool(cores=4, wait=0.0, compute=1.0) == 4
    assert math.isinf(pools.best_pool(cores=4, wait=1.0, compute=0.0))
    with pytest.raises(ValueError, match="cores 0"):
        pools.best_pool(cores=0, wait=1.0, compute=1.0)


def test_the_predicted_size_is_put_beside_the_best():
    found = pools.knee(steady())
    assert found.predicted.value == pytest.approx(101, rel=0.01)
    assert (found.nearest, found.near, found.half) == (128, True, 16)
    assert (found.enough, found.largest, found.ends) == (128, 256, True)
    assert found.reached.value == pytest.approx(1, rel=0.02)
    assert found.halved.value == pytest.approx(16 / 101, rel=0.02)
    assert found.reached.n == 5


def test_too_few_sizes_or_blocks_predict_nothing():
    assert pools.knee(steady((1, 4))) is None
    assert pools.knee(steady(blocks=1)) is None


@pytest.mark.parametrize(
    ("trials", "verdict", "effect"),
    [
        (steady(), "holds", 1.0),
        (steady(cost=4.0), "does not hold", 16 / 101),  # 26 predicted, 16 measured
        (steady(cost=0.2), "does not hold", 1.0),  # 501 predicted, 128 serve as much
        (steady(slowed={128: 0.84}), "does not hold", 0.84),
        (steady((1, 4, 16)), "not testable here", None),  # still growing
        (steady(cost=0.1), "not testable here", None),  # 1001: none of about that
        (steady((1, 64, 128), slowed={128: 1.1}), "not testable here", 1.0),
    ],
)
def test_the_rule_of_the_best_pool(trials, verdict, effect):
    found = apply(trials, BEST_POOL)
    assert found.verdict == verdict
    if effect is not None:
        assert found.effect.value == pytest.approx(effect, rel=0.02)


def test_the_rule_needs_pools():
    other = {"rule": "best_pool", "arm": {"model": "thread"}}
    assert apply(steady(), other).verdict == "not testable here"


# ---- M/M/c with a finite population --------------------------------------------


def test_one_user_never_waits():
    q = pools.finite_source(population=1, think=3.0, service=1.0, servers=4)
    assert q.response == pytest.approx(1.0)
    assert q.throughput == pytest.approx(1 / (3.0 + 1.0))


def test_one_worker_that_many_want_is_always_busy():
    q = pools.finite_source(population=500, think=1.0, service=1.0, servers=1)
    assert q.utilisation == pytest.approx(1)
    assert q.response == pytest.approx(499.0, rel=1e-6)


def test_the_chain_of_a_small_pool_solved_by_linear_algebra():
    population, think, service, servers = 6, 0.3, 0.1, 2
    rates = np.zeros((population + 1, population + 1))
    for k in range(population):
        rates[k, k + 1] = (population - k) / think
        rates[k + 1, k] = min(k + 1, servers) / service
    rates -= np.diag(rates.sum(axis=1))
    equations = np.vstack([rates.T, np.ones(population + 1)])
    chance = np.linalg.lstsq(equations, np.eye(population + 2)[-1], rcond=None)[0]
    k = np.arange(population + 1)
    busy = chance @ np.minimum(k, servers)
    q = pools.finite_source(
        population=population, think=think, service=service, servers=servers
    )
    assert q.throughput == pytest.approx(busy / service)
    assert q.response == pytest.approx(chance @ k / (busy / service))


@given(
    some.integers(1, 200),
    some.floats(0.01, 10),
    some.floats(1e-3, 5),
    some.integers(1, 64),
)
def test_a_finite_source_obeys_littles_law(population, think, service, servers):
    q = pools.finite_source(
        population=population, think=think, service=service, servers=servers
    )
    assert q.throughput * (q.response + think) == pytest.approx(population)
    assert 0 <= q.utilisation <= 1 + 1e-12
    assert q.response >= service - 1e-9
