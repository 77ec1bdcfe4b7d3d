"""The load generator against servers of our own that behave, misbehave, or die.

Its answers are checked against a second count: what the server at the other end saw.
"""

from __future__ import annotations

import bisect
import contextlib
import csv
import http.client
import itertools
import json
import os
import platform
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connlab.drive import gates

ENGINES = ["epoll", "uring"]


@dataclass
class Seen:
    """What a server of ours saw; written by its threads, read afterwards."""

    port: int
    peers: list[str] = field(default_factory=list)
    bytes_in: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, data: bytes) -> bytes:
        """Add what was received and hand it on."""
        with self.lock:
            self.bytes_in += len(data)
        return data


Handler = Callable[[socket.socket, Seen], None]


@contextlib.contextmanager
def serving(handler: Handler, *, backlog: int = 1024) -> Iterator[Seen]:
    """Serve each connection with `handler` in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listener:
        seen = Seen(listener.getsockname()[1])
        threading.Thread(target=accept, args=(listener, handler, seen)).start()
        try:
            yield seen
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def accept(listener: socket.socket, handler: Handler, seen: Seen) -> None:
    """Accept until the listener is shut down."""
    with contextlib.suppress(OSError):
        while True:
            connection, peer = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            seen.peers.append(peer[0])
            threading.Thread(
                target=serve_one, args=(handler, connection, seen), daemon=True
            ).start()


def serve_one(handler: Handler, connection: socket.socket, seen: Seen) -> None:
    """Run the handler; a client that leaves is not an error of the test."""
    with connection, contextlib.suppress(OSError):
        handler(connection, seen)


def echo(connection: socket.socket, seen: Seen) -> None:
    """Answer everything with itself."""
    while data := connection.recv(65536):
        connection.sendall(seen.count(data))


def client(
    program: Path, port: int, *flags: object, status: int = 0, **options: object
) -> dict:
    """Run the client to its end and return its result."""
    done = subprocess.run(
        [program, f"127.0.0.1:{port}", *map(str, flags)],
        capture_output=True,
        text=True,
        timeout=30,
        **options,
    )
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def errors(result: dict) -> dict[str, int]:
    """Return the kinds of errors that occurred."""
    return {kind: n for kind, n in result["errors"].items() if n}


def rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


#: how the client says that there is no io_uring
NO_URING = (
    "built without io_uring",
    "client: uring: Function not implemented",
    "client: uring: Operation not permitted",
)
#: one that has io_uring, but not all that the client asks of it
OLD_KERNEL = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < (6, 12)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, client_program: Path) -> list[str]:
    """Give the flags of each engine; skip io_uring where this machine has none."""
    flags = ["--engine", request.param]
    probe = [client_program, "127.0.0.1:9", *flags]
    done = subprocess.run(probe, capture_output=True, text=True)
    old = OLD_KERNEL and done.stderr.startswith("client: uring: ")
    if request.param == "uring" and (old or any(t in done.stderr for t in NO_URING)):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return flags


# --- both ends agree ------------------------------------------------------------


@pytest.mark.parametrize("size", ["1", "64", "1-5000", "400000"])
def test_counts_what_the_server_counts(
    client_program: Path, engine: list[str], size: str
) -> None:
    with serving(echo) as seen:
        flags = ["--connections", 7, "--requests", 20, "--size", size]
        result = client(client_program, seen.port, *flags, *engine)
    assert result["stop"] == "requests"
    assert result["requests"] | {"arrivals": 0} == {
        "sent": 140,
        "completed": 140,
        "unanswered": 0,
        "arrivals": 0,
    }
    assert result["bytes"]["sent"] == result["bytes"]["received"] == seen.bytes_in
    assert result["connections"]["surviving"] == len(seen.peers) == 7
    assert errors(result) == {}
    assert result["window"]["requests"] == result["response"]["n"] == 140
    assert result["self"]["engine"] == engine[1]


def test_short_reads_are_not_errors(client_program: Path, engine: list[str]) -> None:
    def trickle(connection: socket.socket, seen: Seen) -> None:
        while data := connection.recv(100):
            for at in range(0, len(data), 7):
                connection.sendall(data[at : at + 7])

    with serving(trickle) as seen:
        flags = ["--connections", 3, "--requests", 10, "--size", "300"]
        result = client(client_program, seen.port, *flags, *engine)
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
def test_every_byte_is_checked(
    client_program: Path, engine: list[str], wrong: Callable[[bytes], bytes]
) -> None:
    def lie(connection: socket.socket, seen: Seen) -> None:
        connection.sendall(connection.recv(100))
        connection.sendall(wrong(connection.recv(100)))
        connection.recv(100)

    with serving(lie) as seen:
        result = client(
            client_program, seen.port, "--connections", 4, "--requests", 5, *engine
        )
    assert errors(result) == {"mismatch": 4}
    assert result["requests"]["completed"] == 4
    assert result["connections"]["surviving"] == 0
    assert result["stop"] == "server_gone"


def test_answers_of_other_connections_do_not_pass(client_program: Path) -> None:
    """Two connections whose answers are swapped: right bytes, wrong place."""
    waiting: list[tuple[socket.socket, bytes]] = []
    lock = threading.Lock()

    def swap(connection: socket.socket, seen: Seen) -> None:
        data = connection.recv(100)
        with lock:
            waiting.append((connection, data))
            if len(waiting) == 2:
                waiting[0][0].sendall(waiting[1][1])
                waiting[1][0].sendall(waiting[0][1])
        connection.recv(100)

    with serving(swap) as seen:
        result = client(client_program, seen.port, "--connections", 2, "--requests", 1)
    assert errors(result) == {"mismatch": 2}


# --- failures are data ----------------------------------------------------------


def test_nobody_listens(client_program: Path, engine: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    began = time.monotonic()
    result = client(client_program, port, "--connections", 9, *engine)
    assert time.monotonic() - began < 2
    census = result["connections"]
    assert (census["asked"], census["attempted"], census["refused"]) == (9, 9, 9)
    assert census["established"] == census["surviving"] == census["failed"] == 0
    assert errors(result) == {"connect_refused": 9}
    assert result["stop"] == "server_gone"
    assert result["window"]["seconds"] == 0


def test_backlog_that_is_full(client_program: Path, engine: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        port = listener.getsockname()[1]
        flags = ["--connections", 8, "--connect-timeout", 0.3, "--timeout", 0.3]
        result = client(client_program, port, *flags, "--duration", 0.5, *engine)
    census = result["connections"]
    failures = errors(result)
    assert 0 < census["established"] < 8
    assert failures["connect_timeout"] == census["failed"] == 8 - census["established"]
    assert failures["timeout"] == census["established"]


def test_silence_is_a_timeout(client_program: Path, engine: list[str]) -> None:
    with serving(lambda connection, seen: time.sleep(2)) as seen:
        flags = ["--connections", 3, "--timeout", 0.2, "--duration", 5]
        result = client(client_program, seen.port, *flags, *engine)
    assert errors(result) == {"timeout": 3}
    assert result["requests"]["unanswered"] == 3
    assert result["window"]["unanswered"] is None  # of the open loop only
    assert result["fairness"]["longest_wait_ns"] > 0.2e9
    assert result["stop"] == "server_gone"
    assert result["self"]["seconds"] < 2


def test_closed_and_reset_are_told_apart(
    client_program: Path, engine: list[str]
) -> None:
    def end(connection: socket.socket, seen: Seen) -> None:
        connection.recv(100)
        if len(seen.peers) % 2:
            linger = (1).to_bytes(4, sys.byteorder) + bytes(4)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    for kind in ("reset", "closed"):
        with serving(end) as seen:
            seen.peers = [] if kind == "reset" else ["one more"]
            result = client(client_program, seen.port, *engine)
        assert errors(result) == {kind: 1}


def test_refused_by_closing_at_once(client_program: Path, engine: list[str]) -> None:
    """A server at its limit accepts and closes: established, but not surviving."""
    with serving(lambda connection, seen: None) as seen:
        result = client(client_program, seen.port, "--connections", 5, *engine)
    assert result["connections"]["established"] == 5
    assert result["connections"]["surviving"] == 0
    assert sum(errors(result).values()) == 5


def test_server_that_dies(
    client_program: Path, server_program: Path, engine: list[str]
) -> None:
    with started(server_program, "epoll") as (process, port):
        threading.Timer(0.4, process.kill).start()
        flags = ["--connections", 50, "--duration", 20]
        result = client(client_program, port, *flags, *engine)
    assert result["stop"] == "server_gone"
    assert result["requests"]["completed"] > 0
    assert set(errors(result)) <= {"reset", "closed"}
    assert sum(errors(result).values()) == 50
    assert 0 < result["window"]["seconds"] < 5


def test_census_counts_users_and_errors_count_events(
    client_program: Path, server_program: Path, engine: list[str]
) -> None:
    """Users who were connected, and try again in vain, are not refused users."""
    with started(server_program, "epoll") as (process, port):
        threading.Timer(0.3, process.kill).start()
        flags = ["--connections", 3, "--requests-per-connection", 1, "--duration", 20]
        result = client(client_program, port, *flags, *engine)
    census = result["connections"]
    assert result["stop"] == "server_gone"
    assert census["attempted"] == census["established"] == 3
    assert census["refused"] == census["failed"] == census["surviving"] == 0
    assert errors(result)["connect_refused"] > 3


def test_arrivals_that_wait_for_a_user_who_is_away(
    client_program: Path, server_program: Path, engine: list[str]
) -> None:
    """They have waited as well: nobody answers after 0.3 s of about 0.9 s."""
    with started(server_program, "epoll") as (process, port):
        threading.Timer(0.3, process.kill).start()
        flags = ["--requests-per-connection", 5, "--rate", 200, "--duration", 0.8]
        result = client(client_program, port, *flags, *engine)
    assert result["fairness"]["longest_wait_ns"] > 0.3e9
    assert result["window"]["unanswered"] > 60


@contextlib.contextmanager
def started(program: Path, *flags: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """Start build/server and give its process and port."""
    with subprocess.Popen([program, *flags], stdout=subprocess.PIPE) as process:
        try:
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            process.terminate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("processes", [1, 2])
def test_a_signal_ends_it_with_a_result(
    client_program: Path, number: signal.Signals, processes: int
) -> None:
    with serving(echo) as seen:
        flags = ["--connections", "4", "--duration", "30"]
        command = [client_program, f"127.0.0.1:{seen.port}", *flags]
        with subprocess.Popen(
            [*command, "--processes", str(processes)], stdout=subprocess.PIPE
        ) as process:
            wait_for(lambda: seen.bytes_in > 10000)
            process.send_signal(number)
            began = time.monotonic()
            result = json.loads(process.stdout.read())
    assert process.returncode == 0
    assert time.monotonic() - began < 2
    assert result["stop"] == "interrupted"
    assert result["requests"]["completed"] > 100
    assert result["window"]["seconds"] < 20


def wait_for(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_loss_of_one_process_is_said(client_program: Path) -> None:
    """The others stop, and what they saw is printed, but it is no success."""
    with serving(echo) as seen:
        flags = ["--connections", "4", "--duration", "30", "--processes", "2"]
        with subprocess.Popen(
            [client_program, f"127.0.0.1:{seen.port}", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            wait_for(lambda: seen.bytes_in > 1000)
            tasks = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            os.kill(int(tasks.read_text().split()[0]), signal.SIGKILL)
            output, diagnostics = process.communicate(timeout=10)
    assert process.returncode == 1
    assert b"killed by signal 9" in diagnostics
    assert json.loads(output)["stop"] == "interrupted"


def test_dies_with_its_parent(client_program: Path, tmp_path: Path) -> None:
    """Killed with SIGKILL, a driver cannot clean up; the kernel does."""
    script = (
        "import subprocess, sys, time;"
        "p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); time.sleep(60)"
    )
    with serving(echo) as seen:
        flags = ["--connections", "4", "--duration", "60", "--processes", "2"]
        command = [str(client_program), f"127.0.0.1:{seen.port}", *flags]
        with subprocess.Popen(
            [sys.executable, "-c", script, *command], stdout=subprocess.PIPE
        ) as parent:
            child = int(parent.stdout.readline())
            wait_for(lambda: seen.bytes_in > 1000)
            workers = Path(f"/proc/{child}/task/{child}/children").read_text().split()
            parent.kill()
    assert len(workers) == 2
    for pid in [child, *map(int, workers)]:
        wait_for(lambda pid=pid: not is_running(pid))


def is_running(pid: int) -> bool:
    """Tell whether a process exists and is more than a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    return False


