"""Study 01: does response time depend on how the server waits?

    frame -> throughput, response time, tails, ratios -> figures, tables
          -> Little's law, bottleneck, CPU cost       -> findings
          -> the answer in one sentence               -> results.json

The table of the report by Gutica and Khoo, with intervals and failed cells, and its
re-reading: with N connections in a closed loop X = N / R, so a response time that
grows in proportion to N says that throughput has met a ceiling, and who met it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from connlab.study import figures, look, tables
from connlab.study.cells import (
    Compared,
    compare_cells,
    interval_of,
    ratio_frame,
    summarise,
)
from connlab.study.claims import published
from connlab.study.drawing import Picture
from connlab.study.formatting import counted, listing, number_text, plain
from connlab.study.frames import usable
from connlab.study.interval import Interval
from connlab.study.metrics import metric as metric_of
from connlab.study.results import Results, start, value_of
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
    for kind, metric in VALUES.items():
        table = summarise(frame, metric, by=FACTORS).dropna(subset=["value"])
        for _, row in table.iterrows():
            name = f"{key(row['model'])}_{kind}_{row['connections']}"
            results.value(name, interval_of(row), metric_of(metric).unit)
    return results


def key(model: str) -> str:
    """Return a model's name as part of a value's: ``epoll-et`` → ``epoll_et``."""
    return re.sub(r"\W", "_", model)


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
        caption="Throughput against connections, closed loop. " + _read_as(frame),
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
        + _read_as(frame),
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
        caption="Mean response time by connections and model, with 95 % intervals over "
        "trials. A dash stands for a cell without a usable trial.",
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
    n = common_level(frame)
    at = frame[frame["connections"] == n]
    metrics = ["response_p50_s", "response_p99_s", "response_p999_s"]
    made = tables.per_model(at, [*metrics, "server_cpu_per_request_s"])
    return results.table(
        f"{STUDY}-tails",
        made,
        caption="Quantiles of response time and CPU cost at "
        f"{counted(n, 'connection')}: means over trials of each trial's quantile, with "
        "95 % intervals.",
    )


def _read_as(frame: pd.DataFrame) -> str:
    trials = frame.groupby(list(FACTORS)).size()
    low, high = trials.min(), trials.max()
    count = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"Means over {count} trials per point with 95 % intervals; crosses mark cells "
        "without a usable trial."
    )


def common_level(frame: pd.DataFrame) -> int:
    """Return the most connections at which most models have a usable trial."""
    held = usable(frame).groupby("connections")["model"].nunique()
    if held.empty:
        return int(frame["connections"].max())
    return int(held[held == held.max()].index.max())


# ---- comparisons --------------------------------------------------------------


def baseline_of(frame: pd.DataFrame, wanted: str) -> str:
    """Return `wanted` if it was measured, else the model with most usable trials."""
    count = usable(frame)["model"].value_counts().sort_index()
    if wanted in count or count.empty:
        return wanted
    return str(count.idxmax())


def compare(frame: pd.DataFrame, *, baseline: str) -> list[Compared]:
    """Compare mean response times with those of `baseline`, level by level.

    Several comparisons of one question: their words are Holm-corrected.
    """
    return compare_cells(
        frame, "response_mean_s", baseline=baseline, within=["connections"]
    )


def words(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> None:
    """Keep every comparing word, as MODEL_BASELINE_CONNECTIONS."""
    names = look.styles(frame)
    for one in found:
        n = one.where["connections"]
        name = f"{key(one.arm)}_{key(one.baseline)}_{n}"
        results.word(name, one, verdict=verdict(one, names))


def verdict(one: Compared, names: Mapping[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    arm, base = names[one.arm].label, names[one.baseline].label
    where = f"at {counted(one.where['connections'], 'connection')}"
    ratio = number_text(one.comparison.ratio)
    if one.word == "undetermined":
        return (
            f"Whether {arm} or {base} answers sooner {where} is undetermined ({ratio})."
        )
    return f"{arm} is {one.word} {base} {where} ({ratio} times its response time)."


def ratios(
    results: Results, frame: pd.DataFrame, found: Sequence[Compared]
) -> Picture | None:
    """Draw every ratio with its interval and word; None where nothing compares."""
    if not found:
        return None
    styles = look.styles(frame)
    rows = ratio_frame(found)
    labels = [
        f"{styles[r.arm].label}, {plain(r.connections)} conn."
        for r in rows.itertuples()
    ]
    base = styles[found[0].baseline].label
    label = f"mean response time / that of {base}"
    picture = figures.forest(rows, labels=labels, x_label=label, styles=styles)
    return results.figure(
        f"{STUDY}-ratios",
        picture,
        caption=f"Mean response time in relation to {base}, paired by block, with 95 % "
        "intervals. The band is ±5 %; words are corrected for their number (Holm).",
    )


# ---- findings -----------------------------------------------------------------


def ceiling(frame: pd.DataFrame) -> str:
    """Say where throughput stops growing, so that response time has to."""
    table = summarise(frame, "throughput_rps", by=FACTORS).dropna(subset=["value"])
    if table.empty:
        return "No trial is usable, so nothing can be said of throughput."
    names = look.styles(frame)
    flat: dict[float, list[str]] = {}
    growing = []
    for model, rows in table.groupby("model"):
        if len(rows) < 2:
            continue
        knee, last = _knee(rows), rows["connections"].max()
        label = names[str(model)].label
        growing += [label] if knee == last else []
        if knee != last:
            flat.setdefault(knee, []).append(label)
    said = [
        f"from {counted(n, 'connection')} on for {listing(labels)}"
        for n, labels in sorted(flat.items())
    ]
    if not said and not growing:
        return "With one level of connections nothing can be said of a ceiling."
    text = f"Throughput is within 10 % of its highest {'; '.join(said)}: beyond that "
    text += "further connections add waiting and little else."
    if not said:
        text = ""
    if growing:
        text += f" It still grows at the last level measured for {listing(growing)}."
    return text.strip()


def _knee(rows: pd.DataFrame) -> float:
    """Return the fewest connections within 10 % of a model's highest throughput."""
    rows = rows.sort_values("connections")
    high = rows["value"] >= 0.9 * rows["value"].max()
    return float(rows.loc[high, "connections"].iloc[0])


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


