"""The first pages: what to use when, and each finding beside the references.

    paper/guide.yml + ratios of a run  -> tbl-guide: situation -> verdicts on designs
                                       -> fig-guide: what a design costs, by situation
    sections/_findings.qmd + all runs  -> each finding here and there: agrees, differs

Verdicts are those that the studies printed; nothing is compared anew.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from connlab import figures, report
from connlab.publish import fragments, numbers, provenance, reference, sources
from connlab.publish import markdown as md
from connlab.publish.results import Registry, Rows, Run
from connlab.study import frames, style
from connlab.study.formatting import listing
from connlab.study.metrics import metric
from connlab.study.results import Results

FOLDER = Path("_generated") / "guide"
SITUATIONS = "guide.yml"
FINDINGS = Path("sections") / "_findings.qmd"
TABLE, FIGURE = "tbl-guide", "fig-guide"

ONE_BY_ONE = "blocking"
"""A family that fits no situation of many clients: each waits for all before it."""

BETTER, ALIKE, OPEN, WORSE = "better", "alike", "undetermined", "worse"
FEW, APART = "few", "apart"
_HEADS = {
    BETTER: "better",
    ALIKE: "alike within ±5 %",
    OPEN: "no difference shown",
    WORSE: "worse",
    FEW: "too few trials",
    APART: "not compared",
}
_KINDS = {
    "fork": "a process each",
    "thread": "a thread each",
    "poll": "poll",
    "uring": "io_uring",
}
"""Designs that are drawn, one of each kind, and what readers call them."""
_PHONE, _PRINT = 3.9, "64%"
"""Inches at which letters of 8 points can be read on a phone; the same in print."""

Row = Mapping[str, Any]
"""A number as `connlab.report.numbers` reads it."""
Situation = tuple[Mapping[str, Any], Mapping[str, Row]]
"""An entry of ``guide.yml``, and its ratios by design."""

HERE_OPEN, THERE_OPEN = "cannot tell here", "cannot tell there"
NOT_HERE, NOT_THERE = "not measured here", "not measured there"


def write(run: Run, others: Mapping[str, Run], paper: Path) -> None:
    """Write the guide of a run, and its findings beside those of the references."""
    references = {label: other.numbers for label, other in others.items()}
    families = {str(row["name"]): str(row.get("family", "")) for row in run.registry}
    alone = {name for name, family in families.items() if family == ONE_BY_ONE}
    situations = []
    for entry in yaml.safe_load((paper / SITUATIONS).read_text("utf-8")):
        entry["stale"] = run.is_stale(entry["study"], entry.get("closer", ""))
        told, designs = with_ratios(entry, run.numbers, references)
        teller = others.get(told.get("reference"), run)
        gone = lost(teller.results_of(entry["study"]), entry)
        fit = {n: row for n, row in designs.items() if n not in alone}
        many = {n: why for n, why in gone.items() if n not in alone}
        situations.append(({**told, "lost": many}, fit))
    found = beside(paper, [run.numbers, *references.values()])
    pieces = {
        TABLE: table(situations, families),
        FIGURE: draw(situations, run.registry, paper / FOLDER),
        "beside": _beside(run, others, paper, found),
        "direction": _direction(found),
    }
    fragments.write_all(paper / FOLDER, pieces)


def ratios(rows: Rows, entry: Mapping[str, Any]) -> dict[str, Row]:
    """Return the ratios of a situation by design, as the study ordered them.

    A design that the ``closer`` study compared too is told by that, and marked so.
    """
    wanted = {k: str(v) for k, v in entry["levels"].items()}
    wanted["against"] = str(entry["against"])
    by_design, closer = {}, {}
    metrics = {f"{entry['study']}/{entry['metric']}": by_design}
    if "closer" in entry:
        metrics[f"{entry['closer']}/{entry['metric']}"] = closer
    for address, row in rows.items():
        levels = {k: report.level(v) for k, v in row["levels"].items()}
        design = levels.pop(entry["by"], None)
        found = metrics.get(address.partition(" ")[0])
        if found is not None and design is not None and levels == wanted:
            found[design] = row
    for design in by_design.keys() & closer.keys():
        if closer[design]["lo"] is not None:
            by_design[design] = {**closer[design], "closer": True}
    return by_design


def with_ratios(
    entry: Mapping[str, Any], rows: Rows, references: Mapping[str, Rows]
) -> Situation:
    """Return a situation with its ratios, of the first reference where a run has none.

    ``references`` has the numbers of each by its label; the one that is taken is named
    in the entry that is returned.
    """
    for name, known in {"": rows, **references}.items():
        designs = ratios(known, entry)
        if any(row["lo"] is not None for row in designs.values()):
            return ({**entry, "reference": name} if name else entry), designs
    return entry, ratios(rows, entry)


def lost(results: Results | None, entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the designs that lost trials in a situation by their own fault, and why.

    Not those whose trials the machine or the client disturbed, nor the baseline, which
    has no ratio. ``lost`` of an entry names levels of the cell that the ratio has not.
    """
    wanted = {**entry["levels"], **entry.get("lost", {})}
    reasons = {}
    for cell in results.failures if results else ():
        factors = dict(cell.factors)
        if {"active", "connections"} <= factors.keys():
            factors["idle"] = factors["connections"] - factors["active"]
        levels = {k: report.level(v) for k, v in factors.items()}
        design = levels.get(entry["by"])
        inside = all(levels.get(k) == str(level) for k, level in wanted.items())
        compared = design not in (None, str(entry["against"]))
        if compared and inside and not cell.reason.startswith(_OF_OTHERS):
            reasons[design] = cell.reason.partition(" (")[0]
    return reasons


