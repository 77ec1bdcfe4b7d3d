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
