"""The variance budget: where throughput scatters, and where repeating pays.

    windows in trials in sessions -> standard deviation of each level, its share
                                  -> windows a trial, trials for ±5 %

A run is one session. How much sessions differ cannot be told from it, and the table
says so instead of printing a zero.
"""

from __future__ import annotations

import math

import pandas as pd

from connlab.study import repeating
from connlab.study.formatting import counted, plain
from connlab.study.results import Results
from connlab.study.tables import GAP, Column, Table

VALUE = "throughput_rps"
WIDTH = 0.05
"""The half-width that trials are to reach, as a share of the mean."""

_HEADS = (
    Column("level", "level"),
    Column("units", "units"),
    Column("deviation", "standard deviation / mean"),
    Column("share", "share of the variance"),
    Column("cost", "cost of one more", "s"),
    Column("repetitions", "recommended"),
)
_ONE_SESSION = (
    "A run is one session, so that its own component is unknown: repeat the run on "
    "other days, and compare."
)


def variance(
    results: Results, good: pd.DataFrame, windows: pd.DataFrame, *, name: str
) -> Table | None:
    """Tabulate the components of variance and the repetitions that they recommend.

    The recommended windows of a trial make the interval narrowest for the time that a
    trial costs besides them (Kalibera & Jones 2013); the recommended trials reach
    ±5 % of the mean with windows as they were.

    Parameters
    ----------
    results : Results
        Where the table is kept; knows what a trial costs besides its window.
    good : DataFrame
        Trials of one server under one load, with `VALUE`.
    windows : DataFrame
        Their windows: columns key, start_s, `VALUE`.
    name : str
        Of the table.

    Returns
    -------
    Table or None
        None for fewer than two trials, or trials of a single window.
    """
    per_trial = windows.groupby("key")[VALUE].count()
    if len(good) < 2 or len(per_trial) < 2 or per_trial.min() < 2:
        return None
    found = repeating.variance_components(
        windows, VALUE, nesting=["key"], innermost="window"
    )
    step = float(windows.groupby("key")["start_s"].diff().median())
    cost = _besides(results)
    table = Table(
        _HEADS,
        (
            (
                f"window of {plain(step)} s in a trial",
                f"{plain(round(found.counts['window']))} a trial",
                *_said(found, "window"),
                plain(step),
                _windows(found, step, cost),
            ),
            (
                "trial in a session",
                counted(len(good), "trial"),
                *_said(found, "key"),
                GAP if cost is None else plain(cost),
                _trials(good),
            ),
            ("session", "1", GAP, GAP, GAP, GAP),
        ),
        (_ONE_SESSION,),
    )
    return results.table(name, table, caption=_CAPTION)


_CAPTION = (
    "Variance budget of throughput in the A/A control: what each level of repetition "
    "adds, what one more unit costs, and how many units are recommended."
)


def _said(found: repeating.VarianceComponents, level: str) -> tuple[str, str]:
    deviation = math.sqrt(found.components[level]) / found.mean
    return f"{100 * deviation:.1f}\u202f%", f"{100 * found.shares[level]:.0f}\u202f%"


def _besides(results: Results) -> float | None:
    """Return the seconds that a trial costs besides its window; None if unrecorded."""
    seconds, share = (results.stopping.get(k) for k in ("seconds", "window_share"))
    total = results.trials.get("total")
    if not seconds or not share or not total:
        return None
    return seconds * (1 - share) / total


def _windows(found: repeating.VarianceComponents, step: float, cost: float | None):
    if cost is None:
        return GAP
    costs = {"window": step, "key": cost}
    best = repeating.recommended_repetitions(found, costs)["window"]
    if math.isinf(best):
        return "as long as may be: trials do not differ"
    return f"{plain(math.ceil(best))} a trial"


def _trials(good: pd.DataFrame) -> str:
    few = repeating.trials_needed(good[VALUE], relative_half_width=WIDTH)
    return f"{counted(few, 'trial')} for ±{WIDTH:.0%}".replace("%", "\u202f%")
