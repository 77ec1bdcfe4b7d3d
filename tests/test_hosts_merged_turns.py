"""Rows and reports of clients on several hosts that took the same turns, as one."""

import itertools
from types import SimpleNamespace

import pytest

from connlab.drive import turns
from connlab.drive.host import ProgramError
from connlab.hosts import group, merged_turns, turning
from connlab.hosts.turning import Grid

SLICE_S, PAUSE_S = 0.05, 0.01


def row(number: int, position: int, target: int, **changes) -> dict:
    fields = {"round": number, "counted": 1, "late": 0, "position": position}
    fields |= {"target": target, "begin_ns": 60_000_000 * (2 * number + position)}
    fields |= {"lead_in_requests": 10, "seconds": 0.04, "requests": 100, "bytes": 6400}
    fields |= {"response_ns": 1000, "slice_seconds": 0.05, "server_cpu_ns": None}
    fields |= {"rest_cpu_ns": None, "client_cpu_ns": 7, "probed": 4, "waiting": 1}
    fields |= {"busy_ns": 0, "steal_ns": 0, "lag_p99_ns": None, "errors": 0}
    fields |= {"response_p99_ns": None}
    return fields | {"ended": None} | changes


def look(number: int, position: int, target: int, **changes) -> dict:
    fields = {"server_cpu_ns": 20_000_000, "rest_cpu_ns": 0, "client_cpu_ns": 100_000}
    fields |= {"busy_ns": 32_100_000, "steal_ns": 6_000_000, "requests": 0}
    return row(number, position, target, **fields | changes)


def rounds(count: int, make=row) -> list[dict]:
    return [make(n, place, place) for n in range(count) for place in (0, 1)]


def merged(
    *clients: list[dict], looks: list[dict], ended: set[int] = frozenset(), **options
) -> list[dict]:
    """Merge rows; every client has seen the targets `ended` come to an end."""
    options |= {"slice_s": SLICE_S, "pause_s": PAUSE_S, "ended": [ended] * len(clients)}
    return merged_turns.merged_rows(clients, looks, **options)


def counted(rows: list[dict]) -> set[int]:
    return {row["round"] for row in rows if row["counted"]}


def test_counts_add_and_the_longest_stands():
    slower = [row | {"seconds": 0.041, "slice_seconds": 0.051} for row in rounds(2)]
    rows = merged(rounds(2), slower, looks=rounds(2, look))
    slices = [(row["round"], row["target"]) for row in rows]
    assert slices == [(0, 0), (0, 1), (1, 0), (1, 1)]
    first = rows[0]
    assert first["requests"] == 200
    assert first["lead_in_requests"] == 20
    assert (first["seconds"], first["slice_seconds"]) == (0.041, 0.051)
    assert first["server_cpu_ns"] == 20_000_000
    assert turns.table(group.table(rows)) == rows


def test_what_others_took_in_the_pause_is_not_of_the_slice():
    """12 ms in 60 ms are 10 ms in 50 ms."""
    rows = merged(rounds(1), looks=rounds(1, look))
    busy, steal = turns.others_share(rows)
    assert busy == pytest.approx(0.2)
    assert steal == pytest.approx(0.1)
    beside = merged(rounds(1), looks=rounds(1, look), shared=True)
    assert beside[0]["client_cpu_ns"] == 100_007


@pytest.mark.parametrize(
    ("spoilt", "overran"),
    [
        (lambda rows: rows.pop(2), 1),  # left out
        (lambda rows: rows[2].update(slice_seconds=0.056), 1),  # answered too late
        (lambda rows: rows[2].update(late=1, counted=0), 0),  # sent late
    ],
)
def test_a_round_that_is_not_whole_counts_for_no_server(spoilt, overran):
    second = rounds(3)
    spoilt(second)
    rows = merged(rounds(3), second, looks=rounds(3, look))
    assert counted(rows) == {0, 2}
    aside = [row for row in rows if row["round"] == 1]
    assert all(row["late"] and row["overran"] == overran for row in aside)
    assert not any(row["overran"] for row in rows if row["round"] != 1)


