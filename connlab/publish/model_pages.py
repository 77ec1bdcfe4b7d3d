"""A page for each model: its loop, its numbers, where it breaks, its code.

    src_c/models/NAME.c      -> loop, what speaks for and against it, code
    cells.csv, ratios.csv    -> what it answers, costs and takes, study by study
    atlas of breaking points -> predicted limit, carried, broke at, what was noticed
        -> data/models/NAME.html

Nothing is computed here; a piece that a run does not have is left out, or said.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connlab import report
from connlab.publish import fragments, models, numbers
from connlab.publish.results import Run
from connlab.study.formatting import called
from connlab.study.metrics import metric

FOLDER = Path("data") / "models"
METRICS = (
    *("throughput_rps", "server_cpu_per_request_s", "response_p99_s"),
    *("cpu_per_mib_s", "pss_net_bytes"),
)
"""What is shown of a model, in this order."""
_LIMITS, _ATLAS = "breaking-points", "tbl-breaking-points-atlas"


def write(run: Run, paper: Path) -> dict[str, str]:
    """Write the page of each model; return links to them by the model's name."""
    links = {}
    for model in run.registry:
        name = str(model["name"])
        if code := models.source(paper, name):
            path = FOLDER / f"{name}.html"
            fragments.write(paper / path, _page(run, model, code))
            links[name] = path.as_posix()
    return links


def _page(run: Run, model: Mapping[str, Any], code: str) -> str:
    name, label = str(model["name"]), str(model.get("label") or model["name"])
    comment = models.header(code)
    rows = _numbers(name, run)
    return fragments.fill(
        "model.html",
        title=f"{label} ({name})",
        name=name,
        label=label,
        family=str(model.get("family")),
        run=run.name,
        drawn="\n".join(comment.arrows),
        sides=comment.parts.items(),
        limit=_limit(run, label),
        stale=run.is_stale(_LIMITS),
        ratios=[row for row in rows if row["verdict"]],
        cells=[row for row in rows if not row["verdict"]],
        code=code.partition("*/")[2].strip("\n"),
    )


def _numbers(model: str, run: Run) -> list[dict[str, str]]:
    return [
        {
            "study": row["study"] + " (stale)" * run.is_stale(row["study"]),
            "quantity": metric(name).label,
            "levels": _levels(row["levels"]),
            "text": row["text"],
            "behind": numbers.behind(row),
            "verdict": row.get("verdict") or "",
        }
        for name in METRICS
        for row in run.numbers.values()
        if row["metric"] == name and row["levels"].get("model") == model and row["text"]
    ]


def _levels(levels: Mapping[str, Any]) -> str:
    texts = {k: called(k, report.level(v)) for k, v in levels.items() if k != "model"}
    against = texts.pop("against", None)
    items = [f"{k.replace('_', ' ')} {v}" for k, v in texts.items()]
    return ", ".join(items + ([f"against {against}"] if against is not None else []))


def _limit(run: Run, label: str) -> list[tuple[str, str]]:
    results = run.results_of(_LIMITS)
    table = results and results.table(_ATLAS)
    for row in table.rows if table else ():
        if row[0] == label:
            heads = [column.label for column in table.columns]
            return list(zip(heads[1:], row[1:], strict=True))
    return []
