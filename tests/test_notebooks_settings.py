"""Cells of notebooks under settings that leave a part of a study out."""

import contextlib
import math
from types import SimpleNamespace
from unittest.mock import Mock

import notebook_rules as rules
import pandas as pd
import pytest
import study_made as made
from drive_fakes import planned
from notebook_rules import SPENT

from connlab.drive import grid as sweeps
from connlab.intervals import intervals
from connlab.report import Report
from connlab.study.frames import NoTrials, counted


def grids(name: str, *ids: str, **names) -> list[dict]:
    """Return the grids that a notebook's cells would measure."""
    epoll = SimpleNamespace(name="epoll", available=True, concurrent=True, holds="one")
    drive = Mock(models=lambda _: [epoll])
    drive.all_served = lambda _, models, n: [{"model": models, "connections": n}]
    rules.execute(name, *ids, drive=drive, **names)
    calls = drive.sweep.mock_calls
    factors = [dict(grid) for c in calls for grid in c.kwargs["factors"]]
    assert all(len(levels) for grid in factors for levels in grid.values())
    return factors


def nobody(*columns: str, **types: type) -> pd.DataFrame:
    """Return trials of which there is none."""
    columns += (*types, "block", "repeat", "ok", "label", "reason")
    return pd.DataFrame(columns=columns).astype({"ok": bool, **types})


@pytest.mark.parametrize(
    ("name", "cells", "empty"),
    [
        ("03-pools", ("04", "06", "08", "10", "11"), "at_once"),
        ("08-cores", ("04",), "workers"),
        ("12-why", ("04",), "connections"),
    ],
)
def test_a_list_that_may_not_be_empty_is_left_to_the_sweep_to_refuse(
    name, cells, empty
):
    def all_served(_, models, n):
        return [{"model": models, "connections": n}] * len(n)

    drive = Mock(models=lambda _: [], core_count=lambda _: 2, all_served=all_served)
    drive.sweep = lambda *_, factors, **__: sweeps.cells(factors, {}, {})
    ids = [f"cell-{number}" for number in cells]
    with pytest.raises(ValueError, match="name one at least"):
        rules.execute(name, *ids, drive=drive, models=["x"], **{empty: []})


def test_clients_stand_somewhere():
    with pytest.raises(ValueError, match="hosts: none; name one at least"):
        rules.execute("14-hosts", "cell-04", hosts=[])


@pytest.mark.parametrize("models", [[], ["epoll"]], ids=["all", "named"])
def test_servers_that_are_timed_are_counted_and_sampled(models):
    epoll = SimpleNamespace(name="epoll", available=True)
    drive = Mock(models=lambda _: [epoll], all_served=lambda *_: [{"model": ["epoll"]}])
    names = {"models": models, "connections": [50]}
    rules.execute("12-why", "cell-04", "cell-05", "1136cfff", drive=drive, **names)
    for measured in (drive.count, drive.profile):
        (cell,) = measured.call_args.kwargs["cells"]
        assert cell == {"model": "epoll", "connections": 50, "active": 50}


@pytest.mark.parametrize(("kept", "count"), [([], 1), ([5], 2)])
def test_a_guestbook_without_kept_connections_is_measured(kept, count):
    place = contextlib.nullcontext(SimpleNamespace(address="here"))
    redis = Mock(serving=lambda **_: place)
    names = {"kept": kept, "redis": redis}
    assert len(grids("04-guestbook", "cell-04", "cell-06", **names)) == count


@pytest.mark.parametrize(
    ("crowds", "talking", "count"),
    [([5, 50], [10], 2), ([5], [10], 1), ([5], [], 1), ([], [1], 1)],
)
def test_a_crowd_of_which_nobody_can_talk_is_left_out(crowds, talking, count):
    names = {"models": ["epoll"], "crowds": crowds, "talking": talking}
    assert len(grids("06-idle", "cell-04", **names)) == count


