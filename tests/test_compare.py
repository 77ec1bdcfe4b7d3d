"""connlab compare: what may be asked, when it stops, what it says."""

import io
import itertools
import json
import math
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import psutil
import pytest
from conftest import python, wait_for
from drive_fakes import in_background
from rich.console import Console
from scipy import stats as st

from connlab import __main__ as command
from connlab import drive
from connlab.compare import command as compare_command
from connlab.compare import comparison, measure, screen
from connlab.compare import plan as plans
from connlab.compare.plan import Plan, make_plan
from connlab.drive import flags, location, servers
from connlab.drive import turns as sets
from connlab.drive.host import Ended
from connlab.study.interval import Interval

pytestmark = pytest.mark.usefixtures("client_program")
HTTP = {"workload": "http"}


# ---- what may be asked --------------------------------------------------------


def test_the_baseline_takes_part_twice():
    plan = make_plan(["epoll", "poll"])
    assert [server.name for server in plan.servers] == ["epoll", "poll", "epoll again"]
    assert plan.servers[0].factors == plan.servers[2].factors


def test_a_worker_for_each_connection_unless_a_number_is_given():
    names = ["epoll-workers", "prethread", "prethread:workers=60"]
    plan = make_plan(names, connections=40)
    workers = [server.factors.get("workers") for server in plan.servers]
    assert workers == [None, 40, "60", None]


def test_in_an_open_loop_the_time_in_which_a_queue_grows_is_not_counted():
    """As in sweeps: each slice begins without one."""
    names = ["epoll", "poll"]
    closed, rated = (make_plan(names, rate=rate) for rate in (None, 1000))
    settings = [measure._setting(p, p.servers, 0, None) for p in (closed, rated)]
    lead_ins = [setting.lead_in_s for setting in settings]
    assert lead_ins == [sets.LEAD_IN_S, sets.LEAD_IN_OPEN * sets.SLICE_S]


@pytest.mark.parametrize(
    ("other", "options", "settle", "connect_rate"),
    [
        ("poll", {}, flags.SETTLE_S, None),
        ("./mine {port}", {}, flags.SETTLE_S, flags.CONNECT_RATE),
        ("python-asyncio", {}, flags.SETTLE_S, flags.CONNECT_RATE),
        ("./mine {port}", {"rate": 1000}, None, flags.CONNECT_RATE),
    ],
)
def test_servers_are_met_as_in_sweeps(other, options, settle, connect_rate):
    """Not faster than others accept; measured once all users were answered."""
    client = make_plan(["epoll", other], **options).client
    assert (client.get("settle"), client.get("connect_rate")) == (settle, connect_rate)


def test_time_grows_with_the_servers():
    two, three = make_plan(["epoll", "poll"]), make_plan(["epoll", "poll", "select"])
    assert three.client["duration"] == pytest.approx(two.client["duration"] * 4 / 3)
    assert three.set_s > two.set_s


def test_with_many_servers_a_set_is_short_enough_for_four_in_a_minute():
    names = [model.name for model in drive.models() if model.concurrent]
    plan = make_plan(names)
    assert 4 * plan.set_s < 60
    per_server_s = plan.client["duration"] / len(plan.servers)
    assert per_server_s == pytest.approx(10 * sets.SLICE_S)


@pytest.mark.parametrize(
    ("other", "options", "slice_s"),
    [
        ("poll", {"connections": 1}, sets.SLICE_FEW_S),
        ("poll", {"connections": 2}, sets.SLICE_FEW_S),
        ("at:127.0.0.1:7000", {"connections": 1}, sets.SLICE_FEW_S),
        ("at:192.0.2.10:7000", {"connections": 1}, sets.SLICE_S),
        ("poll", {"connections": 3}, sets.SLICE_S),
        ("poll", {"connections": 1, "rate": 100.0}, sets.SLICE_S),
        ("poll", {"connections": 1, "workload": "http"}, sets.SLICE_S),
        ("poll", {"connections": 1, "workload": "work"}, sets.SLICE_S),
        ("./mine {port}", {}, sets.SLICE_OTHERS_S),
        ("./mine {port}", {"connections": 1}, sets.SLICE_FEW_S),
    ],
)
def test_a_user_or_two_have_turns_as_short_as_in_sweeps(other, options, slice_s):
    """In no shorter a set: it has as many more rounds."""
    plan = make_plan(["epoll", other], **options)
    assert plan.slice_s == slice_s
    assert plan.client["duration"] == make_plan(["epoll", "poll"]).client["duration"]
    assert measure._setting(plan, plan.servers, 0, None).slice_s == slice_s


