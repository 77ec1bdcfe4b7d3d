"""What limits a machine, judged on machines that nobody has."""

import functools
import math
import os
import resource
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest

from connlab import drive, schema
from connlab.drive import checkup


def _facts(**changes) -> dict:
    facts = {
        "machine": {
            "kernel": "6.1",
            "libc": "glibc 2.36",
            "architecture": "x86_64",
            "cpu": "a processor",
            "governor": None,
            "mitigations": {"meltdown": "Mitigation: PTI", "l1tf": "Not affected"},
            "hypervisor": False,
            "cgroup": {"pids": "max"},
            "limits": {
                "descriptors": {"soft": 1024, "hard": 1_048_576},
                "processes": {"soft": None, "hard": None},
            },
            "sysctls": {
                "fs.file-max": "9223372036854775807",
                "fs.nr_open": "1048576",
                "kernel.threads-max": "200000",
                "kernel.pid_max": "4194304",
                "vm.max_map_count": "65530",
                "net.core.somaxconn": "4096",
                "net.ipv4.ip_local_port_range": "32768 60999",
                "kernel.io_uring_disabled": "0",
            },
        },
        "cores": [0, 1, 2, 3],
        "compiler": {"uring": True},
        "programs": {},
        "memory_available_bytes": 64 << 30,
        "lockable_bytes": 8 << 20,
        "busy": 0.0,
        "timer_late_us": 60.0,
        "tools": {"cc": True, "redis-server": True, "quarto": True},
        "lacks": dict.fromkeys(checkup._PARTS),
        "servers": {"go": True, "nginx": True},
    }
    for path, value in changes.items():
        *steps, last = path.split("/")
        functools.reduce(dict.__getitem__, steps, facts)[last] = value
    return facts


def _model(holds: str, **more) -> schema.Model:
    row = {"name": holds, "family": "f", "label": "l", "holds": holds}
    return schema.Model(**(row | more))


def _registry(*models: schema.Model) -> schema.Registry:
    return schema.Registry(models=models or (_model("descriptors"),))


PER_USER = "processes per user"
DESCRIPTORS = "descriptors per process"
KERNEL_PIDS = "machine/sysctls/kernel.pid_max"
PORTS = "machine/sysctls/net.ipv4.ip_local_port_range"


