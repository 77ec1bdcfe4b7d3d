"""The tables of earlier reports, as they were printed.

``paper/published/NAME.csv`` begins with comment lines (what it is, the key to cite,
source, units), then plain CSV. Two things read them: the fragments that print a table
in the paper, and the lint, which lets a published number stand in the prose only when
it is in its table.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from connlab.publish import markdown as md

FOLDER = "published"
_NUMBER = re.compile(r"\d[\d,.\u00a0\u202f ]*\d|\d")


@dataclass(frozen=True)
class Published:
    """One transcribed table."""

    name: str
    about: str
    notes: dict[str, str]
    columns: list[str]
    rows: list[list[str]]


def read(paper: Path, name: str) -> Published | None:
    """Read a table by its name; None when there is none of that name."""
    path = paper / FOLDER / f"{name}.csv"
    if path.parent != paper / FOLDER or not path.is_file():
        return None
    lines = path.read_text("utf-8").splitlines()
    head = [line.lstrip("# ") for line in lines if line.startswith("#")]
    body = list(csv.reader(line for line in lines if not line.startswith("#")))
    notes = dict(line.split(": ", 1) for line in head[1:])
    return Published(name, head[0], notes, body[0], body[1:])


def table(paper: Path, name: str, *, label: str) -> str | None:
    """Set a published table with its source; None when there is none of that name."""
    found = read(paper, name)
    if found is None:
        return None
    about = md.escape(found.about.partition(": ")[2] or found.about)
    caption = f"Published by @{found.notes['cite']}: {about}."
    heads = [md.escape(column.replace("_", " ")) for column in found.columns]
    rows = [[md.escape(_cell(cell)) for cell in row] for row in found.rows]
    unit = md.escape(found.notes.get("unit", ""))
    note = f"\n::: {{.table-notes}}\nUnit: {unit}.\n:::\n" if unit else ""
    sides = [
        "r" if any(row[i][:1].isdigit() for row in found.rows) else "l"
        for i in range(len(heads))
    ]
    align = "".join(sides)
    return md.table(heads, rows, caption=caption, label=label, align=align) + note


def numbers(paper: Path, name: str) -> set[str] | None:
    """Give every number of a table in plain digits; None when there is no table."""
    found = read(paper, name)
    if found is None:
        return None
    cells = (cell for row in found.rows for cell in row)
    return {plain(number) for cell in cells for number in _NUMBER.findall(cell)}


def quoted(text: str) -> list[str]:
    """List the numbers that a text says."""
    return _NUMBER.findall(text)


def plain(number: str) -> str:
    """Strip a number of what only helps to read it."""
    return re.sub(r"[,\s\u00a0\u202f]", "", number).rstrip(".")


def _cell(cell: str) -> str:
    return cell.replace("_", " ") if cell else "—"