@pytest.mark.parametrize("crowds", [[], [1000]])
def test_no_crowd_draws_no_figure(cells, crowds):
    """Nor one that no server carried: under `ulimit -n 256` the study ended there."""
    types = {"cost_us": float, "connections": int, "active": int}
    shares = nobody("family", model="string", **types)
    lost = {"model": "poll", "family": "readiness", "active": 1, "ok": False}
    rows = [lost | {"connections": crowd, "cost_us": math.nan} for crowd in crowds]
    shares = pd.concat([shares, pd.DataFrame(rows, columns=[*shares])])
    shares = shares.assign(spent=math.nan if crowds else 1.0)
    names = {"shares": shares, "spent": "spent", "baseline": "poll", "curves": {}}
    _, results = cells("06-idle", "cell-62", "cell-66", **names)
    assert not results["figures"]


@pytest.mark.parametrize("other", ["thread", "none", "epoll"])
def test_turns_of_two_servers_are_measured_where_there_are_two(other):
    made = grids("00-the-machine", "cell-06", "cell-07", other=other)
    arms = {arm for grid in made for arm in grid["arm"]}
    assert ({"turns", "many"} <= arms) == (other == "thread")
    assert {"A", "B", "delayed"} <= arms


def test_a_study_of_pools_may_leave_out_sizes_and_queues(cells):
    steady = nobody(
        *("part", "busy_workers", "throughput_rps", "response_mean_s", "think"),
        workers=int,
    )
    _, results = cells(
        "03-pools",
        *("cell-46", "cell-47", "cell-53", "cell-54", "cell-55"),
        **{"sizes": [], "spinning": [], "loads": []},
        **dict.fromkeys(("users", "servers", "service_ms"), 4),
        **{"steady": steady, "measured": steady, "best": None},
        **{"thinking": {}, "think_ms": {}},
    )
    assert results["figures"] == []
    assert results["claims"]["follows-mmc"]["holds"] is None


def test_where_no_pool_sleeps_no_size_is_foretold():
    """With `sizes` empty the notebook ended there, when all else was measured."""
    drive, study = Mock(), Mock()
    study.load.side_effect = NoTrials("none of 9 trials has delay fixed:2")
    names = {"fixed": {"delay": ["fixed:2"]}, "pool": {}, "common": {}}
    rules.execute("03-pools", "7a1c0f53", drive=drive, study=study, **names)
    drive.sweep.assert_not_called()


@pytest.mark.parametrize(
    "given", [{"most": 4}, {"trials": []}, {"cvs": []}, {"trials": [200, 300]}]
)
def test_simulated_sweeps_that_cannot_be_refused_say_what_is_allowed(given):
    declared = rules.code("10-intervals")["cell-01"]
    with pytest.raises(ValueError, match=r"most \d+; allowed: "):
        rules.execute("10-intervals", "cell-02", In=[declared], **given)


@pytest.mark.parametrize(
    ("asked", "at", "count"), [(["poll"], [1], 3), ([], [1], 2), (["poll"], [], 2)]
)
def test_nobody_has_to_be_asked_by_two_clients(asked, at, count):
    given = {"asked": asked, "at": at}
    assert len(grids("09-doubts", "cell-04", **given, asleep=[])) == count
    assert len(grids("09-doubts", "cell-04", **given, asleep=["poll"])) == count + 2


@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_a_misspelt_baseline_of_doubts_is_refused():
    drive = Mock(sweep=planned)
    with pytest.raises(ValueError, match=r"'epol'; did you mean 'epoll'\? \(known: "):
        rules.execute("09-doubts", "cell-04", drive=drive, baseline="epol")


@pytest.mark.parametrize(("seconds", "known"), [(1.0, True), (0.1, False)])
def test_a_stall_of_the_whole_window_has_no_known_percentile(seconds, known):
    row = {"loop": "open", "stall": 200.0, "metric": "response_p99_s"}
    row |= {"value": 0.19, "n": 4, "level": 0.95, "method": "t"}
    p99, report = pd.DataFrame([row | {"lo": 0.189, "hi": 0.191}]), Mock(spec=Report)
    names = {"p99": p99, "report": report, "stall": 200}
    rules.execute("09-doubts", "cell-19", duration=seconds, **names)
    assert (report.claim.call_args.args[1] is not None) == known


def test_a_ceiling_that_no_trial_found_has_no_line(cells):
    row = {"lo": 1.0, "hi": 3.0, "n": 5, "level": 0.95, "method": "t", "unit": "s"}
    costs = pd.DataFrame([row | {"metric": "round_trip", "value": 2.0}])
    nothing = dict.fromkeys(("value", "lo", "hi"), float("nan")) | {"n": 0}
    ceiling = costs.assign(metric="ceiling_rps", unit="requests/s", **nothing)
    _, results = cells("00-the-machine", "cell-17", costs=costs, ceiling=ceiling)
    (table,) = results["tables"]
    assert len(table["rows"]) == 1