def test_a_lesson_is_started_by_its_own_command_without_flags():
    plan = make_plan(["epoll", "lessons/poll", "pool"], workers=3)
    argv = [servers.argv(plan.programs, server.factors) for server in plan.servers]
    epoll, lesson, pool, _again = argv
    assert [Path(word).name for word in lesson] == ["poll"]
    assert Path(lesson[0]).parent.name == "lessons"
    assert pool[-2:] == ["--workers", "3"]
    assert epoll[1] == "epoll"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lessons/epoll", HTTP, "lessons/epoll: workload http; allowed: echo"),
        ("lessons/epoll:workers=3", {}, "lessons/epoll:workers=3: .*settings"),
        ("./mine {port}", {"processes": 2}, "{port}:processes=2: .*no settings$"),
        ("lessons/poll", {"processes": 2}, "lessons/poll:processes=2: .*no settings$"),
        ("go:extra-ns=5", {}, "server go:extra_ns=5: .*takes no settings$"),
        ("at:192.0.2.10:7", {"processes": 2}, "10:7:processes=2: .*no settings$"),
        ("./mine {port} {workers}", {"workers": 3, "processes": 2}, "but workers$"),
        # no shell reads this
        ("./mine '{port}", {}, r"^server \"\./mine '\{port\}\": no closing"),
        ("poll", {"delay": "5"}, "^delay: 5; allowed: for work"),
        ("poll", {"workers": 4}, "^workers: 4; none of epoll, poll"),
        ("poll:extra-ns=5,extra-ns=6", {}, ": extra-ns 2 times; allowed: once$"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(
    monkeypatch, name, options, message
):
    monkeypatch.setattr(servers.Entry, "reason", None)
    with pytest.raises(ValueError, match=message):
        make_plan(["epoll", name], **options)


@pytest.mark.parametrize(
    ("names", "warm_up", "message"),
    [
        (["epoll", "./mine {port}"], -1.0, "^warm-up: -1 s; allowed: 0 to 60 s$"),
        (["epoll", "./mine {port}"], 61.0, "^warm-up: 61 s; allowed: 0 to 60 s$"),
        (["epoll", "poll"], 3.0, "^warm-up: 3 s; connlab wrote epoll, poll: none need"),
    ],
)
def test_a_warm_up_that_cannot_be_is_refused(names, warm_up, message):
    with pytest.raises(ValueError, match=message):
        make_plan(names, warm_up=warm_up)


def test_over_hosts_nothing_is_warmed_up():
    """There only our own servers are started; their host has no client."""
    afar = SimpleNamespace(remote=True, registry=lambda: None)
    with pytest.raises(ValueError, match="^warm-up: 3 s; allowed over several hosts: "):
        make_plan(["epoll", FAR], warm_up=3.0, location=afar)


def test_a_warm_up_is_of_those_that_connlab_did_not_write():
    names = ["epoll", "./mine {port}"]
    usual, longer = make_plan(names), make_plan(names, warm_up=5.0)
    of_each = [server.factors.get("warm_up") for server in longer.servers]
    assert of_each == [None, 5.0, None]
    assert longer.set_s == pytest.approx(usual.set_s - servers.WARM_UP_S + 5)


def test_workers_are_told_to_the_command_lines_that_have_a_place_for_them():
    plan = make_plan(["epoll", "./mine {port} {workers}"], workers=3)
    assert [server.factors.get("workers") for server in plan.servers] == [None, 3, None]


@pytest.mark.parametrize(("hard", "allowed"), [(64, "none"), (100, "1 to 12")])
def test_connections_that_a_client_cannot_have_are_refused(monkeypatch, hard, allowed):
    monkeypatch.setattr(location.ThisMachine, "descriptors", lambda _: hard)
    with pytest.raises(ValueError, match=f"^connections: 50; allowed here: {allowed} "):
        make_plan(["epoll", "poll"], connections=50)


def test_more_servers_than_a_client_can_serve_are_refused():
    with pytest.raises(ValueError, match="^servers: 64; allowed: 63 "):
        make_plan(["epoll", *(f"./{n} {{port}}" for n in range(63))], budget_s=1e9)


# ---- what is made of the slices --------------------------------------------------


def outcome(
    plan: Plan,
    rates: dict[str, float],
    *,
    places: int,
    who: str = "",  # ends, if anybody does
    how: str = "",  # died, hung, wrong, gone, lost
    takes_s: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
    client_ns: int = 900,
    waiting: float = 0.0,
) -> sets.Outcome:
    """Return a set in which servers answer at `rates`, at 1 µs of CPU a request."""
    rng = np.random.default_rng(seed)
    rows, served, reports = [], [], []
    here = plan.servers[:places]
    if places < len(plan.servers):  # who died or hung does not take part again
        here = [server for server in plan.servers if server.name != who]
    of_all = {"lead_in_requests": 0, "seconds": 0.02, "slice_seconds": 0.02}
    of_all |= {"rest_cpu_ns": 0, "steal_ns": 0}
    for number in range(20):
        shared = math.exp(rng.normal(0, 0.5))
        for place, server in enumerate(here):
            scatter = math.exp(rng.normal(0, noise))
            requests = rates[server.name] * 0.02 * shared * scatter
            cpu = {"client_cpu_ns": requests * client_ns, "busy_ns": requests * 1900}
            unseen = server.factors["model"].startswith("at:")
            cpu |= {"server_cpu_ns": None if unseen else requests * 1000}
            at = {"round": number, "counted": int(number >= 5), "target": place}
            if server.name != who or how not in ("wrong", "gone"):
                rows.append({**of_all, **at, **cpu, "requests": requests})
    report = {"active": 50, "requests": {"unanswered": 42}}
    report |= {"self": {"waiting_share": waiting, "engine": "uring"}}
    report |= {"response": {"p50_ns": 300_000, "p99_ns": 900_000}}
    for server in here:
        end = how if server.name == who else ""
        ended = Ended(-9, end == "died", (), "", {})
        served.append(sets.Served(server.factors, 0, {}, ended=ended))
        early = {"hung": "hung", "wrong": "gone", "gone": "gone"}.get(end)
        errors = {"mismatch": 50 * (end == "wrong"), "status": 0}
        errors["closed"] = few = 5 * (end == "lost")
        errors["timeout"] = 42 * (end == "hung")
        users = {"connections": {"asked": 50, "surviving": 50 - few}}
        slices = {"ended_early": {"reason": early} if early else None}
        reports.append(report | users | {"slices": slices, "errors": errors})
    return sets.Outcome(None, served, reports, rows, {}, takes_s)


def compared(monkeypatch, rates, *, held=None, budget_s=60, **options):
    """Compare servers of these rates; the first has its own again if none is said."""
    names = [name for name in rates if not name.endswith(" again")]
    plan = make_plan(names, budget_s=budget_s)
    rates = {plan.control: rates[plan.baseline]} | rates
    against = (replace(s, against=(held or {}).get(s.name)) for s in plan.servers)
    plan = replace(plan, servers=tuple(against))
    seeds, passed_s = iter(range(1000)), [0.0]

    def run(setting, *, host):
        passed_s.append(options.get("takes_s", 0))
        places = len(setting.servers)
        return outcome(plan, rates, places=places, seed=next(seeds), **options)

    monkeypatch.setattr(sets, "run", run)
    clock = SimpleNamespace(monotonic=lambda: sum(passed_s))
    monkeypatch.setattr(comparison, "time", clock)
    return comparison.compare(plan, measure.sets(plan), show=lambda state: None)


def document_of(result: comparison.Comparison) -> dict:
    return json.loads(json.dumps(comparison.document(result), allow_nan=False))


RATES = {"epoll": 1e5, "uring": 1.2e5}
THREE = RATES | {"poll": 9e4}


def test_it_stops_when_every_ratio_is_narrow(monkeypatch):
    result = compared(monkeypatch, RATES, noise=0.01)
    assert result.stopped == "width"
    assert result.n >= comparison.SETS_MIN
    assert result.widest() <= 0.01
    assert result.ratios("rate")["uring"].contains(1.2)
    assert result.ratios("cpu")["epoll again"].contains(1.0)


def test_it_stops_when_the_budget_is_spent(monkeypatch):
    result = compared(monkeypatch, RATES, noise=2.0, budget_s=13, takes_s=1.5)
    assert result.stopped == "budget"
    assert result.widest() > 0.01
    assert result.seconds < 14


@pytest.mark.parametrize(
    ("until", "said"), [(0.01, "±1.0 %"), (0.001, "±0.1 %"), (0.00001, "±0.001 %")]
)
def test_a_width_that_is_wanted_is_not_said_to_be_none(until, said):
    assert make_plan(list(RATES), until=until).wanted == said


@pytest.mark.parametrize(
    ("widest", "said"),
    [(0.027, "known to ±2.7 %"), (0.997, "±100 %"), (1.8, "±180 %"), (math.inf, "yet")],
)
def test_a_wide_ratio_is_told_in_plain_digits(monkeypatch, widest, said):
    result = compared(monkeypatch, RATES, budget_s=13, takes_s=1.5)
    result.stopped = "budget"
    monkeypatch.setattr(type(result), "widest", lambda self: widest)
    assert f"{said}; " in screen.ending(result)


@pytest.mark.parametrize(
    ("timeouts", "completed", "said"),
    [
        (10, 0, "; does it serve at all?"),
        (10, 3000, ", after 3000 answers"),
        (43, 500, ", after 500 answers"),
    ],
    ids=["from the start", "later", "open loop"],
)
def test_of_a_server_that_hangs_is_said_whether_it_served(timeouts, completed, said):
    """In an open loop requests wait behind those that a client has under way."""
    report = {"slices": {"ended_early": {"reason": "hung"}}, "active": 10}
    report |= {"requests": {"unanswered": 43, "completed": completed}}
    reason = measure._left(report | {"errors": {"timeout": timeouts}})
    assert reason == f"hung, 10 of 10 clients without an answer{said}"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("died", "killed by SIGKILL"),
        ("hung", "42 of 50 clients without an answer; does it serve so many at once?"),
        ("wrong", "wrong answers: 50"),
        ("gone", "closed all"),
        ("lost", "5 of 50 connections were lost: closed 5"),
    ],
)
def test_a_server_that_ends_is_named_and_the_others_go_on(monkeypatch, how, reason):
    result = compared(monkeypatch, THREE, noise=0.01, who="uring", how=how)
    assert list(result.failed) == ["uring"]
    assert reason in result.failed["uring"]
    assert set(result.ratios("rate")) == {"poll", "epoll again"}
    assert "uring" in printed(result)
    with pytest.raises(sets.SetError, match=reason):
        compared(monkeypatch, RATES, who="epoll", how=how)


