"""Cells of notebooks on frames that are made up: families, counts and sentences."""

from types import SimpleNamespace
from unittest.mock import Mock

import notebook_rules as rules
import numpy as np
import pandas as pd
import pytest
from notebook_rules import SPENT
from scipy import stats
from study_made import crossed, usable

from connlab.intervals import intervals, ratios
from connlab.rounds import Rounds
from connlab.studies import load, profiles, why
from connlab.study import frames


def trials(cells_: list[dict], *, blocks: int = 5) -> pd.DataFrame:
    """Return trials of poll and epoll in each cell, in blocks."""
    servers = crossed(model=("poll", "epoll", "thread"), block=range(blocks))
    frame = usable(pd.concat([servers.assign(**cell) for cell in cells_]))
    frame[SPENT] = np.random.default_rng(1).lognormal(-13, 0.1, len(frame))
    return frame.reset_index(drop=True).assign(key=lambda t: t.index.astype(str))


def test_a_pair_of_both_grids_of_study_6_has_one_interval(cells):
    idling = [{"connections": n, "active": 100} for n in (100, 1000, 5100)]
    talking = [{"connections": 1000, "active": n} for n in (1, 10, 1000)]
    every = trials([*idling, *talking])
    every["idle"] = every["connections"] - every["active"]
    crowd = every[(every["connections"] == 1000) & (every["model"] != "thread")]
    names = {"measured": every[every["active"] == 100], "shares": crowd}
    names["share"] = ["model", "connections", "active"]
    made, _ = cells("06-idle", "cell-14", "cell-63", **names)
    against, turns = made["against"], made["turns"]
    assert len(against) == 6  # two models, three numbers of idle connections
    assert turns["active"].tolist() == [1, 10, 100, 1000]
    same = ["value", "lo", "hi", "verdict"]
    once = against.query("model == 'poll' and idle == 900")[same]
    again = turns.query("active == 100")[same]
    assert once.to_dict("records") == again.to_dict("records")


@pytest.mark.parametrize(("spread", "holds"), [(0.01, True), (1, None)])
def test_likeness_has_to_be_shown(cells, spread, holds):
    every = trials([{"connections": 100, "active": 100}], blocks=8)
    every[SPENT] = np.exp(spread * np.log(every[SPENT]))
    names = {"measured": every.assign(idle=0), "shares": every.iloc[:0], "idle": [0]}
    _, results = cells("06-idle", "cell-14", **names)
    assert results["claims"]["no-difference"]["holds"] is holds


def test_an_interval_by_hand_is_the_one_that_is_printed(cells):
    """It was made of totals of trials, and that in print is of their rounds."""
    rng = np.random.default_rng(1)
    about = {"round": [0, 1, 2], "seconds": [0.1] * 3, "lead_in_requests": [0] * 3}
    about |= {"server_cpu_ns": [100] * 3, "response_ns": [100] * 3}
    frame = usable(crossed(arm=("A", "B"), block=range(5)), throughput_rps=1.0)
    requests = [rng.integers(500, 1500, 3).tolist() for _ in frame.index]
    frame["rounds"] = [Rounds({"turns": about | {"requests": n}}) for n in requests]
    frame["set"] = frame["block"].astype(str)
    made, _ = cells("00-the-machine", "cell-23", twins=frame)
    (printed,) = ratios(frame, "throughput_rps", baseline="A", by="arm").itertuples()
    middle, half = made["logs"].mean(), made["half"]
    by_hand = np.exp([middle - half, middle + half])
    assert by_hand == pytest.approx([printed.lo, printed.hi])
    none, _ = cells("00-the-machine", "cell-23", twins=frame.iloc[:0])
    assert none["logs"].empty


def test_how_busy_a_queue_keeps_its_workers_is_called_a_share(cells):
    """0.78 of four workers stood below "workers busy", where 3.1 were."""
    frame = usable(crossed(load=(0.8,), block=range(5)), throughput_rps=620.0)
    there = [intervals(frame, "throughput_rps", ["load"])]
    law = {"utilisation": [0.775], "throughput": [620.0], "response": [0.007]}
    names = {"loads": [0.8], "there": there, "law": pd.DataFrame(law)}
    _, results = cells("03-pools", "cell-55", **names)
    (table,) = results["tables"]
    heads = [column["label"] for column in table["columns"]]
    assert heads[1] == "share of workers busy, M/M/c"
    assert 0 < float(table["rows"][0][1]) <= 1


