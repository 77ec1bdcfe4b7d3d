"""Two ways to set the same sources: Quarto, or pandoc and Typst from Python packages.

``quarto render`` is used when ``quarto`` is on the PATH. Where it cannot be had, the
embedded renderer expands the two short codes, lets pandoc read the Markdown (one Lua
filter stands in for Quarto's cross-references and callouts) and writes the page from
a template of ours, and the PDF through Typst, with the same Typst template that
Quarto is given. No third way, and no browser or LaTeX.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from connlab.publish import sources

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


def choose(name: str | None = None) -> Renderer:
    """Pick a renderer: the one asked for, else Quarto when it is there.

    Parameters
    ----------
    name : {"quarto", "embedded"}, optional
        None picks by what is installed.

    Raises
    ------
    ValueError
        For another name, or for Quarto where it is not on the PATH.
    """
    if name not in (None, "quarto", "embedded"):
        raise ValueError(f"renderer {name!r}: allowed are 'quarto' and 'embedded'")
    quarto = shutil.which("quarto")
    if name == "quarto" and not quarto:
        raise ValueError("renderer 'quarto': no quarto on the PATH")
    if quarto and name != "embedded":
        version = _said([quarto, "--version"]).strip()
        return Renderer("quarto", f"Quarto {version}")
    return Renderer("embedded", f"the embedded renderer ({_versions()})")


def set_paper(
    renderer: Renderer, paper: Path, variables: Mapping[str, Any]
) -> tuple[dict[str, Path], list[str]]:
    """Set the paper in both formats.

    Parameters
    ----------
    renderer : Renderer
        From :func:`choose`.
    paper : path
        The folder with sources and generated inputs.
    variables : mapping
        The tree of ``_variables.yml``.

    Returns
    -------
    paths : dict
        ``html`` and ``pdf``.
    problems : list of str
        What did not resolve, in the renderer's words.
    """
    output = paper / OUTPUT
    if renderer.name == "quarto":
        problems = _quarto(paper)
    else:
        output.mkdir(exist_ok=True)
        problems = _embedded(paper, variables, renderer)
    shutil.rmtree(output / "data", ignore_errors=True)
    shutil.copytree(paper / "data", output / "data")
    return {"html": output / PAGE, "pdf": output / PRINT}, problems


# ---- Quarto ------------------------------------------------------------------------


def _quarto(paper: Path) -> list[str]:
    quarto = shutil.which("quarto") or "quarto"
    done = subprocess.run(
        [quarto, "render"], cwd=paper, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RenderError(f"quarto render: {done.stderr.strip()[-2000:]}")
    for made in (paper / OUTPUT / "index.pdf", paper / "index.pdf"):
        if made.exists():  # where output-file of one format is not honoured
            made.replace(paper / OUTPUT / PRINT)
    lines = done.stderr.splitlines()
    return [ln.strip() for ln in lines if "WARN" in ln or "Unable to resolve" in ln]


# ---- embedded ----------------------------------------------------------------------


def _embedded(
    paper: Path, variables: Mapping[str, Any], renderer: Renderer
) -> list[str]:
    expanded = sources.expand(paper, sources.INDEX, variables)
    metadata = _metadata(paper) | expanded.metadata | {"renderer": renderer.title}
    problems = list(expanded.problems)
    page, said = _page(paper, expanded.text, metadata)
    problems += said
    typst, said = _typst_source(paper, expanded.text, metadata)
    problems += [line for line in said if line not in problems]
    pdf = _compile(paper, typst, day=metadata.get("date"))
    (paper / OUTPUT / PAGE).write_text(page, "utf-8")
    (paper / OUTPUT / PRINT).write_bytes(pdf)
    return problems


def _metadata(paper: Path) -> dict[str, Any]:
    """Merge the project file and its metadata files, without what is per format."""
    project = yaml.safe_load((paper / "_quarto.yml").read_text("utf-8"))
    merged: dict[str, Any] = {}
    names = project.pop("metadata-files", [])
    for name in [names] if isinstance(names, str) else names:
        merged |= yaml.safe_load((paper / name).read_text("utf-8")) or {}
    print_only = (project.pop("format", None) or {}).get("typst") or {}
    keep = ("papersize", "section-numbering", "toc-depth")
    merged |= {k: v for k, v in print_only.items() if k in keep}
    for key in ("project", "toc"):  # a template variable of this name is the list
        project.pop(key, None)
    return project | merged


def _page(paper: Path, text: str, metadata: dict[str, Any]) -> tuple[str, list[str]]:
    theme = paper / THEME
    extra = {
        "styles": (theme / "page.css").read_text("utf-8"),
        "script": (theme / "page.js").read_text("utf-8"),
    }
    arguments = [
        "--to=html5",
        "--mathml",
        "--toc",
        # The filter has made room for the title: every heading is one level down.
        f"--toc-depth={metadata.get('toc-depth', 2) + 1}",
        "--embed-resources",
        f"--template={(theme / 'embedded.html').resolve()}",
        "--variable=pagetitle=" + str(metadata.get("title", "")),
    ]
    return _pandoc(paper, text, metadata, arguments, extra)


def _typst_source(
    paper: Path, text: str, metadata: dict[str, Any]
) -> tuple[str, list[str]]:
    template = (paper / THEME / "embedded.typ").resolve()
    arguments = ["--to=typst-citations", f"--template={template}"]
    if metadata.get("number-sections"):
        arguments.append("--variable=section-numbering=1.1")
    return _pandoc(paper, text, metadata, arguments, {"toc": True})


def _pandoc(
    paper: Path,
    text: str,
    metadata: dict[str, Any],
    arguments: list[str],
    extra: dict[str, Any],
) -> tuple[str, list[str]]:
    work = paper / WORK
    (work / "metadata.json").write_text(json.dumps(metadata), "utf-8")
    # What a template prints as it is goes in as defaults, not as Markdown.
    (work / "defaults.yml").write_text(json.dumps({"variables": extra}), "utf-8")
    command = [
        pandoc(),
        "--from=markdown",
        "--standalone",
        f"--metadata-file={WORK}/metadata.json",
        f"--defaults={WORK}/defaults.yml",
        f"--lua-filter={THEME}/embedded.lua",
        "--citeproc",
        *arguments,
    ]
    done = subprocess.run(
        command, cwd=paper, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RenderError(f"pandoc: {done.stderr.strip()}")
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return done.stdout, said


def pandoc() -> str:
    """Find pandoc: on the PATH, else the one that pypandoc-binary brought."""
    import pypandoc

    return os.fspath(pypandoc.get_pandoc_path())


def _compile(paper: Path, text: str, *, day: str | None) -> bytes:
    """Set the PDF; dated by its results, so that the same input gives the same file."""
    import matplotlib
    import typst

    source = paper / WORK / "paper.typ"
    source.write_text(text, "utf-8")
    try:
        return typst.compile(
            str(source),
            root=str(paper.resolve()),
            # Figures were laid out for this font, and it comes with what drew them.
            font_paths=[str(Path(matplotlib.get_data_path(), "fonts", "ttf"))],
            ignore_system_fonts=True,
            timestamp=datetime.fromisoformat(f"{day or '1970-01-01'}T00:00:00+00:00"),
        )
    except RuntimeError as error:
        raise RenderError(f"typst: {error}") from error


def _versions() -> str:
    import typst

    first = _said([pandoc(), "--version"]).split("\n", 1)[0]
    return f"{first}, Typst {typst.__version__}"


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
