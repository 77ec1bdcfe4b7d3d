"""Study 00: its controls hold where they should, fail where they should."""

from __future__ import annotations

import json
import stat

import notebook_rules as rules
import numpy as np
import pytest
import study_made as made

from connlab import claims, drive
from connlab.study import calibration
from connlab.study import the_machine as tm
from connlab.study.frames import load_windows

NOTEBOOK = rules.ROOT / "notebooks" / "00-the-machine.ipynb"
KNOWN_S = 0.005


def run(
    tmp_path,
    *,
    found=1.0,
    twin=1.0,
    blocks=10,
    cv=0.005,
    spoilt=(),
    waiting=0.8,
    apart=2.0,
    limited=(),
    dearer=1.2,
):
    """Trials of all arms; the last shows `found` of the known delay more."""
    trials = []
    arms = ("A", "B", tm.DEARER, tm.TOGETHER, tm.PUSHED, tm.ONCE, tm.TWICE)
    for block in range(blocks):
        for order, arm in enumerate(arms):
            t = made.trial(block=block, order=order, cv=cv)
            t["key"] = f"{arm}-{block}"
            t["factors"]["arm"] = arm
            t["server"]["samples"]["other_cpu_s"] = 0.02
            if arm == "B":
                t["client"]["window"]["throughput_rps"] *= twin
            if arm == tm.DEARER:
                for clock in ("cpu_user_s", "cpu_system_s"):
                    t["server"]["samples"][clock] *= dearer
            if arm == tm.TOGETHER:
                for clock in ("cpu_user_s", "cpu_system_s"):
                    t["server"]["samples"][clock] /= apart
            if arm == tm.PUSHED or arm in limited:
                t["gates"]["client"] = {"ok": False, "value": 1.0, "threshold": 0.95}
            if arm == tm.PUSHED:
                t["client"]["self"]["waiting_share"] = waiting
            if arm == tm.TWICE:
                t["client"]["response"]["mean_ns"] += found * KNOWN_S * 1e9
            if arm in spoilt:
                t["gates"]["quiet"] = {"ok": False, "value": 1.0, "threshold": 0.1}
            trials.append(t)
    return made.load(tmp_path, trials)


def answered(tmp_path, beside=None, **options):
    frame = run(tmp_path, **options)
    results = tm.begin(frame, root=tmp_path)
    same = tm.aa(results, frame)
    found = tm.delay(results, frame, known_ms=1000 * KNOWN_S)
    return tm.answer(same, found, beside), same, found


def test_both_controls_hold_on_a_good_machine(tmp_path):
    said, same, found = answered(tmp_path)
    assert said.startswith("Yes, as far as its controls reach")
    assert same.ok
    assert same.effect.contains(1.0)
    assert found.ok


def test_a_server_that_differs_from_itself_is_told(tmp_path):
    said, same, _ = answered(tmp_path, twin=1.1)
    assert said.startswith("Only with care: the A/A control did not hold;")
    assert not same.ok


def test_a_delay_that_is_not_found_is_told(tmp_path):
    said, _, found = answered(tmp_path, found=0.9)
    assert "the known delay was not recovered within 1 %" in said
    assert found.effect.value == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(("dearer", "ok"), [(1.2, True), (1.0, False)])
def test_a_known_cost_is_found_again_or_missed(tmp_path, dearer, ok):
    frame = run(tmp_path, dearer=dearer)
    twin = frame.loc[frame["arm"] == "A", tm.COST].mean()
    results = tm.begin(frame, root=tmp_path)
    found = tm.extra(results, frame, extra_ns=round(0.2 * twin * 1e9))
    assert found.ok is ok
    assert found.effect.value == pytest.approx((dearer - 1) / 0.2, abs=0.1)


def beside(*slowdowns):
    report = {"neighbour": {"slowdown": list(slowdowns)}}
    return calibration.floor_intervals(calibration.floors(report))


@pytest.mark.parametrize(
    ("slowdowns", "told"),
    [
        ([1.0, 1.01, 0.99, 1.0], "the cores are two."),
        ([1.7, 1.71, 1.69, 1.7], "they share what they work with"),
        ([1.0, 1.3, 1.0, 1.2], "whether the cores are two is undetermined."),
        ([1.0], "whether the cores are two is undetermined."),
    ],
)
def test_a_busy_neighbour_tells_whether_the_cores_are_two(slowdowns, told):
    said = tm.neighbour_said(beside(*slowdowns))
    assert told in said
    assert "times as long as alone" in said


