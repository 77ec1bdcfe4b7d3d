"""Calibration: what this machine can measure, and whether its controls hold.

    floor report   -> one row per repeat -> interval per cost     (floors)
    trials         -> ceiling of the client                       (client_ceiling)
    trials A and A -> a ratio that has to hold 1                  (aa)
    known delay    -> the delay found again                       (positive_control)

Study 00 keeps floors and ceilings as ``lines`` in its results; the figures of all
other studies of the run draw them (`lines`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connlab import schema
from connlab.study.cells import compare_trials, pair
from connlab.study.comparing import MARGIN
from connlab.study.frames import but_for_client
from connlab.study.interval import (
    LEVEL,
    Interval,
    median_interval,
    min_trials_for_quantile,
    t_interval,
)
from connlab.study.turns import of_trials

STUDY = "the-machine"

CLOSE = 0.01
"""How near to a known time is near enough, as a part of it."""


@dataclass(frozen=True)
class Quantity:
    """One figure of a floor report: where it stands and what it means."""

    path: str
    name: str
    label: str
    unit: str
    scale: float = 1.0


QUANTITIES = (
    Quantity(
        "echo.throughput_rps",
        "floor_rps",
        "one recv and one send a request",
        "requests/s",
    ),
    Quantity(
        "echo.server_cpu_per_request_s",
        "floor_cpu",
        "CPU time of one recv and one send",
        "s",
    ),
    Quantity("ping_pong.round_trip_ns", "round_trip", "loopback round trip", "s", 1e-9),
    Quantity("switch.switch_ns", "switch", "context switch", "s", 1e-9),
    Quantity(
        "thread.create_join_ns", "thread", "creation and end of a thread", "s", 1e-9
    ),
    Quantity(
        "process.fork_wait_ns", "process", "creation and end of a process", "s", 1e-9
    ),
    Quantity(
        "timer.overshoot_p50_ns", "timer_p50", "timer too late, median", "s", 1e-9
    ),
    Quantity(
        "timer.overshoot_p99_ns",
        "timer_p99",
        "timer too late, 99th percentile",
        "s",
        1e-9,
    ),
    Quantity(
        "neighbour.slowdown",
        "neighbour",
        "computation beside a busy core, over alone",
        "1",
    ),
)

LINES = {
    "throughput_rps": (("floor_rps", "one recv and one send a request"),),
    "response_mean_s": (("round_trip", "loopback round trip"),),
    "server_cpu_per_request_s": (("floor_cpu", "one recv and one send a request"),),
}
"""Which floor bounds which metric, and what the line is called there."""


# ---- floors -------------------------------------------------------------------


def floors(report: Mapping[str, Any]) -> pd.DataFrame:
    """Return the measurements of a floor report, one row per quantity and repeat.

    Parameters
    ----------
    report : mapping
        The JSON object that ``build/floor`` prints.

    Returns
    -------
    DataFrame
        Columns name, label, unit, repeat, value (base units). Quantities that were
        not measured are absent.
    """
    rows = []
    for q in QUANTITIES:
        for repeat, value in enumerate(schema.pick(report, q.path) or ()):
            if value is not None:
                rows.append((q.name, q.label, q.unit, repeat, value * q.scale))
    return pd.DataFrame(rows, columns=["name", "label", "unit", "repeat", "value"])


def load_floors(run: str, *, root: str | Path = "runs") -> pd.DataFrame:
    """Return the measurements of all rounds of a run's ``floor.jsonl``.

    Returns
    -------
    DataFrame
        As from `floors`, `repeat` being the round; without a row when there is none.
        Rounds of another program or environment than the last one's are left out.
    """
    rounds = _rounds(schema.study_folder(run, STUDY, root=root) / "floor.jsonl")
    same = ("environment", "duration")
    last = rounds[-1] if rounds else {}
    alike = [r for r in rounds if all(r.get(k) == last.get(k) for k in same)]
    parts = [floors(r["report"]).assign(repeat=r["round"]) for r in alike]
    return pd.concat(parts, ignore_index=True) if parts else floors({})


def _rounds(path: Path) -> list[dict]:
    """Return the whole lines of a file of rounds; none when it is missing."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    found = []
    for line in text.splitlines(keepends=True):
        try:
            found += [json.loads(line)] if line.endswith("\n") else []
        except ValueError:
            continue
    return found


def floor_rows(measured: pd.DataFrame) -> pd.DataFrame:
    """Return one row per round, a column per cost, to be judged like trials.

    `arm` is ``floor``, so that a rule of the ledger can ask for these rows.
    """
    names = {"thread": "thread_create_s", "switch": "switch_s"}
    wide = measured.pivot(index="repeat", columns="name", values="value")
    wide = wide.rename(columns=names).reset_index()
    return wide.assign(arm="floor", block=wide["repeat"], ok=True, failure=None)


def floor_intervals(
    measured: pd.DataFrame, *, level: float = LEVEL
) -> dict[str, Interval]:
    """Return the interval of each quantity over repeats, by its name.

    Costs of system calls are skewed: a median with order statistics where there are
    repeats enough (six), else a mean with Student's t.
    """
    enough = min_trials_for_quantile(0.5, level=level)
    found = {}
    for name, rows in measured.groupby("name", sort=False):
        over = median_interval if len(rows) >= enough else t_interval
        found[str(name)] = over(rows["value"], level=level)
    return found


