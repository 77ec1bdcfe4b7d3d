"""Rules of the ledger in worlds where a claim is true, false, or cannot be told.

Each pair that the ledger compares is made up with a scatter like that of published
repetitions; and what a report printed five times is put to the rule of its own claim.
"""

import re

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT

from connlab import claims
from connlab.claims import finding
from connlab.claims.published import published
from connlab.study.turns import MARGIN

HOLDS, IN_PART, NOT, OPEN = finding.VERDICTS
ENTRIES = [*claims.ledger(), *claims.ledger(ROOT / "paper" / "rereadings.yml")]
RULES = {entry.id: entry.rule for entry in ENTRIES}


def parts(rule):
    """Give the rules that a rule is made of."""
    for part in rule.get("parts", ()):
        yield from parts(part)
    if "parts" not in rule and rule:
        yield rule


def of_ledger(name):
    """Parametrize by the rules of a name that the ledger has, called by their claim."""
    rules = [
        pytest.param(rule, id=f"{claim}-{i}")
        for claim, whole in RULES.items()
        for i, rule in enumerate(parts(whole))
        if rule["rule"] == name
    ]
    return pytest.mark.parametrize("rule", rules)


def verdict(trials, rule, printed=None):
    return claims.apply(trials, rule, printed).verdict


GOOD = {"ok": True, "label": "server-bound", "failure": None}


def first_levels(cell):
    """Return a level of each column; of several that are allowed, the first."""
    return {k: v[0] if isinstance(v, list) else v for k, v in cell.items()}


def trials(rule, ratio, *, scatter=0.02, n=12):
    """Return two cells of a ratio whose trials scatter by so much."""
    noise = np.exp(scatter * np.linspace(-1.5, 1.5, n))
    sides = (rule["arm"], ratio * noise), (rule["baseline"], noise[::-1])
    rows = [
        {**first_levels(cell), rule["metric"]: value, "block": block}
        for cell, values in sides
        for block, value in enumerate(values)
    ]
    return pd.DataFrame(rows).assign(**GOOD, repeat=0)


def within(rule):
    """Return a ratio that the claim is true of."""
    if rule["expect"] == "alike":
        return 1.0
    low, high = rule.get("size") or ((1.5, 2.5), (0.4, 0.6))[rule["expect"] == "less"]
    low = max(low, 1.0) if rule["expect"] == "more" else low
    return float(np.sqrt(low * high))


def width(rule):
    """Return a scatter that leaves an interval inside what is claimed."""
    if rule["expect"] == "alike":
        return rule.get("margin", MARGIN) / 8
    low, high = rule.get("size") or (1, 2)
    return min(0.02, np.log(high / max(low, 1e-3)) / 16)


@of_ledger("compare")
def test_a_claim_holds_where_it_is_true_and_not_where_its_contrary_is(rule):
    beyond = 2 * (1 + rule.get("margin", MARGIN))
    contrary = {"more": 0.3, "less": 3.0, "alike": beyond}[rule["expect"]]
    assert verdict(trials(rule, within(rule), scatter=width(rule)), rule) == HOLDS
    assert verdict(trials(rule, contrary), rule) == NOT
    assert verdict(trials(rule, 1.02, scatter=3.0, n=4), rule) == OPEN
    if "size" in rule:  # to touch the published one is not to meet it
        assert verdict(trials(rule, rule["size"][1]), rule) != HOLDS


@pytest.mark.parametrize(
    ("ratio", "expected"), [(7 / 2050, NOT), (0.2, HOLDS), (0.99, HOLDS), (3.0, HOLDS)]
)
def test_one_client_at_a_time_may_be_as_fast_as_epoll_or_faster(ratio, expected):
    rule = RULES["R7"]
    assert verdict(trials(rule, ratio), rule) == expected


FREVIB = published("frevib-throughput.csv").set_index("connections")


@pytest.mark.parametrize(
    ("claim", "part", "ratio"),
    [
        *(
            ("L1", i, FREVIB.io_uring[n] / FREVIB.epoll[n])
            for i, n in enumerate((50, 300, 1000))
        ),
        *(("L2", i, ratio) for i in (0, 1) for ratio in (220 / 250, 227 / 235)),
        *(("L3", 0, ratio) for ratio in (1.06, 1.10)),
        *(("L3", 1, ratio) for ratio in (2.05, 2.31)),
    ],
)
def test_a_published_ratio_passes_the_rule_of_its_own_claim(claim, part, ratio):
    rule = list(parts(RULES[claim]))[part]
    assert verdict(trials(rule, ratio, scatter=0.01), rule) == HOLDS


