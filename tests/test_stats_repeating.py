"""Variance components, repetitions, drift and stopping."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats as st

from connlab.study import repeating


def nested(trial=1.0, window=3.0, trials=12, windows=6, seed=1):
    rng = np.random.default_rng(seed)
    rows = []
    for t in range(trials):
        middle = 100 + trial * rng.standard_normal()
        rows += [(t, middle + window * rng.standard_normal()) for _ in range(windows)]
    return pd.DataFrame(rows, columns=["trial", "x"])


def components(data):
    return repeating.variance_components(data, "x", trial="trial")


def test_components_agree_with_reml():
    data = nested(trial=3.0, seed=5)
    with warnings.catch_warnings():  # of a gradient
        warnings.simplefilter("ignore")
        fit = smf.mixedlm("x ~ 1", data, groups="trial").fit(reml=True)
    v = components(data)
    assert v.mean == pytest.approx(data.x.mean())
    assert v.trial == pytest.approx(fit.cov_re.iloc[0, 0], rel=1e-3)
    assert v.window == pytest.approx(fit.scale, rel=1e-3)


def test_no_component_is_negative():
    found = [components(nested(trial=0, seed=seed)).trial for seed in range(9)]
    assert min(found) == 0 < max(found)


def test_unequal_counts_enter_by_their_harmonic_mean():
    v = components(nested(trials=4).iloc[:-3])
    assert v.windows == pytest.approx(st.hmean([6, 6, 6, 3]))


@pytest.mark.parametrize(
    ("few", "said"), [({"windows": 1}, "one window in each trial"), ({"trials": 1}, "")]
)
def test_one_of_a_kind_tells_nothing_of_its_scatter(few, said):
    with pytest.raises(ValueError, match=said or "one trial; allowed: 2"):
        components(nested(**few))


def recommended(*, window, trial, window_s, trial_s):
    """Return how many windows a trial should have."""
    v = repeating.VarianceComponents(100, window, trial, 8)
    return repeating.recommended_windows(v, window_s=window_s, trial_s=trial_s)


def test_repetitions_are_the_cheapest_way_to_a_width():
    """Against a search over all splits of a fixed time."""
    best = recommended(window=9, trial=1, window_s=0.1, trial_s=1.6)
    assert best == pytest.approx(math.sqrt(1.6 / 0.1 * 9 / 1))
    m = np.arange(1, 200)
    variance = (1 + 9 / m) * (1.6 + 0.1 * m)  # variance × cost of the mean
    assert abs(m[variance.argmin()] - best) <= 1


def test_no_variance_between_trials_asks_for_one_long_trial():
    assert recommended(window=1, trial=0, window_s=1, trial_s=1) == math.inf


def test_trials_needed_is_the_smallest_that_does():
    pilot = [98.0, 100.0, 102.0, 97.0, 103.0]
    n = repeating.trials_needed(pilot, relative_half_width=0.01)
    cv = np.std(pilot, ddof=1) / 100

    def width(k):
        return st.t.ppf(0.975, k - 1) * cv / math.sqrt(k)

    assert width(n) <= 0.01 < width(n - 1)
    assert repeating.trials_needed([5.0, 5.0], relative_half_width=0.01) == 2
    for pilot, width in (([5.0], 0.01), ([-1.0, 1.0], 0.01), ([4.0, 5.0], 0.0)):
        with pytest.raises(ValueError, match="pilot"):
            repeating.trials_needed(pilot, relative_half_width=width)


def sweep(slope=0.0, seed=2, n=48):
    rng = np.random.default_rng(seed)
    return 1e3 * (1 + slope * np.arange(n) / n) * (1 + 0.02 * rng.standard_normal(n))


@pytest.mark.parametrize("slope", [0.10, -0.10])
def test_a_drift_is_found_with_its_size(slope):
    d = repeating.drift(sweep(slope=slope))
    assert d.drifting
    assert d.change.contains(slope)
    assert (d.change.lo > 0, d.change.hi < 0) == (slope > 0, slope < 0)
    assert d.p < 1e-4
    assert len(d.residuals) == 48


def test_calm_sweeps_raise_few_alarms():
    alarms = [repeating.drift(sweep(seed=s)).drifting for s in range(200)]
    assert np.mean(alarms) < 0.10


def test_one_bad_trial_is_no_drift():
    data = sweep(seed=3)
    data[-1] *= 0.2
    assert abs(repeating.drift(data).change.value) < 0.03


@pytest.mark.parametrize("few", [[1.0, 2.0, 3.0], [5.0] * 9])
def test_few_trials_or_equal_ones_say_nothing(few):
    d = repeating.drift(few)
    assert not d.drifting
    assert not d.change.determined
