"""Small pieces of Markdown: escaped text, hover spans, tables.

The generated fragments have to read the same to Quarto and to plain pandoc, so they
use only what both take: pipe tables, spans and fenced divs with attributes.
"""

import re
from collections.abc import Sequence
from math import ceil

# What begins a list item or a heading where it begins a line.
_LEADING = re.compile(r"^(\w{0,9})([-+().=])")
# Characters of a cell that stay on one line where there is room.
_LINE = 48
_PRINTED = 130
"""Characters that a line of a wide table holds in print, about."""
_NUMBER = re.compile(r'\[((?:[^\[\]\\]|\\.)*)\]\{\.num title="[^"]*"\}')
"""A number with n and method on hover: long in the source, not on the page."""
_NARROW = 72
"""Characters of a line up to which pandoc lets columns be as wide as their cells."""
_MARKUP = re.compile(r"\{[^}]*\}|\]\([^)]*\)|[\[\]`*\\]")
_OPTION = re.compile(r"(?<![\w`-])--[a-z][a-z0-9-]*(?![\w`-])")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$@^~&])")


def escape(text: object) -> str:
    """Quote text so that Markdown prints it as it is, on one line.

    Options of programs (``--workers``) become code: in running text two hyphens are
    a dash to pandoc and to Typst.
    """
    options: list[str] = []
    plain = _OPTION.sub(lambda m: options.append(m[0]) or "\0", one_line(text))
    quoted = _LEADING.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", plain))
    return re.sub("\0", lambda _: f"`{options.pop(0)}`", quoted)


def one_line(text: object) -> str:
    """Put text on one line; spaces that must not break stay what they are."""
    return re.sub(r"[ \t\r\n]+", " ", str(text)).strip(" ")


def attribute(text: object) -> str:
    """Quote text for use between double quotes in an attribute."""
    return one_line(text).replace("\\", "\\\\").replace('"', "”").replace("{{", "{ {")


def span(text: str, title: str, name: str = "num") -> str:
    """Wrap plain text in a span; ``title`` is shown when a reader hovers over it."""
    return f'[{escape(text)}]{{.{name} title="{attribute(title)}"}}'


def table(
    heads: Sequence[str],
    rows: list[list[str]],
    *,
    caption: str | None = None,
    label: str | None = None,
    widths: Sequence[int] | None = None,
    align: str | None = None,
) -> str:
    """Set a pipe table from Markdown cells, a row for each head.

    Without ``widths`` the longest cells share the line, so that cells wrap; without
    ``align`` ("l" or "r" for each column) columns of numbers go right. A table that
    has a caption, and is narrow but for the hover texts of its numbers, is marked
    ``.narrow``: the filter removes the widths that pandoc gives it for its long lines.
    """
    bare = [[_NUMBER.sub(r"\1", cell) for cell in row] for row in rows]
    columns = list(zip(*bare, strict=True)) or [()] * len(heads)
    if align is None:
        align = "".join("r" if _numeric(column) else "l" for column in columns)
    dashes = ["-" * n for n in widths or _widths(heads, columns)]
    sides = zip(dashes, align, strict=True)
    rules = [f"{line}:" if side == "r" else f":{line}" for line, side in sides]
    lines = [_row(heads), f"|{'|'.join(rules)}|", *map(_row, rows)]
    if not caption:  # it stands in the section, right below the table
        return "\n".join(lines) + "\n"
    identifier = f" {{#{label}}}" if label else ""
    text = "\n".join([*lines, "", f": {caption}{identifier}"]) + "\n"
    width = max(map(len, [*lines[:2], *map(_row, bare)]))
    if bare != rows and width <= _NARROW:
        return f"::: {{.narrow}}\n{text}:::\n"
    return text


def _widths(heads: Sequence[str], columns: Sequence[Sequence[str]]) -> list[int]:
    """Return each column's share of the line: its longest cell, and words whole.

    What goes beyond one line counts a quarter, or it would squeeze the others.
    """
    widths, words = [], []
    for head, cells in zip(heads, columns, strict=True):
        longest = max(map(len, cells), default=0)
        share = min(longest, _LINE) + max(0, longest - _LINE) // 4
        least = [len(head) * 3 // 5, *map(len, head.split())]  # it may break
        widths.append(3 + max(share, *least))
        printed = _MARKUP.sub("", " ".join([head, *cells]))
        words.append(min(_LINE, max(map(len, printed.split(" ")))) + 2)
    line = max(sum(widths), _PRINTED)
    return [
        max(w, ceil(n * line / _PRINTED)) for w, n in zip(widths, words, strict=True)
    ]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _numeric(cells: Sequence[str]) -> bool:
    """Say whether most cells begin with a digit and none is longer than a number."""
    if any(len(cell) > _LINE for cell in cells):
        return False
    plain = [re.sub(r"[\\\[]", "", cell).strip() for cell in cells]
    begins = [text[0] for text in plain if text and text[0] not in "—–"]
    digits = [c for c in begins if c.isdigit() or c in "-−+<>±"]
    return len(digits) * 2 > len(begins)
