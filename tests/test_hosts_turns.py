"""Servers that take turns, with clients on other hosts: a lab of a server and two."""

import json
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import ROOT, connlab

from connlab import drive, study
from connlab.drive import (
    capacity,
    cores,
    flags,
    gates,
    interleaving,
    programs,
    trials,
    turns,
)
from connlab.hosts import carrier, lab, roster
from connlab.hosts.carrier import Engine
from connlab.hosts.remote import RemoteHosts
from connlab.intervals import ratios
from tests.drive_fakes import measure, programs_in, rows
from tests.labs import all_running, until, up

# Who dies, who is lost and what is refused are facts: other sweeps change none.
pytestmark = [
    pytest.mark.long,
    pytest.mark.sweeps,
    pytest.mark.usefixtures("network_namespaces", "others_allowed"),
]
NUMBER, FEW = 180, 181
#: what the machine of the tests does besides
OVERLOOKED = ("quiet", "client", "stationary", "lag", "rate")
CPU = "server_cpu_per_request_s"


@pytest.fixture(scope="module")
def hosts_lab(tmp_path_factory) -> Iterator[lab.Lab]:
    with up(tmp_path_factory.mktemp("turns") / "lab", NUMBER) as hosts_lab:
        yield hosts_lab


@pytest.fixture(scope="module")
def engine(hosts_lab) -> Iterator[Engine]:
    with Engine(roster.load(hosts_lab.roster)) as connected:
        yield connected


def location(engine: Engine, count: int) -> RemoteHosts:
    """Return a server on the first core, and so many client hosts on the second."""
    available = sorted(cores.available())
    sides = {"server_cores": available[:1], "client_cores": available[1:2]}
    clients = engine.roster.clients[:count]
    return RemoteHosts(engine, clients, stand_in=True, **sides)


def swept(engine: Engine, root: Path, count: int, **changes) -> drive.SweepReport:
    options = {"duration": 0.5, "trials": 4, "beside": "arm"}
    options |= {"fixed": {"connections": 10, "model": "epoll"}}
    hosts = location(engine, count)
    return measure(root, location=hosts, **options | changes)


def narrow(
    sweep: Callable[[Path], drive.SweepReport],
    folder: Path,
    *metrics: str,
    most: float,
    **sides: str,
) -> tuple[Path, list[pd.Series]]:
    """Sweep until the bounds of each ratio are near each other; return where, and all.

    Others who are busy cost rounds, and make intervals wide: that is none of a server's
    doing, and such a sweep does not tell what servers do.
    """
    for number in range(4):
        root = folder / str(number)
        if sweep(root).failed:
            continue
        measured = study.load("r", "s", root=root, accept=OVERLOOKED)
        found = [ratios(measured, metric, **sides).iloc[0] for metric in metrics]
        if all(ratio["hi"] / ratio["lo"] < most for ratio in found):
            return root, found
    raise AssertionError("no sweep was whole and quiet")


@pytest.mark.serial
@pytest.mark.parametrize("count", [1, 2])
def test_equal_servers_take_turns_over_hosts(engine, tmp_path, count):
    def sweep(root: Path) -> drive.SweepReport:
        return swept(engine, root, count, factors={"arm": ["one", "other"]})

    sides = {"by": "arm", "baseline": "one"}
    root, found = narrow(sweep, tmp_path, "throughput_rps", CPU, most=2, **sides)
    for ratio in found:
        assert ratio["lo"] < 1.05, ratio  # one in 20 misses 1 itself
        assert ratio["hi"] > 0.95, ratio
    trials = rows(root)
    assert len(trials) == 8
    names = [f"h{number}" for number in range(2, 2 + count)]
    for row in trials:
        kept, client = row["turns"], row["client"]
        assert kept["beside"] == 2
        assert kept["pause_ms"] >= 10
        assert kept["round"]
        assert list(client["hosts"]) == names
        assert all(host["bound_ns"] > 0 for host in client["hosts"].values())
        assert list(client["server_host"]) == ["h1"]
        assert client["connections"]["established"] == 10
        assert 0 < sum(kept["requests"]) <= client["window"]["requests"]
        assert client["response"]["n"] == client["window"]["requests"]
    # both servers of a set were asked in the same rounds
    pairs = {}
    for row in trials:
        pairs.setdefault(row["turns"]["set"], []).append(row["turns"]["round"])
    assert all(host == second for host, second in pairs.values())


