"""Both ends count the same; no wrong byte passes; the files agree with the result."""

import socket
import threading

import pandas as pd
import pytest

from tests.client.harness import (
    ENGINES,
    SERVER,
    FakeServer,
    client,
    echo,
    errors,
    started,
)


@pytest.mark.parametrize("size", ["1", "64", "1-5000", "400000"])
def test_counts_what_the_server_counts(load, engine, size):
    result, server = load(echo, f"--connections 7 --requests 20 --size {size} {engine}")
    assert result["stop"] == "requests"
    all_answered = {"sent": 140, "completed": 140, "unanswered": 0, "arrivals": 0}
    assert result["requests"] | {"arrivals": 0} == all_answered
    assert result["bytes"]["sent"] == result["bytes"]["received"] == server.bytes_in
    assert result["connections"]["surviving"] == len(server.peers) == 7
    assert errors(result) == {}
    assert result["window"]["requests"] == result["response"]["n"] == 140
    assert engine == f"--engine {result['self']['engine']}"


def test_short_reads_are_not_errors(load, engine):
    def trickle(connection: socket.socket, server: FakeServer) -> None:
        while data := connection.recv(100):
            for at in range(0, len(data), 7):
                connection.sendall(data[at : at + 7])

    result, _ = load(trickle, f"--connections 3 --requests 10 --size 300 {engine}")
    assert result["requests"]["completed"] == 30
    assert errors(result) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data + b"x",
        lambda data: bytes(len(data)),
    ],
    ids=["one-bit", "one-byte-more", "zeros"],
)
def test_every_byte_is_checked(load, engine, wrong):
    def lie(connection: socket.socket, server: FakeServer) -> None:
        connection.sendall(connection.recv(100))
        connection.sendall(wrong(connection.recv(100)))
        connection.recv(100)

    result, _ = load(lie, f"--connections 4 --requests 5 {engine}")
    assert errors(result) == {"mismatch": 4}
    assert result["requests"]["completed"] == 4
    assert result["connections"]["surviving"] == 0
    assert result["stop"] == "server_gone"


def test_answers_of_other_connections_do_not_pass(load):
    """Two connections whose answers are swapped: right bytes, wrong place."""
    waiting: list[tuple[socket.socket, bytes]] = []
    lock = threading.Lock()

    def swap(connection: socket.socket, server: FakeServer) -> None:
        data = connection.recv(100)
        with lock:
            waiting.append((connection, data))
            if len(waiting) == 2:
                waiting[0][0].sendall(waiting[1][1])
                waiting[1][0].sendall(waiting[0][1])
        connection.recv(100)

    result, _ = load(swap, "--connections 2 --requests 1")
    assert errors(result) == {"mismatch": 2}


def test_files_agree_with_the_result(load, tmp_path):
    names = ["per-connection", "timeline", "histogram"]
    files = [part for name in names for part in (f"--{name}", tmp_path / name)]
    result, server = load(echo, "--connections 5 --duration 0.5 --threads 2", *files)

    table, line, slots = (pd.read_csv(tmp_path / name) for name in names)
    assert table["connection"].tolist() == list(range(5))
    assert table["requests"].sum() == result["requests"]["completed"]
    assert table["bytes_in"].sum() == result["bytes"]["received"]
    assert table["bytes_out"].sum() == server.bytes_in
    assert table["error"].isna().all()
    assert (table["established"] == 1).all()

    assert line["start_ms"].tolist() == [100 * i for i in range(len(line))]
    assert line["requests"].sum() == result["requests"]["completed"]
    assert line["bytes"].sum() == result["bytes"]["received"]
    assert line["active"][1] == 5

    response = slots[slots["clock"] == "response"]
    n = result["response"]["n"]
    assert response["count"].sum() == n
    reached = response[response["count"].cumsum() >= 0.99 * n].iloc[0]
    assert reached["lower_ns"] <= result["response"]["p99_ns"] < reached["upper_ns"]


def test_requests_per_user_and_jain():
    """Only one of four is served by the iterative server: Jain's index is 1/4."""
    with started(SERVER, "iterative") as (_, port):
        result = client(port, "--connections 4 --duration 0.3 --drain 0.05")
    assert result["fairness"]["jain"] == pytest.approx(0.25)
    assert result["fairness"]["requests_min"] == 0
    assert result["fairness"]["longest_wait_ns"] > 0.3e9
    assert result["requests"]["unanswered"] == 3


def test_any_engine_is_one_that_there_is(load):
    result, _ = load(echo, "--connections 2 --requests 3 --engine auto")
    assert result["self"]["engine"] in ENGINES
    assert result["requests"]["completed"] == 6
