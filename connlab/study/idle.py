"""Study 06: what does a connection cost that says nothing?

    frame -> CPU per request, throughput, memory against idle ones -> figures
          -> each model against itself without idle connections   -> ratios, words
          -> select, poll and epoll where nobody is idle          -> words
          -> the answer in one sentence                           -> results.json

A few connections talk all the time, in a closed loop; the others are open and silent.
A server that asks the kernel about all of them, again and again, pays for the silent
ones with every request. So the measure is CPU time per request, which can be compared
even where the client was the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from connlab.study import figures, look, reporting, tables
from connlab.study.cells import Compared
from connlab.study.costs import compare_costs
from connlab.study.drawing import Picture
from connlab.study.formatting import aside, counted, listing, plain
from connlab.study.results import Results, start
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
    reporting.keep_values(results, frame, VALUES, by=FACTORS)
    return results


# ---- figures and tables -------------------------------------------------------


def cost(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw CPU per request against idle connections."""
    picture = figures.curves(frame, COST, x="idle", x_label="idle connections")
    return results.figure(
        STUDY,
        picture,
        caption="CPU time of the server per request against idle connections, "
        f"{_active(frame)} active in a closed loop. "
        + reporting.read_as(frame, FACTORS),
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
        + reporting.read_as(frame, FACTORS),
    )


def holding(results: Results, frame: pd.DataFrame) -> Table:
    """Tabulate what the most idle connections that most models hold cost them."""
    n, at = reporting.at_common_level(frame, by="idle")
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
    reporting.keep_words(results, frame, found, verdict=verdict)


def verdict(one: Compared, names: Mapping[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    if "model" in one.where:
        who = names[one.where["model"]].label
        arm = f"a request to {who} with {plain(float(one.arm))} idle connections"
        base = f"one with {plain(float(one.baseline))}"
    else:
        arm, base = (names[name].label for name in (one.arm, one.baseline))
        base += f" with {plain(float(one.where['idle']))} idle connections"
    question = f"Whether {arm} costs more than {base}"
    return reporting.verdict(
        one, arm=arm, base=base, question=question, times="the CPU time"
    )


def ratios(
    results: Results, frame: pd.DataFrame, found: Sequence[Compared]
) -> Picture | None:
    """Draw how each model's cost grows; None where nothing compares."""
    most = reporting.at_most(found)
    if not most:
        return None
    fewest = plain(float(most[0].baseline))
    return reporting.ratios_to_itself(
        results,
        frame,
        most,
        name=f"{STUDY}-ratios",
        level=lambda one: float(one.arm),
        said=lambda idle: f"{plain(idle)} idle",
        x_label=f"CPU time per request / the same model's with {fewest} idle",
        caption="How many times as much CPU time a request takes while connections are "
        f"idle, against {fewest} idle ones, each model at the most that it held; "
        f"{reporting.PAIRED}; {reporting.CORRECTED}",
    )


# ---- findings -----------------------------------------------------------------


def grown(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Say which models pay for idle connections and which do not."""
    most = reporting.at_most(found)
    if not most:
        return "No model has usable trials both with and without idle connections."
    names = look.styles(frame)

    def said(word: str) -> list[str]:
        return [
            f"{names[one.where['model']].label} "
            + aside(one.comparison.ratio, f"with {plain(float(one.arm))}: × {{}}")
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
    n, at = reporting.at_common_level(frame, by="idle")
    if n == 0:
        return "Without idle connections nothing can be said of their memory."
    means = reporting.ranked(at, VALUES["memory"])
    if not means:
        return "No trial is usable, so nothing can be said of memory."
    text = f"With {counted(n, 'idle connection')} each connection costs the server "
    if len(means) == 1:
        return f"{text}memory: {means[0].label_first}."
    return (
        f"{text}the least memory in {means[0].label_first}, the most in "
        f"{means[-1].label_first}; its socket in the kernel is not counted in that."
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
    most = reporting.at_most(found)
    if not most:
        return "This run cannot say: no model has usable trials with idle connections."
    names = look.styles(frame)
    dear = [one for one in most if one.word == "dearer than"]
    flat = [one for one in most if one.word == "indistinguishable from"]
    tally = f"of {counted(len(most), 'model')} {len(dear)} pay CPU time for silence"
    tally += f" and {len(flat)} demonstrably do not" if flat else ""
    if not dear:
        return f"No CPU time that could be shown: {tally}."
    high = max(dear, key=lambda one: one.comparison.ratio.value)
    who = names[high.where["model"]].label
    silent = f"with {plain(float(high.arm))} idle connections"
    times = f"{{}} times the CPU time per request {silent}"
    text = f"{who} {aside(high.comparison.ratio, times)}"
    return f"It depends on the model: {tally}; the most is paid by {text}."
