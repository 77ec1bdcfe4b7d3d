"""Intervals and ratios of trials, as tidy frames.

    trials -> intervals(trials, "throughput_rps", by=["model"])   one row per cell
           -> ratios(trials, "throughput_rps", baseline="epoll")  one row per pair

One scheme for all that is printed. The trial is the unit of replication. Rates, times,
costs and sizes are positive, so their means and bounds are made of logarithms (a
geometric mean, Student's t) and no bound is ever negative; a quantity that may be zero
has an arithmetic mean. Fewer than four trials give a value without bounds.

A ratio is made of one log ratio per pair of trials: of the rounds in which two servers
took turns under one client (`connlab.study.turns`), else of the trials of one block,
else of two independent samples (Welch). Where a host moved our cores, ratios of pairs
are those with the cores as far apart as usual (`variances.Fit.of`). All comparisons of
one call are a family: their
intervals hold at once with the requested level (Bonferroni), their variances are
moderated by each other (`connlab.variances`), and the verdict is read off the printed
interval.
"""

import math
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from connlab.parameters import suggestion
from connlab.study.frames import cells as count_cells
from connlab.study.frames import no_column
from connlab.study.interval import Interval
from connlab.study.metrics import is_at_most_1, is_bounded_by_client
from connlab.study.metrics import metric as metric_of
from connlab.study.turns import (
    Side,
    carried,
    cores_off,
    of_trials,
    shares_rounds,
    verdict,
)
from connlab.variances import (
    LEVEL,
    TRIALS_MIN,
    Fit,
    level_of_each,
    moderated,
    moderated_by_cell,
)

CLIENT_BOUND = "client-bound"
_ROUNDS = "t over log ratios of rounds, a trial each"
_BLOCKS = "t over log ratios of blocks"
_ONE_ALONE = "; one side took turns, the other did not"
_WELCH = "Welch's t on logs of trials"
_ADJUSTED = "; a line through where the host had put the cores"
_MODERATED = "variance moderated by those of its family"

NUMBERS = ("value", "lo", "hi", "n", "level", "method")
"""Columns of an interval in a tidy frame."""


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of trials with its bounds.

    1. All values positive, and not all alike: the geometric mean, by Student's t on
       logarithms.
    2. Else: the arithmetic mean, by Student's t; without a negative value among the
       trials, the lower bound is not negative either.
    3. Fewer than `TRIALS_MIN` values: the mean alone; ``note`` says why.

    Parameters
    ----------
    values : sequence of float, shape (n,)
        One number per trial, finite.

    Examples
    --------
    >>> i = interval([9.0, 9.2, 9.4, 9.2])
    >>> round(i.value, 2), round(i.lo, 2), round(i.hi, 2)
    (9.2, 8.94, 9.46)
    """
    x = np.asarray(values, dtype=float)
    if not len(x):
        return Interval(*[math.nan] * 3, 0, LEVEL, "none", "no usable trial")
    positive = bool((x > 0).all() and np.ptp(x) > 0)
    fit = Fit.of(np.log(x) if positive else x)
    method = f"t over {'logs of ' if positive else ''}trials"
    i = fit.interval(LEVEL, method=method, log=positive)
    return replace(i, lo=0.0) if i.lo < 0 <= x.min() else i


def t95(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of `interval`, for ``errorbar=t95`` of seaborn."""
    i = interval(pd.Series(values).dropna().to_numpy(dtype=float))
    return (i.lo, i.hi) if i.determined else (i.value, i.value)


def centre(values: Sequence[float]) -> float:
    """Return the value of `interval`, for ``estimator=centre`` of seaborn."""
    return interval(pd.Series(values).dropna().to_numpy(dtype=float)).value