def client_ceiling(frame: pd.DataFrame, *, level: float = LEVEL) -> Interval:
    """Return how many requests per second the client could send at most.

    Throughput over the share of its CPU time that the client needed for it, trial by
    trial; right where the client is what holds the server up, else it is less than
    the client can do. That a trial's client is saturated is no fault of it here.

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`, trials against the fastest server.
    """
    good = pushed(frame)
    return t_interval(good["throughput_rps"] / good["client_cpu_share"], level=level)


def pushed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with nothing amiss but, perhaps, a client at its limit."""
    good = frame[but_for_client(frame) & frame["throughput_rps"].notna()]
    return good[good["client_cpu_share"].fillna(0) > 0]


# ---- controls -----------------------------------------------------------------


@dataclass(frozen=True)
class Control:
    """A control and whether it held."""

    name: str
    effect: Interval
    expected: float
    ok: bool
    text: str


def aa(
    a: pd.DataFrame,
    b: pd.DataFrame,
    metric: str,
    *,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> Control:
    """Compare a server with itself: the interval of the ratio has to hold 1.

    An interval that holds 1 because it is wide proves little, so it also has to stay
    within ± `margin`, the difference that this machine is said to resolve.

    Parameters
    ----------
    a, b : DataFrame
        Usable trials of the same program under two names, as from
        `connlab.study.load`; trials of one block are pairs.
    metric : str
        What is compared.
    """
    ratio = compare_trials(a, b, metric, level=level).ratio
    holds = ratio.contains(1.0)
    narrow = ratio.lo > 1 / (1 + margin) and ratio.hi < 1 + margin
    text = "the ratio of a server to itself holds 1"
    if not ratio.determined:
        text = f"the ratio of a server to itself is undetermined: {ratio.note}"
    elif not holds:
        text = "a server differs from itself: something else is measured too"
    elif not narrow:
        text += f", but its interval is wider than ±{margin:.0%}"
    return Control("A/A", ratio, 1.0, holds and narrow, text)


def positive_control(
    treated: pd.DataFrame,
    control: pd.DataFrame,
    *,
    known: float,
    metric: str = "response_mean_s",
    tolerance: float = CLOSE,
    level: float = LEVEL,
) -> Control:
    """Find a delay again that was put into the server on purpose.

    Parameters
    ----------
    treated, control : DataFrame
        Usable trials with more and with less of it; trials of one block are pairs.
    known : float
        By how much more the treated were delayed, seconds, above 0.
    metric : str
        Response time in seconds.
    tolerance : float
        Largest distance of found / known from 1.
    """
    if known <= 0:
        raise ValueError(f"known is {known}: a delay has to be above 0")
    y, x, paired = pair(treated, control, metric)
    share = (y - x) / known if paired else (y - x.mean()) / known
    found = t_interval(share, level=level)
    ok = found.determined and abs(found.value - 1) <= tolerance
    text = f"{found.value:.2%} of the known delay is found again"
    return Control("known delay", found, 1.0, ok, text)


def known_cost(
    treated: pd.DataFrame, control: pd.DataFrame, *, known: float, level: float = LEVEL
) -> Control:
    """Find CPU time again that each request was made to cost besides.

    It holds when the interval of found / known holds 1 and is narrower than half of
    what was added: a wide one would hold anything.

    Parameters
    ----------
    treated, control : DataFrame
        Usable trials with and without it, which took turns or are paired by block.
    known : float
        CPU time added to a request, seconds, above 0.
    """
    if known <= 0:
        raise ValueError(f"known is {known}: a cost has to be above 0")
    cost = "server_cpu_per_request_s"
    logs = of_trials(treated, control, cost)
    if logs is not None and len(logs):
        found = t_interval(np.expm1(logs) * control[cost].mean() / known, level=level)
    else:
        y, x, paired = pair(treated, control, cost)
        share = (y - x) / known if paired else (y - x.mean()) / known
        found = t_interval(share, level=level)
    ok = bool(found.contains(1.0) and found.half_width < 0.5)
    text = f"{found.value:.0%} of the CPU time added to a request is found again"
    return Control("known cost", found, 1.0, ok, text)


# ---- lines for the figures of other studies -----------------------------------


def lines_of(
    intervals: Mapping[str, Interval], *, ceiling: Interval | None = None
) -> list[dict[str, Any]]:
    """Return floors and ceilings as records for ``results.json``, in base units."""
    records = [
        {"metric": metric, "label": label, **_record(intervals[name])}
        for metric, wanted in LINES.items()
        for name, label in wanted
        if name in intervals
    ]
    if ceiling is not None:
        label = "the client's ceiling"
        records.append({"metric": "throughput_rps", "label": label, **_record(ceiling)})
    return records


def _record(i: Interval) -> dict[str, Any]:
    return {
        "value": i.value,
        "lo": i.lo if i.determined else None,
        "hi": i.hi if i.determined else None,
        "n": i.n,
        "level": i.level,
        "method": i.method,
    }


def lines(run: str, *, root: str | Path = "runs") -> dict[str, dict[str, Interval]]:
    """Return the floors and ceilings that study 00 found in this run.

    Returns
    -------
    dict
        By metric, then by label; empty when the run has no study 00.
    """
    path = schema.study_folder(run, STUDY, root=root) / "results.json"
    try:
        records = json.loads(path.read_text(encoding="utf-8")).get("lines", ())
    except (FileNotFoundError, ValueError):
        return {}
    found: dict[str, dict[str, Interval]] = {}
    for r in records:
        none = float("nan")
        lo, hi = (none if r[k] is None else r[k] for k in ("lo", "hi"))
        i = Interval(r["value"], lo, hi, r["n"], r["level"], r["method"])
        found.setdefault(r["metric"], {})[r["label"]] = i
    return found
