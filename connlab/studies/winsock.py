"""Study 15: the published table of Windows' six models beside our measurements.

paper/published/jones-models.csv -> a row per model and kind of clients
    -> beside it the model under Wine or on Windows, and its kin on Linux

The name of a server says where it runs: ``winsock-MODEL`` under Wine, ``windows-MODEL``
on Windows, at an address that ``servers.toml`` has.
"""

from collections.abc import Container, Iterable, Mapping

import pandas as pd

from connlab import schema
from connlab.study.frames import not_accepted

ROWS = ["model", "clients"]
CLIENTS = ("unlimited", "rate-limited")
#: names in the report of the models of ``server.exe --list``
IN_PRINT = {
    "blocking": "blocking",
    "select": "non_blocking_select",
    "async-select": "wsa_async_select",
    "event-select": "wsa_event_select",
    "overlapped": "overlapped_events",
    "iocp": "completion_port",
}
_SYSTEMS = {"winsock-": "Wine", "windows-": "Windows"}
#: bounds of the API on the connections of a model, on any system
BOUNDS = {
    "winsock-blocking": "stacks of two threads a connection",
    "winsock-select": "FD_SETSIZE, compiled with 32768",
    "winsock-select-64": "FD_SETSIZE, 64 in the headers; one is the listener",
    "winsock-async-select": "the window's queue: 10000 messages",
    "winsock-event-select": "64 events a wait; one wakes the thread",
    "winsock-overlapped": "64 events a wait; one wakes the thread",
    "winsock-iocp": "memory that posted receives lock",
}


def named(models: Iterable[str], entries: Container[str]) -> list[str]:
    """Return entries of ``servers.toml``; a plain MODEL is the one under Wine."""
    return [name if name in entries else f"winsock-{name}" for name in models]


def system(model: str) -> str:
    """Return where a server ran, by its name: ``Wine``, ``Windows`` or ``Linux``."""
    systems = (name for prefix, name in _SYSTEMS.items() if model.startswith(prefix))
    return next(systems, "Linux")


def _under_wine(model: str) -> str:
    return model.replace("windows-", "winsock-", 1)


def printed() -> pd.DataFrame:
    """Return the published numbers as text, by model and kind of clients.

    The first row of a model has clients without a limit, the second clients with a
    limited rate; further rows, of more connections, are left out.
    """
    path = schema.project_root() / "paper" / "published" / "jones-models.csv"
    table = pd.read_csv(path, comment="#", dtype=str)
    names = {printed: f"winsock-{model}" for model, printed in IN_PRINT.items()}
    table["model"] = table["model"].map(names)
    rank = table.groupby("model").cumcount()
    table["clients"] = rank.map(dict(enumerate(CLIENTS)))
    table = table.dropna(subset=["clients"]).set_index(ROWS)
    cpu = table["cpu_low_percent"] + " to " + table["cpu_high_percent"] + " %"
    return pd.DataFrame(
        {
            "connected": table["connected"] + " of " + table["attempted"],
            "threads": table["threads"],
            "pss_net_bytes": table["memory_kb"] + " KB",
            "server_cpu_share": cpu,
            "received_per_s": table["receive_bytes_s"] + " bytes/s",
            "bytes_per_s": table["send_bytes_s"] + " bytes/s",
        }
    )


def side_by_side(
    measured: pd.DataFrame, kin: Mapping[str, str], metrics: Mapping[str, str]
) -> pd.DataFrame:
    """Return printed and measured numbers, a row per model and kind of clients.

    Columns for Windows and for Wine are there if models ran on them.

    Parameters
    ----------
    measured : DataFrame
        Text by model and clients, columns as those of `printed`.
    kin : mapping of str to str
        The model of Linux that waits like each of the six.
    metrics : mapping of str to str
        Columns to show, and their heads.
    """
    published, measured = printed(), measured.reindex(columns=[*metrics])
    index = [(model, clients) for model in kin for clients in CLIENTS]
    in_print = [(_under_wine(model), clients) for model, clients in index]
    on_linux = [(kin[model], clients) for model, clients in index]
    table = pd.DataFrame(index, columns=ROWS)
    systems = table["model"].map(system)
    for metric, head in metrics.items():
        table[f"{head}, printed"] = published[metric].reindex(in_print).to_numpy()
        values = pd.Series(measured[metric].reindex(index).to_numpy())
        for name in systems.unique():
            table[f"{head}, {name}"] = values.where(systems == name)
        table[f"{head}, Linux"] = measured[metric].reindex(on_linux).to_numpy()
    return table


def as_accepted(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials that hold no more connections than their server accepted.

    The kernel completes a connection before the server accepts it, so a client counts
    those that still wait in the listen queue. Where a server's count is missing, the
    client's stands.
    """
    counts = {}
    for name in ("established", "surviving"):
        waiting = (trials["accepted"] < trials[name]).fillna(False).astype(bool)
        counts[name] = trials[name].mask(waiting, trials["accepted"])
    return trials.assign(**counts)


def starting(trials: pd.DataFrame) -> pd.Series:
    """Mark trials whose window may lie in the start of the server's threads.

    Clients of a limited rate are counted from a second after the last has connected,
    and the kernel connects before a server accepts. A server that by the end had not
    accepted all was starting for certain. Under Wine a thread takes half a millisecond
    to a whole one, so one with a thread or two for each of 1000 may have been.
    """
    many = trials["threads"] >= trials["connections"]
    there = trials["model"].map(system).ne("Linux")
    marked = not_accepted(trials) | (many.fillna(False) & there).astype(bool)
    return trials["byte_rate"].notna() & marked


def ends(atlas: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return where each model broke, with its threads there and the bound of its API.

    `atlas` is what `connlab.studies.breaking_points.atlas` says of these trials.
    """
    threads = trials.groupby(["model", "connections"])["threads"].max()
    highest = pd.MultiIndex.from_frame(atlas[["model", "carried"]])
    return atlas.assign(
        threads=threads.reindex(highest).to_numpy(),
        bound=atlas["model"].map(_under_wine).map(BOUNDS),
    )
