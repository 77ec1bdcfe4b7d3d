"""What stops a sweep is the ratio that its study prints."""

import math
import random

import numpy as np
import pandas as pd
import pytest

from connlab import rounds
from connlab.study import turns

COLUMNS = (
    "throughput_rps",
    "server_cpu_per_request_s",
    "response_mean_s",
    "slice_p99_s",
)


def trial(seed: int, *, disturbed: tuple[int, ...] = (), rounds: int = 9) -> dict:
    rng = random.Random(seed)
    kept = {
        "set": "s",
        "round": list(range(3, 3 + rounds)),
        "lead_in_requests": [rng.randrange(20, 40) for _ in range(rounds)],
        "requests": [rng.randrange(500, 900) for _ in range(rounds)],
        "response_ns": [rng.randrange(10**8, 10**9) for _ in range(rounds)],
        "response_p99_ns": [rng.randrange(10**5, 10**6) for _ in range(rounds)],
        "seconds": [rng.uniform(0.018, 0.02) for _ in range(rounds)],
        "server_cpu_ns": [rng.randrange(10**7, 10**8) for _ in range(rounds)],
        "disturbed": list(disturbed),
    }
    return {"turns": kept, "client": {"response": {"n": 9, "p99_ns": seed * 1000}}}


def printed(arm: dict, base: dict, metric: str) -> float:
    """Return the log ratio that a study makes of two trials of one set."""
    shared = {"block": 0, "repeat": 0, "set": "s", metric: 1.0}
    rows = [
        pd.DataFrame([shared | {"rounds": rounds.Rounds(side)}]) for side in (arm, base)
    ]
    ((log, _),) = turns.of_trials(*(turns.Side(row, metric) for row in rows))
    return log


def in_round(kept: dict, i: int, *, timed: float, whole: bool) -> dict[str, float]:
    """Return what a server did in a round; a share of its requests was timed."""
    requests, seconds = kept["requests"][i], kept["seconds"][i]
    both = requests + kept["lead_in_requests"][i]
    return {
        "throughput_rps": both / (seconds + 0.002) if whole else requests / seconds,
        "server_cpu_per_request_s": kept["server_cpu_ns"][i] / 1e9 / both,
        "response_mean_s": kept["response_ns"][i] / 1e9 / (requests * timed),
        "slice_p99_s": kept["response_p99_ns"][i] / 1e9,
    }


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("disturbed", [(), (3, 5, 6)])
def test_a_round_has_its_numbers_unless_others_disturbed_it(whole, disturbed):
    made = trial(1, disturbed=disturbed)
    kept, size = made["turns"], 65536 if whole else 64
    kept["lead_in_ms"], made["client"]["loop"] = 2.0, "closed"
    made["factors"] = {"workload": "echo", "connections": 9, "size": size}
    timed = made["client"]["response"]["n"] / sum(kept["requests"])
    logs = rounds.Rounds(made).logs
    for i, number in enumerate(kept["round"]):
        for metric, value in in_round(kept, i, timed=timed, whole=whole).items():
            expected = math.nan if number in disturbed else math.log(value)
            assert logs[metric][i] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("metric", COLUMNS)
@pytest.mark.parametrize("disturbed", [(), (3, 5, 6)])
def test_a_ratio_is_the_one_that_the_study_prints(metric, disturbed):
    arm, base = trial(1, disturbed=disturbed), trial(2, disturbed=disturbed)
    log = rounds.to_baseline(arm, [base], [metric])[metric]
    assert log == pytest.approx(printed(arm, base, metric))
    assert disturbed == () or log != pytest.approx(printed(trial(1), trial(2), metric))


def test_rounds_without_a_value_are_left_out():
    arm, base = trial(1), trial(2)
    arm["turns"]["requests"][0] = base["turns"]["server_cpu_ns"][1] = 0
    assert all(math.isnan(logs[0]) for logs in rounds.Rounds(arm).logs.values())
    logs = rounds.to_baseline(arm, [base], COLUMNS)
    for metric in COLUMNS:
        assert logs[metric] == pytest.approx(printed(arm, base, metric))
    arm["turns"]["requests"] = [0] * 9
    assert rounds.to_baseline(arm, [base], COLUMNS)["throughput_rps"] is None


