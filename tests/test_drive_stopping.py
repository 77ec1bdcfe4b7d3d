"""When a sweep has measured enough."""

import math
import random

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from study_made import usable

from connlab import intervals
from connlab.drive import stopping
from connlab.variances import Fit


def _rows(*values: float, ok: bool = True) -> list[dict]:
    by = None if ok else "census"
    return [{"throughput_rps": value, "excluded_by": by} for value in values]


def _ratios(*logs: float | None) -> list[dict]:
    """Return trials of a server in turns, with their log ratios to the baseline."""
    ratios = ({"throughput_rps": log} for log in logs)
    return [{"throughput_rps": 1.0, stopping.RATIOS: ratio} for ratio in ratios]


def _bases(count: int) -> list[dict]:
    return [{"throughput_rps": 1.0, stopping.RATIOS: {}}] * count


def _rule(**changes) -> stopping.Rule:
    options = {"n_min": 3, "n_max": 6, "targets": {"throughput_rps": 0.05}} | changes
    return stopping.Rule(**options)


def test_ratios_are_as_wide_as_where_cores_usually_are():
    off = np.array([0, 1, 0, 0.5, 0, 0])
    logs = 0.3 * off + [0, 1e-3, -1e-3, 0, 1e-3, 0]
    moved = [
        {**row, "cores_off": x} for row, x in zip(_ratios(*logs), off, strict=True)
    ]
    rule = _rule(sets=((0, 1),))
    (plain,) = stopping.widths([_bases(6), _ratios(*logs)], rule)
    (adjusted,) = stopping.widths([_bases(6), moved], rule)
    assert adjusted.half_width < 0.02 < plain.half_width
    assert (adjusted.n, plain.n) == (6, 6)


@settings(deadline=None)  # it is no less true on a machine that is busy
@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=30))
def test_the_half_width_is_that_of_the_t_interval(values):
    half_width = stopping.relative_half_width(values)
    mean, error = sum(values) / len(values), scipy.stats.sem(values)
    if error == 0:
        assert half_width == 0
        return
    low, high = scipy.stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error)
    assert half_width == pytest.approx((high - low) / 2 / mean, rel=1e-6)


def test_rules_from_arguments():
    assert stopping.rule(trials=5) == stopping.Rule(5, 5, {})
    adaptive = stopping.rule(trials=5, max_trials=9)
    assert adaptive == stopping.Rule(5, 9, stopping.TARGETS)
    one_target = stopping.rule(trials=5, targets={"throughput_rps": 0.01})
    assert one_target == stopping.Rule(5, 15, {"throughput_rps": 0.01})
    assert stopping.rule(trials=5, budget="10m").budget_s == 600
    ratios = stopping.rule(trials=5, max_trials=5, targets=0.02, in_turns=True)
    targets = {"throughput_rps": 0.02, "server_cpu_per_request_s": 0.02}
    assert ratios == stopping.Rule(5, 5, targets)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trials": 0}, "trials: 0"),
        ({"trials": 5, "max_trials": 4}, "max_trials: 4"),
        ({"trials": 5, "targets": {"throughput_rps": 5}}, "between 0 and 1"),
        (
            {"trials": 5, "targets": {"throughput": 0.1}},
            "'throughput'; did you mean 'throughput_rps'.*known: .*response_p99_s",
        ),
        ({"trials": 5, "budget": "soon"}, "budget: 'soon'"),
        ({"trials": 5, "budget": "10 20"}, "budget: '10 20'"),
        ({"trials": 5, "budget": "1.5.2m"}, "budget: '1.5.2m'"),
        ({"trials": 5, "budget": 0}, "budget: 0"),
    ],
)
def test_rules_that_cannot_be_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        stopping.rule(**arguments, metrics=["throughput_rps", "response_p99_s"])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(90, 90), ("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2 min", 120)],
)
def test_spans_of_time(text, seconds):
    assert stopping.seconds(text) == seconds


