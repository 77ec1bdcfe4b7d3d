"""The numbers that Mao, Zhang and Lu printed, and how ours stand beside them.

    paper/published/mao-*.csv -> trials of a cell -> its interval, over their five tests

The library that they name stops at 16 threads, so their “pool of 512” keeps its
quotation marks.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from connlab.study import look
from connlab.study.claims import published
from connlab.study.comparing import Comparison, compare
from connlab.study.interval import Interval, t_interval
from connlab.study.pools_plan import THREAD, Plan, pool_of

TESTS = {"thread_per_request": THREAD, "pool": "pool"}
"""Their models, and what they are called here."""


def tests(table: str, **where: Any) -> pd.DataFrame:
    """Return published trials: columns of the table, server, test and value."""
    found = published(f"mao-{table}.csv")
    found["server"] = found["model"].map(TESTS)
    for column, level in where.items():
        found = found[found[column] == level]
    return found


def theirs(table: str, server: str, **where: Any) -> Interval:
    """Return the interval of a published cell, over its five tests."""
    found = tests(table, server=server, **where)
    return t_interval(found["value"])


def published_move(server: str) -> Comparison:
    """Compare what a server did under large delays with small ones, as published."""
    rows = {v: tests("delays", server=server, variation=v) for v in ("large", "small")}
    values = [rows[v]["value"].to_numpy() for v in ("large", "small")]
    return compare(*values, better="higher", paired=False)


def styles(plan: Plan) -> dict[str, look.Style]:
    """Return how the servers are drawn, the published ones in grey."""
    color = look.color("threads")
    found = {THREAD: look.Style(THREAD, color, "o")}
    pools = sorted({*plan.pools, *plan.sizes, *plan.spinning, plan.workers})
    for size, marker in zip(pools, "s^DvPX<>ph*o" * 9, strict=False):
        found[pool_of(size)] = look.Style(pool_of(size), color, marker)
    found |= {
        f"published {THREAD}": look.Style("published: thread", look.QUIET, "o"),
        "published pool": look.Style("published: “pool of 512”", look.QUIET, "s"),
    }
    return found


def scaled(plan: Plan) -> str:
    """Say at which time scale a figure or table was measured and is printed."""
    return (
        f"Measured at {plan.time_scale:g} of the published delays and printed at the "
        "published time scale; means with 95 % intervals over trials."
    )
