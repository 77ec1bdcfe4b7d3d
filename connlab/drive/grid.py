"""The grid of a sweep: cells, shuffled blocks, and the key of each trial.

A block holds every cell once, in an order that the sweep's seed and the block's number
fix, so that drift of the machine meets all cells alike and a sweep that goes on
tomorrow walks the same order as one that was never interrupted.
"""

import hashlib
import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.drive import flags

#: factors that are locations, which do not change what a trial measures
PLACES = ("redis", "root")


@dataclass(frozen=True)
class Slot:
    """The place of a trial in a sweep: its cell, repeat, block, and order in it.

    `copy` numbers, from 1 on, what was measured once more beside others, as they are
    compared with it.
    """

    cell: int
    repeat: int
    block: int
    order: int
    copy: int = 0


def grids(factors: Mapping | Sequence[Mapping]) -> tuple[Mapping[str, Sequence], ...]:
    """Return the grids of a sweep, whether it names one or several."""
    joined = (factors,) if isinstance(factors, Mapping) else factors
    return tuple(with_models(grid) for grid in joined)


def with_models(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which a `server` is called a `model`.

    A server may be a model, an entry of ``servers.toml`` or a command line; in trials
    all of them stand in the column `model`.
    """
    return {"model" if k == "server" else k: v for k, v in settings.items()}


def varied(factors: Mapping | Sequence[Mapping]) -> tuple[str, ...]:
    """Return the names of the factors of all grids, each once, in their order."""
    return tuple(dict.fromkeys(name for grid in grids(factors) for name in grid))


def cells(
    factors: Mapping[str, Sequence] | Sequence[Mapping[str, Sequence]],
    fixed: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> tuple[dict[str, Any], ...]:
    """Return every combination of the factors' levels, each with the fixed settings.

    Several grids are joined: what one factor's levels do not go with (a pool has a
    size, a thread per client has none) stands in another grid. A cell that two grids
    share is returned once. A setting that is neither a factor nor in `fixed` has its
    value from `defaults`: a value, or a function of the cell.

    ValueError for an unknown name, a factor without levels or with a level twice, a
    name that is both varied and fixed, or when no model is named.
    """
    if not grids(factors):
        raise ValueError("factors: no grid; name one at least")
    fixed = with_models(fixed)
    base = {"workload": "echo", **defaults, **fixed}
    joined = {}
    for grid in grids(factors):
        _check_grid(grid, fixed)
        for values in itertools.product(*grid.values()):
            cell = base | dict(zip(grid, values, strict=True))
            cell = {k: v(cell) if callable(v) else v for k, v in cell.items()}
            if cell.get("requests") is not None:
                cell |= {name: None for name in flags.LASTING if name in cell}
            joined.setdefault(cell_key(cell), cell)
    return tuple(joined.values())


def _check_grid(grid: Mapping[str, Sequence], fixed: Mapping[str, Any]) -> None:
    flags.check_names([*grid, *fixed])
    for name, levels in grid.items():
        if isinstance(levels, str) or not isinstance(levels, Sequence):
            raise ValueError(f"{name}: {levels!r}; a list of levels is wanted")
        if not levels:
            raise ValueError(f"{name}: no levels; name one at least")
        texts = [_text(name, level) for level in levels]
        if repeated := [text for text in texts if texts.count(text) > 1]:
            raise ValueError(f"{name}: level {repeated[0]} stands there twice")
    for name, value in fixed.items():
        _text(name, value)
    if both := set(grid) & set(fixed):
        raise ValueError(f"{sorted(both)[0]}: both a factor and fixed; choose one")
    if "model" not in grid and "model" not in fixed:
        raise ValueError("model: not given; name one model at least")


def _text(name: str, level: Any) -> str:
    try:
        return json.dumps(level)
    except TypeError:
        allowed = "numbers and texts of Python itself, as int(...) makes them"
        raise ValueError(f"{name}: {level!r}; allowed: {allowed}") from None


def round_of(
    cells: Sequence[int], *, number: int, counts: Sequence[int], seed: int
) -> tuple[Slot, ...]:
    """Return round `number`: some cells (a block: all of them), shuffled by `seed`.

    `counts` are the trials of each cell of the grid so far.
    """
    order = list(cells)
    random.Random(f"{seed}/{number}").shuffle(order)
    return tuple(
        Slot(cell=cell, repeat=counts[cell], block=number, order=place)
        for place, cell in enumerate(order)
    )


def key(
    factors: Mapping[str, Any],
    *,
    repeat: int,
    binaries: Mapping[str, str],
    environment: str,
    unavailable: str | None = None,
    carried_by: str | None = None,
    copy: int = 1,
) -> str:
    """Return the name that a trial is resumed by: a hash of all that defines it.

    Locations (`PLACES`) do not define it. The reason why a model is `unavailable` does,
    so that it is measured once it is available; so do the name of the set,
    `carried_by`, for which a baseline is measured once more, and which `copy` it is.
    """
    parts = [_defining(factors), repeat, dict(binaries), environment]
    parts += [] if unavailable is None else [unavailable]
    parts += [] if carried_by is None else ["carried", carried_by]
    parts += [] if copy <= 1 else [copy]
    return _hash(parts)


def cell_key(factors: Mapping[str, Any]) -> str:
    """Return a hash of a cell's factors and fixed settings."""
    return _hash(_defining(factors))


def _defining(factors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in factors.items() if name not in PLACES}


def client_seed(seed: int, repeat: int) -> int:
    """Return the client's seed: the same for every cell of one repeat.

    So arrivals and sizes are the same for all models that are compared in a block.
    """
    return random.Random(f"{seed}/client/{repeat}").randrange(1, 2**31)


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]
