"""One page about judged servers: Markdown, from it HTML and PDF, and JSON beside them.

Judgement -> Markdown -> pandoc -> index.html
                                -> Typst -> page.pdf
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from connlab.judge import contest, hints
from connlab.judge.judging import Judgement, Verdict
from connlab.study.formatting import display_unit

HTML, PDF, JSON = "index.html", "page.pdf", "judge.json"
_HEADS = {
    "rate": ("answers", "requests/s"),
    "cpu": ("CPU per request", "s"),
    "p50": ("p50", "s"),
    "p99": ("p99", "s"),
}
_SATURATED = 0.9
_WIDTHS = (10, 10, 8, 8, 22, 10)  # behind the server's
_LABEL_WIDTHS = (12, 34)  # at least and at most
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto;
       padding: 0 1em; color: #262626; background: #fff; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .2em .8em .2em 0; vertical-align: top;
         border-bottom: 1px solid #d4d4d4; }
caption { text-align: left; color: #767676; }
code { font-size: .9em; overflow-wrap: anywhere; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; }
"""


def write(judgement: Judgement, folder: Path) -> dict[str, Path]:
    """Write the page and the JSON into a folder; return the paths by kind."""
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(judgement)
    paths = {
        kind: folder / name
        for kind, name in (("html", HTML), ("pdf", PDF), ("json", JSON))
    }
    told = json.dumps(judgement.as_json(), indent=1, allow_nan=False, default=str)
    paths["json"].write_text(told + "\n", "utf-8")
    paths["html"].write_text(_html(text, _title(judgement)), "utf-8")
    paths["pdf"].write_bytes(_pdf(text, folder))
    return paths


# ---- the text --------------------------------------------------------------------


def markdown(judgement: Judgement) -> str:
    """Return the page as Markdown: what to look at first, then the evidence."""
    many = len(judgement.verdicts) > 1
    parts = [f"# {_title(judgement)}", _dated(judgement)]
    parts += [_class(judgement)] if many else []
    for verdict in judgement.verdicts:
        parts += _about(verdict, judgement, many)
    parts += [_contest(one, judgement) for one in judgement.contests]
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(judgement: Judgement) -> str:
    labels = [verdict.label for verdict in judgement.verdicts]
    return (
        f"{labels[0]}, judged" if len(labels) == 1 else f"{len(labels)} servers, judged"
    )


def _dated(judgement: Judgement) -> str:
    return f"{judgement.made_at[:10]}, in {judgement.seconds:.0f} s."


def _class(judgement: Judgement) -> str:
    rows = []
    for verdict in judgement.verdicts:
        ok = sum(one.ok for one in verdict.heard)
        cost = _cpu_ratio(verdict.server, judgement)
        found = verdict.crowds
        rows.append(
            (
                f"`{verdict.label}`",
                "right" if verdict.right else "wrong",
                f"{ok} of {len(verdict.heard)}",
                str(found.carried) if found else "—",
                cost or "—",
                _plain(hints.first(verdict, judgement)[0]),
            )
        )
    heads = ("server", "is", "conversations", "clients", "CPU / epoll's", "first")
    return _table(heads, rows, widths=(_width_of(rows), 5, 9, 6, 10, 40))


def _cpu_ratio(name: str, judgement: Judgement) -> str:
    for one in reversed(judgement.contests):
        if ratio := one.ratios.get(name, {}).get("cpu"):
            return _interval(ratio)
    return ""


def _about(verdict: Verdict, judgement: Judgement, many: bool) -> list[str]:
    level = "###" if many else "##"
    said = "It is a right echo server." if verdict.right else "It is not right."
    if verdict.lacks:
        said += f" It does without: {'; '.join(verdict.lacks)}."
    first = [
        f"{n}. {text}" for n, text in enumerate(hints.first(verdict, judgement), 1)
    ]
    return [
        f"## {verdict.label}" if many else "",
        f"`{verdict.server}`",
        f"**{said}**",
        f"{level} What to look at first",
        "\n".join(first),
        _wrong(verdict, level),
        _heard(verdict, level),
        _crowd(verdict, level),
    ]


def _wrong(verdict: Verdict, level: str) -> str:
    if verdict.right:
        return ""
    lines = "\n".join(f"- {_plain(line)}" for line in verdict.wrong)
    printed = verdict.printed.strip()
    said = f"\n\nIt printed, at last:\n\n```\n{printed}\n```" if printed else ""
    return f"{level} What went wrong\n\n{lines}{said}"


def _heard(verdict: Verdict, level: str) -> str:
    if not verdict.heard:
        return ""
    told = [(one.about, one.ok, _plain(one.failure)) for one in verdict.heard]
    told += [
        (f"{one.question} (report 001)", one.holds, _plain(one.evidence))
        for one in verdict.answers
    ]
    good = [about for about, holds, _ in told if holds]
    bad = [(about, why) for about, holds, why in told if holds is False]
    unknown = [f"{about}: {why}" for about, holds, why in told if holds is None]
    text = f"{len(good)} of {len(told)} went well: {', '.join(good)}." if good else ""
    text += f" Not known: {'; '.join(unknown)}." if unknown else ""
    table = _table(("what went wrong", "how"), bad, widths=(20, 60)) if bad else ""
    return "\n\n".join(
        part for part in (f"{level} What was tried", text, table) if part
    )


