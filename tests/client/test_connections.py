"""How many connections, from where, over whom spread, and how fast they are made."""

import bisect
import contextlib
import json
import resource
import socket
import subprocess
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
from conftest import ran

from tests.client.harness import SERVER, client, command, echo, errors, serving, started
from tests.conformance.harness import ignore_children, limit_descriptors


def test_active_among_idle(load, tmp_path):
    table = tmp_path / "connections.csv"
    flags = "--connections 20 --active 4 --requests 5 --per-connection"
    result, _ = load(echo, flags, table)
    assert sorted(pd.read_csv(table)["requests"]) == [0] * 16 + [5] * 4
    assert result["connections"]["surviving"] == 20
    assert result["fairness"]["users"] == result["active"] == 4


def test_a_connection_per_few_requests(load, engine):
    flags = f"--connections 4 --requests 10 --requests-per-connection 3 {engine}"
    result, server = load(echo, flags)
    assert result["requests"]["completed"] == 40
    assert len(server.peers) == 4 * 4  # 3 + 3 + 3 + 1
    assert result["connections"]["reconnects"] == 12
    assert result["connect"]["n"] == 16
    assert errors(result) == {}


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_threads_and_processes_share_the_work(load, kind):
    result, server = load(echo, f"--connections 10 --requests 30 --{kind} 3")
    assert result[kind] == 3
    assert result["requests"]["completed"] == result["response"]["n"] == 300
    assert server.bytes_in == 300 * 64
    assert result["fairness"]["users"] == 10


def test_processes_are_waited_for_wherever_they_were_ignored():
    flags = "--connections 4 --requests 5 --processes 2"
    with serving(echo) as server:
        result = client(server.port, flags, preexec_fn=ignore_children)
    assert result["requests"]["completed"] == 20


def test_sources(load, engine):
    flags = f"--connections 9 --requests 1 --sources 127.0.0.5-127.0.0.7 {engine}"
    result, server = load(echo, flags)
    assert result["sources"] == 3
    assert sorted(server.peers) == sorted(["127.0.0.5", "127.0.0.6", "127.0.0.7"] * 3)


def test_who_reconnects_takes_another_source_each_time(load, engine):
    flags = f"--connections 2 --requests 6 --requests-per-connection 1 {engine}"
    result, server = load(echo, flags)
    assert result["sources"] == 256
    assert len(server.peers) == 12
    assert len(set(server.peers)) == 7  # two users, each from six in a row


def with_descriptors(count, port, flags) -> subprocess.CompletedProcess:
    return ran(*command(port, flags), preexec_fn=limit_descriptors(count))


def test_more_connections_than_descriptors(engine):
    with serving(echo) as server:
        flags = f"--connections 100 --duration 0.1 {engine}"
        done = with_descriptors(64, server.port, flags)
    result = json.loads(done.stdout)
    census = result["connections"]
    assert done.returncode == 0
    assert 40 < census["attempted"] == census["established"] < 64
    assert result["limits"]["descriptors"] == 100 - census["attempted"]
    assert "--connections 100" in done.stderr
    assert "--processes 2" in done.stderr


def test_more_connections_than_any_number_of_processes_may_have():
    with serving(echo) as server:
        done = with_descriptors(16, server.port, "--connections 1000")
    assert done.returncode == 0
    assert "even --processes 64 " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.serial
def test_connect_rate(load, engine):
    result, _ = load(echo, f"--connections 50 --connect-rate 200 --requests 1 {engine}")
    assert 0.24 < result["self"]["dialing_s"] < 0.6


@pytest.mark.serial
def test_connect_rate_is_kept_after_a_stall():
    """A server whose backlog is full for a while does not get all at once after it.

    With 400 dials per second, 20 fall into 50 ms, beside as many of those that the
    kernel tries again, and what the backlog held.
    """
    came: list[float] = []
    kept: list[socket.socket] = []

    def accept_late(listener: socket.socket) -> None:
        time.sleep(0.8)
        with contextlib.suppress(OSError):
            while True:
                kept.append(listener.accept()[0])
                came.append(time.monotonic())

    with socket.create_server(("127.0.0.1", 0), backlog=20) as listener:
        threading.Thread(target=accept_late, args=(listener,), daemon=True).start()
        flags = "--connections 600 --active 1 --connect-rate 400 --timeout 0.2"
        result = client(listener.getsockname()[1], flags)
        listener.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()
    assert result["connections"]["established"] == 600
    most = max(bisect.bisect(came, at + 0.05) - i for i, at in enumerate(came))
    assert most < 150


def dialled(count: int, flags: str = "") -> dict:
    """Make so many connections to a server within 3 s; return the client's result."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < count + 100:
        pytest.skip(f"a process may not open {count} descriptors here")
    with started(SERVER, "epoll") as (_, port):
        few = f"--connections {count} --active 10 --duration 0.2"
        result = client(port, few, flags)
    assert result["connections"]["surviving"] == count
    assert result["self"]["dialing_s"] < 3
    assert not errors(result)
    return result


@pytest.mark.serial
def test_connects_19000():
    assert dialled(19000)["sources"] > 1


@pytest.mark.serial
def test_many_connections_of_one_address_name_their_ports(engine):
    """The kernel would look for each among thousands that are taken.

    One that somebody else has is replaced.
    """
    path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first, last = map(int, path.read_text().split())
    if last - first < 20000:
        pytest.skip("there are not so many ports here")
    with contextlib.closing(socket.socket()) as taken:
        with contextlib.suppress(OSError):  # then somebody has it already
            taken.bind(("127.0.0.1", first + 5))
        result = dialled(17000, f"--sources 127.0.0.1 {engine}")
    assert result["sources"] == 1
