"""What notebooks claim and answer: nothing that is not known is yes or no."""

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import notebook_rules as rules
import pandas as pd
import pytest
from study_made import crossed, usable

from connlab import notebook
from connlab.report import Report
from connlab.study.interval import Interval

NAN = math.nan


def said(mark: str, *, of: str = "", **names: Any) -> Mock:
    """Run the one cell that holds a mark, with what earlier cells have named."""
    notebooks = [path.stem for path in notebook.every() if of in path.stem]
    cells = [(name, *cell) for name in notebooks for cell in rules.code(name).items()]
    ((name, id_),) = [(name, id_) for name, id_, code in cells if mark in code]
    report = Mock(spec=Report)
    report.cells.side_effect = lambda cells: cells
    rules.execute(name, id_, report=report, **names)
    return report


def answered(of: str, **names: Any) -> str:
    return said("report.answer(", of=of, **names).answer.call_args.args[0]


def pair(verdict: str = "higher", **more: Any) -> dict[str, Any]:
    """Return a row of ratios."""
    about = {"against": "epoll", "metric": "server_cpu_per_request_s", "value": 2.0}
    about |= {"lo": 1.9, "hi": 2.1, "n": 5, "level": 0.95, "method": "t"}
    return about | {"verdict": verdict} | more


def without_bounds(pairs: pd.DataFrame, few: str) -> pd.DataFrame:
    """Return ratios of which some models have none, as they have too few trials."""
    pairs.loc[pairs["model"].isin(list(few)), ["lo", "hi"]] = NAN
    return pairs


def open_but(pairs: pd.DataFrame, limited: str) -> pd.DataFrame:
    """Return ratios of which those without a verdict hold 1, but for some models."""
    wide = pairs["verdict"].eq("undetermined") & ~pairs["model"].isin(list(limited))
    return pairs.assign(lo=pairs["lo"].mask(wide, 0.9))


def span(lo: float, hi: float, **more: Any) -> pd.DataFrame:
    return pd.DataFrame([{"lo": lo, "hi": hi, **more}])


def itself(*bounds: float) -> dict[str, Any]:
    return {"itself": span(*bounds, metric="throughput_rps")}


def pushed(lo: float, hi: float, rows: int = 1) -> dict[str, Any]:
    return {"waiting": span(lo, hi)[:rows]}


def delayed(lo: float, hi: float, verdict: str = "lower") -> dict[str, Any]:
    """Return the rate of a pool under 10.5 s of delay over that under 2 s: 0.19."""
    sixteen = span(lo, hi, span="large", verdict=verdict)
    return {"sixteen": sixteen, "spans": {"small": (2, 1), "large": (10.5, 9.5)}}


def best_pool(
    compared: bool | None,
    lo: float | None = None,
    gap: tuple[int, int] | None = None,
    limited: bool = False,
) -> dict[str, Any]:
    reached = Interval(1.0, lo, 1.0, 5, 0.95, "t")
    best = SimpleNamespace(reached=reached, compared=compared, gap=gap)
    label = "client-bound" if limited else None
    pools = usable(crossed(workers=(16, 512), block=range(5)))
    names = {"sleeping": pools.assign(throughput_rps=9.0, label=label)}
    return names | {"best": None if compared is None else best}


def busy(lo: float, hi: float, *limited: bool) -> dict[str, Any]:
    """Return the busy workers of the published pool and of ours."""
    servers = ["published pool of 512", "pool of 16"][: len(limited)]
    workers = pd.DataFrame({"server": servers, "bound": limited})
    return {"workers": workers.assign(lo=lo, hi=hi), "cap": 16}


def kept_up(lo: float, hi: float, limited: bool = False) -> dict[str, Any]:
    at = {"server": "pool of 512", "connections": 1024}
    answers = pd.DataFrame({"connections": [256, 1024], "bound": [True, limited]})
    return {"at_many": span(lo, hi, **at), "answers": answers, "many": 1024}


def queued(lo: float, hi: float, limited: bool = False) -> dict[str, Any]:
    response = span(lo, hi, load=0.5).assign(bound=limited)
    names = {"intervals": lambda *_: response, "queued": None}
    return names | {"law": pd.DataFrame({"response": [1.0]}, index=[0.5])}


def computing(lo: float, hi: float, limited: bool = False) -> dict[str, Any]:
    """Return how many of 16 workers are busy on one core, and of 64."""
    held = [span(lo, hi, workers=16), span(1.02, 1.03, workers=64)]
    measured = pd.DataFrame({"server_cores": [1, 2]})
    names = {"measured": measured, "is_spin": pd.Series([True, False])}
    return names | {"held": pd.concat(held).assign(part="spin", bound=limited)}


def loops(lo: float, hi: float, bound: bool = False) -> dict[str, Any]:
    growth = span(lo, hi, model="epoll-pool", workers=4, against=1)
    throughput = growth.assign(bound=bound)
    return {"growth": growth, "throughput": throughput, "kept": ["pool"]}


def shared(lo: float, hi: float) -> dict[str, Any]:
    return {"balance": span(lo, hi, workers=4).assign(value=1.1)}


def starved(value: float, connections: int = 16) -> dict[str, Any]:
    fairness = pd.DataFrame({"model": ["pool"], "value": [value]})
    names = {"fairness": fairness, "kept": ["pool"], "crowd": 4}
    return names | {"connections": connections}


def given_again(*kinds: str) -> dict[str, Any]:
    return {"again": pd.DataFrame({"kind": kinds}), "others": [], "ways": {"one": 1}}


