"""Workers: as many as were asked for, and what becomes of those who wait or die."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from tests.conformance.harness import (
    Server,
    echoes,
    entry,
    eventually,
    is_quiet,
    names,
    receive,
    serving,
    settled,
)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("model", names(workers="fixed"))
def test_as_many_workers_as_asked_for_are_started(model, processes):
    with serving(model, "--workers", 3, "--processes", processes) as server:
        assert settled(server.tasks) >= 3 * processes
        with server.connect() as sock:
            assert echoes(sock)
        stats = server.stop()
    assert server.ready["workers"] == 3
    assert stats["workers_started"] == 3 * processes
    assert stats["workers_lost"] == 0
    assert len(stats["requests_per_worker"]) == 3 * processes


@pytest.mark.parametrize("model", names(queue=True))
def test_one_is_served_one_waits_and_the_rest_are_refused(model):
    with serving(model, "--workers", 1, "--queue", 1) as server:
        first = server.connect()
        assert echoes(first)
        waiting, *refused = [server.connect() for _ in range(4)]
        assert [sock.recv(1) for sock in refused] == [b""] * 3
        waiting.sendall(b"my turn")
        assert is_quiet(waiting, 0.3)
        first.close()
        assert receive(waiting, 7) == b"my turn"
        for sock in (waiting, *refused):
            sock.close()
        stats = server.stop()
    assert stats["refused"]["queue_full"] == stats["refused_total"] == 3
    assert stats["accepted"] == 2


def still_echoes(sock: socket.socket) -> bool:
    try:
        return echoes(sock)
    except ConnectionError:
        return False


def children(server: Server) -> list[int]:
    return [pid for pid in server.tree() if pid != server.process.pid]


@pytest.mark.parametrize("model", names(family="processes"))
def test_a_child_that_is_killed_takes_one_client_with_it(model):
    """One that was started beforehand is replaced; its client comes back and is served.

    Four clients hold four children, so who comes later needs the new one.
    """
    flags = ["--workers", 4] if entry(model)["workers"] == "fixed" else []
    with serving(model, *flags) as server:
        clients = [server.connect() for _ in range(4)]
        assert all(echoes(sock) for sock in clients)
        killed, *others = children(server)
        assert len(others) == 3
        os.kill(killed, signal.SIGKILL)
        assert eventually(lambda: killed not in children(server))
        assert sum(still_echoes(sock) for sock in clients) == 3
        with server.connect() as late:
            assert echoes(late)
        for sock in clients:
            sock.close()
        stats = server.stop()
    assert stats["workers_lost"] == 1
    assert stats["workers_started"] == 5
