"""What several clients that turned at the same moments saw, as if they were one.

    rows of each client, of one slice  -> counts add, the longest stands
    row of who read CPU clocks         -> CPU time of the server, what others took
    a round that is not whole          -> set aside for all servers
    reports of each client, by server  -> `connlab.hosts.group.merged`

A round is whole when every client began and ended each of its slices in time, and the
CPU clocks were read on either side of it. It is too late for a slice when its last
answer came after the first half of the pause (``src_c/client/client_grid.h``). A server
that ended has no more slices, and the rounds of the others stay whole.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.drive.host import ProgramError
from connlab.hosts import group

Row = dict[str, Any]
#: where in a round, and of which
_Slot = tuple[int, int]

_ADDED = ("lead_in_requests", "requests", "bytes", "response_ns")
_ADDED_ALWAYS = ("probed", "waiting", "errors")
_LONGEST = ("seconds", "slice_seconds")
_LONGEST_IF_ANY = ("lag_p99_ns", "response_p99_ns")
_READ = ("server_cpu_ns", "rest_cpu_ns", "steal_ns")
#: of a pause, in which answers may still come in
IN_TIME = 0.5


@dataclass(frozen=True)
class Part:
    """What one host handed over: its report, its rows, its histograms as CSV."""

    name: str
    report: Mapping[str, Any]
    rows: Sequence[Row]
    histogram: bytes = b""


def table(merged: Sequence[Row]) -> bytes:
    """Return rows as a client writes them; empty without any."""
    if not merged:
        return b""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(merged[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(merged)
    return out.getvalue().encode()


# ---- rows ------------------------------------------------------------------------


def merged_rows(
    clients: Sequence[Sequence[Row]],
    watched: Sequence[Row],
    *,
    slice_s: float,
    pause_s: float,
    shared: bool = False,
) -> list[Row]:
    """Return one row for each slice that all had.

    Parameters
    ----------
    clients : sequence of rows
        Of each client, as from `connlab.drive.turns.table`.
    watched : rows
        Of who read CPU clocks on the host of the servers.
    slice_s, pause_s : float
        Lengths in seconds.
    shared : bool
        Whether clients used cores of the servers, so that their CPU time is in what
        these cores did.

    Returns
    -------
    list of rows
        In the order of time. Those of rounds that are not whole have `late` 1 and
        `counted` 0.

    Raises
    ------
    ProgramError
        When hosts did not have the same target at the same time.
    """
    tables = [{_slot(row): row for row in found} for found in clients]
    looks = {_slot(row): row for row in watched}
    longest_s = slice_s + IN_TIME * pause_s
    aside = _set_aside(tables, looks, longest_s)
    made = []
    for slot in sorted(set.intersection(*(set(one) for one in (*tables, looks)))):
        each = [one[slot] for one in tables]
        if len({row["target"] for row in (*each, looks[slot])}) > 1:
            raise ProgramError(f"round {slot[0]}: hosts turned to different servers")
        row = _added(
            each, looks[slot], shared=shared, part=slice_s / (slice_s + pause_s)
        )
        if slot[0] in aside:
            row |= {"counted": 0, "late": int(each[0]["counted"] or each[0]["late"])}
        made.append(row)
    return made


def _slot(row: Row) -> _Slot:
    return row["round"], row["position"]


def _set_aside(
    tables: Sequence[Mapping[_Slot, Row]], looks: Mapping[_Slot, Row], longest_s: float
) -> set[int]:
    """Return the rounds that are not whole."""
    every = [*tables, looks]
    ended = _ended(tables)
    where = {slot: row["target"] for one in every for slot, row in one.items()}
    servers = len(set(where.values()))
    aside = set()
    for number in {slot[0] for slot in where}:
        left = servers - sum(last < number for last in ended.values())
        whole = sum(all((number, at) in one for one in every) for at in range(servers))
        of_round = [
            one[number, at]
            for one in tables
            for at in range(servers)
            if (number, at) in one
        ]
        late = any(row["late"] or row["slice_seconds"] > longest_s for row in of_round)
        if whole < left or (late and number not in ended.values()):
            aside.add(number)
    return aside


def _ended(tables: Sequence[Mapping[_Slot, Row]]) -> dict[int, int]:
    """Return the last round of each server that ended, as the first client saw it."""
    found: dict[int, int] = {}
    for one in tables:
        for (number, _), row in one.items():
            if row["ended"]:
                target = row["target"]
                found[target] = min(number, found.get(target, number))
    return found


def _added(each: Sequence[Row], look: Row, *, shared: bool, part: float) -> Row:
    """Return the row of a slice: `part` of the time between two looks is the slice."""
    row = dict(each[0])
    for name in (*_ADDED, *_ADDED_ALWAYS):
        row[name] = sum(one[name] or 0 for one in each)
    for name in _LONGEST:
        row[name] = max(one[name] for one in each)
    for name in _LONGEST_IF_ANY:
        seen = [one[name] for one in each if one[name] is not None]
        row[name] = max(seen, default=None)
    row["ended"] = next((one["ended"] for one in each if one["ended"]), None)
    row |= {name: look[name] for name in _READ}
    mine = look["client_cpu_ns"]
    row["client_cpu_ns"] = mine + shared * sum(one["client_cpu_ns"] for one in each)
    ours = row["client_cpu_ns"] + sum(look[name] or 0 for name in _READ[:2])
    # what others take in the pause is not of the slice
    row["busy_ns"] = ours + round(part * (look["busy_ns"] - ours))
    row["steal_ns"] = round(part * look["steal_ns"])
    return row


# ---- reports ---------------------------------------------------------------------


def report(
    clients: Sequence[Part],
    watch: Part,
    merged: Sequence[Row],
    clocks: Mapping[str, Mapping[str, int]],
) -> dict[str, Any]:
    """Return one client's report of several, with an object per server.

    Parameters
    ----------
    clients, watch : Part
    merged : rows
        As from `merged_rows`.
    clocks : mapping
        What is known of each host's clock, by its name.
    """
    first = clients[0].report
    counted = {row["round"] for row in merged if row["counted"]}
    late = {row["round"] for row in merged if row["late"]}
    told = {"rounds": len(counted), "late_rounds": len(late)}
    parts = [_of_target(clients, target) for target in range(len(first["targets"]))]
    hosts = {
        client.name: dict(clocks[client.name]) | {"rounds": client.report["rounds"]}
        for client in clients
    }
    server = dict(clocks[watch.name]) | {"rounds": watch.report["rounds"]}
    for target, part in enumerate(parts):
        part["hosts"] = {
            client.name: hosts[client.name]
            | {"report": client.report["targets"][target]}
            for client in clients
        }
        part["server_host"] = {watch.name: server}
    return dict(first) | told | {"targets": parts}


def _of_target(clients: Sequence[Part], target: int) -> dict[str, Any]:
    """Return what all clients saw of one server, rounds set aside included."""
    reports = [client.report["targets"][target] for client in clients]
    histograms = [_of_histogram(client.histogram, target) for client in clients]
    return group.merged(reports, histograms)


def _of_histogram(text: bytes, target: int) -> bytes:
    """Return the lines of a histogram that are of one target."""
    head, *lines = text.decode().splitlines() or [""]
    mine = [line for line in lines if line.rpartition(",")[2] == str(target)]
    return "\n".join([head, *mine]).encode()
