"""Sweeps: every cell once per block, resumed after any end, nothing lost."""

import dataclasses
import errno
import gzip
import itertools
import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import drive_fakes
import pytest
from conftest import wait_for
from drive_fakes import FAKES, alive, full, manifest, rows, sweep, sweep_in_process

from connlab import drive, schema
from connlab.drive import (
    gates,
    grid,
    interleaving,
    location,
    machine,
    plan,
    stopping,
    store,
    sweeps,
)
from connlab.study import load
from connlab.study.frames import RunWarning

#: of the model `gone` of ``fakes/server.py``
REASON_GONE = "the kernel lacks it"


pytestmark = pytest.mark.usefixtures("client_program", "nobody_left")


def test_blocks_that_a_busy_machine_spoilt_are_measured_again(
    tmp_path, monkeypatch, spare_blocks
):
    monkeypatch.setattr(stopping, "SPARE", spare_blocks)
    monkeypatch.setattr(stopping, "is_used", lambda row: row["block"] != 1)
    monkeypatch.setattr(stopping, "_spoilt", lambda row: row["block"] == 1)
    report = sweep(tmp_path, trials=4, factors={"model": ["good", "busy"]})
    assert [row["block"] for row in rows(tmp_path)] == [n // 2 for n in range(10)]
    assert report.complete
    assert sweep(tmp_path, trials=4, factors={"model": ["good", "busy"]}).done == 0


def test_a_sweep_measures_every_cell_in_every_block(tmp_path):
    report = sweep(tmp_path, trials=2, factors={"model": ["good", "busy"]})
    assert (report.planned, report.done, report.failed) == (4, 4, 0)
    trials = rows(tmp_path)
    found = sorted((r["block"], r["factors"]["model"]) for r in trials)
    assert found == [*itertools.product((0, 1), ("busy", "good"))]
    for row in trials:
        schema.Trial.model_validate(row)
        assert schema.flatten(row)["throughput_rps"] > 0
    assert len({row["key"] for row in trials}) == 4


def test_no_path_of_this_machine_is_recorded(tmp_path):
    sweep(tmp_path, models=["good", "exits"])
    texts = [path.read_text() for path in (tmp_path / "r").rglob("*.json*")]
    assert len(texts) > 1
    told = (str(drive_fakes.ROOT), str(tmp_path), "/usr/")
    assert [path for path in told if path in "".join(texts)] == []


def test_a_second_call_measures_only_what_is_not_there(tmp_path):
    sweep(tmp_path)
    again = sweep(tmp_path)
    assert (again.done, again.resumed) == (0, 1)
    more = sweep(tmp_path, trials=2)
    assert (more.done, more.resumed) == (1, 1)
    other = sweep(tmp_path, duration=0.25)
    assert (other.done, other.resumed) == (1, 0)
    assert len(rows(tmp_path)) == 3


@pytest.mark.parametrize("differs", ["mitigations", "binaries"])
def test_a_study_of_another_class_of_environment_is_refused_as_it_is(
    tmp_path, monkeypatch, differs
):
    """Before anything is measured, and with what differs: both could not be read."""
    sweep(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*.json*")}
    now = {}
    if differs == "mitigations":
        monkeypatch.setattr(machine, "mitigations", lambda: {"meltdown": "off"})
    else:
        copy, source = tmp_path / "server.py", drive_fakes.programs()
        copy.write_text(Path(source.server[-1]).read_text() + "# another build\n")
        rebuilt = (*source.server[:-1], str(copy))
        now["programs"] = drive.Programs(rebuilt, source.client)
    with pytest.raises(ValueError, match=f"^run: 'r'.*other {differs}"):
        sweep(tmp_path, **now)
    assert {path: path.read_bytes() for path in before} == before
    assert sweep(tmp_path, run="another", **now).done == 1


@pytest.mark.parametrize("damage", ["seconds", "failure", "all"])
def test_a_line_that_is_no_trial_is_left_out_as_readers_leave_it_out(tmp_path, damage):
    """It raised KeyError, or counted as measured while no frame had it."""
    sweep(tmp_path, trials=2)
    log = tmp_path / "r/s/trials.jsonl"
    first, second = map(json.loads, log.read_text().splitlines())
    wrong = {"seconds": second | {"seconds": None}, "failure": second | {"failure": 1}}
    line = wrong.get(damage, {"hello": "world"})
    log.write_text(f"{json.dumps(first)}\n{json.dumps(line)}\n")
    for measure in (False, True):
        report = sweep(tmp_path, trials=2, measure=measure)
        assert (report.done, report.resumed) == (int(measure), 1)
        assert "trials.jsonl: line 2 is no trial and left out" in report.remarks
    assert sweep(tmp_path, trials=2).resumed == 2


@pytest.mark.parametrize("line", ['{"schema": 1}', "rubbish"])
def test_lines_that_are_no_trials_have_one_remark(tmp_path, line):
    """Each had its own; whoever evaluated the run saw one for all of them."""
    sweep(tmp_path)
    log = tmp_path / "r/s/trials.jsonl"
    log.write_text(log.read_text() + f"{line}\n" * 3)
    for measure in (False, True):
        remarks = sweep(tmp_path, measure=measure).remarks
        (remark,) = (text for text in remarks if text.startswith(log.name))
        assert "line 2 is " in remark
        assert remark.endswith(" and left out, the first of 3 such lines")


def test_of_lines_with_the_same_key_the_last_counts_for_everyone(tmp_path):
    """Readers took the first: of a set that a crash cut, a baseline that is not its."""
    sweep(tmp_path)
    (line,) = rows(tmp_path)
    line["failure"] = {"kind": "server-died", "reason": "measured again"}
    with open(tmp_path / "r/s/trials.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    for measure in (False, True):
        report = sweep(tmp_path, measure=measure)
        assert (report.done, report.resumed, report.failed) == (0, 1, 1)
        assert f"trial {line['key']} stands twice; the last counts" in report.remarks
    with pytest.warns(RunWarning, match="twice; the last counts"):
        frame = load("r", "s", root=tmp_path)
    assert frame["failure"].item() == "server-died: measured again"


def test_a_model_that_can_run_by_now_is_measured(tmp_path, monkeypatch):
    sweep(tmp_path, models=["gone"])
    assert sweep(tmp_path, models=["gone"]).resumed == 1
    registry = plan.registry(programs=drive_fakes.programs())
    able = [model.model_copy(update={"available": True}) for model in registry.models]
    now = registry.model_copy(update={"models": tuple(able)})
    monkeypatch.setattr(plan, "registry", lambda programs: now)
    report = sweep(tmp_path, models=["gone"])
    assert (report.done, report.resumed, report.failed) == (1, 0, 0)


def test_trials_with_a_lowered_limit_are_other_trials(tmp_path, monkeypatch):
    sweep(tmp_path)
    limits = machine.limits()
    lowered = limits | {"descriptors": {"soft": 900, "hard": 900}}
    monkeypatch.setattr(machine, "limits", lambda: lowered)
    report = sweep(tmp_path, fixed={"connections": 3, "descriptors": 900})
    assert (report.done, report.resumed) == (1, 0)
    assert [r["factors"].get("descriptors") for r in rows(tmp_path)] == [None, 900]


def test_a_failed_trial_is_a_row_with_its_reason(tmp_path):
    report = sweep(tmp_path, models=["good", "exits", "gone"])
    assert (report.failed, report.unavailable) == (2, 1)
    assert "1 of servers that are not available here, 1 failed" in str(report)
    failures = {r["factors"]["model"]: r["failure"] for r in rows(tmp_path)}
    assert failures["good"] is None
    assert failures["exits"]["kind"] == "server-start"
    assert failures["gone"] == {"kind": "unavailable", "reason": REASON_GONE}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"factors": {"model": ["god"]}}, "'god'.*'good'"),
        ({"baseline": {"model": "god"}}, "'god'.*'good'"),
        ({"fixed": {"workload": "eco"}}, "'eco'.*'echo'"),
        ({"trials": 0}, "trials: 0"),
        ({"duration": -1}, "duration: -1"),
        ({"response_times": -1}, "response_times: -1; allowed: 0 or more"),
        ({"duration": float("nan")}, "duration: nan; allowed: more than 0 seconds"),
        ({"duration": float("inf")}, "duration: inf"),
        ({"warmup": float("nan")}, "warmup: nan; allowed: 0 seconds or more"),
        ({"response_times": float("nan")}, "response_times: nan"),
        ({"duration_max": float("nan")}, "duration_max: nan"),
        ({"duration_max": 0.1}, r"duration_max: 0.1; allowed: 0\.2 "),
        ({"run": "../x"}, r"run: '\.\./x'"),
        ({"fixed": {"descriptors": 101}}, "descriptors: 101; "),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(
    tmp_path, changes, words
):
    with pytest.raises(ValueError, match=words):
        sweep(tmp_path, **changes)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("baseline", "remarks"), [("good", 0), ("busy", 1)])
