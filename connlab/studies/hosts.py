"""Resources that many connections and a fast link would need, from measurements.

addresses = connections / ports of an address     (the kernel's range)
processes = connections / descriptors of a process
cores     = requests that fill the link per second x CPU time of a request
memory    = connections x bytes of one, in the server and in the kernel
"""

import math

import pandas as pd

AROUND = 90
"""Bytes around a segment on the wire: Ethernet with its gap 38, IP 20, TCP 32."""

SEGMENT = 1500 - 20 - 32
"""Bytes that a segment holds at most."""


def messages_per_s(bits_per_s: float, size: int) -> float:
    """Return the messages of `size` bytes per second that fill a link one way.

    No two of them share a segment; acknowledgements travel with the answers.
    """
    return bits_per_s / 8 / (size + AROUND * math.ceil(size / SEGMENT))


def none_turns(words: pd.DataFrame) -> bool | None:
    """Whether no model is dearer in one place and cheaper in another; None: unknown.

    By the verdicts of `connlab.intervals.ratios`, a row per model and a column per
    place. It is unknown where one is undetermined, there is one place, or no model.
    """
    if (words.eq("higher").any(axis=1) & words.eq("lower").any(axis=1)).any():
        return False
    known = words.isin(["higher", "lower", "alike"]).all(axis=None)
    return True if known and words.size > len(words) else None


def units_needed(connections: int, per_unit: int | None) -> int:
    """Return how many addresses or processes hold all; 1 without a limit of each."""
    return math.ceil(connections / per_unit) if per_unit else 1
