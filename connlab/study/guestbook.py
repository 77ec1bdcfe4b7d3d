"""Study 04: does the way to wait matter when a database is asked?

    Plan  -> grids for one sweep: a connection per request, and connections kept
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from connlab import schema
from connlab.study import figures, frames, look, response_time, tables
from connlab.study.cells import Compared, compare_cells, interval_of, summarise
from connlab.study.cells import ratio_frame as ratios_of
from connlab.study.claims import published
from connlab.study.costs import compare_costs
from connlab.study.drawing import Picture
from connlab.study.formatting import (
    counted,
    display_unit,
    listing,
    number_text,
    plain,
)
from connlab.study.frames import usable
from connlab.study.interval import t_interval
from connlab.study.response_time import baseline_of, common_level, key
from connlab.study.results import Results, bare, start, value_of
from connlab.study.tables import Column, Table

STUDY = "guestbook"
NUMBER = 4
QUESTION = "Does the way to wait still matter when a database is asked?"
FACTORS = ("model", "connections", "way")

PUBLISHED = "hussain-throughput.csv"
THEIR_NAMES = {
    "iterative": "iterative",
    "forking": "fork",
    "preforked": "prefork",
    "threaded": "thread",
    "prethreaded": "prethread",
    "poll": "poll",
    "epoll": "epoll",
}
"""Columns of the published table, and the models that are their kin here."""

ANEW, KEPT = "a connection per request", "connections kept"

VALUES = {"rps": "throughput_rps", "cpu": "server_cpu_per_request_s"}
"""Values that the paper may name, as MODEL_KIND_CONNECTIONS, and their columns."""


# ---- what is measured ----------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What the study measures; `grids` are for one sweep.

    Attributes
    ----------
    models : sequence of connlab.schema.Model
        As `server --list` describes them.
    connections : sequence of int
        Clients at once, each request a connection of its own, as published.
    kept : sequence of int
        Clients at once that keep their connections.
    workers : int
        Of models whose workers hold a connection each; 0: as many as clients.
    """

    models: Sequence[schema.Model]
    connections: Sequence[int]
    kept: Sequence[int] = ()
    workers: int = 0

    def grids(self) -> list[dict[str, list]]:
        """Return the grids that `connlab.drive.sweep` joins into one sweep."""
        levels = sorted({*self.connections, *self.kept})
        anew = [self._grid(m, n, 1) for m in self.models for n in levels]
        many = [m for m in self.models if m.concurrent]
        return anew + [self._grid(m, n, 0) for m in many for n in self.kept]

    def _grid(self, model: schema.Model, clients: int, each: int) -> dict[str, list]:
        grid: dict[str, list] = {"model": [model.name], "connections": [clients]}
        if model.holds == "workers":
            grid["workers"] = [self.workers or clients]
        return {**grid, "requests_per_connection": [each]}


def chosen(models: Sequence[schema.Model], names: Sequence[str]) -> list[schema.Model]:
    """Return the models of these names, or all that are available; unknown ones stay.

    A name that the server does not know becomes a model of that name, so that the
    sweep refuses it and says what there is.
    """
    known = {model.name: model for model in models}
    if not names:
        return [model for model in models if model.available]
    return [known.get(n) or schema.Model(name=n, family="", label=n) for n in names]


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
    for kind, metric in VALUES.items():
        table = summarise(anew(made), metric, by=["model", "connections"])
        for _, row in table.dropna(subset=["value"]).iterrows():
            name = f"{key(row['model'])}_{kind}_{row['connections']}"
            unit = "s" if kind == "cpu" else "requests/s"
            results.value(name, interval_of(row), unit)
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
    trials = frame.groupby(list(FACTORS)).size()
    low, high = trials.min(), trials.max()
    count = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"Means over {count} trials per point with 95 % intervals; crosses mark cells "
        "without a usable trial."
    )


def _where(frame: pd.DataFrame) -> str:
    remarks = frame["remarks"].dropna()
    many = (
        f", {counted(int(remarks.iloc[0]), 'remark')} on a page" if len(remarks) else ""
    )
    return f"Redis runs on the same machine{many}."


def their_table() -> pd.DataFrame:
    """Return the published table, a row per model and level: connections, value."""
    wide = published(PUBLISHED)
    rows = wide.melt("concurrency", var_name="theirs", value_name="said")
    rows = rows.rename(columns={"concurrency": "connections"})
    rows["model"] = rows["theirs"].map(THEIR_NAMES)
    rows["value"] = pd.to_numeric(rows["said"], errors="coerce")
    rows["reason"] = rows["said"].where(rows["value"].isna()).str.replace("_", " ")
    return rows.dropna(subset=["said"])