@pytest.mark.parametrize(("twins", "counted"), [(18, [2]), (20, [3]), (3, [])])
def test_a_sweep_too_short_for_an_interval_is_no_miss(cells, twins, counted):
    frame = trials([{}], blocks=twins).query("model != 'thread'")
    frame["arm"] = frame["model"].map({"poll": "A", "epoll": "B"})
    sizes = []
    cells(
        "10-intervals",
        "cell-17",
        twins=twins,
        drive=SimpleNamespace(sweep=lambda *_, **__: None),
        study=SimpleNamespace(load=lambda *_, **__: frame.assign(throughput_rps=1.0)),
        share=lambda hits: {"n": len(hits)},
        kept=lambda rows: sizes.extend(row["n"] for row in rows),
        display=print,
    )
    assert sizes == counted * 2


def fitted_changes(cells, courses: list[pd.DataFrame]) -> pd.DataFrame:
    """Return what study 9 fits to the courses of some studies."""
    others = [SimpleNamespace(name=f"s{i}", trials=c) for i, c in enumerate(courses)]
    given = SimpleNamespace(free=lambda t: t, course=lambda t: t)
    given.names = lambda *_, **__: []
    return cells("09-doubts", "cell-13", others=others, doubts=given)[0]["drift"]


@pytest.mark.parametrize("studies", [1, 9])
def test_the_largest_of_several_changes_has_an_interval_that_holds_with_theirs(
    cells, studies
):
    noise = np.random.default_rng(1).normal(0, 0.02, (studies, 20))
    off = [0.002 * np.arange(20) + each for each in noise]
    courses = [pd.DataFrame({"off": each, "order": range(20)}) for each in off]
    drift = fitted_changes(cells, courses)
    for row, each in zip(drift.itertuples(), off, strict=True):
        line = stats.theilslopes(each, range(20), alpha=1 - 0.05 / studies)
        bounds = 100 * np.expm1(19 * np.array([line.low_slope, line.high_slope]))
        assert [row.lo, row.hi] == pytest.approx(bounds)


def at_two_loads(connections: list[int]) -> pd.DataFrame:
    """Return trials of epoll that computes, at a tenth of its capacity and at 0.7."""
    levels = {"connections": connections, "load": (0.1, 0.7), "block": range(5)}
    frame = crossed(**levels).assign(model="epoll", work="spin")
    frame[SPENT] = 5e-5 * (1 + frame["block"] / 100)
    return frame.assign(rate=1e4 * frame["load"])


def held_against_a_queue(cells, frame: pd.DataFrame) -> dict:
    """Run the cell of study 11 that compares responses with M/D/1."""
    names = {"under": usable(frame), "where": ["work", "connections"], "low": 0.1}
    return cells("11-load", "cell-23", **names)[0]


@pytest.mark.parametrize(("overrun", "trials_"), [(None, 5), (3, None)])
def test_a_queue_without_end_is_compared_with_no_formula(cells, overrun, trials_):
    """Where a trial is asked for more than its CPU time allows, no wait is foretold."""
    frame = at_two_loads([50]).assign(response_mean_s=lambda t: 2e-4 + t["block"] / 1e6)
    over = (frame["block"] == overrun) & (frame["load"] == 0.7)
    frame.loc[over, SPENT] = 2e-4
    made = held_against_a_queue(cells, frame)
    (row,) = made["recovered"].to_dict("records")
    assert row["n"] == (trials_ or 4)
    assert (row["value"] > 0) is (trials_ is not None)


def test_what_is_added_to_a_queue_is_added_for_each_number_of_connections(cells):
    frame = at_two_loads([50, 1000])
    wait = [load.waiting(*x) for x in zip(frame["rate"], frame[SPENT], strict=True)]
    added = frame["connections"] * 1e-6
    frame["response_mean_s"] = frame[SPENT] + wait + added
    made = held_against_a_queue(cells, frame)
    assert made["recovered"]["value"].tolist() == pytest.approx([1, 1])


def test_what_is_added_to_a_queue_is_known_no_better_than_it_scatters(cells):
    """It is that of the same block; a block without the lowest load tells nothing."""
    frame = at_two_loads([50])
    wait = [load.waiting(*x) for x in zip(frame["rate"], frame[SPENT], strict=True)]
    frame["response_mean_s"] = frame[SPENT] + wait + (1 + frame["block"]) * 1e-5
    alone = (frame["block"] == 4) & (frame["load"] == 0.1)
    made = held_against_a_queue(cells, frame[~alone].reset_index(drop=True))
    (row,) = made["recovered"].to_dict("records")
    assert [row["value"], row["lo"], row["hi"]] == pytest.approx([1, 1, 1])
    assert row["n"] == 4


