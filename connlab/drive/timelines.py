"""The client's timeline: when the warm-up was over, and whether the window drifts.

The client counts answers in steps of 100 ms from the start of its load. Two questions
are asked of these counts:

- when had the server warmed up? At the first step that is as near to the median of the
  second half as the steps of that half;
- does throughput drift inside the window? The trend is the median of all slopes between
  two steps (Theil and Sen), and it is believed when Mann and Kendall's test finds that
  so many steps in one direction would be rare by chance. Both look at every pair of
  steps; the many steps of a long window are merged first.
"""

import csv
import io
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from connlab import schema

#: fewer steps than this say nothing about a trend
STEPS_MIN = 6
#: and of more than this, neighbours are merged: pairs grow with the square
STEPS_MAX = 300
#: a step has settled within this part of the median, or so many deviations
_SETTLED = 0.05
_DEVIATIONS = 3
#: turns a median absolute deviation into a normal standard deviation
_MAD = 1.4826


def parse(data: bytes | None, *, until_s: float) -> schema.Timeline | None:
    """Return the complete steps up to `until_s` after the start of the load.

    None when the client left no timeline or one that cannot be read.
    """
    try:
        rows = list(csv.DictReader(io.StringIO((data or b"").decode())))
        starts = [int(row["start_ms"]) for row in rows]
        requests = [int(row["requests"]) for row in rows]
    except (UnicodeDecodeError, KeyError, ValueError, TypeError):
        return None
    if len(starts) < 2:
        return None
    step = starts[1] - starts[0]
    whole = sum(start + step <= until_s * 1000 + 1 for start in starts)
    requests, warm_s = requests[:whole], None
    if whole >= STEPS_MIN:
        warm_s = (starts[0] + settled(requests) * step) / 1000
    return schema.Timeline(
        step_ms=step, start_ms=starts[0], requests=requests, warmup_detected_s=warm_s
    )


def in_window(
    timeline: Mapping[str, Any], *, warmup_s: float, window_s: float
) -> list[int]:
    """Return the steps of a trial's timeline that lie wholly inside its window."""
    first, last = warmup_s * 1000 - 1, (warmup_s + window_s) * 1000 + 1
    start_ms, step_ms = timeline["start_ms"], timeline["step_ms"]
    return [
        count
        for i, count in enumerate(timeline["requests"])
        if start_ms + i * step_ms >= first and start_ms + (i + 1) * step_ms <= last
    ]


def trend(counts: Sequence[float]) -> tuple[float, float] | None:
    """Return how much throughput changed from the first step to the last, and p.

    The change is relative to the median; p is the chance of such a run of steps without
    any trend. None when they are too few or all empty.
    """
    counts = merged(counts)
    n = len(counts)
    if n < STEPS_MIN or not any(counts):
        return None
    pairs = list(itertools.combinations(range(n), 2))
    slope = statistics.median((counts[j] - counts[i]) / (j - i) for i, j in pairs)
    middle = statistics.median(counts) or statistics.fmean(counts)
    signs = sum((counts[j] > counts[i]) - (counts[j] < counts[i]) for i, j in pairs)
    return slope * (n - 1) / middle, _mann_kendall_p(signs, counts)


def merged(counts: Sequence[float], most: int = STEPS_MAX) -> Sequence[float]:
    """Return `most` steps at most, each the sum of equally many neighbours.

    An incomplete sum at the end is left out.
    """
    size = -(-len(counts) // most)
    if size < 2:
        return counts
    return [sum(counts[i : i + size]) for i in range(0, len(counts) - size + 1, size)]


def settled(counts: Sequence[float]) -> int:
    """Return how many steps pass before throughput has settled.

    Settled is the median of the second half, give or take three of its standard
    deviations (estimated from its median absolute deviation) or 5 %.
    """
    half = counts[len(counts) // 2 :]
    middle = statistics.median(half)
    deviation = _MAD * statistics.median(abs(count - middle) for count in half)
    allowed = max(_SETTLED * middle, _DEVIATIONS * deviation)
    near = (i for i, count in enumerate(counts) if abs(count - middle) <= allowed)
    return next(near, len(counts))


def _mann_kendall_p(s: int, counts: Sequence[float]) -> float:
    """Return the two-sided p of Kendall's S, by its normal approximation."""
    n = len(counts)
    ties = [counts.count(value) for value in set(counts)]
    spread = n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)
    if spread <= 0 or s == 0:
        return 1.0
    z = (abs(s) - 1) / math.sqrt(spread / 18)
    return math.erfc(z / math.sqrt(2))
