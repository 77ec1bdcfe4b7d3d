"""Which cells of a sweep take turns, and what a set leaves of each."""

import contextlib
import dataclasses
import time
from collections import Counter
from types import SimpleNamespace
from unittest.mock import ANY

import drive_fakes
import pytest
from drive_fakes import manifest, measure, models, planned, rows

from connlab import schema
from connlab.drive import (
    capacity,
    flags,
    gates,
    grid,
    interleaving,
    location,
    machine,
    stopping,
    sweeps,
    turns,
)
from connlab.drive.cores import Cores
from connlab.drive.host import Ended
from connlab.intervals import ratios
from connlab.schema import project_root
from connlab.study import load
from connlab.study.frames import RunWarning


def model(name: str, **facts) -> schema.Model:
    defaults = {"family": "readiness", "label": name, "holds": "descriptors"} | facts
    return schema.Model(name=name, **defaults)


PREFORK = {"family": "processes", "holds": "workers", "workers": "fixed"}
MODELS = {name: model(name) for name in ("epoll", "epoll-et", "poll", "coroutine")} | {
    "select": model("select", holds="fd_setsize"),
    "iterative": model("iterative", holds="one"),
    "thread": model("thread", holds="threads"),
    "prefork": model("prefork", **PREFORK),
    "prefork-lock": model("prefork-lock", **PREFORK),
    "uring-workers": model("uring-workers", family="completion", workers="fixed"),
    "gone": model("gone", available=False, reason="no kernel for it"),
}


def sets(cells: list[dict], together=("model",)) -> list[list[str]]:
    groups = grouped(cells, together)
    return sorted(sorted(cells[s.cell]["model"] for s in g.slots) for g in groups)


def grouped(
    cells: list[dict], together=("model",), *, slots=None, models=MODELS, room=None
) -> list[interleaving.Group]:
    """Return the groups of one block, or of some slots of it."""
    if slots is None:
        counts = [0] * len(cells)
        slots = grid.round_of(range(len(cells)), number=0, counts=counts, seed=1)
    whole = whole_sets(cells, together, models=models)
    room = room or capacity.local_room
    return interleaving.groups(slots, cells, models, whole, room)


def whole_sets(cells: list[dict], together=("model",), *, models=MODELS, **options):
    tasks = capacity.tasks()
    return interleaving.sets(cells, models, beside=together, tasks=tasks, **options)


def cell(name: str, connections: int = 10, **more) -> dict:
    return {"model": name, "connections": connections, "slice": 20.0, **more}


TWO_WORKERS = [cell("epoll", workers=n) for n in (1, 2)]
TWO_LOADS = [cell(name, n) for name in ("epoll", "poll") for n in (1, 10)]


@pytest.mark.parametrize(
    ("cells", "beside", "expected"),
    [
        (TWO_LOADS, ("model",), [["epoll", "poll"], ["epoll", "poll"]]),
        (TWO_LOADS[::2], (), [["epoll"], ["poll"]]),
        (TWO_WORKERS, ("model",), [["epoll"], ["epoll"]]),
        (TWO_WORKERS, ("model", "workers"), [["epoll", "epoll"]]),
    ],
)
def test_cells_that_differ_in_what_stands_beside_take_turns(cells, beside, expected):
    assert sets(cells, beside) == expected


def test_a_server_without_others_is_measured_alone():
    """In turns with nobody it would only rest."""
    (group,) = grouped([cell("epoll"), cell("iterative")])[:1]
    assert not group.baselines
    whole = whole_sets([cell("epoll"), cell("iterative")])
    assert [s.baseline for s in whole] == [None, None]


def test_threads_take_turns_up_to_a_quarter_of_what_the_system_allows():
    thread = MODELS["thread"]
    assert interleaving.takes_turns(thread, cell("thread", 5000), tasks=20_000)
    assert not interleaving.takes_turns(thread, cell("thread", 5001), tasks=20_000)


@pytest.mark.parametrize(
    ("server", "serves_all"),
    [
        (cell("gone"), False),
        (cell("iterative"), False),
        (cell("iterative", 1), True),
        (cell("prefork"), False),
        (cell("prefork", workers=10), True),
        (cell("select", 1500), False),
        (cell("select", 900), True),
        (cell("poll", requests=5), False),
        (cell("poll", stall=50), False),
        ({**cell("poll"), "slice": None}, False),
    ],
)
def test_what_leaves_users_unserved_is_measured_alone(server, serves_all):
    groups = sets([server, *({**server, "model": name} for name in ("epoll", "poll"))])
    assert ([server["model"]] in groups) is not serves_all
    assert (len(groups) == 1) is serves_all


