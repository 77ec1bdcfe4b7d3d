"""Generated pieces of the paper from the templates beside this module.

    templates/summary.qmd, claims.html, … + facts -> text        (`fill`)

A template says what is printed; it computes nothing. Facts are escaped on the way into
HTML; into Markdown they go as they are, so whoever gives text from a run escapes it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from connlab.publish import markdown as md


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("connlab.publish"),
        autoescape=lambda name: bool(name) and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["escape_md"] = md.escape
    return made


def fill(template: str, /, **facts: Any) -> str:
    """Return a template's text with these facts in it.

    Parameters
    ----------
    template : str
        Name of a file in ``templates``.
    **facts
        Every name that the template uses; one that is missing raises
        `jinja2.UndefinedError`.
    """
    return _environment().get_template(template).render(**facts)
