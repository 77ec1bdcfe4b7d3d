"""Whatever a server does to its users is counted, by its kind."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import eventually

from tests.client.harness import (
    SERVER,
    FakeServer,
    client,
    command,
    echo,
    errors,
    reserved_port,
    sockets,
    started,
)
from tests.conformance.harness import reset, unsanitized


def load_until_killed(has_served: Callable[[int], bool], flags: str) -> dict:
    """Load build/server, which is killed once it has served; return the result."""
    with started(SERVER, "epoll") as (process, port):

        def kill() -> None:
            eventually(lambda: has_served(process.pid), every_s=0.005)
            process.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        result = client(port, flags)
        thread.join()
        return result


def for_longer_than_the_warmup(pid: int) -> bool:
    """Whether a server has computed for 0.15 s; it does nothing before it is asked."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) > 0.15e9


@unsanitized
def test_requests_that_the_kernel_has_no_memory_for_leave_later(engine, preloaded):
    """Of io_uring: submissions fail while more requests are due than its ring holds.

    As many users think at once; while they do, the client is stopped for longer.
    """
    faults = {"preexec_fn": preloaded("uring_faults.c", EAGAIN_SUBMITS=5000)}
    with started(SERVER, "epoll") as (_, port):
        flags = f"--connections 600 --requests 6 --think 200 {engine}"
        words = command(port, flags)
        with subprocess.Popen(words, stdout=subprocess.PIPE, **faults) as process:
            time.sleep(0.4)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.4)
            process.send_signal(signal.SIGCONT)
            result = json.loads(process.communicate(timeout=30)[0])
    assert not errors(result)
    assert result["requests"]["completed"] == 3600


def test_nobody_listens(engine):
    began = time.monotonic()
    with reserved_port() as port:
        result = client(port, f"--connections 9 {engine}")
    assert time.monotonic() - began < 2
    census = result["connections"]
    assert (census["asked"], census["attempted"], census["refused"]) == (9, 9, 9)
    assert census["established"] == census["surviving"] == census["failed"] == 0
    assert errors(result) == {"connect_refused": 9}
    assert result["stop"] == "server_gone"
    window = result["window"]
    assert (window["seconds"], window["begin_ns"], window["end_ns"]) == (0, None, None)
    assert result["self"]["waiting_share"] is None


@pytest.mark.timed
def test_the_end_is_seen_as_soon_as_nobody_is_left(engine):
    """Connects that are refused at once are no events that a wait would end with."""
    with reserved_port() as port:
        lives = [client(port, f"--connections 9 {engine}")["self"] for _ in range(5)]
    assert min(life["seconds"] for life in lives) < 0.018


def test_backlog_that_is_full(engine):
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        port = listener.getsockname()[1]
        timeouts = "--connect-timeout 0.3 --timeout 0.3"
        result = client(port, f"--connections 8 {timeouts} --duration 0.5 {engine}")
    census = result["connections"]
    failures = errors(result)
    assert 0 < census["established"] < 8
    assert failures["connect_timeout"] == census["failed"] == 8 - census["established"]
    assert failures["timeout"] == census["established"]


def test_silence_is_a_timeout(load, engine):
    flags = f"--connections 3 --timeout 0.2 --duration 5 {engine}"
    result, _ = load(lambda connection, server: time.sleep(2), flags)
    assert errors(result) == {"timeout": 3}
    assert result["requests"]["unanswered"] == 3
    assert result["window"]["unanswered"] is None  # of the open loop only
    assert result["fairness"]["longest_wait_ns"] > 0.2e9
    assert result["stop"] == "server_gone"
    assert result["self"]["seconds"] < 2


@pytest.mark.parametrize("kind", ["reset", "closed"])
def test_closed_and_reset_are_told_apart(load, engine, kind):
    def end(connection: socket.socket, server: FakeServer) -> None:
        connection.recv(100)
        if kind == "reset":
            reset(connection)

    result, _ = load(end, engine)
    assert errors(result) == {kind: 1}


def test_reset_at_once_is_a_reset(load, engine):
    """Also where it comes before the client sees that it is connected."""
    flags = f"--connections 50 {engine}"
    result, _ = load(lambda connection, server: reset(connection), flags)
    assert errors(result) == {"reset": 50}


def test_refused_by_closing_at_once(load, engine):
    """A server at its limit accepts and closes: established, but not surviving."""
    result, _ = load(lambda connection, server: None, f"--connections 5 {engine}")
    assert result["connections"]["established"] == 5
    assert result["connections"]["surviving"] == 0
    assert sum(errors(result).values()) == 5


def test_server_that_dies(engine):
    flags = f"--connections 50 --duration 20 {engine}"
    result = load_until_killed(for_longer_than_the_warmup, flags)
    assert result["stop"] == "server_gone"
    assert result["requests"]["completed"] > 0
    assert set(errors(result)) <= {"reset", "closed"}
    assert sum(errors(result).values()) == 50
    assert 0 < result["window"]["seconds"] < 5


def test_census_counts_users_and_errors_count_events(engine):
    """Users who were connected, and try again in vain, are not refused users."""
    flags = f"--connections 3 --requests-per-connection 1 --duration 20 {engine}"
    result = load_until_killed(for_longer_than_the_warmup, flags)
    census = result["connections"]
    assert result["stop"] == "server_gone"
    assert census["attempted"] == census["established"] == 3
    assert census["refused"] == census["failed"] == census["surviving"] == 0
    assert errors(result)["connect_refused"] > 3


def test_arrivals_that_wait_for_a_user_who_is_away(engine):
    """They have waited as well: nobody answers soon after the first of 0.9 s."""
    seen = set()

    def some_connections(pid: int) -> bool:
        seen.update(sockets(pid))
        return len(seen) > 3  # more than the user has at once

    flags = f"--requests-per-connection 5 --rate 200 --duration 0.8 {engine}"
    result = load_until_killed(some_connections, flags)
    assert result["fairness"]["longest_wait_ns"] > 0.3e9
    assert result["window"]["unanswered"] > 60


def test_users_come_back_after_a_failure(load):
    """With a connection per request a reset costs that request, not the user."""

    def every_other(connection: socket.socket, server: FakeServer) -> None:
        if len(server.peers) % 2:
            echo(connection, server)

    result, server = load(every_other, "--requests 10 --requests-per-connection 1")
    assert len(server.peers) == 10
    assert result["requests"]["completed"] == 5
    assert set(errors(result)) <= {"closed", "reset"}
    assert sum(errors(result).values()) == 5
    assert result["stop"] == "requests"
