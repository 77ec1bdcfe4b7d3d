"""Study 02: where does each model break, and on what?

    settings of the machine -> levels of the ramp (`connlab.study.breaking_points_plan`)
    frame -> carried up to, broke at, symptoms (`connlab.study.atlas`) -> figure, table
          -> what the most connections cost                 -> figures, table
    the same server after the load has gone                 -> recovery
    the 24 cases of report 001                              -> table

Here a trial that fails is the datum. So what concerns limits is computed from all
trials, flagged or not; only figures of cost and rate use the usable ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from connlab.study import figures, look, reporting
from connlab.study.atlas import atlas, carried  # noqa: F401 (the notebook's bp.atlas)
from connlab.study.breaking_points_plan import (  # noqa: F401 (the notebook's too)
    grids,
    predicted,
)
from connlab.study.drawing import Picture
from connlab.study.figures.limits import limits as draw_limits
from connlab.study.formatting import counted, display_unit, listing, plain, plus_minus
from connlab.study.interval import t_interval
from connlab.study.metrics import metric as metric_of
from connlab.study.reporting import key
from connlab.study.results import Results, start
from connlab.study.tables import Column, Table

STUDY = "breaking-points"
NUMBER = 2
QUESTION = "Where does each model break, and on what?"
FACTORS = ("model", "connections")


def begin(frame: pd.DataFrame, *, root: str | Path = "runs") -> Results:
    """Begin the results; values are kept by `keep_values`."""
    return start(frame, number=NUMBER, question=QUESTION, factors=FACTORS, root=root)


# ---- what broke ---------------------------------------------------------------


def limits(results: Results, frame: pd.DataFrame, found: pd.DataFrame) -> Picture:
    """Draw between which levels each model broke, and where it was expected to."""
    picture = draw_limits(found, styles=look.styles(frame), x_label="connections")
    return results.figure(
        STUDY,
        picture,
        caption="Connections at which every trial carried all of them, the fewest at "
        "which one did not (cross) with what the server noticed, and the limit that "
        "the machine's settings predict (bar).",
    )


def failures(results: Results, frame: pd.DataFrame, found: pd.DataFrame) -> Table:
    """Tabulate the failure atlas: prediction, observation, symptom on both sides."""
    styles = _styles_of(frame, found)
    by_model = found.set_index("model")
    heads = ("model", "predicted", "by", "carried", "broke at", "server", "client")
    rows = []
    for name, style in styles.items():
        one = by_model.loc[name]
        count = [plain(float(v)) if pd.notna(v) else "—" for v in one[_COUNTS]]
        rows.append((style.label, count[0], one["by"] or "—", *count[1:], *_told(one)))
    columns = tuple(Column(h, h) for h in (*heads, "as predicted"))
    return results.table(
        f"{STUDY}-atlas",
        Table(columns, tuple(rows)),
        caption="The limit that settings of this machine predict for each model, and "
        "what happened. A dash: nothing is predicted, or nothing broke up to the most "
        "connections tried.",
    )


def _styles_of(frame: pd.DataFrame, found: pd.DataFrame) -> dict[str, look.Style]:
    """Return the styles of the models that the atlas has."""
    there = set(found["model"])
    return {n: style for n, style in look.styles(frame).items() if n in there}


_COUNTS = ["predicted", "carried", "broke"]
_AGREES = {True: "yes", False: "no", None: "not reached"}


def _told(one: pd.Series) -> tuple[str, ...]:
    """Return what server and client noticed, and whether it was foreseen."""
    return one["server"] or "—", one["client"] or "—", _AGREES[_known(one)]


def _known(one: pd.Series) -> bool | None:
    return None if pd.isna(one["agrees"]) else bool(one["agrees"])


def share(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw which part of the connections asked for survived, from all trials."""
    rows = []
    for (model, n), trials in frame.groupby(list(FACTORS)):
        i = t_interval((trials["surviving"].fillna(0) / n).to_numpy(dtype=float))
        lost = None if len(trials["surviving"].dropna()) else "no figures"
        rows.append(
            {"model": model, "connections": int(n), "value": i.value, "lo": i.lo}
            | {"hi": i.hi, "n": i.n, "reason": lost}
        )
    table = pd.DataFrame(rows).astype({"model": "string"})
    picture = figures.curves_of(
        table,
        label="share of connections kept",
        unit="1",
        x="connections",
        by="model",
        styles=look.styles(frame),
        families=look.families(frame),
        log_y=False,
    )
    return results.figure(
        f"{STUDY}-share",
        picture,
        caption="Connections that were open and healthy at the end, as a share of "
        "those attempted: means over all trials with 95 % intervals.",
    )


# ---- what it took -------------------------------------------------------------

MOST = {
    "requests_completed": "requests answered",
    "server_cpu_share": "CPU",
    "pss_net_bytes": "memory",
    "socket_memory_bytes": "socket buffers",
    "threads_max": "threads",
    "processes_max": "processes",
}
"""Columns of the table of what the most connections took."""