@pytest.mark.parametrize(
    ("others", "servers"), [(1, 1), (3, 1), (4, 2), (8, 2), (9, 3), (26, 5)]
)
def test_a_baseline_stands_beside_many_as_several_servers(others, servers):
    """As many as the square root of those that are compared with it."""
    cells = [cell("epoll", workers=n) for n in range(others + 1)]
    (group,) = grouped(cells, ("workers",))
    baseline = next(iter(group.baselines.values()))
    assert [slot.cell for slot in group.carried] == [baseline] * (servers - 1)
    assert len(set(group.all)) == others + servers
    rest = group.without([slot for slot in group.slots if slot.cell == baseline])
    assert [slot.cell for slot in rest.carried] == [baseline] * servers
    alone = group.without([slot for slot in group.slots if slot.cell != baseline])
    assert not alone.carried


def test_a_server_at_an_address_is_one_beside_however_many():
    """Asked as several targets it would hold as many times the connections."""
    names = ["at:127.0.0.1:7000", *(f"at:127.0.0.1:{port}" for port in range(1, 10))]
    cells = [cell(name) for name in names]
    models = {name: model(name) for name in names}
    (group,) = grouped(cells, models=models)
    assert group.baselines == dict.fromkeys(range(10), 0)
    assert not group.carried
    rest = group.without([slot for slot in group.slots if slot.cell == 0])
    assert [slot.cell for slot in rest.carried] == [0]
    (whole,) = whole_sets(cells, models=models)
    assert whole.servers == 10


def test_sets_share_a_trial_with_numbers_of_connections_beside():
    """Each server is compared with the baseline that has as many connections."""
    cells = [cell(name, n) for name in ("poll", "epoll") for n in (10, 20)]
    (group,) = grouped(cells, ("model", "connections"))
    assert len(group.slots) == 4
    assert not group.carried
    assert group.baselines == {0: 2, 2: 2, 1: 3, 3: 3}
    whole = whole_sets(cells, ("model", "connections"))
    assert sorted(s.members for s in whole) == [(0, 2), (1, 3)]
    assert interleaving.sharing(whole) == ((0, 2, 1, 3),)


def test_numbers_of_connections_of_one_server_stay_together():
    """Only then rounds tell what more connections cost it."""
    names = ("epoll", "poll", "epoll-et", "coroutine")
    cells = [cell(name, n) for name in names for n in (10, 9_000)]
    room = capacity.Room(20_000, 1e9, 1e12)
    groups = grouped(cells, ("model", "connections"), room=lambda: room)
    assert len(groups) == 3
    for group in groups:
        of_group = [cells[slot.cell] for slot in group.all]
        assert sorted(c["connections"] for c in of_group) == [10, 10, 9_000, 9_000]
        assert len({c["model"] for c in of_group}) == 2
        assert "epoll" in {c["model"] for c in of_group}
    assert sorted(len(group.carried) for group in groups) == [0, 2, 2]


def test_a_client_has_so_many_targets_and_no_more():
    cells = [cell("epoll", n) for n in range(1, 101)]
    cells += [cell("poll", n) for n in range(1, 101)]
    groups = grouped(cells, ("model", "workers", "connections"))
    header = project_root() / "src_c/client/client_plan.h"
    assert f"MAX_TARGETS = {interleaving.TARGETS_MOST}," in header.read_text()
    assert max(len(group.all) for group in groups) <= interleaving.TARGETS_MOST


WIDE = capacity.Room(1e9, 1e9, 1e15, locked_bytes=1e15)


@pytest.mark.parametrize(
    ("name", "little"),
    [
        ("epoll", {"connections": 25}),
        ("thread", {"tasks": 25}),
        ("epoll", {"memory_bytes": 25 * capacity.CONNECTION_BYTES}),
        ("uring-workers", {"locked_bytes": 5 * capacity.RING_BYTES}),
    ],
)
def test_a_set_is_divided_by_what_there_is_least_of(monkeypatch, name, little):
    """Each part carries the baseline."""
    room = dataclasses.replace(WIDE, **little)
    monkeypatch.setattr(capacity, "THREAD_BYTES", 0)
    cells = [cell(name, 10, workers=n) for n in range(1, 6)]
    groups = grouped(cells, ("workers",), room=lambda: room)
    assert [len(group.all) for group in groups] == [2] * 4
    assert all(0 in [slot.cell for slot in group.all] for group in groups)
    assert sum(bool(group.carried) for group in groups) == 3
    arms = sorted(slot.cell for group in groups for slot in group.slots)
    assert arms == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("size", "buffers"),
    [(None, 0), (100, 200), ("1-2000", 4000), ("1e3", 2000), ("much", 0)],
)
def test_connections_need_memory_and_so_do_their_threads(size, buffers):
    (thread,) = models("thread")
    need = capacity.needed(thread, {"connections": 10, "size": size})
    each = capacity.CONNECTION_BYTES + buffers + capacity.THREAD_BYTES
    assert (need.tasks, need.memory_bytes) == (10, 10 * each)


