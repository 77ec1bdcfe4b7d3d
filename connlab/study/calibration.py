"""What study 00 measured of the machine: its own calls, and lines for other figures.

    floor.jsonl -> load_floors -> one row per cost and round
    cells       -> line_records -> "lines" of results.json -> lines(run)

No line but the client's ceiling is a limit: no server can answer more than was sent.
The others are for orientation. One recv and one send a request is what a server pays
that makes these two calls for each request and never waits; one that finds many
requests at once, or hands the kernel several calls in one, comes under it. A round trip
on loopback wakes both sides from idle; while a core stays busy nobody is woken.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connlab import schema
from connlab.study.interval import Interval

STUDY = "the-machine"

CLOSE = 0.01
"""Relative error up to which a measured time agrees with a known one."""


QUANTITIES = pd.read_csv(Path(__file__).with_name("floor.csv"))
"""Of a floor report: dotted path in it, metric, label, unit, scale to the unit."""

CEILING = "the client's ceiling"

LABELS = dict(QUANTITIES[["metric", "label"]].to_numpy()) | {"ceiling_rps": CEILING}
"""Labels of costs in tables, by metric."""

LINES = {
    "floor_rps": ("throughput_rps", "one recv and one send a request"),
    "ceiling_rps": ("throughput_rps", CEILING),
    "round_trip_s": ("response_mean_s", "loopback round trip"),
    "floor_cpu_s": ("server_cpu_per_request_s", "one recv and one send a request"),
}
"""The metric beside which a cost is drawn, and the name of the line there."""

LIMITS = {CEILING}
"""Lines that no server can beat."""

_BOUNDS = ("value", "lo", "hi")


def floors(report: Mapping[str, Any]) -> pd.DataFrame:
    """Return a report of ``build/floor`` as rows, one per quantity and repeat.

    Columns metric, label, unit, repeat, value (base units). Quantities that were not
    measured are absent.
    """
    rows = [
        (q.metric, q.label, q.unit, repeat, value * q.scale)
        for q in QUANTITIES.itertuples()
        for repeat, value in enumerate(schema.pick(report, q.path) or ())
        if value is not None
    ]
    return pd.DataFrame(rows, columns=["metric", "label", "unit", "repeat", "value"])


def load_floors(
    run: str, study: str = STUDY, *, root: str | Path = "runs"
) -> pd.DataFrame:
    """Return the measurements of all rounds of a study's ``floor.jsonl``.

    As from `floors`, `repeat` being the round, and `connections` those of the echo;
    without a row when there is none. Rounds of another program or environment, or with
    other settings than the last one's are left out; study 12 asks with several numbers
    of connections.
    """
    folder = schema.study_folder(run, study, root=root)
    rounds = schema.read_log(folder / "floor.jsonl").trials
    if not rounds:
        return floors({}).assign(connections=None)
    settings = ["environment", "duration", "cores"]
    settings += ["connections"] if study == STUDY else []
    last = [rounds[-1].get(key) for key in settings]
    return pd.concat(
        [
            floors(r["report"]).assign(
                repeat=r["round"], connections=r["report"].get("connections")
            )
            for r in rounds
            if [r.get(key) for key in settings] == last
        ],
        ignore_index=True,
    )


def slices_of(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per trial and slice of its server; none for trials without turns.

    Columns key, window (the round), throughput_rps.
    """
    if "rounds" not in trials:
        return pd.DataFrame({"key": [], "window": [], "throughput_rps": []})
    rows = [
        (key, window, rate)
        for key, turns in zip(trials["key"], trials["rounds"], strict=True)
        if turns is not None
        for window, rate in zip(
            turns.number, np.exp(turns.logs["throughput_rps"]), strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["key", "window", "throughput_rps"]).dropna()


def line_records(cells: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows that other figures draw as records for ``results.json``.

    `cells` has the columns metric, value, lo, hi (base unit), n, level, method.
    """
    rows = cells[cells["metric"].isin(LINES) & cells["value"].notna()]
    return [
        {"metric": LINES[row["metric"]][0], "label": LINES[row["metric"]][1]}
        | {k: float(row[k]) if np.isfinite(row[k]) else None for k in _BOUNDS}
        | {k: row[k] for k in ("n", "level", "method")}
        for row in rows.to_dict("records")
    ]


def lines(run: str, *, root: str | Path = "runs") -> dict[str, dict[str, Interval]]:
    """Return the `LIMITS`, and lines for orientation, that study 00 found in this run.

    By metric, then by label; empty when the run has no study 00.
    """
    path = schema.study_folder(run, STUDY, root=root) / "results.json"
    by_metric: dict[str, dict[str, Interval]] = {}
    for r in (schema.read_json(path) or {}).get("lines", ()):
        bounds = (math.nan if r[k] is None else r[k] for k in _BOUNDS)
        line = Interval(*bounds, r["n"], r["level"], r["method"])
        by_metric.setdefault(r["metric"], {})[r["label"]] = line
    return by_metric
