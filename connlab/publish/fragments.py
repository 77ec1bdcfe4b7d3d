"""Generated pieces of the paper from the templates beside this module.

    templates/summary.qmd, claims.html, … + facts -> text        (`fill`)

A template says what is printed; it computes nothing. Facts are escaped on the way into
HTML; into Markdown they go as they are, so whoever gives text from a run escapes it.
"""

import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from connlab.publish import markdown as md


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("connlab.publish"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["escape_md"] = md.escape
    return environment


def fill(template: str, /, **facts: Any) -> str:
    """Return the text of a file in ``templates`` with these facts in it.

    A name of the template that ``facts`` lacks raises `jinja2.UndefinedError`.
    """
    return _environment().get_template(template).render(**facts)


def caption(name: str, /, **facts: Any) -> str:
    """Return a caption of ``templates/captions.qmd``, on one line."""
    captions = _environment().get_template("captions.qmd").module
    return md.one_line(getattr(captions, name)(**facts))


def write(path: Path, text: str) -> Path:
    """Write a piece of the paper, in a folder that need not exist; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def write_all(folder: Path, pieces: Mapping[str, str]) -> None:
    """Write Markdown by the names of its files; what is empty as an empty line."""
    for name, text in pieces.items():
        write(folder / f"{name}.qmd", text or "\n")


def copy(source: Path, folder: Path) -> Path | None:
    """Copy a file if there is one, into a folder that need not exist."""
    if not source.is_file():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    return shutil.copyfile(source, folder / source.name)
