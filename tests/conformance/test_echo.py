"""What any echo client may expect of every model, and of every lesson."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import time

import pytest

from tests.conformance.harness import (
    MIB,
    SANITIZED,
    SLOWER,
    counted,
    echoes,
    entry,
    eventually,
    exchange,
    fill,
    filling_returns,
    is_quiet,
    names,
    one_a_family,
    receive,
    reset,
    serving,
    settled,
)

MODELS = names(lessons=True)
CONCURRENT = names(lessons=True, concurrent=True)
#: they go on with one client for as long as there is no wait, as their headers say
UNFAIR = ["lessons/epoll-et", "lessons/coroutine"]
MANY = [
    name
    for name in CONCURRENT
    if entry(name)["holds"] == "descriptors" and name not in UNFAIR
]
ISOLATING = names(lessons=True, concurrent=True, isolates_slow=True)


def chunkings() -> dict[str, list[int]]:
    dice = random.Random(2)
    return {
        "whole": [len(MIB)],
        "odd": [dice.randint(1, 30_000) for _ in range(50)],
        "bytes-first": [1] * 200,
    }


@pytest.mark.parametrize("model", names())
def test_ready_line_tells_where_and_binds_to_loopback(model):
    with serving(model) as server:
        ready = server.ready
        assert ready["event"] == "ready"
        assert (ready["model"], ready["workload"]) == (model, "echo")
        assert ready["host"] == "127.0.0.1"
        assert ready["pid"] == server.process.pid
        assert ready["port"] > 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("chunking", chunkings())
def test_a_mebibyte_comes_back_in_any_chunking(model, chunking):
    with serving(model) as server, server.connect() as sock:
        assert exchange(sock, MIB, chunkings()[chunking]) == MIB
        stats = server.stop()
    assert counted(stats, bytes_in=len(MIB), bytes_out=len(MIB))


@pytest.mark.parametrize("model", MODELS)
def test_one_message_of_a_length_comes_back(model):
    with serving(model) as server:
        for length in (1, 2, 15, 1024, 65_535, 65_536, 65_537):
            with server.connect() as sock:
                sock.sendall(MIB[:length])
                assert receive(sock, length) == MIB[:length], length


@pytest.mark.parametrize("model", MODELS)
def test_pipelined_messages_come_back_in_order(model):
    message = b"".join(b"%06d\n" % n for n in range(5000))
    with serving(model) as server, server.connect() as sock:
        sock.sendall(message)
        assert receive(sock, len(message)) == message


@pytest.mark.parametrize("model", MODELS)
def test_half_closed_client_still_gets_its_answer(model):
    with serving(model) as server, server.connect() as sock:
        sock.sendall(b"last words")
        sock.shutdown(socket.SHUT_WR)
        assert receive(sock, 100) == b"last words"


@pytest.mark.parametrize("model", MODELS)
def test_an_end_without_a_word_is_answered_with_an_end(model):
    with serving(model) as server, server.connect() as sock:
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""


@pytest.mark.parametrize("model", CONCURRENT)
def test_an_idle_client_holds_up_nobody(model):
    with serving(model) as server, server.connect() as first:
        assert echoes(first)
        with server.connect() as second:
            assert echoes(second)
            assert echoes(first)


@pytest.mark.parametrize("model", names(lessons=True, concurrent=False))
def test_a_serial_model_serves_the_second_after_the_first(model):
    with serving(model) as server, server.connect() as second_in_line:
        first = server.connect()
        first, second = second_in_line, first
        assert echoes(first)
        second.sendall(b"waiting")
        assert is_quiet(second, 0.3)
        first.close()
        assert receive(second, 7) == b"waiting"
        second.close()


@pytest.mark.parametrize("model", MODELS)
def test_a_reset_in_the_middle_hurts_only_itself(model):
    with serving(model) as server:
        for _ in range(20):
            sock = server.connect()
            sock.sendall(b"x" * 1000)
            reset(sock)
        with server.connect() as sock:
            assert echoes(sock)


@pytest.mark.parametrize("model", ISOLATING)
def test_a_client_that_never_reads_is_held_back_and_isolated(model):
    with serving(model) as server, server.connect() as other, server.connect() as mute:
        assert echoes(other)
        before = server.resident_bytes()
        sent = fill(mute)
        assert sent < 64 << 20, "the server reads without bound"
        bound = (64 if SANITIZED else 8) << 20  # their shadow grows as well
        assert server.resident_bytes() - before < bound
        started = time.monotonic()
        assert echoes(other)
        assert time.monotonic() - started < 1.0 * SLOWER


@pytest.mark.parametrize("model", MODELS)
def test_a_client_that_read_late_gets_every_byte(model):
    with serving(model) as server, server.connect() as sock:
        assert filling_returns(sock, fill(sock))
        assert echoes(sock)


@pytest.mark.parametrize("model", ISOLATING)
def test_a_slow_sender_holds_up_nobody(model):
    with serving(model) as server, server.connect() as slow, server.connect() as other:
        for byte in b"slowly":
            slow.sendall(bytes([byte]))
            assert echoes(other)
        assert receive(slow, 6) == b"slowly"


@pytest.mark.parametrize("model", CONCURRENT)
def test_a_hundred_clients_at_once(model):
    flags = ["--workers", 128] if entry(model)["holds"] == "workers" else []
    with serving(model, *flags) as server:
        socks = [server.connect() for _ in range(100)]
        for n, sock in enumerate(socks):
            sock.sendall(b"%05d" % n)
        for n, sock in enumerate(socks):
            assert receive(sock, 5) == b"%05d" % n
        for sock in socks:
            sock.close()
        stats = server.stop()
    assert counted(stats, open_max=100, accepted=100, requests=100)


EVEN = 0.8 if SLOWER == 1 else 0.6
"""Jain's index of a thousand; loops that sanitizers slow down share less evenly."""

