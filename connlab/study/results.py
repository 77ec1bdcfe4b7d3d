"""The results of a study: the one model of ``results.json``, written and read.

    connlab.report.Report -> start(…) or bare(…) -> write(…) -> results.json
    connlab.publish       <- Results              <- read       <- results.json

Numbers stand in ``cells.csv`` and ``ratios.csv`` beside it. The file is replaced as a
whole: readers see the old one or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from connlab.schema import put
from connlab.study.formatting import level_text, listing, printed_in, span
from connlab.study.frames import cells, load_manifest, passed

SCHEMA = 1
FILE = "results.json"


class Fact(BaseModel):
    """A frozen part of the results; keys that it does not know are left out."""

    model_config = ConfigDict(frozen=True)


class Printed(Fact):
    """A number with bounds as a study printed it, and what stands behind it."""

    text: str
    n: int
    level: float
    method: str


class Word(Fact):
    """The comparing word of a ratio."""

    word: str


class Claimed(Fact):
    """Whether a sentence of the paper holds; None: the run cannot tell."""

    holds: bool | None
    why: str = ""


class Figure(Fact):
    """A picture and the data behind it; paths relative to the study's folder."""

    id: str
    files: dict[str, str]
    data: str | None = None


class Column(Fact):
    """Head of a column of a table."""

    name: str
    label: str


class Table(Fact):
    """A table whose cells are text already."""

    id: str
    columns: list[Column]
    rows: list[list[str]]


class Failed(Fact):
    """A cell of the grid that lost trials: how many, and the commonest reason."""

    factors: dict[str, Any] = Field(default_factory=dict)
    n: int = 0
    reason: str


class Results(BaseModel):
    """What one study found in one run; filled step by step, then written.

    Attributes
    ----------
    number : int
        Place of the study in the paper.
    answer : str
        One or two sentences, made from the data.
    lines : list of dict
        Floors and ceilings for other studies (`connlab.study.calibration`).
    numbers : list of Printed
        What stands behind the numbers in answer, findings, notes and tables.
    commit : str or None
        Git commit that the run's manifest named when the study was evaluated; the
        paper calls results stale once the run has moved on to another.
    """

    schema_: int = Field(alias="schema")
    made_at: datetime | None = None
    study: str
    run: str | None = None
    number: int
    question: str
    commit: str | None = None
    answer: str
    varied: str = ""
    machine: dict[str, Any] = Field(default_factory=dict)
    trials: dict[str, int] = Field(default_factory=dict)
    stopping: dict[str, Any] = Field(default_factory=dict)
    words: dict[str, Word] = Field(default_factory=dict)
    figures: list[Figure] = Field(default_factory=list)
    tables: list[Table] = Field(default_factory=list)
    failures: list[Failed] = Field(default_factory=list)
    findings: list[str] = Field(default_factory=list)
    lines: list[dict[str, Any]] = Field(default_factory=list)
    claims: dict[str, Claimed] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    numbers: list[Printed] = Field(default_factory=list)

    def texts(self) -> Iterator[str]:
        """Give all that is printed as it stands here."""
        yield from (self.answer, *self.findings, *self.notes)
        for table in self.tables:
            for row in table.rows:
                yield from row


