"""What is read of processes and the machine, against psutil and made-up files."""

import contextlib
import math
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from connlab.drive import capacity, machine, procfs


@contextlib.contextmanager
def _python(code: str) -> Iterator[int]:
    """Run code until it has printed a line; give its process for a block."""
    words = [sys.executable, "-S", "-E", "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            for child in psutil.Process(process.pid).children():
                child.kill()
            process.kill()


def test_where_a_process_listens_is_read_from_its_sockets():
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
        socket.socket(type=socket.SOCK_DGRAM) as datagrams,
        socket.create_connection(four.getsockname()),
    ):
        datagrams.bind(("127.0.0.1", 0))
        found = procfs.listeners([os.getpid()])
        for protocol, sock in [("tcp", four), ("tcp", six), ("udp", datagrams)]:
            place = procfs.Listener(protocol, *sock.getsockname()[:2])
            assert found.count(place) == 1
        assert not procfs.listeners([])


def test_cpu_clock_is_that_of_the_process():
    own_s = pytest.approx(time.process_time(), abs=0.05)
    assert procfs.cpu_clock_s(os.getpid()) == own_s
    assert procfs.cpu_clock_s(2**22 + 1) is None


def test_threads_and_times_agree_with_psutil():
    code = """
import threading, time
for _ in range(5):
    threading.Thread(target=time.sleep, args=[30], daemon=True).start()
while time.process_time() < 0.4:
    sum(range(100_000))
print(flush=True)
time.sleep(30)
"""
    with _python(code) as pid:
        usage = procfs.processes(pid)
        assert usage.threads == psutil.Process(pid).num_threads() == 6
        times = psutil.Process(pid).cpu_times()
        assert usage.user_s == pytest.approx(times.user, abs=0.1)
        assert usage.user_s > 0.1


def test_a_large_family_is_counted_whole_and_looked_at_in_part():
    code = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
print(flush=True)
time.sleep(30)
"""
    with _python(code) as pid:
        family = procfs.processes(pid)
        assert family.processes == 101
        assert family.threads == 101
        assert len(family.weights) < 101
        assert sum(share for _pid, share in family.weights) == pytest.approx(101)
        members = [psutil.Process(pid), *psutil.Process(pid).children()]
        whole = sum(process.memory_full_info().pss for process in members)
        assert procfs.pss_bytes(family.weights) == pytest.approx(whole, rel=0.1)


def test_a_process_that_is_gone_is_none():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert procfs.processes(gone.pid) is None
    assert procfs.pss_bytes(((gone.pid, 1.0),)) is None


def test_waited_children_count():
    code = """
import os, time
if os.fork() == 0:
    until = time.process_time() + 0.3
    while time.process_time() < until: pass
    os._exit(0)
os.wait()
print(flush=True)
time.sleep(30)
"""
    with _python(code) as pid:
        assert procfs.processes(pid).cpu_s > 0.28


def test_children_that_end_together_are_not_missed():
    """A server that forks for each client has none left when the load is over."""
    code = """
import os, sys, time
for _ in range(60):
    if os.fork() == 0:
        until = time.process_time() + 0.01
        while time.process_time() < until: pass
        os.read(0, 1)
        os._exit(0)
time.sleep(1.5)
print(flush=True)
for _ in range(60): os.wait()
time.sleep(30)
"""
    words = [sys.executable, "-S", "-E", "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as parent:
        try:
            parent.stdout.readline()
            readings = [procfs.processes(parent.pid).cpu_s]
            parent.stdin.close()
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                readings.append(procfs.processes(parent.pid).cpu_s)
        finally:
            parent.kill()
    assert readings[0] > 60 * 0.01
    assert min(readings) > 0.95 * readings[0]


FEATURES = "x86_Thread_features:\t\nx86_Thread_features_locked:\t\n"


@pytest.mark.parametrize("after", ["", FEATURES])
def test_switches_are_found_whatever_stands_after_them(monkeypatch, after):
    """The lines on shadow stacks are Linux 6.6's."""
    switches = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"
    text = f"Name:\tserver\nThreads:\t2\n{switches}{after}"
    monkeypatch.setattr(procfs, "_listed", lambda folder: ["7", "8"])
    monkeypatch.setattr(procfs, "read_text", lambda path: text)
    assert procfs.context_switches([7]) == (24, 6)
    monkeypatch.setattr(procfs, "read_text", lambda path: "")
    assert procfs.context_switches([7]) is None