NARROW, WIDE = (0.1, 0.101, 0.1, 0.099), (0.1, 0.3, -0.1, 0.2)
LOST = [row | {"failure": "server-died"} for row in _ratios(*[None] * 4)]
SCATTERED = [{"throughput_rps": x, stopping.RATIOS: {}} for x in (1.0, 9.0, 1.0, 9.0)]
TWO_SETS = [_bases(4), _ratios(*NARROW), _ratios(*WIDE), _bases(4), _ratios(*NARROW)]
OF_TWO_SETS = {"n_min": 4, "sets": ((0, 1, 2), (3, 4))}
ONE, PAID = {"n_min": 1}, {"budget_s": 60.0}
WIDE_MOST, ONE_GOOD = _rows(50, 100, 150, 50, 100, 150), _rows(100)
#: why enough is measured, by trials and by cells without an interval, or too wide
NO_HOPE = (
    "no more trials would help after {} blocks: {} cells have no interval, the others "
    "met their targets"
)
MOST = (
    "the most trials allowed ({} per cell) are there; {} cells are wider than their "
    "target or have too few trials that may be used"
)
NEXT = {
    "nothing is there": ([[], []], {}, (0, 1)),
    "below n_min": ([_rows(1, 1), _rows(9, 1)], {}, (0, 1)),
    "a block that was left half done": ([_rows(1, 1), _rows(9)], {}, (1,)),
    "every cell is narrow": (
        [_rows(100, 101, 100), _rows(50, 50, 50.1)],
        {},
        "every target was met after 3 blocks",
    ),
    "one cell is wide": ([_rows(100, 101, 100), _rows(50, 100, 150)], {}, (0, 1)),
    "one cell is wide at n_max": (
        [_rows(*[100] * 6), WIDE_MOST],
        {},
        MOST.format(6, "1 of 2"),
    ),
    "a baseline alone has no target": ([_bases(3)], {}, "all 3 blocks are there"),
    "one trial has no interval": ([ONE_GOOD], ONE, (0,)),
    "nor has it where a budget pays": ([ONE_GOOD], ONE | PAID, (0,)),
    "two have one": ([ONE_GOOD * 2], ONE, "every target was met after 2 blocks"),
    "one is all that is allowed": (
        [ONE_GOOD],
        ONE | {"n_max": 1},
        MOST.format(1, "1 of 1"),
    ),
    "one is good among bad ones": ([ONE_GOOD + _rows(*range(4), ok=False)], {}, (0,)),
    "and there may be no more": (
        [ONE_GOOD + _rows(*range(5), ok=False)],
        {},
        MOST.format(6, "1 of 1"),
    ),
    "a budget goes to the widest cells": (
        [_rows(100 - x, 100, 100 + x) for x in (1, 50, 10, 40)],
        PAID,
        (1, 3),
    ),
    "a cell has all that it may have": ([WIDE_MOST, _rows(80, 100, 120)], PAID, (1,)),
    "all cells have": ([WIDE_MOST] * 2, PAID, MOST.format(6, "2 of 2")),
    "one has, the other needs no more": (
        [_rows(100, 100, 100), WIDE_MOST],
        PAID,
        MOST.format(6, "1 of 2"),
    ),
    # whatever the baseline's own scatter
    "in turns it is the ratio that has to be narrow": (
        [SCATTERED, _ratios(*NARROW)],
        {"n_min": 4, "sets": ((0, 1),)},
        "every target was met after 4 blocks",
    ),
    # all cells of the set with a wide ratio, none of the other set
    "more trials go to whole sets": (TWO_SETS, OF_TWO_SETS, (0, 1, 2)),
    "also where a budget pays": (TWO_SETS, OF_TWO_SETS | PAID, (0, 1, 2)),
    "a cell alone is in no set": (
        [_rows(100, 100, 100, 101), _bases(4), _ratios(*WIDE)],
        {"n_min": 4, "sets": ((1, 2),)},
        (1, 2),
    ),
    "three ratios are not enough": (
        [_bases(3), _ratios(*NARROW[:3])],
        {"sets": ((0, 1),)},
        (0, 1),
    ),
    "a server without ratios holds up nobody": (
        [_bases(4), _ratios(*NARROW), LOST],
        {"n_min": 4, "sets": ((0, 1, 2),)},
        NO_HOPE.format(4, "1 of 3"),
    ),
}


@pytest.mark.parametrize(("rows", "changes", "decision"), NEXT.values(), ids=NEXT)
def test_a_whole_block_follows_until_it_is_enough(rows, changes, decision):
    assert stopping.next_round(rows, _rule(**changes)) == decision


