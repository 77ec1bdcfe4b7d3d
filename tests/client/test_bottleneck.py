"""Who waits for whom: whether the server or the load generator is the slower one."""

import os
import socket
from pathlib import Path

import pytest

from tests.client.harness import SERVER, client, started
from tests.conformance.harness import unsanitized


@unsanitized
@pytest.mark.serial
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="both sides need a core")
@pytest.mark.parametrize(
    ("slower", "least", "most"), [("server", 0.0, 0.1), ("client", 0.7, 1.0)]
)
def test_answers_wait_for_the_slower_side(engine, preloaded, slower, least, most):
    """The server computes for a millisecond; or the client takes its time to send.

    Each is twenty times as slow as the other or more, whatever else the cores do. A
    client that was held up so finds everything answered when its turn comes: more than
    it can take before its turn is over.
    """
    first, *_, last = sorted(os.sched_getaffinity(0))
    spin, work = "", ""
    # io_uring sends 20 at a time or more
    slow_us = 200 if engine.endswith("epoll") else 2000
    faults = preloaded("client_faults.c", SLOW_US=slow_us)
    if slower == "server":
        spin = "--workload work --delay-kind spin"
        work = "--workload work --delay fixed:1"

    def on_a_core() -> None:
        os.sched_setaffinity(0, {last})
        if slower == "client":
            faults()

    with started(SERVER, "epoll", *spin.split()) as (process, port):
        os.sched_setaffinity(process.pid, {first})
        flags = f"--connections 1000 --duration 0.5 {work} {engine}"
        result = client(port, flags, preexec_fn=on_a_core)
    assert least <= result["self"]["waiting_share"] <= most


@unsanitized
@pytest.mark.parametrize(
    ("rate", "seconds", "least", "most"),
    [(65000, 0.055, 0.15, 1.0), (100, 0.5, -0.1, 0.1)],
)
def test_only_what_found_nothing_to_do_is_spin(
    engine, preloaded, rate, seconds, least, most
):
    """Nobody answers, so that each look after a send finds nothing as well.

    By a clock that only the client's own doing moves, a send costs 5 us, of which 65000
    per second are need; looking is not.
    """
    if int(Path("/proc/sys/net/core/somaxconn").read_text()) < 4096:
        pytest.skip("3600 connections that nobody accepts need a backlog of 4096")
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        flags = f"--connections 3600 --rate {rate} --arrivals paced {engine}"
        window = f"--warmup 0 --duration {seconds} --drain 0 --spin always"
        made = {"preexec_fn": preloaded("client_faults.c", MADE_CLOCK=1)}
        result = client(listener.getsockname()[1], flags, window, **made)
    usage = result["self"]
    assert result["requests"]["sent"] == result["requests"]["unanswered"]
    assert least < usage["cpu_share"] - usage["spin_share"] < most
