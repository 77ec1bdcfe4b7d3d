"""What was measured, as tables in a terminal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from connlab.bench.apart import CALLS_CONNECTIONS, Calls, Memory
from connlab.bench.clients import OURS, PEERS, Spent
from connlab.bench.generator import LAG_CONNECTIONS, LAG_RATE, Cost, Found, Lag
from connlab.bench.plan import BASE, FLOOR, PAGE_BYTES, Arm, Plan, arms, lesson_arms
from connlab.bench.targets import (
    CLIENT_COST,
    PER_CPU,
    RATE,
    SERVER_COST,
    Verdict,
    mean,
    ratio,
)
from connlab.bench.windows import Window
from connlab.study.interval import Interval, t_interval

NOTHING = "–"
WIDTH = 120
#: from so many cores on, others disturb what is measured
BUSY_CORES = 0.05
#: from here on a figure needs no digits behind the point
ROUND_FROM = 100


def show(
    plan: Plan,
    windows: Sequence[Window],
    memory: Sequence[Memory],
    calls: Sequence[Calls],
    verdicts: Sequence[Verdict],
    *,
    clients: Sequence[Spent] = (),
    own: Found | None = None,
) -> None:
    """Print a table per workload and width, then what was measured apart, targets."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    known = arms(plan)
    taught = lesson_arms(plan)
    for workload, count in dict.fromkeys((a.workload, a.connections) for a in known):
        title = (
            f"{workload}, {count} connections, means over rounds with 95 % intervals"
        )
        _print(console, title, _windows(windows, known, workload, count))
    if taught:
        title = f"lessons beside models, echo, {min(plan.connections)} connections"
        _print(console, f"{title}: CPU per request", _lessons(windows, taught))
    if memory:
        title = "memory of the server's processes per idle connection (PSS)"
        _print(console, title, _memory(memory))
    if calls:
        title = f"calls per echo request, {CALLS_CONNECTIONS} connections, traced"
        _print(console, f"system {title}", _calls(calls))
    if clients:
        asked = (
            f"http page of {PAGE_BYTES:,} bytes, {min(plan.connections)} connections"
        )
        title = f"load generators, {asked} kept alive, {BASE}: cost per request"
        _print(console, title, _clients(clients))
    if own and own.cost:
        title = f"client and {BASE} on one core, echo: CPU time of a request"
        _print(console, title, _cost(own.cost))
    if own and own.lag:
        asked = f"{LAG_RATE:,} echo requests/s, {LAG_CONNECTIONS} connections"
        title = f"how late requests leave (lag), open loop of {asked}, {BASE}"
        _print(console, title, _lag(own.lag))
    _print(console, "targets", _verdicts(verdicts))
    if note := noise_note(windows):
        console.print(f"\n{note}")


def noise_note(windows: Sequence[Window]) -> str | None:
    """Return a warning when others used the machine while windows were measured."""
    shares = [w.others_share for w in windows if w.others_share is not None]
    if not shares or median(shares) < BUSY_CORES:
        return None
    return (
        f"warning: others kept {median(shares):.2f} cores busy in the median window; "
        "ratios are wider and floors lower than on a quiet machine"
    )


def _print(console: Console, title: str, table: Table) -> None:
    console.print(f"\n[bold]{title}[/bold]")
    console.print(table)


