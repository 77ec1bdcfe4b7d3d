"""Find measurements that somebody typed into the paper, and what breaks with Quarto.

The lint looks for a number followed by a unit of measurement in the prose of the
sources; ``paper/README.md`` describes the two escapes, ``.constant`` and
``.published``, whose numbers have to be in their table. Sections that show a study are
also searched for comparing words ("faster"): those may stand in a ``.claim`` only,
which the study's notebook checks. Options of programs (``--workers``) have to be code:
in running text their hyphens become a dash. The rules for Quarto are in
:mod:`connlab.publish.project`. :func:`advice` asks proselint, where it is installed,
about the same prose; what it says is no problem.
"""

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import yaml

from connlab import schema
from connlab.parameters import suggestion
from connlab.publish import project, published, reference, sources

_DIGITS = r"(?<![\w.,/-])\d[\d\u202f\u00a0., ]*"
_UNITS = (
    r"%|‰|per\s?cent\b|percent\b|percentage\b"
    r"|ns\b|[µμu]s\b|ms\b|s\b|secs?\b|seconds?\b|(?:nano|micro|milli)seconds?\b"
    r"|min\b|minutes?\b|hours?\b"
    r"|(?:[a-z]+\s?)?(?:/|\sper\s)\s?(?:s|sec|second|min|minute|hour|request)\b|rps\b"
    r"|[kKMGT]i?[Bb](?:it)?s?\b(?:/s)?|(?:kilo|mega|giga)?bytes?\b"
    r"|[kMG]?Hz\b|cycles?\b"
    r"|[×x](?=[\s.,;:)]|$)|times\b|-?fold\b"
)
MEASUREMENT = re.compile(rf"{_DIGITS}[\s\u00a0\u202f~-]*(?:{_UNITS})", re.IGNORECASE)
COMPARING = re.compile(
    r"\b(?:faster|slower|quicker|outperform\w*|indistinguishable|beats?|twice as"
    r"|half as|better than|worse than|as fast as|significantly)\b",
    re.IGNORECASE,
)
EXAMPLE = re.compile(r"^[ \t]*\(@[\w-]+\)(?=\s|\Z)", re.MULTILINE)
"""A reference in parentheses that Markdown takes for a numbered example."""
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_SPAN = re.compile(r"\[((?:[^\[\]]|\\.)*)\]\{([^{}]*)\}")
_CLAIM = re.compile(
    r"\[((?:[^\[\]]|\[[^\[\]]*\](?:\{[^{}]*\})?)*)\]\{\.claim\b[^{}]*\}"
)
"""A sentence that a run may contradict; numbers stand in it as spans."""
_LABEL = re.compile(r"\{#((?:fig|tbl)-[\w-]+)")
_ATTRIBUTES = re.compile(r"\{[#.][^{}]*\}")
_BLANKED = (
    sources.FRONT,
    sources.COMMENT,
    re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE),
    re.compile(r"\{\{<.*?>\}\}"),
    re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL),
    re.compile(r"\$\$.*?\$\$", re.DOTALL),
    re.compile(r"\$(?=\S)[^$\n]*?(?<=\S)\$"),
    re.compile(r"\[[^\[\]]*@[\w-][^\[\]]*\]"),
    re.compile(r"\]\([^()\s]*\)"),
    re.compile(r"<https?:[^>]*>"),
)
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_TYPESETTERS = "typography.symbols"
"""Quotation marks and dashes, which Pandoc sets."""


def lint(paper: str | Path = "paper") -> list[str]:
    """List typed measurements in the paper's sources, and what Quarto fails on.

    Also claims of the ledger whose report or figure the paper does not have.
    """
    folder = schema.project_root() / paper
    numbers_of = cache(lambda name: published.numbers(folder, name))
    problems = _in_sources(folder, lambda text: lint_text(text, numbers_of))
    return [*problems, *_in_ledgers(folder), *project.lint(folder)]


def _in_ledgers(folder: Path) -> Iterator[str]:
    """Yield the claims whose report is no reference, or whose figure no section has."""
    known = sources.bibliography(folder)
    texts = (path.read_text("utf-8") for path in sources.hand_written(folder))
    shown = {label for text in texts for label in _LABEL.findall(text)}
    for path in (folder / name for name in reference.LEDGERS):
        for entry in yaml.safe_load(sources.text_of(path)) or []:
            source, figure = entry.get("source", ""), entry.get("figure", "")
            where = f"{path.name}: {entry.get('id')}"
            if source not in known:
                lacking = f"source {source!r} is not in {sources.REFERENCES}"
                yield f"{where}: {lacking}; {suggestion(source, known)}"
            if figure and figure not in shown:
                lacking = f"no section has the figure {figure!r}"
                yield f"{where}: {lacking}; {suggestion(figure, shown)}"


