"""Counts per request and the costs that are fitted to them."""

import json

import numpy as np
import pandas as pd
import pytest
import study_made as made

from connlab.drive import counting, programs
from connlab.drive.host import ProgramError
from connlab.studies import why

COSTS = pd.Series(
    [2e-6, 0.2e-6, 1e-6, 1.5e-6, 2e-8, 0.3e-6, 9e-6, 1.2e-6, 0.4e-6], index=why.TERMS
)


def cells(n=24, *, noise=0.0):
    """Return cells whose CPU time is the sum of their terms times COSTS."""
    dice = np.random.default_rng(1)
    table = pd.DataFrame(dice.uniform(0, 2, (n, len(COSTS))), columns=COSTS.index)
    table["request"] = 1.0
    table["walked"] *= 20
    exact = table[COSTS.index] @ COSTS
    models = np.repeat(["a", "b", "c", "d", "e", "f"], 4)[:n]
    return table.assign(model=models, cpu=exact * (1 + noise * dice.standard_normal(n)))


def test_costs_are_recovered_and_none_is_negative():
    costs = why.fit(cells(), "cpu")
    assert costs.to_numpy() == pytest.approx(COSTS.to_numpy(), rel=1e-6)
    table = cells(noise=0.3)
    assert (why.fit(table.assign(cpu=table["cpu"].to_numpy()[::-1]), "cpu") >= 0).all()


@pytest.mark.parametrize("apart", [["model"], ["connections", "active"]])
def test_each_group_is_predicted_by_the_others(apart):
    table = cells().assign(connections=np.arange(24) % 4, active=1)
    error = why.predicted(table, "cpu", apart=apart) / table["cpu"] - 1
    assert error.abs().max() < 1e-6
    table.loc[3, "cpu"] *= 2
    told = why.predicted(table, "cpu", apart=apart)
    assert told[3] / table.loc[3, "cpu"] == pytest.approx(0.5, abs=0.005)


def test_a_near_copy_does_not_teach_what_its_own_model_costs():
    """Only model a spends on `walked`: no other says what that costs."""
    table = cells().assign(walked=0.0)
    table.loc[table["model"] == "a", "walked"] = 100.0
    table["cpu"] = table[COSTS.index] @ COSTS
    told = why.predicted(table, "cpu", apart=["model"])
    short = (table["cpu"] - told).where(table["model"] == "a", 0)
    assert short.to_numpy() == pytest.approx([100 * COSTS["walked"]] * 4 + [0] * 20)


def test_what_others_of_a_kind_cost_needs_no_count():
    columns = ["model", "connections", "active", "scans", "waits", "cpu"]
    rows = [("thread", 50, 50, 0, 0, 5.0), ("pool", 50, 50, 0, 0, 6.0)]
    rows += [("poll", 50, 50, 0.1, 0.1, 3.0), ("epoll", 50, 50, 0, 0.1, 2.0)]
    rows += [("uring", 50, 50, 0, 0.2, 4.0), ("coroutine", 50, 50, 0, 0.2, 6.0)]
    rows += [("thread", 9, 9, 0, 0, 7.0)]
    table = pd.DataFrame(rows, columns=columns)
    told = why.mean_of_kind(table, "cpu")
    expected = [6, 5, np.nan, 5, 4, 3, np.nan]
    assert told.tolist() == pytest.approx(expected, nan_ok=True)
    assert why.mean_of_kind(table.iloc[:0], "cpu").empty


def test_near_is_asked_of_what_was_told():
    table = pd.DataFrame({"value": [1.0, 1.0, 1.0], "told": [1.05, 1.2, np.nan]})
    assert why.within_a_tenth(table, "told").tolist() == [True, False]
    assert why.within_a_tenth(table.iloc[:0], "told").empty


def test_a_switch_is_a_sleep_or_a_hand_over():
    cell = {"waits": [0, 0, 0.5], "active": [1, 8, 8], "switches": [1.0, 1.0, 0.25]}
    table = why.split(pd.DataFrame(cell))
    assert table["cold"].tolist() == [0, 3, 3]
    assert table["sleeps"].tolist() == [1, 0, 0.25]
    assert table["hand_overs"].tolist() == [0, 1, 0]
    assert table["cold_hand_overs"].tolist() == [0, 9, 0]


