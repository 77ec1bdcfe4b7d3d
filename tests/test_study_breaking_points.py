"""Study 02: ramps, limits and symptoms, from made-up trials whose truth is known."""

from __future__ import annotations

import json
from types import SimpleNamespace

import notebook_rules as rules
import pytest
import study_made as made

from connlab.study import breaking_points as bp
from connlab.study.breaking_points_plan import Limit, ramp

NOTEBOOK = rules.ROOT / "notebooks" / "02-breaking-points.ipynb"
LIMITS = {"select": Limit(1008, "FD_SETSIZE"), "epoll": Limit(19_984, "files")}


def run(tmp_path, models=("select", "epoll"), connections=(100, 1000, 2000), **options):
    trials = []
    for t in made.sweep(models, connections, blocks=3, **options):
        n, c = t["factors"]["connections"], t["client"]
        held = c["connections"]["surviving"]
        c["requests"] = {"sent": 100 * held, "completed": 100 * held}
        c["fairness"] = {"requests_min": 90 if held == n else 0, "requests_max": 110}
        trials.append(t)
    return made.load(tmp_path, trials)


# ---- the ramp ------------------------------------------------------------------


def test_a_ramp_crosses_the_prediction_and_goes_one_step_on():
    levels = ramp([2000, 100, 1000, 5000], Limit(1008, "x"))
    assert levels == [100, 957, 1000, 1059, 2000]


def test_a_ramp_without_a_reachable_prediction_is_the_ladder():
    for limit in (None, Limit(None, "?"), Limit(5000, "x")):
        assert ramp([100, 5000], limit) == [100, 5000]
    assert ramp([], Limit(3, "x")) == []


def test_one_at_a_time_breaks_at_two():
    assert ramp([1, 100], Limit(1, "one at a time")) == [1, 2, 100]


def test_only_fixed_crews_are_told_their_number():
    limits = {"pool": Limit(8, "--workers"), "epoll": Limit(100, "files")}
    grids = bp.grids(["pool", "epoll"], [10, 200], limits, workers=8)
    assert grids[0]["workers"] == [8]
    assert "workers" not in grids[1]


def test_predictions_take_the_number_of_workers():
    found = [
        SimpleNamespace(model="pool", connections=None, limited_by="--workers"),
        SimpleNamespace(model="epoll", connections=500, limited_by="files"),
    ]
    limits = bp.predicted(found, workers=16)
    assert limits["pool"].connections == 16
    assert limits["epoll"].connections == 500


# ---- what broke ----------------------------------------------------------------


def test_a_gate_that_is_no_limit_does_not_break_a_level(tmp_path):
    frame = run(tmp_path).assign(ok=False).astype({"ok": "boolean"})
    held = bp.carried(frame).groupby([frame.model, frame.connections]).all()
    assert held["epoll"].all()
    assert held["select"].to_dict() == {100: True, 1000: True, 2000: False}


