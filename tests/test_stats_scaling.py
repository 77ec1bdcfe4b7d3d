"""The scalability law, against a published fit and made-up machines."""

import numpy as np
import pytest

from connlab.study import scaling

N = [1, 18, 36, 72, 108, 144, 216]
X = [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]
"""SPEC SDM91 on a SPARCcenter 2000, the example of the R package usl."""


def test_the_published_example():
    fit = scaling.usl_fit(N, X, blocks=[0] * len(N), resamples=2)
    assert fit.alpha.value == pytest.approx(0.0277285, rel=1e-4)
    assert fit.beta.value == pytest.approx(0.0001044, rel=1e-3)
    assert fit.gamma.value == pytest.approx(89.9952330, rel=1e-5)
    residuals = fit.residuals.residual * fit.residuals.fitted
    assert residuals.min() == pytest.approx(-81.7, abs=0.05)
    assert residuals.max() == pytest.approx(111.1, abs=0.05)
    assert fit.predict(N) == pytest.approx(fit.residuals.fitted)


def _machine(alpha, beta, trials=6, seed=1):
    rng, levels = np.random.default_rng(seed), (1, 2, 4, 8, 16, 32)
    n = np.repeat(levels, trials)
    true = scaling.usl_throughput(n, alpha=alpha, beta=beta, gamma=1000.0)
    x = true * (1 + 0.02 * rng.standard_normal(len(n)))
    return n, x, np.tile(range(trials), len(levels))


def fitted(alpha, beta, *, trials=6, **options):
    n, x, block = _machine(alpha, beta, trials=trials)
    return scaling.usl_fit(n, x, blocks=block, resamples=300, **options)


def test_a_peak_is_found_where_there_is_one():
    fit = fitted(0.05, 0.005)
    assert fit.alpha.contains(0.05)
    assert fit.beta.contains(0.005)
    assert fit.gamma.contains(1000)
    assert fit.peak.contains(np.sqrt(0.95 / 0.005))


def test_an_interval_counts_the_blocks_that_were_resampled():
    fit = fitted(0.05, 0.005, trials=5)
    for i in (fit.alpha, fit.beta, fit.gamma, fit.peak):
        assert (i.n, i.method) == (5, "bootstrap over blocks")


@pytest.mark.parametrize(
    ("alpha", "beta", "falls"),
    [
        (0.1, 0.0, False),  # none
        (0.02, 0.0003, False),  # beyond the range
        (1.3, 0.02, True),  # falls from the fewest on
    ],
)
def test_no_peak_is_claimed_where_none_is_measured(alpha, beta, falls):
    fit = fitted(alpha, beta)
    assert fit.peak is None
    assert not falls or fit.beta.lo > 0


def test_linear_scaling_gives_neither_queue_nor_talk():
    fit = fitted(0.0, 0.0)
    assert fit.alpha.lo == 0
    assert fit.beta.lo == 0
    assert fit.gamma.value == pytest.approx(1000, rel=0.05)


def test_relative_weights_fit_small_n_better():
    near = fitted(0.05, 0.005, relative=True)
    assert near.gamma.value == pytest.approx(1000, rel=0.03)


def test_a_fit_repeats_with_its_seed():
    assert fitted(0.05, 0.005).alpha == fitted(0.05, 0.005).alpha


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


@pytest.mark.parametrize(
    ("n", "x", "facts"),
    [
        ([1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 5, 5], "5 different n"),
        ([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6], "above 0"),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5], "6 .* 5"),
    ],
)
def test_nonsense_is_refused(n, x, facts):
    with pytest.raises(ValueError, match=facts):
        scaling.usl_fit(n, x, blocks=range(len(n)))


@pytest.mark.long
def test_coverage_of_the_bootstrap():
    """40 machines: fewer than a quarter of the intervals may miss."""
    hits = 0
    for seed in range(40):
        n, x, block = _machine(0.05, 0.005, seed=seed)
        fit = scaling.usl_fit(n, x, blocks=block, resamples=120, seed=seed)
        hits += fit.beta.contains(0.005)
    assert hits >= 31


@pytest.mark.parametrize(("blocks", "covered"), [(4, 0.86), (6, 0.91), (10, 0.92)])
def test_bounds_of_resampled_blocks_reach_as_far_as_students_t(blocks, covered):
    drawn, tail = scaling.resample_blocks(blocks, 1000, seed=1)
    samples = np.random.default_rng(2).standard_normal((800, blocks))
    means = samples[:, drawn].mean(axis=2)
    lo, hi = np.quantile(means, [tail, 1 - tail], axis=1)
    assert np.mean((lo < 0) & (hi > 0)) > covered


def test_three_blocks_bound_nothing():
    fit = fitted(0.05, 0.005, trials=3)
    assert not fit.alpha.determined
    assert "3 blocks" in fit.alpha.note
    assert fit.peak is None
