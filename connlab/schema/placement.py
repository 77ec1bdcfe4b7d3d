"""Where a host put our cores: a covariate of each trial.

    core_to_core of the trials of a sweep -> note_moves -> core_to_core.off of each

A virtual machine's cores are threads of its host, which moves them. Between cores that
share a cache a line goes back and forth in some 80 ns, between others in 350 ns, and
what a server and its client tell each other goes that way. On a host that did so every
few minutes a request cost epoll 4.3 or 5.8 us of CPU time, and io_uring 0.985 or 1.016
times as much.

Ratios of six trials and more are fitted with it (`connlab.variances.Fit.of`). To leave
out the trials between cores that were moved would leave too few: of the guestbook's
sets, each of which takes 13 s, a third.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping

FARTHER = 1.8
"""Cores are as far apart as usual up to this factor, both ways. A core that idles runs
slower and takes up to 1.5 times as long."""


def note_moves(trials: Iterable[dict]) -> None:
    """Note in each trial, in place, whether its cores were as far apart as usual.

    As ``core_to_core.off``: 0 where they were, before it and after it; 0.5 where they
    were moved meanwhile; 1 where they were not. Usual is the median over the trials of
    the sweep, of a set one, the lower of two.
    """
    sweeps = defaultdict(list)
    for trial in trials:
        if _times_s(trial):
            sweeps[trial.get("sweep")].append(trial)
    for members in sweeps.values():
        sets = {_set(trial): _times_s(trial) for trial in members}
        usual_s = statistics.median_low(s for times in sets.values() for s in times)
        for trial in members:
            far = [max(s / usual_s, usual_s / s) > FARTHER for s in _times_s(trial)]
            trial["core_to_core"]["off"] = sum(far) / len(far)


def _set(trial: Mapping) -> str:
    """Return a name of what was measured at once."""
    return (trial.get("turns") or {}).get("set") or trial["key"]


def _times_s(trial: Mapping) -> list[float]:
    measured = trial.get("core_to_core") or {}
    return [s for name in ("before_s", "after_s") if (s := measured.get(name))]
