"""Rules that turn trials into a verdict on a claim.

    trials of a study + a rule's own words -> effect, interval, verdict, reason

Each rule is a small function of trials and of what the ledger says to look at; one row
of `RULES` makes it known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from connlab.claims.census import all_true, outlasts, serves_more, survives
from connlab.claims.finding import Finding, RuleError, Untestable, Verdict
from connlab.claims.published import published_rates
from connlab.claims.ratios import compare, printed_ratio
from connlab.claims.scatter import outweighs, steadier
from connlab.claims.values import best_pool, value


def every(
    trials: pd.DataFrame,
    *,
    parts: Sequence[Mapping[str, Any]],
    printed: pd.DataFrame | None = None,
) -> Finding:
    """Apply several rules; the claim holds when all of them hold.

    Parts that could not be tested keep a claim from holding whole, not from holding
    in part. The effect shown is that of the first part that decided: one with the
    verdict of the whole, else one that keeps it from holding.
    """
    found = tuple(apply(trials, part, printed) for part in parts)
    if not found:
        raise Untestable("no part")
    words = {part.verdict for part in found}
    if len(words) == 1:
        verdict = found[0].verdict
    elif words & {"holds", "holds in part"}:
        verdict = "holds in part"
    else:
        verdict = "does not hold"
    shown = sorted(found, key=partial(_far_from, verdict))
    effect = next((part for part in shown if part.effect is not None), found[0])
    said = _added_up(found)
    return Finding(verdict, said, effect.effect, effect.unit, found, effect.asked)


def _far_from(verdict: Verdict, part: Finding) -> int:
    """Rank a part by how little it had to do with the verdict of the whole."""
    order = (verdict, "does not hold", "not testable here", "holds in part", "holds")
    return order.index(part.verdict)


_IN_SUMS: dict[Verdict, str] = {
    "holds in part": "in part",
    "does not hold": "not",
    "not testable here": "not testable",
}
"""What a sum of parts says of those that do not hold."""


def _added_up(found: Sequence[Finding]) -> str:
    """Count parts by verdict; say why those that do not hold do not.

    Where parts of one verdict have several reasons, the first is said.
    """
    holding = sum(part.verdict == "holds" for part in found)
    said = [f"{holding} of {len(found)} parts hold"]
    for verdict, words in _IN_SUMS.items():
        reasons = [part.why for part in found if part.verdict == verdict]
        if reasons:
            first = "" if len(set(reasons)) == 1 else "first: "
            said.append(f"{len(reasons)} {words} ({first}{reasons[0]})")
    return ", ".join(said)


_OF_PAIRS = (compare, printed_ratio, every)
"""Rules about pairs of cells, of which sections print ratios."""
_OF_CELLS = (survives, outlasts, serves_more, value, steadier, outweighs, best_pool)
_OF_TABLES = (published_rates, all_true)

RULES: dict[str, Callable[..., Finding]] = {
    rule.__name__: rule for rule in (*_OF_PAIRS, *_OF_CELLS, *_OF_TABLES)
}


def apply(
    trials: pd.DataFrame,
    rule: Mapping[str, Any],
    printed: pd.DataFrame | None = None,
) -> Finding:
    """Apply a rule as the ledger writes it: its name under ``rule``, then its words.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`, or a published table.
    rule : mapping
    printed : DataFrame, optional
        The ratios that sections print, as in ``ratios.csv``.

    Raises
    ------
    RuleError
        For an unknown rule, or words that it does not take.
    """
    words = dict(rule)
    name = words.pop("rule", None)
    if name not in RULES:
        raise RuleError(f"unknown rule {name!r} (known: {', '.join(RULES)})")
    if RULES[name] in _OF_PAIRS:
        words["printed"] = printed
    try:
        return RULES[name](trials, **words)
    except Untestable as cannot:
        return cannot.finding
    except TypeError as error:
        raise RuleError(f"rule {name}: {error}") from error