def advice(paper: str | Path = "paper") -> list[str]:
    """List what proselint would change, if it is installed: ``file:line: advice``."""
    if not importlib.util.find_spec("proselint"):
        return []
    return _in_sources(schema.project_root() / paper, advise)


def _in_sources(
    folder: Path, find: Callable[[str], Iterable[tuple[int, str]]]
) -> list[str]:
    return [
        f"{path.relative_to(folder)}:{line}: {found}"
        for path in sources.hand_written(folder)
        for line, found in find(path.read_text("utf-8"))
    ]


def advise(text: str) -> list[tuple[int, str]]:
    """Return proselint's advice on the prose of one source, with its line."""
    from proselint.checks import __register__
    from proselint.registry import CheckRegistry
    from proselint.tools import LintFile

    registry = CheckRegistry()  # of the whole process
    if not registry.checks:
        registry.register_many(__register__)
    found = LintFile("", _blanked(text, _HEADING, *_BLANKED, _ATTRIBUTES)).lint()
    results = (result.check_result for result in found)
    return [
        (text.count("\n", 0, result.span[0] - 1) + 1, " ".join(result.message.split()))
        for result in results
        if not result.check_path.startswith(_TYPESETTERS)
    ]


def _blanked(text: str, *patterns: re.Pattern) -> str:
    """Blank what is no prose, without moving the rest: positions stay valid."""
    for pattern in patterns:
        text = pattern.sub(_blank, text)
    return text


def lint_text(
    text: str, numbers_of: Callable[[str], set[str] | None]
) -> Iterator[tuple[int, str]]:
    """Yield the line, counted from 1, and what is wrong there, of one source.

    ``numbers_of`` returns the numbers of a published table by its name, None without
    one.
    """
    shows_study = bool(re.search(r"_generated/(?!provenance/)", text))
    bare = _blanked(text, *_BLANKED)
    problems: list[tuple[int, str]] = []

    def accept(match: re.Match) -> str:
        for problem in _unpublished(match[1], match[2], numbers_of):
            problems.append((match.start(), problem))
        escaped = ".constant" in match[2] or ".published" in match[2]
        return _blank(match) if escaped else match[0]

    bare = _SPAN.sub(accept, bare)
    unclaimed = _blanked(bare, _CLAIM, _ATTRIBUTES)
    bare = _blanked(bare, _ATTRIBUTES)
    rules = [
        (MEASUREMENT, bare, "typed measurement {!r}"),
        (EXAMPLE, bare, "{} begins a line: an example's number"),
        (OPTION, bare, "option {!r} is not set as code"),
        (COMPARING, unclaimed if shows_study else "", "typed comparison {!r}"),
    ]
    for pattern, searched, problem in rules:
        for match in pattern.finditer(searched):
            found = " ".join(match[0].split())
            problems.append((match.start(), problem.format(found)))
    for start, problem in sorted(problems):
        yield text.count("\n", 0, start) + 1, problem


def _unpublished(
    text: str, attributes: str, numbers_of: Callable[[str], set[str] | None]
) -> Iterator[str]:
    """Yield what a span quotes as published and the table that it names has not."""
    if ".published" not in attributes:
        return
    given = dict(sources.ATTRIBUTE.findall(attributes))
    name, full = given.get("table", "none named"), given.get("full")
    numbers = numbers_of(name)
    if numbers is None:
        yield f"published {text!r}: there is no such table ({name})"
        return
    if full is not None and not _is_rounded(text, full):
        yield f"published {text!r}: that is not {full}, rounded"
    for number in published.quoted(text if full is None else full):
        if number not in numbers:
            yield f"published {text!r}: {number} is not in {name}.csv"


def _is_rounded(text: str, full: str) -> bool:
    """Whether a text has one number, of two digits, that others give by * and /."""
    numbers = published.quoted(text)
    digits = numbers[0].replace(".", "").lstrip("0") if len(numbers) == 1 else ""
    if len(digits) < 2 or not re.fullmatch(r"[\d.]+(?: [*/] [\d.]+)*", full):
        return False
    first, *rest = re.split(r" ([*/]) ", full)
    value = float(first)
    for sign, factor in zip(rest[::2], rest[1::2], strict=True):
        value = value * float(factor) if sign == "*" else value / float(factor)
    decimals = len(numbers[0].partition(".")[2])
    return f"{value:.{decimals}f}" == numbers[0]


def _blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match[0])
