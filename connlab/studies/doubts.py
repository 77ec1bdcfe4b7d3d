"""Study 09: ratios of a run's other studies under other analyses, and their drift."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from connlab import schema
from connlab.intervals import NUMBERS, ratios
from connlab.report import RATIOS, level, levels
from connlab.study import turns
from connlab.study.formatting import called
from connlab.study.frames import RunError, load, passed
from connlab.study.interval import Interval
from connlab.study.metrics import is_bounded_by_client
from connlab.study.turns import verdict
from connlab.variances import TRIALS_MIN, Fit, level_of_each, moderated

KINDS = ("same", "weaker", "stronger", "other", "reversed")
"""Relations of a verdict to the printed one; see `kind`."""

_CONTROLS = ("doubts", "the-machine", "intervals")
_OPEN = "undetermined"
_PAIR = ("model", "against")


@dataclass(frozen=True)
class Study:
    """Trials of a study, and the ratios between models that it printed."""

    name: str
    trials: pd.DataFrame
    printed: pd.DataFrame
    """Its ``ratios.csv``, of pairs of models."""

    def families(self) -> Iterator[tuple[str, str, list[str], pd.DataFrame]]:
        """Give metric, baseline, columns that both sides share, and their ratios."""
        columns = [tuple(levels(row)) for row in self.printed.to_dict("records")]
        named = pd.Series(columns, index=self.printed.index, dtype=object)
        by = [self.printed["metric"], self.printed["against"], named]
        for (metric, against, shared), pairs in self.printed.groupby(by):
            yield metric, against, [c for c in shared if c not in _PAIR], pairs


def studies(
    run: str, *, root: str | Path = "runs", accept: Sequence[str] = ()
) -> list[Study]:
    """Return the studies of a run that compare models and are no controls.

    `accept` is that of `connlab.study.load`.
    """
    compared = []
    how = {"root": root, "accept": accept, "measure": False, "warn": False}
    for path in _ratios(run, root):
        table, name = pd.read_csv(path), path.parent.name
        if "model" not in table:
            continue
        try:
            trials = load(run, name, **how)
        except RunError:
            continue
        models = table["against"].isin(trials["model"].dropna().unique())
        models &= table["model"].notna()
        if models.any():
            compared.append(Study(name, trials, table[models]))
    return compared


def _ratios(run: str, root: str | Path) -> list[Path]:
    paths = sorted(schema.run_folder(run, root=root).glob(f"*/{RATIOS}"))
    return [path for path in paths if path.parent.name not in _CONTROLS]


def names(run: str, *, root: str | Path = "runs") -> list[str]:
    """Return the studies of a run that have trials and are no controls."""
    found = schema.run_folder(run, root=root).glob(f"*/{schema.TRIALS}*")
    return sorted({path.parent.name for path in found} - set(_CONTROLS))


# ---- other analyses --------------------------------------------------------------


def slowest_block(trials: pd.DataFrame) -> int:
    """Return the block whose trials lie lowest below the medians of their cells.

    -1 where no trial counts.
    """
    off = course(trials).groupby("block")["off"].mean()
    return int(off.idxmin()) if len(off) else -1


def unpaired(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials whose models share no block, so that they are independent."""
    number = trials["model"].astype("category").cat.codes.astype(int)
    blocks = trials["block"] + 10_000 * (1 + number)
    return trials.assign(block=blocks).drop(columns=["set", "rounds"], errors="ignore")


def examine(
    studies: list[Study], ways: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]]
) -> pd.DataFrame:
    """Compute printed ratios between models again from changed trials.

    Those whose metric or cell a notebook derived in a way that trials do not tell are
    left out: the unchanged trials have to give each of them as it is printed.

    Each of the `ways` takes trials and returns those of another analysis.

    Returns
    -------
    DataFrame
        One row per ratio and way: study, metric, model, against, where, printed (the
        verdict in the paper), way, then (the verdict that way; undetermined where no
        trial is left), kind.
    """
    rows = []
    for study in studies:
        for metric, against, within, pairs in study.families():
            if metric not in study.trials:
                continue
            trials, same = _made_again(study.trials, pairs)
            for way, change in ways.items():
                found = _in_cells(change(trials), metric, against)
                verdicts = found.set_index(["model", "cell"])["verdict"].to_dict()
                for row in same.to_dict("records"):
                    where = _cell_text({c: row[c] for c in within})
                    was = row["verdict"]
                    then = verdicts.get((row["model"], row["cell"]), _OPEN)
                    pair = study.name, metric, row["model"], against, where
                    rows.append((*pair, was, way, then, kind(was, then)))
    columns = ["study", "metric", "model", "against", "where", "printed", "way", "then"]
    table = pd.DataFrame(rows, columns=[*columns, "kind"])
    return table.sort_values(columns[:-1], ignore_index=True)


