"""Study 09's other analyses, on trials of which little or nothing counts."""

import numpy as np
import pandas as pd
import pytest
import study_made as made

from connlab import schema
from connlab.intervals import ratios
from connlab.rounds import Rounds
from connlab.studies import doubts
from connlab.study.turns import cores_off

SAME = {"as printed": lambda trials: trials}


@pytest.fixture
def trials():
    """Two models in turns, four blocks; everything in block 2 is half as fast."""
    rows = [
        {"model": model, "connections": 10, "rate": pd.NA, "block": block}
        | {"throughput_rps": rate * (0.5 if block == 2 else 1.0), "ok": True}
        | {"key": f"{model}-{block}", "set": f"set-{block}", "started_at": f"0:{block}"}
        for block in range(4)
        for model, rate in (("epoll", 1000.0), ("select", 10.0))
    ]
    return pd.DataFrame(rows)


def test_the_slowest_block_is_slow_in_every_cell(trials):
    assert doubts.slowest_block(trials) == 2


def test_servers_in_turns_are_one_point_off_the_medians_of_their_cells(trials):
    course = doubts.course(trials)
    assert course["order"].tolist() == list(range(4))
    assert course.loc[course["block"] != 2, "off"].abs().max() < 1e-9
    assert course.loc[course["block"] == 2, "off"].item() == pytest.approx(-0.693, 0.01)
    assert len(doubts.course(trials.drop(columns="set"))) == 8


def test_the_only_trial_of_a_cell_shows_no_course(trials):
    """It is the median of its cell, so that any drift would be none."""
    only = trials[trials["block"] == 0].assign(connections=20, set="only")
    only = only.assign(block=4, started_at="0:4", key="only " + only["key"])
    course = doubts.course(pd.concat([trials, only], ignore_index=True))
    assert course.equals(doubts.course(trials))
    assert doubts.course(only).empty


def test_a_course_goes_through_one_sweep_after_the_other(trials):
    later = trials.assign(connections=20, set="later " + trials["set"])
    later["started_at"] = "1" + later["started_at"]
    both = pd.concat([later, trials]).sort_values("block", ignore_index=True)
    assert doubts.course(both)["block"].tolist() == [*range(4), *range(4)]


@pytest.mark.parametrize("given", ["rate", "byte_rate", "think"])
def test_a_trial_whose_rate_the_client_sets_can_show_no_drift(trials, given):
    held = trials.assign(**{given: "5"}, throughput_rps=50.0, set="h" + trials["set"])
    course = doubts.course(doubts.free(pd.concat([trials, held], ignore_index=True)))
    assert course["off"].tolist() == doubts.course(trials)["off"].tolist()
    assert doubts.course(doubts.free(held)).empty


def write_ratios(root, study, rows):
    """Write a table of ratios of `study`; each row is metric, lo, hi and verdict."""
    table = pd.DataFrame(rows, columns=["metric", "lo", "hi", "verdict"])
    table = table.assign(study=study, value=1.0, n=5, level=0.95, method="t", workers=2)
    (root / "r" / study).mkdir(parents=True)
    table.to_csv(root / "r" / study / "ratios.csv", index=False)


def test_verdicts_that_the_bottleneck_alone_holds_back_are_counted(tmp_path):
    rate, cost = "throughput_rps", "server_cpu_per_request_s"
    cores = [
        (rate, 0.92, 0.96, "undetermined"),
        (rate, 0.98, 1.02, "undetermined"),
        (rate, 0.8, 1.2, "undetermined"),  # wide
        (rate, 0.92, 0.96, "lower"),
        (rate, None, None, "undetermined"),
        (cost, 0.92, 0.96, "undetermined"),  # whoever was the bottleneck
    ]
    write_ratios(tmp_path, "cores", cores)
    write_ratios(tmp_path, "the-machine", cores)
    found = doubts.kept_open("r", root=tmp_path)
    assert found["study"].tolist() == ["cores"] * 2
    assert found["hi"].tolist() == [0.96, 1.02]


def test_studies_with_trials_are_named_whatever_they_compare(tmp_path):
    for name in ("pools", "the-machine", "claims"):
        (tmp_path / "r" / name).mkdir(parents=True)
    for name, file in (("pools", "trials.jsonl.gz"), ("the-machine", "trials.jsonl")):
        (tmp_path / "r" / name / file).touch()
    assert doubts.names("r", root=tmp_path) == ["pools"]
    assert doubts.names("s", root=tmp_path) == []


def test_a_run_without_ratios_has_no_verdict_held_back(tmp_path):
    (tmp_path / "r").mkdir()
    assert doubts.kept_open("r", root=tmp_path).empty


def test_nothing_that_counts_has_no_slowest_block(trials):
    none = trials.assign(ok=False)
    assert doubts.course(none).empty
    assert doubts.slowest_block(none) == -1
    assert (none["block"] != doubts.slowest_block(none)).all()


