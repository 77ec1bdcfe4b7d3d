"""The paper's sources: what they include, which variables they ask for.

Two of Quarto's short codes are understood here, ``{{< include PATH >}}`` and
``{{< var NAME >}}``, because the embedded renderer has to expand them and because
the pipeline must know, before anything is set, what the sources expect from the
results. What is expected and not there is printed as "not measured here".
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

INDEX = "index.qmd"
ABSTRACT = "sections/_abstract.qmd"
REFERENCES = "references.bib"
SUPPLEMENT = "sections/_supplement.qmd"
"""What it includes stands on the page and not in print."""
SHORTCODE = re.compile(r"(?<!\{)\{\{<\s*(\w+)\s+(.*?)\s*>\}\}(?!\})")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
NUMBER = re.compile(r"\[\]\{\.number\b([^{}]*)\}")
CLAIM = re.compile(r"\{\.claim\s+of=\"([^\"]+)\"")
PICTURE = re.compile(
    r"!\[(?P<caption>(?:[^\[\]]|\[[^\[\]]*\])*)\]"
    r"\((?P<path>_generated/[\w./-]+\.svg)\)\{(?P<attributes>[^{}]*)\}"
)
CAPTION = re.compile(r"^: [^{}]*(?:\{[^{}#]*\}[^{}]*)*\{#(tbl-[\w-]+)", re.MULTILINE)
_SPAN = re.compile(r"\[([^\[\]]*)\](?:\{[^{}]*\})?")
_LABEL = re.compile(r"(?:\A|\{)#((?:fig|tbl)-[\w-]+)")
_ABOUT_THE_TEXT = ("brief", "unit")
"""Attributes of a number that are no levels."""
ATTRIBUTE = re.compile(r"([\w-]+)=\"([^\"]*)\"")
FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


@dataclass(frozen=True)
class Wanted:
    """What the sources ask for: dotted variables and included files, in order."""

    variables: tuple[str, ...]
    includes: tuple[str, ...]
    numbers: tuple[str, ...]
    """Addresses of numbers (`connlab.report.address`)."""
    claims: tuple[str, ...]
    """Claims as STUDY/NAME."""
    pictures: Mapping[str, Mapping[str, str]]
    """Caption and alternative text by the path of a generated picture."""
    captions: frozenset[str]
    """Tables whose caption stands in a section."""


@dataclass
class Expanded:
    """A source with nothing left to expand, and what did not resolve."""

    text: str
    metadata: dict[str, Any]
    problems: list[str]


def text_of(path: Path) -> str:
    """Read a source; one that is not there is empty."""
    return path.read_text("utf-8") if path.is_file() else ""


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Split a document into its YAML head and its body."""
    match = FRONT.match(text)
    return (yaml.safe_load(match[1]), text[match.end() :]) if match else ({}, text)


def wanted(paper: Path) -> Wanted:
    """List every variable and include that the sources name, each once."""
    text = "\n".join([*_texts(paper, ABSTRACT), *_texts(paper, INDEX)])
    return Wanted(
        variables=_unique(_arguments(text, "var")),
        includes=_unique(_arguments(text, "include")),
        numbers=_unique(map(address, NUMBER.findall(text))),
        claims=_unique(CLAIM.findall(text)),
        pictures={
            match["path"]: _picture(match["caption"], match["attributes"])
            for match in PICTURE.finditer(text)
        },
        captions=frozenset(CAPTION.findall(text)),
    )


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _picture(caption: str, attributes: str) -> dict[str, str]:
    plain = _SPAN.sub(r"\1", " ".join(caption.split()))
    alt = dict(ATTRIBUTE.findall(" ".join(attributes.split()))).get("fig-alt", "")
    return {"caption": plain, "alt": alt}


def address(attributes: str) -> str:
    """Return the address of a number from the attributes of its span."""
    levels = dict(ATTRIBUTE.findall(attributes))
    of = levels.pop("of", "")
    for name in _ABOUT_THE_TEXT:
        levels.pop(name, None)
    return " ".join([of, *sorted(f"{k}={v}" for k, v in levels.items())])


