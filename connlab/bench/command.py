"""The command: sets in turns, what is measured apart, targets, a JSON file."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from connlab import schema
from connlab.bench import clients, parts, targets
from connlab.compare import comparison, screen
from connlab.compare.command import INTERRUPTED
from connlab.drive import idle_memory, machine, programs, strace
from connlab.intervals import interval
from connlab.study.interval import Interval


def run(
    names: Sequence[str],
    *,
    budget_s: float,
    until: float,
    seed: int,
    out: Path,
    **wanted: bool,
) -> None:
    """Measure the models of these names (or all), print and keep what was found.

    The sets in turns end after `budget_s` seconds or with ratios as narrow as `until`;
    what is `wanted` besides: ``lessons``, ``memory``, ``calls``, ``clients``. After a
    signal the sets measured so far are printed and kept, nothing besides is measured,
    and the exit status is `INTERRUPTED`; a later call begins anew.
    """
    console = screen.console()
    known = {model.name: model for model in programs.models()}
    for name in names:
        if name not in known:
            raise ValueError(programs.unknown("model", name, known))
    models = [known[name] for name in names or known]
    by_title = parts.parts(models, lessons=wanted["lessons"], until=until, seed=seed)
    parts.run(by_title, budget_s=budget_s, say=console.print)
    endings = {part.comparison.stopped for part in by_title.values()}
    interrupted = "interrupted" in endings
    besides = {
        "memory": (idle_memory.pss_each, models),
        "calls": (strace.system_calls, models),
        "clients": (clients.measure_all, by_title["http"].plan),
    }
    found: dict[str, Any] = {name: {} for name in besides}
    try:
        for name, (measure, of) in besides.items():
            if wanted[name] and not interrupted:
                found[name] = _alone(measure, of, console)
    except KeyboardInterrupt:
        interrupted = True
    memory, calls, beside = found.values()
    judged = targets.judge(by_title, memory, {m.name: m.family for m in models})
    compared = {n: comparison.document(p.comparison) for n, p in by_title.items()}
    results = {
        "comparisons": compared,
        "floor_cpu_s": {n: p.floor_cpu_s for n, p in by_title.items() if p.with_floor},
        "idle_memory": memory,
        "system_calls": calls,
        "load_generators": [*beside],
        "targets": [asdict(target) | {"verdict": target.verdict} for target in judged],
    }
    kept = _keep(results, folder=out)
    for name, part in by_title.items():
        console.rule(name)
        screen.print_all(part.comparison, console)
    _print(console, ("system calls of a request", "all", "of which"), _call_rows(calls))
    heads = ("CPU of a request of http, µs", "client", "server", "our client / it")
    _print(console, heads, _client_rows(beside))
    rows = [(t.what, t.need, _text(t.found), t.verdict) for t in judged]
    _print(console, ("target", "needed", "found", ""), rows)
    console.print(f"\nkept: {kept}")
    if interrupted:
        raise SystemExit(INTERRUPTED)
    if any(part.comparison.failure for part in by_title.values()):
        raise SystemExit(1)


def _alone(measure: Callable[[Any], Any], of: Any, console: Console) -> Any:
    """Measure what takes no turns; that it fails loses nothing of what did."""
    try:
        return measure(of)
    except (RuntimeError, OSError) as error:
        console.print(f"left out: {error}", markup=False)
        return {}


def _keep(results: dict[str, Any], *, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made_at = machine.now()
    content = {"schema": 2, "made_at": made_at} | results
    path = folder / f"bench-{re.sub(r'[^0-9T]', '', made_at)[:15]}.json"
    path.write_text(f"{schema.json_text(content)}\n")
    return path


def _print(console: Console, heads: Sequence[str], rows: Iterable[Sequence]) -> None:
    table = screen.table(*heads)
    for name, *numbers, last in rows:
        screen.add_numbers(table, name, *numbers, last=[last])
    if table.rows:
        console.rule()
        console.print(table)


def _call_rows(calls: dict[str, dict[str, float]]) -> Iterable[Sequence[str]]:
    for name, counts in calls.items():
        text = ", ".join(f"{call} {count:.2f}" for call, count in counts.items())
        yield name, f"{sum(counts.values()):.2f}", text


def _client_rows(runs: Sequence[dict]) -> Iterable[Sequence[str]]:
    ours = [run["client"] for run in runs if run["name"] == clients.OURS]
    for name in dict.fromkeys(run["name"] for run in runs):
        of_client = [run for run in runs if run["name"] == name]
        cost, server = ([r[s] * 1e6 for r in of_client] for s in ("client", "server"))
        ratio = [a * 1e6 / b for a, b in zip(ours, cost, strict=True)]
        yield name, *(_text(interval(values)) for values in (cost, server, ratio))


def _text(interval: Interval | None) -> str:
    if interval and interval.lo == interval.hi:
        interval = replace(interval, lo=math.nan, hi=math.nan)
    return screen.number(interval) if interval else "–"
