"""Results and tables: text with its digits, notes for gaps, one atomic file."""

from __future__ import annotations

import json
import math

import pytest
import study_made as made

from connlab.publish import prepare
from connlab.publish import results as published
from connlab.study import cells, figures, interval, look, results, tables


@pytest.fixture
def frame(tmp_path):
    trials = made.sweep(("select", "thread", "epoll"), (10, 2000), blocks=4)
    trials[0]["gates"]["client"] = {"ok": False}
    trials[1]["failure"] = {"kind": "server-died", "reason": "server: killed"}
    return made.load(tmp_path, trials)


@pytest.fixture
def begun(frame, tmp_path):
    return results.start(
        frame,
        number=1,
        question="Why?",
        factors=["model", "connections"],
        root=tmp_path,
    )


def test_trials_add_up(frame):
    count = results.count_trials(frame)
    assert count["total"] == 24
    assert count["failed"] == 1
    assert count["used"] + count["failed"] + count["excluded"] == 24


def test_lost_cells_are_listed_with_their_commonest_reason(frame):
    lost = results.failed_cells(frame, ["model", "connections"])
    select = next(f for f in lost if f["factors"]["model"] == "select" and f["n"] == 4)
    assert select["factors"]["connections"] == 2000
    assert select["reason"] == "beyond FD_SETSIZE"
    json.dumps(lost)


def test_what_was_varied_in_a_sentence(frame):
    said = results.varied(frame, ["model", "connections"])
    assert "model (epoll, select and thread)" in said
    assert "connections (10 and 2\u202f000)" in said
    assert "4 trials per cell" in said


def test_values_are_in_the_unit_that_reads_best(begun):
    i = interval.Interval(0.009234, 0.009034, 0.009434, 10, 0.95, "t over trials")
    assert begun.value("x", i, "s") == "9.2 ms [9.0, 9.4]"
    kept = begun.values["x"]
    assert kept["value"] == pytest.approx(9.234)
    assert (kept["unit"], kept["n"], kept["level"]) == ("ms", 10, 0.95)
    with pytest.raises(ValueError, match="there already"):
        begun.value("x", i, "s")


def test_an_undetermined_value_has_null_bounds(begun):
    i = interval.t_interval([0.5])
    begun.value("x", i, "s")
    assert begun.values["x"]["lo"] is None
    assert begun.values["x"]["text"] == "500 ms (one trial, no interval)"


def test_words_keep_effect_verdict_and_rule(begun, frame):
    found = cells.compare_cells(
        frame, "response_mean_s", baseline="epoll", within=["connections"]
    )
    word = begun.word("thread_epoll", found[0], verdict="so")
    kept = begun.words["thread_epoll"]
    assert kept["word"] == word == found[0].word
    assert kept["effect"]["value"] == pytest.approx(found[0].comparison.ratio.value)
    assert kept["rule"] == found[0].comparison.rule


def test_the_file_is_whole_or_absent(begun, frame, tmp_path):
    with pytest.raises(ValueError, match="answer"):
        begun.write()
    begun.answer = "Because."
    begun.figure("x", figures.curves(frame, "throughput_rps"), caption="c")
    begun.table("y", tables.grid(frame, "response_mean_s"), caption="c")
    path = begun.write()
    said = json.loads(path.read_text())
    assert not path.with_name("results.json.part").exists()
    assert said["schema"] == 1
    assert said["study"] == "response-time"
    assert said["run"] == "made"
    for kind, file in said["figures"][0]["files"].items():
        assert (path.parent / file).suffix == f".{kind}"
        assert (path.parent / file).is_file()
    assert (path.parent / said["figures"][0]["data"]).is_file()
    assert said["figures"][0]["alt"]
    width = len(said["tables"][0]["columns"])
    assert all(len(row) == width for row in said["tables"][0]["rows"])
    with pytest.raises(ValueError, match="fig-x is there already"):
        begun.figure("x", figures.curves(frame, "throughput_rps"), caption="c")


def test_what_is_found_again_leaves_the_file_as_it_was(begun):
    begun.answer = "Because."
    begun.value("x", interval.t_interval([1.0, 2.0, 3.0]), "s")
    path = begun.write()
    said = json.loads(path.read_text()) | {"made_at": "2001-01-01T00:00:00+00:00"}
    path.write_text(json.dumps(said))
    before = path.read_text()
    begun.write()
    assert path.read_text() == before
    begun.answer = "Because of another reason."
    begun.write()
    said = json.loads(path.read_text())
    assert said["answer"] == "Because of another reason."
    assert not said["made_at"].startswith("2001")


def test_a_torn_file_is_replaced(begun):
    begun.answer = "Because."
    path = begun.write()
    path.write_text("[")
    assert json.loads(begun.write().read_text())["answer"] == "Because."


def test_results_of_another_commit_than_the_runs_are_stale(frame, tmp_path):
    def stale(commit):
        manifest = {"run": "made", "git": {"commit": commit, "dirty": False}}
        results.write_json(tmp_path / "made" / "manifest.json", manifest)
        run = published.load_run("made", root=tmp_path)
        return run.studies["response-time"].stale

    stale("a" * 40)
    begun = results.start(
        frame, number=1, question="Why?", factors=["model"], root=tmp_path
    )
    begun.answer = "Because."
    assert json.loads(begun.write().read_text())["commit"] == "a" * 40
    assert stale("a" * 40) == []
    assert stale("b" * 40) == [
        "evaluated at commit aaaaaaaaaa, the run is at bbbbbbbbbb"
    ]