def told(from_models: list[float], of_kind: list[float]) -> dict[str, Any]:
    table = pd.DataFrame({"from_models": from_models, "of_kind": of_kind}, dtype=float)
    return {"told": table.assign(value=1.0, from_kinds=1.0, from_loads=1.0)}


def cases(**holds: bool) -> dict[str, Any]:
    """Return what answers one of the 24 cases, by who was asked."""
    rows = [{"subject": who, "question": "?", "holds": h} for who, h in holds.items()]
    asks = SimpleNamespace(ask_all=lambda *_, **__: rows)
    return {"models": ["epoll"], "test_cases": asks}


def threads(*counts: int | None) -> dict[str, Any]:
    rows = pd.DataFrame({"threads": counts, "accepted": [2, 3]}, dtype="Int64")
    everything = SimpleNamespace(carried=lambda trials: trials["model"].notna())
    return {"measured": rows.assign(model="winsock-blocking"), "bp": everything}


@pytest.mark.parametrize(
    ("claim", "names", "holds"),
    [
        ("equal-to-itself", itself(0.99, 1.01), True),
        ("equal-to-itself", itself(0.93, 1.08), None),  # wide
        ("equal-to-itself", itself(1.02, 1.08), False),
        ("equal-to-itself", itself(1.01, 1.02), False),
        ("equal-to-itself", itself(NAN, NAN), None),
        ("known-cost", {"share": span(0.8, 1.1)}, True),
        ("known-cost", {"share": span(0.2, 1.9)}, None),
        ("known-cost", {"share": span(1.1, 1.3)}, False),
        ("known-cost", {"share": span(NAN, NAN)}, None),
        ("known-delay", {"delay": span(0.996, 1.007)}, True),
        ("known-delay", {"delay": span(0.5, 1.5)}, None),
        ("known-delay", {"delay": span(1.005, 1.017)}, None),
        ("known-delay", {"delay": span(1.012, 1.017)}, False),
        ("known-delay", {"delay": span(NAN, NAN)}, None),
        ("client-is-pushed", pushed(0.8, 0.9), True),
        ("client-is-pushed", pushed(0.4, 0.8), None),
        ("client-is-pushed", pushed(0.1, 0.2), False),
        ("client-is-pushed", pushed(NAN, NAN), None),
        ("client-is-pushed", pushed(0.8, 0.9, rows=0), None),
        ("mean-counts", delayed(0.18, 0.20), True),
        ("mean-counts", delayed(0.15, 0.20), None),
        ("mean-counts", delayed(0.40, 0.50), False),
        ("mean-counts", delayed(0.18, 0.20, "undetermined"), None),  # client-bound
        ("mean-counts", delayed(NAN, NAN, "undetermined"), None),
        ("best-pool-near", best_pool(True, 0.9), True),
        ("best-pool-near", best_pool(True, 0.7), None),
        ("best-pool-near", best_pool(False, 1.0), None),  # with itself
        ("best-pool-near", best_pool(None), None),
        ("best-pool-near", best_pool(True, 0.9, (64, 128)), None),
        ("best-pool-near", best_pool(True, 0.9, limited=True), None),
        ("sixteen-busy", busy(15.0, 16.0, False, False), True),
        ("sixteen-busy", busy(15.0, 16.0, False), None),
        ("sixteen-busy", busy(15.0, 16.0, False, True), None),
        ("whole-pool-keeps-up", kept_up(0.8, 1.5), True),
        ("whole-pool-keeps-up", kept_up(0.4, 1.5), None),
        ("whole-pool-keeps-up", kept_up(0.8, 1.5, limited=True), None),
        ("follows-mmc", queued(0.95, 1.05), True),
        ("follows-mmc", queued(0.95, 1.05, limited=True), None),
        ("computing-fills-cores", computing(0.97, 0.99), True),
        ("computing-fills-cores", computing(0.97, 0.99, limited=True), None),
        ("computing-fills-cores", computing(0.99, 1.01), None),
        ("computing-fills-cores", computing(1.013, 1.018), False),
        ("loops-gain-little", loops(0.8, 1.05), True),
        ("loops-gain-little", loops(0.8, 1.15), None),
        ("loops-gain-little", loops(1.2, 1.3), False),
        ("loops-gain-little", loops(0.8, 1.05, bound=True), None),
        ("workers-share-evenly", shared(1.04, 1.06), True),
        ("workers-share-evenly", shared(1.04, 1.12), None),
        ("workers-share-evenly", shared(1.2, 1.3), False),
        ("workers-share-evenly", shared(NAN, NAN), None),
        ("kept-workers-starve", starved(0.25), True),
        ("kept-workers-starve", starved(1.0), False),
        ("kept-workers-starve", starved(NAN), None),
        ("kept-workers-starve", starved(1.0, connections=4), None),
        ("none-reversed", given_again(), None),
        ("none-reversed", given_again("same", "weaker"), True),
        ("none-reversed", given_again("same", "reversed"), False),
        ("counts-add-nothing", told([1.0, 2.0], [1.0, 1.0]), True),
        ("counts-add-nothing", told([1.0, 1.0], [1.0, 2.0]), True),  # by chance
        ("counts-add-nothing", told([1.0] * 4, [2.0] * 4), True),
        ("counts-add-nothing", told([1.0] * 5, [2.0] * 5), False),
        ("counts-add-nothing", told([], []), None),
        ("cases-hold", cases(epoll=True, client=True), True),
        ("cases-hold", cases(epoll=True, client=False), True),  # of models
        ("cases-hold", cases(epoll=False, client=True), False),
        ("cases-hold", cases(client=True), None),
        ("two-threads", threads(4, 6), True),
        ("two-threads", threads(4, 5), False),
        ("two-threads", threads(None, None), None),
    ],
)
def test_a_claim_is_told_only_where_it_is_known(claim, names, holds):
    report = said(f'report.claim("{claim}"', **names)
    (found,) = [c.args[1] for c in report.claim.mock_calls if c.args[0] == claim]
    assert (None if found is None else bool(found)) is holds


