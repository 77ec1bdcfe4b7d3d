"""The claims ledger: counted by report, and claim by claim with the verdict first.

    results of the ledger      -> claim, published, found, verdict, likeness, because
    paper/claims.yml           -> whose claim it is, the figure that it rests on
    results of the references  -> their verdicts, and whether they agree

The page counts verdicts by report; each report unfolds to its claims, which are cards
on a phone. Print has one table of all claims. Both carry the same label, so that page
and print number alike.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from connlab.publish import fragments, numbers, reference, sources
from connlab.publish import markdown as md
from connlab.study.results import Results, Table

LABEL = "tbl-claims"
CAPTION = (
    "What earlier reports claim, and what was found here: effect with its 95 % "
    "interval over trials, verdict, and how alike the conditions are."
)
OVERVIEW = (
    "Verdicts on what earlier reports claim, counted by report. Below, each report "
    "unfolds to its claims: what was found here with its 95 % interval over trials, "
    "what was published, and how alike the conditions are."
)
_OTHERS = "others"
_ORDER = ("id", "verdict", "there", "agreement", "says", "effect", "number")
"""Columns that come first, where there are such; the others follow as they stand."""
_SHARES = {
    "id": 4,
    "says": 29,
    "number": 23,
    "effect": 14,
    "verdict": 10,
    "there": 10,
    "agreement": 9,
    "likeness": 8,
    "why": 24,
}
_ON_THE_PAGE = ("likeness", "why")
_OTHER = 12
"""The share of a column that is not known here."""
_BESIDE = {"there": "Reference", "agreement": "Agreement"}
_VERDICTS = {
    "holds": "hold",
    "holds in part": "hold in part",
    "does not hold": "do not hold",
    "not testable here": "not testable here",
}
"""What is said of one claim, and of several."""


@dataclass(frozen=True)
class Claims:
    """The claims of a run as the paper shows them.

    Attributes
    ----------
    heads : dict of str to str
        What stands above each column, by its name, in order.
    rows : tuple of dict
        Text of each claim by column.
    sources : dict of str to str
        Key of the work that makes each claim, by the claim.
    figures : dict of str to str
        Figure or table that a claim rests on and that the paper shows, by the claim.
    page_only : frozenset of str
        Those that only the page shows.
    quotes : dict of str to str
        What a report says, word for word, and the line of its text, by the claim.
    """

    heads: dict[str, str]
    rows: tuple[dict[str, str], ...]
    sources: dict[str, str]
    figures: dict[str, str]
    page_only: frozenset[str]
    quotes: dict[str, str] = field(default_factory=dict)


def claims(
    found: Table,
    results: Results,
    *,
    paper: Path,
    others: Mapping[str, Results],
    shown: set[str],
    page_only: set[str],
) -> Claims:
    """Put together what the paper shows of the ledger.

    Parameters
    ----------
    found : Table
        The ledger's table, a row for each claim.
    results : Results
        The ledger's results.
    paper : path
        The folder with the ledger.
    others : mapping of str to Results
        The ledger's results of each reference by its name; they add two columns.
    shown, page_only : set of str
        Identifiers that the paper shows, and those among them that only the page has.
    """
    heads = {column.name: column.label for column in found.columns}
    rows = [dict(zip(heads, row, strict=True)) for row in found.rows]
    if others:
        heads |= _BESIDE
        there = [reference.verdicts(other) for other in others.values()]
        agree = [reference.agreements(results, o, paper) for o in others.values()]
        for row in rows:
            for name, found_there in (("there", there), ("agreement", agree)):
                words = [each.get(row["id"], "—") for each in found_there]
                row[name] = reference.joined(words, list(others))
    first = [name for name in _ORDER if name in heads]
    names = [*first, *(name for name in heads if name not in first)]
    entries = reference.ledger(paper)
    return Claims(
        heads={name: heads[name] for name in names},
        rows=tuple(rows),
        sources={c: e.get("source", "") for c, e in entries.items()},
        figures={
            c: e["figure"] for c, e in entries.items() if e.get("figure") in shown
        },
        page_only=frozenset(page_only),
        quotes={
            c: f"“{e['quote']}” (line {e['line']})"
            for c, e in entries.items()
            if e.get("quote")
        },
    )


def table(these: Claims, *, caption: str) -> str:
    """Set all claims as one table, for print.

    Print gets no link to what only the page shows, and neither how alike the
    conditions are nor the reasons, which the page has.
    """
    rows = []
    heads = {k: head for k, head in these.heads.items() if k not in _ON_THE_PAGE}
    for row in these.rows:
        cells = {name: md.escape(_short(row[name])) for name in heads}
        if row["id"] in these.quotes:
            cells["says"] += f" {md.escape(these.quotes[row['id']])}"
        figure = these.figures.get(row["id"])
        if figure and figure not in these.page_only:
            cells["id"] = f"[{row['id']}](#{figure})"
        rows.append(list(cells.values()))
    return md.table(
        list(heads.values()),
        rows,
        caption=caption,
        label=LABEL,
        widths=[_SHARES.get(name, _OTHER) for name in heads],
        align="l" * len(heads),
    )


def _short(text: str) -> str:
    return "".join(piece for piece, _ in numbers.shortened(text))


# ---- the page ------------------------------------------------------------------------


def overview(these: Claims, *, caption: str) -> str:
    """Count the verdicts by report, a row each."""
    rows = []
    for letter, group in _reports(these).items():
        count = Counter(row["verdict"] for row in group)
        works = _works(these, group)
        whose = f"@{works[0]}" if len(works) == 1 and works[0] else _OTHERS
        counts = [str(count[verdict] or "—") for verdict in _VERDICTS]
        rows.append([f"{letter}: {whose}", str(len(group)), *counts])
    heads = ["Report", "claims", *_VERDICTS.values()]
    return md.table(
        heads, rows, caption=caption, label=LABEL, align="l" + "r" * (len(heads) - 1)
    )


def unfolding(these: Claims, results: Results, paper: Path) -> str:
    """Set the claims of each report as a table that unfolds, as HTML.

    Below 40rem a stylesheet sets rows as cards: so each cell says its column, and roles
    keep the table a table.
    """
    names, marks = sources.names(paper), numbers.Marks(results)
    groups = []
    for letter, group in _reports(these).items():
        works = _works(these, group)
        whose = names.get(works[0], works[0]) if len(works) == 1 else _OTHERS
        of_several = names if len(works) > 1 else {}
        rows = [
            {"id": row["id"], "cells": _cells(these, row, marks, of_several)}
            for row in group
        ]
        name = f"{letter}: {whose}" if whose else letter
        groups.append({"name": name, "counted": _counted(group), "claims": rows})
    page = fragments.fill("claims.html", groups=groups, heads=these.heads)
    return md.raw_html(page.strip("\n"))


def _cells(
    these: Claims,
    row: Mapping[str, str],
    marks: numbers.Marks,
    of_several: Mapping[str, str],
) -> list[dict[str, str]]:
    """Return a claim's cells but the first: name and label of the column, HTML."""
    cells = []
    for name, label in list(these.heads.items())[1:]:
        said = marks.html(row[name])
        if name == "number":
            pieces = numbers.shortened(row[name])
            said = "".join(
                numbers.as_html(piece, full and f"{full} as published")
                for piece, full in pieces
            )
        elif name == "says":
            work = these.sources.get(row["id"], "") if of_several else ""
            for more in (of_several.get(work, work), these.quotes.get(row["id"])):
                said += f" <small>{html.escape(more)}</small>" if more else ""
        elif name == "why" and row["id"] in these.figures:
            figure = these.figures[row["id"]]
            kind = "table" if figure.startswith("tbl-") else "figure"
            said += f' <a href="#{figure}">See the {kind}</a>'
        cells.append({"name": name, "label": label, "html": Markup(said)})
    return cells


def _reports(these: Claims) -> dict[str, list[dict[str, str]]]:
    """Group claims by the letter that they begin with, in the ledger's order."""
    groups: dict[str, list[dict[str, str]]] = {}
    for row in these.rows:
        groups.setdefault(row["id"][0], []).append(row)
    return groups


def _works(these: Claims, group: list[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(these.sources.get(row["id"], "") for row in group))


def _counted(group: list[dict[str, str]]) -> str:
    count = Counter(row["verdict"] for row in group)
    said = [
        f"{n} {word if n == 1 else several}"
        for word, several in _VERDICTS.items()
        if (n := count[word])
    ]
    claims_ = "claim" if len(group) == 1 else "claims"
    return f"{len(group)} {claims_}: {', '.join(said)}"
