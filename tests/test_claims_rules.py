"""Every rule on made-up trials: each verdict that it can give, it gives."""

import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from connlab.claims import RuleError, apply, finding, scatter
from connlab.claims.finding import effect_of
from connlab.intervals import ratios

HOLDS, IN_PART, NOT, OPEN = finding.VERDICTS
POOL, THREAD = ({"model": m, "connections": 10} for m in ("pool", "thread"))
RATE = {"metric": "throughput_rps"}
GOOD = {"ok": True, "failure": None, "label": "server-bound"}


def trials(cells: dict[tuple, float], *, metric="throughput_rps", cv=0.01, n=10):
    """Return trials of cells (model, connections) -> mean of the metric."""
    dice = np.random.default_rng(1)
    rows = []
    for block in range(n):
        weather = 1 + 0.05 * dice.standard_normal()
        for (model, connections), mean in cells.items():
            value = mean * weather * (1 + cv * dice.standard_normal())
            cell = {"model": model, "connections": connections, metric: value}
            rows.append({**cell, "surviving": connections, "block": block})
    frame = pd.DataFrame(rows)
    return frame.assign(repeat=frame["block"], **GOOD)


def two(pool: float, thread: float, **more) -> pd.DataFrame:
    return trials({("pool", 10): pool, ("thread", 10): thread}, **more)


def saturated(frame: pd.DataFrame, model: str, *, spare: int = 0) -> pd.DataFrame:
    """Let the client be the bottleneck of a model's trials, but for some blocks."""
    bound = (frame.model == model) & (frame.block >= spare)
    return frame.assign(label=bound.map({True: "client-bound", False: "server-bound"}))


def compare(frame, expect, *, printed=None, **more):
    cells = {"arm": POOL, "baseline": THREAD, "expect": expect}
    return apply(frame, {"rule": "compare", **RATE, **cells, **more}, printed)


# ---- two cells -----------------------------------------------------------------------

ALIKE = two(100, 100, cv=0.005)
WIDE = two(100, 101, cv=0.2, n=4)
CLOSE = two(99, 100, cv=0.2, n=8)
CENSUS = two(50, 100).assign(ok=False, gates_failed="census, quiet")
DIED = CENSUS.assign(failure="server-died: signal 11")
COST, FAIR = {"metric": "server_cpu_per_request_s"}, {"metric": "fairness_jain"}
THIRD = {"size": [0.3, 0.4]}
BOUND = {model: saturated(two(100, 300), model) for model in ("pool", "thread")}
IT_MATTERS = {"size_matters": True}
TWICE = {"size": [1.95, 2.05], **IT_MATTERS}


def of(metric: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={"throughput_rps": metric})


@pytest.mark.parametrize(
    ("frame", "expect", "more", "verdict"),
    [
        # a direction
        (two(100, 1700), "less", {}, HOLDS),
        (two(300, 100), "less", {}, NOT),
        (two(300, 100), "more", {}, HOLDS),
        (WIDE, "more", {}, OPEN),
        # a direction of what is nearly alike
        (two(97, 100, cv=0.005), "more", {}, NOT),
        (two(100, 100, cv=0.005), "more", {}, NOT),
        (two(103, 100, cv=0.005), "more", {}, IN_PART),
        (two(108, 100, cv=0.005), "more", {}, HOLDS),
        # likeness
        (two(100, 100), "alike", {}, HOLDS),
        (two(103, 100), "alike", {}, HOLDS),
        (two(200, 100), "alike", {}, NOT),
        (WIDE, "alike", {}, OPEN),
        (two(105, 100, cv=0.006, n=6), "alike", {}, OPEN),  # sure, perhaps small
        # the margin is as wide below one as above it: 0.9605 is beyond 1 / 1.04
        (two(96.05, 100, cv=1e-4), "alike", {"margin": 0.04}, NOT),
        (two(100, 96.05, cv=1e-4), "alike", {"margin": 0.04}, NOT),
        (two(96.5, 100, cv=1e-4), "alike", {"margin": 0.04}, HOLDS),
        # a size beside the direction
        (two(100, 1700), "less", {"size": [0.05, 0.07]}, HOLDS),
        (two(100, 300), "less", {"size": [0.05, 0.07]}, IN_PART),
        # the whole interval has to meet it
        (two(200, 100, n=6), "more", {"size": [1.95, 2.05]}, HOLDS),
        (two(200, 100, cv=0.05, n=6), "more", {"size": [1.95, 2.05]}, IN_PART),
        # no difference is not the published one
        (ALIKE, "more", {"size": [1.5, 2]}, NOT),
        (ALIKE, "more", {"size": [0.95, 1.16]}, OPEN),
        (WIDE, "more", {"margin": 0.01}, OPEN),
        (CLOSE, "less", {}, OPEN),
        (CLOSE, "less", {"size": [0.05, 0.07]}, NOT),
        (CLOSE, "less", {"size": [0.9, 0.99]}, OPEN),
        # the size is the claim: then a direction is no part of it
        (two(100, 300), "less", {"size": [0.3, 0.4], **IT_MATTERS}, HOLDS),
        (two(100, 300), "less", {"size": [0.05, 0.07], **IT_MATTERS}, NOT),
        (two(290, 300), "less", {"size": [0.05, 0.07], **IT_MATTERS}, NOT),
        (two(600, 300), "less", {"size": [0.3, 0.4], **IT_MATTERS}, NOT),
        (two(200, 100, cv=0.05, n=6), "more", TWICE, OPEN),
        (two(300, 100, cv=0.05, n=6), "more", TWICE, NOT),
        # gates that flag what is asked
        (CENSUS, "less", {}, OPEN),
        (CENSUS, "less", {"overlook": ["census"]}, OPEN),
        (CENSUS, "less", {"overlook": ["census", "quiet"]}, HOLDS),
        (DIED, "less", {"overlook": ["census", "quiet"]}, OPEN),
        # a saturated client ranks nobody, but costs stand
        (two(100, 300).assign(label="client-bound"), "less", {}, OPEN),
        (of(**COST, frame=two(100, 300)), "less", COST, HOLDS),
        (of(**COST, frame=BOUND["thread"]), "less", COST | THIRD, HOLDS),
        (of(**FAIR, frame=BOUND["thread"]), "less", FAIR | THIRD, HOLDS),
        # a size that matters, of which a bound may leave nothing: a third, or less
        (BOUND["thread"], "less", {"size": [0.5, 0.6], **IT_MATTERS}, NOT),
        (BOUND["thread"], "less", {"size": [0.1, 0.2], **IT_MATTERS}, OPEN),
        (BOUND["thread"], "less", {"size": [0.1, 0.2]}, IN_PART),
        # few saturated trials bound nothing
        (saturated(two(100, 300), "thread", spare=7), "less", THIRD, HOLDS),
    ],
)
def test_compare(frame, expect, more, verdict):
    assert compare(frame, expect, **more).verdict == verdict


