"""Study 04: does the way to wait matter when a database is asked?

    Plan  -> grids for one sweep (`connlab.study.guestbook_plan`)
    frame -> requests per second against clients, beside the published table
          -> each model against epoll, there and here   -> words
          -> CPU time per request, what Redis takes      -> findings
          -> the answer in one sentence                  -> results.json

Hussain serves a guestbook over HTTP in seven ways. Each page takes a trip to Redis, so
every model waits twice: for its client and for the database. Where Redis is not
installed nothing is measured, and the results say so.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from connlab.study import figures, frames, look, reporting, tables
from connlab.study.cells import Compared, compare_cells
from connlab.study.costs import compare_costs
from connlab.study.drawing import Picture
from connlab.study.formatting import (
    counted,
    display_unit,
    listing,
    number_text,
    phrase,
    plain,
)
from connlab.study.frames import usable
from connlab.study.guestbook_plan import (  # noqa: F401 (the notebook asks for it here)
    Plan,
    chosen,
)
from connlab.study.guestbook_published import (  # noqa: F401 (the same)
    THEIR_NAMES,
    reread,
    their_table,
)
from connlab.study.interval import t_interval
from connlab.study.results import Results, bare, start, value_of
from connlab.study.tables import Column, Table

STUDY = "guestbook"
NUMBER = 4
QUESTION = "Does the way to wait still matter when a database is asked?"
FACTORS = ("model", "connections", "way")

ANEW, KEPT = "a connection per request", "connections kept"

VALUES = {"rps": "throughput_rps", "cpu": "server_cpu_per_request_s"}
"""Values that the paper may name, as MODEL_KIND_CONNECTIONS, and their columns."""


# ---- frames --------------------------------------------------------------------


def begin(
    run: str,
    *,
    reason: str | None = None,
    accept: Sequence[str] = (),
    root: str | Path = "runs",
) -> tuple[pd.DataFrame, Results]:
    """Load the trials and begin the results, with every value by name.

    Parameters
    ----------
    run : str
        Name of the run.
    reason : str, optional
        Why nothing could be measured, if so. Trials from before still count.
    accept, root
        As in `connlab.study.load`.

    Returns
    -------
    frame : DataFrame
        With a column way (a connection per request, or connections kept); empty,
        with the reason in its ``attrs``, when there is none.
    results : Results
    """
    try:
        frame = frames.load(run, STUDY, root=root, accept=accept)
    except frames.RunError:
        if reason is None:
            raise
        return _nothing(run, reason, root)
    each = frame["requests_per_connection"].fillna(0)
    made = frame.assign(way=each.eq(1).map({True: ANEW, False: KEPT}))
    made.attrs = frame.attrs
    results = start(made, number=NUMBER, question=QUESTION, factors=FACTORS, root=root)
    by = ("model", "connections")
    reporting.keep_values(results, anew(made), VALUES, by=by)
    return made, results


def _nothing(run: str, reason: str, root) -> tuple[pd.DataFrame, Results]:
    results = bare(STUDY, run=run, number=NUMBER, question=QUESTION, root=root)
    text = f"Not measured here: {reason}."
    results.notes.append(text)
    frame = pd.DataFrame()
    frame.attrs = {"reason": text}
    warnings.warn(text, frames.RunWarning, stacklevel=3)
    return frame, results


def anew(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with a connection per request."""
    return frame[frame["way"] == ANEW]


def _picture(make: Callable) -> Callable:
    """Return None in place of a figure or table where nothing was measured."""

    @functools.wraps(make)
    def made(results: Results, frame: pd.DataFrame, *more, **options) -> Any:
        return None if frame.empty else make(results, frame, *more, **options)

    return made


def _sentence(say: Callable[..., str]) -> Callable[..., str]:
    """Say why nothing was measured, where it was not."""

    @functools.wraps(say)
    def said(frame: pd.DataFrame, *more) -> str:
        return frame.attrs["reason"] if frame.empty else say(frame, *more)

    return said


# ---- figures and tables --------------------------------------------------------