def intervals(
    trials: pd.DataFrame, metric: str, by: str | Sequence[str]
) -> pd.DataFrame:
    """Return the interval of a metric in every cell, one row each.

    The upper bound of what cannot exceed 1 (a declared share, Jain's index) is 1 at
    most, or its value if that is above.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`: those whose ``ok`` is true count.
    metric : str
        A column with one number per trial.
    by : str or sequence of str
        Columns that define a cell.

    Returns
    -------
    DataFrame
        Columns `by`, metric, value, lo, hi (base unit), n (trials used), level, method,
        trials (in all), bound (the client was the bottleneck of most of them, so the
        server could only be better), reason (why trials were left out, if any). A cell
        without a usable trial has no value. Sorted by `by`.
    """
    by = [by] if isinstance(by, str) else list(by)
    trials = trials[~carried(trials)]
    good = _usable(trials, metric, [*by, metric, "label"])
    groups = {_cell_key(cell): used for cell, used in good.groupby(by, dropna=False)}
    rows = []
    for counted in count_cells(trials, by).itertuples(index=False):
        cell = tuple(counted[: len(by)])
        used = groups.get(_cell_key(cell), good.iloc[:0])
        i = interval(used[metric])
        if is_at_most_1(metric) and i.hi > 1:
            i = replace(i, hi=max(1.0, i.value))
        about = (counted.trials, client_bound(used, metric), counted.reason)
        rows.append((*cell, metric, *_numbers(i), *about))
    columns = [*by, "metric", *NUMBERS, "trials", "bound", "reason"]
    return pd.DataFrame(rows, columns=columns).sort_values(by, ignore_index=True)


def _cell_key(levels: Iterable[Hashable]) -> tuple:
    """Return the levels of a cell as they are found again: NaN equals no other NaN."""
    return tuple(None if pd.isna(level) else level for level in levels)


def as_cells(
    values: Mapping[str, Interval | float], *, unit: str = "1", n: int = 0
) -> pd.DataFrame:
    """Return quantities of a whole study as rows of cells.

    Parameters
    ----------
    values : mapping of str to Interval or float
        By metric: an estimate, or what is exact, as it was counted or set.
    unit : str
        Of all of them.
    n : int
        What an exact one was counted over.
    """
    rows = []
    for name, value in values.items():
        if not isinstance(value, Interval):
            value = Interval(value, value, value, n, 1.0, "exact")
        rows.append({"metric": name, **asdict(value), "unit": unit})
    return pd.DataFrame(rows).drop(columns="note")


def _usable(trials: pd.DataFrame, metric: str, columns: Sequence[str]) -> pd.DataFrame:
    if metric not in trials:
        raise ValueError(no_column("metric", metric, trials))
    present = [c for c in dict.fromkeys(columns) if c in trials]
    return trials.loc[trials["ok"] & trials[metric].notna(), present]


def client_bound(trials: pd.DataFrame, metric: str) -> bool:
    """Whether the client bounded a metric: it was the bottleneck in most of the trials.

    Then a rate is a lower bound of what the server can do. What a request costs the
    server is known all the same.
    """
    bound = int((trials["label"] == CLIENT_BOUND).sum())
    return is_bounded_by_client(metric) and 2 * bound > len(trials)