_OF_OTHERS = tuple(frames.GATES[name] for name in ("arrivals", "load", "lag", "quiet"))
"""Reasons to leave out a trial that say nothing about its server."""


def standing(row: Row) -> str:
    """Return where a design stands; without an interval nobody knows.

    A ratio without a value is one whose sides were not measured alike.
    """
    if row["value"] is None:
        return APART
    if row["lo"] is None:
        return FEW
    verdict = row.get("verdict")
    if verdict not in ("higher", "lower"):
        return ALIKE if verdict == "alike" else OPEN
    return BETTER if metric(row["metric"]).better == verdict else WORSE


# ---- the table -----------------------------------------------------------------------


def table(situations: Sequence[Situation], families: Mapping[str, str]) -> str:
    """Set a row per situation, with a cell for each way in which designs stand.

    Many designs of one family share a line, with the range of their intervals.
    """
    rows = [
        [_situation(entry), *_cells(designs, families, entry.get("lost", {}))]
        for entry, designs in situations
    ]
    heads = ["Situation", *_HEADS.values()]
    known = [pair for _, designs in situations for pair in designs.items()]
    closer = {name for name, row in known if row.get("closer")}
    shown = [i for i in range(len(heads)) if any(row[i] != "—" for row in rows)]
    text = md.table(
        [heads[i] for i in shown],
        [[row[i] for i in shown] for row in rows],
        caption=fragments.caption(
            "guide",
            apart=heads.index(_HEADS[APART]) in shown,
            closer=listing(map(_as_code, sorted(closer))),
        ),
        label=TABLE,
        widths=[_SHARES[i] for i in shown],
        align="l" * len(shown),
    )
    return f"::: {{.cards}}\n{text}:::\n"


_SHARES = (30, 26, 20, 20, 46, 12, 12)


def _situation(entry: Mapping[str, Any]) -> str:
    text = f"{md.escape(entry['situation'])} ({md.escape(entry['measured'])})"
    if "reference" in entry:
        text += f". *From the {md.escape(entry['reference'])} run.*"
    elif entry.get("stale"):
        text += ". *Stale.*"
    return text


def _cells(
    designs: Mapping[str, Row],
    families: Mapping[str, str],
    lost: Mapping[str, str],
) -> list[str]:
    if not designs:
        return ["—", "—", "not measured here", *["—"] * (len(_HEADS) - 3)]
    cells = []
    for stands in _HEADS:
        rows = {n: row for n, row in designs.items() if standing(row) == stands}
        names = sorted(rows, key=lambda name: rows[name]["value"] or 0)
        if stands in (BETTER, WORSE):
            groups = _groups(rows, names, families)
            cell = "; ".join(_with_ratio(group, rows) for group in groups)
        else:
            cell = ", ".join(map(_as_code, names))
        if stands == WORSE:
            none = {n: why for n, why in lost.items() if n not in designs}
            cell = "; ".join(filter(None, [cell, *_without_a_trial(none)]))
        cells.append(cell or ("none" if stands == BETTER else "—"))
    return cells