def test_the_machine_counts_time_that_is_burnt():
    before = procfs.machine()
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    assert procfs.machine().busy_s - before.busy_s > 0.25


def test_what_a_kernel_thread_took_since_boot_is_a_share(monkeypatch):
    files = {"/proc/uptime": "200.00 380.00", "/proc/2/task/2/children": "7 8 9 "}
    files |= {"/proc/7/comm": "kdamond.0", "/proc/8/comm": "ksoftirqd/0"}
    files |= {"/proc/9/comm": "kdamond.1"}
    monkeypatch.setattr(procfs, "read_text", lambda path: files.get(path, ""))
    spent = {7: 3.0, 9: 1.0}
    monkeypatch.setattr(procfs, "cpu_clock_s", spent.get)
    assert procfs.share_since_boot("kdamond") == 0.02
    assert procfs.share_since_boot("kcompactd") is None
    files.clear()  # where nothing of the kernel's is shown
    assert procfs.share_since_boot("kdamond") is None


def test_the_kernels_own_threads_are_found_or_count_nothing():
    visible = procfs.read_text("/proc/2/comm").strip() == "kthreadd"
    assert bool(procfs._softirq_threads()) == visible
    assert (procfs.softirq_s() > 0) == visible


STAT = """\
cpu  100 0 0 900 0 0 0 30 0 0
cpu0 70 0 0 450 0 0 0 10 0 0
cpu1 20 0 0 450 0 0 0 20 0 0
cpu10 10 0 0 450 0 0 0 0 0 0
intr 5
"""


@pytest.mark.parametrize(
    ("cores", "busy", "stolen"),
    [
        (None, 100, 30),
        ({1}, 20, 20),
        ({0, 10}, 80, 10),
        ({1, 4}, 100, 30),
        (set(), 0, 0),
    ],
)
def test_the_time_of_other_cores_is_not_ours(cores, busy, stolen):
    """A core without a line stands for numbers that the container does not have."""
    times = procfs.parse_stat(STAT, cores)
    assert times == pytest.approx((busy * procfs.TICK_S, stolen * procfs.TICK_S))


def test_the_cores_of_this_machine_together_are_all_of_it():
    before = procfs.machine()
    machine = procfs.machine(range(os.cpu_count()))
    after = procfs.machine()
    cut_s = 5 * procfs.TICK_S * os.cpu_count()  # of each core, of each kind of time
    assert before.busy_s - cut_s <= machine.busy_s <= after.busy_s
    assert before.softirq_s <= machine.softirq_s <= after.softirq_s


