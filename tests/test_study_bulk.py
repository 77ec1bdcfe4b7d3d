"""Study 05: bytes moved, from made-up trials whose truth is known."""

from __future__ import annotations

import json

import notebook_rules as rules
import pandas as pd
import pytest
import study_made as made

from connlab.study import bulk, claims, finding
from connlab.study.rules import apply

NOTEBOOK = rules.ROOT / "notebooks" / "05-bulk.ipynb"
SIZE = 1000


def run(tmp_path, *, speed=None, moved=1.0, blocks=6, cv=0.01):
    """Free clients move `speed[model]` bytes/s; limited ones part of 10 000 each 50."""
    trials = []
    for size, limit in ((SIZE, None), (SIZE, 10_000.0), (4000, None)):
        levels = (100, 500) if size == SIZE else (100,)
        for t in made.sweep(("thread", "epoll"), levels, blocks=blocks, cv=cv):
            wobble = t["client"]["window"]["throughput_rps"] / 100_000
            n, model = t["factors"]["connections"], t["factors"]["model"]
            rate = (speed or {}).get(model, 1e8) * wobble
            t["factors"] |= {"size": size}
            if limit:
                t["factors"] |= {"byte_rate": limit, "block": 50}
                rate = moved * limit * n / 50
            t["client"]["window"] |= {"bytes": rate, "throughput_rps": rate / size}
            t["key"] += f"-{size}-{limit}"
            trials.append(t)
    frame = made.load(tmp_path, trials)
    return bulk.with_kinds(frame)


def test_grids_ask_each_cell_once():
    options = {"size": 16, "size_at": 10, "byte_rate": 0, "block": 5}
    free = bulk.grids(["epoll"], [10, 20], sizes=[16], **options)
    assert free == [{"model": ["epoll"], "connections": [10, 20], "size": [16]}]
    made_ = bulk.grids(
        ["epoll"], [20], sizes=[16, 64], **(options | {"byte_rate": 100})
    )
    assert [g["size"] for g in made_] == [[16], [16], [64], [16]]
    assert made_[1]["byte_rate"] == [100]
    assert made_[3]["connections"] == [10]


def test_kinds_sizes_and_allowances(tmp_path):
    frame = run(tmp_path, moved=0.5)
    assert set(frame["clients"]) == {bulk.FREE, bulk.LIMITED}
    limited = frame[frame["clients"] == bulk.LIMITED]
    assert limited["moved"].to_numpy() == pytest.approx(0.5)
    assert frame.loc[frame["clients"] == bulk.FREE, "moved"].isna().all()
    row = frame.iloc[0]
    assert row["cpu_per_byte_s"] * float(row["size"]) == pytest.approx(
        row["server_cpu_per_request_s"]
    )


def test_more_bytes_is_faster_and_the_answer_counts_it(tmp_path):
    frame = run(tmp_path, speed={"thread": 5e7})
    found = bulk.compare(frame, baseline="epoll", size=SIZE)
    assert {o.word for o in found} == {"slower than"}
    assert len(found) == 2
    said = bulk.answer(frame, found, size=SIZE)
    assert said.startswith("With 500 connections")
    assert said.index("epoll") < said.index("thread per connection")
    assert "of 2 comparisons with epoll, level-triggered 2 came out behind" in said
    assert "cannot say" in bulk.answer(frame, [], size=SIZE)


def test_a_client_that_was_the_bottleneck_ranks_nobody(tmp_path):
    frame = run(tmp_path, speed={"thread": 5e7}).assign(label="client-bound")
    found = bulk.compare(frame, baseline="epoll", size=SIZE)
    assert {o.word for o in found} == {"undetermined"}


def test_only_models_that_the_client_did_not_limit_are_put_in_order(tmp_path):
    frame = run(tmp_path, speed={"thread": 5e7})
    said = bulk.fastest(frame, size=SIZE)
    assert "has the highest mean, thread per connection" in said
    assert said.endswith("the lowest.")
    some = made.bounded(frame, "epoll")
    said = bulk.fastest(some, size=SIZE)
    assert said.endswith("is the only model that the client did not limit.")
    alone = bulk.fastest(frame[frame.model == "epoll"], size=SIZE)
    assert alone.endswith("is the only model with usable trials.")
    # A usable trial at 100 connections: so not "no trial is usable".
    every = made.bounded(frame, "epoll", "thread")
    few = every.connections.eq(100) & every.block.eq(0)
    every.loc[few, ["ok", "gates_failed", "label"]] = [True, None, "server-bound"]
    assert bulk.fastest(every, size=SIZE) == (
        "With 500 connections and messages of 1000 bytes the client was the bottleneck "
        "of every model."
    )


