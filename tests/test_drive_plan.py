"""What a sweep will cost, before anything has been measured."""

import drive_fakes
import pytest
from drive_fakes import asked

from connlab import schema
from connlab.drive import flags, plan, sweeps, trials, turns

WINDOW = {"duration": 1.0, "warmup": 0.2}


def work(connections: int = 10, **changes) -> plan.SweepPlan:
    factors = {"model": ["good"], "connections": [connections]}
    options = asked(factors=factors, fixed={}, **WINDOW)
    return drive_fakes.planned("s", run="r", trials=1, **options | changes)


def guess(*connections: int, **changes) -> float:
    return plan.guess_s(work(*connections, **changes), 0, [])


def test_a_guess_holds_warm_up_and_window_and_little_else():
    assert 1.2 < guess() < 1.4


def test_windows_that_are_prolonged_cost_more():
    short = guess(10_000, response_times=0)
    assert guess(10_000) > short + 1
    assert guess(10_000, duration_max=1.5) == pytest.approx(short + 0.5)
    assert guess(10_000, fixed={"rate": 1000.0}) == short


def test_servers_in_turns_are_connected_to_one_after_the_other():
    """And one more answer each: in a set 10 000 connections take half a second."""
    factors, together = {"model": ["good", "busy"]}, {"beside": "model"}
    together["response_times"] = 0  # else windows are longer as well
    few, many = (
        work(factors=factors, fixed={"connections": count}, **together)
        for count in (10, 10_000)
    )
    assert few.cells[0]["slice"] == 1e3 * turns.usual_slice_s(few.cells[0])
    few_s, many_s = (plan.guess_s(each, 0, []) for each in (few, many))
    assert 0.4 < many_s - few_s < 0.8


def test_what_was_measured_is_known_better_than_guessed():
    assert plan.guess_s(work(), 0, [3.0, 5.0]) == 4.0


@pytest.mark.parametrize(
    ("workers", "seconds"), [(None, 0.05), (16, 5.12), (512, 0.16)]
)
def test_a_burst_takes_as_long_as_its_delays_keep_the_workers_busy(workers, seconds):
    """1024 requests of 80 ms: all at once, or 16 or 512 of them."""
    burst = {"workload": "work", "connections": 1024, "requests": 1, "delay": "80"}
    kind = "none" if workers is None else "fixed"
    model = schema.Model(name="m", family="f", label="m", workers=kind)
    guess_s = plan._window_s(burst | {"workers": workers}, model)
    assert guess_s == pytest.approx(seconds + 0.08, rel=0.4)


@pytest.mark.parametrize(
    ("more", "holds", "seconds"), [({}, "one", 20.5), ({"think": "500"}, None, 0.66)]
)
def test_a_burst_takes_longer_where_one_is_served_or_users_think(more, holds, seconds):
    burst = {"workload": "work", "connections": 256, "requests": 1, "delay": "80"}
    model = schema.Model(name="m", family="f", label="m", holds=holds)
    assert plan.burst_s(burst | more, model) == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize(("delay_ms", "patient"), [(80, False), (200_000, True)])
def test_of_a_burst_that_takes_long_the_last_answer_is_waited_for(delay_ms, patient):
    burst = {"requests": 1, "delay": delay_ms}
    long = work(fixed=burst)
    factors = sweeps._client_factors(long, long.cells)
    assert (factors.get("timeout", 0) > 200) is patient
    assert (trials.timeout_s(factors) > 400) is patient
    asked = work(fixed=burst | {"timeout": 5})
    assert sweeps._client_factors(asked, asked.cells)["timeout"] == 5


def test_a_server_has_the_workers_of_all_its_processes():
    facts = {"name": "m", "family": "f", "label": "m", "holds": "workers"}
    model = schema.Model(**facts, workers="fixed")
    assert plan._leaves_some_waiting({"connections": 16}, model)
    two = {"connections": 16, "processes": 2}
    assert not plan._leaves_some_waiting(two, model)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("5", 0.005), ("exponential:5", 0.005), ("uniform:250us:50us", 250e-6)),
        *((None, 0), ("500ns", 5e-7), ("fixed:1e3us", 1e-3), (1e-05, 1e-8)),
    ],
)
def test_the_mean_of_a_delay(text, seconds):
    assert flags.mean_s(text) == pytest.approx(seconds)


def test_windows_are_prolonged_unless_it_is_a_burst():
    assert work().cells[0]["response_times"] == 50
    assert "response_times" not in work(response_times=0).cells[0]
    burst = work(fixed={"requests": 3}).cells[0]
    assert burst["response_times"] is None
    assert "--response-times" not in flags.client_flags(burst, seed=1)


def test_an_estimate_is_the_sum_of_its_trials():
    options = asked(["good", "busy"], **WINDOW)
    single = drive_fakes.estimate("s", run="r", trials=1, **options)
    five = drive_fakes.estimate("s", run="r", trials=5, **options)
    assert (single.trials, five.trials) == (2, 10)
    assert five.seconds == pytest.approx(5 * single.seconds)


def test_a_server_of_others_is_not_swept_with_what_it_is_not_told():
    mine = asked(factors={"model": ["./mine {port}"]}, trials=1, **WINDOW)
    one, two = (mine | {"fixed": {"processes": count}} for count in (1, 2))
    with pytest.raises(ValueError, match="{port}:processes=2: .*no settings"):
        drive_fakes.planned("s", run="r", **two)
    assert drive_fakes.planned("s", run="r", **one).cells