def _made_again(
    trials: pd.DataFrame, printed: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the trials that ratios were made of, and those that they give again.

    A notebook chooses trials and names levels as it likes. So each combination of what
    was varied for the baseline is a cell, and a printed ratio is in the cell that gives
    its value. Bounds depend on the whole family: they are asked of these cells alone.
    """
    metric, against = printed[["metric", "against"]].iloc[0]
    base = trials[trials["model"] == against]
    varied = [c.name for c in schema.FACTORS if base[c.name].nunique(dropna=False) > 1]
    cells = [_cell_text(levels(row)) for row in trials[varied].to_dict("records")]
    trials = trials.assign(cell=cells)
    near = _alike(printed, _in_cells(trials, metric, against), "value", "n")
    pairs = set(near[["model", "cell"]].itertuples(index=False, name=None))
    pairs |= {(against, cell) for _, cell in pairs}
    made = zip(trials["model"], trials["cell"], strict=True)
    trials = trials.loc[[pair in pairs for pair in made]]
    again = _in_cells(trials, metric, against)
    return trials, _alike(printed, again, "value", "lo", "hi", "n")


def _in_cells(trials: pd.DataFrame, metric: str, against: str) -> pd.DataFrame:
    return ratios(trials, metric, baseline=against, within=["cell"])


def _alike(printed: pd.DataFrame, made: pd.DataFrame, *numbers: str) -> pd.DataFrame:
    """Return the printed ratios that were made with the same numbers, and where."""
    printed = printed.dropna(subset="value")
    both = printed.merge(made, on="model", suffixes=("", "_made"))
    sides = (both[[f"{n}{side}" for n in numbers]] for side in ("", "_made"))
    old, new = (side.to_numpy(dtype=float) for side in sides)
    return both[np.isclose(old, new, rtol=1e-9, atol=0, equal_nan=True).all(axis=1)]


def _cell_text(cell: Mapping[str, object]) -> str:
    """Return ``computing, 1 connection, 50 active``."""
    texts = []
    for name, value in cell.items():
        if name == "work":
            texts.append(called(name, level(value)))
            continue
        noun, *more = name.split("_")
        if value == 1:
            noun = noun.removesuffix("es" if noun.endswith("sses") else "s")
        texts.append(" ".join([level(value), noun, *more]))
    return ", ".join(texts)


def kept_open(run: str, *, root: str | Path = "runs") -> pd.DataFrame:
    """Return printed ratios without a verdict whose intervals alone give one.

    Of rates and response times, where the client was the bottleneck: a report that
    never asks would have them. Of all studies that are no controls, and of ratios of a
    model to itself too; columns are those of `connlab.intervals.ratios` that are not
    factors, and study.
    """
    columns = ["study", "metric", *NUMBERS, "verdict"]
    tables = [pd.read_csv(path, usecols=columns) for path in _ratios(run, root)]
    if not tables:
        return pd.DataFrame(columns=columns)
    every = pd.concat(tables, ignore_index=True).dropna(subset=["lo", "hi"])
    told = [
        row["verdict"] == _OPEN
        and is_bounded_by_client(row["metric"])
        and verdict(Interval.of_row(row)) != _OPEN
        for row in every.to_dict("records")
    ]
    return every[np.array(told, dtype=bool)]


def kind(was: str, then: str) -> str:
    """Return how a verdict differs from the printed one.

    ``weaker``: it fell to undetermined; ``stronger``: it rose from there;
    ``reversed``: the opposite; ``other``: between a difference and none.
    """
    if was == then:
        return "same"
    if then == _OPEN:
        return "weaker"
    if was == _OPEN:
        return "stronger"
    return "reversed" if {was, then} == {"higher", "lower"} else "other"


# ---- drift -------------------------------------------------------------------------

SET_BY_CLIENT = ("rate", "byte_rate", "think")
"""Factors by which the client sets how many requests a trial has."""


def free(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials whose rate is the server's, so that it can show a drift.

    An open loop, clients with an allowance and users who think ask for what they ask
    for, whatever the machine does.
    """
    given = trials[[name for name in SET_BY_CLIENT if name in trials]].notna()
    return trials[~given.any(axis=1)]


def course(trials: pd.DataFrame) -> pd.DataFrame:
    """Return how far usable trials lie from the medians of their cells, over time.

    Servers that took turns share their client and their time: a set is one point. The
    only trial of a cell is its median and tells nothing.

    Returns
    -------
    DataFrame
        Columns block, off (log of throughput over the median of all trials with the
        same factors; the mean of a set), order (0 …, as they ran).
    """
    good = trials[trials["ok"] & (trials["throughput_rps"] > 0)]
    factors = [c.name for c in schema.FACTORS if c.name in good]
    logs = np.log(good["throughput_rps"].astype(float))
    cells = logs.groupby([good[f] for f in factors], dropna=False)
    off = logs - cells.transform("median")
    good, off = (rows[cells.transform("size") > 1] for rows in (good, off))
    points = good[["block"]].assign(off=off, at=good["started_at"])
    sets = good["set"].fillna(good["key"]) if "set" in good else good["key"]
    points = points.groupby(sets).agg({"block": "first", "off": "mean", "at": "min"})
    points = points.sort_values("at", ignore_index=True)
    return points.drop(columns="at").assign(order=points.index)


COST = "server_cpu_per_request_s"


def within_sets(studies: Sequence[Study]) -> pd.DataFrame:
    """Return how the cost of servers in turns changed from round to round.

    As a ratio to the other side of a printed pair, which meets the same machine: in the
    last third of a set's rounds over the first. It is 1 but for chance where the
    rounds that are not counted suffice, and the warm-up. Intervals hold all at once,
    with variances that inform each other (`connlab.variances`).

    Returns
    -------
    DataFrame
        A row for each pair with `TRIALS_MIN` sets of three rounds or more: study,
        model, against, where, value, lo, hi, n (sets).
    """
    pairs, fits = [], []
    for study in studies:
        for metric, against, within, printed in study.families():
            if metric != COST or metric not in study.trials:
                continue
            trials, same = _made_again(study.trials, printed)
            sides = dict(iter(trials[trials["ok"]].groupby(["model", "cell"])))
            for row in same.to_dict("records"):
                sides_of = (
                    sides[name, row["cell"]] for name in (row["model"], against)
                )
                fit = Fit.of(_changes(*sides_of))
                if fit.n >= TRIALS_MIN:
                    where = _cell_text({c: row[c] for c in within})
                    pairs.append((study.name, row["model"], against, where))
                    fits.append(fit)
    level, method = level_of_each(len(fits)), "t over logs of sets"
    rows = [
        (*pair, i.value, i.lo, i.hi, i.n)
        for pair, fit in zip(pairs, moderated(fits), strict=True)
        for i in [fit.interval(level, method=method, log=True)]
    ]
    columns = ["study", "model", "against", "where", "value", "lo", "hi", "n"]
    return pd.DataFrame(rows, columns=columns)


def _changes(arm: pd.DataFrame, base: pd.DataFrame) -> np.ndarray:
    """Return the log of what changed in each set of three rounds or more."""
    rounds = turns.course(arm, base, COST).set_index(["set", "round"])["ratio"]
    counts = rounds.groupby(level="set").transform("size")
    changes = turns.last_over_first(rounds[counts >= 3])
    return np.log(changes.to_numpy(dtype=float))


# ---- where the cores were ----------------------------------------------------------

PLACES = ("near", "apart", "farther apart")
"""Where a host put the server's core and the client's, by the time between them."""
MOVED = "moved meanwhile"
_BETWEEN = ["core_to_core_s", "core_to_core_after_s"]
_OTHERWISE = (
    *("rate", "byte_rate", "think", "requests", "requests_per_connection"),
    *("extra_ns", "spin", "together"),
)


def placed(studies: Sequence[Study]) -> pd.DataFrame:
    """Return the trials of studies that count, wherever their cores were.

    With columns study and place: one of `PLACES`, or `MOVED`. Times that are no more
    than `connlab.schema.FARTHER` times the next shorter one are of one place. Within it
    no ratio is to be corrected for `cores_off`, which tells of a sweep what is usual
    there: that column is left out.
    """
    frames = [
        study.trials.assign(study=study.name, block=study.trials["block"] + 1000 * n)
        for n, study in enumerate(studies)
    ]
    if not frames:
        names = [column.name for column in schema.COLUMNS]
        return pd.DataFrame(columns=[*names, "set", "carried", "place"])
    every = pd.concat(frames, ignore_index=True).dropna(subset=_BETWEEN)
    every = every[passed(every)]
    known = np.unique(every[_BETWEEN].to_numpy(dtype=float))
    nearest = known[1:][known[1:] > schema.FARTHER * known[:-1]]  # of each other place
    first, last = (
        np.searchsorted(nearest, every[c].to_numpy(dtype=float), "right").clip(max=2)
        for c in _BETWEEN
    )
    names = np.array(PLACES)[first]
    every = every.drop(columns="cores_off", errors="ignore")
    return every.assign(place=np.where(first == last, names, MOVED))


def small_echoes(trials: pd.DataFrame, *, talking: Sequence[int]) -> pd.DataFrame:
    """Return trials of `placed` of the plainest load, which studies have in common.

    Echoes of at most 128 bytes, in turns, asked for as fast as answers come, by so many
    connections, which column talking counts; others may be idle.
    """
    trials = trials.assign(talking=trials["active"].fillna(trials["connections"]))
    plain = trials["workload"].eq("echo") & trials["slice"].notna()
    plain &= trials["engine"].eq("auto") & trials["talking"].isin(talking)
    plain &= pd.to_numeric(trials["size"], errors="coerce") <= 128
    plain &= trials[[c for c in _OTHERWISE if c in trials]].isna().all(axis=1)
    return trials[plain.fillna(False).astype(bool)]