def test_interrupted_while_connecting(client_program: Path) -> None:
    with serving(echo) as seen:
        flags = ["--connections", "1000", "--connect-rate", "20"]
        with subprocess.Popen(
            [client_program, f"127.0.0.1:{seen.port}", *flags], stdout=subprocess.PIPE
        ) as process:
            wait_for(lambda: len(seen.peers) > 3)
            process.send_signal(signal.SIGINT)
            result = json.loads(process.stdout.read())
    assert result["stop"] == "interrupted"
    assert 3 < result["connections"]["established"] < 500
    assert result["connections"]["asked"] == 1000
    assert result["window"]["seconds"] == 0


# --- limits of the client itself ------------------------------------------------


def test_more_connections_than_descriptors(
    client_program: Path, engine: list[str]
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with serving(echo) as seen:
        flags = ["--connections", "100", "--duration", "0.1", *engine]
        done = subprocess.run(
            [client_program, f"127.0.0.1:{seen.port}", *flags],
            capture_output=True,
            text=True,
            preexec_fn=limit,
        )
    result = json.loads(done.stdout)
    census = result["connections"]
    assert done.returncode == 0
    assert 40 < census["attempted"] == census["established"] < 64
    assert result["limits"]["descriptors"] == 100 - census["attempted"]
    assert "--connections 100" in done.stderr
    assert "--processes 2" in done.stderr


def test_more_connections_than_any_number_of_processes_may_have(
    client_program: Path,
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))

    with serving(echo) as seen:
        done = subprocess.run(
            [client_program, f"127.0.0.1:{seen.port}", "--connections", "1000"],
            capture_output=True,
            text=True,
            preexec_fn=limit,
        )
    assert done.returncode == 0
    assert "even --processes 64 would hold only" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_threads_and_processes_share_the_work(client_program: Path, kind: str) -> None:
    with serving(echo) as seen:
        flags = ["--connections", 10, "--requests", 30, f"--{kind}", 3]
        result = client(client_program, seen.port, *flags)
    assert result[kind] == 3
    assert result["requests"]["completed"] == result["response"]["n"] == 300
    assert seen.bytes_in == 300 * 64
    assert result["fairness"]["users"] == 10


