"""Study 09: ratios of a run's other studies under other analyses, and their drift."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from connlab import schema
from connlab.intervals import ratios
from connlab.report import RATIOS, level, levels, word
from connlab.study import style
from connlab.study.frames import RunError, RunWarning, load
from connlab.study.metrics import metric as metric_of

KINDS = ("same", "weaker", "stronger", "other", "reversed")
"""Relations of a verdict to the printed one; see `kind`."""

_CONTROLS = ("doubts", "the-machine", "intervals")
_OPEN = "undetermined"
_PAIR = ("model", "against")


@dataclass(frozen=True)
class Study:
    """Trials of a study, and the families of ratios between models that it printed."""

    name: str
    trials: pd.DataFrame
    printed: pd.DataFrame
    """Its ``ratios.csv``, of pairs of models whose metric is a column of trials."""

    def families(self) -> Iterator[tuple[str, str, list[str]]]:
        """Give metric, baseline and the columns that both sides share."""
        for (metric, against), rows in self.printed.groupby(["metric", "against"]):
            shared = dict.fromkeys(
                c for row in rows.to_dict("records") for c in levels(row)
            )
            within = [c for c in shared if c in self.trials and c != "model"]
            yield str(metric), str(against), within


def studies(run: str, *, root: str | Path = "runs") -> list[Study]:
    """Return the studies of a run that compare models and are no controls."""
    compared = []
    for path in sorted(schema.run_folder(run, root=root).glob(f"*/{RATIOS}")):
        if path.parent.name in _CONTROLS:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RunWarning)
                trials = load(run, path.parent.name, root=root)
        except RunError:
            continue
        table = pd.read_csv(path)
        if "model" not in table:
            continue
        usable = table["against"].isin(trials["model"].dropna().unique())
        usable &= table["metric"].isin(trials.columns) & table["model"].notna()
        if usable.any():
            compared.append(Study(path.parent.name, trials, table[usable]))
    return compared


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
    """Compute every ratio between models again from changed trials.

    Parameters
    ----------
    studies : list of Study
    ways : mapping of str to callable
        By name: takes trials, returns those of another analysis.

    Returns
    -------
    DataFrame
        One row per ratio and way: study, metric, model, against, where, printed (the
        verdict in the paper), way, then (the verdict that way), kind.
    """
    rows = []
    for study in studies:
        for metric, against, within in study.families():
            sides = {"baseline": against, "within": within}
            before = _verdicts(ratios(study.trials, metric, **sides))
            for way, change in ways.items():
                after = _verdicts(ratios(change(study.trials), metric, **sides))
                for model, cell in before.keys() & after.keys():
                    was, then = before[model, cell], after[model, cell]
                    pair = study.name, metric, model, against, cell
                    rows.append((*pair, was, way, then, kind(was, then)))
    columns = ["study", "metric", "model", "against", "where", "printed", "way", "then"]
    table = pd.DataFrame(rows, columns=[*columns, "kind"])
    return table.sort_values(columns[:-1], ignore_index=True)


def _verdicts(pairs: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return the verdict of each pair by its model and the other levels."""
    verdicts = {}
    for row in pairs.to_dict("records"):
        cell = {k: v for k, v in levels(row).items() if k not in _PAIR}
        verdicts[str(row["model"]), _cell_text(cell)] = row["verdict"]
    return verdicts


def _cell_text(cell: Mapping[str, object]) -> str:
    return ", ".join(f"{level(v)} {k.replace('_', ' ')}" for k, v in cell.items())


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


def course(trials: pd.DataFrame) -> pd.DataFrame:
    """Return how far each usable trial lies from the median of its cell.

    Returns
    -------
    DataFrame
        Columns order (0 …, as the trials ran), block, off (log of throughput over the
        median of all trials with the same factors).
    """
    good = trials[trials["ok"] & (trials["throughput_rps"] > 0)]
    factors = [c.name for c in schema.FACTORS if c.name in good]
    logs = np.log(good["throughput_rps"].astype(float))
    cells = logs.groupby([good[f] for f in factors], dropna=False)
    off = logs - cells.transform("median")
    return pd.DataFrame({"block": good["block"], "off": off, "order": range(len(good))})


# ---- what to use when --------------------------------------------------------------


def decisions(studies: list[Study], baseline: str) -> pd.DataFrame:
    """Return a row per study, metric and end of its levels: models by verdict.

    Returns
    -------
    DataFrame
        Columns where, what, then a list of models per verdict against the baseline, as
        the studies print them.
    """
    rows = []
    for study in studies:
        names = {n: s.label for n, s in style.styles(study.trials).items()}
        printed = study.printed[study.printed["against"] == baseline]
        for metric, pairs in printed.groupby("metric"):
            within = [c for c in levels(pairs.iloc[0].to_dict()) if c not in _PAIR]
            within = [c for c in within if pairs[c].notna().all()]
            for cell, ends in _ends(pairs, within):
                words = [word(row) for row in ends.to_dict("records")]
                lists = ends["model"].map(names).groupby(words).agg(", ".join)
                what = metric_of(str(metric)).label
                rows.append({"where": f"{study.name}: {cell}", "what": what, **lists})
    order = ["faster", "less", "alike", _OPEN, "slower", "more"]
    words = [word for word in order if any(word in row for row in rows)]
    return pd.DataFrame(rows, columns=["where", "what", *words])


def _ends(pairs: pd.DataFrame, within: list[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Give the ratios at the lowest and the highest level of what was varied."""
    if not within:
        yield "all", pairs
        return
    cells = dict(list(pairs.groupby(within)))
    for key in dict.fromkeys([min(cells), max(cells)]):
        yield _cell_text(dict(zip(within, key, strict=True))), cells[key]
