"""Where a host put our cores: trials between cores as far apart as usual count.

    core_to_core of the trials of a sweep -> note_usual -> placement_gate of each

A virtual machine's cores are threads of its host, which moves them. Between cores that
share a cache a line goes back and forth in some 80 ns, between others in 370 ns, and
what a server and its client tell each other goes that way. On a host that did so every
few minutes a request cost epoll 4.3 or 5.8 us of CPU time, and io_uring 0.985 or 1.016
times as much: an interval over both kinds of trials tells of the host.
"""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from connlab.schema.facts import Gate

FARTHER = 1.8
"""Cores are as far apart as usual up to this factor, both ways. A core that idles runs
slower and takes up to 1.5 times as long."""


def note_usual(trials: Iterable[dict], *, enough: int = 0) -> list[dict]:
    """Note in each trial, in place, what its sweep's trials mostly had between cores.

    As ``core_to_core.usual_s``: the median over trials, of a set one, the lower of two.
    Where it would leave a cell fewer trials than are `enough`, the sets that it lacks
    count all the same, with all of their servers: their trials are returned.
    """
    sweeps = defaultdict(list)
    for trial in trials:
        if _times_s(trial):
            sweeps[trial.get("sweep")].append(trial)
    spared = []
    for members in sweeps.values():
        sets = {_set(trial): _times_s(trial) for trial in members}
        usual_s = statistics.median_low(s for times in sets.values() for s in times)
        for trial in members:
            trial["core_to_core"]["usual_s"] = usual_s
        spared += _spared(members, enough)
    return spared


def _spared(trials: Sequence[dict], enough: int) -> list[dict]:
    cells = defaultdict(list)
    for trial in trials:
        cells[json.dumps(trial.get("factors"), sort_keys=True)].append(trial)
    lacking = set()
    for members in cells.values():
        moved = [each for each in members if placement_gate(each).ok is False]
        if len(members) - len(moved) < enough:
            lacking |= set(map(_set, moved))
    spared = [trial for trial in trials if _set(trial) in lacking]
    for trial in spared:
        del trial["core_to_core"]["usual_s"]
    return spared


def placement_gate(trial: Mapping) -> Gate:
    """The cores were as far apart as in most trials of the sweep, before and after.

    It looks at the machine alone, and leaves out all servers of a set alike.
    """
    times_s = _times_s(trial)
    usual_s = (trial.get("core_to_core") or {}).get("usual_s")
    if not usual_s or not times_s:
        return Gate(ok=None, why="needs two cores of one machine, and its sweep")
    off = max(max(s / usual_s, usual_s / s) for s in times_s)
    ns = " and ".join(f"{s * 1e9:.0f}" for s in times_s)
    why = f"{ns} ns from core to core and back, usual {usual_s * 1e9:.0f}"
    return Gate(ok=off <= FARTHER, value=off, threshold=FARTHER, why=why)


def _set(trial: Mapping) -> str:
    """Return a name of what was measured at once."""
    return (trial.get("turns") or {}).get("set") or trial["key"]


def _times_s(trial: Mapping) -> list[float]:
    measured = trial.get("core_to_core") or {}
    return [s for name in ("before_s", "after_s") if (s := measured.get(name))]
