"""Numbers in sentences and tables: n and method of each, on hover and focus.

    printed numbers of the results -> the text of a number -> n, method
        a sentence or a cell -> the same, its numbers marked

A study prints its numbers itself, as text. They are found again by that text, so that
n stands behind every number with an interval, wherever it is printed.
"""

import html
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from connlab.publish import markdown as md
from connlab.study.results import Results, Table

_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")
"""A number with decimals that is no part of a name or a version."""
_WITHIN = re.compile(r"[^ ](?:.*[^ ])?", re.DOTALL)
"""Text without the spaces around it, which escaping would strip."""
_DIGITS = 4
"""Significant digits of a number that is shown as it was published."""


def hover(n: int, level: float | None, method: str) -> str:
    """Return n of a number, the level of its interval if any, and the method.

    A number that is exact, such as a count, has neither.
    """
    if method == "exact":
        return method
    interval = [] if level is None else [f"{100 * level:g} % interval"]
    # n counts trials, rounds or made-up sweeps
    return ", ".join([f"n = {int(n)}", *interval, method])


def title(row: Mapping[str, Any]) -> str:
    """Return the hover text of a row of ``cells.csv`` or ``ratios.csv``."""
    return behind(row) if row["lo"] is None else f"{row['text']}, {behind(row)}"


def behind(row: Mapping[str, Any]) -> str:
    """Return what stands behind the number of a row; it may have no interval."""
    level = None if row["lo"] is None else row["level"]
    return hover(row["n"], level, row["method"])


def as_html(text: str, title: str = "") -> str:
    """Set a piece of text; with a title as a number that shows it on hover."""
    escaped = html.escape(text, quote=False)
    if not title:
        return escaped
    return f'<span class="num" title="{html.escape(title)}">{escaped}</span>'


class Marks:
    """The numbers that a study printed, to be found again in its sentences."""

    def __init__(self, results: Results) -> None:
        self.behind: dict[str, str] = {}
        for printed in results.numbers:
            text = printed.text
            title = hover(printed.n, printed.level, printed.method)
            before = self.behind.get(text, "")
            if title not in before:  # alike to the last digit, from other trials
                self.behind[text] = f"{before}; or {title}" if before else title
        texts = sorted(self.behind, key=len, reverse=True)
        choice = "|".join(map(re.escape, texts))
        number = rf"(?<![\w.])({choice})(?![\w%])"
        self._pattern = re.compile(number if texts else "$.")

    def markdown(self, text: str) -> str:
        """Escape text for Markdown and mark the numbers in it."""
        return self._set(text, md.escape, md.span)

    def html(self, text: str) -> str:
        """Escape text for HTML and mark the numbers in it."""
        return self._set(text, as_html, as_html)

    def _set(
        self, text: str, plain: Callable[[str], str], number: Callable[[str, str], str]
    ) -> str:
        pieces = self._pattern.split(text)  # every second one is a number
        pieces[::2] = [_WITHIN.sub(lambda m: plain(m[0]), p) for p in pieces[::2]]
        pieces[1::2] = [number(piece, self.behind[piece]) for piece in pieces[1::2]]
        return "".join(pieces)


def table(
    printed: Table, marks: Marks, *, source: str = "", stale: bool = False
) -> str:
    """Set a table whose caption its section has.

    Columns of nothing but dashes are left out; the first names the rows and stays.
    That a number has no interval shows by its lack of brackets. A table of a reference
    names it as `source`; ``numbers.lua`` puts that into the caption, or that the table
    is `stale`.
    """
    text = _table(printed, marks)
    if source or stale:  # no part of the cell's width
        of = f' of="{md.attribute(source)}"' if source else ""
        return f"| []{{.source{of}}}{text.removeprefix('| ')}"
    return text


def _table(printed: Table, marks: Marks) -> str:
    if not printed.rows:
        return md.table([md.escape(printed.columns[0].label)], [["none"]])
    shown = [
        i
        for i in range(len(printed.columns))
        if i == 0 or {row[i] for row in printed.rows} - _NOTHING
    ]
    # a unit like "/s" must not break behind its stroke
    labels = [_percent(printed.columns[i].label) for i in shown]
    heads = [md.escape(label.replace("/", "/\u2060")) for label in labels]
    rows = [[_cell(marks.markdown(row[i])) for i in shown] for row in printed.rows]
    return md.table(heads, rows)


_NOTHING = {"", "—", "–"}
_BARE_PERCENT = re.compile(r"(?<=\d)%")
_NO_INTERVAL = re.compile(r" \((?:one trial, )?no interval\)")


def _cell(text: str) -> str:
    return _NO_INTERVAL.sub("", _percent(text).replace(" ± ", "\u00a0±\u00a0"))


def _percent(text: str) -> str:
    """Set the space before a per cent sign that Python's own format leaves out."""
    return _BARE_PERCENT.sub("\u202f%", text)


def shortened(text: str) -> Iterator[tuple[str, str]]:
    """Split published text into pieces as they are shown, each with its full number.

    Of a number with more than four significant digits three are shown, or those before
    the point where they are more. The full number is empty where nothing is cut.
    """
    at = 0
    for match in _DECIMAL.finditer(text):
        number = match[0]
        if len(number.replace(".", "").lstrip("0")) <= _DIGITS:
            continue
        places = max(0, 2 - math.floor(math.log10(float(number))))
        yield text[at : match.start()], ""
        yield f"{float(number):.{places}f}", number
        at = match.end()
    yield text[at:], ""
