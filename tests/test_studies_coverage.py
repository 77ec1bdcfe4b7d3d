"""Simulated sweeps of study 10, against plain loops."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from study_made import usable

from connlab.intervals import ratios
from connlab.studies import coverage


def test_taking_turns_takes_the_weather_out():
    rng = np.random.default_rng(1)
    both = [coverage.log_ratios(rng, 200, 8, together=t) for t in (True, False)]
    turns, sweeps = (logs.std() for logs in both)
    assert turns < 0.3 * sweeps


@pytest.mark.parametrize("together", [True, False])
def test_a_simulated_ratio_is_the_median_of_its_rounds(together):
    logs = coverage.log_ratios(np.random.default_rng(5), 2, 3, together=together)
    rng, size = np.random.default_rng(5), (2, 3, coverage.ROUNDS)

    def noise():
        """Return a walk of 10 % over a trial, with bursts of 30 % in it."""
        steps, bursts = rng.standard_normal(size), rng.random(size) < 0.05
        walk = np.zeros(size)
        for last in range(coverage.ROUNDS):
            walk[..., last] = steps[..., : last + 1].sum(axis=-1)
        return walk * 0.1 / math.sqrt(coverage.ROUNDS) + np.where(bursts, 0.3, 0)

    machine = noise()
    machine -= machine if together else noise()
    one, other = 0.05 * rng.standard_normal((2, *size))
    assert logs == pytest.approx(np.median(machine + one - other, axis=-1))


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
        sides = pd.DataFrame({"block": range(6), "a": 1.0, "b": np.exp(sweep)})
        trials = usable(sides.melt("block", var_name="model", value_name="x"))
        assert ratios(trials, "x", baseline="a")["verdict"].item() == word
    assert set(words) == {"lower", "alike", "higher", "undetermined"}