def ratios(
    trials: pd.DataFrame,
    metric: str,
    *,
    baseline: Hashable,
    by: str = "model",
    within: Sequence[str] = (),
    alike: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the ratio of each level of `by` to the baseline, in each cell of `within`.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`.
    metric : str
        A column that is positive.
    baseline : level of `by`
        What the others are divided by.
    within : sequence of str
        Columns that both sides share.
    alike : sequence of str, optional
        Those of `within` at whose levels comparisons scatter alike; all by default.

    Returns
    -------
    DataFrame
        Columns `within`, `by`, against (the baseline), metric, value, lo, hi, n (pairs,
        or trials of the smaller side), level (with which all hold at once), method, p
        (two-sided, of this pair alone), verdict: ``higher`` or ``lower`` when the
        interval leaves out 1, ``alike`` when it holds 1 and lies between
        1 / (1 + MARGIN) and 1 + MARGIN, else ``undetermined``.
        Where the client was the bottleneck, a side stands only if a better client
        could not change it. Pairs with a side without a usable trial are absent. If the
        baseline is a name that no trial has, but a near one, used or not, a UserWarning
        tells which: it may be misspelt, or not part of the run.
    """
    within = list(within)
    _look_for(trials, by, baseline)
    pairs = list(_pairs(trials, metric, baseline, by, within))
    levels = [within.index(column) for column in (within if alike is None else alike)]
    fits = _moderated(pairs, levels)
    level = level_of_each(len(pairs))
    rows = []
    for pair, (fit, method) in zip(pairs, fits, strict=True):
        cell, side, single, _, limited, apart = pair
        method += (_ADJUSTED if fit.worth else "") + (_ONE_ALONE if apart else "")
        i = replace(fit.interval(level, method=method, log=True), level=LEVEL)
        shown = _verdict(i, metric, limited)
        rows.append((*cell, side, baseline, metric, *_numbers(i), single.p, shown))
    columns = [*within, by, "against", "metric", *NUMBERS, "p", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def _look_for(trials: pd.DataFrame, by: str, baseline: Hashable) -> None:
    """Warn of a baseline that is no level of `by`, where one is called almost so."""
    levels = set(trials[by].dropna()) if by in trials else set()
    if baseline in levels or not isinstance(baseline, str):
        return
    if near := suggestion(baseline, filter(lambda x: isinstance(x, str), levels)):
        said = f"no trial has {by} {baseline!r}, the baseline; {near.strip()}"
        warnings.warn(said, stacklevel=3)


def _pairs(
    trials: pd.DataFrame, metric: str, baseline: Hashable, by: str, within: list[str]
) -> Iterator[tuple[tuple, Any, Fit, str, tuple[bool, bool], bool]]:
    """Give cell, level of `by`, fit, method, which sides the client limited.

    And whether one side took turns and the other did not.
    """
    columns = [*within, by, metric, "block", "repeat", "label"]
    good = _usable(trials, metric, [*columns, "set", "carried", "rounds", "cores_off"])
    good.attrs = {}  # each group would copy them
    groups = good.groupby(within, dropna=False) if within else [((), good)]
    for cell, group in groups:
        sides = {name: Side(side, metric) for name, side in group.groupby(by)}
        base = sides.pop(baseline, None)
        if base is None:
            continue
        base_limited = client_bound(base.trials, metric)
        for side, arm in sides.items():
            fit, method = log_ratio(arm, base)
            limited = (client_bound(arm.trials, metric), base_limited)
            apart = arm.took_turns != base.took_turns
            yield cell, side, fit, method, limited, apart


def _moderated(pairs: Sequence[tuple], levels: Sequence[int]) -> list[tuple[Fit, str]]:
    """Return fit and method of each pair, fits moderated by those of the same method.

    `levels` are places in a cell: pairs that are alike there scatter alike.

    Welch's error is made of two variances, so its fits stay as they are.
    """
    results = [(fit, method) for _, _, fit, method, *_ in pairs]
    for method in {method for _, method in results} - {_WELCH}:
        same = [i for i, result in enumerate(results) if result[1] == method]
        fits = [results[i][0] for i in same]
        cells = [tuple(pairs[i][0][level] for level in levels) for i in same]
        shrunk = moderated_by_cell(fits, cells)
        for i, before, after in zip(same, fits, shrunk, strict=True):
            if after is not before:
                results[i] = after, f"{method}; {_MODERATED}"
    return results


def ratio(arm: pd.DataFrame, base: pd.DataFrame, metric: str) -> Interval:
    """Return the ratio of one pair of cells, without a family.

    Of trials that count, each with a value of the metric, which is positive.
    """
    fit, method = log_ratio(Side(arm, metric), Side(base, metric))
    method += _ADJUSTED if fit.worth else ""
    return fit.interval(LEVEL, method=method, log=True)


def hold_together(logs: np.ndarray, truths: Sequence[float]) -> np.ndarray:
    """Return of simulated families whether all intervals hold the truths at once.

    Parameters
    ----------
    logs : ndarray, shape (comparisons, families, trials)
        Log ratios.
    truths : sequence of float, shape (comparisons,)
        What each of them scatters around.

    Returns
    -------
    ndarray of bool, shape (families,)
    """
    level = level_of_each(len(logs))
    held = []
    for family in logs.swapaxes(0, 1):
        pairs = zip(moderated([Fit.of(x) for x in family]), truths, strict=True)
        held.append(all(abs(fit.mean - x) <= fit.reach(level) for fit, x in pairs))
    return np.array(held)


def log_ratio(arm: Side, base: Side) -> tuple[Fit, str]:
    """Fit log(arm / base) over trials: by rounds, else by blocks, else by Welch."""
    logs = of_trials(arm, base)
    if logs is not None and len(logs):
        return Fit.of(*logs.T), _ROUNDS if shares_rounds(arm, base) else _BLOCKS
    y, x = _logs(arm), _logs(base)
    blocks = y.index.intersection(x.index)
    if y.index.is_unique and x.index.is_unique and len(blocks) >= TRIALS_MIN:
        pairs = y.loc[blocks] - x.loc[blocks]
        return Fit.of(pairs["log"], pairs["off"]), _BLOCKS
    return _welch(y["log"], x["log"]), _WELCH


def _logs(side: Side) -> pd.DataFrame:
    """Return the log of each positive value, and how far the trial's cores were off.

    By block and repeat.
    """
    trials = side.trials[~carried(side.trials)]
    trials = trials[trials[side.metric] > 0]
    logs = np.log(trials[side.metric].to_numpy(dtype=float))
    keys = [trials["block"].to_numpy(), trials["repeat"].to_numpy()]
    return pd.DataFrame({"log": logs, "off": cores_off(trials).to_numpy()}, keys)


def _welch(y: Sequence[float], x: Sequence[float]) -> Fit:
    """Fit the difference of two means whose variances may differ.

    Degrees of freedom by Welch and Satterthwaite (Biometrika 34, 1947).
    """
    b, a = Fit.of(y), Fit.of(x)
    n = min(b.n, a.n)
    if n < 2:
        return Fit(b.mean - a.mean, math.nan, math.nan, n)
    square = b.error**2 + a.error**2
    below = b.error**4 / b.df + a.error**4 / a.df
    df = square**2 / below if below > 0 else b.df + a.df
    return Fit(b.mean - a.mean, math.sqrt(square), df, n)


def _verdict(ratio: Interval, metric: str, limited: tuple[bool, bool]) -> str:
    shown = verdict(ratio)
    side = next((side for side in ("higher", "lower") if side in shown), "")
    if any(limited):
        ahead = side == metric_of(metric).better
        return side if side and stands(ahead, limited) else "undetermined"
    return side or shown


def stands(ahead: bool, limited: tuple[bool, bool]) -> bool:
    """Whether a better client could only have made a difference larger.

    It would find the limited server better than it was: if that was ahead, it stays
    ahead; if behind, it might have caught up. `ahead`: the first of two was better;
    `limited`: which of them the client kept from more.
    """
    return limited == (ahead, not ahead)


def outcomes(pairs: pd.DataFrame) -> pd.Series:
    """Return the verdict of each of `ratios`, or why it is undetermined.

    ``few``: there are too few trials for an interval. ``client``: the interval leaves
    out 1, but the client was the bottleneck. Else the interval is too wide.
    """
    is_open, few = pairs["verdict"] == "undetermined", pairs["lo"].isna()
    differs = (pairs["lo"] > 1) | (pairs["hi"] < 1)
    found = pairs["verdict"].mask(is_open & few, "few")
    return found.mask(is_open & differs, "client")


def _numbers(i: Interval) -> tuple[float, float, float, int, float, str]:
    """Return what stands in the columns `NUMBERS`."""
    method = i.method + (f"; {i.note}" if i.note else "")
    return i.value, i.lo, i.hi, i.n, i.level, method
