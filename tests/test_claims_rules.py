"""Every rule on made-up trials: each verdict that it can give, it gives."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from connlab.claims import RuleError, apply, finding
from connlab.intervals import ratios


def trials(
    cells: dict[tuple, float], *, metric="throughput_rps", cv=0.01, n=10, seed=1
):
    """Return trials of cells (model, connections) -> mean of the metric."""
    dice = np.random.default_rng(seed)
    rows = []
    for block in range(n):
        weather = 1 + 0.05 * dice.standard_normal()
        for (model, connections), mean in cells.items():
            rows.append(
                {
                    "model": model,
                    "connections": connections,
                    "surviving": connections,
                    "block": block,
                    "repeat": block,
                    "ok": True,
                    "failure": None,
                    "label": "server-bound",
                    metric: mean * weather * (1 + cv * dice.standard_normal()),
                }
            )
    return pd.DataFrame(rows)


def test_a_gate_may_be_overlooked_where_it_flags_what_is_asked():
    frame = two(50, 100).assign(ok=False, gates_failed="census, quiet")
    assert compare(frame, "less").verdict == "not testable here"
    assert compare(frame, "less", overlook=["census"]).verdict == "not testable here"
    both = compare(frame, "less", overlook=["census", "quiet"])
    assert both.verdict == "holds"
    failed = frame.assign(failure="server-died: signal 11")
    assert compare(failed, "less", overlook=["census", "quiet"]).effect is None


def compare(frame, expect, **more):
    rule = {
        "rule": "compare",
        "metric": "throughput_rps",
        "arm": POOL,
        "baseline": THREAD,
        "expect": expect,
    }
    printed = more.pop("printed", None)
    return apply(frame, rule | more, printed)


def two(pool: float, thread: float, **more) -> pd.DataFrame:
    return trials({("pool", 10): pool, ("thread", 10): thread}, **more)


@pytest.mark.parametrize(
    ("pool", "thread", "expect", "more", "verdict"),
    [
        (100, 1700, "less", {}, "holds"),
        (100, 1700, "less", {"size": [0.05, 0.07]}, "holds"),
        (100, 300, "less", {"size": [0.05, 0.07]}, "holds in part"),
        (300, 100, "less", {}, "does not hold"),
        (300, 100, "more", {}, "holds"),
        (100, 100, "alike", {}, "holds"),
        (103, 100, "alike", {}, "holds"),
        (200, 100, "alike", {}, "does not hold"),
    ],
)
def test_compare(pool, thread, expect, more, verdict):
    found = compare(two(pool, thread), expect, **more)
    assert found.verdict == verdict
    assert found.effect.contains(pool / thread)
    assert found.effect_text.startswith("×")


def test_compare_says_when_it_cannot_tell():
    wide = two(100, 101, cv=0.2, n=4)
    assert compare(wide, "more").verdict == "not testable here"
    assert compare(wide, "alike").verdict == "not testable here"
    assert "too wide" in compare(wide, "alike").why
    # A sure difference of about 6 %: neither shown alike nor shown to be beyond 5 %.
    near = two(106, 100, cv=0.012, n=6, seed=3)
    found = compare(near, "alike")
    assert not found.effect.contains(1.0)
    assert found.verdict == "not testable here"
    assert "may lie within the margin" in found.why


@pytest.mark.parametrize(
    ("pool", "verdict"),
    [
        (97, "does not hold"),
        (100, "does not hold"),
        (103, "holds in part"),
        (108, "holds"),
    ],
)
def test_cells_that_are_shown_alike_hardly_have_a_direction(pool, verdict):
    found = compare(two(pool, 100, cv=0.005), "more")
    assert found.verdict == verdict
    assert ("alike" in found.why) == (pool in (100, 103))


def test_a_size_that_likeness_allows_leaves_the_direction_open():
    same = two(100, 100, cv=0.005)
    far = compare(same, "more", size=[1.5, 2])
    assert (far.verdict, far.why) == (
        "does not hold",
        "shown to be alike within the margin",
    )
    near = compare(same, "more", size=[0.95, 1.16])
    assert near.verdict == "not testable here"
    noisy = compare(two(100, 101, cv=0.2, n=4), "more", margin=0.01)
    assert noisy.verdict == "not testable here"


def test_the_margin_is_as_wide_below_one_as_above_it():
    """0.9605 is beyond 1 / 1.04, although it lies within 1 − 0.04."""
    low = compare(two(96.05, 100, cv=1e-4), "alike", margin=0.04)
    assert low.verdict == "does not hold"
    assert low.effect.lo > 1 - 0.04
    high = compare(two(100, 96.05, cv=1e-4), "alike", margin=0.04)
    assert high.verdict == "does not hold"
    assert compare(two(96.5, 100, cv=1e-4), "alike", margin=0.04).verdict == "holds"


@pytest.mark.parametrize(
    ("pool", "more", "verdict"),
    [
        (100, {"size": [0.3, 0.4]}, "holds"),
        (100, {"size": [0.05, 0.07]}, "does not hold"),
        (290, {"size": [0.05, 0.07]}, "does not hold"),
        (600, {"size": [0.3, 0.4]}, "does not hold"),
    ],
)
def test_where_the_size_is_the_claim_a_direction_is_no_part_of_it(pool, more, verdict):
    found = compare(two(pool, 300), "less", size_matters=True, **more)
    assert found.verdict == verdict


def test_a_size_that_matters_has_to_be_there():
    with pytest.raises(RuleError, match="no size"):
        compare(two(1, 1), "more", size_matters=True)


@pytest.mark.parametrize(
    ("size", "verdict"),
    [([0.5, 0.6], "does not hold"), ([0.1, 0.2], "not testable here")],
)
def test_of_a_size_that_matters_a_bound_may_leave_nothing(size, verdict):
    """Thread might do more than 300: the ratio is a third, or less."""
    frame = saturated(two(100, 300), "thread")
    found = compare(frame, "less", size=size, size_matters=True)
    assert found.verdict == verdict
    assert compare(frame, "less", size=size).verdict == "holds in part"


def test_no_difference_is_not_the_published_one():
    close = two(99, 100, cv=0.2, n=8)
    assert compare(close, "less").verdict == "not testable here"
    found = compare(close, "less", size=[0.05, 0.07])
    assert found.verdict == "does not hold"
    assert found.effect.contains(1.0)
    near = compare(close, "less", size=[0.9, 0.99])
    assert near.verdict == "not testable here"


def test_compare_names_what_is_missing():
    frame = two(100, 200)
    other = {"model": "poll", "connections": 10}
    found = compare(frame, "more", arm=other)
    assert (found.verdict, found.why) == (
        "not testable here",
        "not measured here: poll",
    )
    assert compare(frame, "more", arm={"colour": 1}).verdict == "not testable here"
    frame = frame.assign(size=frame.model.map({"pool": "64", "thread": "128"}))
    never = {"model": "thread", "size": ["64", "32"]}
    found = compare(frame, "more", arm=never)
    assert found.why == "not measured here: thread, size 64 or 32"
    failed = frame.assign(ok=frame.model != "pool", failure="server died")
    assert "server died" in compare(failed, "more").why


def test_a_saturated_client_ranks_nobody_but_costs_stand():
    frame = two(100, 300).assign(label="client-bound")
    assert compare(frame, "less").verdict == "not testable here"
    cost = frame.rename(columns={"throughput_rps": "server_cpu_per_request_s"})
    assert compare(cost, "less", metric="server_cpu_per_request_s").verdict == "holds"


def saturated(frame: pd.DataFrame, model: str, *, spare: int = 0) -> pd.DataFrame:
    """Let the client be the bottleneck of a model's trials, but for some blocks."""
    bound = (frame.model == model) & (frame.block >= spare)
    return frame.assign(label=bound.map({True: "client-bound", False: "server-bound"}))


