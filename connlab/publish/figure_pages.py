"""Where the pictures of figures lie, and the pages that a figure links to.

    picture                        -> _generated/STUDY/NAME.svg
    caption, alternative text, CSV -> data/STUDY/NAME.html      in words, and as a table
    executed notebook              -> data/STUDY/notebook.html

nbconvert turns cells into HTML; its own frames would fetch scripts from other hosts.
"""

import re
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from markupsafe import Markup

from connlab.publish import fragments, sources
from connlab.publish.results import Run, Study
from connlab.study.metrics import metric
from connlab.study.results import Figure

if TYPE_CHECKING:
    from nbconvert import HTMLExporter

GENERATED = "_generated"
DATA = "data"
EXECUTED = "notebook.ipynb"
NOTEBOOK = "notebook.html"
_SENTENCE = re.compile(r"(?<=\.)\s+(?=\S)")
_ELSEWHERE = "linked below"
"""Of a sentence about what the figure links to, which is this page."""
_COLOURED = re.compile(r'[^<]*(?:</?(?:div|pre|span)(?: class="[\w -]*")?>[^<]*)*')
"""HTML that needs no cleaning, such as Pygments makes of code."""
_BY_KEYBOARD = '<table tabindex="0" '
_WORDS = (
    'alt="No description has been provided for this image"',
    'alt="Drawn by the cell above; the paper has its words"',
)
_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_MARKS = re.compile("[`*]")
_REFERENCE = re.compile(r"@([\w-]+)")
_KINDS = {"fig": "figure", "tbl": "table", "sec": "section"}


def drawn(run: Run) -> dict[str, tuple[Study, Figure]]:
    """Return all figures of a run by where the sources have them, below ``paper``."""
    return {
        f"{GENERATED}/{study.name}/{Path(figure.files['svg']).name}": (study, figure)
        for study, results in run.evaluated
        for figure in results.figures
    }


def links(
    study: Study,
    figure: Figure,
    shown: Mapping[str, str],
    paper: Path,
    *,
    source: str = "",
) -> str:
    """Put what a figure links to beside the page; return the links.

    `shown` has its caption and its alternative text, `source` is what readers call the
    reference that it is borrowed from. The notebook beside the page is that of the run,
    which did not draw a borrowed figure.
    """
    folder, works = paper / DATA / study.name, sources.bibliography(paper)
    title = _warning(study, source) + _in_words(shown["caption"], works)
    pages = {}
    if figure.data:
        data = study.folder / figure.data
        pages["values (table)"] = write_values(
            data, folder, title=title, alt=shown["alt"]
        )
        pages["data (CSV)"] = fragments.copy(data, folder)
    svg = study.folder / figure.files["svg"]
    pages["picture (SVG)"] = fragments.copy(svg, folder)
    notebook = folder / NOTEBOOK
    pages["notebook"] = notebook if notebook.is_file() and not source else None
    return " · ".join(
        f"[{label}]({page.relative_to(paper).as_posix()})"
        for label, page in pages.items()
        if page
    )


def _warning(study: Study, source: str) -> str:
    """Return what ``numbers.lua`` puts first in the caption of a figure."""
    if source:
        return f"From the {source} run; not measured here. "
    return "Stale. " if study.stale else ""


def _in_words(caption: str, works: Mapping[str, str]) -> str:
    """Return a caption without Markdown; numbers of figures are not known yet."""

    def named(match: re.Match) -> str:
        kind, _, name = match[1].partition("-")
        of_paper = kind in _KINDS and f"{_KINDS[kind]} “{name}”"
        return of_paper or works.get(match[1], match[0])

    return _REFERENCE.sub(named, _MARKS.sub("", caption))


def write_values(data: Path, target: Path, *, title: str, alt: str) -> Path | None:
    """Write the page of a figure's data; None where there is no CSV that can be read.

    ``title`` is the figure's caption, ``alt`` its values in words. What is the same in
    every row is said once, above the table.
    """
    try:
        table = pd.read_csv(data, dtype=str, keep_default_na=False)
    except (OSError, ValueError):
        return None
    if "metric" in table:
        label = partial(_quantity, ratio="against" in table)
        table["metric"] = table["metric"].map(label)
    alike = [k for k in table if len(table) > 1 and table[k].nunique() == 1]
    shown = table.drop(columns=alike)
    text = fragments.fill(
        "values.html",
        title=title,
        csv=data.name,
        sentences=[s for s in _SENTENCE.split(alt) if _ELSEWHERE not in s],
        alike=[(_head(k), _cell(table[k][0])[0]) for k in alike if table[k][0]],
        heads=map(_head, shown),
        rows=shown.map(_cell).to_numpy().tolist(),
    )
    return fragments.write(target / f"{data.stem}.html", text)


def _head(column: str) -> str:
    return column.replace("_", " ")


def _quantity(name: str, *, ratio: bool) -> str:
    """Return the label of a metric and the unit of its values; figures may scale it."""
    found = metric(name)
    bare = ratio or found.unit in ("", "1", "count")
    return found.label if bare else f"{found.label} in {found.unit}"


def _cell(text: str) -> tuple[str, bool]:
    """Return what is shown of a value, and whether it is a number."""
    try:
        number = float(text)
    except ValueError:
        return text, False
    return (text.removesuffix(".0") if number.is_integer() else _digits(number)), True


def _digits(number: float) -> str:
    """Return four digits of a number, or as many more as keep it from being 1.

    Whether the interval of a ratio holds 1 is what its verdict says.
    """
    texts = (f"{number:.{digits}g}" for digits in (4, 6, 9, 17))
    return next(text for text in texts if text != "1")


def write_notebook(folder: Path, target: Path, *, title: str) -> Path | None:
    """Write the page of a study's executed notebook; None without one that is whole."""
    source = folder / EXECUTED
    if not source.is_file():
        return None
    import nbformat
    from pygments.formatters import HtmlFormatter

    try:
        notebook = nbformat.read(source, as_version=4)
        body, _ = _exporter().from_notebook_node(notebook)
    except (ValueError, nbformat.ValidationError):  # it is no JSON, or no notebook
        return None
    body = _SCRIPT.sub("", body).replace("<table ", _BY_KEYBOARD).replace(*_WORDS)
    text = fragments.fill(
        "notebook.html",
        title=title,
        highlight=Markup(HtmlFormatter().get_style_defs(".highlight")),
        body=Markup(body),
    )
    return fragments.write(target / NOTEBOOK, text)


@cache
def _exporter() -> "HTMLExporter":
    """Return one for all notebooks: each compiles the templates anew."""
    from nbconvert import HTMLExporter
    from nbconvert.filters import clean_html

    def clean(text: str) -> str:
        return text if _COLOURED.fullmatch(text) else clean_html(text)

    return HTMLExporter(template_name="basic", filters={"clean_html": clean})