def test_sources(client_program: Path, engine: list[str]) -> None:
    with serving(echo) as seen:
        flags = ["--connections", 9, "--requests", 1]
        sources = ["--sources", "127.0.0.5-127.0.0.7"]
        result = client(client_program, seen.port, *flags, *sources, *engine)
    assert result["sources"] == 3
    assert sorted(seen.peers) == sorted(["127.0.0.5", "127.0.0.6", "127.0.0.7"] * 3)


def test_who_reconnects_takes_another_source_each_time(
    client_program: Path, engine: list[str]
) -> None:
    with serving(echo) as seen:
        flags = ["--connections", 2, "--requests", 6, "--requests-per-connection", 1]
        result = client(client_program, seen.port, *flags, *engine)
    assert result["sources"] == 256
    assert len(seen.peers) == 12
    assert len(set(seen.peers)) == 7  # two users, each from six in a row


# --- when requests are made -----------------------------------------------------


def test_active_among_idle(client_program: Path, tmp_path: Path) -> None:
    table = tmp_path / "connections.csv"
    with serving(echo) as seen:
        flags = ["--connections", 20, "--active", 4, "--requests", 5]
        result = client(client_program, seen.port, *flags, "--per-connection", table)
    counts = [int(row["requests"]) for row in rows(table)]
    assert sorted(counts) == [0] * 16 + [5] * 4
    assert result["connections"]["surviving"] == 20
    assert result["fairness"]["users"] == result["active"] == 4


