"""Which cells kept their connections, and which rows say yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from connlab.study.finding import (
    Finding,
    cell_text,
    select,
    unmeasured,
    untestable,
)
from connlab.study.formatting import listing


def survives(
    frame: pd.DataFrame,
    *,
    arm: Mapping[str, Any],
    along: str = "connections",
    passes: Sequence[int] = (),
    fails: Sequence[int] = (),
) -> Finding:
    """Say whether cells pass and fail where the claim says so.

    A cell passes when every trial of it kept all its connections and met no failure;
    it fails when none did. Levels that were not measured are said and left out.
    """
    right, wrong, mixed, missing = [], [], [], []
    for level, expected in [(n, True) for n in passes] + [(n, False) for n in fails]:
        cell = select(frame, {**arm, along: level})
        if cell.empty:
            missing.append(str(level))
            continue
        share = float(_kept_all(cell).mean())
        if share not in (0.0, 1.0):
            mixed.append(str(level))
        else:
            (right if (share == 1.0) == expected else wrong).append(str(level))
    return _census_finding(right, wrong, mixed, missing, along)


def _kept_all(cell: pd.DataFrame) -> pd.Series:
    kept = (cell["surviving"] == cell["connections"]) & cell["failure"].isna()
    return kept.fillna(False).astype(bool)


def _census_finding(right, wrong, mixed, missing, along) -> Finding:
    said = []
    for levels, words in [
        (right, "as claimed at"),
        (wrong, "otherwise at"),
        (mixed, "now so, now otherwise at"),
        (missing, "not measured at"),
    ]:
        if levels:
            said.append(f"{words} {listing(levels)}")
    why = f"{along}: {'; '.join(said)}"
    if not right and not wrong and not mixed:
        return untestable(why)
    if wrong and not right:
        return Finding("does not hold", why)
    whole = not (wrong or mixed or missing)
    return Finding("holds" if whole else "holds in part", why)


def outlasts(
    frame: pd.DataFrame,
    *,
    arm: Mapping[str, Any],
    baseline: Mapping[str, Any],
    along: str = "connections",
) -> Finding:
    """Say whether one cell holds at higher levels than another.

    What counts is the highest measured level at which every trial kept all its
    connections. Two that both hold at the highest level measured cannot be told apart.
    """
    most = []
    for cell in (arm, baseline):
        trials = select(frame, cell)
        if trials.empty:
            return unmeasured(frame, cell)
        whole = _kept_all(trials).groupby(trials[along]).all()
        most.append(int(max(whole.index[whole], default=0)))
    top = int(frame[along].max())
    why = f"whole up to {most[0]} {along}, against {most[1]}"
    if most[0] == most[1]:
        why += " (the most that was tried)" if most[0] == top else ""
        return untestable(why)
    return Finding("holds" if most[0] > most[1] else "does not hold", why)


def all_true(frame: pd.DataFrame, *, column: str, arm: Mapping[str, Any]) -> Finding:
    """Say whether a column of yes and no is yes in every row.

    A row without an answer was not asked, and keeps the claim from holding whole.
    """
    answers = select(frame, arm)[column]
    asked = answers.dropna().astype(bool)
    if asked.empty:
        return untestable(f"nothing was asked: {cell_text(arm)}")
    silent = len(answers) - len(asked)
    why = f"{int(asked.sum())} of {len(asked)} hold"
    why += f", {silent} not asked" if silent else ""
    if asked.all() and not silent:
        return Finding("holds", why)
    return Finding("holds in part" if asked.any() else "does not hold", why)
