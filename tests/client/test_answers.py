"""Both ends count the same; no wrong byte passes; the files agree with the result."""

import socket
import threading

import pytest

from tests.client.harness import (
    ENGINES,
    FakeServer,
    client,
    echo,
    errors,
    rows,
    started,
)


@pytest.mark.parametrize("size", ["1", "64", "1-5000", "400000"])
def test_counts_what_the_server_counts(load, engine, size):
    flags = ["--connections", 7, "--requests", 20, "--size", size]
    result, server = load(echo, *flags, *engine)
    assert result["stop"] == "requests"
    assert result["requests"] | {"arrivals": 0} == {
        "sent": 140,
        "completed": 140,
        "unanswered": 0,
        "arrivals": 0,
    }
    assert result["bytes"]["sent"] == result["bytes"]["received"] == server.bytes_in
    assert result["connections"]["surviving"] == len(server.peers) == 7
    assert errors(result) == {}
    assert result["window"]["requests"] == result["response"]["n"] == 140
    assert result["self"]["engine"] == engine[1]


def test_short_reads_are_not_errors(load, engine):
    def trickle(connection: socket.socket, server: FakeServer) -> None:
        while data := connection.recv(100):
            for at in range(0, len(data), 7):
                connection.sendall(data[at : at + 7])

    flags = ["--connections", 3, "--requests", 10, "--size", "300"]
    result, _ = load(trickle, *flags, *engine)
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

    result, _ = load(lie, "--connections", 4, "--requests", 5, *engine)
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

    result, _ = load(swap, "--connections", 2, "--requests", 1)
    assert errors(result) == {"mismatch": 2}


def test_files_agree_with_the_result(load, tmp_path):
    names = ["per-connection", "timeline", "histogram"]
    files = [part for name in names for part in (f"--{name}", tmp_path / name)]
    flags = ["--connections", 5, "--duration", 0.5, "--threads", 2]
    result, server = load(echo, *flags, *files)

    table, line, slots = (rows(tmp_path / name) for name in names)
    assert [int(row["connection"]) for row in table] == list(range(5))
    assert sum(int(row["requests"]) for row in table) == result["requests"]["completed"]
    assert sum(int(row["bytes_in"]) for row in table) == result["bytes"]["received"]
    assert sum(int(row["bytes_out"]) for row in table) == server.bytes_in
    assert all(row["error"] == "" and row["established"] == "1" for row in table)

    assert [int(row["start_ms"]) for row in line] == [100 * i for i in range(len(line))]
    assert sum(int(row["requests"]) for row in line) == result["requests"]["completed"]
    assert sum(int(row["bytes"]) for row in line) == result["bytes"]["received"]
    assert int(line[1]["active"]) == 5

    response = [row for row in slots if row["clock"] == "response"]
    counts = [int(row["count"]) for row in response]
    assert sum(counts) == result["response"]["n"]
    seen_so_far = 0
    for row, count in zip(response, counts, strict=True):
        seen_so_far += count
        if seen_so_far >= 0.99 * result["response"]["n"]:
            p99 = result["response"]["p99_ns"]
            assert int(row["lower_ns"]) <= p99 < int(row["upper_ns"])
            break


def test_requests_per_user_and_jain(client_program, server_program):
    """Only one of four is served by the iterative server: Jain's index is 1/4."""
    with started(server_program, "iterative") as (_, port):
        flags = ["--connections", 4, "--duration", 0.3, "--drain", 0.05]
        result = client(client_program, port, *flags)
    assert result["fairness"]["jain"] == pytest.approx(0.25)
    assert result["fairness"]["requests_min"] == 0
    assert result["fairness"]["longest_wait_ns"] > 0.3e9
    assert result["requests"]["unanswered"] == 3


def test_any_engine_is_one_that_there_is(load):
    flags = ["--connections", 2, "--requests", 3, "--engine", "auto"]
    result, _ = load(echo, *flags)
    assert result["self"]["engine"] in ENGINES
    assert result["requests"]["completed"] == 6