@pytest.mark.parametrize(("slow", "n"), [(1.0, 5), (200.0, 4)], ids=["all", "endless"])
def test_a_light_load_is_known_no_better_than_it_scatters(cells, slow, n):
    """Each block foretells by its own; where one cannot, a mean of others is none."""
    frame = at_two_loads([50]).assign(server_cores=1, threads_max=1)
    frame.loc[(frame["block"] == 2) & (frame["load"] == 0.1), SPENT] *= slow
    light = frame[SPENT].where(frame["load"] == 0.1)
    service = light.groupby(frame["block"]).transform("max")
    queues = zip(frame["rate"], service, strict=True)
    waits = pd.Series([load.waiting(*x) for x in queues]).replace(np.inf, 1.0)
    frame["response_mean_s"] = service + waits + (1 + frame["block"]) * 1e-5
    cell = ["model", "work", "connections"]
    about = {"cell": cell, "at": [*cell, "load"], "low": 0.1, "measured": frame}
    made, _ = cells("11-load", "cell-27", under=usable(frame), **about)
    (row,) = made["told"].to_dict("records")
    bounds = [row["value"], row["lo"], row["hi"]]
    assert row["n"] == n
    assert bounds == pytest.approx([1, 1, 1] if n == 5 else [np.nan] * 3, nan_ok=True)


def test_a_baseline_measured_once_more_is_in_no_curve_of_a_load(cells):
    frame = at_two_loads([50]).assign(response_mean_s=2e-4, carried=False)
    again = frame.assign(response_mean_s=9e-4, carried=True)
    once, twice = (
        held_against_a_queue(cells, pd.concat(frames, ignore_index=True))
        for frames in ([frame], [frame, again])
    )
    assert not twice["known"]["carried"].any()
    pd.testing.assert_series_equal(*(m["recovered"]["value"] for m in (once, twice)))


def test_the_forest_calls_work_as_the_other_figures_do(cells):
    frame = at_two_loads([50]).assign(p99_s=lambda t: 1 + t["block"] / 100)
    frame = pd.concat([frame, frame.assign(model="poll")])
    where = ["work", "connections"]
    names = {"measured": frame, "opened": usable(frame), "where": where}
    names |= {"within": [*where, "load"], "tail": "p99_s", "of": "p99"}
    names["opened"]["response_mean_s"] = frame["p99_s"]
    made, _ = cells("11-load", "cell-17", **names)
    (axes,) = made["grid"].axes
    (label,) = axes.get_yticklabels()
    assert label.get_text() == "poll, computing, 50 connections"
    assert set(made["p99"]["work"]) == {"spin"}


def test_values_of_percentiles_name_the_work_and_the_connections_drawn(cells):
    """They were those of all works, connections and loads, and of means."""
    at = ["model", "work", "connections", "load"]
    levels = {"connections": (1000, 50), "load": (0.5, 1.2), "block": range(4)}
    frame = usable(crossed(work=("spin", "echo"), **levels), model="epoll")
    took = 1e-6 * frame["connections"] * (1 + frame["block"] / 100)
    frame = frame.assign(**dict.fromkeys(load.TIMES, took), percent=100 * frame["load"])
    tails = {
        name: intervals(frame, f"response_{name}_s", at)
        for name in ("mean", "p50", "p99", "p999")
    }
    names = {"tails": tails, "curves": {"kind": "line", "hue": "model"}}
    names |= {"works": ["spin", "echo"], "connections": [1000, 50]}
    below = frame[frame["load"] < 1]
    made, results = cells("11-load", "cell-13", below=below, **names)
    assert made["spread"]["ms"].max() < 0.1  # the fewest connections
    (figure,) = results["figures"]
    values = pd.read_csv(made["report"].folder / figure["data"])
    assert values["work"].tolist() == ["spin"] * 3
    assert values["connections"].tolist() == [50] * 3
    assert values["load"].tolist() == [0.5] * 3
    assert values["metric"].str.split("_").str[1].tolist() == ["p50", "p99", "p999"]


@pytest.mark.parametrize(("light", "holds"), [(2e-6, True), (0.5e-6, False)])
def test_what_a_light_load_costs_is_a_ratio_to_the_highest(cells, light, holds):
    frame = crossed(load=(0.1, 0.9), block=range(5))
    frame[SPENT] = frame["load"].map({0.1: light, 0.9: 1e-6}) + frame["block"] * 1e-9
    frame = usable(frame, model="epoll", work="spin", connections=50)
    names = {"measured": frame, "under": frame, "where": ["work", "connections"]}
    _, results = cells("11-load", "cell-21", **names)
    assert results["claims"]["wakeups-cost"]["holds"] is holds