@pytest.mark.parametrize(
    ("bound", "expect", "more", "verdict"),
    [
        # pool serves 100 and thread 300: a pool with a better client might do more
        ("pool", "less", {}, OPEN),
        ("pool", "more", {}, OPEN),
        ("pool", "alike", {}, OPEN),
        ("pool", "less", {"size": [0.1, 0.2]}, NOT),
        # thread might do more: so much less is the pool, or even less
        ("thread", "less", {}, HOLDS),
        ("thread", "less", {"size": [0.3, 0.4]}, IN_PART),
        ("thread", "less", {"size": [0.5, 0.6]}, IN_PART),
        ("thread", "more", {}, NOT),
        ("thread", "more", {"size": [1.3, 1.6]}, NOT),
        ("thread", "alike", {}, NOT),
    ],
)
@pytest.mark.parametrize("spare", [0, 2])
def test_what_a_saturated_client_leaves_is_a_bound(bound, expect, more, verdict, spare):
    judged = compare(saturated(two(100, 300), bound, spare=spare), expect, **more)
    assert judged.verdict == verdict
    assert bound in judged.why
    assert judged.effect.n == 10


@pytest.mark.parametrize(("bound", "verdict"), [("thread", HOLDS), ("pool", OPEN)])
def test_the_bound_of_a_time_lies_on_the_other_side(bound, verdict):
    times = of("response_mean_s", saturated(two(3, 1), bound))
    assert compare(times, "more", metric="response_mean_s").verdict == verdict


@pytest.mark.parametrize(
    ("claim", "claimed"),
    [
        ({"expect": "less"}, (0, 1)),
        ({"expect": "more"}, (1, math.inf)),
        ({"expect": "less", "size": [0.05, 0.07]}, (0.05, 0.07)),
        ({"expect": "alike", "margin": 0.04}, (1 / 1.04, 1.04)),
    ],
)
def test_the_effect_is_the_ratio_beside_what_was_claimed(claim, claimed):
    judged = compare(two(100, 1700), **claim)
    assert judged.claimed == claimed
    assert judged.effect.contains(100 / 1700)
    assert judged.effect_text.startswith("×")


def test_compare_names_what_is_missing():
    frame = two(100, 200)
    judged = compare(frame, "more", arm={"model": "poll", "connections": 10})
    assert (judged.verdict, judged.why.split()[-1]) == (OPEN, "poll")
    assert compare(frame, "more", arm={"colour": 1}).verdict == OPEN
    frame = frame.assign(size=frame.model.map({"pool": "64", "thread": "128"}))
    judged = compare(frame, "more", arm={"model": "thread", "size": ["64", "32"]})
    assert "thread, size 64 or 32" in judged.why
    failed = frame.assign(ok=frame.model != "pool", failure="server died")
    assert "server died" in compare(failed, "more").why
    assert "4 trials" in compare(frame[frame.block < 3], "more").why
    assert "too wide" in compare(WIDE, "alike").why
    near = two(105, 100, cv=0.006, n=6)
    assert compare(near, "alike").why.startswith("a difference, which may")


@pytest.mark.parametrize(("pool", "thread"), [(0, 100), (100, 0), (0, 0)])
def test_what_is_never_above_zero_has_no_ratio(pool, thread):
    judged = compare(two(pool, thread), "more")
    assert (judged.verdict, judged.effect_text) == (OPEN, "")
    assert "throughput_rps above 0" in judged.why


def test_a_pair_has_the_interval_that_its_section_prints():
    trials = two(100, 300)
    fork = trials[trials.model == "thread"].assign(model="fork")
    section = ratios(pd.concat([trials, fork]), "throughput_rps", baseline="thread")
    alone = compare(trials, "less").effect
    among = compare(trials, "less", printed=section).effect
    row = section.set_index("model").loc["pool"]
    assert (among.lo, among.hi) == (row.lo, row.hi)
    assert among.lo < alone.lo < alone.hi < among.hi
    sides = {"arm": THREAD, "baseline": POOL, "printed": section}
    swapped = compare(trials, "more", **sides).effect
    assert (swapped.lo, swapped.hi) == pytest.approx((1 / row.hi, 1 / row.lo))
    scaled = section.assign(metric="throughput_scaled_rps")
    assert compare(trials, "less", printed=scaled).effect == among
    section = section.assign(metric="bytes_per_s")
    assert compare(trials, "less", printed=section).effect == alone