def test_an_allowance_that_no_trial_used_draws_no_figure(cells):
    measured = pd.DataFrame({"share": [float("nan")], "connections": [1]})
    names = {"measured": measured, "limited": pd.Series([True]), "kept_up": None}
    _, results = cells("05-bulk", "cell-27", curves={}, **names)
    assert not results["figures"]


def test_a_study_of_workers_without_a_usable_trial_of_a_part_draws_no_figure(cells):
    columns = ("model", "throughput_rps", "busiest_worker", "fairness_jain")
    types = {"workers": int, "requests_per_connection": int}
    frame = nobody(*columns, "longest_wait_s", **types)
    frames = dict.fromkeys(("named", "turns", "stays"), frame)
    ids = ("cell-09", "cell-21", "cell-24")
    _, results = cells("08-cores", *ids, names={}, style={}, **frames)
    assert not results["figures"]


def test_nobody_says_who_was_the_bottleneck_of_no_trial(cells):
    used = pd.DataFrame({"label": pd.Series([], dtype="string")})
    _, results = cells("05-bulk", "cell-32", used=used, size=1)
    assert not results["findings"]


@pytest.mark.parametrize(
    ("sizes", "levels"), [([], {5}), ([9], {5}), ([9, 64], {5, 100})]
)
def test_bulk_is_asked_at_other_connections_for_other_sizes_alone(sizes, levels):
    names = {"models": ["x"], "connections": [5], "sizes": sizes}
    names |= {"size": 9, "size_at": 100, "byte_rate": 0}
    made_ = grids("05-bulk", "cell-04", "cell-05", **names)
    assert {n for grid in made_ for n in grid["connections"]} == levels


def usable(rows: list[tuple], *columns: str, **more) -> pd.DataFrame:
    """Return rows of trials of which each counts."""
    return made.usable(pd.DataFrame(rows, columns=columns), **more)


def test_both_kinds_of_clients_stand_side_by_side_where_both_were(cells):
    kinds = [("unlimited", 5), ("rate-limited", 5), ("unlimited", 100)]
    metrics = ["pss_net_bytes", "socket_memory_bytes", "server_cpu_share"]
    metrics += ["threads_max", "bytes_per_s"]
    more = {"model": "epoll", "size": 9, "attempted": 5, "established": 5}
    frame = usable(kinds, "clients", "connections", **more, **dict.fromkeys(metrics, 1))
    cell = ["model", "clients", "connections", "size"]
    rate = intervals(frame, "bytes_per_s", cell)
    names = {"measured": frame, "rate": rate, "cell": cell, "size": 9}
    _, results = cells("05-bulk", "cell-29", **names)
    (table,) = results["tables"]
    assert [row[1] for row in table["rows"]] == ["rate-limited", "unlimited"]


def test_where_nobody_has_a_rate_at_the_most_connections_fewer_are_shown(
    tmp_path, cells
):
    trials = made.load(tmp_path, made.sweep(("select",), (10, 2000), blocks=4))
    cell = ["model", "connections"]
    of = {name: intervals(trials, name, cell) for name in ("throughput_rps", SPENT)}
    names = {"measured": trials, "used": trials[counted(trials)], "together": trials}
    names |= {"throughput": of["throughput_rps"], "cost": of[SPENT]}
    names["baseline"] = "epoll"
    found, results = cells("01-response-time", "cell-13", "cell-32", **names)
    (ax,) = found["grid"].axes.flat
    assert [text.get_text() for text in ax.texts] == ["select"]
    (table,) = results["tables"]
    ((model, *numbers),) = table["rows"]
    assert model == "select"
    assert "—" not in numbers


@pytest.mark.parametrize(
    ("name", "ids"),
    [("04-guestbook", ("cell-10", "cell-12")), ("08-cores", ("cell-07", "cell-09"))],
)
def test_a_line_ends_with_the_name_of_its_model(tmp_path, cells, name, ids):
    trials = made.load(tmp_path, made.sweep(("epoll", "thread"), blocks=4))
    trials = trials.assign(workers=trials["connections"], requests_per_connection=1)
    found, _ = cells(name, *ids, measured=trials)
    (ax,) = found["grid"].axes.flat
    assert {text.get_text() for text in ax.texts} == {"epoll", "thread"}


