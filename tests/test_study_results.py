"""Results and tables: text with its digits, notes for gaps, one atomic file."""

import json
import math
import re
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
import study_made as made

from connlab.publish import results as published
from connlab.report import Report
from connlab.study import results
from connlab.study.frames import load

FACTORS = ["model", "connections"]


@pytest.fixture
def frame(tmp_path):
    trials = made.sweep(("select", "thread", "epoll"), (10, 2000), blocks=4)
    trials[0]["gates"]["client"] = {"ok": False}
    trials[1]["failure"] = {"kind": "server-died", "reason": "server: killed"}
    return made.load(tmp_path, trials)


@pytest.fixture
def report(frame, tmp_path):
    return begun(frame, tmp_path)


def begun(frame, root):
    options = {"number": 1, "question": "Why?", "factors": FACTORS, "root": root}
    report = Report(frame, **options)
    report.answer("Because.")
    return report


def test_trials_add_up(frame):
    count = results.count_trials(frame)
    assert count["total"] == 24
    assert count["failed"] == 1
    assert count["used"] + count["failed"] + count["excluded"] == 24


def test_lost_cells_are_listed_with_their_commonest_reason(frame):
    lost = results.failed_cells(frame, FACTORS)
    select = next(f for f in lost if f.factors["model"] == "select" and f.n == 4)
    assert select.factors["connections"] == 2000
    assert select.reason == "beyond FD_SETSIZE"


def test_a_cell_without_a_level_has_the_message_of_its_own_trials(frame):
    died = frame.iloc[:2].assign(ok=False, reason="server died")
    died["workers"] = pd.array([8, None], dtype="Int64")
    died["failure"] = ["server-died: of eight", "server-died: of none"]
    lost = results.failed_cells(died, ["workers"])
    reasons = {cell.factors.get("workers"): cell.reason for cell in lost}
    assert reasons[None] == "server died (of none)"
    assert reasons[8] == "server died (of eight)"


def test_a_torn_file_is_replaced(report):
    path = report.write()
    path.write_text("[")
    report.write()
    assert json.loads(path.read_text())["answer"] == "Because."


def test_results_are_newer_than_a_trial_of_the_same_second(report):
    """Or a short study would be stale as soon as it is written."""
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    made_at = json.loads(report.write().read_text())["made_at"]
    assert datetime.fromisoformat(made_at) >= before


def test_results_that_are_as_they_were_are_not_written_again(report):
    path = report.write()
    old = json.loads(path.read_text()) | {"made_at": "2020-01-01T00:00:00+00:00"}
    path.write_text(json.dumps(old))
    report.write()
    assert json.loads(path.read_text())["made_at"].startswith("2020")
    report.note("new")
    report.write()
    assert not json.loads(path.read_text())["made_at"].startswith("2020")


def test_results_of_another_commit_than_the_runs_are_stale(frame, tmp_path):
    def stale(commit):
        manifest = {"run": "made", "git": {"commit": commit, "dirty": False}}
        results.write_json(tmp_path / "made" / "manifest.json", manifest)
        run = published.load_run("made", root=tmp_path)
        return run.studies["response-time"].stale

    stale("a" * 40)
    path = begun(frame, tmp_path).write()
    assert json.loads(path.read_text())["commit"] == "a" * 40
    assert stale("a" * 40) == []
    (reason,) = stale("b" * 40)
    assert re.findall("[ab]{10}", reason) == ["a" * 10, "b" * 10]


def test_trials_of_other_settings_leave_no_results_stale(tmp_path):
    """Evaluating again helped nothing, and the run could not be contributed."""
    mine, others = made.sweep(blocks=4), made.sweep(("epoll",), (1,), blocks=4)
    for trial in others:
        trial["factors"]["size"] = 64
        trial["key"] += "-64"
    twice = [others[0] | {"block": 9}]
    made.write(tmp_path, [*mine, *others, *twice])
    frame = load("made", made.STUDY, root=tmp_path, only={"size": 15}, warn=False)
    begun(frame, tmp_path).write()
    assert len(frame) == len(mine)

    def stale():
        return published.load_run("made", root=tmp_path).studies[made.STUDY].stale

    assert stale() == []
    made.write(tmp_path, [*mine[1:], *others])
    (reason,) = stale()
    assert re.findall(r"\d+", reason) == [str(len(mine)), str(len(mine) + 3)]


def test_results_without_trials_name_the_commit_too(tmp_path):
    git = {"commit": "c" * 40, "dirty": True}
    results.write_json(tmp_path / "made" / "manifest.json", {"git": git})
    about = {"run": "made", "number": 1, "question": "Why?", "root": tmp_path}
    bare = Report.without_trials("x", **about)
    bare.answer("Because.")
    assert json.loads(bare.write().read_text())["commit"] == "c" * 40
    assert results.commit_of({}) is None
    assert results.commit_of({"git": None}) is None


def test_no_infinite_number_gets_into_the_file(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        results.write_json(tmp_path / "x.json", {"a": math.inf})
    assert not (tmp_path / "x.json").exists()


def test_why_a_sweep_stopped_and_how_wide_it_is():
    widths = [
        {"metric": "throughput_rps", "half_width": 0.08, "target": 0.05},
        {"metric": "response_mean_s", "half_width": 0.09, "target": 0.1},
        {"metric": "response_p99_s", "half_width": None, "target": 0.1},
    ]
    entry = {"stopping": {"reason": "all 9 blocks", "widths": widths}}
    text = results.stopping_of(entry)
    assert text.startswith("all 9 blocks; ")
    assert "throughput_rps ±8.0% (target ±5%)" in text
    widths[0]["target"] = 0.005
    assert "(target ±0.5%)" in results.stopping_of(entry)
    assert results.stopping_of({}) == ""


def test_a_study_of_two_sweeps_has_the_reasons_of_both():
    first, last = {"reason": "all 2 blocks"}, {"reason": "budget"}
    stopping = results.stopping_of({"earlier": {"a": first}, "stopping": last})
    assert stopping == "all 2 blocks; then: budget"


def test_the_machine_in_a_phrase():
    facts = {"cpu": "Zed 80", "cores": 2, "kernel": "6.1", "memory_bytes": 4 * 2**30}
    phrase = "Zed 80, 2 cores, 4 GiB, Linux 6.1"
    assert results.machine_of({"machine": facts}) == phrase
    assert "Zed 80, 1 core, 4" in results.machine_of({"machine": facts | {"cores": 1}})
    small = facts | {"memory_bytes": 480 * 2**20}
    assert "2 cores, 0.5 GiB" in results.machine_of({"machine": small})
    assert results.machine_of({}) == ""
