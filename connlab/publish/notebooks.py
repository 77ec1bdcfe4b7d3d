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
    return fragments.write(target / PAGE, text)
