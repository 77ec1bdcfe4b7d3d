"""What studies share: levels, names, sentences and tallies, from made-up trials."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
import study_made as made

from connlab.study import look, reporting
from connlab.study.cells import Compared, compare_cells
from connlab.study.comparing import Comparison, Equivalence
from connlab.study.interval import Interval
from connlab.study.results import start

WORDS = ("faster than", "slower than", "indistinguishable from", "undetermined")


def run(tmp_path, models=("select", "thread", "epoll"), connections=(1, 100), **how):
    return made.load(tmp_path, made.sweep(models, connections, **how))


def said(word, *, lo=1.9, hi=2.1, n=5, where=None, arm="thread", base="epoll"):
    """Return a comparison with this word and a ratio of 2."""
    ratio = Interval(2.0, lo, hi, n, 0.95, "t")
    alike = Equivalence(False, 0.5, 0.05, (0.95, 1.05), 0.05)
    found = Comparison(word, ratio, alike, 0.01, "higher", "made")
    return Compared(arm, base, where or {"connections": 10}, "throughput_rps", found)


# ---- trials and levels ---------------------------------------------------------


def test_a_part_of_the_trials_still_knows_its_run(tmp_path):
    frame = run(tmp_path, blocks=1)
    marks = (frame["connections"] > 1).astype("boolean")
    marks.iloc[0] = pd.NA
    some = reporting.part(frame, marks)
    assert len(some) == marks.fillna(False).sum()
    assert some.attrs == frame.attrs


def test_marks_of_other_trials_are_refused(tmp_path):
    frame = run(tmp_path, blocks=1)
    few = frame[frame["connections"] > 1]
    with pytest.raises(ValueError, match="marks 6 trials, other ones than the 3"):
        reporting.part(few, frame["connections"] > 1)


def test_the_common_level_is_where_most_models_still_stand(tmp_path):
    frame = run(tmp_path, connections=(10, 1000, 2000, 35_000))
    assert reporting.common_level(frame) == 1000
    level, at = reporting.at_common_level(frame)
    assert (level, set(at["connections"])) == (1000, {1000})
    shifted = frame.assign(idle=frame["connections"] - 10)
    assert reporting.common_level(shifted, by="idle") == 990


def test_without_a_usable_trial_the_highest_level_is_common(tmp_path):
    frame = run(tmp_path, blocks=1).assign(ok=False)
    assert reporting.common_level(frame) == 100


def test_another_baseline_when_the_wanted_one_is_missing(tmp_path):
    frame = run(tmp_path, models=("select", "thread"), connections=(10, 2000))
    assert reporting.baseline_of(frame, "thread") == "thread"
    assert reporting.baseline_of(frame, "epoll") == "thread"


def test_a_figure_says_how_many_trials_a_point_has(tmp_path):
    frame = run(tmp_path, blocks=3)
    factors = ("model", "connections")
    assert "Means over 3 trials per point" in reporting.read_as(frame, factors)
    assert "over 2 to 3 trials" in reporting.read_as(frame.iloc[1:], factors)


def test_bottlenecks_are_counted(tmp_path):
    frame = run(tmp_path, blocks=2)
    assert reporting.bottleneck(frame) == "Of 12 usable trials 12 server-bound."
    assert "only be better" in reporting.bottleneck(frame.assign(label="client-bound"))
    assert reporting.bottleneck(frame.assign(ok=False)).startswith("No trial")


# ---- values --------------------------------------------------------------------


def test_values_are_named_by_model_kind_and_levels(tmp_path):
    frame = run(tmp_path, models=("epoll", "epoll-et"), connections=(10,), blocks=2)
    factors = ("model", "connections")
    results = start(frame, number=1, question="?", factors=factors, root=tmp_path)
    reporting.keep_values(results, frame, {"rps": "throughput_rps"}, by=factors)
    assert list(results.values) == ["epoll_rps_10", "epoll_et_rps_10"]
    assert results.values["epoll_rps_10"]["unit"] == "thousand requests/s"
    assert results.values["epoll_rps_10"]["n"] == 2


def test_means_are_ranked_and_say_whose_they_are(tmp_path):
    frame = run(tmp_path, capacity={"thread": 50_000.0}, alone=1e-9, cv=0.001)
    low, *_, high = reporting.ranked(
        frame[frame["connections"] == 100], "throughput_rps"
    )
    assert low.label_first.startswith("thread per connection with 49.97 ")
    assert low.label_last.endswith("] (thread per connection)")
    assert high.interval.value == pytest.approx(100, rel=0.01)
    alone = replace(low, interval=Interval(50, math.nan, math.nan, 1, 0.95, "t"))
    assert alone.label_last == (
        "50 thousand requests/s (thread per connection; one trial, no interval)"
    )


def test_a_model_without_a_usable_trial_does_not_rank(tmp_path):
    frame = run(tmp_path, connections=(2000,))
    labels = {mean.label for mean in reporting.ranked(frame, "throughput_rps")}
    assert labels == {"thread per connection", "epoll, level-triggered"}


def test_whom_the_client_limited_does_not_rank_and_that_is_said(tmp_path):
    frame = run(tmp_path, connections=(100,))
    assert reporting.that_rank(frame, "throughput_rps") == ""
    bound = frame.model == "epoll"
    frame = frame.assign(
        ok=~bound,
        gates_failed=frame.gates_failed.mask(bound, "client"),
        label=frame.label.mask(bound, "client-bound"),
    )
    labels = {mean.label for mean in reporting.ranked(frame, "throughput_rps")}
    assert labels == {"thread per connection", "select"}
    said = reporting.that_rank(frame, "throughput_rps")
    assert said == " of the models that the client did not limit"
    costs = reporting.ranked(frame, "server_cpu_per_request_s")
    assert len(costs) == 3
    assert reporting.that_rank(frame, "server_cpu_per_request_s") == ""
    assert reporting.ranked(frame[bound], "throughput_rps") == []


# ---- words ---------------------------------------------------------------------


def test_a_word_is_named_by_its_arms_and_level():
    assert reporting.word_name(said("undetermined")) == "thread_epoll_10"
    own = said("undetermined", where={"model": "epoll-et"}, arm="4", base="1")
    assert reporting.word_name(own) == "epoll_et_4_1"


@pytest.mark.parametrize("word", WORDS)
def test_a_verdict_reads_whatever_the_word_is(word):
    text = reporting.verdict(
        said(word),
        arm="A",
        base="B",
        question="Whether A or B serves more",
        times="its throughput",
    )
    if word == "undetermined":
        assert text == "Whether A or B serves more is undetermined (2.00 [1.90, 2.10])."
    else:
        assert text == f"A is {word} B (2.00 [1.90, 2.10] times its throughput)."


def test_a_verdict_from_one_trial_says_so_in_its_brackets():
    one = said("undetermined", lo=math.nan, hi=math.nan, n=1)
    names = {name: look.Style(name, "black", "o") for name in ("thread", "epoll")}
    how = {"does": "serves more", "times": "its throughput", "where": "at noon"}
    assert reporting.verdict_of_models(one, names, **how) == (
        "Whether thread or epoll serves more at noon is undetermined "
        "(2.0; one trial, no interval)."
    )
    text = reporting.settled(one, arm="A", base="B", times="its rate")
    assert text.endswith("(2.0 times its rate; one trial, no interval).")


def test_words_are_kept_with_their_sentences(tmp_path):
    frame = run(tmp_path, capacity={"thread": 50_000.0}, cv=0.001)
    found = compare_cells(
        frame, "throughput_rps", baseline="epoll", within=["connections"]
    )
    results = start(frame, number=1, question="?", factors=["model"], root=tmp_path)
    reporting.keep_words(
        results, frame, found, verdict=lambda one, names: names[one.arm].label
    )
    assert results.words["thread_epoll_100"]["word"] == "slower than"
    assert results.words["thread_epoll_100"]["verdict"] == "thread per connection"
    reporting.keep_words(None, pd.DataFrame(), [], verdict=reporting.verdict)


def test_a_tally_counts_like_with_like(tmp_path):
    frame = run(tmp_path, blocks=1)
    found = [said(word) for word in WORDS]
    assert reporting.tally(frame, found) == (
        "of 4 comparisons with epoll, level-triggered 2 came out different, 1 "
        "indistinguishable within ±5 % and 1 undetermined"
    )
    one = reporting.tally(frame, found[:1])
    assert one.endswith("level-triggered 1 came out different")


@pytest.mark.parametrize(
    ("words", "head"),
    [
        (("faster than", "undetermined"), "Yes"),
        (("slower than", "indistinguishable from"), "Yes"),
        (("indistinguishable from", "indistinguishable from"), "No, not here"),
        (("indistinguishable from", "undetermined"), "Undecided"),
        (("undetermined",), "Undecided"),
    ],
)
def test_the_answer_is_led_by_the_strongest_word(words, head):
    assert reporting.lead([said(word) for word in words]) == head


def test_of_each_model_the_highest_level_counts():
    levels = [("a", "5"), ("a", "40"), ("b", "7"), ("a", "9")]
    found = [said("undetermined", where={"model": m}, arm=n) for m, n in levels]
    assert [(o.where["model"], o.arm) for o in reporting.at_most(found)] == [
        ("a", "40"),
        ("b", "7"),
    ]


# ---- pictures of ratios --------------------------------------------------------


def test_ratios_are_drawn_against_the_baseline(tmp_path):
    frame = run(tmp_path, blocks=3)
    results = start(frame, number=1, question="?", factors=["model"], root=tmp_path)
    options = {"name": "x-ratios", "what": "bytes", "pronoun": "those"}
    assert reporting.ratios(results, frame, [], **options) is None
    found = compare_cells(
        frame, "throughput_rps", baseline="epoll", within=["connections"]
    )
    picture = reporting.ratios(results, frame, found, **options)
    assert results.figures[0]["id"] == "fig-x-ratios"
    assert results.figures[0]["caption"] == (
        "Bytes in relation to epoll, level-triggered, paired by block, with 95 % "
        "intervals. The band is ±5 %; words are corrected for their number (Holm)."
    )
    assert picture.figure.axes[0].get_xlabel() == (
        "Bytes / those of epoll, level-triggered"
    )


def test_a_model_is_drawn_against_itself_level_by_level(tmp_path):
    frame = run(tmp_path, connections=(1, 10, 100), blocks=3)
    results = start(frame, number=1, question="?", factors=["model"], root=tmp_path)
    found = compare_cells(
        frame, "throughput_rps", baseline=1, within=["model"], by="connections"
    )
    picture = reporting.ratios_to_itself(
        results,
        frame,
        found[::-1],
        name="own",
        level=lambda one: float(one.arm),
        said=lambda level: f"{level:g} conn.",
        x_label="x",
        caption="c",
    )
    styles = look.styles(frame)
    assert list(picture.data["arm"]) == [m for m in styles for _ in range(2)]
    assert list(picture.data["label"]) == [
        f"{style.label}, {n} conn." for style in styles.values() for n in (10, 100)
    ]
