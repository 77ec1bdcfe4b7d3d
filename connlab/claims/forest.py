"""One figure of all claims about ratios: the claimed range and the measured ratio."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from connlab import figures
from connlab.claims.finding import Finding, Verdict
from connlab.study import style

NAME = "claims-forest"
COLORS: dict[Verdict, str] = {
    "holds": "#00A077",
    "holds in part": "#2450D8",
    "does not hold": "#DB7A10",
    "not testable here": style.QUIET,
}
"""Verdicts, by colours that are told apart with any common colour deficiency."""
MARKS = dict(zip(COLORS, figures.LEVELS, strict=False))
"""And by markers, which are told apart without any colour."""
_LIMITS = (0.02, 50.0)
"""The axis reaches so far at least."""


def rows(findings: Mapping[str, Finding]) -> pd.DataFrame:
    """Return a row for each claim that a ratio decided, of findings by claim."""
    columns = ["claim", "verdict", "value", "lo", "hi", "claimed_from", "claimed_to"]
    found = []
    for claim, finding in findings.items():
        effect = finding.effect
        if effect and finding.unit == "ratio" and effect.determined:
            bounds = effect.value, effect.lo, effect.hi
            claimed = finding.claimed or (np.nan, np.nan)
            found.append((claim, finding.verdict, *bounds, *claimed))
    return pd.DataFrame(found, columns=columns)


def draw(table: pd.DataFrame) -> Figure:
    """Draw the claims that ratios decided, as from `rows`."""
    figure = Figure(figsize=(figures.WIDTH, 0.65 + 0.1 * len(table)))
    ax = figure.add_subplot()
    low = min(_LIMITS[0], table["lo"].min() / 1.2)
    high = max(_LIMITS[1], table["hi"].max() * 1.2)
    for y, row in zip(range(len(table))[::-1], table.itertuples(), strict=True):
        color = COLORS[row.verdict]
        if np.isfinite(row.claimed_to) or row.claimed_from > 0:
            claimed = np.clip([row.claimed_from, row.claimed_to], low, high)
            ax.plot(claimed, [y, y], color=style.FAINT, linewidth=6, zorder=1)
        ax.plot([row.lo, row.hi], [y, y], color=color, linewidth=1.4, zorder=2)
        mark = MARKS[row.verdict]
        ax.plot([row.value], [y], mark, color=color, markersize=4.5, zorder=3)
    ax.axvline(1, color=style.QUIET, linewidth=0.8, zorder=0)
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.xaxis.set_minor_formatter(lambda v, _: "")
    ax.set_yticks(range(len(table)), list(table["claim"])[::-1], fontsize=7)
    ax.set_ylim(-0.6, len(table) - 0.4)
    ax.set_xlabel("ratio")
    ax.grid(False, axis="y")
    sns.despine(ax=ax, left=True)
    for verdict, color in COLORS.items():
        if verdict in set(table["verdict"]):
            ax.plot([], [], f"{MARKS[verdict]}-", color=color, label=verdict)
    corner = {"loc": "lower left", "bbox_to_anchor": (0, 1)}
    ax.legend(ncols=4, frameon=False, fontsize=8, **corner)
    figure.set_layout_engine("constrained")
    return figure
