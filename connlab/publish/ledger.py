"""The claims ledger as the paper's main table.

    results of the ledger      -> claim, published, found, verdict, likeness, because
    paper/claims.yml           -> the figure that a claim's number links to
    results of the reference   -> its verdict, and whether the two agree

Columns have fixed shares of the line: sentences need more of it than words.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from connlab.publish import markdown as md
from connlab.publish import reference
from connlab.publish.results import Results, Table

LABEL = "tbl-claims"

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
_OTHER = 12
"""The share of a column that is not known here."""

_BESIDE = {"there": "Reference", "agreement": "Agreement"}


def table(
    found: Table,
    results: Results,
    *,
    caption: str,
    paper: Path,
    other: Results | None,
    links: Mapping[str, str],
) -> str:
    """Set the ledger, with the reference's verdicts where there are any.

    Parameters
    ----------
    found : Table
        The ledger's table, a row for each claim.
    results : Results
        The ledger's results; its words hold the verdicts.
    caption : str
        Markdown.
    paper : path
        The folder with the ledger.
    other : Results or None
        The ledger's results of the reference.
    links : mapping of str to str
        Markdown that a claim's number is set as, by the claim; see
        :func:`numbered`.
    """
    names = [column.name for column in found.columns]
    heads = [column.label for column in found.columns]
    rows = [[md.escape(cell) for cell in row] for row in found.rows]
    rows = [[links.get(row[0], row[0]), *row[1:]] for row in rows]
    if other is not None:
        at = names.index("verdict") + 1
        agree = reference.agreements(results, other, paper)
        names[at:at], heads[at:at] = _BESIDE, _BESIDE.values()
        for row, claim in zip(rows, (r[0] for r in found.rows), strict=True):
            word = other.words.get(claim)
            row[at:at] = [word.word if word else "—", agree.get(claim, "—")]
    return md.table(
        heads,
        rows,
        caption=caption,
        label=found.id,
        widths=[_SHARES.get(name, _OTHER) for name in names],
        align="l" * len(names),
    )


def numbered(paper: Path, *, shown: set[str], page_only: set[str]) -> dict[str, str]:
    """Set each claim's number as a link to the figure or table that it rests on.

    Parameters
    ----------
    paper : path
        The folder with the sources and the ledger.
    shown, page_only : set of str
        Identifiers that the paper shows, and those among them that only the page
        has: print has nothing that they could lead to.
    """
    return {
        claim: _link(claim, entry["figure"], page_only)
        for claim, entry in reference.ledger(paper).items()
        if entry.get("figure") in shown
    }


def _link(claim: str, figure: str, page_only: set[str]) -> str:
    link = f"[{claim}](#{figure})"
    return md.either(link, claim) if figure in page_only else link
