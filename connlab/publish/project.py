"""Rules for the sources that keep Quarto from failing, checked without Quarto.

Each rule stands for a failure that was seen with Quarto 1.7.32: on a machine without
network no PDF, or a page without its stylesheet; a tracked file changed; links to files
that do not travel with the page. The project file, the themes and the sources are read.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from connlab.publish import sources

PROJECT = "_quarto.yml"
IGNORED = ("/.quarto/", "**/*.quarto_ipynb")
"""Lines that Quarto appends to .gitignore unless they stand there to the letter."""
FILTER = "_theme/common.lua"
CALLOUTS = ("note", "tip", "warning", "caution", "important")
"""What the filter knows; another would reach Quarto's own code."""
WITHOUT_FONTS = frozenset(
    {"default", "none", "cerulean", "litera", "pulse", "quartz", "slate"}
)
"""Themes of Quarto that import no fonts from another host."""
_NO_FONTS = re.compile(r"^\s*\$web-font-path:\s*false\s*;", re.MULTILINE)
_ELSEWHERE = re.compile(
    r"@import\s+(?:url\()?\s*['\"]?(?:https?:)?//|url\(\s*['\"]?\s*(?:https?:)?//"
    r"|(?:src|href)\s*=\s*['\"](?:https?:)?//",
    re.IGNORECASE,
)
_PACKAGE = re.compile(r"#import\s+\"@\w+/")
_CALLOUT = re.compile(rf"\{{[^{{}}]*\.callout-(?!(?:{'|'.join(CALLOUTS)})\b)(\w+)")
_OWN_CALLOUT = re.compile(r"#callout\s*\(")
_DEFAULTS = re.compile(r"/\*--\s*scss:defaults\s*--\*/(.*?)(?=/\*--\s*scss:|\Z)", re.S)


def lint(paper: Path) -> list[str]:
    """List what would fail, or look otherwise, where Quarto sets the paper."""
    project = yaml.safe_load((paper / PROJECT).read_text("utf-8"))
    html = project["format"]["html"]
    options = (*_themes(html, paper), *_page(html), *_filters(project, paper))
    problems = [f"{PROJECT}: {text}" for text in options]
    problems += [f".gitignore: {text}" for text in _ignored(paper)]
    for file in (*sources.hand_written(paper), *sorted((paper / "_theme").glob("*.*"))):
        name, lines = file.relative_to(paper), _text(file.read_text("utf-8"))
        problems += [f"{name}:{line}: {text}" for line, text in lines]
    return problems


def _themes(html: dict[str, Any], paper: Path) -> Iterator[str]:
    theme = html.get("theme") or []
    schemes = theme.values() if isinstance(theme, dict) else [theme]
    for scheme in schemes:
        names = [scheme] if isinstance(scheme, str) else list(scheme)
        files = [n for n in names if n.endswith((".scss", ".css"))]
        texts = [sources.text_of(paper / name) for name in files]
        defaults = [part for text in texts for part in _DEFAULTS.findall(text)]
        if any(map(_NO_FONTS.search, defaults)):
            continue
        for name in set(names) - set(files) - WITHOUT_FONTS:
            yield (
                f"theme {name} imports fonts from another host; a file beside it "
                "has to say $web-font-path: false; in its scss:defaults"
            )


def _page(html: dict[str, Any]) -> Iterator[str]:
    if html.get("lightbox"):
        yield "lightbox links to pictures beside the page, which do not travel with it"
    if html.get("embed-resources") is not True:
        yield "embed-resources is not true: the page would need a folder beside it"


def _filters(project: dict[str, Any], paper: Path) -> Iterator[str]:
    if {"at": "pre-ast", "path": FILTER} not in project.get("filters", ()):
        yield (
            f"{FILTER} is no filter at pre-ast: callouts would reach Quarto's code, "
            "which downloads a package for Typst"
        )
    if project.get("html-table-processing") != "none":
        yield "html-table-processing is not none: Quarto would rewrite tables in HTML"
    style = project.get("csl")
    if not style or not (paper / style).is_file():
        yield "csl names no file: each version of pandoc would cite in its own way"


def _ignored(paper: Path) -> Iterator[str]:
    lines = sources.text_of(paper / ".gitignore").splitlines()
    for line in IGNORED:
        if line not in map(str.strip, lines):
            yield f"Quarto would append the line {line}"


def _text(text: str) -> Iterator[tuple[int, str]]:
    rules = {
        _ELSEWHERE: "something is fetched from another host",
        _PACKAGE: "a package of Typst is downloaded",
        _OWN_CALLOUT: "#callout is Quarto's function; the template's is #remark",
        _CALLOUT: "the filter knows no callout {!r}",
    }
    for pattern, meaning in rules.items():
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield line, meaning.format(*match.groups())
