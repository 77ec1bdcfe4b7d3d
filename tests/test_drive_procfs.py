"""What is read of processes and the machine, against psutil and made-up files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

from connlab.drive import procfs


def _python(code: str) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", code], stdout=subprocess.PIPE
    )
    process.stdout.readline()
    return process


@pytest.fixture
def forking():
    """A process with 100 children, each of which sleeps."""
    process = _python("""
import os, time, signal
for _ in range(100):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
print(flush=True)
time.sleep(30)
""")
    yield process.pid
    for child in psutil.Process(process.pid).children():
        child.kill()
    process.kill()
    process.communicate()


def test_cpu_clock_is_that_of_the_process():
    assert procfs.cpu_clock_s(os.getpid()) == pytest.approx(
        time.process_time(), abs=0.05
    )
    assert procfs.cpu_clock_s(2**22 + 1) is None


def test_threads_and_times_agree_with_psutil():
    stop = threading.Event()
    others = [threading.Thread(target=stop.wait) for _ in range(5)]
    for thread in others:
        thread.start()
    try:
        found = procfs.processes(os.getpid())
        assert found.threads == psutil.Process().num_threads()
        times = psutil.Process().cpu_times()
        assert found.user_s == pytest.approx(times.user + times.children_user, abs=0.1)
    finally:
        stop.set()


def test_a_large_family_is_counted_whole_and_looked_at_in_part(forking):
    found = procfs.processes(forking)
    assert found.processes == 101
    assert found.threads == 101
    assert len(found.closely) < 101
    assert sum(share for _pid, share in found.closely) == pytest.approx(101)


def test_memory_of_a_large_family_agrees_with_the_sum_over_all(forking):
    found = procfs.processes(forking)
    everyone = [psutil.Process(forking), *psutil.Process(forking).children()]
    whole = sum(process.memory_full_info().pss for process in everyone)
    assert procfs.pss_bytes(found.closely) == pytest.approx(whole, rel=0.1)


def test_a_process_that_is_gone_is_none():
    process = _python("print(flush=True)")
    process.communicate()
    assert procfs.processes(process.pid) is None
    assert procfs.pss_bytes(((process.pid, 1.0),)) is None


def test_waited_children_count():
    process = _python("""
import os, time
if os.fork() == 0:
    until = time.process_time() + 0.3
    while time.process_time() < until: pass
    os._exit(0)
os.wait()
print(flush=True)
time.sleep(30)
""")
    assert procfs.processes(process.pid).cpu_s > 0.28
    process.kill()
    process.communicate()


def test_the_machine_counts_time_that_is_burnt():
    before = procfs.machine()
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    assert procfs.machine().busy_s - before.busy_s > 0.25


def test_the_kernels_own_threads_are_found_or_count_nothing():
    seen = procfs.read_text("/proc/2/comm").strip() == "kthreadd"
    assert bool(procfs._softirq_threads()) == seen
    assert (procfs.softirq_s() > 0) == seen


def test_parsers_of_the_machine():
    assert procfs.parse_stat("cpu  100 5 50 900 7 1 2 30 9 0\ncpu0 1") == (
        pytest.approx(158 * procfs.TICK_S),
        pytest.approx(30 * procfs.TICK_S),
    )
    text = "sockets: used 14\nTCP: inuse 1 orphan 0 tw 7 alloc 1 mem 304\n"
    assert procfs.parse_sockstat(text)["TCP"]["tw"] == 7
    text = "TcpExt: A ListenOverflows\nTcpExt: 3 4\nIpExt: X\nIpExt: 1\n"
    assert procfs.parse_netstat(text) == {"A": 3, "ListenOverflows": 4}
    assert procfs.parse_netstat("") == {}
