"""The tables of earlier reports, as they were printed.

``paper/published/NAME.csv`` begins with comment lines (what it is, the key to cite,
source, units), then plain CSV. Two things read them: the fragments that print a table
in the paper, and the lint, which lets a published number stand in the prose only when
it is in its table.
"""

import re
from pathlib import Path

import pandas as pd

from connlab.publish import markdown as md

FOLDER = "published"
_NUMBER = re.compile(r"\d[\d,.\u00a0\u202f ]*\d|\d")
_SEPARATOR = re.compile(r"[,\s\u00a0\u202f]")


def read(paper: Path, name: str) -> tuple[dict[str, str], pd.DataFrame] | None:
    """Read a table by its name; None when there is none of that name.

    Returned are its comment lines by their keys (the first is ``about``), and the cells
    as they were printed.
    """
    path = paper / FOLDER / f"{name}.csv"
    if path.parent != paper / FOLDER or not path.is_file():
        return None
    lines = path.read_text("utf-8").splitlines()
    about, *notes = [line.lstrip("# ") for line in lines if line.startswith("#")]
    table = pd.read_csv(path, comment="#", dtype=str, keep_default_na=False)
    return {"about": about} | dict(note.split(": ", 1) for note in notes), table


def table(paper: Path, name: str, *, label: str) -> str | None:
    """Set a published table with its source; None when there is none of that name."""
    notes_and_cells = read(paper, name)
    if notes_and_cells is None:
        return None
    notes, cells = notes_and_cells
    about = md.escape(notes["about"].partition(": ")[2] or notes["about"])
    caption = f"Published by @{notes['cite']}: {about}."
    heads = [md.escape(column.replace("_", " ")) for column in cells]
    texts = cells.map(lambda cell: md.escape(cell.replace("_", " ") or "—"))
    numeric = cells.apply(lambda column: column.str[:1].str.isdigit().any())
    align = "".join("r" if right else "l" for right in numeric)
    rows = texts.to_numpy().tolist()
    body = md.table(heads, rows, caption=caption, label=label, align=align)
    unit = md.escape(notes.get("unit", ""))
    return body + (f"\n::: {{.table-notes}}\nUnit: {unit}.\n:::\n" if unit else "")


def numbers(paper: Path, name: str) -> set[str] | None:
    """Return every number of a table in plain digits; None when there is no table."""
    notes_and_cells = read(paper, name)
    if notes_and_cells is None:
        return None
    return {n for cell in notes_and_cells[1].to_numpy().flat for n in quoted(cell)}


def quoted(text: str) -> list[str]:
    """List the numbers in a text, without separators of thousands."""
    return [_SEPARATOR.sub("", number).rstrip(".") for number in _NUMBER.findall(text)]
