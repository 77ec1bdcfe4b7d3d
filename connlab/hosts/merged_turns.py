"""What several clients that turned at the same moments saw, as if they were one.

    rows of each client, of one slice  -> counts add, the longest stands
    row of who read CPU clocks         -> CPU time of the server, what others took
    a round that is not whole          -> set aside for all servers
    reports of each client, by server  -> `connlab.hosts.group.merged`

A round is whole when every client began and ended each of its slices in time, and the
CPU clocks were read on either side of it. It is too late for a slice when its last
answer came after the first half of the pause (``src_c/client/client_grid.h``): the
round overran, and longer pauses may help. Where the rate is given, a round in which one
client sent late (``--late``) is set aside as well. A server that ended has no more
slices, and the rounds of the others stay whole; also one that ended before its first.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from connlab.drive.host import ProgramError
from connlab.hosts import group
from connlab.hosts.remote_programs import RemoteProgram

Row = dict[str, Any]
#: the number of a round, and a position in it
_Slot = tuple[int, int]
_Table = Mapping[_Slot, Row]

_ADDED = (
    *("lead_in_requests", "requests", "bytes", "response_ns"),
    *("probed", "waiting", "errors"),
)
_LONGEST = ("seconds", "slice_seconds")
_LONGEST_IF_ANY = ("lag_p99_ns", "response_p99_ns")
_READ = ("server_cpu_ns", "rest_cpu_ns", "steal_ns")
#: of a pause, in which answers may still come in
IN_TIME = 0.5


# ---- rows ------------------------------------------------------------------------


def merged_rows(
    clients: Sequence[Sequence[Row]],
    watched: Sequence[Row],
    *,
    ended: Sequence[Collection[int]],
    slice_s: float,
    pause_s: float,
    shared: bool = False,
) -> list[Row]:
    """Return one row for each slice that all had, in the order of time.

    From the rows of each client, as from `connlab.drive.turns.table`, and of who
    `watched` the CPU clocks of the servers. `ended` are the targets that came to an end
    for each client; see `ended_targets`. Where clients `shared` the servers' cores,
    their CPU time is in what these did. Rows of rounds that are set aside have `late` 1
    and `counted` 0; `overran`: a longer pause might have saved them.

    Raises ProgramError when hosts did not have the same target at the same time.
    """
    tables = [{_slot(row): row for row in rows} for rows in clients]
    readings = {_slot(row): row for row in watched}
    longest_s = slice_s + IN_TIME * pause_s
    ends = _last_rounds(tables, ended)
    overran = _overran(tables, readings, ends, longest_s)
    aside = overran | {row["round"] for rows in clients for row in rows if row["late"]}
    merged = []
    for slot in sorted(set(readings).intersection(*tables)):
        rows = [table[slot] for table in tables]
        if len({row["target"] for row in (*rows, readings[slot])}) > 1:
            raise ProgramError(f"round {slot[0]}: hosts turned to different servers")
        share = slice_s / (slice_s + pause_s)
        row = _added(rows, readings[slot], shared=shared, share=share)
        if slot[0] in aside:
            row |= {"counted": 0, "late": int(rows[0]["counted"] or rows[0]["late"])}
        merged.append(row | {"overran": int(slot[0] in overran)})
    return merged


def _slot(row: Row) -> _Slot:
    return row["round"], row["position"]


def _overran(
    tables: Sequence[_Table],
    readings: _Table,
    ends: Mapping[int, int],
    longest_s: float,
) -> set[int]:
    """Return the rounds in which a slice is missing, or lasted longer than allowed.

    The one in which a client waited for a server that ended may last longer.
    """
    sources = [*tables, readings]
    targets = {slot: row["target"] for rows in sources for slot, row in rows.items()}
    servers = len(ends.keys() | set(targets.values()))
    waited = {n for table in tables for (n, _), row in table.items() if row["ended"]}
    waited &= set(ends.values())
    overran = set()
    for number in {number for number, _ in targets}:
        slots = [(number, position) for position in range(servers)]
        alive = servers - sum(last < number for last in ends.values())
        complete = sum(all(slot in rows for rows in sources) for slot in slots)
        late = any(
            table[slot]["slice_seconds"] > longest_s
            for table in tables
            for slot in slots
            if slot in table
        )
        if complete < alive or (late and number not in waited):
            overran.add(number)
    return overran


def _last_rounds(
    tables: Sequence[_Table], ended: Sequence[Collection[int]]
) -> dict[int, int]:
    """Return the last round of each server that ended, for the first client to see it.

    -1 where it had no slice: its users never connected.
    """
    last: dict[int, int] = {}
    for table, targets in zip(tables, ended, strict=True):
        for target in targets:
            rounds = [n for (n, _), row in table.items() if row["target"] == target]
            seen = max(rounds, default=-1)
            last[target] = min(seen, last.get(target, seen))
    return last


def _added(rows: Sequence[Row], reading: Row, *, shared: bool, share: float) -> Row:
    """Return the row of a slice, a `share` of the time between two readings."""
    total = dict(rows[0])
    total |= {name: sum(row[name] or 0 for row in rows) for name in _ADDED}
    total |= {name: max(row[name] for row in rows) for name in _LONGEST}
    for name in _LONGEST_IF_ANY:
        known = [row[name] for row in rows if row[name] is not None]
        total[name] = max(known, default=None)
    total["ended"] = next((row["ended"] for row in rows if row["ended"]), None)
    total |= {name: reading[name] for name in _READ}
    client_ns = shared * sum(row["client_cpu_ns"] for row in rows)
    total["client_cpu_ns"] = reading["client_cpu_ns"] + client_ns
    ours = ("client_cpu_ns", "server_cpu_ns", "rest_cpu_ns")
    ours_ns = sum(total[name] or 0 for name in ours)
    # what others take in the pause is not of the slice
    total["busy_ns"] = ours_ns + round(share * (reading["busy_ns"] - ours_ns))
    total["steal_ns"] = round(share * reading["steal_ns"])
    return total


# ---- reports ---------------------------------------------------------------------


def ended_targets(report: Mapping[str, Any]) -> set[int]:
    """Return the numbers of the targets that a client's report says came to an end.

    Its rows do not tell of all: a server that ends while others have their turns has no
    slice any more that could.
    """
    return {
        number
        for number, target in enumerate(report["targets"])
        if target["slices"]["ended_early"]
    }


def report(
    programs: Sequence[RemoteProgram],
    merged: Sequence[Row],
    clocks: Mapping[str, Mapping[str, int]],
) -> dict[str, Any]:
    """Return one client's report of several, with an object per server.

    The last of the `programs` read the CPU clocks. `merged` are the rows of
    `merged_rows`; `clocks` holds what is known of each host's clock, by its name.
    """
    *clients, reader = programs
    first = clients[0].report
    targets = []
    for target in range(len(first["targets"])):
        # rounds that are not whole are in it
        merged_target = group.merged(
            [client.report["targets"][target] for client in clients],
            [client.files()["histogram"] for client in clients],
            target,
        )
        merged_target["hosts"] = {
            client.name: {
                **clocks[client.name],
                "rounds": client.report["rounds"],
                "report": client.report["targets"][target],
            }
            for client in clients
        }
        server = {**clocks[reader.name], "rounds": reader.report["rounds"]}
        merged_target["server_host"] = {reader.name: server}
        targets.append(merged_target)
    return dict(first) | {
        "rounds": len({row["round"] for row in merged if row["counted"]}),
        "late_rounds": len({row["round"] for row in merged if row["late"]}),
        "overran_rounds": len(
            {row["round"] for row in merged if row["late"] and row["overran"]}
        ),
        "targets": targets,
    }