def test_three_models_of_which_the_client_limited_one(tmp_path):
    frame = run(tmp_path, speed={"thread": 5e7})
    third = frame[frame.model == "epoll"].assign(model="uring", model_label="uring")
    three = pd.concat([frame, third], ignore_index=True)
    three.attrs = frame.attrs
    said = bulk.fastest(made.bounded(three, "uring"), size=SIZE)
    assert "has the highest mean of the models that the client did not limit" in said


def test_what_limited_clients_moved_is_said(tmp_path):
    assert "in 4 of 4 cells." in bulk.served(run(tmp_path))
    assert "the least was 50%" in bulk.served(run(tmp_path, moved=0.5))
    frame = run(tmp_path)
    assert "No trial" in bulk.served(frame[frame["clients"] == bulk.FREE])


def test_lost_connections_are_said(tmp_path):
    frame = run(tmp_path)
    assert "Every connection" in bulk.lost(frame)
    frame.loc[frame["connections"] == 500, "surviving"] = 499
    assert "epoll, level-triggered from 500 on" in bulk.lost(frame)


def test_a_rule_selects_clients_without_a_limit(tmp_path):
    frame = run(tmp_path)
    cell = {"model": "epoll", "connections": 100, "size": str(SIZE)}
    free = finding.select(frame, {**cell, "byte_rate": None})
    assert set(free["clients"]) == {bulk.FREE}
    assert len(free) == 6
    assert len(finding.select(frame, {**cell, "byte_rate": 10_000})) == 6


@pytest.mark.parametrize(("kept", "verdict"), [(800, "holds"), (1000, "does not hold")])
def test_the_share_that_is_served_counts_trials_that_lost_clients(kept, verdict):
    """A trial that lost clients fails the census: just that is what W6 asks about."""
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
    (claim,) = (c for c in claims.ledger() if c.id == "W6")
    share, wait = apply(frame, claim.rule).parts
    assert share.verdict == verdict
    assert share.effect.value == pytest.approx(1000 / min(kept + 0.5, 1000))
    if kept == 1000:
        assert share.why == "shown to be alike within the margin"
        assert wait.verdict == "holds"


def test_no_usable_trial_breaks_no_sentence(tmp_path):
    frame = run(tmp_path).assign(ok=False).astype({"ok": "boolean"})
    assert bulk.fastest(frame, size=SIZE).endswith(".")
    assert bulk.served(frame).endswith(".")
    assert bulk.compare(frame, baseline="epoll", size=SIZE) == []
    assert bulk.ratios(None, frame, []) is None


def test_everything_ends_in_results(tmp_path):
    frame = run(tmp_path)
    found = bulk.compare(frame, baseline="epoll", size=SIZE)
    results = bulk.begin(frame, root=tmp_path)
    bulk.rate(results, frame, size=SIZE)
    bulk.sizes(results, frame)
    bulk.cost(results, frame, size=SIZE)
    bulk.allowance(results, frame, size=SIZE)
    bulk.words(results, frame, found)
    bulk.ratios(results, frame, found)
    table = bulk.table(results, frame, size=SIZE)
    results.answer = bulk.answer(frame, found, size=SIZE)
    said = json.loads(results.write().read_text())
    assert said["values"]["epoll_rate_unlimited_100_4000"]["n"] == 6
    assert "epoll_rate_rate_limited_500_1000" in said["values"]
    assert [row[1:4] for row in table.rows] == [
        ("unlimited", "500", "500"),
        ("rate-limited", "500", "500"),
    ] * 2
    assert {f["id"] for f in said["figures"]} == {
        "fig-bulk",
        "fig-bulk-sizes",
        "fig-bulk-cost",
        "fig-bulk-allowance",
        "fig-bulk-ratios",
    }
    one_size = frame[frame["bytes"] == SIZE]
    assert bulk.sizes(results, one_size) is None
    free = frame[frame["clients"] == bulk.FREE]
    assert bulk.allowance(results, free, size=SIZE) is None


def test_the_notebook_keeps_the_rules():
    wants = {"models", "sizes", "byte_rate", "block"}
    rules.check(NOTEBOOK, question=bulk.QUESTION, wants=wants)
