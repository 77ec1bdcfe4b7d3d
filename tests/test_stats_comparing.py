"""Ratios, equivalence and words, against second ways to compute them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats as st
from scipy.optimize import brentq
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from connlab.study import comparing


def _arms(seed, n=8, ratio=1.2, cv=0.05, shared=0.0, m=None):
    rng = np.random.default_rng(seed)
    weather = shared * rng.standard_normal(n)
    x = 100 * (1 + weather + cv * rng.standard_normal(n))
    y = 100 * ratio * (1 + weather[: m or n] + cv * rng.standard_normal(m or n))
    return y, x


# ---- ratios ------------------------------------------------------------------


def test_fieller_by_hand():
    """X̄ = 10, Ȳ = 20, S² = 4 and 9, n = 4: the formula with numbers put in."""
    x = 10 + 2 * np.array([-1, -1, 1, 1]) * math.sqrt(3 / 4)
    y = 20 + 3 * np.array([-1, 1, -1, 1]) * math.sqrt(3 / 4)
    t2 = st.t.ppf(0.975, 3) ** 2
    hx, hy = t2 * 4 / 4, t2 * 9 / 4
    root = math.sqrt((10 * 20) ** 2 - (10**2 - hx) * (20**2 - hy))
    i = comparing.fieller(y, x)
    assert i.value == pytest.approx(2.0)
    assert i.lo == pytest.approx((200 - root) / (100 - hx))
    assert i.hi == pytest.approx((200 + root) / (100 - hx))


@pytest.mark.parametrize("seed", range(5))
def test_paired_ratio_is_the_inverted_t_test(seed):
    y, x = _arms(seed, shared=0.2)

    def p(rho):
        return st.ttest_1samp(y - rho * x, 0).pvalue - 0.05

    i = comparing.ratio_paired(y, x)
    assert i.lo == pytest.approx(brentq(p, 0.5, i.value), rel=1e-6)
    assert i.hi == pytest.approx(brentq(p, i.value, 3), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_fieller_bounds_solve_its_equation(seed):
    y, x = _arms(seed, m=5)

    def gap(rho):
        h = [st.t.ppf(0.975, len(a) - 1) ** 2 * st.sem(a) ** 2 for a in (y, x)]
        return (y.mean() - rho * x.mean()) ** 2 - h[0] - rho**2 * h[1]

    i = comparing.fieller(y, x)
    assert i.lo == pytest.approx(brentq(gap, 0.1, i.value), rel=1e-6)
    assert i.hi == pytest.approx(brentq(gap, i.value, 5), rel=1e-6)


positive = some.floats(1.0, 100.0)


@given(some.lists(some.tuples(positive, positive), min_size=3, max_size=12))
def test_swapping_the_arms_inverts_a_ratio(pairs):
    y, x = map(np.array, zip(*pairs, strict=True))
    for f in (comparing.fieller, comparing.ratio_paired):
        a, b = f(y, x), f(x, y)
        if a.determined and b.determined and a.lo > 1e-3 and b.lo > 1e-3:
            assert (a.lo, a.hi) == pytest.approx((1 / b.hi, 1 / b.lo), rel=1e-4)


@given(some.lists(some.tuples(positive, positive), min_size=2, max_size=12))
def test_an_interval_of_a_ratio_holds_the_ratio(pairs):
    y, x = map(np.array, zip(*pairs, strict=True))
    for f in (comparing.fieller, comparing.ratio_paired):
        i = f(y, x)
        assert i.value == pytest.approx(y.mean() / x.mean())
        if i.determined:
            assert i.lo <= i.value * (1 + 1e-9)
            assert i.hi >= i.value * (1 - 1e-9)


def test_a_denominator_that_may_be_zero_leaves_the_ratio_undetermined():
    i = comparing.fieller([5, 6, 7], [-1.0, 0.5, 1.0])
    assert not i.determined
    assert "zero" in i.note
    assert i.value == pytest.approx(6 / (0.5 / 3))
    assert not comparing.ratio_paired([5, 6, 7], [-1.0, 0.5, 1.0]).determined
    assert not comparing.fieller([5.0], [1.0, 2.0]).determined


def test_a_ratio_of_means_is_no_mean_of_ratios():
    y, x = [10.0, 1.0, 4.0], [1.0, 10.0, 4.0]
    assert comparing.ratio_paired(y, x).value == 1.0


def test_pairing_pays_when_blocks_drift():
    y, x = _arms(3, n=10, shared=0.3)
    assert (
        comparing.ratio_paired(y, x).half_width < comparing.fieller(y, x).half_width / 2
    )


def test_a_rate_is_total_work_over_total_time():
    i = comparing.ratio_paired([100, 210, 330], [1.0, 2.0, 3.0])
    assert i.value == pytest.approx(640 / 6)


def test_pairs_need_as_many_on_both_sides():
    with pytest.raises(ValueError, match="3 trials and x 2"):
        comparing.ratio_paired([1, 2, 3], [1, 2])


@pytest.mark.parametrize("paired", [True, False])
def test_coverage_of_ratios(paired):
    f = comparing.ratio_paired if paired else comparing.fieller
    hits = [
        f(*_arms(s, n=6, cv=0.08, shared=0.2 * paired)).contains(1.2)
        for s in range(600)
    ]
    assert 0.93 <= np.mean(hits) <= 0.98


# ---- equivalence -------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_tost_is_the_ratio_interval_within_the_margin(seed):
    """Two one-sided tests at 5 % say what the 90 % interval says."""
    y, x = _arms(seed, n=8, ratio=1.02, cv=0.03, shared=0.1)
    result = comparing.tost(y, x, paired=True)
    i = comparing.ratio_paired(y, x, level=0.90)
    inside = i.lo > result.bounds[0] and i.hi < result.bounds[1]
    assert result.equivalent == inside


def test_tost_agrees_with_statsmodels_on_differences():
    """With the margin as a difference around a fixed arm, both must agree."""
    y, x = _arms(5, n=30, ratio=1.0, cv=0.05)
    ours = comparing.tost(y, x, paired=False)
    lo, hi = (b * x for b in ours.bounds)
    above = ttost_ind(y, lo, 0, np.inf, usevar="unequal")[1][1]
    below = ttost_ind(y, hi, -np.inf, 0, usevar="unequal")[2][1]
    assert ours.p == pytest.approx(max(above, below))
    pairs = comparing.tost(y, x, paired=True)
    above = ttost_paired(y, lo, 0, np.inf)[1][1]
    below = ttost_paired(y, hi, -np.inf, 0)[2][1]
    assert pairs.p == pytest.approx(max(above, below))


@given(some.integers(0, 200), some.booleans())
def test_equivalence_does_not_depend_on_which_arm_is_first(seed, paired):
    y, x = _arms(seed, n=6, ratio=1.01, cv=0.02)
    a, b = (comparing.tost(*arms, paired=paired) for arms in ((y, x), (x, y)))
    assert a.p == pytest.approx(b.p, rel=1e-6, abs=1e-12)


def test_noise_is_not_equivalence():
    y, x = _arms(2, n=5, ratio=1.0, cv=0.4)
    assert comparing.ratio_p_value(y, x, paired=False) > 0.05
    assert not comparing.tost(y, x, paired=False).equivalent


def test_tost_errs_at_most_alpha_at_its_margin():
    shown = [
        comparing.tost(*_arms(s, n=6, ratio=1.05, cv=0.02), paired=True).equivalent
        for s in range(500)
    ]
    assert np.mean(shown) < 0.07


@pytest.mark.parametrize("margin", [0, -0.1])
def test_a_margin_is_above_zero(margin):
    with pytest.raises(ValueError, match="margin"):
        comparing.tost([1, 2], [1, 2], paired=True, margin=margin)


# ---- words -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "cv", "better", "word"),
    [
        (0.8, 0.02, "lower", "faster than"),
        (1.3, 0.02, "lower", "slower than"),
        (1.3, 0.02, "higher", "faster than"),
        (0.8, 0.02, "higher", "slower than"),
        (1.0, 0.005, "lower", "indistinguishable from"),
        (1.02, 0.004, "lower", "indistinguishable from"),
        (1.0, 0.3, "lower", "undetermined"),
    ],
)
def test_every_word_has_its_data(ratio, cv, better, word):
    y, x = _arms(1, n=8, ratio=ratio, cv=cv)
    c = comparing.compare(y, x, better=better, paired=True)
    assert c.word == word
    assert "margin ±5%" in c.rule


def test_swapping_the_arms_swaps_the_word():
    swap = {"faster than": "slower than", "slower than": "faster than"}
    for seed in range(40):
        y, x = _arms(seed, n=5, ratio=1.06, cv=0.03)
        a = comparing.compare(y, x, better="lower", paired=True).word
        b = comparing.compare(x, y, better="lower", paired=True).word
        assert b == swap.get(a, a)


def test_one_trial_compares_nothing():
    c = comparing.compare([1.0], [2.0], better="lower", paired=True)
    assert c.word == "undetermined"
    assert "2 blocks" in c.rule
    assert math.isnan(c.p)


def test_identical_arms_are_indistinguishable():
    c = comparing.compare([2.0, 2.0, 2.0], [2.0, 2.0, 2.0], better="lower", paired=True)
    assert c.word == "indistinguishable from"
    assert c.ratio.contains(1)


def test_a_sure_gap_without_spread_is_told():
    c = comparing.compare([3.0, 3.0, 3.0], [2.0, 2.0, 2.0], better="lower", paired=True)
    assert c.word == "slower than"
    assert c.p == 0.0


def test_a_family_takes_weak_words_back():
    y, x = _arms(8, n=6, ratio=1.08, cv=0.03)
    c = comparing.compare(y, x, better="lower", paired=True)
    assert c.word == "slower than"
    weak = c.corrected(0.2, alike=0.001)
    assert weak.word == "undetermined"
    assert "Holm-corrected p 0.2" in weak.rule
    assert c.corrected(0.001, alike=1.0).word == "slower than"


def test_a_family_takes_weak_likenesses_back():
    _, x = _arms(8, n=6, ratio=1.08, cv=0.03)
    same = comparing.compare(x, x * 1.001, better="lower", paired=True)
    assert same.corrected(1.0, alike=0.01).word == "indistinguishable from"
    weak = same.corrected(0.001, alike=0.2)
    assert weak.word == "undetermined"
    assert "Holm-corrected TOST p 0.2" in weak.rule


def test_a_family_leaves_what_is_undetermined():
    y, x = _arms(1, n=8, ratio=1.0, cv=0.3)
    c = comparing.compare(y, x, better="lower", paired=True)
    assert c.word == c.corrected(0.001, alike=0.001).word == "undetermined"


def test_better_is_lower_or_higher():
    with pytest.raises(ValueError, match="'bigger'"):
        comparing.compare([1, 2], [1, 2], better="bigger", paired=True)


# ---- families and groups -----------------------------------------------------


def test_holm_by_hand():
    p = [0.01, 0.04, 0.03, 0.005]
    assert comparing.holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@settings(max_examples=20)
@given(some.lists(some.floats(0, 1), min_size=1, max_size=12))
def test_holm_agrees_with_statsmodels(p):
    assert comparing.holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_holm_leaves_unknown_values_out_of_the_family():
    adjusted = comparing.holm([0.02, math.nan, 0.5])
    assert adjusted[0] == pytest.approx(0.04)
    assert math.isnan(adjusted[1])
    assert np.isnan(comparing.holm([math.nan])).all()
