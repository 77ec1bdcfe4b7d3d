"""Which cores the server and the client may use.

Two programs on one core measure the scheduler as much as each other, so the sets are
disjoint where there are two cores or more. Where there is one, both use it and the
trial says so. Two hardware threads of one physical core are not two cores: as long as
there is another physical core, server and client do not meet on one. And a container's
quota of CPU time is worth so many cores and no more: on more of them, both programs
would be stopped together whenever it is used up.
"""

import contextlib
import math
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from connlab.drive import procfs

Place = Callable[[int], Hashable]
#: environment variable: cores by commas, the server's first
CHOSEN = "CONNLAB_CORES"


@dataclass(frozen=True)
class Cores:
    """Core sets of one trial.

    `shared` when they are not disjoint, `siblings` when they are, but server and client
    have threads of one physical core, `remote` when the client is on another host.
    """

    server: tuple[int, ...]
    client: tuple[int, ...]
    shared: bool
    siblings: bool = False
    remote: bool = False

    def in_trial(self) -> dict[str, list[int] | bool]:
        """Return the sets as a trial keeps them; its environment names the hosts."""
        sets = {"server": [*self.server], "client": [*self.client]}
        return sets | {"shared": self.shared, "siblings": self.siblings}


def available() -> tuple[int, ...]:
    """Return the cores this process may use, threads of one physical core together.

    No more than its quota of CPU time allows for; see `within`. `CHOSEN` in the
    environment names some of them, in the order in which `split` deals them out; raises
    ValueError when that is no list of cores that this process may use.
    """
    allowed = sorted(os.sched_getaffinity(0), key=_order)
    cores = _chosen(os.environ.get(CHOSEN), allowed)
    quota = procfs.cpu_quota()
    return tuple(cores if quota is None else within(cores, quota))


def _chosen(text: str | None, allowed: list[int]) -> list[int]:
    if not text:
        return allowed
    words = [word.strip() for word in text.split(",")]
    numbers = {str(core): core for core in allowed}
    if not set(words) <= numbers.keys() or len(set(words)) < len(words):
        choice = ", ".join(numbers)
        raise ValueError(f"{CHOSEN}: {text}; allowed here, each once: {choice}")
    return [numbers[word] for word in words]


def place(core: int) -> int:
    """Return the first thread of the physical core that a core is a thread of.

    As the kernel reports it; in a virtual machine each may seem to be one of its own.
    The kernel's ``core_id`` would not do: it starts anew in each package, and on some
    machines in each cluster.
    """
    path = f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
    first = re.match(r"\d+", procfs.read_text(path))
    return int(first[0]) if first else core


def _order(core: int) -> tuple[int, int, int]:
    """Return a key that sorts by package, then by physical core."""
    path = f"/sys/devices/system/cpu/cpu{core}/topology/physical_package_id"
    return int(procfs.read_text(path).strip() or 0), place(core), core


def physical(cores: Iterable[int], *, place: Place = place) -> list[tuple[int, ...]]:
    """Return the cores by physical core, in the order of the first thread of each."""
    groups: dict[Hashable, list[int]] = {}
    for core in cores:
        groups.setdefault(place(core), []).append(core)
    return list(map(tuple, groups.values()))


def within(cores: Sequence[int], quota: float, *, place: Place = place) -> list[int]:
    """Return as many of the cores as a quota is worth, one at least, in their order.

    One thread of each physical core before a second one of any: those that are kept
    disturb each other least.
    """
    most = max(1, math.floor(quota))
    kept = _by_rank(physical(cores, place=place))[:most]
    return [core for core in cores if core in kept]


def split(
    cores: Sequence[int], *, server: int | None = None, place: Place = place
) -> Cores:
    """Give the server some of the cores (neighbours first) and the client the rest.

    `server` is how many the server gets: one thread of each physical core before a
    second one of any, and the last physical core only when all others are used up. Half
    of the physical cores with all their threads if not said. The client gets the
    physical cores that are left; where none is, the threads that are left; where none
    is, it shares all of them. `place` says which physical core a core belongs to.

    Raises ValueError when `server` is less than 1 or more than there are cores.
    """
    if server is not None and not 1 <= server <= len(cores):
        raise ValueError(f"cores: {server}; allowed here: 1 to {len(cores)}")
    groups = physical(cores, place=place)
    if server is not None:
        chosen = [*_by_rank(groups[:-1]), *groups[-1]][:server]
    elif len(groups) == 1:
        chosen = list(groups[0][: max(1, len(groups[0]) // 2)])
    else:
        chosen = [core for threads in groups[: len(groups) // 2] for core in threads]
    used = {place(core) for core in chosen}
    unused = [core for core in cores if core not in chosen]
    separate = [core for core in unused if place(core) not in used]
    return Cores(
        server=tuple(sorted(chosen)),
        client=tuple(separate or unused or cores),
        shared=not unused,
        siblings=bool(unused) and not separate,
    )


def one_each(cores: Sequence[int], *, place: Place = place) -> Cores:
    """Give the server one core and the client one, as far apart as `split` can."""
    sets = split(cores, server=1, place=place)
    return Cores(sets.server, sets.client[:1], sets.shared, sets.siblings)


def together(cores: Sequence[int]) -> Cores:
    """Give server and client one core between them."""
    core = tuple(cores[:1])
    return Cores(core, core, shared=True)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Start programs under SCHED_BATCH, so that none preempts another by waking up.

    Two of them on one core cost each other their work, and no preemptions besides.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


def of_trial(factors: Mapping[str, Any]) -> Cores:
    """Return the sets of a trial with these factors: `cores`, `together` or neither.

    Raises ValueError when there are not so many cores, or for both factors at once.
    """
    count = factors.get("cores")
    if not factors.get("together"):
        return split(available(), server=count)
    if count is not None:
        raise ValueError(f"cores: {count}; on one core together with the client")
    return together(available())


def _by_rank(groups: Sequence[Sequence[int]]) -> list[int]:
    """Return the first thread of each physical core, then the second of each, …"""
    ranks = zip_longest(*groups)
    return [core for rank in ranks for core in rank if core is not None]
