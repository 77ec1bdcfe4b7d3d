"""Study 02: levels to try, the most each model carried, and why it broke.

    settings of the machine -> predicted limit per model -> levels of its ramp
    every trial -> carried or not -> per model: the highest level below which nothing
                                     broke, the level that did, symptoms of both sides
                                  -> beside the predicted limit, in sentences

A trial that fails is the datum here, so all trials count, flagged or not.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from connlab.drive.checkup import Capacity
from connlab.drive.flags import DRAIN_S, SETTLE_S
from connlab.study.formatting import counted, listing, plain, span
from connlab.study.frames import FAILURES, LIMITS, kept_all, not_accepted

NEAR = 0.05
"""Relative distance of the levels below and above a predicted limit."""


BY_WORKERS = "--workers"
"""What limits a model that keeps a worker for each connection."""


def predicted(capacities: Sequence[Capacity], *, workers: int) -> dict[str, Capacity]:
    """Return ``drive.doctor().capacities`` by model.

    Models that keep a worker for a connection hold as many as there are `workers`.
    """
    return {
        c.model: replace(c, connections=workers) if c.limited_by == BY_WORKERS else c
        for c in capacities
    }


def ramp(ladder: Sequence[int], most: int | None) -> list[int]:
    """Return the levels to try for one model, which should hold `most` connections.

    The ladder as far as the prediction, closely below and above it where the ladder
    goes beyond it, and one step further; all of the ladder without a prediction.
    """
    levels = sorted(set(ladder))
    if most is None or not levels or most >= levels[-1]:
        return levels
    near = {max(1, math.floor(most * (1 - NEAR))), math.ceil(most * (1 + NEAR))}
    beyond = next(n for n in levels if n > most)
    return sorted({n for n in levels if n <= most} | near | {beyond})


def grids(
    models: Sequence[str],
    ladder: Sequence[int],
    limits: Mapping[str, Capacity],
    *,
    workers: int,
) -> list[dict[str, list]]:
    """Return one grid of factors per model, as `connlab.drive.sweep` takes them."""
    per_model = []
    for name in models:
        limit = limits.get(name, Capacity(name, None, ""))
        grid = {"model": [name], "connections": ramp(ladder, limit.connections)}
        if limit.limited_by == BY_WORKERS:
            grid["workers"] = [workers]
        per_model.append(grid)
    return per_model


_ERRORS = {
    "connect_refused": "refused",
    "connect_timeout": "connecting timed out",
    "connect_other": "could not connect",
    "reset": "reset",
    "closed": "closed",
    "timeout": "no answer in time",
    "mismatch": "other bytes",
    "send": "sending failed",
    "receive": "receiving failed",
}


def carried(frame: pd.DataFrame) -> pd.Series:
    """Mark the trials, usable or not, in which every connection was carried.

    1. The trial has figures, and all requested connections survived.
    2. The server accepted as many, where it reports that: the kernel completes
       connections before a server accepts them, and the client counts those.
    3. No limit was met.
    4. Each user was answered at least once from beginning to end.
    5. No connection went without an answer in the window while there were plenty: five
       for each with a fixed number of workers, who serve some and let others wait, and
       fifty elsewhere.

    A server of one client at a time is told by its label, and a fixed number of workers
    by 5: once others have left, both accept and answer those who had to wait.
    """
    per_connection = frame["workers"].notna().map({True: 5, False: 50})
    plenty = frame["requests_completed"] >= per_connection * frame["connections"]
    starved = plenty & (frame["fairness_requests_min"] == 0)
    return _sound(frame) & ~starved.fillna(False).astype(bool)


def _sound(frame: pd.DataFrame) -> pd.Series:
    limited = frame["label"].fillna("").str.startswith("limit-bound")
    left_out = not_accepted(frame) | _never_answered(frame)
    return (kept_all(frame) & ~limited & ~left_out).astype(bool)


def _never_answered(frame: pd.DataFrame) -> pd.Series:
    """Mark the trials in which some user had no answer from beginning to end.

    There were fewer answers than users; or one without an answer in the window waited
    for longer than anybody can who was answered before. Each user asks once, rests
    until all have been answered or the time to settle is over, and then has as long
    again to begin anew before warm-up and window. (Those of a limited rate may not
    have asked.)
    """
    fewer = frame["requests_completed"] < frame["active"].fillna(frame["connections"])
    since_s = frame["settle"].fillna(SETTLE_S) + frame["warmup"] + frame["window_s"]
    longer = frame["longest_wait_s"] > since_s + DRAIN_S
    none = (frame["fairness_requests_min"] == 0) & frame["byte_rate"].isna()
    return (none & (fewer | longer)).fillna(False).astype(bool)


def atlas(
    frame: pd.DataFrame, limits: Mapping[str, Capacity] | None = None
) -> pd.DataFrame:
    """Return one row per model: predicted, carried up to, broke at, symptoms.

    Only of servers of one process. A user that starves in one window is no limit where
    more connections are carried and no fixed number of workers makes others wait: the
    scheduler left its thread out for that long.
    `carried` is the highest level below every level at which a trial broke: 0 where one
    connection was too many, and missing where nothing was tried below the level that
    broke. `broke` is that level, missing if none did. `server` and `client` are the
    symptoms there. `agrees`: whether the prediction lies between the two levels;
    missing where there is none, where it is beyond what was tried, and where nothing
    was tried below.
    """
    rows = []
    for model, trials in frame[frame["processes"].isna()].groupby("model"):
        held = carried(trials)
        highest = trials["connections"].where(held).max()
        unbounded = trials["workers"].isna()
        held |= unbounded & _sound(trials) & (trials["connections"] < highest)
        whole = held.groupby(trials["connections"]).all()
        broke = whole.index[~whole].min() if (~whole).any() else None
        below = whole.index[whole & (whole.index < (broke or math.inf))]
        broken = trials[(trials["connections"] == broke) & ~held]
        limit = (limits or {}).get(str(model), Capacity(str(model), None, ""))
        most = int(below.max()) if len(below) else 0 if broke == 1 else None
        rows.append(
            {
                "model": str(model),
                "predicted": limit.connections,
                "by": limit.limited_by,
                "carried": most,
                "broke": broke,
                "open_max": trials["open_max"].max(),
                "server": _server_symptom(broken) if len(broken) else "",
                "client": _client_symptom(broken) if len(broken) else "",
                "agrees": _agrees(limit.connections, most, broke),
            }
        )
    table = pd.DataFrame(rows)
    table["symptom"] = table["server"].where(table["server"] != "", table["client"])
    return table.astype(dict.fromkeys(["predicted", "carried", "broke"], "float64"))


def _agrees(limit: int | None, most: int | None, broke: int | None) -> bool | None:
    if limit is None:
        return None
    if broke is None:
        return None if most is None or limit >= most else False
    if limit >= broke:
        return False
    return None if most is None else most <= limit


def _server_symptom(broken: pd.DataFrame) -> str:
    """Return the commonest reason to refuse, else limit, else kind of failure.

    Else whether some of its users were not accepted, or not served.
    """
    limits = broken["label"].fillna("")
    limits = limits[limits.str.startswith("limit-bound:")]
    for values, names in (
        (broken["refused_reason"].dropna(), LIMITS),
        (limits.str.removeprefix("limit-bound:"), LIMITS),
        (broken["failure_kind"].dropna(), FAILURES),
    ):
        if len(values):
            commonest = values.mode()[0]
            return names.get(commonest, commonest)
    if not_accepted(broken).any():
        return "some are never accepted"
    starved = (broken["fairness_requests_min"] == 0).any()
    return "some are never served" if starved else ""


def _client_symptom(broken: pd.DataFrame) -> str:
    """Return the error that clients met most, or that they waited."""
    errors = {name: broken[f"errors_{name}"].sum() for name in _ERRORS}
    name = max(errors, key=errors.get)
    if errors[name] > 0:
        return _ERRORS[name]
    return "waits" if (broken["fairness_requests_min"] == 0).any() else "nothing"


# ---- in words ------------------------------------------------------------------------

_NAMED_MAX = 3
"""Of more models that broke alike only the first is named."""

APART = 2.0
"""Levels are far from each other from this ratio on."""


def where_broke(atlas: pd.DataFrame) -> list[str]:
    """Return a clause for each symptom: models, connections; lowest first.

    Models that broke far from each other, or between levels that are far apart, are
    told one by one, as the column name of the atlas calls them.
    """
    broke = atlas.dropna(subset=["broke"]).sort_values("broke", kind="stable")
    clauses = []
    for symptom, models in broke.groupby("symptom", sort=False):
        (who, where), *others = _told(models)
        parts = [f"{who} broke {where}", *map(" ".join, others)]
        noun = "connection" if parts[-1].endswith(" at 1") else "connections"
        why = f" ({symptom})" if symptom else ""
        clauses.append(f"{listing(parts)} {noun}{why}")
    return clauses


def place(carried: float, broke: float) -> str:
    """Return ``at 9`` connections, or ``between 7 and 100`` where these are far apart.

    A model that broke at the next number of connections broke there.
    """
    if carried >= 1 and broke > carried + 1 and broke >= APART * carried:
        return f"between {plain(carried)} and {plain(broke)}"
    return f"at {plain(broke)}"


def _told(models: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Give which models broke alike, and where, of rows that are lowest first."""
    groups: dict[str, list] = {}
    lowest_at, lowest = "", 0.0
    for row in models.itertuples():
        where = place(row.carried, row.broke)
        if where.startswith("at "):
            if row.broke >= APART * lowest:
                lowest_at, lowest = where, row.broke
            where = lowest_at
        groups.setdefault(where, []).append(row)
    for where, rows in groups.items():
        if where.startswith("at "):
            where = f"at {span(plain(rows[0].broke), plain(rows[-1].broke))}"
        yield _who([row.name for row in rows]), where


def _who(names: list[str]) -> str:
    if len(names) > _NAMED_MAX:
        return f"{names[0]} and {counted(len(names) - 1, 'other model')}"
    return listing(names)