@pytest.mark.parametrize(
    ("bound", "expect", "more", "verdict"),
    [
        # pool serves 100 and thread 300: a pool with a better client might do more
        ("pool", "less", {}, "not testable here"),
        ("pool", "more", {}, "not testable here"),
        ("pool", "alike", {}, "not testable here"),
        ("pool", "less", {"size": [0.1, 0.2]}, "does not hold"),
        # thread might do more: so much less is the pool, or even less
        ("thread", "less", {}, "holds"),
        ("thread", "less", {"size": [0.3, 0.4]}, "holds in part"),
        ("thread", "less", {"size": [0.5, 0.6]}, "holds in part"),
        ("thread", "more", {}, "does not hold"),
        ("thread", "more", {"size": [1.3, 1.6]}, "does not hold"),
        ("thread", "alike", {}, "does not hold"),
    ],
)
@pytest.mark.parametrize("spare", [0, 2])
def test_what_a_saturated_client_leaves_is_a_bound(bound, expect, more, verdict, spare):
    found = compare(saturated(two(100, 300), bound, spare=spare), expect, **more)
    assert found.verdict == verdict
    assert f"client was the bottleneck of {bound}" in found.why
    assert found.effect.n == 10


def test_the_bound_of_a_time_lies_on_the_other_side():
    times = two(3, 1).rename(columns={"throughput_rps": "response_mean_s"})
    for bound, verdict in [("thread", "holds"), ("pool", "not testable here")]:
        frame = saturated(times, bound)
        found = compare(frame, "more", metric="response_mean_s")
        assert found.verdict == verdict


