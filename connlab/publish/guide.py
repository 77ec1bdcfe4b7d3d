"""The first pages: what to use when, and each finding beside the references.

    paper/guide.yml + ratios of a run  -> tbl-guide: situation -> verdicts on designs
                                       -> fig-guide: what a design costs, by situation
    sections/_findings.qmd + all runs  -> each finding here and there: agrees, differs

Verdicts are those that the studies printed; nothing is compared anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from connlab import figures, report
from connlab.publish import markdown as md
from connlab.publish import models, numbers, provenance, reference, sources
from connlab.publish.results import Run
from connlab.study import style
from connlab.study.metrics import metric

FOLDER = Path("_generated") / "guide"
SITUATIONS = "guide.yml"
FINDINGS = Path("sections") / "_findings.qmd"
TABLE, FIGURE = "tbl-guide", "fig-guide"

BETTER, ALIKE, OPEN, WORSE = "better", "alike", "undetermined", "worse"
_HEADS = {
    BETTER: "better",
    ALIKE: "alike within ±5 %",
    OPEN: "no difference shown",
    WORSE: "worse",
}
_KINDS = {
    "fork": "a process each",
    "thread": "a thread each",
    "poll": "poll",
    "uring": "io_uring",
}
"""Designs that are drawn, one of each kind, and what readers call them."""

AGREES, DIFFERS = "agrees", "differs"
HERE_OPEN, THERE_OPEN = "cannot tell here", "cannot tell there"
NOT_HERE, NOT_THERE = "not measured here", "not measured there"


def write(run: Run, others: Sequence[Run], paper: Path) -> None:
    """Write the guide of a run, and its findings beside those of the references.

    Without ``guide.yml`` nothing is written.
    """
    path = paper / SITUATIONS
    if not path.is_file():
        return
    folder = paper / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    known = known_numbers(run)
    entries = yaml.safe_load(path.read_text("utf-8"))
    there = {
        name: known_numbers(other)
        for name, other in zip(reference.labels(others), others, strict=True)
    }
    found = [told(entry, known, there) for entry in entries]
    registry = models.registry(run.manifest)
    families = {str(row["name"]): str(row.get("family", "")) for row in registry}
    (folder / f"{TABLE}.qmd").write_text(table(found, families), "utf-8")
    drawn = draw(found, registry, folder)
    (folder / f"{FIGURE}.qmd").write_text(drawn, "utf-8")
    beside = _beside(run, others, paper, known) if others else ""
    (folder / "beside.qmd").write_text(beside or "\n", "utf-8")


def known_numbers(run: Run) -> dict[str, dict[str, Any]]:
    """Return every number of a run by its address."""
    found: dict[str, dict[str, Any]] = {}
    for study in run.studies.values():
        found |= report.numbers(study.folder)
    return found


def ratios(
    known: Mapping[str, Mapping[str, Any]], entry: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the ratios of a situation by design, as the study ordered them."""
    wanted = {k: str(v) for k, v in entry["levels"].items()}
    wanted["against"] = str(entry["against"])
    found = {}
    for address, row in known.items():
        levels = {k: report.level(v) for k, v in row["levels"].items()}
        design = levels.pop(entry["by"], None)
        begins = address.partition(" ")[0] == f"{entry['study']}/{entry['metric']}"
        if begins and design is not None and levels == wanted:
            found[design] = dict(row)
    return found


def told(
    entry: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Any]],
    there: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> tuple[Mapping[str, Any], dict[str, dict[str, Any]]]:
    """Return a situation with its ratios, of the first reference where a run has none.

    Parameters
    ----------
    entry : mapping
        The situation.
    known : mapping
        Numbers of the run.
    there : mapping
        Numbers of each reference, by what it is called.

    Returns
    -------
    tuple
        The situation, which names the reference that its ratios are from, and these.
    """
    here = ratios(known, entry)
    if _settled(here):
        return entry, here
    for name, numbers_ in there.items():
        found = ratios(numbers_, entry)
        if _settled(found):
            return {**entry, "reference": name}, found
    return entry, here