def write(found: Results, folder: Path) -> Path:
    """Replace ``results.json`` of a folder, if it says anything else; return its path.

    Found again is not made again: a committed run stays as it was committed.

    Raises
    ------
    ValueError
        Without an answer.
    """
    if not found.answer:
        raise ValueError("the answer is empty: a study answers its question")
    found.numbers = [Printed(**known) for known in printed_in(found.texts())]
    path = folder / FILE
    try:
        before = Results.model_validate_json(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        before = None
    if before and _content(before) == _content(found):
        return path
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return write_json(path, {"made_at": made, **_content(found)})


def _content(found: Results) -> dict[str, Any]:
    """Return results as JSON has them, but for the time at which they were made."""
    made = found.model_dump(by_alias=True, exclude={"made_at"})
    return json.loads(json.dumps(made, allow_nan=False))


def start(
    frame: pd.DataFrame,
    *,
    number: int,
    question: str,
    factors: Sequence[str],
    root: str | Path = "runs",
) -> Results:
    """Begin the results of a study: machine, trials, stopping, failures, notes.

    As for `connlab.report.Report`; the frame's ``attrs`` say run, study and folder.
    """
    about = frame.attrs
    run, study = about["run"], about["study"]
    studies = load_manifest(run, root=root).get("studies") or {}
    begun = bare(study, run=run, number=number, question=question, root=root)
    return begun.model_copy(
        update={
            "varied": varied(frame, factors),
            "trials": count_trials(frame),
            "stopping": stopping_of(studies.get(study) or {}),
            "failures": failed_cells(frame, factors),
            "notes": list(about["notes"]),
        }
    )


def bare(
    study: str, *, run: str, number: int, question: str, root: str | Path = "runs"
) -> Results:
    """Begin the results of a study that has no trials of its own."""
    manifest = load_manifest(run, root=root)
    return Results(
        schema=SCHEMA,
        study=study,
        run=run,
        number=number,
        question=question,
        answer="",
        commit=commit_of(manifest),
        machine=machine_of(manifest),
    )


def count_trials(frame: pd.DataFrame) -> dict[str, int]:
    """Return how many trials there are, were used, failed, were left out by a gate."""
    failed = int(frame["failure"].notna().sum())
    used = int(passed(frame).sum())
    left_out = len(frame) - used - failed
    return {
        "total": len(frame),
        "used": used,
        "failed": failed,
        "excluded": left_out,
    }


def failed_cells(frame: pd.DataFrame, factors: Sequence[str]) -> list[Failed]:
    """Return the cells that lost trials, with how many and the commonest reason.

    A factor that a cell has no level of is not among its factors.
    """
    table = cells(frame, factors)
    lost = table[table["used"] < table["trials"]].sort_values(list(factors))
    return [
        Failed(
            factors={f: row[f] for f in factors if pd.notna(row[f])},
            n=int(row["trials"] - row["used"]),
            reason=_in_full(frame, row, factors),
        )
        for row in lost.to_dict("records")
    ]


def _in_full(frame: pd.DataFrame, row: dict[str, Any], factors: Sequence[str]) -> str:
    """Return a cell's reason, with what the programs said of a failed trial."""
    reason = str(row["reason"])
    known = [f for f in factors if pd.notna(row[f])]
    same = (frame[known] == [row[f] for f in known]).all(axis=1)
    said = frame.loc[same & (frame["reason"] == reason), "failure"].dropna()
    if said.empty:
        return reason
    return f"{reason} ({said.iloc[0].partition(': ')[2]})"


def varied(frame: pd.DataFrame, factors: Sequence[str]) -> str:
    """Say what was varied: factors, levels, trials per cell, one sentence."""
    said = []
    for factor in factors:
        levels = sorted(frame[factor].dropna().unique())
        shown = listing([level_text(level) for level in levels])
        said.append(f"{factor.replace('_', ' ')} ({shown})")
    per_cell = cells(frame, factors)["trials"]
    count = span(int(per_cell.min()), int(per_cell.max()))
    return f"Varied: {'; '.join(said)}; {count} trials per cell."


def commit_of(manifest: Mapping[str, Any]) -> str | None:
    """Return the git commit that a run's manifest names; None outside of git."""
    return (manifest.get("git") or {}).get("commit")


def machine_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine in a few facts and one phrase (``text``)."""
    facts = manifest.get("machine") or {}
    kept = {k: facts[k] for k in ("cpu", "cores", "kernel", "system") if facts.get(k)}
    memory = facts.get("memory_bytes")
    if memory:
        kept["memory_bytes"] = memory
    parts = [str(kept["cpu"])] if "cpu" in kept else []
    if "cores" in kept:
        parts.append(f"{kept['cores']} cores")
    if memory:
        parts.append(f"{memory / 2**30:.0f} GiB")
    if "kernel" in kept:
        parts.append(f"Linux {kept['kernel']}")
    return kept | ({"text": ", ".join(parts)} if parts else {})


def stopping_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return why a study's sweeps stopped and how narrow their intervals came out.

    A study of several sweeps has the facts of all: the reasons one after another, the
    seconds added, the share of them in windows over all.
    """
    ended = [*(entry.get("earlier") or {}).values(), entry.get("stopping")]
    facts = _joined([dict(each) for each in ended if each])
    if not facts:
        return {}
    text = facts["reason"]
    wide = [w for w in facts["widths"] if w.get("half_width") is not None]
    if wide:
        worst = max(wide, key=lambda w: w["half_width"] / w["target"])
        text += (
            f"; widest against its target: {worst['metric']} ±{worst['half_width']:.1%}"
            f" (target ±{worst['target']:.0%})"
        )
    facts.pop("widths")
    return {"text": text, **facts}


def _joined(ended: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the endings of a study's sweeps say together."""
    if not ended:
        return {}
    reasons = dict.fromkeys(e.get("reason") or "no reason was recorded" for e in ended)
    took = [(e.get("seconds") or 0, e.get("window_share") or 0) for e in ended]
    seconds = sum(each for each, _ in took)
    measured_s = sum(each * share for each, share in took)
    return {
        "reason": "; then: ".join(reasons),
        "complete": all(e.get("complete", True) for e in ended),
        "seconds": seconds,
        "window_share": measured_s / seconds if measured_s else None,
        "widths": [width for e in ended for width in e.get("widths") or ()],
    }


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a JSON file so that readers see the old one or the new one, never half."""
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
    put(path, f"{text}\n".encode(), flush=True)
    return path
