"""Study 06: cost of silence, from made-up trials whose truth is known."""

from __future__ import annotations

import json
from dataclasses import replace

import notebook_rules as rules
import pandas as pd
import pytest
import study_made as made

from connlab.study import idle

NOTEBOOK = rules.ROOT / "notebooks" / "06-idle.ipynb"


def run(tmp_path, *, per_idle=None, cv=0.01, models=("poll", "epoll"), blocks=6):
    """Trials in which an idle connection adds `per_idle[model]` to a request's CPU."""
    trials = []
    for t in made.sweep(models, (100, 1000, 5100), blocks=blocks, cv=cv):
        t["factors"]["active"] = 100
        quiet = t["factors"]["connections"] - 100
        rate = t["client"]["window"]["throughput_rps"]
        grows = (per_idle or {}).get(t["factors"]["model"], 0.0)
        t["server"]["samples"]["cpu_user_s"] = rate * (5e-6 + grows * quiet)
        t["server"]["samples"]["cpu_system_s"] = 0.001 * t["block"]
        trials.append(t)
    frame = made.load(tmp_path, trials)
    return idle.with_idle(frame)


def test_idle_ones_are_those_that_never_talk(tmp_path):
    frame = run(tmp_path)
    assert sorted(frame["idle"].unique()) == [0, 900, 5000]
    assert frame.attrs["run"] == "made"


def test_a_model_that_pays_for_silence_is_told_from_one_that_does_not(tmp_path):
    frame = run(tmp_path, per_idle={"poll": 2e-9})
    found = {(o.where["model"], o.arm): o for o in idle.growth(frame)}
    assert found["poll", "5000"].word == "dearer than"
    assert found["poll", "5000"].comparison.ratio.value == pytest.approx(3, rel=0.05)
    assert found["epoll", "5000"].word == "indistinguishable from"
    said = idle.answer(frame, list(found.values()))
    assert said.startswith("It depends on the model: of 2 models 1 pay")
    assert "paid by poll" in said
    assert "CPU time of poll (with 5\u202f000" in idle.grown(
        frame, list(found.values())
    )


def test_what_is_not_shown_does_not_pay_the_most(tmp_path):
    frame = run(tmp_path, per_idle={"poll": 2e-9})
    found = idle.growth(frame)
    epoll = next(o for o in found if (o.where["model"], o.arm) == ("epoll", "5000"))
    wide = replace(epoll.comparison.ratio, value=20.0, lo=-20.0, hi=50.0)
    nothing = replace(epoll.comparison, ratio=wide, word="undetermined")
    unsure = replace(epoll, comparison=nothing)
    others = [o for o in found if o.where["model"] != "epoll"]
    assert "paid by poll" in idle.answer(frame, [*others, unsure])


def test_who_was_the_bottleneck_does_not_matter_to_a_cost(tmp_path):
    frame = run(tmp_path, per_idle={"poll": 2e-9}).assign(label="client-bound")
    assert {o.word for o in idle.growth(frame) if o.where["model"] == "poll"} == {
        "dearer than"
    }


def test_nobody_pays(tmp_path):
    frame = run(tmp_path)
    said = idle.answer(frame, idle.growth(frame))
    assert said.startswith("No CPU time that could be shown")
    assert "2 demonstrably do not" in said


def test_models_are_compared_where_nobody_is_idle(tmp_path):
    frame = run(tmp_path, per_idle={"poll": 2e-9})
    found = idle.models_alike(frame, baseline="epoll")
    assert "poll is indistinguishable from epoll" in idle.start_alike(frame, found)
    assert [o.word for o in found][-1] == "dearer than"


def test_one_level_only_says_so(tmp_path):
    frame = run(tmp_path)
    frame = frame[frame["idle"] == 0]
    assert "cannot say" in idle.answer(frame, idle.growth(frame))
    assert idle.ratios(None, frame, []) is None
    assert "nothing can be said" in idle.memory(frame)


def test_no_usable_trial_breaks_no_sentence(tmp_path):
    frame = run(tmp_path).assign(ok=False, reason="machine busy")
    frame = frame.astype({"ok": "boolean", "reason": "string"})
    found = idle.growth(frame)
    for said in (
        idle.answer(frame, found),
        idle.grown(frame, found),
        idle.memory(frame),
        idle.start_alike(frame, found),
    ):
        assert said.endswith(".")


def test_everything_ends_in_results(tmp_path):
    frame = run(tmp_path, per_idle={"poll": 2e-9})
    results = idle.begin(frame, root=tmp_path)
    growth = idle.growth(frame)
    idle.cost(results, frame)
    idle.throughput(results, frame)
    idle.words(results, frame, growth)
    idle.words(results, frame, idle.models_alike(frame, baseline="epoll"))
    idle.ratios(results, frame, growth)
    idle.holding(results, frame)
    results.answer = idle.answer(frame, growth)
    said = json.loads(results.write().read_text())
    assert {"poll_cpu_5000", "epoll_rps_0", "poll_memory_900"} <= set(said["values"])
    assert said["words"]["poll_5000_0"]["word"] == "dearer than"
    assert said["words"]["poll_epoll_0"]["word"] == "indistinguishable from"
    assert [f["id"] for f in said["figures"]] == [
        "fig-idle",
        "fig-idle-throughput",
        "fig-idle-ratios",
    ]
    assert pd.Series(said["tables"][0]["rows"][0]).str.len().all()


def test_the_notebook_keeps_the_rules():
    wants = {"models", "idle", "active", "baseline"}
    rules.check(NOTEBOOK, question=idle.QUESTION, wants=wants)