def test_trials_that_may_not_be_used_give_no_width_and_hold_up_nobody():
    rows = [_rows(1, 100, 1000, ok=False), _rows(50, 50, 50)]
    assert stopping.next_round(rows, _rule()) == NO_HOPE.format(3, "1 of 2")
    width = stopping.widths(rows, _rule())[0]
    assert (width.n, width.half_width, width.met) == (0, None, False)


def _spoilt(count: int, by: str = "quiet") -> list[dict]:
    return [row | {"excluded_by": by} for row in _rows(*range(1, count + 1))]


FOUR = _rows(1, 2, 3, 4)
SPOILT = {
    "all are used": ([FOUR, FOUR], "all 4 blocks are there"),
    "one is spoilt, and paired with the other": (
        [FOUR, _rows(1, 2, 3) + _spoilt(1)],
        (0, 1),
    ),
    "it is replaced": (
        [_rows(1, 2, 3, 4, 5), _rows(1, 2, 3, 4) + _spoilt(1)],
        "all 5 blocks are there",
    ),
    "no more than two blocks follow": (
        [_rows(*range(6)), _rows(1, 2, 3) + _spoilt(3)],
        "all 6 blocks are there",
    ),
    "its own fault is not tried again": (
        [FOUR, _rows(1, 2, 3) + _spoilt(1, by="census")],
        "all 4 blocks are there",
    ),
}


@pytest.mark.parametrize(("rows", "decision"), SPOILT.values(), ids=SPOILT)
def test_without_targets_spoilt_trials_are_replaced(
    rows, decision, monkeypatch, spare_blocks
):
    monkeypatch.setattr(stopping, "SPARE", spare_blocks)
    alone = ((0,), (1,))
    rule = _rule(n_min=4, n_max=4, targets={}, sets=alone)
    assert stopping.next_round(rows, rule) == decision
    few = _rule(n_min=3, n_max=3, targets={}, sets=alone)
    assert isinstance(stopping.next_round(rows, few), str)


def test_a_spoilt_set_is_measured_again_and_no_other(monkeypatch, spare_blocks):
    monkeypatch.setattr(stopping, "SPARE", spare_blocks)
    rows = [FOUR, FOUR, _rows(1, 2, 3) + _spoilt(1), FOUR, FOUR]
    rule = _rule(n_min=4, n_max=4, targets={}, sets=((0, 1), (2, 3), (4,)))
    assert stopping.next_round(rows, rule) == (2, 3)
    rows[2].append(rows[2][0])
    rows[3] = rows[3] + FOUR[:1]
    enough = stopping.next_round(rows, rule)
    assert enough == "4 to 5 trials per cell are there"


@pytest.mark.parametrize(
    ("failed", "again"),
    [("quiet", True), ("lag, quiet", True), ("census, quiet", False)],
)
def test_trials_spoilt_by_noise_are_worth_another_block(failed, again):
    spoilt = [row | {"excluded_by": failed} for row in _rows(1, 2, 3, ok=False)]
    decision = stopping.next_round([spoilt, _rows(50, 50, 50)], _rule())
    assert (decision == (0, 1)) is again
    with_budget = stopping.next_round([spoilt, _rows(5, 5, 5)], _rule(budget_s=9.0))
    assert (with_budget == (0,)) is again


def test_coverage_of_stopping_early_is_what_the_method_says():
    """Simulated: CV 10 %, target 5 %; 0.92 from n_min 5 (binomial noise allowed)."""
    rng = random.Random(1)
    rule = stopping.Rule(5, 200, {"throughput_rps": 0.05})
    covered, runs = 0, 600
    for _ in range(runs):
        values: list[float] = []
        while not isinstance(stopping.next_round([_rows(*values)], rule), str):
            values.append(rng.gauss(100, 10))
        mean = sum(values) / len(values)
        half = stopping.relative_half_width(values) * mean
        covered += abs(mean - 100) <= half
    assert 0.88 < covered / runs < 0.95


# ---- ratios of servers that took turns -------------------------------------------


def test_the_half_width_of_a_ratio_is_that_of_t_on_logs():
    logs = [0.02, 0.05, -0.01, 0.03, 0.02]
    mean, error = sum(logs) / 5, scipy.stats.sem(logs)
    for family in (1, 12):
        low, high = scipy.stats.t.interval(1 - 0.05 / family, 4, loc=mean, scale=error)
        width = math.sqrt(math.exp(high) / math.exp(low)) - 1
        half_width = stopping.ratio_half_width(Fit.of(logs), family)
        assert half_width == pytest.approx(width)
    assert stopping.ratio_half_width(Fit.of(logs[:3]), 1) is None


