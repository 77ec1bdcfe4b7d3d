"""What a report's own numbers say. No new measurement enters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from connlab.study.finding import Finding, Verdict, cell_text, select, untestable
from connlab.study.interval import t_interval


def published_rates(
    frame: pd.DataFrame,
    *,
    clients: str,
    times: Mapping[str, float],
    at_least: int,
    between: Sequence[float],
) -> Finding:
    """Say whether published times imply one rate, whatever the server and the load.

    In a closed loop throughput is clients / response time. `times` maps the columns of
    response times to seconds a unit. The effect is the mean rate over the published
    cells; its interval treats cells as trials, for want of any.
    """
    table = frame[frame[clients] >= at_least]
    rates = []
    for column, seconds in times.items():
        numbers = pd.to_numeric(table[column], errors="coerce")
        rates.append((table[clients] / (numbers * seconds)).dropna())
    every_rate = pd.concat(rates).to_numpy() if rates else np.array([])
    if len(every_rate) < 2:
        return untestable("fewer than 2 published cells")
    low, high = between
    inside = int(((every_rate >= low) & (every_rate <= high)).sum())
    why = f"{inside} of {len(every_rate)} published cells lie between the bounds"
    verdict: Verdict = "holds" if inside == len(every_rate) else "holds in part"
    if inside == 0:
        verdict = "does not hold"
    return Finding(verdict, why, t_interval(every_rate), "requests/s")


def published_busy(
    frame: pd.DataFrame,
    *,
    rate: str,
    delay_s: float,
    arm: Mapping[str, Any],
    between: Sequence[float],
) -> Finding:
    """Say how many workers a published rate kept busy, by Little's law.

    `frame` holds the published trials; busy workers = rate × mean delay. No new
    measurement enters.
    """
    cell = select(frame, arm)
    if len(cell) < 2:
        return untestable(f"not published: {cell_text(arm)}")
    busy = t_interval(cell[rate].to_numpy(dtype=float) * delay_s)
    unit = "busy workers"
    low, high = between
    if low <= busy.lo and busy.hi <= high:
        return Finding("holds", "Little's law over the published trials", busy, unit)
    if busy.hi < low or busy.lo > high:
        return Finding("does not hold", "Little's law says otherwise", busy, unit)
    return Finding("holds in part", "the interval crosses a bound", busy, unit)
