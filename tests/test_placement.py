"""Trials between cores that a host moved apart, or together, do not count."""

import pytest

from connlab import schema


def trial(set_, *ns, sweep="s"):
    before_s, after_s = (n and n / 1e9 for n in ns)
    times = {"before_s": before_s, "after_s": after_s}
    turns = {"set": set_} if isinstance(set_, str) else None
    return {"sweep": sweep, "key": set_, "turns": turns, "core_to_core": times}


def judged(*trials):
    schema.note_usual(trials)
    return [schema.placement_gate(trial).ok for trial in trials]


def test_what_most_trials_have_is_usual_whichever_way_the_others_are_off():
    assert judged(*(trial(n, ns, ns) for n, ns in enumerate((80, 85, 370)))) == [
        *(True, True),
        False,
    ]
    assert judged(*(trial(n, ns, ns) for n, ns in enumerate((370, 85, 360)))) == [
        *(True, False),
        True,
    ]


def test_cores_that_were_moved_while_a_trial_ran_leave_it_out():
    assert judged(trial(0, 80, 82), trial(1, 79, 365), trial(2, 84, 80)) == [
        *(True, False),
        True,
    ]


def test_of_as_many_trials_the_nearer_cores_are_usual():
    assert judged(trial(0, 370, 370), trial(1, 80, 80)) == [False, True]


def test_a_set_counts_once_however_many_servers_it_has():
    many = [trial("set", 370, 370) for _ in range(9)]
    alone = [trial(n, 80, 80) for n in range(2)]
    assert judged(*many, *alone) == [False] * 9 + [True] * 2


def test_each_sweep_has_its_own_usual():
    near = [trial(n, 80, 80, sweep="one") for n in range(3)]
    far = [trial(n, 370, 370, sweep="other") for n in range(2)]
    assert judged(*near, *far) == [True] * 5


def test_cores_that_slow_down_are_no_other_cores():
    assert judged(trial(0, 80, 80), trial(1, 80, 143), trial(2, 80, 80)) == [True] * 3
    assert judged(trial(0, 80, 80), trial(1, 80, 145), trial(2, 80, 80))[1] is False


def test_a_cell_that_would_have_too_few_keeps_all_that_were_measured():
    few, many = {"model": "poll"}, {"model": "epoll"}
    of_few = [
        {**trial(n, ns, ns), "factors": few} for n, ns in enumerate((80, 80, 370))
    ]
    of_many = [
        {**trial(n, ns, ns), "factors": many}
        for n, ns in enumerate((80, 80, 80, 80, 370), start=10)
    ]
    assert schema.note_usual(of_few + of_many, enough=4) == of_few[2:]
    assert [schema.placement_gate(each).ok for each in of_few] == [True, True, None]
    assert [schema.placement_gate(each).ok for each in of_many] == [*[True] * 4, False]


def test_a_set_that_one_of_its_servers_lacks_counts_for_all_of_them():
    """A ratio takes both servers of a set."""
    sets = [
        {**trial(name, ns, ns), "factors": {"model": model}}
        for name, ns, models in (
            *((name, 80, ("epoll", "poll")) for name in "abc"),
            ("d", 370, ("epoll", "poll")),
            ("e", 80, ("epoll", "select")),
            ("f", 375, ("epoll", "thread")),
        )
        for model in models
    ]
    for enough, spared in ((3, {"f"}), (4, {"d", "f"})):
        found = schema.note_usual(sets, enough=enough)
        assert {each["turns"]["set"] for each in found} == spared
        assert len(found) == 2 * len(spared)


@pytest.mark.parametrize(
    "unknown",
    [trial(0, None, None), {"key": 0}, {"key": 0, "core_to_core": None}],
    ids=["one core", "an old line", "over hosts"],
)
def test_where_no_time_is_known_the_gate_does_not_apply(unknown):
    assert judged(unknown, trial(1, 80, 80)) == [None, True]


def test_the_verdict_says_how_far_apart_the_cores_were():
    trials = [trial(0, 80, 80), trial(1, 80, 80), trial(2, 80, 370)]
    schema.note_usual(trials)
    gate = schema.placement_gate(trials[2])
    assert gate.value == pytest.approx(370 / 80)
    assert gate.why == "80 and 370 ns from core to core and back, usual 80"
