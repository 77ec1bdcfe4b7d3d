"""A page of its own on which a reader picks what is drawn.

    cells.csv and ratios.csv of the run, and of the references beside it
        -> explorer.html   study, quantity, axis, models, levels; figure, table, CSV

Vega-Lite draws, and is shipped in the page: it works from a file, and asks no other
host. What is selected stands in the address, so that a link leads to it.
"""

import html
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import pandas as pd

from connlab import figures, report, schema
from connlab.publish import fragments
from connlab.publish.renderers import THEME
from connlab.publish.results import Run
from connlab.study.formatting import called
from connlab.study.metrics import metric

PAGE = "explorer.html"
_DIGITS, _EXACT = 6, 17
"""Significant digits of a value whose interval is wider, and of an exact one."""
_FIRST = ["iterative", "fork", "thread", "poll", "epoll", "uring", "coroutine"]
"""Models that are drawn at first where there are many: one or two of a family."""


def write(runs: Sequence[Run], paper: Path, output: Path) -> Path:
    """Write the page of a run and of the references behind it; return its path."""
    theme, data = paper / THEME, json.dumps(content(runs), separators=(",", ":"))
    facts = {
        "styles": (theme / "page.css").read_text("utf-8"),
        "title": html.escape(f"The numbers of run {runs[0].name}"),
        "vega": vega(),
        "data": data.replace("<", "\\u003c"),
        "script": (theme / "explorer.js").read_text("utf-8"),
    }
    template = jinja2.Template((theme / "explorer.html").read_text("utf-8"))
    return fragments.write(output / PAGE, template.render(facts))


def vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, kept below ``build/``.

    The package that has them takes seconds to bundle them.
    """
    version = importlib.metadata.version("vl-convert-python")
    cached = schema.project_root() / "build" / f"vega-{version}.js"
    if not cached.is_file():
        import vl_convert

        # No string in a script may end the element that holds it.
        script = vl_convert.javascript_bundle().replace("</script", "<\\/script")
        schema.put(cached, script.encode())  # whole or not at all
    return cached.read_text("utf-8")


def content(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what the page shows: runs, models, and each study with its numbers.

    Of many models only the first are drawn until a reader chooses others.

    A row is an object with q and run (indices), at (levels in the order of the factors,
    null where a factor plays no part), value, lo, hi, n, text, and verdict or bound
    ("at least", "at most") where it has one.
    """
    rows_of: dict[str, list[dict[str, Any]]] = {}
    for i, run in enumerate(runs):
        for address, number in run.numbers.items():
            if number["value"] is not None:
                rows = rows_of.setdefault(address.partition("/")[0], [])
                rows.append({**number, "run": i})
    studies = [_study(name, _title(runs, name), rows) for name, rows in rows_of.items()]
    studies.sort(key=lambda study: study["title"])
    return {
        "first": _FIRST,
        "runs": [run.name for run in runs],
        "models": _colours(runs),
        "studies": studies,
    }


def _title(runs: Sequence[Run], name: str) -> str:
    stale = " (stale)" if runs[0].is_stale(name) else ""
    results = next(filter(None, (run.results_of(name) for run in runs)))
    return f"{results.number:02}  {results.question}{stale}"


def _study(name: str, title: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    factors = list(dict.fromkeys(f for row in rows for f in row["levels"]))
    factors = [factor for factor in factors if factor != "against"]
    quantities: dict[str, dict[str, str]] = {}
    numbers = []
    for row in rows:
        quantity, at = _quantity(row), row["levels"]
        known = quantities.setdefault(quantity["id"], quantity)
        known["unit"] = max(known["unit"], quantity["unit"], key=len)  # not of one
        place = list(quantities).index(quantity["id"])
        values = [called(f, report.level(at[f])) if f in at else None for f in factors]
        numbers.append({"q": place, "run": row["run"], "at": values, **_number(row)})
    return {
        "name": name,
        "title": title,
        "factors": factors,
        "quantities": list(quantities.values()),
        "rows": numbers,
    }


def _quantity(row: Mapping[str, Any]) -> dict[str, str]:
    """Name a quantity; links hold its ``id``, which is the same in every run."""
    name, label = row["metric"], metric(row["metric"]).label
    if (against := row["levels"].get("against")) is not None:
        label = f"{label}, relative to {report.level(against)}"
        id_ = report.address("", name, {"against": against})
        return {"id": id_, "label": label, "unit": "1", "ratio": "1"}
    unit = "" if row["unit"] is None else report.level(row["unit"])
    return {"id": name, "label": label, "unit": unit, "ratio": ""}


def _number(row: Mapping[str, Any]) -> dict[str, Any]:
    exact = row["lo"] is not None and row["lo"] == row["hi"]
    digits = _EXACT if exact else _DIGITS
    number = {
        k: None if row[k] is None else float(f"{row[k]:.{digits}g}")
        for k in ("value", "lo", "hi")
    }
    # as on hover: what is counted once, or set, has no n
    number["n"] = row["method"] if row["method"] == "exact" else int(row["n"])
    if row["text"]:
        number["text"] = row["text"].removeprefix(f"{row['bound']} ")
    return number | {k: row[k] for k in ("verdict", "bound") if row.get(k)}


def _colours(runs: Sequence[Run]) -> dict[str, str]:
    rows = (row for run in runs for row in run.numbers.values())
    names = {row["levels"].get("model") for row in rows if row["value"] is not None}
    models = pd.DataFrame({"model": sorted(names - {None})}, dtype="object")
    if models.empty:
        return {}
    models.attrs["registry"] = next(filter(None, (run.registry for run in runs)), ())
    return {m: mpl.colors.to_hex(c) for m, c in figures.palette(models).items()}
