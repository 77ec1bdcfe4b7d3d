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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from connlab.publish import fragments, numbers, reference, sources
from connlab.publish import markdown as md
from connlab.study.results import Results

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
    rows : DataFrame
        A row for each claim: its text in these columns; and ``source``, the key of the
        work that makes it, ``figure`` that it rests on, if the paper shows it, and
        ``quote``, what a report says, word for word, and the line of its text.
    """

    heads: dict[str, str]
    rows: pd.DataFrame


def claims(
    results: Results, *, paper: Path, others: Mapping[str, Results], shown: set[str]
) -> Claims | None:
    """Put together what the paper shows of the ledger; None where there is no table.

    Results of the references, by their names, add two columns.
    """
    found = next((table for table in results.tables if table.id == LABEL), None)
    if found is None:
        return None
    heads = {column.name: column.label for column in found.columns}
    rows = pd.DataFrame(found.rows, columns=list(heads))
    if others:
        heads |= _BESIDE
        there = [reference.verdicts(other) for other in others.values()]
        agree = [reference.agreements(results, o, paper) for o in others.values()]
        for name, each in (("there", there), ("agreement", agree)):
            words = [[known.get(id_, "—") for known in each] for id_ in rows["id"]]
            rows[name] = [reference.joined(said, list(others)) for said in words]
    entries = reference.ledger(paper)
    told = [entries.get(id_, {}) for id_ in rows["id"]]
    return Claims(
        {name: heads[name] for name in sorted(heads, key=_place)},
        rows.assign(
            source=[e.get("source", "") for e in told],
            figure=[e["figure"] if e.get("figure") in shown else "" for e in told],
            quote=[_quoted(e) for e in told],
        ),
    )


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _quoted(entry: Mapping[str, Any]) -> str:
    quote = entry.get("quote")
    return f"“{quote}” (line {entry['line']})" if quote else ""


def table(these: Claims, *, caption: str, page_only: set[str]) -> str:
    """Set all claims as one table, for print.

    Print gets no link to what only the page shows (`page_only`), and neither how alike
    the conditions are nor the reasons, which the page has.
    """
    rows = []
    heads = {k: head for k, head in these.heads.items() if k not in _ON_THE_PAGE}
    for row in these.rows.to_dict("records"):
        pieces = {name: numbers.shortened(row[name]) for name in heads}
        texts = {k: "".join(piece for piece, _ in told) for k, told in pieces.items()}
        cells = {name: md.escape(text) for name, text in texts.items()}
        if row["quote"]:
            cells["says"] += f" {md.escape(row['quote'])}"
        if row["figure"] and row["figure"] not in page_only:
            cells["id"] = f"[{row['id']}](#{row['figure']})"
        rows.append(list(cells.values()))
    return md.table(
        list(heads.values()),
        rows,
        caption=caption,
        label=LABEL,
        widths=[_SHARES.get(name, _OTHER) for name in heads],
        align="l" * len(heads),
    )


# ---- the page ------------------------------------------------------------------------


def overview(these: Claims, *, caption: str) -> str:
    """Count the verdicts by report, a row each."""
    rows = []
    for letter, group in _reports(these):
        count = Counter(group["verdict"])
        works = group["source"].unique()
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
    names, marks = sources.works(paper), numbers.Marks(results)
    groups = []
    for letter, group in _reports(these):
        works = group["source"].unique()
        whose = names.get(works[0], works[0]) if len(works) == 1 else _OTHERS
        of_several = names if len(works) > 1 else {}
        rows = [
            {"id": row["id"], "cells": _cells(these.heads, row, marks, of_several)}
            for row in group.to_dict("records")
        ]
        name = f"{letter}: {whose}" if whose else letter
        groups.append({"name": name, "counted": _counted(group), "claims": rows})
    page = fragments.fill("claims.html", groups=groups, heads=these.heads)
    return md.raw_html(page.strip("\n"))


def _cells(
    heads: Mapping[str, str],
    row: Mapping[str, str],
    marks: numbers.Marks,
    of_several: Mapping[str, str],
) -> list[dict[str, str]]:
    """Return a claim's cells but the first: name and label of the column, HTML."""
    cells = []
    for name, label in list(heads.items())[1:]:
        said = marks.html(row[name])
        if name == "number":
            pieces = numbers.shortened(row[name])
            said = "".join(
                numbers.as_html(piece, full and f"{full} as published")
                for piece, full in pieces
            )
        elif name == "says":
            work = row["source"] if of_several else ""
            for more in (of_several.get(work, work), row["quote"]):
                said += f" <small>{html.escape(more)}</small>" if more else ""
        elif name == "why" and row["figure"]:
            kind = "table" if row["figure"].startswith("tbl-") else "figure"
            said += f' <a href="#{row["figure"]}">See the {kind}</a>'
        cells.append({"name": name, "label": label, "html": Markup(said)})
    return cells


def _reports(these: Claims) -> Iterator[tuple[str, pd.DataFrame]]:
    """Group claims by the letter that they begin with, in the ledger's order."""
    yield from these.rows.groupby(these.rows["id"].str[0], sort=False)


def _counted(group: pd.DataFrame) -> str:
    count = Counter(group["verdict"])
    said = [
        f"{n} {word if n == 1 else several}"
        for word, several in _VERDICTS.items()
        if (n := count[word])
    ]
    claims_ = "claim" if len(group) == 1 else "claims"
    return f"{len(group)} {claims_}: {', '.join(said)}"