def most(results: Results, frame: pd.DataFrame, found: pd.DataFrame) -> Table:
    """Tabulate what each model took at the most connections that it carried."""
    styles, rows = _styles_of(frame, found), []
    level = found.set_index("model")["carried"]
    units = {
        c: display_unit(metric_of(c).unit, frame[c].dropna().to_numpy(dtype=float))
        for c in MOST
    }
    for name, style in styles.items():
        at = frame[(frame["model"] == name) & (frame["connections"] == level[name])]
        texts = [_mean_text(at[c], units[c][0]) for c in MOST]
        rows.append((style.label, plain(float(level[name])), *texts))
    heads = [Column("model", "model"), Column("connections", "connections")]
    heads += [Column(c, text, _shown(units[c][1])) for c, text in MOST.items()]
    return results.table(
        f"{STUDY}-most",
        Table(tuple(heads), tuple(rows)),
        caption="What each model took at the most connections that it carried: "
        "requests in one trial, CPU time over what its cores could give, memory of its "
        "processes and socket buffers in the kernel (on loopback of both ends). Means "
        "over all trials with 95 % intervals.",
    )


def _shown(unit: str) -> str:
    return "" if unit == "count" else unit


def _mean_text(values: pd.Series, factor: float) -> str:
    known = values.dropna().to_numpy(dtype=float)
    return plus_minus(t_interval(known * factor)) if len(known) else "—"


