"""How long the load generator counts: a duration, or so many response times."""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.client.harness import FakeServer, client, command, echo, serving, wait_for

DELAY_S = 0.02


def slow(connection: socket.socket, server: FakeServer) -> None:
    while data := connection.recv(65536):
        time.sleep(DELAY_S)
        connection.sendall(server.count(data))


def held(result: dict) -> float:
    """Return how many mean response times a window held."""
    return result["window"]["seconds"] / (result["response"]["mean_ns"] / 1e9)


@pytest.mark.parametrize(
    "more", ["", "--threads 2", "--processes 2", "--rate 40", "--think 5"]
)
def test_a_window_holds_as_many_response_times_as_asked(load, engine, more):
    flags = f"--connections 4 --duration 0.1 --warmup 0.2 {more} {engine}"
    result, _ = load(slow, flags, "--response-times 20")
    assert result["window"]["seconds"] >= 20 * DELAY_S * 0.8
    assert held(result) == pytest.approx(20, rel=0.4)
    assert result["stop"] == "duration"


@pytest.mark.parametrize("wanted", [0, 3])
def test_a_window_is_no_shorter_than_its_duration(load, wanted):
    result, _ = load(slow, f"--duration 0.2 --warmup 0.1 --response-times {wanted}")
    assert result["window"]["seconds"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ("--response-times 100", 0.25),
        ("--response-times 100 --duration-max 0.1", 0.1),
        ("--response-times 1 --warmup 0", 0.25),  # nothing says how long one takes
    ],
)
def test_a_window_is_not_prolonged_without_end(load, more, most):
    result, _ = load(slow, f"--duration 0.05 --warmup 0.1 {more}")
    assert result["window"]["seconds"] == pytest.approx(most)


def test_an_answer_that_comes_as_the_window_opens_tells_of_no_rate(load):
    """It was taken for one of no time, and the window ended after --duration."""
    flags = "--connections 50 --duration 0.05 --warmup 0 --response-times 100"
    for _ in range(5):
        result, _ = load(echo, flags, "--spin always")
        assert result["window"]["seconds"] == pytest.approx(0.25)


def test_arrivals_are_on_time_before_the_end_of_the_window_is_known():
    """A process stands still as the window opens: the other does not wait for it."""
    flags = "--connections 2 --active 1 --processes 2 --rate 400 --arrivals paced"
    flags += " --warmup 1 --duration 1 --response-times 1"
    with serving(echo) as server:
        words = command(server.port, flags)
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            wait_for(lambda: server.bytes_in > 0)
            idle, _ = psutil.Process(process.pid).children()
            idle.suspend()
            time.sleep(1.85)
            idle.resume()
            result = json.loads(process.communicate(timeout=30)[0])
    assert result["window"]["seconds"] == pytest.approx(1)
    assert result["window"]["arrivals"] == pytest.approx(400, rel=0.1)
    assert result["self"]["lag_p50_ns"] < 50_000


def test_rounds_go_on_until_the_slowest_target_has_enough():
    flags = "--connections 2 --duration 0.1 --warmup 0.05"
    flags += " --response-times 20 --slice 30ms --duration-max 5"
    with serving(slow) as first, serving(echo) as second:
        result = client(first.port, f"127.0.0.1:{second.port}", flags)
    slowest, fastest = result["targets"]
    assert 20 <= held(slowest) < 40
    assert slowest["slices"]["counted"] == fastest["slices"]["counted"]


@pytest.mark.timed
def test_rounds_do_not_go_on_for_ever(load):
    flags = "--duration 0.1 --response-times 1000 --slice 30ms --duration-max 0.3"
    result, _ = load(slow, flags)
    assert 0.2 < result["targets"][0]["window"]["seconds"] < 0.6


#: a window of 100 ms, which begins 50 ms after the load
SHORT = "--connections 4 --duration 0.1 --warmup 0.05"


def begins_at(window: dict, agreed: int) -> None:
    assert window["begin_ns"] == pytest.approx(agreed + 50_000_000, abs=1000)
    assert window["end_ns"] == pytest.approx(agreed + 150_000_000, abs=1000)


def test_the_load_begins_at_a_moment_that_was_agreed(load, engine):
    agreed = time.monotonic_ns() + 400_000_000
    result, _ = load(echo, f"{SHORT} {engine} --begin-at {agreed}")
    begins_at(result["window"], agreed)
    assert result["self"]["dialing_s"] <= 0.4


def test_a_moment_that_is_over_delays_nothing(load):
    began = time.monotonic_ns()
    over = began - 1_000_000_000
    window = load(echo, f"--duration 0.1 --begin-at {over}")[0]["window"]
    assert began < window["begin_ns"] < window["end_ns"] <= time.monotonic_ns()


@contextlib.contextmanager
def told_late(port: int, flags: str) -> Iterator[subprocess.Popen]:
    """Start a client that awaits its moment; yield when all have connected."""
    words = command(port, "--begin-told", flags)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as process:
        assert json.loads(process.stdout.readline()) == {"event": "connected"}
        yield process


@pytest.mark.parametrize("flags", ["", "--threads 2", "--processes 2"])
def test_the_load_begins_at_a_moment_that_is_told_late(engine, flags):
    flags = f"{SHORT} {flags} {engine}"
    with serving(echo) as server, told_late(server.port, flags) as process:
        wait_for(lambda: len(server.peers) == 4)
        time.sleep(0.1)
        assert not server.bytes_in
        agreed = time.monotonic_ns() + 200_000_000
        process.stdin.write(b"%d\n" % agreed)
        process.stdin.flush()
        window = json.loads(process.stdout.readline())["window"]
    assert process.returncode == 0
    begins_at(window, agreed)


@pytest.mark.parametrize("line", [b"", b"soon\n", b"12", b"12 s\n"])
def test_a_moment_that_is_never_told_ends_the_client(line):
    with serving(echo) as server, told_late(server.port, "--connections 2") as process:
        out, _ = process.communicate(line, timeout=10)
    assert json.loads(out)["stop"] == "interrupted"
    assert not server.bytes_in