def test_without_a_second_core_no_neighbour_is_measured():
    assert beside(None) == {}
    assert tm.neighbour_said({}).endswith("was not measured.")


def test_cores_that_are_one_are_told_in_the_answer(tmp_path):
    shared = beside(1.7, 1.71, 1.69, 1.7)["neighbour"]
    said, *_ = answered(tmp_path, beside=shared)
    assert said.startswith("Only with care: server and client share a physical core;")
    good, *_ = answered(tmp_path, beside=beside(1.0, 1.01, 0.99)["neighbour"])
    assert good.startswith("Yes")


def test_without_usable_trials_nothing_is_answered(tmp_path):
    said, same, _ = answered(tmp_path, spoilt=("A",))
    assert same is None
    assert said.startswith("This run cannot say")
    assert "fewer than two usable" in tm.control_said(None, "a known delay")


def test_the_grids_give_each_arm_what_it_needs():
    counts = {"connections": 50, "crowd": 150}
    known = {"known_ms": 2.5, "extra_ns": 500}
    grids = tm.grids(model="epoll", fast="uring", **known, **counts)
    arms = {arm: g for g in grids for arm in g["arm"]}
    assert arms[tm.DEARER]["extra_ns"] == [500]
    assert set(arms) == {"A", "B", tm.DEARER, tm.TOGETHER, tm.PUSHED, tm.ONCE, tm.TWICE}
    assert arms[tm.TOGETHER]["together"] == [True]
    assert (arms[tm.PUSHED]["model"], arms["A"]["model"]) == (["uring"], ["epoll"])
    assert arms[tm.ONCE]["delay"] == ["fixed:2.5"]
    assert arms[tm.TWICE]["delay"] == ["fixed:5"]
    assert arms[tm.ONCE]["delay_kind"] == ["spin"]
    assert arms[tm.ONCE]["workload"] == arms[tm.TWICE]["workload"] == ["work"]
    assert arms["A"] is arms["B"]


def test_a_client_at_its_limit_is_the_same_for_both_twins(tmp_path):
    assert answered(tmp_path, limited=tm.TWINS)[1].ok


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (2.0, "travels between the caches of two cores"),
        (0.5, "get in each other's way"),
        (1.0, "no difference is shown"),
    ],
)
def test_what_a_core_each_costs_is_said_by_its_direction(tmp_path, ratio, words):
    frame = run(tmp_path, apart=ratio)
    found = tm.apart(tm.begin(frame, root=tmp_path), frame)
    assert found.value == pytest.approx(ratio, rel=0.02)
    assert words in tm.apart_said(found)


def test_without_trials_on_one_core_nothing_is_said_of_them(tmp_path):
    frame = run(tmp_path, spoilt=(tm.TOGETHER,))
    assert tm.apart(tm.begin(frame, root=tmp_path), frame) is None
    assert "was not measured" in tm.apart_said(None)


def test_a_ceiling_is_one_where_requests_wait_for_the_client(tmp_path):
    said = tm.ceiling_said(run(tmp_path / "slow"))
    assert "at most" in said
    assert "80% of the requests in flight waited for it" in said
    assert "at least" in tm.ceiling_said(run(tmp_path / "fast", waiting=0.2))
    spoilt = run(tmp_path / "none", spoilt=(tm.PUSHED,))
    assert "not known" in tm.ceiling_said(spoilt)


def test_the_fastest_server_is_one_that_is_there():
    class Row:
        def __init__(self, name, available):
            self.name, self.available = name, available

    assert tm.fastest([Row("epoll", True), Row("uring", True)]) == "uring"
    assert tm.fastest([Row("epoll", True), Row("uring", False)]) == "epoll"


def test_what_scatters_is_said_by_its_level(tmp_path):
    frame = run(tmp_path)
    said = tm.noise(frame, load_windows("made", "response-time", root=tmp_path))
    assert "between the tenths of a second" in said
    assert "20 trials" in said
    assert "no trend" in said
    busy = frame.assign(other_cpu_s=0.5)
    assert "50.0% of a core in the median trial and more than 5% in 70" in tm.left_out(
        busy
    )


