"""Study 04: who had Redis to itself, and who answered pages with errors.

trials -> ways               alone or in turns, by cell
       -> redis_per_page_s   what a page costs Redis, where it served one server
       -> error_pages        trials left out for such answers
"""

import pandas as pd

from connlab.study.turns import carried, in_turns


def ways(trials: pd.DataFrame) -> dict[tuple[str, int], str]:
    """Return how cells were measured, by model and clients: alone or in turns."""
    cell = [trials["model"], trials["connections"]]
    alone = (~in_turns(trials)).groupby(cell).all()
    return alone.map({True: "alone", False: "in turns"}).to_dict()


def redis_per_page_s(trials: pd.DataFrame) -> pd.Series:
    """Return the CPU time of Redis for a page, in seconds; missing in turns.

    There Redis serves all servers of a set, and only its mean over them is known.
    """
    pages = trials["window_s"] * trials["throughput_rps"]
    return (trials["companion_cpu_s"] / pages).where(~in_turns(trials))


def error_pages(trials: pd.DataFrame) -> pd.DataFrame:
    """Count the trials with error pages, which the gate ``verified`` leaves out.

    Returns
    -------
    DataFrame
        A row per model and number of connections with any: model, connections, wrong
        (trials with errors), trials (all).
    """
    once = trials[~carried(trials)]
    wrong = once["errors_status"].fillna(0).gt(0).astype(bool)
    cells = once.assign(wrong=wrong).groupby(["model", "connections"])["wrong"]
    counts = cells.agg(wrong="sum", trials="size").reset_index()
    return counts[counts["wrong"] > 0]