@pytest.fixture
def cgroups(tmp_path, monkeypatch):
    """Return a function that writes files of cgroups, of which ours are a/b and c."""
    groups = {"": "/a/b", "cpu": "/c", "memory": "/c", "pids": "/c"}
    monkeypatch.setattr(procfs, "CGROUPS", str(tmp_path))
    monkeypatch.setattr(procfs, "cgroup_paths", lambda: groups)

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")

    return write


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"a/b/cpu.max": "max 100000"}, None),
        ({"a/b/cpu.max": "300000 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "200000 100000"}, 2.0),
        ({"cpu/c/cpu.cfs_quota_us": "-1", "cpu/c/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
    ],
)
def test_the_least_quota_counts_of_our_cgroup_and_those_around_it(
    cgroups, files, quota
):
    cgroups(files)
    assert procfs.cpu_quota() == quota


PIDS = {"a/b/pids.max": "max", "a/pids.max": "90", "pids.max": "7000"}
MEMORY = {"a/memory.max": "1000000", "a/memory.current": "600000"}
STATES = "active_file 3\ninactive_file 50000\n"


@pytest.mark.parametrize(
    ("files", "pids", "free"),
    [
        ({}, None, 1 << 30),
        ({"a/b/pids.max": "max", "a/b/memory.max": "max"}, "max", 1 << 30),
        (PIDS, "90", 1 << 30),
        (MEMORY, None, 400_000),
        (MEMORY | {"a/memory.stat": STATES}, None, 450_000),
        (MEMORY | {"a/memory.current": "1200000"}, None, 0),
        (
            {
                "memory/c/memory.limit_in_bytes": "900000",
                "memory/c/memory.usage_in_bytes": "100000",
                "memory/c/memory.stat": "total_inactive_file 1000\n",
                "pids/pids.max": "60",
            },
            "60",
            801_000,
        ),
    ],
)
def test_limits_of_all_cgroups_around_us_are_seen(
    cgroups, monkeypatch, files, pids, free
):
    cgroups(files)
    monkeypatch.setattr(procfs, "field_bytes", lambda path, name: 1 << 30)
    assert machine.cgroup()["pids"] == pids
    assert capacity.free_bytes() == free


@pytest.mark.parametrize(
    ("running", "of_user", "free"),
    [(900, None, 70), (9950, None, 50), (12_000, None, 0), (900, 85, 55)],
)
def test_a_limit_counts_only_the_tasks_that_are_under_it(
    cgroups, monkeypatch, running, of_user, free
):
    """What runs outside of a container, or for other users, takes none of theirs."""
    cgroups({"a/pids.max": "90", "a/pids.current": "20"})
    monkeypatch.setattr(machine, "sysctl", lambda name: "10000")
    monkeypatch.setattr(machine, "limits", lambda: {"processes": {"soft": of_user}})
    monkeypatch.setattr(procfs, "tasks", lambda pids: 30)
    read = procfs.read_text
    load = {"/proc/loadavg": f"0.20 0.18 0.12 1/{running} 11206"}
    monkeypatch.setattr(procfs, "read_text", lambda path: load.get(path) or read(path))
    assert (capacity.tasks(), capacity.free_tasks()) == (of_user or 90, free)


def test_a_process_belongs_to_its_user():
    assert os.getpid() in procfs.owned(os.getuid())
    assert os.getpid() not in procfs.owned(os.getuid() + 1)


def test_a_machine_that_tells_no_limit_of_tasks_has_the_least(monkeypatch):
    monkeypatch.setattr(procfs, "read_text", lambda path: "")
    monkeypatch.setattr(machine, "limits", lambda: {"processes": {"soft": None}})
    assert capacity.tasks() == capacity.PID_MAX


def test_controllers_that_are_mounted_together_have_one_cgroup(monkeypatch):
    text = "4:cpu,cpuacct:/a:b\n0::/\n"
    monkeypatch.setattr(procfs, "read_text", lambda path: text)
    assert procfs.cgroup_paths() == {"cpu": "/a:b", "cpuacct": "/a:b", "": "/"}


def test_parsers_of_the_machine():
    assert procfs.parse_stat("cpu  100 5 50 900 7 1 2 30 9 0\ncpu0 1") == (
        pytest.approx(158 * procfs.TICK_S),
        pytest.approx(30 * procfs.TICK_S),
    )
    text = "sockets: used 14\nTCP: inuse 1 orphan 0 tw 7 alloc 1 mem 304\n"
    assert procfs.parse_sockstat(text, "TCP")["tw"] == 7
    assert procfs.parse_sockstat(text, "TCP6") == {}
    text = "TcpExt: A ListenOverflows\nTcpExt: 3 4\nIpExt: X\nIpExt: 1\n"
    assert procfs.parse_netstat(text) == {"A": 3, "ListenOverflows": 4}
    assert procfs.parse_netstat("") == {}


@pytest.mark.parametrize(
    ("limit", "capabilities", "most"),
    [
        (8 << 20, "0000000000000000", 8 << 20),
        (8 << 20, "0000000000004000", math.inf),  # CAP_IPC_LOCK
        (resource.RLIM_INFINITY, "0000000000000000", math.inf),
        (8 << 20, "", 8 << 20),
    ],
)
def test_who_may_lock_any_memory_has_rings_without_end(
    monkeypatch, limit, capabilities, most
):
    status = f"Name:\tx\nCapEff:\t{capabilities}\n" if capabilities else ""
    monkeypatch.setattr(procfs, "read_text", lambda path: status)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (limit, limit))
    assert capacity.lockable_bytes() == most


@pytest.mark.parametrize(("then", "runs"), [("pass", True), ("time.sleep(9)", False)])
def test_who_looks_again_and_again_is_told_from_who_waits(then, runs):
    """Also where other programs leave it no core: it would run."""
    code = f"import time; print('begun', flush=True)\nwhile True: {then}"
    with _python(code) as pid:
        time.sleep(0.2)
        looks = []
        for _ in range(9):
            time.sleep(0.01)
            looks.append(procfs.runs(pid))
    assert (sum(looks) > 5) is runs
