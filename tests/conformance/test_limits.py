"""Limits are met, refused, counted and survived."""

import csv
import errno
import os
import resource
import socket
import subprocess

import pytest
from conftest import ran

from tests.conformance.harness import (
    NOBODY,
    SERVER,
    a_worker_each,
    accepting_themselves,
    answers,
    echoes,
    entry,
    eventually,
    limit_a_user,
    limit_descriptors,
    limit_tasks,
    names,
    nobody_may_run,
    serving,
    unsanitized,
)


def try_connect(server, count: int) -> list[socket.socket]:
    """Connect and say a word each; return those served."""
    served = []
    for _ in range(count):
        sock = server.connect(timeout=2)
        if answers(sock):
            served.append(sock)
        else:
            sock.close()
    return served


def leave(served: list[socket.socket], server) -> None:
    """Close connections that still echo; then the server has to serve again."""
    assert all(echoes(sock) for sock in served)
    for sock in served:
        sock.close()
    assert eventually(server.serves)


# A process per client has a table of its own and never more than one client in it.
DESCRIPTORS = [n for n in names(concurrent=True) if entry(n)["family"] != "processes"]


@pytest.mark.parametrize("model", DESCRIPTORS)
def test_out_of_descriptors_it_refuses_counts_and_goes_on(model):
    flags, preexec = a_worker_each(model, 64), limit_descriptors(40)
    with serving(model, *flags, preexec=preexec) as server:
        served = try_connect(server, 60)
        assert 5 < len(served) < 60
        leave(served, server)
        stats = server.stop()
    # One may have left a queue before any of several loops came to refuse it.
    assert stats["refused"]["descriptors"] >= 59 - len(served) > 0


@unsanitized
@pytest.mark.parametrize("model", sorted({*DESCRIPTORS} & {*accepting_themselves()}))
def test_with_the_machines_table_full_it_refuses_and_goes_on(model, preloaded):
    few, full = limit_descriptors(40), preloaded("faults.c", TABLE=1)
    flags = a_worker_each(model, 64)
    with serving(model, *flags, preexec=lambda: (few(), full())) as server:
        served = try_connect(server, 60)
        assert 5 < len(served) < 40
        leave(served, server)
        stats = server.stop()
    assert stats["refused"]["descriptors"] >= 60 - len(served)


@pytest.mark.parametrize("model", names(holds="fd_setsize"))
def test_beyond_fd_setsize_it_refuses_and_counts(model):
    with serving(model) as server:
        served = try_connect(server, 1100)
        assert 1000 < len(served) < 1024
        assert echoes(served[-1])
        for sock in served:
            sock.close()
        stats = server.stop()
    refused = stats["refused"]["fd_setsize"]
    assert refused == stats["refused_total"] == 1100 - len(served)


@pytest.fixture
def bound() -> None:
    """Skip where root cannot serve as somebody who has a limit."""
    if os.geteuid() == 0 and not nobody_may_run(SERVER):
        pytest.skip(f"no limit binds root, and user {NOBODY} cannot run {SERVER}")


@pytest.mark.serial  # what else this user starts meanwhile counts as well
@pytest.mark.parametrize("model", names(workers="per-connection"))
def test_out_of_threads_or_processes_it_refuses_and_counts(model, bound):
    kind = entry(model)["holds"]
    with serving(model, preexec=limit_tasks(20)) as server:
        served = try_connect(server, 40)
        assert 5 < len(served) < 40
        leave(served, server)
        stats = server.stop()
    assert stats["refused"][kind] >= 40 - len(served)


@unsanitized
@pytest.mark.parametrize("model", ["thread", "thread-pair", "poll-groups"])
@pytest.mark.parametrize(
    ("error", "limit"), [(errno.EAGAIN, "threads"), (errno.ENOMEM, "memory")]
)
def test_why_no_thread_starts_is_what_the_refusal_is_counted_under(
    model, error, limit, preloaded
):
    with serving(model, preexec=preloaded("faults.c", NO_THREAD=error)) as server:
        assert try_connect(server, 3) == []
        stats = server.stop()
    assert stats["refused"][limit] == stats["refused_total"] == 3


@unsanitized
@pytest.mark.parametrize("model", names(family="completion"))
def test_without_memory_for_its_rings_it_names_the_limit_and_ends(model, bound):
    """Linux 6.18 counts rings as locked memory; some kernels before do not."""
    few = limit_a_user(resource.RLIMIT_MEMLOCK, 64 << 10)
    try:
        done = ran(SERVER, model, preexec_fn=few, timeout=5)
    except subprocess.TimeoutExpired:
        with serving(model, preexec=few) as server:
            assert server.serves()
        pytest.skip("this kernel does not count rings as locked memory")
    assert done.returncode in (1, 2)  # 2: a small ring was refused before
    assert "64 KiB (ulimit -l" in done.stderr


@pytest.mark.parametrize("model", names())
def test_two_processes_share_one_port_and_add_up(model):
    with serving(model, "--processes", 2) as server:
        for _ in range(40):
            with server.connect() as sock:
                assert echoes(sock)
        stats = server.stop()
    assert stats["processes"] == 2
    assert stats["accepted"] == stats["requests"] == 40
    per_worker = stats["requests_per_worker"]
    half = len(per_worker) // 2
    assert sum(per_worker) == 40
    assert sum(per_worker[:half]) > 0, "the first process served nobody"
    assert sum(per_worker[half:]) > 0, "the second process served nobody"
    assert stats["bytes_in"] == stats["bytes_out"] == 40 * 5


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("model", names())
def test_the_log_has_a_row_for_each_connection(model, host, tmp_path):
    if host == "::1":
        try:
            socket.create_server((host, 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("::1 cannot be bound here")
    path = tmp_path / "log.csv"
    ports = []
    with serving(model, "--listen", f"[{host}]:0", "--log", path) as server:
        for n in range(1, 4):
            with server.connect() as sock:
                ports.append(sock.getsockname()[1])
                for _ in range(n):
                    assert echoes(sock)
    rows = {int(row["port"]): row for row in csv.DictReader(path.open())}
    assert sorted(rows) == sorted(ports)
    for n, port in enumerate(ports, start=1):
        assert rows[port]["peer"] == host
        assert int(rows[port]["requests"]) == n
        assert int(rows[port]["bytes_in"]) == int(rows[port]["bytes_out"]) == 5 * n
        assert 0 <= float(rows[port]["seconds"]) < 60
