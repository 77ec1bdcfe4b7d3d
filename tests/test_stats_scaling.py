"""The scalability law, against a published fit and made-up machines."""

from __future__ import annotations

import numpy as np
import pytest

from connlab.study import scaling

N = [1, 18, 36, 72, 108, 144, 216]
X = [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]
"""SPEC SDM91 on a SPARCcenter 2000, the example of the R package usl."""


def test_the_published_example():
    fit = scaling.usl_fit(N, X, resamples=2)
    assert fit.alpha.value == pytest.approx(0.0277285, rel=1e-4)
    assert fit.beta.value == pytest.approx(0.0001044, rel=1e-3)
    assert fit.gamma.value == pytest.approx(89.9952330, rel=1e-5)
    residuals = fit.residuals.throughput - fit.residuals.fitted
    assert residuals.min() == pytest.approx(-81.7, abs=0.05)
    assert residuals.max() == pytest.approx(111.1, abs=0.05)
    assert fit.predict(N) == pytest.approx(fit.residuals.fitted)


def _machine(alpha, beta, gamma=1000.0, levels=(1, 2, 4, 8, 16, 32), trials=6, seed=1):
    rng = np.random.default_rng(seed)
    n = np.repeat(levels, trials)
    true = scaling.usl_throughput(n, alpha=alpha, beta=beta, gamma=gamma)
    return (
        n,
        true * (1 + 0.02 * rng.standard_normal(len(n))),
        np.tile(range(trials), len(levels)),
    )


def test_a_peak_is_found_where_there_is_one():
    n, x, _ = _machine(0.05, 0.005)
    fit = scaling.usl_fit(n, x, resamples=300)
    assert fit.alpha.contains(0.05)
    assert fit.beta.contains(0.005)
    assert fit.gamma.contains(1000)
    assert fit.peak.contains(np.sqrt(0.95 / 0.005))
    assert "peaks at" in fit.verdict


def test_no_peak_is_claimed_where_none_is_shown():
    n, x, _ = _machine(0.1, 0.0)
    fit = scaling.usl_fit(n, x, resamples=300)
    assert fit.beta.lo == 0
    assert fit.peak is None
    assert "no peak within the measured range (1 to 32)" in fit.verdict


def test_a_peak_beyond_the_range_is_no_finding():
    n, x, _ = _machine(0.02, 0.0003)
    fit = scaling.usl_fit(n, x, resamples=300)
    assert fit.peak is None
    assert "no peak within" in fit.verdict


def test_what_falls_from_the_fewest_on_has_no_peak():
    n, x, _ = _machine(1.3, 0.02)
    fit = scaling.usl_fit(n, x, resamples=300)
    assert fit.beta.lo > 0
    assert fit.peak is None
    assert fit.verdict == (
        "no peak within the measured range (1 to 32): the fit falls from the fewest on"
    )


def test_the_measured_range_begins_at_the_fewest():
    n, x, _ = _machine(0.1, 0.0, levels=(2, 4, 8, 16, 32, 64))
    assert "(2 to 64)" in scaling.usl_fit(n, x, resamples=100).verdict


def test_linear_scaling_gives_neither_queue_nor_talk():
    n, x, _ = _machine(0.0, 0.0)
    fit = scaling.usl_fit(n, x, resamples=100)
    assert fit.alpha.lo == 0
    assert fit.beta.lo == 0
    assert fit.gamma.value == pytest.approx(1000, rel=0.05)


def test_whole_blocks_are_resampled_when_they_drift_together():
    n, x, block = _machine(0.05, 0.005)
    drift = 1 + 0.1 * np.random.default_rng(5).standard_normal(6)[block]
    alone = scaling.usl_fit(n, x * drift, resamples=200)
    together = scaling.usl_fit(n, x * drift, blocks=block, resamples=200)
    assert together.alpha.half_width < alone.alpha.half_width
    assert together.beta.contains(0.005)


def test_relative_weights_fit_small_n_better():
    n, x, _ = _machine(0.05, 0.005, seed=7)
    near = scaling.usl_fit(n, x, relative=True, resamples=50)
    assert near.gamma.value == pytest.approx(1000, rel=0.03)


def test_a_fit_repeats_with_its_seed():
    n, x, _ = _machine(0.05, 0.005)
    assert (
        scaling.usl_fit(n, x, resamples=20).alpha
        == scaling.usl_fit(n, x, resamples=20).alpha
    )


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(0.05, 0.002), (0.3, 0.0), (0.0, 0.0)])
def test_resamples_are_fitted_as_one_fit_each_would(alpha, beta, relative):
    n, x, _ = _machine(alpha, beta)
    rng = np.random.default_rng(1)
    draws = [rng.integers(len(n), size=len(n)) for _ in range(20)]
    counts = np.array([np.bincount(i, minlength=len(n)) for i in draws])
    start = scaling._fit(n, x, relative)
    together = scaling._fit_again(n, x, counts, relative, start)
    alone = [scaling._fit(n[i], x[i], relative) for i in draws]
    assert together == pytest.approx(np.array(alone), rel=1e-4, abs=1e-6)


def test_fewer_than_six_levels_are_refused():
    with pytest.raises(ValueError, match="5 different n: the fit needs 6"):
        scaling.usl_fit([1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 5, 5])


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="above 0"):
        scaling.usl_fit([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6])
    with pytest.raises(ValueError, match="6 values of n and 5"):
        scaling.usl_fit([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5])


@pytest.mark.long
def test_coverage_of_the_bootstrap():
    """40 machines: fewer than a quarter of the intervals may miss."""
    hits = 0
    for seed in range(40):
        n, x, _ = _machine(0.05, 0.005, seed=seed)
        hits += scaling.usl_fit(n, x, resamples=120, seed=seed).beta.contains(0.005)
    assert hits >= 31


def test_three_blocks_bound_nothing():
    n, x, block = _machine(0.05, 0.005, trials=3)
    fit = scaling.usl_fit(n, x, blocks=block, resamples=20)
    assert not fit.alpha.determined
    assert "3 blocks" in fit.alpha.note
    assert fit.peak is None
