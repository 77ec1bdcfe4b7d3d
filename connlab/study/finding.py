"""What a rule finds of a claim, and which trials the claim speaks of.

A claim is never called false: conditions differ, and an interval may be too wide to
say anything. What a rule may answer is in `VERDICTS`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from connlab.study.formatting import in_best_unit, number_text
from connlab.study.interval import Interval

Verdict = Literal["holds", "holds in part", "does not hold", "not testable here"]
VERDICTS: tuple[Verdict, ...] = (
    "holds",
    "holds in part",
    "does not hold",
    "not testable here",
)


class RuleError(ValueError):
    """A rule was given words that it does not understand."""


@dataclass(frozen=True)
class Finding:
    """What a rule found.

    `effect` is the number that the verdict rests on, in `unit` ("ratio" for a ratio);
    None where the verdict rests on a count of cells. `why` is one clause, fit for a
    table.
    """

    verdict: Verdict
    why: str
    effect: Interval | None = None
    unit: str = "ratio"
    parts: tuple[Finding, ...] = field(default=())

    @property
    def effect_text(self) -> str:
        """The effect with its interval, or an empty text."""
        if self.effect is None:
            return ""
        if self.unit == "ratio":
            return "×\u202f" + number_text(self.effect)
        return number_text(*in_best_unit(self.effect, self.unit))


def untestable(why: str) -> Finding:
    """Return the finding of a rule that could not be applied."""
    return Finding("not testable here", why)


def cell_text(cell: Mapping[str, Any]) -> str:
    """Name a cell by its levels, as tables do: ``epoll, connections 300``."""
    return ", ".join(_level_text(k, v) for k, v in cell.items() if v is not None)


def _level_text(column: str, level: Any) -> str:
    """A word says by itself what it is a level of, a number does not."""
    levels = [str(one) for one in (level if isinstance(level, list) else [level])]
    named = any(character.isdigit() for text in levels for character in text)
    name = f"{column.replace('_', ' ')} " if named and column != "model" else ""
    return name + " or ".join(levels)


def unmeasured(frame: pd.DataFrame, cell: Mapping[str, Any]) -> Finding:
    """Return the finding where no trial is of a cell: it says which level lacks.

    Where each level was measured, but not all of them together, it says them all.
    """
    alone = {k: v for k, v in cell.items() if select(frame, {k: v}).empty}
    return untestable(f"not measured here: {cell_text(alone or cell)}")


def select(frame: pd.DataFrame, cell: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials of one cell; empty where the study has no such factor.

    A list allows several levels; None wants trials for which nothing was said.
    """
    chosen = pd.Series(True, index=frame.index)
    for column, wanted in cell.items():
        if column not in frame:
            return frame.iloc[:0]
        values = wanted if isinstance(wanted, list) else [wanted]
        found = frame[column].isna() if wanted is None else frame[column].isin(values)
        chosen &= found
    return frame[chosen]
