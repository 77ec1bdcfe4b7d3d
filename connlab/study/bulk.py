"""Study 05: how many bytes does each model move, and at what cost?

    frame -> clients that send all they can, at several numbers -> figures
          -> the same at several sizes of a message             -> figure
          -> clients whose blocks have an allowance of bytes    -> share that is moved
          -> both kinds side by side                            -> table as published
          -> the answer in one sentence                         -> results.json

The table of Jones and Ohlund has, for each model, one row of clients that send as fast
as they can and one or two of clients whose rate is limited. So has ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from connlab.study import figures, look, reporting
from connlab.study.cells import Compared, compare_cells, interval_of, summarise
from connlab.study.drawing import Picture
from connlab.study.formatting import counted, display_unit, listing, plain, plus_minus
from connlab.study.frames import usable
from connlab.study.metrics import metric as metric_of
from connlab.study.results import Results, start
from connlab.study.tables import GAP, Column, Table

STUDY = "bulk"
NUMBER = 5
QUESTION = "How many bytes does each model move, and at what cost?"
FACTORS = ("model", "clients", "connections", "bytes")
FREE, LIMITED = "unlimited", "rate-limited"
VALUES = {"rate": "bytes_per_s", "cpu": "cpu_per_byte_s"}
"""Values that the paper may name, as MODEL_KIND_CLIENTS_CONNECTIONS_BYTES."""
HOLDS = ("descriptors", "fd_setsize", "threads")
"""Models that suit: they serve many connections at once in one process."""


def grids(
    models: Sequence[str],
    connections: Sequence[int],
    *,
    size: int,
    sizes: Sequence[int],
    size_at: int,
    byte_rate: int,
    block: int,
) -> list[dict[str, list]]:
    """Return the grids of the sweep: free clients, limited ones, several sizes."""
    free = {"model": list(models), "connections": list(connections), "size": [size]}
    made = [free]
    if byte_rate:
        made.append(free | {"byte_rate": [byte_rate], "block": [block]})
    if others := [n for n in sizes if n != size]:
        made.append(free | {"connections": [size_at], "size": others})
    if others and size_at not in connections:
        made.append(free | {"connections": [size_at]})
    return made


def with_kinds(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with what this study looks at.

    `clients` (unlimited or rate-limited), `bytes` (of a message), `cpu_per_byte_s`,
    and for limited clients `moved`: bytes per second over what their blocks allow.
    """
    size = frame["size"].astype("Int64")
    limited = frame["byte_rate"].notna()
    each = frame["block_size"].astype("float64").fillna(frame["connections"])
    blocks = np.ceil(frame["connections"].astype("float64") / each)
    made = frame.assign(
        clients=limited.map({True: LIMITED, False: FREE}),
        bytes=size,
        cpu_per_byte_s=frame["server_cpu_per_request_s"] / size.astype("float64"),
        moved=frame["bytes_per_s"] / (frame["byte_rate"] * blocks),
    )
    made.attrs = frame.attrs
    return made


def at_connections(frame: pd.DataFrame, clients: str, *, size: int) -> pd.DataFrame:
    """Return the trials of one kind of clients with messages of one size."""
    return reporting.part(
        frame, (frame["clients"] == clients) & (frame["bytes"] == size)
    )


def begin(frame: pd.DataFrame, *, root: str | Path = "runs") -> Results:
    """Begin the results: what was varied, counted, left out; every value by name."""
    results = start(frame, number=NUMBER, question=QUESTION, factors=FACTORS, root=root)
    reporting.keep_values(results, frame, VALUES, by=FACTORS)
    return results


# ---- figures ------------------------------------------------------------------


def rate(results: Results, frame: pd.DataFrame, *, size: int) -> Picture:
    """Draw bytes per second of clients without a limit against connections."""
    free = at_connections(frame, FREE, size=size)
    return results.figure(
        STUDY,
        figures.curves(free, "bytes_per_s", log_y=False),
        caption=f"Bytes echoed per second against connections, messages of {size} "
        "bytes, every client sends as fast as it can. " + _READ_AS,
    )


