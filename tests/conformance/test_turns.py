"""Everybody's turn comes: no client holds up the others by what it asks for.

Who only reads answers, who asks Redis without end, who comes and goes all the time,
who marks bytes as urgent.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests import upstreams
from tests.conformance.harness import (
    MIB,
    SLOWER,
    entry,
    names,
    one_a_family,
    receive,
    receive_all,
    serving,
)

CONCURRENT = names(concurrent=True)
ISOLATING = names(concurrent=True, isolates_slow=True)
EACH_A_THREAD = names(workers="per-connection", holds="threads")
GET = b"GET %s HTTP/1.1\r\nHost: test\r\n\r\n"

#: within which others are answered: some turns of a busy client, on a busy machine
BOUND_S = 0.3 * SLOWER


def answered_in(sock: socket.socket, request: bytes, length: int) -> float:
    began = time.monotonic()
    sock.sendall(request)
    assert len(receive(sock, length)) == length
    return time.monotonic() - began


@contextmanager
def reading_away(sock: socket.socket) -> Iterator[Callable[[], int]]:
    """Take whatever comes, as fast as it comes: the kernel throws it away.

    Yields what says how many bytes came until now.
    """
    came = 0

    def read() -> None:
        nonlocal came
        room = bytearray(1 << 20)
        with suppress(OSError):
            while n := sock.recv_into(room, len(room), socket.MSG_TRUNC):
                came += n

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lambda: came
    finally:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        reader.join()


#: Reads a socket as fast as can be: the kernel throws away what has come.
READER = """
import socket, sys
sock, room = socket.socket(fileno=int(sys.argv[1])), bytearray(1 << 22)
while sock.recv_into(room, len(room), socket.MSG_TRUNC):
    pass
"""


@pytest.mark.serial
@pytest.mark.parametrize("model", one_a_family(ISOLATING))
def test_a_fast_reader_of_a_large_file_holds_up_nobody(model, root):
    flags = ["--workload", "http", "--root", root]
    with serving(model, *flags) as server, server.clients(2) as (other, greedy):
        other.sendall(GET % b"/")
        length = len(other.recv(1 << 16))
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        greedy.sendall(GET % b"/large.bin" * 1000)  # 12 GB
        greedy.setblocking(True)
        command = [sys.executable, "-c", READER, str(greedy.fileno())]
        took = []
        # by another process, so that nothing of ours slows it down
        with subprocess.Popen(command, pass_fds=[greedy.fileno()]) as reader:
            try:
                for _ in range(20):
                    time.sleep(0.02)
                    took.append(answered_in(other, GET % b"/", length))
                assert reader.poll() is None, "the stream has ended"
            finally:
                reader.kill()
    assert max(took) < BOUND_S


@pytest.mark.serial
@pytest.mark.parametrize("model", one_a_family(ISOLATING))
def test_one_who_has_us_compute_without_end_holds_up_nobody(model):
    """60 000 bytes of requests, pipelined: a second of computing and more."""
    flags = ["--workload", "work", "--delay-kind", "spin"]
    with serving(model, *flags) as server, server.clients(2) as (other, greedy):
        assert answered_in(other, b"0 1\n", 2) < BOUND_S
        greedy.sendall(b"100 0\n" * 10_000)
        with reading_away(greedy) as came:
            time.sleep(0.1)
            took = [answered_in(other, b"0 1\n", 2) for _ in range(10)]
            assert 0 < came() < len("100\n") * 10_000, "it was done by then"
    assert max(took) < BOUND_S


def takes_a_while(sock: socket.socket) -> None:
    """What Redis says to a reader of an empty guestbook, 5 ms later."""
    while requests := sock.recv(65536):
        time.sleep(0.005)
        sock.sendall(b":1\r\n*0\r\n" * requests.count(b"INCR"))


@pytest.mark.serial
@pytest.mark.parametrize("model", one_a_family(ISOLATING))
def test_who_asks_redis_without_end_lets_others_ask_as_well(model):
    """As many as there are links to Redis use them all; then eight more come."""
    with ExitStack() as stack:
        redis = "{}:{}".format(*stack.enter_context(upstreams.stub(takes_a_while)))
        flags = ["--workload", "http", "--redis", redis]
        server = stack.enter_context(serving(model, *flags))
        for greedy in stack.enter_context(server.clients(16)):
            greedy.sendall(GET % b"/guestbook" * 300)
            stack.enter_context(reading_away(greedy))
        time.sleep(0.2)
        began = time.monotonic()
        with server.clients(8) as others:
            for sock in others:
                sock.sendall(b"GET /guestbook HTTP/1.0\r\n\r\n")
            for sock in others:
                assert receive_all(sock).startswith(b"HTTP/1.1 200 ")
            assert time.monotonic() - began < BOUND_S


@pytest.mark.serial
@pytest.mark.parametrize("model", EACH_A_THREAD)
def test_threads_are_gone_when_their_clients_are(model, client_program):
    """Twenty at a time, thousands in all: those that ended must not pile up."""
    flags = ["--connections", "20", "--requests-per-connection", "1"]
    with serving(model) as server:
        address = f"127.0.0.1:{server.ready['port']}"
        command = [client_program, address, *flags, "--duration", "1.5"]
        client = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        counts = []
        while client.poll() is None:
            counts.append(len(os.listdir(f"/proc/{server.process.pid}/task")))
            time.sleep(0.005)
        stats = server.stop()
    assert client.returncode == 0
    assert stats["accepted"] > 1000
    # Each client's, and those that are on their way out; on a busy machine not a few.
    assert max(counts) < 200 * entry(model)["workers_each"]


def send_urgently(sock: socket.socket, before: bytes, behind: bytes) -> bytes:
    """Send three pieces, the middle one an urgent byte; return the whole."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(before)
    sock.send(b"1", socket.MSG_OOB)
    sock.sendall(behind)
    return before + b"1" + behind


@pytest.mark.parametrize("model", names())
def test_urgent_bytes_are_bytes_of_the_stream(model):
    """A read stops where they begin, however much has come behind them."""
    sizes = [(1 + 7 * n, 1 + 500 * n) for n in range(12)]
    at_once = model in CONCURRENT and entry(model)["holds"] != "workers"
    with serving(model) as server:
        socks = [server.connect() for _ in sizes]
        for _ in range(3 if at_once else 1):
            whole = [
                send_urgently(sock, MIB[:before], MIB[:behind])
                for sock, (before, behind) in zip(socks, sizes, strict=True)
            ]
            for sock, sent in zip(socks, whole, strict=True):
                assert receive(sock, len(sent)) == sent
                if not at_once:  # others are served once it has left
                    sock.close()
        stats = server.stop()
    assert stats["bytes_in"] == stats["bytes_out"]


@pytest.mark.parametrize("model", CONCURRENT)
def test_urgent_bytes_that_came_meanwhile_are_found(model):
    """All pieces are there when it comes to read them: nothing tells of the last."""
    flags = ["--workload", "work", "--delay-kind", "spin"]
    with serving(model, *flags) as server, server.clients(2) as (other, sock):
        for sums in range(1, 4):
            other.sendall(b"50000 0\n")
            time.sleep(0.02)
            send_urgently(sock, b"0 1\n0 ", b"\n0 1\n")
            assert receive(sock, 6) == b"0\n" * 3
            answer = b"%d\n" % (50_000 * sums)
            assert receive(other, len(answer)) == answer
