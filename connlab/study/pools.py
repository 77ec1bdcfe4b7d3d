"""Study 03: is a pool of threads slower than a thread for every request?

    Plan  -> grids for one sweep: bursts, pool sizes, spinning, thinking users
    frame -> what they published beside what is found here, at their time scale
          -> Little's law: how many workers were busy, there and here
          -> delay: mean and spread apart     -> best size: cores · (1 + wait / compute)
          -> response time against M/M/c      -> the answer in one sentence

Mao, Zhang and Lu let 256 to 1024 requests come at once, let each wait for 1 to 3 s
(or longer) and divided the requests by the time until the last answer. Here their
bursts are repeated at another time scale: delays are theirs times `Plan.time_scale`,
rates are printed times `time_scale`, so that they stand beside theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats as st

from connlab.study import figures, reporting
from connlab.study.cells import Compared, compare_cells, summarise
from connlab.study.drawing import Picture
from connlab.study.formatting import (
    aside,
    counted,
    listing,
    number_text,
    phrase,
    plus_minus,
)
from connlab.study.frames import usable
from connlab.study.interval import LEVEL, Interval, t_interval
from connlab.study.pools_delays import (  # noqa: F401 (the notebook asks for it here)
    delays,
    moved,
    spread,
)
from connlab.study.pools_plan import (
    CAP,
    DELAYS,
    IN_WORDS,
    STUDY,
    THREAD,
    Plan,
    burst,
    pool_of,
    prepare,
)
from connlab.study.pools_published import TESTS, scaled, styles, tests, theirs
from connlab.study.pools_steady import (  # noqa: F401 (the notebook asks for it here)
    against_law,
    best,
    law,
    queue,
    sizes,
    spinning,
)
from connlab.study.results import Results, start
from connlab.study.tables import Column, Table

NUMBER = 3
QUESTION = "Is a pool of threads slower than a thread for every request?"
FACTORS = ("part", "server", "connections", "delay", "buckets", "server_cores")


# ---- published and found -----------------------------------------------------


def cell(frame: pd.DataFrame, metric: str, server: str, at_once: int) -> Interval:
    """Return the interval of one server's bursts of so many requests."""
    mine = frame[(frame["server"] == server) & (frame["connections"] == at_once)]
    if metric not in mine:
        return t_interval([])
    return t_interval(usable(mine, metric)[metric])


def begin(
    frame: pd.DataFrame, plan: Plan, *, root: str | Path = "runs"
) -> tuple[pd.DataFrame, Results]:
    """Prepare the frame and begin the results, with the values that the text names."""
    made = prepare(frame, plan)
    results = start(made, number=NUMBER, question=QUESTION, factors=FACTORS, root=root)
    results.notes.append(_scale_note(plan))
    _values(results, made, plan)
    return made, results


def _scale_note(plan: Plan) -> str:
    return (
        f"delays are those of the report times {plan.time_scale:g}; rates beside the "
        f"published ones are multiplied by {plan.time_scale:g}"
    )


def _values(results: Results, frame: pd.DataFrame, plan: Plan) -> None:
    base = burst(frame, plan)
    for server in _servers(plan):
        name = "thread" if server == THREAD else server.replace("pool of ", "pool_")
        for kind, metric, unit in (
            ("rate", "their_rate", "requests/s"),
            ("busy", "busy_workers", "count"),
        ):
            _keep(
                results, f"{name}_{kind}", cell(base, metric, server, plan.many), unit
            )
    pool = theirs("requests", "pool", requests=1024)
    _keep(results, "published_pool_rate", pool, "requests/s")
    _keep(results, "published_pool_busy", pool.scaled(DELAYS["small"][0]), "count")
    large = theirs("delays", "pool", variation="large")
    if large.value:
        implied = t_interval(
            CAP / tests("delays", server="pool", variation="large")["value"]
        )
        _keep(results, "published_large_mean", implied, "s")


def _keep(results: Results, name: str, interval: Interval, unit: str) -> None:
    if interval.n:
        results.value(name, interval, unit)


