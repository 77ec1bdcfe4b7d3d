"""What notebooks 00 and 09 say of little: nothing that is not known is yes or no."""

import math
from typing import Any
from unittest.mock import Mock

import notebook_rules as rules
import numpy as np
import pandas as pd
import pytest

from connlab.report import Report, number
from connlab.schema import CLIENT_QUEUE
from connlab.studies import bounds
from connlab.study import formatting
from connlab.study.interval import Interval
from connlab.study.turns import MARGIN

NAN = math.nan


def said(notebook: str, mark: str, **names: Any) -> Mock:
    """Run the one cell that holds a mark, with what earlier cells have named."""
    (cell,) = [code for code in rules.code(notebook).values() if mark in code]
    report = Mock(spec=Report)
    exec(cell, {"report": report, "np": np, "pd": pd, "number": number, **names})
    return report


def claimed(notebook: str, name: str, **names: Any) -> bool | None:
    """Return whether a notebook's claim holds."""
    report = said(notebook, f'"{name}"', **names)
    (holds,) = [c.args[1] for c in report.claim.mock_calls if c.args[0] == name]
    return None if holds is None else bool(holds)


def answered(notebook: str, **names: Any) -> str:
    """Return a notebook's answer."""
    return said(notebook, "report.answer(", **names).answer.call_args.args[0]


@pytest.mark.parametrize(
    ("lo", "hi", "holds"),
    [
        (0.99, 1.01, True),
        (0.93, 1.08, None),  # wide
        (1.02, 1.08, False),
        (1.01, 1.02, False),
        (NAN, NAN, None),
    ],
)
def test_a_server_equals_itself_only_where_that_is_known(lo, hi, holds):
    itself = pd.DataFrame({"metric": "throughput_rps", "lo": [lo], "hi": [hi]})
    names = {"itself": itself, "MARGIN": MARGIN}
    assert claimed("00-the-machine", "equal-to-itself", **names) is holds


@pytest.mark.parametrize(
    ("lo", "hi", "holds"),
    [(0.8, 1.1, True), (0.2, 1.9, None), (1.1, 1.3, False), (NAN, NAN, None)],
)
def test_a_cost_is_found_again_only_where_that_is_known(lo, hi, holds):
    share = pd.DataFrame({"lo": [lo], "hi": [hi]})
    assert claimed("00-the-machine", "known-cost", share=share) is holds


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
    names = {"MARGIN": MARGIN, "ratio_apart": waits.iloc[:0], "wait_apart": waits}
    rules.execute("00-the-machine", *cells, report=report, **names)
    claims = {c.args[0]: c.args[1] for c in report.claim.mock_calls}
    assert claims == {"many-agree": None, "many-wait": holds if rows else None}


@pytest.mark.parametrize(
    ("values", "holds"), [([0.9], True), ([0.1], False), ([NAN], None), ([], None)]
)
def test_a_client_is_pushed_only_where_that_was_measured(values, holds):
    names = {"waiting": pd.DataFrame({"value": values}), "CLIENT_QUEUE": CLIENT_QUEUE}
    assert claimed("00-the-machine", "client-is-pushed", **names) is holds


@pytest.mark.parametrize("controls", [0, 1])
@pytest.mark.parametrize("delays", [0, 1])
def test_a_control_that_was_not_measured_has_no_number(controls, delays):
    row = {"value": 1.0, "lo": 0.9, "hi": 1.1, "n": 5, "level": 0.95, "method": "t"}
    same = pd.DataFrame([{"metric": "throughput_rps", "against": "A", **row}])
    none = row | dict.fromkeys(("value", "lo", "hi"), NAN) | {"n": 0}
    delay = pd.DataFrame([row if delays else none])
    again = Interval(**delay.iloc[0])
    names = {"same": same.head(controls), "delay": delay, "again": again}
    text = answered("00-the-machine", **names)
    assert text.count("[0.90, 1.10]") == controls + delays
    assert "—" not in text


KINDS = [([], None), (["same", "weaker"], True), (["same", "reversed"], False)]


@pytest.mark.parametrize(("kinds", "holds"), KINDS)
def test_a_verdict_that_nobody_gave_again_is_not_reversed_nor_kept(kinds, holds):
    names = {"again": pd.DataFrame({"kind": kinds}), "others": [], "ways": {"one": 1}}
    assert claimed("09-doubts", "none-reversed", **names) is holds


@pytest.mark.parametrize(("kinds", "holds"), KINDS)
@pytest.mark.parametrize("stalls", [0, 1])
def test_an_answer_counts_what_was_examined(kinds, holds, stalls):
    row = {"value": 0.5, "lo": 0.4, "hi": 0.6, "n": 5, "level": 0.95, "method": "t"}
    names = {
        "again": pd.DataFrame({"kind": kinds}),
        "drift": pd.DataFrame({"p": [0.01, 0.2, NAN] if kinds else []}),
        "hidden": pd.DataFrame([row] * stalls),
        "examined": len(kinds) // 2,
        "printed": 7,
        "ways": {"one": 1, "another": 2},
    }
    text = answered("09-doubts", **names)
    assert ("1 of 7" in text, "1 of 3" in text) == (bool(kinds), bool(kinds))
    assert ("1 is" in text) is (holds is False)
    assert text.count("[0.40, 0.60]") == stalls


