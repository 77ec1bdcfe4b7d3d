"""A page for each model: its loop, its numbers, where it breaks, its code.

    src_c/models/NAME.c      -> loop, what speaks for and against it, code
    cells.csv, ratios.csv    -> what it answers, costs and takes, study by study
    atlas of breaking points -> predicted limit, carried, broke at, what was noticed
        -> data/models/NAME.html

Nothing is computed here; a piece that a run does not have is left out, or said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from connlab import report
from connlab.publish import fragments, models, numbers
from connlab.publish.results import Run
from connlab.study.metrics import metric

FOLDER = Path("data") / "models"
METRICS = (
    "throughput_rps",
    "server_cpu_per_request_s",
    "response_p99_s",
    "cpu_per_mib_s",
    "pss_net_bytes",
)
"""What is shown of a model, in this order."""
_ATLAS = "tbl-breaking-points-atlas"


def write(
    run: Run, registry: Iterable[Mapping[str, Any]], paper: Path
) -> dict[str, str]:
    """Write the page of each model; return links to them by the model's name."""
    known = {s.name: report.numbers(s.folder) for s in run.studies.values()}
    folder, links = paper / FOLDER, {}
    for about in registry:
        name = str(about.get("name"))
        source = paper.parent / "src_c" / "models" / f"{name}.c"
        if not source.is_file():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        links[name] = (FOLDER / f"{name}.html").as_posix()
        (folder / f"{name}.html").write_text(
            _page(run, about, known, source.read_text("utf-8")), "utf-8"
        )
    return links


def _page(
    run: Run,
    about: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Mapping[str, Any]]],
    code: str,
) -> str:
    name, label = str(about["name"]), str(about.get("label") or about["name"])
    told = models.header(code)
    rows = list(of_model(name, known))
    return fragments.fill(
        "model.html",
        name=name,
        label=label,
        family=str(about.get("family")),
        run=run.name,
        drawn="\n".join(told.arrows),
        sides=told.parts.items(),
        limit=limit(run, label),
        ratios=[row for row in rows if row["verdict"]],
        cells=[row for row in rows if not row["verdict"]],
        code=code.partition("*/")[2].strip("\n"),
    )


def of_model(
    name: str, known: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> Iterator[dict[str, str]]:
    """Give the numbers of a model, by quantity, study and level."""
    for quantity in METRICS:
        for study, found in known.items():
            for row in found.values():
                mine = row["levels"].get("model") == name
                if mine and row["metric"] == quantity and row["text"]:
                    yield {
                        "study": study,
                        "quantity": metric(quantity).label,
                        "levels": _levels(row["levels"]),
                        "text": row["text"],
                        "behind": numbers.hover(
                            int(row["n"]), row["level"], row["method"]
                        ),
                        "verdict": row.get("verdict") or "",
                    }


def _levels(levels: Mapping[str, Any]) -> str:
    """Say at which levels a number was measured, and against what."""
    at = {k: report.level(v) for k, v in levels.items() if k != "model"}
    against = at.pop("against", None)
    said = [f"{k.replace('_', ' ')} {v}" for k, v in at.items()]
    return ", ".join(said + ([f"against {against}"] if against is not None else []))


def limit(run: Run, label: str) -> list[tuple[str, str]]:
    """Return what the study of breaking points says of a model; empty without it."""
    study = run.studies.get("breaking-points")
    for table in study.results.tables if study and study.results else ():
        for row in table.rows if table.id == _ATLAS else ():
            if row[0] == label:
                heads = [column.label for column in table.columns]
                return list(zip(heads[1:], row[1:], strict=True))
    return []