def test_few_saturated_trials_bound_nothing():
    frame = saturated(two(100, 300), "thread", spare=7)
    found = compare(frame, "less", size=[0.3, 0.4])
    assert (found.verdict, found.effect.n) == ("holds", 10)


def test_what_a_client_does_not_change_stands():
    frame = saturated(two(100, 300), "thread")
    for metric in ("fairness_jain", "server_cpu_per_request_s"):
        other = frame.rename(columns={"throughput_rps": metric})
        found = compare(other, "less", metric=metric, size=[0.3, 0.4])
        assert (found.verdict, found.effect.n) == ("holds", 10)


@pytest.mark.parametrize(
    ("pool", "cv", "more", "verdict"),
    [
        (200, 0.01, {}, "holds"),
        (200, 0.05, {}, "holds in part"),
        (200, 0.05, {"size_matters": True}, "not testable here"),
        (300, 0.05, {"size_matters": True}, "does not hold"),
    ],
)
def test_a_size_is_met_by_the_whole_interval(pool, cv, more, verdict):
    """An interval that only touches the size is too wide to say that it is met."""
    found = compare(two(pool, 100, cv=cv, n=6), "more", size=[1.95, 2.05], **more)
    assert found.verdict == verdict


def test_a_pair_has_the_interval_that_its_section_prints():
    trials = two(100, 300)
    more = trials[trials.model == "thread"].assign(model="fork")
    section = ratios(
        pd.concat([trials, more]), "throughput_rps", baseline="thread", by="model"
    )
    alone = compare(trials, "less").effect
    here = compare(trials, "less", printed=section).effect
    row = section.set_index("model").loc["pool"]
    assert (here.lo, here.hi) == (row.lo, row.hi)
    assert here.lo < alone.lo < alone.hi < here.hi
    swapped = {"arm": THREAD, "baseline": POOL, "printed": section}
    other = compare(trials, "more", **swapped).effect
    assert (other.lo, other.hi) == pytest.approx((1 / row.hi, 1 / row.lo))
    elsewhere = section.assign(metric="bytes_per_s")
    assert compare(trials, "less", printed=elsewhere).effect == alone


POOL, THREAD = ({"model": m, "connections": 10} for m in ("pool", "thread"))


def survivors(**kept: tuple[int, ...]) -> pd.DataFrame:
    """Return trials at each level that kept all (1) or lost some (0)."""
    rows = [
        {
            "model": "select",
            "connections": int(level[1:]),
            "surviving": int(level[1:]) if whole else 1020,
            "failure": None,
        }
        for level, wholes in kept.items()
        for whole in wholes
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("kept", "verdict"),
    [
        ({"n1000": (1, 1), "n2000": (0, 0)}, "holds"),
        ({"n1000": (1, 1), "n2000": (1, 1)}, "holds in part"),
        ({"n1000": (1, 1), "n2000": (0, 1)}, "holds in part"),
        ({"n1000": (1, 1)}, "holds in part"),
        ({"n1000": (0, 0), "n2000": (1, 1)}, "does not hold"),
        ({"n5": (1, 1)}, "not testable here"),
    ],
)
def test_survives(kept, verdict):
    rule = {"rule": "survives", "arm": {"model": "select"}}
    rule |= {"passes": [1000], "fails": [2000]}
    found = apply(survivors(**kept), rule)
    assert found.verdict == verdict
    assert "connections" in found.why


def test_connections_that_no_server_accepted_are_neither_carried_nor_lost():
    trials = survivors(n1000=(1, 1), n2000=(1, 1)).assign(accepted=1000)
    rule = {"rule": "survives", "arm": {"model": "select"}}
    found = apply(trials, rule | {"passes": [2000]})
    assert found.verdict == "not testable here"
    assert "not all accepted by the end at 2000" in found.why
    found = apply(trials, rule | {"passes": [1000, 2000]})
    assert found.verdict == "holds in part"
    unknown = trials.assign(accepted=float("nan"))
    assert apply(unknown, rule | {"passes": [1000, 2000]}).verdict == "holds"