@pytest.mark.parametrize("name", ["uring", "epoll"])
def test_a_server_that_does_not_start_again_is_named_unless_all_need_it(
    monkeypatch, name
):
    plan, rates = make_plan(list(THREE)), THREE | {"epoll again": 1e5}
    calls = iter(range(1000))

    def run(setting, *, host):
        if next(calls) == 2:
            place = [server.name for server in plan.servers].index(name)
            raise sets.SetError("no port", kind="server-start", server=place)
        return outcome(plan, rates, places=len(setting.servers), who="uring")

    monkeypatch.setattr(sets, "run", run)
    measured = measure.sets(plan)
    assert [next(measured).failed for _ in range(2)] == [{}, {}]
    if name == "epoll":
        with pytest.raises(sets.SetError, match="no port"):
            next(measured)
    else:
        third = next(measured)
        assert third.names == ("epoll", "poll", "epoll again")
        assert third.failed == {"uring": "no port"}


def test_hosts_that_were_never_on_time_together_are_said_to_be(monkeypatch):
    """There is nothing to make a ratio of, and there may be no row at all."""
    afar = SimpleNamespace(
        server=None, turning=lambda factors: object(), core_to_core=lambda sets: None
    )
    plan = replace(make_plan(["epoll", "poll"]), location=afar)
    late = replace(
        outcome(plan, dict.fromkeys(["epoll", "poll", "epoll again"], 1e5), places=3),
        setting=SimpleNamespace(pause_s=0.15),
        slices=[],
        client={"rounds": 0, "late_rounds": 7},
    )
    monkeypatch.setattr(measure.interleaving, "run_set", lambda setting, **_: late)
    with pytest.raises(sets.SetError, match="^none of 7 rounds was whole"):
        next(measure.sets(plan))


def test_the_heading_says_how_the_client_waited(monkeypatch):
    result = compared(monkeypatch, THREE)
    assert "each, a client on io_uring; " in screen.heading(result)
    assert comparison.document(result)["engine"] == "uring"
    result.engine = ""
    assert "client" not in screen.heading(result)


