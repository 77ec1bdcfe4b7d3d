"""Ratios of servers that took turns: hand-made rounds, and simulated noise."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import signal
from scipy import stats as st
from study_made import t_on_logs

from connlab.intervals import interval
from connlab.rounds import Rounds
from connlab.study import turns


def slices_of(rates: dict, *, trial: int = 0, cpu_s: dict | None = None):
    """Return slices of 20 ms in which servers answer at `rates`, a list per server."""
    rows = []
    for server, by_round in rates.items():
        for number, rate in enumerate(by_round):
            requests = rate * 0.02
            spent = (cpu_s or {}).get(server, 1e-6) * requests * 1e9
            rows.append((trial, number, server, 0, requests, 0.02, spent))
    names = "trial round server lead_in_requests requests seconds server_cpu_ns"
    return pd.DataFrame(rows, columns=names.split())


def noisy_slices(rng, *, trials: int, rounds: int, true: dict) -> pd.DataFrame:
    """Return slices of servers on a machine with drift, bursts and memory.

    What all servers of a round share: a random walk over the trial, and bursts of
    another program that halve the rate. What each slice has for itself is correlated
    with the slice before (0.5); each trial has an offset for each server of its own.
    """
    frames = []
    for trial in range(trials):
        shared = np.cumsum(rng.normal(0, 0.03, rounds)) + rng.normal(0, 0.2)
        shared -= np.where(rng.random(rounds) < 0.1, math.log(2), 0)
        rates = {}
        for server, ratio in true.items():
            slices = signal.lfilter([1], [1, -0.5], rng.normal(0, 0.03, rounds))
            logs = shared + slices + rng.normal(0, 0.01) + math.log(ratio)
            rates[server] = 1e5 * np.exp(logs)
        frames.append(slices_of(rates, trial=trial))
    return pd.concat(frames)


def ratios_of(slices: pd.DataFrame):
    rounds = turns.per_round(slices)
    return turns.ratios(turns.log_ratios(rounds, "rate", baseline="epoll"))


@pytest.mark.parametrize(("lead_in", "cpu_s"), [(0, 3e-6), (20, 1.5e-6)])
def test_the_lead_in_costs_but_is_no_part_of_the_rate(lead_in, cpu_s):
    made = slices_of({"epoll": [1000]}, cpu_s={"epoll": 3e-6})
    made = turns.per_round(made.assign(lead_in_requests=lead_in))
    assert made["rate"].item() == pytest.approx(1000)
    assert made["cpu"].item() == pytest.approx(cpu_s)


def test_of_a_whole_slice_the_lead_in_is_a_part():
    """Four answers of 5 ms in 20 ms: none of them in the lead-in of 1 ms."""
    made = slices_of({"epoll": [200]}).assign(seconds=0.019, slice_seconds=0.02)
    rates = {w: turns.per_round(made, whole=w)["rate"].item() for w in (True, False)}
    assert rates == {True: pytest.approx(200), False: pytest.approx(200 / 0.95)}


def test_cpu_time_in_ticks_is_that_of_all_slices_of_a_trial():
    """14, 24 and 34 ms: what children used that ended, in steps of 10 ms."""
    made = slices_of({"epoll": [100] * 4, "fork": [100] * 3 + [0]})
    made["server_cpu_ns"] = [8e6, 0, 8e6, 8e6, 24e6, 14e6, 34e6, 0]
    made = pd.concat([made, made.assign(trial=1, server_cpu_ns=4e6)])
    rounds = turns.per_round(made, in_ticks={"fork"}).set_index(["trial", "server"])
    costs = rounds["cpu"].groupby(level=["trial", "server"]).agg(list)
    assert costs[0, "fork"] == pytest.approx([12e-3] * 3 + [math.nan], nan_ok=True)
    assert costs[0, "epoll"][:2] == pytest.approx([4e-3, math.nan], nan_ok=True)
    assert costs[1, "fork"][0] == pytest.approx(16e-3 / 6)


def test_a_slice_without_requests_or_clock_has_no_number():
    made = slices_of({"epoll": [0, 1000], "poll": [1000, 1000]})
    made.loc[(made["server"] == "poll") & (made["round"] == 1), "server_cpu_ns"] = 0
    rounds = turns.per_round(made).set_index(["server", "round"])
    assert math.isnan(rounds.loc[("epoll", 0), "rate"])
    assert math.isnan(rounds.loc[("poll", 1), "cpu"])
    assert rounds.loc[("poll", 1), "rate"] == pytest.approx(1000)


def test_a_trial_gives_the_median_of_its_rounds_in_logs():
    rates = {"epoll": [100, 100, 400], "poll": [110, 90, 100]}
    logs = turns.log_ratios(turns.per_round(slices_of(rates)), "rate", baseline="epoll")
    assert list(logs) == ["poll"]
    assert math.exp(logs.loc[0, "poll"]) == pytest.approx(0.9)


def test_the_course_of_a_ratio_is_that_of_rounds_which_both_have():
    def trials(name: str, requests: list[int], first: int) -> pd.DataFrame:
        columns = {"round": [first + i for i in range(3)], "requests": requests}
        columns |= {"seconds": [0.1] * 3, "lead_in_requests": [0] * 3}
        columns |= {"server_cpu_ns": [100] * 3, "response_ns": [100] * 3}
        return pd.DataFrame({"set": [name], "rounds": [Rounds({"turns": columns})]})

    base, rate = trials("a", [10, 10, 10], 4), "throughput_rps"
    course = turns.course(trials("a", [5, 20, 0], 4), base, rate)
    assert course["round"].tolist() == [4, 5]
    assert course["position"].tolist() == [0, 1]
    assert course["ratio"].tolist() == pytest.approx([0.5, 2])
    differences = turns.differences(trials("a", [5, 20, 30], 4), base, rate)
    assert differences == pytest.approx([100])
    elsewhere = trials("b", [5, 20, 0], 4)
    assert not len(turns.differences(elsewhere, base, rate))
    assert turns.course(elsewhere, base, rate).empty
    assert turns.course(base.assign(set=None), base, rate).empty
    idle = trials("a", [0, 0, 0], 4)
    sides = (
        side.assign(block=0, repeat=0, throughput_rps=100) for side in (idle, base)
    )
    assert not len(turns.of_trials(*(turns.Side(side, rate) for side in sides)))


def test_what_disturbs_a_round_leaves_the_ratio_alone():
    disturbed = np.array([1, 0.2, 3, 0.5])
    rates = {"epoll": 100 * disturbed, "uring": 120 * disturbed}
    made = pd.concat(slices_of(rates, trial=trial) for trial in range(4))
    ratio = ratios_of(made)["uring"]
    assert [ratio.lo, ratio.value, ratio.hi] == pytest.approx([1.2, 1.2, 1.2])


@pytest.mark.parametrize("comparisons", [1, 5])
def test_comparisons_are_students_t_on_logs_and_hold_at_once(comparisons):
    rng = np.random.default_rng(3)
    logs = pd.DataFrame(rng.normal(0, 0.01, (6, comparisons)))
    ratio = turns.ratios(logs)[0]
    assert [ratio.lo, ratio.hi] == t_on_logs(logs[0], 1 - 0.05 / comparisons)
    assert ratio.value == pytest.approx(st.gmean(np.exp(logs[0])))
    assert ratio.n == 6


def test_ratios_are_those_of_trials_whose_cores_were_where_they_usually_are():
    off = pd.Series([0, 0, 1, 0.5, 0, 0])
    logs = pd.DataFrame({"poll": 0.1 + 0.3 * off, "lost": [math.nan] * 6})
    found = turns.ratios(logs, off)
    assert found["poll"].value == pytest.approx(math.exp(0.1))
    assert not found["lost"].determined
    assert turns.ratios(logs)["poll"].value == pytest.approx(math.exp(0.175))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_fewer_than_four_trials_have_no_interval(n):
    ratio = turns.ratios(pd.DataFrame({"poll": [0.1] * n}, dtype=float))["poll"]
    assert not ratio.determined
    assert ratio.note
    assert turns.width(ratio) == math.inf
    assert turns.verdict(ratio) == "undetermined"


def test_a_trial_that_lacks_a_server_is_left_out_for_all():
    logs = pd.DataFrame({"a": [0.1] * 6, "b": [0.2] * 5 + [math.nan]})
    assert {ratio.n for ratio in turns.ratios(logs).values()} == {5}


def test_a_server_without_any_number_leaves_the_others_theirs():
    logs = pd.DataFrame({"a": [0.1, 0.2, 0.1, 0.2], "b": [math.nan] * 4})
    ratios = turns.ratios(logs)
    assert ratios["a"] == turns.ratios(logs[["a"]])["a"]
    assert math.isnan(ratios["b"].value)
    assert not ratios["b"].determined


@pytest.mark.parametrize(
    ("lo", "hi", "verdict"),
    [
        (1.01, 1.2, "higher"),
        (0.7, 0.99, "lower"),
        (0.97, 1.04, "alike"),
        (1.01, 1.04, "higher, alike"),
        (0.96, 0.99, "lower, alike"),
        (0.9, 1.1, "undetermined"),
        (0.97, 1.06, "undetermined"),
        (0.94, 1.0, "undetermined"),
        (1.0, 1.06, "undetermined"),
        (1.0, 1.0, "alike"),
    ],
)
def test_what_an_interval_shows(lo, hi, verdict):
    interval = turns.Interval(math.sqrt(lo * hi), lo, hi, 8, 0.95, "made")
    assert turns.verdict(interval) == verdict


def test_width_is_the_bounds_over_the_middle():
    interval = turns.Interval(2.0, 2 / 1.01, 2 * 1.01, 8, 0.95, "made")
    assert turns.width(interval) == pytest.approx(0.01)


def test_coverage_under_drift_bursts_and_memory():
    """Of 400 made comparisons of three servers 95 % hold all their true ratios."""
    rng = np.random.default_rng(11)
    true = {"epoll": 1.0, "uring": 1.1, "thread": 0.6}
    covered = 0
    for _ in range(400):
        ratios = ratios_of(noisy_slices(rng, trials=6, rounds=25, true=true))
        covered += all(ratios[name].contains(true[name]) for name in ratios)
    low, high = st.binom(400, 0.95).ppf([0.001, 0.999])
    assert low <= covered <= high


def test_taking_turns_is_narrower_than_windows_one_after_another():
    rng = np.random.default_rng(5)
    made = noisy_slices(rng, trials=8, rounds=50, true={"epoll": 1.0, "uring": 1.0})
    paired = turns.width(ratios_of(made)["uring"])
    means = made.groupby(["trial", "server"])["requests"].mean().unstack()
    unpaired = rng.permutation(means["uring"]) / means["epoll"]
    assert paired < turns.width(interval(unpaired)) / 5


def test_what_changes_within_a_trial_is_the_last_third_over_the_first():
    rounds = pd.MultiIndex.from_product([["a", "b"], range(6)], names=["set", "round"])
    falling, level = [8, 8, 9, 5, 4, 4], [2, 3, 9, 9, 2, 3]
    change = turns.last_over_first(pd.Series([*falling, *level], rounds, dtype=float))
    assert change.to_dict() == {"a": 0.5, "b": 1.0}


def test_rounds_without_a_ratio_do_not_count_as_its_end():
    rounds = pd.MultiIndex.from_product([["a"], [4, 3, 2, 1]])
    change = turns.last_over_first(pd.Series([math.nan, 3.0, 5.0, 6.0], rounds))
    assert change["a"] == 0.5
