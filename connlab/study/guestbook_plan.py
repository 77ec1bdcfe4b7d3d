"""What study 04 measures: a connection per request, and connections that are kept.

    models, levels of clients -> grids for one sweep

Models that serve one client after another get no kept connections: whoever came first
would be served alone. Models whose workers hold a connection each get as many workers
as clients, unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from connlab import schema


@dataclass(frozen=True)
class Plan:
    """What the study measures; `grids` are for one sweep.

    Attributes
    ----------
    models : sequence of connlab.schema.Model
        As `server --list` describes them.
    connections : sequence of int
        Clients at once, each request a connection of its own, as published.
    kept : sequence of int
        Clients at once that keep their connections.
    workers : int
        Of models whose workers hold a connection each; 0: as many as clients.
    """

    models: Sequence[schema.Model]
    connections: Sequence[int]
    kept: Sequence[int] = ()
    workers: int = 0

    def grids(self) -> list[dict[str, list]]:
        """Return the grids that `connlab.drive.sweep` joins into one sweep."""
        levels = sorted({*self.connections, *self.kept})
        anew = [self._grid(m, n, 1) for m in self.models for n in levels]
        many = [m for m in self.models if m.concurrent]
        return anew + [self._grid(m, n, 0) for m in many for n in self.kept]

    def _grid(self, model: schema.Model, clients: int, each: int) -> dict[str, list]:
        grid: dict[str, list] = {"model": [model.name], "connections": [clients]}
        if model.holds == "workers":
            grid["workers"] = [self.workers or clients]
        return {**grid, "requests_per_connection": [each]}


def chosen(models: Sequence[schema.Model], names: Sequence[str]) -> list[schema.Model]:
    """Return the models of these names, or all that are available; unknown ones stay.

    A name that the server does not know becomes a model of that name, so that the
    sweep refuses it and says what there is.
    """
    known = {model.name: model for model in models}
    if not names:
        return [model for model in models if model.available]
    return [known.get(n) or schema.Model(name=n, family="", label=n) for n in names]
