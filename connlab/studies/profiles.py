"""Where sampled CPU time goes, by parts of the path of a request.

    profiles.jsonl -> samples of each function -> parts, by kernel_functions.csv
                   -> frames of a flame graph

A sample belongs to the part of the innermost function that ``kernel_functions.csv``
lists; a helper that it does not list, such as a lock or an allocation, to the part of
its caller. What ran in user space is the server's own code.
"""

import functools
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from connlab.drive import profiling
from connlab.study.frames import as_trials, untimed_lines

#: the parts, in the order of a bar
PARTS = (
    *("own code", "entry and exit", "waiting call", "receive", "send", "delivery"),
    *("copy", "scheduler", "other"),
)
#: the sum of two parts
SENDING = "send and delivery"
CELL = ["model", "connections", "active"]
#: patterns of functions of the kernel, and the part of each; the first that fits counts
NAMED = pd.read_csv(Path(__file__).with_name("kernel_functions.csv")).to_numpy()


def profiles(
    run: str, *, size: int | None = None, root: str | Path = "runs"
) -> list[dict]:
    """Return the profiles of study 12 that have samples, the newest of each cell.

    With messages of `size` bytes, or of any.
    """
    rows = untimed_lines(run, "why", profiling.FILE, root=root, size=size)
    return list({(*_cell(row), row["repeat"]): row for row in rows}.values())


def _cell(profile: Mapping[str, Any]) -> tuple:
    return tuple(profile[column] for column in CELL)


def shares(profiles: list[dict]) -> pd.DataFrame:
    """Return the share (%) of each part in the samples of each profile.

    One row per profile and part, and for `SENDING`: model, connections, active, part,
    cpu_share; ok, label and reason as of trials.
    """
    rows = []
    for profile in profiles:
        tree, samples = profile["tree"], dict.fromkeys(PARTS, 0)
        for part, count in _self_samples(tree, "other"):
            samples[part] += count
        samples[SENDING] = samples["send"] + samples["delivery"]
        percents = ((part, 100 * n / tree["value"]) for part, n in samples.items())
        rows += [(*_cell(profile), *of_part) for of_part in percents]
    return as_trials(pd.DataFrame(rows, columns=[*CELL, "part", "cpu_share"]))


def _self_samples(node: Mapping[str, Any], part: str) -> Iterator[tuple[str, int]]:
    """Give part and samples of each function, without those of its callees."""
    children = node.get("children", ())
    yield part, node["value"] - sum(child["value"] for child in children)
    for child in children:
        yield from _self_samples(child, part_of(child["name"]) or part)


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
    parts = (part for glob, part in NAMED if fnmatchcase(name, glob))
    return next(parts, None)


def flames(profiles: list[dict], *, least: float = 0.5) -> pd.DataFrame:
    """Return the frames of a flame graph of each cell, its profiles merged.

    Columns model, connections, active, function, depth (0: innermost of user space),
    left and width (% of the samples), part; functions below `least` per cent are left
    out, with what they called.
    """
    by_cell: dict[tuple, list] = {}
    for profile in profiles:
        by_cell.setdefault(_cell(profile), []).append(profile["tree"])
    rows = []
    for cell, trees in by_cell.items():
        merged = _merged(trees)
        frames = _frames(merged, -1, 0.0, 100 / merged["value"], "other")
        rows += [(*cell, *frame) for frame in frames if frame[0]]
    columns = [*CELL, "function", "depth", "left", "width", "part"]
    table = pd.DataFrame(rows, columns=columns)
    return table[table["width"] >= least].reset_index(drop=True)


def _merged(trees: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one tree of several: functions with the same callers become one."""
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
