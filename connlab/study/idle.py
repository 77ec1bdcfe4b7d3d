"""Study 06: what does a connection cost that says nothing?

    frame -> CPU per request, throughput, memory against idle ones -> figures
          -> each model against itself without idle connections   -> ratios, words
          -> select, poll and epoll where nobody is idle          -> words
          -> the answer in one sentence                           -> results.json

A few connections talk all the time, in a closed loop; the others are open and silent.
A server that asks the kernel about all of them, again and again, pays for the silent
ones with every request. So the measure is CPU time per request: it does not depend on
how fast the client is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from connlab.study import figures, look, tables
from connlab.study.cells import Compared, interval_of, ratio_frame, summarise
from connlab.study.costs import compare_costs
from connlab.study.drawing import Picture
from connlab.study.formatting import counted, listing, number_text, plain
from connlab.study.frames import usable
from connlab.study.metrics import metric as metric_of
from connlab.study.response_time import key
from connlab.study.results import Results, start, value_of
from connlab.study.tables import Table

STUDY = "idle"
NUMBER = 6
QUESTION = "What does a connection cost that says nothing?"
FACTORS = ("model", "idle")
COST = "server_cpu_per_request_s"
HOLDS = ("descriptors", "fd_setsize", "threads")
"""Models that suit: they hold a connection without a process or a fixed worker for
it (``holds`` in ``server --list``)."""

VALUES = {
    "cpu": COST,
    "rps": "throughput_rps",
    "memory": "pss_per_connection_bytes",
}
"""Values that the paper may name, as MODEL_KIND_IDLE, and their columns."""


def with_idle(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with a column `idle`: connections that never talk."""
    made = frame.assign(idle=frame["connections"] - frame["active"])
    made.attrs = frame.attrs
    return made


def begin(frame: pd.DataFrame, *, root: str | Path = "runs") -> Results:
    """Begin the results: what was varied, counted, left out; every value by name."""
    results = start(frame, number=NUMBER, question=QUESTION, factors=FACTORS, root=root)
    for kind, metric in VALUES.items():
        table = summarise(frame, metric, by=FACTORS).dropna(subset=["value"])
        for _, row in table.iterrows():
            name = f"{key(row['model'])}_{kind}_{row['idle']}"
            results.value(name, interval_of(row), metric_of(metric).unit)
    return results


# ---- figures and tables -------------------------------------------------------


def cost(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw CPU per request against idle connections."""
    picture = figures.curves(frame, COST, x="idle", x_label="idle connections")
    return results.figure(
        STUDY,
        picture,
        caption="CPU time of the server per request against idle connections, "
        f"{_active(frame)} active in a closed loop. " + _read_as(frame),
    )


def throughput(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw throughput against idle connections."""
    picture = figures.curves(
        frame, "throughput_rps", x="idle", x_label="idle connections", log_y=False
    )
    return results.figure(
        f"{STUDY}-throughput",
        picture,
        caption="Throughput of the active connections against idle ones. "
        + _read_as(frame),
    )


def holding(results: Results, frame: pd.DataFrame) -> Table:
    """Tabulate what the most idle connections that most models hold cost them."""
    n = common_level(frame)
    at = frame[frame["idle"] == n]
    metrics = ["pss_net_bytes", "pss_per_connection_bytes", "threads_max", COST]
    made = tables.per_model(at, metrics)
    return results.table(
        f"{STUDY}-holding",
        made,
        caption=f"What {counted(n, 'idle connection')} cost: memory and threads of the "
        "server, and CPU time per request of the active ones; means with 95 % "
        "intervals.",
    )


def _active(frame: pd.DataFrame) -> str:
    return listing([plain(float(n)) for n in sorted(frame["active"].unique())])


def _read_as(frame: pd.DataFrame) -> str:
    trials = frame.groupby(list(FACTORS)).size()
    low, high = trials.min(), trials.max()
    count = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"Means over {count} trials per point with 95 % intervals; crosses mark cells "
        "without a usable trial."
    )


def common_level(frame: pd.DataFrame) -> int:
    """Return the most idle connections at which most models have a usable trial."""
    held = usable(frame).groupby("idle")["model"].nunique()
    if held.empty:
        return int(frame["idle"].max())
    return int(held[held == held.max()].index.max())


# ---- comparisons --------------------------------------------------------------


def growth(frame: pd.DataFrame) -> list[Compared]:
    """Compare each model's cost with its own at the fewest idle connections."""
    fewest = frame["idle"].min()
    return compare_costs(frame, COST, baseline=fewest, within=["model"], by="idle")


def models_alike(frame: pd.DataFrame, *, baseline: str) -> list[Compared]:
    """Compare the models' costs with that of `baseline`, level by level."""
    return compare_costs(frame, COST, baseline=baseline, within=["idle"])