def sizes(results: Results, frame: pd.DataFrame) -> Picture | None:
    """Draw bytes per second against the size of a message; None for one size."""
    free = frame[frame["clients"] == FREE]
    several = free.groupby("connections")["bytes"].nunique()
    if several.max() < 2:
        return None
    n = several.idxmax()
    at = reporting.part(free, free["connections"] == n)
    return results.figure(
        f"{STUDY}-sizes",
        figures.curves(at, "bytes_per_s", x="bytes", x_label="bytes of a message"),
        caption="Bytes echoed per second against the size of a message, "
        f"{counted(n, 'connection')}, no limit. " + _READ_AS,
    )


def cost(results: Results, frame: pd.DataFrame, *, size: int) -> Picture:
    """Draw the server's CPU time per MiB of clients without a limit."""
    free = at_connections(frame, FREE, size=size)
    table = summarise(free, "cpu_per_byte_s", by=["model", "connections"])
    table[["value", "lo", "hi"]] *= 2**20
    picture = figures.curves_of(
        table,
        label="server CPU per MiB",
        unit="s",
        x="connections",
        by="model",
        styles=look.styles(free),
        families=look.families(free),
    )
    return results.figure(
        f"{STUDY}-cost",
        picture,
        caption="CPU time of the server per MiB echoed against connections, clients "
        "without a limit. " + _READ_AS,
    )


def allowance(results: Results, frame: pd.DataFrame, *, size: int) -> Picture | None:
    """Draw which part of their allowance limited clients moved; None without any."""
    limited = at_connections(frame, LIMITED, size=size)
    if limited.empty:
        return None
    table = summarise(limited, "moved", by=["model", "connections"])
    picture = figures.curves_of(
        table,
        label="share of the allowance that was moved",
        unit="1",
        x="connections",
        by="model",
        styles=look.styles(limited),
        families=look.families(limited),
        log_y=False,
    )
    return results.figure(
        f"{STUDY}-allowance",
        picture,
        caption="Bytes echoed per second over what the clients' blocks allow, against "
        "connections. " + _READ_AS,
    )


_READ_AS = (
    "Means over usable trials with 95 % intervals; crosses mark cells without any."
)


# ---- the table as published ----------------------------------------------------

TAKEN = {
    "pss_net_bytes": "memory",
    "socket_memory_bytes": "socket buffers",
    "server_cpu_share": "CPU",
    "threads_max": "threads",
    "bytes_per_s": "bytes",
}


def table(results: Results, frame: pd.DataFrame, *, size: int) -> Table:
    """Tabulate the most connections as published: a row per model and kind.

    Connections are counted over all trials; the rest are means over usable ones.
    """
    n = frame["connections"].max()
    here = (frame["connections"] == n) & (frame["bytes"] == size)
    at = reporting.part(frame, here)
    parts = {c: summarise(at, c, by=["model", "clients"]) for c in TAKEN}
    units = {c: display_unit(metric_of(c).unit, t["value"]) for c, t in parts.items()}
    rows = []
    for name, style in look.styles(at).items():
        for kind in (FREE, LIMITED):
            trials = at[(at["model"] == name) & (at["clients"] == kind)]
            if trials.empty:
                continue
            held = trials["established"].fillna(0).mean()
            texts = [_text(parts[c], name, kind, units[c][0]) for c in TAKEN]
            rows.append((style.label, kind, plain(float(n)), plain(held), *texts))
    heads = [Column(h, h) for h in ("model", "clients", "attempted", "connected")]
    heads += [Column(c, text, units[c][1]) for c, text in TAKEN.items()]
    return results.table(
        STUDY,
        Table(tuple(heads), tuple(rows)),
        caption="As in the published table: connections, memory of the server's "
        "processes net of their start, socket buffers in the kernel (on loopback of "
        "both ends), CPU time over what the server's cores could give, threads, bytes "
        "echoed; means with 95 % intervals. A dash: no usable trial.",
    )


