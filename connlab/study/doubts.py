"""Study 09: what could be wrong with these results?

    trials of the run's other studies -> other analyses -> words that change
                                      -> in the order they ran -> drift
    a server that stands still        -> both clocks, both loops -> what hides it
    two clients that wait differently -> costs, words that change

The first two need no trial of their own; `connlab.study.doubts_stall` is the third,
`connlab.study.doubts_clients` the fourth.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from connlab import schema
from connlab.study import deciding, figures, sensitivity
from connlab.study.cells import interval_of, summarise
from connlab.study.doubts_stall import (  # noqa: F401 (the notebook asks for it here)
    omission,
    politeness,
    recovered,
    seen,
    table,
    tails,
    with_loop,
)
from connlab.study.drawing import Picture, sentence
from connlab.study.formatting import (
    aside,
    counted,
    level_text,
    listing,
    number_text,
    plain,
)
from connlab.study.frames import RunError, RunWarning, load, load_manifest, usable
from connlab.study.interval import Interval
from connlab.study.repeating import Drift, drift
from connlab.study.reporting import baseline_of
from connlab.study.results import Results, start
from connlab.study.sensitivity import KINDS, WAYS, Subject
from connlab.study.tables import GAP, Column, Table

STUDY = "doubts"
NUMBER = 9
QUESTION = "What could be wrong with these results?"
FACTORS = ("loop", "stall")
VARIED = (*FACTORS, "engine", "connections")

METRICS = {
    "response-time": "response_mean_s",
    "idle": "server_cpu_per_request_s",
    "uring": "server_cpu_per_request_s",
}
"""What a study compares models by, if not by throughput."""

CONTROLS = (STUDY, "the-machine")
"""Studies that do not compare models."""


def begin(frame: pd.DataFrame, *, root: str | Path = "runs") -> Results:
    """Begin the results; values are LOOP_CLOCK_pNN_STALL, as open_response_p99_200."""
    results = start(frame, number=NUMBER, question=QUESTION, factors=VARIED, root=root)
    frame = frame[frame["loop"].notna()]
    for clock in ("response", "service"):
        for quantile in ("p50", "p90", "p99"):
            metric = f"{clock}_{quantile}_s"
            for _, row in summarise(frame, metric, by=FACTORS).iterrows():
                if pd.notna(row["value"]):
                    name = f"{row['loop']}_{clock}_{quantile}_{plain(row['stall'])}"
                    results.value(name, interval_of(row), "s")
    return results


# ---- other studies' trials ----------------------------------------------------


def subjects(
    run: str,
    *,
    baseline: str = "epoll",
    accept: Sequence[str] = (),
    root: str | Path = "runs",
) -> tuple[list[Subject], list[str]]:
    """Return the comparisons of the run's other studies, and what cannot be read.

    A study takes part when its trials hold two models or more, not counting those in
    which the client's pace was set.
    """
    found, notes = [], []
    for path in sorted(schema.run_folder(run, root=root).glob("*/trials.jsonl")):
        study = path.parent.name
        if study in CONTROLS:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RunWarning)
                frame = load(run, study, root=root, accept=accept)
        except RunError as error:
            notes.append(f"{study} takes no part: {error}")
            continue
        frame = sensitivity.at_own_pace(frame)
        if frame["model"].nunique() < 2:
            continue
        factors = [c for c in varied(frame, run, root=root) if c != "model"]
        within = sensitivity.factors_of(frame, factors)
        metric = METRICS.get(study, "throughput_rps")
        base = baseline_of(frame, baseline)
        found.append(Subject(study, frame, metric, base, within))
    return found, notes


def varied(frame: pd.DataFrame, run: str, *, root: str | Path = "runs") -> list[str]:
    """Return the factors that a study varied, as its sweep was asked."""
    entry = (load_manifest(run, root=root).get("studies") or {}).get(
        frame.attrs["study"]
    ) or {}
    grids = (entry.get("parameters") or {}).get("factors") or {}
    grids = [grids] if isinstance(grids, Mapping) else grids
    names = dict.fromkeys(name for grid in grids for name in grid)
    names = names or dict.fromkeys(["model", "connections"])
    columns = {"block": "block_size"}
    known = [columns.get(name, name) for name in names]
    return [name for name in known if name in frame and frame[name].nunique() > 0]


def sensitivity_tables(results: Results, examined: pd.DataFrame) -> Table:
    """Tabulate how many words each other analysis changes, and which."""
    labels = {way: label for way, (label, _) in WAYS.items()}
    rows = []
    for row in sensitivity.tally(examined).to_dict("records"):
        counts = [str(row[k]) if row["n"] else GAP for k in KINDS]
        rows.append((labels[row["way"]], plain(row["n"]), *counts))
    heads = [Column("way", "another analysis"), Column("n", "comparisons")]
    heads += [Column(k, k) for k in KINDS]
    results.table(
        "sensitivity-words",
        _changed(examined, labels),
        caption="Words that another analysis of the same trials would change; a word "
        "that stays is not listed.",
    )
    return results.table(
        "sensitivity",
        Table(tuple(heads), tuple(rows), _WAY_NOTES),
        caption="Comparing words of the run's other studies under other analyses of "
        "the same trials. Weaker: it falls to undetermined; stronger: it rises from "
        "there; other: between a difference and none; reversed: the opposite.",
    )


_WAY_NOTES = (
    "A dash: the analysis does not apply. The median over trials needs six blocks, "
    "leaving the slowest block out needs three.",
)
MOST_ROWS = 30


def _changed(examined: pd.DataFrame, labels: Mapping[str, str]) -> Table:
    order = {kind: i for i, kind in enumerate(("reversed", "other", *KINDS))}
    gone = examined[examined["kind"] != "same"]
    gone = gone.sort_values("kind", key=lambda k: k.map(order), kind="stable")
    rows = tuple(
        (
            row["study"],
            f"{row['arm']} / {row['baseline']}",
            _where(row["where"]),
            row["printed"],
            labels[row["way"]],
            row["word"],
        )
        for row in gone.head(MOST_ROWS).to_dict("records")
    )
    notes = []
    if len(gone) > MOST_ROWS:
        notes.append(f"The first {MOST_ROWS} of {len(gone)} changes, gravest first.")
    if gone.empty:
        notes.append("No word changes.")
    heads = ("study", "models", "where", "printed", "analysis", "then")
    return Table(tuple(Column(h, h) for h in heads), rows, tuple(notes))


def _where(where: Mapping) -> str:
    """Name a cell; factors that it has no level of do not belong to it."""
    said = [
        f"{k.replace('_', ' ')} {level_text(v)}"
        for k, v in where.items()
        if not pd.isna(v)
    ]
    return ", ".join(said)


def stands(examined: pd.DataFrame) -> str:
    """Say how many of the run's words another analysis would have changed."""
    if examined.empty:
        return "No other study of this run compares models, so no word can be tested."
    count = examined["kind"].value_counts()
    changed = examined[examined["kind"] != "same"]
    text = (
        f"Of {counted(len(examined), 'word')} that other analyses of the same trials "
        f"give, {int(count.get('same', 0))} are the printed ones"
    )
    said = [f"{count[k]} {k}" for k in KINDS[1:] if count.get(k, 0)]
    text += f"; {listing(said)}." if said else "."
    if not count.get("reversed", 0):
        return text + " No word is reversed."
    back = changed[changed["kind"] == "reversed"]
    which = [f"{r.arm} / {r.baseline} in {r.study}" for r in back.itertuples()]
    return text + f" Reversed: {listing(list(dict.fromkeys(which)))}."


