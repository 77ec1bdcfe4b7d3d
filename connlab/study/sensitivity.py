"""Would another analysis of the same trials have said another word?

    trials -> compared as printed          -> words
           -> compared in a few other ways -> words -> which differ, and how

A word that turns into its opposite under a choice that nobody could defend against
another is no finding. One that only falls to "undetermined" is weak, not wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from connlab.study.cells import CLIENT_BOUND, Compared, compare_cells
from connlab.study.costs import WORDS as COST_WORDS
from connlab.study.costs import whoever_was_the_limit
from connlab.study.frames import passed, usable
from connlab.study.interval import min_trials_for_quantile, quantile_interval
from connlab.study.metrics import metric as metric_of

OPEN = "undetermined"
OPPOSITE = {
    "faster than": "slower than",
    "slower than": "faster than",
    "cheaper than": "dearer than",
    "dearer than": "cheaper than",
}
MEDIAN_OF = {
    "response_mean_s": "response_p50_s",
    "service_mean_s": "service_p50_s",
    "connect_mean_s": "connect_p50_s",
}
"""The median that a trial has of what a column is the mean of."""


@dataclass(frozen=True)
class Subject:
    """The comparisons of one study: which trials, of what, against which model."""

    study: str
    frame: pd.DataFrame
    metric: str
    baseline: str
    within: tuple[str, ...]


def at_own_pace(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials in which nothing but the answers set the client's pace.

    Where a rate or a time to think does, throughput tells what the client was asked.
    """
    asked = [c for c in ("rate", "byte_rate", "think") if c in frame]
    return frame[frame[asked].isna().all(axis=1)]