@pytest.mark.parametrize(("claim", "ratio"), [("H2", 0.1), ("L7", 2.4)])
def test_who_is_ahead_as_claimed_by_another_size_is_right_in_part(claim, ratio):
    rule = RULES[claim]
    for part in parts(rule):
        assert verdict(trials(part, ratio), part) == IN_PART
        assert verdict(trials(part, 1 / ratio), part) == NOT


@pytest.mark.parametrize("claim", ["W3", "W3b"])
def test_a_busy_server_that_moves_bytes_does_not_move_nothing(claim):
    """In a closed loop any server is busy."""
    rule = RULES[claim]
    busy, moved = (cell_of(part, 1.0, 0.001) for part in parts(rule))
    for rate, expected in ((1e9, NOT), (10.0, HOLDS)):
        rows = busy.assign(bytes_per_s=moved["bytes_per_s"] * rate)
        assert verdict(rows, rule) == expected


# ---- other rules -----------------------------------------------------------------


def counts(model, carried, *, levels, **factors):
    """Return three trials for each level: all connections kept up to `carried`."""
    rows = pd.DataFrame({"connections": np.repeat(levels, 3)})
    surviving = rows["connections"].clip(upper=carried)
    return rows.assign(model=model, surviving=surviving, failure=None, **factors)


@of_ledger("survives")
def test_a_limit_is_met_where_it_lies(rule):
    passes, fails = rule.get("passes", []), rule.get("fails", [])
    levels, arm = [*passes, *fails], first_levels(rule["arm"])
    most = max(passes, default=min(fails, default=1) - 1)
    right = counts(arm.pop("model"), most, levels=levels, **arm)
    assert verdict(right, rule) == HOLDS
    wrong = right.assign(surviving=right["connections"] if fails else 0)
    assert verdict(wrong, rule) == (IN_PART if passes and fails else NOT)
    assert verdict(right.assign(connections=7), rule) == OPEN


@of_ledger("outlasts")
@pytest.mark.parametrize(
    ("arm", "baseline", "expected"),
    [(5000, 1000, HOLDS), (1000, 5000, NOT), (5000, 5000, OPEN)],
)
def test_a_server_outlasts_another_only_where_both_limits_differ(
    rule, arm, baseline, expected
):
    sides = (rule["arm"], arm), (rule["baseline"], baseline)
    rows = [counts(c["model"], n, levels=[100, 1000, 5000]) for c, n in sides]
    assert verdict(pd.concat(rows), rule) == expected


def stated(value, width=1.02):
    """Return a printed ratio, as a study's section has it."""
    row = {"model": "thread", "load": 0.5, "against": "epoll", "n": 8, "level": 0.95}
    row |= {"metric": "response_p99_s", "value": value, "method": "t"}
    return pd.DataFrame([row | {"lo": value / width, "hi": value * width}])


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (stated(0.5), HOLDS),
        (stated(2.0), NOT),
        (stated(0.9, width=3), OPEN),
        (stated(0.5).assign(load=0.7), OPEN),
        (stated(0.5).assign(lo=np.nan, hi=np.nan), OPEN),
        (stated(0.5).assign(verdict="lower"), HOLDS),
        (stated(0.5).assign(verdict="undetermined"), OPEN),  # the client limited it
        (None, OPEN),
    ],
)
def test_a_printed_ratio_is_judged_by_its_levels(printed, expected):
    rule = {
        "rule": "printed_ratio",
        "metric": "response_p99_s",
        "arm": {"model": "thread", "load": 0.5},
        "against": "epoll",
        "expect": "less",
    }
    assert verdict(pd.DataFrame(), rule, printed) == expected
    limited = printed is not None and "undetermined" in printed.to_numpy()
    assert limited == ("bottleneck" in claims.apply(pd.DataFrame(), rule, printed).why)


@of_ledger("printed_ratio")
def test_a_claim_about_a_printed_ratio_is_judged_by_it(rule):
    claimed = {"less": 0.5, "more": 2.0}[rule["expect"]]
    levels = {key: rule[key] for key in ("metric", "against")} | rule["arm"]
    for value, width, expected in (
        (claimed, 1.02, HOLDS),
        (1 / claimed, 1.02, NOT),
        (claimed, 3, OPEN),
    ):
        printed = stated(value, width).assign(**levels)
        assert verdict(pd.DataFrame(), rule, printed) == expected


def cell_of(rule, middle, scatter):
    """Return trials of one cell whose value scatters by so much."""
    noise = np.exp(scatter * np.linspace(-1.5, 1.5, 12))
    rows = pd.DataFrame({rule["metric"]: middle * noise / rule.get("times", 1.0)})
    return rows.assign(block=rows.index, repeat=0, **first_levels(rule["arm"]), **GOOD)