def _servers(plan: Plan) -> list[str]:
    return [THREAD, *(pool_of(size) for size in plan.pools)]


# ---- their experiment ----------------------------------------------------------


def rates(results: Results, frame: pd.DataFrame, plan: Plan) -> Picture:
    """Draw rates and busy workers, published and found, a row per server."""
    base = burst(frame, plan)
    mine = base[
        (base["connections"] == plan.many) & base["server"].isin(_servers(plan))
    ]
    rows = tests("requests", requests=1024)
    printed = pd.DataFrame(
        {
            "server": "published " + rows["server"],
            "their_rate": rows["value"],
            "busy_workers": rows["value"] * DELAYS["small"][0],
            "ok": True,
            "reason": None,
            "label": None,
        }
    )
    columns = list(printed)
    both = pd.concat([mine[columns], printed], ignore_index=True)
    picture = figures.dots(
        both, ["their_rate", "busy_workers"], by="server", styles=styles(plan)
    )
    return results.figure(
        f"{STUDY}-rates",
        picture,
        caption=f"A burst of {counted(plan.many, 'request')} that wait for "
        f"{IN_WORDS['small']} each: "
        "answers per second until the last one, and the workers that they kept busy "
        f"(Little's law). {scaled(plan)} Published: five tests with "
        f"{counted(1024, 'request')}.",
    )


def reproduced(results: Results, frame: pd.DataFrame, plan: Plan) -> Table:
    """Tabulate every condition of theirs: published, and found here."""
    rows = [_reproduced(frame, plan, *condition) for condition in _conditions(plan)]
    heads = (
        Column("condition", "varied"),
        Column("thread_published", "thread, published", "/s"),
        Column("thread_here", "thread, here", "/s"),
        Column("pool_published", "“pool of 512”, published", "/s"),
        Column("pool_here", f"pool of {CAP}, here", "/s"),
    )
    notes = (
        f"Where requests are not varied, a thread per request gets {plan.many} at once "
        f"here, the pool {plan.few}; both got 1024 there.",
        f"Large delays here: {IN_WORDS['large']}; the report does not give them.",
    )
    return results.table(
        f"{STUDY}-reproduced",
        Table(heads, tuple(rows), notes),
        caption="Requests per second as published (mean of five tests) and as found "
        f"here with a pool of {CAP}. {scaled(plan)}",
    )


def _conditions(plan: Plan) -> list[tuple]:
    """Return (label, published table, its cell, burst, requests at once)."""
    found: list[tuple] = []
    for n in sorted({1, 2, 4, *plan.cores}):
        label = counted(n, "core")
        found.append((label, "cores", {"cores": n}, {"cores": n}, None))
    for n in sorted({256, 512, 768, 1024, *plan.at_once}):
        label = f"{counted(n, 'request')} at once"
        found.append((label, "requests", {"requests": n}, {}, n))
    for name in ("small", "large"):
        label = f"{name} delays"
        found.append((label, "delays", {"variation": name}, {"delay": name}, None))
    for n in sorted({32, 128, 512, 2048, *plan.buckets}):
        label = counted(n, "bucket")
        found.append((label, "buckets", {"buckets": n}, {"buckets": n}, None))
    return found


def _reproduced(frame, plan, label, table, there, here, at_once) -> tuple[str, ...]:
    mine = burst(frame, plan, **here)
    cells = [
        theirs(table, THREAD, **there),
        cell(mine, "their_rate", THREAD, at_once or plan.many),
        theirs(table, "pool", **there),
        cell(mine, "their_rate", pool_of(CAP), at_once or plan.few),
    ]
    return (label, *(plus_minus(i) if i.n else "—" for i in cells))