@pytest.mark.parametrize(
    ("holds", "changes", "connections", "limited_by"),
    [
        ("one", {}, 1, "one at a time"),
        ("workers", {}, None, "--workers"),
        ("fd_setsize", {}, 1008, "FD_SETSIZE"),
        ("descriptors", {}, 1_048_560, DESCRIPTORS),
        ("descriptors", {"memory_available_bytes": 1 << 20}, 188, "memory"),
        ("threads", {}, 32_715, "vm.max_map_count"),
        ("two threads", {}, 32_715 // 2, "vm.max_map_count"),
        ("two threads", {"machine/limits/descriptors/hard": 4096}, 4080, DESCRIPTORS),
        ("two threads", {"machine/sysctls/fs.nr_open": "4096"}, 4080, "fs.nr_open"),
        ("threads", {KERNEL_PIDS: "32768"}, 32_468, "kernel.pid_max"),
        ("processes", {"machine/cgroup": {"pids": "1000"}}, 700, "cgroup pids"),
    ],
)
def test_what_a_model_can_hold(holds, changes, connections, limited_by):
    pair = {"workers_each": 2} if holds == "two threads" else {}
    model = _model(holds.removeprefix("two "), **pair)
    capacity = checkup.capacity(model, _facts(**changes))
    assert (capacity.connections, capacity.limited_by) == (connections, limited_by)


@pytest.mark.parametrize(
    ("user_tasks", "allowed", "holds"), [(4, 30, 26), (40, 30, 0), (None, 400, 100)]
)
def test_a_users_limit_counts_the_tasks_of_that_user_only(user_tasks, allowed, holds):
    """Those of all users where a record does not say."""
    facts = _facts(**{"machine/limits/processes/hard": allowed})
    facts |= {} if user_tasks is None else {"user_tasks": user_tasks}
    for kind in ("threads", "processes"):
        capacity = checkup.capacity(_model(kind), facts)
        assert (capacity.connections, capacity.limited_by) == (holds, PER_USER)


@pytest.mark.parametrize(
    ("uid", "ids", "bound"),
    [(1000, "0 0", True), (0, "0 0", False), (0, "0 1000", True)],
)
def test_the_tasks_of_this_user_are_counted_unless_none_are(
    monkeypatch, uid, ids, bound
):
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr(checkup.procfs, "owned", lambda uid: [os.getpid()])
    monkeypatch.setattr(checkup.procfs, "read_text", lambda path: f"{ids} 4294967295")
    threads = len(os.listdir("/proc/self/task"))
    assert checkup.user_tasks() == (threads if bound else None)


def test_a_user_whom_no_limit_binds_is_told_none():
    facts = _facts(**{"machine/limits/processes/hard": 30}) | {"user_tasks": None}
    assert checkup.capacity(_model("processes"), facts).limited_by != PER_USER


@pytest.mark.parametrize(
    ("libc", "kernel", "limited_by"),
    [
        ("glibc 2.43", "6.18.44-1-amd64", "kernel.threads-max"),
        ("glibc 2.42", "7.2.12-1-amd64", "kernel.threads-max"),
        ("glibc 2.42", "6.12.117-1", "vm.max_map_count"),
        ("glibc 2.41", "6.18.44", "vm.max_map_count"),
        ("", "6.18.44", "vm.max_map_count"),
    ],
)
def test_stacks_with_marks_for_guards_share_a_mapping(libc, kernel, limited_by):
    facts = _facts(**{"machine/libc": libc, "machine/kernel": kernel})
    assert checkup.capacity(_model("threads"), facts).limited_by == limited_by


@pytest.mark.parametrize(("limit", "each"), [("nr_open", True), ("file-max", False)])
def test_more_processes_hold_more_where_the_limit_is_that_of_each(limit, each):
    few = _facts(**{f"machine/sysctls/fs.{limit}": "4096"})
    capacity = checkup.capacity(_model("descriptors"), few)
    assert capacity.limited_by.startswith(f"fs.{limit}")
    assert ("--processes" in capacity.note) is each


def _judged(facts: dict, registry: schema.Registry | None = None) -> dict:
    report = checkup.judge(facts, registry or _registry())
    return {finding.name: finding for finding in report.findings}


def _grades(facts: dict, registry: schema.Registry | None = None) -> dict[str, str]:
    return {name: finding.grade for name, finding in _judged(facts, registry).items()}


def test_cores_that_slow_each_other_are_noise():
    shared = _facts() | {"neighbour": 1.7}
    assert _grades(shared)["busy neighbour"] == "noise"
    assert "1.70 ×" in _judged(shared)["busy neighbour"].value
    assert _grades(_facts() | {"neighbour": 1.02})["busy neighbour"] == "ok"
    assert "busy neighbour" not in _grades(_facts() | {"neighbour": None})


def test_how_far_apart_the_cores_are_is_told():
    assert (
        _judged(_facts() | {"core_to_core_s": 75.4e-9})["core to core"].value == "75 ns"
    )
    assert "core to core" not in _grades(_facts() | {"core_to_core_s": None})


def test_a_monitor_of_memory_is_noise_and_told_with_how_to_end_it():
    monitored = _facts() | {"memory_monitor": 0.0068}
    assert _grades(monitored)["memory monitor"] == "noise"
    finding = _judged(monitored)["memory monitor"]
    assert "0.68 % of a core" in finding.value
    assert "damon" in finding.change
    assert "memory monitor" not in _grades(_facts())


def test_two_threads_of_one_core_are_noise(monkeypatch):
    """Judged from facts alone: what this machine's cores are does not matter."""
    monkeypatch.setattr(checkup.procfs, "read_text", None)
    two = _facts() | {"cores": [0, 1], "physical": [[0], [1]]}
    assert _grades(two)["cores"] == "ok"
    finding = _judged(two | {"physical": [[0, 1]]})["cores"]
    assert finding.grade == "noise"
    assert finding.value.startswith("2 threads")


@pytest.mark.parametrize(
    ("texts", "value", "means"),
    [
        ({"meltdown": "Not affected"}, "0 active", "none needed"),
        ({"meltdown": "Mitigation: PTI"}, "1 active", "meltdown"),
        ({"meltdown": "Vulnerable"}, "0 active", "not mitigated: meltdown"),
        (
            {"mds": "Mitigation: x", "srso": "Vulnerable: y", "l1tf": "Mitigation: z"},
            "2 active",
            "mds, l1tf; not mitigated: srso",
        ),
        ({}, "unknown", "the kernel shows none here"),
    ],
    ids=["not-affected", "one", "off", "some", "no-sys"],
)
def test_what_is_not_mitigated_is_not_taken_for_not_needed(texts, value, means):
    facts = _facts(**{"machine/mitigations": texts})
    finding = _judged(facts)["mitigations"]
    assert (finding.value, finding.means) == (value, means)


def test_nothing_is_in_the_way_of_a_good_machine():
    grades = _grades(_facts())
    assert set(grades.values()) == {"ok"}
    summary = str(checkup.judge(_facts(), _registry())).splitlines()[-1]
    assert not any(name in summary for name in grades)


@pytest.mark.parametrize(
    ("name", "grade", "changes"),
    [
        ("cores", "noise", {"cores": [0]}),
        ("CPU quota", "noise", {"machine/cpu_quota": 1.5}),
        ("other load", "noise", {"busy": 0.3}),
        ("timer", "noise", {"timer_late_us": 900.0}),
        ("governor", "noise", {"machine/governor": "powersave"}),
        ("descriptors", "limit", {"machine/limits/descriptors/hard": 4096}),
        ("locked memory", "limit", {"lockable_bytes": 1 << 20}),
        ("backlog", "limit", {"machine/sysctls/net.core.somaxconn": "128"}),
        ("threads", "limit", {"machine/sysctls/vm.max_map_count": "9000"}),
        ("ports", "limit", {PORTS: "44620 48715"}),
        ("io_uring", "missing", {"machine/sysctls/kernel.io_uring_disabled": "2"}),
        ("io_uring", "missing", {"compiler": {"uring": False}}),
        ("redis", "missing", {"tools": {"cc": True}}),
        ("compiler", "missing", {"tools": {"redis-server": True}}),
        *((name, "missing", {f"lacks/{name}": "no"}) for name in checkup._PARTS),
    ],
)
def test_each_trouble_is_found_and_says_what_to_do(name, grade, changes):
    report = checkup.judge(_facts(**changes), _registry())
    finding = next(f for f in report.findings if f.name == name)
    assert finding.grade == grade
    assert finding.change
    assert f"→ {finding.change}" in str(report)


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({KERNEL_PIDS: "9000"}, "sysctl -w kernel.pid_max=N"),
        ({"machine/cgroup": {"pids": "1000"}}, "raise pids.max of the cgroup"),
        ({"memory_available_bytes": 1 << 28}, "a machine with more memory"),
        ({"machine/limits/processes/hard": 900}, "raise nproc in /etc/security"),
    ],
)
def test_what_raises_a_bound_is_something_that_can_be_done(changes, change):
    """It said "raise memory" and "raise processes per user"."""
    assert change in _judged(_facts(**changes))["processes"].change