def _table(*columns: str, notes: bool = False) -> Table:
    """Return a table of numbers; where it has notes, they make way for numbers."""
    table = Table(box=None, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left", no_wrap=notes)
    if notes:
        table.add_column("", overflow="fold")
    return table


def interval_text(found: Interval | None, *, digits: int = 2, scale: float = 1) -> str:
    """Return ``1.03 [1.01, 1.05]``, or the bare value when bounds are not known."""
    if found is None:
        return NOTHING
    bounds = (found.value, found.lo, found.hi)
    value, lo, hi = (f"{bound * scale:,.{digits}f}" for bound in bounds)
    return f"{value} [{lo}, {hi}]" if found.determined else value


def _scaled_text(found: Interval | None, scale: float = 1) -> str:
    """Return an interval with the digits that its size wants."""
    large = found is not None and found.value * scale >= ROUND_FROM
    return interval_text(found, digits=0 if large else 2, scale=scale)


def mean_text(found: Interval | None, *, digits: int = 0, scale: float = 1) -> str:
    """Return ``198,397 ±3 %``: the mean, and half its interval's width beside it."""
    if found is None:
        return NOTHING
    value = f"{found.value * scale:,.{digits}f}"
    wide = found.relative_half_width
    return f"{value} ±{_percent(wide)}" if found.determined else value


def _percent(share: float) -> str:
    """Return ``3 %``."""
    return f"{share:.0%}".replace("%", " %")


def _windows(
    windows: Sequence[Window], known: Sequence[Arm], workload: str, count: int
) -> Table:
    table = _table(
        "model",
        "requests/s",
        "/ floor",
        "CPU µs/request",
        f"per CPU s / {BASE}",
        "switches/request",
        "waiting",
        "bound by",
    )
    base, floor = Arm(workload, count, BASE), Arm("echo", count, FLOOR)
    for arm in known:
        if (arm.workload, arm.connections) != (workload, count):
            continue
        cost = mean(windows, arm, "server_cpu_per_request_s")
        switches = mean(windows, arm, "switches_per_request")
        waiting = mean(windows, arm, "waiting_share")
        table.add_row(
            arm.model,
            mean_text(mean(windows, arm, RATE)),
            interval_text(ratio(windows, arm, floor, RATE)),
            mean_text(cost, digits=2, scale=1e6),
            interval_text(ratio(windows, arm, base, PER_CPU)),
            f"{switches.value:.3f}" if switches else NOTHING,
            _percent(waiting.value) if waiting else NOTHING,
            _bound_by(windows, arm),
        )
    return table


def _lessons(windows: Sequence[Window], taught: Sequence[Arm]) -> Table:
    """Return what limits, statistics and workloads cost: a model over its lesson."""
    table = _table("model", "lesson's µs", "model's µs", "model / lesson", notes=True)
    for arm in taught:
        whole = Arm(arm.workload, arm.connections, str(arm.lesson))
        costs = [mean(windows, one, SERVER_COST) for one in (arm, whole)]
        table.add_row(
            arm.lesson,
            *(mean_text(cost, digits=2, scale=1e6) for cost in costs),
            interval_text(ratio(windows, whole, arm, SERVER_COST)),
            _failed([w for w in windows if w.arm == arm]),
        )
    return table


def _bound_by(windows: Sequence[Window], arm: Arm) -> str:
    """Return the bottleneck that most windows name, or why windows failed."""
    mine = [w for w in windows if w.arm == arm]
    if failed := _failed(mine):
        return failed
    labels = [w.label or "" for w in mine]
    return max(set(labels), key=labels.count, default="").removesuffix("-bound")


def _memory(memory: Sequence[Memory]) -> Table:
    table = _table("model", "connections", "bytes")
    for row in memory:
        mean = sum(row.bytes) / len(row.bytes)
        table.add_row(row.model, f"{row.connections:,}", f"{mean:,.0f}")
    return table


def _calls(calls: Sequence[Calls]) -> Table:
    table = _table("model", "all", "of which")
    table.columns[-1].justify = "left"
    for row in calls:
        parts = [f"{name} {n:.2f}" for name, n in row.per_request.items()]
        total = f"{sum(row.per_request.values()):.2f}" if parts else NOTHING
        table.add_row(row.model, total, row.failure or ", ".join(parts))
    return table


def _clients(runs: Sequence[Spent]) -> Table:
    table = _table(
        "client",
        "requests/s",
        "CPU µs",
        "server CPU µs",
        "ours / it: rate",
        "CPU",
        "server CPU",
        notes=True,
    )
    for name in (OURS, *PEERS):
        mine = [run for run in runs if run.client == name]
        if not mine:
            table.add_row(name, "not installed")
            continue
        figures = (RATE, CLIENT_COST, SERVER_COST)
        ratios = [ratio(runs, OURS, name, what) for what in figures]
        table.add_row(
            name,
            mean_text(mean(runs, name, RATE)),
            *_cpu_texts(runs, name),
            *("" if name == OURS else interval_text(found) for found in ratios),
            _failed(mine),
        )
    return table


def _cpu_texts(runs: Sequence, arm: Hashable) -> list[str]:
    """Return what a request costs client and server, in microseconds of CPU time."""
    found = [mean(runs, arm, what) for what in (CLIENT_COST, SERVER_COST)]
    return [mean_text(one, digits=2, scale=1e6) for one in found]


def _cost(runs: Sequence[Cost]) -> Table:
    table = _table(
        "client waits with",
        "connections",
        "its µs",
        "server's µs",
        "its / server's",
        notes=True,
    )
    for arm in dict.fromkeys(run.arm for run in runs):
        engine, connections = arm
        table.add_row(
            engine,
            f"{connections:,}",
            *_cpu_texts(runs, arm),
            interval_text(ratio(runs, arm, arm, CLIENT_COST, over=SERVER_COST)),
            _failed([run for run in runs if run.arm == arm]),
        )
    return table


def _lag(windows: Sequence[Lag]) -> Table:
    table = _table("client", "requests/s", "p50 µs", "p99 µs", "max µs", notes=True)

    def typical(name: str) -> Interval | None:
        values = [getattr(one, name) for one in windows if not one.failure]
        return t_interval(values) if values else None

    late = [_scaled_text(typical(f"{p}_s"), 1e6) for p in ("p50", "p99", "max")]
    table.add_row(OURS, mean_text(typical(RATE)), *late, _failed(windows))
    for name in PEERS:
        table.add_row(name, NOTHING, "none: closed loop only")
    return table


def _failed(windows: Sequence) -> str | None:
    """Return how many windows failed and why the first did, None if none did."""
    failures = [w.failure for w in windows if w.failure]
    if not failures:
        return None
    return f"{len(failures)} of {len(windows)} failed: {failures[0]}"


def _verdicts(verdicts: Sequence[Verdict]) -> Table:
    table = _table("what", "needed", "found", "")
    for row in verdicts:
        table.add_row(row.target, row.need, _scaled_text(row.found), row.reached)
    return table
