"""Study 01: does response time depend on how the server waits?

    frame -> throughput, response time, tails, ratios -> figures, tables
          -> Little's law, bottleneck, CPU cost       -> findings
          -> the answer in one sentence               -> results.json

The table of the report by Gutica and Khoo, with intervals and failed cells, and its
re-reading: with N connections in a closed loop X = N / R, so a response time that
grows in proportion to N says that throughput has met a ceiling, and who met it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from connlab.study import figures, look, reporting, tables
from connlab.study.cells import Compared, compare_cells, summarise
from connlab.study.claims import published
from connlab.study.drawing import Picture
from connlab.study.formatting import counted, listing, phrase, plain
from connlab.study.frames import usable
from connlab.study.interval import Interval
from connlab.study.reporting import (  # noqa: F401 (notebooks ask for them here)
    baseline_of,
    bottleneck,
)
from connlab.study.results import Results, start
from connlab.study.tables import Table

STUDY = "response-time"
NUMBER = 1
QUESTION = "Does response time depend on how the server waits?"
FACTORS = ("model", "connections")

PUBLISHED = "gutica-response-time.csv"

VALUES = {
    "mean": "response_mean_s",
    "p50": "response_p50_s",
    "p99": "response_p99_s",
    "rps": "throughput_rps",
    "cpu": "server_cpu_per_request_s",
}
"""Values that the paper may name, as MODEL_KIND_CONNECTIONS, and their columns."""


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
    picture = figures.curves(frame, "throughput_rps", lines=lines, log_y=False)
    return results.figure(
        "throughput",
        picture,
        caption="Throughput against connections, closed loop. "
        + reporting.read_as(frame, FACTORS),
    )


def response(
    results: Results,
    frame: pd.DataFrame,
    *,
    lines: Mapping[str, Interval | float] | None = None,
) -> Picture:
    """Draw mean response time against connections."""
    picture = figures.curves(frame, "response_mean_s", lines=lines)
    return results.figure(
        STUDY,
        picture,
        caption="Mean response time against connections, closed loop. "
        + reporting.read_as(frame, FACTORS),
    )


def table(
    results: Results,
    frame: pd.DataFrame,
) -> Table:
    """Tabulate mean response time by model and connections."""
    made = tables.grid(frame, "response_mean_s", unit="ms")
    return results.table(
        STUDY,
        made,
        caption="Mean response time by connections and model, " + reporting.OVER_TRIALS,
    )


def reread(results: Results, *, name: str = PUBLISHED) -> Picture | None:
    """Draw the throughput that the published table implies: clients / response time.

    None where the table is not there. One number per cell was published, so no point
    has an interval.
    """
    try:
        table = published(name)
    except FileNotFoundError:
        return None
    rows = table.melt("clients", var_name="model", value_name="ms")
    rows["model"] = rows["model"].str.removesuffix("_ms")
    seconds = pd.to_numeric(rows["ms"], errors="coerce") / 1000
    failed = seconds.isna().map({True: "server error", False: None})
    rows = rows.assign(value=rows["clients"] / seconds, lo=None, hi=None, n=1)
    rows = rows.assign(reason=failed).astype({"lo": float, "hi": float})
    picture = figures.curves_of(
        rows,
        label="implied throughput",
        unit="requests/s",
        x="clients",
        by="model",
        styles=_THEIRS,
        log_y=False,
    )
    return results.figure(
        f"{STUDY}-published",
        picture,
        caption="What the published response times imply: clients over mean response "
        "time is throughput (Little's law). Each cell was published once, without an "
        "interval; crosses mark those that failed.",
    )


_THEIRS = {
    "select": look.Style("select", look.color("readiness"), "s"),
    "multithreading": look.Style("multithreading", look.color("threads"), "o"),
    "epoll": look.Style("epoll", look.color("readiness"), "o"),
}


def tails(
    results: Results,
    frame: pd.DataFrame,
) -> Table:
    """Tabulate median, tail and cost at the most connections that all models hold."""
    n, at = reporting.at_common_level(frame)
    metrics = ["response_p50_s", "response_p99_s", "response_p999_s"]
    made = tables.per_model(at, [*metrics, "server_cpu_per_request_s"])
    return results.table(
        f"{STUDY}-tails",
        made,
        caption="Quantiles of response time and CPU cost at "
        f"{counted(n, 'connection')}: means over trials of each trial's quantile, with "
        "95 % intervals.",
    )


# ---- comparisons --------------------------------------------------------------


def compare(frame: pd.DataFrame, *, baseline: str) -> list[Compared]:
    """Compare mean response times with those of `baseline`, level by level.

    Several comparisons of one question: their words are Holm-corrected.
    """
    return compare_cells(
        frame, "response_mean_s", baseline=baseline, within=["connections"]
    )


def words(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> None:
    """Keep every comparing word, as MODEL_BASELINE_CONNECTIONS."""
    reporting.keep_words(results, frame, found, verdict=verdict)


def verdict(one: Compared, names: Mapping[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    return reporting.verdict_of_models(
        one,
        names,
        does="answers sooner",
        times="its response time",
        where=f"at {counted(one.where['connections'], 'connection')}",
    )


def ratios(
    results: Results, frame: pd.DataFrame, found: Sequence[Compared]
) -> Picture | None:
    """Draw every ratio with its interval and word; None where nothing compares."""
    return reporting.ratios(
        results, frame, found, name=f"{STUDY}-ratios", what="mean response time"
    )


# ---- findings -----------------------------------------------------------------


def ceiling(frame: pd.DataFrame) -> str:
    """Say from where on throughput stays as it is, where it falls, where it grows."""
    table = summarise(frame, "throughput_rps", by=FACTORS).dropna(subset=["value"])
    if table.empty:
        return "No trial is usable, so nothing can be said of throughput."
    names = look.styles(frame)
    flat: dict[int, list[str]] = {}
    falling, growing = [], []
    for model, rows in table.groupby("model"):
        if len(rows) < 2:
            continue
        label, rows = names[str(model)].label, rows.sort_values("connections")
        last, knee = int(rows["connections"].iloc[-1]), _knee(rows)
        if knee is not None and knee < last:
            flat.setdefault(knee, []).append(label)
        elif _top(rows) == last:
            growing.append(label)
        else:
            falling.append(_falls(frame, str(model), label, _top(rows), last))
    said = []
    if flat:
        where = "; ".join(
            f"from {counted(n, 'connection')} on for {listing(labels)}"
            for n, labels in sorted(flat.items())
        )
        said.append(
            f"is within 10 % of its highest {where}: beyond that further connections "
            "add waiting and little else"
        )
    said += [f"is highest {'; '.join(falling)}"] if falling else []
    those = listing(growing)
    said += [f"still grows at the last level measured for {those}"] if growing else []
    if not said:
        return "With one level of connections nothing can be said of a ceiling."
    return f"Throughput {'. It '.join(said)}."


def _top(rows: pd.DataFrame) -> int:
    """Return the connections of a model's highest throughput."""
    return int(rows.loc[rows["value"].idxmax(), "connections"])


