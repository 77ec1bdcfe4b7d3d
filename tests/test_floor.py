"""build/floor: an array with one number per repeat for each cost, and its usage."""

import errno
import json
import os
import re
import resource
import statistics
import subprocess

import pytest
from conftest import refused

from tests.conformance.harness import BUILD, serving

PROGRAM = BUILD / "floor"

CALLS = ("entry", "epoll", "event", "poll", "walk", "pipe", "copy_kib", "exchange")
ARRAYS = {
    "echo": ("throughput_rps", "requests", "server_cpu_per_request_s"),
    "ping_pong": ("round_trip_ns", "server_cpu_ns"),
    "switch": ("switch_ns",),
    "ring": ("switch_ns",),
    "thread": ("create_join_ns",),
    "process": ("fork_wait_ns",),
    "timer": ("overshoot_p50_ns", "overshoot_p99_ns", "overshoot_max_ns"),
    "neighbour": ("slowdown",),
    "core_to_core": ("round_trip_ns",),
    "calls": [f"{call}_ns" for call in CALLS],
}


def measured(*flags):
    done = subprocess.run([PROGRAM, *flags], stdout=subprocess.PIPE, timeout=30)
    assert done.returncode == 0
    return json.loads(done.stdout)


def test_every_cost_is_measured_once_per_repeat():
    facts = measured("--duration", "0.05", "--repeats", "2", "--connections", "5")
    assert facts["connections"] == 5
    for cost, names in ARRAYS.items():
        for name in names:
            values = facts[cost][name]
            assert len(values) == 2, name
            assert all(value is None or value >= 0 for value in values), name
    assert all(ns > 1000 for ns in facts["ping_pong"]["round_trip_ns"])
    assert facts["timer"]["resolution_ns"] >= 1


def test_only_what_is_asked_for_is_measured():
    facts = measured("--what", "timer,switch", "--duration", "0.01")
    assert {"timer", "switch"} == set(facts) & set(ARRAYS)


def test_of_a_hundred_sleeps_the_99th_percentile_is_not_the_longest():
    late = measured("--what=timer", "--duration=0.1", "--repeats=3")["timer"]
    pairs = zip(late["overshoot_p99_ns"], late["overshoot_max_ns"], strict=True)
    assert any(p99 < longest for p99, longest in pairs)


def test_a_call_costs_more_than_the_entry_that_is_a_part_of_it():
    """Others can only make a call cost more: the least of twenty short windows."""
    flags = ["--what=calls", "--connections=100", "--duration=0.02", "--repeats=20"]
    calls = {k: min(v) for k, v in measured(*flags)["calls"].items()}
    assert calls["entry_ns"] < min(calls["epoll_ns"], calls["exchange_ns"])
    assert calls["walk_ns"] < calls["poll_ns"]
    assert calls["pipe_ns"] < calls["exchange_ns"]


def test_one_socket_has_no_further_one():
    flags = ["--what=calls", "--connections=1", "--duration=0.01"]
    calls = measured(*flags)["calls"]
    assert set(calls["walk_ns"]) == set(calls["event_ns"]) == {None}


def test_a_ring_that_has_no_room_for_its_pipes_has_no_cost():
    done = subprocess.run(
        [PROGRAM, "--what=ring", "--connections=1000", "--duration=0.01"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)),
        stdout=subprocess.PIPE,
        timeout=30,
    )
    assert done.returncode == 0
    assert set(json.loads(done.stdout)["ring"]["switch_ns"]) == {None}


@pytest.mark.serial
def test_a_computation_beside_a_busy_core_takes_half_to_three_times_as_long():
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("needs two cores")
    pair = f"{allowed[0]},{allowed[1]}"
    facts = measured("--what=neighbour", f"--cores={pair}", "--duration=0.2")
    # half and thrice: what another program on either core can make of it
    assert 0.5 < statistics.median(facts["neighbour"]["slowdown"]) < 3


def test_one_core_has_no_neighbour():
    core = min(os.sched_getaffinity(0))
    flags = ["--what=neighbour", f"--cores={core},{core}", "--repeats=1"]
    assert measured(*flags)["neighbour"]["slowdown"] == [None]


@pytest.mark.serial
def test_a_cache_line_takes_as_long_from_core_to_core_in_each_process():
    """Wherever it lies; but a host may move the cores once meanwhile."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("needs two cores")
    flags = ["--what=core-to-core", "--duration=0.02"]
    flags += [f"--cores={allowed[0]},{allowed[1]}"]
    found = [measured(*flags, "--repeats=3")["core_to_core"] for _ in range(9)]
    ns = [min(n for n in each["round_trip_ns"] if n) for each in found]
    assert 5 < min(ns) <= max(ns) < 10_000
    as_nearest = sum(n < 1.3 * min(ns) for n in ns)
    as_farthest = sum(1.3 * n > max(ns) for n in ns)
    assert max(as_nearest, as_farthest) >= 5


def test_one_core_is_at_no_distance():
    core = min(os.sched_getaffinity(0))
    flags = ["--what=core-to-core", f"--cores={core},{core}", "--repeats=1"]
    assert measured(*flags)["core_to_core"]["round_trip_ns"] == [None]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_client_half_drives_a_server_and_reads_its_cpu_time(host):
    with serving("epoll", "--listen", f"{host}:0") as server:
        at = f"{host}:{server.ready['port']}"
        flags = ["--what=echo", "--duration=0.1", "--repeats=1", f"--server={at}"]
        facts = measured(*flags, f"--server-pid={server.ready['pid']}")
    assert facts["against_server"] is True
    assert facts["echo"]["requests"][0] > 0
    assert facts["echo"]["server_cpu_per_request_s"][0] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--what", "echo,tea"], "--what tea"),
        (["--size", "0"], "--size 0: .* 1 to 1048576"),
        (["--duration", "nan"], "--duration nan"),
        (["--cores", "0"], "--cores 0: .*two"),
        (["--cores", "0,99999"], "--cores 0,99999: core 99999 "),
        (["--server", "nowhere"], "--server nowhere: want HOST:PORT"),
        (["--server", "127.0.0.1:http"], "--server 127.0.0.1:http: want a port"),
        (["--server", "example:80"], "--server example:80: .*numeric"),
        (["--repeat", "3"], "--repeat: .*--repeats"),
        (["more"], "more: unexpected"),
    ],
)
def test_bad_usage_names_flag_and_value(flags, message):
    assert re.search(message, refused(PROGRAM, *flags))


def test_a_call_that_fails_is_named():
    said = refused(PROGRAM, "--what", "echo", "--server", "127.0.0.1:1", status=1)
    assert said == f"floor: connect: {os.strerror(errno.ECONNREFUSED)}\n"
