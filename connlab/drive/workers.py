"""How many workers a server gets so that none of its clients is left unserved.

A fixed worker that serves a client to its end (``holds`` is ``workers``) leaves others
waiting for as long as that client stays. What that does is a question of its own
(study 03); where servers are compared, such a model gets a worker for each client.
"""

from collections.abc import Sequence

from connlab import schema


def needed(model: schema.Model, connections: int) -> int | None:
    """Return the workers that so many clients need; None where any number will do."""
    fixed = model.workers == "fixed" and model.holds == "workers"
    return connections if fixed else None


def all_served(
    models: Sequence[schema.Model], names: Sequence[str], connections: Sequence[int]
) -> list[dict[str, list]]:
    """Return the grids of a sweep in which every client is served.

    Of the `models` those with `names` take part; all that can run here, if none is
    named. An unknown name stays, for the sweep to report. `connections` are the numbers
    of clients at once.
    """
    available = {model.name: model for model in models if model.available}
    chosen = list(names or available)
    fixed = [n for n in chosen if n in available and needed(available[n], 1)]
    others = [name for name in chosen if name not in fixed]
    grids = [{"model": others, "connections": list(connections)}] if others else []
    return grids + [
        {"model": fixed, "connections": [clients], "workers": [clients]}
        for clients in connections
        if fixed
    ]