def test_results_without_trials_name_the_commit_too(tmp_path):
    git = {"commit": "c" * 40, "dirty": True}
    results.write_json(tmp_path / "made" / "manifest.json", {"git": git})
    found = results.bare("x", run="made", number=1, question="Why?", root=tmp_path)
    assert found.commit == "c" * 40
    assert results.commit_of({}) is None
    assert results.commit_of({"git": None}) is None


@pytest.mark.parametrize(
    ("trials", "whole"),
    [
        ([0.5], "500 ms (one trial, no interval)"),
        ([0.4, 0.5, 0.6], r"500 ms \[300, 700\]"),
    ],
)
def test_a_short_value_has_neither_bounds_nor_their_lack(begun, trials, whole):
    begun.value("x", interval.t_interval(trials), "s")
    kept = published.Value.model_validate(begun.values["x"])
    assert prepare.value_text(kept).startswith(f"[{whole}]{{")
    assert prepare.value_text(kept, short=True).startswith("[500 ms]{")


def test_publish_can_read_what_study_writes(begun):
    begun.answer = "Because."
    begun.value("x", interval.t_interval([1.0, 2.0, 3.0]), "s")
    read = published.Results.model_validate_json(begun.write().read_text())
    assert read.values["x"].n == 3


def test_numbers_of_sentences_and_cells_are_kept_with_their_n(begun, frame):
    said = begun.value("x", interval.t_interval([1.0, 2.0, 3.0, 4.0]), "s")
    begun.answer = f"It takes {said}."
    begun.table("grid", tables.grid(frame, "throughput_rps"), caption="C")
    found = json.loads(begun.write().read_text("utf-8"))["numbers"]
    known = {one["text"]: one["n"] for one in found}
    assert known[said] == 4
    cells_ = {cell for row in begun.tables[0]["rows"] for cell in row if "±" in cell}
    assert cells_
    assert {cell.partition(" (")[0] for cell in cells_} <= known.keys()


def test_no_infinite_number_gets_into_the_file(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        results.write_json(tmp_path / "x.json", {"a": math.inf})
    assert not (tmp_path / "x.json").exists()


def test_why_a_sweep_stopped_and_how_wide_it_is():
    entry = {
        "stopping": {
            "reason": "the most trials allowed are there",
            "widths": [
                {"metric": "throughput_rps", "half_width": 0.08, "target": 0.05},
                {"metric": "response_p99_s", "half_width": None, "target": 0.1},
            ],
        }
    }
    text = results.stopping_of(entry)["text"]
    assert text.startswith("the most trials allowed are there; widest")
    assert "throughput_rps ±8.0%" in text
    assert results.stopping_of({}) == {}


def test_the_machine_in_a_phrase():
    facts = {"cpu": "Zed 80", "cores": 2, "kernel": "6.1", "memory_bytes": 4 * 2**30}
    assert results.machine_of({"machine": facts})["text"] == (
        "Zed 80, 2 cores, 4 GiB, Linux 6.1"
    )
    assert results.machine_of({}) == {}


# ---- tables --------------------------------------------------------------------


def test_a_grid_explains_every_gap(frame):
    t = tables.grid(frame, "response_mean_s", unit="ms")
    heads = [c.name for c in t.columns]
    assert heads == ["connections", "thread", "epoll", "select"]
    assert {c.unit for c in t.columns[1:]} == {"ms"}
    last = dict(zip(heads, t.rows[-1], strict=True))
    assert last["connections"] == "2\u202f000"
    assert last["select"].startswith(tables.GAP)
    letter = last["select"][-2]
    assert f"({letter}) beyond FD_SETSIZE" in t.notes
    assert "±" in last["epoll"]


def test_a_grid_says_where_trials_were_left_out(tmp_path):
    trials = made.sweep(("epoll",), (10,), blocks=4)
    trials[2]["gates"]["quiet"] = {"ok": False}
    frame = made.load(tmp_path, trials)
    t = tables.grid(frame, "response_mean_s")
    assert t.rows[0][1].endswith("(a)")
    assert t.notes == ("(a) some trials left out: machine busy",)


def test_one_trial_has_no_interval_in_a_table(tmp_path):
    frame = made.load(tmp_path, [made.trial()])
    t = tables.grid(frame, "response_mean_s")
    assert "±" not in t.rows[0][1]
    assert "no interval" in t.notes[0]


def test_metrics_side_by_side(frame):
    at = frame[frame.connections == 10]
    t = tables.per_model(at, ["response_p99_s", "server_cpu_per_request_s"])
    assert [c.unit for c in t.columns] == ["", "µs", "µs"]
    assert len(t.rows) == 3
    assert "<table" in t._repr_html_()


def test_ratios_as_a_table(frame):
    found = cells.ratio_frame(
        cells.compare_cells(
            frame, "response_mean_s", baseline="epoll", within=["connections"]
        )
    )
    t = tables.ratios(found, labels=["x"] * len(found), styles=look.styles(frame))
    assert all(len(row) == 5 for row in t.rows)
    assert t.rows[0][0].endswith("/ epoll, level-triggered")
