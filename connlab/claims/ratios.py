"""Two cells, by their ratio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from connlab.claims.finding import (
    Finding,
    Range,
    RuleError,
    Untestable,
    Verdict,
    cell_text,
    known,
    limits,
    usable,
)
from connlab.intervals import MARGIN, ratio
from connlab.study.interval import Interval

LIMITED = "the client was the bottleneck of "
"""What then follows is the cell, or how many."""
_ALIKE = "shown to be alike within the margin"


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

    def ends(self, margin: float) -> tuple[float, float]:
        """Return the ends between which a ratio counts as the claimed one."""
        if self.expect == "alike":
            return 1 / (1 + margin), 1 + margin
        if self.size is not None:
            return self.size[0], self.size[1]
        return (1.0, math.inf) if self.expect == "more" else (0.0, 1.0)


def compare(
    trials: pd.DataFrame,
    *,
    metric: str,
    arm: Mapping[str, Any],
    baseline: Mapping[str, Any],
    expect: Literal["more", "less", "alike"],
    size: Sequence[float] | None = None,
    size_matters: bool = False,
    margin: float = MARGIN,
    overlook: Sequence[str] = (),
    printed: pd.DataFrame | None = None,
) -> Finding:
    """Compare two cells by the ratio of their geometric means.

    1. The ratio and its interval: those that a section prints of this pair, else of
       this pair alone (`connlab.intervals.ratio`).
    2. Where the client was the bottleneck of one cell, that server could only be
       better: one bound of the interval is left, and the other is open.
    3. `judged` says what follows.

    Parameters
    ----------
    metric : str
        A column of the trials, positive.
    arm, baseline : mapping
        Column values that define the two cells; a list allows several levels.
    size : (low, high), optional
        Ratios that count as the published one.
    size_matters : bool
        Whether the size is what the claim says, so that a direction alone is not part
        of it.
    margin : float
        Alike is what lies between 1 / (1 + margin) and 1 + margin.
    overlook : sequence of str
        Gates that leave no trial out here: what they flag is what is asked.
    printed : DataFrame, optional
        The ratios of the studies' sections, as in ``ratios.csv``.
    """
    asked = Asked(expect, size, size_matters)
    cells = {"arm": arm, "baseline": baseline}
    y, x = (usable(trials, cell, metric, overlook) for cell in cells.values())
    effect = as_printed(ratio(y, x, metric), metric, printed)
    if not effect.determined:
        raise Untestable(effect.note or "no interval", effect)
    limited = [limits(side, metric) for side in (y, x)]
    if all(limited):
        raise Untestable(LIMITED + "both", effect)
    verdict, why = judged(known(effect, metric, *limited), asked, margin)
    if any(limited):
        why += f"; {LIMITED}{cell_text(arm if limited[0] else baseline)}"
    return Finding(verdict, why, effect, asked=asked.ends(margin))


def printed_ratio(
    trials: pd.DataFrame,
    *,
    metric: str,
    arm: Mapping[str, Any],
    against: str,
    expect: Literal["more", "less", "alike"],
    size: Sequence[float] | None = None,
    size_matters: bool = False,
    margin: float = MARGIN,
    printed: pd.DataFrame | None = None,
) -> Finding:
    """Judge a ratio that a study prints, by the levels that it prints it for.

    For studies whose cells an entry cannot name, since a level depends on the machine:
    the rate of an open loop is a part of what the machine can serve.

    Parameters
    ----------
    metric : str
    arm : mapping
        Levels of the printed ratio, with the model.
    against : str
        What it was divided by.
    expect, size, size_matters, margin
        As of `compare`.
    printed : DataFrame, optional
        The ratios of the studies' sections, as in ``ratios.csv``.
    """
    asked = Asked(expect, size, size_matters)
    rows = pd.DataFrame() if printed is None else printed
    for column, level in {"metric": metric, "against": against, **arm}.items():
        found = rows[column].astype(str) if column in rows else pd.Series(dtype=str)
        rows = rows[found == str(level)] if len(found) else rows.iloc[:0]
    if rows.empty:
        raise Untestable(f"not measured here: {cell_text(arm)} against {against}")
    row = rows.iloc[0]
    numbers = (float(row[end]) for end in ("value", "lo", "hi"))
    effect = Interval(*numbers, int(row["n"]), float(row["level"]), str(row["method"]))
    if not effect.determined:
        raise Untestable("no interval", effect)
    verdict, why = judged(Range(effect.lo, effect.hi), asked, margin)
    return Finding(verdict, why, effect, asked=asked.ends(margin))


def as_printed(effect: Interval, metric: str, printed: pd.DataFrame | None) -> Interval:
    """Return a ratio with the interval that a section prints of it, if one does.

    There it belongs to a family whose intervals hold all at once, so it is wider. The
    pair is known by its ratio, which the same trials give to the last digits, in
    either direction.
    """
    if printed is None or printed.empty:
        return effect
    same = printed[(printed["metric"] == metric) & (printed["n"] == effect.n)]
    for value, ends in ((effect.value, ("lo", "hi")), (1 / effect.value, ("hi", "lo"))):
        rows = same[np.isclose(same["value"], value, rtol=1e-9, atol=0)]
        if len(rows):
            row = rows.iloc[0]
            lo, hi = (float(row[end]) for end in ends)
            if ends[0] == "hi":
                lo, hi = 1 / lo, 1 / hi
            return replace(effect, lo=lo, hi=hi, method=str(row["method"]))
    return effect


def judged(ratio: Range, asked: Asked, margin: float = MARGIN) -> tuple[Verdict, str]:
    """Say what is known of a ratio says of a claim.

    "alike" holds when all of it lies within the margin, and does not when none does.
    "more" and "less" hold when all of it lies on that side of 1 and, with a size, of
    that size. They hold in part when the side is sure and the size another or open,
    unless it matters; or when no size is asked and all lies within the margin. They do
    not hold when all lies on the other side; nor when 1 is possible and the size is
    not, or all lies within the margin.
    """
    band = (1 / (1 + margin), 1 + margin)
    if asked.expect == "alike":
        return _alike(ratio, band)
    same = ratio.within(*band)
    other_size = asked.size is not None and ratio.apart(*asked.size)
    if ratio.lo > 1 or ratio.hi < 1:
        if (ratio.lo > 1) != (asked.expect == "more"):
            return "does not hold", "the difference has the other sign"
        return _of_size(ratio, asked, same=same, other_size=other_size)
    if same and (asked.size is None or other_size):
        return "does not hold", _ALIKE
    if other_size:
        return "does not hold", "no difference is shown, and none of that size"
    return "not testable here", "the interval holds 1: no direction can be told"


def _alike(ratio: Range, band: tuple[float, float]) -> tuple[Verdict, str]:
    if ratio.within(*band):
        return "holds", _ALIKE
    if ratio.apart(*band):
        return "does not hold", "the difference is beyond the margin"
    if ratio.lo > 1 or ratio.hi < 1:
        return "not testable here", "a difference, which may lie within the margin"
    return "not testable here", "the interval is too wide to show likeness"


def _of_size(
    ratio: Range, asked: Asked, *, same: bool, other_size: bool
) -> tuple[Verdict, str]:
    """Judge a ratio whose direction is the one that is claimed."""
    if asked.size is None:
        if same:
            return "holds in part", f"same direction, but {_ALIKE}"
        return "holds", "same direction"
    if ratio.within(*asked.size):
        return "holds", "same direction and size"
    if other_size:
        verdict = "does not hold" if asked.size_matters else "holds in part"
        return verdict, "same direction, another size"
    verdict = "not testable here" if asked.size_matters else "holds in part"
    return verdict, "same direction, of that size perhaps"