def test_a_connection_per_few_requests(client_program: Path, engine: list[str]) -> None:
    with serving(echo) as seen:
        flags = ["--connections", 4, "--requests", 10, "--requests-per-connection", 3]
        result = client(client_program, seen.port, *flags, *engine)
    assert result["requests"]["completed"] == 40
    assert len(seen.peers) == 4 * 4  # 3 + 3 + 3 + 1
    assert result["connections"]["reconnects"] == 12
    assert result["connect"]["n"] == 16
    assert errors(result) == {}


def test_users_come_back_after_a_failure(client_program: Path) -> None:
    """With a connection per request a reset costs that request, not the user."""

    def every_other(connection: socket.socket, seen: Seen) -> None:
        if len(seen.peers) % 2:
            echo(connection, seen)

    with serving(every_other) as seen:
        flags = ["--requests", 10, "--requests-per-connection", 1]
        result = client(client_program, seen.port, *flags)
    assert result["requests"]["completed"] + sum(errors(result).values()) >= 10
    assert result["requests"]["completed"] >= 4
    assert result["stop"] == "requests"


def test_think_time_follows_littles_law(client_program: Path) -> None:
    """N = X (R + Z): twenty users who think 20 ms make just under 1000 a second."""
    with serving(echo) as seen:
        flags = ["--connections", 20, "--think", 20, "--duration", 0.6]
        result = client(client_program, seen.port, *flags)
    response_s = result["response"]["mean_ns"] / 1e9
    users = result["window"]["throughput_rps"] * (response_s + 0.020)
    assert result["think_s"] == 0.02
    assert users == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("arrivals", ["poisson", "paced"])
def test_open_loop_offers_what_was_asked(client_program: Path, arrivals: str) -> None:
    flags = ["--connections", 10, "--rate", 2000, "--arrivals", arrivals]
    with serving(echo) as seen:
        results = [
            client(client_program, seen.port, *flags, "--duration", 0.5, "--seed", seed)
            for seed in (1, 1, 2)
        ]
    counts = [result["window"]["arrivals"] for result in results]
    assert counts[0] == counts[1]  # the schedule is fixed before the run
    assert counts[0] != counts[2] or arrivals == "paced"
    spread = 0 if arrivals == "paced" else 4 * 1000**0.5
    assert abs(counts[0] - 1000) <= spread + 1
    for result in results:
        assert result["loop"] == "open"
        assert result["arrivals"] == arrivals
        assert result["response"]["n"] == result["window"]["arrivals"]


