"""What to use when: from comparing words to advice, situation by situation.

    cell of a study -> the best mean -> every other model against it -> words
                    -> as good, not shown to differ, worse

The best one is found by the data that then judge the others, so its lead over them is
a little too large; words are corrected for their number (Holm), and who is not shown
to be worse stays in the race.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pandas as pd

from connlab.study import look
from connlab.study.cells import Compared, compare_cells, summarise
from connlab.study.costs import WORDS as COST_WORDS
from connlab.study.formatting import level_text, listing, rounded
from connlab.study.frames import usable
from connlab.study.metrics import metric as metric_of
from connlab.study.sensitivity import Subject
from connlab.study.tables import GAP, Column, Table

WORSE = ("slower than", "dearer than")


def situations(subject: Subject) -> list[dict]:
    """Return the cells to advise on: the ends of every factor, in all combinations."""
    ends = []
    for factor in subject.within:
        levels = sorted(subject.frame[factor].dropna().unique())
        ends.append(list(dict.fromkeys([levels[0], levels[-1]])) if levels else [None])
    return [dict(zip(subject.within, e, strict=True)) for e in product(*ends)]


def against_best(subject: Subject, where: dict) -> list[Compared]:
    """Compare every model of a cell with the one whose mean is best there."""
    here = subject.frame
    for factor, level in where.items():
        here = here[here[factor].eq(level).fillna(False).astype(bool)]
    if "cpu_per_request" in subject.metric:
        here = here.assign(label="not asked")
    good = usable(here, subject.metric)
    if good["model"].nunique() < 2:
        return []
    means = summarise(good, subject.metric, by=["model"]).set_index("model")["value"]
    lower = metric_of(subject.metric).better == "lower"
    best = str(means.idxmin() if lower else means.idxmax())
    return compare_cells(here, subject.metric, baseline=best, within=[])


def table(subjects: Sequence[Subject]) -> Table:
    """Return a row per situation: who is best, as good, open, and worse by how much."""
    rows = []
    for subject in subjects:
        names = look.styles(subject.frame)
        for where in situations(subject):
            found = against_best(subject, where)
            if found:
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
        () if rows else ("No study of this run compares models.",),
    )


def _row(subject: Subject, where: dict, found: Sequence[Compared], names) -> tuple:
    def label(one: Compared) -> str:
        return names[one.arm].label

    alike = [label(c) for c in found if c.word == "indistinguishable from"]
    open_ = [label(c) for c in found if c.word == "undetermined"]
    worse = [
        f"{label(c)} ({rounded(c.comparison.ratio.value, 2)})"
        for c in sorted(found, key=lambda c: c.comparison.ratio.value)
        if COST_WORDS.get(c.word, c.word) in WORSE or c.word in WORSE
    ]
    said = [f"{k.replace('_', ' ')} {_level(v)}" for k, v in where.items()]
    return (
        f"{subject.study}: {', '.join(said) or 'all'}",
        metric_of(subject.metric).label,
        names[found[0].baseline].label,
        listing(alike) or GAP,
        listing(open_) or GAP,
        listing(worse) or GAP,
    )


def _level(value) -> str:
    return "any" if pd.isna(value) else level_text(value)