def requests(results: Results, frame: pd.DataFrame, plan: Plan) -> Picture:
    """Draw rates against requests at once, published and found."""
    base = burst(frame, plan)
    mine = base[base["server"].isin([THREAD, pool_of(CAP)])]
    table = summarise(mine, "their_rate", by=["server", "connections"])
    rows = [table]
    for server in TESTS.values():
        for n in (256, 512, 768, 1024):
            i = theirs("requests", server, requests=n)
            row = {"server": f"published {server}", "connections": n, **vars(i)}
            rows.append(pd.DataFrame([row]))
    picture = figures.curves_of(
        pd.concat(rows, ignore_index=True),
        label="requests per second",
        unit="",
        x="connections",
        by="server",
        styles=styles(plan),
        x_label="requests at once",
        log_y=True,
    )
    return results.figure(
        f"{STUDY}-requests",
        picture,
        caption="Bursts of more and more requests, each a connection of its own. "
        + scaled(plan),
    )


@dataclass(frozen=True)
class Straight:
    """Seconds until the last answer = each · requests + rest."""

    each: Interval
    rest: Interval


def straight(at_once: Sequence[float], seconds: Sequence[float]) -> Straight | None:
    """Fit a straight line to the time that bursts took; None below three sizes.

    A server that starts a request every `each` seconds ends a burst when the last one
    started has waited; what does not depend on the requests is `rest`.
    """
    x, y = np.asarray(at_once, dtype=float), np.asarray(seconds, dtype=float)
    if len(np.unique(x)) < 3:
        return None
    fit = st.linregress(x, y)
    t = st.t.ppf((1 + LEVEL) / 2, len(x) - 2)

    def interval(value, error):
        return Interval(
            value, value - t * error, value + t * error, len(x), LEVEL, "line"
        )

    return Straight(
        interval(fit.slope, fit.stderr), interval(fit.intercept, fit.intercept_stderr)
    )


def growth(results: Results, frame: pd.DataFrame, plan: Plan) -> str:
    """Say why a burst's rate grows with its size, there and here."""
    rows = tests("requests", server=THREAD)
    there = straight(rows["requests"], rows["requests"] / rows["value"])
    base = usable(burst(frame, plan), "their_rate")
    base = base[base["server"] == THREAD]
    here = straight(base["connections"], base["connections"] / base["their_rate"])
    said = []
    for name, where, found in (
        ("published", "in their table", there),
        ("", "here", here),
    ):
        if found is None:
            continue
        prefix = f"{name}_" if name else ""
        each = results.value(f"{prefix}each", found.each, "s")
        rest = results.value(f"{prefix}rest", found.rest, "s")
        said.append(f"{where} {each} for each request and {rest} besides")
    if not said:
        return "With fewer than three sizes of bursts their growth cannot be explained."
    return (
        "The time until the last answer is a straight line over the requests of a "
        f"burst: {listing(said)}, at the published time scale. What does not depend on "
        "the requests is the wait of the last ones; the more requests share it, the "
        "higher the rate comes out, up to one request per start."
    )


# ---- who was busy --------------------------------------------------------------


def compare(frame: pd.DataFrame, plan: Plan) -> list[Compared]:
    """Compare the pools with a thread per request, and with each other."""
    base = burst(frame, plan)
    base = base[base["server"].isin(_servers(plan))]
    within = ["connections"]
    found = compare_cells(
        base, "throughput_rps", baseline=THREAD, within=within, by="server"
    )
    return [c for c in found if c.where["connections"] == plan.many]


def words(results: Results, found: Sequence[Compared]) -> None:
    """Keep every comparing word: pool_16_thread, pool_512_thread …"""
    for one in found:
        name = f"{one.arm.replace(' of ', '_')}_thread"
        said = reporting.verdict(
            one,
            arm=f"A {one.arm}",
            base=f"a {THREAD}",
            question=f"Whether a {one.arm} or a {THREAD} is ahead",
            times="its throughput",
        )
        results.word(name, one, verdict=said)


def busy(frame: pd.DataFrame, plan: Plan) -> str:
    """Say how many workers were busy, by Little's law, in theirs and in ours."""
    there = theirs("requests", "pool", requests=1024).scaled(DELAYS["small"][0])
    said = [f"their “pool of 512” kept {number_text(there)} busy"]
    base = burst(frame, plan)
    for size in plan.pools:
        i = cell(base, "busy_workers", pool_of(size), plan.many)
        if i.n:
            said.append(f"a {pool_of(size)} here {number_text(i)}")
    return (
        "Busy workers are requests per second times the mean delay (Little's law). By "
        f"it {listing(said)}."
    )