@_picture
def throughput(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw requests per second against clients, a connection per request."""
    picture = figures.curves(
        anew(frame), "throughput_rps", x_label="clients at once", log_y=True
    )
    return results.figure(
        STUDY,
        picture,
        caption="Pages of the guestbook per second against clients, closed loop, each "
        f"request a connection of its own. {_read_as(frame)} {_where(frame)}",
    )


def _read_as(frame: pd.DataFrame) -> str:
    return reporting.read_as(frame, FACTORS)


def _where(frame: pd.DataFrame) -> str:
    remarks = frame["remarks"].dropna()
    many = (
        f", {counted(int(remarks.iloc[0]), 'remark')} on a page" if len(remarks) else ""
    )
    return f"Redis runs on the same machine{many}."


@_picture
def as_published(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw the published table the same way."""
    rows = their_table().assign(lo=float("nan"), hi=float("nan"), n=1)
    styles = look.styles(
        rows.assign(family=rows["model"].map(look.families(frame))),
        registry=frame.attrs.get("registry") or (),
    )
    picture = figures.curves_of(
        rows,
        label="throughput",
        unit="requests/s",
        x="connections",
        by="model",
        styles=styles,
        x_label="clients at once",
        log_y=True,
        panels=False,
    )
    return results.figure(
        f"{STUDY}-published",
        picture,
        caption="The same as Hussain printed it: one number a cell, so no "
        "intervals; crosses mark where it says that they varied widely.",
    )


@_picture
def table(results: Results, frame: pd.DataFrame) -> Table:
    """Tabulate requests per second by model and clients, at some of the levels."""
    names = look.styles(frame)
    rows = anew(frame)[anew(frame)["connections"].isin(some_levels(frame))]
    rows = rows.assign(server=rows["model"].map(lambda m: names[m].label))
    rows.attrs = frame.attrs
    made = tables.grid(rows, "throughput_rps", rows="server", columns="connections")
    return results.table(
        STUDY,
        made,
        caption="Pages of the guestbook per second by model and clients at once, each "
        "request a connection of its own, " + reporting.OVER_TRIALS,
    )


MOST_COLUMNS = 6
"""More levels than this do not fit across a page; these are spread over all."""


def some_levels(frame: pd.DataFrame) -> list[int]:
    """Return the levels of clients, or some that are spread over them."""
    levels = sorted(int(n) for n in anew(frame)["connections"].unique())
    if len(levels) <= MOST_COLUMNS:
        return levels
    step = (len(levels) - 1) / (MOST_COLUMNS - 1)
    return [levels[round(k * step)] for k in range(MOST_COLUMNS)]


@_picture
def cost(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw CPU time per request against clients."""
    picture = figures.curves(
        anew(frame), "server_cpu_per_request_s", x_label="clients at once"
    )
    return results.figure(
        f"{STUDY}-cpu",
        picture,
        caption="CPU time of the server for a page (without that of Redis) against "
        f"clients, each request a connection of its own. {_read_as(frame)}",
    )


# ---- comparisons ---------------------------------------------------------------


def compare(frame: pd.DataFrame, *, baseline: str) -> list[Compared]:
    """Compare throughputs with that of `baseline`, level by level (Holm)."""
    if frame.empty:
        return []
    return compare_cells(
        anew(frame), "throughput_rps", baseline=baseline, within=["connections"]
    )


def baseline(frame: pd.DataFrame, wanted: str) -> str:
    """Return `wanted` if it was measured, else the model with most usable trials."""
    return wanted if frame.empty else reporting.baseline_of(anew(frame), wanted)


def words(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> None:
    """Keep every comparing word, as MODEL_BASELINE_CONNECTIONS."""
    reporting.keep_words(results, frame, found, verdict=verdict)


def verdict(one: Compared, names: Mapping[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    return reporting.verdict_of_models(
        one,
        names,
        does="serves more",
        times="its throughput",
        where=f"with {counted(one.where['connections'], 'client')}",
    )


@_picture
def against(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> Table:
    """Tabulate each model's throughput over the baseline's, published and here."""
    names = look.styles(frame)
    printed = their_table().dropna(subset=["value"])
    values = printed.set_index(["model", "connections"])["value"].to_dict()
    lines, levels = [], some_levels(frame)
    kin = [c for c in found if c.arm in THEIR_NAMES.values() and _clients(c) in levels]
    for one in sorted(kin, key=lambda c: (list(names).index(c.arm), _clients(c))):
        n = _clients(one)
        there = values.get((one.arm, n)), values.get((one.baseline, n))
        ratio = f"{there[0] / there[1]:.2g}" if all(there) else tables.GAP
        mine = number_text(one.comparison.ratio)
        lines.append((names[one.arm].label, plain(n), ratio, mine, one.word))
    base = names[found[0].baseline].label if found else "the baseline"
    heads = (
        Column("model", "model"),
        Column("clients", "clients"),
        Column("published", "published"),
        Column("here", "here"),
        Column("word", f"so it is … {base}"),
    )
    return results.table(
        f"{STUDY}-ratios",
        Table(heads, tuple(lines)),
        caption=f"Throughput over that of {base}, as published and as found, with 95 % "
        "intervals, paired by block, for the models that were published; words are "
        "corrected for their number (Holm).",
    )


def _clients(one: Compared) -> int:
    return int(one.where["connections"])


def ways(frame: pd.DataFrame) -> list[Compared]:
    """Compare kept connections with a connection per request, model by model."""
    if frame.empty:
        return []
    both = frame.groupby(["model", "connections"])["way"].transform("nunique") == 2
    return compare_cells(
        frame[both],
        "throughput_rps",
        baseline=ANEW,
        within=["model", "connections"],
        by="way",
    )


@_picture
def keeping(
    results: Results, frame: pd.DataFrame, found: Sequence[Compared]
) -> Picture | None:
    """Draw what keeping connections brings; None where it was not measured."""
    if not found:
        return None
    return reporting.ratios_to_itself(
        results,
        frame,
        found,
        name=f"{STUDY}-keeping",
        level=_clients,
        said=lambda clients: counted(clients, "client"),
        x_label="throughput with connections kept / with one per request",
        caption="What it brings to keep connections: ratios of throughput, "
        f"{reporting.PAIRED}.",
    )


# ---- findings ------------------------------------------------------------------


@_sentence
def best(frame: pd.DataFrame) -> str:
    """Say the fewest and the most pages per second, where most models stand."""
    n, at = reporting.at_common_level(anew(frame))
    means = reporting.ranked(at, "throughput_rps")
    if len(means) < 2:
        return "Too few servers have usable trials to compare their throughput."
    those = reporting.that_rank(at, "throughput_rps")
    return (
        f"With {counted(n, 'client')} throughput{those} runs from "
        f"{means[0].label_last} to {means[-1].label_last}."
    )


@_sentence
def falls(frame: pd.DataFrame) -> str:
    """Say which models serve less with the most clients than at their best."""
    names, said = look.styles(frame), []
    for model, rows in anew(frame).groupby("model"):
        means = usable(rows, "throughput_rps").groupby("connections")["throughput_rps"]
        means = means.mean().sort_index()
        if len(means) < 2:
            continue
        top, last = int(means.idxmax()), int(means.index[-1])
        found = [] if top == last else _level_against(rows, last, top)
        if found and found[0].word == "slower than":
            ratio = number_text(found[0].comparison.ratio)
            said.append(
                f"{names[str(model)].label} with {plain(last)} of them serves {ratio} "
                f"times what it serves with {plain(top)}"
            )
    if not said:
        return "No server is shown to fall as clients are added, up to the most tried."
    return f"As clients are added, {listing(said)}; the others are not shown to fall."


def _level_against(rows: pd.DataFrame, level: int, other: int) -> list[Compared]:
    at = rows[rows["connections"].isin([level, other])]
    return compare_cells(
        at, "throughput_rps", baseline=other, within=[], by="connections"
    )


@_sentence
def scan(frame: pd.DataFrame) -> str:
    """Say whether CPU time per request grows with clients for poll and for epoll."""
    names, said = look.styles(frame), []
    for model in ("poll", "epoll"):
        rows = anew(frame)[anew(frame)["model"] == model]
        levels = sorted(usable(rows, VALUES["cpu"])["connections"].unique())
        if len(levels) < 2:
            continue
        low, high = int(levels[0]), int(levels[-1])
        found = compare_costs(
            rows, VALUES["cpu"], baseline=low, within=[], by="connections"
        )
        one = next((c for c in found if int(c.arm) == high), None)
        if one is not None:
            times = "{} times the CPU time for a page that it takes with " + plain(low)
            said.append(
                f"{names[model].label} with {plain(high)} clients takes "
                + phrase(one.comparison.ratio, times)
            )
    if not said:
        return "The cost of looking through the list of clients was not measured."
    return (
        f"{listing(said)}. What poll pays for each client whenever it waits is shared "
        "by all that are ready at once, and in a closed loop that is many."
    )


@_sentence
def redis(frame: pd.DataFrame) -> str:
    """Say what Redis takes of a page, beside what the server takes."""
    good = usable(frame, "companion_cpu_s", "throughput_rps", VALUES["cpu"])
    if good.empty:
        return "What Redis takes was not seen."
    pages = good["throughput_rps"] * good["window_s"]
    each = t_interval(good["companion_cpu_s"] / pages)
    server = good.groupby("model")[VALUES["cpu"]].mean()
    factor, unit = display_unit("s", [server.min()])
    low, high = (plain(v * factor, digits=2) for v in (server.min(), server.max()))
    text = value_of(each, "s")["text"]
    return (
        f"Redis takes {text} of CPU time for a page, the servers between {low} and "
        f"{high} {unit} in the mean."
    )


bottleneck = _sentence(reporting.bottleneck)


def answer(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Answer the question in one sentence, whatever was found."""
    if frame.empty:
        return frame.attrs["reason"]
    if not found:
        return reporting.TOO_FEW
    head, tally = reporting.lead(found), reporting.tally(frame, found)
    return f"{head}: {_uncapital(best(frame)).rstrip('.')}; {tally}."


def _uncapital(text: str) -> str:
    return text[:1].lower() + text[1:]