def test_arrivals_alone_change_nothing(client_program: Path) -> None:
    with serving(echo) as seen:
        flags = ["--arrivals", "paced", "--requests", 3]
        result = client(client_program, seen.port, *flags)
    assert (result["loop"], result["arrivals"]) == ("closed", None)


def test_requests_that_are_never_answered_are_missed(
    client_program: Path, engine: list[str]
) -> None:
    """Every fourth connection is starved; what the others got is not the whole.

    Quantiles beyond the three quarters that were answered are not known, and the
    trial may not be used.
    """

    turns = itertools.count()

    def starve(connection: socket.socket, seen: Seen) -> None:
        if next(turns) % 4:
            echo(connection, seen)
        else:
            time.sleep(2)

    with serving(starve) as seen:
        flags = ["--connections", 8, "--drain", 0.2]
        rate = ["--rate", 2000, "--arrivals", "paced", "--duration", 0.5]
        result = client(client_program, seen.port, *flags, *rate, *engine)
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


@pytest.mark.parametrize("think", [[], ["--think", 10]], ids=["at-once", "think"])
def test_lag_is_of_what_was_due_or_else_of_answers(
    client_program: Path, engine: list[str], think: list
) -> None:
    """One lag per request in either case; never of both kinds in one figure."""
    with serving(echo) as seen:
        flags = ["--connections", 4, "--duration", 0.5, *think]
        result = client(client_program, seen.port, *flags, *engine)
    requests = result["window"]["requests"]
    assert requests > 100
    assert abs(result["self"]["lag_n"] - requests) <= (4 if think else 0)


def test_both_clocks_see_a_stall_differently(client_program: Path) -> None:
    """A server that stops for 300 ms: what users felt, and what one request took.

    A closed loop asks nobody during the stall, so only few answers look slow. In the
    open loop a hundred requests fell due meanwhile, and had to wait for their turn.
    """

    def stall(connection: socket.socket, seen: Seen) -> None:
        while data := connection.recv(100):
            seen.count(data)
            if seen.bytes_in == 64 * 150:
                time.sleep(0.3)
            connection.sendall(data)

    flags = ["--connections", 1, "--duration", 0.8, "--warmup", 0]
    with serving(stall) as seen:
        rate = ["--rate", 400, "--arrivals", "paced"]
        result = client(client_program, seen.port, *flags, *rate)
    assert result["service"]["max_ns"] > 0.25e9
    assert result["service"]["p90_ns"] < 0.05e9
    assert result["response"]["p90_ns"] > 0.15e9


@pytest.mark.serial
def test_byte_rate_of_a_block(client_program: Path, tmp_path: Path) -> None:
    table = tmp_path / "connections.csv"
    with serving(echo) as seen:
        flags = ["--connections", 8, "--size", 100, "--byte-rate", 20000]
        block = ["--block", 4, "--duration", 1, "--warmup", 0]
        client(client_program, seen.port, *flags, *block, "--per-connection", table)
    sent = [int(row["bytes_out"]) for row in rows(table)]
    for first in (0, 4):
        assert 16000 < sum(sent[first : first + 4]) < 21000


@pytest.mark.parametrize("crews", [["--threads", 1], ["--threads", 2]])
def test_settling_lets_each_user_ask_once_until_all_were_answered(
    client_program: Path, engine: list[str], crews: list[str]
) -> None:
    """The slowest greeting holds up everybody, and the window has none of it."""
    slow_until, early = [], []

    def one_is_slow(connection: socket.socket, seen: Seen) -> None:
        first = connection.recv(65536)
        with seen.lock:
            slow = not slow_until
            slow_until.append(time.monotonic() + 0.3)
        if slow:
            time.sleep(0.3)
        connection.sendall(first)
        while data := connection.recv(65536):
            early.append(time.monotonic() < slow_until[0])
            connection.sendall(seen.count(data))

    with serving(one_is_slow) as seen:
        flags = ["--connections", 6, *engine, *crews, "--duration", 0.3, "--settle", 5]
        result = client(client_program, seen.port, *flags)
    assert early
    assert not any(early)
    assert result["window"]["warmup_s"] >= 0.3 + 0.1 - 0.01
    assert result["response"]["max_ns"] < 300e6
    assert result["window"]["requests"] > 100


def test_settling_ends_though_somebody_is_never_answered(
    client_program: Path, engine: list[str]
) -> None:
    silenced = []

    def one_is_silent(connection: socket.socket, seen: Seen) -> None:
        with seen.lock:
            silent = not silenced
            silenced.append(connection)
        while data := connection.recv(65536):
            if not silent:
                connection.sendall(data)

    with serving(one_is_silent) as seen:
        flags = ["--connections", 3, *engine, "--duration", 0.2, "--settle", 0.2]
        result = client(client_program, seen.port, *flags, "--drain", 0)
    assert 0.2 <= result["window"]["warmup_s"] < 2
    assert result["window"]["requests"] > 100
    assert result["requests"]["unanswered"] == 1