def test_marks_are_explained_where_there_are_any():
    legend = "\n! bounds or spoils what is measured, - is missing\n"
    assert legend not in str(checkup.judge(_facts(), _registry()))
    small = _facts(**{"machine/sysctls/net.core.somaxconn": "128"})
    assert legend in str(checkup.judge(small, _registry()))


def test_counts_stand_below_each_other():
    models = [_model("descriptors", name=name) for name in ("short", "x" * 20)]
    text = str(checkup.judge(_facts(), _registry(*models)))
    lines = [line for line in text.splitlines() if DESCRIPTORS in line]
    assert len({line.index(DESCRIPTORS) for line in lines}) == 1


def test_a_model_that_cannot_run_is_missing_with_its_reason():
    gone = _model("descriptors", name="uring", available=False, reason="no kernel")
    report = checkup.judge(_facts(), _registry(gone))
    assert _grades(_facts(), _registry(gone))["uring"] == "missing"
    assert gone.reason in str(report)
    assert not report.capacities


def test_a_model_that_runs_has_io_uring_whatever_the_kernel_denies_others():
    """1 keeps it from those without CAP_SYS_ADMIN."""
    some = _facts(**{"machine/sysctls/kernel.io_uring_disabled": "1"})
    assert _grades(some)["io_uring"] == "missing"
    uring = _model("descriptors", name="uring", family="completion")
    assert _grades(some, _registry(uring))["io_uring"] == "ok"