def test_a_set_holds_so_many_processes_whose_pages_are_shared():
    cells = [cell("epoll", 1000), cell("poll", 1000)]
    cells += [cell(name, 1000, workers=1000) for name in ("prefork", "prefork-lock")]
    groups = grouped(cells, ("model", "workers"), room=lambda: WIDE)
    many = [[s.cell for s in group.all if s.cell >= 2] for group in groups]
    assert sorted(many) == [[2], [3]]
    assert capacity.PROCESSES_MOST < 2 * 1000


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_a_set_hold_as_many_servers_as_each_other(seed):
    """A process for each of 1000 clients leaves no room for another such server."""
    names = [f"prefork-{n}" for n in range(4)]
    names += [f"loop-{n}" for n in range(13)]
    models = MODELS | {
        name: model(name, **(PREFORK if name.startswith("prefork") else {}))
        for name in names
    }
    cells = [cell(name, 1000, workers=1000) for name in ("epoll", *names)]
    slots = grid.round_of(range(18), number=0, counts=[0] * 18, seed=seed)
    groups = grouped(
        cells, ("model", "workers"), slots=slots, models=models, room=lambda: WIDE
    )
    others = [[s.cell for s in group.slots if s.cell] for group in groups]
    assert sorted(map(len, others)) == [4, 4, 4, 5]
    assert sorted(n for part in others for n in part if n <= 4) == [1, 2, 3, 4]
    assert all(min(part) <= 4 for part in others)
    assert sorted(len(group.carried) for group in groups) == [1, 2, 2, 2]


@pytest.mark.parametrize("seed", range(5))
def test_a_set_is_divided_into_as_few_parts_as_hold_it(seed):
    """In whatever order its servers come: 6 + 3 and 5 + 4, each beside the baseline."""
    cells = [cell("uring-workers", 10, workers=n) for n in (1, 6, 5, 4, 3)]
    slots = grid.round_of(range(5), number=0, counts=[0] * 5, seed=seed)
    room = dataclasses.replace(WIDE, locked_bytes=10 * capacity.RING_BYTES)
    groups = grouped(cells, ("workers",), slots=slots, room=lambda: room)
    assert sorted(sorted(s.cell for s in group.all) for group in groups) == [
        [0, 1, 4],
        [0, 2, 3],
    ]


FEW = {
    "a user": ({"connections": 1}, True),
    "two users": ({"connections": 2}, True),
    "many users": ({"connections": 50}, False),
    "one of many talks": ({"connections": 1000, "active": 1}, True),
    "requests at a rate": ({"connections": 1, "rate": 100.0}, False),
    "answers that wait": ({"connections": 1, "delay": "fixed:1000"}, False),
    "pages": ({"connections": 1, "workload": "http"}, False),
}


@pytest.mark.parametrize(("setting", "short"), FEW.values(), ids=FEW)
def test_a_slice_is_short_where_one_user_asks_for_little(setting, short):
    length_s = turns.usual_slice_s({"workload": "echo"} | setting)
    assert length_s == (turns.SLICE_FEW_S if short else turns.SLICE_S)


@pytest.mark.parametrize(
    ("names", "load", "length_s"),
    [
        (["epoll", "lessons/epoll"], {"connections": 50}, turns.SLICE_S),
        (["epoll", "winsock-iocp"], {"connections": 50}, turns.SLICE_S),
        (["epoll", "go"], {"connections": 50}, turns.SLICE_OTHERS_S),
        (["epoll", "./mine {port}"], {"connections": 50}, turns.SLICE_OTHERS_S),
        (["epoll", "go"], {"connections": 1}, turns.SLICE_FEW_S),
        (["epoll", "go"], {"connections": 50, "rate": 9e3}, turns.SLICE_S),
    ],
)
def test_a_slice_is_long_beside_a_server_that_connlab_did_not_write(
    names, load, length_s
):
    """A scheduler that parks its threads pays for each rest."""
    assert turns.usual_slice_s({"workload": "echo"} | load, names) == length_s
    factors = {"model": names} | {name: [level] for name, level in load.items()}
    made = planned("s", run="r", factors=factors, beside="model")
    assert {cell["slice"] for cell in made.cells} == {1e3 * length_s}


SERVERS_OF_FIVE = ({"connections": 5},) * 2


def made_set(client: dict, *, pause_s: float | None = None) -> turns.Setting:
    """Return the setting of a set of two servers, of 5 and 7 users."""
    servers = tuple({"connections": users} for users in (5, 7))
    where = {"cores": None, "programs": None}
    times = {"slice_s": 0.02, "pause_s": pause_s}
    return turns.Setting(servers, client, seed=3, **where, **times)