def anew_and_kept(tmp_path):
    """Return trials of two kinds that a notebook tells apart; in one, poll is slow."""
    kinds = []
    for each, capacity in ((1, 50_000), (0, 200_000)):
        most = {"poll": capacity}
        lines = made.sweep(("poll", "epoll"), blocks=6, capacity=most, seed=each)
        for line in lines:
            line["factors"]["requests_per_connection"] = each
        kinds.append(made.load(tmp_path, lines))
    return pd.concat(kinds, ignore_index=True)


def to_epoll(trials):
    return ratios(trials, "throughput_rps", baseline="epoll", within=["connections"])


def printed_of(trials, **changes):
    """Return what a notebook prints of the one kind, and says of its cells."""
    return to_epoll(trials[trials["requests_per_connection"] == 1]).assign(**changes)


def test_a_ratio_of_chosen_trials_is_examined_with_the_verdict_that_is_printed(
    tmp_path,
):
    trials = anew_and_kept(tmp_path)
    table = printed_of(trials, load=lambda t: t.pop("connections") / 1000)
    study = doubts.Study("load", trials, table)
    again = doubts.examine([study], SAME)
    assert again["printed"].tolist() == table.sort_values("load")["verdict"].tolist()
    assert set(again["kind"]) == {"same"}
    assert again["model"].tolist() == table.sort_values("load")["model"].tolist()
    assert again["where"].tolist() == [f"{n} load" for n in (0.001, 0.01, 0.1, 1)]
    none_left = doubts.examine([study], {"none": lambda t: t.iloc[:0]})
    assert set(none_left["then"]) == {"undetermined"}


def test_work_is_called_as_the_paper_calls_it(tmp_path):
    trials = made.load(tmp_path, made.sweep(("poll", "epoll"), blocks=6))
    table = to_epoll(trials).assign(work="spin").drop(columns="connections")
    again = doubts.examine([doubts.Study("load", trials, table)], SAME)
    assert set(again["where"]) == {"computing"}


@pytest.mark.parametrize(
    "changes",
    [
        {"metric": "derived_s"},
        {"value": lambda t: t["value"] * 1.001},
        {"hi": lambda t: t["hi"] * 1.001},  # of another family
        {"n": 5},
    ],
)
def test_what_trials_do_not_give_as_printed_is_not_examined(tmp_path, changes):
    trials = anew_and_kept(tmp_path)
    study = doubts.Study("bulk", trials, printed_of(trials, **changes))
    assert doubts.examine([study], SAME).empty


def test_a_pair_that_a_notebook_left_out_takes_no_other_along(tmp_path):
    models = ("poll", "thread", "epoll")
    trials = made.load(tmp_path, made.sweep(models, blocks=6))
    most = trials["connections"] == trials["connections"].max()
    table = to_epoll(trials[~(most & (trials["model"] == "thread"))])
    again = doubts.examine([doubts.Study("load", trials, table)], SAME)
    assert len(again) == len(table)


@pytest.mark.parametrize(("accept", "examined"), [(["quiet"], 4), ([], 0)])
def test_gates_that_a_study_overlooks_are_overlooked_again(tmp_path, accept, examined):
    lines = made.sweep(("poll", "epoll"), blocks=5)
    for line in lines:
        quiet = line["block"] > 0
        line["gates"]["quiet"] = {"ok": quiet, "value": 0.2, "threshold": 0.1}
    trials = made.load(tmp_path, lines)
    table = to_epoll(trials.assign(ok=True))
    table.to_csv(tmp_path / "made/response-time/ratios.csv", index=False)
    studies = doubts.studies("made", root=tmp_path, accept=accept)
    assert [len(study.printed) for study in studies] == [4]
    assert len(doubts.examine(studies, SAME)) == examined


def test_trials_that_a_study_left_out_are_examined_nowhere(tmp_path):
    lines = made.sweep(("poll", "epoll"), blocks=5)
    others = made.sweep(("poll", "epoll"), blocks=5, capacity={"poll": 5_000})
    for line in others:
        line["factors"]["size"] = 4096
        line["key"] += "-4096"
    table = to_epoll(made.load(tmp_path, lines))
    made.write(tmp_path, lines + others)
    made.write(tmp_path, [{"settings": [{"size": 15}]}], file="results.json")
    table.to_csv(tmp_path / "made/response-time/ratios.csv", index=False)
    (study,) = doubts.studies("made", root=tmp_path)
    assert len(study.trials) == len(lines)
    assert len(doubts.examine([study], SAME)) == len(table)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("higher", "lower", "reversed"),
        ("higher", "undetermined", "weaker"),
        ("undetermined", "alike", "stronger"),
        ("alike", "higher", "other"),
        ("alike", "alike", "same"),
    ],
)
def test_how_a_verdict_changed(before, after, kind):
    assert doubts.kind(before, after) == kind


