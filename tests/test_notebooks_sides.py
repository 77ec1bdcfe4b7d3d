"""What notebooks compare: users who wait, bytes that were paid for, whole crowds."""

from types import SimpleNamespace
from unittest.mock import Mock

import notebook_rules as rules
import numpy as np
import pandas as pd
import pytest
from notebook_rules import SPENT

from connlab.report import Report
from connlab.studies import load


@pytest.mark.parametrize(
    ("waiting", "holds"),
    [
        ({"epoll": 0.9, "thread": 0.8, "poll": 0.9}, True),
        ({"epoll": 0.9, "thread": 0.5, "poll": 0.9}, False),
        ({"epoll": 0.9, "iterative": None}, True),
        ({"epoll": None}, None),
    ],
)
def test_users_have_to_wait_with_every_model(waiting, holds):
    used = pd.DataFrame({"model": list(waiting), "connections": 1000})
    used["connections"] = used["connections"].astype("Int64")
    used["waiting_users"] = [1000 * x if x else np.nan for x in waiting.values()]
    report = Mock(spec=Report)
    names = {"measured": used, "intervals": Mock(), "report": report}
    rules.execute("01-response-time", "cell-19", "cell-20", used=used, **names)
    assert report.claim.mock_calls[0].args == ("little", holds)


def test_poll_is_asked_about_the_whole_crowd_of_a_thousand():
    rows = [(n, active, "poll") for n in (1000, 10000) for active in (1, n)]
    share = ["connections", "active", "model"]
    every = pd.DataFrame(rows, columns=share).assign(idle=0, verdict="lower")
    every["against"] = "epoll"
    report = Mock(spec=Report)
    report.ratios.side_effect = lambda frame: frame
    names = {"every": every, "shares": every[share], "share": share}
    rules.execute("06-idle", "cell-63", "cell-64", report=report, **names)
    few, whole = (call.args[1] for call in report.claim.mock_calls)
    assert few["active"].tolist() == [1]
    assert whole["active"].tolist() == [1000]
    assert {*few["connections"], *whole["connections"]} == {1000}


def loaded(
    name: str, cell: str, trials: pd.DataFrame, **names
) -> tuple[dict, list[str]]:
    """Run the cell that loads a study's trials; return all names, and its notes."""
    notes: list[str] = []
    names |= {"study": SimpleNamespace(load=lambda *_, **__: trials)}
    names["Report"] = lambda *_, **__: SimpleNamespace(note=notes.append)
    return rules.execute(name, cell, settings={}, **names), notes


def test_a_mib_costs_what_its_requests_cost():
    """CPU time of a whole slice belongs to its lead-in as well."""
    cells = {"model": ["epoll", "prethread"], "connections": 100, "size": 16384}
    frame = pd.DataFrame(cells).assign(
        **{"byte_rate": np.nan, "block_size": np.nan, "ok": True, "set": ["s", None]},
        **{"window_requests": 1000, "server_cpu_s": 1.05, SPENT: 1e-3},
        **{"bytes_per_s": 1e9, "throughput_rps": 1e5},
    )
    frame.attrs["registry"] = [{"name": "prethread", "holds": "workers"}]
    names, _ = loaded("05-bulk", "cell-07", frame)
    all_served, some_served = names["measured"].to_dict("records")
    assert all_served["cpu_per_mib_s"] == pytest.approx(1e-3 * 2**20 / 16384)
    for column in (SPENT, "cpu_per_mib_s", "bytes_per_s", "gib_per_s"):
        assert all_served[column] > 0
        assert np.isnan(some_served[column])


def test_costs_of_bulk_are_compared_round_by_round():
    report = Mock(spec=Report)
    report.ratios.side_effect = lambda frame: frame
    pairs = pd.DataFrame({"model": ["thread"], "metric": SPENT, "value": 2.0})
    compare = Mock(return_value=pairs)
    given = {"report": report, "ratios": compare, "figures": Mock()}
    given |= {"unlimited": None, "spent": SPENT, "forest": {}}
    names = rules.execute("05-bulk", "cell-19", **given)
    assert compare.call_args.args[1] == SPENT
    assert names["costs"]["metric"].tolist() == ["cpu_per_mib_s"]


