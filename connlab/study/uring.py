"""Study 07: does io_uring serve more than epoll?

    frame -> throughput, CPU per request against connections  -> figures, table
          -> each against epoll, paired by block              -> ratios, words
          -> the same interface used like epoll               -> what a rewrite adds
          -> the answer in one sentence                       -> results.json

Published answers contradict each other, and nearly all of them are throughputs of one
machine's run. Throughput is compared where the server was the bottleneck; CPU time
per request does not ask who was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from connlab.study import figures, look, reporting, tables
from connlab.study.cells import Compared, compare_cells
from connlab.study.costs import compare_costs
from connlab.study.drawing import Picture
from connlab.study.formatting import counted, listing, plain, span
from connlab.study.frames import usable
from connlab.study.interval import Interval
from connlab.study.metrics import metric as metric_of
from connlab.study.reporting import key
from connlab.study.results import Results, start
from connlab.study.tables import Table

STUDY = "uring"
NUMBER = 7
QUESTION = "Does io_uring serve more than epoll?"
FACTORS = ("model", "connections")
COST = "server_cpu_per_request_s"
RATE = "throughput_rps"
BASELINE = "epoll"

VALUES = {"rps": RATE, "cpu": COST, "p99": "response_p99_s"}
"""Values that the paper may name, as MODEL_KIND_CONNECTIONS, and their columns."""

_KINDS = {RATE: "rps", COST: "cpu"}


def that_suit(models: Sequence[Any]) -> list[str]:
    """Return the names of the completion models and epoll loops of one thread.

    Parameters
    ----------
    models : sequence
        Rows of the registry, with name, family, workers and available.
    """
    return [
        m.name
        for m in models
        if m.available
        and m.workers != "fixed"
        and (m.family == "completion" or m.name in (BASELINE, "epoll-et"))
    ]


def begin(frame: pd.DataFrame, *, root: str | Path = "runs") -> Results:
    """Begin the results: what was varied, counted, left out; every value by name."""
    results = start(frame, number=NUMBER, question=QUESTION, factors=FACTORS, root=root)
    reporting.keep_values(results, frame, VALUES, by=FACTORS)
    return results


# ---- figures and tables -------------------------------------------------------


def throughput(
    results: Results,
    frame: pd.DataFrame,
    *,
    lines: Mapping[str, Interval | float] | None = None,
) -> Picture:
    """Draw throughput against connections."""
    return results.figure(
        STUDY,
        figures.curves(frame, RATE, lines=lines, log_y=False),
        caption=f"Throughput against connections, {_size(frame)}, closed loop. "
        + reporting.read_as(frame, FACTORS),
    )


def cost(
    results: Results,
    frame: pd.DataFrame,
    *,
    lines: Mapping[str, Interval | float] | None = None,
) -> Picture:
    """Draw CPU time per request against connections."""
    return results.figure(
        f"{STUDY}-cost",
        figures.curves(frame, COST, lines=lines, log_y=False),
        caption="CPU time of the server per request against connections. "
        + reporting.read_as(frame, FACTORS),
    )


def table(results: Results, frame: pd.DataFrame) -> Table:
    """Tabulate throughput by model and connections."""
    return results.table(
        STUDY,
        tables.grid(frame, RATE),
        caption="Throughput by connections and model, " + reporting.OVER_TRIALS,
    )


def _size(frame: pd.DataFrame) -> str:
    sizes = sorted(frame["size"].dropna().unique())
    return f"messages of {listing([str(s) for s in sizes])} bytes"


# ---- comparisons --------------------------------------------------------------


def rates(frame: pd.DataFrame, *, baseline: str = BASELINE) -> list[Compared]:
    """Compare throughputs with that of `baseline`, level by level."""
    return compare_cells(frame, RATE, baseline=baseline, within=["connections"])


def expenses(frame: pd.DataFrame, *, baseline: str = BASELINE) -> list[Compared]:
    """Compare CPU times per request with that of `baseline`, level by level."""
    return compare_costs(frame, COST, baseline=baseline, within=["connections"])


def words(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> None:
    """Keep every comparing word, as MODEL_BASELINE_KIND_CONNECTIONS."""
    reporting.keep_words(results, frame, found, verdict=verdict, name=_word_name)


def _word_name(one: Compared) -> str:
    parts = [key(one.arm), key(one.baseline), _KINDS[one.metric]]
    return "_".join([*parts, str(one.where["connections"])])


def verdict(one: Compared, names: Mapping[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    arm, base = names[one.arm].label, names[one.baseline].label
    where = f"at {counted(one.where['connections'], 'connection')}"
    what = metric_of(one.metric).label
    if one.word == "undetermined":
        return f"How {arm} and {base} compare in {what} {where} is undetermined."
    return reporting.settled(one, arm=arm, base=f"{base} {where}", times=f"its {what}")


def ratios(
    results: Results, frame: pd.DataFrame, found: Sequence[Compared]
) -> Picture | None:
    """Draw every ratio of one metric with its interval; None where nothing compares."""
    if not found:
        return None
    return reporting.ratios(
        results,
        frame,
        found,
        name=f"{STUDY}-{_KINDS[found[0].metric]}-ratios",
        what=metric_of(found[0].metric).label,
    )


# ---- findings -----------------------------------------------------------------


def tally(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Say of one metric where each model stands, a clause per word."""
    if not found:
        return "Too few models have usable trials to compare them."
    names = look.styles(frame)
    base = names[found[0].baseline].label
    parts = []
    for arm in dict.fromkeys(one.arm for one in found):
        levels: dict[str, list[str]] = {}
        for one in found:
            if one.arm == arm:
                at = plain(float(one.where["connections"]))
                levels.setdefault(one.word, []).append(at)
        said = [f"{_than(word, 'it')} at {_at(at)}" for word, at in levels.items()]
        parts.append(f"{names[arm].label} is {' and '.join(said)}")
    what = metric_of(found[0].metric).label
    return f"In {what}, against {base}: {'; '.join(parts)}."