@pytest.mark.parametrize(
    ("lo", "hi", "holds"),
    [
        (0.9, 1.1, True),
        (0.5, 1.2, None),  # wide
        (0.8, 0.86, False),  # half of them rested
        (NAN, NAN, None),
    ],
)
@pytest.mark.parametrize("rows", [0, 1])
def test_many_wait_as_long_in_turns_only_where_that_is_known(rows, lo, hi, holds):
    waits = pd.DataFrame({"lo": [lo], "hi": [hi]}).head(rows)
    report, cells = Mock(spec=Report), ("cell-33", "cell-35-3")
    names = {"ratio_apart": waits.iloc[:0], "wait_apart": waits}
    rules.execute("00-the-machine", *cells, report=report, **names)
    claims = {c.args[0]: c.args[1] for c in report.claim.mock_calls}
    assert claims == {"many-agree": None, "many-wait": holds if rows else None}


def controlled(*bounds: tuple[float, float] | None) -> str:
    """Return what study 0 answers with these intervals of its four controls."""
    row = {"value": 1.0, "n": 5, "level": 0.95, "method": "t", "way": "one by one"}
    none = row | dict.fromkeys(("value", "lo", "hi"), NAN) | {"n": 0}
    rows = [none if b is None else row | {"lo": b[0], "hi": b[1]} for b in bounds]
    frames = [pd.DataFrame([control]) for control in rows]
    names = dict(zip(("same", "share", "delay", "apart"), frames, strict=True))
    report = Mock(spec=Report)
    rules.execute("00-the-machine", "cell-52", "5b2e9c41", report=report, **names)
    return report.answer.call_args.args[0]


@pytest.mark.parametrize("measured", [*itertools.product([0, 1], repeat=4)])
def test_a_control_that_was_not_measured_has_no_number(measured):
    text = controlled(*[(0.9, 1.1) if m else None for m in measured])
    assert text.count("[0.90, 1.10]") == sum(measured)
    assert ("10 % away" in text) == ("find" in text) == (sum(measured) > 0)
    assert "—" not in text


@pytest.mark.parametrize(
    ("bounds", "said_of", "unsaid"),
    [
        (
            [(0.99, 1.01)] * 3 + [(0.91, 1.06)],
            ["No interval", "9 % away"],
            ["excludes 1 for"],
        ),
        (
            [(0.9, 1.2), (1.01, 1.03), None, None],
            ["interval excludes 1 for a CPU time that was added."],
            ["No interval", "away"],
        ),
        (
            [(0.8, 0.9), (1.1, 1.2), None, None],
            ["intervals exclude 1 for the", " and for a "],
            ["No interval", "away"],
        ),
        ([(NAN, NAN)] * 4, ["no interval"], ["No interval", "exclude"]),
    ],
)
def test_a_control_that_is_off_is_named(bounds, said_of, unsaid):
    text = controlled(*bounds)
    assert all(words in text for words in said_of)
    assert not any(words in text for words in unsaid)


def doubtful(**ways: tuple[int, int, int]) -> dict[str, Any]:
    """Return what study 09 found of 9 ratios: weaker, reversed, other, by analysis."""
    rows = [
        {"way": way, "same": 9 - sum(n), "weaker": n[0], "reversed": n[1]}
        for way, n in ways.items()
    ]
    tally = pd.DataFrame(rows, columns=["way", "same", "weaker", "reversed"])
    drift = pd.DataFrame(columns=["study", "p", "value", "lo", "hi", "n"])
    names = {"tally": tally, "again": pd.DataFrame({"kind": ["same"] * len(ways)})}
    names |= {"examined": 9, "printed": 12, "drift": drift}
    return names | {"hidden": pd.DataFrame()}