def _settled(designs: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(row["lo"] is not None for row in designs.values())


def standing(row: Mapping[str, Any]) -> str:
    """Say where a design stands: better, alike, undetermined or worse."""
    verdict = row.get("verdict")
    if verdict not in ("higher", "lower"):
        return ALIKE if verdict == "alike" else OPEN
    return BETTER if metric(row["metric"]).better == verdict else WORSE


# ---- the table -----------------------------------------------------------------------


def table(
    found: Sequence[tuple[Mapping[str, Any], Mapping[str, dict]]],
    families: Mapping[str, str] | None = None,
) -> str:
    """Set a row per situation: which designs are better, alike, open and worse.

    Parameters
    ----------
    found : sequence of tuple
        Each situation with its ratios by design.
    families : mapping of str to str, optional
        Of designs: many of one family share a line, with the range of their intervals.
    """
    kin = families or {}
    rows = [[_situation(entry), *_cells(designs, kin)] for entry, designs in found]
    kept = [0, *(i for i in range(1, 5) if any(row[i] != "—" for row in rows))]
    heads = ["Situation", *_HEADS.values()]
    return md.table(
        [heads[i] for i in kept],
        [[row[i] for i in kept] for row in rows],
        caption="What to use when: designs against `epoll`, or against the baseline "
        "that the row names, with ratios where a difference is shown (of several "
        "designs that share a line, the range that holds all their intervals). "
        "Ratios of CPU time are below 1 where a design is better, of rates above.",
        label=TABLE,
        widths=[_SHARES[i] for i in kept],
        align="l" * len(kept),
    )


_SHARES = (30, 26, 16, 24, 34)


def _situation(entry: Mapping[str, Any]) -> str:
    said = f"{md.escape(entry['situation'])} ({md.escape(entry['measured'])})"
    if "reference" in entry:
        said += f". *Reference on {md.escape(entry['reference'])}.*"
    return said


def _cells(designs: Mapping[str, dict], families: Mapping[str, str]) -> list[str]:
    """Set the designs of a situation, those with a difference with their ratio."""
    if not designs:
        return ["—", "—", "not measured here", "—"]
    cells = []
    for wanted in _HEADS:
        rows = {n: row for n, row in designs.items() if standing(row) == wanted}
        shown = sorted(rows, key=lambda name: rows[name]["value"])
        if wanted in (BETTER, WORSE):
            said = "; ".join(
                _together(group, rows) for group in _kin(rows, shown, families)
            )
        else:
            said = ", ".join(_called(name) for name in shown)
        cells.append(said or ("none" if wanted == BETTER else "—"))
    return cells


_FEW = 4
"""Designs of a cell that each stand with their own ratio."""
_NEAR = 1.25
"""Ratios that may share a line, over the least of them."""


def _kin(
    rows: Mapping[str, dict], names: Sequence[str], families: Mapping[str, str]
) -> list[list[str]]:
    """Put designs of one family that differ little together where there are many."""
    if len(names) <= _FEW:
        return [[name] for name in names]
    groups: list[list[str]] = []
    for name in names:
        kin = families.get(name) or name
        near = [
            group
            for group in groups
            if families.get(group[0]) == kin
            and rows[name]["value"] <= _NEAR * rows[group[0]]["value"]
        ]
        near[0].append(name) if near else groups.append([name])
    return groups


def _together(names: Sequence[str], rows: Mapping[str, dict]) -> str:
    """Name designs and their ratio; of several the range that holds their intervals."""
    said = _number(rows[names[0]])
    if len(names) > 1:
        bounds = [_BOUNDS.search(rows[name]["text"]) for name in names]
        low = min((b[1] for b in bounds if b), key=float)
        high = max((b[2] for b in bounds if b), key=float)
        said = f"{low} to {high}"
    return f"{', '.join(map(_called, names))}: {said}"


_BOUNDS = re.compile(r"\[(\S+), (\S+)\]")
"""Of a ratio, as they are printed."""


def _called(name: str) -> str:
    return f"`{name}`" if " " not in name else md.escape(name)


def _number(row: Mapping[str, Any]) -> str:
    """Set a number that shows what stands behind it; an exact one without bounds."""
    exact = row["lo"] is not None and row["lo"] == row["hi"]
    text = row["text"].partition(" [")[0] if exact else row["text"]
    return md.span(text, "num", title=numbers.title(row))


# ---- the figure ----------------------------------------------------------------------


def draw(
    found: Sequence[tuple[Mapping[str, Any], Mapping[str, dict]]],
    models: Sequence[Mapping[str, Any]],
    folder: Path,
) -> str:
    """Draw what designs cost against epoll, a row per situation; return its source."""
    rows = pd.DataFrame(_costs(found))
    if rows.empty:
        return "\n"
    figures.style()
    figure = figures.forest(
        rows,
        row="situation",
        hue="design",
        colors={m["name"]: style.FAMILIES.get(m["family"], style.INK) for m in models},
        xlabel="cost of a request, divided by that of epoll",
    )
    for text in figure.legends[0].get_texts():
        text.set_text(_KINDS[text.get_text().removeprefix("design ")])
    figures.save(figure, folder, "guide")
    said = "; ".join(
        f"{r.situation}: {r.design} {r.value:.2g}" for r in rows.itertuples()
    )
    alt = md.attribute(f"Forest plot: cost of a request against epoll. {said}.")
    caption = (
        "What a request costs a server, divided by what it costs `epoll`: CPU time, "
        "and for the database the time between pages. Intervals of "
        "[95 %]{.constant}; the grey band is [±5 %]{.constant}."
    )
    image = FOLDER / "guide.svg"
    return f'![{caption}]({image}){{#{FIGURE} fig-alt="{alt}"}}\n'


def _costs(
    found: Sequence[tuple[Mapping[str, Any], Mapping[str, dict]]],
) -> Iterator[dict[str, Any]]:
    """Give the ratios that are drawn, of rates their inverse: more is dearer."""
    for entry, designs in found:
        for name in _KINDS if entry.get("figure") else ():
            row = designs.get(name)
            if row is None or row["value"] is None:
                continue
            ends = [row[k] if row[k] is not None else float("nan") for k in _ENDS]
            if metric(row["metric"]).better == "higher":
                ends = [1 / ends[0], 1 / ends[2], 1 / ends[1]]
            whose = f" ({entry['reference']})" if "reference" in entry else ""
            about = {"situation": entry["figure"] + whose, "design": name}
            yield about | dict(zip(_ENDS, ends, strict=True))


_ENDS = ("value", "lo", "hi")


# ---- findings, here and there --------------------------------------------------------


def findings(paper: Path) -> dict[str, str]:
    """Return the address of the number of each finding, and what it is about."""
    path = paper / FINDINGS
    text = sources.COMMENT.sub("", path.read_text("utf-8")) if path.is_file() else ""
    items = re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]
    first = [sources.NUMBER.search(item) for item in items]
    return {
        sources.address(found[1]): " ".join(_BRIEF.findall(found[1]))
        for found in first
        if found
    }


