"""Frames: typed columns, nothing dropped, and every flaw of a run is said."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import study_made as made

from connlab import schema
from connlab.study import frames, load


def read(root, **options):
    return load("made", "response-time", root=root, **options)


def test_one_row_per_trial_with_every_column_of_the_schema(tmp_path):
    made.write(tmp_path, made.sweep(blocks=2))
    frame = read(tmp_path)
    assert len(frame) == 2 * 3 * 4
    assert {c.name for c in schema.COLUMNS} <= set(frame.columns)
    types = {c.name: c.dtype for c in schema.COLUMNS}
    for name in ("connections", "throughput_rps", "ok", "model"):
        assert str(frame[name].dtype) == types[name]
    row = frame[(frame.model == "epoll") & (frame.connections == 100)].iloc[0]
    assert row.response_mean_s == pytest.approx(100 / row.throughput_rps)
    assert frame.attrs["notes"] == []


def test_rows_follow_block_and_order_however_they_were_written(tmp_path):
    trials = made.sweep(blocks=3)
    made.write(tmp_path, trials[::-1])
    frame = read(tmp_path)
    places = list(zip(frame.block, frame.order, strict=True))
    assert places == sorted(places)


def test_failed_and_gated_trials_stay_and_say_why(tmp_path):
    dead = {"kind": "server-died", "reason": "server: killed by SIGSEGV"}
    trials = [
        made.trial("epoll", 10),
        made.trial("select", 2000, order=1),
        made.trial("poll", 10, order=2, failure=dead, client=None),
        made.trial("poll", 20, order=3, gates={"client": {"ok": False}}),
        made.trial("poll", 30, order=4, gates={"novel": {"ok": False}}),
    ]
    made.write(tmp_path, trials)
    frame = read(tmp_path)
    assert frame.ok.tolist() == [True, False, False, True, True]
    assert frame.reason.isna().tolist() == [True, False, False, True, True]
    assert frame.reason[1] == "beyond FD_SETSIZE"
    assert frame.reason[2] == "server died"
    assert frame.failure[2] == "server-died: server: killed by SIGSEGV"
    assert len(frames.usable(frame)) == 3


def test_the_cause_is_named_rather_than_what_follows_from_it(tmp_path):
    bad = {"ok": False}
    trials = [
        made.trial(order=0, key="a", gates={"census": bad, "quiet": bad}),
        made.trial(
            order=1, key="b", gates={"census": bad}, label="limit-bound:one-at-a-time"
        ),
        made.trial(order=2, key="c", gates={"quiet": bad}, label="limit-bound:workers"),
    ]
    frame = read(made.write(tmp_path, trials))
    assert frame.reason.tolist() == [
        "machine busy",
        "the others wait",
        "machine busy",
    ]


def test_an_answer_that_is_an_error_is_not_a_wrong_one(tmp_path):
    bad = {"verified": {"ok": False}}
    trials = [made.trial(order=i, key=str(i), gates=bad) for i in range(2)]
    trials[0]["client"]["errors"] = {"mismatch": 0, "status": 3}
    trials[1]["client"]["errors"] = {"mismatch": 2, "status": 3}
    frame = read(made.write(tmp_path, trials))
    assert frame.reason.tolist() == ["errors answered", "answers differ"]


def test_a_gate_may_be_overlooked_on_request_and_that_is_said(tmp_path):
    bad = {"ok": False}
    dead = {"kind": "server-died", "reason": "server: killed"}
    trials = [
        made.trial(order=0, key="a", gates={"quiet": bad}),
        made.trial(order=1, key="b", gates={"quiet": bad, "census": bad}),
        made.trial(order=2, key="c", gates={"quiet": bad}, failure=dead),
        made.trial(order=3, key="d"),
        made.trial(order=4, key="e", gates={"quiet": bad, "little": bad}),
    ]
    made.write(tmp_path, trials)
    with pytest.warns(frames.RunWarning, match="2 trials were used on request"):
        frame = read(tmp_path, accept=["quiet"])
    assert frame.ok.tolist() == [True, False, False, True, True]
    assert frame.reason.isna().tolist() == [True, False, False, True, True]


def test_usable_asks_for_the_metrics_that_are_needed(tmp_path):
    trials = [made.trial(order=0), made.trial(order=1, key="k2", block=1)]
    del trials[1]["client"]["response"]["p99_ns"]
    made.write(tmp_path, trials)
    frame = read(tmp_path)
    assert len(frames.usable(frame)) == 2
    assert len(frames.usable(frame, "response_p99_s")) == 1


def test_cells_count_what_is_used_and_give_the_commonest_reason(tmp_path):
    made.write(tmp_path, made.sweep(("select", "epoll"), (10, 2000), blocks=3))
    table = frames.cells(read(tmp_path), ["model", "connections"])
    table = table.set_index(["model", "connections"])
    assert table.loc[("select", 2000), "used"] == 0
    assert table.loc[("select", 2000), "trials"] == 3
    assert table.loc[("select", 2000), "reason"] == "beyond FD_SETSIZE"
    assert table.loc[("epoll", 2000), "used"] == 3
    assert pd.isna(table.loc[("epoll", 2000), "reason"])
    assert table.loc[("epoll", 10), "label"] == "server-bound"


@pytest.mark.parametrize("whole", [False, True])
def test_a_last_line_without_its_end_is_left_out_and_said(tmp_path, whole):
    line = json.dumps(made.trial(block=1))
    tail = line if whole else line[: len(line) // 2]
    made.write(tmp_path, [made.trial()], tail=tail)
    with pytest.warns(frames.RunWarning, match="cut short"):
        frame = read(tmp_path)
    assert len(frame) == 1


def test_a_repeated_key_counts_once_and_is_said(tmp_path):
    made.write(tmp_path, [made.trial(), made.trial()])
    with pytest.warns(frames.RunWarning, match="stands twice"):
        assert len(read(tmp_path)) == 1


def test_environments_never_mix_silently(tmp_path):
    trials = [made.trial(block=b, environment="ab"[b % 2]) for b in range(5)]
    made.write(tmp_path, trials)
    with pytest.raises(frames.RunError, match=r"a \(3 trials\), b \(2 trials\)"):
        read(tmp_path)
    with pytest.warns(frames.RunWarning, match="2 trials of other environments"):
        assert len(read(tmp_path, environment="a")) == 3
    with pytest.warns(frames.RunWarning, match="mixed"):
        assert len(read(tmp_path, mixed=True)) == 5
    with pytest.raises(frames.RunError, match="no trials of environment 'c'"):
        read(tmp_path, environment="c")


def test_half_a_run_is_said(tmp_path):
    made.write(tmp_path, [made.trial()])
    beat = {"run": "made", "study": "response-time", "state": "interrupted"}
    beat |= {"planned": 40, "done": 1, "resumed": 0, "failed": 0}
    beat |= {"started_at": "t", "updated_at": "t", "seconds": 1.0}
    folder = tmp_path / "made" / "response-time"
    (folder / "progress.json").write_text(json.dumps(beat))
    with pytest.warns(frames.RunWarning, match="1 of 40 planned"):
        read(tmp_path)
    why = {"message": "the budget of 2 s is used; 1 trials are there"}
    (folder / "progress.json").write_text(json.dumps(beat | why))
    with pytest.warns(frames.RunWarning, match="ended early: the budget of 2 s"):
        read(tmp_path)
    (folder / "progress.json").write_text(json.dumps(beat | {"state": "done"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path)


def test_missing_runs_and_studies_name_what_there_is(tmp_path):
    made.write(tmp_path, [made.trial()])
    with pytest.raises(frames.RunError, match="did you mean 'response-time'"):
        load("made", "response_time", root=tmp_path)
    with pytest.raises(frames.RunError, match="did you mean 'made'"):
        load("mad", "response-time", root=tmp_path)


def test_a_newer_schema_is_refused_by_name(tmp_path):
    made.write(tmp_path, [{"schema": 99, "key": "x"}])
    with pytest.raises(frames.RunError, match="schema 99"):
        read(tmp_path)


def test_a_study_without_a_whole_trial_is_no_frame(tmp_path):
    made.write(tmp_path, [], tail='{"schema": 1, "ke')
    with pytest.raises(frames.RunError, match="no whole trial"):
        read(tmp_path)


def test_cells_of_as_many_trials_as_columns(tmp_path):
    made.write(tmp_path, made.sweep(("select", "epoll"), (10,), blocks=1))
    frame = read(tmp_path).assign(kind=np.array(["a", "b"]))
    table = frames.cells(frame, ["kind", "connections"])
    assert table["trials"].tolist() == [1, 1]