@pytest.mark.serial
def test_most_of_a_sweep_lies_in_windows(engine, tmp_path):
    """With windows as long as study 14 has them in the profile `full`."""
    path = ROOT / "notebooks" / "profiles" / "full.yaml"
    profile = yaml.safe_load(path.read_text())["notebooks"]["14-hosts"]
    options = {"duration": profile["duration"], "warmup": profile["warmup"]}
    options |= {"factors": {"model": ["epoll", "poll", "thread"]}, "beside": "model"}
    options |= {"fixed": {"connections": 50}, "trials": 1}
    shares = [0.0]
    while max(shares) < 0.7 and len(shares) < 8:  # rounds that others delay are lost
        root = tmp_path / str(len(shares))
        shares.append(swept(engine, root, 2, **options).window_share)
    assert max(shares) >= 0.7, shares


@pytest.mark.serial
def test_a_dearer_server_is_dearer_over_hosts(engine, tmp_path):
    """poll walks all of its idle connections, here as over loopback."""
    options = {"factors": {"model": ["epoll", "poll"]}, "beside": "model"}
    options |= {"fixed": {"connections": 400, "active": 4}}

    def here(root: Path) -> drive.SweepReport:
        return measure(root, **options, duration=0.5, trials=4)

    def over_hosts(root: Path) -> drive.SweepReport:
        return swept(engine, root, 2, **options)

    for sweep in (over_hosts, here):
        folder = tmp_path / sweep.__name__
        _, (ratio,) = narrow(sweep, folder, CPU, most=2, baseline="epoll")
        assert ratio["lo"] > 1, sweep


@pytest.mark.serial
def test_cpu_time_is_what_the_server_itself_counts(engine):
    """Its own count is of its whole life; most of that lies in slices."""
    common = {"connections": 10, "workload": "echo"}
    cells = [{"model": model} | common for model in ("epoll", "thread")]
    cells = [cell | {"duration": 1.0, "warmup": 0.1, "slice": 50.0} for cell in cells]
    hosts = location(engine, 2)
    setting = trials.Setting(cells[0], 1, hosts.cores({}), programs.built())
    clients = hosts.turning({})
    turn_set = interleaving.in_turns(cells, setting)
    # where others have the cores, clocks are read too late in a short pause: of such
    # slices there is no row
    for pause in (turns.PAUSE_REMOTE, *[interleaving.PAUSE_MOST] * 4):
        turn_set = replace(turn_set, pause_s=pause * turn_set.slice_s)
        with clients.unwatched():
            outcome = turns.run(turn_set, host=hosts.server, clients=clients)
        if len(outcome.slices) > 0.95 * clients.grid.count:
            break
    for place, served in enumerate(outcome.served):
        stats = trials.last_line(served.ended, "stats")
        counted_s = stats["cpu_user_s"] + stats["cpu_system_s"]
        slices = [row for row in outcome.slices if row["target"] == place]
        seen_ns = sum(row["server_cpu_ns"] + row["rest_cpu_ns"] for row in slices)
        assert seen_ns / 1e9 == pytest.approx(counted_s, rel=0.15, abs=0.01)
        requests = sum(row["requests"] + row["lead_in_requests"] for row in slices)
        spent_ns = sum(row["server_cpu_ns"] for row in slices)
        per_request_ns = 1e9 * counted_s / stats["requests"]
        assert spent_ns / requests == pytest.approx(per_request_ns, rel=0.15)