def _than(word: str, base: str) -> str:
    """Put the baseline behind a comparing word."""
    return f"not to be told from {base}" if word == "undetermined" else f"{word} {base}"


def _at(levels: Sequence[str]) -> str:
    return listing(levels) + (" connection" if levels == ["1"] else " connections")


def batches(frame: pd.DataFrame) -> str:
    """Say how cost per request falls from the fewest to the most connections."""
    good = usable(frame, COST)
    if good["connections"].nunique() < 2:
        return "With one level of connections nothing can be said of batches."
    names = look.styles(frame)
    means = good.groupby(["model", "connections"])[COST].mean().unstack()
    low, high = means.columns.min(), means.columns.max()
    both = means[[low, high]].dropna()
    said = [
        f"{names[str(model)].label} {row[high] / row[low]:.2f}"
        for model, row in both.iterrows()
    ]
    if not said:
        return "No model was measured at both ends, so batches cannot be judged."
    return (
        "A server that finds many requests at once shares its system calls among "
        f"them: CPU time per request at {counted(high, 'connection')}, as a part of "
        f"that at {plain(float(low))}, is {listing(said)}."
    )


def answer(
    frame: pd.DataFrame, costs: Sequence[Compared], rates: Sequence[Compared]
) -> str:
    """Answer the question in one sentence: completions against the baseline.

    Yes or no only where every level says so; else by level.
    """
    served, spent = ([o for o in found if o.arm == STUDY] for found in (rates, costs))
    if not served and not spent:
        return "This run cannot say: io_uring or its baseline has no usable trial."
    names = look.styles(frame)
    base = names[(served or spent)[0].baseline].label
    if not served:
        return f"Throughput could not be compared; by CPU time {_words(spent, base)}."
    head = {
        frozenset({"faster than"}): "Yes",
        frozenset({"slower than"}): "No, less",
        frozenset({"indistinguishable from"}): "No, as much",
        frozenset({"undetermined"}): "This run cannot tell",
    }.get(frozenset(one.word for one in served), "It depends on the connections")
    text = f"{head}: by throughput {_words(served, base)}"
    return f"{text}; by CPU time per request {_words(spent, base)}."


def _words(found: Sequence[Compared], base: str) -> str:
    """Return what io_uring is, with levels and the range of ratios."""
    levels: dict[str, list[Compared]] = {}
    for one in found:
        levels.setdefault(one.word, []).append(one)
    said = []
    for word, those in levels.items():
        at = _at([plain(float(o.where["connections"])) for o in those])
        ratio = [o.comparison.ratio.value for o in those]
        ends = span(f"{min(ratio):.2f}", f"{max(ratio):.2f}")
        said.append(f"{_than(word, base)} at {at} (× {ends})")
    return f"io_uring is {listing(said)}" if said else "nothing can be said"