def _text(table: pd.DataFrame, model: str, clients: str, factor: float) -> str:
    row = table[(table["model"] == model) & (table["clients"] == clients)].iloc[0]
    if pd.isna(row["value"]):
        return GAP
    return plus_minus(interval_of(row).scaled(factor))


# ---- comparisons and findings ---------------------------------------------------


def compare(frame: pd.DataFrame, *, baseline: str, size: int) -> list[Compared]:
    """Compare bytes per second of unlimited clients with `baseline`, by connections."""
    free = at_connections(frame, FREE, size=size)
    return compare_cells(free, "bytes_per_s", baseline=baseline, within=["connections"])


def words(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> None:
    """Keep every comparing word, as MODEL_BASELINE_CONNECTIONS."""
    reporting.keep_words(results, frame, found, verdict=verdict)


def verdict(one: Compared, names: Mapping[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    return reporting.verdict_of_models(
        one,
        names,
        does="moves more",
        times="the bytes",
        where=f"at {counted(one.where['connections'], 'connection')}",
    )


def ratios(
    results: Results, frame: pd.DataFrame, found: Sequence[Compared]
) -> Picture | None:
    """Draw every ratio of bytes per second; None where nothing compares."""
    return reporting.ratios(
        results,
        frame,
        found,
        name=f"{STUDY}-ratios",
        what="bytes per second",
        pronoun="those",
    )


def fastest(frame: pd.DataFrame, *, size: int) -> str:
    """Say whose mean of bytes is highest and lowest, where most models stand."""
    free = at_connections(frame, FREE, size=size)
    if usable(free).empty:
        return "No trial of unlimited clients is usable."
    n, at = reporting.at_common_level(free)
    means = reporting.ranked(at, "bytes_per_s")
    those = reporting.that_rank(at, "bytes_per_s")
    where = f"With {counted(n, 'connection')} and messages of {size} bytes"
    if not means:
        return f"{where} the client was the bottleneck of every model."
    if len(means) == 1:
        only = "that the client did not limit" if those else "with usable trials"
        return f"{where} {means[0].label_first} is the only model {only}."
    return (
        f"{where} {means[-1].label_first} has the highest mean{those}, "
        f"{means[0].label_first} the lowest."
    )


def served(frame: pd.DataFrame) -> str:
    """Say whether limited clients could move what they were allowed."""
    good = usable(frame[frame["clients"] == LIMITED], "moved")
    if good.empty:
        return "No trial of rate-limited clients is usable."
    means = good.groupby(["model", "connections"])["moved"].mean()
    full = int((means >= 0.95).sum())
    text = (
        f"Rate-limited clients moved at least 95 % of their allowance in {full} of "
        f"{counted(len(means), 'cell')}"
    )
    if full == len(means):
        return text + "."
    (model, n), least = means.idxmin(), means.min()
    return text + f"; the least was {least:.0%}, by {model} at {plain(float(n))}."


def lost(frame: pd.DataFrame) -> str:
    """Say which cells did not keep every connection, over all trials."""
    kept = frame["surviving"].fillna(0) == frame["connections"]
    names = look.styles(frame)
    bad = frame[~kept.astype(bool)].groupby("model")["connections"].min()
    if bad.empty:
        return "Every connection that was attempted was kept, in every trial."
    said = [f"{names[m].label} from {plain(float(n))} on" for m, n in bad.items()]
    return f"Connections were lost by {listing(said)}."


_MOVE = {
    "faster than": "ahead",
    "slower than": "behind",
    "indistinguishable from": "alike within ±5 %",
    "undetermined": "undetermined",
}
"""What the answer says of the bytes in each word."""


def answer(frame: pd.DataFrame, found: Sequence[Compared], *, size: int) -> str:
    """Answer the question in one sentence."""
    if not found:
        return reporting.TOO_FEW
    tally = reporting.tally(frame, found, said=_MOVE)
    return f"{fastest(frame, size=size).removesuffix('.')}; {tally}."