@pytest.mark.serial
def test_an_open_loop_is_shared_by_the_hosts(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "LAG_NS", 10**9)  # a busy core is nobody's share
    many = {"connections": 10, "rate": 2000}
    options = {"factors": {"model": ["epoll", "poll"]}, "fixed": many}
    # answers may come late all the same, in every round of a set
    whole, roots = [], [tmp_path / str(number) for number in range(20)]
    while roots and not whole:
        root = roots.pop()
        swept(engine, root, 2, **options, beside="model", trials=1)
        whole = [row for row in rows(root) if not row["failure"]]
    assert whole
    for row in whole:
        client = row["client"]
        assert client["offered_rps"] == 2000
        rate = client["window"]["throughput_rps"]
        assert rate == pytest.approx(2000, rel=0.2)
        parts = [host["report"]["seed"] for host in client["hosts"].values()]
        assert len(set(parts)) == 2
        p99s = row["turns"]["response_p99_ns"]
        assert len(p99s) == len(row["turns"]["round"])
        assert sum(map(bool, p99s)) > len(p99s) / 2


@pytest.mark.serial
def test_room_is_asked_of_the_hosts_and_not_of_the_driver(tmp_path):
    """The server's host allows few tasks, one of a client few descriptors."""
    with up(tmp_path / "lab", FEW) as few:
        pids = {name: process.pid for name, process in few.processes.items()}
        resource.prlimit(pids["h1"], resource.RLIMIT_NPROC, (2_000, 2_000))
        resource.prlimit(pids["h3"], resource.RLIMIT_NOFILE, (300, 300))
        with Engine(roster.load(few.roster)) as engine:
            hosts = location(engine, 2)
            assert hosts.tasks() == 2_000 < capacity.tasks()
            room = hosts.room()
            here = capacity.local_room()
            assert room.tasks <= 1_000 < here.tasks
            per_host = capacity.CLIENT_PROCESSES_MOST * (300 - flags.OWN_DESCRIPTORS)
            assert room.connections == 2 * per_host < here.connections
            # a thread each: too many for turns there, though not here
            options = {"factors": {"arm": ["a", "b", "c"]}, "trials": 1}
            threads = {"model": "thread", "connections": 2_000 // 4 + 20}
            swept(engine, tmp_path / "threads", 2, fixed=threads, **options)
            assert not any(row["turns"] for row in rows(tmp_path / "threads"))
            # 3 times 800 connections are more than the clients may hold; most are idle,
            # as answers to all would take longer than any pause where others compute
            many = {"model": "epoll", "connections": 800, "active": 4}
            swept(engine, tmp_path / "many", 2, fixed=many, duration=1, **options)
            assert [row["failure"] for row in rows(tmp_path / "many")] == [None] * 4
            beside = [row["turns"]["beside"] for row in rows(tmp_path / "many")]
            assert beside == [2] * 4


def compared(hosts_lab: lab.Lab, *words: str) -> subprocess.CompletedProcess:
    return connlab("compare", *words, "--hosts", hosts_lab.roster, timeout=170)


@pytest.mark.serial
def test_a_server_is_compared_with_itself_over_hosts(hosts_lab):
    """Two names of one server, and the control: their ratios are 1."""
    words = ["epoll", "epoll:processes=1", "--connections", "8", "--json"]
    for budget in ("40s", "110s"):  # for four sets at least, where the cores are busy
        done = compared(hosts_lab, *words, "--until", "5%", "--budget", budget)
        assert done.returncode == 0, done.stderr[-2000:]
        document = json.loads(done.stdout)
        ratios_of = document["ratios"].values()
        if all(ratio["lo"] for found in ratios_of for ratio in found.values()):
            break
    serving = {name: host["serves"] for name, host in document["hosts"].items()}
    assert serving == {"h1": True, "h2": False, "h3": False}
    assert len(document["machine"]["clients"]) == 2
    assert not document["failed"]
    assert sorted(document["ratios"]["rate"]) == ["epoll again", "epoll:processes=1"]
    for metric in ("rate", "cpu"):
        for name, ratio in document["ratios"][metric].items():
            assert ratio["lo"] < 1.05, (metric, name)  # one in 20 misses 1 itself
            assert ratio["hi"] > 0.95
    for row in document["each_set"]:
        assert 0 < row["client_busy"] <= 1.1
        assert row["client"] > 1e-7
    assert not all_running(hosts_lab)


@pytest.mark.usefixtures("engine")  # so that who has the lab runs this as well
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["epoll", "poll", "--workload", "http"], "hosts: echo, work"),
        (["epoll", "lessons/epoll"], "loopback"),
        (["epoll", "poll", "--connections", "1"], "fewer than 2"),
    ],
)
def test_what_cannot_be_compared_over_hosts_is_said(hosts_lab, words, message):
    done = compared(hosts_lab, *words)
    assert done.returncode
    assert message in done.stderr