STEADY = {"a": (0, 0, 0), "b": (0, 0, 0)}
OFTEN = "9 of 12 printed ratios could be analysed again."


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ({}, "This run has no other study that could be analysed again."),
        (STEADY, f"{OFTEN} No other analysis changes a verdict."),
        (
            {"a": (0, 0, 0), "b": (2, 0, 0), "c": (7, 0, 0), "d": (0, 0, 0)},
            f"{OFTEN} C, 7 of 9 verdicts fall to undetermined; b, 2 do. None is "
            "reversed. 2 other analyses change no verdict.",
        ),
        (
            {"a": (1, 0, 0), "b": (1, 3, 0), "c": (0, 1, 0), "d": (0, 0, 1)},
            f"{OFTEN} A, 1 of 9 verdicts falls to undetermined; b, 1 does. B, 3 of 9 "
            "verdicts turn into the opposite; c, 1 does.",
        ),
        (
            {"a": (0, 0, 2), "b": (0, 0, 0)},
            f"{OFTEN} None is reversed. 1 other analysis changes no verdict.",
        ),
    ],
)
def test_an_answer_tells_what_each_other_analysis_changes(ways, expected):
    assert answered("09-doubts", **doubtful(**ways)) == expected


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ([], ""),
        ([0.2], "No drift is shown in the 1 study tested."),
        ([0.2, NAN], "No drift is shown in the 2 studies tested."),
        ([0.01, 0.2], "A drift is shown in s0."),
        ([0.01, 0.02], "A drift is shown in s0 and s1."),
    ],
)
def test_a_drift_that_is_not_shown_is_not_denied(ps, expected):
    rows = [
        {"study": f"s{i}", "p": p, "value": -3.0 - i, "lo": -9.0, "hi": 2.0, "n": 9}
        for i, p in enumerate(ps)
    ]
    of = {"level": 0.95, "method": "Theil and Sen"}
    names = doubtful(**STEADY)
    names["drift"] = pd.DataFrame(rows, columns=[*names["drift"]]).assign(**of)
    text = answered("09-doubts", **names)
    assert f"{expected} The largest" in text if ps else "drift" not in text
    assert (f"(s{len(ps) - 1})" in text) == (len(ps) > 0)
    assert ("\u2212" in text) == (len(ps) > 0)


def test_the_worst_coverage_is_told_of_all_shapes_of_trials():
    """Not of those alone that the interval is made for."""
    shares = {"normal, CV 10 %": 0.94, "one in ten slower by half": 0.79}
    rows = [span(x - 0.01, x + 0.01, value=x, curve=c) for c, x in shares.items()]
    single = pd.concat(rows, ignore_index=True).assign(sample=10)
    normal = single.head(1)
    stopping = normal.assign(first=4, curve="CV 20 %")
    names = {"single": single, "normal": normal, "stopping": stopping}
    text = answered("10-intervals", **names)
    assert "94.0 % [93.0, 95.0] hold the truth (10 trials)" in text
    assert "79.0 % [78.0, 80.0] (10 trials, one in ten slower by half)" in text
    assert text.endswith("(from 4 trials, coefficient of variation 20 %).")


@pytest.mark.parametrize("stalls", [0, 1])
def test_a_clock_that_hides_a_stall_is_told_where_one_was_measured(stalls):
    row = {"value": 0.5, "lo": 0.4, "hi": 0.6, "n": 5, "level": 0.95, "method": "t"}
    names = doubtful(**STEADY) | {"hidden": pd.DataFrame([row] * stalls)}
    assert answered("09-doubts", **names).count("[0.40, 0.60]") == stalls


def pairs(against: str) -> pd.DataFrame:
    """Return a ratio of each kind that claims ask for, at each of their levels."""
    models = "thread thread-pair select poll uring fork python-asyncio libuv"
    levels = {
        "model": models.split(),
        "connections": [50, 100, 1000],
        "active": [1, 50, 100, 1000],
        "load": [0.5, 0.7],
        "work": ["echo", "spin"],
    }
    frame = crossed(**levels)
    return frame.assign(against=against, verdict="higher", key=frame.index)


COMPARED = {
    "01-response-time": ["cell-15", "cell-28", "cell-29", "cell-30"],
    "04-guestbook": ["cell-22", "cell-23"],
    "05-bulk": ["cell-13", "cell-20", "cell-21"],
    "06-idle": ["cell-14", "cell-15", "cell-16", "cell-63", "cell-64"],
    "07-uring": ["cell-12", "cell-17"],
    "11-load": ["cell-17", "cell-20"],
    "12-why": ["cell-10", "cell-11", "cell-12"],
    "13-runtimes": ["cell-14", "cell-15"],
}


@pytest.mark.parametrize("baseline", ["epoll", "stackless"])
@pytest.mark.parametrize("name", COMPARED)
def test_a_claim_about_epoll_is_not_checked_against_another_baseline(name, baseline):
    report, made = Mock(spec=Report), pairs(baseline)
    report.ratios.side_effect = lambda frame, *_: frame
    unused = "unlimited in_gib rate within tail of throughput where spent"
    names = dict.fromkeys(unused.split(), "any") | {"figures": Mock()}
    for frame in ("measured", "shares", "together", "under", "opened", "costs"):
        names[frame] = made
    names |= {"pairs": made, "ratios": lambda *_, **__: made.copy(), "at": 50}
    names["share"] = ["model", "connections", "active"]
    rules.execute(name, *COMPARED[name], report=report, baseline=baseline, **names)
    checked = [c.args[1] for c in report.claim.mock_calls]
    assert checked
    assert all((len(rows) > 0) == (baseline == "epoll") for rows in checked)


@pytest.mark.parametrize(("fewest", "known"), [(1, True), (2, False)])
def test_what_four_workers_bring_is_told_against_one(fewest, known):
    report = Mock(spec=Report)
    rows = [pair(model=m, workers=4, against=fewest) for m in ("pool", "x")]
    growth = pd.DataFrame(rows)
    report.ratios.return_value = growth
    names = dict.fromkeys(["turns", "spent"]) | {"ratios": Mock(), "figures": Mock()}
    throughput = growth.assign(bound=False)
    names |= {"growth": growth, "throughput": throughput, "kept": ["pool"]}
    names |= {"fewest": fewest, "itself": "", "measured": throughput}
    told = ["cell-12", "cell-13", "cell-13-1"]
    rules.execute("08-cores", *told, report=report, **names)
    claims = {c.args[0]: c.args[1] for c in report.claim.mock_calls}
    for name in ("kept-workers-gain", "workers-dearer"):
        assert (len(claims[name]) > 0) == known
    assert (claims["loops-gain-little"] is not None) == known


