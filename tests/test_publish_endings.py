"""How the studies of a run ended: made-up manifests."""

import publish_made as made
import pytest

from connlab import profiles
from connlab.publish import endings

SPENT = "the budget of 9 min 0 s is used; 6 trials are there, fewer than 8 in some"


def width(half=0.03, target=0.02, metric="throughput_rps"):
    met = half is not None and half <= target
    return {"metric": metric, "half_width": half, "target": target, "met": met}


def sweep(reason=SPENT, budget=540.0, widths=(), seconds=60.0):
    rule = {"budget_s": budget}
    about = {"reason": reason, "seconds": seconds}
    return about | {"rule": rule, "widths": list(widths)}


@pytest.mark.parametrize(
    ("reason", "by"),
    [
        (SPENT, "budget, with fewer than 8 in some cells"),
        ("the budget of 3 min 0 s is used; 260 trials are there", "budget"),
        ("every target was met after 8 to 26 trials per cell", "targets"),
        ("no more trials would help after 4 blocks: 2", "no more trials would help"),
        ("all 8 blocks are there", "planned trials"),
        ("all 2 trials per cell are there", "planned trials"),
        ("the one block is there", "planned trials"),
        ("7 to 9 trials per cell are there", "planned trials"),
        ("the most trials allowed (16 per cell) are there; 3", "most trials allowed"),
        ("a person interrupted it", "a person interrupted it"),
    ],
)
def test_what_ended_a_study_is_said_in_a_word_or_as_it_stands(reason, by):
    assert endings.ending({"stopping": sweep(reason)}).by == by


def test_the_widest_interval_is_that_against_its_target():
    widths = [width(0.04, 0.05), width(0.03, 0.02, "server_cpu_per_request_s")]
    end = endings.ending({"stopping": sweep(widths=[*widths, width(None)])})
    assert end.widest.endswith(" ±3.0\u202f%")
    assert "CPU" in end.widest
    assert (end.budget, end.target) == ("9 min", "±2\u202f%")
    assert not end.reached


@pytest.mark.parametrize(
    ("half", "shown"),
    [(0.0503, "±5.03"), (0.05004, "±5.004"), (0.0512, "±5.1"), (0.04996, "±5.0")],
)
def test_what_misses_its_target_is_not_rounded_onto_it(half, shown):
    end = endings.ending({"stopping": sweep(widths=[width(half, 0.05)])})
    assert end.widest.endswith(f" {shown}\u202f%")


def test_several_sweeps_give_each_budget_and_reason_once():
    earlier = {"a": sweep(budget=None, reason="all 6 blocks are there"), "b": sweep()}
    end = endings.ending({"earlier": earlier, "stopping": sweep(budget=26)})
    assert end.budget == "9 min; 26 s"
    assert end.by == "planned trials; budget, with fewer than 8 in some cells"
    assert (end.widest, end.target) == ("—", "—")


def test_an_entry_without_a_sweep_has_no_ending():
    assert endings.ending({}) is None


MET, WIDE, NONE = ([width(0.01)], [width(0.01), width(0.03)], [])


@pytest.mark.parametrize(
    ("studies", "said"),
    [
        ([], ""),
        ([NONE, NONE], ""),
        ([[width(None)]], ""),  # no interval is known
        ([MET], "In this run the only study with a target for the width of its "
         "intervals reached it; @tbl-studies has its widest interval."),
        ([WIDE, NONE], "In this run the only study with a target for the width of its "
         "intervals did not reach it; @tbl-studies has its widest interval."),
        ([WIDE, WIDE], "In this run none of 2 studies with a"),
        ([MET, WIDE, [*MET, width(None)]], "In this run 1 of 3 studies with a"),
        ([MET, MET], "In this run both studies with a"),
        ([MET, MET, MET], "In this run all 3 studies with a"),
    ],
)  # fmt: skip
def test_a_sentence_counts_the_studies_that_reached_their_targets(
    studies, said, tmp_path
):
    entries = {f"s{i}": {"stopping": sweep(widths=w)} for i, w in enumerate(studies)}
    text = endings.targets(made.changed(tmp_path, studies=entries))
    assert text.startswith(said)
    assert bool(text) == bool(said)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("full", "make paper PROFILE=full"),
        ("smoke", "make paper PROFILE=smoke"),
        ("quick", "make paper"),
        ("", "make paper"),
    ],
)
def test_the_command_is_that_of_the_profile_whose_windows_a_run_has(
    name, command, tmp_path
):
    notebooks = profiles.load(name).notebooks if name else {}
    entries = {
        stem.partition("-")[2]: {"parameters": {"duration": parameters["duration"]}}
        for stem, parameters in notebooks.items()
        if "duration" in parameters
    }
    run = made.changed(tmp_path, studies=entries)
    assert endings.command(run) == command
    if entries:  # a study was measured with other windows
        run.studies["load"].entry["parameters"]["duration"] = 77
        assert endings.command(run) == "make paper"
