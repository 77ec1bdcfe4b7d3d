"""The models, one by one, as their own sources explain them.

    registry of the run -> family -> model -> header of src_c/models/NAME.c
                                           -> arrow lines, Good, Bad

A model that somebody adds to the server stands in the paper with the arrow line of
its header, without a word written here.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connlab.publish import fragments
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

    The text is Markdown with labels, or with names behind "with".
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
    """What the comment at the top of a model's file says.

    Attributes
    ----------
    arrows : tuple of str
        Its loop, drawn in lines; none where the comment draws no arrow.
    parts : dict of str to str
        What follows, by the first word: ``Good``, ``Bad``, ``Look``, ``Needs``, …
    """

    arrows: tuple[str, ...]
    parts: dict[str, str]


def header(text: str) -> Header:
    """Read the comment that a C file opens with.

    It holds indented lines with ``->``, then paragraphs that begin with a word and a
    colon.
    """
    found = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
    lines = found[1].splitlines()[1:] if found else []
    lines = [re.sub(r"^ \* ?", "", line) for line in lines]
    told = next((i for i, line in enumerate(lines) if re.match(r"\w+:", line)), None)
    drawn = "\n".join(line for line in lines[:told] if line.startswith("    "))
    arrows = textwrap.dedent(drawn).splitlines() if "->" in drawn else []
    parts = {w: " ".join(said.split()) for w, said in _PART.findall("\n".join(lines))}
    return Header(tuple(line.rstrip() for line in arrows if line.strip()), parts)


_PART = re.compile(r"^(\w+):\s(.*?)(?=^\w+:\s|\Z)", re.DOTALL | re.MULTILINE)


def write(
    registry: Iterable[Mapping], paper: Path, *, pages: Mapping[str, str] | None = None
) -> Path | None:
    """Write every model of a registry with its header; None for an empty registry.

    The page has a model below the other, its loop as it stands in the source; print
    has two in a row, the loop as running text.

    ``pages`` says where the page of a model is, by its name; the paper links to it.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in registry:
        model = _model(row, paper, pages or {})
        groups.setdefault(str(row.get("family")), []).append(model)
    if not groups:
        return None
    order = [*FAMILIES, *groups]
    families = [
        {"name": f, "title": FAMILIES.get(f, f.capitalize()), "models": groups[f]}
        for f in sorted(groups, key=order.index)
    ]
    path = paper / PIECE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(fragments.fill("models.qmd", families=families), "utf-8")
    return path


def _model(row: Mapping, paper: Path, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return what the template says of a model."""
    name = str(row.get("name"))
    source = paper.parent / "src_c" / "models" / f"{name}.c"
    told = header(source.read_text("utf-8") if source.is_file() else "")
    loop = (md.escape(line).replace("-\\>", "→") for line in run_in(told.arrows))
    sides = (("For it", "Good"), ("Against it", "Bad"))
    said = [f"*{t}:* {md.escape(told.parts[k])}" for t, k in sides if k in told.parts]
    reason = md.escape(row.get("reason") or "no reason is known")
    return {
        "name": name,
        "label": row.get("label") or name,
        "lacking": ""
        if row.get("available", True)
        else f"Not available here: {reason}.",
        "arrows": told.arrows,
        "loop": "\\\n".join(loop),
        "sides": " ".join(said) if told.arrows else "Its source draws no arrow.",
        "page": pages.get(name),
    }


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
