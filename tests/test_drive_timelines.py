"""Warm-up and drift, against scipy and against timelines made to have them."""

import random
import tracemalloc

import pytest
import scipy.stats

from connlab.drive import timelines


def _csv(counts) -> bytes:
    lines = ["start_ms,requests,bytes,errors,max_response_ns,active"]
    lines += [f"{i * 100},{n},0,0,0,1" for i, n in enumerate(counts)]
    return ("\n".join(lines) + "\n").encode()


def _steady(n: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    return [round(rng.gauss(1000, 20)) for _ in range(n)]


def test_only_whole_steps_count():
    line = timelines.parse(_csv([5, 6, 7, 2]), until_s=0.35)
    assert line.requests == [5, 6, 7]
    assert line.step_ms == 100


@pytest.mark.parametrize("data", [None, b"", b"rubbish", b"start_ms,requests\n0,x\n"])
def test_what_cannot_be_read_is_no_timeline(data):
    assert timelines.parse(data, until_s=1) is None


def test_the_window_leaves_out_warm_up_and_what_lies_across_its_edges():
    line = {"step_ms": 100, "start_ms": 0, "requests": list(range(12))}
    inside = timelines.in_window(line, warmup_s=0.15, window_s=1.0)
    assert inside == list(range(2, 11))


@pytest.mark.parametrize("seed", range(5))
def test_slope_and_p_agree_with_scipy(seed):
    counts = [count + 3 * i for i, count in enumerate(_steady(40, seed))]
    change, p = timelines.trend(counts)
    slope = scipy.stats.theilslopes(counts).slope
    median = sorted(counts)[19] / 2 + sorted(counts)[20] / 2
    assert change == pytest.approx(slope * 39 / median)
    oracle = scipy.stats.kendalltau(range(40), counts, method="asymptotic").pvalue
    assert p == pytest.approx(oracle, rel=0.15, abs=0.02)


def test_a_ramp_is_a_trend_and_noise_is_none():
    _, p = timelines.trend([100 + 10 * i for i in range(10)])
    assert p < 0.001
    trends = (timelines.trend(_steady(10, seed)) for seed in range(300))
    assert sum(p < 0.01 for _, p in trends) <= 9


def test_neighbouring_steps_are_merged_where_there_are_many():
    assert timelines.merged([1, 2, 3, 4, 5], most=5) == [1, 2, 3, 4, 5]
    assert timelines.merged([1, 2, 3, 4, 5], most=4) == [3, 7]
    assert timelines.merged([1, 2, 3, 4, 5, 6], most=2) == [6, 15]
    assert len(timelines.merged([1] * 36_000)) == timelines.STEPS_MAX


def test_an_hour_is_judged_in_little_memory_and_for_the_same_trend():
    hour = [1000 + i / 180 for i in range(36_000)]
    tracemalloc.start()
    change, p = timelines.trend(hour)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_bytes < 32 << 20
    assert change == pytest.approx(200 / 1100, rel=0.01)
    assert p < 0.001


def test_too_few_or_empty_steps_say_nothing():
    assert timelines.trend([1, 2, 3]) is None
    assert timelines.trend([0] * 10) is None


def test_what_hardly_scatters_has_settled_within_five_percent():
    """Its deviation is zero, by which the first step would never be near."""
    assert timelines.settled([96, *[100] * 19]) == 0
    assert timelines.settled([94, *[100] * 19]) == 1


def test_a_slow_start_is_detected_and_a_steady_one_is_not():
    slow = [100, 300, 600, *_steady(17)]
    assert timelines.settled(slow) == 3
    assert timelines.parse(_csv(slow), until_s=9).warmup_detected_s == 0.3
    assert all(timelines.settled(_steady(20, seed)) <= 1 for seed in range(50))
