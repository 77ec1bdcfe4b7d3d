"""Stopped, killed or orphaned, the load generator says what it saw and is gone."""

import contextlib
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import conftest
import psutil
import pytest
from conftest import is_running

from tests.client.harness import FakeServer, command, echo, serving, wait_for


@contextlib.contextmanager
def running(flags: str) -> Iterator[tuple[subprocess.Popen, FakeServer]]:
    """Start the client on an echo server of ours; yield both."""
    with serving(echo) as server:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command(server.port, flags), **pipes) as process:
            yield process, server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("processes", [1, 2])
def test_a_signal_ends_it_with_a_result(number, processes):
    flags = f"--connections 4 --duration 30 --processes {processes}"
    with running(flags) as (process, server):
        wait_for(lambda: server.bytes_in > 10000)
        process.send_signal(number)
        began = time.monotonic()
        result = json.loads(process.stdout.read())
    assert process.returncode == 0
    assert time.monotonic() - began < 2
    assert result["stop"] == "interrupted"
    assert result["requests"]["completed"] > 100
    assert result["window"]["seconds"] < 20


def test_loss_of_one_process_is_said():
    """The others stop, and what they saw is printed, but it is no success."""
    flags = "--connections 4 --duration 30 --processes 2"
    with running(flags) as (process, server):
        wait_for(lambda: server.bytes_in > 1000)
        psutil.Process(process.pid).children()[0].kill()
        output, diagnostics = process.communicate(timeout=10)
    assert process.returncode == 1
    assert b"killed by signal 9" in diagnostics
    assert json.loads(output)["stop"] == "interrupted"


def test_children_that_it_did_not_fork_are_none_of_its_processes():
    """The loss of one that it has from the shell that became it ended the load."""
    with serving(echo) as server:
        words = command(server.port, "--connections 4 --duration 0.5 --processes 2")
        script = f"sleep 60 & kill -9 $!; exec {shlex.join(map(str, words))}"
        done = conftest.ran("sh", "-c", script, timeout=30)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stop"] == "duration"


def test_loss_of_all_processes_leaves_no_time():
    """None said when it ended: the client had lived for 584 years."""
    with running("--connections 4 --duration 30 --processes 2") as (process, server):
        wait_for(lambda: server.bytes_in > 1000)
        workers = psutil.Process(process.pid).children()
        for worker in workers:
            worker.suspend()
        for worker in workers:
            worker.kill()
        output, _ = process.communicate(timeout=10)
    assert process.returncode == 1
    assert json.loads(output)["self"]["seconds"] == 0


def test_dies_with_its_parent():
    """Killed with SIGKILL, a driver cannot clean up; the kernel does."""
    script = (
        "import subprocess, sys, time;"
        "p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); time.sleep(60)"
    )
    with serving(echo) as server:
        flags = "--connections 4 --duration 60 --processes 2"
        words = [sys.executable, "-c", script, *command(server.port, flags)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
            child = int(parent.stdout.readline())
            wait_for(lambda: server.bytes_in > 1000)
            workers = psutil.Process(child).children()
            parent.kill()
    assert len(workers) == 2
    for pid in [child, *(worker.pid for worker in workers)]:
        wait_for(lambda pid=pid: not is_running(pid))


def test_interrupted_while_connecting():
    with running("--connections 1000 --connect-rate 20") as (process, server):
        wait_for(lambda: len(server.peers) > 3)
        process.send_signal(signal.SIGINT)
        result = json.loads(process.stdout.read())
    assert result["stop"] == "interrupted"
    assert 3 < result["connections"]["established"] < 500
    assert result["connections"]["asked"] == 1000
    assert result["window"]["seconds"] == 0


@pytest.mark.parametrize("processes", [1, 3])
def test_interrupted_before_the_first_slice_files_have_their_columns(
    tmp_path, processes
):
    names = ("slices", "histogram", "per-connection")
    files = " ".join(f"--{name} {tmp_path / name}" for name in names)
    load = f"--connections 1000 --connect-rate 20 --processes {processes}"
    with running(f"{load} --slice 20ms {files}") as (process, server):
        wait_for(lambda: len(server.peers) > 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    for name in names:
        columns, *rows = (tmp_path / name).read_text().splitlines()
        assert "target" in columns.split(",")
        assert columns not in rows
    assert rows  # of those who had connected
