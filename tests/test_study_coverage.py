"""Coverage by simulation: small, seeded, against what theory says."""

from __future__ import annotations

import numpy as np
import pytest

from connlab.study import coverage


@pytest.mark.parametrize("name", ["normal", "skewed", "disturbed"])
def test_distributions_have_the_truth_they_claim(name):
    d = coverage.DISTRIBUTIONS[name]
    x = d.draw(np.random.default_rng(1), 400_000)
    assert x.mean() == pytest.approx(d.mean, rel=3e-3)
    if np.isfinite(d.median):
        assert np.median(x) == pytest.approx(d.median, rel=5e-3)


def test_t_keeps_its_level_for_normal_trials():
    i = coverage.of_interval("t", "normal", 5, repetitions=1500)
    assert i.contains(0.95)


def test_t_misses_more_often_under_skew():
    i = coverage.of_interval("t", "skewed", 5, repetitions=1500)
    assert i.hi < 0.95


def test_pairing_keeps_the_level_and_narrows():
    paired, narrow = coverage.of_ratio(6, paired=True, repetitions=600)
    free, wide = coverage.of_ratio(6, paired=False, repetitions=600)
    assert paired.contains(0.95)
    assert free.value > 0.93
    assert narrow < wide


def test_equivalence_is_rarely_claimed_at_the_margin():
    at_margin = coverage.of_equivalence(8, 1.05, repetitions=600)
    alike = coverage.of_equivalence(8, 1.0, repetitions=600)
    assert at_margin.lo < 0.05
    assert at_margin.value < 0.08
    assert alike.value > 0.9


def test_tables_have_what_figures_need():
    t = coverage.intervals_table([3, 8], distribution="normal", repetitions=30, seed=1)
    assert set(t["curve"]) == {
        "mean, t",
        "mean, BCa bootstrap",
        "median, order statistics",
    }
    assert not ((t["curve"] == "median, order statistics") & (t["n"] == 3)).any()
    s = coverage.stopping_table(
        [3, 10], cvs=[0.1], target=0.05, n_max=50, repetitions=500, seed=1
    )
    assert s["value"].is_monotonic_increasing
    assert coverage.lowest(s)["n"] == 3
    r = coverage.ratios_table([3], repetitions=30, seed=1)
    assert len(r) == 2
    e = coverage.equivalence_table([1.0, 1.05], trials=[5], repetitions=30, seed=1)
    assert e["value"].iloc[0] > e["value"].iloc[1]


def test_simulations_repeat_with_their_seed():
    a, b = (
        coverage.of_interval("t", "normal", 4, repetitions=50, seed=7) for _ in "ab"
    )
    assert a == b
