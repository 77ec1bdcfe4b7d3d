"""The models, one by one, as their own sources explain them.

    registry of the run -> family -> model -> header of src_c/models/NAME.c
                                           -> arrow lines, Good, Bad

A model that somebody adds to the server stands in the paper with the arrow line of
its header, without a word written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

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


def write(registry: Iterable[Mapping], paper: Path) -> Path | None:
    """Write every model of a registry with its header; None for an empty registry.

    Parameters
    ----------
    registry : iterable of mapping
        Rows of ``server --list`` as the run's manifest holds them.
    paper : path
        The folder with ``index.qmd``; ``src_c`` stands beside it.
    """
    groups: dict[str, list[str]] = {}
    for row in registry:
        groups.setdefault(str(row.get("family")), []).append(_model(row, paper))
    if not groups:
        return None
    order = [*FAMILIES, *groups]
    parts = []
    for family in sorted(groups, key=order.index):
        title = FAMILIES.get(family, family.capitalize())
        parts.append(f"## {title} {{#sec-models-{family}}}")
        parts += groups[family]
    path = paper / PIECE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", "utf-8")
    return path


def _model(row: Mapping, paper: Path) -> str:
    name = str(row.get("name"))
    source = paper.parent / "src_c" / "models" / f"{name}.c"
    told = header(source.read_text("utf-8")) if source.is_file() else None
    label = str(row.get("label") or name)
    title = f"### {md.escape(label)} (`{name}`) {{.unnumbered .unlisted}}"
    if not row.get("available", True):
        reason = md.escape(row.get("reason") or "no reason is known")
        title += f"\n\nNot available here: {reason}."
    if told is None:
        return f"{title}\n\nIts source draws no arrow."
    drawn = "\n".join(told.arrows)
    said = [
        f"*{word}:* {md.escape(text)}"
        for word, text in (("For it", told.good), ("Against it", told.bad))
        if text
    ]
    return f"{title}\n\n```text\n{drawn}\n```\n\n{' '.join(said)}"
