"""One call from a run to the two files that people read."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from connlab import schema
from connlab.publish import prepare, renderers, results

STAMP = "render.json"


@dataclass(frozen=True)
class Rendered:
    """What a rendering left behind, and what a reader should be told of it."""

    html: Path
    pdf: Path
    renderer: str
    seconds: float
    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())


def render(
    run: str,
    *,
    root: str | Path = "runs",
    paper: str | Path = "paper",
    renderer: str | None = None,
) -> Rendered:
    """Set the paper from a run's results.

    Parameters
    ----------
    run : str
        Name of the run below ``root``.
    root : path
        Where runs are kept; relative paths count from the project's folder.
    paper : path
        The folder with the sources; output goes to ``_output`` in it.
    renderer : {"quarto", "embedded"}, optional
        None takes Quarto when it is on the PATH.

    Returns
    -------
    Rendered
        The two paths; what is not measured, stale, or of no use to the sources; and
        what did not resolve.

    Raises
    ------
    FileNotFoundError
        When there is no such run or no sources.
    ValueError
        For a renderer that does not exist or is not installed.
    connlab.publish.renderers.RenderError
        When pandoc, Typst or Quarto gives up.
    """
    began = time.monotonic()
    folder = schema.project_root() / paper
    chosen = renderers.choose(renderer)
    (folder / renderers.OUTPUT / STAMP).unlink(missing_ok=True)
    found = results.load_run(run, root=root)
    prepared = prepare.prepare(found, folder, renderer=chosen.title)
    paths, problems = renderers.set_paper(chosen, folder, prepared.variables)
    rendered = Rendered(
        html=paths["html"],
        pdf=paths["pdf"],
        renderer=chosen.title,
        seconds=time.monotonic() - began,
        missing=tuple(prepared.missing),
        stale=tuple(prepared.stale),
        unused=tuple(prepared.unused),
        problems=tuple(problems),
    )
    _stamp(rendered, run)
    return rendered


def digest(path: Path) -> str:
    """Give the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _stamp(rendered: Rendered, run: str) -> None:
    facts = {
        "run": run,
        "renderer": rendered.renderer,
        "seconds": round(rendered.seconds, 2),
        "files": {p.name: digest(p) for p in (rendered.html, rendered.pdf)},
        "missing": rendered.missing,
        "stale": rendered.stale,
        "unused": rendered.unused,
        "problems": rendered.problems,
    }
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    (rendered.html.parent / STAMP).write_text(text, "utf-8")
