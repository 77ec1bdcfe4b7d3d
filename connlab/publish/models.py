"""The models, one by one, as their own sources explain them.

    registry of the run -> family -> model -> header of src_c/models/NAME.c
                                           -> arrow lines, Good, Bad

A model that somebody adds to the server stands in the paper with the arrow line of
its header, without a word written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connlab.publish import markdown as md

PIECE = "_generated/models/explained.qmd"
FAMILIES = {
    "blocking": "One at a time",
    "processes": "Processes",
    "threads": "Threads",
    "readiness": "Readiness",
    "completion": "Completion",
    "coroutine": "Coroutines",
}


Registry = Sequence[Mapping[str, Any]]
"""Rows of ``server --list``: name, family, label of each model and more."""


def registry(manifest: Mapping[str, Any]) -> Registry:
    """Return the models that a run's manifest holds."""
    return list((manifest.get("registry") or {}).get("models") or ())


def named(text: str, registry: Registry) -> str:
    """Call models in sentences by their names, as code.

    A label, such as "epoll, level-triggered", stands well on a figure; its comma breaks
    a sentence.

    Parameters
    ----------
    text : str
        Markdown with labels, or with names behind "with".
    registry : sequence of mapping
        The models of the run.
    """
    names = {str(row["name"]) for row in registry}
    if not names:
        return text
    labels = {_inside(row.get("label") or ""): row["name"] for row in registry}
    calls = {"select", "poll", "epoll"} & names
    said = {name: name for name in calls} | {
        label: name for label, name in labels.items() if label not in {"", *names}
    }
    longest = sorted(said, key=len, reverse=True)
    behind = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    any_ = [*map(re.escape, longest), rf"(?<=with )(?:{behind})"]
    pattern = re.compile(rf"(?<![\w`-])(?:{'|'.join(any_)})(?![\w`-]| \(Wine\))")
    return pattern.sub(lambda m: f"`{said.get(m[0], m[0])}`", text)


def _inside(label: str) -> str:
    """Escape a label as within a line; at its begin more has to be."""
    return md.escape(f"x {label}").removeprefix("x").strip()


@dataclass(frozen=True)
class Header:
    """What the comment at the top of a model's file says."""

    arrows: tuple[str, ...]
    good: str
    bad: str


def header(text: str) -> Header | None:
    """Read the comment that a C file opens with; None where it draws no arrow.

    Parameters
    ----------
    text : str
        The whole file. Its first comment holds indented lines with ``->``, then
        paragraphs that begin with ``Good:`` and ``Bad:``.
    """
    found = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
    if not found:
        return None
    lines = [re.sub(r"^ \* ?", "", line) for line in found[1].splitlines()[1:]]
    told = next((i for i, line in enumerate(lines) if re.match(r"\w+:", line)), None)
    drawn = [line.rstrip() for line in lines[:told] if line.startswith("    ")]
    arrows = [line for line in drawn if line]
    if not any("->" in line for line in arrows):
        return None
    shift = min(len(line) - len(line.lstrip()) for line in arrows)
    body = "\n".join(lines)
    return Header(
        tuple(line[shift:] for line in arrows), _part(body, "Good"), _part(body, "Bad")
    )


def _part(body: str, name: str) -> str:
    found = re.search(rf"^{name}:(.*?)(?=^\w+:|^\s*$|\Z)", body, re.DOTALL | re.M)
    return " ".join(found[1].split()) if found else ""


def write(
    registry: Iterable[Mapping], paper: Path, *, pages: Mapping[str, str] | None = None
) -> Path | None:
    """Write every model of a registry with its header; None for an empty registry.

    The page has a model below the other, its loop as it stands in the source; print
    has two in a row, the loop as running text.

    Parameters
    ----------
    registry : iterable of mapping
        Rows of ``server --list`` as the run's manifest holds them.
    paper : path
        The folder with ``index.qmd``; ``src_c`` stands beside it.
    pages : mapping, optional
        Where the page of a model is, by its name; the page of the paper links to it.
    """
    groups: dict[str, list[_Model]] = {}
    for row in registry:
        groups.setdefault(str(row.get("family")), []).append(_model(row, paper))
    if not groups:
        return None
    order = [*FAMILIES, *groups]
    page, print_ = [], []
    for family in sorted(groups, key=order.index):
        title = FAMILIES.get(family, family.capitalize())
        page.append(f"## {title} {{#sec-models-{family} .unnumbered}}")
        page += [
            _on_page(model, (pages or {}).get(model.name)) for model in groups[family]
        ]
        for model in groups[family]:
            print_ += [md.typst("["), _in_print(model, title.lower()), md.typst("],")]
    path = paper / PIECE
    path.parent.mkdir(parents=True, exist_ok=True)
    grid = [md.typst("#models("), *print_, md.typst(")")]
    body = md.only_html("\n\n".join(page)), "\n\n".join(grid)
    path.write_text("\n\n".join(body) + "\n", "utf-8")
    return path


@dataclass(frozen=True)
class _Model:
    """A model as the paper shows it: Markdown, and its header."""

    name: str
    label: str
    lacking: str
    told: Header | None

    @property
    def sides(self) -> str:
        """What speaks for it and against it."""
        if self.told is None:
            return "Its source draws no arrow."
        both = (("For it", self.told.good), ("Against it", self.told.bad))
        return " ".join(f"*{word}:* {md.escape(text)}" for word, text in both if text)


def _model(row: Mapping, paper: Path) -> _Model:
    name = str(row.get("name"))
    source = paper.parent / "src_c" / "models" / f"{name}.c"
    lacking = ""
    if not row.get("available", True):
        reason = md.escape(row.get("reason") or "no reason is known")
        lacking = f"Not available here: {reason}."
    return _Model(
        name=name,
        label=md.escape(row.get("label") or name),
        lacking=lacking,
        told=header(source.read_text("utf-8")) if source.is_file() else None,
    )


def _on_page(model: _Model, page: str | None) -> str:
    title = f"### {model.label} (`{model.name}`) {{.unnumbered .unlisted}}"
    drawn = "\n".join(model.told.arrows) if model.told else ""
    loop = f"```text\n{drawn}\n```" if drawn else ""
    link = f"[Its numbers, its limit and its code]({page})" if page else ""
    parts = (title, model.lacking, loop, model.sides, link)
    return "\n\n".join(part for part in parts if part)


def _in_print(model: _Model, family: str) -> str:
    title = f"**{model.label}** (`{model.name}`), {family}"
    lines = run_in(model.told.arrows) if model.told else []
    loop = "\\\n".join(md.escape(line).replace("-\\>", "→") for line in lines)
    parts = (title, model.lacking, loop, model.sides)
    return "\n\n".join(part for part in parts if part)


def run_in(arrows: Iterable[str]) -> list[str]:
    """Set a drawn loop as lines of text, each as long as it likes.

    What is indented goes on with the line before it; a wide gap parts two loops that
    stand side by side.
    """
    lines: list[str] = []
    for arrow in arrows:
        first, *beside = re.split(r"(?<=[^\s:])\s{3,}", arrow.strip())
        if arrow[:1].isspace() and lines:
            lines[-1] += f" {first}"
        else:
            lines.append(first)
        lines += beside
    return [" ".join(line.split()) for line in lines]
