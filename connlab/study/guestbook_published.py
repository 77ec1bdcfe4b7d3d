"""The table that Hussain printed, and what Little's law makes of it.

    paper/published/hussain-throughput.csv -> a row per model and level -> reread

One number a cell was published, so nothing in it has an interval.
"""

from __future__ import annotations

import pandas as pd

from connlab.study.claims import published
from connlab.study.formatting import plain

PUBLISHED = "hussain-throughput.csv"
THEIR_NAMES = {
    "iterative": "iterative",
    "forking": "fork",
    "preforked": "prefork",
    "threaded": "thread",
    "prethreaded": "prethread",
    "poll": "poll",
    "epoll": "epoll",
}
"""Columns of the published table, and the models that are their kin here."""


def their_table() -> pd.DataFrame:
    """Return the published table, a row per model and level: connections, value."""
    wide = published(PUBLISHED)
    rows = wide.melt("concurrency", var_name="theirs", value_name="said")
    rows = rows.rename(columns={"concurrency": "connections"})
    rows["model"] = rows["theirs"].map(THEIR_NAMES)
    rows["value"] = pd.to_numeric(rows["said"], errors="coerce")
    rows["reason"] = rows["said"].where(rows["value"].isna()).str.replace("_", " ")
    return rows.dropna(subset=["said"])


def reread() -> str:
    """Say what Little's law makes of the published table, without measuring."""
    rows = their_table().dropna(subset=["value"])
    rate = rows.set_index(["model", "connections"])["value"]
    clients, fast, slow = 20, rate["prethread", 20], rate["iterative", 20]
    return (
        f"In the published table {plain(clients)} clients get {plain(fast)} pages a "
        "second from prethreaded workers, so by Little's law a page took "
        f"{1000 * clients / fast:.1f} ms at most, waiting included. A server that "
        f"makes one such page at a time makes {plain(fast / clients)} a second at "
        f"least; theirs made {plain(slow)}, so something else than taking turns held "
        "it up."
    )
