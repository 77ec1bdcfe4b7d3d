"""Two ways to set the same sources: pandoc and Typst from Python packages, or Quarto.

The embedded renderer expands two short codes, lets pandoc read the Markdown (a Lua
filter stands in for Quarto's cross-references), and writes the page from a template and
the PDF through Typst. ``quarto render`` sets the same sources with the same filter
``_theme/common.lua``, citation style and Typst template.

The embedded renderer is the default also where Quarto is installed: its versions are
pinned, so that the same results give the same files everywhere, and its PDF is tagged.
"""

import html
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from connlab.publish import pages, quarto, sources
from connlab.study.style import typeset

NAMES = ("embedded", "quarto")
OUTPUT = "_output"
PAGE = "index.html"
PRINT = "paper.pdf"
THEME = "_theme"
WORK = "_generated"


class RenderError(RuntimeError):
    """A renderer gave up; the message is what it said."""


@dataclass(frozen=True)
class Renderer:
    """A way to set the paper, and how it is named in the paper."""

    name: str
    title: str
    instead: str = ""
    """Why it stands in for the renderer that was asked for."""


def choose(name: str | None = None) -> Renderer:
    """Return the renderer of this name, else the embedded one.

    The embedded one stands in for a Quarto that is too old or does not answer; then
    ``instead`` of the result says why. Another name, or Quarto where it is not on the
    PATH, raises ValueError.
    """
    if name not in (None, *NAMES):
        raise ValueError(f"renderer {name!r}: allowed are 'quarto' and 'embedded'")
    if name != "quarto":
        return embedded()
    if not quarto.installed():
        raise ValueError("renderer 'quarto': no quarto on the PATH")
    try:
        return Renderer("quarto", f"Quarto {quarto.version()}")
    except quarto.QuartoError as error:
        return embedded(instead=str(error))


def embedded(*, instead: str = "") -> Renderer:
    """Name the renderer that is always there, with the versions of its parts."""
    import typst

    pandoc_version = subprocess.check_output([pandoc(), "--version"], text=True)
    parts = f"{pandoc_version.splitlines()[0]}, Typst {typst.__version__}"
    title = f"the embedded renderer ({parts})"
    return Renderer("embedded", title, instead=instead)


def set_paper(
    renderer: Renderer, paper: Path, variables: Mapping[str, Any]
) -> tuple[dict[str, Path], list[str]]:
    """Set the paper; a renderer that gives up raises RenderError or QuartoError.

    Return the paths of ``html`` and ``pdf``, and of ``supplement`` where that is a page
    of its own; and what did not resolve, in the renderer's words.
    """
    output = paper / OUTPUT
    output.mkdir(exist_ok=True)
    (output / pages.SUPPLEMENT).unlink(missing_ok=True)  # Quarto sets one page
    if renderer.name == "quarto":
        problems = quarto.render(paper, output)
    else:
        problems = _embedded(paper, variables, renderer)
    shutil.rmtree(output / "data", ignore_errors=True)
    shutil.copytree(paper / "data", output / "data")
    paths = {"html": output / PAGE, "pdf": output / PRINT}
    if (output / pages.SUPPLEMENT).is_file():
        paths["supplement"] = output / pages.SUPPLEMENT
    return paths, problems


def _embedded(
    paper: Path, variables: Mapping[str, Any], renderer: Renderer
) -> list[str]:
    expanded = sources.expand(paper, sources.INDEX, variables)
    metadata = _metadata(paper) | expanded.metadata | {"renderer": renderer.title}
    (paper / WORK / "metadata.json").write_text(json.dumps(metadata), "utf-8")
    with ThreadPoolExecutor() as beside:  # each of both keeps a core busy
        page_set = beside.submit(_page, paper, expanded.text, metadata)
        typst, of_print = _print(paper, expanded.text)
        pdf = _compile(paper, typst, day=metadata.get("date"))
        page, of_page = page_set.result()
    for name, text in pages.split(page).items():
        (paper / OUTPUT / name).write_text(text, "utf-8")
    (paper / OUTPUT / PRINT).write_bytes(pdf)
    return list(dict.fromkeys([*expanded.problems, *of_page, *of_print]))


def _metadata(paper: Path) -> dict[str, Any]:
    """Merge the project file, its metadata files and a few options of its format."""
    project = yaml.safe_load((paper / "_quarto.yml").read_text("utf-8"))
    print_only = project["format"]["typst"]
    keep = ("papersize", "section-numbering", "toc-depth")
    merged = {k: v for k, v in print_only.items() if k in keep}
    for name in project["metadata-files"]:
        merged |= yaml.safe_load((paper / name).read_text("utf-8"))
    # All but the last are Quarto's; a template variable named toc is the list itself.
    quartos = {"project", "format", "metadata-files", "filters", "crossref", "toc"}
    return {k: v for k, v in project.items() if k not in quartos} | merged


def _page(paper: Path, text: str, metadata: dict[str, Any]) -> tuple[str, list[str]]:
    theme = paper / THEME
    files = {"styles": ("parts.css", "page.css"), "script": ("page.js", "enlarge.js")}
    extra = {
        variable: "\n".join((theme / name).read_text("utf-8") for name in names)
        for variable, names in files.items()
    }
    arguments = [
        "--to=html5",
        "--mathml",
        "--toc",
        # The filter has made room for the title: every heading is one level down.
        f"--toc-depth={metadata['toc-depth'] + 1}",
        "--embed-resources",
        f"--template={(theme / 'embedded.html').resolve()}",
        f"--variable=pagetitle={html.escape(metadata['title'])}",
    ]
    return _pandoc("page", paper, text, arguments, extra)


def _print(paper: Path, text: str) -> tuple[str, list[str]]:
    template = (paper / THEME / "embedded.typ").resolve()
    # As in Quarto: a line that began with "1000. " would become an item of a list.
    arguments = ["--to=typst-citations", "--wrap=none", f"--template={template}"]
    return _pandoc("print", paper, text, arguments, {"toc": True})


def _pandoc(
    name: str, paper: Path, text: str, arguments: list[str], extra: dict[str, Any]
) -> tuple[str, list[str]]:
    # What a template prints as it is goes in as defaults, not as Markdown.
    defaults = json.dumps({"variables": extra})
    (paper / WORK / f"{name}.yml").write_text(defaults, "utf-8")
    command = [
        pandoc(),
        "--from=markdown",
        "--standalone",
        f"--metadata-file={WORK}/metadata.json",
        f"--defaults={WORK}/{name}.yml",
        f"--lua-filter={THEME}/numbers.lua",
        f"--lua-filter={THEME}/embedded.lua",
        f"--lua-filter={THEME}/common.lua",
        "--citeproc",
        *arguments,
    ]
    done = subprocess.run(
        command, cwd=paper, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RenderError(f"pandoc: {done.stderr.strip()}")
    return done.stdout, [line for line in done.stderr.splitlines() if line.strip()]


def pandoc() -> str:
    """Find pandoc: on the PATH, else the one that pypandoc-binary brought."""
    import pypandoc

    return os.fspath(pypandoc.get_pandoc_path())


def _compile(paper: Path, text: str, *, day: str | None) -> bytes:
    """Set the PDF; dated by its results, so that the same input gives the same file."""
    source = paper / WORK / "paper.typ"
    source.write_text(text, "utf-8")
    try:
        return typeset(
            str(source),
            root=str(paper.resolve()),
            timestamp=datetime.fromisoformat(f"{day or '1970-01-01'}T00:00:00+00:00"),
        )
    except RuntimeError as error:
        raise RenderError(f"typst: {error}") from error