def studied(*rows):
    """Return a study whose trials have these times (ns) between cores, and levels."""
    plain = {"workload": "echo", "engine": "auto", "slice": 20.0, "size": "64"}
    plain |= {"connections": 50, "active": pd.NA, "rate": float("nan"), "ok": True}
    trials = [
        plain
        | {"block": 0, "core_to_core_s": before / 1e9, "failure": pd.NA}
        | {"core_to_core_after_s": after / 1e9, **levels}
        for before, after, levels in rows
    ]
    return doubts.Study("load", pd.DataFrame(trials), pd.DataFrame())


def test_times_that_are_near_each_other_are_of_one_place():
    pairs = [(80, 85), (130, 76), (340, 390), (84, 350), (900, 905), (2000, 2000)]
    found = doubts.placed([studied(*((*pair, {}) for pair in pairs))])
    near, apart, *farther = doubts.PLACES
    places = [near, near, apart, doubts.MOVED, *farther, *farther]
    assert found["place"].tolist() == places
    assert set(found["study"]) == {"load"}


def test_a_run_that_kept_no_times_has_no_places():
    assert doubts.placed([]).empty
    unknown = studied((80, float("nan"), {}))
    assert doubts.placed([unknown]).empty
    assert doubts.small_echoes(doubts.placed([unknown]), talking=[50]).empty


def test_trials_that_do_not_count_are_nowhere():
    both = studied((80, 80, {"ok": False}), (80, 80, {}))
    assert len(doubts.placed([both])) == 1


def test_blocks_of_two_studies_are_not_the_same():
    one = studied((80, 80, {}))
    assert doubts.placed([one, one])["block"].nunique() == 2


def test_a_place_counts_alike_in_studies_where_it_is_usual_and_where_it_is_not():
    """A line through both left the ratio of the former, with n of both."""
    usual, moved = (studied((80, 80, {"cores_off": off})) for off in (0.0, 1.0))
    found = doubts.placed([usual, moved])
    assert found["place"].tolist() == ["near"] * 2
    assert cores_off(found).tolist() == [0.0] * 2


@pytest.mark.parametrize(
    ("levels", "talking"),
    [
        ({}, 50),
        ({"connections": 1050, "active": 50}, 50),
        ({"connections": 1000}, 1000),
        ({"connections": 300}, None),
        ({"size": "1024"}, None),
        ({"size": "16-64"}, None),
        ({"rate": 1000.0}, None),
        ({"engine": "epoll"}, None),
        ({"workload": "http"}, None),
        ({"slice": float("nan")}, None),
    ],
)
def test_the_plainest_load_is_asked_for_as_fast_as_answers_come(levels, talking):
    placed = doubts.placed([studied((80, 80, levels))])
    found = doubts.small_echoes(placed, talking=[50, 1000])["talking"].tolist()
    assert found == ([] if talking is None else [talking])


@pytest.mark.parametrize(
    ("ends_at", "rounds", "shown"),
    [(0.6, 9, "changed"), (1.0, 9, "steady"), (1.4, 9, "changed"), (0.6, 2, None)],
)
def test_a_server_that_changes_within_its_sets_is_found(ends_at, rounds, shown):
    """As one that compiles as it runs, which a ratio of whole sets does not tell."""
    random = np.random.default_rng(1)
    about = {"round": [*range(rounds)], "seconds": [0.1] * rounds}
    about |= {"requests": [100] * rounds, "lead_in_requests": [0] * rounds}
    about |= {"response_ns": [100] * rounds}

    def rounds_of(row: pd.Series) -> Rounds:
        course = np.linspace(1, ends_at if row["model"] == "netty" else 1, rounds)
        spent = 1e6 * course * random.lognormal(0, 0.002, rounds)
        return Rounds({"turns": about | {"server_cpu_ns": spent.tolist()}})

    models = ("epoll", "netty", "poll")
    trials = made.usable(made.crossed(model=models, block=range(5), connections=(50,)))
    trials = trials.assign(set=trials["block"].astype(str), **{doubts.COST: 1e-5})
    trials["rounds"] = trials.apply(rounds_of, axis="columns")
    for column in schema.FACTORS:
        if column.name not in trials:
            trials[column.name] = None
    printed = ratios(trials, doubts.COST, baseline="epoll", within=["connections"])
    found = doubts.within_sets([doubts.Study("runtimes", trials, printed)])
    if shown is None:
        assert found.empty
        return
    found = found.set_index("model")
    assert set(found.index) == {"netty", "poll"}
    assert found.loc["poll", ["lo", "hi"]].between(0.98, 1.02).all()
    low, high = found.loc["netty", "lo"], found.loc["netty", "hi"]
    assert (high < 0.9 or low > 1.1) == (shown == "changed")
    assert found.loc["netty", "where"] == "50 connections"
