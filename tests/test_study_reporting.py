"""Values by name and verdicts as sentences, from made-up trials."""

from __future__ import annotations

import math

import pytest
import study_made as made

from connlab.study import reporting
from connlab.study.cells import Compared
from connlab.study.comparing import Comparison, Equivalence
from connlab.study.interval import Interval
from connlab.study.results import start

WORDS = ("faster than", "slower than", "indistinguishable from", "undetermined")


def run(tmp_path, models=("select", "thread", "epoll"), connections=(1, 100), **how):
    return made.load(tmp_path, made.sweep(models, connections, **how))


def said(word, *, lo=1.9, hi=2.1, n=5):
    """Return a comparison with this word and a ratio of 2."""
    ratio = Interval(2.0, lo, hi, n, 0.95, "t")
    alike = Equivalence(False, 0.5, 0.05, (0.95, 1.05), 0.05)
    found = Comparison(word, ratio, alike, 0.01, "higher", "made")
    return Compared("thread", "epoll", {"connections": 10}, "throughput_rps", found)


# ---- trials and levels ---------------------------------------------------------


def test_another_baseline_when_the_wanted_one_is_missing(tmp_path):
    frame = run(tmp_path, models=("select", "thread"), connections=(10, 2000))
    assert reporting.baseline_of(frame, "thread") == "thread"
    assert reporting.baseline_of(frame, "epoll") == "thread"


# ---- values --------------------------------------------------------------------


def test_values_are_named_by_model_kind_and_levels(tmp_path):
    frame = run(tmp_path, models=("epoll", "epoll-et"), connections=(10,), blocks=2)
    factors = ("model", "connections")
    results = start(frame, number=1, question="?", factors=factors, root=tmp_path)
    reporting.keep_values(results, frame, {"rps": "throughput_rps"}, by=factors)
    assert list(results.values) == ["epoll_rps_10", "epoll_et_rps_10"]
    assert results.values["epoll_rps_10"]["unit"] == "thousand requests/s"
    assert results.values["epoll_rps_10"]["n"] == 2


# ---- words ---------------------------------------------------------------------


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
    text = reporting.settled(one, arm="A", base="B", times="its rate")
    assert text.endswith("(2.0 times its rate; one trial, no interval).")
