"""What a comparison looks like: live while it runs, a table at the end."""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from connlab.compare.comparison import METRICS, Comparison
from connlab.study.formatting import counted, display_unit, number_text, plain
from connlab.study.interval import Interval

TITLES = {"rate": "rate", "cpu": "CPU per request", "p50": "p50", "p99": "p99"}
_ENDS = {
    "width": "every ratio is known to ±{until:.3g} %",
    "budget": "the budget is spent; the widest ratio is {widest}",
    "interrupted": "stopped by hand; the widest ratio is {widest}",
    "alone": "no server is left to compare with",
    "failed": "no further set, as {failure}; the widest ratio is {widest}",
}
#: what is said of who was the limit (`Comparison.limits`)
_LIMITS = {
    "client-bound": "limited by the client, whose core was full"
    " (rates are lower bounds)",
    "server-bound": "limited by the server, whose core was full",
    "unsaturated": "neither core was full",
    None: "the client's core was not full, the server's nobody could see",
}
#: the same where server and client shared a core
_SHARED = _LIMITS | {
    "client-bound": "limited by the client, which used most of the core that it shared "
    "with the server (rates are lower bounds)",
    "server-bound": "limited by the core that server and client shared, which was full",
}
#: cores that others may keep busy before it is said
OTHERS = 0.1
#: columns of a table that goes into a file
FILE_WIDTH = 110


def console(*, stderr: bool = False) -> Console:
    """Return where to print: as wide as the terminal, or as a file is read.

    A server's name, or what it printed, may look like markup and is none.
    """
    output = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not output.is_terminal:
        output.width = FILE_WIDTH
    return output


@contextlib.contextmanager
def live(console: Console) -> Iterator[Callable[[Comparison], None]]:
    """Show what is known after each set: live at a terminal, else a line each."""
    if not console.is_terminal:
        yield lambda comparison: console.print(_line(comparison))
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda comparison: live.update(
            Group(fitting(console, _ratios, comparison), Text(_line(comparison))),
            refresh=True,
        )


def _line(comparison: Comparison) -> str:
    widest = comparison.widest()
    known = f"±{widest * 100:.1f} %" if math.isfinite(widest) else "not known yet"
    plan = comparison.plan
    return (
        f"set {comparison.n}, {comparison.seconds:.0f} of {plan.budget_s:g} s: "
        f"widest ratio {known}, wanted {plan.wanted}"
        + "".join(f"; {name}: {reason}" for name, reason in comparison.failed.items())
    )


def print_all(comparison: Comparison, console: Console) -> None:
    """Print levels, ratios, who was the limit, and how it ended."""
    if not comparison.sets:
        console.print(ending(comparison))
        return
    lines = (*limits(comparison), *doubts(comparison), ending(comparison))
    levels, ratios = (fitting(console, t, comparison) for t in (_levels, _ratios))
    for content in ("", heading(comparison), levels, ratios, "", *lines):
        console.print(content)


def heading(comparison: Comparison) -> str:
    """Return what was measured, in one line."""
    client = comparison.plan.client
    load = f"{counted(client['connections'], 'connection')} to each"
    if comparison.engine:  # what io_uring saves depends on it
        load += f", a client on {comparison.engine.replace('uring', 'io_uring')}"
    if per_connection := client["requests_per_connection"]:
        load += f", connected anew after {counted(per_connection, 'request')}"
    if comparison.plan.open_loop:
        load += f", {client['rate']:g} requests/s"
    workload = client["workload"]
    if workload == "echo":
        workload = f"echo of {client['size']} bytes"
    elif comparison.plan.page_bytes:
        workload = f"http, a page of {comparison.plan.page_bytes} bytes"
    sets = counted(comparison.n, "fresh set")
    if seconds := comparison.core_to_core_s:
        sets += f", {1e9 * seconds:.0f} ns from core to core and back"
    if len(comparison.remaining) > 3:
        sets += "; intervals of a column of ratios hold all at once (95 %)"
    return f"{workload}, {load}; {sets}"


