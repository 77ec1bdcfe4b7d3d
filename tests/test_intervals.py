"""Intervals and ratios as the paper prints them, against a second way to get them."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats
from scipy.special import digamma
from statsmodels.api import OLS, add_constant
from statsmodels.stats.weightstats import DescrStatsW
from study_made import crossed, t_on_logs, usable

from connlab.intervals import (
    as_cells,
    centre,
    hold_together,
    interval,
    intervals,
    outcomes,
    ratios,
    t95,
)
from connlab.studies.doubts import unpaired
from connlab.variances import (
    DF_GAIN,
    FAMILY_MIN,
    LEVEL,
    LINE_MIN,
    TREND_MIN,
    Fit,
    moderated,
    usual_variance,
)


def trials(values: dict[str, list[float]], **columns) -> pd.DataFrame:
    """Return trials of several models, in blocks."""
    rows = [
        {"model": model, "block": i, "throughput_rps": value}
        for model, rates in values.items()
        for i, value in enumerate(rates)
    ]
    more = {"label": "server-bound", "connections": 10} | columns
    return usable(pd.DataFrame(rows), **more)


UNKNOWN = pd.array([None] * 10, dtype="Int64")


def drawn(rng, models, spread, n, **columns) -> pd.DataFrame:
    """Return trials of models that all have one log-normal distribution."""
    return trials({m: list(rng.lognormal(3, spread, n)) for m in models}, **columns)


def rate_ratios(frame: pd.DataFrame, **options) -> pd.DataFrame:
    return ratios(frame, "throughput_rps", baseline="b", **options)


def test_a_positive_quantity_has_a_geometric_mean_and_t_on_logs():
    x = [90.0, 100.0, 130.0, 80.0, 95.0]
    mean = interval(x)
    assert mean.value == pytest.approx(stats.gmean(x))
    assert (mean.lo, mean.hi) == t_on_logs(np.log(x))
    assert t95(pd.Series([*x, None])) == pytest.approx((mean.lo, mean.hi))
    assert centre(pd.Series(x)) == mean.value


def test_a_quantity_that_may_be_zero_has_an_arithmetic_mean():
    x = [0.0, 1.0, 2.0, 1.0]
    mean = interval(x)
    assert mean.value == 1.0
    low, high = stats.t.interval(0.95, 3, 1.0, stats.sem(x))
    assert low < 0 == mean.lo
    assert mean.hi == pytest.approx(high)
    assert t95(pd.Series(x)) == (mean.lo, mean.hi)
    negative = interval([-v for v in x])
    assert [negative.lo, negative.hi] == pytest.approx([-high, -low])
    assert math.isnan(interval(x[:3]).lo)


STUDENT = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
"""Differences of sleep that Student (1908) tested: mean 1.58, t = 4.06."""


def test_students_own_data_have_his_interval():
    mean = interval(STUDENT)
    assert mean.value == pytest.approx(1.58)
    assert (mean.lo, mean.hi) == pytest.approx((0.70, 2.46), abs=0.005)


@settings(deadline=None)  # it is no less true on a machine that is busy
@given(some.lists(some.floats(0.1, 1e6), min_size=4, max_size=40))
def test_a_fit_agrees_with_statsmodels_in_any_unit(x):
    mean = Fit.of(x).interval(0.95, method="t", log=False)
    bounds = DescrStatsW(x).tconfint_mean()
    assert (mean.lo, mean.hi) == pytest.approx(bounds, rel=1e-7, abs=1e-7)
    scaled = Fit.of(np.array(x) * 1e-3).interval(0.95, method="t", log=False)
    with pytest.raises(ValueError, match="above 0"):
        mean.scaled(0)
    assert mean.scaled(1e-3).hi == pytest.approx(scaled.hi, rel=1e-6)


def test_three_trials_have_a_value_and_no_bounds_and_none_has_neither():
    mean = interval([1.0, 2.0, 4.0])
    assert mean.value == pytest.approx(2.0)
    assert not mean.determined
    assert t95([1.0, 2.0, 4.0]) == pytest.approx((2.0, 2.0))
    assert math.isnan(interval([]).value)


def test_what_is_exact_has_itself_as_bounds_and_an_estimate_its_own():
    table = as_cells({"a": 7, "b": interval(STUDENT)}, n=3, unit="s")
    exact, estimate = table.set_index("metric").to_dict("records")
    bounds = {"value": 7, "lo": 7, "hi": 7, "n": 3, "level": 1, "method": "exact"}
    assert exact == bounds | {"unit": "s"}
    assert (estimate["hi"], estimate["n"]) == (interval(STUDENT).hi, 10)


def test_a_cell_counts_what_may_be_used_and_says_why_the_rest_may_not():
    """And a level that was not set, as of workers, makes a cell as any other does."""
    rates = [10.0, 11.0, 9.0, 12.0, 10.0]
    frame = trials({"poll": [20.0] * 5, "epoll": rates}, workers=UNKNOWN, label=UNKNOWN)
    frame.loc[frame["model"].eq("poll"), ["ok", "reason"]] = [False, "machine busy"]
    frame.loc[5, ["ok", "reason"]] = [False, "machine busy"]
    table = intervals(frame, "throughput_rps", ["model", "workers"])
    assert table["model"].tolist() == ["epoll", "poll"]
    assert table["reason"].tolist() == ["machine busy"] * 2
    assert not table["bound"].any()
    epoll, poll = table.to_dict("records")
    assert (epoll["n"], epoll["trials"], poll["n"]) == (4, 5, 0)
    assert epoll["hi"] == interval(rates[1:]).hi
    assert math.isnan(poll["value"])


def test_a_number_that_was_not_set_makes_a_cell_that_has_its_trials():
    """Beside slices of 20 ms, those measured alone had a cell without any."""
    rates = [10.0, 11.0, 9.0, 12.0, 10.0]
    slices = [20.0] * 5 + [math.nan] * 5
    frame = trials({"epoll": rates, "poll": rates}, slice=slices)
    for by in (["model", "slice"], ["slice"]):
        table = intervals(frame, "throughput_rps", by)
        assert table["slice"].isna().tolist() == [False, True]
        assert table["n"].tolist() == table["trials"].tolist() == [5, 5]
        assert table["hi"].tolist() == [interval(rates).hi] * 2


def test_a_cell_without_a_usable_trial_is_not_bound_and_an_empty_frame_has_no_cell():
    frame = trials({"epoll": [10.0, 11.0], "poll": [20.0, 21.0]})
    frame = frame.assign(ok=frame["model"] == "epoll").astype({"label": "string"})
    assert intervals(frame, "throughput_rps", "model")["bound"].tolist() == [False] * 2
    assert intervals(frame.iloc[:0], "throughput_rps", "model").empty


@pytest.mark.parametrize(
    ("metric", "limited", "n", "bound"),
    [
        ("throughput_rps", 2, 5, False),
        ("throughput_rps", 3, 5, True),
        ("throughput_rps", 2, 4, False),  # half are not most
        ("throughput_rps", 2, 3, True),
        ("response_p99_s", 3, 5, True),
        ("slice_p99_s", 3, 5, True),
        ("received_per_s", 3, 5, True),
        ("capacity_rps", 3, 5, True),
        ("busy_workers", 3, 5, True),
        ("server_cpu_per_request_s", 3, 5, False),
    ],
)
def test_it_is_a_bound_when_the_client_was_the_limit_of_most(metric, limited, n, bound):
    frame = trials({"epoll": [10.0, 11.0, 10.5, 10.2, 10.1][:n]})
    frame = frame.rename(columns={"throughput_rps": metric})
    frame.loc[: limited - 1, "label"] = "client-bound"
    assert intervals(frame, metric, "model")["bound"].tolist() == [bound]


@pytest.mark.parametrize(
    ("metric", "shares", "highest"),
    [
        ("server_cpu_share", [0.6, 0.9, 1.0, 0.9], 1.0),
        ("server_cpu_share", [1.01, 1.02, 1.01, 1.02], 1.015),
        ("fairness_jain", [0.97, 1.0, 1.0, 0.99], 1.0),
        ("share_kept", [0.6, 0.9, 1.0, 0.9], 1.0),
        ("my_share", [0.6, 0.9, 1.0, 0.9], None),
    ],
)
def test_a_declared_share_is_no_more_than_the_whole(metric, shares, highest):
    frame = trials({"epoll": shares}).rename(columns={"throughput_rps": metric})
    row = intervals(frame, metric, "model").iloc[0]
    highest = interval(shares).hi if highest is None else highest
    assert row["hi"] == pytest.approx(highest, rel=1e-4)
    few = intervals(frame.iloc[:3], metric, "model").iloc[0]
    assert math.isnan(few["hi"])


def test_a_ratio_pairs_trials_of_a_block_and_has_t_on_logs():
    y, x = [20.0, 22.0, 30.0, 21.0], [10.0, 10.5, 15.0, 11.0]
    row = rate_ratios(trials({"a": y, "b": x})).iloc[0]
    logs = np.log(np.divide(y, x))
    assert (row["model"], row["against"], row["n"]) == ("a", "b", 4)
    assert row["value"] == pytest.approx(math.exp(logs.mean()))
    assert (row["lo"], row["hi"]) == t_on_logs(logs)
    assert row["p"] == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    idle = rate_ratios(trials({"a": [*y, 0.0], "b": [*x, 12.0]})).iloc[0]
    assert idle.equals(row)  # a block without a rate has no ratio


def test_arms_that_share_no_block_are_compared_by_welch():
    y, x = [20.0, 22.0, 30.0, 21.0, 24.0], [10.0, 10.5, 15.0, 11.0]
    frame = trials({"a": y, "b": x})
    frame.loc[frame["model"].eq("b"), "block"] += 100
    row = rate_ratios(frame).iloc[0]
    test = stats.ttest_ind(np.log(y), np.log(x), equal_var=False)
    bounds = test.confidence_interval(0.95)
    assert np.log([row["lo"], row["hi"]]) == pytest.approx([bounds.low, bounds.high])
    assert row["p"] == pytest.approx(test.pvalue)


def test_all_intervals_of_a_call_hold_at_once():
    frame = drawn(np.random.default_rng(1), "bacdef", 0.1, 8)
    frame["workers"] = pd.array([None] * len(frame), dtype="Int64")  # were not set
    alone = rate_ratios(frame[frame["model"].isin(["a", "b"])]).iloc[0]
    among = rate_ratios(frame, within=["workers"]).set_index("model").loc["a"]
    assert alone["level"] == among["level"] == 0.95
    t = stats.t.ppf([1 - 0.025, 1 - 0.025 / 5], 7)
    narrow, wide = (math.log(row["hi"] / row["lo"]) for row in (alone, among))
    assert wide / narrow == pytest.approx(t[1] / t[0])


def fits(spreads, *, n=5):
    """Return fits of normal log ratios, a standard deviation each."""
    rng = np.random.default_rng(0)
    return [Fit.of(s * rng.standard_normal(n)) for s in spreads]


MOVED = [0, 1, 0, 0.5, 0, 0]


def test_a_fit_of_values_that_are_off_is_the_line_of_statsmodels_where_they_are_not():
    y = np.random.default_rng(5).normal(0.2, 0.01, 6) + 0.03 * np.array(MOVED)
    line = OLS(y, add_constant(MOVED)).fit()
    fit = Fit.of(y, MOVED)
    assert (fit.mean, fit.error) == pytest.approx((line.params[0], line.bse[0]))
    assert (fit.df, fit.n) == (line.df_resid, 6)
    assert fit.variance == pytest.approx(line.mse_resid)


@pytest.mark.parametrize(
    "off",
    [[], [0] * LINE_MIN, [1] * LINE_MIN, [0, 1, 0.5, 0, 0]],
    ids=["unknown", "usual", "far", "too few"],
)
def test_a_fit_of_values_through_which_there_is_no_line_is_their_mean(off):
    y = [1.0, 1.2, 1.1, 1.4, 0.9, 1.3][: len(off) or None]
    assert Fit.of(y, off) == Fit.of(y)
    assert Fit.of(y).variance == pytest.approx(np.var(y, ddof=1))


def test_what_moved_cores_add_is_no_scatter():
    """An interval holds the truth as often as it says, and is narrower than without."""
    rng = np.random.default_rng(8)
    y = rng.normal(0, 0.01, (2000, 6)) + 0.05 * np.array(MOVED)
    held = [abs(f.mean) <= f.reach(LEVEL) for f in (Fit.of(x, MOVED) for x in y)]
    assert np.mean(held) == pytest.approx(LEVEL, abs=0.015)
    widths = np.median([[Fit.of(x, MOVED).error, Fit.of(x).error] for x in y], axis=0)
    assert widths[0] < 0.7 * widths[1]


def test_lines_inform_each_other_by_what_they_leave_unexplained():
    rng = np.random.default_rng(9)
    family = [
        Fit.of(rng.normal(0, 0.01, 6) + 0.3 * np.array(MOVED), MOVED) for _ in range(20)
    ]
    for before, after in zip(family, moderated(family), strict=True):
        assert after.variance == pytest.approx(0.01**2, rel=1.5)
        assert after.error >= before.error
        assert (after.mean, after.n, after.worth) == (before.mean, 6, before.worth)


def test_the_usual_variance_is_the_one_that_variances_were_drawn_from():
    """Scaled inverse chi-square with 8 degrees of freedom around 0.04."""
    rng = np.random.default_rng(3)
    true = 0.04 * 8 / rng.chisquare(8, 4000)
    estimates = true * rng.chisquare(5, 4000) / 5
    variance, df = usual_variance(estimates, [5] * 4000)
    assert variance == pytest.approx(0.04, rel=0.05)
    assert df == pytest.approx(8, rel=0.2)


def test_a_trend_takes_a_degree_of_freedom():
    x = np.array([-1.0, 0.5, 2.0, -1.5])
    wide = usual_variance(np.exp(x * math.sqrt(3 / 2)), [9] * 4)
    assert usual_variance(np.exp(x), [9] * 4, fitted=2) == pytest.approx(wide)


def test_variances_that_grow_with_the_effect_differ_no_more_than_by_chance():
    """On a line, all are widened alike: by what is unknown after five trials."""
    grown = [Fit(mean, math.exp(mean**0.5), 4, 5) for mean in np.arange(TREND_MIN)]
    wider = [fit.error / math.exp(fit.mean**0.5) for fit in moderated(grown)]
    assert wider == pytest.approx([math.sqrt(2 / math.exp(digamma(2)))] * len(grown))
    assert {fit.df for fit in moderated(grown)} == {DF_GAIN * 4}
    falling = [Fit(-fit.mean, 1 / fit.error, 4, 5) for fit in grown]
    for family in (grown[:-1], falling):  # too few to tell, or no growth
        level = [replace(fit, mean=0.0) for fit in family]
        errors, same = ([f.error for f in moderated(x)] for x in (family, level))
        assert errors == same


def test_a_family_with_a_trend_is_worth_what_it_scatters_around_that():
    factors = [2.0, 0.5, 1.0, 1.5] * 3
    x = np.sqrt(np.arange(12))
    y = 2 * np.log(factors) + 3 * x
    family = [Fit(m, math.exp(z / 2) / 5**0.5, 4, 5) for m, z in enumerate(y)]
    around = np.exp(y - np.polyfit(x, y, 1)[0] * x)
    _, df = usual_variance(around, [4] * len(y), fitted=2)
    assert [fit.df for fit in moderated(family)] == pytest.approx([4 + df] * len(y))


def test_no_variance_becomes_smaller():
    family = fits([0.03] * 9 + [0.3])
    usual, df = usual_variance([5 * fit.error**2 for fit in family], [4] * 10)
    for before, after in zip(family, moderated(family), strict=True):
        mixed = (df * usual / 5 + 4 * before.error**2) / (df + 4)
        assert after.error == pytest.approx(max(before.error, math.sqrt(mixed)))
        assert (after.mean, after.df) == (before.mean, 4 + df)
    assert after.error == before.error


@pytest.mark.parametrize("spreads", [[0.03] * (FAMILY_MIN - 1), [0.0] * 9])
def test_too_few_that_scatter_stay_as_they_are(spreads):
    family = fits(spreads)
    assert moderated(family) == family
    assert moderated(fits([0.03] * FAMILY_MIN)) != fits([0.03] * FAMILY_MIN)


def test_a_comparison_that_happens_not_to_scatter_gets_the_usual_width():
    family = [*fits([0.03] * 8), *fits([0.0])]
    assert family[-1].error == 0
    assert moderated(family)[-1].error == pytest.approx(0.03 / math.sqrt(5), rel=0.5)


def test_a_comparison_without_an_interval_has_none_and_gives_none_to_its_neighbours():
    family, few = fits([0.03] * 8), fits([0.3], n=3)
    assert moderated([*family, *few]) == [*moderated(family), *few]


ALIKE, APART = np.zeros(18), np.array([0.0] * 14 + [0.5, 0.7, 0.9, 1.1, 1.3, 1.5])
FAMILIES = {
    "alike": (ALIKE, np.full(18, 0.03), 1.5),
    "one scatters five times as much": (ALIKE, np.array([0.03] * 17 + [0.15]), 1.5),
    "with unequal servers": (APART, np.full(20, 0.01), 1.6),
    "which scatter more": (APART, 0.01 * np.exp(2 * np.sqrt(APART)), 1.6),
}


@pytest.mark.parametrize(("truths", "spreads", "most"), FAMILIES.values(), ids=FAMILIES)
def test_a_family_holds_together_and_is_narrow(truths, spreads, most):
    """Of comparisons over 5 trials, those of equal servers are nearly as narrow as if
    their scatter was known; alone they would be twice as wide.
    """
    level = 1 - 0.05 / len(truths)
    covered, width = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        x = truths[:, None] + spreads[:, None] * rng.standard_normal((len(truths), 5))
        among = moderated([Fit.of(row) for row in x])
        reaches = np.array([f.reach(level) for f in among])
        covered.append((abs(x.mean(axis=1) - truths) <= reaches).all())
        width.append(np.median(reaches[:14]))
    assert np.mean(covered) > 0.92
    known = stats.norm.ppf((1 + level) / 2) * spreads[0] / math.sqrt(5)
    assert np.median(width) < most * known


def test_the_method_of_a_family_names_moderated_variances():
    frame = drawn(np.random.default_rng(2), "abcdefgh", 0.1, 5)
    seven = rate_ratios(frame)
    assert seven["method"].str.contains("moderated").all()
    pair = rate_ratios(frame[frame["model"].isin(["a", "b"])])
    assert not pair["method"].str.contains("moderated").any()
    same = seven.set_index("model").loc["a", ["value", "p"]].tolist()
    assert same == pytest.approx(pair.loc[0, ["value", "p"]].tolist())


def test_families_hold_together_where_each_interval_of_scipy_does():
    """Two comparisons learn nothing from each other: each is known to 97.5 %."""
    truths, rng = np.array([[0.0], [0.4]]), np.random.default_rng(6)
    logs = truths[..., None] + rng.normal(0, 0.1, (2, 300, 4))
    held = hold_together(logs, truths.ravel())
    bounds = stats.ttest_1samp(logs, 0, axis=2).confidence_interval(0.975)
    inside = (bounds.low <= truths) & (truths <= bounds.high)
    assert held.tolist() == inside.all(axis=0).tolist()
    assert 0.9 < held.mean() < 1


def test_cells_that_scatter_unlike_each_other_do_not_mix():
    """Seven servers at 10 connections that hardly scatter, and at 1000 that do."""
    rng = np.random.default_rng(4)
    still = drawn(rng, "abcdefgh", 0.01, 5)
    loud = drawn(rng, "abcdefgh", 0.3, 5, connections=1000)
    alone = pd.concat([rate_ratios(f, within=["connections"]) for f in (still, loud)])
    among = rate_ratios(pd.concat([still, loud]), within=["connections"])
    narrow, wide = (np.log(rows["hi"] / rows["lo"]).array for rows in (alone, among))
    wider = wide / narrow
    assert wider.max() == pytest.approx(wider.min())
    assert 1 < wider.max() < 1.2  # only that twice as many hold at once


def test_a_cell_of_few_learns_from_the_others():
    rng = np.random.default_rng(5)
    cells = [drawn(rng, "abcd", 0.1, 4, connections=c) for c in (1, 10, 100)]
    rows = rate_ratios(pd.concat(cells), within=["connections"])
    assert rows["method"].str.contains("moderated").all()


@pytest.mark.parametrize(
    ("scale", "spread", "verdict"),
    [
        (1.2, 0.01, "higher"),
        (0.8, 0.01, "lower"),
        (1.0, 0.01, "alike"),
        (1.0, 0.2, "undetermined"),
    ],
)
def test_the_verdict_is_read_off_the_interval(scale, spread, verdict):
    x = np.array([10.0, 11.0, 9.0, 10.0, 10.5, 9.5])
    y = scale * x * np.exp(spread * np.array([1, -1, 0.5, -0.5, 0.2, -0.2]))
    pairs = rate_ratios(trials({"a": list(y), "b": list(x)}))
    assert pairs["verdict"].tolist() == [verdict]


def test_why_a_verdict_is_undetermined_is_told():
    rows = [("higher", 1.1, 1.3), ("alike", 0.99, 1.01), ("undetermined", 0.9, 1.1)]
    rows += [("undetermined", 1.1, 1.3), ("undetermined", 0.7, 0.9)]
    rows += [("undetermined", math.nan, math.nan)]
    pairs = pd.DataFrame(rows, columns=["verdict", "lo", "hi"])
    told = ["higher", "alike", "undetermined", "client", "client", "few"]
    assert outcomes(pairs).tolist() == told
    assert outcomes(pairs.iloc[:0]).empty


@pytest.mark.parametrize(
    ("limited", "scale", "verdict"),
    [
        ("a", 1.5, "higher"),  # a better client could only widen the gap
        ("a", 0.5, "undetermined"),  # it might have caught up
        ("b", 0.5, "lower"),
        ("b", 1.5, "undetermined"),
        ("ab", 1.5, "undetermined"),
    ],
)
def test_where_the_client_was_the_limit_a_verdict_is_a_bound(limited, scale, verdict):
    x = [10.0, 10.1, 9.9, 10.0]
    frame = trials({"a": [scale * v for v in x], "b": x})
    frame.loc[frame["model"].isin(list(limited)), "label"] = "client-bound"
    assert rate_ratios(frame)["verdict"].item() == verdict
    cost = "server_cpu_per_request_s"  # whoever was the limit
    costs = frame.rename(columns={"throughput_rps": cost})
    dearer = "higher" if scale > 1 else "lower"
    assert ratios(costs, cost, baseline="b")["verdict"].item() == dearer


def test_a_pair_without_four_trials_is_undetermined_and_without_a_side_absent():
    alone = trials({"a": [20.0] * 4}, connections=1)
    frame = pd.concat([alone, trials({"a": [20.0] * 3, "b": [10.0] * 3})])
    pairs = rate_ratios(frame, within=["connections"])
    assert pairs["verdict"].tolist() == ["undetermined"]
    assert pairs["value"].tolist() == pytest.approx([2.0])


@pytest.mark.parametrize(
    ("arm", "n", "p"), [(20.0, 2, 0.0), (10.0, 2, 1.0), (20.0, 1, math.nan)]
)
def test_what_does_not_scatter_differs_for_sure_or_not_at_all(arm, n, p):
    pairs = rate_ratios(trials({"a": [arm] * n, "b": [10.0] * n}))
    assert pairs["p"].item() == pytest.approx(p, nan_ok=True)


@pytest.mark.parametrize(
    ("baseline", "left", "told"),
    [
        ("epol", {"epoll", "poll"}, "no trial has model 'epol'.*did you mean 'epoll'"),
        ("epoll", {"epoll", "poll"}, None),  # its trials failed
        ("thread", {"epoll", "poll"}, None),  # not part of the run
        (7, {"epoll"}, None),
        ("epoll", set(), None),
    ],
)
def test_a_baseline_that_may_be_misspelt_is_told(baseline, left, told, recwarn):
    frame = usable(crossed(model=("epoll", "poll"), block=range(4)))
    frame = frame[frame["model"].isin(left)].assign(throughput_rps=1.0)
    frame["ok"] = frame["model"] != "epoll"
    assert ratios(frame, "throughput_rps", baseline=baseline).empty
    assert len(recwarn) == bool(told)
    assert all(re.search(told, str(warning.message)) for warning in recwarn)


def test_the_baseline_of_a_part_of_a_set_is_no_trial_of_its_own():
    frame = trials({"a": [10.0] * 4, "b": [10.0] * 4})
    carried = frame[frame["model"].eq("b")].assign(throughput_rps=99.0)
    frame = pd.concat([frame.assign(carried=False), carried.assign(carried=True)])
    table = intervals(frame, "throughput_rps", "model").set_index("model")
    assert table.loc["b", ["n", "value"]].tolist() == [4, pytest.approx(10.0)]


def split_sets(blocks: int = 4) -> pd.DataFrame:
    """Return trials of a baseline "b" in sets of two, at 10 and 1000 connections.

    Of each block the first set holds a and b, the second c, and b once more.
    """
    rng = np.random.default_rng(6)
    rows = [
        {"model": model, "connections": n, "block": block, "set": f"{n} {block} {part}"}
        | {"carried": model == "b" and part == 1, "response_p99_s": rng.lognormal()}
        for block in range(blocks)
        for n in (10, 1000)
        for part, pair in enumerate(("ab", "cb"))
        for model in pair
    ]
    return usable(pd.DataFrame(rows), label="server-bound", rounds=None)


@pytest.mark.parametrize("drop", [[], ["set"]], ids=["in turns", "in blocks"])
@pytest.mark.parametrize(
    ("by", "baseline"),
    [("connections", 10), ("model", "a"), ("model", "b"), ("model", "c")],
)
def test_a_pair_has_as_many_ratios_as_blocks(by, baseline, drop):
    within = ["model" if by == "connections" else "connections"]
    frame = split_sets().drop(columns=drop)
    table = ratios(frame, "response_p99_s", by=by, baseline=baseline, within=within)
    assert table["n"].tolist() == [4] * len(table)
    assert not table["method"].str.contains("Welch").any()


def test_a_ratio_to_a_baseline_is_taken_within_its_set():
    frame = split_sets().query("connections == 10")
    table = ratios(frame, "response_p99_s", baseline="b").set_index("model")
    values = frame.set_index(["block", "model", "carried"])["response_p99_s"].unstack(0)
    beside = values.loc[("b", False)], values.loc[("b", True)]
    for model, base in zip("ac", beside, strict=True):
        logs = np.log(values.loc[(model, False)] / base)
        assert table.loc[model, "value"] == pytest.approx(math.exp(logs.mean()))


def test_ratios_of_sets_are_those_where_cores_usually_are():
    frame = split_sets(blocks=6).query("connections == 10")
    plain = ratios(frame, "response_p99_s", baseline="b").set_index("model")
    off = frame["block"].map(dict(enumerate(MOVED)))
    adjusted = ratios(frame.assign(cores_off=off), "response_p99_s", baseline="b")
    adjusted = adjusted.set_index("model")
    values = frame.set_index(["block", "model", "carried"])["response_p99_s"].unstack(0)
    logs = np.log(values.loc[("a", False)] / values.loc[("b", False)])
    line = OLS(logs.to_numpy(), add_constant(MOVED)).fit()
    assert adjusted.loc["a", "value"] == pytest.approx(math.exp(line.params[0]))
    assert adjusted.loc["a", "n"] == 6
    assert adjusted["method"].str.contains("where the host had put the cores").all()
    assert not plain["method"].str.contains("host").any()


@pytest.mark.parametrize("baseline", ["b", "a"])
def test_a_set_has_one_ratio_to_a_baseline_that_is_there_twice(baseline):
    frame = split_sets().query("connections == 10")
    frame["set"] = frame["block"].astype(str)
    table = ratios(frame, "response_p99_s", baseline=baseline).set_index("model")
    assert table["n"].tolist() == [4, 4]
    logs = np.log(frame.groupby("model")["response_p99_s"].apply(stats.gmean))
    for model in {"a", "b", "c"} - {baseline}:
        log = logs[model] - logs[baseline]
        assert table.loc[model, "value"] == pytest.approx(math.exp(log))


def test_samples_without_common_blocks_have_no_trial_of_their_own_for_a_carried_one():
    changed = unpaired(split_sets().query("connections == 10"))
    table = ratios(changed, "response_p99_s", baseline="b")
    assert table["n"].tolist() == [4, 4]
    values = changed.query("not carried").set_index("model")["response_p99_s"]
    y, x = (np.log(values[model]) for model in "cb")
    p = stats.ttest_ind(y, x, equal_var=False).pvalue
    assert table.set_index("model").loc["c", "p"] == pytest.approx(p)


def test_a_side_that_was_measured_alone_is_said():
    frame = split_sets().query("connections == 10")
    frame.loc[frame["model"] == "a", "set"] = None
    table = ratios(frame, "response_p99_s", baseline="b").set_index("model")
    said = table["method"].str.contains("one side took turns, the other did not")
    assert said.to_dict() == {"a": True, "c": False}


def test_trials_of_two_sets_share_no_rounds():
    frame = split_sets().query("model == 'b' and not carried")
    sides = {"by": "connections", "baseline": 10, "within": ["model"]}
    grown = ratios(frame, "response_p99_s", **sides)
    assert grown["method"].str.startswith("t over log ratios of blocks").all()
