"""The rounds of a server that took turns with others, and its ratio to one of them.

    turns of a trial -> logs of each round -> median of log ratios: a number per trial

A baseline may have taken turns as several servers: the median then is of all pairs, of
a round of the one and a round of each of the others. A mean of these would bias it, as
what disturbs a round makes it slower only; in pairs, equal servers change places.

The stopping rule of a sweep (`connlab.drive.stopping`) and the printed ratios
(`connlab.study.turns`, which says why the median) both use it: a sweep that was judged
by other ratios than the printed ones would stop too late or too early.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from connlab import schema

METRICS = (
    "throughput_rps",
    "server_cpu_per_request_s",
    "response_mean_s",
    "slice_p99_s",
)
"""Columns of trials that have a value in each round."""


class Rounds:
    """What a server did in each counted round of a trial, as logarithms.

    From a trial as `connlab.schema.Trial` dumps it. `number` are the rounds; `logs`
    has an array of their shape for each of `METRICS`; not a number where a round has
    none, or does not count (`connlab.schema.skipped_rounds`).
    """

    def __init__(self, trial: Mapping[str, Any]) -> None:
        turns = trial["turns"]
        self.number = np.asarray(turns["round"], dtype=int)
        counts = ~np.isin(self.number, list(schema.skipped_rounds(trial)))

        def column(name: str) -> np.ndarray:
            values = np.asarray(turns.get(name) or [np.nan] * len(counts), dtype=float)
            return np.where(counts & (values > 0), values, np.nan)

        requests, seconds = column("requests"), column("seconds")
        all_requests = np.asarray(turns["lead_in_requests"], dtype=float) + requests
        rate = requests / seconds
        if schema.counts_whole_slices(trial):
            rate = all_requests / (seconds + turns["lead_in_ms"] / 1e3)
        if schema.counts_answers(trial):
            answers_s = column("response_ns") / 1e9
            rate = np.where(np.isnan(answers_s), rate, requests / answers_s)
        p99_ns = np.where(requests > 0, column("response_p99_ns"), np.nan)
        cost_s = column("server_cpu_ns") / 1e9 / all_requests
        if schema.cpu_in_ticks(trial):
            # a median would be 14, 24 or 34 ms where it is 22 ms on average
            spent_ns = np.asarray(turns["server_cpu_ns"], dtype=float)
            counted = counts & np.isfinite(spent_ns) & np.isfinite(requests)
            served = all_requests[counted].sum()
            mean_s = spent_ns[counted].sum() / 1e9 / served if served else np.nan
            cost_s = np.where(counted & (mean_s > 0), mean_s, np.nan)
        self.logs = {
            "throughput_rps": np.log(rate),
            "server_cpu_per_request_s": np.log(cost_s),
            "response_mean_s": np.log(
                column("response_ns") / 1e9 / (requests * _share_timed(trial))
            ),
            "slice_p99_s": np.log(p99_ns / 1e9),
        }

    def __repr__(self) -> str:
        return f"<{len(self.number)} rounds>"

    def shared(
        self, base: "Rounds", metric: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rounds in which both have a value, and the logarithms of both."""
        number, y, x = self.number, self.logs[metric], base.logs[metric]
        if not np.array_equal(number, base.number):
            number, i, j = np.intersect1d(
                number, base.number, assume_unique=True, return_indices=True
            )
            y, x = y[i], x[j]
        finite = np.isfinite(y) & np.isfinite(x)
        return number[finite], y[finite], x[finite]


def shared(
    arms: Iterable[Rounds], bases: Collection[Rounds], metric: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return as `Rounds.shared` what all pairs of two sides of a set have."""
    pairs = [arm.shared(base, metric) for arm in arms for base in bases]
    number, y, x = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return number, y, x


def log_ratio(arms: Iterable[Rounds], bases: Collection[Rounds], metric: str) -> float:
    """Return the median of log(arm / base) over rounds and pairs; nan without any."""
    _, y, x = shared(arms, bases, metric)
    return float(np.median(y - x)) if len(y) else math.nan


def _share_timed(trial: Mapping[str, Any]) -> float:
    """Return the share of the requests of a trial's rounds whose times were summed.

    In an open loop those that fell due in the lead-in are answered later, untimed.
    Rounds say nothing of it, the trial does. Over hosts its response times are also of
    rounds that were set aside, so nothing is known: 1.
    """
    turns, requests = trial["turns"], sum(trial["turns"]["requests"])
    timed = schema.pick(trial, "client.response.n")
    if not requests or not timed or turns.get("pause_ms") is not None:
        return 1.0
    return timed / requests


def to_baseline(
    trial: Mapping, baselines: Collection[Mapping], metrics: Sequence[str]
) -> dict[str, float | None]:
    """Return log(trial / baseline) of each metric, None where it has none.

    All are trials of one set as `connlab.schema.Trial` dumps them, `baselines` of one
    cell. Metrics are columns that are positive; one that is none of `METRICS` (a
    quantile of the whole run) is compared by trial.
    """
    if not baselines:
        return dict.fromkeys(metrics)
    arm, bases = Rounds(trial), [Rounds(baseline) for baseline in baselines]
    logs = {}
    for metric in metrics:
        if metric in METRICS:
            log = log_ratio([arm], bases, metric)
        else:
            y, *xs = (schema.flatten(t).get(metric) for t in (trial, *baselines))
            log = log_ratio_of_values([y], xs)
        logs[metric] = log if math.isfinite(log) else None
    return logs


def log_ratio_of_values(
    arms: Iterable[float | None], bases: Iterable[float | None]
) -> float:
    """Return the mean of log(arms) less that of log(bases); nan if one has none."""
    y, x = ([math.log(v) for v in side if v and v > 0] for side in (arms, bases))
    return fmean(y) - fmean(x) if y and x else math.nan