@of_ledger("value")
def test_a_value_holds_between_its_bounds(rule):
    low, high = rule.get("at_least"), rule.get("at_most")
    inside = (low * high) ** 0.5 if low and high else 1.1 * low if low else 0.5 * high
    outside, edge = (1.7 * high, high) if high else (0.5 * low, low)
    assert verdict(cell_of(rule, inside, 0.001), rule) == HOLDS
    assert verdict(cell_of(rule, outside, 0.001), rule) == NOT
    assert verdict(cell_of(rule, edge, 0.1), rule) == OPEN


@of_ledger("counts")
def test_what_is_counted_is_told_by_each_of_few_trials(rule):
    low, high = rule["at_least"], rule["at_most"]
    cell = cell_of(rule, 1, 0).head(2)
    for counts_, expected in (
        ([low, high], HOLDS),
        ([low, high + 1], NOT),
        ([low - 1, low - 1], NOT),
        ([None, None], OPEN),
    ):
        assert verdict(cell.assign(**{rule["metric"]: counts_}), rule) == expected


ALL, MOST, FEW = (1000,) * 4, (790, 800, 795, 810), (700, 720, 710, 700)


@pytest.mark.parametrize(
    ("limited", "free", "expected"),
    [
        (ALL, MOST, HOLDS),
        (FEW, MOST, NOT),
        (FEW, ALL, NOT),
        (ALL, ALL, OPEN),
        ((1000, 780, 900, 850), MOST, OPEN),
        ((795, 805) * 2, MOST, OPEN),
        (ALL[:3], MOST, OPEN),
        ((), MOST, OPEN),
    ],
)
@of_ledger("serves_more")
def test_a_share_rises_where_it_does_in_all_trials(rule, limited, free, expected):
    sides = (rule["arm"], limited), (rule["baseline"], free)
    rows = [cell | {"established": n} for cell, counts in sides for n in counts]
    judged = claims.apply(pd.DataFrame(rows), rule)
    assert judged.verdict == expected
    if expected == HOLDS:  # in percent
        assert re.findall(r"[\d.]+", judged.why) == ["100", "100", "79", "81"]
    frame = pd.DataFrame(rows)  # others wait in the kernel's queue
    frame = frame.assign(accepted=frame["established"], established=1000)
    waiting = claims.apply(frame, rule)
    assert (waiting.verdict, waiting.why) == (judged.verdict, judged.why)


# ---- the published data ----------------------------------------------------------


def as_trials(table, columns):
    """Return a published table as trials that have only the factor that it varies."""
    rows = published(table).rename(columns=columns | {"value": "throughput_rps"})
    rows["model"] = rows["model"].replace("thread_per_request", "thread")
    return rows.assign(**GOOD, block=0, repeat=rows["test"])


def with_factors(rule, factors):
    """Return a rule whose cells have no factor but these."""
    reduced = dict(rule)
    if "parts" in rule:
        reduced["parts"] = [with_factors(part, factors) for part in rule["parts"]]
    for side in {"arm", "baseline"} & rule.keys():
        reduced[side] = {k: v for k, v in rule[side].items() if k in factors}
    return reduced


@pytest.mark.parametrize(
    ("claim", "table", "columns"),
    [
        ("M1", "mao-cores.csv", {"cores": "cores"}),
        ("M2", "mao-requests.csv", {"requests": "connections"}),
        ("M4", "mao-buckets.csv", {"buckets": "buckets"}),
        ("M5", "mao-requests.csv", {"requests": "connections"}),
        ("M6", "mao-requests.csv", {"requests": "connections"}),
    ],
)
def test_a_report_passes_the_rule_of_its_own_claim(claim, table, columns):
    rule = with_factors(RULES[claim], {"model", *columns.values()})
    assert verdict(as_trials(table, columns), rule) == HOLDS


def test_a_report_of_delays_passes_the_rule_of_its_own_claim():
    trials = as_trials("mao-delays.csv", {"variation": "delay"})
    rule = with_factors(RULES["M3"], {"model", "delay"})
    small = rule["parts"][0]["baseline"]["delay"]
    trials["delay"] = trials["delay"].map({"small": small[0], "large": ""})
    for part in rule["parts"]:
        part["arm"]["delay"] = [""]
    assert verdict(trials, rule) == HOLDS


# ---- quotations ------------------------------------------------------------------


def test_a_quotation_says_where_it_stands():
    for entry in ENTRIES:
        assert bool(entry.quote) == (entry.line is not None)
        assert len(entry.quote) < 200


def test_no_entry_stands_in_both_lists():
    ids = [entry.id for entry in ENTRIES]
    assert len(ids) == len(set(ids))