@pytest.mark.parametrize(
    ("connections", "said"), [(1, "1 connection to each"), (50, "50 connections to")]
)
def test_the_heading_counts_connections(connections, said):
    plan = make_plan(["epoll", "poll"], connections=connections)
    assert said in screen.heading(comparison.Comparison(plan))


def test_what_a_server_printed_is_no_markup(monkeypatch, capsys):
    result = compared(monkeypatch, THREE, who="uring", how="died")
    result.failed["uring"] = "[/b] [red] :smile:"
    console = screen.console()
    screen.print_all(result, console)
    with screen.live(console) as show:
        show(result)
    assert capsys.readouterr().out.count("[/b] [red] :smile:") == 2


def test_who_is_held_against_a_server_that_ends_has_no_ratio(monkeypatch):
    rates, held = THREE | {"thread": 8e4}, {"poll": "uring"}
    result = compared(monkeypatch, rates, held=held, who="uring", how="died")
    assert set(result.ratios("rate")) == {"thread", "epoll again"}
    assert "thread" in printed(result)


def test_one_wrong_answer_is_enough_to_leave():
    plan, names = make_plan(["epoll", "poll"]), ("epoll", "poll", "epoll again")
    one = outcome(plan, dict.fromkeys(names, 1e5), places=3)
    one.reports[1]["errors"]["mismatch"] = 1
    assert list(measure._died(plan, names, one)) == ["poll"]


def test_requests_that_fail_are_said_where_users_reconnect():
    """Whoever waits before it tries again has no connection when the set ends."""
    plan, names = make_plan(["epoll", "poll"]), ("epoll", "poll", "epoll again")
    one = outcome(plan, dict.fromkeys(names, 1e5), places=3, who="poll", how="lost")
    one.reports[1]["requests_per_connection"] = 1
    assert measure._died(plan, names, one) == {}
    result = comparison.Comparison(plan)
    for number in range(2):
        result.add(measure.Set(number, names, one))
    told = "poll: requests failed, which no rate counts: closed 10"
    assert screen.doubts(result)[0] == told
    assert document_of(result)["errors"]["poll"]["closed"] == 10


def test_a_quantile_that_is_unknown_in_one_set_is_not_measured():
    """It is null where more requests were never answered than it leaves out."""
    plan, names = make_plan(["epoll", "poll"]), ("epoll", "poll", "epoll again")
    result = comparison.Comparison(plan)
    for number in range(5):
        one = outcome(plan, dict.fromkeys(names, 1e5), places=3, seed=number)
        median_ns, p99_ns = (9, 9) if number else (0, None)  # 0: none was counted
        one.reports[1] |= {"response": {"p50_ns": median_ns, "p99_ns": p99_ns}}
        result.add(measure.Set(number, names, one))
    assert math.isnan(result.levels("poll", "p99").value)
    assert math.isnan(result.ratios("p99")["poll"].value)
    assert result.levels("poll", "p50").value == pytest.approx(9e-9)
    result.stopped = "budget"
    assert "not measured" in printed(result)


def test_a_quantile_that_one_server_lacks_is_told_of_the_others():
    plan = make_plan(["epoll", "poll", "uring"])
    names = tuple(server.name for server in plan.servers)
    result = comparison.Comparison(plan)
    for number in range(5):
        one = outcome(plan, dict.fromkeys(names, 1e5), places=4, seed=number)
        one.reports[1] |= {"response": {"p50_ns": 300_000, "p99_ns": None}}
        result.add(measure.Set(number, names, one))
    assert {n: r.n for n, r in result.ratios("p99").items() if r.determined} == {
        "uring": 5,
        plan.control: 5,
    }
    said = document_of(result)["ratios"]
    assert said["p50"]["uring"]["simultaneous"] == 2
    assert said["p99"]["uring"]["simultaneous"] == 1


def test_who_turned_clients_away_is_not_compared_by_the_others():
    """Under `ulimit -u 20` `thread` served 14 of 50 clients, and had a shorter p50."""
    plan, names = make_plan(["epoll", "poll"]), ("epoll", "poll", "epoll again")
    one = outcome(plan, dict.fromkeys(names, 1e5), places=3)
    asked = {"asked": 50, "established": 50, "surviving": 50}
    for report in one.reports:
        report["connections"] = asked
    assert not measure._died(plan, names, one)
    one.reports[1]["connections"] = asked | {"surviving": 14}
    stats = {"event": "stats", "refused": {"descriptors": 0, "threads": 36}}
    one.served[1].ended = Ended(0, False, (stats,), "", {})
    told = "36 of 50 connections were lost: refused for lack of threads 36"
    assert measure._died(plan, names, one) == {"poll": told}