@pytest.mark.parametrize(
    ("select_most", "epoll_most", "verdict"),
    [
        (1000, 2000, "holds"),
        (2000, 1000, "does not hold"),
        (2000, 2000, "not testable here"),
    ],
)
def test_outlasts(select_most, epoll_most, verdict):
    rows = [
        {"model": m, "connections": n, "surviving": min(n, most), "failure": None}
        for m, most in (("select", select_most), ("epoll", epoll_most))
        for n in (1000, 2000)
    ]
    rule = {"rule": "outlasts", "arm": {"model": "epoll"}}
    found = apply(pd.DataFrame(rows), rule | {"baseline": {"model": "select"}})
    assert found.verdict == verdict
    assert f"whole up to {epoll_most}" in found.why


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((10, 20, 40), "holds"),
        ((10, 20, 400), "holds in part"),
        ((1, 2, 4), "does not hold"),
    ],
)
def test_published_rates(times, verdict):
    frame = pd.DataFrame({"clients": [1000, 2000, 4000], "ms": times})
    rule = {"rule": "published_rates", "clients": "clients", "times": {"ms": 0.001}}
    found = apply(frame, rule | {"at_least": 100, "between": [9e4, 11e4]})
    assert found.verdict == verdict
    rule |= {"at_least": 4000, "between": [0, 1]}
    assert apply(frame, rule).verdict == "not testable here"


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([True, True], "holds"),
        ([True, True, None], "holds in part"),
        ([True, False], "holds in part"),
        ([False, None], "does not hold"),
        ([None], "not testable here"),
    ],
)
def test_all_true(answers, verdict):
    frame = pd.DataFrame({"subject": "thread", "holds": answers})
    rule = {"rule": "all_true", "column": "holds", "arm": {"subject": "thread"}}
    found = apply(frame, rule)
    assert found.verdict == verdict
    silent = answers.count(None)
    if silent and verdict != "not testable here":
        assert found.why.endswith(f", {silent} not asked")


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ({"at_least": 50}, "holds"),
        ({"at_most": 50}, "does not hold"),
        ({"at_least": 100}, "not testable here"),
    ],
)
def test_value(bounds, verdict):
    rule = {"rule": "value", "metric": "throughput_rps", "arm": {"model": "pool"}}
    found = apply(two(100, 300, n=20), rule | bounds)
    assert found.verdict == verdict
    assert "requests/s" in found.effect_text


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ({"at_least": 50}, "holds"),
        ({"at_most": 50}, "does not hold"),
        ({"at_most": 500}, "not testable here"),
        ({"at_least": 500}, "not testable here"),
    ],
)
def test_the_bound_that_a_saturated_client_leaves_can_refute(bounds, verdict):
    rule = {"rule": "value", "metric": "throughput_rps", "arm": POOL}
    frame = saturated(two(100, 300), "pool")
    assert apply(frame, rule | bounds).verdict == verdict


@pytest.mark.parametrize(
    ("pool_cv", "thread_cv", "verdict"),
    [
        (0.005, 0.1, "holds"),
        (0.1, 0.005, "does not hold"),
        (0.05, 0.05, "not testable here"),
    ],
)
def test_steadier(pool_cv, thread_cv, verdict):
    assert apply(scattered(12, pool_cv, thread_cv), STEADIER).verdict == verdict


def test_a_scatter_of_few_trials_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = apply(scattered(4, 0.001, 0.1), STEADIER)
    assert found.verdict == "holds"
    assert 0 < found.effect.lo < found.effect.hi < 1


STEADIER = {
    "rule": "steadier",
    "metric": "throughput_rps",
    "arm": {"model": "pool"},
    "baseline": {"model": "thread"},
}


def scattered(n: int, pool_cv: float, thread_cv: float):
    """Return n trials of two models that scatter so much about the same mean."""
    dice = np.random.default_rng(5)
    frame = two(100, 100, n=n)
    for model, cv in (("pool", pool_cv), ("thread", thread_cv)):
        rows = frame.model == model
        frame.loc[rows, "throughput_rps"] = 100 * (1 + cv * dice.standard_normal(n))
    return frame


