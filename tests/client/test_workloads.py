"""Work and http: what is asked, and which answers are right."""

import http.client
import socket
import statistics
import time

import pytest

from tests.client.harness import FakeServer, errors


@pytest.mark.parametrize(
    ("delay", "lowest", "highest"),
    [
        ("fixed:5", 5000, 5000),
        ("uniform:5:2", 3000, 7000),
        ("bimodal:5ms:4ms", 1000, 9000),
        ("exponential:2000us", 0, 60000),
    ],
)
def test_work_asks_for_delays(load, delay, lowest, highest):
    requests: list[tuple[int, int]] = []

    def work(connection: socket.socket, server: FakeServer) -> None:
        """Wait as long as the line says, answer the bucket's new value."""
        stream = connection.makefile("rw", newline="\n")
        for line in stream:
            delay_us, bucket = map(int, line.split())
            requests.append((delay_us, bucket))
            time.sleep(delay_us / 1e6)
            stream.write(f"{delay_us + 1000}\n")
            stream.flush()

    flags = f"--workload work --delay {delay} --buckets 3 --connections 5 --requests 10"
    result, _ = load(work, flags)
    delays = [delay_us for delay_us, _ in requests]
    assert len(requests) == result["requests"]["completed"] == 50
    assert lowest <= min(delays)
    assert max(delays) <= highest
    assert {bucket for _, bucket in requests} == {0, 1, 2}
    assert result["response"]["mean_ns"] > 1000 * statistics.mean(delays)
    assert errors(result) == {}


def test_work_answers_that_are_too_small(load):
    def forget(connection: socket.socket, server: FakeServer) -> None:
        while connection.recv(100):
            connection.sendall(b"3\n")

    result, _ = load(forget, "--workload work --delay 1ms")
    assert errors(result) == {"mismatch": 1}


def page(*, version: str = "1.1", status: str = "200 OK", length: bool = True):
    def handle(connection: socket.socket, server: FakeServer) -> None:
        stream = connection.makefile("rwb")
        while request := stream.readline():
            headers = http.client.parse_headers(stream)
            with server.lock:
                server.bytes_in += 1
            assert request == b"GET /a/page HTTP/1.1\r\n"
            stream.write(f"HTTP/{version} {status}\r\n".encode())
            if length:
                stream.write(b"Content-Length: 10000\r\n")
            stream.write(b"\r\n" + b"x" * 10000)
            stream.flush()
            if headers["Connection"] == "close" or version == "1.0":
                return

    return handle


@pytest.mark.parametrize(
    ("options", "connections"),
    [({}, 3), ({"version": "1.0"}, 30), ({"version": "1.0", "length": False}, 30)],
    ids=["keep-alive", "close", "to-the-end"],
)
def test_http(load, engine, options, connections):
    flags = f"--workload http --path /a/page --requests 10 --connections 3 {engine}"
    result, server = load(page(**options), flags)
    assert errors(result) == {}
    assert result["requests"]["completed"] == server.bytes_in == 30
    assert len(server.peers) == connections
    assert result["bytes"]["received"] > 300000


def test_http_says_that_it_will_close(load):
    flags = "--workload http --path /a/page --requests 6 --requests-per-connection 2"
    result, server = load(page(), flags)
    assert len(server.peers) == 3
    assert errors(result) == {}


def test_http_status_is_an_error_but_an_answer(load):
    flags = "--workload http --path /a/page --requests 4"
    result, _ = load(page(status="503 Busy"), flags)
    assert errors(result) == {"status": 4}
    assert result["requests"]["completed"] == 4
    assert result["connections"]["surviving"] == 1
