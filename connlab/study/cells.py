"""From trials to cells: an interval for each, a word for each pair.

    frame -> usable trials -> interval per cell (summarise)
                           -> ratio and word per pair of cells (compare_cells)

A cell whose trials all failed stays in the table with its reason, so that every
figure and table made from it can show the gap and say why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from connlab.study.comparing import (
    MARGIN,
    Comparison,
    compare,
    compare_logs,
    holm,
)
from connlab.study.frames import cells, load_histogram, speaking, usable
from connlab.study.interval import (
    LEVEL,
    Interval,
    bca_interval,
    median_interval,
    t_interval,
    undetermined,
)
from connlab.study.metrics import client_matters, is_bounded_by_client
from connlab.study.metrics import metric as metric_of
from connlab.study.turns import of_trials

INTERVALS = {"mean": t_interval, "median": median_interval, "bca": bca_interval}

CLIENT_BOUND = "client-bound"


def summarise(
    frame: pd.DataFrame,
    metric: str,
    *,
    by: Sequence[str],
    how: Literal["mean", "median", "bca"] = "mean",
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return one row per cell: the interval of a metric over its usable trials.

    Where most were left out for a saturated client, all of those count, and the row's
    label says that it is a bound (see `connlab.study.frames.speaking`).

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`.
    metric : str
        A column; one value per trial.
    by : sequence of str
        Columns that define a cell.
    how : {"mean", "median", "bca"}
        Mean with Student's t, median with order statistics, mean with BCa.

    Returns
    -------
    DataFrame
        Columns `by`, value, lo, hi, n (usable trials), level, method, note, trials,
        reason (why trials were left out, if any), label (bottleneck). Cells without
        a usable trial have no value. In the order of `by`.
    """
    good = speaking(frame, metric, by).groupby(list(by), dropna=False)
    trials = {_as_tuple(cell): group for cell, group in good}
    rows = []
    for row in cells(frame, by).itertuples(index=False):
        cell = tuple(row[: len(by)])
        mine = trials.get(cell)
        i = (
            _nothing(level)
            if mine is None
            else INTERVALS[how](mine[metric], level=level)
        )
        bound = mine is not None and is_bound(mine, metric)
        rows.append(
            {
                **dict(zip(by, cell, strict=True)),
                "value": i.value,
                "lo": i.lo,
                "hi": i.hi,
                "n": i.n,
                "level": i.level,
                "method": i.method,
                "note": i.note,
                "trials": row.trials,
                "reason": row.reason,
                "label": CLIENT_BOUND if bound else row.label,
            }
        )
    return pd.DataFrame(rows).sort_values(list(by), ignore_index=True)


def _as_tuple(cell: Any) -> tuple:
    return cell if isinstance(cell, tuple) else (cell,)


def _nothing(level: float) -> Interval:
    note = "no usable trial"
    return undetermined([], method="none", level=level, note=note)


def interval_of(row: Mapping | pd.Series) -> Interval:
    """Return the interval that stands in a row of `summarise`."""
    return Interval(
        float(row["value"]),
        float(row["lo"]),
        float(row["hi"]),
        int(row["n"]),
        float(row["level"]),
        str(row["method"]),
        str(row["note"]),
    )


QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999)


