"""Sizes of pools and M/M/c, against made-up pools and laws that have to hold."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from study_made import crossed

from connlab.claims import apply, finding
from connlab.studies import pools

WAIT_S, COMPUTE_S = 2e-3, 20e-6
HOLDS, _, NOT, OPEN = finding.VERDICTS
COARSE = (1, 4, 16, 64, 128, 256)  # 101 lies between two of these


def steady(sizes=(1, 4, 16, 64, 101, 200), *, slowed=None, cost=1.0, blocks=5):
    """Return trials of pools on one core: 101 workers keep it busy if cost is 1."""
    frame = crossed(block=range(blocks), workers=sizes)
    rate = np.minimum(frame["workers"] / (WAIT_S + COMPUTE_S), 1 / COMPUTE_S)
    rate *= frame["workers"].map(slowed or {}).fillna(1)
    rate *= 1 + 0.01 * np.random.default_rng(1).standard_normal(len(frame))
    return frame.assign(
        throughput_rps=rate,
        model="pool",
        ok=True,
        failure=None,
        label="unsaturated",
        repeat=frame["block"],
        window_s=0.5,
        delay_mean_s=WAIT_S,
        server_cores=1,
        server_cpu_per_request_s=COMPUTE_S * cost,
        busy_workers=rate * WAIT_S,
    )


def bound_at(workers: int) -> pd.DataFrame:
    """Return trials of pools, of which the client bounds one size."""
    labels = {True: "client-bound", False: "unsaturated"}
    frame = steady(slowed={200: 1.01})
    return frame.assign(label=frame["workers"].eq(workers).map(labels))


def test_the_predicted_size_is_put_beside_the_best():
    knee = pools.knee(steady())
    assert knee.predicted.value == pytest.approx(101, rel=0.01)
    assert (knee.nearest, knee.near, knee.half) == (101, True, 16)
    assert (knee.enough, knee.largest, knee.ends) == (101, 200, True)
    assert knee.gap is None
    assert knee.reached.value == pytest.approx(1, rel=0.02)
    assert knee.halved.value == pytest.approx(16 / 101, rel=0.02)
    assert knee.reached.n == 5


@pytest.mark.parametrize(
    ("slowed", "told"),
    [({200: 0.9}, {"foretold"}), ({101: 0.9}, {"nearest", "best", "reached"})],
)
def test_the_best_pool_is_not_compared_with_itself(tmp_path, cells, slowed, told):
    cells("03-pools", "cell-44", measured=steady(slowed=slowed).assign(part="size"))
    written = pd.read_csv(tmp_path / "r/made/cells.csv")
    assert set(written["metric"]) == {f"best_pool_{name}" for name in {"size", *told}}


def test_too_few_sizes_or_blocks_predict_nothing():
    assert pools.knee(steady((1, 4))) is None
    assert pools.knee(steady(blocks=1)) is None
    assert pools.knee(steady((1, 4, 16), blocks=2)) is not None


@pytest.mark.parametrize(
    ("trials", "verdict", "effect"),
    [
        (steady(), HOLDS, 1.0),
        # 26 predicted: measured, and far too few
        (steady((1, 4, 16, 26, 64, 101, 200), cost=4.0), NOT, 26 / 101),
        (steady(COARSE, cost=0.2), NOT, 1.0),  # 501 predicted, 128 serve as much
        (steady(slowed={101: 0.84}), NOT, 0.84),
        (steady(slowed={101: 0.95}), OPEN, 0.95),  # about as much, or less
        (steady(blocks=3), OPEN, 1.0),
        (steady((1, 4)), OPEN, None),
        (steady((1, 4, 16)), OPEN, None),  # still growing
        (steady(cost=0.1), OPEN, None),  # 1001: none of about that
        (steady((1, 64, 101), slowed={101: 1.1}), OPEN, 1.0),
        # the best pool equals itself: none of half, or of twice, its size beside it
        (steady((1, 16, 101, 200), slowed={101: 1.1}), OPEN, 1.0),
        (steady((1, 64, 101, 512), slowed={101: 1.1}), OPEN, 1.0),
        (steady((1, 64, 101, 200), slowed={101: 1.1}), HOLDS, 1.0),
        # half of the size may serve as much: by its interval, or as it was not measured
        (steady((1, 16, 50, 101, 200), slowed={50: 1.93}), OPEN, 1.0),
        (steady((64, 101, 200)), OPEN, 1.0),
        # the predicted size lies between two: the one above it may well be the best,
        # and the one below it serves less in any world
        (steady(COARSE), OPEN, 1.0),
        (steady(COARSE, slowed={128: 0.84}), OPEN, 0.84),
        (steady((1, 4, 16, 64, 200)), OPEN, 64 / 101),
        (steady((1, 4, 16, 64, 200), slowed={64: 0.7}), OPEN, 0.7 * 64 / 101),
        (steady(cost=4.0), OPEN, 16 / 101),
        (steady().assign(model="thread"), OPEN, None),  # no pool at all
        (bound_at(16), HOLDS, 1.0),
        (bound_at(101), OPEN, 1 / 1.01),
        (bound_at(200), OPEN, 1 / 1.01),
    ],
)
def test_the_rule_of_the_best_pool(trials, verdict, effect):
    judged = apply(trials, {"rule": "best_pool", "arm": {"model": "pool"}})
    assert judged.verdict == verdict
    if effect is not None:
        assert judged.effect.value == pytest.approx(effect, rel=0.02)


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        (steady(slowed={101: 1.1}), "101 predicted; 101 workers, the best pool"),
        (steady(slowed={101: 0.84}), "101 workers, against 200, the best pool"),
        (steady((1, 4, 16, 64, 101)), "growing at 101, the largest pool"),
        (bound_at(101), "the bottleneck of 101 workers"),
    ],
)
def test_the_rule_of_the_best_pool_says_what_it_compares(trials, said):
    assert said in apply(trials, {"rule": "best_pool", "arm": {"model": "pool"}}).why


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        (steady(slowed={101: 1.1}), ""),  # the best is the nearest
        (steady(slowed={101: 0.84}), "101 against 200 workers"),
        (bound_at(101), "101 against 200 workers"),
        (steady((1, 4, 16, 64, 200)), "64 against 200 workers"),
    ],
)
def test_the_effect_of_the_best_pool_is_named(trials, said):
    judged = apply(trials, {"rule": "best_pool", "arm": {"model": "pool"}})
    assert judged.of == said


@pytest.mark.parametrize(
    ("sizes", "gap"),
    [
        ((1, 4, 64, 97, 200), None),  # nearly as large
        ((1, 4, 64, 105, 200), None),
        ((1, 4, 64, 94, 200), (94, 200)),
        ((1, 4, 64, 109, 200), (64, 109)),
        ((1, 4, 64), None),  # none larger was measured: see `near`, `ends`
    ],
)
def test_a_size_that_was_not_measured_lies_between_two_that_were(sizes, gap):
    assert pools.knee(steady(sizes)).gap == gap
    judged = apply(steady(sizes), {"rule": "best_pool", "arm": {"model": "pool"}})
    told = gap and "101 predicted, which lies between the sizes measured, {} and {}"
    assert (told.format(*gap) in judged.why) if gap else "between" not in judged.why


def test_one_user_never_waits():
    q = pools.finite_source(population=1, think=3.0, service=1.0, servers=4)
    assert (q["response"], q["throughput"]) == pytest.approx((1.0, 1 / (3.0 + 1.0)))


def test_one_worker_that_many_want_is_always_busy():
    q = pools.finite_source(population=500, think=1.0, service=1.0, servers=1)
    assert (q["utilisation"], q["response"]) == pytest.approx((1, 499), rel=1e-6)


def test_the_chain_of_a_small_pool_solved_by_linear_algebra():
    queue = {"population": 6, "think": 0.3, "service": 0.1, "servers": 2}
    population, think, service, servers = queue.values()
    rates = np.zeros((population + 1, population + 1))
    for k in range(population):
        rates[k, k + 1] = (population - k) / think
        rates[k + 1, k] = min(k + 1, servers) / service
    rates -= np.diag(rates.sum(axis=1))
    equations = np.vstack([rates.T, np.ones(population + 1)])
    chance = np.linalg.lstsq(equations, np.eye(population + 2)[-1], rcond=None)[0]
    k = np.arange(population + 1)
    busy = chance @ np.minimum(k, servers)
    q = pools.finite_source(**queue)
    assert q["throughput"] == pytest.approx(busy / service)
    assert q["response"] == pytest.approx(chance @ k / (busy / service))


@settings(deadline=None)  # it is no less true on a machine that is busy
@given(
    population=some.integers(1, 200),
    think=some.floats(0.01, 10),
    service=some.floats(1e-3, 5),
    servers=some.integers(1, 64),
)
def test_a_finite_source_obeys_littles_law(**queue):
    q = pools.finite_source(**queue)
    clients = q["throughput"] * (q["response"] + queue["think"])
    assert clients == pytest.approx(queue["population"])
    assert 0 <= q["utilisation"] <= 1 + 1e-12
    assert q["response"] >= queue["service"] - 1e-9


@pytest.mark.parametrize("wrong", ["population", "servers", "think", "service"])
def test_users_workers_and_times_are_above_zero(wrong):
    asked = {"population": 1, "servers": 1, "think": 1.0, "service": 1.0}
    with pytest.raises(ValueError, match=rf"{wrong} 0\b"):
        pools.finite_source(**asked | {wrong: 0})
