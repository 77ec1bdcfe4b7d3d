"""The series of a figure: a sentence or two for alt text, all values on a page.

    alt text of a study  -> what is drawn, the names of the series   (`brief`)
    alt text and CSV     -> data/STUDY/NAME.html, in words and as a table

A reader who cannot see a figure hears in a breath what it is, and finds its values in a
table that can be walked through.
"""

from __future__ import annotations

import csv
import re
from html import escape
from pathlib import Path

_MOST = 250
"""Characters of an alt text that are heard to the end."""
_NAMED = 8
"""Series that are named; of more it is said how many."""
_SENTENCE = re.compile(r"(?<=\.)\s+(?=\S)")
_FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto;
  padding: 1.5rem 1.1rem 5rem; color: light-dark(#1c2128, #e3e7ed);
  background: light-dark(#fff, #14181e); }}
a {{ color: light-dark(#1d4f91, #8fbcff); }}
h1 {{ font-size: 1.2rem; line-height: 1.4; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 0.85rem; font-variant: tabular-nums; }}
th, td {{ padding: 0.2rem 0.6rem; text-align: left; border-top: 1px solid #8888; }}
td.number {{ text-align: right; }}
</style>
</head>
<body>
<header><a href="../../index.html">The paper</a> · <a href="{csv}">CSV</a>, with all
digits</header>
<main>
<h1>{title}</h1>
{words}
<div role="region" tabindex="0" aria-label="Data of the figure">
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
</main>
</body>
</html>
"""


def brief(alt: str) -> str:
    """Shorten an alt text that lists the values of all series.

    Parameters
    ----------
    alt : str
        What is drawn, then a sentence ``NAME: values.`` for each series, then what
        lines mark.

    Returns
    -------
    str
        Itself where it is short; else what is drawn, the names of the series or how
        many there are, and what lines mark.
    """
    if len(alt) <= _MOST:
        return alt
    drawn, *others = _SENTENCE.split(alt)
    names = list(dict.fromkeys(s.partition(": ")[0] for s in others if ": " in s))
    marks = [s for s in others if ": " not in s][-1:]
    series = []
    if len(names) > _NAMED:
        series = [f"{len(names)} series."]
    elif names:
        series = [f"Series: {'; '.join(names)}."]
    return " ".join([drawn, *series, *marks])


def write_page(data: Path, target: Path, *, title: str, alt: str) -> Path | None:
    """Write the page of a figure's data.

    Parameters
    ----------
    data : path
        CSV with the values that are drawn.
    target : path
        The folder that the CSV is offered in.
    title, alt : str
        The figure's caption, and its values in words.

    Returns
    -------
    path or None
        The page; None where there is no CSV that can be read.
    """
    try:
        heads, *rows = list(csv.reader(data.read_text("utf-8").splitlines()))
    except (OSError, ValueError):
        return None
    body = "\n".join(
        "<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows
    )
    page = target / f"{data.stem}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    text = _FRAME.format(
        title=escape(title),
        csv=escape(data.name),
        words="\n".join(f"<p>{escape(s)}</p>" for s in _SENTENCE.split(alt)),
        heads="".join(f'<th scope="col">{escape(_head(h))}</th>' for h in heads),
        rows=body,
    )
    page.write_text(text, "utf-8")
    return page


def _head(name: str) -> str:
    return name.replace("_", " ")


def _cell(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return f"<td>{escape(text)}</td>"
    shown = f"{number:.4g}" if not number.is_integer() else text.removesuffix(".0")
    return f'<td class="number">{escape(shown)}</td>'
