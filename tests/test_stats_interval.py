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


RANKS = {6: (1, 6), 9: (2, 8), 10: (2, 9), 12: (3, 10), 15: (4, 12), 20: (6, 15)}
"""Published table of ranks for the median at 95 % (exact binomial)."""


def _coverage(f, draw, truth, repetitions=600):
    hits = sum(f(draw()).contains(truth) for _ in range(repetitions))
    return hits / repetitions
