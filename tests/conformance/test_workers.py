"""Workers: as many as were asked for, and what becomes of those who wait or die."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import is_running

from tests.conformance.harness import (
    PATIENCE_S,
    SANITIZED,
    SERVER,
    SLOWER,
    Server,
    answers,
    children_of,
    echoes,
    ended_by,
    entry,
    eventually,
    fixed_workers,
    ignore_children,
    is_quiet,
    limit_descriptors,
    names,
    one_a_family,
    receive,
    serving,
    settled,
    unsanitized,
)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("model", names(workers="fixed"))
def test_as_many_workers_as_asked_for_are_started(model, processes):
    forking = entry(model)["family"] == "processes"  # and serving nobody itself
    least = (3 + forking) * processes + (processes > 1)
    with serving(model, "--workers", 3, "--processes", processes) as server:
        assert eventually(lambda: settled(server.tasks) >= least)
        with server.connect() as sock:
            assert echoes(sock)
        stats = server.stop()
    assert server.ready["workers"] == 3
    assert stats["workers_started"] == 3 * processes
    assert stats["workers_lost"] == 0
    assert len(stats["requests_per_worker"]) == 3 * processes


def test_a_set_that_no_more_sets_may_hold_is_waited_on_by_fewer_workers():
    """At 500 (path_limits in fs/eventpoll.c); it ended with "Invalid argument"."""
    with serving("epoll-pool", "--workers", 600) as server:
        assert server.serves()
        stats = server.stop()
    assert stats["workers_started"] == 500
    assert "500 of 600 workers started: epoll_create1 or epoll_ctl" in server.stderr


@unsanitized
@pytest.mark.parametrize(
    ("model", "workers"), [("epoll-shared", 64), ("epoll-reuseport", 20)]
)
def test_with_descriptors_for_fewer_loops_it_says_how_many_there_are(model, workers):
    """It said why there was no further one, not that it went on, nor with how many."""
    preexec = limit_descriptors(40)
    with serving(model, "--workers", workers, preexec=preexec) as server:
        stats = server.stop()
    made = stats["workers_started"]
    assert 0 < made < workers
    assert f"{made} of {workers} workers started: epoll_create1: " in server.stderr


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


def children(server: Server) -> list[int]:
    return [pid for pid in server.tree() if pid != server.process.pid]


@pytest.mark.parametrize("model", names(family="processes"))
def test_a_child_that_is_killed_takes_one_client_with_it(model):
    """One that was started beforehand is replaced; its client comes back and is served.

    Four clients hold four children, so who comes later needs the new one.
    """
    with serving(model, *fixed_workers(model, 4)) as server:
        with server.clients(4) as clients:
            assert all(map(echoes, clients))
            killed, *others = children(server)
            assert len(others) == 3
            os.kill(killed, signal.SIGKILL)
            assert eventually(lambda: killed not in children(server))
            assert sum(map(answers, clients)) == 3
            with server.connect() as late:
                assert echoes(late)
        stats = server.stop()
    assert stats["workers_lost"] == 1
    assert stats["workers_started"] == 5


@pytest.mark.parametrize("model", names(family="processes", workers="fixed"))
def test_a_child_that_is_started_late_keeps_no_connection_open(model):
    """The one who waits for a child when it is started has its socket inherited."""
    with serving(model, *fixed_workers(model, 1)) as server, server.clients(8) as socks:
        assert echoes(socks[0])
        settled(server.descriptors)
        os.kill(children(server)[0], signal.SIGKILL)
        for sock in socks[1:]:
            assert echoes(sock)
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(1) == b""


@pytest.mark.parametrize("model", {"prefork-pass"} & {*names()})
def test_who_waits_for_a_child_that_is_dead_is_refused_by_a_stop_and_counted(model):
    """Such a client lay in the queue between the processes, and was closed with it."""
    with serving(model, "--workers", 1) as server, server.clients(2) as socks:
        assert echoes(socks[0])
        settled(server.descriptors)
        with server.halted():
            os.kill(children(server)[0], signal.SIGKILL)
            server.process.send_signal(signal.SIGTERM)
        stats = server.stop()
        assert socks[1].recv(1) == b""
    assert stats["accepted"] == 1
    assert stats["refused"]["stopping"] == stats["refused_total"] == 1


@contextlib.contextmanager
def copies(model: str, preexec: Callable[[], None] | None = None) -> Iterator[Server]:
    """Two copies of a model behind a port, which may end with another status than 0."""
    words = [SERVER, model, "--processes", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, preexec_fn=preexec, **pipes) as process:
        try:
            ready = process.stdout.readline()
            yield Server(process, json.loads(ready or "null"))
        finally:
            process.kill()


@pytest.mark.parametrize("model", one_a_family(names()))
def test_a_copy_that_is_killed_is_told_and_the_other_serves(model):
    with copies(model) as server:
        killed, _ = children_of(server.process.pid)
        os.kill(killed, signal.SIGKILL)
        assert eventually(lambda: killed not in server.tree())
        # a ring's poll may hold the dead one's listening socket for some ms more
        # (io_ring_exit_work), and who connects to that is reset
        assert eventually(server.serves)
        out, errors = ended_by(server.process)
    assert server.process.returncode == 1
    assert f"process {killed}: signal 9" in errors
    lost = errors.count(": signal 9")
    assert json.loads(out)["workers_lost"] == lost
    # a sanitizer's copy among other work may end too late, and its parent cuts it
    assert lost == 1 or SANITIZED


@unsanitized
def test_copies_that_fail_end_the_server_with_their_status():
    """There are descriptors for sockets, but none for what a copy asks them with."""
    for most in range(5, 30):
        with copies("epoll-pool", limit_descriptors(most)) as server:
            if server.ready:
                # both lines may have come at once: communicate() would miss the second
                out = server.process.stdout.read()
                errors = server.process.stderr.read()
                server.process.wait(PATIENCE_S)
                break
    assert server.process.returncode == 1
    assert errors.count("exit status 1") == 2
    assert json.loads(out)["workers_lost"] == 2


def streams(server: Server, over: threading.Event) -> None:
    """Ask for one bucket without a pause, over a new connection where one breaks."""
    lines = b"0 0\n" * 8000
    while not over.is_set():
        with contextlib.suppress(OSError), server.connect(timeout=0.5) as sock:
            while not over.is_set():
                sock.sendall(lines)
                receive(sock, 2 * 8000)


def answers_work(server: Server) -> bool:
    with contextlib.suppress(OSError), server.connect(timeout=1 * SLOWER) as sock:
        sock.sendall(b"0 0\n")
        return receive(sock, 2) == b"0\n"
    return False


@pytest.mark.serial
@pytest.mark.parametrize("model", names(family="processes"))
@pytest.mark.parametrize("kills", [40, pytest.param(200, marks=pytest.mark.long)])
def test_children_killed_at_any_moment_leave_no_lock_behind(model, kills):
    """Many of them, under load: each may die while it holds the lock of the one bucket.

    A child that waits for a lock of the dead holds its client for ever, so three
    answers in a row that do not come, each on a connection of its own, are the end of
    the server.
    """
    flags = fixed_workers(model, 4)
    with serving(model, "--workload", "work", "--buckets", 1, *flags) as server:
        over, killed = threading.Event(), set()
        with ThreadPoolExecutor(2) as clients:
            for _ in range(2):
                clients.submit(streams, server, over)
            try:
                while len(killed) < kills:
                    time.sleep(random.uniform(0, 0.02))
                    # none that waits to be reaped, nor one that was killed and ends
                    # later, as others have the cores: it would count twice
                    left = set(children(server)) - killed
                    if living := [*filter(is_running, left)]:
                        pid = random.choice(living)
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                            killed.add(pid)
                    if len(killed) % 10 == 0:
                        assert any(answers_work(server) for _ in range(3)), killed
            finally:
                over.set()
        stats = server.stop()
    assert stats["workers_lost"] > 0.75 * kills


@pytest.mark.serial
def test_a_known_cost_is_spent_on_each_request():
    """Half a millisecond of CPU time a request: what controls are found again by."""
    with serving("epoll", "--extra-ns", 500_000) as server:
        with server.connect() as sock:
            assert all(echoes(sock) for _ in range(100))
        stats = server.stop()
    # Wall time is spun away, and who else wants the core takes from it.
    assert 0.02 <= stats["cpu_user_s"] + stats["cpu_system_s"] < 0.5


def test_children_are_waited_for_wherever_they_were_ignored():
    """SIG_IGN of SIGCHLD outlives an exec, and leaves no CPU time of a child."""
    flags = ["--processes", 2, "--extra-ns", 500_000]
    with serving("epoll", *flags, preexec=ignore_children) as server:
        with server.connect() as sock:
            assert all(echoes(sock) for _ in range(100))
        stats = server.stop()
    assert stats["cpu_user_s"] + stats["cpu_system_s"] > 0.03
