"""The results of a study: the one model of ``results.json``, written and read.

    connlab.report.Report -> Results -> write(…) -> results.json
    connlab.publish       <- Results <- read     <- results.json

Numbers stand in ``cells.csv`` and ``ratios.csv`` beside it. The file is replaced as a
whole: readers see the old one or the new one.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from connlab.schema import put
from connlab.study.formatting import counted, printed_in
from connlab.study.frames import cells, passed, select

SCHEMA = 1
FILE = "results.json"


class Fact(BaseModel):
    """A frozen part of the results; unknown keys are dropped."""

    model_config = ConfigDict(frozen=True)


class Printed(Fact):
    """A number with bounds as a study printed it, and how it was estimated."""

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
    """The results of one study in one run; filled step by step, then written.

    `number` is the place of the study in the paper; `numbers` are those in answer,
    findings, notes and tables; `lines` are floors and ceilings for other studies
    (`connlab.study.calibration`). `settings` are those by which trials were taken
    (`connlab.study.frames.recorded_settings`). `commit` was the git commit in the run's
    manifest when the study was evaluated; the paper calls results stale once the run
    has another.
    """

    schema_: int = Field(alias="schema")
    made_at: datetime | None = None
    study: str
    run: str | None = None
    number: int
    question: str
    commit: str | None = None
    answer: str
    machine: str = ""
    settings: list[dict[str, Any]] | None = None
    trials: dict[str, int] = Field(default_factory=dict)
    stopping: str = ""
    words: dict[str, Word] = Field(default_factory=dict)
    figures: list[Figure] = Field(default_factory=list)
    tables: list[Table] = Field(default_factory=list)
    failures: list[Failed] = Field(default_factory=list)
    findings: list[str] = Field(default_factory=list)
    lines: list[dict[str, Any]] = Field(default_factory=list)
    claims: dict[str, Claimed] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    numbers: list[Printed] = Field(default_factory=list)

    def table(self, id_: str) -> Table | None:
        """Return the table of this identifier, if there is one."""
        return next((table for table in self.tables if table.id == id_), None)

    def texts(self) -> Iterator[str]:
        """Give all texts that are printed unchanged."""
        yield from (self.answer, *self.findings, *self.notes)
        for table in self.tables:
            for row in table.rows:
                yield from row


def write(results: Results, folder: Path) -> Path:
    """Write ``results.json`` of a folder and return its path.

    A file with the same content but for its date stays: a committed run does not
    change. ValueError without an answer.
    """
    if not results.answer:
        raise ValueError("the answer is empty: a study answers its question")
    results.numbers = [Printed(**number) for number in printed_in(results.texts())]
    path, content = folder / FILE, _content(results)
    with contextlib.suppress(FileNotFoundError, ValueError):
        if _content(Results.model_validate_json(path.read_text("utf-8"))) == content:
            return path
    made_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return write_json(path, {"made_at": made_at, **content})


def _content(results: Results) -> dict[str, Any]:
    """Return results as JSON has them, without their date."""
    content = results.model_dump(by_alias=True, exclude={"made_at"})
    return json.loads(json.dumps(content, allow_nan=False))


def count_trials(frame: pd.DataFrame) -> dict[str, int]:
    """Return how many trials there are, were used, failed, were left out by a gate.

    All lines count here and in `failed_cells`, baselines measured once more as well:
    they were measured, and the ratios of their sets need them.
    """
    failed = int(frame["failure"].notna().sum())
    used = int(passed(frame).sum())
    excluded = len(frame) - used - failed
    return {"total": len(frame), "used": used, "failed": failed, "excluded": excluded}


def failed_cells(frame: pd.DataFrame, factors: Sequence[str]) -> list[Failed]:
    """Return the cells that lost trials, with how many and the commonest reason."""
    table = cells(frame, factors)
    lost = table[table["used"] < table["trials"]].sort_values(list(factors))
    failed = []
    for row in lost.to_dict("records"):
        cell = {f: None if pd.isna(row[f]) else row[f] for f in factors}
        alike = select(frame, cell | {"reason": row["reason"]})
        levels = {f: level for f, level in cell.items() if level is not None}
        n, messages = int(row["trials"] - row["used"]), alike["failure"].dropna()
        why = f" ({messages.iloc[0].partition(': ')[2]})" if len(messages) else ""
        failed.append(Failed(factors=levels, n=n, reason=f"{row['reason']}{why}"))
    return failed


def commit_of(manifest: Mapping[str, Any]) -> str | None:
    """Return the git commit that a run's manifest names; None outside of git."""
    return (manifest.get("git") or {}).get("commit")


def machine_of(manifest: Mapping[str, Any]) -> str:
    """Return the machine in one phrase; empty where nothing is known of it."""
    facts = manifest.get("machine") or {}
    phrases = {
        "cpu": "{}".format,
        "cores": lambda count: counted(count, "core"),
        "memory_bytes": lambda size: f"{size / 2**30:.{int(size < 2**30)}f} GiB",
        "kernel": "Linux {}".format,
    }
    return ", ".join(text(facts[n]) for n, text in phrases.items() if facts.get(n))


def stopping_of(entry: Mapping[str, Any]) -> str:
    """Return why a study's sweeps stopped and how narrow their intervals became.

    Of several sweeps the reasons are joined.
    """
    sweeps = [*(entry.get("earlier") or {}).values(), entry.get("stopping")]
    sweeps = [sweep for sweep in sweeps if sweep]
    reasons = dict.fromkeys(s.get("reason") or "no reason was recorded" for s in sweeps)
    text = "; then: ".join(reasons)
    widths = [width for sweep in sweeps for width in sweep.get("widths") or ()]
    if bounded := [w for w in widths if w.get("half_width") is not None]:
        worst = max(bounded, key=lambda w: w["half_width"] / w["target"])
        text += (
            f"; widest against its target: {worst['metric']} ±{worst['half_width']:.1%}"
            f" (target ±{100 * worst['target']:.3g}%)"
        )
    return text


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a JSON file atomically: readers see the old one or the new one."""
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
    put(path, f"{text}\n".encode(), flush=True)
    return path