def test_too_few_cells_predict_nothing():
    assert why.predicted(cells(1), "cpu", apart=["model"]).isna().all()
    assert why.predicted(cells(0), "cpu", apart=["model"]).empty
    with pytest.raises(ValueError, match="cpu"):
        why.fit(cells(0), "cpu")


def test_poll_walks_all_connections_and_epoll_none(tmp_path):
    cell = {"connections": 1000, "active": 50, "failure": None}
    per = {"recvfrom": 1.0, "sendto": 1.0, "system_calls": 2.25, "switches": 0.1}
    rows = [
        cell | {"model": "poll", "per_request": per | {"poll": 0.25}},
        cell | {"model": "epoll", "per_request": per | {"epoll_wait": 0.25}},
        cell | {"model": "thread", "failure": "it broke"},
    ]
    made.write(tmp_path, rows, study="why", file=counting.FILE)
    table = why.terms(why.counts("made", root=tmp_path)).set_index("model")
    assert list(table.index) == ["poll", "epoll"]
    assert table["walked"].to_dict() == {"poll": 250.0, "epoll": 0.0}
    assert (table["waits"] == 0.25).all()
    assert (table["transfers"] == 2).all()
    assert table["other_calls"].tolist() == pytest.approx([0, 0])


PRICE = {"exchange_s": 5.0, "answer_cpu_s": 25.0, "entry_s": 0.2, "epoll_s": 0.5}
PRICE |= {"event_s": 0.125, "poll_s": 0.25, "walk_s": 0.0625}
PRICE |= {"switch_s": 3.0, "pipe_s": 1.0}
NO_CALLS = dict.fromkeys(["waits", "scans", "walked", "other_calls"], 0.0)
NO_CALLS |= {"events": 0.0, "switches": 0.0, "transfers": 2.0}


@pytest.mark.parametrize(
    ("counted", "cost"),
    [
        ({"waits": 0.25, "events": 1}, 5 + 0.25 * 0.5 + 0.75 * 0.125),
        ({"waits": 0.1, "scans": 0.1, "walked": 100}, 5 + 0.1 * 0.25 + 100 * 0.0625),
        ({"switches": 1}, 5 + 3 - 1),
        ({"switches": 1, "active": 1}, 5 + 20),
        ({"switches": 0.5, "waits": 1, "events": 1}, 5 + 0.5 + 0.5 * 20),
        ({"transfers": 0, "waits": 0.5}, 5 - 2 * 0.2 + 0.5 * 0.5),
        ({"other_calls": 2}, 5 + 2 * 0.2),
    ],
)
def test_measured_costs_add_up(counted, cost):
    cell = NO_CALLS | {"connections": 1000, "active": 1000} | counted
    table = pd.DataFrame([cell], index=[7])
    costs = why.foretold(table, pd.DataFrame([PRICE], index=[1000]))
    assert costs.sum(axis=1).to_dict() == {7: pytest.approx(cost)}


def test_a_switch_is_one_among_as_many_threads_as_talk():
    price = pd.DataFrame([PRICE | {"ring_s": 4.0}, PRICE | {"ring_s": 9.0}], [50, 1000])
    talk = pd.Series([50, 1000])
    rows = [NO_CALLS | {"switches": 1, "connections": n, "active": n} for n in talk]
    costs = why.foretold(pd.DataFrame(rows), price)
    assert costs["switch or sleep"].tolist() == [4 - 1, 9 - 1]


def test_costs_are_those_of_the_nearest_number_of_connections():
    far = PRICE | {"exchange_s": 9.0, "walk_s": 0.125}
    price = pd.DataFrame([PRICE, far], index=[2, 1000])
    cell = NO_CALLS | {"walked": 8.0}
    rows = [cell | {"connections": n, "active": a} for n, a in [(1, 1), (1000, 4)]]
    costs = why.foretold(pd.DataFrame(rows), price)
    assert costs["receive and send"].tolist() == [5, 5]
    assert costs["sockets looked at"].tolist() == [0.5, 1]


