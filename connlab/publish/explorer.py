"""A page of its own on which a reader picks what is drawn.

    cells.csv and ratios.csv of the run, and of the references beside it
        -> explorer.html   study, quantity, axis, models, levels; figure, table, CSV

Vega-Lite draws, and is shipped in the page: it works from a file, and asks no other
host. What is selected stands in the address, so that a link leads to it.
"""

from __future__ import annotations

import html
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import pandas as pd

from connlab import figures, schema
from connlab.publish import fragments, pages, reference
from connlab.publish.models import registry
from connlab.publish.results import Run
from connlab.report import CELLS, RATIOS, address, level, levels
from connlab.study.metrics import metric

PAGE = "explorer.html"
THEME = "_theme"
_DIGITS = 6
"""Significant digits of a value in the page; its interval is wider than that."""


def write(run: Run, paper: Path, output: Path) -> Path:
    """Write the page; return its path."""
    theme = paper / THEME
    supplement = (output / pages.SUPPLEMENT).is_file()
    facts = {
        "tables": pages.SUPPLEMENT if supplement else pages.PAPER,
        "styles": (theme / "page.css").read_text("utf-8"),
        "title": html.escape(f"The numbers of run {run.name}"),
        "vega": vega(),
        "data": json.dumps(content(run), separators=(",", ":")).replace("</", "<\\/"),
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


def content(run: Run) -> dict[str, Any]:
    """Return what the page shows: runs, models, and each study with its numbers.

    A row is an object with q and run (indices), at (levels in the order of the factors,
    null where a factor plays no part), value, lo, hi, n, text, and verdict or bound
    ("at least", "at most") where it has one.
    """
    runs = [run, *reference.beside(run)]
    studies = []
    for name in dict.fromkeys(name for r in runs for name in r.studies):
        frames = [_numbers(r.folder / name, i) for i, r in enumerate(runs)]
        table = pd.concat([f for f in frames if not f.empty] or frames[:1])
        if not table.empty:
            studies.append(_study(name, _title(runs, name), table))
    studies.sort(key=lambda study: study["title"])
    return {
        "runs": [r.name for r in runs],
        "models": _colours(studies, runs),
        "studies": studies,
    }


def _numbers(folder: Path, run: int) -> pd.DataFrame:
    paths = [folder / name for name in (CELLS, RATIOS)]
    tables = [
        pd.read_csv(path).assign(run=run)
        for path in paths
        if path.is_file() and path.stat().st_size
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _title(runs: list[Run], name: str) -> str:
    for results in filter(None, (run.results_of(name) for run in runs)):
        return f"{results.number:02}  {results.question}"
    return name


def _study(name: str, title: str, table: pd.DataFrame) -> dict[str, Any]:
    table = table[table["value"].notna()]
    records = table.to_dict("records")
    levels_of = [
        {k: v for k, v in levels(row).items() if k not in ("against", "run")}
        for row in records
    ]
    factors = list(dict.fromkeys(f for at in levels_of for f in at))
    quantities: dict[tuple[str, str], int] = {}
    rows = []
    for row, at in zip(records, levels_of, strict=True):
        against = row.get("against")
        key = (str(row["metric"]), "" if pd.isna(against) else level(against))
        q = quantities.setdefault(key, len(quantities))
        values = [level(at[f]) if f in at else None for f in factors]
        rows.append({"q": q, "run": row["run"], "at": values, **_number(row)})
    units = table.groupby("metric")["unit"].first().to_dict()
    return {
        "name": name,
        "title": title,
        "factors": factors,
        "quantities": [_quantity(*key, units) for key in quantities],
        "rows": rows,
    }


def _quantity(name: str, against: str, units: Mapping[str, Any]) -> dict[str, str]:
    """Name a quantity; links hold its ``id``, which is the same in every run."""
    label, unit = metric(name).label, units.get(name)
    if against:
        label, unit = f"{label}, relative to {against}", "1"
    return {
        "id": address("", name, {"against": against} if against else {}),
        "label": label,
        "unit": "" if pd.isna(unit) else str(unit),
        "ratio": "1" if against else "",
    }


def _number(row: Mapping[Any, Any]) -> dict[str, Any]:
    number = {k: _rounded(row.get(k)) for k in ("value", "lo", "hi")}
    number["n"] = None if pd.isna(row.get("n")) else int(row["n"])
    number |= {k: row[k] for k in ("text", "verdict") if isinstance(row.get(k), str)}
    if word := bound(row):
        number["bound"] = word
    return number


def bound(row: Mapping[Any, Any]) -> str:
    """Return what stands before a number that the client limited, else nothing.

    The server could only be better: its rate higher, its times shorter.
    """
    if row.get("bound") is not True:
        return ""
    return "at least" if metric(row["metric"]).better == "higher" else "at most"


def _rounded(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(f"{value:.{_DIGITS}g}")


def _colours(studies: list[dict[str, Any]], runs: list[Run]) -> dict[str, str]:
    names = [
        row["at"][study["factors"].index("model")]
        for study in studies
        if "model" in study["factors"]
        for row in study["rows"]
    ]
    models = pd.DataFrame({"model": names}, dtype="object").dropna().drop_duplicates()
    if models.empty:
        return {}
    registries = (registry(run.manifest) for run in runs)
    models.attrs["registry"] = next(filter(None, registries), ())
    return {m: mpl.colors.to_hex(c) for m, c in figures.palette(models).items()}
