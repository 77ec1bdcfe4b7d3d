"""Which cores the server and the client may use.

Two programs on one core measure the scheduler as much as each other, so the sets are
disjoint where there are two cores or more. Where there is one, both use it and the
trial says so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from connlab.drive import procfs


@dataclass(frozen=True)
class Cores:
    """Core sets of one trial; `shared` when they are not disjoint."""

    server: tuple[int, ...]
    client: tuple[int, ...]
    shared: bool

    def recorded(self) -> dict[str, list[int] | bool]:
        """Return the sets as a trial keeps them."""
        return {
            "server": list(self.server),
            "client": list(self.client),
            "shared": self.shared,
        }


def available() -> tuple[int, ...]:
    """Return the cores this process may use, threads of one physical core together."""
    return tuple(sorted(os.sched_getaffinity(0), key=_place))


def _place(core: int) -> tuple[int, int, int]:
    folder = f"/sys/devices/system/cpu/cpu{core}/topology"
    package = procfs.read_text(f"{folder}/physical_package_id").strip()
    physical = procfs.read_text(f"{folder}/core_id").strip()
    return int(package or 0), int(physical or core), core


def split(cores: Sequence[int], *, server: int | None = None) -> Cores:
    """Give the server some cores and the client the rest.

    Parameters
    ----------
    cores : sequence of int
        The cores there are, neighbours first.
    server : int, optional
        How many the server gets; half of them if not said. When that leaves none for
        the client, the client shares all of them.

    Raises
    ------
    ValueError
        When `server` is less than 1 or more than there are cores.
    """
    count = max(1, len(cores) // 2) if server is None else server
    if not 1 <= count <= len(cores):
        raise ValueError(f"cores: {count}; allowed here: 1 to {len(cores)}")
    first, rest = tuple(cores[:count]), tuple(cores[count:])
    return Cores(first, rest or tuple(cores), not rest)
