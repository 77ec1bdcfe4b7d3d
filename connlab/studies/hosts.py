"""What many connections and a fast link would need, from what was measured.

addresses = connections / ports of an address     (the kernel's range)
processes = connections / descriptors of a process
cores     = requests that fill the link per second x CPU time of a request
memory    = connections x bytes of one, in the server and in the kernel
"""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from connlab.drive import checkup
from connlab.study.frames import load_manifest

AROUND = 90
"""Bytes around a message on the wire: Ethernet with its gap 38, IP 20, TCP 32."""


def filling(bits_per_s: float, size: int) -> float:
    """Return how many messages of `size` bytes a second fill a link in one direction.

    Each message is a segment of its own; acknowledgements travel with the answers.
    """
    return bits_per_s / 8 / (size + AROUND)


def room(run: str, *, root: str | Path = "runs") -> dict[str, int | None]:
    """Return the ports of an address and the descriptors of a process of a run.

    Those of the server's machine, as the run's manifest has them; None: no limit.
    """
    told = load_manifest(run, root=root)["machine"]
    span = told["sysctls"].get("net.ipv4.ip_local_port_range")
    limit = told["limits"]["descriptors"]["hard"]
    return {"ports": checkup.port_count(span), "descriptors": limit}


def stood_in(run: str, *, root: str | Path = "runs") -> bool:
    """Whether the hosts of a run were namespaces of one machine."""
    known = load_manifest(run, root=root)["environments"].values()
    return any(facts.get("stand_in") for facts in known)


def least(connections: int, each: int | None) -> int:
    """Return how many of what holds `each` connections hold all; 1 without a limit."""
    return math.ceil(connections / each) if each else 1


def times(
    cells: pd.DataFrame, factor: float, *, metric: str, unit: str
) -> pd.DataFrame:
    """Return quantities with their intervals as another metric, so many times as much.

    Parameters
    ----------
    cells : DataFrame
        As from `connlab.intervals.intervals`.
    factor : float
        Known, so that the interval keeps its relative width.
    metric, unit : str
        Of the product.
    """
    bounds = ["value", "lo", "hi"]
    return cells.assign(**cells[bounds] * factor, metric=metric, unit=unit)