def test_who_keeps_a_worker_for_a_client_is_no_event_loop():
    """With all models, preforked processes were taken for loops that gain a lot."""
    kinds = {"prefork": "workers", "pool": "workers", "epoll-pool": "descriptors"}
    models = [
        SimpleNamespace(name=name, holds=holds, available=True, workers="fixed")
        for name, holds in kinds.items()
    ]
    drive = Mock(models=lambda _: models)
    kept = rules.execute("08-cores", "cell-04", drive=drive)["kept"]
    loop = pair(model="epoll-pool", workers=4, against=1, lo=0.9, hi=1.05)
    growth = pd.DataFrame([loop, loop | {"model": "prefork", "lo": 3.5, "hi": 4.5}])
    report = said(
        'report.claim("loops-gain-little"',
        growth=growth,
        throughput=growth.assign(bound=False),
        kept=kept,
    )
    assert bool(report.claim.call_args.args[1])


def runtimes(
    *verdicts: str, level: int = 50, large: Sequence[str] = ()
) -> dict[str, Any]:
    """Return ratios of runtimes, and those that spend much between their turns."""
    rows = [
        pair(v, model=str(i), connections=level, value=2.0 + i)
        for i, v in enumerate(verdicts)
    ]
    names = {"at": 50, "names": {"0": "a", "1": "b", "2": "c"}}
    names["own"] = pd.DataFrame(rows)
    share = {"value": 40.0, "lo": 30.0, "hi": 50.0}
    apart = [pair(metric="rest_cpu_share", model=m) | share for m in large]
    return names | {"large": pd.DataFrame(apart, columns=list(pair(model="")))}


def cheaper(*verdicts: str) -> dict[str, Any]:
    """Return what io_uring costs at 1, 2, … connections."""
    rows = [
        pair(verdict, model="uring", connections=n)
        for n, verdict in enumerate(verdicts or ("higher",), 1)
    ]
    return {"costs": pd.DataFrame(rows), "baseline": "epoll"}


def uring(baseline: str) -> dict[str, Any]:
    costs = pd.DataFrame([pair(model="epoll", against=baseline)])
    return {"costs": costs, "baseline": baseline}


def hosts(*ratios: list[float], stand_in: bool = False, **given: Any) -> dict[str, Any]:
    """Return the ratios of other models to epoll, of each in both places.

    Of epoll itself trials are usable where it is `known`: everywhere by default.
    """
    there = given.get("there", ["loopback", "2 hosts"])
    rows = [
        pair(arm=arm, model=str(i), value=x, lo=x - 0.02, hi=x + 0.02)
        for i, of in enumerate(ratios)
        for arm, x in zip(there, of, strict=False)
    ]
    far = [pair(arm=there[-1])] if ratios else []
    environments = {"x": {}, "y": {"stand_in": stand_in}}
    names = {"load_manifest": lambda *_, **__: {"environments": environments}}
    columns = list(pair(arm="", model=""))
    names["pairs"] = pd.DataFrame(rows, columns=columns)
    costs = [pair(arm=arm, model="epoll") for arm in given.get("known", there)]
    names["cost"] = pd.DataFrame(costs, columns=columns)
    names |= {"there": there, "first": there[0], "names": {"0": "poll", "1": "thread"}}
    return names | {"own": pd.DataFrame(far, columns=list(pair(arm="")))}


def explained(
    told: list[bool],
    alone: list[bool],
    *,
    of_kind: list[bool] | None = None,
    sampled: int = 1,
    counted: int = 0,
) -> dict[str, Any]:
    hits = dict.fromkeys(["from_models", "from_kinds", "from_loads"], told)
    hits |= {"of_kind": told if of_kind is None else of_kind, "foretold": alone}
    hits = {way: pd.Series(x, dtype=bool) for way, x in hits.items()}
    most = pd.DataFrame([pair(metric="cpu_share", value=60.0)])
    names = {"hits": hits, "most": most, "baseline": "poll"}  # epoll was sampled
    names |= {"threads": most, "loop": most.head(sampled), "counts": told[:counted]}
    return rules.execute("12-why", "cell-24", **names)


def workers(
    verdicts: dict[int, str],
    kept: Sequence[str] = (),
    few: str = "",
    **others: tuple[str, float],
) -> dict[str, Any]:
    """Return ratios of epoll to one worker, and of others with four of them."""
    rows = [pair(v, model="epoll", workers=n) for n, v in verdicts.items()]
    for model, (verdict, x) in others.items():
        of = {"model": model, "workers": 4, "value": x, "lo": x - 0.1, "hi": x + 0.1}
        rows.append(pair(verdict, **of))
    called = {model: model.upper() for model in [*others, "epoll"]}
    growth = without_bounds(pd.DataFrame(rows), few)
    names = {"growth": growth, "most": max(verdicts), "fewest": 1}
    names |= {"names": called, "with_bound": lambda row, text: text, "kept": kept}
    return names | {"measured": pd.DataFrame({"server_cores": [1]})}


def pools(*sizes: int) -> dict[str, Any]:
    rows = [pair("lower", server=f"pool of {n}") for n in sizes]
    kept = pair(metric="busy_workers", server="published pool of 512")
    del kept["against"]
    names = {"at_many": pd.DataFrame(rows, columns=list(pair(server="")))}
    return names | {"workers": pd.DataFrame([kept]), "many": 1024}