def test_when_nobody_is_left_it_ends(monkeypatch):
    result = compared(monkeypatch, RATES, who="uring", how="died")
    assert result.stopped == "alone"
    monkeypatch.setattr(comparison, "compare", lambda *_, **__: result)
    monkeypatch.setattr(measure, "sets", lambda plan: (n for n in range(1)))
    with pytest.raises(SystemExit) as ended:
        compare_command.run(result.plan)
    assert ended.value.code == 1
    document = document_of(result)
    assert document["widest"] is None
    assert list(document["failed"]) == ["uring"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_client_that_fails_loses_nothing_that_was_measured(
    monkeypatch, capsys, as_json
):
    plan, rates = make_plan(list(RATES)), RATES | {"epoll again": 1e5}
    numbers = iter(range(9))

    def run(setting, *, host):
        if (number := next(numbers)) == 6:
            raise sets.SetError("client: exit 3: {port}", kind="client-failed")
        return outcome(plan, rates, places=3, noise=0.1, seed=number)

    monkeypatch.setattr(sets, "run", run)
    with pytest.raises(SystemExit) as ended:
        compare_command.run(plan, as_json=as_json)
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    if as_json:
        document = json.loads(out)
        assert (document["sets"], document["stopped"]) == (6, "failed")
        assert document["failure"] == "client: exit 3: {port}"
        assert document["ratios"]["rate"]["uring"]["lo"] > 1
    else:
        assert "faster" in out
    assert "client: exit 3: {port}" in (err if as_json else out)


FAR, HERE = "at:192.0.2.10:7000", "at:127.0.0.1:7000"


def test_a_server_at_an_address_has_no_cpu_time_and_the_others_keep_theirs(monkeypatch):
    rates = {"epoll": 1e5, FAR: 5e4, "poll": 9e4}
    result = compared(monkeypatch, rates, noise=0.01)
    assert result.stopped == "width"
    assert result.decisive == ("rate", "cpu")
    assert result.ratios("rate")[FAR].contains(0.5)
    assert result.ratios("cpu")["poll"].contains(1.0)
    assert math.isnan(result.ratios("cpu")[FAR].value)
    assert f"{FAR} –" in printed(result)
    document = document_of(result)
    assert document["levels"][FAR]["cpu"]["value"] is None
    assert document["ratios"]["cpu"][FAR]["value"] is None
    poll = {metric: ratios["poll"] for metric, ratios in document["ratios"].items()}
    assert (poll["rate"]["simultaneous"], poll["cpu"]["simultaneous"]) == (2, 1)


@pytest.mark.parametrize(
    ("words", "decisive"),
    [
        ((FAR, "epoll", "poll"), ("rate",)),
        ((FAR, "at:192.0.2.10:7001"), ("rate",)),
        (("epoll", FAR), ("rate", "cpu")),
    ],
)
def test_rates_decide_where_cpu_times_cannot(monkeypatch, words, decisive):
    result = compared(monkeypatch, dict.fromkeys(words, 1e5), noise=0.01)
    assert result.stopped == "width"
    assert result.decisive == decisive


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (("epoll", HERE), [HERE]),
        ((HERE, "epoll"), [HERE]),  # its control is the same server
        (("epoll", FAR), []),
        (("epoll", "poll"), []),
    ],
)
def test_a_server_of_this_machine_that_chose_its_own_core_is_said(
    monkeypatch, names, named
):
    result = compared(monkeypatch, dict.fromkeys(names, 1e5))
    core = result.plan.cores.server[0]
    said = [text for text in screen.doubts(result) if "started by hand" in text]
    assert [text.partition(": started")[0] for text in said] == named
    assert all(f"starts have core {core}, the client core" in text for text in said)
    assert document_of(result)["slice_s"] == result.plan.slice_s


def test_a_server_that_left_is_not_said_to_have_chosen_its_core(monkeypatch):
    rates = dict.fromkeys(("epoll", "poll", HERE), 1e5)
    result = compared(monkeypatch, rates, who=HERE, how="gone")
    assert list(result.failed) == [HERE]
    assert result.unpinned == []


# ---- what is said ------------------------------------------------------------------


def printed(result: comparison.Comparison, *, width: int = 120) -> str:
    text = io.StringIO()
    screen.print_all(result, Console(file=text, width=width))
    return text.getvalue()


def test_the_table_says_more_and_less(monkeypatch):
    text = printed(compared(monkeypatch, RATES, noise=0.01))
    assert all(word in text for word in ("64 bytes", "faster", "alike"))
    assert "nan" not in text


def test_a_long_command_line_cuts_no_number_and_no_word(monkeypatch):
    mine = "./build/a-server-of-mine --listen 127.0.0.1:{port} --threads 4"
    result = compared(monkeypatch, {mine: 1e5, "uring": 1.2e5}, noise=0.01)
    text = printed(result, width=100)
    assert "…" not in text
    lines = text.splitlines()
    words = result.words("rate", result.ratios("rate"))
    for name, ratio in result.ratios("rate").items():
        at = next(n for n, line in enumerate(lines) if screen.number(ratio) in line)
        column = lines[at].index(screen.number(ratio))
        assert lines[at + 1][column:].startswith(words[name]), lines[at : at + 3]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_cuts_no_number_and_no_word(monkeypatch, width):
    result = compared(monkeypatch, RATES, noise=0.4, takes_s=9)
    monkeypatch.setattr(screen, "number", lambda *_: "1.18 [1.04, 1.34]")
    lines = printed(result, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.count("]") for line in lines) == (3 + 2) * len(screen.TITLES)


@pytest.mark.parametrize("name", ["uring", "./a-server-of-mine --port {port}"])
def test_no_terminal_cuts_the_end_of_an_interval(name):
    """Of 80 columns "[0.01, 389.26]" lost its bracket to "CPU per request"."""
    cells = ["0.70 [0.05, 10.09]", "1.7 [0.6, 4.7]", "0.2 [0.001, 75.821]"]
    of_title = dict(zip(screen.TITLES, [*cells, "1.67 [0.01, 389.26]"], strict=True))

    def make(_, metrics, gap):
        rows = screen.table("against epoll", *(screen.TITLES[m] for m in metrics))
        said = ["cannot tell"] * len(metrics)
        given = [of_title[metric] for metric in metrics]
        screen.add_numbers(rows, name, *given, gap=gap, below=said)
        return rows

    for width in range(46, 121):
        text = io.StringIO()
        console = Console(file=text, width=width)
        console.print(screen.fitting(console, make, None))
        assert (width, text.getvalue().count("]")) == (width, len(screen.TITLES))


def test_a_narrow_terminal_cuts_no_word_where_intervals_are_not_known_yet(monkeypatch):
    """Of 40 columns "CPU per request" was folded to "reques" and "t"."""
    result = compared(monkeypatch, RATES, noise=0.4, takes_s=9)
    monkeypatch.setattr(screen, "number", lambda *_: "0.38")
    words = dict.fromkeys([*RATES, "epoll again"], "cannot tell")
    monkeypatch.setattr(type(result), "words", lambda *_: words)
    text = printed(result, width=40)
    assert text.split().count("request") == 2
    assert max(map(len, text.splitlines())) <= 40


