"""Study 02: ramps, limits and symptoms, from made-up trials whose truth is known."""

import math

import pandas as pd
import pytest
import study_made as made

from connlab.drive.checkup import Capacity
from connlab.studies import breaking_points as bp
from connlab.studies.breaking_points import ramp
from connlab.study.formatting import plain


def limited(**by_model) -> dict[str, Capacity]:
    return {model: Capacity(model, *limit) for model, limit in by_model.items()}


def run(tmp_path, models=("select", "epoll"), connections=(100, 1000, 2000), **options):
    trials = []
    for t in made.sweep(models, connections, blocks=3, **options):
        n, c = t["factors"]["connections"], t["client"]
        alive = c["connections"]["surviving"]
        c["requests"] = {"sent": 100 * alive, "completed": 100 * alive}
        c["fairness"] = {"requests_min": 90 if alive == n else 0, "requests_max": 110}
        trials.append(t)
    return made.load(tmp_path, trials)


@pytest.mark.parametrize(
    ("ladder", "most", "levels"),
    [
        # crosses the prediction and goes one step on
        ([2000, 100, 1000, 5000], 1008, [100, 957, 1000, 1059, 2000]),
        ([1, 100], 1, [1, 2, 100]),
        # without a prediction that can be reached it is the ladder
        ([100, 5000], None, [100, 5000]),
        ([100, 5000], 5000, [100, 5000]),
        ([], 3, []),
    ],
)
def test_ramp(ladder, most, levels):
    assert ramp(ladder, most) == levels


def test_only_fixed_crews_are_told_their_number():
    limits = limited(pool=(8, "--workers"), epoll=(100, "files"))
    grids = bp.grids(["pool", "epoll"], [10, 200], limits, workers=8)
    assert grids[0]["workers"] == [8]
    assert "workers" not in grids[1]


def test_predictions_take_the_number_of_workers():
    predictions = limited(pool=(None, "--workers"), epoll=(500, "files")).values()
    limits = bp.predicted([*predictions], workers=16)
    assert limits["pool"].connections == 16
    assert limits["epoll"].connections == 500


def test_a_gate_that_is_no_limit_does_not_break_a_level(tmp_path):
    frame = run(tmp_path).assign(ok=False).astype({"ok": "boolean"})
    carried = bp.carried(frame).groupby([frame.model, frame.connections]).all()
    assert carried["epoll"].all()
    assert carried["select"].to_dict() == {100: True, 1000: True, 2000: False}