def _crowd(verdict: Verdict, level: str) -> str:
    found = verdict.crowds
    if found is None:
        return ""
    said = f"It carried {found.carried} clients at a time"
    said += (
        f" and not {found.broke}: {_plain(found.limit)}."
        if found.broke
        else (", the most that were tried.")
    )
    if found.memory_bytes is not None:
        said += (
            f" An idle connection cost it {_bytes(found.memory_bytes)} of memory, "
            f"{found.threads_each:.2g} threads, {found.processes_each:.2g} processes; "
            f"without clients it held {_bytes(found.idle_pss_bytes or 0)}."
        )
    if verdict.start_s is not None:
        said += f" It listened {verdict.start_s:.2g} s after its start."
    return f"{level} How many clients, and what they cost\n\n{said}{_calls(verdict)}"


def _calls(verdict: Verdict) -> str:
    if verdict.calls is None:
        return ""
    if verdict.calls.missing:
        return f" System calls were not counted: {_plain(verdict.calls.missing)}."
    each = ", ".join(f"{n:g} {name}" for name, n in verdict.calls.per_request.items())
    return (
        f" One client's request took {verdict.calls.total:.2g} system calls ({each})."
    )


def _contest(one: contest.Contest, judgement: Judgement) -> str:
    labels = {verdict.server: f"`{verdict.label}`" for verdict in judgement.verdicts}
    rows = []
    units = {
        metric: display_unit(_HEADS[metric][1], [_middle(one, metric)])
        for metric in contest.METRICS
    }
    for name, levels in one.levels.items():
        if name.endswith(" again"):
            continue
        cells = [_number(levels[m]["value"], units[m][0]) for m in contest.METRICS]
        ratio = one.ratios.get(name)
        cost = f"{_interval(ratio['cpu'])} {ratio['cpu']['word']}" if ratio else "1"
        rows.append((labels.get(name, name), *cells, cost, _limited(one, name)))
    rows += [
        (labels.get(name, name), "left out", "", "", "", _plain(why), "")
        for name, why in one.failed.items()
    ]
    heads = [f"{_HEADS[m][0]}, {units[m][1]}" for m in contest.METRICS]
    client = (
        "1 connection" if one.connections == 1 else f"{one.connections} connections"
    )
    control = one.ratios.get(f"{contest.BASELINE} again", {}).get("cpu")
    return (
        f"## In turns with models, {client}\n\n"
        + _table(
            ("server", *heads, "CPU / epoll's", "limited by"),
            rows,
            widths=(_width_of(rows), *_WIDTHS),
        )
        + f"\n\nEcho of 64 bytes; servers take turns every 20 ms, in {one.sets} fresh "
        "sets; brackets hold 95 % intervals."
        + (f" The same epoll twice: {_interval(control)}." if control else "")
    )


def _middle(one: contest.Contest, metric: str) -> float:
    values = [levels[metric]["value"] or 0 for levels in one.levels.values()]
    return sorted(values)[len(values) // 2] if values else 1.0


def _limited(one: contest.Contest, name: str) -> str:
    server, client = one.busy.get(name, (0, 0))
    if server >= _SATURATED and server >= client:
        return "its core"
    return "the client's core" if client >= _SATURATED else "neither core"


# ---- its pieces --------------------------------------------------------------------


def _table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    widths: Sequence[int] | None = None,
) -> str:
    """Return a table; pandoc divides a long one's width as the dashes say."""
    dashes = ["-" * width for width in widths or [3] * len(heads)]
    lines = [f"| {' | '.join(row)} |" for row in (heads, dashes, *rows)]
    return "\n".join(lines)


def _width_of(rows: Sequence[Sequence[str]]) -> int:
    """Return a width at which no label in the first column breaks, if it can be."""
    least, most = _LABEL_WIDTHS
    return min(most, max([least, *(len(row[0]) for row in rows)]))


def _plain(text: str | None) -> str:
    """Return text in which nothing is Markdown, on one line."""
    flat = " ".join((text or "").split())
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|$~^@'\"" else c for c in flat)


def _interval(ratio: dict) -> str:
    if ratio["value"] is None:
        return "—"
    if ratio["lo"] is None:
        return f"{ratio['value']:.3g}"
    return f"{ratio['value']:.3g} [{ratio['lo']:.3g}, {ratio['hi']:.3g}]"


def _number(value: float | None, factor: float) -> str:
    return "—" if value is None else f"{value * factor:.3g}"


def _bytes(count: float) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


# ---- what it is set with -----------------------------------------------------------


def _html(text: str, title: str) -> str:
    import pypandoc

    body = pypandoc.convert_text(text, "html5", "markdown", extra_args=["--wrap=none"])
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n<main>\n{body}</main>\n</html>\n"
    )


def _pdf(text: str, folder: Path) -> bytes:
    import pypandoc
    import typst

    from connlab.publish.renderers import figure_fonts

    body = pypandoc.convert_text(text, "typst", "markdown", extra_args=["--wrap=none"])
    source = folder / "page.typ"
    source.write_text(f"{_TYPST}\n{body}", "utf-8")
    try:
        return typst.compile(
            str(source), font_paths=[str(figure_fonts())], ignore_system_fonts=True
        )
    finally:
        source.unlink()


_TYPST = """
#set page(paper: "a4", margin: 1.8cm)
#set text(font: "DejaVu Sans", size: 8pt)
#show raw: set text(font: "DejaVu Sans Mono", size: 7pt)
#set table(stroke: none, inset: 3pt)
#show table.cell: set align(left)
#show figure: set block(breakable: true)
#let horizontalrule = line(length: 100%)
"""
