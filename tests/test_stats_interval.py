"""Intervals of one cell, against second ways to compute them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats as st
from statsmodels.stats.weightstats import DescrStatsW

from connlab.study import interval

numbers = some.lists(some.floats(0.1, 1e6), min_size=2, max_size=40)

STUDENT = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
"""Differences of sleep that Student (1908) tested: mean 1.58, t = 4.06."""


def test_t_interval_of_students_own_data():
    i = interval.t_interval(STUDENT)
    assert i.value == pytest.approx(1.58)
    assert (i.lo, i.hi) == pytest.approx((0.70, 2.46), abs=0.005)


@given(numbers)
def test_t_interval_agrees_with_statsmodels(x):
    i = interval.t_interval(x)
    lo, hi = DescrStatsW(x).tconfint_mean()
    assert (i.lo, i.hi) == pytest.approx((lo, hi), rel=1e-7, abs=1e-7)
    assert i.contains(i.value)


@given(numbers, some.floats(1e-6, 1e6))
def test_t_interval_follows_its_unit(x, factor):
    a = interval.t_interval(x).scaled(factor)
    b = interval.t_interval(np.array(x) * factor)
    assert (a.value, a.lo, a.hi) == pytest.approx((b.value, b.lo, b.hi), rel=1e-6)


def test_one_trial_has_an_estimate_and_no_interval():
    i = interval.t_interval([3.0])
    assert i.value == 3.0
    assert not i.determined
    assert "2 trials" in i.note
    assert not i.contains(3.0)


def test_no_trial_at_all_is_not_an_error():
    assert math.isnan(interval.t_interval([]).value)


@pytest.mark.parametrize("bad", [[1, math.nan], [1, math.inf]])
def test_missing_values_are_refused_rather_than_dropped(bad):
    for f in (interval.t_interval, interval.bca_interval, interval.median_interval):
        with pytest.raises(ValueError, match="1 of 2 trials"):
            f(bad)


def _bca_by_hand(x, level, resamples, seed):
    """Efron's formula, written out."""
    rng = np.random.default_rng(seed)
    x = np.asarray(x)
    boot = x[rng.integers(len(x), size=(resamples, len(x)))].mean(axis=1)
    z0 = st.norm.ppf((boot < x.mean()).mean())
    jack = np.array([np.delete(x, i).mean() for i in range(len(x))])
    d = jack.mean() - jack
    a = (d**3).sum() / (6 * (d**2).sum() ** 1.5)
    z = st.norm.ppf([(1 - level) / 2, (1 + level) / 2])
    tails = st.norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z)))
    return np.quantile(boot, tails)


def test_bca_agrees_with_efrons_formula():
    x = np.random.default_rng(4).lognormal(0, 1, size=25)
    i = interval.bca_interval(x, resamples=20_000)
    lo, hi = _bca_by_hand(x, 0.95, 20_000, seed=9)
    assert (i.lo, i.hi) == pytest.approx((lo, hi), rel=0.02)


def test_bca_leans_to_the_side_of_the_skew():
    x = np.random.default_rng(4).lognormal(0, 1, size=25)
    i = interval.bca_interval(x)
    assert i.hi - i.value > 1.2 * (i.value - i.lo)


def test_bca_repeats_with_its_seed_and_takes_a_statistic():
    x = [1.0, 2.0, 5.0, 9.0, 30.0]
    assert interval.bca_interval(x, seed=3) == interval.bca_interval(x, seed=3)
    i = interval.bca_interval(x, statistic=np.median)
    assert i.value == 5.0
    assert i.lo >= 1.0
    assert i.hi <= 30.0


def test_bca_of_equal_trials_has_no_width_and_of_two_no_bounds():
    i = interval.bca_interval([2.0] * 5)
    assert (i.lo, i.hi) == (2.0, 2.0)
    assert not interval.bca_interval([1.0, 2.0]).determined


RANKS = {6: (1, 6), 9: (2, 8), 10: (2, 9), 12: (3, 10), 15: (4, 12), 20: (6, 15)}
"""Published table of ranks for the median at 95 % (exact binomial)."""


@pytest.mark.parametrize("n", RANKS)
def test_median_ranks_are_those_of_the_published_table(n):
    x = np.arange(1.0, n + 1)
    i = interval.median_interval(np.random.default_rng(0).permutation(x))
    assert (i.lo, i.hi) == RANKS[n]
    assert i.value == np.median(x)


@pytest.mark.parametrize("n", [6, 11, 30, 75, 200])
def test_median_interval_agrees_with_scipy(n):
    x = np.random.default_rng(n).exponential(size=n)
    oracle = st.quantile_test(x, q=0, p=0.5).confidence_interval(0.95)
    i = interval.median_interval(x)
    assert i.lo >= oracle.low
    assert i.hi <= oracle.high
    ranks = np.searchsorted(np.sort(x), [i.lo, i.hi])
    covered = st.binom.cdf(ranks[1], n, 0.5) - st.binom.cdf(ranks[0], n, 0.5)
    assert covered >= 0.95


@pytest.mark.parametrize(("q", "n"), [(0.5, 6), (0.9, 29), (0.95, 59), (0.99, 299)])
def test_fewest_trials_for_a_quantile(q, n):
    assert interval.min_trials_for_quantile(q) == n
    x = np.random.default_rng(1).random(n)
    assert interval.quantile_interval(x, q).determined
    short = interval.quantile_interval(x[1:], q)
    assert not short.determined
    assert str(n) in short.note


@pytest.mark.parametrize("q", [0, 1, -0.1, 1.5])
def test_a_quantile_lies_between_0_and_1(q):
    with pytest.raises(ValueError, match="between 0 and 1"):
        interval.quantile_interval([1, 2, 3], q)


def _coverage(f, draw, truth, repetitions=600):
    hits = sum(f(draw()).contains(truth) for _ in range(repetitions))
    return hits / repetitions


def test_coverage_is_what_the_level_says():
    """600 sweeps: a true 95 % lies within 0.927 … 0.973 but once in a hundred."""
    rng = np.random.default_rng(11)
    normal = _coverage(interval.t_interval, lambda: rng.normal(10, 1, 5), 10)
    assert 0.927 <= normal <= 0.973
    skewed = _coverage(
        interval.median_interval, lambda: rng.exponential(1, 10), math.log(2)
    )
    assert skewed >= 0.95
    tail = _coverage(
        lambda x: interval.quantile_interval(x, 0.9),
        lambda: rng.exponential(1, 40),
        math.log(10),
    )
    assert tail >= 0.93


def test_bca_is_too_narrow_for_five_trials_and_better_for_thirty():
    rng = np.random.default_rng(12)

    def f(x):
        return interval.bca_interval(x, resamples=499)

    few = _coverage(f, lambda: rng.normal(10, 1, 5), 10, 300)
    many = _coverage(f, lambda: rng.normal(10, 1, 30), 10, 300)
    assert few < 0.91
    assert many > 0.90
