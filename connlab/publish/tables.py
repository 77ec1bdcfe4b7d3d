"""Tables of studies as Markdown, each number with its n."""

import re

from connlab.publish import markdown as md
from connlab.publish import numbers
from connlab.study.results import Table


def markdown(table: Table, marks: numbers.Marks, *, source: str = "") -> str:
    """Set a table whose caption its section has.

    Columns of nothing but dashes are left out; the first names the rows and stays.
    That a number has no interval shows by its lack of brackets, and on hover. A table
    of a reference names it as `source`, which ``numbers.lua`` puts into the caption.
    """
    if not table.rows:
        return md.table([md.escape(table.columns[0].label)], [["none"]])
    shown = [
        i
        for i in range(len(table.columns))
        if i == 0 or {row[i] for row in table.rows} - _NOTHING
    ]
    # a unit like "/s" must not break behind its stroke
    labels = [_percent(table.columns[i].label) for i in shown]
    heads = [md.escape(label.replace("/", "/\u2060")) for label in labels]
    rows = [[_cell(marks.markdown(row[i])) for i in shown] for row in table.rows]
    text = md.table(heads, rows)
    if source:  # no part of the cell's width
        return f'| []{{.source of="{md.attribute(source)}"}}{text.removeprefix("| ")}'
    return text


_NOTHING = {"", "—", "–"}
_BARE_PERCENT = re.compile(r"(?<=\d)%")
_NO_INTERVAL = re.compile(r" \((?:one trial, )?no interval\)")


def _cell(text: str) -> str:
    return _NO_INTERVAL.sub("", _percent(text).replace(" ± ", "\u00a0±\u00a0"))


def _percent(text: str) -> str:
    """Set the space before a per cent sign that Python's own format leaves out."""
    return _BARE_PERCENT.sub("\u202f%", text)
