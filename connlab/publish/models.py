"""The models, one by one, as their own sources explain them.

    registry of the run -> family -> model -> header of src_c/models/NAME.c
                                           -> arrow lines, Good, Bad

A model that somebody adds to the server stands in the paper with the arrow line of
its header, without a word written here.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connlab.publish import fragments, sources
from connlab.publish import markdown as md
from connlab.publish.results import Registry

PIECE = "_generated/models/explained.qmd"
FAMILIES = {
    "blocking": "One at a time",
    "processes": "Processes",
    "threads": "Threads",
    "readiness": "Readiness",
    "completion": "Completion",
    "coroutine": "Coroutines",
}


def named(text: str, registry: Registry) -> str:
    """Replace labels of models in Markdown by their names, set as code.

    A label such as "epoll, level-triggered" is for figures; its comma breaks a
    sentence. Names behind "with" become code as well.
    """
    names = {str(row["name"]) for row in registry}
    if not names:
        return text
    # as within a line: of a label that begins one, more is escaped
    labels = {
        md.escape(f"x {row.get('label') or ''}")[1:].strip(): row["name"]
        for row in registry
    }
    calls = {"select", "poll", "epoll"} & names
    name_of = {name: name for name in calls} | {
        label: name for label, name in labels.items() if label not in {"", *names}
    }
    longest = sorted(name_of, key=len, reverse=True)
    any_name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    choices = "|".join([*map(re.escape, longest), rf"(?<=with )(?:{any_name})"])
    pattern = re.compile(rf"(?<![\w`-])(?:{choices})(?![\w`-]| \(Wine\))")
    return pattern.sub(lambda m: f"`{name_of.get(m[0], m[0])}`", text)


@dataclass(frozen=True)
class Header:
    """The comment at the top of a model's file."""

    arrows: tuple[str, ...]
    """Its loop, drawn in lines; none where the comment draws no arrow."""
    parts: dict[str, str]
    """Paragraphs by their first word: ``Good``, ``Bad``, ``Look``, ``Needs``, …"""


def header(text: str) -> Header:
    """Read the comment that a C file opens with.

    It holds indented lines with ``->``, then paragraphs that begin with a word and a
    colon.
    """
    comment = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
    lines = comment[1].splitlines()[1:] if comment else []
    lines = [re.sub(r"^ \* ?", "", line) for line in lines]
    first = next((i for i, line in enumerate(lines) if re.match(r"\w+:", line)), None)
    drawn = "\n".join(line for line in lines[:first] if line.startswith("    "))
    arrows = textwrap.dedent(drawn).splitlines() if "->" in drawn else []
    parts = {w: " ".join(text.split()) for w, text in _PART.findall("\n".join(lines))}
    return Header(tuple(line.rstrip() for line in arrows if line.strip()), parts)


_PART = re.compile(r"^(\w+):\s(.*?)(?=^\w+:\s|\Z)", re.DOTALL | re.MULTILINE)


def write(registry: Registry, paper: Path, pages: Mapping[str, str]) -> Path | None:
    """Write every model of a registry with its header; None for an empty registry.

    ``pages`` has the path of each model's page by its name; the paper links to it.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in registry:
        model = _model(row, paper, pages)
        groups.setdefault(str(row.get("family")), []).append(model)
    if not groups:
        return None
    order = [*FAMILIES, *groups]
    families = [
        {"name": f, "title": FAMILIES.get(f, f.capitalize()), "models": groups[f]}
        for f in sorted(groups, key=order.index)
    ]
    text = fragments.fill("models.qmd", families=families)
    return fragments.write(paper / PIECE, text)


def source(paper: Path, name: str) -> str:
    """Return the C file of a model; empty where there is none of that name."""
    return sources.text_of(paper.parent / "src_c" / "models" / f"{name}.c")


def _model(row: Mapping, paper: Path, pages: Mapping[str, str]) -> dict[str, Any]:
    name = str(row.get("name"))
    text = source(paper, name)
    comment = header(text)
    bare = "Its source draws no arrow." if text else "Its source is not among these."
    loop = (md.escape(line).replace("-\\>", "→") for line in run_in(comment.arrows))
    sides = [
        f"*{title}:* {md.escape(comment.parts[word])}"
        for title, word in (("For it", "Good"), ("Against it", "Bad"))
        if word in comment.parts
    ]
    lacking = md.escape(row.get("reason") or "no reason is known")
    return {
        "name": name,
        "label": row.get("label") or name,
        "lacking": "" if row.get("available", True) else lacking,
        "arrows": comment.arrows,
        "loop": "\\\n".join(loop),
        "sides": " ".join(sides) if comment.arrows else bare,
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
