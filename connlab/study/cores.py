"""Study 08: what do more workers bring on this machine's cores?

    trials in which clients take turns -> throughput against workers -> scaling law
                                       -> each model against itself with one worker
                                       -> the busiest worker's share  -> balance
    trials in which clients stay       -> who was served, who waited  -> fairness
    both                               -> the answer in one sentence  -> results.json

Clients that hang up after a number of requests and connect again let every model serve
all of them, so that they can be compared at any number of workers. Clients that stay
show what happens to those for whom no worker is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from connlab.study import figures, look, reporting, rules, tables
from connlab.study.cells import Compared, compare_cells, is_bound, summarise
from connlab.study.drawing import Picture, sentence
from connlab.study.formatting import aside, counted, listing, number_text, plain
from connlab.study.frames import speaking, usable
from connlab.study.interval import Interval
from connlab.study.metrics import metric as metric_of
from connlab.study.reporting import key, part
from connlab.study.results import Results, start
from connlab.study.scaling import MIN_LEVELS, UslFit, usl_fit
from connlab.study.tables import Table

STUDY = "cores"
NUMBER = 8
QUESTION = "What do more workers bring on these cores?"
FACTORS = ("model", "workers", "requests_per_connection")
RATE = "throughput_rps"
BALANCE = "busiest_worker"
FAIRNESS = "fairness_jain"

VALUES = {
    "rps": RATE,
    "cpu": "server_cpu_per_request_s",
    "busiest": BALANCE,
    "p99": "response_p99_s",
}
"""Values that the paper may name, as MODEL_KIND_WORKERS, and their columns."""


def that_suit(models: Sequence[Any]) -> list[str]:
    """Return the names of the models that have a fixed number of workers."""
    return [m.name for m in models if m.available and m.workers == "fixed"]


def grids(
    *, models: Sequence[str], workers: Sequence[int], turn: int, crowd: int
) -> list[dict[str, list[Any]]]:
    """Return the grids of the sweep: clients that take turns, and clients that stay.

    Parameters
    ----------
    models : sequence of str
        Servers.
    workers : sequence of int
        Levels for clients that take turns.
    turn : int
        Requests after which a client hangs up and connects again.
    crowd : int
        Workers where clients stay.
    """
    return [
        {
            "model": list(models),
            "workers": list(workers),
            "requests_per_connection": [turn],
        },
        {"model": list(models), "workers": [crowd], "requests_per_connection": [0]},
    ]


def turns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials in which clients take turns."""
    return part(frame, frame["requests_per_connection"] > 0)


