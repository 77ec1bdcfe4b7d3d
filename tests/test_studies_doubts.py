"""Study 09's other analyses, on trials of which little or nothing counts."""

import pandas as pd
import pytest

from connlab.studies import doubts


@pytest.fixture
def trials():
    """Two models, four blocks; everything in block 2 is half as fast."""
    rows = [
        {"model": model, "connections": 10, "rate": pd.NA, "block": block}
        | {"throughput_rps": rate * (0.5 if block == 2 else 1.0), "ok": True}
        for block in range(4)
        for model, rate in (("epoll", 1000.0), ("select", 10.0))
    ]
    return pd.DataFrame(rows)


def test_the_slowest_block_is_slow_in_every_cell(trials):
    assert doubts.slowest_block(trials) == 2


def test_a_course_is_measured_from_the_median_of_its_cell(trials):
    course = doubts.course(trials)
    assert course["order"].tolist() == list(range(8))
    assert course.loc[course["block"] != 2, "off"].abs().max() < 1e-9
    assert course.loc[course["block"] == 2, "off"].max() == pytest.approx(-0.693, 0.01)


def test_nothing_that_counts_has_no_slowest_block(trials):
    none = trials.assign(ok=False)
    assert doubts.course(none).empty
    assert doubts.slowest_block(none) == -1
    assert (none["block"] != doubts.slowest_block(none)).all()


def test_decisions_of_no_study_are_a_table_without_rows():
    table = doubts.decisions([], "epoll")
    assert table.empty
    assert list(table) == ["where", "what"]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("higher", "lower", "reversed"),
        ("higher", "undetermined", "weaker"),
        ("undetermined", "alike", "stronger"),
        ("alike", "higher", "other"),
        ("alike", "alike", "same"),
    ],
)
def test_how_a_verdict_changed(before, after, kind):
    assert doubts.kind(before, after) == kind