# ---- the floor -----------------------------------------------------------------


@pytest.fixture
def program(tmp_path):
    """A floor that counts how often it was started."""
    path = tmp_path / "floor"
    report = {"thread": {"create_join_ns": [17e3]}, "switch": {"switch_ns": [1.5e3]}}
    report |= {"echo": {"throughput_rps": [None]}}
    text = f"#!/bin/sh\necho x >> {tmp_path}/count\necho '{json.dumps(report)}'\n"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def floor(tmp_path, program, rounds, **options):
    return drive.floor(
        tm.STUDY,
        run="made",
        root=tmp_path,
        rounds=rounds,
        command=(str(program),),
        progress=False,
        **options,
    )


def test_a_round_that_is_there_is_not_measured_again(tmp_path, program):
    floor(tmp_path, program, 2)
    path = tmp_path / "made" / tm.STUDY / "floor.jsonl"
    with path.open("a") as file:
        file.write('{"key": "cut off')
    floor(tmp_path, program, 3)
    assert (tmp_path / "count").read_text().count("x") == 3
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2]
    floor(tmp_path, program, 2, duration=0.2)
    measured = calibration.load_floors("made", root=tmp_path)
    assert set(measured["name"]) == {"thread", "switch"}
    assert len(measured) == 4


def test_a_floor_that_fails_says_why(tmp_path, program):
    program.write_text("#!/bin/sh\necho 'floor: socket: no' >&2\nexit 1\n")
    with pytest.raises(RuntimeError, match="exit 1: floor: socket: no"):
        floor(tmp_path, program, 1)
    with pytest.raises(ValueError, match="rounds: 0"):
        floor(tmp_path, program, 0)
    with pytest.raises(FileNotFoundError, match="make build"):
        floor(tmp_path, tmp_path / "nowhere", 1)


def test_the_ledger_judges_rounds_beside_trials(tmp_path, program):
    run(tmp_path, blocks=2)
    (tmp_path / "made" / "response-time").rename(tmp_path / "made" / tm.STUDY)
    floor(tmp_path, program, 3)
    found = {j.claim.id: j.finding for j in claims.judge_all("made", root=tmp_path)}
    assert found["L13"].verdict == "holds"
    assert found["L13"].effect.value == pytest.approx(17e-6)


# ---- results -------------------------------------------------------------------


def test_everything_ends_in_results_and_lines(tmp_path):
    frame = run(tmp_path)
    dice = np.random.default_rng(1)
    report = {
        "ping_pong": {"round_trip_ns": list(20e3 + 1e3 * dice.random(8))},
        "echo": {"throughput_rps": [2e5] * 8},
    }
    results = tm.begin(frame, root=tmp_path)
    found = tm.bounds(results, frame, calibration.floors(report))
    tm.costs(results, found)
    tm.table(results, found)
    tm.forest(results, tm.itself(results, frame))
    tm.drifting(results, frame)
    tm.windows(results, frame, load_windows("made", "response-time", root=tmp_path))
    results.answer = "made"
    said = json.loads(results.write().read_text())
    assert {line["metric"] for line in said["lines"]} == {
        "throughput_rps",
        "response_mean_s",
    }
    assert [f["id"] for f in said["figures"]] == [
        "fig-the-machine",
        "fig-the-machine-itself",
        "fig-the-machine-drift",
        "fig-the-machine-windows",
    ]
    assert said["values"]["ceiling"]["value"] == pytest.approx(125, rel=0.02)
    assert said["words"]["aa_throughput_rps"]["word"] == "indistinguishable from"


def test_the_notebook_keeps_the_rules():
    rules.check(NOTEBOOK, question=tm.QUESTION, wants={"rounds", "known_ms", "trials"})


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_plain_papermill_runs_it(tmp_path):
    few = {"rounds": 2, "window": 0.01, "trials": 2, "duration": 0.1}
    said = rules.run(NOTEBOOK, tmp_path, tm.STUDY, **few, connections=4)
    assert said["trials"]["total"] == 14
    assert said["answer"]
    assert said["values"]["switch"]["n"] == 2