@pytest.mark.parametrize(
    ("lo", "hi", "metric", "word"),
    [
        (1.1, 1.2, "rate", "faster"),
        (0.8, 0.9, "rate", "slower"),
        (1.1, 1.2, "cpu", "dearer"),
        (0.8, 0.9, "cpu", "cheaper"),
        (1.01, 1.03, "cpu", "dearer, .* 5 %"),
        (1.1, 1.2, "p99", "longer"),
        (0.98, 1.02, "rate", "alike"),
        (0.8, 1.2, "rate", "cannot tell"),
    ],
)
def test_words_of_a_ratio(lo, hi, metric, word):
    ratio = Interval(math.sqrt(lo * hi), lo, hi, 8, 0.95, "made")
    assert re.fullmatch(word, comparison.word(ratio, metric))


@pytest.mark.parametrize(
    ("client_bound", "rate", "p99"),
    [
        ((False, False), ("faster", "slower"), ("shorter", "longer")),
        ((True, False), ("faster", "cannot tell"), ("shorter", "cannot tell")),
        ((False, True), ("cannot tell", "slower"), ("cannot tell", "longer")),
        ((True, True), ("cannot tell", "cannot tell"), ("cannot tell", "cannot tell")),
    ],
)
def test_a_client_that_is_the_limit_leaves_only_what_a_better_one_would(
    client_bound, rate, p99
):
    ahead, behind = (Interval(x, x - 0.05, x + 0.05, 8, 0.95, "made") for x in (2, 0.5))
    said = [comparison.word(ratio, "rate", client_bound) for ratio in (ahead, behind)]
    assert tuple(said) == rate
    said = [comparison.word(ratio, "p99", client_bound) for ratio in (behind, ahead)]
    assert tuple(said) == p99
    alike = Interval(1.0, 0.99, 1.01, 8, 0.95, "made")
    word = "cannot tell" if any(client_bound) else "alike"
    assert comparison.word(alike, "rate", client_bound) == word


@pytest.mark.parametrize(
    ("client_ns", "waiting", "bound"),
    [(1000, 0.9, True), (1000, 0.2, False), (600, 0.9, False)],
)
def test_where_both_sides_are_full_the_queue_tells_who_is_the_limit(
    monkeypatch, client_ns, waiting, bound
):
    rates = dict.fromkeys(RATES, 1e6)
    options = {"client_ns": client_ns, "waiting": waiting, "noise": 0.001}
    result = compared(monkeypatch, rates, **options)
    kind = "client-bound" if bound else "server-bound"
    assert result.limits() == dict.fromkeys((*RATES, "epoll again"), kind)
    words = result.words("rate", result.ratios("rate"))
    assert words["uring"] == ("cannot tell" if bound else "alike")
    assert words["epoll again"] == "alike"
    assert result.words("cpu", result.ratios("cpu"))["uring"] == "alike"
    assert ("limited by the client" in printed(result)) is bound


def test_sets_in_which_no_answer_waited_for_the_client_count():
    plan, names = make_plan(["epoll", "poll"]), ("epoll", "poll", "epoll again")
    result = comparison.Comparison(plan)
    rates = dict.fromkeys(names, 1e6)
    for number, waiting in enumerate([0, 0, 0, 0.9]):
        one = outcome(plan, rates, places=3, client_ns=1000, waiting=waiting)
        result.add(measure.Set(number, names, one))
    assert result.limits() == dict.fromkeys(names, "server-bound")


@pytest.mark.parametrize(("per_connection", "known"), [(1, {"fork"}), (None, set())])
def test_of_a_process_for_each_client_that_comes_anew_cpu_time_is_in_ticks(
    per_connection, known
):
    plan = make_plan(["epoll", "fork"], requests_per_connection=per_connection)
    assert plan.in_ticks == known
    again = make_plan(["fork", "epoll"], requests_per_connection=per_connection)
    assert again.in_ticks == known | {f"{name} again" for name in known}


@pytest.mark.parametrize(
    ("load", "whole"),
    [
        ({}, False),
        ({"connections": 101}, True),
        ({"size": 65536}, True),
        ({"workload": "http"}, True),
        ({"workload": "work", "delay": "5"}, True),
        ({"workload": "work", "delay": "5", "rate": 100.0}, False),
    ],
)
def test_a_rate_is_of_whole_slices_where_that_of_a_trial_is(load, whole):
    """Else what `compare` and a study say of one load would differ by some per cent.

    Each turn of 20 ms has requests to `epoll` of 5 ms, to `poll` of 10 ms, of which
    none ends in the lead-in.
    """
    plan = make_plan(["epoll", "poll"], **load)
    lead_in_s = measure._setting(plan, plan.servers, 0, None).lead_in_s
    rates = {"epoll": 200, "poll": 100, "epoll again": 200}
    result = comparison.Comparison(plan)
    for number in range(comparison.SETS_MIN):
        seen = outcome(plan, rates, places=3)
        for row in seen.slices:
            row["requests"] = {0: 4, 1: 2, 2: 4}[row["target"]]
            row["slice_seconds"] = 0.02 if row["target"] != 1 else 0.021
            row["seconds"] = row["slice_seconds"] - lead_in_s
        result.add(measure.Set(number, tuple(rates), seen))
    left_out_s = 0 if whole else lead_in_s
    epoll, poll = 4 / (0.02 - left_out_s), 2 / (0.021 - left_out_s)
    assert plan.whole_slices is whole
    assert result.levels("epoll", "rate").value == pytest.approx(epoll)
    assert result.ratios("rate")["poll"].value == pytest.approx(poll / epoll)


