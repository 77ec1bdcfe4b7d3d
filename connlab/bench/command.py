"""The command: flags -> windows -> tables and a JSON file."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.bench import apart, clients, generator, tables, targets, windows
from connlab.bench.plan import Plan
from connlab.drive import cores, machine, programs


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; the exit status is 0 however fast the models are."""
    options = _options(argv)
    plan = _plan(options)
    measured = windows.measure(plan, say=lambda text: print(text, flush=True))
    memory = apart.idle_memory(plan) if options.memory else []
    calls = apart.system_calls(plan) if options.calls else []
    beside = clients.measure(plan) if options.clients else []
    own = generator.measure(plan, timing=options.clients, many=options.many)
    verdicts = targets.judge(plan, measured, memory, own)
    tables.show(plan, measured, memory, calls, verdicts, clients=beside, own=own)
    facts = {
        "windows": measured,
        "idle_memory": memory,
        "system_calls": calls,
        "load_generators": beside,
        "cost": own.cost,
        "lag": own.lag,
        "delay": own.delay,
        "dialing": own.dialing,
        "targets": verdicts,
    }
    print(f"\nkept: {keep(plan, facts, folder=options.out)}")
    return 0


def keep(plan: Plan, facts: dict[str, Sequence], *, folder: Path) -> Path:
    """Write all that was measured to a JSON file and return where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    made_at = machine.now()
    settings = asdict(plan) | {"models": [model.name for model in plan.models]}
    del settings["programs"]
    kept = {
        "schema": 1,
        "made_at": made_at,
        "machine": machine.environment(plan.programs.digests()),
        "settings": settings,
    }
    kept |= {name: [asdict(row) for row in rows] for name, rows in facts.items()}
    path = folder / f"bench-{re.sub(r'[^0-9T]', '', made_at)[:15]}.json"
    path.write_text(json.dumps(_plain(kept), indent=1, allow_nan=False) + "\n")
    return path


def _plain(value: Any) -> Any:
    """Return a value with None for every number that JSON cannot say."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m connlab bench",
        description="Measure models and workloads against the floor of this machine.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--models", type=_words, default="", help="by commas; else all there are")
    add("--workloads", type=_words, default="echo,work,http", help="by commas")
    add("--connections", type=_numbers, default="50,1000", help="by commas")
    add("--rounds", type=_positive, default=5, help="windows of each arm")
    add("--seconds", type=float, default=0.4, help="width of a window")
    add("--size", type=_positive, default=64, help="bytes of an echo request")
    add("--idle", type=_positive, default=1000, help="silent connections, for memory")
    add("--seed", type=int, default=1, help="of the order within rounds")
    kept = schema.project_root() / "runs" / "bench"
    add("--out", type=Path, default=kept, help="directory of the JSON file")
    many = " and ".join(f"{n:,}" for n in generator.MANY)
    parts = {
        "lessons": "models beside their lessons: what limits and statistics cost",
        "memory": "what an idle connection takes",
        "calls": "system calls of a request, counted by strace",
        "clients": "what the load generator costs, beside wrk and ab, and its lag",
        "many": f"how long connecting {many} takes",
    }
    for name, what in parts.items():
        add(f"--{name}", action=argparse.BooleanOptionalAction, default=True, help=what)
    return parser.parse_args(argv)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number from 1 on")
    return number


def _numbers(text: str) -> tuple[int, ...]:
    found = tuple(sorted({_positive(word) for word in _words(text)}))
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: want numbers, by commas")
    return found


def _plan(options: argparse.Namespace) -> Plan:
    built = programs.built()
    listed = programs.registry(built)
    models = {model.name: model for model in listed.models if model.available}
    names = _known("model", options.models or tuple(models), models)
    there = [workload.name for workload in listed.workloads if workload.available]
    usable = cores.available()
    if len(usable) < 2:
        raise SystemExit("bench: one core only; server and client need one each")
    return Plan(
        models=tuple(models[name] for name in names),
        workloads=_known("workload", options.workloads, there),
        connections=options.connections,
        rounds=options.rounds,
        seconds=options.seconds,
        size=options.size,
        idle=options.idle,
        seed=options.seed,
        cores=cores.one_each(usable),
        programs=built,
        lessons=options.lessons,
    )


def _known(what: str, names: Sequence[str], known: Any) -> tuple[str, ...]:
    """Return the names, or end the command at the first that nobody knows."""
    for name in names:
        if name not in known:
            raise SystemExit(f"bench: {programs.unknown(what, name, known)}")
    return tuple(names)
