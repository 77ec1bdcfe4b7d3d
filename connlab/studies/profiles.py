"""Where sampled CPU time goes, by parts of the path of a request.

    profiles.jsonl -> samples of each function -> parts, by kernel_functions.csv
                   -> frames of a flame graph

A sample belongs to the part of the innermost function that ``kernel_functions.csv``
names; a helper that it does not name, such as a lock or an allocation, to the part of
its caller. What ran in user space is the server's own code.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from connlab import schema
from connlab.drive import profiling, store

#: the parts, in the order of a bar
PARTS = (
    "own code",
    "entry and exit",
    "waiting call",
    "receive",
    "send",
    "delivery",
    "copy",
    "scheduler",
    "other",
)
#: a part more: both together
SENDING = "send and delivery"
CELL = ["model", "connections", "active"]
_FUNCTIONS = Path(__file__).with_name("kernel_functions.csv")


def profiles(run: str, study: str = "why", *, root: str | Path = "runs") -> list[dict]:
    """Return the profiles of a study that have samples, the newest of each kept."""
    path = schema.study_folder(run, study, root=root) / profiling.FILE
    rows = [row for row in store.read(path).trials if not row.get("failure")]
    return list({(*(r[c] for c in CELL), r["repeat"]): r for r in rows}.values())


def shares(taken: list[dict]) -> pd.DataFrame:
    """Return the share (%) of each part in the samples of each profile.

    One row per profile and part, and for `SENDING`: model, connections, active, part,
    cpu_share; ok, label and reason as of trials.
    """
    columns = [*CELL, "part", "cpu_share", "ok", "label", "reason"]
    rows = [
        [*(row[c] for c in CELL), part, percent, True, None, None]
        for row in taken
        for part, percent in _percents(row["tree"]).items()
    ]
    return pd.DataFrame(rows, columns=columns)


def _percents(tree: Mapping[str, Any]) -> dict[str, float]:
    found = dict.fromkeys(PARTS, 0)
    for part, samples in _own(tree, "other"):
        found[part] += samples
    found[SENDING] = found["send"] + found["delivery"]
    return {part: 100 * n / tree["value"] for part, n in found.items()}


def _own(node: Mapping[str, Any], part: str) -> Iterator[tuple[str, int]]:
    """Give the part of the samples that each function took itself."""
    children = node.get("children", ())
    yield part, node["value"] - sum(child["value"] for child in children)
    for child in children:
        yield from _own(child, part_of(child["name"]) or part)


def more(one: pd.DataFrame, other: pd.DataFrame | float) -> bool | None:
    """Whether an interval lies above another, or above a number; None: unknown.

    Parameters
    ----------
    one, other : DataFrame
        A row each of `connlab.intervals.intervals`, or none; `other` may be a number.
    """
    lo, hi = (other, other) if not isinstance(other, pd.DataFrame) else _ends(other)
    low, high = _ends(one)
    return True if low > hi else False if high < lo else None


def _ends(row: pd.DataFrame) -> tuple[float, float]:
    nan = float("nan")
    return (row["lo"].item(), row["hi"].item()) if len(row) == 1 else (nan, nan)


@functools.cache
def part_of(function: str) -> str | None:
    """Return the part that a function stands for; None: that of its caller.

    Examples
    --------
    >>> part_of("tcp_sendmsg_locked_[k]"), part_of("kfree_[k]"), part_of("echo_step")
    ('send', None, 'own code')
    """
    if not function.endswith(profiling.KERNEL):
        return "own code"
    name = function.removesuffix(profiling.KERNEL).partition(".")[0]
    return next((part for glob, part in _named() if fnmatchcase(name, glob)), None)


@functools.cache
def _named() -> tuple[tuple[str, str], ...]:
    table = pd.read_csv(_FUNCTIONS)
    return tuple(zip(table["function"], table["group"], strict=True))


def flames(taken: list[dict], *, least: float = 0.5) -> pd.DataFrame:
    """Return the frames of a flame graph of each cell, its profiles put together.

    Columns model, connections, active, function, depth (0: innermost of user space),
    left and width (% of the samples), part; functions below `least` per cent are left
    out, with what they called.
    """
    by_cell: dict[tuple, list] = {}
    for row in taken:
        by_cell.setdefault(tuple(row[c] for c in CELL), []).append(row["tree"])
    found = []
    for cell, trees in by_cell.items():
        merged = _merged(trees)
        frames = _frames(merged, -1, 0.0, 100 / merged["value"], "other")
        found += [[*cell, *frame] for frame in frames if frame[0]]
    columns = [*CELL, "function", "depth", "left", "width", "part"]
    made = pd.DataFrame(found, columns=columns)
    return made[made["width"] >= least].reset_index(drop=True)


def _merged(trees: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one tree of several: functions with the same callers are one."""
    children: dict[str, list] = {}
    for tree in trees:
        for child in tree.get("children", ()):
            children.setdefault(child["name"], []).append(child)
    return {
        "name": trees[0]["name"],
        "value": sum(tree["value"] for tree in trees),
        "children": [_merged(same) for _, same in sorted(children.items())],
    }


def _frames(
    node: Mapping[str, Any], depth: int, left: float, scale: float, part: str
) -> Iterator[tuple]:
    name = node["name"]
    part = part_of(name) or part if depth >= 0 else part
    width = node["value"] * scale
    yield name.removesuffix(profiling.KERNEL), depth, left, width, part
    for child in node["children"]:
        yield from _frames(child, depth + 1, left, scale, part)
        left += child["value"] * scale