def test_those_who_are_never_served_break_a_level(tmp_path):
    frame = run(tmp_path, models=("epoll",), connections=(100,))
    starved = frame.assign(fairness_requests_min=0)
    assert not bp.carried(starved).any()
    few = starved.assign(requests_completed=starved["requests_completed"] // 10)
    assert bp.carried(few).all()
    assert not bp.carried(few.assign(workers=8)).any()


@pytest.mark.parametrize(("workers", "each"), [(8, 5), (None, 50)])
def test_there_are_plenty_of_answers_from_so_many_for_each_user(
    tmp_path, workers, each
):
    frame = run(tmp_path, models=("epoll",), connections=(100,))
    starved = frame.assign(fairness_requests_min=0, workers=workers)
    for answers, carried in ((100 * each - 1, True), (100 * each, False)):
        found = bp.carried(starved.assign(requests_completed=answers))
        assert (found == carried).all()


def test_who_was_not_accepted_is_not_carried(tmp_path):
    """The kernel completes a connection before the server accepts it."""
    frame = run(tmp_path, models=("epoll",), connections=(100, 200))
    short = (frame["connections"] == 200) & (frame["block"] == 1)
    waiting = frame.assign(accepted=frame["accepted"].mask(short, 180))
    assert list(bp.carried(waiting)) == list(~short)
    row = bp.atlas(waiting).iloc[0]
    assert (row["carried"], row["broke"]) == (100, 200)
    assert "accepted" in row["server"]
    assert bp.carried(frame.assign(accepted=pd.NA).astype(frame.dtypes)).all()


@pytest.mark.parametrize("beyond", [False, True])
def test_who_was_never_answered_breaks_a_level_below_the_highest(tmp_path, beyond):
    """Few answers each, so that the window alone tells nothing."""
    frame = run(tmp_path, models=("epoll",), connections=(100, 200))
    low = frame["connections"] == 100
    few = frame.assign(requests_completed=frame["connections"] * 10)
    few.loc[low, "fairness_requests_min"] = 0
    longest = few["window_s"] + few["warmup"] + bp.SETTLE_S + bp.DRAIN_S
    few["longest_wait_s"] = longest + (0.1 if beyond else -0.1)
    assert list(bp.carried(few)) == list(~low | (not beyond))
    broke = bp.atlas(few).iloc[0]["broke"]
    assert broke == 100 if beyond else pd.isna(broke)


@pytest.mark.parametrize(
    ("answers", "byte_rate", "carried"),
    [(99, math.nan, False), (100, math.nan, True), (99, 1e5, True)],
)
def test_fewer_answers_than_users_leave_somebody_out(
    tmp_path, answers, byte_rate, carried
):
    frame = run(tmp_path, models=("epoll",), connections=(100,))
    frame = frame.assign(requests_completed=answers, fairness_requests_min=0)
    assert bp.carried(frame.assign(byte_rate=byte_rate)).all() == carried


def test_the_atlas_compares_prediction_and_observation(tmp_path):
    limits = limited(select=(1008, "FD_SETSIZE"), epoll=(19_984, "files"))
    atlas = bp.atlas(run(tmp_path), limits).set_index("model")
    select, epoll = atlas.loc["select"], atlas.loc["epoll"]
    assert (select["carried"], select["broke"], select["agrees"]) == (1000, 2000, True)
    assert (select["server"], select["client"]) == ("beyond FD_SETSIZE", "closed")
    assert (epoll["carried"], epoll["agrees"]) == (2000, None)


def test_a_prediction_that_misses_is_said_to_miss(tmp_path):
    low = limited(select=(500, "x"), epoll=(300, "x"))
    assert list(bp.atlas(run(tmp_path), low)["agrees"]) == [False, False]


def test_several_processes_do_not_enter_the_atlas(tmp_path):
    frame = run(tmp_path)
    shared = frame["connections"] > 1000
    frame["processes"] = shared.map({True: 6, False: None}).astype("Int64")
    atlas = bp.atlas(frame).set_index("model")
    assert atlas.loc["select", "carried"] == 1000
    assert atlas["broke"].isna().all()


def test_a_level_above_a_broken_one_does_not_count(tmp_path):
    frame = run(tmp_path, models=("epoll",))
    frame.loc[frame.connections == 1000, "surviving"] = 3
    row = bp.atlas(frame).iloc[0]
    assert (row["carried"], row["broke"]) == (100, 1000)


def test_who_starves_once_where_more_are_carried_meets_no_limit(tmp_path):
    frame = run(tmp_path, models=("epoll",))
    levels = sorted(frame["connections"].unique())
    for level, limit in ((levels[0], None), (levels[-1], levels[-1])):
        starved = frame.copy()
        starved.loc[starved["connections"] == level, "fairness_requests_min"] = 0
        assert not bp.carried(starved).all()
        broke = bp.atlas(starved).iloc[0]["broke"]
        assert broke == limit if limit else pd.isna(broke)
        assert bp.atlas(starved.assign(workers=8)).iloc[0]["broke"] == level


def test_a_server_that_did_not_start_is_a_symptom(tmp_path):
    frame = run(tmp_path, models=("epoll",), connections=(100,)).assign(
        failure="server-start: no", failure_kind="server-start", surviving=None
    )
    row = bp.atlas(frame.astype({"surviving": "Int64"})).iloc[0]
    assert "start" in row["server"]


def test_the_limit_that_most_trials_met_is_a_symptom_and_a_bottleneck_is_none(tmp_path):
    lost = run(tmp_path, models=("epoll",), connections=(100,)).assign(
        surviving=10, refused_reason=None, label=["client-bound"] * 2 + [None]
    )
    assert "bound" not in bp.atlas(lost).iloc[0]["server"]
    limits = ["limit-bound:threads", "limit-bound:backlog", "limit-bound:threads"]
    row = bp.atlas(lost.assign(label=limits)).iloc[0]
    assert row["server"] == "no more threads"


@pytest.mark.parametrize(("levels", "carried"), [((1, 2), 0), ((100, 200), math.nan)])
def test_nothing_is_said_to_be_carried_below_what_was_tried(tmp_path, levels, carried):
    frame = run(tmp_path, models=("epoll",), connections=levels).assign(surviving=0)
    row = bp.atlas(frame, limited(epoll=(0, "x"))).iloc[0]
    assert row["broke"] == levels[0]
    assert row["carried"] == pytest.approx(carried, nan_ok=True)
    assert carried == 0 or row["agrees"] is None


def models(*rows):
    """Return an atlas of rows (name, carried, broke, symptom, agrees)."""
    names = ["name", "carried", "broke", "symptom", "agrees"]
    atlas = pd.DataFrame(rows, columns=names).assign(predicted=5.0)
    return atlas.astype({"carried": "float64", "broke": "float64"})


SELECT = ("select", 1000, 1059, "beyond FD_SETSIZE", True)
WHOLE = ("epoll", 2000, None, "", None)


def files(*levels):
    return [(f"m{n}", None, n, "no descriptors left", False) for n in levels]


def test_it_tells_who_broke_where_and_on_what():
    first, second = bp.where_broke(models(*files(20_000), WHOLE, SELECT))
    assert all(fact in first for fact in ("select", plain(1059), "FD_SETSIZE"))
    assert second.startswith("m20000 ")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_models_that_broke_alike_are_told_together(count):
    (sentence,) = bp.where_broke(models(*files(*range(3000, 3000 + count))))
    assert sentence.count("m3") == (count if count <= 3 else 1)
    assert (f"{plain(3000)} to" in sentence) == (count > 1)
    assert (f"{count - 1} other" in sentence) == (count > 3)


@pytest.mark.parametrize(
    ("carried", "broke", "where"),
    [
        (7, 9, "at 9"),
        (7, 100, "between 7 and 100"),
        (1, 2, "at 2"),  # the next number
        (1, 3, "between 1 and 3"),
        (0, 1, "at 1"),
        (math.nan, 20, "at 20"),
        (10_000, 20_000, "between 10000 and 20000"),
    ],
)
def test_a_wide_step_is_told_with_both_ends(carried, broke, where):
    assert bp.place(carried, broke) == where


def test_models_that_broke_far_apart_are_told_one_by_one():
    rows = [("a", 7, 9), ("b", 8, 10), ("c", 7, 100), ("d", 900, 1000)]
    atlas = models(*((*row, "full", None) for row in rows))
    said = "a and b broke at 9 to 10, c between 7 and 100 and d at 1000 connections"
    assert bp.where_broke(atlas) == [f"{said} (full)"]


def test_one_connection_is_not_said_in_the_plural():
    (sentence,) = bp.where_broke(models(("m", None, 1, "waits", None)))
    assert "1 connection (" in sentence


def test_nothing_is_told_where_none_broke():
    assert bp.where_broke(models(WHOLE)) == bp.where_broke(models()) == []
