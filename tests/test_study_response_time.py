"""Study 01: every sentence follows its data, and the notebook keeps the rules."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import notebook_rules as rules
import pytest
import study_made as made

from connlab.study import look
from connlab.study import response_time as rt

NOTEBOOK = rules.ROOT / "notebooks" / "01-response-time.ipynb"
MODELS = ("select", "thread", "epoll")


def run(tmp_path, models=MODELS, connections=(1, 100, 1000), **options):
    trials = made.sweep(models, connections, **options)
    return made.load(tmp_path, trials)


def found(frame):
    return rt.compare(frame, baseline="epoll")


# ---- the answer ----------------------------------------------------------------


def test_models_that_differ_are_a_yes(tmp_path):
    frame = run(tmp_path, capacity={"thread": 60_000.0}, cv=0.01, blocks=8)
    said = rt.answer(frame, found(frame))
    assert said.startswith("Yes: at 1\u202f000 connections")
    assert "thread per connection" in said
    assert "of 6 comparisons with epoll, level-triggered 2 came out different" in said


def test_models_that_are_shown_alike_are_a_no(tmp_path):
    frame = run(tmp_path, cv=0.005, blocks=8)
    said = rt.answer(frame, found(frame))
    assert said.startswith("No, not here")
    assert "6 came out indistinguishable" in said


def test_noise_is_undecided(tmp_path):
    frame = run(tmp_path, cv=0.3, blocks=4)
    assert rt.answer(frame, found(frame)).startswith("Undecided")


def test_nothing_to_compare_is_said(tmp_path):
    frame = run(tmp_path, models=("epoll",))
    assert "cannot say" in rt.answer(frame, found(frame))
    assert rt.ratios(None, frame, []) is None


# ---- the findings --------------------------------------------------------------


def test_the_ceiling_is_where_throughput_stands_still(tmp_path):
    frame = run(
        tmp_path,
        connections=(1, 2, 10, 1000),
        models=("epoll", "poll"),
        capacity={"poll": 1e9},
    )
    said = rt.ceiling(frame)
    assert "from 10 connections on for epoll, level-triggered" in said
    assert "still grows at the last level measured for poll" in said
    assert "nothing can be said" in rt.ceiling(frame[frame.connections == 1])


def test_a_throughput_that_falls_again_has_no_ceiling_to_stay_at(tmp_path):
    frame = run(
        tmp_path,
        connections=(1, 10, 100, 1000),
        models=("epoll", "poll", "select"),
        capacity={"poll": 1e9, "epoll": 120_000.0},
        cv=0.01,
    )
    last = (frame.model == "epoll") & (frame.connections == 1000)
    frame.loc[last, "throughput_rps"] *= 0.46
    said = rt.ceiling(frame)
    assert "from 10 connections on for select" in said
    assert "still grows at the last level measured for poll" in said
    assert "It is highest at 10" in said
    assert "for epoll, level-triggered, and 0.459 [0." in said
    assert "times that at 1\u202f000, its last level" in said
    alone = rt.ceiling(frame[frame.model == "epoll"])
    assert alone.startswith("Throughput is highest at 10")
    assert "within 10 %" not in alone


def test_a_dip_on_the_way_puts_the_ceiling_behind_it(tmp_path):
    frame = run(tmp_path, connections=(1, 10, 100, 1000), models=("epoll",), cv=0.001)
    dip, last = frame.connections == 100, frame.connections == 1000
    frame.loc[dip, "throughput_rps"] *= 0.5
    frame.loc[last, "throughput_rps"] *= 0.95
    said = rt.ceiling(frame)
    assert said.startswith("Throughput is highest at 10 connections for epoll")
    assert "0.95" in said
    frame.loc[dip, "throughput_rps"] *= 1.9
    assert "from 10 connections on for epoll" in rt.ceiling(frame)


def test_littles_law_is_checked_against_the_counted_rate(tmp_path):
    frame = run(tmp_path)
    assert "in 45 of 45 usable trials" in rt.little(frame)
    off = frame.assign(response_mean_s=frame.response_mean_s * 1.1)
    assert "in 0 of 45 usable trials, and the median difference is 9.1%" in rt.little(
        off
    )


def test_cost_names_the_cheapest_and_the_dearest(tmp_path):
    frame = run(tmp_path, capacity={"thread": 50_000.0}, cv=0.001)
    said = rt.cost(frame)
    assert said.index("least") < said.index("most by thread per connection")


def test_only_models_that_the_client_did_not_limit_are_put_in_order(tmp_path):
    frame = run(tmp_path, capacity={"thread": 60_000.0}, cv=0.01, blocks=8)
    one = made.bounded(frame, "epoll")
    said = rt.answer(one, found(one))
    assert said.startswith(
        "Yes: at 1\u202f000 connections the mean response time of the models that the "
        "client did not limit runs from"
    )
    two = made.bounded(frame, "epoll", "select")
    assert "the only model that the client did not limit answers after" in rt.answer(
        two, found(two)
    )
    # What was found where the client kept up, told of a level where it did not.
    every = made.bounded(frame, *MODELS)
    assert "the client was the bottleneck of every model" in rt.answer(
        every, found(frame)
    )


def test_no_usable_trial_breaks_no_sentence(tmp_path):
    frame = run(tmp_path, models=("select",), connections=(2000, 3000))
    for sentence in (rt.ceiling, rt.little, rt.bottleneck, rt.cost):
        assert sentence(frame).endswith(".")
    assert "cannot say" in rt.answer(frame, found(frame))


# ---- results -------------------------------------------------------------------


def test_everything_ends_in_results(tmp_path):
    frame = run(tmp_path, connections=(10, 2000))
    results = rt.begin(frame, root=tmp_path)
    rt.throughput(results, frame)
    rt.response(results, frame)
    rt.table(results, frame)
    rt.tails(results, frame)
    rt.words(results, frame, found(frame))
    rt.ratios(results, frame, found(frame))
    results.answer = rt.answer(frame, found(frame))
    said = json.loads(results.write().read_text())
    assert [f["id"] for f in said["figures"]] == [
        "fig-throughput",
        "fig-response-time",
        "fig-response-time-ratios",
    ]
    assert [t["id"] for t in said["tables"]] == [
        "tbl-response-time",
        "tbl-response-time-tails",
    ]
    mine = frame[(frame.model == "epoll") & (frame.connections == 10)]
    assert said["values"]["epoll_mean_10"]["n"] == len(mine)
    assert "select_mean_2000" not in said["values"]
    assert "thread_epoll_2000" in said["words"]
    assert said["failures"][0]["reason"] == "beyond FD_SETSIZE"


def test_the_published_table_is_reread_by_littles_law(tmp_path):
    results = rt.begin(run(tmp_path, connections=(10,)), root=tmp_path)
    p = rt.reread(results)
    at = p.data[p.data.clients == 1000].set_index("model")
    assert at.loc["epoll", "value"] == pytest.approx(108.235, rel=1e-4)
    assert p.data["lo"].isna().all()
    assert "server error" in p.alt
    assert rt.reread(results, name="missing.csv") is None


def test_verdicts_read_as_sentences_whatever_the_word(tmp_path):
    frame = run(tmp_path, capacity={"thread": 60_000.0}, cv=0.05, blocks=3)
    names = look.styles(frame)
    for one in found(frame):
        said = rt.verdict(one, names)
        assert said.endswith(".")
        assert f"{one.where['connections']:,}".replace(",", "\u202f") in said
        assert one.word.split()[0] in said


# ---- the notebook --------------------------------------------------------------


def test_the_notebook_keeps_the_rules():
    wants = {"run", "models", "connections", "trials", "duration", "seed"}
    rules.check(NOTEBOOK, question=rt.QUESTION, wants=wants)


@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
@pytest.mark.parametrize(
    "folder", [".", pytest.param("notebooks", marks=pytest.mark.long)]
)
def test_plain_papermill_runs_it_from_anywhere(tmp_path, folder):
    done = _papermill(tmp_path, folder, "-p", "connections", "[1,4]")
    assert done.returncode == 0, done.stderr[-2000:]
    path = tmp_path / "runs" / "t" / "response-time" / "results.json"
    said = json.loads(path.read_text())
    assert said["trials"]["total"] == 2 * 2 * 2
    assert said["answer"]


@pytest.mark.long
def test_plain_papermill_refuses_what_it_does_not_know(tmp_path):
    done = _papermill(tmp_path, ".", "-p", "conections", "[1,4]")
    assert done.returncode != 0
    assert "did you mean 'connections'" in done.stderr
    assert not (tmp_path / "runs").exists()


def _papermill(tmp_path, folder, *more):
    tool = shutil.which("papermill", path=str(Path(sys.executable).parent))
    notebook = NOTEBOOK if folder == "." else Path(NOTEBOOK.name)
    given = {"run": "t", "models": "[thread, epoll]", "trials": 2, "duration": 0.1}
    pairs = [str(v) for p in given.items() for v in ("-p", *p)]
    root = ["-p", "root", str(tmp_path / "runs")]
    return subprocess.run(
        [tool, str(notebook), str(tmp_path / "out.ipynb"), *pairs, *root, *more],
        cwd=rules.ROOT / folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