def _without_a_trial(lost: Mapping[str, str]) -> Iterator[str]:
    """Say why no trial of a design counts, designs of one reason together."""
    for why in dict.fromkeys(lost.values()):
        names = [name for name in lost if lost[name] == why]
        yield f"{', '.join(map(_as_code, names))}: no trial counts ({md.escape(why)})"


_FEW = 4
"""Designs of a cell that each stand with their own ratio."""
_NEAR = 1.25
"""Ratios that may share a line, over the least of them."""


def _groups(
    rows: Mapping[str, Row], names: Sequence[str], families: Mapping[str, str]
) -> list[list[str]]:
    """Put designs of one family that differ little together where there are many.

    A bound stands with others in the same direction only.
    """
    if len(names) <= _FEW:
        return [[name] for name in names]
    groups: list[list[str]] = []
    last: dict[tuple[str, str | None], list[str]] = {}
    for name in names:  # the smallest ratio first
        kind = (families.get(name) or name, rows[name].get("bound"))
        group = last.get(kind)
        if not group or rows[name]["value"] > _NEAR * rows[group[0]]["value"]:
            groups.append(group := [])
            last[kind] = group
        group.append(name)
    return groups


def _with_ratio(names: Sequence[str], rows: Mapping[str, Row]) -> str:
    ratio = _number(rows[names[0]])
    if len(names) > 1:
        bounds = [end for n in names for end in _BOUNDS.findall(rows[n]["text"])]
        low, high = min(bounds, key=float), max(bounds, key=float)
        ends = {"at least": f"at least {low}", "at most": f"at most {high}"}
        ratio = ends.get(rows[names[0]].get("bound"), f"{low} to {high}")
    return f"{', '.join(map(_as_code, names))}: {ratio}"


_BOUNDS = re.compile(r"(?<=\[)\S+(?=, )|(?<=, )\S+(?=\])|^\S+$")
"""Of a ratio, as they are printed; one that is exact is its own."""


def _as_code(name: str) -> str:
    return f"`{name}`" if " " not in name else md.escape(name)


def _number(row: Row) -> str:
    """Set a number with n and method on hover; an exact one without bounds."""
    exact = row["lo"] is not None and row["lo"] == row["hi"]
    text = row["text"].partition(" [")[0] if exact else row["text"]
    return md.span(text, numbers.title(row))


# ---- the figure ----------------------------------------------------------------------


def draw(situations: Sequence[Situation], registry: Registry, folder: Path) -> str:
    """Draw what designs cost against epoll, a row per situation; return its source."""
    rows = pd.DataFrame(_costs(situations))
    if rows.empty:
        return ""
    figures.style()
    figure = figures.forest(
        rows,
        row="situation",
        hue="design",
        colors={
            m["name"]: style.FAMILIES.get(m["family"], style.INK) for m in registry
        },
        xlabel="cost of a request, divided by that of epoll",
        width=_PHONE,
    )
    for text in figure.legends[0].get_texts():
        text.set_text(_KINDS[text.get_text().removeprefix("design ")])
    figures.save(figure, folder, "guide")
    costs = "; ".join(
        f"{r.situation}: {r.design} {f'{r.bound} {r.value:.2g}'.strip()}"
        for r in rows.itertuples()
    )
    alt = md.attribute(f"Forest plot: cost of a request against epoll. {costs}.")
    caption = fragments.caption(
        "costs",
        few=rows["lo"].isna().any(),
        bounds=listing(
            f"{r.bound} this for {_KINDS[r.design]} ({md.escape(r.situation)})"
            for r in rows.itertuples()
            if r.bound
        ),
    )
    image = FOLDER / "guide.svg"
    return f'![{caption}]({image}){{#{FIGURE} print-width={_PRINT} fig-alt="{alt}"}}\n'


def _costs(situations: Sequence[Situation]) -> Iterator[dict[str, Any]]:
    """Yield the ratios that are drawn, of rates their inverse: more is dearer."""
    for entry, designs in situations:
        for name in _KINDS if entry.get("figure") else ():
            row = designs.get(name)
            if row is None or row["value"] is None:
                continue
            ends = [float("nan") if row[k] is None else row[k] for k in _ENDS]
            bound = row.get("bound") or ""
            if metric(row["metric"]).better == "higher":
                ends = [1 / ends[0], 1 / ends[2], 1 / ends[1]]
                bound = report.OPPOSITE[bound]
            of = entry.get("reference") or ("stale" if entry.get("stale") else "")
            suffix = f" ({of})" if of else ""
            labels = {"situation": entry["figure"] + suffix, "design": name}
            labels["bound"] = bound
            yield labels | dict(zip(_ENDS, ends, strict=True))


