"""Run ``build/floor``, which measures the machine's own calls, and keep its results.

    round: a fresh process measures every cost once -> one line of floor.jsonl

A process is a repeat, as it is for a trial, so that an interval over rounds holds what
differs from process to process. A round that is on disk already, made by the same
program in the same class of environment, is not repeated.
"""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import cores, hosts_asked, machine, programs, store

FILE = "floor.jsonl"
#: what the program measures, each for one window
COSTS = 10
_TIMEOUT_S = 60
_LOOK_S = 0.01
#: what a program that cannot measure something ends in
_FAILURES = (RuntimeError, OSError, ValueError, LookupError, subprocess.SubprocessError)


def floor(
    study: str,
    *,
    run: str,
    rounds: int = 10,
    duration: float = 0.1,
    connections: int = 50,
    whats: Sequence[str] = (),
    root: str | Path = "runs",
    measure: bool = True,
) -> int:
    """Measure what the machine's calls cost; return how many rounds are on disk.

    A line a round goes to ``root/run/study/floor.jsonl``. With ``measure=False``
    nothing is measured, as the run is evaluated again.

    Parameters
    ----------
    rounds : int
        Processes in all, each measuring every cost once.
    duration : float
        Seconds of each measurement; a round of all takes about ten times that.
    connections : int
        Between the halves of the echo, and sockets that ``poll`` is handed.
    whats : sequence of str
        What is measured, as ``build/floor --what`` names it; all, if none is named.

    Raises
    ------
    ValueError
        For `rounds` below 1, or a `duration` or number of `connections` that the
        program does not take.
    FileNotFoundError
        When the program has not been built.
    RuntimeError
        When it fails, with what it said.
    """
    path = schema.study_folder(run, study, root=root) / FILE
    if not measure:
        return len(schema.read_log(path).trials)
    hosts_asked.refuse("calls are measured")
    if rounds < 1:
        raise ValueError(f"rounds: {rounds}; allowed: 1 or more")
    if not 0.01 <= duration <= 3600:
        raise ValueError(f"duration: {duration}; allowed: 0.01 to 3600 seconds")
    if not 1 <= connections <= 100_000:
        raise ValueError(f"connections: {connections}; allowed: 1 to 100000")
    binaries = {"floor": programs.digest(_built()[-1])}
    settings = {
        "binaries": binaries,
        "environment": machine.environment_class(machine.environment(binaries)),
        "duration": duration,
        "cores": _pair(),
        "connections": connections,
        "whats": list(whats),
    }
    with store.journal(path) as (log, append):
        kept = {row.get("key") for row in log.trials}
        missing = [n for n in range(rounds) if store.digest([settings, n]) not in kept]
        for n in missing:
            append(json.dumps(_round(settings, n), allow_nan=False))
    print(f"{study}: rounds of the floor: {len(missing)} measured, {rounds} there")
    return rounds


def _built() -> tuple[str, ...]:
    return (str(Path(programs.built().server[-1]).with_name("floor")),)


def _pair() -> list[int]:
    sets = cores.one_each(cores.available())
    return [*sets.server, *sets.client]


def _round(settings: dict[str, Any], n: int) -> dict[str, Any]:
    start, started_at = time.monotonic(), machine.now()
    flags = {"connections": settings["connections"]}
    if settings["whats"]:
        flags["what"] = ",".join(settings["whats"])
    report = _measure(settings["duration"], settings["cores"], **flags)
    return {
        "schema": schema.SCHEMA,
        "key": store.digest([settings, n]),
        "round": n,
        "started_at": started_at,
        "seconds": time.monotonic() - start,
        **settings,
        "report": report,
    }


def _measure(duration: float, pair: Sequence[int], **flags: object) -> dict[str, Any]:
    cores_asked = ",".join(map(str, pair))
    flags |= {"repeats": 1, "duration": f"{duration:g}", "cores": cores_asked}
    words = [f"--{name}={value}" for name, value in flags.items()]
    timeout_s = _TIMEOUT_S + 2 * COSTS * duration
    done = programs.finished([*_built(), *words], timeout_s=timeout_s, apart=True)
    if done.returncode:
        raise RuntimeError(f"floor: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def echo(connections: int, *, size: int, duration: float, pair: Sequence[int]) -> float:
    """Return the CPU time (s) of a request that is received and sent.

    `connections` exchange messages of `size` bytes for `duration` seconds. `pair` is
    the core of the half that answers, and that of the half that asks.
    """
    asked = {"what": "echo", "connections": connections, "size": size}
    return _measure(duration, pair, **asked)["echo"]["server_cpu_per_request_s"][0]


def neighbour(duration: float = 0.2) -> float | None:
    """Return the slowdown of a computation while another core is busy.

    1 where the server's core and the client's are two, up to 2 where they are one;
    None where there is one only, or where the program is not built, is too old to
    know, or fails.
    """
    try:
        return _measure(duration, _pair(), what="neighbour")["neighbour"]["slowdown"][0]
    except _FAILURES:
        return None


def core_to_core_s(sets: cores.Cores) -> float | None:
    """Return how long a cache line takes from a server's core to its client's and back.

    Hosts move the cores that they lend; trials keep it, as requests between cores
    that share no cache cost more. Takes `_LOOK_S`, in which cores that idled come to
    their usual speed. None where there is one core only, where others kept both busy,
    or as for `neighbour`.
    """
    if sets.shared:
        return None
    pair = [sets.server[0], sets.client[0]]
    try:
        report = _measure(_LOOK_S, pair, what="core-to-core")["core_to_core"]
    except _FAILURES:
        return None
    (ns,) = report["round_trip_ns"]
    return ns and round(ns / 1e9, 12)
