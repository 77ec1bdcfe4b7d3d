"""Variance components, repetitions, drift and stopping."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats as st

from connlab.study import repeating

SESSIONS = ("session", "trial")


def _nested(session=2.0, trial=1.0, window=3.0, sizes=(6, 5, 8), seed=1):
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(sizes[0]):
        level = 100 + session * rng.standard_normal()
        for t in range(sizes[1]):
            middle = level + trial * rng.standard_normal()
            for _ in range(sizes[2]):
                rows.append((s, t, middle + window * rng.standard_normal()))
    return pd.DataFrame(rows, columns=["session", "trial", "x"])


def components(data, *nesting):
    return repeating.variance_components(data, "x", nesting=nesting, innermost="window")


def reml(data, **options):
    """Return the fit of statsmodels, which warns of a gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return smf.mixedlm("x ~ 1", data, **options).fit(reml=True)


def test_two_levels_agree_with_reml():
    data = _nested(session=0, trial=3.0, sizes=(1, 12, 6), seed=5)
    fit, v = reml(data, groups="trial"), components(data, "trial")
    assert (v.levels, v.mean) == (("window", "trial"), pytest.approx(data.x.mean()))
    assert v.components["trial"] == pytest.approx(fit.cov_re.iloc[0, 0], rel=1e-3)
    assert v.components["window"] == pytest.approx(fit.scale, rel=1e-3)


def test_three_levels_agree_with_reml():
    data = _nested(session=4.0, trial=3.0, sizes=(8, 4, 5), seed=2)
    nested = {"re_formula": "1", "vc_formula": {"trial": "0 + C(trial)"}}
    fit, v = reml(data, groups="session", **nested), components(data, *SESSIONS)
    assert v.components["session"] == pytest.approx(fit.cov_re.iloc[0, 0], rel=0.01)
    assert v.components["trial"] == pytest.approx(fit.vcomp[0], rel=0.01)
    assert v.components["window"] == pytest.approx(fit.scale, rel=0.01)


def test_shares_add_up_and_nothing_is_negative():
    v = components(_nested(session=0, trial=0), *SESSIONS)
    assert sum(v.shares.values()) == pytest.approx(1)
    assert min(v.components.values()) >= 0


def test_unequal_counts_enter_by_their_harmonic_mean():
    v = components(_nested(sizes=(1, 4, 6)).iloc[:-3], "trial")
    assert v.counts["window"] == pytest.approx(st.hmean([6, 6, 6, 3]))


def test_one_window_a_trial_tells_nothing_of_windows():
    with pytest.raises(ValueError, match="one window in each trial; allowed: 2"):
        components(_nested(sizes=(1, 4, 1)), "trial")
    with pytest.raises(ValueError, match="one trial in all; allowed: 2"):
        components(_nested(sizes=(1, 1, 4)), "trial")


def windows(variances, costs):
    """Return how many windows a trial should have."""
    v = repeating.VarianceComponents(100, ("window", "trial"), variances, {})
    return repeating.recommended_repetitions(v, costs)["window"]


def test_repetitions_are_the_cheapest_way_to_a_width():
    """Against a search over all splits of a fixed time."""
    best = windows({"window": 9, "trial": 1}, {"window": 0.1, "trial": 1.6})
    assert best == pytest.approx(math.sqrt(1.6 / 0.1 * 9 / 1))
    m = np.arange(1, 200)
    variance = (1 + 9 / m) * (1.6 + 0.1 * m)  # variance × cost of the mean
    assert abs(m[variance.argmin()] - best) <= 1


def test_no_variance_between_trials_asks_for_one_long_trial():
    assert windows({"window": 1, "trial": 0}, {"window": 1, "trial": 1}) == math.inf


def test_trials_needed_is_the_smallest_that_does():
    pilot = [98.0, 100.0, 102.0, 97.0, 103.0]
    n = repeating.trials_needed(pilot, relative_half_width=0.01)
    cv = np.std(pilot, ddof=1) / 100

    def width(k):
        return st.t.ppf(0.975, k - 1) * cv / math.sqrt(k)

    assert width(n) <= 0.01 < width(n - 1)
    assert repeating.trials_needed([5.0, 5.0], relative_half_width=0.01) == 2
    with pytest.raises(ValueError, match="pilot"):
        repeating.trials_needed([5.0], relative_half_width=0.01)


# ---- drift -------------------------------------------------------------------


def _sweep(slope=0.0, seed=1, blocks=8, cells=6, cv=0.02):
    rng = np.random.default_rng(seed)
    n = blocks * cells
    cell = np.concatenate([rng.permutation(cells) for _ in range(blocks)])
    level = 1000.0 * (1 + cell)
    x = level * (1 + slope * np.arange(n) / n) * (1 + cv * rng.standard_normal(n))
    return pd.DataFrame({"cell": cell, "t": np.arange(n), "x": x})


def _drift(data):
    return repeating.drift(data, "x", cell=["cell"], time="t")


@pytest.mark.parametrize("slope", [0.10, -0.10])
def test_a_drift_is_found_with_its_size(slope):
    d = _drift(_sweep(slope=slope))
    assert d.drifting
    assert d.change.contains(slope)
    assert (d.change.lo > 0, d.change.hi < 0) == (slope > 0, slope < 0)
    assert d.p < 1e-4
    assert len(d.residuals) == 48


def test_calm_sweeps_raise_few_alarms():
    alarms = [_drift(_sweep(seed=s)).drifting for s in range(200)]
    assert np.mean(alarms) < 0.10


def test_one_bad_trial_is_no_drift():
    data = _sweep(seed=3)
    data.loc[len(data) - 1, "x"] *= 0.2
    assert abs(_drift(data).change.value) < 0.03


def test_cells_of_one_trial_say_nothing():
    d = _drift(_sweep(blocks=1))
    assert not d.drifting
    assert not d.change.determined
    assert d.residuals.empty


def test_time_stamps_order_trials_as_well():
    data = _sweep(slope=0.1)
    data["t"] = pd.date_range("2025-01-01", periods=len(data), freq="s")
    assert _drift(data).drifting
