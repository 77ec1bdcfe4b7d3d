"""connlab.drive.strace: the system calls of a request."""

import shutil

import pytest
from drive_fakes import models

from connlab.drive import strace

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
    assert strace.parse_strace(STRACE) == calls
    in_german = STRACE.replace(".", ",")
    assert strace.parse_strace(in_german) == calls


def test_calls_per_request_are_what_more_requests_add():
    few = {"accept4": 20, "recvfrom": 800}
    many = {"accept4": 20, "futex": 1000, "mmap": 19, "recvfrom": 800 + 2 * 4000}
    calls = strace.per_request(few, many, requests=4000, rare=0.005)
    assert calls == {"recvfrom": 2.0, "futex": 0.25}
    assert list(calls) == ["recvfrom", "futex"]


def test_two_calls_make_an_echo(build_dir, monkeypatch):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed, so no system calls were counted")
    monkeypatch.setattr(strace, "CALLS_REQUESTS", (5, 25))
    counts = strace.system_calls(models("epoll", "prethread"))
    assert counts.keys() == {"epoll", "prethread"}
    for calls in counts.values():
        assert calls["sendto"] == pytest.approx(1)
        assert calls["recvfrom"] == pytest.approx(1, abs=0.2)