def started(frame: pd.DataFrame) -> str:
    """Say whether every pool had the workers that it was asked for."""
    pools = frame[(frame["model"] == "pool") & frame["workers_started"].notna()]
    fewer = pools[pools["workers_started"] < pools["workers"]]
    if pools.empty:
        return "No pool said how many workers it started."
    if fewer.empty:
        return (
            f"In {counted(len(pools), 'trial')} every pool started as many workers as "
            "it was asked for: here a size is a size."
        )
    said = counted(len(pools), "trial")
    least = fewer.loc[(fewer["workers_started"] / fewer["workers"]).idxmin()]
    return (
        f"In {len(fewer)} of {said} a pool started fewer workers "
        f"than it was asked for ({least['workers_started']} of {least['workers']})."
    )


def mutex(frame: pd.DataFrame, plan: Plan) -> str:
    """Say whether locks explain the slow pool: a larger one has the same locks."""
    base = burst(frame, plan)
    base = base[base["connections"] == plan.many]
    pairs = compare_cells(
        base, "throughput_rps", baseline=pool_of(CAP), within=[], by="server"
    )
    pools = [c for c in pairs if c.arm != THREAD]
    if not pools:
        return "Only one size of pool was measured, so locks cannot be told from size."
    one = max(pools, key=lambda c: int(c.arm.rpartition(" ")[2]))
    ratio = one.comparison.ratio
    if ratio.lo > 1:
        times = phrase(ratio, "{} times its throughput")
        return (
            f"A {one.arm} takes its work from the same queue under the same lock as a "
            f"{pool_of(CAP)} and has {times}: it is not the lock that holds the small "
            "one back."
        )
    times = phrase(ratio, f"{{}} times the throughput of a {pool_of(CAP)}")
    return (
        f"A {one.arm} has {times}, so this run does not tell its locks from its size."
    )


# ---- the rest of theirs --------------------------------------------------------


def steadiness(frame: pd.DataFrame, plan: Plan) -> str:
    """Say how much trials scatter, relative to their mean."""
    base, said = usable(burst(frame, plan), "their_rate"), []
    for server in _servers(plan):
        x = base[(base["server"] == server) & (base["connections"] == plan.many)][
            "their_rate"
        ]
        if len(x) > 1:
            said.append(f"{x.std() / x.mean():.1%} of the mean for a {server}")
    if not said:
        return "There are too few trials to say how much they scatter."
    return f"From trial to trial the throughput of a burst scatters by {listing(said)}."


# ---- the answer ----------------------------------------------------------------


def answer(frame: pd.DataFrame, found: Sequence[Compared], plan: Plan) -> str:
    """Answer the question in one sentence: by the smallest, best and largest pool."""
    if not found:
        return (
            "This run cannot say: a pool or the thread per request has no usable trial."
        )
    by_size = sorted(found, key=lambda one: int(one.arm.rpartition(" ")[2]))
    low, high = by_size[0], by_size[-1]
    most = max(found, key=lambda one: one.comparison.ratio.value)
    grows = low.comparison.ratio.hi < high.comparison.ratio.lo
    lead = "It depends on its size" if grows else "Undecided"
    base = burst(frame, plan)
    said, times = [], "{} times the throughput of a thread per request"
    for one in by_size:
        if one in (low, most, high):
            busy_here = cell(base, "busy_workers", one.arm, plan.many)
            has = phrase(one.comparison.ratio, times)
            said.append(f"a {one.arm} has {has} {aside(busy_here, '{} workers busy')}")
            times = "{} times"
    there = theirs("requests", "pool", requests=1024).scaled(DELAYS["small"][0])
    return (
        f"{lead}: with {counted(plan.many, 'request')} at once {listing(said)}; the "
        f"published “pool of 512” kept {number_text(there)} busy."
    )