@pytest.mark.serial
def test_connect_rate(client_program: Path, engine: list[str]) -> None:
    with serving(echo) as seen:
        flags = ["--connections", 50, "--connect-rate", 200, "--requests", 1]
        result = client(client_program, seen.port, *flags, *engine)
    assert 0.24 < result["self"]["dialing_s"] < 0.6


@pytest.mark.serial
def test_connect_rate_is_kept_after_a_stall(client_program: Path) -> None:
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
        flags = ["--connections", 600, "--active", 1, "--connect-rate", 400]
        port = listener.getsockname()[1]
        result = client(client_program, port, *flags, "--timeout", 0.2)
        listener.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()
    assert result["connections"]["established"] == 600
    most = max(bisect.bisect(came, at + 0.05) - i for i, at in enumerate(came))
    assert most < 150


# --- workloads ------------------------------------------------------------------


def work(connection: socket.socket, seen: Seen) -> None:
    """Wait as long as the line says, answer the bucket's new value."""
    stream = connection.makefile("rw", newline="\n")
    for line in stream:
        delay_us, bucket = map(int, line.split())
        with seen.lock:
            seen.peers.append(f"{delay_us} {bucket}")
        time.sleep(delay_us / 1e6)
        stream.write(f"{delay_us + 1000}\n")
        stream.flush()


@pytest.mark.parametrize(
    ("delay", "lowest", "highest"),
    [
        ("fixed:5", 5000, 5000),
        ("uniform:5:2", 3000, 7000),
        ("bimodal:5ms:4ms", 1000, 9000),
        ("exponential:2000us", 0, 60000),
    ],
)
def test_work_asks_for_delays(
    client_program: Path, delay: str, lowest: int, highest: int
) -> None:
    with serving(work) as seen:
        flags = ["--workload", "work", "--delay", delay, "--buckets", 3]
        result = client(
            client_program, seen.port, *flags, "--connections", 5, "--requests", 10
        )
    asked = [tuple(map(int, text.split())) for text in seen.peers if " " in text]
    delays = [delay_us for delay_us, _ in asked]
    assert len(asked) == result["requests"]["completed"] == 50
    assert lowest <= min(delays)
    assert max(delays) <= highest
    assert {bucket for _, bucket in asked} == {0, 1, 2}
    assert result["response"]["mean_ns"] > 1000 * statistics.mean(delays)
    assert errors(result) == {}


def test_work_answers_that_are_too_small(client_program: Path) -> None:
    def forget(connection: socket.socket, seen: Seen) -> None:
        while connection.recv(100):
            connection.sendall(b"3\n")

    with serving(forget) as seen:
        flags = ["--workload", "work", "--delay", "1ms"]
        result = client(client_program, seen.port, *flags)
    assert errors(result) == {"mismatch": 1}


def page(*, version: str = "1.1", status: str = "200 OK", length: bool = True):
    """Return a handler that answers requests as an HTTP server would."""

    def handle(connection: socket.socket, seen: Seen) -> None:
        stream = connection.makefile("rwb")
        while request := stream.readline():
            headers = http.client.parse_headers(stream)
            with seen.lock:
                seen.bytes_in += 1
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
def test_http(
    client_program: Path, engine: list[str], options: dict, connections: int
) -> None:
    with serving(page(**options)) as seen:
        flags = ["--workload", "http", "--path", "/a/page", "--requests", 10]
        result = client(client_program, seen.port, *flags, "--connections", 3, *engine)
    assert errors(result) == {}
    assert result["requests"]["completed"] == seen.bytes_in == 30
    assert len(seen.peers) == connections
    assert result["bytes"]["received"] > 300000


def test_http_says_that_it_will_close(client_program: Path) -> None:
    with serving(page()) as seen:
        flags = ["--workload", "http", "--path", "/a/page"]
        per = ["--requests", 6, "--requests-per-connection", 2]
        result = client(client_program, seen.port, *flags, *per)
    assert len(seen.peers) == 3
    assert errors(result) == {}


def test_http_status_is_an_error_but_an_answer(client_program: Path) -> None:
    with serving(page(status="503 Busy")) as seen:
        flags = ["--workload", "http", "--path", "/a/page", "--requests", 4]
        result = client(client_program, seen.port, *flags)
    assert errors(result) == {"status": 4}
    assert result["requests"]["completed"] == 4
    assert result["connections"]["surviving"] == 1


# --- files ----------------------------------------------------------------------


