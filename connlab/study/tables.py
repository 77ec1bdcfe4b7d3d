"""Tables whose cells are text already."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

GAP = "—"


@dataclass(frozen=True)
class Column:
    """Head of a column."""

    name: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose cells are text already."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def frame(self) -> pd.DataFrame:
        """Return the table as a frame of text, heads with their units."""
        heads = [f"{c.label} ({c.unit})" if c.unit else c.label for c in self.columns]
        return pd.DataFrame(list(self.rows), columns=heads)

    def _repr_html_(self) -> str:
        below = "".join(f"<p><small>{note}</small></p>" for note in self.notes)
        return self.frame().to_html(index=False) + below
