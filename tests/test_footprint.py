"""connlab.drive.footprint: memory of an idle connection, calls of a request."""

import os
import shutil
import signal

import pytest
from conftest import is_running, wait_for
from drive_fakes import models
from drive_fakes import programs as fakes

from connlab.drive import footprint
from connlab.drive.host import ProgramError
from connlab.drive.running import running

STRACE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.16    0.036421           4      8000           sendto
 31.79    0.018932           4      4100       100 recvfrom
  0.00    0.000000           0         1         1 access
------ ----------- ----------- --------- --------- ----------------
100.00    0.059549           5     12101       101 total
"""


def test_strace_tables_are_read_with_and_without_errors():
    calls = {"sendto": 8000, "recvfrom": 4100, "access": 1}
    assert footprint.parse_strace(STRACE) == calls
    in_german = STRACE.replace(".", ",")
    assert footprint.parse_strace(in_german) == calls


def test_calls_per_request_are_what_more_requests_add():
    few = {"accept4": 20, "recvfrom": 800}
    many = {"accept4": 20, "futex": 1000, "mmap": 19, "recvfrom": 800 + 2 * 4000}
    calls = footprint.per_request(few, many, requests=4000, rare=0.005)
    assert calls == {"recvfrom": 2.0, "futex": 0.25}
    assert list(calls) == ["recvfrom", "futex"]


@pytest.mark.serial
def test_a_thread_takes_more_memory_than_a_connection(build_dir, monkeypatch):
    monkeypatch.setattr(footprint, "REPEATS", 1)
    monkeypatch.setattr(footprint, "IDLE", {"descriptors": 400})
    compared = models("epoll", "thread", "iterative", "pool")
    memory = footprint.idle_memory(compared)
    assert memory.keys() == {"epoll", "thread"}
    assert 50 < memory["epoll"][0] < 2000
    assert 4096 < memory["thread"][0] < 64 * 1024


def test_a_server_that_has_ended_holds_no_memory_that_is_known():
    """None would be a connection that frees memory."""
    with running("good", both=fakes()) as server:
        os.kill(server.handle, signal.SIGKILL)
        wait_for(lambda: not is_running(server.handle))
        with pytest.raises(ProgramError, match="good: "):
            footprint.settled_pss(server)


def test_two_calls_make_an_echo(build_dir, monkeypatch):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed, so no system calls were counted")
    monkeypatch.setattr(footprint, "CALLS_REQUESTS", (5, 25))
    counts = footprint.system_calls(models("epoll", "prethread"))
    assert counts.keys() == {"epoll", "prethread"}
    for calls in counts.values():
        assert calls["sendto"] == pytest.approx(1)
        assert calls["recvfrom"] == pytest.approx(1, abs=0.2)
