"""What a trial says of two servers that took turns: the log of their ratio.

    rounds of both -> log ratio in each -> median = one number a trial and metric

The rule that stops a sweep (`connlab.drive.stopping`) looks at these, as what a study
of servers in turns prints are their ratios; `connlab.study.turns` says why the median.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from connlab import schema

#: what of a round divides into what, by column
_OF_ROUNDS: dict[str, Callable[[Mapping, int], tuple[float | None, float]]] = {
    "throughput_rps": lambda t, i: (t["requests"][i], t["seconds"][i]),
    "response_mean_s": lambda t, i: (t["response_ns"][i], t["requests"][i]),
    "server_cpu_per_request_s": lambda t, i: (
        t["server_cpu_ns"][i],
        t["lead_in_requests"][i] + t["requests"][i],
    ),
    "slice_p99_s": lambda t, i: (t["response_p99_ns"][i], 1),
}


def to_baseline(
    trial: Mapping, baseline: Mapping, metrics: Sequence[str]
) -> dict[str, float | None]:
    """Return log(trial / baseline) of each metric, None where it has none.

    Parameters
    ----------
    trial, baseline : mapping
        Two trials of one set, as `connlab.schema.Trial` dumps them.
    metrics : sequence of str
        Columns that are positive. What has no value in each round (a quantile) is
        compared by trial.
    """
    return {metric: _log_ratio(trial, baseline, metric) for metric in metrics}


def _log_ratio(trial: Mapping, baseline: Mapping, metric: str) -> float | None:
    if metric not in _OF_ROUNDS:
        above, below = (schema.flatten(t).get(metric) for t in (trial, baseline))
        return math.log(above / below) if above and below else None
    sides = [_by_round(t["turns"], metric) for t in (trial, baseline)]
    logs = [math.log(sides[0][n] / sides[1][n]) for n in sides[0].keys() & sides[1]]
    return statistics.median(logs) if logs else None


def _by_round(turns: Mapping, metric: str) -> dict[int, float]:
    """Return a metric of each round that counts and has it, by its number."""
    found = {}
    left_out = set(turns.get("disturbed") or ())
    for place, number in enumerate(turns["round"]):
        above, below = _OF_ROUNDS[metric](turns, place)
        answered = turns["requests"][place] > 0 and number not in left_out
        if answered and above is not None and above > 0 and below > 0:
            found[number] = above / below
    return found
