"""What a comparison looks like: live while it runs, a table at the end."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from connlab.compare.comparison import METRICS, Comparison, word
from connlab.study.formatting import counted, display_unit, number_text, plain
from connlab.study.interval import Interval

TITLES = {"rate": "rate", "cpu": "CPU per request", "p50": "p50", "p99": "p99"}
_ENDS = {
    "width": "every ratio is known to ±{until:.3g} %",
    "budget": "the budget is spent; the widest ratio is known to ±{widest:.2g} %",
    "interrupted": "stopped by hand; the widest ratio is known to ±{widest:.2g} %",
    "alone": "no server is left to compare with",
}
_SATURATED = 0.9
#: cores that others may keep busy before it is said
OTHERS = 0.1
#: columns of a table that goes into a file
FILE_WIDTH = 110


def console(*, stderr: bool = False) -> Console:
    """Return where to print: as wide as the terminal, or as a file is read."""
    made = Console(stderr=stderr)
    if not made.is_terminal:
        made.width = FILE_WIDTH
    return made


@contextlib.contextmanager
def shown(console: Console) -> Iterator[Callable[[Comparison], None]]:
    """Show what is known after each set: live at a terminal, else a line each."""
    if not console.is_terminal:
        yield lambda made: console.print(_line(made), highlight=False)
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda made: live.update(
            Group(_ratios(made), Text(_line(made))), refresh=True
        )


def _line(made: Comparison) -> str:
    widest = made.widest()
    known = f"±{widest:.1%}" if math.isfinite(widest) else "not known yet"
    plan = made.plan
    return (
        f"set {made.n}, {made.seconds:.0f} of {plan.budget_s:g} s: "
        f"widest ratio {known}, wanted ±{plan.until:.1%}".replace("%", " %")
        + "".join(f"; {name}: {why}" for name, why in made.left.items())
    )


def print_all(made: Comparison, console: Console) -> None:
    """Print levels, ratios, who was the limit, and how it ended."""
    lines = (*limits(made), *doubts(made), ending(made))
    for part in ("", heading(made), "", _levels(made), "", _ratios(made), "", *lines):
        console.print(part, highlight=False)


def heading(made: Comparison) -> str:
    """Return what was measured, in one line."""
    client = made.plan.client
    load = f"{client['connections']} connections to each"
    if each := client["requests_per_connection"]:
        load += f", connected anew after {counted(each, 'request')}"
    if made.plan.open_loop:
        load += f", {client['rate']:g} requests/s"
    what = {"echo": f"echo of {client.get('size')} bytes"}.get(client["workload"])
    if made.plan.page_bytes:
        what = f"http, a page of {made.plan.page_bytes} bytes"
    sets = f"{made.n} fresh sets"
    if len(made.here) > 3:
        sets += "; intervals of ratios hold all at once (95 %)"
    return f"{what or client['workload']}, {load}; {sets}"


def _levels(made: Comparison) -> Table:
    units = {metric: _unit(made, metric) for metric in TITLES}
    heads = [f"{TITLES[metric]}\n{unit}" for metric, (_, unit) in units.items()]
    rows = table("", *heads)
    for server in made.plan.servers:
        if server.name in made.left:
            rows.add_row(server.name, made.left[server.name])
            continue
        values = {m: made.levels(server.name, m) for m in TITLES}
        cells = [number(value, units[m][0]) for m, value in values.items()]
        rows.add_row(server.name, *cells)
    return rows


def table(*heads: str) -> Table:
    """Return a table with these heads and no lines."""
    made = Table(box=None, pad_edge=False)
    for head in heads:
        made.add_column(head, no_wrap=True)
    return made


def _unit(made: Comparison, metric: str) -> tuple[float, str]:
    """Return the unit of a column: the one that suits the baseline."""
    middle = made.levels(made.plan.baseline, metric).value
    return display_unit(METRICS[metric], [middle])


def number(value: Interval, factor: float = 1.0) -> str:
    """Return a value with its bounds, as it is printed in a table."""
    if not math.isfinite(value.value):
        return "not measured"
    scaled = value.scaled(factor)
    return number_text(scaled) if value.determined else plain(scaled.value)


def _ratios(made: Comparison) -> Table:
    against = f"against {made.plan.baseline}"
    rows = table(against, *TITLES.values())
    found = {metric: made.ratios(metric) for metric in TITLES}
    for server in made.plan.servers[1:]:
        if server.name in made.left or not made.sets:
            continue
        ratios = {metric: each[server.name] for metric, each in found.items()}
        pair = f"{server.name} / {server.against}" if server.against else server.name
        rows.add_row(pair, *(number(ratio) for ratio in ratios.values()))
        rows.add_row("", *(word(ratio, metric) for metric, ratio in ratios.items()))
    return rows


def limits(made: Comparison) -> list[str]:
    """Return who kept each server from more, a line for each kind of answer."""
    if not made.sets or made.plan.open_loop:
        return []
    busy = made.busy()
    groups: dict[str, list[str]] = {}
    for name, (server, client) in busy.items():
        if math.isnan(server) and client < _SATURATED:
            kind = "the client's core was not full, the server's nobody could see"
        elif server >= _SATURATED and server >= client:
            kind = "limited by the server, whose core was full"
        elif client >= _SATURATED:
            kind = "limited by the client, whose core was full (rates are lower bounds)"
        else:
            kind = "neither core was full"
        own = "–" if math.isnan(server) else f"{server:.0%}"
        said = f"{name} {own} / {client:.0%}".replace("%", " %")
        groups.setdefault(kind, []).append(said)
    return [
        f"{kind}: {', '.join(names)} (CPU of server / client)"
        for kind, names in groups.items()
    ]


def doubts(made: Comparison) -> list[str]:
    """Return what should make a reader doubt: other work, a control that fails."""
    said = []
    if made.others_share > OTHERS:
        said.append(
            f"other programs kept {made.others_share:.2g} cores busy: rates are those "
            "of a machine that is shared, ratios and CPU times stand with their "
            "intervals"
        )
    for metric in made.decisive:
        control = made.ratios(metric).get(made.plan.control)
        if control is not None and control.determined and not control.contains(1):
            said.append(
                f"control: the same server twice differs in {TITLES[metric]} by "
                f"{control.value:.3f} [{control.lo:.3f}, {control.hi:.3f}]; such a "
                "difference between other servers means nothing here"
            )
    return said


def ending(made: Comparison) -> str:
    """Return why it ended, how long it took and what that width is worth."""
    widest = made.widest()
    said = _ENDS[made.stopped].format(
        until=made.plan.until * 100,
        widest=widest * 100 if math.isfinite(widest) else math.nan,
    )
    said = said.replace("known to ±nan %", "not known yet")
    return f"{said}; {made.seconds:.0f} s"