def test_where_a_server_is_overloaded_its_knee_lies_before(cells):
    """epoll doubles between two loads; thread is overloaded; poll does neither."""
    p99s = {"epoll": [1, 1.5, 3], "thread": [1, 1.5, np.nan], "poll": [1, 1.1, 1.2]}
    frame = crossed(model=[*p99s], load=(0.1, 0.5, 0.7), block=range(5))
    frame["p99_s"] = np.repeat(np.ravel([*p99s.values()]), 5) + frame["block"] / 100
    frame = usable(frame, work="echo", connections=50)
    about = {"tail": "p99_s", "cell": ["model", "work", "connections"]}
    about["under"] = frame.assign(overloaded=frame["p99_s"].isna())
    names = {"epoll": "b", "thread": "c", "poll": "a"}
    _, results = cells("11-load", "cell-29", "c94e7a20", names=names, **about)
    (table,) = results["tables"]
    knees = dict(table["rows"])
    assert knees["b"].startswith("0.58")
    assert knees["c"] == "before 0.7"
    assert knees["a"] == "not in every trial"


def overload(kept: dict[str, tuple[float, bool]]) -> dict:
    """Return what study 11 measured beyond capacity, by model: kept, overloaded."""
    shares = {model: share for model, (share, _) in kept.items()}
    frame = crossed(model=[*kept], block=range(5))
    frame["throughput_rps"] = 1e4 * frame["model"].map(shares) + frame["block"]
    frame = usable(frame, work="echo", connections=50, load=1.2)
    frame["overloaded"] = frame["model"].map({m: full for m, (_, full) in kept.items()})
    frame["fairness_jain"] = 1 / (1 + 1 / 4) + (frame["block"] - 2) / 1e4
    frame["window_requests"] = 4 * 50
    cell = ["model", "work", "connections"]
    about = {"opened": frame, "alone": frame.assign(throughput_rps=1e4)}
    about |= {"cell": cell, "at": [*cell, "load"], "within": [*cell[1:], "load"]}
    return about | {"names": {m: m.upper() for m in kept}}


def test_a_server_that_keeps_up_is_not_overloaded(cells):
    """Nor is a capacity known that is surpassed."""
    kept = {"epoll": (0.95, True), "poll": (1.2, False), "thread": (1.5, True)}
    names = overload(kept)
    _, results = cells("11-load", "cell-31", "5d7f0ab8", "cell-33", **names)
    carried, fair = results["tables"]
    assert [row[0] for row in carried["rows"]] == ["EPOLL"]
    assert [row[0] for row in fair["rows"]] == ["EPOLL", "THREAD"]
    assert all(row[1].startswith("1.00") for row in fair["rows"])
    keeps_up, surpassed = results["notes"]
    assert "POLL (echo, 50 connections, 120 %)" in keeps_up
    assert "THREAD" in surpassed
    assert "EPOLL" not in keeps_up + surpassed


@pytest.mark.filterwarnings("error:no trial has model")
@pytest.mark.parametrize("where", ["opened", "alone"], ids=["beyond", "closed-loop"])
def test_what_a_client_could_not_ask_tells_nothing_of_overload(cells, where):
    kept = {"epoll": (0.95, True), "poll": (0.9, True)}
    names = overload(kept)
    epoll = names[where]["model"] == "epoll"
    names[where].loc[epoll & (names[where]["block"] > 1), "label"] = "client-bound"
    _, results = cells("11-load", "cell-31", "5d7f0ab8", "cell-33", **names)
    assert [[row[0] for row in t["rows"]] for t in results["tables"]] == 2 * [["POLL"]]
    (note,) = results["notes"]
    assert "the client was the bottleneck" in note
    assert note.endswith(": EPOLL (echo, 50 connections, 120 %).")


def test_a_baseline_that_keeps_up_is_not_said_to_be_unable_to(cells):
    """Alone it may answer more than in turns, of which the loads are parts."""
    names = overload({"epoll": (1.2, False)})
    _, results = cells("11-load", "cell-31", "5d7f0ab8", **names)
    (note,) = results["notes"]
    assert "beyond what epoll answers in the closed loop: EPOLL (echo" in note


def test_a_capacity_is_that_of_trials_that_count(cells):
    names = overload({"epoll": (1.0, True)})
    left_out = names["alone"].iloc[:1].assign(throughput_rps=1e3, block=9, ok=False)
    names["alone"] = pd.concat([names["alone"], left_out], ignore_index=True)
    _, results = cells("11-load", "cell-31", **names)
    (table,) = results["tables"]
    ((_, kept),) = table["rows"]
    assert kept.startswith("1.00")


def test_where_nobody_is_overloaded_nothing_is_said_of_overload(cells):
    names = overload({"epoll": (1.0, False)})
    names["opened"] = names["opened"].iloc[:0]
    _, results = cells("11-load", "cell-31", "5d7f0ab8", "cell-33", **names)
    assert [table["rows"] for table in results["tables"]] == [[], []]
    assert results["notes"] == []