def test_pools_that_were_measured_earlier_are_drawn(cells):
    rows = [(n, block, n + block / 100) for n in (1, 4) for block in range(4)]
    steady = usable(rows, "workers", "block", "busy_workers", part="size")
    names = {"steady": steady, "best": None, "sizes": [], "spinning": []}
    _, results = cells("03-pools", "cell-46", "cell-47", **names)
    (figure,) = results["figures"]
    assert figure["id"] == "fig-pools-sizes"


def test_many_clients_are_compared_with_turns_of_20_ms_whatever_others_last(cells):
    lengths = {"turns": (None, 5.0), "many": (None, 20.0)}
    rows = [
        (arm, length, model, block, 1 + block / 100)
        for arm in lengths
        for length in lengths[arm]
        for model in ("epoll", "thread")
        for block in range(5)
    ]
    frame = usable(rows, "arm", "slice", "model", "block", SPENT, connections=9)
    frame = frame.assign(throughput_rps=frame[SPENT], response_mean_s=frame[SPENT])
    names = {"measured": frame, "model": "epoll", "other": "thread", "cost": SPENT}
    ids = ("cell-31", "cell-33", "cell-34", "cell-35-2")
    found, _ = cells("00-the-machine", *ids, paired=True, **names)
    for name in ("apart", "ratio_apart", "wait_apart"):
        assert found[name]["way"].tolist() == ["one by one"]
        assert found[name]["value"].tolist() == pytest.approx([1.0])
    alone = names | {"other": "epoll"}  # a ratio of it to itself would be no control
    found, _ = cells("00-the-machine", *ids, paired=False, **alone)
    assert [*found["apart"]["way"], *found["ratio_apart"]["way"]] == []


@pytest.mark.parametrize(
    ("keys", "advice"),
    [
        ("aabb", ["all in one trial"]),
        ("ab", []),  # as on a busy machine, where others disturbed all other turns
    ],
)
def test_windows_are_split_where_a_trial_has_several(cells, keys, advice):
    rates = [1.0, 3.0] * (len(keys) // 2)
    inside = pd.DataFrame({"key": list(keys), "throughput_rps": rates})
    good = pd.DataFrame({"throughput_rps": [2.0, 2.1], "window_s": 1.0, "seconds": 2.0})
    _, results = cells("00-the-machine", "cell-47", inside=inside, good=good)
    assert [table["rows"][0][-1] for table in results["tables"]] == advice


def test_no_load_is_asked_for_where_no_capacity_is_known():
    nothing = {"models": [], "kinds": {}, "asked": {}, "beyond": [], "budget": None}
    drive, capacity = Mock(), pd.Series([], dtype=float)
    names = {"capacity": capacity, "loads": [0.5], "turn": 20.0}
    rules.execute("11-load", "cell-06", drive=drive, **names, **nothing)
    drive.sweep.assert_not_called()


def test_a_baseline_that_did_not_reach_the_rate_is_named(cells):
    columns = ["model", "slice_p99_s", "response_p99_s", "block"]
    equal = usable([], *columns).astype({"ok": bool})
    names = {"equal": equal, "at": 50, "baseline": "epoll", "names": {}}
    _, results = cells("13-runtimes", "cell-22", **names)
    (note,) = results["notes"]
    assert "epoll has to reach 1.2 times its rate with 50 connections" in note


def test_messages_as_small_as_those_beside_idle_connections_are_bulk():
    rows = [(2000.0, None), (None, None), (None, 50)]
    frame = pd.DataFrame(rows, columns=["connect_rate", "active"]).assign(size="64")
    shown = ["system", "model", "clients", "connections", "bytes_per_s", "threads"]
    frame = frame.assign(ok=True, **dict.fromkeys(shown, "any"))
    names = {"measured": frame, "Report": Mock(), "about": {}, "seed": 1}
    found = rules.execute("15-winsock", "cell-11", **names)
    parts = [list(found[name].index) for name in ("ends", "bulk", "idling")]
    assert parts == [[0], [1], [2]]
