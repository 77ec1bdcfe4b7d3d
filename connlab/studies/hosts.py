"""Resources that many connections and a fast link would need, from measurements.

addresses = connections / ports of an address     (the kernel's range)
processes = connections / descriptors of a process
cores     = requests that fill the link per second x CPU time of a request
memory    = connections x bytes of one, in the server and in the kernel
"""

import math
from pathlib import Path

import pandas as pd

from connlab.drive import checkup
from connlab.study.frames import load_manifest

AROUND = 90
"""Bytes around a segment on the wire: Ethernet with its gap 38, IP 20, TCP 32."""

SEGMENT = 1500 - 20 - 32
"""Bytes that a segment holds at most."""


def messages_per_s(bits_per_s: float, size: int) -> float:
    """Return the messages of `size` bytes per second that fill a link one way.

    No two of them share a segment; acknowledgements travel with the answers.
    """
    return bits_per_s / 8 / (size + AROUND * math.ceil(size / SEGMENT))


def limits(run: str, *, root: str | Path = "runs") -> dict[str, int | None]:
    """Return how many ports an address and descriptors a process had in a run.

    Those of the server's machine, from the run's manifest; None: no limit.
    """
    machine = load_manifest(run, root=root)["machine"]
    ports = machine["sysctls"].get("net.ipv4.ip_local_port_range")
    limit = machine["limits"]["descriptors"]["hard"]
    return {"ports": checkup.port_count(ports), "descriptors": limit}


def on_one_machine(run: str, *, root: str | Path = "runs") -> bool:
    """Whether the hosts of a run were namespaces of one machine."""
    environments = load_manifest(run, root=root)["environments"].values()
    return any(environment.get("stand_in") for environment in environments)


def none_turns(words: pd.DataFrame) -> bool | None:
    """Whether no model is dearer in one place and cheaper in another; None: unknown.

    It is unknown where a verdict is undetermined, there is one place, or no model.

    Parameters
    ----------
    words : DataFrame
        Verdicts of `connlab.intervals.ratios`: a row per model, a column per place.
    """
    if (words.eq("higher").any(axis=1) & words.eq("lower").any(axis=1)).any():
        return False
    known = words.isin(["higher", "lower", "alike"]).all(axis=None)
    return True if known and words.size > len(words) else None


def units_needed(connections: int, per_unit: int | None) -> int:
    """Return how many addresses or processes hold all; 1 without a limit of each."""
    return math.ceil(connections / per_unit) if per_unit else 1