def test_one_that_took_turns_is_not_compared_with_one_alone():
    frame = two(50, 100)
    assert compare(frame, "less").verdict == HOLDS
    frame["set"] = frame["model"].where(frame["model"].eq("pool"))
    judged = compare(frame, "less")
    assert judged.verdict == OPEN
    assert "measured alone" in judged.why
    assert compare(frame, "less", apart=True).verdict == HOLDS


# ---- cells that keep their connections -----------------------------------------------


def survivors(levels: dict[int, tuple[int, ...]]) -> pd.DataFrame:
    """Return trials at each level that kept all (1) or lost some (0)."""
    rows = [(n, n if whole else 1020) for n, all_ in levels.items() for whole in all_]
    frame = pd.DataFrame(rows, columns=["connections", "surviving"])
    return frame.assign(model="select", failure=None)


SURVIVES = {"rule": "survives", "arm": {"model": "select"}}


@pytest.mark.parametrize(
    ("levels", "verdict"),
    [
        ({1000: (1, 1), 2000: (0, 0)}, HOLDS),
        ({1000: (1, 1), 2000: (1, 1)}, IN_PART),
        ({1000: (1, 1), 2000: (0, 1)}, IN_PART),
        ({1000: (1, 1)}, IN_PART),
        ({1000: (1, 1), 3000: (1, 1)}, IN_PART),
        ({1000: (0, 0), 2000: (1, 1)}, NOT),
        ({1000: (0, 1), 2000: (1, 0)}, IN_PART),
        ({5: (1, 1)}, OPEN),
        ({1500: (1, 1), 2000: (0, 0)}, HOLDS),
        ({1500: (0, 1), 2000: (0, 0)}, IN_PART),
    ],
)
def test_survives(levels, verdict):
    rule = {**SURVIVES, "passes": [1000], "fails": [2000]}
    assert apply(survivors(levels), rule).verdict == verdict


def test_of_a_level_those_with_the_most_processes_tell():
    """One process has no descriptors for what six carry."""
    one = survivors({1000: (0,), 2000: (0,)}).assign(processes=None)
    six = survivors({1000: (1,)}).assign(processes=6)
    rule = {**SURVIVES, "passes": [1000], "fails": [2000]}
    assert apply(pd.concat([one, six]), rule).verdict == HOLDS


@pytest.mark.parametrize(
    ("passing", "failing", "said"),
    [
        ((1,), (0,), " (1 trial each)"),
        ((1, 1), (0,) * 5, " (2 to 5 trials each)"),
        ((1,), (), " (1 trial)"),
        ((1,) * 4, (0,) * 4, ""),
        ((), (), ""),
    ],
)
def test_a_limit_says_where_few_trials_met_it(passing, failing, said):
    rule = {**SURVIVES, "passes": [1000], "fails": [2000]}
    why = apply(survivors({1000: passing, 2000: failing}), rule).why
    assert re.search(r"( \(.*\))?$", why)[0] == said


@pytest.mark.parametrize(
    ("trials", "said"), [(1, " (1 trial)"), (3, " (3 trials)"), (4, "")]
)
def test_a_count_says_where_few_trials_made_it(trials, said):
    rows = pd.DataFrame({"model": "pool", "threads_max": [16] * trials, "ok": True})
    rule = {"rule": "counts", "metric": "threads_max", "arm": {"model": "pool"}}
    assert apply(rows, {**rule, "at_least": 16}).why == f"16 counted{said}"


@pytest.mark.parametrize(
    ("accepted", "passes", "verdict"),
    [
        (1000, [2000], OPEN),
        (1000, [2000, 5000], OPEN),  # nor was the other level tried
        ([1000, 1000, 2000, 1000], [2000], OPEN),
        (1000, [1000, 2000], IN_PART),
        (np.nan, [1000, 2000], HOLDS),
    ],
)
def test_connections_that_no_server_accepted_are_neither_carried_nor_lost(
    accepted, passes, verdict
):
    trials = survivors({1000: (1, 1), 2000: (1, 1)}).assign(accepted=accepted)
    assert apply(trials, {**SURVIVES, "passes": passes}).verdict == verdict


OUR_SIDE = [
    {"failure": "unavailable: connections: 2000; allowed here: 1 to 1024"},
    {"failure": "client-failed: client: no report"},
    {"failure": "host-lost: b"},
    {"label": "limit-bound:ports"},
    {"label": "limit-bound:descriptors", "refused_reason": None},
]
SERVERS_SIDE = [
    {"failure": "server-died: server: signal 11"},
    {"failure": "no-connection: no connection was established"},
    {"label": "limit-bound:descriptors", "refused_reason": "descriptors"},
    {"label": "limit-bound:backlog", "refused_reason": None},
]


