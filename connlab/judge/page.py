"""One page about judged servers: Markdown, from it HTML and PDF, and JSON beside them.

Judgement -> templates/page.md -> pandoc -> templates/page.html -> index.html
                                         -> templates/page.typ  -> page.pdf

The templates say what is printed; here are the tables, and how numbers are written.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from connlab import schema
from connlab.judge import contest, hints
from connlab.judge.judging import Judgement, Verdict
from connlab.study.formatting import display_unit, plain

HTML, PDF, JSON = "index.html", "page.pdf", "judge.json"
_HEADS = {
    "rate": ("answers", "requests/s"),
    "cpu": ("CPU per request", "s"),
    "p50": ("p50", "s"),
    "p99": ("p99", "s"),
}
#: what is said of who was the limit (`Contest.limits`)
_LIMITS = {
    "client-bound": "the client's core",
    "server-bound": "its core",
    "unsaturated": "neither core",
    None: "not known",
}
#: the same where server and client shared a core
_SHARED = _LIMITS | {
    "client-bound": "the client, on the shared core",
    "server-bound": "the shared core",
    "unsaturated": "no core",
}
_WIDTHS = (10, 10, 8, 8, 22, 10)  # behind the server's
_LABEL_WIDTHS = (12, 34)  # at least and at most


def write(judgement: Judgement, folder: Path) -> dict[str, Path]:
    """Write the page and the JSON into a folder; return the paths by kind."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {"html": folder / HTML, "pdf": folder / PDF, "json": folder / JSON}
    paths["json"].write_text(f"{schema.json_text(judgement.as_json())}\n", "utf-8")
    text = markdown(judgement)
    paths["html"].write_text(_html(text, _title(judgement)), "utf-8")
    paths["pdf"].write_bytes(_pdf(text))
    return paths


def markdown(judgement: Judgement) -> str:
    """Return the page as Markdown: what to look at first, then the evidence."""
    many = len(judgement.verdicts) + len(judgement.missing) > 1
    return _fill(
        "page.md",
        judged=judgement,
        many=many,
        level="###" if many else "##",
        title=_title(judgement),
        summary=_class_table(judgement) if many else "",
        first=hints.first,
        untold=_untold,
        tried=_tried,
        contest=_contest_table,
        labels=_labels(judgement),
        baseline=contest.BASELINE,
    )


def _title(judgement: Judgement) -> str:
    labels = [verdict.label for verdict in judgement.verdicts]
    asked = len(labels) + len(judgement.missing)
    of_all = f" of {asked}" if judgement.missing else ""
    subject = labels[0] if asked == 1 else f"{len(labels)}{of_all} servers"
    return f"{subject}, judged"


# ---- tables ------------------------------------------------------------------------


def _class_table(judgement: Judgement) -> str:
    rows = [
        (
            _code(verdict.label),
            correct(verdict),
            f"{[h.ok for h in verdict.heard].count(True)} of {len(verdict.heard)}",
            str(verdict.crowds.carried) if verdict.crowds else "—",
            _cpu_ratio(verdict.server, judgement),
            _plain(hints.first(verdict, judgement)[0]),
        )
        for verdict in judgement.verdicts
    ]
    heads = ("server", "is", "conversations", "clients", "CPU / epoll's", "first")
    return _table(heads, rows, widths=(_width_of(rows), 8, 13, 7, 13, 38))


def correct(verdict: Verdict) -> str:
    """Say whether a server is correct, as the page and the command print it."""
    if not verdict.right:
        return "not correct"
    return "correct, as far as it could be tried" if verdict.untried else "correct"


def _cpu_ratio(name: str, judgement: Judgement) -> str:
    for result in reversed(judgement.contests):
        if ratio := result.ratios.get(name, {}).get("cpu"):
            return _interval(ratio)
    return "—"


def _untold(verdict: Verdict) -> list[str]:
    """Return what was wrong, without what the table of `_tried` says."""
    told = {f"{item.about}: {item.failure}" for item in verdict.heard}
    told |= {f"{item.question}: {item.evidence}" for item in verdict.answers}
    return [line for line in verdict.wrong if line not in told]