def test_a_socket_that_is_used_for_the_first_time_tells_nothing_of_later_uses():
    """1000 of them are used a few times only while their cost is measured."""
    first = PRICE | {"exchange_s": 9.0}
    price = pd.DataFrame([PRICE, first], index=[50, 1000])
    row = NO_CALLS | {"connections": 1000, "active": 1000}
    assert why.foretold(pd.DataFrame([row]), price)["receive and send"].item() == 5


def test_a_run_without_facts_has_no_terms_and_nothing_is_foretold(tmp_path):
    assert why.terms(why.counts("r", root=tmp_path)).empty
    assert why.costs("r", root=tmp_path).empty
    table = cells().assign(connections=50, active=50, scans=0, events=0, switches=0)
    costs = why.foretold(table, pd.DataFrame())
    assert costs.sum(axis=1, min_count=5).isna().all()


@pytest.mark.parametrize(
    ("connections", "active", "levels"),
    [([1, 50, 1000], 50, [2, 50, 1000]), ([20], 50, [20]), ([1], 1, [2])],
)
def test_costs_are_measured_where_cells_are(connections, active, levels):
    assert why.levels(connections, active) == levels


@pytest.mark.sweeps
def test_a_known_server_makes_a_receive_and_a_send_for_each_request(tmp_path):
    if lack := counting.missing():
        pytest.skip(lack)
    cells = [{"model": "epoll", "connections": 8, "active": 8}]
    options = {"run": "r", "cells": cells, "requests": 4000, "root": tmp_path}
    assert counting.count("why", **options) is None
    (line,) = (tmp_path / "r" / "why" / counting.FILE).read_text().splitlines()
    assert json.loads(line)["failure"] is None
    (row,) = why.counts("r", root=tmp_path).to_dict("records")
    assert row["recvfrom"] == pytest.approx(1, abs=0.3)
    assert row["sendto"] == pytest.approx(1, abs=0.3)
    assert 0 < why.terms(pd.DataFrame([row]))["waits"].item() < 1.5
    assert counting.count("why", **options) is None
    assert len(why.counts("r", root=tmp_path)) == 1


def test_switches_may_be_fewer_in_the_long_run_and_calls_may_not():
    short = {"requests": 400, "sendto": 400, "switches": 209}
    long = {"requests": 4400, "sendto": 4400, "switches": 37}
    per_request = counting._per_request(short, long)["per_request"]
    assert per_request == {"sendto": 1.0, "switches": 0.0}
    with pytest.raises(ProgramError, match="sendto"):
        counting._per_request(short | {"sendto": 9000}, long)


@pytest.mark.parametrize("shown", [True, False])
def test_processor_counters_are_read_in_runs_of_their_own(monkeypatch, shown):
    """Where perf can count them; cycles of the tracepoints would be in them."""
    (epoll,) = [m for m in programs.models() if m.name == "epoll"]

    def run(model, cell, share, events):
        requests = round(1000 * share)
        return dict.fromkeys(events.values(), 3 * requests) | {"requests": requests}

    monkeypatch.setattr(counting, "_counted_run", run)
    monkeypatch.setattr(counting, "_countable", lambda event: shown)
    rates = counting._counted(epoll, {})["per_request"]
    names = {*counting.EVENTS.values(), *(counting.HARDWARE.values() if shown else ())}
    assert rates == dict.fromkeys(names, 3.0)


def test_counters_of_the_processor_are_parsed():
    text = "812345,,cycles,1,100.00,,\n<not supported>,,instructions,0,,,\n"
    assert counting.parse(text) == {"cycles": 812345}


def test_requests_out_of_range_is_refused(tmp_path):
    with pytest.raises(ValueError, match="requests"):
        counting.count("why", run="r", cells=[], requests=0, root=tmp_path)
