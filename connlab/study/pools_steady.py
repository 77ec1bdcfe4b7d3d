"""Pools in steady state: how large is enough, and how far they are from M/M/c.

    sizes of the pool -> workers that sleep, workers that compute -> busy workers
                      -> throughput of about cores · (1 + wait / compute)
                         workers, beside the best                 -> the best size
                      -> the scalability law
    users who think   -> throughput and response time beside M/M/c's

Where sizes are compared, connections are kept and as many users ask as there are
workers: no worker rests, so what grows with the size is what its workers bring.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from connlab.study import figures, look, sizing
from connlab.study.cells import interval_of, summarise
from connlab.study.drawing import Picture
from connlab.study.formatting import counted, listing, phrase, plain, plus_minus
from connlab.study.frames import usable
from connlab.study.interval import LEVEL, t_interval
from connlab.study.pools_plan import STUDY, Plan
from connlab.study.queueing import finite_source
from connlab.study.results import Results
from connlab.study.scaling import MIN_LEVELS, usl_fit
from connlab.study.tables import Column, Table

# ---- how large -----------------------------------------------------------------


def sizes(results: Results, frame: pd.DataFrame, plan: Plan) -> Picture:
    """Draw busy workers against the size of the pool, sleeping and computing."""
    steady = frame[frame["part"].isin(list(_KINDS))]
    steady = steady.assign(kind=steady["part"].map(_KINDS))
    table = summarise(steady, "busy_workers", by=["kind", "workers"])
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
    """Say how many workers are predicted to be best, and what so many serve."""
    knee = sizing.knee(frame[frame["part"] == "size"])
    if knee is None:
        return "Too few sizes of the pool were measured to say how large is enough."
    predicted = results.value("best_predicted", knee.predicted, "count")
    said = (
        f"Cores · (1 + wait / compute) gives {predicted} workers, from the CPU time "
        "that small pools spend on a request"
    )
    results.value("best_reached", knee.reached, "1")
    best = counted(knee.best, "worker")
    served = phrase(knee.reached, f"{{}} times as much as the best, one of {best}")
    if knee.nearest == knee.best:
        served = "more than any other"
    share = f"{100 * sizing.NEARLY:.0f} % of the highest throughput"
    enough = f"the smallest that reaches {share} has {counted(knee.enough, 'worker')}"
    if not knee.ends:
        enough = f"throughput was still growing at {plain(knee.largest)}, the largest"
    return (
        f"{said}. The pool of {plain(knee.nearest)} is the nearest that was measured "
        f"and serves {served}; {enough}."
    )


def spinning(frame: pd.DataFrame, plan: Plan) -> str:
    """Say what more workers do where a request computes instead of waiting."""
    rows = frame[frame["part"] == "spin"]
    table = summarise(rows, "busy_workers", by=["workers"]) if len(rows) else rows
    table = table.dropna(subset=["value"]) if len(table) else table
    if not len(table):
        return "Pools whose workers compute were not measured."
    cores = counted(int(rows["server_cores"].iloc[0]), "core")
    said = [
        phrase(interval_of(r), f"{{}} with {counted(r['workers'], 'worker')}")
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