def decision_table(results: Results, found: Sequence[Subject]) -> Table:
    """Tabulate what to use when, from the words of every study of the run."""
    return results.table(
        "decision",
        deciding.table(found),
        caption="What to use when: at the ends of what each study varied, the model "
        "with the best mean, those shown to be within ±5 % of it, those not shown to "
        "differ, and those shown to be worse, with the ratio to the best. Where the "
        "client was the limit nobody is ranked.",
    )


# ---- drift --------------------------------------------------------------------


def drifts(found: Sequence[Subject]) -> dict[str, Drift]:
    """Return how throughput moved while each study ran, whatever the cell."""
    moved = {}
    for subject in found:
        good = usable(subject.frame, "throughput_rps")
        if good.empty:
            continue
        cell = ["model", *subject.within]
        good = good.assign(**{c: good[c].astype("string").fillna("-") for c in cell})
        good = good.assign(turn=range(len(good)))
        moved[subject.study] = drift(good, "throughput_rps", cell=cell, time="turn")
    return moved


def drift_figure(results: Results, moved: Mapping[str, Drift]) -> Picture | None:
    """Draw the study with the most trials in the order they ran."""
    if not moved:
        return None
    study = max(moved, key=lambda name: len(moved[name].residuals))
    return results.figure(
        "drift",
        figures.drifting(moved[study], label="throughput"),
        caption=f"Throughput of each usable trial of study {study}, against the median "
        "of its cell, in the order the trials ran, with the Theil–Sen trend.",
    )


