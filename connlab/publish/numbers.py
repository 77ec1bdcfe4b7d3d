"""Numbers in sentences and tables: n and method of each, on hover and focus.

    results: values, effects, printed numbers -> the text of a number -> n, method
        a sentence or a cell -> the same, its numbers marked

A study prints its numbers itself, as text. They are found again by that text, so that
n stands behind every number with an interval, wherever it is printed.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterator

from connlab.publish import markdown as md
from connlab.publish.results import Results, Value

_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")
"""A number with decimals that is no part of a name or a version."""
_DIGITS = 4
"""Significant digits of a number that is shown as it was published."""


def hover(value: Value) -> str:
    """Say what stands behind a value: its text, n, level of the interval, method."""
    level = value.level if value.lo is not None else None
    text = [value.text] if value.lo is not None else []
    return ", ".join([*text, *_behind(value.n, level, value.method)])


def _behind(n: int | None, level: float | None, method: str | None) -> list[str]:
    parts = [] if n is None else [f"n = {n}"]  # of trials, rounds or made-up sweeps
    if level is not None:
        parts.append(f"{100 * level:g} % interval")
    return [*parts, method] if method else parts


def as_html(text: str, title: str = "") -> str:
    """Set a piece of text; with a title as a number that shows it on hover."""
    said = html.escape(text, quote=False)
    if not title:
        return said
    return f'<span class="num" title="{html.escape(title)}">{said}</span>'


class Marks:
    """The numbers of one study, to be found in what it says.

    Parameters
    ----------
    results : Results
        Of the study.
    """

    def __init__(self, results: Results) -> None:
        self.behind: dict[str, str] = {}
        for text, title in _known(results):
            before = self.behind.get(text, "")
            if title not in before:  # alike to the last digit, from other trials
                self.behind[text] = f"{before}; or {title}" if before else title
        texts = sorted(self.behind, key=len, reverse=True)
        any_ = "|".join(map(re.escape, texts))
        self._pattern = re.compile(rf"(?<![\w.])(?:{any_})(?![\w%])" if texts else "$.")

    def markdown(self, text: str) -> str:
        """Escape text for Markdown and mark the numbers in it."""
        return self._set(
            text, md.escape, lambda t, title: md.span(t, "num", title=title)
        )

    def html(self, text: str) -> str:
        """Escape text for HTML and mark the numbers in it."""
        return self._set(text, as_html, as_html)

    def _set(
        self,
        text: str,
        plain: Callable[[str], str],
        number: Callable[[str, str], str],
    ) -> str:
        out, at = [], 0
        for found in self._pattern.finditer(text):
            out += [_inner(plain, text[at : found.start()])]
            out += [number(found[0], self.behind[found[0]])]
            at = found.end()
        return "".join([*out, _inner(plain, text[at:])])


def _inner(plain: Callable[[str], str], part: str) -> str:
    """Set a part of a line; what stands at its ends stays spaces."""
    before, after = re.match(r" *", part)[0], re.search(r" *$", part)[0]
    return before + plain(part.strip(" ")) + after if part.strip(" ") else part


def _known(results: Results) -> Iterator[tuple[str, str]]:
    """Give the text of each number with bounds, and what stands behind it."""
    effects = [word.effect for word in results.words.values() if word.effect]
    for value in (*results.values.values(), *effects):
        if value.lo is None or value.n is None:
            continue
        title = ", ".join(_behind(value.n, value.level, value.method))
        yield value.text, title
        if value.unit:  # as it stands under a head that has the unit
            yield value.text.replace(f" {value.unit} [", " ["), title
    for one in results.numbers:
        yield one.text, ", ".join(_behind(one.n, one.level, one.method))


def shortened(text: str) -> Iterator[tuple[str, str]]:
    """Split published text into pieces, and what each stands for.

    Yields
    ------
    piece : str
        Text as it is shown: of more than four significant digits three, or those
        before the point where they are more.
    full : str
        The number as it was published; empty where the piece shows all of it.
    """
    at = 0
    for found in _DECIMAL.finditer(text):
        number = found[0]
        if len(number.replace(".", "").lstrip("0")) <= _DIGITS:
            continue
        places = max(0, 2 - math.floor(math.log10(float(number))))
        yield text[at : found.start()], ""
        yield f"{float(number):.{places}f}", number
        at = found.end()
    yield text[at:], ""