def test_a_baseline_has_no_width_and_the_other_that_of_its_ratio():
    rows, rule = [SCATTERED, _ratios(*NARROW)], _rule(n_min=4, sets=((0, 1),))
    (width,) = stopping.widths(rows, rule)
    assert (width.cell, width.ratio, width.n) == (1, True, 4)


@pytest.mark.parametrize(
    ("counts", "blocks", "there"),
    [
        ((1, 1), "1 block", "the one block is there"),
        ((3, 3), "3 blocks", "all 3 blocks are there"),
        ((3, 7), "3 to 7 trials per cell", "3 to 7 trials per cell are there"),
    ],
)
def test_a_reason_says_how_many_trials_cells_have(counts, blocks, there):
    assert stopping._blocks(counts) == blocks
    assert stopping._are_there(counts) == there


def _rows_of(logs: np.ndarray) -> list[list[dict]]:
    """Return trials by the log rates of a baseline, first, and of others."""
    return [_bases(logs.shape[1]), *(_ratios(*(arm - logs[0])) for arm in logs[1:])]


def _printed(sets: list[np.ndarray]) -> list[float]:
    """Return how wide the ratios of sets are that a study prints."""
    rows = [
        (number, model, block, math.exp(log))
        for number, logs in enumerate(sets)
        for (model, block), log in np.ndenumerate(logs)
    ]
    frame = pd.DataFrame(rows, columns=["within", "model", "block", "throughput_rps"])
    frame = usable(frame, label="server-bound")
    table = intervals.ratios(frame, "throughput_rps", baseline=0, within=["within"])
    return list(np.sqrt(table["hi"] / table["lo"]) - 1)


@pytest.mark.parametrize("pairs", [(3, 2), (8, 3), (8, 7), (3, 4)])
def test_what_has_to_be_narrow_is_the_width_that_is_printed(pairs):
    """Of sets that have variances enough to learn from, and of those that have not."""
    sets = []
    for n, count in enumerate(pairs):
        drawn = np.random.default_rng(n).standard_normal((count + 1, 5))
        sets.append((0.02 + 0.1 * n) * drawn)
    second = pairs[0] + 1
    members = (tuple(range(second)), tuple(range(second, second + pairs[1] + 1)))
    rule = _rule(sets=members)
    widths = stopping.widths([*_rows_of(sets[0]), *_rows_of(sets[1])], rule)
    assert [width.half_width for width in widths] == pytest.approx(_printed(sets))


def _mean_log(trials: list[dict]) -> float:
    return float(np.mean([row[stopping.RATIOS]["throughput_rps"] for row in trials]))


def _until_narrow(seed: int, rule: stopping.Rule) -> tuple[bool, int]:
    """Return whether all ratios of a sweep hold the truth, and its trials."""
    cells = sum(map(len, rule.sets))
    rng = np.random.default_rng(seed)
    logs: list[list[float]] = [[] for _ in range(cells)]
    while True:
        rows = [[]] * cells
        for members in rule.sets:
            set_rows = _rows_of(np.array([logs[cell] for cell in members]))
            for cell, trials in zip(members, set_rows, strict=True):
                rows[cell] = trials
        decision = stopping.next_round(rows, rule)
        if isinstance(decision, str):
            break
        for cell in decision:
            logs[cell].append(0.02 * rng.standard_normal())
    held = all(
        abs(_mean_log(rows[width.cell])) <= math.log1p(width.half_width)
        for width in stopping.widths(rows, rule)
    )
    return held, sum(map(len, logs))


def test_families_hold_together_where_the_rule_stops_them():
    """Simulated: 16 ratios of two sets, stopped at ±5 % from the fourth trial on."""
    sets = (tuple(range(9)), tuple(range(9, 18)))
    rule = _rule(n_min=4, n_max=12, sets=sets)
    runs = [_until_narrow(seed, rule) for seed in range(300)]
    held, trials = zip(*runs, strict=True)
    assert np.mean(held) > 0.92
    assert 4 * 18 < np.mean(trials) < 10 * 18
