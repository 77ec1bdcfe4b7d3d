"""One call from a run to the two files that people read."""

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from connlab import schema
from connlab.publish import explorer, prepare, quarto, reference, renderers, results
from connlab.report import CELLS, RATIOS

STAMP = "render.json"


@dataclass(frozen=True, kw_only=True)
class Rendered(prepare.Remarks):
    """The files of a set paper, and what a reader should be told of it."""

    html: Path
    pdf: Path
    renderer: str
    seconds: float
    instead: str = ""
    """Why the renderer that was asked for did not set it; empty when it did."""
    problems: tuple[str, ...] = ()
    supplement: Path | None = None
    """What print leaves out, where it is a page of its own."""
    explorer: Path | None = None
    """The page on which a reader picks what is drawn."""


def render(
    run: str,
    *,
    root: str | Path = "runs",
    paper: str | Path = "paper",
    renderer: str | None = None,
) -> Rendered:
    """Set the paper from a run's results.

    The embedded renderer is the default. Where Quarto fails, whatever the reason, the
    embedded renderer sets the paper and ``instead`` of the result says why.
    FileNotFoundError without such a run or sources, ValueError for a renderer that does
    not exist or is not installed, RenderError where pandoc or Typst gives up.
    """
    start = time.monotonic()
    folder = schema.project_root() / paper
    chosen = renderers.choose(renderer)
    with schema.alone(folder):  # inputs have one place
        loaded = results.load_run(run, root=root)
        others = reference.others(loaded)
        # only now: without such a run the pages stay as they are, and so their record
        (folder / renderers.OUTPUT / STAMP).unlink(missing_ok=True)
        try:
            remarks, paths, problems = _set(loaded, others, folder, chosen)
        except quarto.QuartoError as error:
            chosen = renderers.embedded(instead=str(error))
            remarks, paths, problems = _set(loaded, others, folder, chosen)
        rendered = Rendered(
            **vars(remarks),
            **paths,
            renderer=chosen.title,
            seconds=time.monotonic() - start,
            instead=chosen.instead,
            problems=tuple(problems),
        )
        _stamp(rendered, loaded, beside=[other.name for other in others.values()])
    return rendered


def _set(
    run: results.Run,
    others: dict[str, results.Run],
    folder: Path,
    chosen: renderers.Renderer,
) -> tuple[prepare.Remarks, dict[str, Path], list[str]]:
    """Write the inputs, which name the renderer, and set the paper from them."""
    variables, remarks = prepare.prepare(run, others, folder, renderer=chosen.title)
    paths, problems = renderers.set_paper(chosen, folder, variables)
    output = folder / renderers.OUTPUT
    paths["explorer"] = explorer.write([run, *others.values()], folder, output)
    return remarks, paths, problems


def digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, None where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def numbers_of(run: results.Run) -> dict[str, str]:
    """Return the digest of each file of numbers that a paper is set from."""
    names = [f"{s.folder.name}/{n}" for s, _ in run.evaluated for n in (CELLS, RATIOS)]
    digests = {name: digest(run.folder / name) for name in names}
    return {name: known for name, known in digests.items() if known}


def _stamp(rendered: Rendered, run: results.Run, *, beside: list[str]) -> None:
    facts = asdict(rendered)
    paths = [facts.pop(name) for name in ("html", "pdf", "supplement", "explorer")]
    facts |= {
        "run": run.name,
        "beside": beside,
        "numbers": numbers_of(run),
        "seconds": round(rendered.seconds, 2),
        "files": {p.name: digest(p) for p in paths if p},
    }
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    (rendered.html.parent / STAMP).write_text(text, "utf-8")