def fitting(
    console: Console,
    make: Callable[[Comparison, Sequence[str], str], Table],
    comparison: Comparison,
) -> Group:
    """Return a table of all metrics that no column of numbers is too wide for.

    Else bounds stand under their numbers, then metrics below each other. `make` is told
    the metrics, and what stands between a number and its bounds.
    """
    metrics = list(TITLES)
    for size, gap in ((4, " "), (4, "\n"), (2, "\n"), (1, "\n")):
        parts = (metrics[n : n + size] for n in range(0, len(metrics), size))
        tables = [make(comparison, part, gap) for part in parts]
        if max(_least_width(console, rows) for rows in tables) <= console.width:
            break
    return Group(*(item for table in tables for item in ("", table)))


def _least_width(console: Console, rows: Table) -> int:
    """Return the width from which no number is cut.

    Of columns that are too wide rich narrows the widest, all to one width, whatever a
    column needs: headings and words give way until they are as wide as the numbers.
    """
    most = max(column.min_width or 0 for column in rows.columns[1:]) + 1
    widths = [
        max(console.measure(part).maximum for part in (column.header, *column.cells))
        for column in rows.columns
    ]
    return sum(min(width, most) for width in widths) + 2 * (len(widths) - 1)


def _levels(comparison: Comparison, metrics: Sequence[str], gap: str) -> Table:
    baseline = comparison.plan.baseline
    units = {
        m: display_unit(METRICS[m], [comparison.levels(baseline, m).value])
        for m in metrics
    }
    heads = [f"{TITLES[metric]}\n{unit}" for metric, (_, unit) in units.items()]
    rows = table("", *heads)
    for server in comparison.plan.servers:
        if server.name in comparison.failed:
            rows.add_row(server.name, comparison.failed[server.name])
            continue
        values = {m: comparison.levels(server.name, m) for m in metrics}
        cells = [number(value, units[m][0]) for m, value in values.items()]
        add_numbers(rows, server.name, *cells, gap=gap)
    return rows


def table(*heads: str) -> Table:
    """Return a table with these heads and no lines; too long names are folded."""
    output = Table(box=None, pad_edge=False)
    for place, head in enumerate(heads):
        longest = max(map(len, head.split()), default=0)
        output.add_column(head, overflow="fold", min_width=longest if place else None)
    return output


def add_numbers(
    rows: Table,
    name: str,
    *cells: str,
    gap: str = " ",
    below: Iterable[str] | None = None,
    last: Sequence[str] = (),
) -> None:
    """Add a row of numbers, which are never folded or cut: names and words give way.

    `gap` stands before their bounds. `below` has a word for each, to stand under it
    however many lines the name takes; `last` are words behind the numbers.
    """
    numbers = [Text(cell.replace(" [", f"{gap}["), no_wrap=True) for cell in cells]
    for column, shown_number in zip(rows.columns[1:], numbers, strict=False):
        widest = max(map(len, shown_number.plain.splitlines()))
        column.min_width = max(column.min_width or 0, widest)
    if below is None:
        rows.add_row(name, *numbers, *last)
    else:
        rows.add_row(name, *map(Group, numbers, below))


def number(value: Interval, factor: float = 1.0) -> str:
    """Return a value with its bounds, as it is printed in a table."""
    if not math.isfinite(value.value):
        return "not measured"
    scaled = value.scaled(factor)
    return number_text(scaled) if value.determined else plain(scaled.value)


def _ratios(comparison: Comparison, metrics: Sequence[str], gap: str) -> Table:
    against = f"against {comparison.plan.baseline}"
    rows = table(against, *(TITLES[metric] for metric in metrics))
    by_metric = {metric: comparison.ratios(metric) for metric in metrics}
    words = {m: comparison.words(m, ratios) for m, ratios in by_metric.items()}
    for server in comparison.plan.servers[1:]:
        if not all(server.name in ratios for ratios in by_metric.values()):
            continue  # it, or what it is held against, died
        pair = f"{server.name} / {server.against}" if server.against else server.name
        ratios = (ratios_of[server.name] for ratios_of in by_metric.values())
        said = (words_of[server.name] for words_of in words.values())
        add_numbers(rows, pair, *map(number, ratios), gap=gap, below=said)
    return rows