def pairs(against: str) -> pd.DataFrame:
    """Return a ratio of each kind that claims ask for, at each of their levels."""
    models = ["thread", "thread-pair", "select", "poll", "uring", "fork"]
    levels = {
        "model": [*models, "python-asyncio", "libuv"],
        "connections": [50, 100, 1000],
        "active": [1, 50, 100, 1000],
        "load": [0.5, 0.7],
        "work": ["echo", "spin"],
    }
    frame = pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(False)
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
    unused = ("unlimited", "in_gib", "rate", "within", "tail", "of", "throughput")
    unused += ("where",)
    names = dict.fromkeys([*unused, "spent"], "any") | {"figures": Mock()}
    for frame in ("measured", "shares", "together", "under", "opened", "costs"):
        names[frame] = made
    rules.execute(
        name,
        *COMPARED[name],
        report=report,
        ratios=lambda *_, **__: made.copy(),
        pairs=made,
        baseline=baseline,
        share=["model", "connections", "active"],
        idle=[0, 900],
        active=100,
        at=50,
        pd=pd,
        **names,
    )
    checked = [c.args[1] for c in report.claim.mock_calls]
    assert checked
    assert all((len(rows) > 0) == (baseline == "epoll") for rows in checked)


GROWN = {"model": "pool", "value": 2.0, "lo": 1.9, "hi": 2.1, "verdict": "higher"}


@pytest.mark.parametrize(("fewest", "known"), [(1, True), (2, False)])
def test_what_four_workers_bring_is_told_against_one(fewest, known):
    report = Mock(spec=Report)
    rows = [
        GROWN | {"model": m, "workers": 4, "against": fewest} for m in ("pool", "x")
    ]
    growth = pd.DataFrame(rows)
    report.ratios.return_value = growth
    names = dict.fromkeys(["turns", "spent"]) | {"ratios": Mock(), "figures": Mock()}
    throughput = growth.assign(bound=False)
    names |= {"growth": growth, "throughput": throughput, "kept": ["pool"]}
    names |= {"fewest": fewest, "names": {}, "bounds": bounds}
    told = ["cell-12", "cell-13", "cell-13-1"]
    rules.execute("08-cores", *told, report=report, **names)
    claims = {c.args[0]: c.args[1] for c in report.claim.mock_calls}
    assert [len(claims[n]) > 0 for n in ("kept-workers-gain", "workers-dearer")] == [
        known,
        known,
    ]
    assert (claims["loops-gain-little"] is not None) == known


@pytest.mark.parametrize(("value", "holds"), [(1.05, True), (1.2, False), (NAN, None)])
def test_workers_share_evenly_only_where_that_was_measured(value, holds):
    balance = pd.DataFrame({"workers": [4], "value": [value]})
    assert claimed("08-cores", "workers-share-evenly", balance=balance) is holds


@pytest.mark.parametrize(
    ("value", "connections", "holds"),
    [(0.25, 16, True), (1.0, 16, False), (NAN, 16, None), (1.0, 4, None)],
)
def test_clients_starve_only_where_they_are_more_than_workers(
    value, connections, holds
):
    fairness = pd.DataFrame({"model": ["pool"], "value": [value]})
    names = {"fairness": fairness, "kept": ["pool"], "crowd": 4}
    names["connections"] = connections
    assert claimed("08-cores", "kept-workers-starve", **names) is holds


@pytest.mark.parametrize(
    ("fewest", "most", "text"),
    [
        (0, 900, "With 900 idle connections"),
        (0, 1, "With 1 idle connection "),
        (50, 900, "that it costs with 50."),
        (pd.NA, None, "No model"),
    ],
)
def test_idle_connections_are_compared_with_the_fewest(fewest, most, text):
    row = GROWN | {"idle": most, "n": 5, "level": 0.95, "method": "t", "against": 0}
    growth = pd.DataFrame([row | {"metric": "server_cpu_per_request_s"}])
    names = {"growth": growth.dropna(), "fewest": fewest, "measured": None}
    names |= {"figures": Mock(labels=lambda _: {"pool": "a pool"})}
    said_ = answered("06-idle", formatting=formatting, **names)
    assert text in said_
    assert ("without them" in said_) == (most is not None and fewest == 0)


def test_the_time_on_sending_is_of_the_server_that_was_sampled():
    row = {"value": 60.0, "lo": 58.0, "hi": 62.0, "n": 4, "level": 0.95, "method": "t"}
    none = pd.Series([], dtype=bool)
    hits = dict.fromkeys(("from_models", "foretold", "of_kind"), none)
    names = {"most": pd.DataFrame([row | {"metric": "cpu_share"}]), "hits": hits}
    text = answered("12-why", baseline="poll", **names)
    assert "epoll spends 60" in text


@pytest.mark.parametrize(
    ("idle", "text"), [([0, 900], "without any"), ([7, 900], "costs with 7 ")]
)
def test_windows_models_are_compared_at_the_most_idle_connections(idle, text):
    row = {"lo": 1.0, "hi": 9.0, "n": 5, "level": 0.95, "method": "t", "against": 0}
    row |= {"model": "winsock-select", "metric": "server_cpu_per_request_s"}
    growth = pd.DataFrame(
        [row | {"idle": n, "value": v} for n, v in ((50, 8), (900, 3))]
    )
    names = {"growth": growth, "idle": idle, "names": {"winsock-select": "select"}}
    names |= {"found": pd.DataFrame({"model": ["iocp"], "broke": [NAN]}), "six": ["x"]}
    names |= {"ends": pd.DataFrame({"connections": [63]}), "winsock": Mock()}
    names["winsock"].system.return_value = "Wine"
    said_ = answered("15-winsock", formatting=formatting, **names)
    assert text in said_
    assert "With 900" in said_
    assert "most 3" in said_
    assert "1 of 1 model " in said_