def test_files_agree_with_the_result(client_program: Path, tmp_path: Path) -> None:
    names = ["per-connection", "timeline", "histogram"]
    files = [part for name in names for part in (f"--{name}", tmp_path / name)]
    with serving(echo) as seen:
        flags = ["--connections", 5, "--duration", 0.5, "--threads", 2]
        result = client(client_program, seen.port, *flags, *files)

    table, line, slots = (rows(tmp_path / name) for name in names)
    assert [int(row["connection"]) for row in table] == list(range(5))
    assert sum(int(row["requests"]) for row in table) == result["requests"]["completed"]
    assert sum(int(row["bytes_in"]) for row in table) == result["bytes"]["received"]
    assert sum(int(row["bytes_out"]) for row in table) == seen.bytes_in
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


def test_requests_per_user_and_jain(client_program: Path, server_program: Path) -> None:
    """Only one of four is served by the iterative server: Jain's index is 1/4."""
    with started(server_program, "iterative") as (_, port):
        flags = ["--connections", 4, "--duration", 0.3, "--drain", 0.05]
        result = client(client_program, port, *flags)
    assert result["fairness"]["jain"] == pytest.approx(0.25)
    assert result["fairness"]["requests_min"] == 0
    assert result["fairness"]["longest_wait_ns"] > 0.3e9
    assert result["requests"]["unanswered"] == 3


# --- whose answers wait ---------------------------------------------------------


@contextlib.contextmanager
def sharing(core: int, *, among: int) -> Iterator[None]:
    """Others compute on a core, so that one more has a part of it."""
    computing = "import time\nwhile time.process_time() < 10: pass"
    with contextlib.ExitStack() as others:
        for _ in range(among - 1):
            process = others.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", computing],
                    preexec_fn=lambda: os.sched_setaffinity(0, {core}),
                )
            )
            others.callback(process.kill)
        yield


@pytest.mark.serial
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="both sides need a core")
@pytest.mark.parametrize(
    ("slower", "least", "most"), [("server", 0.0, 0.1), ("client", 0.7, 1.0)]
)
def test_answers_wait_for_the_slower_side(
    client_program: Path,
    server_program: Path,
    engine: list[str],
    slower: str,
    least: float,
    most: float,
) -> None:
    """The server computes for a millisecond; or the client has a quarter of a core.

    A client that is held up so finds everything answered when its turn comes: more
    than it can take before its turn is over.
    """
    first, *_, last = sorted(os.sched_getaffinity(0))
    spin, work, beside = [], [], contextlib.nullcontext()
    if slower == "server":
        spin = ["--workload", "work", "--delay-kind", "spin"]
        work = ["--workload", "work", "--delay", "fixed:1"]
    else:
        work = ["--size", 65536]
        beside = sharing(last, among=4)
    with started(server_program, "epoll", *spin) as (process, port), beside:
        os.sched_setaffinity(process.pid, {first})
        flags = ["--connections", 1000, "--duration", 0.5, *work, *engine]
        result = client(
            client_program,
            port,
            *flags,
            preexec_fn=lambda: os.sched_setaffinity(0, {last}),
        )
    assert least <= result["self"]["waiting_share"] <= most


@pytest.mark.serial
@pytest.mark.parametrize(
    ("rate", "least", "most"), [(20000, 0.04, 1.0), (100, -0.1, 0.03)]
)
def test_only_what_found_nothing_to_do_is_spin(
    client_program: Path, engine: list[str], rate: int, least: float, most: float
) -> None:
    """Nobody answers, so that each look after a send finds nothing as well.

    A send costs 3 us or more, of which 20000 per second are need; looking is not.
    """
    if int(Path("/proc/sys/net/core/somaxconn").read_text()) < 1024:
        pytest.skip("900 connections that nobody accepts need a backlog of 1024")
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        flags = ["--connections", 900, "--rate", rate, "--arrivals", "paced", *engine]
        window = ["--warmup", 0, "--duration", 0.045, "--drain", 0, "--spin", "always"]
        result = client(client_program, listener.getsockname()[1], *flags, *window)
    told = result["self"]
    assert result["requests"]["sent"] == result["requests"]["unanswered"]
    assert least < told["cpu_share"] - told["spin_share"] < most


def test_without_a_window_nothing_is_known_of_it(client_program: Path) -> None:
    with serving(echo) as seen:
        flags = ["--connections", 2, "--active", 1, "--requests", 1]
        result = client(client_program, seen.port, *flags)
    assert result["self"]["waiting_share"] in (None, 0.0)


def test_any_engine_is_one_that_there_is(client_program: Path) -> None:
    with serving(echo) as seen:
        flags = ["--connections", 2, "--requests", 3, "--engine", "auto"]
        result = client(client_program, seen.port, *flags)
    assert result["self"]["engine"] in ENGINES
    assert result["requests"]["completed"] == 6


