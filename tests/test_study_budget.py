"""The variance budget finds what was put in, and recommends by it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from connlab.study import budget
from connlab.study.results import Results


def made(*, inside, between, trials=60, windows=20, mean=1000.0):
    dice = np.random.default_rng(1)
    middles = mean * (1 + between * dice.standard_normal(trials))
    rows = [
        (str(key), 0.1 * i, middle * (1 + inside * dice.standard_normal()))
        for key, middle in enumerate(middles)
        for i in range(windows)
    ]
    frame = pd.DataFrame(rows, columns=["key", "start_s", "throughput_rps"])
    good = frame.groupby("key", as_index=False)["throughput_rps"].mean()
    return good, frame


def results(tmp_path, **stopping):
    return Results(
        study="made",
        run="made",
        number=0,
        question="?",
        folder=tmp_path,
        trials={"total": 60},
        stopping=stopping,
    )


def percent(cell):
    return float(cell.removesuffix("\u202f%"))


def test_components_are_those_that_were_put_in(tmp_path):
    kept = results(tmp_path, seconds=60.0, window_share=0.5)
    found = budget.variance(kept, *made(inside=0.10, between=0.04), name="x")
    window, trial, session = found.rows
    assert percent(window[2]) == pytest.approx(10, abs=0.7)
    assert percent(trial[2]) == pytest.approx(4, abs=1)
    assert percent(window[3]) + percent(trial[3]) == pytest.approx(100, abs=1)
    assert session[1:] == ("1", "—", "—", "—", "—")
    assert kept.tables[0]["id"] == "tbl-x"


def test_repetitions_follow_costs_and_components(tmp_path):
    kept = results(tmp_path, seconds=60.0, window_share=0.5)
    window, trial, _ = budget.variance(
        kept, *made(inside=0.10, between=0.04), name="x"
    ).rows
    assert trial[4] == "0.5"  # half of 60 s over 60 trials
    # sqrt(0.5 s / 0.1 s · 0.10² / 0.04²) = 5.6
    assert 5 <= int(window[5].split()[0]) <= 8
    assert trial[5].split()[0] in {"5", "6"}  # for ±5 % at 4 to 5 %


def test_more_noise_between_trials_asks_for_more_of_them(tmp_path):
    def trials(between):
        kept = results(tmp_path)
        table = budget.variance(kept, *made(inside=0.1, between=between), name="x")
        return int(table.rows[1][5].split()[0])

    assert trials(0.2) > 4 * trials(0.02)


def test_an_unrecorded_cost_recommends_no_windows(tmp_path):
    found = budget.variance(
        results(tmp_path), *made(inside=0.1, between=0.04), name="x"
    )
    assert found.rows[0][5] == found.rows[1][4] == "—"


@pytest.mark.parametrize("few", [{"trials": 1}, {"windows": 1}])
def test_too_little_gives_no_table(tmp_path, few):
    kept = results(tmp_path)
    assert (
        budget.variance(kept, *made(inside=0.1, between=0.1, **few), name="x") is None
    )
    assert kept.tables == []