@pytest.mark.parametrize(
    ("lost", "passes", "fails", "verdict"),
    [
        *((lost, [], [2000], OPEN) for lost in OUR_SIDE),
        *((lost, [2000], [], OPEN) for lost in OUR_SIDE),
        *((lost, [], [2000], HOLDS) for lost in SERVERS_SIDE),
        *((lost, [2000], [], NOT) for lost in SERVERS_SIDE),
    ],
)
def test_what_the_client_lacked_is_no_limit_of_a_server(lost, passes, fails, verdict):
    trials = survivors({1000: (1,), 2000: (0,)})
    for column, value in lost.items():
        trials[column] = [None, value]
    rule = {**SURVIVES, "passes": passes, "fails": fails}
    assert apply(trials, rule).verdict == verdict
    whole = survivors({1000: (1,), 2000: (1,)})
    assert outlasts(whole, trials).verdict == (OPEN if verdict == OPEN else HOLDS)


@pytest.mark.parametrize(
    ("epoll", "select", "verdict"),
    [
        ({1: (1,), 2: (1,)}, {1: (1,), 2: (0,)}, HOLDS),
        ({1: (1,), 2: (0,)}, {1: (1,), 2: (1,)}, NOT),
        ({1: (1,), 2: (1,)}, {1: (1,), 2: (1,)}, OPEN),
        # what was not tried above its highest level is no limit
        ({1: (1,), 2: (1,)}, {1: (1,)}, OPEN),
        ({1: (1,)}, {1: (1,), 2: (1,)}, OPEN),
        # nor does a level count that lies above a broken one
        ({1: (1,), 2: (1,), 3: (0,)}, {1: (1,), 2: (1, 0), 3: (1,)}, HOLDS),
        ({1: (0,), 2: (1,)}, {1: (0,)}, OPEN),
        # both limits lie between 1 and 9: each was tried at levels of its own
        ({1: (1,), 2: (1,), 9: (0,)}, {1: (1,), 3: (1,), 9: (0,)}, OPEN),
        ({1: (1,), 3: (1,), 9: (0,)}, {1: (1,), 2: (1,), 9: (0,)}, OPEN),
        ({1: (1,), 3: (1,), 9: (0,)}, {1: (1,), 2: (0,), 9: (0,)}, HOLDS),
    ],
)
def test_a_limit_lies_between_levels_that_were_tried(epoll, select, verdict):
    judged = outlasts(survivors(epoll), survivors(select))
    assert judged.verdict == verdict
    broken = min((level for level in epoll if not all(epoll[level])), default=99)
    whole = max((level for level in epoll if level < broken), default=0)
    assert f"up to {whole} " in judged.why
    untried = verdict == OPEN and broken == 99
    assert ("the most that was tried" in judged.why) == untried


def test_a_server_outlasts_nobody_with_connections_that_it_did_not_accept():
    broke = survivors({1: (1,), 2: (0,)}).assign(accepted=1)
    waiting = survivors({1: (1,), 2: (1,)}).assign(accepted=1)
    assert outlasts(waiting, broke).verdict == OPEN
    assert outlasts(broke, waiting).verdict == OPEN
    assert outlasts(waiting.assign(accepted=np.nan), broke).verdict == HOLDS
    assert outlasts(waiting.assign(accepted=[1, 2]), broke).verdict == HOLDS


@pytest.mark.parametrize(
    ("tried", "verdict"),
    [({3: (1,), 5: (1,)}, OPEN), ({3: (1,), 5: (0,)}, HOLDS), ({3: (0,)}, HOLDS)],
)
def test_servers_of_several_processes_are_compared_with_their_like(tried, verdict):
    """One process ends at its descriptors, whatever its model."""
    one = survivors({1: (1,), 2: (0,)}).assign(processes=None)
    six = [
        survivors(levels).assign(processes=6) for levels in ({3: (1,), 5: (1,)}, tried)
    ]
    epoll, select = (pd.concat([one, more]) for more in six)
    assert outlasts(epoll, select).verdict == verdict
    assert outlasts(epoll, one).verdict == OPEN
    single = survivors({1: (1,), 2: (1,)}).assign(processes=1)
    assert outlasts(single, one).verdict == HOLDS


@pytest.mark.parametrize(
    ("epoll", "select", "said"),
    [
        ((1,) * 4, (0,) * 4, ""),
        ((1,) * 4, (0,), " (1 to 4 trials each)"),
        ((1,), (0,) * 4, " (1 to 4 trials each)"),
    ],
)
def test_a_longer_life_says_where_few_trials_showed_it(epoll, select, said):
    sides = [survivors({1: (1,) * 4, 2: two}) for two in (epoll, select)]
    judged = outlasts(*sides)
    assert judged.verdict == HOLDS
    assert re.search(r"( \(.*\))?$", judged.why)[0] == said


def outlasts(epoll, select):
    sides = {"arm": {"model": "epoll"}, "baseline": {"model": "select"}}
    frame = pd.concat([epoll.assign(model="epoll"), select])
    return apply(frame, {"rule": "outlasts", **sides})