def test_no_word_lies_under_the_dots_of_balance(cells):
    frame = usable(crossed(model=("epoll", "pool"), workers=(2, 4), block=range(5)))
    frame["busiest_worker"] = 1 + frame["block"] / 1e4
    about = {"turns": frame, "names": {"epoll": "epoll", "pool": "pool"}}
    about["named"] = frame.assign(requests_per_connection=20)
    made, _ = cells("08-cores", "cell-21", style={"hue": "model"}, **about)
    axes = made["grid"].ax
    assert list(axes.texts) == []
    assert "balanced: 1" in axes.get_ylabel()
    assert 1 in axes.lines[-1].get_ydata()
    assert axes.get_ylim()[0] < 1


def pages(*rows: tuple, **columns) -> pd.DataFrame:
    """Return trials of rows (model, clients, error pages)."""
    names = ["model", "connections", "errors_status"]
    frame = pd.DataFrame(rows, columns=names).astype({"errors_status": "Int64"})
    return frame.assign(**columns)


def test_redis_is_timed_only_where_it_serves_one_server(cells):
    times = {"window_s": 0.5, "throughput_rps": 1000.0, "companion_cpu_s": 0.01}
    frame = pages(("iterative", 20, 0), ("epoll", 20, 0), **times)
    frame = frame.assign(requests_per_connection=1, ok=True, set=[None, "a"])
    for measured, spent in (
        (frame, [2e-5, np.nan]),
        (frame.drop(columns="set"), [2e-5, 2e-5]),  # nobody took turns
    ):
        made, _ = cells("04-guestbook", "cell-10", measured=measured)
        found = made["anew"]["redis_per_page_s"].tolist()
        assert found == pytest.approx(spent, nan_ok=True)


def test_a_cell_is_said_to_be_measured_alone_or_in_turns(cells):
    anew = pages(("iterative", 20, 0), ("poll", 20, 0)).assign(set=[None, "a"])
    row = {"value": 1.0, "lo": 0.9, "hi": 1.1, "n": 5, "level": 0.95, "method": "t"}
    row |= {"against": "epoll", "metric": "throughput_rps", "verdict": "alike"}
    pairs = anew[["model", "connections"]].assign(**row)
    theirs = pairs[["model", "connections"]].assign(rate=9.0)
    names = {"ratios": lambda *_, **__: pairs, "theirs": theirs, "names": {}}
    _, results = cells("04-guestbook", "cell-21", anew=anew, baseline="poll", **names)
    (table,) = results["tables"]
    assert [row[-1] for row in table["rows"]] == ["alone", "in turns"]


FAILED = [("fork", 1000, 3), ("fork", 1000, None), ("fork", 2500, 1)]


@pytest.mark.parametrize(
    ("rows", "carried", "wrong", "findings"),
    [
        (
            [("epoll", 1000, 0), ("fork", 20, 0), *FAILED],
            False,
            [("fork", 1000, 1, 2), ("fork", 2500, 1, 1)],
            2,
        ),
        # a baseline measured once more is no further trial
        ([("epoll", 20, 1)] * 2, [False, True], [("epoll", 20, 1, 1)], 1),
        ([("epoll", 20, 0)], False, [], 0),
        ([], False, [], 0),
    ],
)
def test_error_pages_are_counted_by_model_and_clients(
    cells, rows, carried, wrong, findings
):
    names = {"names": {"epoll": "epoll", "fork": "fork"}}
    anew = pages(*rows, carried=carried)
    made, results = cells("04-guestbook", "cell-38", anew=anew, **names)
    assert list(made["wrong"].itertuples(index=False, name=None)) == wrong
    assert len(results["findings"]) == findings


@pytest.mark.parametrize(
    ("recovered", "said"),
    [
        ([False, False], "failed"),
        ([False, True], "every other"),
        ([True, True], "each"),
    ],
)
def test_what_became_of_servers_after_the_load(cells, recovered, said):
    after = pd.DataFrame({"model": ["a", "b"], "recovered": recovered})
    names = {"a": "A", "b": "B"}
    _, results = cells("02-breaking-points", "cell-30", after=after, names=names)
    (finding,) = results["findings"]
    assert said in finding
    assert ("failed" in finding) is not all(recovered)


def shared_port(cells, many: int, levels: dict[int, bool]) -> dict:
    """Return what study 2 reports of processes that carried these levels, or not."""
    rows = [("epoll", many, n, whole) for n, whole in levels.items()]
    frame = pd.DataFrame(rows, columns=["model", "processes", "connections", "whole"])
    names = {"measured": frame.astype({"connections": "Int64"})}
    names["bp"] = SimpleNamespace(carried=lambda frame: frame["whole"])
    return cells("02-breaking-points", "cell-19", names={"epoll": "epoll"}, **names)[1]