@pytest.mark.parametrize(
    ("holds", "per_connection", "cost_ms"),
    [("processes", 1, 22 / 90), ("processes", 0, 24 / 90), ("descriptors", 1, 24 / 90)],
)
def test_cpu_time_in_steps_of_ten_ms_is_that_of_all_rounds(
    holds, per_connection, cost_ms
):
    """As of children that ended: a median over rounds would be one of the steps."""
    arm, base = trial(1, disturbed=(11,)), trial(2, disturbed=(11,))
    arm["server"] = {"model": {"holds": holds}}
    arm["factors"] = {"requests_per_connection": per_connection}
    arm["turns"] |= {"lead_in_requests": [10] * 9, "requests": [80] * 9}
    arm["turns"]["server_cpu_ns"] = [n * 10**6 for n in (24, 14, 34, 24, 24, 0, 34, 22)]
    arm["turns"]["server_cpu_ns"] += [10**9]  # disturbed
    base["turns"] |= {"lead_in_requests": [0] * 9, "requests": [1] * 9}
    base["turns"]["server_cpu_ns"] = [10**6] * 9
    metric = "server_cpu_per_request_s"
    log = rounds.to_baseline(arm, [base], [metric])[metric]
    assert math.exp(log) == pytest.approx(cost_ms)


def test_rounds_without_cpu_time_have_none_in_steps_either():
    arm = trial(1)
    arm["server"] = {"model": {"holds": "processes"}}
    arm["factors"] = {"requests_per_connection": 1}
    none = [("server_cpu_ns", [None] * 9), ("server_cpu_ns", [0] * 9)]
    for column, values in (*none, ("requests", [0] * 9)):
        made = {**arm, "turns": arm["turns"] | {column: values}}
        assert np.isnan(rounds.Rounds(made).logs["server_cpu_per_request_s"]).all()


def test_the_p99_of_slices_is_known_in_an_open_loop_only():
    arm, base = trial(1), trial(2)
    arm["turns"]["response_p99_ns"] = base["turns"]["response_p99_ns"] = []
    assert rounds.to_baseline(arm, [base], ["slice_p99_s"]) == {"slice_p99_s": None}


def test_a_mean_response_is_of_the_requests_that_fell_due_after_the_lead_in():
    """Those of the lead-in are answered in the slice as well, in an open loop."""
    arm, base = trial(1), trial(2)
    for side, share in ((arm, 0.8), (base, 1.0)):
        side["client"]["response"]["n"] = share * sum(side["turns"]["requests"])
    metrics = ["response_mean_s", "throughput_rps"]
    logs = rounds.to_baseline(arm, [base], metrics)
    both = (arm["turns"], base["turns"])
    a, b = (np.divide(kept["response_ns"], kept["requests"]) for kept in both)
    median = np.median(np.log(a / b))
    assert logs["response_mean_s"] == pytest.approx(median - math.log(0.8))
    arm["turns"]["pause_ms"] = 10.0  # over hosts the count is of other rounds, too
    afar = rounds.to_baseline(arm, [base], metrics)
    assert afar["response_mean_s"] == pytest.approx(median)
    assert afar["throughput_rps"] == logs["throughput_rps"]


@pytest.mark.parametrize("metric", [*COLUMNS, "response_p99_s"])
def test_a_baseline_that_is_there_more_than_once_is_paired_with_each(metric):
    arm, *bases = sides = [trial(seed) for seed in (4, 2, 3)]
    log = rounds.to_baseline(arm, bases, [metric])[metric]
    if metric == "response_p99_s":
        assert log == pytest.approx(math.log(4) - math.log(2 * 3) / 2)
        return
    y, *xs = (rounds.Rounds(side).logs[metric] for side in sides)
    assert log == pytest.approx(np.median([y - x for x in xs]))
    printed_ones = [rounds.to_baseline(arm, [base], [metric])[metric] for base in bases]
    assert log not in printed_ones


def servers(rng: np.random.Generator, count: int) -> list[rounds.Rounds]:
    """Return equal servers of a set, of which now and then a round is much slower."""
    of_round = rng.exponential(0.1, 12)  # what strikes all of a round
    seconds = np.exp(of_round + rng.exponential(0.2, (count, 12)))
    made = trial(1, rounds=12)
    return [
        rounds.Rounds(made | {"turns": made["turns"] | {"seconds": list(row)}})
        for row in seconds * np.array(made["turns"]["requests"]) / 700
    ]


def test_equal_servers_have_a_ratio_of_1_that_more_baselines_make_narrower():
    rng, logs = np.random.default_rng(1), {1: [], 5: []}
    for _ in range(400):
        arm, *bases = servers(rng, 6)
        for count, found in logs.items():
            found.append(rounds.log_ratio([arm], bases[:count], "throughput_rps"))
    for found in logs.values():
        assert abs(np.mean(found)) < 3 * np.std(found) / 20
    assert np.std(logs[5]) < 0.85 * np.std(logs[1])


def test_a_quantile_of_a_run_is_compared_by_trial():
    logs = rounds.to_baseline(trial(4), [trial(2)], ["response_p99_s"])
    assert logs["response_p99_s"] == pytest.approx(math.log(2))
    for arm, base in ((0, 2), (2, 0)):  # of one it is not known
        logs = rounds.to_baseline(trial(arm), [trial(base)], ["response_p99_s"])
        assert logs["response_p99_s"] is None
