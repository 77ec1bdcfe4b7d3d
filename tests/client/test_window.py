"""How long the load generator counts: a duration, or so many response times."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.harness import FakeServer, client, echo, serving, wait_for

DELAY_S = 0.02


def slow(connection: socket.socket, server: FakeServer) -> None:
    while data := connection.recv(65536):
        time.sleep(DELAY_S)
        connection.sendall(server.count(data))


def held(result: dict) -> float:
    """Return how many mean response times a window held."""
    return result["window"]["seconds"] / (result["response"]["mean_ns"] / 1e9)


@pytest.mark.parametrize(
    "more", [[], ["--threads", 2], ["--processes", 2], ["--rate", 40], ["--think", 5]]
)
def test_a_window_holds_as_many_response_times_as_asked(load, engine, more):
    flags = ["--connections", 4, "--duration", 0.1, "--warmup", 0.2, *more, *engine]
    result, _ = load(slow, *flags, "--response-times", 20)
    assert result["window"]["seconds"] >= 20 * DELAY_S * 0.8
    assert held(result) == pytest.approx(20, rel=0.4)
    assert result["stop"] == "duration"


@pytest.mark.parametrize("wanted", [0, 3])
def test_a_window_is_no_shorter_than_its_duration(load, wanted):
    flags = ["--duration", 0.2, "--warmup", 0.1, "--response-times", wanted]
    result, _ = load(slow, *flags)
    assert result["window"]["seconds"] == pytest.approx(0.2)


@pytest.mark.parametrize(("more", "most"), [([], 0.25), (["--duration-max", 0.1], 0.1)])
def test_a_window_is_not_prolonged_without_end(load, more, most):
    flags = ["--duration", 0.05, "--warmup", 0.1, "--response-times", 100, *more]
    result, _ = load(slow, *flags)
    assert result["window"]["seconds"] == pytest.approx(most)


def test_rounds_go_on_until_the_slowest_target_has_enough(client_program):
    flags = ["--connections", 2, "--duration", 0.1, "--warmup", 0.05]
    flags += ["--response-times", 20, "--slice", "30ms", "--duration-max", 5]
    with serving(slow) as first, serving(echo) as second:
        ports = [f"127.0.0.1:{server.port}" for server in (first, second)]
        command = [client_program, *ports, *map(str, flags)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    result = json.loads(done.stdout)
    slowest, fastest = result["targets"]
    assert 20 <= held(slowest) < 40
    assert slowest["slices"]["counted"] == fastest["slices"]["counted"]


def test_rounds_do_not_go_on_for_ever(client_program):
    flags = ["--duration", 0.1, "--response-times", 1000, "--slice", "30ms"]
    flags += ["--duration-max", 0.3]
    with serving(slow) as server:
        result = client(client_program, server.port, *flags)["targets"][0]
    assert 0.2 < result["window"]["seconds"] < 0.6


def test_the_load_begins_at_a_moment_that_was_agreed(client_program, engine):
    agreed = time.monotonic_ns() + 400_000_000
    flags = ["--connections", 4, "--duration", 0.1, "--warmup", 0.05, *engine]
    with serving(echo) as server:
        result = client(client_program, server.port, *flags, "--begin-at", agreed)
        window = result["window"]
    assert window["begin_ns"] == pytest.approx(agreed + 50_000_000, abs=1000)
    assert window["end_ns"] == pytest.approx(agreed + 150_000_000, abs=1000)
    assert result["self"]["dialing_s"] <= 0.4


def test_a_moment_that_is_over_delays_nothing(client_program):
    began = time.monotonic_ns()
    with serving(echo) as server:
        flags = ["--duration", 0.1, "--begin-at", began - 1_000_000_000]
        window = client(client_program, server.port, *flags)["window"]
    assert began < window["begin_ns"] < window["end_ns"] <= time.monotonic_ns()


@contextlib.contextmanager
def told_late(program: Path, port: int, *flags: object) -> Iterator[subprocess.Popen]:
    """Start a client that awaits its moment; yield when all have connected."""
    words = [program, f"127.0.0.1:{port}", "--begin-told", *map(str, flags)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as process:
        assert json.loads(process.stdout.readline()) == {"event": "connected"}
        yield process


@pytest.mark.parametrize("flags", [[], ["--threads", 2], ["--processes", 2]])
def test_the_load_begins_at_a_moment_that_is_told_late(client_program, engine, flags):
    flags = ["--connections", 4, "--duration", 0.1, "--warmup", 0.05, *flags, *engine]
    with (
        serving(echo) as server,
        told_late(client_program, server.port, *flags) as process,
    ):
        wait_for(lambda: len(server.peers) == 4)
        time.sleep(0.1)
        assert not server.bytes_in
        agreed = time.monotonic_ns() + 200_000_000
        process.stdin.write(b"%d\n" % agreed)
        process.stdin.flush()
        window = json.loads(process.stdout.readline())["window"]
    assert process.returncode == 0
    assert window["begin_ns"] == pytest.approx(agreed + 50_000_000, abs=1000)
    assert window["end_ns"] == pytest.approx(agreed + 150_000_000, abs=1000)


@pytest.mark.parametrize("line", [b"", b"soon\n"])
def test_a_moment_that_is_never_told_ends_the_client(client_program, line):
    with (
        serving(echo) as server,
        told_late(client_program, server.port, "--connections", 2) as process,
    ):
        out, _ = process.communicate(line, timeout=10)
    assert json.loads(out)["stop"] == "interrupted"
    assert not server.bytes_in


def test_without_a_window_there_are_no_edges(client_program):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        result = client(client_program, nobody.getsockname()[1], "--duration", 0.1)
    assert result["window"]["begin_ns"] is None
    assert result["window"]["end_ns"] is None
