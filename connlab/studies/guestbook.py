"""Study 04: who had Redis to itself, and who answered pages with errors.

    trials -> measured_alone     servers that took no turns with others; ways: by cell
           -> redis_per_page_s   what a page costs Redis, where it served one server
           -> error_pages        trials left out for such answers, in sentences
"""

from collections.abc import Mapping

import pandas as pd

from connlab.study.formatting import counted, listing
from connlab.study.turns import carried


def measured_alone(trials: pd.DataFrame) -> pd.Series:
    """Mark the trials whose server took no turns with others."""
    none = pd.Series(None, index=trials.index, dtype=object)
    return trials.get("set", none).isna()


def ways(trials: pd.DataFrame) -> dict[tuple[str, int], str]:
    """Return how cells were measured, by model and clients: alone or in turns."""
    cell = [trials["model"], trials["connections"]]
    alone = measured_alone(trials).groupby(cell).all()
    return alone.map({True: "alone", False: "in turns"}).to_dict()


def redis_per_page_s(trials: pd.DataFrame) -> pd.Series:
    """Return the CPU time of Redis for a page, in seconds; missing in turns.

    There Redis serves all servers of a set, and only its mean over them is known.
    """
    pages = trials["window_s"] * trials["throughput_rps"]
    return (trials["companion_cpu_s"] / pages).where(measured_alone(trials))


def error_pages(trials: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    """Return a sentence for each model that answered pages with errors.

    It says in how many trials, which the gate ``verified`` leaves out; a last one says
    that no other model did, if one did.

    Parameters
    ----------
    trials : DataFrame
        As from `connlab.study.load`.
    names : mapping of str to str
        How models are printed, in the order of the sentences.
    """
    once = trials[~carried(trials)]
    wrong = once.assign(wrong=once["errors_status"].fillna(0).gt(0).astype(bool))
    cells = wrong.groupby(["model", "connections"])["wrong"].agg(["sum", "size"])
    cells = cells[cells["sum"] > 0].reset_index()
    sentences = []
    for model in names:
        rows = cells.loc[cells["model"] == model, ["connections", "sum", "size"]]
        parts = [
            f"{some} of {counted(every, 'trial')} with {counted(clients, 'client')}"
            for clients, some, every in rows.to_numpy().tolist()
        ]
        if parts:
            said = f"In {listing(parts)}, {names[model]} answered pages with errors."
            sentences.append(said)
    innocent = set(once["model"]) - set(cells["model"])
    return [*sentences, "No other model did."] if sentences and innocent else sentences