def test_a_round_in_which_clocks_were_read_late_does_not_count():
    looks = rounds(3, look)
    looks.pop(5)
    assert counted(merged(rounds(3), looks=looks)) == {0, 1}


def test_a_server_that_ended_costs_the_others_no_round():
    """The clients see it in the same slice, or one in its next."""
    first, second = rounds(4), rounds(4)
    first[3]["ended"] = second[5]["ended"] = "gone"
    first = [row for row in first if row["target"] == 0 or row["round"] < 2]
    second = [row for row in second if row["target"] == 0 or row["round"] < 3]
    rows = merged(first, second, looks=rounds(4, look), ended={1})
    assert [row["round"] for row in rows if row["target"] == 0] == [0, 1, 2, 3]
    assert counted(rows) == {0, 1, 2, 3}
    assert [row["round"] for row in rows if row["target"] == 1] == [0, 1]
    assert rows[-3]["ended"] == "gone"


@pytest.mark.parametrize("slices", [2, 0])
def test_a_server_that_ended_in_the_turns_of_others_costs_them_no_round(slices):
    """No row says so; it may never have had a slice, as nobody could connect to it."""
    alive = [row for row in rounds(4) if row["target"] == 0 or row["round"] < slices]
    rows = merged(alive, alive, looks=rounds(4, look), ended={1})
    assert counted(rows) == {0, 1, 2, 3}
    assert [row["round"] for row in rows if row["target"] == 1] == [*range(slices)]
    alive.pop(-1)  # what is missing of others still costs a round
    assert counted(merged(alive, alive, looks=rounds(4, look), ended={1})) == {0, 1, 2}


def test_the_report_of_a_client_says_which_servers_ended():
    early = [None, {"round": 3, "reason": "gone"}, {"round": 0, "reason": "refused"}]
    targets = [{"slices": {"ended_early": end}} for end in early]
    assert merged_turns.ended_targets({"targets": targets}) == {1, 2}


def test_hosts_that_turned_to_different_servers_are_refused():
    second = rounds(2)
    second[0]["target"], second[1]["target"] = 1, 0
    with pytest.raises(ProgramError, match="different servers"):
        merged(rounds(2), second, looks=rounds(2, look))


def test_nothing_is_asked_of_hosts_in_a_slice():
    grid = Grid(begins_s=100.0, slice_s=SLICE_S, pause_s=PAUSE_S, count=10)
    assert grid.ends_s == pytest.approx(100.6)
    assert grid.quiet_until_s(99.0) == 99.0
    assert grid.quiet_until_s(100.7) == 100.7
    for hundredth in range(58):
        at_s = 100 + hundredth / 100
        quiet_s = grid.quiet_until_s(at_s)
        assert at_s - 1e-9 <= quiet_s < at_s + 0.0601
        assert (quiet_s - 100) % 0.06 == pytest.approx(0.0525)


def test_a_sign_is_asked_for_before_leases_end(monkeypatch):
    """In slices of ten seconds agents ended all programs of each set."""
    now_s, asked_s = [100.0], []

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep)
    monkeypatch.setattr(turning, "time", clock)
    server = SimpleNamespace(engine=SimpleNamespace(lease_s=8.0))
    clients = turning.Turning(SimpleNamespace(server=server))
    clients.programs = [SimpleNamespace(report=None)]
    clients.grid = Grid(begins_s=100.5, slice_s=10.0, pause_s=2.0, count=4)
    monkeypatch.setattr(clients, "ask_all", lambda: asked_s.append(now_s[0]))
    assert clients.ready(1, timeout_s=50.0) is None
    apart_s = [late - soon for soon, late in itertools.pairwise(asked_s)]
    assert max(apart_s) < 4.001
    # else in pauses, as ever
    assert any(at_s == pytest.approx(111.0) for at_s in asked_s)
