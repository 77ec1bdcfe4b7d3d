"""A number with its uncertainty (`connlab.intervals` computes it from trials)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Interval:
    """An estimate with its bounds and where they come from.

    `lo` and `hi` are not a number when the bounds cannot be had; `note` then
    says why. An interval whose trials are all alike has lo = hi.
    """

    value: float
    lo: float
    hi: float
    n: int
    level: float
    method: str
    note: str = ""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the interval that a row of ``cells.csv`` or ``ratios.csv`` holds."""
        value, lo, hi = (float(row[name]) for name in ("value", "lo", "hi"))
        n, level = int(row["n"]), float(row["level"])
        return cls(value, lo, hi, n, level, str(row["method"]))

    @property
    def determined(self) -> bool:
        """Whether both bounds are known."""
        return math.isfinite(self.lo) and math.isfinite(self.hi)

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds."""
        return (self.hi - self.lo) / 2

    @property
    def relative_half_width(self) -> float:
        """Half-width / |value|; not a number for a value of 0."""
        return self.half_width / abs(self.value) if self.value else math.nan

    def contains(self, x: float) -> bool:
        """Whether `x` lies within the bounds; False when undetermined."""
        return self.lo <= x <= self.hi

    def scaled(self, factor: float) -> Self:
        """Return the interval in another unit; `factor` has to be above 0."""
        if not factor > 0:
            raise ValueError(f"factor is {factor}: it has to be above 0")
        value, lo, hi = (x * factor for x in (self.value, self.lo, self.hi))
        return replace(self, value=value, lo=lo, hi=hi)


def sample(x: Sequence[float]) -> np.ndarray:
    """Return trials as a float array; ValueError where a value is not finite.

    What a failed trial means is for the caller to decide, not for the arithmetic.
    """
    a = np.asarray(x, dtype=float)
    bad = int(np.sum(~np.isfinite(a)))
    if bad:
        raise ValueError(f"{bad} of {len(a)} trials have no finite value")
    return a
