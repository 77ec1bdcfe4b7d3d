"""Which trials ran between cores that a host had moved."""

import pytest

from connlab import schema


def trial(set_, *ns, sweep="s"):
    before_s, after_s = (n and n / 1e9 for n in ns)
    times = {"before_s": before_s, "after_s": after_s}
    turns = {"set": set_} if isinstance(set_, str) else None
    return {"sweep": sweep, "key": set_, "turns": turns, "core_to_core": times}


def off(*trials):
    schema.note_moves(trials)
    return [schema.pick(trial, "core_to_core.off") for trial in trials]


@pytest.mark.parametrize(
    ("ns", "expected"), [((80, 85, 370), [0, 0, 1]), ((370, 85, 360), [0, 1, 0])]
)
def test_what_most_trials_have_is_usual_whichever_way_the_others_are_off(ns, expected):
    assert off(*(trial(n, each, each) for n, each in enumerate(ns))) == expected


def test_cores_that_were_moved_while_a_trial_ran_are_half_off():
    assert off(trial(0, 80, 82), trial(1, 79, 365), trial(2, 84, 80)) == [0, 0.5, 0]


def test_of_as_many_trials_the_nearer_cores_are_usual():
    assert off(trial(0, 370, 370), trial(1, 80, 80)) == [1, 0]


def test_a_set_counts_once_however_many_servers_it_has():
    many = [trial("set", 370, 370) for _ in range(9)]
    alone = [trial(n, 80, 80) for n in range(2)]
    assert off(*many, *alone) == [1] * 9 + [0] * 2


def test_each_sweep_has_its_own_usual():
    near = [trial(n, 80, 80, sweep="one") for n in range(3)]
    far = [trial(n, 370, 370, sweep="other") for n in range(2)]
    assert off(*near, *far) == [0] * 5


def test_cores_that_slow_down_are_no_other_cores():
    assert off(trial(0, 80, 80), trial(1, 80, 143), trial(2, 80, 80)) == [0, 0, 0]
    assert off(trial(0, 80, 80), trial(1, 80, 145), trial(2, 80, 80)) == [0, 0.5, 0]


@pytest.mark.parametrize(
    "unknown",
    [trial(0, None, None), {"key": 0}, {"key": 0, "core_to_core": None}],
    ids=["one core", "an old line", "over hosts"],
)
def test_where_no_time_is_known_nothing_is_noted(unknown):
    assert off(unknown, trial(1, 80, 80)) == [None, 0]
