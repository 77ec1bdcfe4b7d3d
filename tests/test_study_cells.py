"""Cells and pairs: intervals over usable trials, words only where they may stand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import study_made as made

from connlab.study import cells, comparing, interval, load

BY = ["model", "connections"]


@pytest.fixture
def frame(tmp_path):
    rates = {"thread": 80_000.0, "select": 99_500.0}
    trials = made.sweep(
        ("select", "thread", "epoll"),
        (1, 100, 2000),
        capacity=rates,
        cv=0.005,
        block_cv=0.1,
        blocks=8,
    )
    return load("made", "response-time", root=made.write(tmp_path, trials))


def test_a_cell_has_the_interval_of_its_usable_trials(frame):
    table = cells.summarise(frame, "throughput_rps", by=BY)
    assert table[BY].values.tolist() == sorted(table[BY].values.tolist())
    row = table[(table.model == "epoll") & (table.connections == 100)].iloc[0]
    mine = frame[(frame.model == "epoll") & (frame.connections == 100)]
    assert cells.interval_of(row) == interval.t_interval(mine.throughput_rps)


@pytest.mark.parametrize(
    ("how", "f"), [("median", interval.median_interval), ("bca", interval.bca_interval)]
)
def test_other_intervals_on_request(frame, how, f):
    table = cells.summarise(frame, "response_p99_s", by=["model"], how=how)
    mine = frame[(frame.model == "epoll") & frame.ok]
    row = table[table.model == "epoll"].iloc[0]
    assert cells.interval_of(row) == f(mine.response_p99_s)


def test_a_cell_without_a_usable_trial_stays_with_its_reason(frame):
    table = cells.summarise(frame, "throughput_rps", by=BY).set_index(BY)
    row = table.loc[("select", 2000)]
    assert np.isnan(row.value)
    assert (row.n, row.trials, row.reason) == (0, 8, "beyond FD_SETSIZE")


def _words(found):
    return {(c.arm, c.where["connections"]): c.word for c in found}


def test_words_come_from_paired_ratios(frame):
    found = cells.compare_cells(
        frame, "response_mean_s", baseline="epoll", within=["connections"]
    )
    words = _words(found)
    assert words[("thread", 100)] == "slower than"
    assert words[("select", 100)] == "indistinguishable from"
    assert ("select", 2000) not in words
    one = next(c for c in found if c.arm == "thread" and c.where["connections"] == 100)
    assert one.comparison.ratio.contains(100 / 80)
    assert "paired" in one.comparison.ratio.method
    assert one.comparison.p_adjusted >= one.comparison.p


def test_more_is_better_for_throughput(frame):
    found = cells.compare_cells(
        frame, "throughput_rps", baseline="epoll", within=["connections"]
    )
    assert _words(found)[("thread", 100)] == "slower than"


def test_a_client_that_was_the_limit_ranks_nobody(frame):
    bound = frame.assign(label="client-bound")
    found = cells.compare_cells(
        bound, "response_mean_s", baseline="epoll", within=["connections"]
    )
    assert set(_words(found).values()) == {"undetermined"}
    assert "client was the bottleneck" in found[0].comparison.rule


def saturated(frame, model):
    bound = frame.model == model
    return frame.assign(
        ok=frame.ok & ~bound,
        gates_failed=frame.gates_failed.mask(bound, "client"),
        label=frame.label.mask(bound, "client-bound"),
    )


def test_a_server_whose_client_was_the_limit_may_be_called_faster_only(frame):
    for bound, word in [("epoll", "slower than"), ("thread", "undetermined")]:
        found = cells.compare_cells(
            saturated(frame, bound),
            "throughput_rps",
            baseline="epoll",
            within=["connections"],
        )
        assert _words(found)[("thread", 100)] == word
        one = next(c for c in found if c.arm == "thread")
        assert "client was the bottleneck" in one.comparison.rule


def test_costs_are_compared_whoever_was_the_limit(frame):
    metric = "server_cpu_per_request_s"
    how = {"baseline": "epoll", "within": ["connections"]}
    words = _words(cells.compare_cells(frame, metric, **how))
    assert words[("thread", 100)] == "slower than"
    assert (
        _words(cells.compare_cells(saturated(frame, "epoll"), metric, **how)) == words
    )


def test_a_cell_whose_client_was_the_limit_is_a_bound(frame):
    table = cells.summarise(saturated(frame, "epoll"), "throughput_rps", by=BY)
    row = table[(table.model == "epoll") & (table.connections == 100)].iloc[0]
    assert (row.n, row.trials, row.label) == (8, 8, "client-bound")
    census = cells.summarise(saturated(frame, "epoll"), "fairness_jain", by=BY)
    assert (census[census.model == "epoll"].n == 0).all()


def test_arms_without_common_blocks_are_independent(frame):
    arm = frame[(frame.model == "epoll") & (frame.connections == 100)]
    y, x, paired = cells.pair(arm[arm.block < 4], arm[arm.block >= 3], "throughput_rps")
    assert not paired
    assert (len(y), len(x)) == (4, 5)
    y, x, paired = cells.pair(arm[arm.block < 6], arm[arm.block >= 3], "throughput_rps")
    assert paired
    assert len(y) == len(x) == 3


def test_likenesses_are_corrected_for_their_number(tmp_path):
    """One pair of two is shown alike; beside a hundred like it, it is not."""
    models = ("epoll", *(f"m{i}" for i in range(20)))
    trials = made.sweep(models, (100,), cv=0.03, blocks=8, seed=3)
    many = made.load(tmp_path, trials)

    def words(family):
        found = cells.compare_cells(
            many, "throughput_rps", baseline="epoll", within=[], family=family
        )
        return {c.arm: c for c in found}

    alone, together = words(False), words(True)
    alike = {name for name, c in alone.items() if c.word == "indistinguishable from"}
    kept = {name for name in alike if together[name].word == "indistinguishable from"}
    assert kept < alike
    p = [c.comparison.equivalence.p for c in alone.values()]
    adjusted = dict(zip(alone, comparing.holm(p), strict=True))
    assert kept == {name for name in alike if adjusted[name] < 0.05}
    assert all(together[name].word == "undetermined" for name in alike - kept)


def test_announced_comparisons_are_not_corrected(frame):
    found = cells.compare_cells(
        frame, "response_mean_s", baseline="epoll", within=["connections"], family=False
    )
    assert all(c.comparison.p_adjusted is None for c in found)


def test_no_baseline_no_comparison(frame):
    assert not cells.compare_cells(
        frame, "response_mean_s", baseline="poll", within=["connections"]
    )


def test_comparisons_as_a_frame(frame):
    found = cells.compare_cells(
        frame, "response_mean_s", baseline="epoll", within=["connections"]
    )
    table = cells.ratio_frame(found)
    assert {"connections", "arm", "value", "lo", "hi", "word"} <= set(table.columns)
    assert len(table) == len(found)
    assert isinstance(table, pd.DataFrame)


def _histogram(folder, key, counts):
    rows = [(k * 1000, (k + 1) * 1000, c, "response") for k, c in enumerate(counts)]
    table = pd.DataFrame(rows, columns=["lower_ns", "upper_ns", "count", "clock"])
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{key}.csv.gz", index=False)


def test_tails_are_means_of_each_trials_quantile(tmp_path):
    trials = [made.trial(block=b) for b in range(3)]
    made.write(tmp_path, trials)
    folder = tmp_path / "made" / "response-time" / "latency"
    for k, t in enumerate(trials):
        _histogram(folder, t["key"], [500 - k, 400 + k, 90, 10])
    one = load("made", "response-time", root=tmp_path)
    table = cells.tail_table(one, root=tmp_path).set_index("quantile")
    assert table.loc[0.5, "value"] == pytest.approx((1e-6 + 2e-6 + 2e-6) / 3)
    assert table.loc[0.99, "value"] == pytest.approx(3e-6)
    assert table.loc[0.99, "n"] == 3
    assert 0.999 not in table.index, "ten of a thousand requests lie beyond 99 %"


def test_a_quantile_is_that_of_the_requests():
    x = np.sort(np.random.default_rng(1).integers(0, 100, 5000))
    counts = np.bincount(x, minlength=100)
    h = pd.DataFrame({"lower_ns": range(100), "upper_ns": range(1, 101)})
    h["count"] = counts
    for q in (0.1, 0.5, 0.9, 0.99):
        truth = np.quantile(x, q, method="inverted_cdf")
        assert cells.quantile_of(h, q) * 1e9 == pytest.approx(truth + 1)


def test_no_histograms_no_tails(frame, tmp_path):
    assert cells.tail_table(frame, root=tmp_path).empty
