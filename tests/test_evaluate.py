"""What is derived can be thrown away: it is made again from the trials alone."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import psutil
import publish_made as made
import pytest
from conftest import REFERENCE, is_running, wait_for, with_reference
from drive_fakes import in_background

from connlab import evaluate, notebook, report, schema
from connlab.__main__ import main
from connlab.study.results import Results

STUDY = "uring"
#: what a study prints, apart from when it was made
PRINTED = ("answer", "findings", "tables", "words", "stopping", "trials")

pytestmark = with_reference


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project whose one run holds two studies of the reference."""
    made.project_of_reference(tmp_path, STUDY, "the-machine")
    monkeypatch.setenv("CONNLAB_HOME", str(tmp_path))
    return tmp_path


def results(run: Path) -> dict:
    """Return results as they are read: the reference's may be of an older form."""
    text = (run / STUDY / "results.json").read_text()
    return Results.model_validate_json(text).model_dump()


@pytest.fixture
def not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate.paper, "judge", lambda run: "judged")


def measured_with(project: Path, **parameters: object) -> Path:
    """Change parameters of the study's executed notebook; return its path."""
    executed = project / "runs/reference" / STUDY / "notebook.ipynb"
    content = json.loads(executed.read_text())
    content["metadata"]["papermill"]["parameters"] |= parameters
    executed.write_text(json.dumps(content))
    return executed


def test_a_study_measured_elsewhere_is_made_again_from_its_trials(project, capsys):
    run = project / "runs" / "reference"
    facts = schema.facts_bytes(run / STUDY / schema.TRIALS)
    manifest = (run / "manifest.json").read_bytes()
    shutil.rmtree(run / STUDY / "figures")
    (run / STUDY / "results.json").unlink()
    assert evaluate.make("reference", nb="07") == {}
    again, before = results(run), results(REFERENCE)
    assert {k: again[k] for k in PRINTED} == {k: before[k] for k in PRINTED}
    assert report.numbers(run / STUDY) == report.numbers(REFERENCE / STUDY) != {}
    for figure in again["figures"]:
        assert (run / STUDY / figure["files"]["svg"]).is_file()
    assert facts == schema.facts_bytes(run / STUDY / schema.TRIALS)
    assert manifest == (run / "manifest.json").read_bytes()
    assert re.search(r"We put \d+ claims", capsys.readouterr().out)


def test_what_a_study_was_measured_with_is_taken_from_its_notebook(project):
    path = notebook.find("07")
    executed = measured_with(project, trials=77, long_gone=1)
    values = evaluate.parameters("reference", path)
    assert values["trials"] == 77
    assert not {"run", "root", "long_gone"} & values.keys()
    executed.rename(executed.with_name("notebook.failed.ipynb"))
    assert evaluate.parameters("reference", path) == values


def test_what_its_notebook_allows_no_more_fails_alone(project, not_judged):
    measured_with(project, trials=-1)
    failed = evaluate.make("reference", nb="07")
    assert "trials: -1; allowed" in failed["07-uring"]


def test_an_executed_notebook_that_is_cut_short_fails_alone(project, not_judged):
    """Of all studies none was evaluated, and no file was named."""
    executed = project / "runs/reference" / STUDY / "notebook.ipynb"
    executed.write_text(executed.read_text()[:100])
    said = "07-uring: runs/reference/uring/notebook.ipynb cannot be read"
    assert evaluate.make("reference", nb="07") == {"07-uring": said}


def test_a_notebook_that_would_measure_is_not_executed(project, not_judged):
    text = notebook.find("07").read_text()
    (project / "notebooks").unlink()
    (project / "notebooks").mkdir()
    lines = (line for line in text.splitlines() if "measure: bool" not in line)
    (project / "notebooks/07-uring.ipynb").write_text("\n".join(lines))
    failed = evaluate.make("reference", nb="07")
    assert "unknown parameter 'measure'" in failed["07-uring"]


def test_trials_without_a_notebook_are_left_out_aloud(project, not_judged):
    """As of a run that plain papermill or Jupyter made, or that was stopped."""
    run, said = project / "runs" / "reference", []
    for name in (STUDY, "the-machine"):
        (run / name / "notebook.ipynb").unlink()
    assert evaluate.make("reference", say=said.append) == {}
    left_out = [line for line in said if "left out" in line]
    assert [re.findall(r"\d\d", line)[0] for line in left_out] == ["00", "07"]
    (run / STUDY / "notebook.ipynb").write_text('{"cells": [], "metadata": {}}')
    assert evaluate.parameters("reference", notebook.find("07")) == {}


def test_a_run_is_evaluated_by_one_command_at_a_time(project, not_judged):
    """Two took each other's tables away."""
    said = "'reference' is being evaluated by another command"
    lock = project / "runs/reference/claims"
    lock.mkdir(exist_ok=True)
    with schema.alone(lock), pytest.raises(RuntimeError, match=said):
        evaluate.make("reference", nb="07", say=pytest.fail)
    measured_with(project, trials=-1)
    assert "trials: -1" in evaluate.make("reference", nb="07")["07-uring"]


def test_a_study_comes_after_those_that_it_reads():
    first, between, last = evaluate._in_order(notebook.every())
    assert list(map(notebook.study_of, first)) == ["the-machine", "intervals"]
    assert list(map(notebook.study_of, last)) == ["doubts"]
    assert {*first, *between, *last} == set(notebook.every())


