"""Two cells, by their ratio."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from connlab.claims.finding import (
    Finding,
    RuleError,
    Untestable,
    Verdict,
    cell_text,
    effect_of,
    outside,
    remaining,
    usable,
    within,
)
from connlab.intervals import client_bound, ratio
from connlab.study import turns
from connlab.study.frames import Cell
from connlab.study.interval import Interval

LIMITED = "the client was the bottleneck of "
"""Followed by the cell, or how many."""
_OPEN = "undetermined"
_ONE_ALONE = "one side took turns, the other was measured alone"
_ALIKE = "shown to be alike within the margin"
_SCALED = {"throughput_rps": "throughput_scaled_rps"}
"""Metrics that a section prints at another scale, which leaves a ratio as it is."""


@dataclass(frozen=True)
class Expected:
    """A claim about a ratio: its direction and, perhaps, its size."""

    expect: Literal["more", "less", "alike"]
    size: Sequence[float] | None = None
    """The lowest and the highest ratio that count as the published one."""
    size_matters: bool = False
    """Whether the claim is about the size, so that the direction alone does not hold in
    part."""
    margin: float = turns.MARGIN
    """Alike is what lies between 1 / (1 + margin) and 1 + margin."""

    def __post_init__(self) -> None:
        if self.expect not in ("more", "less", "alike"):
            raise RuleError(f"expect is {self.expect!r}: want more, less or alike")
        if self.size_matters and self.size is None:
            raise RuleError("size_matters is true, but there is no size")

    @property
    def band(self) -> tuple[float, float]:
        """The bounds of what is alike."""
        return 1 / (1 + self.margin), 1 + self.margin

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds within which a ratio counts as the claimed one."""
        if self.expect == "alike":
            return self.band
        if self.size is not None:
            return self.size[0], self.size[1]
        return (1.0, math.inf) if self.expect == "more" else (0.0, 1.0)


def compare(
    trials: pd.DataFrame,
    *,
    metric: str,
    arm: Cell,
    baseline: Cell,
    overlook: Sequence[str] = (),
    apart: bool = False,
    printed: pd.DataFrame | None = None,
    **claimed: Any,
) -> Finding:
    """Compare two cells by the ratio of their geometric means.

    1. The ratio and its interval: those that a section prints of this pair, else of
       this pair alone (`connlab.intervals.ratio`). A server that was measured alone is
       not compared with one that took turns, as in sections, unless the claim is about
       one that cannot take turns (`apart`).
    2. Where the client was the bottleneck of one cell, that server could only be
       better: one bound of the interval remains, and the other is open.
    3. `judge_ratio` gives the verdict.

    Gates to `overlook` leave no trial out: what they flag is what the claim is about.
    `printed` are the ratios of the studies' sections (``ratios.csv``), `claimed` the
    arguments of `Expected`.
    """
    expected = Expected(**claimed)
    y, x = (usable(trials, cell, metric, overlook) for cell in (arm, baseline))
    effect = as_printed(ratio(y, x, metric), metric, printed)
    of = effect_of(arm, baseline)
    if math.isnan(effect.value):
        raise Untestable(f"no trials of both with {metric} above 0")
    if not effect.determined:
        raise Untestable(effect.note or "no interval", effect, of=of)
    if not apart and turns.took_turns(y) != turns.took_turns(x):
        raise Untestable(_ONE_ALONE, effect, of=of)
    limited = [client_bound(side, metric) for side in (y, x)]
    if all(limited):
        raise Untestable(LIMITED + "both", effect, of=of)
    known = remaining(effect, metric, *limited)
    verdict, why = judge_ratio(known, expected)
    if any(limited):
        why += f"; {LIMITED}{cell_text(arm if limited[0] else baseline)}"
    return Finding(verdict, why, effect, claimed=expected.bounds, of=of)


