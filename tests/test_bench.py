"""connlab.bench: arms, ratios, targets; and one small run over real programs."""

import json
import math
import shutil
from dataclasses import replace

import pytest
from bench_made import made, make_plan, model

from connlab import schema
from connlab.bench import apart, command, plan, tables, targets, windows
from connlab.bench.plan import FLOOR, Arm
from connlab.drive import trials

STRACE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.16    0.036421           4      8000           sendto
 31.79    0.018932           4      4100       100 recvfrom
  0.00    0.000000           0         1         1 access
------ ----------- ----------- --------- --------- ----------------
100.00    0.059549           5     12101       101 total
"""


def test_a_round_holds_the_floor_once_per_width_and_others_at_the_least_width():
    made_up = make_plan(workloads=("echo", "http"))
    assert plan.arms(made_up) == [
        Arm("echo", 50, FLOOR),
        Arm("echo", 50, "epoll"),
        Arm("echo", 1000, FLOOR),
        Arm("echo", 1000, "epoll"),
        Arm("http", 50, "epoll"),
    ]


def test_a_serial_model_takes_part_only_alone():
    serial = model("iterative", concurrent=False)
    listed = plan.arms(make_plan(serial, connections=(1, 50)))
    assert Arm("echo", 1, "iterative") in listed
    assert Arm("echo", 50, "iterative") not in listed


def test_only_who_holds_as_many_as_it_has_workers_is_given_more():
    pool = model("pool", workers="fixed", holds="workers", family="threads")
    loops = model("epoll-workers", workers="fixed")
    made_up = make_plan(pool, loops)
    assert plan.factors(made_up, Arm("echo", 50, "pool"))["workers"] == 50
    assert "workers" not in plan.factors(made_up, Arm("echo", 50, "epoll-workers"))


def test_a_lesson_is_measured_beside_its_model_at_the_least_width():
    listed = plan.lesson_arms(make_plan(model("epoll"), model("none"), lessons=True))
    assert listed == [Arm("echo", 50, "lessons/epoll")]
    assert (listed[0].lesson, Arm("echo", 50, "epoll").lesson) == ("epoll", None)
    assert plan.factors(make_plan(), listed[0])["connections"] == 50
    assert plan.lesson_arms(make_plan()) == []


def test_strace_tables_are_read_with_and_without_errors():
    calls = {"sendto": 8000, "recvfrom": 4100, "access": 1}
    assert apart.parse_strace(STRACE) == calls


def test_calls_per_request_are_what_more_requests_add():
    requests = (apart.CALLS_REQUESTS[1] - apart.CALLS_REQUESTS[0]) * 20
    few = {"accept4": 20, "recvfrom": 800}
    many = {"accept4": 20, "recvfrom": 800 + 2 * requests, "futex": requests // 4}
    assert apart.per_request(few, many) == {"recvfrom": 2.0, "futex": 0.25}


def test_a_ratio_uses_the_rounds_that_both_arms_have():
    y, x = Arm("echo", 50, "epoll"), Arm("echo", 50, FLOOR)
    kept = made(y, 90, 90.9, 100) + made(x, 100, 101)
    found = targets.ratio(kept, y, x, targets.RATE)
    assert found.n == 2
    assert found.value == pytest.approx(0.9)
    assert found.lo == pytest.approx(0.9)


def test_a_failed_window_takes_no_part_and_none_leaves_no_ratio():
    y, x = Arm("echo", 50, "epoll"), Arm("echo", 50, FLOOR)
    kept = made(y, 90, failure="server-died") + made(x, 100)
    assert targets.ratio(kept, y, x, targets.RATE) is None


@pytest.mark.parametrize(
    ("rates", "need", "verdict"),
    [
        ((90, 91, 92), 0.85, "reached"),
        ((70, 71, 72), 0.85, "not reached"),
        ((70, 85, 100), 0.85, "undecided"),
        ((90,), 0.85, "undecided"),
    ],
)
def test_a_target_is_reached_by_the_whole_interval(rates, need, verdict):
    y, x = Arm("echo", 50, "epoll"), Arm("echo", 50, FLOOR)
    kept = made(y, *rates) + made(x, *[100] * len(rates))
    assert targets.reached(targets.ratio(kept, y, x, targets.RATE), need) == verdict


def test_at_most_is_the_other_way_round():
    found = targets.t_interval([270.0, 271.0, 272.0])
    assert targets.reached(found, 1024, at_most=True) == "reached"
    assert targets.reached(found, 100, at_most=True) == "not reached"
    assert targets.reached(None, 100) == "not measured"


def test_requests_per_cpu_second_compare_costs_the_right_way():
    y, x = Arm("echo", 50, "uring"), Arm("echo", 50, "epoll")
    kept = made(y, 1, 1, cost=4e-6) + made(x, 1, 1, cost=5e-6)
    assert targets.ratio(kept, y, x, targets.PER_CPU).value == pytest.approx(1.25)


def test_a_ratio_of_two_figures_compares_them_window_by_window():
    arm = Arm("echo", 50, "epoll")
    kept = [
        window
        for slow in (1, 1.1, 1.2)
        for window in made(arm, 1, cost=5e-6 * slow, client=4e-6 * slow)
    ]
    kept = [replace(window, round=number) for number, window in enumerate(kept)]
    (found,) = [
        verdict
        for verdict in targets.judge(make_plan(connections=(50,)), kept, [])
        if verdict.target
        == "client of epoll, CPU per echo, 50 connections, a core each"
    ]
    assert (found.found.lo, found.found.hi) == pytest.approx((0.8, 0.8))
    assert (found.need, found.reached) == ("< 0.9", "reached")


def test_a_window_knows_what_the_client_said_of_itself():
    client = {
        "connections": {"asked": 50, "established": 50, "surviving": 50},
        "window": {"throughput_rps": 1e5, "requests": 40_000, "seconds": 0.4},
        "self": {"cpu_share": 0.5, "spin_share": 0.1, "cpu_window_s": 0.2},
    }
    outcome = trials.Outcome(
        schema.Server(), schema.Client.model_validate(client), None, {}, 1.0
    )
    place = windows.Window(0, "echo", 50, "epoll")
    window = windows.of_outcome(make_plan(), place, outcome)
    assert window.client_share == pytest.approx(0.4)
    assert window.client_cpu_per_request_s == pytest.approx(5e-6)


def test_every_target_is_judged_even_where_nothing_was_measured():
    made_up = make_plan(model("epoll"), model("thread", family="threads"))
    memory = [
        apart.Memory("epoll", 100, (270.0, 270.0)),
        apart.Memory("thread", 100, (30000.0, 30001.0)),
    ]
    verdicts = {v.target: v.reached for v in targets.judge(made_up, [], memory)}
    assert verdicts["epoll of the floor, 50 connections"] == "not measured"
    assert verdicts["epoll, bytes per idle connection"] == "reached"
    assert verdicts["thread, bytes per idle connection"] == "not reached"


def test_others_at_work_are_told():
    busy = [windows.Window(0, "echo", 50, "epoll", others_share=0.5)]
    assert "0.50 cores" in tables.noise_note(busy)
    quiet = [windows.Window(0, "echo", 50, "epoll", others_share=0.01)]
    assert tables.noise_note(quiet) is None
    assert tables.noise_note([]) is None


def test_numbers_are_printed_with_their_width():
    found = targets.t_interval([990.0, 1000.0, 1010.0])
    assert tables.mean_text(found) == "1,000 ±2 %"
    assert tables.interval_text(found, digits=0) == "1,000 [975, 1,025]"
    alone = targets.t_interval([1000.0])
    assert tables.mean_text(alone) == tables.interval_text(alone, digits=0) == "1,000"
    assert tables.mean_text(None) == tables.NOTHING


def test_what_is_kept_is_json_without_nan(tmp_path):
    one = targets.ratio(
        made(Arm("echo", 1, "a"), 1), *[Arm("echo", 1, "a")] * 2, "round"
    )
    assert math.isnan(one.lo)
    verdict = targets.Verdict("a", "≥ 1", one, "undecided")
    path = command.keep(make_plan(), {"targets": [verdict]}, folder=tmp_path)
    kept = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert kept["targets"][0]["found"]["lo"] is None
    assert kept["settings"]["models"] == ["epoll"]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--models", "epol"], "did you mean 'epoll'"),
        (["--workloads", "ecko"], "did you mean 'echo'"),
        (["--connections", "0"], "want a number from 1 on"),
        (["--rounds", "many"], "want a number from 1 on"),
    ],
)
def test_a_wrong_flag_is_named(argv, told, capsys):
    with pytest.raises(SystemExit) as raised:
        command.main(argv)
    assert told in str(raised.value) + capsys.readouterr().err


def test_the_command_measures_prints_and_keeps(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(apart, "CALLS_REQUESTS", (5, 25))
    flags = "--models epoll --workloads echo --connections 2 --rounds 1 --seconds 0.1"
    flags = [
        *flags.split(),
        "--idle",
        "400",
        "--no-clients",
        "--no-many",
        "--out",
        str(tmp_path),
    ]
    assert command.main(flags) == 0
    said = capsys.readouterr().out
    assert "targets" in said
    assert "lessons beside models" in said
    kept = json.loads(next(tmp_path.iterdir()).read_text())
    rates = {w["model"]: w["throughput_rps"] for w in kept["windows"]}
    assert rates.keys() == {FLOOR, "epoll", "lessons/epoll"}
    assert all(rate > 0 for rate in rates.values())
    assert kept["idle_memory"][0]["bytes"][0] > 0
    assert kept["load_generators"] == kept["lag"] == kept["dialing"] == []
    if not shutil.which("strace"):
        pytest.skip("strace is not installed, so no system calls were counted")
    (row,) = kept["system_calls"]
    assert row["failure"] is None
    assert row["per_request"]["sendto"] == pytest.approx(1)