def test_a_baseline_that_takes_no_part_is_said(tmp_path, baseline, remarks):
    report = sweep(tmp_path, trials=1, baseline={"model": baseline})
    assert sum(baseline in remark for remark in report.remarks) == remarks


def test_programs_that_are_not_built_are_said(tmp_path):
    missing = drive.Programs(("build/none",), ("build/none",))
    with pytest.raises(FileNotFoundError, match="make build"):
        sweep(tmp_path, programs=missing)


def test_a_killed_sweep_goes_on_where_it_stopped(tmp_path):
    """kill -9 in the middle: the second call measures the rest, and only that."""
    arguments = {"trials": 4, "factors": {"model": ["good", "busy"]}}
    process = sweep_in_process(tmp_path, **arguments)
    path = tmp_path / "r" / "s" / "trials.jsonl"
    wait_for(lambda: path.exists() and path.read_text().count("\n") >= 3)
    process.kill()
    process.communicate()
    with open(path, "a") as file:
        file.write('{"schema":1,"key":"half a li')
    kept = path.read_text().splitlines()[:-1]
    report = sweep(tmp_path, **arguments)
    assert report.resumed == len(kept) >= 3
    assert report.done == 8 - len(kept)
    assert any("cut short" in remark for remark in report.remarks)
    lines = path.read_text().splitlines()
    assert lines[: len(kept)] == kept
    keys = [json.loads(line)["key"] for line in lines]
    assert len(keys) == len(set(keys)) == 8
    wait_for(lambda: not alive(FAKES, "good"))