_ENDS = ("value", "lo", "hi")


# ---- findings, here and there --------------------------------------------------------


def agreement(here: Row | None, there: Row | None) -> str:
    """Compare the verdicts of two runs on a ratio, the intervals of another number."""
    if here is None or not here["text"]:
        return NOT_HERE
    if there is None or not there["text"]:
        return NOT_THERE
    for row, undecided in ((here, HERE_OPEN), (there, THERE_OPEN)):
        if row["lo"] is None or row.get("verdict") == "undetermined":
            return undecided
    if here.get("verdict") is not None:
        same = here["verdict"] == there.get("verdict")
    else:
        same = here["lo"] <= there["hi"] and there["lo"] <= here["hi"]
    return reference.AGREES if same else reference.DIFFERS


Beside = Mapping[str, Sequence[Row | None]]
"""The numbers of each finding by what it is about: of the run, then of the others."""


def beside(paper: Path, rows_of: Sequence[Rows]) -> Beside:
    """Return the first number of each finding in the run and in its references.

    ``rows_of`` has the numbers of the run, then those of each reference.
    """
    text = sources.COMMENT.sub("", sources.text_of(paper / FINDINGS))
    items = re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]
    found = {}
    for i, number in enumerate(map(sources.NUMBER.search, items), 1):
        if number:
            brief = dict(sources.ATTRIBUTE.findall(number[1])).get("brief", "")
            address = sources.address(number[1])
            found[f"{i} {brief}".strip()] = [rows.get(address) for rows in rows_of]
    return found


def _directions(found: Beside) -> Iterator[tuple[Row, Sequence[Row]]]:
    """Give the ratios whose direction is the same in every run."""
    for here, *there in found.values():
        same = {agreement(here, row) for row in there} == {reference.AGREES}
        if same and here and here.get("verdict"):
            yield here, there


def _direction(found: Beside) -> str:
    """Say that all ratios have one direction, and how many another size; else nothing.

    A finding that is no ratio has no direction.
    """
    ratios_ = [
        rows
        for rows in found.values()
        if len(rows) > 1 and any(row and row.get("verdict") for row in rows)
    ]
    same = list(_directions(found))
    if not ratios_ or len(same) < len(ratios_):
        return ""
    apart = [
        max(row["lo"] for row in rows) > min(row["hi"] for row in rows)
        for rows in ([here, *there] for here, there in same)
    ]
    return fragments.fill(
        "direction.qmd", runs=len(ratios_[0]), ratios=len(same), apart=sum(apart)
    )


def _times(found: Beside) -> float | None:
    """Return the largest factor between ratios of one direction; None without any.

    Between any two of the runs. Rounded up to a tenth: what is "up to" it may not be
    above.
    """
    ratios_ = (
        [row["value"] for row in (here, *there)] for here, there in _directions(found)
    )
    factors = [max(values) / min(values) for values in ratios_]
    return math.ceil(10 * max(factors) - 1e-9) / 10 if factors else None


def _beside(run: Run, others: Mapping[str, Run], paper: Path, found: Beside) -> str:
    """Set each finding's number of the run and of its references beside each other."""
    labels, cells = list(others), []
    for finding, rows in found.items():
        here, *there = rows
        texts = [_number(row) if row and row["text"] else "—" for row in rows]
        texts[0] += " (stale)" if here and run.is_stale(here["study"]) else ""
        words = [agreement(here, row) for row in there]
        cells.append([md.escape(finding), *texts, reference.joined(words, labels)])
    if not cells or not others:
        return ""
    machines = [provenance.machine(each) for each in (run, *others.values())]
    runs = ["this run", *map(reference.called, labels)]
    caption = fragments.caption(
        "findings",
        runs=listing(f"{r} ({m})" for r, m in zip(runs, machines, strict=True)),
        times=_times(found),
        remarks=reference.remarks(run, others, paper, "caption"),
    )
    return md.table(
        ["finding", "this run", *map(md.escape, labels), "direction"],
        cells,
        caption=caption,
        label="tbl-findings",
        align="l" * (3 + len(labels)),
    )