@pytest.mark.parametrize(
    ("rate", "lasted_s", "p50_ns", "said"),
    [
        (1000, 0.05, 1e7, "poll 2.50"),  # 30 ms of requests are left at the edge
        (1000, 0.05, 4e7, ""),  # no longer than an answer takes
        (1000, 0.0205, 1e5, ""),
        (None, 0.05, 1e7, ""),  # each user has 25 answers in a turn
    ],
)
def test_waits_of_an_overloaded_server_are_doubted(rate, lasted_s, p50_ns, said):
    """They are those of a turn, and grow without end where it is asked for longer."""
    plan = make_plan(["epoll", "poll"], rate=rate)
    names = tuple(server.name for server in plan.servers)
    one = outcome(plan, dict.fromkeys(names, 1000), places=3)
    for row in one.slices:
        row["slice_seconds"] = lasted_s if row["target"] == 1 else 0.02
    one.reports[1]["response"] = {"p50_ns": p50_ns, "p99_ns": p50_ns}
    result = comparison.Comparison(plan)
    result.add(measure.Set(0, names, one))
    doubts = [text for text in screen.doubts(result) if "overloaded" in text]
    assert len(doubts) == bool(said)
    assert all(f": {said} (" in text for text in doubts)
    assert bool(document_of(result)["strain"]) is bool(rate)


@pytest.mark.parametrize(
    ("rate", "lag_ns", "said"),
    [
        (1000, [3e5, 1e4], "poll 1 (of 2)"),
        (1000, [1.5e5, 1e4], ""),  # less than is allowed
        (None, [3e5, 3e5], ""),  # that is how long answers wait for their batch
    ],
)
def test_a_client_that_is_late_is_said(rate, lag_ns, said):
    """Who asked for a rate takes the waits for the server's."""
    plan = make_plan(["epoll", "poll"], rate=rate)
    names = tuple(server.name for server in plan.servers)
    result = comparison.Comparison(plan)
    for number, lag in enumerate(lag_ns):
        one = outcome(plan, dict.fromkeys(names, 1000), places=3)
        one.reports[1]["self"] = {"waiting_share": 0.1, "lag_p99_ns": lag}
        result.add(measure.Set(number, names, one))
    doubts = [text for text in screen.doubts(result) if "client was late" in text]
    assert len(doubts) == bool(said)
    assert all(text.endswith(said) for text in doubts)
    assert document_of(result)["late_sets"] == ({"poll": 1} if said else {})


def test_a_client_that_looks_in_vain_all_the_time_is_no_bottleneck():
    """What it spent looking is more than it used, where its slices were longer."""
    plan = make_plan(["epoll", "poll"])
    names = tuple(server.name for server in plan.servers)
    result = comparison.Comparison(plan)
    for number in range(4):
        one = outcome(plan, dict.fromkeys(names, 1000), places=3, seed=number)
        for report in one.reports:
            report["self"]["spin_share"] = 1.0
        result.add(measure.Set(number, names, one))
    assert {client for _, client in result.busy().values()} == {0}
    assert set(result.limits().values()) == {"unsaturated"}


@pytest.mark.parametrize(
    ("name", "ends_at", "said"),
    [
        ("./mine {port}", 0.5, "./mine {port}: its cost per request was still"),
        ("./mine {port}", 0.98, ""),  # within the margin
        ("poll", 0.5, ""),  # nothing of ours compiles as it runs
    ],
)
def test_a_cost_that_is_still_falling_is_said(name, ends_at, said):
    plan = make_plan(["epoll", name])
    names = tuple(server.name for server in plan.servers)
    result = comparison.Comparison(plan)
    for number in range(4):
        one = outcome(plan, dict.fromkeys(names, 1000), places=3, seed=number)
        for row in one.slices:
            if row["target"] == 1:
                row["server_cpu_ns"] *= ends_at ** ((row["round"] - 5) / 14)
        result.add(measure.Set(number, names, one))
    doubts = [text for text in screen.doubts(result) if "still falling" in text]
    assert len(doubts) == bool(said)
    assert all(text.startswith(said) for text in doubts)
    assert document_of(result)["falling"].keys() == ({name} if said else set())


@pytest.mark.parametrize(
    ("shared", "limit"), [(True, "limited by the core that "), (False, "neither ")]
)
def test_one_core_is_full_when_both_sides_together_fill_it(monkeypatch, shared, limit):
    result = compared(monkeypatch, dict.fromkeys(RATES, 5e5), noise=0.001)
    cores = replace(result.plan.cores, shared=shared)
    result.plan = replace(result.plan, cores=cores)
    assert [line.startswith(limit) for line in screen.limits(result)] == [True]


def test_a_client_that_uses_most_of_a_shared_core_is_the_limit(monkeypatch):
    """As it is in the label of such a trial (test_drive_gates)."""
    rates = {"epoll": 4e5, "uring": 4.3e5}
    result = compared(monkeypatch, rates, noise=0.001, client_ns=1300)
    cores = replace(result.plan.cores, shared=True)
    result.plan = replace(result.plan, cores=cores)
    assert result.words("rate", result.ratios("rate"))["uring"] == "cannot tell"
    assert "limited by the client" in screen.limits(result)[0]
    assert {*result.limits().values()} == {"client-bound"}


def test_a_server_is_held_against_the_one_that_it_names(monkeypatch):
    rates = {"epoll": 1e5, "poll": 9e4, "lessons/poll": 1.2e5}
    result = compared(monkeypatch, rates, held={"poll": "lessons/poll"}, noise=0.001)
    ratios = result.ratios("rate")
    assert ratios["poll"].value == pytest.approx(0.75, rel=0.01)
    assert ratios["lessons/poll"].value == pytest.approx(1.2, rel=0.01)
    assert "poll / lessons/poll" in printed(result)


