"""Which cells kept their connections, and which rows say yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from connlab.claims.finding import Finding, Untestable, cell_text, measured, select
from connlab.intervals import TRIALS_MIN
from connlab.study.formatting import listing

_LEVELS = {
    "right": "as claimed at",
    "wrong": "otherwise at",
    "mixed": "now so, now otherwise at",
    "waiting": "not all accepted by the end at",
    "missing": "not measured at",
}


def survives(
    trials: pd.DataFrame,
    *,
    arm: Mapping[str, Any],
    along: str = "connections",
    passes: Sequence[int] = (),
    fails: Sequence[int] = (),
) -> Finding:
    """Say whether cells pass and fail where the claim says so.

    A cell passes when every trial of it kept all its connections and met no failure;
    it fails when none did. Levels that were not measured are said and left out, and
    so are those at which the kernel kept connections that the server had yet to accept
    when a trial ended: it neither carried nor lost them.
    """
    levels: dict[str, list[str]] = {name: [] for name in _LEVELS}
    for level, passing in [(n, True) for n in passes] + [(n, False) for n in fails]:
        cell = select(trials, {**arm, along: level})
        levels[_outcome(cell, passing)].append(str(level))
    said = [
        f"{words} {listing(levels[k])}" for k, words in _LEVELS.items() if levels[k]
    ]
    why = f"{along}: {'; '.join(said)}"
    seen = {name for name, found in levels.items() if found}
    if seen <= {"missing", "waiting"}:
        raise Untestable(why)
    if "wrong" in seen and "right" not in seen:
        return Finding("does not hold", why)
    return Finding("holds" if seen == {"right"} else "holds in part", why)


def _outcome(cell: pd.DataFrame, passing: bool) -> str:
    kept = set(_kept_all(cell))
    if not kept:
        return "missing"
    if _some_wait(cell):
        return "waiting"
    if len(kept) == 2:
        return "mixed"
    return "right" if kept == {passing} else "wrong"


def _kept_all(cell: pd.DataFrame) -> pd.Series:
    kept = (cell["surviving"] == cell["connections"]) & cell["failure"].isna()
    return kept.fillna(False).astype(bool)


def _some_wait(cell: pd.DataFrame) -> bool:
    """Say whether a trial kept all, of which its server had not accepted all."""
    if "accepted" not in cell:
        return False
    waiting = (cell["accepted"] < cell["connections"]).fillna(False).astype(bool)
    return bool((_kept_all(cell) & waiting).any())


def outlasts(
    trials: pd.DataFrame,
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
        found = measured(trials, cell)
        whole = _kept_all(found).groupby(found[along]).all()
        most.append(int(max(whole.index[whole], default=0)))
    why = f"whole up to {most[0]} {along}, against {most[1]}"
    if most[0] == most[1]:
        top = most[0] == int(trials[along].max())
        raise Untestable(why + (" (the most that was tried)" if top else ""))
    return Finding("holds" if most[0] > most[1] else "does not hold", why)


def serves_more(
    trials: pd.DataFrame, *, arm: Mapping[str, Any], baseline: Mapping[str, Any]
) -> Finding:
    """Say whether a larger share of the clients is connected in one cell than another.

    All trials with a report count, whatever gates say: what they flag is what is asked.
    Two cells are told apart when every share of the one lies beyond every share of the
    other, which four trials of each show by chance once in 35 times. Where the baseline
    leaves nobody out, no share can rise.
    """
    shares = [_shares(trials, cell) for cell in (arm, baseline)]
    y, x = shares
    said = [f"{_percent(side.min())} to {_percent(side.max())}" for side in shares]
    why = f"{said[0]} of the clients are connected, against {said[1]}"
    if min(map(len, shares)) < TRIALS_MIN:
        raise Untestable(f"shares need {TRIALS_MIN} trials of each cell")
    if x.min() >= 1 and y.min() >= 1:
        raise Untestable(
            "every client was connected in both, so that no share can rise"
        )
    if y.min() > x.max():
        return Finding("holds", why)
    if y.max() < x.min():
        return Finding("does not hold", why)
    raise Untestable(why)


def _shares(trials: pd.DataFrame, cell: Mapping[str, Any]) -> pd.Series:
    found = measured(trials, cell)
    return (found["established"] / found["connections"]).dropna().astype(float)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}\u202f%"


def all_true(trials: pd.DataFrame, *, column: str, arm: Mapping[str, Any]) -> Finding:
    """Say whether a column of yes and no is yes in every row.

    A row without an answer was not asked, and keeps the claim from holding whole.
    """
    answers = select(trials, arm)[column]
    asked = answers.dropna().astype(bool)
    if asked.empty:
        raise Untestable(f"nothing was asked: {cell_text(arm)}")
    silent = len(answers) - len(asked)
    why = f"{int(asked.sum())} of {len(asked)} hold"
    why += f", {silent} not asked" if silent else ""
    if asked.all() and not silent:
        return Finding("holds", why)
    return Finding("holds in part" if asked.any() else "does not hold", why)