def printed_ratio(
    trials: pd.DataFrame,
    *,
    metric: str,
    arm: Cell,
    against: str,
    printed: pd.DataFrame | None = None,
    **claimed: Any,
) -> Finding:
    """Judge a ratio that a study prints, by its levels there.

    For studies whose cells an entry cannot name, since a level depends on the machine:
    the rate of an open loop is a share of what the machine can serve. `arm` holds the
    levels of the printed ratio, with the model; `against` is its baseline; all else is
    as of `compare`. A ratio that the study calls undetermined although its interval
    tells more was limited by the client.
    """
    expected = Expected(**claimed)
    rows = pd.DataFrame() if printed is None else printed
    for column, level in {"metric": metric, "against": against, **arm}.items():
        levels = rows.get(column, pd.Series(index=rows.index)).astype(str)
        rows = rows[levels == str(level)]
    if rows.empty:
        raise Untestable(f"not measured here: {cell_text(arm)} against {against}")
    row = rows.iloc[0]
    effect = Interval.of_row(row)
    of = effect_of(arm, {"model": against})
    if not effect.determined:
        raise Untestable("no interval", effect, of=of)
    if row.get("verdict") == _OPEN and turns.verdict(effect) != _OPEN:
        raise Untestable(LIMITED + "one or both", effect, of=of)
    verdict, why = judge_ratio(effect, expected)
    return Finding(verdict, why, effect, claimed=expected.bounds, of=of)


def as_printed(effect: Interval, metric: str, printed: pd.DataFrame | None) -> Interval:
    """Return a ratio with the interval that a section prints of it, if one does.

    That is wider, as it belongs to a family whose intervals hold at once. The pair is
    recognised by its ratio, which the same trials give to the last digits, in either
    direction.
    """
    if printed is None or printed.empty:
        return effect
    names = [metric, _SCALED.get(metric, metric)]
    same = printed[printed["metric"].isin(names) & (printed["n"] == effect.n)]
    for inverted in (False, True):
        value = 1 / effect.value if inverted else effect.value
        rows = same[np.isclose(same["value"], value, rtol=1e-9, atol=0)]
        if len(rows):
            row = rows.iloc[0]
            lo, hi = float(row["lo"]), float(row["hi"])
            if inverted:
                lo, hi = 1 / hi, 1 / lo
            return replace(effect, lo=lo, hi=hi, method=str(row["method"]))
    return effect


def judge_ratio(ratio: Interval, expected: Expected) -> tuple[Verdict, str]:
    """Return the verdict on a claim about a ratio, and why.

    "alike" holds when all of its interval lies within the margin, and not when none
    does. "more" and "less" hold when all of it lies on that side of 1 and, with a size,
    within that. They hold in part when the side is sure and the size another or open,
    unless it matters; or without a size when all lies within the margin. They do not
    hold when all lies on the other side; nor when 1 is possible and the size is not, or
    all lies within the margin.
    """
    if expected.expect == "alike":
        return _alike(ratio, expected.band)
    same = within(ratio, *expected.band)
    other_size = expected.size is not None and outside(ratio, *expected.size)
    if ratio.lo > 1 or ratio.hi < 1:
        if (ratio.lo > 1) != (expected.expect == "more"):
            return "does not hold", "the difference has the other sign"
        return _of_size(ratio, expected, same=same, other_size=other_size)
    if same and (expected.size is None or other_size):
        return "does not hold", _ALIKE
    if other_size:
        return "does not hold", "no difference is shown, and none of that size"
    return "not testable here", "the interval holds 1: no direction is shown"


def _alike(ratio: Interval, band: tuple[float, float]) -> tuple[Verdict, str]:
    if within(ratio, *band):
        return "holds", _ALIKE
    if outside(ratio, *band):
        return "does not hold", "the difference is beyond the margin"
    if ratio.lo > 1 or ratio.hi < 1:
        return "not testable here", "a difference, which may lie within the margin"
    return "not testable here", "the interval is too wide to show likeness"


def _of_size(
    ratio: Interval, expected: Expected, *, same: bool, other_size: bool
) -> tuple[Verdict, str]:
    """Judge a ratio whose direction is the claimed one."""
    if expected.size is None:
        if same:
            return "holds in part", f"same direction, but {_ALIKE}"
        return "holds", "same direction"
    if within(ratio, *expected.size):
        return "holds", "same direction and size"
    why = f"same direction, {'another size' if other_size else 'perhaps of that size'}"
    if not expected.size_matters:
        return "holds in part", why
    return "does not hold" if other_size else "not testable here", why
