"""What to use when: from comparing words to advice, situation by situation.

    cell of a study -> the best mean -> every other model against it -> words
                    -> as good, not shown to differ, worse

The best one is found by the data that then judge the others, so its lead over them is
a little too large; words are corrected for their number (Holm), and who is not shown
to be worse stays in the race.
"""

from __future__ import annotations

from collections.abc import Sequence

from connlab.study import look
from connlab.study.cells import Compared, compare_cells, summarise
from connlab.study.costs import WORDS as COST_WORDS
from connlab.study.formatting import level_text, listing, rounded
from connlab.study.frames import usable
from connlab.study.metrics import metric as metric_of
from connlab.study.sensitivity import (
    OPEN,
    Subject,
    at,
    for_the_client,
    models_without,
    to_compare,
)
from connlab.study.tables import GAP, Column, Table

WORSE = ("slower than", "dearer than")


def situations(subject: Subject) -> list[dict]:
    """Return the cells to advise on: those at an end of every factor.

    A cell is at an end of a factor when no other has less of it, or none has more, as
    long as all other factors stay. A level may be None: the factor left alone.
    """
    frame = subject.frame
    for factor in subject.within:
        frame = frame[~frame["model"].isin(models_without(frame, factor))]
    levels = frame[list(subject.within)].astype(object)
    levels = levels.where(levels.notna(), None)
    rows = dict.fromkeys(map(tuple, levels.itertuples(index=False)))
    cells = [dict(zip(subject.within, row, strict=True)) for row in rows]
    ends = [c for c in cells if all(_at_end(c, f, cells) for f in c)]
    return sorted(ends, key=lambda c: [_rank(level) for level in c.values()])


def _at_end(cell: dict, factor: str, cells: Sequence[dict]) -> bool:
    line = [c for c in cells if all(c[f] == cell[f] for f in cell if f != factor)]
    ranks = [_rank(c[factor]) for c in line]
    return _rank(cell[factor]) in (min(ranks), max(ranks))


def _rank(level: object) -> tuple[bool, object]:
    return level is not None, 0 if level is None else level


def against_best(subject: Subject, where: dict) -> list[Compared]:
    """Compare every model of a cell with the one whose mean is best there.

    A model that does not have a factor takes part at each of its levels.
    """
    here = to_compare(subject)
    for factor, level in where.items():
        anyway = here["model"].isin(models_without(subject.frame, factor))
        here = here[at(here, factor, level) | anyway]
    good = usable(here, subject.metric)
    if good["model"].nunique() < 2:
        return []
    means = summarise(good, subject.metric, by=["model"]).set_index("model")["value"]
    lower = metric_of(subject.metric).better == "lower"
    best = str(means.idxmin() if lower else means.idxmax())
    return compare_cells(here, subject.metric, baseline=best, within=[])


def table(subjects: Sequence[Subject]) -> Table:
    """Return a row per situation: who is best, as good, open, and worse by how much."""
    rows, notes = [], []
    for subject in subjects:
        names = look.styles(subject.frame)
        judged = [(cell, against_best(subject, cell)) for cell in situations(subject)]
        judged = [(cell, found) for cell, found in judged if found]
        everywhere = _everywhere([cell for cell, _ in judged])
        if everywhere:
            notes.append(f"{subject.study}: all with {_told(everywhere)}")
        for cell, found in judged:
            where = {f: level for f, level in cell.items() if f not in everywhere}
            rows.append(_row(subject, where, found, names))
    heads = (
        ("when", "where"),
        ("what", "what counts"),
        ("best", "best mean"),
        ("alike", "as good (shown)"),
        ("open", "not shown to differ"),
        ("worse", "worse (ratio)"),
    )
    return Table(
        tuple(Column(*head) for head in heads),
        tuple(rows),
        tuple(notes) if rows else ("No study of this run compares models.",),
    )


def _everywhere(cells: Sequence[dict]) -> dict:
    """Return the levels that several cells share; connections are said in each."""
    if len(cells) < 2:
        return {}
    first = cells[0].items()
    shared = {f: level for f, level in first if all(c[f] == level for c in cells)}
    shared.pop("connections", None)
    return {f: level for f, level in shared.items() if level is not None}


def _told(where: dict) -> str:
    return ", ".join(
        f"{factor.replace('_', ' ')} {level_text(level)}"
        for factor, level in where.items()
        if level is not None
    )


def _row(subject: Subject, where: dict, found: Sequence[Compared], names) -> tuple:
    def label(one: Compared) -> str:
        return names[one.arm].label

    alike = [label(c) for c in found if c.word == "indistinguishable from"]
    open_ = [c for c in found if c.word == OPEN]
    unranked = [label(c) for c in open_ if for_the_client(c)]
    open_ = [label(c) for c in open_ if not for_the_client(c)]
    worse = [
        f"{label(c)} ({rounded(c.comparison.ratio.value, 2)})"
        for c in sorted(found, key=lambda c: c.comparison.ratio.value)
        if COST_WORDS.get(c.word, c.word) in WORSE or c.word in WORSE
    ]
    if unranked:
        open_.append(f"not ranked, as the client was the limit: {listing(unranked)}")
    return (
        f"{subject.study}: {_told(where) or 'all'}",
        metric_of(subject.metric).label,
        names[found[0].baseline].label,
        listing(alike) or GAP,
        "; ".join(open_) or GAP,
        listing(worse) or GAP,
    )
