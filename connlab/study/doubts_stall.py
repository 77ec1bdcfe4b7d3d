"""A server that stands still: what each clock and each loop makes of it.

    trials with and without a stall -> tails of both clocks, both loops -> figure, table
                                    -> what the clock of the actual send sees
                                    -> the stall, found again

The truth is known: when requests fall due evenly in a window T and the server stands
still for s, a part s / T of them waits, so the quantile q of the response time is
s - (1 - q) T as far as that is positive. A clock that starts at the actual send sees a
few of those waits.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from connlab.study import figures, look
from connlab.study.calibration import CLOSE
from connlab.study.cells import interval_of, summarise, tail_table
from connlab.study.comparing import ratio_paired
from connlab.study.drawing import Picture
from connlab.study.formatting import number_text, plain
from connlab.study.frames import usable
from connlab.study.interval import Interval, t_interval
from connlab.study.results import Results, value_of
from connlab.study.tables import GAP, Column, Table


def with_loop(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the study's trials with the column `loop`: open or closed.

    It is missing where nobody asked for a stall, not even for none.
    """
    loop = frame["rate"].notna().map({True: "open", False: "closed"})
    return frame.assign(loop=loop.astype("string").where(frame["stall"].notna()))


ARMS = (
    ("open", "response", "open loop, from the intended send"),
    ("open", "service", "open loop, from the actual send"),
    ("closed", "response", "closed loop"),
)
_STYLES = {
    name: look.Style(name, look.color(family), marker)
    for (_, _, name), family, marker in zip(
        ARMS, ("readiness", "threads", "blocking"), ("o", "s", "^"), strict=True
    )
}


def tails(
    results: Results, frame: pd.DataFrame, *, root: str | Path = "runs"
) -> Picture | None:
    """Draw the tails of both clocks and both loops while the server stood still."""
    at = _stalled(frame)
    parts = [
        tail_table(at[at["loop"] == loop], by=["loop"], clock=clock, root=str(root))
        .assign(arm=name)
        .drop(columns="loop")
        for loop, clock, name in ARMS
    ]
    table = pd.concat([p for p in parts if len(p)] or parts[:1], ignore_index=True)
    if table.empty:
        return None
    length = plain(float(at["stall"].iloc[0]))
    return results.figure(
        "stall",
        figures.tails(table, label="latency", by="arm", styles=_STYLES),
        caption=f"Latency while the server stands still for {length} ms in the middle "
        "of the window: the same trials of the open loop by two clocks, and a closed "
        "loop with as many connections that asks for as many requests. Means of "
        "per-trial quantiles with 95 % intervals.",
    )


def _stalled(frame: pd.DataFrame) -> pd.DataFrame:
    good = usable(frame)
    at = good[good["stall"].fillna(0) == frame["stall"].max()]
    at.attrs = frame.attrs
    return at[at["stall"] > 0]


def table(results: Results, frame: pd.DataFrame) -> Table:
    """Tabulate the 99th percentile by loop, clock and stall, beside what is known."""
    rows = []
    for loop, clock, name in ARMS:
        mine = frame[frame["loop"] == loop]
        cells = summarise(mine, f"{clock}_p99_s", by=["stall"])
        for _, row in cells.iterrows():
            length_s = float(row["stall"]) / 1000
            wait = length_s - 0.01 * float(mine["duration"].iloc[0])
            users = (loop, clock) == ("open", "response")
            known = f"{plain(1000 * wait)} ms" if users and wait > 0 else GAP
            text = value_of(interval_of(row), "s")["text"]
            text = GAP if pd.isna(row["value"]) else text
            rows.append((name, plain(row["stall"]), text, known, str(row["n"])))
    heads = (
        Column("arm", "loop and clock"),
        Column("stall", "stall", "ms"),
        Column("p99", "99th percentile"),
        Column("known", "due to those who wait"),
        Column("n", "trials"),
    )
    return results.table(
        "stall",
        Table(heads, tuple(rows)),
        caption="99th percentile of latency with and without a stall. With requests "
        "that fall due evenly in a window T, a stall s makes it s − 0.01 T.",
    )


def omission(frame: pd.DataFrame) -> str:
    """Say which part of the 99th percentile the clock of the actual send sees."""
    share = seen(frame)
    if share is None:
        return "Too few usable trials of the stalled open loop to compare the clocks."
    at = _stalled(frame)
    mine = at[at["loop"] == "open"]
    both = [
        value_of(interval_of(summarise(mine, f"{c}_p99_s", by=["loop"]).iloc[0]), "s")
        for c in ("response", "service")
    ]
    length = plain(float(at["stall"].iloc[0]))
    text = (
        f"While the server stood still for {length} ms, the 99th percentile in the "
        f"open loop is {both[0]['text']} from the intended send and {both[1]['text']} "
        f"from the actual one: "
    )
    if not share.determined or share.contains(1.0):
        return text + "that the clocks differ is not shown."
    ratio = number_text(share)
    if share.hi < 1:
        return text + f"the second clock shows {ratio} of what users wait for."
    return text + f"the second clock shows more, {ratio} times as much."


def seen(frame: pd.DataFrame) -> Interval | None:
    """Return the p99 of service over that of response, open loop, stalled."""
    good = _stalled(frame)
    good = usable(good[good["loop"] == "open"], "response_p99_s", "service_p99_s")
    if len(good) < 2:
        return None
    return ratio_paired(good["service_p99_s"], good["response_p99_s"])


def recovered(frame: pd.DataFrame) -> str:
    """Say whether the stall is found again in the clock of the intended send."""
    at = _stalled(frame)
    mine = at[at["loop"] == "open"]
    if len(mine) < 2:
        return "Too few usable trials of the stalled open loop to find the stall again."
    found = t_interval(usable(mine, "response_p99_s")["response_p99_s"].astype(float))
    known = float(mine["stall"].iloc[0]) / 1000 - 0.01 * float(mine["duration"].iloc[0])
    if known <= 0:
        return "The stall is too short in this window to reach the 99th percentile."
    text = value_of(found, "s")["text"]
    said = f"With requests due evenly it has to be {plain(1000 * known)} ms; "
    if found.contains(known):
        return f"{said}the interval {text} holds that, so the stall is found again."
    off = found.value / known - 1
    if abs(off) <= CLOSE:
        return f"{said}{text} is within {CLOSE:.0%} of that: the stall is found again."
    return f"{said}{text} is off by {off:+.0%}, which its interval does not explain."


def politeness(frame: pd.DataFrame) -> str:
    """Say what a closed loop reports of the same stall."""
    at = _stalled(frame)
    cells = summarise(at, "response_p99_s", by=["loop"]) if len(at) else None
    rows = {} if cells is None else {r["loop"]: r for _, r in cells.iterrows()}
    if {"open", "closed"} - set(rows):
        return "The loops cannot be compared: one has no usable stalled trial."
    texts = {k: value_of(interval_of(r), "s")["text"] for k, r in rows.items()}
    closed = at[at["loop"] == "closed"]
    longest = closed["response_max_s"].astype(float).mean()
    return (
        f"The closed loop with as many connections reports a 99th percentile of "
        f"{texts['closed']} for the same stall, the open loop {texts['open']}. Its "
        "users stop asking while they wait, so at most one request of each connection "
        f"sees the stall; its longest wait ({plain(longest * 1000)} ms on average) "
        "is the only trace."
    )