def test_a_killed_worker_ends_it_and_is_said(project, monkeypatch, capsys):
    def workers():
        children = psutil.Process().children()
        return [c for c in children if "spawn_main" in " ".join(c.cmdline())]

    def kill():
        wait_for(workers)
        workers()[0].kill()

    for number in ("01", "02"):
        path = notebook.find(number)
        folder = project / "runs/reference" / notebook.study_of(path)
        folder.mkdir()
        (folder / "notebook.ipynb").write_text('{"cells": [], "metadata": {}}')
    for study in (STUDY, "the-machine"):
        (project / "runs/reference" / study / "notebook.ipynb").unlink()
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    killer = threading.Thread(target=kill)
    killer.start()
    assert main(["evaluate", "--run", "reference"]) == 1
    killer.join()
    assert "a worker was killed" in capsys.readouterr().err


@pytest.fixture
def under_way(project) -> Iterator[subprocess.Popen]:
    """Give an evaluation whose workers are there; nothing of it may be left."""
    run = project / "runs/reference"
    shutil.copytree(run / STUDY, run / "intervals")  # a stage of two
    words = ["-m", "connlab", "evaluate", "--run", "reference"]
    with in_background(*words, start_new_session=True) as process:
        family = psutil.Process(process.pid).children
        # two and what they started, each after seconds of imports
        wait_for(lambda: len(family(recursive=True)) > 4, seconds=90)
        pids = [member.pid for member in family(recursive=True)]
        yield process
    wait_for(lambda: not any(map(is_running, pids)), seconds=10)
    assert not [*run.rglob("*.partial.ipynb")]


def test_who_is_killed_leaves_no_worker_and_no_kernel(under_way):
    under_way.kill()
    assert under_way.wait() == -signal.SIGKILL


def test_ctrl_c_ends_its_workers(under_way):
    os.killpg(under_way.pid, signal.SIGINT)
    said = under_way.communicate(timeout=60)[0]
    assert under_way.returncode == 130
    assert "Traceback" not in said
    assert "worker was killed" not in said


def test_a_worker_that_outlives_its_signals_is_killed(monkeypatch):
    """As one that waited for a lock of a worker that had died; all waited for it."""
    spawn = multiprocessing.get_context("spawn")  # fork() is refused beside threads
    monkeypatch.setattr(evaluate, "_GRACE_S", 0.2)
    worker = spawn.Process(target=time.sleep, args=(60,))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the worker inherits it
    try:
        worker.start()
    finally:
        signal.signal(signal.SIGTERM, before)
    evaluate._end_workers()
    worker.join(20)
    assert worker.exitcode == -signal.SIGKILL


def test_a_study_that_reads_others_waits_for_them(monkeypatch):
    """Study 00 is over before those that draw its lines, and all before the last."""
    over, seen = [], {}

    def execute(run, path):
        seen[path.stem] = list(over)
        time.sleep(0.05)
        over.append(path.stem)
        return path, None

    def judge(run):
        seen["ledger"] = list(over)
        raise ValueError(run)  # as it will again where it is heard

    monkeypatch.setattr(evaluate, "_execute", execute)
    monkeypatch.setattr(evaluate.paper, "judge", judge)
    monkeypatch.setattr(
        evaluate, "ProcessPoolExecutor", lambda n, *_: ThreadPoolExecutor(n)
    )
    paths = notebook.every()
    for cores in (1, 2, 3):
        monkeypatch.setattr(evaluate, "_cores", lambda cores=cores: cores)
        over.clear()
        seen.clear()
        done = list(evaluate._evaluated("reference", paths))
        assert sorted(done) == [(path, None) for path in paths]
        first, intervals, *between, last = [path.stem for path, _ in done]
        assert (first, intervals) == ("00-the-machine", "10-intervals")
        assert last == "09-doubts"
        assert all(first in seen[name] for name in between)
        assert {first, intervals, *between} == {*seen[last]}
        assert ("ledger" in seen) == (cores > 1)
        assert set(seen.get("ledger", between)) >= {*between}


def test_ctrl_c_has_no_traceback_of_a_worker_that_waits(capfd):
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, evaluate._begin_worker) as pool:
        worker = psutil.Process(pool.submit(os.getpid).result())
        worker.send_signal(signal.SIGINT)
        worker.wait(timeout=10)
    assert capfd.readouterr().err == ""


@pytest.mark.long
def test_a_study_that_fails_leaves_the_others_alone(project, capsys):
    run = project / "runs/reference"
    shutil.copytree(REFERENCE / "cores", run / "cores")
    schema.facts_file(run / "cores" / schema.TRIALS).unlink()
    shutil.rmtree(run / STUDY / "figures")
    failed = evaluate.make("reference")
    assert list(failed) == ["08-cores"]
    assert failed["08-cores"] in capsys.readouterr().out
    assert (run / STUDY / "figures").is_dir()


@pytest.mark.parametrize(
    ("words", "status", "name"),
    [
        (["--run", "nobody"], 2, "run 'nobody'"),
        (["03", "--run", "reference"], 1, "03-pools.ipynb"),
        (["urin", "--run", "reference"], 2, "'uring'"),
    ],
)
def test_a_missing_run_or_study_is_named(project, capsys, words, status, name):
    assert main(["evaluate", *words]) == status
    assert name in capsys.readouterr().err