def memory(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw memory of the server's processes against connections."""
    return results.figure(
        f"{STUDY}-memory",
        figures.curves(frame, "pss_net_bytes"),
        caption="Memory of the server's processes, net of what they had before the "
        "first client, against connections; means over usable trials with 95 % "
        "intervals.",
    )


def cpu(results: Results, frame: pd.DataFrame) -> Picture:
    """Draw CPU time per request against connections."""
    return results.figure(
        f"{STUDY}-cpu",
        figures.curves(frame, "server_cpu_per_request_s"),
        caption="CPU time of the server per request against connections; means over "
        "usable trials with 95 % intervals.",
    )


def keep_values(results: Results, frame: pd.DataFrame, found: pd.DataFrame) -> None:
    """Keep each model's limits, and what its requests cost, by name."""
    for row in found.itertuples():
        name = key(row.model)
        for what in ("carried", "broke", "predicted"):
            value = getattr(row, what)
            if pd.notna(value):
                results.values[f"{name}_{what}"] = _count(value)
    cost = {"cpu": "server_cpu_per_request_s"}
    reporting.keep_values(results, frame, cost, by=FACTORS)


def _count(value: float) -> dict[str, Any]:
    return {"value": int(value), "unit": "connections", "text": plain(float(value))}


# ---- recovery and cases -------------------------------------------------------


def too_many(row: Any) -> int:
    """Return the connections of a row of `atlas` to see a recovery from."""
    return int(row.carried if pd.isna(row.broke) else row.broke)


def recovery(
    results: Results, frame: pd.DataFrame, rows: Sequence[Mapping[str, Any]]
) -> Table:
    """Tabulate what each server had open once the load had gone, and if it serves.

    `rows` are those of ``recovery.jsonl``.
    """
    styles = look.styles(frame)
    lines = [
        (
            styles[one["model"]].label if one["model"] in styles else one["model"],
            plain(one["connections"]),
            *(_number(one[k]) for k in ("held", "sockets", "tasks", "settled_s")),
            _number(one["again"]),
            "yes" if one["recovered"] else f"no{_because(one['error'])}",
        )
        for one in rows
    ]
    heads = ("model", "came", "held", "sockets left", "threads left")
    columns = [Column(h, h) for h in heads]
    columns += [Column("settled", "settled after", "s")]
    columns += [Column(h, h) for h in ("answered again", "recovered")]
    return results.table(
        f"{STUDY}-recovery",
        Table(tuple(columns), tuple(lines)),
        caption="One server each, loaded with more connections than it broke at (or "
        "the most tried), after these had gone: what it had open more than before, and "
        "how many of five new clients it answered.",
    )


def _number(value: float | None) -> str:
    return "—" if value is None else plain(value)


def _because(error: str) -> str:
    return f" ({error})" if error else ""


def cases(
    results: Results, frame: pd.DataFrame, answers: Sequence[Mapping[str, Any]]
) -> Table | None:
    """Tabulate the 24 cases: a row per subject, a column per question.

    `answers` are rows of ``cases.jsonl``; None without any.
    """
    if not answers:
        return None
    styles = look.styles(frame)
    questions = list(dict.fromkeys(one["question"] for one in answers))
    said = {(one["subject"], one["question"]): one for one in answers}
    subjects = list(dict.fromkeys(one["subject"] for one in answers))
    rows = [
        (
            styles[name].label if name in styles else name,
            *(_yes(said.get((name, q), {}).get("holds")) for q in questions),
        )
        for name in subjects
    ]
    columns = (Column("subject", "program"), *(Column(q, q) for q in questions))
    return results.table(
        f"{STUDY}-cases",
        Table(columns, tuple(rows)),
        caption="The six questions that make up the 24 test cases of Tran and "
        "Rees, asked of every model and of the client. A dash: not asked in this run.",
    )


def _yes(holds: bool | None) -> str:
    return {True: "yes", False: "no"}.get(holds, "—")


# ---- findings -----------------------------------------------------------------


def predictions(found: pd.DataFrame) -> str:
    """Say how many limits were reached, and how many lay where they were predicted."""
    broke = found[found["broke"].notna()]
    asked = broke[broke["predicted"].notna()]
    if asked.empty:
        return "No limit that was predicted was reached."
    good = asked["agrees"].astype(bool)
    those = "them"
    if len(asked) < len(broke):
        those = f"the {len(asked)} whose limit was predicted"
    text = (
        f"{counted(len(broke), 'model')} broke, and for {int(good.sum())} of {those} "
        "the prediction lies between the last level carried and the first that was not."
    )
    off = list(asked.loc[~good, "model"])
    return text + (f" It does not for {listing(off)}." if off else "")


def unbroken(found: pd.DataFrame) -> str:
    """Say which models carried all that was tried with one server.

    What several behind one port carried says `far`; a model that was tried in no other
    way is not in `found`.
    """
    whole = found[found["broke"].isna()]
    if whole.empty:
        many = counted(len(found), "model")
        return f"Each of {many} was driven beyond what one server carried."
    groups = whole.groupby("carried")["model"].apply(list)
    said = [f"{listing(m)} up to {plain(float(n))}" for n, m in groups.items()]
    return (
        f"Nothing broke for {'; '.join(said)} connections, the most that were tried "
        "with one server."
    )


def far(frame: pd.DataFrame) -> str:
    """Say what several processes behind one port carried, as far as it was tried."""
    shared = frame[frame["processes"].notna()]
    if shared.empty:
        return "More than one process can hold was not tried."
    names, said = look.styles(frame), []
    for (model, n), trials in shared.groupby(["model", "processes"]):
        whole = carried(trials).groupby(trials["connections"]).all()
        held = [plain(float(c)) for c in whole.index[whole]] or ["none"]
        lost = [plain(float(c)) for c in whole.index[~whole]]
        text = f"{names[model].label}, {plain(float(n))} processes: {listing(held)}"
        said.append(text + (f", not {listing(lost)}" if lost else ""))
    return f"Connections carried behind one port by {'; '.join(said)}."


def symptoms(found: pd.DataFrame) -> str:
    """Say what servers noticed where they broke, from the commonest on."""
    broke = found[found["broke"].notna()]
    if broke.empty:
        return "No server met a limit."
    said = [
        f"{why or 'nothing'} ({listing(list(rows['model']))})"
        for why, rows in broke.groupby("server")
    ]
    return f"What the servers noticed: {'; '.join(said)}."


def recovered(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say how many servers were as before once the load had gone."""
    if not rows:
        return "Recovery was not looked at in this run."
    bad = [one["model"] for one in rows if not one["recovered"]]
    good = len(rows) - len(bad)
    text = (
        f"After the load had gone {good} of {counted(len(rows), 'server')} had closed "
    )
    text += "everything and answered new clients"
    return text + (f"; {listing(bad)} had not." if bad else ".")


def cases_hold(answers: Sequence[Mapping[str, Any]]) -> str:
    """Say how many answers to the 24 cases are yes."""
    asked = [one for one in answers if one["holds"] is not None]
    if not asked:
        return "The 24 cases were not asked in this run."
    bad = [f"{o['subject']}: {o['question']}" for o in asked if not o["holds"]]
    text = (
        f"{len(asked) - len(bad)} of {counted(len(asked), 'answer')} to the 24 cases "
    )
    text += "are yes"
    return text + (f"; not so {listing(bad)}." if bad else ".")


def answer(frame: pd.DataFrame, found: pd.DataFrame) -> str:
    """Answer the question in one sentence."""
    broke = found[found["broke"].notna()]
    if broke.empty:
        most = sorted(int(n) for n in found["carried"].unique())
        top = listing([plain(float(n)) for n in most])
        each = ", the most that each was given" if len(most) > 1 else ""
        return f"No model of {len(found)} broke up to {top} connections{each}."
    names = look.styles(frame)
    first = broke.sort_values("broke").iloc[0]
    why = f" ({first['symptom']})" if first["symptom"] else ""
    text = f"Of {counted(len(found), 'model')} {len(broke)} broke"
    agree = int(broke["agrees"].fillna(False).astype(bool).sum())
    text += f", {agree} of them where the machine's settings predict it"
    at = counted(float(first["broke"]), "connection")
    text += f": {names[first['model']].label} first, at {at}{why}"
    if len(broke) < len(found):
        text += f"; {len(found) - len(broke)} carried all they were given"
    return text + "."
