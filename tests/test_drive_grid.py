"""The grid, its blocks and its keys."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from connlab import schema
from connlab.drive import flags, grid, machine, procfs
from connlab.drive.cores import Cores
from connlab.drive.location import ThisMachine

ENDS = {"duration": 1.0, "warmup": 0.1}


def test_the_grid_holds_every_combination_once():
    factors = {"model": ["a", "b"], "connections": [1, 10, 100]}
    cells = grid.cells(factors, {"size": 64}, ENDS)
    assert len(cells) == 6
    assert {(c["model"], c["connections"]) for c in cells} == {
        (m, n) for m in "ab" for n in (1, 10, 100)
    }
    assert all(c["size"] == 64 for c in cells)
    assert all(c["workload"] == "echo" for c in cells)
    assert all(c["duration"] == 1.0 for c in cells)


@pytest.mark.parametrize(
    ("factors", "fixed", "words"),
    [
        ({"model": ["a"], "conections": [1]}, {}, "'conections'.*'connections'"),
        ({"model": ["a"]}, {"bcklog": 1}, "'bcklog'.*'backlog'"),
        ({"model": "epoll"}, {}, "model: 'epoll'; .*list"),
        ({"model": []}, {}, "no levels"),
        ({"model": ["a"], "connections": [1, 1]}, {}, "twice"),
        ({"model": ["a"]}, {"model": "b"}, "model: .*factor.*fixed"),
        ({"connections": [1]}, {}, "model: not given"),
        ([{"model": ["a"]}, {"worker": [1]}], {}, "'worker'.*'workers'"),
        ([], {}, "no grid"),
        ({"model": ["a"], "connections": list(np.arange(2))}, {}, "connections: .*int"),
        ({"model": ["a"]}, {"size": np.int64(64)}, "size: .*int"),
    ],
)
def test_a_wrong_grid_is_refused_by_name(factors, fixed, words):
    with pytest.raises(ValueError, match=words):
        grid.cells(factors, fixed, ENDS)


def test_several_grids_are_joined_and_a_shared_cell_is_there_once():
    pool = {"model": ["pool"], "workers": [16, 512], "connections": [1024]}
    more = {"model": ["pool"], "workers": [16], "connections": [256, 1024]}
    alone = {"model": ["thread"], "connections": [1024]}
    cells = grid.cells([pool, more, alone], {"size": 64}, ENDS)
    assert [(c["model"], c.get("workers"), c["connections"]) for c in cells] == [
        ("pool", 16, 1024),
        ("pool", 512, 1024),
        ("pool", 16, 256),
        ("thread", None, 1024),
    ]
    assert grid.varied([pool, alone]) == ("model", "workers", "connections")
    assert grid.varied(alone) == ("model", "connections")


BASE = {"repeat": 0, "binaries": {}, "environment": "e"}


@pytest.mark.parametrize(
    ("factor", "levels"),
    [("redis", ("127.0.0.1:1", "127.0.0.1:2")), ("root", ("/page-1", "/page-2"))],
)
def test_where_redis_listens_or_a_page_lies_is_no_part_of_the_identity(factor, levels):
    first, second = ({"model": "m", factor: level} for level in levels)
    assert grid.key(first, **BASE) == grid.key(second, **BASE)
    assert grid.cell_key(first) == grid.cell_key(second)


def _block(number: int, seed: int) -> tuple[grid.Slot, ...]:
    return grid.round_of(range(20), number=number, counts=[number] * 20, seed=seed)


def test_a_block_holds_every_cell_once_in_an_order_fixed_by_the_seed():
    first = _block(0, seed=1)
    assert sorted(slot.cell for slot in first) == list(range(20))
    assert [slot.order for slot in first] == list(range(20))
    assert first == _block(0, seed=1)
    for other in (_block(1, seed=1), _block(0, seed=2)):
        assert [s.cell for s in other] != [s.cell for s in first]


def test_a_partial_round_goes_on_with_the_count_of_each_cell():
    slots = grid.round_of((1, 3), number=9, counts=[5, 6, 5, 7], seed=1)
    assert {(slot.cell, slot.repeat) for slot in slots} == {(1, 6), (3, 7)}
    assert all(slot.block == 9 for slot in slots)


def test_the_key_depends_on_all_that_defines_a_trial_and_on_no_order():
    base = {"repeat": 0, "binaries": {"server": "a"}, "environment": "e"}
    key = grid.key({"model": "m", "size": 1}, **base)
    assert key == grid.key({"size": 1, "model": "m"}, **base)
    assert key != grid.key({"model": "m", "size": 2}, **base)
    assert key != grid.key({"model": "m", "size": 1, "descriptors": 1200}, **base)
    for change in ({"repeat": 1}, {"binaries": {"server": "b"}}, {"environment": "f"}):
        assert key != grid.key({"model": "m", "size": 1}, **(base | change))


def test_why_a_model_cannot_run_is_part_of_the_trials_identity():
    reasons = (None, "no kernel", "no library", "")
    keys = [grid.key({"model": "m"}, **BASE, unavailable=reason) for reason in reasons]
    assert len(set(keys)) == 4
    assert keys[0] == grid.key({"model": "m"}, **BASE)


REFERENCE = sorted((schema.project_root() / "runs/reference").glob("*/trials.jsonl*"))


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.parent.name)
def test_what_was_measured_before_keeps_its_key(path):
    copies = Counter()
    for trial in map(json.loads, schema.facts_bytes(path).splitlines()[:5]):
        identity = {n: trial[n] for n in ("repeat", "binaries", "environment")}
        model = trial["server"]["model"]
        identity["unavailable"] = None if model["available"] else model["reason"]
        turns = trial["turns"] or {}
        identity["carried_by"] = turns["set"] if turns.get("carried") else None
        if turns.get("carried"):
            baseline = grid.cell_key(trial["factors"]), trial["repeat"], turns["set"]
            copies[baseline] += 1
            identity["copy"] = copies[baseline]
        assert grid.key(trial["factors"], **identity) == trial["key"]


def test_clients_of_one_repeat_share_their_seed():
    assert grid.client_seed(1, 0) == grid.client_seed(1, 0)
    assert grid.client_seed(1, 0) != grid.client_seed(1, 1)


def test_every_factor_has_a_column_and_every_factor_column_a_flag():
    columns = {column.path.removeprefix("factors.") for column in schema.FACTORS}
    assert columns == set(flags.FLAGS)


def test_factors_become_the_flags_of_their_program():
    factors = {
        "model": "epoll",
        "workload": "echo",
        "workers": 4,
        "connections": 10,
        "client_processes": 2,
        "processes": 3,
        "size": [64, 128],
        "rate": 1e6,
        "active": None,
        "duration": 0.5,
    }
    server = flags.server_flags(factors)
    assert server[0] == "epoll"
    assert " ".join(server[1:]) == "--workload echo --workers 4 --processes 3"
    client = " ".join(flags.client_flags(factors, seed=7))
    assert "--size 64-128" in client
    assert "--processes 2" in client
    assert "--rate 1000000" in client
    assert "--seed 7" in client
    assert "--active" not in client
    burst = " ".join(flags.client_flags(factors | {"requests": 5}, seed=7))
    assert "--requests 5" in burst
    assert "--duration" not in burst


APART = Cores((0,), (1,), shared=False)


@pytest.mark.parametrize(
    ("asked", "sets", "spin"),
    [
        ({}, APART, "always"),
        ({"rate": None, "spin": None}, APART, "always"),
        ({"client_processes": 2}, Cores((0,), (1, 2), shared=False), "always"),
        ({"spin": "100"}, APART, "100"),
        ({"rate": 1000}, APART, "always"),
        ({"think": "5ms"}, APART, "always"),
        ({"byte_rate": 1000}, APART, "always"),
        ({"active": 0}, APART, None),
        ({"client_processes": 2}, APART, None),
        ({"threads": 2}, APART, None),
        ({}, Cores((0,), (0,), shared=True), None),
        ({}, Cores((0,), (1,), shared=False, siblings=True), None),
        ({}, Cores((0,), (1,), shared=False, remote=True), None),
        ({}, None, None),
    ],
    ids=str,
)
def test_a_client_with_a_core_of_its_own_never_sleeps(monkeypatch, asked, sets, spin):
    """Its server would pay for waking it, the more often the slower it is."""
    monkeypatch.setattr(procfs, "cpu_quota", lambda: None)
    words = flags.client_flags({"connections": 5, **asked}, seed=1, sets=sets)
    said = dict(pairwise(words))
    assert said.get("--spin") == spin


@pytest.mark.parametrize(("quota", "spin"), [(2.0, None), (2.5, "always")])
def test_a_client_that_would_use_up_a_quota_sleeps(monkeypatch, quota, spin):
    monkeypatch.setattr(procfs, "cpu_quota", lambda: quota)
    words = flags.client_flags({"connections": 5}, seed=1, sets=APART)
    assert dict(pairwise(words)).get("--spin") == spin


@pytest.mark.parametrize(
    ("connections", "requested", "descriptors", "lacks"),
    [
        (64 * 936, None, 1000, False),
        (64 * 936 + 1, None, 1000, True),
        (64 * 936 + 1, 64, 1000, False),
        (10**7, None, None, False),
    ],
)
def test_more_connections_than_a_client_can_have_are_not_measured(
    monkeypatch, connections, requested, descriptors, lacks
):
    """The client would refuse a number of processes that nobody had asked for."""
    limits = {"descriptors": {"soft": descriptors, "hard": descriptors}}
    monkeypatch.setattr(machine, "limits", lambda: limits)
    factors = {"connections": connections, "client_processes": requested}
    reason = ThisMachine().lacks(factors, schema.Model.model_construct())
    told = "connections: 59905; allowed here: 1 to 59904 (64 client processes"
    assert (reason or "").startswith(told) is lacks


THREADS, POOL, ONE, LOOP = (
    schema.Model.model_construct(holds=what)
    for what in ("threads", "workers", "one", "descriptors")
)
OURS, OTHERS = (
    schema.Model(name="m", family="f", label="l", external=external)
    for external in (False, True)
)


@pytest.mark.parametrize(
    ("factors", "models", "name", "value"),
    [
        ({"connections": 100}, [], "client_processes", None),
        ({"connections": 936}, [], "client_processes", None),
        ({"connections": 937}, [], "client_processes", 2),
        ({"connections": 5000}, [], "client_processes", 6),
        ({"connections": 5000, "client_processes": 1}, [], "client_processes", 1),
        # first answers are waited for where all can have one
        ({}, [THREADS], "settle", flags.SETTLE_S),
        ({"settle": 0.5}, [THREADS], "settle", 0.5),
        ({}, [LOOP], "settle", flags.SETTLE_S),
        ({}, [POOL], "settle", None),
        ({}, [ONE], "settle", None),
        ({"rate": 1000}, [THREADS], "settle", None),
        ({"requests": 10}, [THREADS], "settle", None),
        # in turns, whichever of them the order of the block puts first
        ({}, [POOL, THREADS], "settle", flags.SETTLE_S),
        ({}, [THREADS, POOL], "settle", flags.SETTLE_S),
        # clients come slower to servers of others
        ({}, [OTHERS], "connect_rate", flags.CONNECT_RATE),
        ({"connect_rate": 50}, [OTHERS], "connect_rate", 50),
        ({}, [OURS], "connect_rate", None),
    ],
)
def test_the_client_gets_what_it_needs_besides(factors, models, name, value):
    asked = {"connections": 10, **factors}
    assert flags.completed(asked, descriptors=1000, models=models).get(name) == value
