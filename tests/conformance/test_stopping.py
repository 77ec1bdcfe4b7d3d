"""How a server ends: on a signal, with its parent, and on a bad start."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import is_running

from tests.conformance.harness import (
    BUILD,
    SERVER,
    SLOWER,
    TSAN,
    echoes,
    eventually,
    fill,
    names,
    refused,
    registry,
    serving,
)

MODELS = names()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_statistics(model, signum):
    with serving(model) as server, server.connect() as sock:
        assert echoes(sock)
        assert server.stopped_in(signum) < 2.0 * SLOWER
        assert sock.recv(1) == b""
    assert server.stats["accepted"] == 1


@pytest.mark.parametrize("model", MODELS)
def test_a_client_that_never_reads_cannot_delay_the_stop(model):
    with serving(model) as server, server.connect() as mute:
        fill(mute)
        assert server.stopped_in() < 3.0 * SLOWER


@pytest.mark.parametrize("model", MODELS)
def test_what_was_sent_before_the_stop_is_answered(model):
    with serving(model) as server, server.connect() as sock:
        assert echoes(sock)
        sock.sendall(b"in flight")
        server.stop()
        assert sock.recv(100) == b"in flight"


PARENT = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
line = server.stdout.readline()
sys.stdout.write(line.decode())
sys.stdout.flush()
time.sleep(60)
"""


@pytest.mark.parametrize("model", MODELS)
def test_it_dies_with_its_parent_and_so_do_its_children(model):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, SERVER, model], stdout=subprocess.PIPE
    )
    ready = json.loads(parent.stdout.readline())
    with socket.create_connection((ready["host"], ready["port"])) as sock:
        assert echoes(sock)
        group = [ready["pid"], *children(ready["pid"])]
        parent.kill()
        parent.wait()
        parent.stdout.close()
        assert eventually(lambda: not any(map(is_running, group)))


PARENT_THREAD = """
import json, subprocess, sys, threading
def start():
    global server
    server = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
    line = server.stdout.readline()
    sys.stdout.write(line.decode())
    sys.stdout.flush()
for _ in range(2):
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    sys.stdin.readline()
"""


@pytest.mark.parametrize("model", MODELS)
def test_it_outlives_the_thread_that_started_it_but_not_the_process(model):
    """The kernel's signal says that the thread is gone which forked, not the process.

    Of the parent's two threads that start a server each, both end; the second time
    around the first server has lived through two such ends.
    """
    command = [sys.executable, "-c", PARENT_THREAD, SERVER, model]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as parent:
        started = []
        for _ in range(2):
            started.append(json.loads(parent.stdout.readline()))
            for ready in started:
                with socket.create_connection((ready["host"], ready["port"])) as sock:
                    assert echoes(sock)
            parent.stdin.write(b"go on\n")
            parent.stdin.flush()
        time.sleep(0.3 * TSAN)  # a call that waits begins again before the signal
        parent.kill()
        assert eventually(lambda: not any(is_running(r["pid"]) for r in started))


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [SERVER, *arguments], capture_output=True, text=True, timeout=10
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["MODEL is missing", "epoll"]),
        (["epol"], ["epol", "epoll"]),
        (["epoll", "thread"], ["thread", "one MODEL"]),
        (["epoll", "--workload", "nope"], ["--workload", "nope", "echo"]),
        (["epoll", "--processes", "0"], ["--processes", "0", "1 to 1024"]),
        (["epoll", "--processes", "two"], ["--processes", "two", "whole number"]),
        (["epoll", "--backlog", "-1"], ["--backlog", "-1", "from 1"]),
        (["epoll", "--listen", "nowhere"], ["--listen", "nowhere", "HOST:PORT"]),
        (["epoll", "--listen", "127.0.0.1:70000"], ["70000", "65535"]),
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
        done = run("epoll", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"server: bind: {os.strerror(errno.EADDRINUSE)}")


def test_unwritable_log_is_a_failed_set_up():
    done = run("epoll", "--log", str(BUILD / "no" / "such" / "place.csv"))
    assert done.returncode == 1
    assert os.strerror(errno.ENOENT) in done.stderr


def test_the_list_names_what_design_asks_for():
    for model in registry()["models"]:
        assert model["available"] == (model["reason"] is None)
        assert model["family"] in {
            "blocking", "processes", "threads", "readiness", "completion", "coroutine",
        }  # fmt: skip
        assert model["holds"] in {
            "one", "fd_setsize", "threads", "processes", "workers", "descriptors",
        }  # fmt: skip
    labels = [model["label"] for model in registry()["models"]]
    assert len(set(labels)) == len(labels)
    assert registry()["workloads"][0]["name"] == "echo"