def factors_of(frame: pd.DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    """Return those factors that make cells: not those which only set up some models.

    A model is set up by a factor, as by a worker for each client, where other models
    do not have it and it has one level in each cell of the other factors.
    """
    return tuple(name for name in names if not _sets_up(frame, name, names))


def _sets_up(frame: pd.DataFrame, name: str, names: Sequence[str]) -> bool:
    if not models_without(frame, name):
        return False
    others = [other for other in names if other != name]
    cells = frame.groupby(["model", *others], dropna=False)
    return bool((cells[name].nunique() <= 1).all())


def models_without(frame: pd.DataFrame, factor: str) -> list[str]:
    """Return the models that do not have a factor which others have."""
    has = frame[factor].notna().groupby(frame["model"]).any()
    return list(has.index[~has]) if has.any() else []


def at(frame: pd.DataFrame, factor: str, level: object) -> pd.Series:
    """Return which trials have a level of a factor; no level means those without."""
    if pd.isna(level):
        return frame[factor].isna()
    return frame[factor].eq(level).fillna(False).astype(bool)


def for_the_client(one: Compared) -> bool:
    """Return whether a pair was not ranked because the client was the limit."""
    return one.word == OPEN and "client was the bottleneck" in one.comparison.rule


# ---- ways to compare ----------------------------------------------------------


def printed(subject: Subject) -> list[Compared]:
    """Compare means of usable trials, paired by block: what the paper prints."""
    return _compared(subject)


def median_of_trials(subject: Subject) -> list[Compared] | None:
    """Take each trial's median request in place of its mean."""
    metric = MEDIAN_OF.get(subject.metric)
    return _compared(replace(subject, metric=metric)) if metric else None


def median_over_trials(subject: Subject) -> list[Compared] | None:
    """Take the median of the blocks' ratios, with order statistics.

    Normality plays no part. None with fewer blocks than such an interval needs (six).
    Words are not corrected for their number.
    """
    found = _compared(subject, family=False)
    good = usable(subject.frame, subject.metric)
    need = min_trials_for_quantile(0.5)
    enough = [one for one in found if one.comparison.ratio.n >= need]
    return [_by_median(subject, good, one) for one in enough] or None


def _by_median(subject: Subject, good: pd.DataFrame, one: Compared) -> Compared:
    here = good
    for factor, level in one.where.items():
        here = here[at(here, factor, level)]
    keys = ["block", "repeat"]
    sides = [
        here[here["model"] == name].set_index(keys)[subject.metric].astype(float)
        for name in (one.arm, one.baseline)
    ]
    ratios = (sides[0] / sides[1]).dropna()
    wide = quantile_interval(ratios, 0.5)
    narrow = quantile_interval(ratios, 0.5, level=0.9)
    low, high = one.comparison.equivalence.bounds
    word = OPEN
    if low < narrow.lo and narrow.hi < high:
        word = "indistinguishable from"
    elif wide.determined and not wide.contains(1.0):
        lower = wide.hi < 1
        good_end = metric_of(subject.metric).better
        word = "faster than" if lower == (good_end == "lower") else "slower than"
    if for_the_client(one):
        word = OPEN
    return replace(one, comparison=replace(one.comparison, word=word, ratio=wide))


def without_slowest_block(subject: Subject) -> list[Compared] | None:
    """Leave the block out that was worst for all models; None without two others."""
    worst = slowest_block(subject)
    if worst is None:
        return None
    frame = subject.frame
    return _compared(replace(subject, frame=frame[frame["block"] != worst]))


def slowest_block(subject: Subject) -> int | None:
    """Return the block that lies furthest on the bad side of its cells' medians."""
    good = usable(subject.frame, subject.metric)
    if good["block"].nunique() < 3:
        return None
    cell = ["model", *subject.within]
    values = good[subject.metric].astype(float)
    middle = values.groupby([good[c] for c in cell], dropna=False).transform("median")
    off = (values / middle).groupby(good["block"]).mean()
    lower_is_better = metric_of(subject.metric).better == "lower"
    return int(off.idxmax() if lower_is_better else off.idxmin())


def with_flagged(subject: Subject) -> list[Compared] | None:
    """Let trials in that did not pass a gate; None where all of them did."""
    frame = subject.frame
    flagged = frame["failure"].isna() & ~passed(frame)
    if not flagged.any():
        return None
    return _compared(replace(subject, frame=frame.assign(ok=frame["ok"] | flagged)))


def ranked_anyway(subject: Subject) -> list[Compared] | None:
    """Rank servers where the client was the bottleneck, too; None where it never was.

    This is what a report does that never looks.
    """
    frame = subject.frame
    bound = frame["label"].eq(CLIENT_BOUND).fillna(False)
    if not bound.any() or "cpu_per_request" in subject.metric:
        return None
    label = frame["label"].mask(bound, "not asked")
    return _compared(replace(subject, frame=frame.assign(label=label)))


WAYS: dict[str, tuple[str, Callable[[Subject], list[Compared] | None]]] = {
    "median_request": ("median request of each trial", median_of_trials),
    "median_trial": ("median over trials", median_over_trials),
    "without_slowest": ("without the slowest block", without_slowest_block),
    "flagged": ("with flagged trials", with_flagged),
    "ranked": ("ranked though client-bound", ranked_anyway),
}
"""Other ways to compare, with what each is called."""


def _compared(subject: Subject, *, family: bool = True) -> list[Compared]:
    how = {"baseline": subject.baseline, "within": subject.within, "family": family}
    return compare_cells(to_compare(subject), subject.metric, **how)


def to_compare(subject: Subject) -> pd.DataFrame:
    """Return a subject's trials as they are compared: costs whoever was the limit."""
    if "cpu_per_request" in subject.metric:
        return whoever_was_the_limit(subject.frame)
    return subject.frame


# ---- what differs -------------------------------------------------------------

KINDS = ("same", "weaker", "stronger", "other", "reversed")
"""How a word may stand to the printed one; see `kind`."""


def kind(printed_word: str, word: str) -> str:
    """Say how a word stands to the printed one.

    ``weaker``: it fell to "undetermined"; ``stronger``: it rose from there;
    ``reversed``: the opposite; ``other``: between a difference and none.
    """
    if word == printed_word:
        return "same"
    if word == OPEN:
        return "weaker"
    if printed_word == OPEN:
        return "stronger"
    return "reversed" if OPPOSITE.get(printed_word) == word else "other"


def examine(subjects: Sequence[Subject]) -> pd.DataFrame:
    """Compare every subject in every way.

    Returns
    -------
    DataFrame
        One row per comparison and way that applies to it: study, metric, arm,
        baseline, where (mapping), printed, way, word, kind.
    """
    rows = []
    for subject in subjects:
        base = {_key(one): one for one in printed(subject)}
        for way, (_, compare) in WAYS.items():
            for one in compare(subject) or ():
                if _key(one) in base:
                    rows.append(_row(subject, base[_key(one)], way, one))
    columns = ["study", "metric", "arm", "baseline", "where", "printed", "way"]
    return pd.DataFrame(rows, columns=[*columns, "word", "kind"])


def _key(one: Compared) -> tuple:
    return (one.arm, *sorted((k, str(v)) for k, v in one.where.items()))


def _row(subject: Subject, was: Compared, way: str, one: Compared) -> dict:
    cost = "cpu_per_request" in subject.metric
    words = [COST_WORDS.get(w, w) if cost else w for w in (was.word, one.word)]
    return {
        "study": subject.study,
        "metric": subject.metric,
        "arm": one.arm,
        "baseline": one.baseline,
        "where": dict(one.where),
        "printed": words[0],
        "way": way,
        "word": words[1],
        "kind": kind(*words),
    }


def tally(examined: pd.DataFrame) -> pd.DataFrame:
    """Count kinds per way: columns way, n and one per kind; ways in their order."""
    counts = pd.crosstab(examined["way"], examined["kind"])
    counts = counts.reindex(index=list(WAYS), columns=list(KINDS), fill_value=0)
    return counts.assign(n=counts.sum(axis=1)).reset_index()