def limits(comparison: Comparison) -> list[str]:
    """Return who kept each server from more, a line for each kind of answer."""
    words = _SHARED if comparison.plan.cores.shared else _LIMITS
    busy = comparison.busy()
    groups: dict[str, list[str]] = {}
    for name, limit in comparison.limits().items():
        kind, (server, client) = words[limit], busy[name]
        server_text = "–" if math.isnan(server) else f"{server:.0%}"
        shares = f"{server_text} / {client:.0%}".replace("%", " %")
        groups.setdefault(kind, []).append(f"{name} {shares}")
    return [
        f"{kind}: {', '.join(names)} (CPU of server / client)"
        for kind, names in groups.items()
    ]


def doubts(comparison: Comparison) -> list[str]:
    """Return what makes a reader doubt: servers, the client, others, the control."""
    lines = []
    for name in comparison.remaining:
        failed = +comparison.errors.get(name, Counter())
        if counts := ", ".join(f"{kind} {count}" for kind, count in failed.items()):
            lines.append(f"{name}: requests failed, which no rate counts: {counts}")
    if names := ", ".join(comparison.unpinned):
        cores = comparison.plan.cores
        lines.append(
            f"{names}: started by hand on this machine, where any core may serve; "
            f"those that compare starts have {_cores(cores.server)}, the client "
            f"{_cores(cores.client)}: that alone can make it faster or slower"
        )
    overloaded, slice_s = comparison.overloaded().items(), comparison.plan.slice_s
    if names := ", ".join(f"{name} {strain:.2f}" for name, strain in overloaded):
        lines.append(
            f"overloaded, or answers differ much in length: {names} (how long turns"
            " lasted over what was planned); requests to an overloaded server wait the"
            f" longer the longer it is asked, here {slice_s * 1e3:g} ms at a time"
        )
    late = comparison.late().items()
    if names := ", ".join(f"{name} {count}" for name, count in late):
        lines.append(
            f"the client was late itself, so that waits are too long, in sets of:"
            f" {names} (of {comparison.n})"
        )
    for name, share in comparison.falling().items():
        lines.append(
            f"{name}: its cost per request was still falling, within a set to"
            f" {share:.2f} times what it was first; if it compiles as it runs, a longer"
            " --warm-up finds out what it costs in the end"
        )
    if comparison.others_share > OTHERS:
        lines.append(
            f"other programs kept {comparison.others_share:.2g} cores busy: rates are "
            "those of a machine that is shared, ratios and CPU times stand with their "
            "intervals"
        )
    if moved := int((comparison.cores_off > 0).sum()):
        lines.append(
            f"the host moved the cores in {moved} of {comparison.n} sets; ratios are"
            " those between cores as far apart as usual"
        )
    for metric in comparison.decisive:
        control = comparison.ratios(metric).get(comparison.plan.control)
        if control is not None and control.determined and not control.contains(1):
            lines.append(
                f"control: the same server twice differs in {TITLES[metric]} by "
                f"{control.value:.3f} [{control.lo:.3f}, {control.hi:.3f}]; such a "
                "difference between other servers means nothing here"
            )
    return lines


def _cores(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"core{'s' if len(numbers) > 1 else ''} {listed}"


def ending(comparison: Comparison) -> str:
    """Return why it ended, how long it took and what that width is worth."""
    percent = comparison.widest() * 100
    digits = ".2g" if percent < 99.5 else ".0f"
    known = f"known to ±{percent:{digits}} %"
    text = _ENDS[comparison.stopped].format(
        failure=comparison.failure,
        until=comparison.plan.until * 100,
        widest=known if math.isfinite(percent) else "not known yet",
    )
    return f"{text}; {comparison.seconds:.0f} s"
