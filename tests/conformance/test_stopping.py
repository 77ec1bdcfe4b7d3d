"""How a server ends: on a signal, with its parent, and on a bad start."""

import errno
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import psutil
import pytest
from conftest import is_running

from tests.conformance.harness import (
    BUILD,
    SERVER,
    SLOWER,
    TSAN,
    echoes,
    ended_by,
    entry,
    eventually,
    fill,
    names,
    receive,
    receive_all,
    refused,
    registry,
    serving,
    settled,
)

MODELS = names()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_statistics_and_all_answers(model, signum):
    with serving(model) as server, server.connect() as sock:
        assert echoes(sock)
        sock.sendall(b"in flight")
        assert server.stopped_in(signum) < 2.0 * SLOWER
        assert receive_all(sock) == b"in flight"
    assert server.stats["accepted"] == 1


@pytest.mark.parametrize("model", MODELS)
def test_a_client_that_never_reads_cannot_delay_the_stop(model):
    with serving(model) as server, server.connect() as mute:
        fill(mute)
        assert server.stopped_in() < 3.0 * SLOWER


@pytest.mark.parametrize("model", [n for n in MODELS if n in ("pool", "prefork-pass")])
def test_who_waits_for_a_worker_until_a_stop_is_overdue_cannot_delay_it(model, root):
    """The first is cut, which lets in the next, who does not read its answer either."""
    flags = ["--workers", 1, "--workload", "http", "--root", root]
    with serving(model, *flags) as server, server.clients(3) as mute:
        for sock in mute:
            sock.sendall(b"GET /large.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        assert receive(mute[0], 12) == b"HTTP/1.1 200"
        settled(server.descriptors)
        stats = server.stop()
    assert stats["accepted"] == 3
    assert stats["errors"] == {"EPIPE": 3}
    assert stats["workers_lost"] == 0


PARENT = """
import subprocess, sys, threading
def start():
    servers.append(subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE))
    print(servers[-1].stdout.readline().decode(), end="", flush=True)
servers = []
start()
for _ in range(2):
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    sys.stdin.readline()
sys.stdin.readline()
"""


@pytest.mark.parametrize("model", MODELS)
def test_it_outlives_the_thread_that_started_it_but_not_the_process(model):
    """The kernel's signal says that the thread is gone which forked, not the process.

    One server is started by the parent's main thread, two by threads that end then;
    with the parent, all of them and their children are gone.
    """
    few = ["--workers", "2"] if entry(model)["workers"] == "fixed" else []
    command = [sys.executable, "-c", PARENT, SERVER, model, *few]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ExitStack() as stack:
        parent = stack.enter_context(subprocess.Popen(command, **pipes))
        servers, socks = [], []
        for number in range(3):
            ready = json.loads(parent.stdout.readline())
            servers.append(psutil.Process(ready["pid"]))
            sock = socket.create_connection((ready["host"], ready["port"]))
            socks.append(stack.enter_context(sock))
            assert all(map(echoes, socks))
            if number:
                parent.stdin.write(b"go on\n")
                parent.stdin.flush()
        families = [[server, *server.children()] for server in servers]
        pids = [process.pid for family in families for process in family]
        time.sleep(0.3 * TSAN)  # a call that waits begins again before the signal
        assert all(map(echoes, socks))
        parent.kill()
        assert eventually(lambda: not any(map(is_running, pids)))


@pytest.mark.parametrize("model", MODELS)
def test_a_driver_that_reads_no_more_leaves_the_status_as_it_is(model):
    """Its statistics meet a pipe that is closed, which is no reason to complain."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([SERVER, model], **pipes) as process:
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.stdout.close()
        _, errors = ended_by(process)
        assert (process.returncode, errors) == (0, b"")


FOREIGN = """
import ctypes, subprocess, sys, threading
NEWPID, PIPE = 0x20000000, subprocess.PIPE
def start():
    ctypes.CDLL(None).unshare(NEWPID)
    for command in ["cat"], sys.argv[1:]:  # the first is the init of the namespace
        programs.append(subprocess.Popen(command, stdin=PIPE, stdout=PIPE))
    print(programs[-1].stdout.readline().decode(), end="", flush=True)
    sys.stdin.readline()
programs = []
thread = threading.Thread(target=start)
thread.start()
thread.join()
sys.stdin.readline()
"""


def test_it_outlives_the_thread_of_a_parent_in_another_pid_namespace():
    """As of docker exec, whose helper leaves; with the namespace it is gone."""
    unshared = subprocess.run(["unshare", "--pid", "--fork", "true"], check=False)
    if unshared.returncode:
        pytest.skip("no PID namespaces")
    command = [sys.executable, "-c", FOREIGN, SERVER, "epoll"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as parent:
        ready = json.loads(parent.stdout.readline())
        with socket.create_connection((ready["host"], ready["port"])) as sock:
            assert echoes(sock)
            parent.stdin.write(b"go on\n")
            parent.stdin.flush()
            time.sleep(0.3 * TSAN)
            assert echoes(sock)
            parent.kill()
            assert receive_all(sock) == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["MODEL is missing", "epoll"]),
        (["epol"], ["epol", "epoll"]),
        (["epoll", "thread"], ["thread", "one MODEL"]),
        (["epoll", "--workload", "nope"], ["--workload", "nope", "echo"]),
        (["epoll", "--processes", "0"], ["--processes", "0", "1 to 1024"]),
        (["epoll", "--processes", "two"], ["--processes", "two", "whole number"]),
        (["epoll", "--processes", "1.5"], ["--processes", "1.5", "whole number"]),
        (["epoll", "--backlog", "-1"], ["--backlog", "-1", "from 1"]),
        (["epoll", "--listen", "nowhere"], ["--listen", "nowhere", "HOST:PORT"]),
        (["epoll", "--listen", "127.0.0.1:70000"], ["70000", "65535"]),
        (["epoll", "--listen", "127.0.0.1:1.5"], ["1.5", "port from 0"]),
        (["epoll", "--listen", "127.0.0.1:0x50"], ["0x50", "port from 0"]),
        (["epoll", "--listen", ":7000"], [":7000", "HOST:PORT"]),
        (["epoll", "--listen", "example:0"], ["--listen", "example", "numeric"]),
        (["epoll", "--workers", "4"], ["--workers", "4", "no fixed workers"]),
        (["epoll", "--queue", "4"], ["--queue", "4", "no queue"]),
        (["epoll", "--delay-kind", "nap"], ["--delay-kind", "nap", "sleep or spin"]),
        (["epoll", "--root", "www"], ["--root", "www", "workload echo"]),
        (["epoll", "--buckets", "9"], ["--buckets", "9", "workload echo"]),
        (["epoll", "--colour"], ["--colour", "no such flag"]),
        (["epoll", "--worker=3"], ["--worker=3", "--workers"]),
        (["epoll", "--log"], ["--log", "(nothing)", "a file"]),
        (["epoll", "--log="], ["--log", "a file"]),
        (["epoll", "--busy-wait=5"], ["--busy-wait 5", "takes no value"]),
    ],
)
def test_bad_usage_names_flag_value_and_what_is_allowed(arguments, words):
    message = refused(*arguments)
    assert [word for word in words if word not in message] == []


def test_failed_set_up_names_the_call_and_exits_1():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused("epoll", "--listen", f"127.0.0.1:{port}", status=1)
    reason = os.strerror(errno.EADDRINUSE)
    assert message.startswith(f"server: bind 127.0.0.1:{port}: {reason}")


def test_a_log_that_cannot_be_written_is_a_failed_set_up():
    message = refused("epoll", "--log", BUILD / "no/such/place.csv", status=1)
    assert os.strerror(errno.ENOENT) in message
    message = refused("epoll", "--log", "/dev/full", status=1)
    assert message == f"server: write --log: {os.strerror(errno.ENOSPC)}\n"


def test_a_log_that_grows_too_large_is_said_and_who_is_connected_is_served(tmp_path):
    """A file of so many bytes has room for the header and a row or two."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    path = tmp_path / "log.csv"
    with serving("epoll", "--log", path, preexec=limit) as server:
        for _ in range(20):
            with server.connect() as sock:
                assert echoes(sock)
        stats = server.stop()
    assert stats["accepted"] == 20
    assert f"write --log: {os.strerror(errno.EFBIG)}" in server.stderr
    assert path.stat().st_size == 100


@pytest.mark.parametrize("backlog", [1, 5, 20])
def test_the_kernel_keeps_as_many_as_the_backlog_says(backlog):
    """And one, of those whom a server that stands still has not accepted."""
    with (
        serving("epoll", "--backlog", backlog) as server,
        ExitStack() as stack,
        server.halted(),
    ):
        socks = [stack.enter_context(socket.socket()) for _ in range(backlog + 5)]
        for sock in socks:
            sock.setblocking(False)
            sock.connect_ex(server.address)
        connected = select.select([], socks, [], 0.5)[1]
    assert len(connected) == backlog + 1


def test_the_list_names_what_design_asks_for():
    for model in registry()["models"]:
        assert model["available"] == (model["reason"] is None)
        assert model["family"] in {
            "blocking", "processes", "threads", "readiness", "completion", "coroutine",
        }  # fmt: skip
        assert model["holds"] in {
            "one", "fd_setsize", "threads", "processes", "workers", "descriptors",
        }  # fmt: skip
    assert registry()["workloads"][0]["name"] == "echo"
