"""Coverage: how often an interval holds the truth, when the truth is known.

    draw n trials from a known distribution -> interval -> does it hold the truth?
    (thousands of times)                                   -> share, with its interval

An interval at 95 % should hold the truth in 95 of 100 sweeps. With five trials, with
skew, or when a sweep stops as soon as the interval is narrow, some hold it less often.
This says how much less, so that readers can discount for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from connlab.study.comparing import ratio_of_means, tost
from connlab.study.figures import Picture, curves_of
from connlab.study.formatting import number_text
from connlab.study.interval import (
    LEVEL,
    Interval,
    bca_interval,
    median_interval,
    t_interval,
)
from connlab.study.repeating import simulate_stopping

STUDY = "intervals"
NUMBER = 10
QUESTION = "Do our intervals hold the truth as often as they say?"


@dataclass(frozen=True)
class Distribution:
    """What a trial may look like: a mean of 1 (or close to it) and its scatter."""

    label: str
    draw: Callable[[np.random.Generator, int], np.ndarray]
    mean: float
    median: float


def _slow_tenth(rng: np.random.Generator, n: int) -> np.ndarray:
    """One trial in ten is slower by half: a neighbour woke up."""
    return (1 + 0.5 * (rng.random(n) < 0.1)) * (1 + 0.05 * rng.standard_normal(n))


_SKEW = 0.5

DISTRIBUTIONS = {
    "normal": Distribution(
        "normal, CV 10 %", lambda rng, n: 1 + 0.1 * rng.standard_normal(n), 1.0, 1.0
    ),
    "skewed": Distribution(
        "lognormal, CV 53 %",
        lambda rng, n: rng.lognormal(-(_SKEW**2) / 2, _SKEW, n),
        1.0,
        math.exp(-(_SKEW**2) / 2),
    ),
    "disturbed": Distribution(
        "one trial in ten slower by half", _slow_tenth, 1.05, math.nan
    ),
}

METHODS: dict[str, tuple[str, Callable[..., Interval], str]] = {
    "t": ("mean, t", t_interval, "mean"),
    "bca": (
        "mean, BCa bootstrap",
        lambda x: bca_interval(x, resamples=499),
        "mean",
    ),
    "median": ("median, order statistics", median_interval, "median"),
}
"""By name: label, function, and which truth it is after."""


def share(hits: int, of: int, *, level: float = LEVEL) -> Interval:
    """Return a share with its Wilson interval."""
    lo, hi = proportion_confint(hits, of, alpha=1 - level, method="wilson")
    return Interval(hits / of, float(lo), float(hi), of, level, "Wilson")


def of_interval(
    method: str, distribution: str, n: int, *, repetitions: int = 2000, seed: int = 1
) -> Interval:
    """Return how often an interval of `n` trials holds the truth.

    Parameters
    ----------
    method : str
        Key of `METHODS`.
    distribution : str
        Key of `DISTRIBUTIONS`; its median has to be known for "median".
    n : int
        Trials. Sweeps whose interval is undetermined count as not holding.
    repetitions, seed
        Simulated sweeps; seed.
    """
    _, interval, truth = METHODS[method]
    world = DISTRIBUTIONS[distribution]
    true = getattr(world, truth)
    rng = np.random.default_rng(seed)
    hits = sum(interval(world.draw(rng, n)).contains(true) for _ in range(repetitions))
    return share(hits, repetitions)


def of_ratio(
    n: int,
    *,
    paired: bool,
    shared_cv: float = 0.1,
    cv: float = 0.05,
    repetitions: int = 2000,
    seed: int = 1,
) -> tuple[Interval, float]:
    """Return how often the interval of a ratio holds it, and its mean half-width.

    Both arms of a block share `shared_cv` of weather; each trial adds `cv` of its own.
    """
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(repetitions):
        weather = shared_cv * rng.standard_normal(n)
        y, x = 1 + weather + cv * rng.standard_normal((2, n))
        found.append(ratio_of_means(y * 1.2, x, paired=paired))
    hits = sum(i.contains(1.2) for i in found)
    width = float(np.mean([i.half_width for i in found if i.determined]))
    return share(hits, repetitions), width


def of_equivalence(
    n: int, ratio: float, *, cv: float = 0.02, repetitions: int = 2000, seed: int = 1
) -> Interval:
    """Return how often TOST calls two arms alike whose true ratio is `ratio`.

    At the margin (1.05) this is the rate of false alarms, at 1 the power.
    """
    rng = np.random.default_rng(seed)
    arms = 1 + cv * rng.standard_normal((repetitions, 2, n))
    hits = sum(tost(ratio * y, x, paired=True).equivalent for y, x in arms)
    return share(hits, repetitions)


# ---- the appendix notebook ----------------------------------------------------


def draw(
    table: pd.DataFrame, *, x: str = "n", x_label: str, label: str, at: float = LEVEL
) -> Picture:
    """Draw a table of coverage, with a line at the share that is wanted."""
    return curves_of(
        table,
        label=label,
        unit="1",
        x=x,
        by="curve",
        lines={f"{at:.0%}": at},
        x_label=x_label,
        log_y=False,
        zero=False,
    )


def answer(intervals: pd.DataFrame, stopping: pd.DataFrame) -> str:
    """Say the lowest coverage of the plain interval and of stopping early."""
    plain_t = intervals[intervals["curve"] == METHODS["t"][0]]
    worst, early = lowest(plain_t), lowest(stopping)
    kept = min(worst["hi"], early["hi"]) >= LEVEL
    return (
        f"{'Yes' if kept else 'Not quite'}: an interval that should hold the truth in "
        f"{LEVEL:.0%} of sweeps holds it in {_percent(worst)} at worst for normal "
        f"trials ({worst['n']:.0f} of them), and in {_percent(early)} when a sweep "
        f"stops as soon as the interval is narrow ({early['curve']}, from "
        f"{early['n']:.0f} trials)."
    )


def _percent(row: pd.Series) -> str:
    i = Interval(row["value"], row["lo"], row["hi"], row["repetitions"], LEVEL, "")
    return number_text(i.scaled(100), "%")


# ---- tables for figures -------------------------------------------------------


def _record(curve: str, x: float, i: Interval) -> dict[str, Any]:
    return {
        "curve": curve,
        "n": x,
        "value": i.value,
        "lo": i.lo,
        "hi": i.hi,
        "repetitions": i.n,
        "reason": None,
    }


def intervals_table(
    trials: Sequence[int], *, distribution: str, repetitions: int, seed: int
) -> pd.DataFrame:
    """Return the coverage of every method against the number of trials.

    Methods whose truth the distribution does not know are left out; so are numbers of
    trials for which a method has no interval at all.
    """
    world = DISTRIBUTIONS[distribution]
    rows = []
    for method, (label, interval, truth) in METHODS.items():
        if math.isnan(getattr(world, truth)):
            continue
        for n in trials:
            if not interval(np.arange(1.0, n + 1)).determined:
                continue
            found = of_interval(
                method, distribution, n, repetitions=repetitions, seed=seed
            )
            rows.append(_record(label, n, found))
    return pd.DataFrame(rows)


def ratios_table(trials: Sequence[int], *, repetitions: int, seed: int) -> pd.DataFrame:
    """Return coverage and mean half-width of paired and unpaired ratios."""
    rows = []
    for paired, label in ((True, "paired by block"), (False, "arms independent")):
        for n in trials:
            found, width = of_ratio(
                n, paired=paired, repetitions=repetitions, seed=seed
            )
            rows.append({**_record(label, n, found), "half_width": width})
    return pd.DataFrame(rows)


def stopping_table(
    n_min: Sequence[int],
    *,
    cvs: Sequence[float],
    target: float,
    n_max: int,
    repetitions: int,
    seed: int,
) -> pd.DataFrame:
    """Return the coverage that a sweep stops with, against its fewest trials."""
    rows = []
    for cv in cvs:
        for n in n_min:
            s = simulate_stopping(
                cv=cv,
                target=target,
                n_min=n,
                n_max=n_max,
                repetitions=repetitions,
                seed=seed,
            )
            hits = share(round(s.coverage * repetitions), repetitions)
            row = _record(f"CV {cv:.0%}", n, hits)
            rows.append({**row, "mean_trials": s.mean_trials, "reached": s.reached})
    return pd.DataFrame(rows)


def equivalence_table(
    ratios: Sequence[float], *, trials: Sequence[int], repetitions: int, seed: int
) -> pd.DataFrame:
    """Return how often two arms are called alike, against their true ratio."""
    rows = [
        _record(
            f"{n} trials",
            ratio,
            of_equivalence(n, ratio, repetitions=repetitions, seed=seed),
        )
        for n in trials
        for ratio in ratios
    ]
    return pd.DataFrame(rows).rename(columns={"n": "ratio"})


def lowest(table: pd.DataFrame) -> pd.Series:
    """Return the row of a table whose coverage is lowest."""
    return table.loc[table["value"].idxmin()]