def tail_table(
    frame: pd.DataFrame,
    *,
    by: Sequence[str] = ("model",),
    clock: str = "response",
    quantiles: Sequence[float] = QUANTILES,
    root: str = "runs",
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return quantiles out to the tail, with intervals over trials.

    Each usable trial gives its own quantiles, from its histogram; their mean and
    interval follow. Requests of different trials are never pooled: a tail of pooled
    requests would be that of the slowest trial. Quantiles beyond the last 10 requests
    of any trial are left out.

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`; its ``attrs`` say where histograms stand.
    by : sequence of str
        Columns that define a cell.
    clock : {"response", "service", "connect"}
    quantiles : sequence of float
    root : str
        Where runs stand.

    Returns
    -------
    DataFrame
        Columns `by`, quantile, value, lo, hi (seconds), n.
    """
    rows = []
    for cell, group in usable(frame).groupby(list(by)):
        trials = [
            load_histogram(frame.attrs["run"], frame.attrs["study"], key, root=root)
            for key in group["key"]
        ]
        trials = [h[h["clock"] == clock] for h in trials]
        trials = [h for h in trials if h["count"].sum() > 0]
        for q in quantiles:
            if not trials or min(h["count"].sum() for h in trials) * (1 - q) < 10:
                continue
            i = t_interval([quantile_of(h, q) for h in trials], level=level)
            where = dict(zip(by, _as_tuple(cell), strict=True))
            rows.append({**where, "quantile": q, **_numbers(i)})
    return pd.DataFrame(rows, columns=[*by, "quantile", "value", "lo", "hi", "n"])


def quantile_of(histogram: pd.DataFrame, q: float) -> float:
    """Return a quantile of a histogram in seconds: the upper end of its bucket."""
    ordered = histogram.sort_values("lower_ns")
    reached = ordered["count"].cumsum() >= q * ordered["count"].sum()
    return float(ordered.loc[reached, "upper_ns"].iloc[0]) / 1e9


def _numbers(i: Interval) -> dict[str, float]:
    return {"value": i.value, "lo": i.lo, "hi": i.hi, "n": i.n}


@dataclass(frozen=True)
class Compared:
    """Two cells that differ in one factor, and what may be said of them."""

    arm: str
    baseline: str
    where: dict[str, Any]
    """Levels of the other factors."""
    metric: str
    comparison: Comparison

    @property
    def word(self) -> str:
        """The comparing word: arm is <word> baseline."""
        return self.comparison.word


def compare_cells(
    frame: pd.DataFrame,
    metric: str,
    *,
    baseline: str,
    within: Sequence[str],
    by: str = "model",
    margin: float = MARGIN,
    level: float = LEVEL,
    family: bool = True,
) -> list[Compared]:
    """Compare every level of `by` with `baseline`, in each cell of `within`.

    Servers that took turns under one client are compared round by round
    (`connlab.study.turns`). Else trials of one block are pairs; where fewer than two
    blocks hold a usable trial of both arms, the arms count as independent. Where the
    client was the bottleneck of an arm, that server could only be better: it may be
    called faster, nothing else.

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`.
    metric : str
        The column to compare; `connlab.study.metrics` knows which end is good.
    baseline : str
        Level of `by` that the others are divided by.
    within : sequence of str
        Factors that both arms share.
    margin, level
        See `connlab.study.comparing.compare`.
    family : bool
        Correct the words for their number (Holm), differences and likenesses each;
        False for comparisons that were announced beforehand, as the claims ledger
        does.

    Returns
    -------
    list of Compared
        Without pairs of which one has no usable trial at all.
    """
    good = speaking(frame, metric, [by, *within])
    groups = good.groupby(list(within), dropna=False) if within else [((), good)]
    found = []
    for values, group in groups:
        where = dict(zip(within, _as_tuple(values), strict=True))
        arms = dict(list(group.groupby(by)))
        base = arms.pop(baseline, None)
        if base is None:
            continue
        for name, arm in arms.items():
            words = _compare_arms(arm, base, metric, margin, level)
            found.append(Compared(str(name), baseline, where, metric, words))
    return _as_family(found) if family else found


_STANDS = {(True, False): "faster than", (False, True): "slower than"}
"""Whose client was the bottleneck (arm, baseline) -> the word that still stands."""


def compare_trials(
    arm: pd.DataFrame,
    base: pd.DataFrame,
    metric: str,
    *,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> Comparison:
    """Compare the trials of two cells: the one effect that is printed of the pair.

    Round by round where both took turns under one client, else by blocks, else as
    independent trials.
    """
    better = metric_of(metric).better
    logs = of_trials(arm, base, metric)
    if logs is not None and len(logs):
        return compare_logs(logs, better=better, margin=margin, level=level)
    y, x, paired = pair(arm, base, metric)
    return compare(y, x, better=better, paired=paired, margin=margin, level=level)


def _compare_arms(arm, base, metric, margin, level) -> Comparison:
    found = compare_trials(arm, base, metric, margin=margin, level=level)
    if not client_matters(metric):
        return found
    bound = tuple(mostly_client_bound(side) for side in (arm, base))
    if not any(bound):
        return found
    if is_bounded_by_client(metric) and found.word == _STANDS.get(bound):
        why = "at least so, since the client was the bottleneck of the better one"
        return replace(found, rule=f"{found.rule}; {why}")
    why = "the client was the bottleneck, so the servers are not ranked"
    return replace(found, word="undetermined", rule=f"{found.rule}; {why}")


def pair(arm: pd.DataFrame, base: pd.DataFrame, metric: str):
    """Return the values of two cells, in pairs of a block where blocks allow.

    Returns
    -------
    y, x : ndarray
    paired : bool
        False when fewer than two blocks hold both, or one of them several trials of a
        cell; then all trials are returned.
    """
    keys = ["block", "repeat"]
    if any(side.duplicated(keys).any() for side in (arm, base)):
        return arm[metric].to_numpy(), base[metric].to_numpy(), False
    both = arm[[*keys, metric]].merge(base[[*keys, metric]], on=keys)
    if len(both) >= 2:
        return both[f"{metric}_x"].to_numpy(), both[f"{metric}_y"].to_numpy(), True
    return arm[metric].to_numpy(), base[metric].to_numpy(), False


def is_bound(side: pd.DataFrame, metric: str) -> bool:
    """Whether the trials of a cell only bound what its server can do."""
    return is_bounded_by_client(metric) and mostly_client_bound(side)


def mostly_client_bound(side: pd.DataFrame) -> bool:
    """Whether the client was the limit in most trials of a cell."""
    bound = side["label"].eq(CLIENT_BOUND).fillna(False)
    return bool(bound.astype(bool).mean() > 0.5)


def _as_family(found: list[Compared]) -> list[Compared]:
    apart = holm([c.comparison.p for c in found])
    alike = holm([c.comparison.equivalence.p for c in found])
    return [
        replace(c, comparison=c.comparison.corrected(p, same)) if p == p else c
        for c, p, same in zip(found, apart, alike, strict=True)
    ]


def ratio_frame(found: Sequence[Compared]) -> pd.DataFrame:
    """Return comparisons as a frame: one row each, ratio in value, lo, hi."""
    rows = [
        {
            **c.where,
            "arm": c.arm,
            "baseline": c.baseline,
            "value": c.comparison.ratio.value,
            "lo": c.comparison.ratio.lo,
            "hi": c.comparison.ratio.hi,
            "n": c.comparison.ratio.n,
            "p": c.comparison.p,
            "p_adjusted": c.comparison.p_adjusted,
            "word": c.word,
            "rule": c.comparison.rule,
        }
        for c in found
    ]
    return pd.DataFrame(rows)
