"""Study 11's formulas against queues that are simulated, and curves that are known."""

import heapq
import math

import notebook_rules as rules
import numpy as np
import pandas as pd
import pytest
import study_made as made
from drive_fakes import measure, rows
from scipy import stats

from connlab import schema
from connlab.intervals import intervals
from connlab.studies import bounds, load


def simulated(rate, services, servers, rng):
    """Return the mean wait of a queue, first come, first served."""
    arrivals = np.cumsum(rng.exponential(1 / rate, len(services)))
    free = [0.0] * servers
    waited = 0.0
    for at, service in zip(arrivals, services, strict=True):
        start = max(at, heapq.heappop(free))
        waited += start - at
        heapq.heappush(free, start + service)
    return waited / len(services)


@pytest.mark.parametrize("share", [0.3, 0.7, 0.9])
@pytest.mark.parametrize(("servers", "random"), [(1, False), (1, True), (4, True)])
def test_the_wait_is_that_of_a_simulated_queue(share, servers, random):
    """Where service times are exponential, users wait twice as long."""
    rng = np.random.default_rng(7)
    service, n = 0.001, 200_000
    rate = share * servers / service
    services = rng.exponential(service, n) if random else np.full(n, service)
    wait = load.waiting(rate, service, servers=servers) * (2 if random else 1)
    simulation = simulated(rate, services, servers, rng)
    assert wait == pytest.approx(simulation, rel=0.12, abs=2e-6)


def test_beyond_capacity_the_wait_has_no_end():
    assert load.waiting(1000, 0.001) == math.inf
    assert load.waiting(4001, 0.001, servers=4) == math.inf


@pytest.mark.parametrize(
    ("loads", "latencies", "knee"),
    [
        ([0.1, 0.5, 0.9], [1.0, 1.0, 4.0], 0.7),
        ([0.9, 0.1, 0.5], [4.0, 1.0, 1.0], 0.7),
        ([0.1, 0.5], [1.5, 3.0], 0.5),
        # a curve without one
        ([0.1, 0.9], [1.0, 1.9], math.nan),
        ([], [], math.nan),
        ([0.1], [math.nan], math.nan),
    ],
)
def test_the_knee_lies_where_the_latency_has_doubled(loads, latencies, knee):
    assert load.knee(loads, latencies) == pytest.approx(knee, nan_ok=True)


def bending(*, straight: int | None = None) -> pd.DataFrame:
    """Return six blocks whose latency doubles at 0.7, but for one that is straight."""
    frame = made.crossed(block=range(6), load=(0.1, 0.5, 0.9)).assign(p99_s=1.0)
    bent = (frame["load"] == 0.9) & (frame["block"] != straight)
    frame.loc[bent, "p99_s"] = 4 + frame["block"] / 10
    return frame.assign(model="epoll", ok=True)


def test_a_knee_is_given_where_every_block_has_one():
    for straight, known in ((None, True), (3, False)):
        places = load.knees(bending(straight=straight), "p99_s", ["model"])
        cells = bounds.complete(intervals(places, "knee", "model"))
        assert cells["value"].notna().item() is known
        assert cells["n"].item() == (6 if known else 5)


def test_a_baseline_measured_once_more_moves_no_knee():
    frame = bending().assign(carried=False)
    once_more = frame[frame["load"] == 0.5].assign(carried=True, p99_s=9.0)
    again = load.knees(pd.concat([frame, once_more]), "p99_s", ["model"])
    assert again.equals(load.knees(frame, "p99_s", ["model"]))


def test_a_block_without_its_lowest_load_has_no_knee_to_ask_for():
    frame = bending()
    frame.loc[(frame["block"] == 2) & (frame["load"] == 0.1), "ok"] = False
    assert set(load.knees(frame, "p99_s", ["model"])["block"]) == {0, 1, 3, 4, 5}
    assert load.knees(frame.iloc[:0], "p99_s", ["model"]).empty


def turned(key: str, seconds: list[float], **facts) -> dict:
    """Return a trial in turns of 50 ms, which begin with a lead-in of 10."""
    turns = {"round": list(range(len(seconds))), "seconds": seconds}
    return {"key": key, "turns": turns | {"slice_ms": 50, "lead_in_ms": 10} | facts}


def test_turns_of_an_overloaded_server_last_longer(tmp_path):
    rows = [
        turned("keeps up", [0.0402, 0.0404, 0.2]),  # a pause of the machine
        turned("half as much again", [0.065] * 3),
        turned("disturbed", [0.09, 0.04, 0.09], disturbed=[0, 2]),
        turned("nothing", [0.09], disturbed=[0]),
        {"key": "alone", "turns": None},
    ]
    made.write(tmp_path, rows, study="load", file=schema.TRIALS)
    lasted = load.turns_over_plan("made", root=tmp_path)
    expected = {"keeps up": 1.008, "half as much again": 1.5, "disturbed": 1.0}
    assert lasted == pytest.approx(expected)
    assert load.turns_over_plan("none", root=tmp_path) == {}


def test_strain_is_what_fell_due_over_what_was_answered():
    keys = pd.array(["turns", "alone", "closed"], dtype="string")
    rates = {"rate": [150.0, 120.0, math.nan], "throughput_rps": [150.0, 100.0, 100.0]}
    frame = pd.DataFrame({"key": keys, **rates})
    strain = load.strain(frame, {"turns": 1.5, "closed": 3.0})
    assert strain.tolist() == pytest.approx([1.5, 1.2, math.nan], nan_ok=True)
    assert load.strain(frame, {}).tolist()[:2] == pytest.approx([1.0, 1.2])


