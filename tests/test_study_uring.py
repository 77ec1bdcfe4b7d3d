"""Study 07: every sentence follows its data."""

from __future__ import annotations

import json

import notebook_rules as rules
import pytest
import study_made as made

from connlab import schema
from connlab.study import uring as ur

NOTEBOOK = rules.ROOT / "notebooks" / "07-uring.ipynb"


def run(tmp_path, *, capacity=None, cv=0.01, blocks=8, **options):
    trials = made.sweep(
        ("epoll", "uring"),
        (1, 50, 300),
        capacity=capacity,
        cv=cv,
        blocks=blocks,
        **options,
    )
    for t in trials:
        rate = t["client"]["window"]["throughput_rps"]
        cost = (capacity or {}).get(t["factors"]["model"], 1e5)
        t["server"]["samples"]["cpu_user_s"] = rate / cost
        t["server"]["samples"]["cpu_system_s"] = 0.0001 * t["block"]
    return made.load(tmp_path, trials)


def answer(frame):
    return ur.answer(frame, ur.expenses(frame), ur.rates(frame))


def test_a_lead_at_some_levels_depends_on_the_connections(tmp_path):
    frame = run(tmp_path, capacity={"uring": 150_000.0})
    said = answer(frame)
    assert said.startswith("It depends on the connections: by throughput io_uring is")
    assert "faster than epoll, level-triggered at 50 and 300 connections (× 1.5" in said
    assert "cheaper than epoll, level-triggered" in said


def test_equals_are_a_no(tmp_path):
    assert answer(run(tmp_path, cv=0.003)).startswith("No, as much")


def test_noise_cannot_be_told(tmp_path):
    said = answer(run(tmp_path, cv=0.4, blocks=4))
    assert said.startswith("This run cannot tell")
    assert "not to be told from epoll, level-triggered at 1, 50 and 300" in said


def test_a_client_that_was_the_bottleneck_leaves_only_the_cost(tmp_path):
    frame = run(tmp_path, capacity={"uring": 150_000.0}).assign(label="client-bound")
    assert {o.word for o in ur.rates(frame)} == {"undetermined"}
    assert "cheaper than" in {o.word for o in ur.expenses(frame)}


def test_one_server_alone_says_nothing(tmp_path):
    frame = run(tmp_path)
    alone = frame[frame.model == "epoll"]
    assert answer(alone).startswith("This run cannot say")
    assert "Too few models" in ur.tally(alone, [])
    assert "One" not in ur.batches(alone[alone.connections == 1])
    assert "nothing can be said" in ur.batches(alone[alone.connections == 1])


def test_models_are_chosen_by_what_they_are():
    rows = [
        {"name": "epoll", "family": "readiness", "available": True},
        {"name": "poll", "family": "readiness", "available": True},
        {"name": "uring", "family": "completion", "available": True},
        {"name": "next", "family": "completion", "available": False},
        {"name": "rings", "family": "completion", "available": True}
        | {"workers": "fixed"},
    ]
    models = [schema.Model(label="", **row) for row in rows]
    assert ur.that_suit(models) == ["epoll", "uring"]


def test_everything_ends_in_results(tmp_path):
    frame = run(tmp_path, capacity={"uring": 150_000.0})
    results = ur.begin(frame, root=tmp_path)
    ur.throughput(results, frame)
    ur.table(results, frame)
    ur.cost(results, frame)
    for found in (ur.rates(frame), ur.expenses(frame)):
        ur.words(results, frame, found)
        ur.ratios(results, frame, found)
        results.finding(ur.tally(frame, found))
    results.finding(ur.batches(frame))
    results.answer = answer(frame)
    said = json.loads(results.write().read_text())
    assert [f["id"] for f in said["figures"]] == [
        "fig-uring",
        "fig-uring-cost",
        "fig-uring-rps-ratios",
        "fig-uring-cpu-ratios",
    ]
    assert said["words"]["uring_epoll_rps_300"]["word"] == "faster than"
    assert said["words"]["uring_epoll_cpu_300"]["word"] == "cheaper than"
    assert said["values"]["uring_rps_300"]["n"] == 8
    tally = said["findings"][0]
    assert "io_uring is indistinguishable from it at 1 connection and faster" in tally


def test_the_notebook_keeps_the_rules():
    rules.check(NOTEBOOK, question=ur.QUESTION, wants={"models", "size", "baseline"})


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_plain_papermill_runs_it(tmp_path):
    few = {"models": "[epoll, uring-poll]", "connections": "[1, 4]"}
    said = rules.run(NOTEBOOK, tmp_path, ur.STUDY, **few, trials=2, duration=0.1)
    assert said["trials"]["total"] == 8
    assert said["answer"]
