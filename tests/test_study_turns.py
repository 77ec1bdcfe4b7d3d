"""Ratios of servers that took turns: hand-made rounds, and simulated noise."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import signal
from scipy import stats as st

from connlab.study import turns


def slices_of(rates: dict, *, trial: int = 0, cpu_s: dict | None = None):
    """Return slices of 20 ms in which servers answer at `rates`, a list per server."""
    rows = []
    for server, each in rates.items():
        for number, rate in enumerate(each):
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
            own = signal.lfilter([1], [1, -0.5], rng.normal(0, 0.03, rounds))
            logs = shared + own + rng.normal(0, 0.01) + math.log(ratio)
            rates[server] = 1e5 * np.exp(logs)
        frames.append(slices_of(rates, trial=trial))
    return pd.concat(frames)


def ratios_of(slices: pd.DataFrame, metric: str = "rate", baseline: str = "epoll"):
    """Return the ratios of all servers to the baseline."""
    rounds = turns.per_round(slices)
    return turns.ratios(turns.log_ratios(rounds, metric, baseline=baseline))


def test_rate_and_cost_of_a_slice():
    made = turns.per_round(slices_of({"epoll": [1000]}, cpu_s={"epoll": 3e-6}))
    assert made["rate"].item() == pytest.approx(1000)
    assert made["cpu"].item() == pytest.approx(3e-6)


def test_the_lead_in_costs_but_is_no_part_of_the_rate():
    made = slices_of({"epoll": [1000]}, cpu_s={"epoll": 3e-6})
    made = turns.per_round(made.assign(lead_in_requests=20, requests=20))
    assert made["rate"].item() == pytest.approx(1000)
    assert made["cpu"].item() == pytest.approx(1.5e-6)


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
        kept = {"round": [first + i for i in range(3)], "requests": requests}
        kept |= {"seconds": [0.1] * 3, "lead_in_requests": [0] * 3}
        kept |= {"server_cpu_ns": [100] * 3, "response_ns": [100] * 3}
        return pd.DataFrame({"set": [name], "rounds": [turns.Rounds(kept)]})

    base = trials("a", [10, 10, 10], 4)
    found = turns.course(trials("a", [5, 20, 0], 4), base, "throughput_rps")
    assert found["round"].tolist() == [4, 5]
    assert found["position"].tolist() == [0, 1]
    assert found["ratio"].tolist() == pytest.approx([0.5, 2])
    more = turns.differences(trials("a", [5, 20, 30], 4), base, "throughput_rps")
    assert more == pytest.approx([100])
    assert not len(
        turns.differences(trials("b", [5, 20, 0], 4), base, "throughput_rps")
    )
    assert turns.course(trials("b", [5, 20, 0], 4), base, "throughput_rps").empty
    assert turns.course(base.assign(set=None), base, "throughput_rps").empty


def test_what_disturbs_a_round_leaves_the_ratio_alone():
    disturbed = np.array([1, 0.2, 3, 0.5])
    made = pd.concat(
        slices_of({"epoll": 100 * disturbed, "uring": 120 * disturbed}, trial=trial)
        for trial in range(4)
    )
    found = ratios_of(made)["uring"]
    assert [found.lo, found.value, found.hi] == pytest.approx([1.2, 1.2, 1.2])


def test_one_comparison_is_students_t_on_logs():
    logs = pd.DataFrame({"poll": [0.01, 0.03, -0.02, 0.02, 0.04]})
    found = turns.ratios(logs)["poll"]
    theirs = st.ttest_1samp(logs["poll"], 0).confidence_interval(0.95)
    assert [found.lo, found.hi] == pytest.approx(np.exp([theirs.low, theirs.high]))
    assert found.value == pytest.approx(st.gmean(np.exp(logs["poll"])))
    assert found.n == 5


def test_more_comparisons_make_each_interval_wider():
    rng = np.random.default_rng(3)
    logs = pd.DataFrame(rng.normal(0, 0.01, (6, 5)), columns=list("abcde"))
    alone = turns.ratios(logs[["a"]])["a"]
    among = turns.ratios(logs)["a"]
    assert turns.width(among) > turns.width(alone)
    theirs = st.ttest_1samp(logs["a"], 0).confidence_interval(1 - 0.05 / 5)
    assert [among.lo, among.hi] == pytest.approx(np.exp([theirs.low, theirs.high]))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_fewer_than_four_trials_have_no_interval(n):
    found = turns.ratios(pd.DataFrame({"poll": [0.1] * n}, dtype=float))["poll"]
    assert not found.determined
    assert found.note
    assert turns.width(found) == math.inf
    assert turns.verdict(found) == "undetermined"


def test_a_trial_that_lacks_a_server_is_left_out_for_all():
    logs = pd.DataFrame({"a": [0.1] * 6, "b": [0.2] * 5 + [math.nan]})
    assert {found.n for found in turns.ratios(logs).values()} == {5}


@pytest.mark.parametrize(
    ("lo", "hi", "said"),
    [
        (1.01, 1.2, "more"),
        (0.7, 0.99, "less"),
        (0.97, 1.04, "alike"),
        (1.01, 1.04, "more, alike"),
        (0.96, 0.99, "less, alike"),
        (0.9, 1.1, "undetermined"),
        (0.97, 1.06, "undetermined"),
        (0.94, 1.0, "undetermined"),
    ],
)
def test_what_an_interval_shows(lo, hi, said):
    middle = math.sqrt(lo * hi)
    found = turns.Interval(middle, lo, hi, 8, 0.95, "made")
    assert turns.verdict(found) == said


def test_width_is_the_bounds_over_the_middle():
    found = turns.Interval(2.0, 2 / 1.01, 2 * 1.01, 8, 0.95, "made")
    assert turns.width(found) == pytest.approx(0.01)


def test_a_geometric_mean_holds_what_t_on_logs_holds():
    found = turns.geometric_mean([1.0, 2.0, 4.0, 8.0])
    assert found.value == pytest.approx(math.sqrt(8))
    theirs = st.ttest_1samp(np.log([1, 2, 4, 8]), 0).confidence_interval()
    assert [found.lo, found.hi] == pytest.approx(np.exp([theirs.low, theirs.high]))


def test_coverage_under_drift_bursts_and_memory():
    """Of 400 made comparisons of three servers 95 % hold all their true ratios."""
    rng = np.random.default_rng(11)
    true = {"epoll": 1.0, "uring": 1.1, "thread": 0.6}
    held = 0
    for _ in range(400):
        found = ratios_of(noisy_slices(rng, trials=6, rounds=25, true=true))
        held += all(found[name].contains(true[name]) for name in found)
    low, high = st.binom(400, 0.95).ppf([0.001, 0.999])
    assert low <= held <= high


def test_taking_turns_is_narrower_than_windows_one_after_another():
    rng = np.random.default_rng(5)
    made = noisy_slices(rng, trials=8, rounds=50, true={"epoll": 1.0, "uring": 1.0})
    paired = turns.width(ratios_of(made)["uring"])
    each = made.groupby(["trial", "server"])["requests"].mean().unstack()
    apart = rng.permutation(each["uring"]) / each["epoll"]
    assert paired < turns.width(turns.geometric_mean(apart)) / 5