def test_a_study_of_idle_connections_leaves_out_who_was_measured_alone():
    """Its trials stay: what they held is known."""
    rows = [("epoll", 5100, "s"), ("thread", 5100, None), ("thread", 100, "t")]
    frame = pd.DataFrame(rows, columns=["model", "connections", "set"]).assign(
        **{"active": 100, "ok": True, "block": 0, "window_requests": 1},
        **{"server_cpu_s": 1.0, "label": None, "throughput_rps": 1e5, SPENT: 1e-5},
    )
    names, said = loaded("06-idle", "cell-60", frame, left_out=lambda *_: ["alone"])
    measured = names["measured"].set_index(["model", "idle"])
    assert np.isnan(measured.loc[("thread", 5000), SPENT])
    assert np.isnan(measured.loc[("thread", 5000), "krps"])
    assert measured.loc[("thread", 0), SPENT] > 0
    assert len(measured) == 3
    assert said == ["alone"]


@pytest.mark.parametrize(
    ("talking", "sharing"), [([1], ["poll"]), ([1, 100], ["poll"] * 2), ([100], [])]
)
def test_a_crowd_may_have_one_level_of_those_who_talk(talking, sharing):
    """With `talking` of one level its trials were measured, and told nowhere."""
    rows = [("poll", active) for active in talking]
    rows += [("thread", 100)]  # in the grid of idle connections alone
    frame = pd.DataFrame(rows, columns=["model", "active"]).assign(
        **{"connections": 1000, "set": "s", "ok": True, "block": 0, "label": None},
        **{"window_requests": 1, "server_cpu_s": 1.0, "throughput_rps": 1e5},
        **{SPENT: 1e-5},
    )
    given = {"talking": talking, "left_out": lambda *_: []}
    names, _ = loaded("06-idle", "cell-60", frame, **given)
    assert names["shares"]["model"].tolist() == sharing


@pytest.mark.parametrize(
    ("name", "cell", "names"),
    [
        ("07-uring", "cell-06", {}),
        ("11-load", "cell-08", {"where": ["work", "connections"], "loads": [0.5]}),
        ("12-why", "cell-07", {}),
    ],
)
def test_a_server_that_serves_fewer_than_ask_is_compared_with_nobody(name, cell, names):
    rows = [("epoll", 50, "s"), ("iterative", 50, None), ("iterative", 1, None)]
    frame = pd.DataFrame(rows, columns=["model", "connections", "set"]).assign(
        **{"active": lambda t: t["connections"], "work": "echo", "rate": 500.0},
        **{"ok": True, "block": 0, "key": "k", "window_requests": 1, "label": None},
        **{"server_cpu_s": 1.0, "throughput_rps": 500.0, SPENT: 1e-5},
        **dict.fromkeys(load.TIMES, 1e-3),
    )
    frame.attrs["registry"] = [{"name": "iterative", "holds": "one"}]
    most = pd.Series(1e3, pd.MultiIndex.from_product([["echo"], [1, 50]]), name="most")
    most.index.names = ["work", "connections"]
    names |= {"named": lambda t: t, "capacity": most}
    found, said = loaded(name, cell, frame, **names)
    trials = found.get("opened", found["measured"])
    assert trials[SPENT].notna().tolist() == [True, False, True]
    if name == "11-load":
        assert trials[load.TIMES].notna().all(axis=1).tolist() == [True, False, True]
    (why,) = said
    assert "iterative at 50 connections, as it serves its clients one after" in why


def test_what_an_overloaded_server_costs_is_no_cost_at_equal_load():
    """Nor has it response times: it does not carry the load. Whoever does stays."""
    rows = [("epoll", 0.7, 1.0), ("thread", 0.7, 1.5), ("thread", 0.5, 1.02)]
    frame = pd.DataFrame(rows, columns=["model", "load", "strain"]).assign(
        **{"work": "echo", "connections": 50, "set": "s", "ok": True, "block": 0},
        **{"rate": lambda t: 1e3 * t["load"], "label": None, SPENT: 1e-5},
        **{"throughput_rps": lambda t: t["rate"] / t["strain"]},
        **{"key": ["a", "b", "c"], **dict.fromkeys(load.TIMES, 1e-3)},
    )
    levels = pd.MultiIndex.from_tuples([("echo", 50)], names=["work", "connections"])
    about = {"where": ["work", "connections"], "loads": [0.5, 0.7]}
    about |= {"named": lambda t: t, "capacity": pd.Series(1e3, levels)}
    names, _ = loaded("11-load", "cell-08", frame.drop(columns="load"), **about)
    opened = names["opened"]
    assert opened["overloaded"].tolist() == [False, True, False]
    for column in (SPENT, *load.TIMES):
        assert opened[column].notna().tolist() == [True, False, True]