@pytest.mark.parametrize(
    ("client", "pause_s", "flags"),
    [
        ({}, None, "--slice 20ms --lead-in 1ms"),
        ({}, 0.005, "--slice 20ms --lead-in 4ms --pause 5ms"),
        ({"rate": 9.0}, None, "--slice 20ms --lead-in 4ms --late 0.2ms"),
    ],
)
def test_a_client_is_told_how_long_slices_are_and_when_it_is_late(
    client, pause_s, flags
):
    words = turns.client_flags(made_set(client, pause_s=pause_s))
    assert " ".join(words).endswith(flags)
    assert words[words.index("--connections") + 1] == "5,7"
    swapped = turns.client_flags(made_set(client), order=(1, 0))
    assert swapped[swapped.index("--connections") + 1] == "7,5"


def test_what_is_left_of_a_set_keeps_its_own_number_of_users():
    """The client asked with the most that any server of the set should have had."""
    left = dataclasses.replace(made_set({"connections": 7}), servers=SERVERS_OF_FIVE)
    words = turns.client_flags(left)
    assert words[words.index("--connections") + 1] == "5"


def test_a_server_of_a_set_has_one_user_unless_it_says_how_many():
    """It had as many as the one of the set that had most."""
    factors = {"connections": 7, "duration": 1.0, "warmup": 0.1, "slice": 20.0}
    setting = SimpleNamespace(factors=factors, seed=1, cores=None, programs=None)
    made = interleaving.in_turns([{"model": "epoll"}, cell("poll", 7)], setting)
    assert made.connections == [1, 7]


@pytest.mark.parametrize(("drain", "each_s"), [({}, 5), ({"drain": 30}, 30)])
def test_a_client_has_the_time_to_give_up_every_server_of_a_set(drain, each_s):
    """With six that served one user each, asked at a rate, it had no report in time."""
    setting = made_set({"rate": 9.0, "duration": 1.0, "warmup": 0.1, **drain})
    allowed_s = []

    def ready(client, *, timeout_s):
        allowed_s.append(timeout_s)
        return {"event": "result"}

    served = [turns.Served({"model": "at:192.0.2.1:9"}, 0, {})] * 8
    host = SimpleNamespace(ready=ready)
    assert turns._Course(setting, host, None, served=served)._attend(1)
    assert allowed_s[0] > turns.trials.timeout_s(setting.client) + 8 * each_s
    source = project_root() / "src_c/client/client_slices.c"
    assert f"LONGEST_SLICES = {turns.HANGING_SLICES} " in source.read_text()