def bottleneck(frame: pd.DataFrame) -> str:
    """Say who was the bottleneck of how many trials."""
    good = usable(frame)
    counts = good["label"].fillna("not labelled").value_counts()
    if counts.empty:
        return "No trial is usable, so no bottleneck can be named."
    said = [f"{n} {label}" for label, n in counts.items()]
    text = f"Of {counted(len(good), 'usable trial')} {listing(said)}."
    if counts.get("client-bound", 0) > 0:
        text += " Where the client was the bottleneck the servers are not ranked."
    return text


def cost(frame: pd.DataFrame) -> str:
    """Say which server spends the least and the most CPU time per request."""
    n = common_level(frame)
    at = frame[frame["connections"] == n]
    rows = summarise(at, "server_cpu_per_request_s", by=["model"])
    rows = rows.dropna(subset=["value"]).sort_values("value")
    if len(rows) < 2:
        return "Too few servers were measured to compare their CPU cost."
    names = look.styles(frame)

    def show(row):
        text = value_of(interval_of(row), "s")["text"]
        return f"{names[str(row['model'])].label} with {text}"

    return (
        f"At {counted(n, 'connection')} the least CPU time per request is spent by "
        f"{show(rows.iloc[0])}, the most by {show(rows.iloc[-1])}."
    )


def answer(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Answer the question in one sentence.

    "Yes" when any corrected comparison says faster or slower, "no" when all are
    shown to be indistinguishable, else undecided.
    """
    if not found:
        return "This run cannot say: fewer than two servers have usable trials."
    count = pd.Series([c.word for c in found]).value_counts()
    differ = sum(count.get(w, 0) for w in ("faster than", "slower than"))
    alike = int(count.get("indistinguishable from", 0))
    base = look.styles(frame)[found[0].baseline].label
    open_ = len(found) - differ - alike
    parts = [(differ, "differ"), (alike, "indistinguishable within ±5 %")]
    said = [f"{n} {what}" for n, what in [*parts, (open_, "undetermined")] if n]
    tally = f"of {counted(len(found), 'comparison')} with {base} {listing(said)}"
    if differ:
        return f"Yes: {_range(frame)}; {tally}."
    if alike == len(found):
        return f"No, not here: {tally}."
    return f"Undecided: {tally}."


def _range(frame: pd.DataFrame) -> str:
    """Say the shortest and longest mean response time at the common level."""
    n = common_level(frame)
    at = frame[frame["connections"] == n]
    rows = summarise(at, "response_mean_s", by=["model"]).dropna(subset=["value"])
    rows = rows.sort_values("value")
    names = look.styles(frame)
    low, high = rows.iloc[0], rows.iloc[-1]
    texts = [value_of(interval_of(r), "s")["text"] for r in (low, high)]
    labels = [names[str(r["model"])].label for r in (low, high)]
    return (
        f"at {counted(n, 'connection')} the mean response time runs from {texts[0]} "
        f"({labels[0]}) to {texts[1]} ({labels[1]})"
    )