@pytest.mark.parametrize(("surviving", "verdict"), [(800, HOLDS), (1000, NOT)])
def test_the_share_that_is_served_counts_trials_that_lost_clients(surviving, verdict):
    """A trial that lost clients fails the census: the claim is about just that."""
    rows, whole = [], surviving == 1000
    for block in range(4):
        row = {"block": block, "repeat": block}
        wait = 0.001 * block
        free = {"byte_rate": None, "longest_wait_s": 0.5 + wait, "ok": whole}
        free["surviving"] = min(1000, surviving + block % 2)
        free["gates_failed"] = "" if whole else "census, little"
        limited = {"byte_rate": 1e7, "longest_wait_s": 0.1 + wait, "ok": True}
        rows += [row | free, row | limited | {"surviving": 1000}]
    cell = {"model": "poll-groups", "connections": 1000, "failure": None}
    frame = pd.DataFrame(rows).assign(**cell, label="server-bound")
    pair = {
        "rule": "compare",
        "arm": {"model": "poll-groups", "byte_rate": 1e7},
        "baseline": {"model": "poll-groups", "byte_rate": None},
    }
    gates = ["census", "little", "stationary"]
    more = pair | {"metric": "surviving", "expect": "more", "overlook": gates}
    less = pair | {"metric": "longest_wait_s", "expect": "less"}
    share, wait = (apply(frame, rule) for rule in (more, less))
    assert share.verdict == verdict
    assert share.effect.value == pytest.approx(1000 / min(surviving + 0.5, 1000))
    if whole:
        assert wait.verdict == HOLDS


# ---- one table, one cell -------------------------------------------------------------

PUBLISHED = {"rule": "published_rates", "clients": "clients", "times": {"ms": 0.001}}


@pytest.mark.parametrize(
    ("times", "at_least", "between", "verdict"),
    [
        ((10, 20, 40), 100, [9e4, 11e4], HOLDS),
        ((10, 20, 400), 100, [9e4, 11e4], IN_PART),
        ((1, 2, 4), 100, [9e4, 11e4], NOT),
        ((10, 20, 40), 4000, [0, 1], OPEN),
    ],
)
def test_published_rates(times, at_least, between, verdict):
    frame = pd.DataFrame({"clients": [1000, 2000, 4000], "ms": times})
    rule = PUBLISHED | {"at_least": at_least, "between": between}
    assert apply(frame, rule).verdict == verdict


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((10, 10, 20, 40), HOLDS),
        ((10, 10, 20, 400), HOLDS),  # two of three
        ((10, 10, 200, 400), NOT),  # not most
        ((100, 100, 200, 400), NOT),
        ((8, 14, 20, 400), HOLDS),  # the mean of the two rows of one run counts
        ((10, 100, 200, 40), NOT),
    ],
)
def test_most_published_runs_have_one_rate_whatever_each_has_of_rows(times, verdict):
    clients = [1000, 1000, 2000, 4000]
    frame = pd.DataFrame({"run": list("aabc"), "clients": clients, "ms": times})
    about = {"at_least": 100, "between": [9e4, 11e4], "by": "run", "most": True}
    rule = PUBLISHED | about
    assert apply(frame, rule).verdict == verdict


@pytest.mark.parametrize(
    ("arm", "baseline", "said"),
    [
        (POOL, THREAD, "pool against thread, 10 connections"),
        (
            {"model": "poll", "connections": 2500, "requests": 1},
            {"model": "poll", "connections": 300, "requests": 1},
            "poll, 2500 against 300 connections",
        ),
        (
            {"model": "thread", "load": 0.5, "work": "spin", "cores": 1},
            {"model": "epoll"},
            "thread against epoll, 50\u202f% load, 1 core",
        ),
        ({"model": "pool", "delay": ["a", "b"], "cores": None}, {}, "pool"),
    ],
)
def test_an_effect_says_of_which_cells_it_is(arm, baseline, said):
    assert effect_of(arm, baseline) == said


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([True, True], HOLDS),
        ([True, True, None], IN_PART),
        ([True, False], IN_PART),
        ([False, None], NOT),
        ([None], OPEN),
    ],
)
def test_all_true(answers, verdict):
    frame = pd.DataFrame({"subject": "thread", "holds": answers})
    rule = {"rule": "all_true", "column": "holds", "arm": {"subject": "thread"}}
    judged = apply(frame, rule)
    assert judged.verdict == verdict
    known = [answer for answer in answers if answer is not None]
    unasked = [len(answers) - len(known)] if None in answers else []
    counts = [sum(known), len(known), *unasked] if known else []
    assert [int(n) for n in re.findall(r"\d+", judged.why)] == counts


PLAIN = two(100, 300, n=20)


@pytest.mark.parametrize(
    ("frame", "bounds", "verdict"),
    [
        (PLAIN, {"at_least": 50}, HOLDS),
        (PLAIN, {"at_most": 50}, NOT),
        (PLAIN, {"at_least": 100}, OPEN),
        # the bound that a saturated client leaves can refute
        (BOUND["pool"], {"at_least": 50}, HOLDS),
        (BOUND["pool"], {"at_most": 50}, NOT),
        (BOUND["pool"], {"at_most": 500}, OPEN),
        (BOUND["pool"], {"at_least": 500}, OPEN),
    ],
)
def test_value(frame, bounds, verdict):
    judged = apply(frame, {"rule": "value", **RATE, "arm": POOL, **bounds})
    assert judged.verdict == verdict
    assert "requests/s" in judged.effect_text
    assert judged.of == "throughput"


@pytest.mark.parametrize(("rate", "verdict"), [(7.7, HOLDS), (70, NOT), (7.5, OPEN)])
def test_a_published_rate_keeps_workers_busy(rate, verdict):
    values = rate + np.array([-0.05, 0, 0.02, 0.04, -0.01])
    frame = pd.DataFrame({"model": "pool", "value": values})
    rule = {"rule": "value", "metric": "value", "arm": {"model": "pool"}}
    rule |= {"times": 2.0, "unit": "busy workers", "at_least": 15, "at_most": 17}
    judged = apply(frame, rule)
    assert judged.verdict == verdict
    assert judged.effect.value == pytest.approx(2 * values.mean(), rel=1e-4)
    assert judged.effect_text.split(" [")[0].endswith("busy workers")
    assert judged.of == ""  # the unit says it


