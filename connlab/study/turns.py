"""Servers that took turns under one client: ratios from rounds, intervals over trials.

    slices -> one log ratio a round -> their median a trial -> interval over trials

An interleaved trial holds several fresh servers and one client that turns from one to
the next every few milliseconds; a round is one slice of each. Neighbours on the machine
then disturb all servers of a round alike, so a ratio taken within a round is free of
what they do. The trial stays the unit of replication: slices never enter degrees of
freedom. (Randomized multiple interleaved trials: Abedi & Brecht, ICPE 2017; duet
benchmarking: Bulej et al., ICPE 2020.)

Rates, times and costs are positive, so means and intervals are made of logarithms and
no bound is ever negative. The comparisons of several servers with one baseline are one
family: their intervals hold all at once with the level that is asked for, after
Bonferroni. Dunnett's method needs one variance for all servers, which a thread per
connection and an event loop do not have. The quantile of max |t| with a variance each,
simulated with the correlation that the shared baseline gives, was 0.2 to 2 % narrower
than Bonferroni's for 2 to 22 servers and 4 to 10 trials: not worth its length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats as st

from connlab.study.interval import LEVEL, Interval

TRIALS_MIN = 4
"""Trials without which there is no interval."""

MARGIN = 0.05
"""Two servers are alike when the interval of their ratio lies within this of 1."""


def per_round(slices: pd.DataFrame) -> pd.DataFrame:
    """Return rate and CPU time per request of each slice.

    Parameters
    ----------
    slices : DataFrame
        One row per slice of a round that counts, with ``trial``, ``round``, ``server``,
        and of the client's table ``lead_in_requests``, ``requests``, ``seconds`` and
        ``server_cpu_ns``.

    Returns
    -------
    DataFrame
        The same rows with ``rate`` (requests/s, without the lead-in) and ``cpu``
        (seconds of the server's CPU time per request, over the whole slice, as its
        clock is exact only while the server rests). What cannot be had (no request, a
        CPU clock that was not brought up to date) is not a number.
    """
    requests = slices["requests"].where(slices["requests"] > 0)
    spent = slices["server_cpu_ns"].where(slices["server_cpu_ns"] > 0) / 1e9
    return slices[["trial", "round", "server"]].assign(
        rate=requests / slices["seconds"],
        cpu=spent / (slices["lead_in_requests"] + requests),
    )


def log_ratios(rounds: pd.DataFrame, metric: str, *, baseline: str) -> pd.DataFrame:
    """Return one log ratio to the baseline for each trial and server.

    Parameters
    ----------
    rounds : DataFrame
        What `per_round` returns.
    metric : str
        A column of it.
    baseline : str
        The server that the others are compared with.

    Returns
    -------
    DataFrame
        Trials as rows, all other servers as columns: the median over the rounds of
        log(server / baseline). A round without a value of one of the two is left out
        of their ratio; a trial without any has no number.
    """
    logs = np.log(rounds.set_index(["trial", "round", "server"])[metric]).unstack()
    others = [name for name in logs if name != baseline]
    ratios = logs[others].sub(logs[baseline], axis=0)
    return ratios.groupby(level="trial").median()


METRICS = {
    "throughput_rps": "rate",
    "server_cpu_per_request_s": "cpu",
    "response_mean_s": "response",
}
"""Columns of trials that have a value in each round, and what that is called here."""


def of_trials(arm: pd.DataFrame, base: pd.DataFrame, metric: str) -> np.ndarray | None:
    """Return log(arm / base) of each trial in which both took turns, else None.

    From the rounds where the metric has a value in each (`METRICS`), else from the
    values of the trials, which share their client and their time.

    Parameters
    ----------
    arm, base : DataFrame
        Trials as from `connlab.study.load`, with ``rounds``.
    metric : str
        A column that is positive.
    """
    if not (_took_turns(arm) and _took_turns(base)):
        return None
    keys = ["block", "repeat"]
    both = arm.merge(base, on=keys, suffixes=("_arm", "_base"))
    logs = [
        _log_ratio(row, metric, paired=row["set_arm"] == row["set_base"])
        for row in both.to_dict("records")
    ]
    return np.array([log for log in logs if math.isfinite(log)])


def _took_turns(side: pd.DataFrame) -> bool:
    return "set" in side and bool(side["set"].notna().all())


def _log_ratio(row: dict, metric: str, *, paired: bool) -> float:
    each = METRICS.get(metric)
    if each is None or not paired:
        y, x = row[f"{metric}_arm"], row[f"{metric}_base"]
        return math.log(y / x) if y > 0 and x > 0 else math.nan
    sides = [_rounds(row[f"rounds_{side}"])[each] for side in ("arm", "base")]
    return float(np.log(sides[0] / sides[1]).median())


def _rounds(kept: dict) -> pd.DataFrame:
    """Return rate and CPU time per request of a trial's rounds, by their number."""
    table = pd.DataFrame({name: kept[name] for name in _KEPT})
    made = per_round(table.assign(trial=0, server=""))
    made["response"] = table["response_ns"] / table["requests"]
    return made.set_index("round")


_KEPT = (
    "round",
    "lead_in_requests",
    "requests",
    "response_ns",
    "seconds",
    "server_cpu_ns",
)


def ratios(logs: pd.DataFrame, *, level: float = LEVEL) -> dict[str, Interval]:
    """Return the ratio of each server to the baseline, with simultaneous intervals.

    Parameters
    ----------
    logs : DataFrame
        What `log_ratios` returns. Trials in which any server of the family has no
        number are left out for all of them.

    Returns
    -------
    dict of str to Interval
        The geometric mean over trials; without bounds for fewer than `TRIALS_MIN`.
    """
    whole = logs.dropna()
    each = 1 - (1 - level) / max(1, whole.shape[1])
    return {
        name: _geometric_mean(x, level=level, each=each) for name, x in whole.items()
    }


def geometric_mean(values: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Return the geometric mean of a positive quantity over trials, by t on logs.

    Without bounds for fewer than `TRIALS_MIN` trials.
    """
    logs = np.log(np.asarray(values, dtype=float))
    return _geometric_mean(logs, level=level, each=level)


def _geometric_mean(logs: Sequence[float], *, level: float, each: float) -> Interval:
    """Return the mean of logarithms and its bounds at the level of `each`, as exp."""
    n, method = len(logs), "t over logs of trials"
    value = float(np.exp(np.mean(logs))) if n else math.nan
    if n < TRIALS_MIN:
        note = f"{n} trials; an interval needs {TRIALS_MIN}"
        return Interval(value, math.nan, math.nan, n, level, method, note)
    reach = st.t.ppf((1 + each) / 2, n - 1) * np.std(logs, ddof=1) / math.sqrt(n)
    factor = float(np.exp(reach))
    return Interval(value, value / factor, value * factor, n, level, method)


def width(interval: Interval) -> float:
    """Return how far the bounds of a ratio lie from it: 0.01 for ±1 %."""
    if not interval.determined:
        return math.inf
    return math.sqrt(interval.hi / interval.lo) - 1


def verdict(interval: Interval, *, margin: float = MARGIN) -> str:
    """Return what the interval of a ratio shows.

    ``more`` or ``less`` when it leaves 1 out, ``alike`` when it lies within the margin
    of 1, both when it does both (``more, alike``), else ``undetermined``.
    """
    if not interval.determined:
        return "undetermined"
    side = "more" if interval.lo > 1 else "less" if interval.hi < 1 else ""
    near = interval.lo > 1 / (1 + margin) and interval.hi < 1 + margin
    said = [word for word in (side, "alike" if near else "") if word]
    return ", ".join(said) or "undetermined"
