"""Pages that a figure links to: its values, and the notebook that drew it.

    caption, alternative text, CSV -> data/STUDY/NAME.html      in words, and as a table
    executed notebook              -> data/STUDY/notebook.html

nbconvert turns cells into HTML; its own frames would fetch scripts from other hosts.
"""

import csv
import re
from pathlib import Path

from markupsafe import Markup

from connlab.publish import fragments
from connlab.study.metrics import metric

EXECUTED = "notebook.ipynb"
NOTEBOOK = "notebook.html"
_SENTENCE = re.compile(r"(?<=\.)\s+(?=\S)")
_ELSEWHERE = "linked below"
"""Of a sentence about what the figure links to, which is this page."""
_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)


def write_values(data: Path, target: Path, *, title: str, alt: str) -> Path | None:
    """Write the page of a figure's data; None where there is no CSV that can be read.

    ``title`` is the figure's caption, ``alt`` its values in words. What is the same in
    every row is said once, above the table.
    """
    try:
        heads, *rows = list(csv.reader(data.read_text("utf-8").splitlines()))
    except (OSError, ValueError):
        return None
    if "metric" in heads:
        at, ratio = heads.index("metric"), "against" in heads
        rows = [[*r[:at], _quantity(r[at], ratio=ratio), *r[at + 1 :]] for r in rows]
    columns = dict(zip(heads, zip(*rows, strict=True), strict=True)) if rows else {}
    alike = {k: cells[0] for k, cells in columns.items() if len({*cells}) == 1}
    alike = alike if len(rows) > 1 else {}
    shown = [i for i, head in enumerate(heads) if head not in alike]
    text = fragments.fill(
        "values.html",
        title=title,
        csv=data.name,
        sentences=[s for s in _SENTENCE.split(alt) if _ELSEWHERE not in s],
        alike=[(_head(k), _cell(text)[0]) for k, text in alike.items() if text],
        heads=[_head(heads[i]) for i in shown],
        rows=[[_cell(row[i]) for i in shown] for row in rows],
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
    return (text.removesuffix(".0") if number.is_integer() else f"{number:.4g}"), True


def write_notebook(folder: Path, target: Path, *, title: str) -> Path | None:
    """Write the page of a study's executed notebook; None without one that is whole."""
    source = folder / EXECUTED
    if not source.is_file():
        return None
    import nbformat
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    try:
        notebook = nbformat.read(source, as_version=4)
        body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    except (ValueError, nbformat.ValidationError):  # it is no JSON, or no notebook
        return None
    text = fragments.fill(
        "notebook.html",
        title=title,
        highlight=Markup(HtmlFormatter().get_style_defs(".highlight")),
        body=Markup(_SCRIPT.sub("", body)),
    )
    return fragments.write(target / NOTEBOOK, text)