@pytest.mark.parametrize(
    ("many", "levels", "said"),
    [
        (1, {30000: False}, ["with 1 server process."]),
        (
            4,
            {1: True, 2: True, 3: False, 5: False},
            ["1 and 2", "3 or 5", "with 4 server processes that share one port."],
        ),
        (4, {1: False, 2: False}, ["1 or 2"]),
    ],
)
def test_what_several_processes_carried(cells, many, levels, said):
    (finding,) = shared_port(cells, many, levels)["findings"]
    assert all(words in finding for words in said)


@pytest.mark.parametrize(
    ("whole", "most"),
    [
        ({10: True, 20: True}, [20]),
        ({10: True, 20: False, 30: True}, [10]),  # none above a level that broke
        ({10: False, 20: True}, []),
    ],
)
def test_the_most_that_several_processes_carried_is_a_number(
    cells, tmp_path, whole, most
):
    shared_port(cells, 4, whole)
    path = tmp_path / "r/made/cells.csv"
    assert path.exists() == (len(most) > 0)
    for value in most:
        assert pd.read_csv(path)["value"].tolist() == [value]


@pytest.mark.parametrize(
    ("broke", "predicted", "said"),
    [
        (9, 12, "A broke at 9 connections, below the predicted 12 (full)."),
        (90, 120, "A broke between 8 and 90 connections, below the predicted 120 "),
        (9, 4, "A broke at 9 connections, above the predicted 4 (full)."),
        (9, 9, "A broke at 9 connections, which it should have held (full)."),
        (1, 1, "A broke at 1 connection, which it should have held (full)."),
    ],
)
def test_a_model_that_broke_elsewhere_is_told_with_its_place(
    cells, broke, predicted, said
):
    found = pd.DataFrame({"name": ["A"], "broke": broke, "predicted": predicted})
    found = found.assign(carried=min(8.0, broke - 1), agrees=False, symptom="full")
    _, results = cells("02-breaking-points", "cell-14", found=found)
    (finding,) = results["findings"]
    assert finding.startswith(said)


@pytest.mark.parametrize(
    ("models", "said"),
    [(["a"], "1 of 1 model that broke"), (["a", "b"], "2 of 2 models that broke")],
)
def test_models_that_broke_are_counted(cells, models, said):
    found = pd.DataFrame({"name": models, "broke": 9, "predicted": 8, "carried": 7})
    found = found.assign(agrees=True)
    _, results = cells("02-breaking-points", "cell-14", found=found)
    assert said in results["findings"][0]


@pytest.mark.parametrize(
    ("symptom", "agrees", "holds"),
    [
        ("no descriptors left", True, True),
        ("no descriptors left", False, False),
        ("no descriptors left", None, None),
        ("no more threads", True, False),
        ("", None, None),
    ],
)
def test_epoll_ends_at_its_descriptors_where_that_was_predicted(
    cells, symptom, agrees, holds
):
    rows = {"model": ["epoll", "select"], "server": [symptom, ""]}
    found = pd.DataFrame(rows).assign(agrees=[agrees, None])
    _, results = cells("02-breaking-points", "cell-16", "cell-17", found=found)
    assert results["claims"]["epoll-at-descriptors"]["holds"] is holds


@pytest.mark.parametrize(
    ("symptom", "holds"),
    [
        ("beyond FD_SETSIZE", True),
        ("no more threads", False),
        # with `ulimit -n 1024` the paper contradicted it
        ("no descriptors left", None),
        ("", None),
    ],
)
def test_select_is_not_tested_where_descriptors_end_before_it(cells, symptom, holds):
    found = pd.DataFrame({"model": ["epoll", "select"], "server": ["", symptom]})
    _, results = cells("02-breaking-points", "cell-16", found=found)
    assert results["claims"]["select-at-fd-setsize"]["holds"] is holds


def test_a_cell_that_foretells_itself_does_not_count(cells):
    """With one connection a server is the echo server whose cost was measured."""
    told = pd.DataFrame({"connections": [1, 50], "value": 1.0, "lo": 0.99, "hi": 1.01})
    made, results = cells(
        "12-why",
        "7f384dd9",
        told=told.assign(told=[1.0, 0.5]),
        alone=pd.DataFrame({"connections": [50], "cost": "a", "cost_s": 1.0}),
        hits={},
        over_measured=lambda rows, way: rows[["lo", "hi"]].rdiv(rows[way], axis=0),
        why=SimpleNamespace(
            foretold=lambda rows, _: rows[["told"]], within_a_tenth=why.within_a_tenth
        ),
    )
    assert made["hits"]["foretold"].tolist() == [False]
    assert results["claims"]["foretold"]["holds"] is False