@pytest.mark.serial
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_sweep_within_two_seconds(tmp_path, number):
    duration = 100 + int(number)  # tells this test's client from the other's
    process = sweep_in_process(
        tmp_path, trials=2, models=["stubborn"], duration=duration, progress=True
    )
    wait_for(lambda: alive(FAKES, duration))
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(number)
    output, _ = process.communicate(timeout=10)
    assert time.monotonic() - began < 2
    assert process.returncode != 0
    assert "0 trials" in output
    assert not alive(FAKES, "stubborn")
    beat = json.loads((tmp_path / "r" / "s" / "progress.json").read_text())
    assert beat["state"] == "interrupted"


def test_the_estimate_counts_what_is_left(tmp_path):
    arguments = drive_fakes.asked(models=["good", "busy"], trials=2)
    before = drive_fakes.estimate("s", run="r", root=tmp_path, **arguments)
    assert (before.trials, before.cells, before.resumed) == (4, 2, 0)
    assert 4 * 0.25 < before.seconds < 4 * 1.0
    sweep(tmp_path, models=["good", "busy"])
    after = drive_fakes.estimate("s", run="r", root=tmp_path, **arguments)
    assert (after.trials, after.resumed) == (2, 2)


def test_cost_progress_and_report_are_lines_where_there_is_no_terminal(
    tmp_path, capsys
):
    sweep(tmp_path, trials=2, progress=True)
    output = capsys.readouterr().out
    assert "1 cell, 2 trials" in output
    assert "s: 2/2 trials" in output
    assert re.search(r"\d+ ?% .*windows", output)
    assert "\r" not in output


