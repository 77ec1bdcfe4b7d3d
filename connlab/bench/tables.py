"""What was measured, as tables in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from connlab.bench.apart import CALLS_CONNECTIONS, Calls, Memory
from connlab.bench.plan import BASE, FLOOR, Arm, Plan, arms
from connlab.bench.targets import PER_CPU, RATE, Verdict, ratio, series
from connlab.bench.windows import Window
from connlab.study.interval import Interval, t_interval

NOTHING = "–"
WIDTH = 120
#: from so many cores on, others disturb what is measured
BUSY_CORES = 0.05


def show(
    plan: Plan,
    windows: Sequence[Window],
    memory: Sequence[Memory],
    calls: Sequence[Calls],
    verdicts: Sequence[Verdict],
) -> None:
    """Print a table per workload and width, then memory, calls and targets."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    known = arms(plan)
    for workload, count in dict.fromkeys((a.workload, a.connections) for a in known):
        title = (
            f"{workload}, {count} connections, means over rounds with 95 % intervals"
        )
        _print(console, title, _windows(windows, known, workload, count))
    if memory:
        title = "memory of the server's processes per idle connection (PSS)"
        _print(console, title, _memory(memory))
    if calls:
        title = f"calls per echo request, {CALLS_CONNECTIONS} connections, traced"
        _print(console, f"system {title}", _calls(calls))
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


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left")
    return table


def interval_text(found: Interval | None, *, digits: int = 2, scale: float = 1) -> str:
    """Return ``1.03 [1.01, 1.05]``, or the bare value when bounds are not known."""
    if found is None:
        return NOTHING
    bounds = (found.value, found.lo, found.hi)
    value, lo, hi = (f"{bound * scale:,.{digits}f}" for bound in bounds)
    return f"{value} [{lo}, {hi}]" if found.determined else value


def mean_text(found: Interval | None, *, digits: int = 0, scale: float = 1) -> str:
    """Return ``198,397 ±3 %``: the mean, and half its interval's width beside it."""
    if found is None:
        return NOTHING
    value = f"{found.value * scale:,.{digits}f}"
    wide = found.relative_half_width
    return f"{value} ±{wide:.0%}".replace("%", " %") if found.determined else value


def _mean(windows: Sequence[Window], arm: Arm, what: str) -> Interval | None:
    values = list(series(windows, arm, what).values())
    return t_interval(values) if values else None


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
        "bound by",
    )
    base, floor = Arm(workload, count, BASE), Arm("echo", count, FLOOR)
    for arm in known:
        if (arm.workload, arm.connections) != (workload, count):
            continue
        cost = _mean(windows, arm, "server_cpu_per_request_s")
        switches = _mean(windows, arm, "switches_per_request")
        table.add_row(
            arm.model,
            mean_text(_mean(windows, arm, RATE)),
            interval_text(ratio(windows, arm, floor, RATE)),
            mean_text(cost, digits=2, scale=1e6),
            interval_text(ratio(windows, arm, base, PER_CPU)),
            f"{switches.value:.3f}" if switches else NOTHING,
            _bound_by(windows, arm),
        )
    return table


def _bound_by(windows: Sequence[Window], arm: Arm) -> str:
    """Return the bottleneck that most windows name, or why windows failed."""
    mine = [w for w in windows if w.arm == arm]
    failures = [w.failure for w in mine if w.failure]
    if failures:
        return f"{len(failures)} of {len(mine)} failed: {failures[0]}"
    labels = [w.label or "" for w in mine]
    return max(set(labels), key=labels.count).removesuffix("-bound")


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


def _verdicts(verdicts: Sequence[Verdict]) -> Table:
    table = _table("what", "needed", "found", "")
    for row in verdicts:
        digits = 0 if row.need.startswith("<") else 2
        found = interval_text(row.found, digits=digits)
        table.add_row(row.target, row.need, found, row.reached)
    return table
