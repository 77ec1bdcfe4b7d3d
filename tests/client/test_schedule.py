"""When requests are made, and from when on their time is counted."""

import itertools
import socket
import time

import pandas as pd
import pytest

from connlab.drive import gates
from tests.client.harness import FakeServer, client, echo, serving


@pytest.mark.timed
def test_think_time_follows_littles_law(load):
    """N = X (R + Z): twenty users who think 20 ms make just under 1000 a second."""
    result, _ = load(echo, "--connections 20 --think 20 --duration 0.6")
    response_s = result["response"]["mean_ns"] / 1e9
    users = result["window"]["throughput_rps"] * (response_s + 0.020)
    assert result["think_s"] == 0.02
    assert users == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("arrivals", ["poisson", "paced"])
def test_open_loop_offers_what_was_asked(load, arrivals):
    flags = f"--connections 10 --rate 2000 --arrivals {arrivals} --duration 0.5 --seed"
    results = [load(echo, flags, seed)[0] for seed in (1, 1, 2)]
    counts = [result["window"]["arrivals"] for result in results]
    assert counts[0] == counts[1]  # the schedule is fixed before the run
    assert counts[0] != counts[2] or arrivals == "paced"
    spread = 0 if arrivals == "paced" else 4 * 1000**0.5
    assert abs(counts[0] - 1000) <= spread + 1
    for result in results:
        assert result["loop"] == "open"
        assert result["arrivals"] == arrivals
        assert result["response"]["n"] == result["window"]["arrivals"]


def test_arrivals_alone_change_nothing(load):
    result, _ = load(echo, "--arrivals paced --requests 3")
    assert (result["loop"], result["arrivals"]) == ("closed", None)


def test_requests_that_are_never_answered_are_missed(load, engine):
    """Every fourth connection is starved; what the others got is not the whole.

    Quantiles beyond the three quarters that were answered are not known, and the
    trial may not be used.
    """

    turns = itertools.count()

    def starve(connection: socket.socket, server: FakeServer) -> None:
        if next(turns) % 4:
            echo(connection, server)
        else:
            time.sleep(2)

    flags = "--connections 8 --drain 0.2"
    rate = "--rate 2000 --arrivals paced --duration 0.5"
    result, _ = load(starve, flags, rate, engine)
    window, response = result["window"], result["response"]
    assert window["unanswered"] == window["arrivals"] - response["n"]
    assert window["unanswered"] == pytest.approx(window["arrivals"] / 4, abs=2)
    requests = result["requests"]
    assert requests["unanswered"] == requests["arrivals"] - requests["completed"]
    assert requests["sent"] - requests["completed"] == 2  # the rest never left
    assert 0 < response["p50_ns"] < 0.1e9
    assert response["p90_ns"] is response["p99_ns"] is response["p999_ns"] is None
    verdict = gates.answered({"client": result})
    assert verdict.ok is False
    assert verdict.value == pytest.approx(0.25, abs=0.01)
    assert verdict.threshold == 0.001


@pytest.mark.timed
@pytest.mark.parametrize("think", ["", "--think 10"], ids=["at-once", "think"])
def test_lag_is_of_what_was_due_or_else_of_answers(load, engine, think):
    """One lag per request in either case; never of both kinds in one figure.

    At the edges of a window a user may be between the two.
    """
    for duration_s in (0.5, 2, 8):  # until there are enough, where the cores are busy
        flags = f"--connections 4 --duration {duration_s} {think} {engine}"
        result, _ = load(echo, flags)
        requests = result["window"]["requests"]
        if requests > 100:
            break
    assert requests > 100
    assert abs(result["self"]["lag_n"] - requests) <= (4 if think else 0)


@pytest.mark.timed
def test_both_clocks_see_a_stall_differently(load):
    """A server that stops for 300 ms: what users felt, and what one request took.

    A closed loop asks nobody during the stall, so only few answers look slow. In the
    open loop a hundred requests fell due meanwhile, and had to wait for their turn.
    """

    def stall(connection: socket.socket, server: FakeServer) -> None:
        while data := connection.recv(100):
            server.count(data)
            if server.bytes_in == 64 * 150:
                time.sleep(0.3)
            connection.sendall(data)

    flags = "--connections 1 --duration 0.8 --warmup 0 --rate 400 --arrivals paced"
    result, _ = load(stall, flags)
    assert result["service"]["max_ns"] > 0.25e9
    assert result["service"]["p90_ns"] < 0.05e9
    assert result["response"]["p90_ns"] > 0.15e9


@pytest.mark.timed
def test_byte_rate_of_a_block(load, tmp_path):
    table = tmp_path / "connections.csv"
    flags = "--connections 8 --size 100 --byte-rate 20000"
    block = "--block 4 --duration 1 --warmup 0"
    load(echo, flags, block, "--per-connection", table)
    sent = pd.read_csv(table)["bytes_out"]
    for first in (0, 4):
        assert 16000 < sent[first : first + 4].sum() < 21000