def test_a_cell_may_want_that_a_factor_was_not_set():
    frame = two(100, 300).assign(cores=pd.array([1, None] * 10, dtype="Int64"))
    assert len(finding.select(frame, {"cores": None})) == 10
    assert set(finding.select(frame, {"cores": 1})["model"]) == {"pool"}
    wanted = {"delay": ["a", "b"], "cores": None}
    assert apply(frame, {"rule": "value", **RATE, "arm": wanted}).verdict == OPEN


# ---- scatter -------------------------------------------------------------------------

STEADIER = {"rule": "steadier", **RATE, "arm": POOL, "baseline": THREAD}


def scattered(n: int, pool_cv: float, thread_cv: float):
    """Return n trials of two models that scatter so much about the same mean."""
    dice = np.random.default_rng(5)
    frame = two(100, 100, n=n)
    for model, cv in (("pool", pool_cv), ("thread", thread_cv)):
        rows = frame.model == model
        frame.loc[rows, "throughput_rps"] = 100 * (1 + cv * dice.standard_normal(n))
    return frame


@pytest.mark.parametrize(
    ("frame", "verdict"),
    [
        (scattered(12, 0.005, 0.1), HOLDS),
        (scattered(12, 0.1, 0.005), NOT),
        (scattered(12, 0.05, 0.05), OPEN),
        (scattered(3, 0.001, 0.1), OPEN),
        (scattered(12, 0.0, 0.1), OPEN),  # all alike
        (saturated(scattered(12, 0.005, 0.1), "pool"), OPEN),
        (saturated(scattered(12, 0.005, 0.1), "thread"), OPEN),
    ],
)
def test_steadier(frame, verdict):
    assert apply(frame, STEADIER).verdict == verdict


def bonett(y, x):
    """Return the bounds of Bonett (2006) for sd(y) / sd(x), formula by formula."""
    z, n, m = 1.959964, len(y), len(x)
    cut = {4: 1, 6: 2, 12: 2}  # trials at each end that a trimmed mean leaves out
    middles = [np.mean(sorted(a)[cut[len(a)] : -cut[len(a)]]) for a in (y, x)]
    deviations = np.concatenate([a - c for a, c in zip((y, x), middles, strict=True)])
    squares = (n - 1) * np.var(y, ddof=1) + (m - 1) * np.var(x, ddof=1)
    kurtosis = (n + m) * np.sum(deviations**4) / squares**2
    error = (kurtosis - (n - 3) / n) / (n - 1) + (kurtosis - (m - 3) / m) / (m - 1)
    c = (n / (n - z)) / (m / (m - z))
    centre = np.log(c * np.var(y, ddof=1) / np.var(x, ddof=1))
    return [np.sqrt(np.exp(centre + sign * z * np.sqrt(error))) for sign in (-1, 1)]


