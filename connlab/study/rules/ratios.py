"""Two cells, by the ratio of their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from connlab.study.cells import compare_trials, is_bound, mostly_client_bound
from connlab.study.comparing import MARGIN, Equivalence
from connlab.study.finding import (
    Finding,
    RuleError,
    Verdict,
    cell_text,
    select,
    unmeasured,
    untestable,
)
from connlab.study.frames import failed_only, speaking
from connlab.study.interval import Interval
from connlab.study.metrics import client_matters
from connlab.study.metrics import metric as metric_of

SATURATED = "the client was the bottleneck of "
"""What then follows is the cell, or how many."""
_SHOWN_ALIKE = "shown to be alike within the margin"


def compare(
    frame: pd.DataFrame,
    *,
    metric: str,
    arm: Mapping[str, Any],
    baseline: Mapping[str, Any],
    expect: Literal["more", "less", "alike"],
    size: Sequence[float] | None = None,
    size_matters: bool = False,
    margin: float = MARGIN,
    overlook: Sequence[str] = (),
) -> Finding:
    """Compare two cells by the ratio of their means.

    1. The ratio's interval: paired by block where both cells share blocks, else
       Fieller.
    2. "alike" holds when TOST shows that the ratio lies within `margin` of 1; it does
       not hold when the interval lies outside. Between the two nothing can be said.
    3. "more" and "less" hold when the interval leaves out 1 on that side and, with
       `size`, touches that range of ratios; only the direction: in part, or not at
       all where `size_matters`. They do not hold when it leaves out 1 on the other
       side, nor when it holds 1 and leaves `size` out, nor when it holds 1 and TOST
       shows that the cells are alike. A direction alone holds in part where it is sure
       and TOST shows that the cells are alike: figures call such a pair
       indistinguishable.
    4. Where the client was the bottleneck of one cell, that server could only be
       better, so the ratio is a bound: what a larger (or smaller) one would still
       show is said, and nothing else.

    Parameters
    ----------
    metric : str
        A column of the frame.
    arm, baseline : mapping
        Column values that define the two cells; a list allows several levels.
    size : (low, high), optional
        Ratios that count as the published one.
    size_matters : bool
        Whether the size is what the claim says, so that a direction alone is not part
        of it.
    margin : float
        How far from 1 two means may be and still count as alike; see
        `connlab.study.comparing.tost`.
    overlook : sequence of str
        Gates that leave no trial out here: what they flag is what is asked.
    """
    asked = Asked(expect, size, size_matters)
    sides, why = sides_of(_overlooking(frame, overlook), metric, arm, baseline)
    if sides is None:
        return untestable(why)
    found = compare_trials(*sides, metric, margin=margin)
    ratio, same = found.ratio, found.equivalence
    if not ratio.determined:
        return replace(untestable(ratio.note), effect=ratio)
    bound = [is_bound(side, metric) for side in sides]
    if all(bound):
        return replace(untestable(SATURATED + "both"), effect=ratio)
    if any(bound):
        at_least = bound[0] == (metric_of(metric).better == "higher")
        found = _bounded(ratio, at_least, asked, same.bounds)
        why = f"{found[1]}: {SATURATED}{cell_text(arm if bound[0] else baseline)}"
        return Finding(found[0], why, ratio)
    if expect == "alike":
        return Finding(*_alike(ratio, same), ratio)
    return Finding(*directed(ratio, asked, alike=same.equivalent), ratio)


def sides_of(frame, metric, arm, baseline):
    """Return the usable trials of two cells, or why they cannot be compared."""
    sides = []
    for cell in (arm, baseline):
        every = select(frame, cell)
        if every.empty:
            return None, unmeasured(frame, cell).why
        good = speaking(every, metric) if metric in every else every.iloc[:0]
        if len(good) < 2:
            reasons = every["failure"].dropna()
            why = f": {reasons.iloc[0]}" if len(reasons) else ""
            return None, f"fewer than 2 usable trials of {cell_text(cell)}{why}"
        distorted = client_matters(metric) and mostly_client_bound(good)
        if distorted and not is_bound(good, metric):
            return None, SATURATED + cell_text(cell)
        sides.append(good)
    return sides, ""


@dataclass(frozen=True)
class Asked:
    """What a claim says of a ratio: its direction and, perhaps, its size."""

    expect: Literal["more", "less", "alike"]
    size: Sequence[float] | None = None
    size_matters: bool = False

    def __post_init__(self) -> None:
        if self.expect not in ("more", "less", "alike"):
            raise RuleError(f"expect is {self.expect!r}: want more, less or alike")
        if self.size_matters and self.size is None:
            raise RuleError("size_matters is true, but there is no size")

    def leaves_out(self, ratio: Interval) -> bool:
        """Whether no ratio of the interval has the size that is claimed."""
        if self.size is None:
            return False
        low, high = self.size
        return ratio.lo > high or ratio.hi < low


def _overlooking(frame: pd.DataFrame, gates: Sequence[str]) -> pd.DataFrame:
    """Return the frame with those trials usable that failed none but these gates."""
    return frame.assign(ok=frame["ok"] | failed_only(frame, gates)) if gates else frame


def _alike(ratio: Interval, same: Equivalence) -> tuple[Verdict, str]:
    if same.equivalent:
        return "holds", _SHOWN_ALIKE
    if ratio.hi < same.bounds[0] or ratio.lo > same.bounds[1]:
        return "does not hold", "the difference is beyond the margin"
    if not ratio.contains(1.0):
        return "not testable here", "a difference, which may lie within the margin"
    return "not testable here", "the interval is too wide to show likeness"


def directed(ratio: Interval, asked: Asked, *, alike: bool) -> tuple[Verdict, str]:
    """Judge a ratio by its direction and size; `alike`: TOST shows likeness."""
    other_size = asked.leaves_out(ratio)
    if ratio.contains(1.0):
        if alike and (asked.size is None or other_size):
            return "does not hold", _SHOWN_ALIKE
        if other_size:
            return "does not hold", "no difference is shown, and none of that size"
        return "not testable here", "the interval holds 1: no direction can be told"
    if (ratio.lo > 1) != (asked.expect == "more"):
        return "does not hold", "the difference has the other sign"
    if asked.size is None and alike:
        return "holds in part", f"same direction, but {_SHOWN_ALIKE}"
    if asked.size is None:
        return "holds", "same direction"
    if not other_size:
        return "holds", "same direction and size"
    verdict = "does not hold" if asked.size_matters else "holds in part"
    return verdict, "same direction, another size"


def _bounded(
    ratio: Interval, at_least: bool, asked: Asked, bounds: tuple[float, float]
) -> tuple[Verdict, str]:
    """Judge a ratio that is only known to be at least so large, or at most."""
    words = "at least so large" if at_least else "at most so large"
    beyond = ratio.lo > 1 if at_least else ratio.hi < 1
    size, expect = asked.size, asked.expect
    if expect == "alike":
        far = ratio.lo > bounds[1] if at_least else ratio.hi < bounds[0]
        if far:
            return "does not hold", f"the difference is beyond the margin, {words}"
        return "not testable here", f"the ratio is a bound, {words}"
    past = size and (ratio.lo > size[1] if at_least else ratio.hi < size[0])
    if beyond and at_least != (expect == "more"):
        return "does not hold", "the difference has the other sign"
    if beyond and size is None:
        return "holds", f"same direction, {words}"
    if beyond and past:
        verdict = "does not hold" if asked.size_matters else "holds in part"
        return verdict, f"same direction, another size, {words}"
    if beyond:
        verdict = "not testable here" if asked.size_matters else "holds in part"
        return verdict, f"same direction, of the size only a bound is known, {words}"
    if past:
        return "does not hold", f"none of that size, {words}"
    return "not testable here", f"the ratio is a bound, {words}"
