"""The values of a figure on a page of their own: in words, and as a table.

    caption, alternative text, CSV -> data/STUDY/NAME.html

Whoever cannot see a figure finds its values in a table that can be walked through.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from connlab.publish import fragments

_SENTENCE = re.compile(r"(?<=\.)\s+(?=\S)")


def write_page(data: Path, target: Path, *, title: str, alt: str) -> Path | None:
    """Write the page of a figure's data; None where there is no CSV that can be read.

    ``title`` is the figure's caption, ``alt`` its values in words.
    """
    try:
        heads, *rows = list(csv.reader(data.read_text("utf-8").splitlines()))
    except (OSError, ValueError):
        return None
    text = fragments.fill(
        "series.html",
        title=title,
        csv=data.name,
        sentences=_SENTENCE.split(alt),
        heads=[head.replace("_", " ") for head in heads],
        rows=[[_cell(cell) for cell in row] for row in rows],
    )
    return fragments.write(target / f"{data.stem}.html", text)


def _cell(text: str) -> tuple[str, bool]:
    try:
        number = float(text)
    except ValueError:
        return text, False
    return (text.removesuffix(".0") if number.is_integer() else f"{number:.4g}"), True