def test_a_control_that_does_not_hold_is_said(monkeypatch):
    result = compared(monkeypatch, RATES | {"epoll again": 1.1e5}, noise=0.01)
    assert any("control" in doubt for doubt in screen.doubts(result))


def test_ratios_are_those_between_cores_where_they_usually_are(monkeypatch):
    """A host moves them; the ratio is another where they are apart."""
    ns = itertools.chain([80] * 4, [370] * 4, [81, 375], itertools.repeat(79))
    monkeypatch.setattr(location, "core_to_core_s", lambda sets: next(ns) / 1e9)
    result = compared(monkeypatch, RATES, noise=0.05, budget_s=13, takes_s=1.0)
    moved = [0, 0, 1, 1, 0.5] + [0] * (result.n - 5)
    assert result.cores_off.tolist() == moved
    assert f"moved the cores in 3 of {result.n} sets" in printed(result)
    assert " sets, 79 ns from core to core and back" in screen.heading(result)
    document = document_of(result)
    assert document["cores_off"] == moved
    logs = result.log_ratios("rate")["uring"]
    line = np.polyfit(moved, logs, 1)
    value = document["ratios"]["rate"]["uring"]["value"]
    assert value == pytest.approx(math.exp(line[1]))
    assert value != pytest.approx(math.exp(logs.mean()), rel=1e-4)


@pytest.mark.parametrize("took_s", [(None,), (80e-9, 120e-9)], ids=["unknown", "stay"])
def test_of_cores_that_nobody_saw_move_no_move_is_told(monkeypatch, took_s):
    """One that idles takes up to 1.5 times as long."""
    times = itertools.cycle(took_s)
    monkeypatch.setattr(location, "core_to_core_s", lambda sets: next(times))
    result = compared(monkeypatch, RATES, noise=0.01)
    assert not result.cores_off.any()
    assert "the cores" not in printed(result)
    assert ("core to core" in screen.heading(result)) is all(took_s)


def test_json_has_levels_ratios_and_words(monkeypatch):
    result = compared(monkeypatch, RATES, noise=0.01)
    document = document_of(result)
    assert document["ratios"]["rate"]["uring"]["word"] == "faster"
    assert document["ratios"]["rate"]["uring"]["n"] == result.n
    assert document["levels"]["epoll"]["p99"]["value"] == pytest.approx(9e-4)
    assert document["stopped"] == result.stopped
    assert document["widest"] == result.widest()
    assert document["machine"]["binaries"]
    frame = pd.concat(result.sets)
    rates = frame.loc[frame["server"] == "epoll", "rate"]
    level = document["levels"]["epoll"]["rate"]["value"]
    assert level == pytest.approx(np.exp(np.log(rates).mean()))


def test_json_has_what_every_ratio_can_be_made_of_again(monkeypatch):
    result = compared(monkeypatch, THREE, noise=0.01)
    document = document_of(result)
    rows = [row for row in document["each_set"] if row["server"] == "poll"]
    assert {round(row["client"] * 1e9) for row in rows} == {900}  # ns a request
    assert document["cores"] == result.plan.cores.in_trial()
    logs = [row["log_ratio_rate"] for row in rows]
    kept = document["ratios"]["rate"]["poll"]
    assert len(logs) == kept["n"] == result.n
    assert math.exp(np.mean(logs)) == pytest.approx(kept["value"])
    assert kept["simultaneous"] == 2
    level = 1 - (1 - kept["level"]) / kept["simultaneous"]
    reach = st.t.ppf((1 + level) / 2, len(logs) - 1) * st.sem(logs)
    assert math.exp(np.mean(logs) + reach) == pytest.approx(kept["hi"])


# ---- with the real programs --------------------------------------------------------


@pytest.mark.sweeps
@pytest.mark.parametrize(
    "load",
    [
        "--workload echo",
        pytest.param("--workload work --delay fixed:0.1", marks=pytest.mark.long),
        pytest.param("--workload http --size 2000", marks=pytest.mark.long),
        pytest.param("--rate 5000", marks=pytest.mark.long),
    ],
)
def test_a_real_comparison_of_each_load(load, monkeypatch, capsys):
    monkeypatch.setattr(plans, "WARM_SLICES", 1)
    monkeypatch.setattr(plans, "COUNTED_SLICES", 2)
    monkeypatch.setattr(plans, "COUNTED_MIN", 2)
    words = ["epoll", "poll", "--connections", "8", "--budget", "3s", *load.split()]
    assert command.main(["compare", *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    ratio = document["ratios"]["cpu"]["epoll again"]
    assert 0.5 < ratio["value"] < 2
    assert document["levels"]["poll"]["rate"]["value"] > 0


def test_the_first_server_is_up_before_pandas_and_scipy_are_loaded():
    """Nor does a sweep pay for what only figures need, whichever module of it runs."""
    code = (
        "import importlib, pkgutil, sys\n"
        "from connlab import drive\n"
        "from connlab.compare import make_plan, measure\n"
        "for found in pkgutil.iter_modules(drive.__path__):\n"
        "    importlib.import_module(f'connlab.drive.{found.name}')\n"
        "plan = make_plan(['epoll', 'poll'])\n"
        "heavy = {'pandas', 'scipy', 'numpy', 'matplotlib', 'seaborn', 'IPython'}\n"
        "print(heavy & set(sys.modules))"
    )
    done = python("-c", code)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.timed
def test_ctrl_c_ends_it_at_once_and_leaves_no_process():
    words = ["-m", "connlab", "compare", "epoll", "poll", "--connections", "2"]
    process = in_background(*words, start_new_session=True)
    family = psutil.Process(process.pid)
    wait_for(lambda: len(family.children()) > 2)  # servers are up
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert process.returncode == compare_command.INTERRUPTED
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
