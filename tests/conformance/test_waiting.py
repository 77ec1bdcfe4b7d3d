"""Flags that change how a server waits: --busy-wait and --steer."""

import contextlib
import os

import pytest

from tests.conformance.harness import (
    PATIENCE_S,
    TSAN,
    Server,
    cpu_seconds,
    echoes,
    eventually,
    names,
    refused,
    serving,
)

STEERED = names(steer="workers")


@pytest.mark.parametrize("model", names(busy_wait=True))
def test_busy_waiting_costs_cpu_while_nothing_happens(model):
    """And it stops, and it answers: work that sleeps is woken in time."""
    for flags in ([], ["--busy-wait"]):
        with (
            serving(model, "--workload", "work", *flags) as server,
            server.connect() as sock,
        ):
            sock.sendall(b"1000 0\n")
            assert sock.recv(9) == b"1000\n"
            until = cpu_seconds(server) + 0.05
            spun = eventually(
                lambda until=until, server=server: cpu_seconds(server) >= until,
                seconds=PATIENCE_S if flags else 0.3,
            )
            assert spun == bool(flags)


@pytest.mark.parametrize("model", names(busy_wait=False))
def test_a_model_that_blocks_takes_no_busy_wait(model):
    assert f"--busy-wait: model {model} " in refused(model, "--busy-wait")


@pytest.mark.parametrize(
    ("model", "what", "count"),
    [(model, "--workers", 3) for model in STEERED]
    + [(model, "--processes", 2) for model in ("epoll", "thread")],
)
def test_steered_connections_go_to_the_worker_of_their_cpu(model, what, count):
    allowed = os.sched_getaffinity(0)
    cpu = max(allowed)
    with serving(model, what, count, "--steer", "cpu") as server:
        try:
            os.sched_setaffinity(0, {cpu})
            for _ in range(12):
                with server.connect() as sock:
                    assert echoes(sock)
        finally:
            os.sched_setaffinity(0, allowed)
        served = server.stop()["requests_per_worker"]
    assert served[cpu % count] == sum(served) == 12


@pytest.mark.parametrize(
    ("model", "by", "words"),
    [
        ("epoll", "cpu", "--steer cpu: model epoll "),
        ("epoll-reuseport", "load", "--steer load: want cpu"),
    ],
)
def test_steering_needs_several_listeners_and_knows_cpus_only(model, by, words):
    assert words in refused(model, "--steer", by)


def batch_threads(server: Server) -> int:
    threads = map(int, os.listdir(f"/proc/{server.process.pid}/task"))
    return [os.sched_getscheduler(tid) for tid in threads].count(os.SCHED_BATCH)


@pytest.mark.parametrize(
    "model", sorted(set(STEERED) | {"epoll-workers", "epoll-shared", "epoll-pool"})
)
def test_loops_that_share_a_core_take_turns(model):
    """And one alone on its core is preempted like any other program's thread."""
    acceptor = model == "epoll-workers"
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        with serving(model, "--workers", 3) as server:
            assert eventually(lambda: batch_threads(server) == 3 + acceptor)
        with serving(model, "--workers", 1) as server, server.connect() as sock:
            assert echoes(sock)
            assert batch_threads(server) == acceptor
    finally:
        os.sched_setaffinity(0, allowed)


def test_groups_do_not_preempt_their_acceptor_nor_each_other():
    with serving("poll-groups") as server, contextlib.ExitStack() as clients:
        for _ in range(70):  # 63 fill a group
            assert echoes(clients.enter_context(server.connect()))
        threads = 3 + TSAN  # which makes one of its own, that inherits it
        assert eventually(lambda: batch_threads(server) == server.tasks() == threads)
