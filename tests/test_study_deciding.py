"""Advice: every cell that was measured at an end, every model that was in it."""

from __future__ import annotations

import pytest
import study_made as made

from connlab.study import deciding, doubts, sensitivity
from connlab.study.sensitivity import Subject

CAPACITY = {"thread": 50_000.0, "poll": 80_000.0, "epoll": 100_000.0}


def trials(**factors):
    """A sweep of three models, with more factors in every trial."""
    lines = made.sweep(
        tuple(CAPACITY), (10, 100, 1000), capacity=CAPACITY, cv=0.003, alone=1e-6
    )
    for line in lines:
        line["factors"] |= factors
        line["key"] += str(factors)
    return lines


def subject(folder, lines, *within):
    frame = made.load(folder, lines)
    return Subject("made", frame, "throughput_rps", "epoll", within)


def cells(found):
    return [tuple(cell.values()) for cell in deciding.situations(found)]


def test_a_worker_for_each_client_sets_up_a_model_and_makes_no_cell(tmp_path):
    lines = trials()
    for line in lines:
        if line["factors"]["model"] == "thread":
            line["factors"]["workers"] = line["factors"]["connections"]
    frame = made.load(tmp_path, lines)
    factors = sensitivity.factors_of(frame, ["connections", "workers"])
    assert factors == ("connections",)
    found = subject(tmp_path, lines, *factors)
    assert cells(found) == [(10,), (1000,)]
    first = deciding.table([found]).rows[0]
    assert first[2] == "epoll, level-triggered"
    assert first[5] == "thread per connection (0.50) and poll (0.80)"


def test_a_model_without_a_factor_takes_part_at_each_of_its_levels(tmp_path):
    lines = [t for t in trials(workers=4) if t["factors"]["model"] != "epoll"]
    lines += [t for t in trials(workers=8) if t["factors"]["model"] != "epoll"]
    lines += [t for t in trials() if t["factors"]["model"] == "epoll"]
    found = subject(tmp_path, lines, "connections", "workers")
    factors = sensitivity.factors_of(found.frame, found.within)
    assert factors == ("connections", "workers")
    assert cells(found) == [(10, 4), (10, 8), (1000, 4), (1000, 8)]
    for row in deciding.table([found]).rows:
        assert row[2] == "epoll, level-triggered"


def test_leaving_a_factor_alone_is_a_level_of_it(tmp_path):
    lines = trials() + trials(workers=4)
    found = subject(tmp_path, lines, "connections", "workers")
    assert cells(found) == [(10, None), (10, 4), (1000, None), (1000, 4)]
    said = [row[0] for row in deciding.table([found]).rows]
    assert said[:2] == ["made: connections 10", "made: connections 10, workers 4"]


def test_what_all_cells_of_a_study_share_stands_below_the_table(tmp_path):
    found = subject(
        tmp_path, trials(workers=4, delay="fixed:2"), "connections", "workers", "delay"
    )
    printed = deciding.table([found])
    assert [row[0] for row in printed.rows] == [
        "made: connections 10",
        "made: connections 1\u202f000",
    ]
    assert printed.notes == ("made: all with workers 4, delay fixed:2",)


def test_a_cell_at_the_end_of_a_short_line_is_an_end(tmp_path):
    few = [t for t in trials(workers=4) if t["factors"]["connections"] == 100]
    found = subject(tmp_path, trials() + few, "connections", "workers")
    assert cells(found) == [(10, None), (100, 4), (1000, None)]


def test_trials_whose_pace_the_client_was_given_take_no_part(tmp_path):
    made.write(tmp_path, trials() + trials(byte_rate=1e6, block=100))
    (found,), _ = doubts.subjects("made", root=tmp_path)
    assert found.frame["byte_rate"].isna().all()
    assert len(found.frame) == len(trials())


def test_who_is_not_ranked_for_the_client_is_said_apart(tmp_path):
    lines = trials()
    for line in lines:
        if line["factors"]["model"] == "thread":
            line["label"] = "client-bound"
    found = subject(tmp_path, lines, "connections")
    for row in deciding.table([found]).rows:
        assert row[4] == (
            "not ranked, as the client was the limit: thread per connection"
        )
        assert row[5] == "poll (0.80)"


@pytest.mark.parametrize("way", ["median_trial", "without_slowest"])
def test_another_analysis_finds_cells_without_a_level_too(tmp_path, way):
    lines = made.sweep(tuple(CAPACITY), (10,), capacity=CAPACITY, cv=0.003, blocks=8)
    more = [t | {"key": t["key"] + "w", "factors": t["factors"] | {"workers": 4}}
            for t in lines]  # fmt: skip
    found = subject(tmp_path, lines + more, "connections", "workers")
    examined = sensitivity.examine([found])
    assert set(examined[examined["way"] == way]["kind"]) == {"same"}
