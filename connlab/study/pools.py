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
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as st

from connlab.study import figures, look, sizing
from connlab.study.cells import Compared, compare_cells, interval_of, ratio_frame
from connlab.study.cells import summarise as summarise_cells
from connlab.study.claims import published
from connlab.study.comparing import compare as compare_means
from connlab.study.drawing import Picture
from connlab.study.formatting import counted, listing, number_text, plain, plus_minus
from connlab.study.frames import usable
from connlab.study.interval import LEVEL, Interval, t_interval
from connlab.study.pools_plan import (
    CAP,
    DELAYS,
    IN_WORDS,
    THREAD,
    Plan,
    burst,
    pool_of,
    prepare,
)
from connlab.study.queueing import finite_source
from connlab.study.results import Results, start
from connlab.study.scaling import MIN_LEVELS, usl_fit
from connlab.study.tables import Column, Table

STUDY = "pools"
NUMBER = 3
QUESTION = "Is a pool of threads slower than a thread for every request?"
FACTORS = ("part", "server", "connections", "delay", "buckets", "server_cores")

_TESTS = {"thread_per_request": THREAD, "pool": "pool"}


# ---- published and found -----------------------------------------------------


def cell(frame: pd.DataFrame, metric: str, server: str, at_once: int) -> Interval:
    """Return the interval of one server's bursts of so many requests."""
    mine = frame[(frame["server"] == server) & (frame["connections"] == at_once)]
    if metric not in mine:
        return t_interval([])
    return t_interval(usable(mine, metric)[metric])


def tests(table: str, **where: Any) -> pd.DataFrame:
    """Return published trials: columns of the table, server, test and value."""
    found = published(f"mao-{table}.csv")
    found["server"] = found["model"].map(_TESTS)
    for column, level in where.items():
        found = found[found[column] == level]
    return found


def theirs(table: str, server: str, **where: Any) -> Interval:
    """Return the interval of a published cell, over its five tests."""
    found = tests(table, server=server, **where)
    return t_interval(found["value"])


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


def styles(plan: Plan) -> dict[str, look.Style]:
    """Return how the servers are drawn, the published ones in grey."""
    color = look.color("threads")
    found = {THREAD: look.Style(THREAD, color, "o")}
    pools = sorted({*plan.pools, *plan.sizes, *plan.spinning, plan.workers})
    for size, marker in zip(pools, "s^DvPX<>ph*o" * 9, strict=False):
        found[pool_of(size)] = look.Style(pool_of(size), color, marker)
    found |= {
        f"published {THREAD}": look.Style("published: thread", look.QUIET, "o"),
        "published pool": look.Style("published: “pool of 512”", look.QUIET, "s"),
    }
    return found


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
        f"(Little's law). {_scaled(plan)} Published: five tests with "
        f"{counted(1024, 'request')}.",
    )