EVEN_OF = {"epoll-shared": 0.3}
"""Whichever loop wakes accepts, so one may get several times another's clients."""


@pytest.mark.parametrize("model", one_a_family(MANY))
def test_a_thousand_who_send_much_are_all_served(model, client_program):
    """Each of them as often: on a machine that is busy with others it takes longer."""
    with serving(model) as server:
        for duration in (0.5 * SLOWER, 4 * SLOWER):
            fairness = fairness_of_a_thousand(client_program, server, duration)
            assert fairness["users"] == 1000
            if fairness["jain"] > EVEN_OF.get(model, EVEN):
                break
        else:
            pytest.fail(f"served unevenly: {fairness}")
        stats = server.stop()
    # A client that was not answered in time leaves with answers on their way.
    assert stats.get("errors", {}).keys() <= {"ECONNRESET", "EPIPE"}


def fairness_of_a_thousand(client_program, server, duration: float) -> dict:
    flags = ["--connections", "1000", "--size", "16384"]
    flags += ["--settle", str(5 * SLOWER), "--duration", str(duration)]
    address = f"127.0.0.1:{server.ready['port']}"
    command = [client_program, address, *flags]
    return json.loads(subprocess.check_output(command))["fairness"]


@pytest.mark.parametrize("model", names())
def test_counts_agree_with_the_client(model):
    with serving(model) as server:
        for length in (5, 10, 15):
            with server.connect() as sock:
                for _ in range(4):
                    assert echoes(sock, MIB[:length])
                sock.shutdown(socket.SHUT_WR)
                assert sock.recv(1) == b""
        stats = server.stop()
    assert stats["accepted"] == 3
    assert stats["requests"] == 12
    assert stats["bytes_in"] == stats["bytes_out"] == 4 * (5 + 10 + 15)
    assert sum(stats["requests_per_worker"]) == 12
    assert stats["errors"] == {}
    assert stats["refused_total"] == 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "each_round", [400, pytest.param(2000, marks=pytest.mark.long)]
)
def test_connects_and_resets_leak_nothing(model, each_round):
    """A leak grows with every round; what each worker keeps comes in some of them."""
    with serving(model) as server:
        assert survives_resets(server, each_round)
        at_most, growth = settled(server.descriptors) + 2, []
        for _ in range(16):  # on many cores there are many workers, each with its own
            before = server.resident_bytes()
            assert survives_resets(server, each_round)
            assert eventually(lambda: server.descriptors() <= at_most)
            growth.append(server.resident_bytes() - before)
            quiet = (
                min(growth) < each_round * 100 or SANITIZED
            )  # they keep what is freed
            if len(growth) >= 4 and quiet:
                return
    pytest.fail(f"100 bytes a connection each round: {growth}")


def survives_resets(server, count: int) -> bool:
    for _ in range(count):
        reset(server.connect())
    with server.connect() as sock:
        return echoes(sock)