def test_the_manifest_names_machine_parameters_and_all_models(tmp_path):
    sweep(tmp_path, seed=9)
    sweep(tmp_path, seed=9, fixed={"connections": 4})
    facts = manifest(tmp_path)
    assert facts["run"] == "r"
    assert facts["machine"]["cpu"]
    assert facts["machine"]["limits"]["descriptors"]["soft"] > 0
    assert facts["machine"]["sysctls"]["net.core.somaxconn"]
    study = facts["studies"]["s"]
    assert study["parameters"]["seed"] == 9
    assert study["parameters"]["fixed"] == {"connections": 4}
    (earlier,) = study["earlier"].values()
    for ended in (study["stopping"], earlier):
        assert ended["reason"] == "the one block is there"
    assert study["stopping"]["complete"] is True
    assert list(facts["environments"]) == [facts["environment"]]
    assert rows(tmp_path)[0]["environment"] == facts["environment"]
    models = {m["name"]: m for m in facts["registry"]["models"]}
    assert models["good"]["label"] == "fake good"
    assert models["gone"]["reason"] == REASON_GONE


def test_the_window_share_is_windows_over_wall_time(tmp_path):
    began = time.monotonic()
    report = sweep(tmp_path, trials=2, duration=0.5)
    assert 1.0 < report.seconds <= time.monotonic() - began
    assert report.window_share == pytest.approx(1.0 / report.seconds, rel=0.02)


def test_histograms_are_kept_packed_beside_the_trials(tmp_path):
    sweep(tmp_path, trials=2)
    kept = {path.name for path in (tmp_path / "r" / "s" / "latency").iterdir()}
    assert kept == {f"{row['key']}.csv.gz" for row in rows(tmp_path)}
    text = gzip.decompress((tmp_path / "r" / "s" / "latency" / kept.pop()).read_bytes())
    assert text.startswith(b"lower_ns,upper_ns,count,clock\n")
    sweep(tmp_path, run="without", histograms=False)
    assert not (tmp_path / "without" / "s" / "latency").exists()


def test_every_trial_carries_its_verdicts_timeline_and_label(tmp_path):
    """The window is long enough for a server that gets little time to refuse."""
    options = {"fixed": {"connections": 15}, "duration": 1.0}
    sweep(tmp_path, models=["good", "refuses"], **options)
    trials = {row["factors"]["model"]: row for row in rows(tmp_path)}
    assert trials["good"]["gates"]["census"]["ok"] is True
    assert trials["good"]["timeline"]["step_ms"] == 100
    refused = trials["refuses"]
    assert refused["gates"]["census"]["ok"] is False
    assert refused["gates"]["census"]["value"] == pytest.approx(10 / 15)
    assert refused["label"] == "limit-bound:descriptors"
    assert schema.flatten(refused)["ok"] is False


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_histogram_that_could_not_be_kept_whole_is_missing(
    tmp_path, monkeypatch, call
):
    real = getattr(store.os, call)

    def called(target, *rest):
        path = os.readlink(f"/proc/self/fd/{target}") if call == "fsync" else target
        (full if ".csv.gz" in str(path) else real)(target, *rest)

    monkeypatch.setattr(store.os, call, called)
    report = sweep(tmp_path)
    assert (report.done, report.failed) == (1, 0)
    (remark,) = (text for text in report.remarks if "histogram" in text)
    assert os.strerror(errno.ENOSPC) in remark
    assert not list((tmp_path / "r" / "s" / "latency").iterdir())


@pytest.fixture
def undisturbed(monkeypatch):
    judge = gates.judge  # findings are found, and no gate is asked
    monkeypatch.setattr(gates, "judge", lambda trial, names=(): judge(trial, names))