def test_a_trial_has_its_own_rows_of_the_table_and_its_share_of_companions():
    """Counted ones; companions by requests, of all servers in all slices."""
    counts = {"lead_in_requests": 2, "requests": 8, "response_ns": 100}
    counts |= {"seconds": 0.019, "server_cpu_ns": 3_000_000, "rest_cpu_ns": None}
    slices = [
        counts | {"target": n % 2, "round": n // 2, "counted": n > 1} for n in range(6)
    ]
    slices[3]["response_p99_ns"] = 9000
    report = {"requests": {"completed": 40}}
    outcome = SimpleNamespace(
        setting=made_set({"rate": 9.0}),
        served=[None] * 2,
        client={"repeated": 4},
        slices=slices,
        reports=[report] * 2,
        companion_cpu_s=0.4,
    )
    others = interleaving._Others(0.5, 0.25, {1: 0.5, 2: 0.1}, [1])
    first, second = (interleaving._rounds(outcome, n, others) for n in (0, 1))
    assert first.round == [1, 2]
    assert (first.response_p99_ns, second.response_p99_ns) == ([], [9000, None])
    assert (first.others, first.disturbed, first.repeated) == ([0.5, 0.1], [1], 4)
    usage = {"event": "usage", "cpu_user_s": 1.0, "cpu_system_s": 2.0}
    served = SimpleNamespace(ended=SimpleNamespace(lines=[usage]), looks=[])
    taken = interleaving._samples(outcome, served, first, others)
    assert taken.companion_cpu_s == pytest.approx(0.4 * 20 / 80)
    assert taken.cpu_user_s == pytest.approx(0.002)
    assert taken.cpu_system_s == pytest.approx(0.004)
    assert taken.steal_s == pytest.approx(0.25 * taken.window_s)
    assert taken.other_cpu_s == pytest.approx(0.5 * taken.window_s)


def test_a_server_of_a_set_is_told_with_its_count_its_exit_and_its_words():
    ended = Ended(1, True, ({"event": "stats", "requests": 20},), "no memory", {})
    ready = {"event": "ready", "model": "poll", "host": "::1", "port": 9}
    here, afar = (
        turns.Served({"model": name}, 0, ready, ended=ended)
        for name in ("poll", "at:192.0.2.1:9")
    )
    outcome = SimpleNamespace(
        setting=made_set({}),
        served=[here, afar],
        client={},
        slices=[],
        reports=[{}, {}],
        companion_cpu_s=0.0,
        seconds=9.0,
    )
    others = interleaving._Others(0.0, 0.0, {}, [])
    ours, theirs = (
        interleaving._outcome(outcome, MODELS["poll"], place, others)
        for place in (0, 1)
    )
    server = ours.server
    assert (server.model, server.exit) == (MODELS["poll"], 1)
    assert server.stats.requests == 20
    assert "no memory" in str(server.diagnostics)
    assert (server.samples.window_from, server.unseen) == ("slices", None)
    assert (theirs.server.samples, theirs.server.unseen) == (None, afar.at.why)
    assert ours.seconds == 4.5


def test_a_set_may_use_half_of_what_is_free(monkeypatch):
    free = {"free_tasks": 100, "free_bytes": 2e9, "lockable_bytes": 8e6}
    for name, value in free.items():
        monkeypatch.setattr(capacity, name, lambda value=value: value)
    room = capacity.local_room()
    assert (room.tasks, room.memory_bytes, room.locked_bytes) == (50, 1e9, 4e6)


def test_a_lowered_limit_of_descriptors_leaves_less_room(monkeypatch):
    limits = machine.limits()
    lowered = limits | {"descriptors": {"soft": 300, "hard": 300}}
    before = capacity.local_room().connections
    monkeypatch.setattr(machine, "limits", lambda: lowered)
    assert capacity.local_room().connections == 4 * (300 - 64) < before


@pytest.mark.parametrize(("client", "most"), [((1,), 236), ((1, 2), 2 * 236)])
def test_a_set_has_no_more_connections_than_a_client_that_never_sleeps(
    monkeypatch, client, most
):
    """Two processes on one core slept: of 5000 silent users, or twenty servers."""
    limits = machine.limits() | {"descriptors": {"soft": 300, "hard": 300}}
    monkeypatch.setattr(machine, "limits", lambda: limits)
    sets = Cores((0,), client, shared=False)
    monkeypatch.setattr(location.cores, "of_trial", lambda _: sets)
    assert location.ThisMachine().room().connections == most


def test_a_pair_that_a_client_cannot_hold_is_refused_before_it_starts(
    tmp_path, monkeypatch
):
    """The client would refuse processes that nobody had asked for, by its own name."""
    each = 5
    hard = flags.OWN_DESCRIPTORS + each
    lowered = machine.limits() | {"descriptors": {"soft": hard, "hard": hard}}
    monkeypatch.setattr(machine, "limits", lambda: lowered)
    monkeypatch.setattr(flags, "PROCESSES_MOST", 1)
    options = {"models": ["good", "busy"], "baseline": {"model": "good"}}
    options["fixed"] = {"connections": 3}
    report = drive_fakes.sweep(tmp_path, beside="model", **options)
    assert (report.unavailable, report.failed - report.unavailable) == (1, 0)
    failures = {row["factors"]["model"]: row["failure"] for row in rows(tmp_path)}
    assert failures == {"good": None, "busy": ANY}
    told = "connections: 3, beside 3 to the baseline; allowed here: 1 to 5 together (1 "
    assert failures["busy"]["reason"].startswith(told)
    assert failures["busy"]["kind"] == "unavailable"
    alone = drive_fakes.sweep(tmp_path, run="alone", **options)
    assert alone.unavailable == 0


def test_a_server_that_is_added_later_brings_the_baseline_along():
    """Its ratio needs a baseline in its own set."""
    cells = [cell("epoll"), cell("poll"), cell("select")]
    slots = grid.round_of([1], number=3, counts=[4, 0, 4], seed=1)
    (group,) = grouped(cells, slots=slots)
    assert [slot.cell for slot in group.all] == [1, 0]
    assert [slot.repeat for slot in group.carried] == [0]
    whole = grouped(cells)[0]
    missing = whole.without([slot for slot in whole.slots if slot.cell != 1])
    assert sorted(slot.cell for slot in missing.all) == [0, 1]


def test_the_baseline_is_the_one_that_is_asked_for():
    cells = [cell("poll"), cell("epoll"), cell("select")]
    (whole,) = whole_sets(cells)
    assert whole.baseline == 1
    (whole,) = whole_sets(cells, baseline={"model": "select"})
    assert whole.baseline == 2
    (whole,) = whole_sets(cells[::2])
    assert whole.baseline == 0


@pytest.mark.parametrize("name", ["active", "size", "duration", "cores"])
def test_only_settings_of_a_server_and_its_users_stand_beside_each_other(name):
    with pytest.raises(ValueError, match=f"beside: '{name}'; allowed: arm, model"):
        drive_fakes.planned("s", run="r", factors={"model": ["epoll"]}, beside=name)


def test_other_programs_are_what_neither_server_nor_client_nor_companions_used():
    row = {"busy_ns": 2_000_000, "steal_ns": 100_000, "slice_seconds": 0.001}
    row |= {"server_cpu_ns": 800_000, "rest_cpu_ns": 100_000, "client_cpu_ns": 900_000}
    # the seconds of a slice that its server ended leave out what the client waited
    hung = row | {"busy_ns": 10**10, "ended": "hung"}
    assert turns.others_share([*[row] * 10, hung]) == pytest.approx((0.2, 0.1))
    share = turns.others_share([row] * 10, companion_cpu_s=0.0015)
    assert share == pytest.approx((0.05, 0.1))


# ---- with the real programs ------------------------------------------------------


OPTIONS = {"trials": 4, "duration": 0.2, "warmup": 0.06, "beside": "model"}


def asked(models: list[str]) -> dict:
    return {"factors": {"model": models, "connections": [4]}, **OPTIONS}


def swept(root, models=("epoll", "poll", "iterative")):
    return measure(root, **asked(models))


@pytest.fixture(scope="module")
def measured(client_program, tmp_path_factory, others_allowed):
    root = tmp_path_factory.mktemp("turns")
    return root, swept(root)


@pytest.mark.serial
def test_servers_take_turns_and_leave_a_line_each(measured):
    root, report = measured
    frame = load("r", "s", root=root)
    assert report.done == 12
    pairs = frame[frame["model"] != "iterative"]
    assert set(pairs["beside"]) == {2}
    assert pairs.groupby("block")["set"].nunique().eq(1).all()
    assert frame.loc[frame["model"] == "iterative", "set"].isna().all()
    assert pairs["excluded_by"].isna().all()
    turns_of = [trial["turns"] for trial in rows(root) if trial["turns"]]
    for kept in turns_of:
        # 10 of 20 ms; fewer that last longer where other programs have the cores
        assert 1 <= len(kept["round"]) <= 12
        assert 0 < sum(kept["seconds"]) < 3
    assert turns_of[0]["set"] == turns_of[1]["set"]
    assert turns_of[0]["round"] == turns_of[1]["round"]


@pytest.mark.serial
@pytest.mark.usefixtures("others_allowed")
def test_servers_with_other_numbers_of_users_take_turns(client_program, tmp_path):
    """A ratio between numbers of connections is one of rounds, too."""
    counts = [4, 40]
    both = {"model": ["epoll", "poll"], "connections": counts}
    options = OPTIONS | {"beside": ["model", "connections"]}
    measure(tmp_path, factors=both, **options)
    frame = load("r", "s", root=tmp_path)
    assert set(frame["beside"]) == {4}
    assert frame.groupby("block")["set"].nunique().eq(1).all()
    assert (frame["established"] == frame["connections"]).all()
    for trial in rows(tmp_path):
        words = trial["commands"]["client"].split()
        shown = words[words.index("--connections") + 1].split(",")
        assert sorted(map(int, shown)) == [4, 4, 40, 40]
    few = {"by": "connections", "baseline": 4, "within": ["model"]}
    growth = ratios(frame, "throughput_rps", **few)
    assert len(growth) == 2
    assert growth["method"].str.contains("rounds").all()


@pytest.mark.serial
def test_the_commands_are_those_that_ran(measured):
    for trial in rows(measured[0]):
        words = trial["commands"]["client"].split()
        count = trial["turns"]["beside"] if trial["turns"] else 1
        assert words.count("HOST:PORT") == count
        assert ("--slice" in words) is (trial["turns"] is not None)
        duration_s = float(words[words.index("--duration") + 1])
        assert duration_s == pytest.approx(0.2 * count)
        assert trial["commands"]["server"].split()[1] == trial["factors"]["model"]


@pytest.mark.serial
def test_columns_agree_with_the_rounds_they_come_from(measured):
    pairs = [trial for trial in rows(measured[0]) if trial["turns"]]
    assert pairs
    for trial in pairs:
        row, kept = schema.flatten(trial), trial["turns"]
        whole = [i for i, n in enumerate(kept["round"]) if n not in kept["disturbed"]]
        whole = whole or range(len(kept["round"]))

        def total(name, whole=whole, kept=kept):
            return sum(kept[name][i] for i in whole)

        rate = total("requests") / total("seconds")
        assert row["throughput_rps"] == pytest.approx(rate, rel=1e-3)
        with_lead_in = total("requests") + total("lead_in_requests")
        cost = total("server_cpu_ns") / 1e9 / with_lead_in
        assert len(kept["rest_cpu_ns"]) == len(kept["round"])
        assert 0 <= row["rest_cpu_share"] < 0.1
        assert row["server_cpu_per_request_s"] == pytest.approx(cost)
        assert row["pss_net_bytes"] >= 0


@pytest.mark.serial
def test_a_sweep_in_turns_is_resumed(measured):
    again = swept(measured[0])
    assert (again.done, again.resumed) == (0, 12)


def test_a_server_that_does_not_come_up_fails_alone(monkeypatch):
    started = []

    def run(setting, *, host):
        started.append([server["model"] for server in setting.servers])
        time.sleep(0.05)
        if "poll" in started[-1]:
            place = started[-1].index("poll")
            raise turns.SetError("server poll: no", kind="server-start", server=place)
        raise turns.SetError("client: hung", kind="client-hung")

    monkeypatch.setattr(turns, "run", run)
    factors = {"duration": 1.0, "warmup": 0.1, "slice": 20.0}
    setting = SimpleNamespace(factors=factors, seed=1, cores=None, programs=None)
    cells = [cell("epoll"), cell("poll")]
    outcomes = interleaving.run(cells, setting, models=MODELS, host=None)
    assert started == [["epoll", "poll"], ["epoll"]]
    kinds = [outcome.failure.kind for outcome in outcomes]
    assert kinds == ["client-hung", "server-start"]
    assert all(outcome.seconds >= 0.05 for outcome in outcomes)  # of a budget


def test_parts_of_a_set_carry_the_baseline_and_are_resumed(
    client_program, tmp_path, monkeypatch
):
    monkeypatch.setattr(capacity, "CONNECTIONS_MOST", 8)
    swept(tmp_path, ["epoll", "poll", "select"])
    trials = rows(tmp_path)
    parts: dict[str, list] = {}
    for trial in trials:
        parts.setdefault(trial["turns"]["set"], []).append(trial)
    assert len(parts) == 2 * 4
    assert len({trial["key"] for trial in trials}) == len(trials) == 4 * 4
    for part in parts.values():
        assert sum(t["factors"]["model"] == "epoll" for t in part) == 1
        assert part[0]["factors"]["model"] == "epoll"  # left by a crash with any other
    carried = [t for t in trials if t["turns"]["carried"]]
    assert [t["factors"]["model"] for t in carried] == ["epoll"] * 4
    names = ["epoll", "poll", "select"]
    left = drive_fakes.estimate("s", run="r", root=tmp_path, **asked(names))
    assert (left.trials, left.resumed) == (0, 12)
    again = swept(tmp_path, names)
    assert (again.done, again.resumed) == (0, 12)


def test_ratios_are_of_the_set_that_was_measured_however_room_divides_it_now(
    client_program, tmp_path, monkeypatch
):
    """Who stood in another part than its baseline had none, and was measured on."""
    log_ratios, found = sweeps._Sweep._log_ratios, []

    def noted(*arguments):
        found.append(log_ratios(*arguments))
        return found[-1]

    monkeypatch.setattr(sweeps._Sweep, "_log_ratios", noted)
    monkeypatch.setattr(stopping, "is_used", lambda row: True)
    names = ["epoll", "poll", "select"]
    swept(tmp_path, names)
    first = sorted(map(str, found))
    found.clear()
    monkeypatch.setattr(capacity, "CONNECTIONS_MOST", 8)
    again = swept(tmp_path, names)
    assert (again.done, again.resumed) == (0, 12)
    assert sorted(map(str, found)) == first


def test_a_baseline_that_a_crash_left_alone_is_that_of_its_set_once_measured(
    client_program, tmp_path, monkeypatch
):
    """A carried one has its key again; frames took the one that stood there before."""
    monkeypatch.setattr(capacity, "CONNECTIONS_MOST", 8)
    names = ["epoll", "poll", "select"]
    swept(tmp_path, names)
    path, trials = tmp_path / "r/s/trials.jsonl", rows(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    left = next(n for n, trial in enumerate(trials) if trial["turns"]["carried"])
    path.write_text("".join(lines[: left + 1]))
    swept(tmp_path, names)
    keys = [trial["key"] for trial in rows(tmp_path)]
    assert keys.count(trials[left]["key"]) == 2
    with pytest.warns(RunWarning, match="twice; the last counts"):
        frame = load("r", "s", root=tmp_path)
    assert frame.groupby("set")["started_at"].nunique().tolist() == [1] * 8


def test_a_baseline_that_a_crash_left_alone_is_none_of_what_is_measured_then(
    client_program, tmp_path
):
    """Sets had the name of their first server: rounds of two times were compared."""
    names = ["epoll", "poll", "select"]
    swept(tmp_path, names)
    path = tmp_path / "r/s/trials.jsonl"
    lines = zip(path.read_text().splitlines(keepends=True), rows(tmp_path), strict=True)
    left = [line for line, trial in lines if trial["factors"]["model"] == "epoll"]
    path.write_text("".join(left))
    again = swept(tmp_path, names)
    assert (again.done, again.resumed) == (8, 4)
    times: dict[str, set] = {}
    for trial in rows(tmp_path):
        times.setdefault(trial["turns"]["set"], set()).add(trial["started_at"])
    assert [len(started) for started in times.values()] == [1] * 8


def test_a_baseline_of_many_is_several_servers_and_resumed(client_program, tmp_path):
    names = ["epoll", "poll", "select", "epoll-et", "coroutine"]
    first = swept(tmp_path, names)
    trials = rows(tmp_path)
    assert (first.done, len(trials)) == (20, 24)
    assert len({trial["key"] for trial in trials}) == 24
    for name in {trial["turns"]["set"] for trial in trials}:
        part = [t for t in trials if t["turns"]["set"] == name]
        assert [t["factors"]["model"] for t in part[:2]] == ["epoll"] * 2
        assert sorted(t["turns"]["carried"] for t in part) == [False] * 5 + [True]
        assert {t["turns"]["beside"] for t in part} == {6}
    stopped = manifest(tmp_path)["studies"]["s"]["stopping"]["widths"]
    again = swept(tmp_path, names)
    assert (again.done, again.resumed) == (0, 20)
    assert manifest(tmp_path)["studies"]["s"]["stopping"]["widths"] == stopped


def test_the_length_of_a_slice_may_vary_and_be_none(client_program, tmp_path):
    """One by one and in turns, in one sweep: what study 00 compares."""
    factors = {"model": ["epoll", "poll"], "slice": [None, 5, 50]}
    measure(tmp_path, factors=factors, duration=0.2, beside="model")
    frame = load("r", "s", root=tmp_path)
    alone = frame[frame["slice"].isna()]
    assert alone["beside"].isna().to_list() == [True, True]
    assert set(frame.loc[frame["slice"].notna(), "beside"]) == {2}


@pytest.mark.sweeps
def test_windows_hold_enough_response_times(client_program, tmp_path):
    """Of 1000 users in 50 ms most would have two or three answers."""
    factors = {"model": ["epoll", "poll"], "connections": [1000]}
    window = {"duration": 0.05, "response_times": 20, "duration_max": 10}
    measure(tmp_path, factors=factors, beside="model", **window)
    frame = load("r", "s", root=tmp_path)
    assert (frame["counted_response_times"] >= 20).all()
    assert frame["window_s"].max() < 10


@pytest.mark.parametrize("taken", [0.1, 1.9])
def test_a_sweep_says_how_many_rounds_were_disturbed(taken):
    """Of a set once, though each of its servers names them."""
    others, seconds = [taken] * 5, dict.fromkeys(range(5), 0.4)
    bad = gates.disturbed(dict(enumerate(others)), seconds, cores=2)
    kept = schema.Turns(
        beside=3, slice_ms=20, lead_in_ms=1, others=others, disturbed=bad, late=2
    )
    under_way = drive_fakes.under_way()
    under_way._count_rounds([SimpleNamespace(turns=kept)] * 3)
    under_way._count_rounds([SimpleNamespace(turns=None)])
    disturbed = 5 if taken > 1 else 0
    assert under_way.rounds == Counter(all=5, disturbed=disturbed, late=2)


@pytest.mark.parametrize(
    ("counts", "died", "pauses"),
    [
        ((9, 1, 1), None, [0.2]),
        ((0, 8, 2), None, [0.2]),  # late for another reason
        ((4, 6, 6), None, [0.2, 0.8, 3.2]),
        ((0, 0, 0), None, [0.2, 0.8, 3.2]),  # slices were over before they began
        ((0, 0, 0), "killed", [0.2]),
    ],
)
def test_a_pause_over_hosts_grows_where_rounds_had_too_little(
    monkeypatch, counts, died, pauses
):
    used = []

    def run(setting, *, host, clients):
        used.append(setting.pause_s / setting.slice_s)
        names = ("rounds", "late_rounds", "overran_rounds")
        client = dict(zip(names, counts, strict=True))
        return SimpleNamespace(client=client, served=[SimpleNamespace(failure=died)])

    monkeypatch.setattr(turns, "run", run)
    clients = SimpleNamespace(pauses={}, unwatched=contextlib.nullcontext)
    setting = turns.Setting((), {}, 1, cores=None, programs=None)
    asked = {"host": None, "clients": clients}
    assert interleaving.run_set(setting, name="set", **asked)
    assert used == pytest.approx(pauses)