def test_slow_answers_make_pauses_longer(engine, tmp_path):
    """Answers after 20 ms come too late for a pause of 10 ms."""
    slow = {"connections": 4, "workload": "work", "delay": "20"}
    options = {"factors": {"model": ["thread", "fork"]}, "fixed": slow}
    report = swept(engine, tmp_path, 1, **options, beside="model", trials=1)
    assert report.failed == 0
    for row in rows(tmp_path):
        assert row["turns"]["pause_ms"] >= 40
        assert len(row["turns"]["round"]) >= (row["turns"]["late"] or 0)
        assert row["client"]["response"]["p50_ns"] > 19e6


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses have their full length from the start.

    A set whose answers were late, as others have the cores, is not measured anew then,
    and what a test does to the first one is done to the only one.
    """
    monkeypatch.setattr(turns, "PAUSE_REMOTE", interleaving.PAUSE_MOST)


@pytest.mark.usefixtures("long_pauses")
def test_a_server_that_dies_costs_the_other_no_rounds(engine, hosts_lab, tmp_path):
    """Whose turn it is then: it may be the other's."""

    def kill() -> None:
        until(lambda: len(all_running(hosts_lab)) == 5)
        time.sleep(1.5)
        found = programs_in(hosts_lab.space(1))
        os.kill(next(pid for pid, name in found if name == "server"), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    options = {"factors": {"model": ["epoll", "poll"]}, "fixed": {"connections": 4}}
    options |= {"beside": "model", "trials": 1}
    swept(engine, tmp_path, 2, duration=1.0, **options)
    trials = rows(tmp_path)
    failed = [row["failure"]["kind"] for row in trials if row["failure"]]
    assert failed == ["server-died"]
    other = next(row for row in trials if not row["failure"])
    assert max(other["turns"]["round"]) >= 15, "of 20"


@pytest.mark.usefixtures("long_pauses")
def test_a_host_that_is_lost_in_turns_is_a_reason(
    engine, hosts_lab, tmp_path, monkeypatch
):
    """Its rows say so, nothing runs on, and with its worker the next sweep works."""
    monkeypatch.setattr(carrier, "RETURN_S", 1.0)
    options = {"factors": {"model": ["epoll", "poll"]}, "fixed": {"connections": 4}}
    options |= {"beside": "model", "location": location(engine, 2)}

    def kill() -> None:
        until(lambda: len(all_running(hosts_lab)) == 5)
        hosts_lab.processes["h3"].kill()

    threading.Thread(target=kill, daemon=True).start()
    report = measure(tmp_path, duration=20.0, **options)
    trials = rows(tmp_path)
    assert [row["failure"]["kind"] for row in trials] == ["host-lost"] * 2
    assert "h3" in trials[0]["failure"]["reason"]
    assert report.failed == 2
    until(lambda: not all_running(hosts_lab))
    hosts_lab.start_worker(3)
    until(lambda: "h3" in engine.workers())
    assert measure(tmp_path, "again", duration=0.3, **options).failed == 0