def _knee(rows: pd.DataFrame) -> int | None:
    """Return from how many connections on throughput stays within 10 % of the highest.

    `rows` are those of a model, the fewest connections first. None where the last level
    lies lower.
    """
    values = rows["value"].to_numpy(dtype=float)
    low = np.flatnonzero(values < 0.9 * values.max())
    first = low[-1] + 1 if len(low) else 0
    return int(rows["connections"].iloc[first]) if first < len(rows) else None


def _falls(frame: pd.DataFrame, model: str, label: str, top: int, last: int) -> str:
    """Say where a model's throughput is highest, and what is left of it at the end."""
    rows = frame[(frame["model"] == model) & frame["connections"].isin([top, last])]
    (one,) = compare_cells(
        rows,
        "throughput_rps",
        baseline=top,
        within=[],
        by="connections",
        family=False,
    )
    where = f"at {counted(top, 'connection')} for {label}, and"
    left = f"{{}} times that at {plain(last)}, its last level"
    return f"{where} {phrase(one.comparison.ratio, left)}"


def little(frame: pd.DataFrame) -> str:
    """Compare N / R with the throughput that was counted (Little's law)."""
    good = usable(frame, "throughput_rps", "response_mean_s")
    if good.empty:
        return "No trial is usable, so Little's law cannot be checked."
    implied = good["connections"] / good["response_mean_s"]
    off = (implied / good["throughput_rps"].astype(float) - 1).abs()
    return (
        "By Little's law a closed loop of N connections has throughput N / R: it "
        f"agrees within 5 % with the counted one in {int((off <= 0.05).sum())} of "
        f"{counted(len(good), 'usable trial')}, and the median difference is "
        f"{off.median():.1%}."
    )


def cost(frame: pd.DataFrame) -> str:
    """Say which server spends the least and the most CPU time per request."""
    n, at = reporting.at_common_level(frame)
    means = reporting.ranked(at, "server_cpu_per_request_s")
    if len(means) < 2:
        return "Too few servers were measured to compare their CPU cost."
    return (
        f"At {counted(n, 'connection')} the least CPU time per request is spent, in "
        f"the mean, by {means[0].label_first}, the most by {means[-1].label_first}."
    )


def answer(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Answer the question in one sentence; `connlab.study.reporting.lead` begins it."""
    if not found:
        return reporting.TOO_FEW
    head, tally = reporting.lead(found), reporting.tally(frame, found)
    seen = f"{_range(frame)}; " if head == "Yes" else ""
    return f"{head}: {seen}{tally}."


def _range(frame: pd.DataFrame) -> str:
    """Say the shortest and longest mean response time at the common level."""
    n, at = reporting.at_common_level(frame)
    means = reporting.ranked(at, "response_mean_s")
    those = reporting.that_rank(at, "response_mean_s")
    where = f"at {counted(n, 'connection')} the"
    if not means:
        return f"{where} client was the bottleneck of every model"
    if len(means) == 1:
        only = "that the client did not limit" if those else "with usable trials"
        return f"{where} only model {only} answers after {means[0].label_last}"
    return (
        f"{where} mean response time{those} runs from {means[0].label_last} to "
        f"{means[-1].label_last}"
    )
