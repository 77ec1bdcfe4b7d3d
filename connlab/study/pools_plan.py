"""What study 03 measures, and what it calls things.

    parameters -> Plan -> grids for one sweep: bursts as in the report, pools in steady
                          state whose workers sleep or compute, users who think
    frame      -> prepare: part, server, rate at the published time scale

Delays are those of the report times `Plan.time_scale`, so that a study takes minutes;
rates times the same factor stand beside the published ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

STUDY = "pools"

CAP = 16
"""Where the library that the report names stops, whatever size it is asked for."""

THREAD = "thread per request"

DELAYS = {
    "small": (2.0, 1.0),
    "wide": (2.0, 2.0),
    "long": (10.5, 1.0),
    "large": (10.5, 9.5),
}
"""Mean and half width in seconds, at the published time scale.

"small" is theirs (1 to 3 s). Their "large" is not given; its mean follows from their
rate if 16 threads were busy. "wide" moves the spread alone, "long" the mean alone.
"""

IN_WORDS = {
    "small": "1 to 3 s",
    "wide": "0 to 4 s, the same mean",
    "long": "9.5 to 11.5 s, the same spread",
    "large": "1 to 20 s",
}


# ---- what is measured ----------------------------------------------------------


def pool_of(size: int) -> str:
    """Return what a pool of this size is called."""
    return f"pool of {size}"


@dataclass(frozen=True)
class Plan:
    """What the study measures; `grids` are for one sweep.

    Attributes
    ----------
    time_scale : float
        Their delays are multiplied by this.
    at_once : sequence of int
        Requests of a burst; the last is theirs where nothing else is said.
    few : int
        Requests of a burst where a small pool would take long.
    pools : sequence of int
        Sizes of pools that get the bursts; `CAP` first.
    delays : sequence of str
        Names of `DELAYS` beside "small".
    buckets, cores : sequence of int
        Locked buckets; cores of the server.
    sizes, spinning : sequence of int
        Sizes of pools in steady state whose workers sleep, and compute.
    wait_ms : float
        How long they do.
    users, workers : int
        Of the queue that is compared with M/M/c.
    service_ms : float
        Mean of its service time.
    loads : sequence of float
        Its loads: what busy workers there would be if nobody waited, per worker.
    """

    time_scale: float = 0.01
    at_once: Sequence[int] = (256, 512, 768, 1024)
    few: int = 256
    pools: Sequence[int] = (CAP, 512)
    delays: Sequence[str] = ("wide", "large")
    buckets: Sequence[int] = (32, 128, 512, 2048)
    cores: Sequence[int] = ()
    sizes: Sequence[int] = (1, 4, 16, 64, 128, 256, 512)
    spinning: Sequence[int] = (1, 16)
    wait_ms: float = 2.0
    users: int = 40
    workers: int = 4
    service_ms: float = 5.0
    loads: Sequence[float] = (0.5, 0.8)

    @property
    def many(self) -> int:
        """Requests at once where nothing else is said."""
        return max(self.at_once)

    def delay(self, name: str) -> str:
        """Return a delay of `DELAYS` at this time scale, as the client is told it."""
        mean, spread = (1000 * self.time_scale * s for s in DELAYS[name])
        return f"uniform:{mean:g}:{spread:g}"

    def think_ms(self, load: float) -> float:
        """Return the think time that gives this load if nobody waits."""
        return self.service_ms * (self.users / (self.workers * load) - 1)

    def grids(self) -> list[dict[str, list]]:
        """Return the grids that `connlab.drive.sweep` joins into one sweep."""
        return [*self._bursts(), *self._steady(), *self._queue()]

    def _bursts(self) -> list[dict[str, list]]:
        thread, small = {"model": ["thread"]}, self.delay("small")
        pool = {"model": ["pool"], "workers": [CAP]}
        other = [self.delay(name) for name in self.delays]
        found = [
            _burst(thread, self.at_once, small),
            _burst(pool, sorted({*self.at_once, self.few}), small),
            _burst(pool | {"workers": list(self.pools)}, [self.many], small),
        ]
        for arm, n in ((thread, self.many), (pool, self.few)):
            found.append(_burst(arm, [n], small, buckets=list(self.buckets)))
            if other:
                found.append(_burst(arm, [n], *other))
            if self.cores:
                found.append(_burst(arm, [n], small, cores=list(self.cores)))
        return found

    def _steady(self) -> list[dict[str, list]]:
        kinds = [("sleep", size) for size in self.sizes]
        kinds += [("spin", size) for size in self.spinning]
        return [
            {
                "model": ["pool"],
                "workers": [size],
                "connections": [size],
                "delay": [f"fixed:{self.wait_ms:g}"],
                "delay_kind": [kind],
                "buckets": [128],
            }
            for kind, size in kinds
        ]

    def _queue(self) -> list[dict[str, list]]:
        if not self.loads:
            return []
        thinking = [f"exponential:{self.think_ms(load):.6g}" for load in self.loads]
        return [
            {
                "model": ["pool"],
                "workers": [self.workers],
                "connections": [self.users],
                "requests_per_connection": [1],
                "delay": [f"exponential:{self.service_ms:g}"],
                "delay_kind": ["sleep"],
                "buckets": [128],
                "think": thinking,
            }
        ]


def _burst(arm: Mapping, at_once: Sequence[int], *delays: str, **more) -> dict:
    fixed = {"requests": [1], "requests_per_connection": [1], "warmup": [0.0]}
    varied = {"connections": list(at_once), "delay": list(delays), "buckets": [128]}
    return {**arm, **fixed, **varied, "delay_kind": ["sleep"], **more}


def core_levels(count: int) -> list[int]:
    """Return 1, 2, 4 … as far as there are cores."""
    return [2**k for k in range(count.bit_length()) if 2**k <= count]


# ---- frames --------------------------------------------------------------------


def prepare(frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Return the frame with what this study calls things.

    New columns: part ("burst", "size", "spin" or "queue"), server ("thread per
    request", "pool of 16"), their_rate (throughput at the published time scale) and
    asked (cores that were asked for; 0: not said).
    """
    part = np.select(
        [
            frame["requests"].eq(1).fillna(False),
            frame["think"].notna(),
            frame["delay_kind"].eq("spin").fillna(False),
        ],
        ["burst", "queue", "spin"],
        "size",
    )
    sizes = frame["workers"].astype("string")
    server = ("pool of " + sizes).where(frame["model"] == "pool", THREAD)
    made = frame.assign(
        part=part,
        server=server,
        their_rate=frame["throughput_rps"] * plan.time_scale,
        asked=frame["cores"].fillna(0).astype(int),
    )
    made.attrs = frame.attrs
    return made


def burst(
    frame: pd.DataFrame,
    plan: Plan,
    *,
    delay: str = "small",
    buckets: int = 128,
    cores: int = 0,
) -> pd.DataFrame:
    """Return the bursts that differ from theirs in what is said only."""
    return frame[
        (frame["part"] == "burst")
        & (frame["delay"] == plan.delay(delay))
        & (frame["buckets"] == buckets)
        & (frame["asked"] == cores)
    ]
