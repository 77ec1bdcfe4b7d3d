"""Rules that turn trials into a verdict on a claim.

    trials of a study + a rule's arguments -> effect, interval, verdict, reason

A rule is a function of trials, with keyword arguments from the ledger; `RULES` lists
them by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from connlab.claims.census import all_true, outlasts, serves_more, survives
from connlab.claims.finding import Finding, RuleError, Untestable, Verdict
from connlab.claims.published import published_rates
from connlab.claims.ratios import compare, printed_ratio
from connlab.claims.scatter import outweighs, steadier
from connlab.claims.values import best_pool, counts, value
from connlab.drive.programs import unknown
from connlab.study.formatting import counted
from connlab.study.turns import carried


def every(
    trials: pd.DataFrame,
    *,
    parts: Sequence[Mapping[str, Any]],
    whole: bool = False,
    printed: pd.DataFrame | None = None,
) -> Finding:
    """Apply several rules; the claim holds when all of them hold.

    Parts that could not be tested keep a claim from holding whole, not from holding
    in part. Of a claim that is about all of them at once (`whole`), one that does not
    hold is enough. The effect shown is that of a part that decided: one with the
    verdict of the whole, else one that keeps it from holding; of several the one whose
    interval is furthest from what was claimed. A number without an interval decided
    nothing.
    """
    findings = [apply(trials, part, printed) for part in parts]
    if not findings:
        raise Untestable("no part")
    verdicts = {finding.verdict for finding in findings}
    if whole and "does not hold" in verdicts:
        verdict = "does not hold"
    elif len(verdicts) == 1:
        verdict = findings[0].verdict
    elif verdicts & {"holds", "holds in part"}:
        verdict = "holds in part"
    else:
        verdict = "does not hold"
    order = [verdict, "does not hold", "not testable here", "holds in part", "holds"]
    ranked = sorted(findings, key=lambda f: (order.index(f.verdict), -f.beyond))
    why = _counted(findings)
    decided = (part for part in ranked if part.effect and part.effect.determined)
    shown = next(decided, Finding(verdict, why))
    return replace(shown, verdict=verdict, why=why)


_OTHERS: dict[Verdict, str] = {
    "holds in part": "in part",
    "does not hold": "not",
    "not testable here": "not testable",
}
"""How parts that do not hold are counted."""


def _counted(findings: Sequence[Finding]) -> str:
    """Count parts by verdict, with the first reason of those that do not hold.

    Also what was found for those that hold and have no effect that could say so.
    """
    holding = [part for part in findings if part.verdict == "holds"]
    hold = "holds" if len(holding) == 1 else "hold"
    clauses = [f"{len(holding)} of {counted(len(findings), 'part')} {hold}"]
    if told := [part.why for part in holding if part.effect is None]:
        clauses[0] += f" ({'; '.join(told)})"
    for verdict, words in _OTHERS.items():
        reasons = [part.why for part in findings if part.verdict == verdict]
        if reasons:
            first = "" if len(set(reasons)) == 1 else "first: "
            clauses.append(f"{len(reasons)} {words} ({first}{reasons[0]})")
    return ", ".join(clauses)


_OF_PAIRS = (compare, printed_ratio, every)
"""Rules about pairs of cells, of which sections print ratios."""
_OF_CELLS = (
    *(survives, outlasts, serves_more, value, counts, steadier, outweighs, best_pool),
)
_OF_TABLES = (published_rates, all_true)

RULES: dict[str, Callable[..., Finding]] = {
    rule.__name__: rule for rule in (*_OF_PAIRS, *_OF_CELLS, *_OF_TABLES)
}


def apply(
    trials: pd.DataFrame, rule: Mapping[str, Any], printed: pd.DataFrame | None = None
) -> Finding:
    """Apply a rule as the ledger writes it: name under ``rule``, then its arguments.

    To trials or a published table; `printed` are the studies' ``ratios.csv``.
    RuleError for an unknown rule, or arguments that it does not take.
    """
    if not isinstance(rule, Mapping):
        raise RuleError(f"rule {rule!r}: want names and values, the rule's name first")
    arguments = dict(rule)
    name = arguments.pop("rule", None)
    if name not in RULES:
        raise RuleError(unknown("rule", name, RULES))
    for side in ("arm", "baseline"):
        if not isinstance(arguments.get(side, {}), Mapping):
            given = f"rule {name}: {side}: {arguments[side]!r}"
            raise RuleError(f"{given}; want levels by factor, as {{model: epoll}}")
    if RULES[name] in _OF_PAIRS:
        arguments["printed"] = printed
    else:
        trials = trials[~carried(trials)]
    try:
        return RULES[name](trials, **arguments)
    except Untestable as untestable:
        return untestable.finding
    except TypeError as error:
        raise RuleError(f"rule {name}: {error}") from error
