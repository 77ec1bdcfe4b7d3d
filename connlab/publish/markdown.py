"""Small pieces of Markdown: escaped text, hover spans, tables, callouts.

The generated fragments have to read the same to Quarto and to plain pandoc, so they
use only what both take: pipe tables, spans and fenced divs with attributes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

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
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$@^~])")


def escape(text: object) -> str:
    """Quote text so that Markdown prints it as it is, on one line.

    Options of programs (``--workers``) become code: in running text two hyphens are
    a dash to pandoc and to Typst.
    """
    options: list[str] = []
    plain = _OPTION.sub(lambda m: options.append(m[0]) or "\0", _line(text))
    quoted = _LEADING.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", plain))
    return re.sub("\0", lambda _: f"`{options.pop(0)}`", quoted)


def citing(escaped: str, works: Collection[str]) -> str:
    """Let ``@key`` cite in escaped text where there is a work of that key."""
    return re.sub(
        r"\\@([a-z][a-z0-9-]*[a-z0-9])",
        lambda match: f"@{match[1]}" if match[1] in works else match[0],
        escaped,
    )


def attribute(text: object) -> str:
    """Quote text for use between double quotes in an attribute."""
    return _line(text).replace("\\", "\\\\").replace('"', "”").replace("{{", "{ {")


def span(text: str, classes: str, *, title: str | None = None) -> str:
    """Wrap plain text in a span; ``title`` is shown when a reader hovers over it."""
    names = " ".join(f".{name}" for name in classes.split())
    hover = f' title="{attribute(title)}"' if title else ""
    return f"[{escape(text)}]{{{names}{hover}}}"


def callout(kind: str, title: str, body: str) -> str:
    """Set a callout block; ``body`` is Markdown."""
    return f'::: {{.callout-{kind} title="{attribute(title)}"}}\n{body}\n:::\n'


def only_html(body: str) -> str:
    """Keep Markdown out of print."""
    return f'::: {{.content-visible when-format="html"}}\n{body}\n:::\n'


def only_print(body: str) -> str:
    """Keep Markdown off the page."""
    return f'::: {{.content-hidden when-format="html"}}\n{body}\n:::\n'


def raw_html(code: str) -> str:
    """Set HTML: the page takes it as it is, print leaves it out."""
    return f"\n\n```{{=html}}\n{code}\n```\n\n"


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str | None = None,
    label: str | None = None,
    widths: Sequence[int] | None = None,
    align: str | None = None,
    alone: bool = True,
) -> str:
    """Set a pipe table from Markdown cells.

    A table wider than a text line gets relative widths, so that cells wrap. One that
    is narrow but for the hover texts of its numbers is marked ``.narrow``: the filter
    removes the widths that pandoc gives it for its long lines.

    Parameters
    ----------
    heads, rows : sequences of str
        Cells; rows shorter than the head are filled up with empty ones.
    caption, label : str, optional
        Markdown of the caption, and the identifier that references use.
    widths : sequence of int, optional
        Relative widths of the columns; taken from the longest cells when missing.
    align : str, optional
        One of "l" and "r" for each column; without it columns of numbers go right.
    alone : bool
        False where the caption stands in the section, right below it.
    """
    count = len(heads)
    filled = [[*row, *[""] * (count - len(row))][:count] for row in rows]
    bare = [[_NUMBER.sub(r"\1", cell) for cell in row] for row in filled]
    if align is None:
        columns = ([row[i] for row in filled] for i in range(count))
        align = "".join("r" if _numeric(column) else "l" for column in columns)
    scale = 1 if widths is None else max(1, 80 // max(1, sum(widths)))
    rules = [
        ("-" * (width * scale) + ":" if side == "r" else ":" + "-" * (width * scale))
        for width, side in zip(
            widths or _widths(heads, list(zip(*bare, strict=True))), align, strict=True
        )
    ]
    lines = [_row(heads), "|" + "|".join(rules) + "|", *map(_row, filled)]
    width = max(map(len, [*lines[:2], *map(_row, bare)]))
    if caption:
        identifier = f" {{#{label}}}" if label else ""
        lines += ["", f": {caption}{identifier}"]
    text = "\n".join(lines) + "\n"
    if alone and bare != filled and width <= _NARROW:
        return f"::: {{.narrow}}\n{text}:::\n"
    return text


def _line(text: object) -> str:
    """Put text on one line; spaces that must not break stay what they are."""
    return re.sub(r"[ \t\r\n]+", " ", str(text)).strip()


def _widths(heads: Sequence[str], columns: Sequence[Sequence[str]]) -> list[int]:
    columns = columns or [()] * len(heads)
    widths = [_width(*pair) for pair in zip(heads, columns, strict=True)]
    line = max(sum(widths), _PRINTED)
    return [
        max(width, -(-_longest_word([head, *cells]) * line // _PRINTED))
        for width, head, cells in zip(widths, heads, columns, strict=True)
    ]


def _longest_word(cells: Iterable[str]) -> int:
    """Return the length of the longest word that is printed, and 2 for room."""
    words = [word for cell in cells for word in _MARKUP.sub("", cell).split(" ")]
    return min(_LINE, max(map(len, words), default=0)) + 2


def _width(head: str, cells: Sequence[str]) -> int:
    """Return a column's share of the line: cells whole, heads may break at spaces.

    Cells of several lines count less, or they would squeeze the others.
    """
    words = max(len(word) for word in [*head.split(), ""])
    longest = max([len(cell) for cell in cells], default=0)
    share = min(longest, _LINE) + max(0, longest - _LINE) // 4
    return 3 + max(words, len(head) * 3 // 5, share)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _numeric(cells: Sequence[str]) -> bool:
    plain = [re.sub(r"[\\\[]", "", c).strip() for c in cells]
    plain = [c for c in plain if c and c[0] not in "—–"]
    digits = [c for c in plain if c[:1].isdigit() or c[:1] in "-−+<>±"]
    return bool(plain) and len(digits) * 2 > len(plain)
