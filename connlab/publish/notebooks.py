"""The executed notebook as a page of its own, so that a figure can link to its making.

nbconvert turns the cells into HTML; the frame around them is ours, because the ones
that come with nbconvert fetch scripts from other hosts.
"""

from __future__ import annotations

import re
from pathlib import Path

from markupsafe import Markup

from connlab.publish import fragments

EXECUTED = "notebook.ipynb"
PAGE = "notebook.html"

_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)


def write_page(folder: Path, target: Path, *, title: str) -> Path | None:
    """Write the page of a study's executed notebook.

    Returns
    -------
    path or None
        The page, or None when the study left no executed notebook or a broken one.
    """
    source = folder / EXECUTED
    if not source.is_file():
        return None
    try:
        body = _body(source)
    except ValueError:
        return None
    from pygments.formatters import HtmlFormatter

    highlight = HtmlFormatter().get_style_defs(".highlight")
    page = target / PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        fragments.fill(
            "notebook.html",
            title=title,
            highlight=Markup(highlight),
            body=Markup(body),
        ),
        "utf-8",
    )
    return page


def _body(source: Path) -> str:
    import nbformat
    from nbconvert import HTMLExporter
    from nbformat.reader import NotJSONError

    try:
        notebook = nbformat.read(source, as_version=4)
    except (NotJSONError, nbformat.ValidationError) as error:
        raise ValueError(f"{source.name} is not a notebook") from error
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    return _SCRIPT.sub("", body)
