"""Study 02: which levels to try, how far each model was carried, on what it broke.

    settings of the machine -> predicted limit per model -> levels of its ramp
    every trial -> carried or not -> per model: the highest level below which nothing
                                     broke, the level that did, symptoms of both sides
                                  -> beside the limit that was predicted, in sentences

A trial that fails is the datum here, so all trials count, flagged or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from connlab.study.formatting import counted, listing, plain, span
from connlab.study.frames import FAILURES, LIMITS

NEAR = 0.05
"""The ramp looks so far below and above a predicted limit."""


@dataclass(frozen=True)
class Limit:
    """What the machine's settings say that a model can hold; None: not known."""

    connections: int | None
    by: str


def predicted(capacities: Sequence[Any], *, workers: int) -> dict[str, Limit]:
    """Return the predictions of ``drive.doctor().capacities``, by model.

    Models that keep a worker for a connection hold as many as there are `workers`.
    """
    return {
        one.model: Limit(
            workers if one.limited_by == "--workers" else one.connections,
            one.limited_by,
        )
        for one in capacities
    }


def ramp(ladder: Sequence[int], limit: Limit | None) -> list[int]:
    """Return the levels to try for one model.

    The ladder as far as the prediction, closely below and above it where the ladder
    goes beyond it, and one step further; all of the ladder without a prediction.
    """
    levels = sorted(set(ladder))
    most = limit.connections if limit else None
    if most is None or not levels or most >= levels[-1]:
        return levels
    near = {max(1, math.floor(most * (1 - NEAR))), math.ceil(most * (1 + NEAR))}
    beyond = next(n for n in levels if n > most)
    return sorted({n for n in levels if n <= most} | near | {beyond})


def grids(
    models: Sequence[str],
    ladder: Sequence[int],
    limits: Mapping[str, Limit],
    *,
    workers: int,
) -> list[dict[str, list]]:
    """Return one grid of factors per model, as `connlab.drive.sweep` takes them."""
    made = []
    for name in models:
        limit = limits.get(name)
        grid = {"model": [name], "connections": ramp(ladder, limit)}
        if limit and limit.by == "--workers":
            grid["workers"] = [workers]
        made.append(grid)
    return made


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
    """Say of each trial, usable or not, whether every connection was carried.

    1. The trial has figures, and as many connections survived as were asked for.
    2. No limit was met.
    3. Nobody went without an answer while there were plenty: five for each where a
       fixed crew of workers was asked for, which serves some and lets others wait,
       and fifty elsewhere.
    """
    kept = (frame["surviving"] == frame["connections"]) & frame["failure"].isna()
    limited = frame["label"].fillna("").str.startswith("limit-bound")
    each = frame["workers"].notna().map({True: 5, False: 50})
    plenty = frame["requests_completed"] >= each * frame["connections"]
    starved = plenty & (frame["fairness_requests_min"] == 0)
    return (kept.fillna(False) & ~limited & ~starved.fillna(False)).astype(bool)


def atlas(
    frame: pd.DataFrame, limits: Mapping[str, Limit] | None = None
) -> pd.DataFrame:
    """Return one row per model: predicted, carried up to, broke at, symptoms.

    Of servers of one process, without those that several share a port.
    `carried` is the highest level below every level at which a trial broke: 0 where one
    connection was too many, and missing where nothing was tried below the level that
    broke. `broke` is that level, missing if none did. `server` and `client` say what
    each side noticed there. `agrees` says whether the prediction lies between the two
    levels; missing where there is none, where it is beyond what was tried, and where
    nothing was tried below.
    """
    rows = []
    for model, trials in frame[frame["processes"].isna()].groupby("model"):
        whole = carried(trials).groupby(trials["connections"]).all()
        broke = whole.index[~whole].min() if (~whole).any() else None
        below = whole.index[whole & (whole.index < (broke or math.inf))]
        at = trials[trials["connections"] == broke] if broke is not None else None
        limit = (limits or {}).get(str(model)) or Limit(None, "")
        most = _most(below, broke)
        rows.append(
            {
                "model": str(model),
                "predicted": limit.connections,
                "by": limit.by,
                "carried": most,
                "broke": broke,
                "open_max": trials["open_max"].max(),
                "server": _server_symptom(at),
                "client": _client_symptom(at),
                "agrees": _agrees(limit.connections, most, broke),
            }
        )
    found = pd.DataFrame(rows)
    found["symptom"] = found["server"].where(found["server"] != "", found["client"])
    return found.astype(dict.fromkeys(["predicted", "carried", "broke"], "float64"))


def _most(below: pd.Index, broke: int | None) -> int | None:
    """Return the highest level carried, None where only higher ones were tried."""
    if len(below):
        return int(below.max())
    return 0 if broke == 1 else None


def _agrees(limit: int | None, most: int | None, broke: int | None) -> bool | None:
    if limit is None:
        return None
    if broke is None:
        return None if most is None or limit >= most else False
    if limit >= broke:
        return False
    return None if most is None else most <= limit


def _server_symptom(at: pd.DataFrame | None) -> str:
    """Return what the server said: why it refused, how it failed, what bound it."""
    if at is None:
        return ""
    broken = at[~carried(at)]
    refused = broken["refused_reason"].dropna()
    if len(refused):
        return LIMITS.get(refused.mode()[0], refused.mode()[0])
    met = broken["label"].dropna()
    met = met[met.str.startswith("limit-bound:")].str.removeprefix("limit-bound:")
    if len(met):
        return LIMITS.get(met.mode()[0], met.mode()[0])
    kinds = broken["failure_kind"].dropna()
    if len(kinds):
        return FAILURES.get(kinds.mode()[0], kinds.mode()[0])
    starved = (broken["fairness_requests_min"] == 0).any()
    return "some are never served" if starved else ""


def _client_symptom(at: pd.DataFrame | None) -> str:
    """Return what the client met most: an error, or waiting in vain."""
    if at is None:
        return ""
    broken = at[~carried(at)]
    met = {name: broken[f"errors_{name}"].sum() for name in _ERRORS}
    name = max(met, key=met.get)
    if met[name] > 0:
        return _ERRORS[name]
    return "waits" if (broken["fairness_requests_min"] == 0).any() else "nothing"


# ---- in words ------------------------------------------------------------------------

_NAMED = 3
"""So many models are named where they broke alike; of more, the first is."""


def where_broke(found: pd.DataFrame) -> list[str]:
    """Tell which models broke, at how many connections and on what; first ones first.

    Parameters
    ----------
    found : DataFrame
        As from :func:`atlas`, with the column name.

    Returns
    -------
    list of str
        A clause for each limit that was met, of the models that met it; empty where
        none broke.
    """
    broke = found.dropna(subset=["broke"]).sort_values("broke", kind="stable")
    alike = broke.groupby("symptom", sort=False)
    return [_broke(models, str(symptom)) for symptom, models in alike]


def _broke(models: pd.DataFrame, symptom: str) -> str:
    levels = models["broke"]
    reached = span(plain(levels.min()), plain(levels.max()))
    why = f" ({symptom})" if symptom else ""
    noun = "connection" if reached == "1" else "connections"
    return f"{_named(list(models['name']))} broke at {reached} {noun}{why}"


def _named(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return listing(names)
    return f"{names[0]} and {counted(len(names) - 1, 'other model')}"
