"""The claims ledger: counted by report, and claim by claim with the verdict first.

    results of the ledger      -> claim, published, found, verdict, likeness, because
    paper/claims.yml           -> whose claim it is, the figure that it rests on
    results of the references  -> their verdicts, and whether they agree

The page counts verdicts by report; each report unfolds to its claims, which are cards
on a phone. Print has one table of all claims. Both carry the same label, so that page
and print number alike.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from connlab.publish import fragments, numbers, reference, sources
from connlab.publish import markdown as md
from connlab.study.formatting import counted, plain
from connlab.study.results import Results

LABEL = "tbl-claims"
_OTHERS = "others"
_SHARES = {
    "id": 4,
    "verdict": 10,
    "there": 10,
    "agreement": 9,
    "says": 29,
    "effect": 20,
    "number": 20,
    "likeness": 8,
    "why": 24,
}
"""The columns in order, with their shares of a printed line."""
_ON_THE_PAGE = ("likeness", "why")
_SEVERAL = "Other runs"
_VERDICTS = {
    "holds": "hold",
    "holds in part": "hold in part",
    "does not hold": "do not hold",
    "not testable here": "not testable here",
}
"""What is said of one claim, and of several."""


@dataclass(frozen=True)
class Claims:
    """The claims of a run as the paper shows them."""

    heads: dict[str, str]
    """Heads of the columns by name, in order."""
    rows: pd.DataFrame
    """A row for each claim: its text in these columns; and ``source``, the key of the
    work that makes it, ``figure`` that it rests on, if the paper shows it, and
    ``quote`` of the report with the line of its text."""


def claims(
    results: Results, *, paper: Path, others: Mapping[str, Results], shown: set[str]
) -> Claims | None:
    """Put together what the paper shows of the ledger; None where there is no table.

    Results of the references, by what readers call them, add two columns.
    """
    table_ = results.table(LABEL)
    if table_ is None:
        return None
    heads = {column.name: column.label for column in table_.columns}
    rows = pd.DataFrame(table_.rows, columns=list(heads))
    if others:
        there_ = next(iter(others)) if len(others) == 1 else _SEVERAL
        heads |= {"there": there_, "agreement": "Agreement"}
        there = [reference.verdicts(other) for other in others.values()]
        agree = [reference.agreements(results, o, paper) for o in others.values()]
        for name, by_reference in (("there", there), ("agreement", agree)):
            rows[name] = [
                reference.joined(
                    [words.get(id_, "—") for words in by_reference], list(others)
                )
                for id_ in rows["id"]
            ]
    for name in ("says", "number"):
        rows[name] = rows[name].map(_grouped)
    ledger = reference.ledger(paper)
    entries = [ledger.get(id_, {}) for id_ in rows["id"]]
    return Claims(
        {name: heads[name] for name in _SHARES if name in heads},
        rows.assign(
            source=[e.get("source", "") for e in entries],
            figure=[e["figure"] if e.get("figure") in shown else "" for e in entries],
            quote=[_quotation(e) if e.get("quote") else "" for e in entries],
        ),
    )


_LONG = re.compile(r"(?<![\d.])\d{6,}(?!\.?\d)")
"""Whole numbers that `connlab.study.formatting` sets in groups of three."""


def _grouped(text: str) -> str:
    return _LONG.sub(lambda number: plain(float(number[0])), text)


def _quotation(entry: Mapping[str, Any]) -> str:
    """Set a quotation with the line of its text; of a row, with its columns."""
    words = str(entry["quote"]).replace("'", "’")
    place = "; ".join(filter(None, [entry.get("columns"), f"line {entry['line']}"]))
    return f"“{words}” ({place})"


def table(claims: Claims, *, caption: str, page_only: set[str]) -> str:
    """Set all claims as one table, for print.

    Print gets no link to what only the page shows (`page_only`), and neither how alike
    the conditions are nor the reasons, which the page has.
    """
    rows = []
    heads = {k: head for k, head in claims.heads.items() if k not in _ON_THE_PAGE}
    for row in claims.rows.to_dict("records"):
        cells = {
            name: md.escape("".join(text for text, _ in numbers.shortened(row[name])))
            for name in heads
        }
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
        widths=[_SHARES[name] for name in heads],
        align="l" * len(heads),
    )


# ---- the page ------------------------------------------------------------------------


def overview(claims: Claims, *, caption: str) -> str:
    """Count the verdicts by report, a row each; a claim may be put to several tests."""
    rows = []
    for letter, group in _reports(claims):
        count = Counter(group["verdict"])
        works = group["source"].unique()
        report = f"@{works[0]}" if len(works) == 1 and works[0] else _OTHERS
        counts = [str(count[verdict] or "—") for verdict in _VERDICTS]
        rows.append([f"{letter}: {report}", str(len(group)), *counts])
    heads = ["Report", "tests", *_VERDICTS.values()]
    return md.table(
        heads, rows, caption=caption, label=LABEL, align="l" + "r" * (len(heads) - 1)
    )


def unfolding(claims: Claims, results: Results, paper: Path) -> str:
    """Set the claims of each report as a table that unfolds, as HTML.

    Below 40rem a stylesheet sets rows as cards: so each cell says its column, and roles
    keep the table a table.
    """
    names, marks = sources.bibliography(paper), numbers.Marks(results)
    groups = []
    for letter, group in _reports(claims):
        works = group["source"].unique()
        report = names.get(works[0], works[0]) if len(works) == 1 else _OTHERS
        of_several = names if len(works) > 1 else {}
        rows = [
            {"id": row["id"], "cells": _cells(claims.heads, row, marks, of_several)}
            for row in group.to_dict("records")
        ]
        name = f"{letter}: {report}" if report else letter
        groups.append({"name": name, "counted": _counted(group), "claims": rows})
    return fragments.fill("claims.html", groups=groups, heads=claims.heads)


def _cells(
    heads: Mapping[str, str],
    row: Mapping[str, str],
    marks: numbers.Marks,
    of_several: Mapping[str, str],
) -> list[dict[str, str]]:
    cells = []
    for name, label in list(heads.items())[1:]:
        cell = marks.html(row[name])
        if name == "number":
            cell = "".join(
                numbers.as_html(text, full and f"{full} as published")
                for text, full in numbers.shortened(row[name])
            )
        elif name == "says":
            work = row["source"] if of_several else ""
            for small in (of_several.get(work, work), row["quote"]):
                cell += f" <small>{html.escape(small)}</small>" if small else ""
        elif name == "why" and row["figure"]:
            kind = "table" if row["figure"].startswith("tbl-") else "figure"
            cell += f' <a href="#{row["figure"]}">See the {kind}</a>'
        cells.append({"name": name, "label": label, "html": Markup(cell)})
    return cells


def _reports(claims: Claims) -> Iterable[tuple[str, pd.DataFrame]]:
    return claims.rows.groupby(claims.rows["id"].str[0], sort=False)


def _counted(group: pd.DataFrame) -> str:
    count = Counter(group["verdict"])
    verdicts = [
        f"{n} {singular if n == 1 else plural}"
        for singular, plural in _VERDICTS.items()
        if (n := count[singular])
    ]
    return f"{counted(len(group), 'test')}: {', '.join(verdicts)}"