def test_a_cell_is_overloaded_by_its_median_trial():
    strains = [("thread", 1.5), ("thread", 1.5), ("thread", 1.0)]
    strains += [("epoll", 1.0), ("epoll", 1.0), ("epoll", 9.0)]
    strains += [("poll", 1.0), ("poll", 9.0), ("poll", 9.0), ("closed", math.nan)]
    frame = pd.DataFrame(strains, columns=["model", "strain"])
    frame["load"] = np.where(frame["model"] == "closed", math.nan, 0.5)
    frame["ok"] = ~((frame["model"] == "poll") & (frame["strain"] > 1))
    marked = frame[load.overloaded(frame, ["model", "load"])]
    assert marked["model"].tolist() == ["thread"] * 3
    assert load.overloaded(frame.iloc[:0], ["model", "load"]).empty


def test_what_overload_leaves_is_a_ratio_of_two_means():
    """The closed loop was measured too: its mean is known no better."""
    cell = ["model", "work", "connections"]
    frame = made.crossed(model=("epoll", "poll"), block=range(5))
    frame = made.usable(frame, work="echo", connections=50)
    scatter = np.random.default_rng(1).lognormal(0, 0.05, (2, len(frame)))
    over = frame.assign(load=1.2, throughput_rps=90 * scatter[0])
    alone = frame.assign(throughput_rps=100 * scatter[1]).query("model == 'epoll'")
    (row,) = load.kept(over, alone, [*cell, "load"]).to_dict("records")
    y, x = (np.log(t["throughput_rps"][t["model"] == "epoll"]) for t in (over, alone))
    test = stats.ttest_ind(y, x, equal_var=False).confidence_interval(0.95)
    assert [row["lo"], row["hi"]] == pytest.approx([*np.exp(test)])
    assert (row["model"], row["load"], row["metric"]) == ("epoll", 1.2, "kept")


@pytest.mark.parametrize(("served", "evenness"), [(1.0, 1.0), (0.5, 0.5625)])
def test_users_who_are_treated_alike_share_as_evenly_as_arrivals(served, evenness):
    """Where one of two gets nothing: 0.5 / (1 + 1 / 7) over 1 / (1 + 1 / 3.5)."""
    dice = np.random.default_rng(1)
    answers = dice.poisson(7, 20_000)[: int(served * 20_000)]
    jain = answers.sum() ** 2 / (20_000 * (answers**2).sum())
    facts = {"fairness_jain": jain, "connections": 20_000}
    frame = pd.DataFrame([facts | {"window_requests": answers.sum()}])
    assert load.evenness(frame).item() == pytest.approx(evenness, rel=0.01)


def test_cells_are_named_once_with_their_loads():
    rows = [("thread", "echo", 50, x) for x in (0.9, 0.7, 0.9)]
    columns = ["model", "work", "connections", "load"]
    text = load.cells_text(pd.DataFrame(rows, columns=columns), {"thread": "a thread"})
    assert text == "a thread (echo, 50 connections, 70 and 90 %)"
    busy = pd.DataFrame([("thread", "spin", 50, 0.7)], columns=columns)
    assert "(computing, 50" in load.cells_text(busy, {"thread": "a thread"})
    alone = pd.DataFrame([("thread", "echo", 1, 0.7)], columns=columns)
    assert "1 connection," in load.cells_text(alone, {"thread": "a thread"})


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_a_server_that_is_a_known_queue_is_found_to_be_one(tmp_path):
    """M/D/1 at half of its capacity: half of the requests find it idle.

    What else runs can only make a wait longer. A single stall of the server moves the
    mean by much more than it moves the median, which bounds it from above.
    """
    rate, service = 500, 0.001
    factors = {"model": ["epoll"], "rate": [rate]}
    fixed = {"connections": 50, "workload": "work", "delay_kind": "spin"}
    fixed |= {"delay": "1ms"}
    measure(tmp_path, factors=factors, fixed=fixed, trials=4, duration=4, warmup=0.2)
    expected = service + load.waiting(rate, service)
    medians, quiet = [], 0
    for trial in rows(tmp_path):
        row = schema.flatten(trial)
        mean, median = row["response_mean_s"], row["response_p50_s"]
        assert mean is None or mean > 0.8 * expected
        medians += [median] if median else []
        quiet += all(gate["ok"] is not False for gate in trial["gates"].values())
    if quiet < 2 and not min(medians, default=1) < expected:
        pytest.skip("other programs or a late client left too few trials to judge")
    assert min(medians) < expected


def test_loads_are_called_as_they_were_asked_for_where_they_lie_near():
    loads = pd.Series([0.102, 0.71, 0.92, 0.6, 1.21, None])
    named = load.as_asked(loads, [0.1, 0.5, 0.7, 0.9, 1.2])
    assert named.tolist()[:5] == [0.1, 0.7, 0.9, 0.6, 1.2]
    assert pd.isna(named[5])


def test_loads_that_lie_close_keep_their_names():
    asked = [0.98, 0.9, 0.94]
    loads = pd.Series([0.9, 0.905, 0.94, 0.935, 0.98, 1.0])
    assert load.as_asked(loads, asked).tolist() == [0.9, 0.9, 0.94, 0.94, 0.98, 0.98]
    assert load.as_asked(loads, []).tolist() == loads.round(2).tolist()
