"""The log ratio of two servers that took turns, from one trial of each.

    rounds of both -> log ratio in each round -> median: one number per trial and metric

The stopping rule of a sweep (`connlab.drive.stopping`) uses these, as a study of
servers in turns prints ratios; `connlab.study.turns` explains the choice of the median.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from connlab import schema

#: numerator and denominator of a metric in round i, by column
_OF_ROUNDS: dict[str, Callable[[Mapping, int], tuple[float | None, float]]] = {
    "throughput_rps": lambda t, i: (t["requests"][i], t["seconds"][i]),
    "response_mean_s": lambda t, i: (t["response_ns"][i], t["requests"][i]),
    "server_cpu_per_request_s": lambda t, i: (
        t["server_cpu_ns"][i],
        t["lead_in_requests"][i] + t["requests"][i],
    ),
    "slice_p99_s": lambda t, i: (
        t["response_p99_ns"][i] if t["response_p99_ns"] else None,  # open loops have it
        1,
    ),
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
    values = {}
    disturbed = set(turns.get("disturbed") or ())
    for i, number in enumerate(turns["round"]):
        numerator, denominator = _OF_ROUNDS[metric](turns, i)
        if turns["requests"][i] <= 0 or number in disturbed:
            continue
        if numerator is not None and numerator > 0 and denominator > 0:
            values[number] = numerator / denominator
    return values