def identifiers(paper: Path, *names: str) -> set[str]:
    """Return the identifiers of figures and tables that these sources show."""
    labels: set[str] = set()
    for name in names:
        for text in _texts(paper, name):
            labels.update(_LABEL.findall(text))
            labels.update(Path(path).stem for path in _arguments(text, "include"))
    return labels


def page_only(paper: Path) -> set[str]:
    """Return what the page shows and print leaves out."""
    others = [path for path in sections(paper) if path != SUPPLEMENT]
    return identifiers(paper, SUPPLEMENT) - identifiers(paper, *others)


def sections(paper: Path) -> list[str]:
    """Return the paths of the sections that the paper includes, in its order."""
    return list(_arguments(COMMENT.sub("", text_of(paper / INDEX)), "include"))


def bibliography(paper: Path) -> dict[str, str]:
    """Name each work that the paper can cite by its authors and year, by its key."""
    references = text_of(paper / REFERENCES)
    return _named(references) if references else {}


@cache
def _named(references: str) -> dict[str, str]:
    import pypandoc

    works = json.loads(pypandoc.convert_text(references, "csljson", "bibtex"))
    return {work["id"]: _name(work) for work in works}


def _name(work: Mapping[str, Any]) -> str:
    """Return the family name of one or two authors, of more the first; and the year."""
    parts = ("non-dropping-particle", "family", "literal")
    authors = work.get("author", ())
    names = [" ".join(a[part] for part in parts if part in a) for a in authors]
    author = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    dates = work.get("issued", {}).get("date-parts")
    return " ".join(filter(None, (author, str(dates[0][0]) if dates else "")))


def hand_written(paper: Path) -> list[Path]:
    """List the sources that people write: every ``.qmd`` outside generated folders."""
    generated = {"_generated", "_output", "notebooks", "data", ".quarto"}
    return [
        path
        for path in sorted(paper.rglob("*.qmd"))
        if generated.isdisjoint(path.relative_to(paper).parts)
    ]


def expand(paper: Path, name: str, variables: Mapping[str, Any]) -> Expanded:
    """Replace every include and variable in a source file.

    A name that does not resolve is left visible as ``?var:name``, as Quarto does it.
    """
    problems: list[str] = []
    metadata, body = front_matter((paper / name).read_text("utf-8"))
    text = _expand(paper, body, variables, problems, depth=0)
    text = text.replace("{{{<", "{{<").replace(">}}}", ">}}")
    return Expanded(text, metadata, problems)


def look_up(variables: Mapping[str, Any], name: str) -> Any:
    """Follow a dotted name into a tree; None when it leads nowhere."""
    value: Any = variables
    for branch in name.split("."):
        value = value.get(branch) if isinstance(value, Mapping) else None
    return value


def _expand(
    paper: Path, text: str, variables: Mapping[str, Any], problems: list, *, depth: int
) -> str:
    def replace(match: re.Match) -> str:
        kind, argument = match[1], match[2].strip("\"'")
        if kind == "var":
            value = look_up(variables, argument)
            if value is not None and not isinstance(value, Mapping):
                return str(value)
            problems.append(f"variable {argument} is not known")
        elif kind == "include" and depth < 8:
            path = paper / argument
            if path.is_file():
                body = front_matter(path.read_text("utf-8"))[1]
                return _expand(paper, body, variables, problems, depth=depth + 1)
            problems.append(f"included file {argument} does not exist")
        else:
            problems.append(f"short code {kind} {argument} is not understood")
        return f"**?{kind}:{argument}**"

    return SHORTCODE.sub(replace, COMMENT.sub("", text))


def _texts(paper: Path, name: str) -> Iterator[str]:
    text = COMMENT.sub("", text_of(paper / name))
    yield text
    for include in _arguments(text, "include"):
        if not include.startswith("_generated/"):
            yield from _texts(paper, include)


def _arguments(text: str, kind: str) -> Iterator[str]:
    for match in SHORTCODE.finditer(text):
        if match[1] == kind:
            yield match[2].strip("\"'")
