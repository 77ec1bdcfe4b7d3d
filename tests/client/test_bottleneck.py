"""Who waits for whom: whether the server or the load generator is the slower one."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.harness import client, echo, started


@contextlib.contextmanager
def sharing(core: int, *, among: int) -> Iterator[None]:
    """Others compute on a core, so that one more has a part of it."""
    computing = "import time\nwhile time.process_time() < 10: pass"
    with contextlib.ExitStack() as stack:
        for _ in range(among - 1):
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", computing],
                    preexec_fn=lambda: os.sched_setaffinity(0, {core}),
                )
            )
            stack.callback(process.kill)
        yield


@pytest.mark.serial
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="both sides need a core")
@pytest.mark.parametrize(
    ("slower", "least", "most"), [("server", 0.0, 0.1), ("client", 0.7, 1.0)]
)
def test_answers_wait_for_the_slower_side(
    client_program, server_program, engine, slower, least, most
):
    """The server computes for a millisecond; or the client has a quarter of a core.

    A client that is held up so finds everything answered when its turn comes: more
    than it can take before its turn is over. Where other programs hold up the other
    side as well, the test asks again.
    """
    shares = []
    while not any(least <= share <= most for share in shares):
        assert len(shares) < 5, shares
        shares.append(_waiting_share(client_program, server_program, engine, slower))


def _waiting_share(
    client_program: Path, server_program: Path, engine: list[str], slower: str
) -> float:
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
    return result["self"]["waiting_share"]


@pytest.mark.serial
@pytest.mark.parametrize(
    ("rate", "seconds", "least", "most"),
    [(65000, 0.055, 0.15, 1.0), (100, 0.5, -0.1, 0.1)],
)
def test_only_what_found_nothing_to_do_is_spin(
    client_program, engine, rate, seconds, least, most
):
    """Nobody answers, so that each look after a send finds nothing as well.

    A send costs 3 us or more, of which 65000 per second are need; looking is not. Nor
    are interrupts and a busy host, which take some hundredths of any window.
    """
    if int(Path("/proc/sys/net/core/somaxconn").read_text()) < 4096:
        pytest.skip("3600 connections that nobody accepts need a backlog of 4096")
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        flags = ["--connections", 3600, "--rate", rate, "--arrivals", "paced", *engine]
        window = ["--warmup", 0, "--duration", seconds, "--drain", 0]
        window += ["--spin", "always"]
        result = client(client_program, listener.getsockname()[1], *flags, *window)
    usage = result["self"]
    assert result["requests"]["sent"] == result["requests"]["unanswered"]
    assert least < usage["cpu_share"] - usage["spin_share"] < most


def test_without_a_window_nothing_is_known_of_it(load):
    flags = ["--connections", 2, "--active", 1, "--requests", 1]
    result, _ = load(echo, *flags)
    assert result["self"]["waiting_share"] in (None, 0.0)