def _tried(verdict: Verdict) -> dict[str, Any]:
    outcomes = [
        (item.about, item.ok, _plain(item.untried or item.failure))
        for item in verdict.heard
    ]
    for item in verdict.answers:
        source = " (a case of Tran and Rees)" if item.their_cases else ""
        about = f"{item.question}{source}"
        outcomes.append((about, item.holds, _plain(item.evidence)))
    failures = [(about, text) for about, holds, text in outcomes if holds is False]
    unknown = [(about, text) for about, holds, text in outcomes if holds is None]
    return {
        "count": len(outcomes) - len(unknown),
        "good": [about for about, holds, _ in outcomes if holds],
        "unknown": [f"{about}: {text}" for about, text in unknown],
        "bad": failures,
        "table": _table(("what went wrong", "how"), failures, widths=(20, 60)),
    }


def _labels(judgement: Judgement) -> dict[str, str]:
    return {verdict.server: _code(verdict.label) for verdict in judgement.verdicts}


def _contest_table(result: contest.Contest, judgement: Judgement) -> str:
    labels = _labels(judgement)
    units = {}
    for metric, (_, unit) in _HEADS.items():
        values = [levels[metric]["value"] or 0 for levels in result.levels.values()]
        units[metric] = display_unit(unit, values)
    rows = []
    for name, levels in result.levels.items():
        if name.endswith(" again"):
            continue
        cells = [_number(levels[m]["value"], units[m][0]) for m in units]
        ratio = result.ratios.get(name)
        cost = f"{_interval(ratio['cpu'])} {ratio['cpu']['word']}" if ratio else "1"
        rows.append((labels.get(name, name), *cells, cost, _limited(result, name)))
    rows += [
        (labels.get(name, name), "left out", "", "", "", _plain(reason), "")
        for name, reason in result.failed.items()
    ]
    measured = [f"{_HEADS[m][0]}, {unit}" for m, (_, unit) in units.items()]
    heads = ("server", *measured, "CPU / epoll's", "limited by")
    return _table(heads, rows, widths=(_width_of(rows), *_WIDTHS))


def _limited(result: contest.Contest, name: str) -> str:
    words = _SHARED if result.shared else _LIMITS
    return words[result.limits.get(name)]


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, widths: Sequence[int]
) -> str:
    """Return a table; pandoc divides a long one's width as the dashes say."""
    dashes = ["-" * width for width in widths]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, dashes, *rows))


def _width_of(rows: Sequence[Sequence[str]]) -> int:
    least, most = _LABEL_WIDTHS
    return min(most, max([least, *(len(row[0]) for row in rows)]))


# ---- how it is written -------------------------------------------------------------


def _plain(text: str | None) -> str:
    """Return text in which nothing is Markdown, on one line."""
    flat = " ".join((text or "").split())
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|$~^@&'\"-" else c for c in flat)


def _code(text: str) -> str:
    """Return text as code on one line, between more backticks than it has in a row."""
    flat = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", flat)), default=0))
    return f"{fence} {flat} {fence}" if "`" in flat else f"`{flat}`"


def _interval(ratio: dict) -> str:
    if ratio["value"] is None:
        return "—"
    if ratio["lo"] is None:
        return f"{ratio['value']:.3g}"
    return f"{ratio['value']:.3g} [{ratio['lo']:.3g}, {ratio['hi']:.3g}]"


def _number(value: float | None, factor: float) -> str:
    return "—" if value is None else plain(value * factor)


def _bytes(count: float) -> str:
    factor, unit = display_unit("bytes", [count])
    return f"{count * factor:.3g} {unit}"


# ---- what it is set with -----------------------------------------------------------


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("connlab.judge"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": _plain, "bytes": _bytes, "interval": _interval}
    environment.filters |= {"number": plain, "code": _code}
    return environment


def _fill(template: str, **facts: Any) -> str:
    return _environment().get_template(template).render(**facts)


def _converted(text: str, to: str) -> str:
    import pypandoc

    return pypandoc.convert_text(text, to, "markdown", extra_args=["--wrap=none"])


def _html(text: str, title: str) -> str:
    return _fill("page.html", title=title, body=_converted(text, "html5"))


def _pdf(text: str) -> bytes:
    from connlab.study.style import typeset

    return typeset(_fill("page.typ", body=_converted(text, "typst")).encode())