def test_those_who_are_never_served_break_a_level(tmp_path):
    frame = run(tmp_path, models=("epoll",), connections=(100,))
    starved = frame.assign(fairness_requests_min=0)
    assert not bp.carried(starved).any()
    few = starved.assign(requests_completed=starved["requests_completed"] // 10)
    assert bp.carried(few).all()
    assert not bp.carried(few.assign(workers=8)).any()


def test_the_atlas_compares_prediction_and_observation(tmp_path):
    found = bp.atlas(run(tmp_path), LIMITS).set_index("model")
    one = found.loc["select"]
    assert (one["carried"], one["broke"], one["agrees"]) == (1000, 2000, True)
    assert one["server"] == "beyond FD_SETSIZE"
    assert one["client"] == "closed"
    assert found.loc["epoll", "agrees"] is None
    assert found.loc["epoll", "carried"] == 2000


def test_a_prediction_that_misses_is_said_to_miss(tmp_path):
    frame = run(tmp_path)
    low = bp.atlas(frame, {"select": Limit(500, "x"), "epoll": Limit(300, "x")})
    assert list(low["agrees"]) == [False, False]
    assert "0 of them" in bp.predictions(low)
    assert "does not for select" in bp.predictions(low)


def test_models_that_break_count_whether_a_limit_was_predicted_or_not(tmp_path):
    frame = run(tmp_path)
    frame.loc[(frame.model == "epoll") & (frame.connections == 2000), "surviving"] = 3
    both = bp.predictions(bp.atlas(frame, LIMITS | {"epoll": Limit(1500, "x")}))
    assert both.startswith("2 models broke, and for 2 of them the prediction")
    one = bp.predictions(bp.atlas(frame, {"select": LIMITS["select"]}))
    assert one.startswith("2 models broke, and for 1 of the 1 whose limit was")
    none = bp.predictions(bp.atlas(frame))
    assert none == "No limit that was predicted was reached."


def test_who_carried_all_is_said_of_one_server(tmp_path):
    frame = run(tmp_path)
    said = bp.unbroken(bp.atlas(frame))
    assert said == (
        "Nothing broke for epoll up to 2\u202f000 connections, the most that were "
        "tried with one server."
    )
    # What is left alone breaks; epoll is only tried as several processes, and carries.
    frame["processes"] = frame.model.eq("epoll").map({True: 6, False: None})
    frame["processes"] = frame["processes"].astype("Int64")
    found = bp.atlas(frame)
    assert bp.unbroken(found) == (
        "Each of 1 model was driven beyond what one server carried."
    )
    assert "epoll, level-triggered, 6 processes: 100, 1\u202f000 and 2" in bp.far(frame)


def test_nothing_broke_up_to_what_each_was_given(tmp_path):
    frame = run(tmp_path, models=("epoll", "poll"))
    some = frame[(frame.model == "epoll") | (frame.connections < 2000)]
    some.attrs = frame.attrs
    assert bp.answer(some, bp.atlas(some)) == (
        "No model of 2 broke up to 1\u202f000 and 2\u202f000 connections, the most "
        "that each was given."
    )
    # Several processes that carried more are no single server.
    some = some.assign(processes=(some.connections >= 1000).map({True: 6, False: None}))
    some["processes"] = some["processes"].astype("Int64")
    said = bp.answer(some, bp.atlas(some))
    assert said == "No model of 2 broke up to 100 connections."


def test_a_level_above_a_broken_one_does_not_count(tmp_path):
    frame = run(tmp_path, models=("epoll",))
    frame.loc[frame.connections == 1000, "surviving"] = 3
    found = bp.atlas(frame).iloc[0]
    assert (found["carried"], found["broke"]) == (100, 1000)


def test_several_processes_do_not_enter_the_atlas(tmp_path):
    frame = run(tmp_path)
    assert "not tried" in bp.far(frame)
    shared = frame["connections"] > 1000
    frame["processes"] = shared.map({True: 6, False: None}).astype("Int64")
    found = bp.atlas(frame).set_index("model")
    assert found.loc["select", "carried"] == 1000
    assert found["broke"].isna().all()
    said = bp.far(frame)
    assert "select, 6 processes: none, not 2\u202f000" in said
    assert "epoll, level-triggered, 6 processes: 2\u202f000" in said


def test_the_answer_follows_the_atlas(tmp_path):
    frame = run(tmp_path)
    said = bp.answer(frame, bp.atlas(frame, LIMITS))
    assert said.startswith("Of 2 models 1 broke, 1 of them where")
    assert "select first, at 2\u202f000 connections (beyond FD_SETSIZE)" in said
    whole = run(tmp_path, models=("epoll",))
    said = bp.answer(whole, bp.atlas(whole))
    assert said == "No model of 1 broke up to 2\u202f000 connections."


def test_a_server_that_did_not_start_is_a_symptom(tmp_path):
    frame = run(tmp_path, models=("epoll",), connections=(100,)).assign(
        failure="server-start: no", failure_kind="server-start", surviving=None
    )
    found = bp.atlas(frame.astype({"surviving": "Int64"})).iloc[0]
    assert found["carried"] == 0
    assert found["server"] == "server did not start"


# ---- recovery, cases, results ----------------------------------------------------

AFTER = [
    {"model": "select", "connections": 2000, "held": 1000, "sockets": 0, "tasks": 0}
    | {"settled_s": 0.1, "again": 5, "error": "", "recovered": True},
    {"model": "epoll", "connections": 2000, "held": None, "sockets": None}
    | {"tasks": None, "settled_s": None, "again": None, "error": "died"}
    | {"recovered": False},
]
CASES = [
    {"question": "the same bytes", "subject": "select", "holds": True},
    {"question": "the same bytes", "subject": "client", "holds": False},
    {"question": "no memory leaked", "subject": "select", "holds": None},
]


def test_recovery_and_cases_count_what_was_asked():
    assert "1 of 2 servers" in bp.recovered(AFTER)
    assert "epoll had not" in bp.recovered(AFTER)
    assert "not looked at" in bp.recovered([])
    assert bp.cases_hold(CASES).startswith("1 of 2 answers")
    assert "client: the same bytes" in bp.cases_hold(CASES)
    assert "not asked" in bp.cases_hold(CASES[2:])


def test_everything_ends_in_results(tmp_path):
    frame = run(tmp_path)
    found = bp.atlas(frame, LIMITS)
    results = bp.begin(frame, root=tmp_path)
    bp.keep_values(results, frame, found)
    bp.limits(results, frame, found)
    atlas = bp.failures(results, frame, found)
    bp.share(results, frame)
    most = bp.most(results, frame, found)
    bp.memory(results, frame)
    bp.cpu(results, frame)
    bp.recovery(results, frame, AFTER)
    table = bp.cases(results, frame, CASES)
    assert bp.cases(results, frame, []) is None
    results.answer = bp.answer(frame, found)
    said = json.loads(results.write().read_text())
    assert said["values"]["select_carried"]["value"] == 1000
    assert "epoll_broke" not in said["values"]
    assert {row[-1] for row in atlas.rows} == {"yes", "not reached"}
    assert [row[1] for row in most.rows] == ["2\u202f000", "1\u202f000"]
    assert all("±" in cell for row in most.rows for cell in row[2:4])
    assert table.rows[1] == ("client", "no", "—")
    picture = next(f for f in said["figures"] if f["id"] == "fig-breaking-points")
    assert "broke at 2\u202f000 (beyond FD_SETSIZE)" in picture["alt"]


@pytest.mark.parametrize(("row", "want"), [((100, None), 100), ((100, 200.0), 200)])
def test_too_many_is_where_it_broke_or_the_most(row, want):
    assert bp.too_many(SimpleNamespace(carried=row[0], broke=row[1])) == want


# ---- the notebook --------------------------------------------------------------


def test_the_notebook_keeps_the_rules():
    wants = {"models", "ladder", "workers", "cases"}
    rules.check(NOTEBOOK, question=bp.QUESTION, wants=wants)
