"""Rules of the ledger in worlds where a claim is true, false, or cannot be told.

Each pair that the ledger compares is made up with a scatter like that of published
repetitions; and what a report printed five times is put to the rule of its own claim.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from connlab import claims
from connlab.claims.published import published
from connlab.claims.ratios import MARGIN

PAPER = Path(__file__).resolve().parent.parent / "paper"
ENTRIES = [
    *claims.ledger(),
    *claims.ledger(PAPER / "rereadings.yml"),
]


def parts(rule):
    """Give the rules that a rule is made of."""
    for part in rule.get("parts", ()):
        yield from parts(part)
    if "parts" not in rule and rule:
        yield rule


def each(rule):
    """Return the parts of the ledger that are of a rule, named by their claim."""
    return [
        pytest.param(part, id=f"{entry.id}-{i}")
        for entry in ENTRIES
        for i, part in enumerate(parts(entry.rule))
        if part["rule"] == rule
    ]


def one(cell):
    """Return a level of each column; of several that are allowed, the first."""
    return {k: v[0] if isinstance(v, list) else v for k, v in cell.items()}


def trials(part, ratio, *, scatter=0.02, n=12):
    """Return two cells of a ratio whose trials scatter by so much."""
    noise = np.exp(scatter * np.linspace(-1.5, 1.5, n))
    rows = []
    sides = (part["arm"], ratio * noise), (part["baseline"], noise[::-1])
    for cell, values in sides:
        for block, value in enumerate(values):
            row = {part["metric"]: value, "block": block, "repeat": 0, "ok": True}
            rows.append({**one(cell), **row, "label": "server-bound", "failure": None})
    return pd.DataFrame(rows)


def within(part):
    """Return a ratio that the claim is true of."""
    if part["expect"] == "alike":
        return 1.0
    low, high = part.get("size") or ((1.5, 2.5), (0.4, 0.6))[part["expect"] == "less"]
    low, high = (max(low, 1.0), high) if part["expect"] == "more" else (low, high)
    return float(np.sqrt(low * high))


def width(part):
    """Return a scatter that leaves an interval inside what is claimed."""
    if part["expect"] == "alike":
        return part.get("margin", MARGIN) / 8
    low, high = part.get("size") or (1, 2)
    return min(0.02, np.log(high / max(low, 1e-3)) / 16)


@pytest.mark.parametrize("part", each("compare"))
def test_a_true_claim_holds(part):
    true = trials(part, within(part), scatter=width(part))
    assert claims.apply(true, part).verdict == "holds"


@pytest.mark.parametrize("part", each("compare"))
def test_the_contrary_of_a_claim_does_not_hold(part):
    contrary = {"more": 0.3, "less": 3.0, "alike": 3.0}[part["expect"]]
    assert claims.apply(trials(part, contrary), part).verdict == "does not hold"


@pytest.mark.parametrize("part", each("compare"))
def test_what_scatters_too_widely_cannot_be_told(part):
    wide = trials(part, 1.02, scatter=3.0, n=4)
    assert claims.apply(wide, part).verdict == "not testable here"


@pytest.mark.parametrize("part", [p for p in each("compare") if "size" in p.values[0]])
def test_a_size_that_only_touches_the_published_one_is_not_met(part):
    at_the_edge = trials(part, part["size"][1], scatter=0.02)
    assert claims.apply(at_the_edge, part).verdict != "holds"


# ---- other rules -----------------------------------------------------------------


def counts(model, carried, *, levels, **where):
    """Return three trials for each level: all connections kept up to `carried`."""
    rows = pd.DataFrame({"connections": np.repeat(levels, 3)})
    kept = rows["connections"].clip(upper=carried)
    return rows.assign(model=model, surviving=kept, failure=None, **where)


@pytest.mark.parametrize("part", each("survives"))
def test_a_limit_is_met_where_it_lies(part):
    passes, fails = part.get("passes", []), part.get("fails", [])
    levels, arm = [*passes, *fails], one(part["arm"])
    most = max(passes, default=min(fails, default=1) - 1)
    right = counts(arm.pop("model"), most, levels=levels, **arm)
    assert claims.apply(right, part).verdict == "holds"
    none = right.assign(surviving=right["connections"] if fails else 0)
    found = claims.apply(none, part).verdict
    assert found == ("holds in part" if passes and fails else "does not hold")
    other = right.assign(connections=7)
    assert claims.apply(other, part).verdict == "not testable here"


@pytest.mark.parametrize("part", each("outlasts"))
@pytest.mark.parametrize(
    ("more", "less", "said"),
    [
        (5000, 1000, "holds"),
        (1000, 5000, "does not hold"),
        (5000, 5000, "not testable here"),
    ],
)
def test_one_server_outlasts_another_only_where_they_can_be_told_apart(
    part, more, less, said
):
    sides = (part["arm"], more), (part["baseline"], less)
    rows = [counts(c["model"], n, levels=[100, 1000, 5000]) for c, n in sides]
    assert claims.apply(pd.concat(rows), part).verdict == said


def stated(value, width=1.02):
    """Return a printed ratio, as a study's section has it."""
    row = {"model": "thread", "load": 0.5, "against": "epoll", "n": 8, "level": 0.95}
    row |= {"metric": "response_p99_s", "value": value, "method": "t"}
    return pd.DataFrame([row | {"lo": value / width, "hi": value * width}])


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (stated(0.5), "holds"),
        (stated(2.0), "does not hold"),
        (stated(0.9, width=3), "not testable here"),
        (stated(0.5).assign(load=0.7), "not testable here"),
        (stated(0.5).assign(lo=np.nan, hi=np.nan), "not testable here"),
        (None, "not testable here"),
    ],
)
def test_a_printed_ratio_is_judged_by_its_levels(printed, said):
    rule = {
        "rule": "printed_ratio",
        "metric": "response_p99_s",
        "arm": {"model": "thread", "load": 0.5},
        "against": "epoll",
        "expect": "less",
    }
    assert claims.apply(pd.DataFrame(), rule, printed).verdict == said