@pytest.mark.timed
@pytest.mark.parametrize("crews", ["--threads 2", "--processes 4"])
def test_threads_without_users_who_ask_leave_a_block_its_whole_rate(load, crews):
    """Half of it was kept by a thread that played idle users only."""
    flags = "--connections 8 --active 1 --size 1000 --byte-rate 100000"
    result, _ = load(echo, flags, crews, "--duration 1 --warmup 0")
    assert 80_000 < result["window"]["bytes"] <= 101_000


@pytest.mark.timed
@pytest.mark.parametrize("crews", ["--threads 1", "--threads 2"])
def test_settling_lets_each_user_ask_once_until_all_were_answered(load, engine, crews):
    """The slowest greeting holds up everybody, and the window has none of it."""
    slow_until, early = [], []

    def one_is_slow(connection: socket.socket, server: FakeServer) -> None:
        first = connection.recv(65536)
        with server.lock:
            slow = not slow_until
            slow_until.append(time.monotonic() + 0.3)
        if slow:
            time.sleep(0.3)
        connection.sendall(first)
        while data := connection.recv(65536):
            early.append(time.monotonic() < slow_until[0])
            connection.sendall(server.count(data))

    flags = f"--connections 6 {engine} {crews} --duration 0.3 --settle 5"
    result, _ = load(one_is_slow, flags)
    assert early
    assert not any(early)
    assert result["window"]["warmup_s"] >= 0.3 + 0.1 - 0.01
    assert result["response"]["max_ns"] < 300e6
    assert result["window"]["requests"] > 100


@pytest.mark.timed
def test_settling_waits_for_others_though_who_was_answered_left(load, engine):
    """Those who had left stood for as many who still waited."""
    users = itertools.count()

    def every_other_leaves(connection: socket.socket, server: FakeServer) -> None:
        leaves, first = next(users) % 2, connection.recv(65536)
        if not leaves:
            time.sleep(0.3)
        connection.sendall(first)
        if not leaves:
            echo(connection, server)

    flags = f"--connections 6 {engine} --duration 0.2 --warmup 0 --settle 5"
    result, _ = load(every_other_leaves, flags)
    assert result["window"]["warmup_s"] >= 0.3
    assert result["connections"]["surviving"] == 3


def test_a_window_is_known_though_the_first_thread_ended_before(load, engine):
    """Its only user left while all settled; answers to that of the other count."""

    def the_first_leaves(connection: socket.socket, server: FakeServer) -> None:
        if connection.getpeername()[0] != "127.0.0.1":
            echo(connection, server)

    users = "--connections 2 --threads 2 --sources 127.0.0.1-127.0.0.2"
    result, _ = load(the_first_leaves, f"{users} {engine} --duration 0.3 --settle 5")
    window = result["window"]
    assert sum(result["errors"].values()) == 1
    assert result["stop"] == "duration"
    assert window["requests"] > 0
    assert window["seconds"] == pytest.approx(0.3)
    assert window["end_ns"] - window["begin_ns"] == pytest.approx(0.3e9)


def test_settling_ends_though_somebody_is_never_answered(load, engine):
    users = itertools.count()

    def one_is_silent(connection: socket.socket, server: FakeServer) -> None:
        silent = not next(users)
        while data := connection.recv(65536):
            if not silent:
                connection.sendall(data)

    flags = f"--connections 3 {engine} --duration 0.2 --settle 0.2 --drain 0"
    result, _ = load(one_is_silent, flags)
    assert 0.2 <= result["window"]["warmup_s"] < 2
    assert result["window"]["requests"] > 100
    assert result["requests"]["unanswered"] == 1


@pytest.mark.serial
def test_recovers_a_known_delay():
    """Positive control: 5 ms more at the server are 5 ms more at the client.

    Both sides look at the clock until the time has come: a core that idles wakes up
    later the longer it idled, and a sleep may end late by a thousandth of itself. A
    busy machine only ever adds, so the least response stands for each delay, and more
    are asked for until both were left alone once.
    """
    delay_ms = 0

    def hold(connection: socket.socket, server: FakeServer) -> None:
        while data := connection.recv(100):
            until = time.monotonic_ns() + delay_ms * 1_000_000
            while time.monotonic_ns() < until:
                pass
            connection.sendall(data)

    least = {5: [], 10: []}

    def more() -> float:
        return min(least[10]) - min(least[5])

    with serving(hold) as server:
        for delay_ms in (5, 10) * 25:
            result = client(server.port, "--duration 0.3 --warmup 0 --spin always")
            least[delay_ms].append(result["response"]["min_ns"] / 1e6)
            assert least[delay_ms][-1] >= delay_ms
            if len(least[10]) >= 5 and more() == pytest.approx(5, rel=0.01):
                break
    assert more() == pytest.approx(5, rel=0.01), least