@pytest.mark.parametrize(("n", "fewer"), [(6, 4), (12, 12)])
def test_bounds_of_a_scatter_are_those_of_bonett(n, fewer):
    frame = scattered(n, 0.01, 0.1)
    frame = frame[(frame.model != "pool") | (frame.block < fewer)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        effect = apply(frame, STEADIER).effect
    logs = dict(list(np.log(frame["throughput_rps"]).groupby(frame["model"])))
    y, x = (logs[name].to_numpy() for name in ("pool", "thread"))
    assert effect.value == pytest.approx(y.std(ddof=1) / x.std(ddof=1))
    assert effect.n == fewer
    assert [effect.lo, effect.hi] == pytest.approx(bonett(y, x), rel=1e-6)


@pytest.mark.parametrize("draw", ["standard_normal", "heavy", "standard_exponential"])
@pytest.mark.parametrize("n", [4, 7, 20])
def test_cells_that_scatter_alike_are_not_told_apart_for_their_tails(draw, n):
    """An F test tells up to 30 % of them apart; binomial noise is allowed."""
    dice = np.random.default_rng(n)
    size = (600, 2, n)
    pairs = dice.standard_t(3, size) if draw == "heavy" else getattr(dice, draw)(size)
    told = [not scatter._ratio_of_scatters(*pair).contains(1) for pair in pairs]
    assert np.mean(told) < 0.085


OUTWEIGHS = {"rule": "outweighs", **RATE, "factor": "connections", "other": "model"}


def crossed(model_effect: float, tuning_effect: float, levels=(10, 1000), **more):
    """Return trials of two models at each level, which both have an effect."""
    means = {
        (m, n): 100 * (1 + model_effect * i) * (1 + tuning_effect * j)
        for i, m in enumerate(("epoll", "thread"))
        for j, n in enumerate(levels)
    }
    return trials(means, **more)


TUNED = crossed(0.05, 1.0)
GONE = (TUNED.model == "thread") & (TUNED.connections == 1000)
APART = crossed(0.05, 1.0, (1, 10, 100, 1000), n=8)


@pytest.mark.parametrize(
    ("frame", "verdict"),
    [
        (TUNED, HOLDS),
        (crossed(1.0, 0.05), NOT),
        # however little more it moves
        (crossed(1.0, 1.3, cv=1e-3), HOLDS),
        (trials({("epoll", 10): 1.0}), OPEN),
        # too few blocks
        (TUNED[TUNED.block < 4], HOLDS),
        (TUNED[TUNED.block < 3], OPEN),
        # a table with a gap
        (TUNED[~GONE], OPEN),
        (TUNED.assign(ok=~GONE, failure="server died"), OPEN),
        # cells that never meet in a resample
        (APART[APART.groupby("block").cumcount() == APART.block], OPEN),
        # a cell that is a bound; few saturated trials are none
        (saturated(TUNED, "thread"), OPEN),
        (saturated(TUNED, "thread", spare=7), HOLDS),
    ],
)
def test_outweighs(frame, verdict):
    assert apply(frame, OUTWEIGHS).verdict == verdict


def test_why_a_table_with_a_gap_is_not_judged_is_said():
    why = apply(TUNED[~GONE], OUTWEIGHS).why
    assert why == "1 cell of 4 without a usable trial"


def test_a_factor_that_no_trial_has_outweighs_nothing():
    judged = apply(TUNED.drop(columns="model"), OUTWEIGHS)
    assert (judged.verdict, judged.why[:17]) == (OPEN, "not measured here")


@pytest.mark.parametrize(("cores", "verdict"), [(1, OPEN), (2, HOLDS)])
def test_workers_tune_nothing_on_one_core(cores, verdict):
    finding = apply(TUNED.assign(server_cores=cores), OUTWEIGHS | {"cores": 2})
    assert finding.verdict == verdict


def test_what_outweighs_is_the_ratio_of_sums_of_squares():
    effect = apply(crossed(0.05, 1.0, cv=1e-6), OUTWEIGHS).effect
    assert effect.value == pytest.approx((np.log(2) / np.log(1.05)) ** 2, 1e-3)
    assert effect.method.startswith("bootstrap")


@pytest.mark.parametrize("levels", [range(1, 4), range(1, 13)])
@pytest.mark.parametrize("n", [4, 8])
def test_a_factor_is_not_said_to_outweigh_another_for_the_scatter_of_trials(levels, n):
    """Of two models and more levels, none of which has an effect."""
    dice = np.random.default_rng(n)
    told = []
    for _ in range(12):
        frame = crossed(0.0, 0.0, levels, n=n)
        frame["throughput_rps"] *= np.exp(0.05 * dice.standard_normal(len(frame)))
        told.append(apply(frame, OUTWEIGHS).verdict != OPEN)
    assert np.mean(told) < 0.15


def test_a_verdict_takes_off_both_spreads_what_chance_puts_there():
    """The effect that is shown stays as it is."""
    frame = crossed(0.0, 0.0, range(1, 13), cv=0.1, n=5)
    judged = apply(frame, OUTWEIGHS)
    assert not judged.effect.contains(1)
    assert judged.verdict == OPEN
    assert judged.why.startswith("chance")
    steady = crossed(0.001, 0.02, range(1, 13), cv=0.001, n=5)
    assert apply(steady, OUTWEIGHS).verdict == HOLDS


def test_four_blocks_leave_all_between_the_lowest_and_the_highest_of_them():
    frame = crossed(0.5, 1.0, cv=0.05, n=4)
    logs = np.log(frame.set_index(["block", "connections", "model"])["throughput_rps"])
    tables = [logs.loc[block].unstack() for block in range(4)]
    alone = [table.mean(axis=1).var() / table.mean().var() for table in tables]
    effect = apply(frame, OUTWEIGHS).effect
    assert (effect.lo, effect.hi) == pytest.approx((min(alone), max(alone)))


def test_resamples_that_lose_a_cell_do_not_count():
    """A cell of two trials is absent from one resample in nine."""
    frame = crossed(0.5, 3.0)
    rare = (frame.model == "thread") & (frame.connections == 1000) & (frame.block > 1)
    judged = apply(left := frame[~rare], OUTWEIGHS)
    assert judged.verdict == HOLDS
    logs = np.log(left.set_index(["connections", "model"])["throughput_rps"])
    table = logs.groupby(level=[0, 1]).mean().unstack()
    squares = table.mean(axis=1).var() / table.mean().var()
    assert judged.effect.value == pytest.approx(squares)
    whole = apply(frame, OUTWEIGHS).effect
    assert whole.value / 2 < judged.effect.lo < judged.effect.hi < whole.value * 2


@pytest.mark.parametrize(
    "rule", [STEADIER, OUTWEIGHS, {"rule": "value", **RATE, "arm": POOL}]
)
def test_a_baseline_that_was_carried_into_another_set_is_no_further_trial(rule):
    cells = {(m, n): n for m in ("pool", "thread") for n in (10, 1000)}
    frame = trials(cells, cv=0.1)
    carried = frame.assign(throughput_rps=500.0, carried=True)
    for whole in (frame, frame.assign(carried=False)):
        assert apply(pd.concat([whole, carried]), rule) == apply(frame, rule)


def test_a_pair_is_made_with_the_baseline_that_was_carried_into_its_set():
    first = two(50, 300, **FAIR).assign(carried=False, rounds=None)
    first["set"] = first["model"] + first["block"].astype(str)
    carried = first[first["model"] == "thread"].assign(carried=True)
    carried["fairness_jain"] /= 3
    carried["set"] = carried["set"].str.replace("thread", "pool")
    judged = compare(pd.concat([first, carried]), "less", **FAIR)
    assert judged.effect.value == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    ("frame", "rule", "said"),
    [
        (scattered(12, 0.005, 0.1), STEADIER, "scatter of pool against thread, 10 con"),
        (TUNED, OUTWEIGHS, "spread over connections against spread over models"),
        (saturated(TUNED, "thread"), OUTWEIGHS, "spread over connections against"),
        (two(1, 3, n=3), STEADIER | {"rule": "compare", "expect": "less"}, "pool aga"),
    ],
)
def test_a_ratio_says_of_what_it_is_whether_it_decides_or_not(frame, rule, said):
    judged = apply(frame, rule)
    assert judged.effect
    assert judged.of.startswith(said)


