"""What must not happen, happens: no memory, threads that hang, thousands to stop."""

import errno
import os
import time
from collections.abc import Callable

import pytest
from conftest import ran

from tests import upstreams
from tests.conformance.harness import (
    PATIENCE_S,
    SANITIZED,
    SERVER,
    SLOWER,
    Server,
    accepting_themselves,
    answers,
    echoes,
    eventually,
    fixed_workers,
    limit_tasks,
    names,
    nobody_may_run,
    receive,
    serving,
    settled,
    unsanitized,
)

OVER_EPOLL = [n for n in names() if n.startswith(("epoll", "coroutine", "stackless"))]


@unsanitized
@pytest.mark.timed
@pytest.mark.parametrize("model", accepting_themselves())
def test_no_memory_for_a_while_is_counted_and_sat_out(model, preloaded):
    with serving(model, preexec=preloaded("faults.c", SHORTAGE_MS=500)) as server:
        with server.connect() as sock:
            assert echoes(sock)
        stats = server.stop()
    assert stats["accepted"] == 1
    assert stats["refused_total"] == 0
    # At most every millisecond by each of eight workers and, where they are processes,
    # their parent, instead of as fast as they can.
    assert 0 < stats["errors"].pop("ENOMEM") < 500 * 9 + 100
    assert stats["errors"] == {}
    assert stats["cpu_user_s"] + stats["cpu_system_s"] < 0.4


@unsanitized
@pytest.mark.timed
@pytest.mark.parametrize("model", accepting_themselves())
def test_no_memory_does_not_hold_up_the_stop(model, preloaded):
    preexec = preloaded("faults.c", SHORTAGE_MS=60_000)
    with serving(model, preexec=preexec) as server, server.connect():
        time.sleep(0.1)
        assert server.stopped_in() < 2.0


@unsanitized
@pytest.mark.parametrize("model", OVER_EPOLL)
def test_who_can_watch_nothing_has_failed_to_set_up(model, preloaded):
    full = {"preexec_fn": preloaded("faults.c", FULL=0), "timeout": PATIENCE_S}
    done = ran(SERVER, model, *fixed_workers(model, 2), **full)
    assert done.returncode == 1
    assert os.strerror(errno.ENOSPC) in done.stderr


@unsanitized
@pytest.mark.timed
@pytest.mark.parametrize("model", OVER_EPOLL)
def test_without_epoll_pwait2_it_waits_in_milliseconds(model, preloaded):
    """A delay takes no less than it should, and no more than a rounding."""
    flags, preexec = ["--workload", "work"], preloaded("faults.c", DENIED=1)
    with serving(model, *flags, preexec=preexec) as server, server.connect() as sock:
        began = time.monotonic()
        sock.sendall(b"50500 0\n")
        assert receive(sock, 6) == b"50500\n"
        assert 0.0505 <= time.monotonic() - began < 0.3 * SLOWER


@unsanitized
@pytest.mark.parametrize("model", ["coroutine", "coroutine-workers", "stackless"])
def test_why_redis_cannot_be_watched_is_counted(model, preloaded):
    with upstreams.stub(upstreams.silent) as address:
        flags = ["--workload", "http", "--redis", "{}:{}".format(*address)]
        preexec = preloaded("faults.c", FULL=address[1])
        with serving(model, *flags, preexec=preexec) as server:
            with server.connect() as sock:
                sock.sendall(b"GET /guestbook HTTP/1.1\r\nHost: test\r\n\r\n")
                assert receive(sock, 12) == b"HTTP/1.1 503"
            stats = server.stop()
    assert stats["errors"].keys() - {"ECONNRESET"} == {"ENOSPC"}  # we left early


def stopped_while_sending(
    model: str, preexec: Callable[[], None], *flags: object
) -> tuple[Server, float]:
    """Stop a server that hangs in the send to its client; how long that took."""
    with serving(model, *flags, preexec=preexec) as server, server.connect() as sock:
        sock.sendall(b"hello")
        time.sleep(0.1)
        return server, server.stopped_in()


@unsanitized
@pytest.mark.timed
@pytest.mark.parametrize(
    "model",
    [
        *("thread", "thread-pair", "pool"),
        *("poll-groups", "epoll-workers", "coroutine-workers"),
    ],
)
def test_a_thread_that_hangs_cannot_hold_up_the_stop(model, preloaded):
    server, took = stopped_while_sending(model, preloaded("faults.c", SEND_MS=8000))
    assert took < 2.0
    assert "threads" in server.stderr
    assert server.stats["accepted"] == 1


