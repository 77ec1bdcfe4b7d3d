"""Results: what a study hands to the paper, as ``results.json``.

    value(…)  a number with interval, unit and n      word(…)   a comparing word
    figure(…) a picture, its text and its data        table(…)  cells of text
    finding(…) a sentence                             write()   all of it, at once

The paper holds no typed measurement, so whatever its text needs is here, ready to be
printed. The file is replaced as a whole: readers see the old one or the new one.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from connlab.schema import study_folder
from connlab.study.formatting import (
    in_best_unit,
    level_text,
    listing,
    number_text,
    printed_in,
    span,
)
from connlab.study.frames import cells, load_manifest, passed
from connlab.study.interval import Interval
from connlab.study.tables import Table

SCHEMA = 1


@dataclass
class Results:
    """What one study found in one run; filled step by step, then written.

    Attributes
    ----------
    study, run, question : str
    number : int
        Place of the study in the paper.
    folder : Path
        Where ``results.json`` and the figures go.
    answer : str
        One sentence, made from the data.
    lines : list
        Floors and ceilings for other studies (`connlab.study.calibration`).
    commit : str or None
        Git commit that the run's manifest named when the study was evaluated; the
        paper calls results stale once the run has moved on to another.
    """

    study: str
    run: str
    number: int
    question: str
    folder: Path
    commit: str | None = None
    answer: str = ""
    varied: str = ""
    machine: dict = field(default_factory=dict)
    trials: dict = field(default_factory=dict)
    stopping: dict = field(default_factory=dict)
    values: dict = field(default_factory=dict)
    words: dict = field(default_factory=dict)
    figures: list = field(default_factory=list)
    tables: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    lines: list = field(default_factory=list)
    claims: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)

    def table(self, name: str, table: Table, *, caption: str) -> Table:
        """Keep a table; return it to be shown."""
        self.refuse_twice(self.tables, f"tbl-{name}")
        self.tables.append(
            {
                "id": f"tbl-{name}",
                "caption": caption,
                "columns": [vars(c) for c in table.columns],
                "rows": [list(row) for row in table.rows],
                "notes": list(table.notes),
            }
        )
        return table

    def finding(self, text: str) -> str:
        """Keep a sentence that the text prints as it is; return it."""
        self.findings.append(text)
        return text

    def refuse_twice(self, entries: list, id_: str) -> None:
        """Raise ValueError when a figure or a table of this name is there already."""
        if any(e["id"] == id_ for e in entries):
            raise ValueError(f"{id_} is there already")

    def write(self) -> Path:
        """Replace ``results.json``, if it says anything else; return its path."""
        if not self.answer:
            raise ValueError("the answer is empty: a study answers its question")
        made = datetime.now(UTC).isoformat(timespec="seconds")
        content = {"schema": SCHEMA, "made_at": made, **vars(self)}
        content.pop("folder")
        content["numbers"] = printed_in(self._texts())
        path = self.folder / "results.json"
        return path if _says(path, content) else write_json(path, content)

    def _texts(self) -> Iterator[str]:
        """Give all that is printed as it stands here."""
        yield from (self.answer, *self.findings, *self.notes)
        for table in self.tables:
            yield from table.get("notes", ())
            for row in table.get("rows", ()):
                yield from row

    def _repr_markdown_(self) -> str:
        return f"**{self.answer}**"


def start(
    frame: pd.DataFrame,
    *,
    number: int,
    question: str,
    factors: Sequence[str],
    root: str | Path = "runs",
) -> Results:
    """Begin the results of a study: machine, trials, stopping, failures, notes.

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`; its ``attrs`` say run, study and folder.
    number : int
        Place of the study in the paper.
    question : str
        The notebook's title.
    factors : sequence of str
        Columns that were varied.
    root : str or Path
        Where runs stand, for the manifest.
    """
    about = frame.attrs
    manifest = load_manifest(about["run"], root=root)
    entry = (manifest.get("studies") or {}).get(about["study"]) or {}
    return Results(
        study=about["study"],
        run=about["run"],
        number=number,
        question=question,
        folder=Path(about["folder"]),
        commit=commit_of(manifest),
        varied=varied(frame, factors),
        machine=machine_of(manifest),
        trials=count_trials(frame),
        stopping=stopping_of(entry),
        failures=failed_cells(frame, factors),
        notes=list(about["notes"]),
    )


def bare(
    study: str, *, run: str, number: int, question: str, root: str | Path = "runs"
) -> Results:
    """Begin the results of a study that has no trials of its own."""
    manifest = load_manifest(run, root=root)
    return Results(
        study=study,
        run=run,
        number=number,
        question=question,
        folder=study_folder(run, study, root=root),
        commit=commit_of(manifest),
        machine=machine_of(manifest),
    )


def value_of(interval: Interval, unit: str) -> dict[str, Any]:
    """Return a number as results keep it: in its best unit, with its text."""
    i, shown = in_best_unit(interval, unit)
    return {
        "value": _finite(i.value),
        "lo": _finite(i.lo),
        "hi": _finite(i.hi),
        "unit": shown,
        "n": i.n,
        "level": i.level,
        "method": i.method + (f"; {i.note}" if i.note else ""),
        "text": number_text(i, shown),
    }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


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


def failed_cells(frame: pd.DataFrame, factors: Sequence[str]) -> list[dict]:
    """Return the cells that lost trials, with how many and the commonest reason.

    A factor that a cell has no level of is not among its factors.
    """
    table = cells(frame, factors)
    lost = table[table["used"] < table["trials"]].sort_values(list(factors))
    return [
        {
            "factors": {f: _plain_value(row[f]) for f in factors if pd.notna(row[f])},
            "n": int(row["trials"] - row["used"]),
            "reason": _in_full(frame, row, factors),
        }
        for _, row in lost.iterrows()
    ]


def _in_full(frame: pd.DataFrame, row: pd.Series, factors: Sequence[str]) -> str:
    """Return a cell's reason, with what the programs said of a failed trial."""
    reason = str(row["reason"])
    known = [f for f in factors if pd.notna(row[f])]
    same = (frame[known] == row[known]).all(axis=1)
    said = frame.loc[same & (frame["reason"] == reason), "failure"].dropna()
    if said.empty:
        return reason
    return f"{reason} ({said.iloc[0].partition(': ')[2]})"


def _plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def varied(frame: pd.DataFrame, factors: Sequence[str]) -> str:
    """Say what was varied: factors, levels, trials per cell, one sentence."""
    said = []
    for factor in factors:
        levels = sorted(frame[factor].dropna().unique())
        shown = listing([level_text(one) for one in levels])
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
    """Return why the sweep stopped and how narrow its intervals came out."""
    facts = dict(entry.get("stopping") or {})
    if not facts:
        return {}
    text = str(facts.get("reason") or "no reason was recorded")
    wide = [w for w in facts.get("widths") or () if w.get("half_width") is not None]
    if wide:
        worst = max(wide, key=lambda w: w["half_width"] / w["target"])
        text += (
            f"; widest against its target: {worst['metric']} ±{worst['half_width']:.1%}"
            f" (target ±{worst['target']:.0%})"
        )
    keep = ("reason", "complete", "rule", "trials_per_cell", "seconds", "window_share")
    return {"text": text, **{k: facts[k] for k in keep if k in facts}}


def _says(path: Path, content: Mapping[str, Any]) -> bool:
    """Whether a file holds all this, at whatever time it was made.

    Found again is not made again: a committed run stays as it was committed.
    """
    try:
        before = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    now = json.loads(json.dumps(content))
    return isinstance(before, dict) and before | {"made_at": now["made_at"]} == now


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a JSON file so that readers see the old one or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
    with partial.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    return path
