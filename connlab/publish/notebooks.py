"""The executed notebook as a page of its own, so that a figure can link to its making.

nbconvert turns the cells into HTML; the frame around them is ours, because the ones
that come with nbconvert fetch scripts from other hosts.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

EXECUTED = "notebook.ipynb"
PAGE = "notebook.html"

_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{highlight}
body {{ font: 1rem/1.55 system-ui, sans-serif; color: #1c2128; background: #fff;
  max-width: 52rem; margin: 0 auto; padding: 1.5rem 1.1rem 5rem; }}
a {{ color: #1d4f91; }}
a.anchor-link, .prompt, .jp-InputPrompt, .jp-OutputPrompt {{ display: none; }}
pre {{ overflow-x: auto; margin: 0.4rem 0; line-height: 1.4; font-size: 0.85rem; }}
div.highlight {{ background: #f4f6f9; padding: 0.5rem 0.8rem; border-radius: 5px; }}
div.highlight pre {{ margin: 0; }}
img, svg {{ max-width: 100%; height: auto; }}
table {{ border-collapse: collapse; font-size: 0.85rem; display: block;
  overflow-x: auto; }}
th, td {{ padding: 0.2rem 0.5rem; text-align: right; border-top: 1px solid #d5dae1; }}
</style>
</head>
<body>
<p><a href="../../index.html">The paper</a> · executed copy of the notebook</p>
<main>
{body}
</main>
</body>
</html>
"""


def write_page(folder: Path, target: Path, *, title: str) -> Path | None:
    """Write the page of a study's executed notebook.

    Parameters
    ----------
    folder : path
        The study's folder in a run.
    target : path
        Where the page goes.
    title : str
        The study's question.

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
        _FRAME.format(title=escape(title), highlight=highlight, body=body), "utf-8"
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