# ---- several parts -------------------------------------------------------------------

CELLS = {"rule": "compare", **RATE, "arm": POOL, "baseline": THREAD}
LESS, MORE = CELLS | {"expect": "less"}, CELLS | {"expect": "more"}
SOME = LESS | {"size": [0.5, 0.6]}
ABSENT = LESS | {"arm": {"model": "poll"}}
SWAPPED = MORE | {"arm": THREAD, "baseline": POOL}
THIN = LESS | {"arm": POOL | {"block": [0, 1]}}
SIZED = {"size_matters": True}
WRONG_BY_2, WRONG_BY_4 = (
    LESS | SIZED | {"size": size} for size in ([0.6, 0.7], [0.08, 0.083])
)
WRONG_BY_9 = SWAPPED | SIZED | {"size": [27, 30]}


def every(*parts):
    return apply(two(100, 300), {"rule": "every", "parts": list(parts)})


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ((LESS, LESS), HOLDS),
        ((LESS, MORE), IN_PART),
        ((LESS, ABSENT), IN_PART),
        ((MORE, MORE), NOT),
        ((MORE, ABSENT), NOT),
        ((ABSENT,), OPEN),
        ((ABSENT, ABSENT), OPEN),
    ],
)
def test_every_adds_its_parts_up(parts, verdict):
    assert every(*parts).verdict == verdict


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ((LESS, MORE), NOT),
        ((LESS, LESS), HOLDS),
        ((LESS, ABSENT), IN_PART),
        ((ABSENT, MORE), NOT),
        ((LESS, SOME), IN_PART),
        ((ABSENT,), OPEN),
    ],
)
def test_a_claim_of_all_parts_at_once_does_not_hold_where_one_does_not(parts, verdict):
    rule = {"rule": "every", "parts": list(parts), "whole": True}
    assert apply(two(100, 300), rule).verdict == verdict


def test_parts_that_were_counted_say_what_was_found():
    """There is no effect that could: "2 of 2 parts hold" was all of it."""
    select = survivors({1000: (1,), 2000: (0,)})
    frame = pd.concat([select, survivors({2000: (1,)}).assign(model="epoll")])
    lasts = {"rule": "outlasts", "baseline": {"model": "select"}}
    lasts |= {"arm": {"model": "epoll"}}
    parts = [lasts, {**SURVIVES, "passes": [1000]}]
    why = apply(frame, {"rule": "every", "parts": parts}).why
    assert why.startswith("2 of 2 parts hold (whole up to 2000 connections, against ")
    assert "; connections: as claimed at 1000 (1 trial))" in why
    mixed = [lasts | {"arm": {"model": "poll"}}, {**SURVIVES, "fails": [2000]}]
    why = apply(frame, {"rule": "every", "parts": mixed}).why
    assert why.startswith("1 of 2 parts holds (connections: as claimed at 2000")


@pytest.mark.parametrize(
    ("parts", "effect"),
    [
        ((LESS, SWAPPED), 1 / 3),
        ((SWAPPED, MORE), 1 / 3),
        ((LESS, SWAPPED | {"size": [5, 6]}, MORE), 3),
        ((THIN, SWAPPED), 3),  # a number without an interval decided nothing
        # of parts that fail alike the one that is furthest from what was claimed
        ((WRONG_BY_2, WRONG_BY_9), 3),
        ((WRONG_BY_9, WRONG_BY_2), 3),
        ((WRONG_BY_9, WRONG_BY_4), 3),
        ((WRONG_BY_2, WRONG_BY_4), 1 / 3),
    ],
)
def test_every_shows_the_effect_that_decided(parts, effect):
    assert every(*parts).effect.value == pytest.approx(effect, rel=0.02)
    assert every(THIN, ABSENT).effect is None


@pytest.mark.parametrize(
    ("parts", "counts"),
    [
        ((LESS, LESS), [2, 2]),
        ((SOME, SOME, MORE, ABSENT), [0, 4, 2, 1, 1]),
        ((LESS, ABSENT, ABSENT), [1, 3, 2]),
        (({"rule": "every", "parts": [LESS, MORE]}, MORE), [0, 2, 1, 1, 2, 1, 1]),
    ],
)
def test_a_sum_of_parts_counts_how_many_came_out_how(parts, counts):
    assert [int(n) for n in re.findall(r"\b\d+\b", every(*parts).why)] == counts


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ({"rule": "compares"}, "compares.*compare"),
        (LESS | {"colour": "red"}, "colour"),
        (LESS | {"expect": "sideways"}, "sideways"),
        (LESS | IT_MATTERS, "size"),
        ({"rule": "all_true", "column": "modle", "arm": {}}, "'modle'.*'model'"),
    ],
)
def test_rules_refuse_words_that_they_do_not_know(rule, word):
    with pytest.raises(RuleError, match=word):
        apply(two(1, 1), rule)