LARGEST = "With 50 connections, the largest "
SHARE = f"{LARGEST}share of CPU time that a runtime spends between its turns is "
SHARES = f"{LARGEST}shares of CPU time that runtimes spend between their turns are "


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"poll": 0.1, "thread": 0.4, "epoll": 0.9}, [SHARES, "40", "poll)."]),
        ({"poll": 0.01, "thread": 0.4, "epoll": 0.9}, [SHARE, "40", "thread)."]),
        ({"poll": 0.01, "thread": 0.02, "epoll": 0.9}, [SHARE, "2", "thread)."]),
        ({}, None),  # of a run that did not keep it
        (None, None),  # nor knows the column
    ],
)
def test_who_spends_most_between_turns_where_that_was_measured(cells, shares, said):
    closed = trials([{"connections": 50, "cores": 1}, {"connections": 9, "cores": 1}])
    if shares is not None:
        closed["rest_cpu_share"] = closed["model"].map(shares).astype(float)
    made, results = cells(
        "13-runtimes",
        "cell-34",
        closed=closed,
        cell=["model", "connections", "cores"],
        at=50,
        one=1,
        theirs=["poll", "thread"],
        names={name: name for name in closed["model"]},
    )
    assert len(made["between"]) == len(shares or ())
    assert len(results["findings"]) == bool(said)
    for finding in results["findings"]:
        start, value, end = said
        assert finding.startswith(f"{start}{value}\u202f% (")
        assert finding.endswith(end)


@pytest.mark.parametrize(
    ("ends_at", "noted"), [(0.6, True), (1.0, False), (0.97, False)]
)
def test_a_runtime_that_was_still_compiling_is_noted(cells, ends_at, noted):
    about = {"round": [*range(6)], "seconds": [0.1] * 6, "lead_in_requests": [0] * 6}
    about |= {"requests": [100] * 6, "response_ns": [100] * 6}
    falls = np.linspace(1e6, ends_at * 1e6, 6)

    def made(row: pd.Series) -> Rounds:
        spent = falls if row["model"] == "thread" else np.full(6, 1e6)
        scatter = 1 + 0.001 * row["block"]
        return Rounds({"turns": about | {"server_cpu_ns": (scatter * spent).tolist()}})

    closed = trials([{"connections": 50, "cores": 1}])
    closed = closed.assign(set=closed["block"].astype(str))
    closed["rounds"] = closed.apply(made, axis="columns")
    entries = {n: SimpleNamespace(warm_up=w) for n, w in (("thread", 3), ("poll", 0))}
    names = {"closed": closed, "spent": SPENT, "at": 50, "one": 1, "baseline": "epoll"}
    names |= {"theirs": ["poll", "thread"], "entries": entries}
    made_, results = cells("13-runtimes", "cell-38", **names, names={"thread": "T"})
    assert made_["course"]["model"].tolist() == ["thread"]
    assert len(results["notes"]) == noted
    assert all("still falling" in note for note in results["notes"])
    assert all(": T (0.6" in note for note in results["notes"])


def test_trials_that_lost_connections_are_counted_for_each_web_server(cells):
    pages = trials([{"connections": 50, "workload": "http", "part": "page"}])
    lost = (pages["model"] == "thread") & (pages["block"] < 2)
    pages.loc[lost, "ok"] = False
    pages["reason"] = pd.Series("connections lost", pages.index).where(lost)
    pages = pages.assign(throughput_rps=9.0, response_p99_s=0.1, carried=False)
    pages = pages.astype({"reason": "string"})
    made, _ = cells("13-runtimes", "cell-32", measured=pages)
    found = made["kinds"].pivot(index="model", columns="metric", values="value")
    kinds = ["trials_tried", "trials_usable", "trials_lost"]
    assert found.loc["thread", kinds].tolist() == [5, 3, 2]
    assert found.loc["epoll", kinds].tolist() == [5, 5, 0]


@pytest.mark.parametrize(("timed", "drawn"), [(50, 1), (1, 0)])
def test_samples_of_a_load_that_was_not_timed_are_drawn_nowhere(cells, timed, drawn):
    """Trials of that load may all be left out, as others used the machine."""
    cell = {"model": "epoll", "connections": 50, "active": 50}
    sampled = [cell | {"part": part, "cpu_share": 100 / 9} for part in profiles.PARTS]
    known = pd.DataFrame([cell | {"connections": timed, "value": 1e-6}])
    where = [*cell, "part"]
    names = {"shares": pd.DataFrame(sampled), "tall": sampled, "where": where}
    frame = usable(pd.DataFrame([cell]))
    made, results = cells("12-why", "5e504ece", known=known, measured=frame, **names)
    assert len(results["figures"]) == drawn
    assert set(made["colors"]) == set(profiles.PARTS)  # for the flame graphs