@pytest.fixture
def moved_cores(monkeypatch):
    """Let a host move the cores between the second trial and the third, and back."""
    ns = itertools.chain([80, 82, 79, 85, 370, 375], itertools.repeat(81))
    monkeypatch.setattr(location, "core_to_core_s", lambda sets: next(ns) / 1e9)


@pytest.fixture
def rates_that_differ(monkeypatch):
    """Let each trial tell one percent more requests per second than the one before."""
    run, told = sweeps.trials.run, itertools.count()

    def trial(*arguments, **options):
        outcome = run(*arguments, **options)
        rps = 1000 * 1.01 ** next(told)
        window = {**outcome.client.window, "throughput_rps": rps}
        client = outcome.client.model_copy(update={"window": window})
        return dataclasses.replace(outcome, client=client)

    monkeypatch.setattr(sweeps.trials, "run", trial)


@pytest.mark.usefixtures("undisturbed", "rates_that_differ")
def test_targets_are_pursued_until_the_most_trials_allowed(tmp_path):
    """No interval is as narrow as a millionth, so all the trials are used."""
    report = sweep(tmp_path, trials=2, max_trials=3, targets={"throughput_rps": 1e-6})
    assert report.done == 3
    assert report.stopped_because == (
        "the most trials allowed (3 per cell) are there; 1 of 1 cells are wider than "
        "their target or have too few trials that may be used"
    )
    assert re.search(r"±0\.0001%\D* 0 of 1 ", str(report))
    (width,) = manifest(tmp_path)["studies"]["s"]["stopping"]["widths"]
    assert width["half_width"] > 1e-6
    assert (width["n"], width["met"]) == (3, False)
    assert width["factors"] == {"model": "good"}


@pytest.mark.usefixtures("undisturbed", "moved_cores")
def test_a_trial_keeps_how_far_apart_its_cores_were_and_moves_are_told(tmp_path):
    report = sweep(tmp_path, trials=4)
    assert (report.done, report.flagged, report.complete) == (4, 0, True)
    assert any(text.endswith("moved the cores: 1 of 4") for text in report.remarks)
    kept = rows(tmp_path)
    assert kept[2]["core_to_core"] == {"before_s": 370e-9, "after_s": 375e-9}
    told = manifest(tmp_path)["studies"]["s"]["sweep"]
    assert {row["sweep"] for row in kept} == {told}
    found = load("r", "s", root=tmp_path, warn=False)
    assert found["cores_off"].tolist() == [0, 0, 1, 0]
    assert found["ok"].all()
    again = sweep(tmp_path, trials=4)
    assert any(text.endswith("moved the cores: 1 of 4") for text in again.remarks)


@pytest.mark.usefixtures("undisturbed")
def test_a_target_that_is_met_stops_at_the_fewest_trials(tmp_path):
    report = sweep(tmp_path, trials=2, max_trials=5, targets={"duration": 0.05})
    assert report.done == 2
    assert report.stopped_because == "every target was met after 2 blocks"


COST_S = 0.5


@pytest.fixture
def half_a_second_each(monkeypatch):
    """Let a trial cost half a second and nothing else any time, on every machine."""
    run = sweeps.trials.run

    def timed(*arguments, **options):
        return dataclasses.replace(run(*arguments, **options), seconds=COST_S)

    spent = property(lambda sweep: sweep.resumed_s + COST_S * sweep.done)
    monkeypatch.setattr(sweeps.trials, "run", timed)
    monkeypatch.setattr(sweeps._Sweep, "spent_s", spent)


def test_a_budget_pays_for_earlier_trials_and_all_of_this_call():
    under_way = drive_fakes.under_way(resumed_s=3.0, began=time.monotonic() - 500)
    assert 503 <= under_way.spent_s < 600