def stays(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials in which clients stay, used whatever the gates said.

    A gate that wants every client served flags just what is asked here; only trials
    that failed altogether stay out.
    """
    staying = part(frame, frame["requests_per_connection"] == 0)
    ran = staying["failure"].isna()
    made = staying.assign(ok=ran, reason=staying["reason"].mask(ran, pd.NA))
    made.attrs = frame.attrs
    return made


def begin(frame: pd.DataFrame, *, root: str | Path = "runs") -> Results:
    """Begin the results: what was varied, counted, left out; every value by name."""
    results = start(frame, number=NUMBER, question=QUESTION, factors=FACTORS, root=root)
    reporting.keep_values(results, turns(frame), VALUES, by=("model", "workers"))
    return results


# ---- figures and tables -------------------------------------------------------


def throughput(
    results: Results,
    frame: pd.DataFrame,
    *,
    lines: Mapping[str, Interval | float] | None = None,
) -> Picture:
    """Draw throughput against workers."""
    mine = turns(frame)
    return results.figure(
        STUDY,
        figures.curves(mine, RATE, x="workers", lines=lines, log_y=False),
        caption=f"Throughput against workers on {_cores(frame)}, "
        f"{_clients(frame)} that take turns. " + reporting.read_as(mine, FACTORS),
    )


def balance(results: Results, frame: pd.DataFrame) -> Picture | None:
    """Draw the busiest worker's requests over the mean; None with one worker only."""
    mine = turns(frame)
    several = part(mine, mine["workers"] > 1)
    if usable(several, BALANCE).empty:
        return None
    picture = figures.curves_of(
        summarise(several, BALANCE, by=["model", "workers"]),
        label=metric_of(BALANCE).label,
        unit="1",
        x="workers",
        by="model",
        styles=look.styles(several),
        lines={"balanced": 1.0},
        log_y=False,
        zero=False,
    )
    return results.figure(
        f"{STUDY}-balance",
        picture,
        caption="Requests of the busiest worker over the mean of all workers; 1 is "
        "balanced, and with N workers N means that one did everything. "
        + reporting.read_as(several, FACTORS),
    )


def fairness(results: Results, frame: pd.DataFrame) -> Picture | None:
    """Draw how evenly clients that stay are served; None without such trials."""
    mine = stays(frame)
    if usable(mine, FAIRNESS).empty:
        return None
    return results.figure(
        f"{STUDY}-fairness",
        figures.dots(mine, [FAIRNESS, "longest_wait_s"]),
        caption=f"{sentence(_clients(frame))} that stay, "
        f"{counted(int(mine['workers'].max()), 'worker')}: Jain's index over requests "
        "per client (1 where all got as many, the share of those served where some "
        "got all) and the longest wait. Every trial that ran is in it.",
    )


def table(results: Results, frame: pd.DataFrame) -> Table:
    """Tabulate the models at the most workers."""
    most, at = _at_most_workers(frame)
    metrics = [RATE, "server_cpu_per_request_s", "response_p99_s", BALANCE]
    return results.table(
        STUDY,
        tables.per_model(at, metrics),
        caption=f"The models with {counted(most, 'worker')} on {_cores(frame)}, "
        f"{_clients(frame)} that take turns; means with 95 % intervals.",
    )


def _at_most_workers(frame: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """Return the most workers, and the trials of these in which clients take turns."""
    mine = turns(frame)
    most = int(mine["workers"].max())
    return most, part(mine, mine["workers"] == most)


def _cores(frame: pd.DataFrame) -> str:
    found = sorted(frame["server_cores"].dropna().unique())
    levels = listing([plain(float(n)) for n in found]) or "unknown"
    return f"{levels} core" + ("" if found == [1] else "s")


def _clients(frame: pd.DataFrame) -> str:
    return counted(float(frame["connections"].max()), "client")


# ---- scaling ------------------------------------------------------------------


def fits(frame: pd.DataFrame) -> dict[str, UslFit]:
    """Fit the scalability law to each model that has levels enough."""
    found = {}
    for model, rows in _speaking(frame).groupby("model"):
        if rows["workers"].nunique() >= MIN_LEVELS:
            found[str(model)] = usl_fit(
                rows["workers"].astype(float), rows[RATE], blocks=list(rows["block"])
            )
    return found


def _speaking(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that have a say on throughput where clients take turns."""
    return speaking(turns(frame), RATE, ["model", "workers"])


def scaling(results: Results, frame: pd.DataFrame) -> Picture | None:
    """Draw the fitted laws; None where no model has six levels of workers."""
    found = fits(frame)
    if not found:
        return None
    styles = look.styles(frame)
    for model, fit in found.items():
        for name in ("alpha", "beta"):
            results.value(f"{key(model)}_{name}", getattr(fit, name), "1")
    return results.figure(
        f"{STUDY}-scaling",
        figures.scaling(found, styles=styles, x_label="workers"),
        caption="The universal scalability law fitted to each model, and what it "
        "leaves unexplained, trial by trial.",
    )


def law(frame: pd.DataFrame) -> str:
    """Say what the law says of each model, or why it was not fitted."""
    good, found = _speaking(frame), fits(frame)
    levels = int(good["workers"].nunique())
    if not found:
        return (
            f"No scalability law was fitted: it has three parameters and wants "
            f"{MIN_LEVELS} levels of workers; {levels} were measured."
        )
    names = look.styles(frame)
    said = [
        f"{names[model].label}: {fit.verdict}{_bounded(good[good['model'] == model])}"
        for model, fit in found.items()
    ]
    return f"By the scalability law, {'; '.join(said)}."


def _bounded(rows: pd.DataFrame) -> str:
    """Say at which workers of a model the client was the bottleneck; "" at none."""
    levels = [
        plain(float(n)) for n, cell in rows.groupby("workers") if is_bound(cell, RATE)
    ]
    with_them = f"{listing(levels)} worker{'' if levels == ['1'] else 's'}"
    return f" (the client was the bottleneck at {with_them})" if levels else ""


# ---- comparisons --------------------------------------------------------------


def growth(frame: pd.DataFrame) -> list[Compared]:
    """Compare each model's throughput with its own at the fewest workers."""
    mine = turns(frame)
    fewest = mine["workers"].min()
    return compare_cells(mine, RATE, baseline=fewest, within=["model"], by="workers")


def words(results: Results, frame: pd.DataFrame, found: Sequence[Compared]) -> None:
    """Keep every comparing word, as MODEL_WORKERS_FEWEST."""
    reporting.keep_words(results, frame, found, verdict=verdict)


def verdict(one: Compared, names: Mapping[str, look.Style]) -> str:
    """Say a comparison as a sentence, whatever its word is."""
    who = names[one.where["model"]].label
    arm = f"{who} with {counted(float(one.arm), 'worker')}"
    base = f"with {plain(float(one.baseline))}"
    question = f"Whether {arm} serves more than {base}"
    return reporting.verdict(
        one, arm=arm, base=base, question=question, times="its throughput"
    )


def ratios(
    results: Results, frame: pd.DataFrame, found: Sequence[Compared]
) -> Picture | None:
    """Draw what workers bring each model; None where nothing compares."""
    if not found:
        return None
    fewest = counted(float(found[0].baseline), "worker")
    return reporting.ratios_to_itself(
        results,
        frame,
        found,
        name=f"{STUDY}-ratios",
        level=lambda one: float(one.arm),
        said=lambda workers: counted(workers, "worker"),
        x_label=f"throughput / the same model's with {fewest}",
        caption=f"What more workers bring on {_cores(frame)}: throughput in relation "
        f"to the same model with {fewest}, {reporting.PAIRED}; {reporting.CORRECTED}",
    )


# ---- findings -----------------------------------------------------------------


def balanced(frame: pd.DataFrame) -> str:
    """Say which model spreads requests most evenly over the most workers."""
    most, at = _at_most_workers(frame)
    said = _each(at, BALANCE)
    if most < 2 or not said:
        return "With one worker there is nothing to balance."
    return (
        f"Of {counted(most, 'worker')} the busiest served so many times the mean: "
        f"{listing(said)} (1 is balanced)."
    )


def _each(frame: pd.DataFrame, metric: str) -> list[str]:
    """Return each model with its mean, the smallest first."""
    means = reporting.ranked(frame, metric)
    return [f"{mean.label} {mean.interval.value:.2f}" for mean in means]


def served(frame: pd.DataFrame) -> str:
    """Say how evenly clients that stay were served."""
    mine = stays(frame)
    if usable(mine, FAIRNESS).empty:
        return "Clients that stay were not measured, so fairness cannot be judged."
    workers = counted(int(mine["workers"].max()), "worker")
    return (
        f"Where {_clients(frame)} stay with {workers}, Jain's index of requests per "
        f"client is: {listing(_each(mine, FAIRNESS))}. A model that keeps a worker for "
        "each client it serves leaves the others waiting."
    )


def weighed(frame: pd.DataFrame) -> str:
    """Say whether the number of workers or the model moves throughput more."""
    found = rules.outweighs(turns(frame), metric=RATE, factor="workers", other="model")
    head = "Tuning against architecture, here workers against model: "
    if found.effect is None:
        return f"{head}not testable here ({found.why})."
    ratio = number_text(found.effect)
    but = f"; {found.why}" if found.verdict == "not testable here" else ""
    return (
        f"{head}the spread that the number of workers makes is {ratio} times that "
        f"which the choice of model makes (sums of squares of the logarithm){but}."
    )


def answer(frame: pd.DataFrame, found: Sequence[Compared]) -> str:
    """Answer the question in one sentence, from each model at its most workers."""
    last = reporting.at_most(found)
    if not last:
        return "This run cannot say: no model has usable trials at two levels."
    names = look.styles(frame)
    parts = []
    for word, what in (
        ("faster than", "more throughput for"),
        ("slower than", "less for"),
        ("indistinguishable from", "neither for"),
        ("undetermined", "nothing that can be told for"),
    ):
        those = [
            f"{names[one.where['model']].label} {aside(one.comparison.ratio, '× {}')}"
            for one in last
            if one.word == word
        ]
        parts += [f"{what} {listing(those)}"] if those else []
    head = f"On {_cores(frame)} {counted(float(last[0].arm), 'worker')} in place of "
    return f"{head}{plain(float(last[0].baseline))} bring {'; '.join(parts)}."