def cell_of(part, middle, scatter):
    """Return trials of one cell whose value scatters by so much."""
    noise = np.exp(scatter * np.linspace(-1.5, 1.5, 12))
    there = {"ok": True, "label": "server-bound", "failure": None, "repeat": 0}
    rows = pd.DataFrame({part["metric"]: middle * noise / part.get("times", 1.0)})
    return rows.assign(block=rows.index, **one(part["arm"]), **there)


@pytest.mark.parametrize("part", each("value"))
def test_a_value_is_asked_for_between_its_bounds(part):
    low, high = part.get("at_least"), part.get("at_most")
    inside = (low * high) ** 0.5 if low and high else 1.1 * low if low else 0.5 * high
    outside, edge = (1.7 * high, high) if high else (0.5 * low, low)
    for middle, scatter, said in (
        (inside, 0.001, "holds"),
        (outside, 0.001, "does not hold"),
        (edge, 0.1, "not testable here"),
    ):
        found = claims.apply(cell_of(part, middle, scatter), part)
        assert found.verdict == said


@pytest.mark.parametrize(
    ("limited", "free", "said"),
    [
        ((1000, 1000, 1000, 1000), (790, 800, 795, 810), "holds"),
        ((700, 720, 710, 700), (790, 800, 795, 810), "does not hold"),
        ((700, 720, 710, 700), (1000, 1000, 1000, 1000), "does not hold"),
        ((1000, 1000, 1000, 1000), (1000, 1000, 1000, 1000), "not testable here"),
        ((1000, 780, 900, 850), (790, 800, 795, 810), "not testable here"),
        ((1000, 1000, 1000), (790, 800, 795, 810), "not testable here"),
        ((), (790, 800, 795, 810), "not testable here"),
    ],
)
@pytest.mark.parametrize("part", each("serves_more"))
def test_a_share_rises_where_all_trials_say_so(part, limited, free, said):
    sides = (part["arm"], limited), (part["baseline"], free)
    rows = [cell | {"established": n} for cell, kept in sides for n in kept]
    assert claims.apply(pd.DataFrame(rows), part).verdict == said


# ---- the published data ----------------------------------------------------------

MAO = {
    "M1": ("mao-cores.csv", {"cores": "cores"}),
    "M2": ("mao-requests.csv", {"requests": "connections"}),
    "M4": ("mao-buckets.csv", {"buckets": "buckets"}),
    "M5": ("mao-requests.csv", {"requests": "connections"}),
    "M6": ("mao-requests.csv", {"requests": "connections"}),
}


def as_trials(table, columns):
    """Return a published table as trials that have only the factor that it varies."""
    found = published(table).rename(columns=columns | {"value": "throughput_rps"})
    found["model"] = found["model"].replace("thread_per_request", "thread")
    there = {"ok": True, "label": "server-bound", "failure": None, "block": 0}
    return found.assign(**there, repeat=found["test"])


def of_table(rule, kept):
    """Return a rule that asks for no factor but these."""
    out = dict(rule)
    if "parts" in out:
        out["parts"] = [of_table(part, kept) for part in out["parts"]]
    for side in ("arm", "baseline"):
        if side in out:
            out[side] = {k: v for k, v in out[side].items() if k in kept}
    return out


@pytest.mark.parametrize("name", MAO)
def test_what_a_report_printed_passes_the_rule_of_its_own_claim(name):
    table, columns = MAO[name]
    (entry,) = (entry for entry in ENTRIES if entry.id == name)
    rule = of_table(entry.rule, {"model", *columns.values()})
    assert claims.apply(as_trials(table, columns), rule).verdict == "holds"


def test_what_a_report_printed_of_delays_passes_the_rule_of_its_own_claim():
    found = as_trials("mao-delays.csv", {"variation": "delay"})
    (entry,) = (entry for entry in ENTRIES if entry.id == "M3")
    rule = of_table(entry.rule, {"model", "delay"})
    small = rule["parts"][0]["baseline"]["delay"]
    found["delay"] = found["delay"].map({"small": small[0], "large": ""})
    for part in rule["parts"]:
        part["arm"]["delay"] = [""]
    assert claims.apply(found, rule).verdict == "holds"


# ---- quotations ------------------------------------------------------------------


def test_a_quotation_says_where_it_stands():
    for entry in ENTRIES:
        assert bool(entry.quote) == (entry.line is not None)
        assert len(entry.quote) < 200


def test_no_entry_stands_in_both_lists():
    ids = [entry.id for entry in ENTRIES]
    assert len(ids) == len(set(ids))