def idle(fewest: Any, *most: int) -> dict[str, Any]:
    rows = [pair(model="pool", idle=n, against=0) for n in most]
    growth = pd.DataFrame(rows, columns=list(pair(model="", idle=0)))
    names = {"growth": growth, "fewest": fewest, "measured": None}
    return names | {"figures": Mock(labels=lambda _: {"pool": "a pool"})}


def windows(
    *levels: int, verdicts: Sequence[str] = ("higher",), broke: Sequence[float] = (NAN,)
) -> dict[str, Any]:
    """Return what is told of models at 50 and 900 idle connections."""
    growth = [
        pair(word, value=v, idle=n, model=f"winsock-{i}", against=0)
        for i, word in enumerate(verdicts)
        for n, v in ((50, 8), (900, 3 - i))
    ]
    names = {"growth": pd.DataFrame(growth), "idle": levels, "six": ["x"]}
    found = pd.DataFrame({"broke": broke}).assign(carried=64.0)
    found["model"] = [f"winsock-{i}" for i in found.index]
    names |= {"ends": pd.DataFrame({"connections": [7000]}), "winsock": Mock()}
    names["winsock"].system.return_value = "Wine"
    called = {f"winsock-{i}": "abc"[i] for i in range(3)}
    return names | {"names": called, "found": found}


def waited(
    *verdicts: str,
    own: int = 1,
    late: tuple[str, ...] = (),
    few: str = "",
    limited: str = "",
    most: int = 1000,
) -> dict[str, Any]:
    """Return how long users of a, b, … wait; those of epoll with so many at `most`."""
    cell = {"work": "spin", "connections": 1000, "load": 0.7}
    p99 = cell | {"metric": "slice_p99_s"}
    fewer = pair("higher", model="a", **p99 | {"connections": 50})
    rows = [
        pair(verdict, model="abc"[k], value=2.0 + k, **p99)
        for k, verdict in enumerate(verdicts)
    ]
    mine = pair(model="epoll", **p99 | {"connections": most})
    del mine["against"]
    opened = pd.DataFrame([mine, *rows]).assign(overloaded=False)
    full = pd.DataFrame([cell | {"model": model} for model in late])
    names = {
        "works": ["spin", "echo"],
        "connections": [50, 1000],
        "level": 0.7,
        "each": "50 µs",
        "tail": "slice_p99_s",
        "names": {m: m.upper() for m in "abc"},
        "drawn": pd.DataFrame([mine]).head(own),
        "p99": without_bounds(open_but(pd.DataFrame([*rows, fewer]), limited), few),
        "opened": pd.concat([opened, full.assign(overloaded=True)]),
    }
    return rules.execute("11-load", "cell-35", "3c1d0e7f", **names)


def guestbook(
    *verdicts: str, level: int = 1000, own: int = 1, few: str = "", limited: str = ""
) -> dict[str, Any]:
    """Return pages of a, b, … over those of epoll; more models have 20 clients."""
    rows = [
        pair(verdict, model=model, value=2.0 + k, connections=clients)
        for clients in (20, level)
        for k, (model, verdict) in enumerate(zip("abc", verdicts, strict=False))
    ]
    whose = ((level, "e"), (20, "e"), (20, "f"))
    mine = [pair(model=m, connections=n) for n, m in whose]
    pairs = pd.DataFrame(rows, columns=list(pair(model="", connections=0)))
    names = {
        "pages": pd.DataFrame(mine).drop(columns="against").head(3 * own),
        "pairs": without_bounds(open_but(pairs, limited), few),
        "names": {m: m.upper() for m in "abcef"},
    }
    return rules.execute("04-guestbook", "cell-35", "e1f70b93", **names)


YES, NO, OPEN = "higher", "lower", "undetermined"