def words(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> None:
    """Keep every comparing word, as MODEL_BASELINE_IDLE or MODEL_IDLE_BASELINE."""
    names = look.styles(frame)
    for one in found:
        where = "_".join(key(str(v)) for v in one.where.values())
        parts = [key(one.arm), key(one.baseline)]
        grown = "model" in one.where
        name = "_".join([where, *parts] if grown else [*parts, where])
        results.word(name, one, verdict=verdict(one, names))


def verdict(one: Compared, names: dict[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    ratio = number_text(one.comparison.ratio)
    if "model" in one.where:
        who = names[one.where["model"]].label
        arm = f"a request to {who} with {plain(float(one.arm))} idle connections"
        base = f"one with {plain(float(one.baseline))}"
    else:
        arm, base = (names[name].label for name in (one.arm, one.baseline))
        base += f" with {plain(float(one.where['idle']))} idle connections"
    if one.word == "undetermined":
        return f"Whether {arm} costs more than {base} is undetermined ({ratio})."
    return f"{arm} is {one.word} {base} ({ratio} times the CPU time)."


def ratios(
    results: Results, frame: pd.DataFrame, found: Sequence[Compared]
) -> Picture | None:
    """Draw how each model's cost grows; None where nothing compares."""
    most = _at_most(found)
    if not most:
        return None
    styles = look.styles(frame)
    most.sort(key=lambda one: list(styles).index(one.where["model"]))
    rows = ratio_frame(most)
    labels = [
        f"{styles[r.model].label}, {plain(float(r.arm))} idle"
        for r in rows.itertuples()
    ]
    rows = rows.assign(arm=rows["model"])
    fewest = plain(float(most[0].baseline))
    picture = figures.forest(
        rows,
        labels=labels,
        x_label=f"CPU time per request / the same model's with {fewest} idle",
        styles=styles,
    )
    return results.figure(
        f"{STUDY}-ratios",
        picture,
        caption="How many times as much CPU time a request takes while connections are "
        f"idle, against {fewest} idle ones, each model at the most that it held; "
        "paired by block, with 95 % intervals. The band is ±5 %; words are corrected "
        "for their number (Holm).",
    )


def _at_most(found: Sequence[Compared]) -> list[Compared]:
    """Return each model's comparison at its most idle connections."""
    last: dict[str, Compared] = {}
    for one in found:
        model = one.where["model"]
        if model not in last or int(one.arm) > int(last[model].arm):
            last[model] = one
    return list(last.values())


# ---- findings -----------------------------------------------------------------


def grown(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Say which models pay for idle connections and which do not."""
    most = _at_most(found)
    if not most:
        return "No model has usable trials both with and without idle connections."
    names = look.styles(frame)

    def said(word: str) -> list[str]:
        return [
            f"{names[one.where['model']].label} (with {plain(float(one.arm))}: "
            f"× {number_text(one.comparison.ratio)})"
            for one in most
            if one.word == word
        ]

    parts = [
        ("dearer than", "With idle connections a request takes more CPU time of "),
        ("indistinguishable from", "It is shown to take as much, within ±5 %, of "),
        ("cheaper than", "It takes less of "),
        ("undetermined", "Nothing can be told of "),
    ]
    return " ".join(f"{head}{listing(said(w))}." for w, head in parts if said(w))


def memory(frame: pd.DataFrame) -> str:
    """Say what an idle connection costs in memory, from the least to the most."""
    n = common_level(frame)
    if n == 0:
        return "Without idle connections nothing can be said of their memory."
    at = frame[frame["idle"] == n]
    rows = summarise(at, "pss_per_connection_bytes", by=["model"])
    rows = rows.dropna(subset=["value"]).sort_values("value")
    if rows.empty:
        return "No trial is usable, so nothing can be said of memory."
    names = look.styles(frame)

    def show(row):
        text = value_of(interval_of(row), "bytes")["text"]
        return f"{names[str(row['model'])].label} with {text}"

    text = f"With {counted(n, 'idle connection')} each connection costs the server "
    if len(rows) == 1:
        return f"{text}memory: {show(rows.iloc[0])}."
    return (
        f"{text}the least memory in {show(rows.iloc[0])}, the most in "
        f"{show(rows.iloc[-1])}; its socket in the kernel is not counted in that."
    )


def start_alike(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Say how the models compare where the fewest connections are idle."""
    fewest = frame["idle"].min()
    here = [one for one in found if one.where.get("idle") == fewest]
    where = f"With {counted(fewest, 'idle connection')}"
    if not here:
        return f"{where} too few models were measured to compare."
    names = look.styles(frame)
    base = names[here[0].baseline].label
    parts = []
    for word in ("indistinguishable from", "cheaper than", "dearer than"):
        said = [names[one.arm].label for one in here if one.word == word]
        parts += [f"{listing(said)} {_is(said)} {word} {base}"] if said else []
    open_ = [names[one.arm].label for one in here if one.word == "undetermined"]
    parts += [f"{listing(open_)} {_is(open_)} undetermined"] if open_ else []
    return f"{where}, in CPU time per request: {'; '.join(parts)}."


def _is(said: Sequence[str]) -> str:
    return "is" if len(said) == 1 else "are"


def answer(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Answer the question in one sentence, from each model's growth."""
    most = _at_most(found)
    if not most:
        return "This run cannot say: no model has usable trials with idle connections."
    names = look.styles(frame)
    high = max(most, key=lambda one: one.comparison.ratio.value)
    dear = [one for one in most if one.word == "dearer than"]
    flat = [one for one in most if one.word == "indistinguishable from"]
    tally = f"of {counted(len(most), 'model')} {len(dear)} pay CPU time for silence"
    tally += f" and {len(flat)} demonstrably do not" if flat else ""
    if not dear:
        return f"No CPU time that could be shown: {tally}."
    text = f"{names[high.where['model']].label}"
    text += f" ({number_text(high.comparison.ratio)} times the CPU time per request"
    text += f" with {plain(float(high.arm))} idle connections)"
    return f"It depends on the model: {tally}; the most is paid by {text}."
