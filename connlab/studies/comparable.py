"""Which trials compare: servers that serve all their clients, measured alike.

trials -> serves_all    not one client after another, nor fewer workers than clients
       -> apart         measured alone where others at the same levels took turns
       -> comparable    those that may be a side of a ratio, or a rank
       -> left_out      a sentence for each model that is not, for the notes
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from connlab.study.formatting import listing, plain
from connlab.study.frames import counted, passed
from connlab.study.turns import in_turns

WORKERS = 8
"""Workers of a server that was told no number and reported none."""


def comparable(trials: pd.DataFrame, within: Sequence[str]) -> pd.Series:
    """Mark the trials that compare with others at the same levels of `within`.

    They are as from `connlab.study.load`, with its ``attrs``.
    """
    return serves_all(trials) & ~measured_alone(trials, within)


def serves_all(trials: pd.DataFrame) -> pd.Series:
    """Mark the trials whose server serves all of its connections at once.

    One that serves a client, or a client for each of its workers, to the end leaves the
    others waiting, and nobody knows how long: its answers are those of fewer users. A
    model that the run's registry does not have counts as one that serves all.
    """
    kinds, clients = _holds(trials), trials["connections"].astype(float)
    asked_or_ran = trials.reindex(columns=["workers", "workers_started"]).astype(float)
    workers = asked_or_ran.bfill(axis=1)["workers"].fillna(WORKERS)
    served = workers.where(kinds.eq("workers"), math.inf)
    return served.mask(kinds.eq("one"), 1.0) >= clients


def _holds(trials: pd.DataFrame) -> pd.Series:
    """Return what bounds the clients that each trial's model serves, if it is known."""
    holds = {m["name"]: m.get("holds") for m in trials.attrs.get("registry") or ()}
    return trials["model"].map(holds)


def measured_alone(trials: pd.DataFrame, within: Sequence[str]) -> pd.Series:
    """Mark the trials that were measured alone where others took turns.

    A server alone keeps its caches warm; in turns those of others come in between.
    Where nobody took turns at the same levels of `within`, none is marked.
    """
    turns = in_turns(trials)
    levels = [trials[column] for column in within]
    some = (turns & passed(trials)).groupby(levels, dropna=False).transform("any")
    return ~turns & some.astype(bool)


def left_out(
    trials: pd.DataFrame, within: Sequence[str], names: Mapping[str, str]
) -> Iterator[str]:
    """Give a sentence for each model of which usable trials do not compare."""
    whole, one = serves_all(trials), _holds(trials).eq("one")
    alone = measured_alone(trials, within)
    reasons = {
        "it serves its clients one after the other": ~whole & one,
        "it serves no more clients at a time than it has workers": ~whole & ~one,
        "it was measured alone while others took turns": whole & alone,
    }
    for why, marked in reasons.items():
        left = trials[counted(trials) & marked]
        for model, part in left.groupby("model", sort=False):
            levels = listing(map(plain, sorted(set(part["connections"]))))
            noun = "connection" if levels == "1" else "connections"
            name = names.get(model, model)
            yield f"Comparisons leave out {name} at {levels} {noun}, as {why}."
