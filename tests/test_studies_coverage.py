"""Simulated sweeps of study 10, against plain loops."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from study_made import usable

from connlab.intervals import ratios
from connlab.studies import coverage


def test_taking_turns_takes_the_weather_out():
    rng = np.random.default_rng(1)
    turns, sweeps = (
        coverage.log_ratios(rng, 200, 8, together=t).std() for t in (True, False)
    )
    assert turns < 0.3 * sweeps


def test_a_sweep_stops_at_the_first_narrow_interval():
    x = 0.2 * np.random.default_rng(2).standard_normal((50, 40))
    covered = coverage.holds_when_stopped(x, first=5, target=0.08)
    for trials, holds in zip(x, covered, strict=True):
        for n in range(5, 41):
            half = stats.t.ppf(0.975, n - 1) * stats.sem(trials[:n])
            if half <= 0.08 or n == 40:
                break
        assert holds == (abs(trials[:n].mean()) <= half)


@pytest.mark.parametrize(("first", "low", "high"), [(3, 0.85, 0.94), (40, 0.92, 0.98)])
def test_stopping_early_costs_coverage(first, low, high):
    x = 0.1 * np.random.default_rng(3).standard_normal((4000, 40))
    assert low < coverage.holds_when_stopped(x, first, 0.06).mean() < high


def test_a_simulated_verdict_is_the_one_that_a_study_prints():
    """An interval within the margin that leaves out 1 is no likeness."""
    rng = np.random.default_rng(4)
    spread = np.array([0.002, 0.02, 0.1])[:, None]
    logs = np.concatenate(
        [truth + spread * rng.standard_normal((3, 6)) for truth in (-0.03, 0.0, 0.03)]
    )
    words = coverage.verdicts(logs)
    for sweep, word in zip(logs, words, strict=True):
        sides = (("a", np.ones(6)), ("b", np.exp(sweep)))
        trials = usable(
            pd.concat(
                pd.DataFrame({"model": model, "block": range(6), "x": x})
                for model, x in sides
            )
        )
        assert ratios(trials, "x", baseline="a")["verdict"].item() == word
    assert set(words) == {"lower", "alike", "higher", "undetermined"}