def drift_table(results: Results, moved: Mapping[str, Drift]) -> Table:
    """Tabulate the trend of every study."""
    rows = tuple(
        (
            study,
            str(len(one.residuals)),
            number_text(one.change.scaled(100), "%") if one.change.determined else GAP,
            GAP if pd.isna(one.p) else f"{one.p:.2g}",
            "drifting" if one.drifting else "no trend shown",
        )
        for study, one in moved.items()
    )
    heads = ("study", "trials", "change over the sweep", "p (Kendall)", "so")
    return results.table(
        "drift",
        Table(tuple(Column(h, h) for h in heads), rows),
        caption="Change of throughput over each study's sweep.",
    )


def steady(moved: Mapping[str, Drift]) -> str:
    """Say in which studies the machine moved while they ran."""
    if not moved:
        return "There are no trials of other studies to look for drift in."
    went = [
        f"{study} {aside(one.change.scaled(100), unit='%')}"
        for study, one in moved.items()
        if one.drifting
    ]
    if not went:
        return (
            f"No trend of throughput over the sweep is shown in any of "
            f"{counted(len(moved), 'study').replace('studys', 'studies')}."
        )
    return (
        f"Throughput moved over the sweep of {listing(went)}. Blocks hold every cell, "
        "so a drift widens intervals but favours no model."
    )


# ---- answer -------------------------------------------------------------------


def answer(
    examined: pd.DataFrame, moved: Mapping[str, Drift], share: Interval | None
) -> str:
    """Answer in one sentence: words that turn, studies that drift, the wrong clock."""
    parts = []
    if examined.empty:
        parts.append("no word of another study could be tested")
    else:
        back = int((examined["kind"] == "reversed").sum())
        lost = int((examined["kind"] == "weaker").sum())
        parts.append(
            f"of {counted(len(examined), 'word')} under other analyses {back} are "
            f"reversed and {lost} fall to undetermined"
        )
    if moved:
        count = sum(one.drifting for one in moved.values())
        parts.append(f"{count} of {len(moved)} sweeps drifted")
    if share is None or not share.determined:
        parts.append("what the wrong clock hides of a stall is undetermined")
    else:
        parts.append(
            "measured from the actual send, the 99th percentile under a stall is "
            f"{number_text(share)} of what users wait for"
        )
    return f"{sentence('; '.join(parts))}."


def keep(results: Results, share: Interval | None) -> None:
    """Keep the number that the paper's text names, where there is one."""
    if share is not None:
        results.value("seen_by_service_clock", share, "1")