PROCESSES = names(family="processes")


@unsanitized
@pytest.mark.timed
@pytest.mark.parametrize("model", PROCESSES)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_child_may_take_as_long_as_it_promised(model, processes, preloaded):
    flags, preexec = ["--processes", processes], preloaded("faults.c", SEND_MS=1600)
    server, took = stopped_while_sending(model, preexec, *flags)
    assert 1.2 < took < 2.0
    assert server.stats["workers_lost"] == 0
    assert server.stats["requests"] == 1


@unsanitized
@pytest.mark.timed
@pytest.mark.parametrize("model", PROCESSES)
def test_a_child_that_hangs_is_killed_in_the_end(model, preloaded):
    server, took = stopped_while_sending(model, preloaded("faults.c", SEND_MS=20_000))
    assert 2.0 < took < 3.5
    assert server.stats["workers_lost"] == 1


@pytest.mark.timed
@pytest.mark.parametrize("model", names())
def test_who_waits_in_line_for_a_silent_redis_does_not_hold_up_the_stop(model):
    """Twenty ask over 16 links, and ask again when they are told that none answers."""
    get = b"GET /guestbook HTTP/1.1\r\nHost: test\r\n\r\n"
    with upstreams.stub(upstreams.silent) as address:
        flags = ["--workload", "http", "--redis", "{}:{}".format(*address)]
        with (
            serving(model, "--processes", 2, *flags) as server,
            server.clients(40) as socks,
        ):
            for sock in socks:
                sock.sendall(get * 3)
            settled(server.descriptors)
            assert server.stopped_in() < (1.5 if not SANITIZED else 3.0)
    assert server.stats["workers_lost"] == 0


@pytest.mark.serial
@pytest.mark.parametrize("model", names(family="processes", workers="fixed"))
def test_thousands_of_processes_stop_in_time(model):
    """All sleep in accept() on one socket, which ends for all of them at once."""
    workers = 2000 if not SANITIZED else 100
    with serving(model, "--workers", workers) as server:
        assert eventually(lambda: len(server.tree()) == 1 + workers)
        with server.connect() as sock:
            assert echoes(sock)
            assert server.stopped_in() < 1.0 * SLOWER
    assert server.stats["workers_started"] == workers
    assert server.stats["workers_lost"] == 0


@pytest.mark.serial
@pytest.mark.parametrize("model", names(family="processes", workers="fixed"))
def test_a_stop_in_the_middle_of_the_start_is_heard(model):
    workers = 1000 if not SANITIZED else 100
    with serving(model, "--workers", workers) as server:
        assert server.stopped_in() < 2.0 * SLOWER
    assert server.stats["workers_lost"] == 0


@pytest.mark.serial
@pytest.mark.skipif(
    os.geteuid() == 0 and not nobody_may_run(SERVER),
    reason="no limit binds root, and nobody else can run the server",
)
def test_a_stop_shuts_no_listener_that_was_closed_before():
    """Workers that did not start closed theirs; clients have those numbers now."""
    flags = ["--workers", 16]
    with serving("epoll-reuseport", *flags, preexec=limit_tasks(4)) as server:
        settled(server.tasks)
        with server.clients(40) as socks:
            assert all(map(echoes, socks))
            for sock in socks:
                sock.sendall(b"in flight")
            server.stop()
            assert [receive(sock, 9) for sock in socks] == [b"in flight"] * 40
    assert 0 < server.stats["workers_started"] < 16


@unsanitized
@pytest.mark.parametrize("model", names(family="completion"))
@pytest.mark.parametrize("wait", [1, 2, 3, 8, 20])
def test_lost_completions_end_no_server(model, wait, preloaded):
    """io_uring_enter() fails with EBADR: no memory to keep completions in.

    Nobody can tell whose they were. Connections may be closed, but none is forgotten
    (save one whose descriptor's number was lost), and later ones are served.
    """
    with serving(model, preexec=preloaded("uring_faults.c", EBADR_AT=wait)) as server:
        before = settled(server.descriptors)
        socks = []
        for _ in range(20):
            sock = server.connect(timeout=2)
            socks.append(sock)
            answers(sock)
        assert eventually(server.serves)
        for sock in socks:
            sock.close()
        assert eventually(lambda: server.descriptors() <= before + 1)
        stats = server.stop()
    assert stats["errors"]["EBADR"] == 1
    assert stats["requests"] >= 10