@pytest.mark.parametrize(
    ("name", "cell", "names"),
    [
        ("04-guestbook", "cell-07", {"place": SimpleNamespace(reason="no Redis")}),
        ("14-hosts", "cell-08", {"lack": "no root", "rate": None, "settings": {}}),
        ("15-winsock", "cell-08", {"lack": "no Wine"}),
    ],
    ids=["guestbook", "hosts", "winsock"],
)
def test_trials_that_do_not_mix_are_not_said_to_be_missing(name, cell, names):
    """What is absent from this machine does not keep a run from being read."""
    for error, said in (
        (frames.NoTrials("none"), True),
        (frames.RunError("two"), False),
    ):
        study = SimpleNamespace(load=Mock(side_effect=error))
        missing = Mock(side_effect=SystemExit)
        given = names | {"question": "?", "study": study, "not_measured": missing}
        with pytest.raises(SystemExit if said else frames.RunError):
            rules.execute(name, cell, **given)
        assert missing.called is said


def test_a_run_of_several_processes_alone_says_what_was_not_measured():
    """They tell nothing of the ramp: study 2 ended in a KeyError."""
    frame = pd.DataFrame({"processes": [4, 4]})
    study = SimpleNamespace(load=lambda *_, **__: frame)
    missing = Mock(side_effect=SystemExit)
    names = {"study": study, "not_measured": missing}
    with pytest.raises(SystemExit):
        rules.execute("02-breaking-points", "cell-08", **names)
    assert "of the ramp" in missing.call_args.kwargs["reason"]
    assert missing.call_args.kwargs["number"] == 2


@pytest.mark.parametrize("stalled", [True, False])
def test_stalls_are_drawn_where_some_were_measured(cells, stalled):
    """A sweep that ended early may hold nothing but what two clients asked."""
    times = [f"{c}_{q}_s" for c in ("response", "service") for q in ("p50", "p90")]
    times += [t.replace("p50", q) for t in times[::2] for q in ("p99", "p999", "max")]
    about = {"loop": "open" if stalled else None, "stall": 0.0, "model": "epoll"}
    frame = usable(crossed(block=range(4)), **about, **dict.fromkeys(times, 0.1))
    _, results = cells("09-doubts", "cell-16", measured=frame)
    assert len(results["figures"]) == stalled


@pytest.mark.parametrize("given", [None, 5.0])
def test_a_study_whose_rate_the_client_sets_is_named_and_not_tested(cells, given):
    frame = trials([{}]).assign(throughput_rps=50.0, byte_rate=given)
    frame["throughput_rps"] += frame["block"] % 3
    frame["started_at"] = frame["key"].str.zfill(3)
    others = [SimpleNamespace(name="bulk", trials=frame)]
    _, results = cells("09-doubts", "cell-13", others=others)
    (table,) = results["tables"]
    assert [row[0] for row in table["rows"]] == ([] if given else ["bulk"])
    assert ["bulk" in note for note in results["notes"]] == ([True] if given else [])


def test_a_study_of_three_sets_is_told_to_have_no_more(cells):
    """It compares models, and no client sets its rate."""
    frame = trials([{}], blocks=1).assign(throughput_rps=50.0)
    frame["started_at"] = frame["key"]
    others = [SimpleNamespace(name="bulk", trials=frame)]
    _, results = cells("09-doubts", "cell-13", others=others)
    assert results["tables"][0]["rows"] == []
    (note,) = results["notes"]
    assert "fewer than four usable sets" in note


@pytest.mark.parametrize(
    ("crossed", "means"),
    [
        ([30.0] * 5, 1),
        ([30.0, np.nan, 30.0, 30.0, 30.0], 0),
        ([np.nan] * 5, 0),
        ([], 0),
    ],
)
def test_places_that_some_trials_do_not_change_have_no_mean(cells, crossed, means):
    found = usable(pd.DataFrame({"crossing": crossed}), sides="poll and epoll")
    names = {"crossings": lambda *_, **__: found.assign(block=found.index)}
    names["shares"] = trials([{"connections": 1000, "active": 1}])
    made, _ = cells("06-idle", "cell-66", baseline="epoll", **names)
    kept = made["crossed"]["lo"].notna().sum() if len(made["places"]) else 0
    assert kept == means


def test_a_model_that_did_not_hold_the_idle_ones_has_no_row(cells):
    every = trials([{"connections": n, "active": 1, "idle": n - 1} for n in (1, 900)])
    lost = (every["model"] == "poll") & (every["idle"] > 0)
    every["ok"] = every["ok"] & ~lost
    taken = ["pss_net_bytes", "pss_per_connection_bytes", "threads_max"]
    every = every.assign(**dict.fromkeys(taken, 1.0), family="readiness")
    cell = ["model", "idle"]
    names = {"measured": every, "cost": intervals(every, SPENT, cell), "cell": cell}
    _, results = cells("06-idle", "cell-21", **names)
    (table,) = results["tables"]
    assert [row[:2] for row in table["rows"]] == [["epoll", "899"], ["thread", "899"]]
