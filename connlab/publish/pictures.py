"""Figures of studies in the paper: where their pictures lie, and what they link to."""

import re
from collections.abc import Mapping
from pathlib import Path

from connlab.publish import figure_pages, fragments, sources
from connlab.publish.results import Study
from connlab.study.results import Figure

GENERATED = "_generated"
DATA = "data"


def path(study: Study, figure: Figure) -> str:
    """Return where the sources have the picture of a figure, below ``paper``."""
    return f"{GENERATED}/{study.name}/{Path(figure.files['svg']).name}"


def links(
    study: Study,
    figure: Figure,
    picture: Mapping[str, str],
    paper: Path,
    *,
    borrowed: bool = False,
) -> str:
    """Put what a figure links to beside the page; return the links.

    `picture` has its caption and its alternative text. The notebook beside the page is
    that of the run, which did not draw a figure that is borrowed from a reference.
    """
    folder, works = paper / DATA / study.name, sources.bibliography(paper)
    title = re.sub(r"@([\w-]+)", lambda m: works.get(m[1], m[0]), picture["caption"])
    pages = {}
    if figure.data:
        data = study.folder / figure.data
        pages["values (table)"] = figure_pages.write_values(
            data, folder, title=title, alt=picture["alt"]
        )
        pages["data (CSV)"] = fragments.copy(data, folder)
    svg = study.folder / figure.files["svg"]
    pages["picture (SVG)"] = fragments.copy(svg, folder)
    notebook = folder / figure_pages.NOTEBOOK
    pages["notebook"] = notebook if notebook.is_file() and not borrowed else None
    return " · ".join(
        f"[{label}]({page.relative_to(paper).as_posix()})"
        for label, page in pages.items()
        if page
    )