@pytest.mark.parametrize(
    ("model_effect", "tuning_effect", "verdict"),
    [(0.05, 1.0, "holds"), (1.0, 0.05, "does not hold")],
)
def test_outweighs(model_effect, tuning_effect, verdict):
    frame = trials(crossed(model_effect, tuning_effect))
    assert apply(frame, OUTWEIGHS).verdict == verdict
    alone = trials({("epoll", 10): 1.0})
    assert apply(alone, OUTWEIGHS).verdict == "not testable here"


OUTWEIGHS = {
    "rule": "outweighs",
    "metric": "throughput_rps",
    "factor": "connections",
    "other": "model",
}


def crossed(model_effect: float, tuning_effect: float, levels=(10, 1000)):
    """Return means of two models at each level, which both have an effect."""
    return {
        (m, n): 100 * (1 + model_effect * i) * (1 + tuning_effect * j)
        for i, m in enumerate(("epoll", "thread"))
        for j, n in enumerate(levels)
    }


def test_what_outweighs_is_the_ratio_of_sums_of_squares():
    found = apply(trials(crossed(0.05, 1.0), cv=1e-6), OUTWEIGHS)
    assert found.effect.value == pytest.approx((np.log(2) / np.log(1.05)) ** 2, 1e-3)
    assert found.effect.method == "bootstrap over blocks"


def test_a_table_with_a_gap_weighs_nothing():
    frame = trials(crossed(0.05, 1.0))
    gone = (frame.model == "thread") & (frame.connections == 1000)
    for gap in (frame[~gone], frame.assign(ok=~gone, failure="server died")):
        found = apply(gap, OUTWEIGHS)
        assert found.verdict == "not testable here"
        assert found.why == "1 cell of 4 without a usable trial"


def test_resamples_that_lose_a_cell_do_not_count():
    """A cell of two trials is absent from one resample in nine."""
    frame = trials(crossed(0.5, 3.0))
    rare = (frame.model == "thread") & (frame.connections == 1000) & (frame.block > 1)
    found = apply(frame[~rare], OUTWEIGHS)
    assert found.verdict == "holds"
    whole = apply(frame, OUTWEIGHS).effect
    assert found.effect.lo > whole.value / 2
    assert found.effect.hi < whole.value * 2


def test_cells_that_never_meet_in_a_resample_weigh_nothing():
    levels = (1, 10, 100, 1000)
    frame = trials(crossed(0.05, 1.0, levels), n=8)
    order = frame.groupby("block").cumcount()
    found = apply(frame[order == frame.block], OUTWEIGHS)
    assert found.verdict == "not testable here"
    assert "hardly any choice of blocks" in found.why


def test_a_cell_that_is_a_bound_weighs_nothing():
    frame = saturated(trials(crossed(0.05, 1.0)), "thread")
    found = apply(frame, OUTWEIGHS)
    assert found.verdict == "not testable here"
    assert found.why == "the client was the bottleneck of 2 of 4 cells"
    assert found.effect.n == 10
    few = saturated(trials(crossed(0.05, 1.0)), "thread", spare=7)
    assert apply(few, OUTWEIGHS).verdict == "holds"


def test_a_cell_may_want_that_nothing_was_said():
    frame = two(100, 300).assign(cores=pd.array([1, None] * 10, dtype="Int64"))
    assert len(finding.select(frame, {"cores": None})) == 10
    assert set(finding.select(frame, {"cores": 1})["model"]) == {"pool"}
    rule = {"rule": "value", "metric": "throughput_rps"}
    found = apply(frame, rule | {"arm": {"delay": ["a", "b"], "cores": None}})
    assert found.why == "not measured here: a or b"


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [(7.7, "holds"), (70, "does not hold"), (7.5, "not testable here")],
)
def test_a_published_rate_keeps_workers_busy(rate, verdict):
    values = rate + np.array([-0.05, 0, 0.02, 0.04, -0.01])
    frame = pd.DataFrame({"model": "pool", "value": values})
    rule = {"rule": "value", "metric": "value", "arm": {"model": "pool"}}
    rule |= {"times": 2.0, "unit": "busy workers", "at_least": 15, "at_most": 17}
    found = apply(frame, rule)
    assert found.verdict == verdict
    assert found.effect.value == pytest.approx(2 * values.mean(), rel=1e-4)
    assert found.effect_text.split(" [")[0].endswith("busy workers")


CELLS = {
    "rule": "compare",
    "metric": "throughput_rps",
    "arm": {"model": "pool"},
    "baseline": {"model": "thread"},
}
LESS, MORE = CELLS | {"expect": "less"}, CELLS | {"expect": "more"}