_BRIEF = re.compile(r'\bbrief="([^"]*)"')


def agreement(here: Mapping[str, Any] | None, there: Mapping[str, Any] | None) -> str:
    """Say whether two runs find the same.

    Of ratios the verdicts are compared, of other numbers the intervals.
    """
    if here is None or not here["text"]:
        return NOT_HERE
    if there is None or not there["text"]:
        return NOT_THERE
    for row, cannot in ((here, HERE_OPEN), (there, THERE_OPEN)):
        if row["lo"] is None or row.get("verdict") == "undetermined":
            return cannot
    if here.get("verdict") is not None:
        same = here["verdict"] == there.get("verdict")
    else:
        same = here["lo"] <= there["hi"] and there["lo"] <= here["hi"]
    return AGREES if same else DIFFERS


def _beside(
    run: Run, others: Sequence[Run], paper: Path, known: Mapping[str, dict]
) -> str:
    """Set each finding's number of the run and of its references beside each other."""
    names, rows = reference.labels(others), []
    there = [known_numbers(other) for other in others]
    for i, (address, brief) in enumerate(findings(paper).items(), 1):
        here, *found = (each.get(address) for each in (known, *there))
        texts = [_number(row) if row and row["text"] else "—" for row in (here, *found)]
        words = [agreement(here, row) for row in found]
        about = md.escape(f"{i} {brief}".strip())
        rows.append([about, *texts, reference.joined(words, names)])
    if not rows:
        return ""
    where = [f"`{r.name}` ({provenance.machine(r)})" for r in (run, *others)]
    return md.table(
        ["finding", "this run", *map(md.escape, names), "agreement"],
        rows,
        caption=f"Each finding in this run, {where[0]}, beside "
        f"{' and '.join(where[1:])}. Two runs agree where the verdicts on a "
        "ratio are the same, or where the intervals of another number overlap.",
        label="tbl-findings",
        align="l" * (3 + len(names)),
    )