@_picture
def as_published(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw the published table the same way."""
    rows = their_table().assign(lo=float("nan"), hi=float("nan"), n=1)
    styles = look.styles(
        rows.assign(family=rows["model"].map(_families(frame))),
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


def _families(frame: pd.DataFrame) -> dict[str, str]:
    rows = frame.dropna(subset=["family"]).groupby("model")["family"].first()
    return {str(k): str(v) for k, v in rows.items()}


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
        "request a connection of its own, with 95 % intervals over trials. A dash "
        "stands for a cell without a usable trial.",
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
    return wanted if frame.empty else baseline_of(anew(frame), wanted)


def words(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> None:
    """Keep every comparing word, as MODEL_BASELINE_CONNECTIONS."""
    if not found:
        return
    names = look.styles(frame)
    for one in found:
        n = one.where["connections"]
        name = f"{key(one.arm)}_{key(one.baseline)}_{n}"
        results.word(name, one, verdict=verdict(one, names))


def verdict(one: Compared, names: dict[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    arm, base = names[one.arm].label, names[one.baseline].label
    where = f"with {counted(one.where['connections'], 'client')}"
    ratio = number_text(one.comparison.ratio)
    if one.word == "undetermined":
        return f"Whether {arm} or {base} serves more {where} is undetermined ({ratio})."
    return f"{arm} is {one.word} {base} {where} ({ratio} times its throughput)."


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
    names = look.styles(frame)
    rows = ratios_of(found)
    rows["arm"] = rows["model"]
    order = [list(names).index(m) for m in rows["model"]]
    rows = rows.assign(order=order).sort_values(["order", "connections"])
    labels = [
        f"{names[r.model].label}, {counted(r.connections, 'client')}"
        for r in rows.itertuples()
    ]
    picture = figures.forest(
        rows.drop(columns="order"),
        labels=labels,
        x_label="throughput with connections kept / with one per request",
        styles=names,
    )
    return results.figure(
        f"{STUDY}-keeping",
        picture,
        caption="What it brings to keep connections: ratios of throughput, paired by "
        "block, with 95 % intervals. The band is ±5 %.",
    )


# ---- findings ------------------------------------------------------------------


@_sentence
def best(frame: pd.DataFrame) -> str:
    """Say the fewest and the most pages per second, where most models stand."""
    n = common_level(anew(frame))
    at = anew(frame)[anew(frame)["connections"] == n]
    rows = summarise(at, "throughput_rps", by=["model"]).dropna(subset=["value"])
    if len(rows) < 2:
        return "Too few servers have usable trials to compare their throughput."
    rows, names = rows.sort_values("value"), look.styles(frame)
    texts = [
        f"{value_of(interval_of(r), 'requests/s')['text']} ({names[r['model']].label})"
        for r in (rows.iloc[0], rows.iloc[-1])
    ]
    return f"With {counted(n, 'client')} throughput runs from {texts[0]} to {texts[1]}."


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


def reread() -> str:
    """Say what Little's law makes of the published table, without measuring."""
    rows = their_table().dropna(subset=["value"])
    rate = rows.set_index(["model", "connections"])["value"]
    clients, fast, slow = 20, rate["prethread", 20], rate["iterative", 20]
    return (
        f"In the published table {plain(clients)} clients get {plain(fast)} pages a "
        "second from prethreaded workers, so by Little's law a page took "
        f"{1000 * clients / fast:.1f} ms at most, waiting included. A server that "
        f"makes one such page at a time makes {plain(fast / clients)} a second at "
        f"least; theirs made {plain(slow)}, so something else than taking turns held "
        "it up."
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
            ratio = number_text(one.comparison.ratio)
            said.append(
                f"{names[model].label} with {plain(high)} clients takes {ratio} times "
                f"the CPU time for a page that it takes with {plain(low)}"
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


bottleneck = _sentence(response_time.bottleneck)


def answer(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Answer the question in one sentence, whatever was found."""
    if frame.empty:
        return frame.attrs["reason"]
    if not found:
        return "This run cannot say: fewer than two servers have usable trials."
    count = pd.Series([c.word for c in found]).value_counts()
    differ = sum(count.get(w, 0) for w in ("faster than", "slower than"))
    alike = int(count.get("indistinguishable from", 0))
    open_ = len(found) - differ - alike
    base = look.styles(frame)[found[0].baseline].label
    parts = [(differ, "differ"), (alike, "indistinguishable within ±5 %")]
    said = listing([f"{n} {w}" for n, w in [*parts, (open_, "undetermined")] if n])
    tally = f"of {counted(len(found), 'comparison')} with {base} {said}"
    lead = "Yes" if differ else "No, not here" if alike == len(found) else "Undecided"
    return f"{lead}: {_uncapital(best(frame)).rstrip('.')}; {tally}."


def _uncapital(text: str) -> str:
    return text[:1].lower() + text[1:]
