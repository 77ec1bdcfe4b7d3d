"""How figures look: one colour per family, everywhere.

Colours belong to the families of `server --list` and are told apart by readers with
any of the common colour deficiencies (a test simulates them); each has a contrast of
at least 3 against white.
"""

import zlib
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd

FAMILIES = {
    "blocking": "#262626",
    "processes": "#7A1575",
    "threads": "#DB7A10",
    "readiness": "#2450D8",
    "completion": "#00A077",
    "coroutine": "#B580D1",
}
OTHER = ("#8C6D31", "#637939", "#6B6ECF", "#9C4A4A")
"""For families that came later; told apart by label."""

INK = "#262626"
QUIET = "#767676"
FAINT = "#D4D4D4"

WIDTH = 6.3
"""Inches: the text width of the printed page."""


def styles(frame: pd.DataFrame) -> pd.DataFrame:
    """Return label and color of every model in a frame, in the order to show them.

    That is the order of `server --list` in the run's manifest
    (``frame.attrs["registry"]``), then by family and name. A frame has the column
    model, and perhaps family and model_label. A label that several would have is taken
    by none: they are called by their names. Models are the index.
    """
    registry = {row["name"]: row for row in frame.attrs.get("registry") or ()}
    columns = [c for c in ("family", "model_label") if c in frame]
    rows = frame.dropna(subset=["model"]).groupby("model")[columns].first()
    rows = rows.astype(object).where(rows.notna(), None)
    facts = rows.rename(columns={"model_label": "label"}).to_dict("index")
    models = {name: registry.get(name, row) for name, row in facts.items()}
    listed = {name: place for place, name in enumerate(registry)}
    families = {family: place for place, family in enumerate(FAMILIES)}

    def rank(name: str) -> tuple[int, int, str]:
        family = models[name].get("family")
        return listed.get(name, len(listed)), families.get(family, len(families)), name

    order = sorted(models, key=rank)
    labels = pd.Series({n: models[n].get("label") or n for n in order}, dtype=object)
    shared = labels.duplicated(keep=False)  # command lines are called by their program
    colors = pd.Series({n: color(models[n].get("family")) for n in order}, dtype=object)
    return pd.DataFrame({"label": labels.mask(shared, labels.index), "color": colors})


def color(family: str | None) -> str:
    """Return the colour of a family; one that is not listed gets one by its name."""
    if family in FAMILIES:
        return FAMILIES[family]
    return OTHER[zlib.crc32(str(family).encode()) % len(OTHER)]


def fonts() -> Path:
    """Return the folder of the fonts that come with matplotlib, DejaVu Sans of them."""
    return Path(mpl.get_data_path(), "fonts", "ttf")


def typeset(source: str | bytes, **options: Any) -> bytes:
    """Compile a document of Typst, a path or its text, with these fonts alone.

    `options` are those of ``typst.compile``. RuntimeError when it has a mistake.
    """
    import typst

    return typst.compile(
        source, font_paths=[str(fonts())], ignore_system_fonts=True, **options
    )


RC = {
    **{"figure.dpi": 110, "savefig.dpi": 200},
    **{"figure.facecolor": "white", "savefig.facecolor": "white"},
    **{"svg.fonttype": "none", "svg.hashsalt": "connlab"},
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial"],
    "font.size": 8.5,
    **{"axes.titlesize": 9, "axes.labelsize": 8.5, "axes.titlelocation": "left"},
    **{"axes.edgecolor": QUIET, "axes.linewidth": 0.8, "axes.labelcolor": INK},
    **dict.fromkeys(("xtick.color", "ytick.color"), QUIET),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor", "text.color"), INK),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 8),
    **{"grid.color": "#E9E9E9", "grid.linewidth": 0.7},
    **{"lines.linewidth": 1.4, "lines.markersize": 5.5},
    "legend.frameon": False,
}