@pytest.mark.parametrize(
    ("left", "spent_s", "is_out"),
    [
        (range(5), 6.0, False),  # six servers of 1 s: it was taken for 7.2 s
        (range(5), 6.8, True),
        ([3], 10.0, False),  # itself and a baseline: 2 s
        ([3], 10.8, True),
    ],
)
def test_a_budget_pays_for_carried_baselines_once(left, spent_s, is_out):
    """Trials of their set hold their time; they were paid for beside these."""
    slots = tuple(grid.Slot(cell, 1, 1, cell) for cell in range(5))
    group = interleaving.Group(slots, (interleaving.Set((0, 1, 2, 3, 4), 0, "t"),))
    assert len(group.all) == 6
    under_way = drive_fakes.under_way(resumed_s=spent_s, began=time.monotonic())
    under_way.plan.rule = stopping.Rule(1, 9, {}, budget_s=12.4)
    under_way.rows = [[{"seconds": 6 / 5}] for _ in slots]
    todo = group.without([slot for slot in slots if slot.cell not in left])
    assert under_way._out_of_budget(group, todo) is is_out


@pytest.mark.usefixtures("half_a_second_each")
def test_a_budget_ends_a_sweep_in_time_and_more_of_it_goes_on(tmp_path):
    report = sweep(tmp_path, trials=20, budget="2s")
    assert report.done == 4
    assert not report.complete
    assert "2 s" in report.stopped_because
    assert "to go on: -p budget 4s" in str(report)
    beat = json.loads((tmp_path / "r" / "s" / "progress.json").read_text())
    assert beat["state"] == "interrupted"
    asked = drive_fakes.asked(trials=20, budget="2s")
    assert drive_fakes.estimate("s", run="r", root=tmp_path, **asked).seconds_max == 0
    again = sweep(tmp_path, trials=20, budget="2s")
    assert (again.resumed, again.done) == (4, 0)
    assert "2 s" in again.stopped_because
    more = sweep(tmp_path, trials=20, budget="3s")
    assert (more.resumed, more.done) == (4, 2)
    without = sweep(tmp_path, trials=7)
    assert (without.resumed, without.done) == (6, 1)
    assert "to go on" not in str(without)


@pytest.mark.usefixtures("half_a_second_each")
@pytest.mark.parametrize(
    ("budget", "trials", "done"),
    [
        ("1.5s", 20, 4),  # half as much again, to the fourth block
        ("1.2s", 20, 3),  # 1.8 s do not suffice for it
        ("1.5s", 3, 3),  # no interval was asked for
        ("1s", 3, 2),
        ("2s", 20, 4),  # nothing on top, as the fourth is there
    ],
)
def test_a_budget_lasts_longer_where_nothing_would_have_an_interval(
    tmp_path, budget, trials, done
):
    assert sweep(tmp_path, trials=trials, budget=budget).done == done


@pytest.mark.usefixtures("undisturbed", "moved_cores", "half_a_second_each")
def test_moves_are_told_of_a_block_that_the_budget_cut_short(tmp_path):
    """Its trials were told, and their intervals made, as if no core had moved."""
    report = sweep(tmp_path, models=["good", "busy"], trials=3, budget="1.5s")
    assert (report.done, report.complete) == (3, False)
    assert any(text.endswith("moved the cores: 1 of 3") for text in report.remarks)


def test_a_disk_that_is_full_stops_a_sweep_and_loses_nothing(tmp_path, monkeypatch):
    sweep(tmp_path)
    kept = rows(tmp_path)

    with monkeypatch.context() as patched:
        patched.setattr(store.os, "fsync", full)
        report = sweep(tmp_path, trials=3)
    assert os.strerror(errno.ENOSPC) in report.stopped_because
    assert not report.complete
    assert rows(tmp_path) == kept
    assert sweep(tmp_path, trials=3).resumed == 1


def test_nothing_is_left_behind_by_many_trials(tmp_path):
    """A soak in small: no process, no descriptor, no thread more than before."""
    sweep(tmp_path)
    before = _open_files(), threading.active_count()
    sweep(tmp_path, models=["good", "exits", "children"], trials=3, duration=0.1)
    assert (_open_files(), threading.active_count()) == before
    assert not alive(FAKES, "children")


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
