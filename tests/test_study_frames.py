"""Frames: typed columns, nothing dropped, and every flaw of a run is said."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import study_made as made

from connlab import schema
from connlab.study import frames, load


def read(root, **options):
    return load("made", "response-time", root=root, **options)


def test_one_row_per_trial_with_every_column_of_the_schema(tmp_path):
    frame = made.load(tmp_path, made.sweep(blocks=2))
    assert len(frame) == 2 * 3 * 4
    assert {c.name for c in schema.COLUMNS} <= set(frame.columns)
    types = {c.name: c.dtype for c in schema.COLUMNS}
    for name in ("connections", "throughput_rps", "ok", "model"):
        assert str(frame[name].dtype) == types[name]
    row = frame[(frame.model == "epoll") & (frame.connections == 100)].iloc[0]
    assert row.response_mean_s == pytest.approx(100 / row.throughput_rps)
    assert frame.attrs["notes"] == []


def test_a_trial_in_turns_has_its_set_and_its_rounds(tmp_path):
    counts = {"requests": [9, 9], "lead_in_requests": [1, 1], "seconds": [0.02] * 2}
    counts |= {"response_ns": [1000] * 2, "server_cpu_ns": [1000] * 2}
    lines = made.sweep(("epoll",), (10,), blocks=2)
    for line in lines:
        block = line["block"]
        line["turns"] = counts | {"set": f"of {block}", "carried": block == 1}
        line["turns"] |= {"round": [3, 4 + block], "beside": 2}
        line["turns"] |= {"slice_ms": 21.0, "lead_in_ms": 1.0}
    frame = made.load(tmp_path, lines)
    assert frame["set"].tolist() == ["of 0", "of 1"]
    assert frame["carried"].tolist() == [False, True]
    assert [list(rounds.number) for rounds in frame["rounds"]] == [[3, 4], [3, 5]]


def test_rows_follow_block_and_order_however_they_were_written(tmp_path):
    frame = made.load(tmp_path, made.sweep(blocks=3)[::-1])
    places = list(zip(frame.block, frame.order, strict=True))
    assert places == sorted(places)


def test_windows_are_those_of_the_timelines(tmp_path):
    """As pandas unfolds them; a trial without a timeline has none."""
    lines = made.sweep(["epoll", "poll"], [1, 100], blocks=2)
    lines[1]["timeline"] = None
    lines[2]["timeline"] = {"step_ms": 50, "start_ms": 25, "requests": [3, 0, 7]}
    windows = frames.load_windows("made", made.STUDY, root=made.write(tmp_path, lines))
    plain = pd.DataFrame(
        [{"key": row["key"], **row["timeline"]} for row in lines if row["timeline"]]
    ).explode("requests")
    plain["window"] = plain.groupby("key", sort=False).cumcount()
    plain["start_s"] = (plain["start_ms"] + plain["window"] * plain["step_ms"]) / 1e3
    plain["throughput_rps"] = plain["requests"] / (plain["step_ms"] / 1e3)
    order = ["key", "window"]
    wanted = plain[windows.columns].sort_values(order).reset_index(drop=True)
    found = windows.sort_values(order).reset_index(drop=True)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    assert windows[windows["key"] == lines[2]["key"]]["throughput_rps"].tolist() == [
        60.0, 0.0, 140.0,
    ]  # fmt: skip


BAD = {"ok": False}
DEAD = {"kind": "server-died", "reason": "server: killed by SIGSEGV"}


def test_failed_and_gated_trials_stay_with_their_reason(tmp_path):
    trials = [
        made.trial("epoll", 10),
        made.trial("select", 2000, order=1),
        made.trial("poll", 10, order=2, failure=DEAD, client=None),
        made.trial("poll", 20, order=3, gates={"client": BAD}),
        made.trial("poll", 30, order=4, gates={"novel": BAD}),
    ]
    frame = made.load(tmp_path, trials)
    assert frame.ok.tolist() == [True, False, False, True, True]
    assert frame.reason.isna().tolist() == [True, False, False, True, True]
    assert frame.reason[1:3].tolist() == ["beyond FD_SETSIZE", "server died"]
    assert frame.failure[2] == f"{DEAD['kind']}: {DEAD['reason']}"
    assert len(frames.usable(frame)) == 3


@pytest.mark.parametrize(
    ("gates", "label", "reason"),
    [
        (["census", "quiet"], "server-bound", "machine busy"),
        (["census"], "limit-bound:one-at-a-time", "the others wait"),
        (["quiet"], "limit-bound:workers", "machine busy"),
    ],
)
def test_the_cause_is_named_rather_than_its_effect(tmp_path, gates, label, reason):
    trial = made.trial(gates=dict.fromkeys(gates, BAD), label=label)
    assert made.load(tmp_path, [trial]).reason.item() == reason


def test_an_answer_that_is_an_error_is_not_a_wrong_one(tmp_path):
    gates = {"verified": BAD}
    trials = [made.trial(order=i, key=str(i), gates=gates) for i in range(2)]
    for trial, count in zip(trials, (0, 2), strict=True):
        trial["client"]["errors"] = {"mismatch": count, "status": 3}
    frame = made.load(tmp_path, trials)
    assert frame.reason.tolist() == ["errors answered", "answers differ"]


def test_a_gate_may_be_overlooked_on_request_with_a_warning(tmp_path):
    trials = [
        made.trial(order=0, key="a", gates={"quiet": BAD}),
        made.trial(order=1, key="b", gates={"quiet": BAD, "census": BAD}),
        made.trial(order=2, key="c", gates={"quiet": BAD}, failure=DEAD),
        made.trial(order=3, key="d"),
        made.trial(order=4, key="e", gates={"quiet": BAD, "little": BAD}),
    ]
    made.write(tmp_path, trials)
    with pytest.warns(frames.RunWarning, match="2 trials.*request"):
        frame = read(tmp_path, accept=["quiet", "lag"])
    assert not any("late" in note for note in frame.attrs["notes"])  # none was
    assert frame.ok.tolist() == [True, False, False, True, True]
    assert frame.reason.isna().tolist() == [True, False, False, True, True]


def test_a_finding_leaves_no_trial_out_that_could_be_let_in(tmp_path):
    trials = [made.trial(gates={"little": BAD, "client": BAD})]
    assert made.load(tmp_path, trials).ok.all()
    frame = read(tmp_path, accept=["little", "client"])
    assert frame.ok.all()
    assert frame.attrs["notes"] == []


def test_a_misspelt_gate_is_refused_with_those_that_there_are(tmp_path):
    made.write(tmp_path, [made.trial()])
    with pytest.raises(ValueError, match="'quite'; did you mean 'quiet'"):
        read(tmp_path, accept=["quite"])


def test_each_gate_that_leaves_a_trial_out_can_be_printed_and_no_other():
    assert set(frames.GATES) == set(schema.EXCLUDING)


def test_what_is_counted_is_usable_and_no_baseline_once_more(tmp_path):
    made.write(tmp_path, made.sweep(("select", "epoll"), (10, 2000), blocks=1))
    frame = read(tmp_path)
    assert frames.counted(frame).sum() == frame.ok.sum() == 3
    frame["carried"] = frame.model.eq("epoll") & frame.connections.eq(10)
    assert frames.counted(frame).sum() == len(frames.usable(frame)) == 2
    assert frames.counted(frame.drop(columns="carried")).sum() == 3


def test_usable_asks_for_the_metrics_that_are_needed(tmp_path):
    trials = [made.trial(order=0), made.trial(order=1, key="k2", block=1)]
    del trials[1]["client"]["response"]["p99_ns"]
    frame = made.load(tmp_path, trials)
    assert len(frames.usable(frame)) == 2
    assert len(frames.usable(frame, "response_p99_s")) == 1


def test_cells_count_what_is_used_and_give_the_commonest_reason(tmp_path):
    frame = made.load(tmp_path, made.sweep(("select", "epoll"), (10, 2000), blocks=3))
    factors = ["model", "connections"]
    table = frames.cells(frame, factors).set_index(factors)
    lost = table.loc[("select", 2000), ["used", "trials", "reason"]]
    assert lost.tolist() == [0, 3, "beyond FD_SETSIZE"]
    assert table.loc[("epoll", 2000), "used"] == 3
    assert pd.isna(table.loc[("epoll", 2000), "reason"])


@pytest.mark.parametrize("whole", [False, True])
def test_a_last_line_without_its_end_is_left_out_with_a_warning(tmp_path, whole):
    line = json.dumps(made.trial(block=1))
    tail = line if whole else line[: len(line) // 2]
    made.write(tmp_path, [made.trial()], tail=tail)
    with pytest.warns(frames.RunWarning, match="cut short"):
        frame = read(tmp_path)
    assert len(frame) == 1


def test_a_repeated_key_counts_once_with_a_warning(tmp_path):
    with pytest.warns(frames.RunWarning, match="twice"):
        assert len(made.load(tmp_path, [made.trial(), made.trial()])) == 1


@pytest.mark.parametrize(
    ("many", "more"), [(1, ""), (3, ", the first of 3 such lines")]
)
def test_lines_that_are_no_trials_have_one_note(tmp_path, many, more):
    with pytest.warns(frames.RunWarning):
        frame = made.load(tmp_path, [made.trial(), *[{"schema": 1}] * many])
    note = f"trials.jsonl: line 2 is no trial and left out{more}"
    assert frame.attrs["notes"] == [note]


def test_environments_never_mix(tmp_path):
    trials = [made.trial(block=b, environment="ab"[b % 2]) for b in range(5)]
    made.write(tmp_path, trials)
    with pytest.raises(frames.RunError, match=r"a \(3 trials\), b \(2 trials\)"):
        read(tmp_path)


def settings(tmp_path) -> None:
    """Write trials 0 to 3: two sizes, two engines, one without any."""
    factors = [{"size": 15}, {"size": 64}, {"size": 15, "engine": "epoll"}]
    factors += [{"size": 15, "engine": "auto"}]
    trials = [made.trial(order=i, key=str(i)) for i in range(4)]
    for trial, more in zip(trials, factors, strict=True):
        trial["factors"] |= more
    made.write(tmp_path, trials)


@pytest.mark.parametrize(
    ("only", "taken", "note"),
    [
        ({"size": 15}, "023", "1 trial was left out, of another size"),
        ({"engine": None}, "01", "2 trials were left out, of another engine"),
        ({"engine": [None, "auto"]}, "013", "another engine"),
        ({"size": 15, "engine": "epoll"}, "2", "another size and engine"),
        ([{"size": 64}, {"engine": "auto"}], "13", "another engine"),
    ],
)
def test_trials_of_other_settings_are_left_out_with_a_warning(
    tmp_path, only, taken, note
):
    settings(tmp_path)
    with pytest.warns(frames.RunWarning, match=note):
        frame = read(tmp_path, only=only)
    assert "".join(frame["key"]) == taken
    assert list(frame.index) == list(range(len(taken)))


def test_a_run_that_is_evaluated_again_is_taken_as_it_was_measured(tmp_path):
    """What it did not record had the defaults of its day."""
    settings(tmp_path)
    frame = read(tmp_path, only={"size": 16, "engine": "uring"}, measure=False)
    assert len(frame) == 4
    assert frame.attrs["notes"] == []


def test_settings_that_all_trials_have_leave_nothing_to_say(tmp_path):
    settings(tmp_path)
    frame = read(tmp_path, only={"size": [15, 64], "connections": 100})
    assert len(frame) == 4
    assert frame.attrs["notes"] == []
    with pytest.raises(frames.NoTrials, match="none of 4 trials has size 16"):
        read(tmp_path, only={"size": 16})


BUDGET = "the budget of 2 s is used"
PROGRESS = {"run": "made", "study": "response-time", "state": "interrupted"}
PROGRESS |= {"planned": 40, "done": 1, "resumed": 0, "failed": 0}
PROGRESS |= {"started_at": "t", "updated_at": "t", "seconds": 1.0}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({}, "1 of 40"),
        ({"message": f"{BUDGET}; 1 trials are there"}, f"early: {BUDGET}"),
        ({"state": "done"}, None),
    ],
)
def test_half_a_run_has_a_warning(tmp_path, changes, warning, recwarn):
    made.write(tmp_path, [PROGRESS | changes], file="progress.json")
    made.load(tmp_path, [made.trial()])
    said = [str(w.message) for w in recwarn if w.category is frames.RunWarning]
    assert len(said) == len(recwarn)
    assert warning in said[0] if warning else not said


def test_of_half_a_run_carried_baselines_are_none_of_the_planned_trials(tmp_path):
    """A sweep that was killed after its first trial was told to have 2 of 40."""
    made.write(tmp_path, [PROGRESS | {"state": "running"}], file="progress.json")
    lines = made.sweep(("epoll",), (10,), blocks=2)
    for line in lines:
        line["turns"] = {"set": "s", "carried": line["block"] == 1, "beside": 2}
        line["turns"] |= {"slice_ms": 21.0, "lead_in_ms": 1.0}
        line["turns"] |= {"round": [], "lead_in_requests": [], "requests": []}
    with pytest.warns(frames.RunWarning, match="still running: 1 of 40"):
        made.load(tmp_path, lines)


def test_missing_runs_and_studies_name_those_that_exist(tmp_path):
    made.write(tmp_path, [made.trial()])
    with pytest.raises(frames.NoTrials, match="mean 'response-time'"):
        load("made", "response_time", root=tmp_path)
    with pytest.raises(frames.NoTrials, match="mean 'made'"):
        load("mad", "response-time", root=tmp_path)


def test_a_newer_schema_is_refused_by_name(tmp_path):
    with pytest.raises(frames.RunError, match="schema 99"):
        made.load(tmp_path, [{"schema": 99, "key": "x"}])
    assert len(made.load(tmp_path, [made.trial() | {"schema": 99}])) == 1


def test_a_study_without_a_whole_trial_is_no_frame(tmp_path):
    made.write(tmp_path, [], tail='{"schema": 1, "ke')
    with pytest.raises(frames.NoTrials, match="trials.jsonl"):
        read(tmp_path)


def test_cells_of_as_many_trials_as_columns(tmp_path):
    frame = made.load(tmp_path, made.sweep(("select", "epoll"), (10,), blocks=1))
    frame = frame.assign(kind=np.array(["a", "b"]))
    table = frames.cells(frame, ["kind", "connections"])
    assert table["trials"].tolist() == [1, 1]


def test_every_kind_of_failure_has_short_words():
    kinds = re.findall(r"``([a-z-]+)``", schema.Failure.__doc__)
    assert len(kinds) > 5
    assert set(kinds) == set(frames.FAILURES)