def test_io_uring_that_no_model_can_use_is_missing_whatever_forbids_it():
    """A seccomp filter, such as Docker's, shows in no sysctl."""
    reason = "io_uring is not allowed here"
    gone = _model("descriptors", family="completion", available=False, reason=reason)
    finding = _judged(_facts(), _registry(gone))["io_uring"]
    assert (finding.grade, finding.means) == ("missing", reason)


def test_a_limit_that_others_have_used_up_leaves_none():
    few = _facts(**{"machine/cgroup": {"pids": "200"}})
    assert _judged(few)["threads"].value == "0"


def test_who_may_lock_all_memory_is_told_of_no_limit():
    assert "39 io_urings" in _judged(_facts())["locked memory"].means
    exempt = _facts() | {"lockable_bytes": math.inf}
    assert "locked memory" not in _judged(exempt)


def test_servers_that_cannot_run_are_counted_and_not_in_the_way():
    finding = _judged(_facts(**{"servers/go": False}))["other servers"]
    assert (finding.grade, finding.value) == ("ok", "1 of 2")
    assert "make runtimes" in finding.means


def test_programs_of_another_machine_are_to_be_built(tmp_path, monkeypatch):
    server = tmp_path / "server"
    server.write_bytes(b"\x7fELF of another kind")
    server.chmod(0o755)
    monkeypatch.setenv("CONNLAB_BUILD", str(tmp_path))
    monkeypatch.setattr(checkup, "gather", _facts)
    (finding,) = (f for f in checkup.doctor().findings if f.name == "programs")
    assert finding.means.startswith("server --list: ")
    assert finding.change == "make build"


def test_this_machine():
    facts = checkup.gather()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY:
        assert facts["machine"]["limits"]["descriptors"]["hard"] == hard
    assert 0 <= facts["busy"] <= 1.1
    report = drive.doctor()
    assert all(len(line) < 200 for line in str(report).splitlines())
    assert repr(report) == str(report)


def test_what_the_cores_are_is_among_the_facts(monkeypatch):
    monkeypatch.setattr(checkup, "_busy", lambda seconds: 0.0)
    monkeypatch.setattr(checkup, "neighbour", lambda: None)
    monkeypatch.setattr(checkup, "core_to_core_s", lambda sets: 8e-8)
    monkeypatch.setattr(checkup.cores, "available", lambda: (0, 4, 1))
    monkeypatch.setattr(checkup.cores, "physical", lambda cores, **_: [(0, 4), (1,)])
    facts = checkup.gather()
    assert (facts["cores"], facts["physical"]) == ([0, 4, 1], [[0, 4], [1]])


def test_only_cores_that_trials_may_use_are_watched_for_other_load(monkeypatch):
    machine = Mock(return_value=SimpleNamespace(busy_s=0.0, steal_s=0.0))
    monkeypatch.setattr(checkup.cores, "available", lambda: (2,))
    monkeypatch.setattr(checkup.procfs, "machine", machine)
    assert checkup._busy(0.01) == 0.0
    assert machine.mock_calls == [call((2,)), call((2,))]


def test_ports_of_a_range():
    assert checkup.port_count("32768 60999") == 28232