def test_every_adds_its_parts_up():
    frame = two(100, 300)
    yes, no = LESS, MORE
    gone = MORE | {"arm": {"model": "poll"}}

    def verdict(*parts):
        return apply(frame, {"rule": "every", "parts": list(parts)}).verdict

    assert verdict(yes, yes) == "holds"
    assert verdict(yes, no) == verdict(yes, gone) == "holds in part"
    assert verdict(no, no) == verdict(no, gone) == "does not hold"
    assert verdict(gone) == verdict(gone, gone) == "not testable here"


def test_every_shows_the_effect_that_decided():
    frame = two(100, 300)
    swapped = MORE | {"arm": {"model": "thread"}, "baseline": {"model": "pool"}}

    def effect(*parts):
        return apply(frame, {"rule": "every", "parts": list(parts)}).effect.value

    assert effect(LESS, swapped) == pytest.approx(1 / 3, rel=0.02)
    assert effect(swapped, MORE) == pytest.approx(1 / 3, rel=0.02)
    part = swapped | {"size": [5, 6]}
    assert effect(LESS, part, MORE) == pytest.approx(3, rel=0.02)


def test_a_sum_of_parts_says_how_many_came_out_how_and_why():
    frame = two(100, 300)
    yes, no = LESS, MORE
    part, gone = yes | {"size": [0.5, 0.6]}, yes | {"arm": {"model": "poll"}}
    lost = yes | {"arm": {"model": "select"}}

    def why(*parts):
        return apply(frame, {"rule": "every", "parts": list(parts)}).why

    assert why(yes, yes) == "2 of 2 parts hold"
    assert why(part, part, no, gone) == (
        "0 of 4 parts hold, 2 in part (same direction, another size), 1 not (the "
        "difference has the other sign), 1 not testable (not measured here: poll)"
    )
    assert why(yes, gone, lost) == (
        "1 of 3 parts hold, 2 not testable (first: not measured here: poll)"
    )
    within = {"rule": "every", "parts": [yes, no]}
    assert why(within, no).startswith("0 of 2 parts hold, 1 in part (1 of 2 parts")


def test_rules_refuse_words_that_they_do_not_know():
    with pytest.raises(RuleError, match="compares.*known: compare"):
        apply(two(1, 1), {"rule": "compares"})
    with pytest.raises(RuleError, match="colour"):
        compare(two(1, 1), "more", colour="red")
    with pytest.raises(RuleError, match="sideways"):
        compare(two(1, 1), "sideways")


def test_all_verdicts_are_seen_in_this_module():
    assert set(finding.VERDICTS) == {
        "holds",
        "holds in part",
        "does not hold",
        "not testable here",
    }


@pytest.mark.parametrize(("kept", "verdict"), [(800, "holds"), (1000, "does not hold")])
def test_the_share_that_is_served_counts_trials_that_lost_clients(kept, verdict):
    """A trial that lost clients fails the census: just that is asked about."""
    rows = [
        {
            "model": "poll-groups",
            "connections": 1000,
            "size": "16384",
            "byte_rate": limit,
            "block": block,
            "repeat": block,
            "surviving": 1000 if limit else kept + block % 2,
            "longest_wait_s": (0.1 if limit else 0.5) + 0.001 * block,
            "ok": bool(limit) or kept == 1000,
            "failure": None,
            "gates_failed": None if limit or kept == 1000 else "census, little",
            "label": "server-bound",
        }
        for block in range(4)
        for limit in (None, 1e7)
    ]
    frame = pd.DataFrame(rows)
    frame["surviving"] = frame["surviving"].clip(upper=1000)
    pair = {
        "rule": "compare",
        "arm": {"model": "poll-groups", "byte_rate": 1e7},
        "baseline": {"model": "poll-groups", "byte_rate": None},
    }
    gates = ["census", "little", "stationary"]
    more = pair | {"metric": "surviving", "expect": "more", "overlook": gates}
    less = pair | {"metric": "longest_wait_s", "expect": "less"}
    share, wait = apply(frame, {"rule": "every", "parts": [more, less]}).parts
    assert share.verdict == verdict
    assert share.effect.value == pytest.approx(1000 / min(kept + 0.5, 1000))
    if kept == 1000:
        assert share.why == "shown to be alike within the margin"
        assert wait.verdict == "holds"