# --- mistakes -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--connections", "0"], ["--connections", "0", "1 to 10000000"]),
        (["--connections", "2.5"], ["--connections", "2.5"]),
        (["--size", "9-3"], ["--size", "9-3", "1 to"]),
        (["--rate", "-5"], ["--rate", "-5"]),
        (["--arrivals", "uniform"], ["--arrivals", "uniform", "poisson or paced"]),
        (["--workload", "ftp"], ["--workload", "ftp", "echo, work or http"]),
        (["--delay", "uniform:1:2"], ["--delay", "uniform:1:2", "SPREAD"]),
        (["--sources", "::1"], ["--sources", "::1"]),
        (["--engine", "select"], ["--engine", "select", "epoll"]),
        (["--conections", "5"], ["--conections"]),
        (["--duration"], ["--duration", "seconds"]),
        (["--active", "3", "--connections", "2"], ["--active 3", "--connections, 2"]),
        (["--requests", "5", "--duration", "1"], ["--requests 5", "--duration 1"]),
        (["--requests", "5", "--rate", "7"], ["--requests 5", "--rate 7"]),
        (["--think", "5", "--rate", "7"], ["--think 5", "--rate 7", "without"]),
        (["--byte-rate", "5", "--rate", "7"], ["--byte-rate 5", "--rate 7"]),
        (["--settle", "5", "--rate=7"], ["--settle 5", "--rate 7", "without --rate"]),
        (["--path", "page", "--workload", "http"], ["--path", "page", "/"]),
        (["--path", "/page"], ["--path /page", "echo", "--workload http"]),
        (["--delay", "5"], ["--delay 5", "workload echo", "--workload work"]),
        (["--buckets", "5"], ["--buckets 5", "workload echo", "--workload work"]),
        (["--workload=work", "--size=9"], ["--size 9", "work", "--workload echo"]),
        (["--block", "5"], ["--block 5", "--byte-rate"]),
        (["--sources", "0.0.0.0-255.255.255.255"], ["--sources", "0.0.0.0-255"]),
        (
            ["--sources", "127.0.0.1-128.0.0.1"],
            ["--sources 127.0.0.1-128.0.0.1", "128.0.0.1 is not of this host"],
        ),
        (["127.0.0.1:2"], ["127.0.0.1:2"]),
    ],
)
def test_mistakes_are_named(
    client_program: Path, flags: list[str], words: list[str]
) -> None:
    done = subprocess.run(
        [client_program, "127.0.0.1:1", *flags], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("client: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    "target", ["", "localhost", "127.0.0.1:", "1.2.3.4:http", ":1"]
)
def test_targets_that_are_none(client_program: Path, target: str) -> None:
    done = subprocess.run([client_program, target], capture_output=True, text=True)
    assert done.returncode == 2
    assert "client: " in done.stderr


@pytest.mark.parametrize("port", [0, 65536, 70000, 2**64 + 80])
def test_ports_that_are_none(client_program: Path, port: int) -> None:
    """One too large is not taken modulo 65536."""
    target = f"127.0.0.1:{port}"
    done = subprocess.run([client_program, target], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"client: {target}: allowed is a port of 1 to 65535\n"


def test_file_that_cannot_be_written(client_program: Path) -> None:
    flags = ["127.0.0.1:1", "--timeline", "/nowhere/to/be.csv"]
    done = subprocess.run([client_program, *flags], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "client: /nowhere/to/be.csv: No such file or directory\n"


def test_help_fits_a_terminal(client_program: Path) -> None:
    done = subprocess.run([client_program, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for flag in ["--connections N", "--rate R", "--requests-per-connection N"]:
        assert flag in done.stdout


# --- how good it is (alone on the machine) --------------------------------------


@pytest.mark.serial
def test_connects_19000(client_program: Path, server_program: Path) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 19100:
        pytest.skip("a process may not open 19000 descriptors here")
    with started(server_program, "epoll") as (_, port):
        flags = ["--connections", 19000, "--active", 10, "--duration", 0.2]
        result = client(client_program, port, *flags)
    assert result["connections"]["surviving"] == 19000
    assert result["self"]["dialing_s"] < 3


@pytest.mark.serial
def test_recovers_a_known_delay(client_program: Path, server_program: Path) -> None:
    """Positive control: 5 ms more at the server are 5 ms more at the client.

    A busy machine only ever adds, so the least of some medians stands for each delay.
    """
    medians = {5: [], 10: []}
    with started(server_program, "epoll", "--workload", "work") as (_, port):
        for delay in (5, 10) * 5:
            flags = ["--workload", "work", "--delay", delay, "--duration", 0.3]
            result = client(client_program, port, *flags, "--connections", 4)
            medians[delay].append(result["response"]["p50_ns"] / 1e6)
    assert min(medians[10]) - min(medians[5]) == pytest.approx(5, rel=0.01), medians