def _scaled(plan: Plan) -> str:
    return (
        f"Measured at {plan.time_scale:g} of the published delays and printed at the "
        "published time scale; means with 95 % intervals over trials."
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
        f"here with a pool of {CAP}. {_scaled(plan)}",
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
    table = summarise_cells(mine, "their_rate", by=["server", "connections"])
    rows = [table]
    for server in _TESTS.values():
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
        + _scaled(plan),
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
        ratio = number_text(one.comparison.ratio)
        said = f"A {one.arm} is {one.word} a {THREAD} ({ratio} times its throughput)."
        if one.word == "undetermined":
            said = (
                f"Whether a {one.arm} or a {THREAD} is ahead is undetermined ({ratio})."
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
    times = number_text(one.comparison.ratio)
    return (
        f"A {one.arm} takes its work from the same queue under the same lock as a "
        f"{pool_of(CAP)} and has {times} times its throughput: it is not the lock that "
        "holds the small one back."
        if one.comparison.ratio.lo > 1
        else f"A {one.arm} has {times} times the throughput of a {pool_of(CAP)}, so "
        "this run does not tell its locks from its size."
    )


# ---- mean and spread -----------------------------------------------------------


@dataclass(frozen=True)
class Moved:
    """A delay against the small one, for one server."""

    server: str
    delay: str
    found: Any
    expected: float
    """Ratio that the means alone would give."""


def moved(frame: pd.DataFrame, plan: Plan) -> list[Moved]:
    """Compare the throughput under each delay with that under the small one."""
    found = []
    for server, n in ((THREAD, plan.many), (pool_of(CAP), plan.few)):
        rows = frame[(frame["server"] == server) & (frame["connections"] == n)]
        names = [name for name in DELAYS if name in ("small", *plan.delays)]
        parts = [burst(rows, plan, delay=name).assign(dist=name) for name in names]
        every = compare_cells(
            pd.concat(parts), "throughput_rps", baseline="small", within=[], by="dist"
        )
        for one in sorted(every, key=lambda c: names.index(c.arm)):
            expected = DELAYS["small"][0] / DELAYS[one.arm][0]
            found.append(Moved(server, one.arm, one, expected))
    return found


def _published_move(server: str) -> Any:
    rows = {v: tests("delays", server=server, variation=v) for v in ("large", "small")}
    values = [rows[v]["value"].to_numpy() for v in ("large", "small")]
    return compare_means(*values, better="higher", paired=False)


def delays(results: Results, frame: pd.DataFrame, plan: Plan) -> Picture | None:
    """Draw what each delay does to the throughput, published and found."""
    found = moved(frame, plan)
    if not found:
        return None
    rows, labels = ratio_frame([m.found for m in found]), []
    rows["arm"] = [m.server for m in found]
    labels = [f"{m.server}: {m.delay}, {IN_WORDS[m.delay]}" for m in found]
    for server, name in ((THREAD, THREAD), ("pool", "“pool of 512”")):
        c = _published_move(server)
        row = {"arm": f"published {server}", "value": c.ratio.value, "lo": c.ratio.lo}
        more = {"hi": c.ratio.hi, "n": c.ratio.n, "word": c.word}
        rows = pd.concat([rows, pd.DataFrame([row | more])], ignore_index=True)
        labels.append(f"published, {name}: large")
    picture = figures.forest(
        rows,
        labels=labels,
        x_label="throughput / that with small delays",
        styles=styles(plan),
    )
    return results.figure(
        f"{STUDY}-delays",
        picture,
        caption="What a delay does to the throughput of a burst, against small delays "
        f"({IN_WORDS['small']}): ratios with 95 % intervals. {_scaled(plan)} Large "
        "delays have another mean and another spread at once.",
    )


def spread(found: Sequence[Moved]) -> str:
    """Say what mean and spread do each for itself."""
    said = []
    for one in found:
        ratio = number_text(one.found.comparison.ratio)
        expected = plain(one.expected, digits=2)
        server = "a thread per request" if one.server == THREAD else f"a {one.server}"
        said.append(
            f"{one.delay} delays ({IN_WORDS[one.delay]}) give {server} {ratio} times "
            f"the throughput, where the mean alone would give {expected}"
        )
    if not said:
        return "Only one distribution of delays was measured."
    return (
        f"Against small delays, {'; '.join(said)}. In a burst the spread counts as far "
        "as the last answer is waited for; workers that never rest do not feel it."
    )


# ---- how large -----------------------------------------------------------------


def sizes(results: Results, frame: pd.DataFrame, plan: Plan) -> Picture:
    """Draw busy workers against the size of the pool, sleeping and computing."""
    steady = frame[frame["part"].isin(list(_KINDS))]
    steady = steady.assign(kind=steady["part"].map(_KINDS))
    table = summarise_cells(steady, "busy_workers", by=["kind", "workers"])
    levels = sorted(steady["workers"].unique())
    bound = pd.DataFrame({"kind": _ALL_BUSY, "workers": levels, "value": levels})
    bound = bound.assign(lo=levels, hi=levels, n=0, level=LEVEL, method="", note="")
    picture = figures.curves_of(
        pd.concat([table, bound.assign(reason=None)], ignore_index=True),
        label="busy workers",
        unit="count",
        x="workers",
        by="kind",
        styles=_kind_styles(),
        x_label="workers of the pool",
        log_y=True,
    )
    knee = sizing.knee(frame[frame["part"] == "size"])
    if knee is not None and knee.predicted.determined:
        _mark(picture, knee)
    return results.figure(
        f"{STUDY}-sizes",
        picture,
        caption=f"Busy workers (throughput times {plan.wait_ms:g} ms) against the size "
        "of the pool, as many users as workers, connections kept: means with 95 % "
        "intervals. The band is cores · (1 + wait / compute), from the CPU time of "
        "small pools.",
    )


_KINDS = {"size": "workers that sleep", "spin": "workers that compute"}
_ALL_BUSY = "all workers busy"


def _kind_styles() -> dict[str, look.Style]:
    sleep, spin = _KINDS.values()
    return {
        sleep: look.Style(sleep, look.color("threads"), "s"),
        spin: look.Style(spin, look.color("blocking"), "o"),
        _ALL_BUSY: look.Style(_ALL_BUSY, look.QUIET, ""),
    }


def _mark(picture: Picture, knee: sizing.Knee) -> None:
    with look.paper():
        ax = picture.figure.axes[0]
        i = knee.predicted
        ax.axvspan(max(i.lo, 0.1), i.hi, color=look.FAINT, alpha=0.6, linewidth=0)
        ax.axvline(i.value, color=look.QUIET, linewidth=1, linestyle=(0, (4, 2)))


def best(results: Results, frame: pd.DataFrame) -> str:
    """Say how many workers the highest throughput needs, and what was predicted."""
    knee = sizing.knee(frame[frame["part"] == "size"])
    if knee is None:
        return "Too few sizes of the pool were measured to say how large is enough."
    predicted = results.value("best_predicted", knee.predicted, "count")
    said = (
        f"Cores · (1 + wait / compute) gives {predicted} workers, from the CPU time "
        "that small pools spend on a request"
    )
    if not knee.ends:
        return f"{said}; throughput was still growing at {knee.enough}, the largest."
    found = results.value("best_found", knee.found, "count")
    ratio = number_text(knee.ratio)
    return (
        f"{said}. The highest throughput is that of {found} workers that never rest, "
        f"so the prediction is {ratio} times what is needed; measured pools come near "
        f"it from {counted(knee.enough, 'worker')} on."
    )


def spinning(frame: pd.DataFrame, plan: Plan) -> str:
    """Say what more workers do where a request computes instead of waiting."""
    rows = frame[frame["part"] == "spin"]
    table = summarise_cells(rows, "busy_workers", by=["workers"]) if len(rows) else rows
    table = table.dropna(subset=["value"]) if len(table) else table
    if not len(table):
        return "Pools whose workers compute were not measured."
    cores = counted(int(rows["server_cores"].iloc[0]), "core")
    said = [
        f"{number_text(interval_of(r))} with {counted(r['workers'], 'worker')}"
        for _, r in table.iterrows()
    ]
    return (
        f"Where {plan.wait_ms:g} ms of a request are computed, {cores} "
        f"can compute that many at a time whatever the size: {listing(said)} were "
        "computed at once on average."
    )


def law(results: Results, frame: pd.DataFrame) -> Picture | None:
    """Fit the scalability law to the sizes; None where it cannot be fitted."""
    good = usable(frame[frame["part"] == "size"], "throughput_rps")
    if good["workers"].nunique() < MIN_LEVELS:
        return None
    n, x = good["workers"].astype(float), good["throughput_rps"]
    fit = usl_fit(n, x, blocks=good["block"], relative=True, resamples=200)
    style = look.Style("thread pool", look.color("threads"), "s")
    picture = figures.scaling(
        {"pool": fit}, styles={"pool": style}, x_label="workers of the pool"
    )
    return results.figure(
        f"{STUDY}-law",
        picture,
        caption="The universal scalability law fitted to the sizes of the pool, trials "
        f"as points, residuals below: {fit.verdict}. Sleeping workers share nothing "
        "until the cores are full, which is a corner that the law rounds off.",
    )


# ---- against M/M/c -------------------------------------------------------------


def _queue_rows(frame: pd.DataFrame, plan: Plan) -> list[tuple[float, Any, dict]]:
    rows = []
    for load in plan.loads:
        think = plan.think_ms(load)
        mine = frame[
            (frame["part"] == "queue") & (frame["think"] == f"exponential:{think:.6g}")
        ]
        law = finite_source(
            population=plan.users,
            think=think / 1000,
            service=plan.service_ms / 1000,
            servers=plan.workers,
        )
        found = {
            m: t_interval(usable(mine, m)[m])
            for m in ("throughput_rps", "response_mean_s")
        }
        rows.append((load, law, found))
    return rows


def queue(results: Results, frame: pd.DataFrame, plan: Plan) -> Table:
    """Tabulate throughput and response time of the pool beside M/M/c's."""
    lines = []
    for load, law, found in _queue_rows(frame, plan):
        x, r = found["throughput_rps"], found["response_mean_s"].scaled(1000)
        lines.append(
            (
                plain(load, digits=2),
                f"{law.utilisation:.2f}",
                f"{law.throughput:.0f}",
                plus_minus(x) if x.n else "—",
                f"{1000 * law.response:.2f}",
                plus_minus(r) if r.n else "—",
            )
        )
    heads = (
        Column("load", "load"),
        Column("utilisation", "workers busy, M/M/c"),
        Column("x_law", "throughput, M/M/c", "/s"),
        Column("x_here", "throughput, here", "/s"),
        Column("r_law", "response, M/M/c", "ms"),
        Column("r_here", "response, here", "ms"),
    )
    return results.table(
        f"{STUDY}-queue",
        Table(heads, tuple(lines)),
        caption=f"A pool of {plan.workers} under {counted(plan.users, 'user')} who "
        "think for random (exponential) times and ask for random service of "
        f"{plan.service_ms:g} ms in the mean, each request a connection: M/M/c with a "
        "finite population, and the pool. Means with 95 % intervals over trials.",
    )


def against_law(frame: pd.DataFrame, plan: Plan) -> str:
    """Say how far the pool is from M/M/c, and on which side."""
    said, within = [], True
    for load, law, found in _queue_rows(frame, plan):
        r = found["response_mean_s"]
        if not r.n:
            continue
        more = r.scaled(1000).value - 1000 * law.response
        inside = r.determined and r.contains(law.response)
        within = within and inside
        side = "longer" if more > 0 else "shorter"
        said.append(f"{abs(more):.2g} ms {side} at a load of {plain(load, digits=2)}")
    if not said:
        return "The pool was not compared with M/M/c: no trial is usable."
    ending = (
        "every interval holds what the model says"
        if within
        else "not every interval holds what the model says, which knows of no time to "
        "connect, to wake a thread and to send an answer"
    )
    return f"Against M/M/c the response time is {listing(said)}; {ending}."


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
    """Answer the question in one sentence, whatever was found."""
    by_size = {int(c.arm.rpartition(" ")[2]): c for c in found}
    if not by_size:
        return (
            "This run cannot say: a pool or the thread per request has no usable trial."
        )
    base = burst(frame, plan)
    said = []
    for one in (by_size[size] for size in sorted(by_size)):
        busy_here = cell(base, "busy_workers", one.arm, plan.many)
        ratio = number_text(one.comparison.ratio)
        said.append(
            f"a {one.arm} has {ratio} times the throughput of a thread per request and "
            f"keeps {number_text(busy_here)} workers busy"
        )
    sizes_ = sorted(by_size)
    low, high = by_size[sizes_[0]], by_size[sizes_[-1]]
    grows = low.comparison.ratio.hi < high.comparison.ratio.lo
    there = theirs("requests", "pool", requests=1024).scaled(DELAYS["small"][0])
    lead = "It depends on its size" if grows and len(sizes_) > 1 else "Undecided"
    return (
        f"{lead}: with {counted(plan.many, 'request')} at once {listing(said)}; the "
        f"published “pool of 512” kept {number_text(there)} busy."
    )
