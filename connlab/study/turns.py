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
family: their intervals hold all at once with the requested level, after Bonferroni.
Dunnett's method needs one variance for all servers, which a thread per
connection and an event loop do not have. The quantile of max |t| with a variance each,
simulated with the correlation that the shared baseline gives, was 0.2 to 2 % narrower
than Bonferroni's for 2 to 22 servers and 4 to 10 trials: not worth its length.

The median over rounds is hard to beat: what disturbs a round has heavy tails. In both
references the ratios of a server scattered from trial to trial 1.11 and 1.04 times as
much by Hodges and Lehmann's estimator, 1.00 and 1.02 times by median polish of all
servers, and 1.02 to 1.09 times when each slice was first adjusted by those beside it in
time (Papadakis's method for field trials), which correlate with it by up to 0.8.

What narrows all ratios of a set at once is less noise in what they are divided by: so a
baseline of k others takes turns as √k servers (`connlab.drive.interleaving`). From
trial to trial the ratios of 17 and 16 servers then scattered 0.90 and 0.95 times as
much for rates and 0.78 and 0.72 times for CPU time (50 and 1000 connections), in 1.17
times as many slices.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from connlab.rounds import METRICS, Rounds, log_ratio, log_ratio_of_values, shared
from connlab.study.interval import Interval
from connlab.variances import LEVEL, Fit, level_of_each

MARGIN = 0.05
"""Two servers are alike when the interval of their ratio lies within this of 1."""


def per_round(
    slices: pd.DataFrame, *, whole: bool = False, in_ticks: Collection[str] = ()
) -> pd.DataFrame:
    """Return rate and CPU time per request of each slice.

    `slices` has one row per slice of a round that counts, with ``trial``, ``round``,
    ``server``, and of the client's table ``lead_in_requests``, ``requests``,
    ``seconds`` and ``server_cpu_ns``. Added are ``rate`` (requests/s, without the
    lead-in, or of the `whole` slice, of ``slice_seconds``:
    `connlab.schema.counts_whole_slices` says when) and ``cpu`` (seconds of the server's
    CPU time per request, over the whole slice, as its clock is exact only while the
    server rests). What cannot be had (no request, a CPU clock that was not brought up
    to date) is not a number. Of servers whose time is known `in_ticks` (10 ms;
    `connlab.schema.cpu_in_ticks`) it is that of all slices of a trial together.
    """
    requests = slices["requests"].where(slices["requests"] > 0)
    spent = slices["server_cpu_ns"].where(slices["server_cpu_ns"] > 0) / 1e9
    all_requests = slices["lead_in_requests"] + requests
    counted = requests / slices["seconds"]
    cost = spent / all_requests
    if in_ticks:
        sums = slices.assign(all_requests=all_requests).groupby(["trial", "server"])
        sums = sums[["server_cpu_ns", "all_requests"]].transform("sum")
        mean = sums["server_cpu_ns"] / 1e9 / sums["all_requests"]
        cost = cost.mask(slices["server"].isin(in_ticks) & (requests > 0), mean)
    return slices[["trial", "round", "server"]].assign(
        rate=all_requests / slices["slice_seconds"] if whole else counted, cpu=cost
    )


def log_ratios(rounds: pd.DataFrame, metric: str, *, baseline: str) -> pd.DataFrame:
    """Return log(server / baseline) of a column of `per_round`: its median over rounds.

    Trials are rows, all other servers columns. A round without a value of one of the
    two is left out of their ratio; a trial without any has no number.
    """
    logs = np.log(rounds.set_index(["trial", "round", "server"])[metric]).unstack()
    others = [name for name in logs if name != baseline]
    ratios = logs[others].sub(logs[baseline], axis=0)
    return ratios.groupby(level="trial").median()


def last_over_first(ratios: pd.Series) -> pd.Series:
    """Return, by trial, the ratio in the last third of its rounds over the first.

    `ratios` of a server to the baseline have an index of trial and round; medians over
    rounds are compared. It scatters around 1 for one that is as fast at first as later.
    """
    return ratios.groupby(level=0).apply(_change)


def _change(ratios: pd.Series) -> float:
    ordered = ratios.sort_index().dropna()
    third = math.ceil(len(ordered) / 3)
    return ordered.tail(third).median() / ordered.head(third).median()


class Side:
    """The trials of one cell, as a side of ratios of a metric.

    Of trials that count, each with a value of the metric. What several ratios ask of
    it is found once.
    """

    def __init__(self, trials: pd.DataFrame, metric: str) -> None:
        self.trials, self.metric = trials, metric

    @cached_property
    def took_turns(self) -> bool:
        """Whether all of its trials are `in_turns`."""
        return took_turns(self.trials)

    @cached_property
    def by_set(self) -> dict[str, list["_Turns"]]:
        """What trials in turns say, by set; a baseline may be there more than once."""
        # by columns, as a frame takes milliseconds to give its rows
        trials = self.trials
        sets: dict[str, list[_Turns]] = {}
        columns = [trials[c] for c in ("block", "repeat", "set")]
        columns += [carried(trials), trials["rounds"], trials[self.metric]]
        columns.append(cores_off(trials))
        for row in map(_Turns, *columns):
            sets.setdefault(row.set, []).append(row)
        return sets


class _Turns(NamedTuple):
    """One server's turns in a trial; `value` is the trial's own, of all its turns."""

    block: int
    repeat: int
    set: str
    carried: bool
    rounds: Rounds
    value: float
    off: float


def of_trials(arm: Side, base: Side) -> np.ndarray | None:
    """Return log(arm / base) of each trial in which both took turns, else None.

    Shape (trials, 2): beside each of them how far the cores were off (`cores_off`),
    between two sets how much farther those of the first.

    From the rounds where the metric has a value in each (`connlab.rounds.METRICS`),
    else from the values of the trials, which share their client and their time: one log
    a set, however often the baseline is there. A trial without a partner in its set is
    compared with that of its block. A carried one is not, and no partner serves twice,
    as each log counts as a trial.
    """
    if not (arm.took_turns and base.took_turns):
        return None
    same_block = {
        (row.block, row.repeat): row
        for name, rows in base.by_set.items()
        for row in rows
        if name not in arm.by_set and not row.carried
    }
    logs = []
    for name, rows in arm.by_set.items():
        if others := base.by_set.get(name):
            logs.append((_log_ratio(rows, others, arm.metric), rows[0].off))
            continue
        for row in rows:
            other = same_block.get((row.block, row.repeat))
            if other and not row.carried:
                log = _log_ratio([row], [other], arm.metric)
                logs.append((log, row.off - other.off))
    return np.array([pair for pair in logs if math.isfinite(pair[0])]).reshape(-1, 2)


def shares_rounds(arm: Side, base: Side) -> bool:
    """Whether any trials of both are of one set, with a value in each round."""
    return arm.metric in METRICS and not arm.by_set.keys().isdisjoint(base.by_set)


def carried(trials: pd.DataFrame) -> pd.Series:
    """Mark the baseline that was measured once more, beside many or in a split set.

    Ratios within its set need it; it is no trial of the baseline's cell.
    """
    return _column(trials, "carried").eq(True)


def cores_off(trials: pd.DataFrame) -> pd.Series:
    """Return of each trial where its cores were (`connlab.schema.placement`).

    0 where that is not known.
    """
    return _column(trials, "cores_off").fillna(0.0)


def in_turns(trials: pd.DataFrame) -> pd.Series:
    """Mark the trials whose servers shared a client with others."""
    return _column(trials, "set").notna()


def _column(trials: pd.DataFrame, name: str) -> pd.Series:
    """Return a column; nothing but missing values where trials have none."""
    return trials.get(name, pd.Series(math.nan, index=trials.index))


def took_turns(side: pd.DataFrame) -> bool:
    """Whether all of these trials are `in_turns`."""
    return "set" in side and bool(in_turns(side).all())


def _log_ratio(arms: list[_Turns], bases: list[_Turns], metric: str) -> float:
    if metric in METRICS and arms[0].set == bases[0].set:
        return log_ratio(
            [row.rounds for row in arms], [row.rounds for row in bases], metric
        )
    return log_ratio_of_values(
        [row.value for row in arms], [row.value for row in bases]
    )


def differences(arm: pd.DataFrame, base: pd.DataFrame, metric: str) -> np.ndarray:
    """Return arm − base of each trial in which both took turns; arguments as `course`.

    The median over rounds of the differences: a ratio times the mean of the baseline
    would count what disturbed the mean.
    """
    pairs = (logs for _, (_, *logs) in _shared(arm, base, metric))
    return np.array([np.median(np.exp(y) - np.exp(x)) for y, x in pairs if len(y)])


def _shared(
    arm: pd.DataFrame, base: pd.DataFrame, metric: str
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Give each set that both are in, with its rounds as from `rounds.shared`."""
    if not (took_turns(arm) and took_turns(base)):
        return
    arms, bases = (
        side.groupby("set", sort=False)["rounds"].agg(list) for side in (arm, base)
    )
    for name in arms.index.intersection(bases.index, sort=False):
        yield name, shared(arms[name], bases[name], metric)


def course(arm: pd.DataFrame, base: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the ratio of two servers in each round of each trial that they share.

    It shows whether servers were warm when the first counted round began.

    Parameters
    ----------
    arm, base : DataFrame
        Trials as from `connlab.study.load`, with ``set`` and ``rounds``.
    metric : str
        One of `connlab.rounds.METRICS`.

    Returns
    -------
    DataFrame
        Columns set, round, position (0 in a trial's first counted round, 1 in its
        last), ratio.
    """
    parts = []
    for name, (number, y, x) in _shared(arm, base, metric):
        if len(number):
            position = (number - number.min()) / max(1, np.ptp(number))
            course = {"round": number, "position": position, "ratio": np.exp(y - x)}
            parts.append(pd.DataFrame({"set": name, **course}))
    columns = ["set", "round", "position", "ratio"]
    return pd.concat(parts) if parts else pd.DataFrame(columns=columns)


def ratios(logs: pd.DataFrame, off: pd.Series | None = None) -> dict[str, Interval]:
    """Return the ratio of each server to the baseline, with simultaneous intervals.

    Geometric means over the trials of `log_ratios`; without bounds for fewer than four.
    `off` says of each trial where its cores were (`cores_off`): the ratio is that with
    cores as far apart as usual.
    Trials in which any server of the family has no number are left out for all of them.
    A server that has none in any trial is no part of the family, and has no ratio.
    """
    complete = logs.dropna(axis="columns", how="all").dropna()
    level = level_of_each(complete.shape[1])
    method = "t over logs of trials"
    where = () if off is None else off.reindex(complete.index, fill_value=0.0)
    fits = {name: Fit.of(complete.get(name, ()), where) for name in logs}
    return {
        name: replace(fit.interval(level, method=method, log=True), level=LEVEL)
        for name, fit in fits.items()
    }


def width(interval: Interval) -> float:
    """Return how far the bounds of a ratio lie from it: 0.01 for ±1 %."""
    if not interval.determined:
        return math.inf
    return math.sqrt(interval.hi / interval.lo) - 1


def verdict(interval: Interval) -> str:
    """Return what the interval of a ratio shows.

    ``higher`` or ``lower`` when it leaves 1 out, ``alike`` when it lies within `MARGIN`
    of 1, both when it does both (``higher, alike``), else ``undetermined``.
    """
    if not interval.determined:
        return "undetermined"
    side = "higher" if interval.lo > 1 else "lower" if interval.hi < 1 else ""
    near = interval.lo > 1 / (1 + MARGIN) and interval.hi < 1 + MARGIN
    words = ([side] if side else []) + (["alike"] if near else [])
    return ", ".join(words) or "undetermined"
