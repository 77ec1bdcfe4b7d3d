"""The log ratio of two servers that took turns, from one trial of each.

    rounds of both -> log ratio in each round -> median: one number per trial and metric

The stopping rule of a sweep (`connlab.drive.stopping`) uses these, as a study of
servers in turns prints ratios; `connlab.study.turns` explains the choice of the median.
"""

import itertools
import math
import operator
import statistics
from collections.abc import Mapping, Sequence

from connlab import schema

#: what a metric is a ratio of in each round
_OF_ROUNDS = {
    "throughput_rps": ("requests", "seconds"),
    "response_mean_s": ("response_ns", "requests"),
    "server_cpu_per_request_s": ("server_cpu_ns", "all_requests"),
    "slice_p99_s": ("response_p99_ns", "one"),  # in open loops; else there is none
}


def to_baseline(
    trial: Mapping, baseline: Mapping, metrics: Sequence[str]
) -> dict[str, float | None]:
    """Return log(trial / baseline) of each metric, None where it has none.

    Both are trials of one set as `connlab.schema.Trial` dumps them. Metrics are columns
    that are positive; one without a value in each round (a quantile) is compared by
    trial.
    """
    return {metric: _log_ratio(trial, baseline, metric) for metric in metrics}


def _log_ratio(trial: Mapping, baseline: Mapping, metric: str) -> float | None:
    if metric not in _OF_ROUNDS:
        values = [schema.flatten(t).get(metric) for t in (trial, baseline)]
        return math.log(values[0] / values[1]) if all(values) else None
    rounds, base = (_by_round(t["turns"], metric) for t in (trial, baseline))
    logs = [math.log(rounds[n] / base[n]) for n in rounds.keys() & base]
    return statistics.median(logs) if logs else None


def _by_round(turns: Mapping, metric: str) -> dict[int, float]:
    """Return a metric of each round that counts and has it, by its number."""
    all_requests = map(operator.add, turns["lead_in_requests"], turns["requests"])
    columns = {**turns, "all_requests": all_requests, "one": itertools.repeat(1)}
    above, below = (columns[name] for name in _OF_ROUNDS[metric])
    disturbed = set(turns.get("disturbed") or ())
    return {
        number: y / x
        for number, requests, y, x in zip(
            turns["round"], turns["requests"], above, below, strict=False
        )
        if requests > 0 and number not in disturbed and y and y > 0 and x > 0
    }
