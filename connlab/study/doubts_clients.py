"""Another client: does it matter how the load generator waits?

    trials with a client on epoll, and on io_uring -> what a request costs the server
                                                   -> the words between models, by both

On loopback each side delivers what it sends into the other's socket on its own account.
So how the client waits is part of what a request costs the server, on the same core or
not; a comparison of models has to stand whichever client asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from connlab.study import look
from connlab.study.cells import Compared, interval_of, summarise
from connlab.study.costs import compare_costs
from connlab.study.formatting import counted, listing, number_text, plain
from connlab.study.results import Results, value_of
from connlab.study.tables import GAP, Column, Table

COST = "server_cpu_per_request_s"
ENGINE = "client_engine"
USUAL, OTHER = "epoll", "uring"
"""Engines of the client, as its report names them."""

NONE = "Only one way in which the client can wait was available, so it has no equal."


def asked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that were run for the client's sake."""
    return frame[frame["engine"].notna()]


def costs(frame: pd.DataFrame) -> list[Compared]:
    """Compare what a request costs a server, by client."""
    within = ["model", "connections"]
    return compare_costs(asked(frame), COST, baseline=USUAL, within=within, by=ENGINE)


def changed(frame: pd.DataFrame, *, baseline: str) -> tuple[int, list[Compared]]:
    """Count the pairs of models that both clients compare; return the second's words
    where they are not the first's."""
    within = [ENGINE, "connections"]
    found = compare_costs(asked(frame), COST, baseline=baseline, within=within)
    words: dict[tuple, dict[str, Compared]] = {}
    for one in found:
        pair = one.arm, one.where["connections"]
        words.setdefault(pair, {})[one.where[ENGINE]] = one
    both = [by for by in words.values() if by.keys() >= {USUAL, OTHER}]
    other = [by[OTHER] for by in both if by[OTHER].word != by[USUAL].word]
    return len(both), other


def table(results: Results, frame: pd.DataFrame) -> Table:
    """Tabulate what a request costs each server, by client."""
    names = look.styles(asked(frame))
    shown = _means(frame)
    rows = [
        (
            names[one.where["model"]].label,
            plain(one.where["connections"]),
            *(
                shown.get((*one.where.values(), engine), GAP)
                for engine in (USUAL, OTHER)
            ),
            number_text(one.comparison.ratio),
            str(one.comparison.ratio.n),
        )
        for one in costs(frame)
    ]
    heads = (
        Column("model", "server"),
        Column("connections", "connections"),
        Column("usual", "asked by epoll"),
        Column("other", "asked by io_uring"),
        Column("ratio", "ratio"),
        Column("n", "trials"),
    )
    return results.table(
        "clients",
        Table(heads, tuple(rows)),
        caption="CPU time of the server per request, by how the client waits, and the "
        "ratio of the second to the first; means with 95 % intervals.",
    )


def _means(frame: pd.DataFrame) -> Mapping[tuple, str]:
    by = ["model", "connections", ENGINE]
    cells = summarise(asked(frame), COST, by=by)
    return {
        tuple(row[factor] for factor in by): value_of(interval_of(row), "s")["text"]
        for _, row in cells.iterrows()
        if pd.notna(row["value"])
    }


def finding(frame: pd.DataFrame, *, baseline: str) -> str:
    """Say how much the client's way of waiting matters, and whether words change."""
    found = costs(frame)
    if not found:
        return NONE
    names = look.styles(asked(frame))
    text = (
        "Asked by a client that waits with io_uring in place of epoll, a request takes "
        f"{listing([_times(one, names) for one in found])} as much CPU time of the "
        "server."
    )
    count, other = changed(frame, baseline=baseline)
    return f"{text} {_words(count, other, names)}".strip()


def _times(one: Compared, names: Mapping[str, look.Style]) -> str:
    who, at = names[one.where["model"]].label, plain(one.where["connections"])
    return f"{number_text(one.comparison.ratio)} times ({who}, {at} connections)"


def _words(
    count: int, other: Sequence[Compared], names: Mapping[str, look.Style]
) -> str:
    if not count:
        return ""
    said = f"Of {counted(count, 'word')} between models"
    if not other:
        return f"{said} none changes with the client."
    which = [
        f"{names[one.arm].label} becomes {one.word} {names[one.baseline].label} at "
        f"{plain(one.where['connections'])} connections"
        for one in other
    ]
    return f"{said} {len(other)} change: {listing(which)}."