@pytest.mark.parametrize(
    ("of", "names", "expected"),
    [
        ("13-runtimes", runtimes(OPEN, OPEN), {"None of": True}),
        ("13-runtimes", runtimes(YES, OPEN), {"is shown": True}),
        ("13-runtimes", runtimes(YES, YES), {"are shown": True}),
        ("13-runtimes", runtimes(YES, YES), {"With 50 connections": True}),
        ("13-runtimes", runtimes(YES, level=9), {"With 9 connections": True}),
        ("13-runtimes", runtimes(YES, YES), {"leaves out those": False}),
        (
            "13-runtimes",
            runtimes(YES, YES, YES, large=["1", "2"]),
            {
                " times (a) the CPU time of the nearest model in C. This range": True,
                "leaves out those that work between their turns: b (40\u202f% ": True,
                " and c (40\u202f% ": True,
                "of 3 runtimes": True,
            },
        ),
        ("13-runtimes", runtimes(YES, level=9, large=["0"]), {"leaves out": False}),
        ("13-runtimes", runtimes(YES, level=9, large=["0"]), {"not count": False}),
        # where no other is known it is told all the same
        ("13-runtimes", runtimes(YES, large=["0"]), {"does not count what they": True}),
        ("14-hosts", hosts(), {"not measured": True, "epoll": False}),
        ("14-hosts", hosts(there=["1 host"], known=[]), {"was not measured.": True}),
        (
            "14-hosts",
            hosts(known=["2 hosts"]),
            {"epoll is not known: it has no usable trial at full load over loop": True},
        ),
        (
            "14-hosts",
            hosts(known=[], stand_in=True),
            {"trial at full load over loopback and in 2 network namespaces.": True},
        ),
        ("14-hosts", hosts([1.0, 1.0]), {"on 2 hosts": True, "over loopback.": True}),
        ("14-hosts", hosts([1.0, 1.0]), {"poll stays within ±5\u202f% of": True}),
        ("14-hosts", hosts([1.0, 1.0], [0.98, 1.02]), {"poll and thread stay": True}),
        ("14-hosts", hosts([1.0, 1.2]), {"stay": False, "costs poll 1.00": True}),
        (
            "14-hosts",
            hosts([1.0, 1.0], [1.6, 1.5], stand_in=True),
            {
                "clients in 2 network namespaces,": True,
                " hosts": False,
                " It costs thread 1.60 [1.58, 1.62] times as much as epoll over "
                "loopback and 1.50 [1.48, 1.52] times in 2 network namespaces.": True,
                "poll stays": True,
            },
        ),
        (
            "14-hosts",
            hosts([1.0, 1.6], there=["1 host", "2 hosts"]),
            {"costs on 1 host.": True, "as epoll on 1 host and": True},
        ),
        # known in one place alone, or without an interval
        (
            "14-hosts",
            hosts([1.6]),
            {"on 2 hosts": True, "loopback.": True, " poll": False},
        ),
        (
            "14-hosts",
            hosts([1.6, NAN]),
            {"on 2 hosts": True, "loopback.": True, " poll": False},
        ),
        ("07-uring", uring("uring"), {"not compared with uring": True}),
        (
            "07-uring",
            cheaper(),
            {
                "is not shown to be cheaper: for a request it needs 2.00 [1.90, 2.10] "
                "times the CPU time of epoll at 1 connection.": True
            },
        ),
        (
            "07-uring",
            cheaper(YES, NO, OPEN, NO),
            {
                "is shown to be cheaper at 2 and 4 connections: for a request it needs "
                "2.00 [1.90, 2.10] times the CPU time of epoll at 1 connection, 2.00 "
                "[1.90, 2.10] times at 2 connections, 2.00": True
            },
        ),
        ("12-why", explained([], []), {"Nothing": True, "mean": False}),
        (
            "12-why",
            explained([False], [], of_kind=[], counted=1),
            {"Too few servers were counted and timed": True, "Nothing": False},
        ),
        ("12-why", explained([], []), {"epoll spends 60": True}),
        ("12-why", explained([], []), {"thread per connection spends 60": True}),
        ("12-why", explained([], [], sampled=0), {"scheduler": False}),
        (
            "12-why",
            explained([True, False], [True]),
            {
                "not shown to predict": True,
                "in 1 of 2 cells, the mean in 1.": True,
                "one by": False,
            },
        ),
        (
            "12-why",
            explained([True, True], [], of_kind=[True, False]),
            {"not shown to predict": True, "in 2 of 2 cells, the mean in 1.": True},
        ),
        (
            "12-why",
            explained([True] * 5, [], of_kind=[False] * 5),
            {"switches predict": True, "in 5 of 5 cells, the mean in 0.": True},
        ),
        (
            "12-why",
            explained([False], [], of_kind=[True]),
            {"not shown to predict": True, "in 0 of 1 cell, the mean in 1.": True},
        ),
        (
            "12-why",
            explained([], [True]),
            {"one by one predict": True, "in 1 of 1 cell.": True, "mean": False},
        ),
        ("08-cores", workers({2: YES}), {"throughput is ": True, "is shown": False}),
        (
            "08-cores",
            workers({2: NO, 4: YES}),
            {"throughput is ": True, "is shown": False},
        ),
        (
            "08-cores",
            workers({4: NO}, a=(OPEN, 1.05), b=("alike", 1.0), c=(OPEN, 0.8)),
            {
                "With 4 workers in place of 1 on 1 core, throughput is 2.00": True,
                "times (EPOLL) as high; the rates are alike for B (1.00": True,
                "; no difference is shown for A (1.05": True,
                "; the client was the limit for C (0.80": True,
                "Models": False,
            },
        ),
        (
            "08-cores",
            workers({2: YES, 4: NO}, ["a"], a=(YES, 4.0)),
            {
                "on 1 core, throughput is 2.00 [1.90, 2.10] times (EPOLL) as high. "
                "Models that keep a worker for each client serve more clients at once: "
                "throughput is 4.00 [3.90, 4.10] times (A) as high.": True
            },
        ),
        (
            "08-cores",
            workers({2: YES, 4: YES}, ["a", "epoll"], a=(YES, 4.0)),
            {
                "on 1 core, models that keep": True,
                " 4.00 [3.90, 4.10] times (A)": True,
            },
        ),
        (
            "08-cores",
            workers({4: NO}, few="b", a=(OPEN, 1.05), b=(OPEN, 0.8)),
            {
                "no difference is shown for A (1.05": True,
                "; too few trials give an interval for B (0.80 times the thr": True,
            },
        ),
        (  # names hold commas, so each number stands beside its own
            "08-cores",
            workers({4: OPEN}, a=(OPEN, 1.05), b=(OPEN, 1.06)),
            {"for A (1.05 [0.95, 1.15] times the throughput) and B (1.06 [": True},
        ),
        (  # one that shows no gain is told with the others
            "08-cores",
            workers({2: YES, 4: NO}, ["a"], a=(OPEN, 1.05)),
            {"no difference is shown for A (1.05": True, "Models": False},
        ),
        ("03-pools", pools(), {"No pool": True}),
        ("03-pools", pools(16), {"No pool": False}),
        ("03-pools", pools(16, 512), {"No pool": False}),
        ("06-idle", idle(0, 900), {"With 900 idle connections": True}),
        ("06-idle", idle(0, 900), {"without them": True}),
        ("06-idle", idle(0, 1), {"With 1 idle connection ": True}),
        ("06-idle", idle(50, 900), {"costs with 50.": True, "without them": False}),
        ("06-idle", idle(pd.NA), {"No model": True, "without them": False}),
        ("11-load", waited(own=0), {"not measured": True, "They take": False}),
        ("11-load", waited(), {"With 1000 connections": True, "They take": False}),
        (
            "11-load",
            waited(NO, most=50),
            {
                "With 50 connections whose": True,
                "They take 2.00 [1.90, 2.10] times as long with A.": True,
                "1000": False,
            },
        ),
        (
            "11-load",
            waited(YES, NO),
            {
                "2.00 s [1.90, 2.10] in the median turn.": True,
                "They take 3.00 [1.90, 2.10] times as long with B and 2.0": True,
                "No difference": False,
                "Alike": False,
                "Overloaded": False,
            },
        ),
        ("11-load", waited(OPEN), {"shown for A (2.0": True, "They take": False}),
        ("11-load", waited("alike", OPEN), {"±5 %: A (": True, "for B (": True}),
        (
            "11-load",
            waited(OPEN, OPEN, few="b"),
            {
                "shown for A (2.0": True,
                " Too few trials for an interval: B (3.0).": True,
            },
        ),
        (
            "11-load",
            waited(OPEN, OPEN, limited="b"),
            {
                "shown for A (2.0": True,
                " The client was the limit for B (3.00 [1.90, 2.10]).": True,
                "A and B": False,
            },
        ),
        ("11-load", waited(YES, late=("c", "b")), {"there: C and B.": True}),
        ("04-guestbook", guestbook(own=0), {"No model served": True, "It": False}),
        ("04-guestbook", guestbook(), {"With 20 clients E serves": True, "It": False}),
        (
            "04-guestbook",
            guestbook(NO, YES),
            {
                "It does: with 1000 clients, pages": True,
                "are 2.00 [1.90, 2.10] (A) and 3.0": True,
                "(B) times those of epoll.": True,
                "No ": False,
                "Alike": False,
            },
        ),
        ("04-guestbook", guestbook(NO, level=300), {"does: with 20 clients": True}),
        (
            "04-guestbook",
            guestbook(OPEN, "alike"),
            {
                "no model is shown to differ from epoll. Alike within ±5 %: B": True,
                "No difference is shown for A (2.0": True,
                "It does": False,
            },
        ),
        (
            "04-guestbook",
            guestbook(OPEN, OPEN, few="a"),
            {
                "shown for B (3.0": True,
                " Too few trials for an interval: A (2.0).": True,
            },
        ),
        (
            "04-guestbook",
            guestbook(OPEN, OPEN, limited="a"),
            {
                "shown for B (3.0": True,
                " The client was the limit for A (2.00 [1.90, 2.10]).": True,
                "A and B": False,
            },
        ),
        ("15-winsock", windows(0, 900), {"costs without any.": True}),
        ("15-winsock", windows(7, 900), {"costs with 7.": True, "a 3.00": True}),
        ("15-winsock", windows(0, 900), {"Under Wine, 1 of 1 model carried": True}),
        (
            "15-winsock",
            windows(0, 900, verdicts=[YES, YES, OPEN], broke=[NAN, 1000, 65]),
            {
                "1 of 3 models carried 7000 connections, the most tried; b broke "
                "between 64 and 1000 and c broke at 65. With 900 idle connections a "
                "request costs a 3.00 [1.90, 2.10] times and b 2.00 [1.90, 2.10] times "
                "the CPU time that it costs without any; for the other no increase is "
                "shown.": True
            },
        ),
        (
            "15-winsock",
            windows(7, 900, verdicts=[OPEN, NO], broke=[1000]),
            {
                "none of 1 model carried 7000 connections, the most tried; a broke "
                "between 64 and 1000. With 900 idle connections no model is shown to "
                "pay more for a request than with 7.": True
            },
        ),
        (
            "15-winsock",
            windows(0, 900, verdicts=[YES, NO, OPEN]),
            {"without any; for the others no increase is shown.": True},
        ),
    ],
)
def test_an_answer_says_what_is_known_and_no_more(of, names, expected):
    text = answered(of, **names)
    assert {words: words in text for words in expected} == expected


@pytest.mark.parametrize(
    ("bounds", "note"),
    [
        ([None, None], None),
        (
            ["at least", None],
            "so this ratio of throughput is a bound: A at 1 connection",
        ),
        (["at least", "at most"], "so these ratios of throughput are bounds: A at 1 "),
    ],
)
def test_ratios_that_are_bounds_are_named(bounds, note):
    rows = [pair(model=m, connections=n) for m, n in (("a", 1), ("b", 50))]
    rates = pd.DataFrame(rows).assign(bound=bounds)
    figures = Mock(names=lambda _: {"a": "A", "b": "B"})
    about = {"rates": rates, "measured": None, "figures": figures}
    report = said('report.figure("uring-rps-ratios"', **about)
    told = [call.args[0] for call in report.note.mock_calls]
    assert [note in text for text in told] == [True] * bool(note)
    assert all("A at 1 connection (at least 2.00" in text for text in told)
