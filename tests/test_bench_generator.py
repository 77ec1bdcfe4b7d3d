"""connlab.bench.generator: what the load generator promises, judged and measured."""

from __future__ import annotations

import os

import pytest
from bench_made import make_plan

from connlab.bench import generator, tables, targets
from connlab.bench.generator import BEST, PLAIN, Cost, Delay, Dialing, Found, Lag
from connlab.drive import cores

ONE_CORE = "client of epoll, CPU per echo, 50 connections, on one core"
LAG = "client, p99 of lag at 50,000 requests/s, µs"
DELAY = "client, 5 ms more of served delay are, ms"
FEW = "client, 19,000 connections established, s"
MANY = "client, 100,000 connections established, s"


def judged(**found):
    verdicts = targets.judge(make_plan(), [], [], Found(**found))
    return {verdict.target: verdict.reached for verdict in verdicts}


def lags(*p99s_us):
    return [
        Lag(number, 50_000.0, 2e-6, us / 1e6, 1e-3) for number, us in enumerate(p99s_us)
    ]


@pytest.mark.parametrize(
    ("p99s_us", "verdict"),
    [
        ((10, 11, 12), "reached"),
        ((150, 151, 152), "not reached"),
        ((50, 100, 150), "undecided"),
        ((10,), "undecided"),
    ],
)
def test_lag_is_judged_by_its_interval(p99s_us, verdict):
    assert judged(lag=lags(*p99s_us))[LAG] == verdict


@pytest.mark.parametrize(
    ("added_ms", "verdict"),
    [
        ((4.99, 5.0, 5.01), "reached"),
        ((5.2, 5.21, 5.22), "not reached"),
        ((4.8, 4.81, 4.82), "not reached"),
        ((4.9, 5.0, 5.1), "undecided"),
        ((5.0,), "undecided"),
    ],
)
def test_a_delay_is_to_be_found_neither_shorter_nor_longer(added_ms, verdict):
    found = [Delay(number, ms / 1e3) for number, ms in enumerate(added_ms)]
    assert judged(delay=found)[DELAY] == verdict


def costs(engine, *client_us):
    return [
        Cost(number, engine, 50, us / 1e6, 10e-6) for number, us in enumerate(client_us)
    ]


@pytest.mark.parametrize(
    ("client_us", "verdict"),
    [
        ((8.75, 8.8, 8.85), "reached"),
        ((9.5, 9.6, 9.7), "not reached"),
        ((8.5, 9.0, 9.5), "undecided"),
    ],
)
def test_the_client_is_judged_by_how_studies_have_it(client_us, verdict):
    plain = costs(PLAIN, 12.0, 12.0, 12.0)
    assert judged(cost=costs(BEST, *client_us) + plain)[ONE_CORE] == verdict


def test_costs_on_one_core_have_a_row_for_each_engine(capsys):
    found = costs(BEST, 8, 8) + costs(PLAIN, 10, 10)
    tables.show(make_plan(), [], [], [], [], own=Found(cost=found))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    ratios = {row[0]: row[-3] for row in rows if row[:1] in ([BEST], [PLAIN])}
    assert ratios == {BEST: "0.80", PLAIN: "1.00"}


def test_each_number_of_connections_has_its_own_limit():
    found = [
        Dialing(number, n, seconds)
        for n, seconds in ((19_000, 3.5), (100_000, 20.0))
        for number in range(2)
    ]
    verdicts = judged(dialing=found)
    assert (verdicts[FEW], verdicts[MANY]) == ("not reached", "reached")


def test_who_does_not_get_there_has_reached_nothing():
    found = [Dialing(0, 19_000, 1.0), Dialing(1, 19_000, failure="9 established")]
    assert judged(dialing=found) == judged() | {FEW: "not reached: 9 established"}


def test_what_was_left_out_is_not_judged():
    assert not {ONE_CORE, LAG, DELAY, FEW, MANY} & judged().keys()


def test_lag_has_a_row_and_closed_loops_have_none(capsys):
    tables.show(make_plan(), [], [], [], [], own=Found(lag=lags(10, 10)))
    lines = capsys.readouterr().out.splitlines()
    (ours,) = [line for line in lines if line.startswith("client")][1:]
    assert ours.split()[:4] == ["client", "50,000", "±0", "%"]
    assert "10.00 [10.00, 10.00]" in ours
    assert "1,000 [1,000, 1,000]" in ours
    others = [line for line in lines if "none: closed loop only" in line]
    assert [line.split()[0] for line in others] == ["wrk", "ab"]


@pytest.mark.parametrize(
    ("connections", "hard", "clients", "servers"),
    [
        (19_000, 20_000, None, None),
        (100_000, 20_000, 6, 7),
        (100_000, None, None, None),
    ],
)
def test_processes_are_as_many_as_descriptors_need(connections, hard, clients, servers):
    told = generator.many(connections, {"hard": hard})
    assert told.get("client_processes") == clients
    assert told.get("processes") == servers


# --- real programs ------------------------------------------------------------------


def real_plan():
    return make_plan(rounds=1, seconds=1.0, cores=cores.split(cores.available()))


@pytest.mark.serial
def test_cost_lag_and_delay_are_measured(build_dir):
    found = generator.measure(real_plan(), many=False)
    (lag,), (delay,) = found.lag, found.delay
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert {one.arm for one in found.cost} == {
        (engine, n) for engine in (BEST, PLAIN) for n in (50, 1000)
    }
    for one in found.cost:
        assert one.failure is None
        assert 0.5 < one.client_cpu_per_request_s / one.server_cpu_per_request_s < 2
    assert lag.failure is delay.failure is None
    assert 0 < lag.p50_s <= lag.p99_s <= lag.max_s
    assert lag.throughput_rps > 0
    assert 4e-3 < delay.added_s < 9e-3
    assert not found.dialing


@pytest.mark.serial
def test_many_connect_through_several_processes(build_dir, monkeypatch):
    limits = {"descriptors": {"soft": 164, "hard": 164}}
    monkeypatch.setattr(generator.machine, "limits", lambda: limits)
    monkeypatch.setattr(generator, "MANY", {300: 3.0})
    found = generator.measure(real_plan(), timing=False)
    assert [one.connections for one in found.dialing] == [300] * generator.MANY_REPEATS
    for one in found.dialing:
        assert one.failure is None
        assert 0 < one.seconds < 3
    assert not found.lag
    assert not found.delay
