"""Notebooks that join a run with other parameters take the trials that these ask for.

A run holds all trials that were ever asked of it. Levels of what a study varies stand
beside each other; of any other setting the trials of one value make a cell.
"""

import json
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import notebook_rules as rules
import numpy as np
import pandas as pd
import pytest
import study_made as made

import connlab.study
from connlab import parameters
from connlab.drive import counting, grid, profiling, workers


class Loaded(Exception):
    """The notebook has said which trials it takes."""


def swept(name: str, *ids: str, **given: Any) -> tuple[list[dict], Any]:
    """Return the cells that a notebook would measure, and which trials it would take.

    `ids` are its cells up to the one that loads them.
    """
    declared = parameters.parse(rules.code(name)["cell-01"]).values()
    values = {p.name: p.default for p in declared} | {"models": ["epoll"]} | given
    told = {"models": lambda _: [], "core_count": lambda _: 2}
    drive = Mock(all_served=workers.all_served, **told)
    study = Mock()
    study.load.side_effect = Loaded
    names = {"np": np, "pd": pd, "drive": drive, "study": study}
    with pytest.raises(Loaded):
        rules.execute(name, *ids, **names | values)
    sweeps = [call.kwargs for call in drive.sweep.mock_calls]
    asked = [(sweep["factors"], sweep.get("fixed", {})) for sweep in sweeps]
    cells = [cell for both in asked for cell in grid.cells(*both, {})]
    return cells, study.load.call_args.kwargs["only"]


CELLS = {
    "00-the-machine": ("cell-06", "cell-07", "cell-09"),
    "01-response-time": ("cell-04", "cell-06"),
    "02-breaking-points": ("cell-06", "cell-08"),
    "03-pools": ("cell-04", "cell-06", "cell-08", "cell-10", "cell-11", "cell-13"),
    "05-bulk": ("cell-04", "cell-05", "cell-07"),
    "06-idle": ("cell-04", "cell-60"),
    "07-uring": ("cell-04", "cell-06"),
    "08-cores": ("cell-04", "cell-06"),
    "09-doubts": ("cell-04", "cell-05"),
    "11-load": ("cell-04", "cell-05"),
    "12-why": ("cell-04", "cell-07"),
}
RAMP = {"grids": [{"model": ["epoll"], "connections": [10]}]}


@pytest.mark.parametrize(
    ("number", "changed"),
    [
        ("00", {"connections": 20}),
        ("00", {"many": 500}),
        ("00", {"crowd": 10}),
        ("00", {"known_ms": 7.0}),
        ("00", {"extra_ns": 700}),
        ("01", {"size": 64}),
        ("01", {"engine": "epoll"}),
        ("02", {"size": 15} | RAMP),
        ("02", {"descriptors": 900} | RAMP),
        ("03", {"time_scale": 0.02}),
        ("03", {"wait_ms": 3.0}),
        ("05", {"byte_rate": 1000}),
        ("05", {"block": 10}),
        ("06", {"size": 64}),
        ("06", {"active": 50}),
        ("06", {"idle": [0]}),
        ("06", {"talking": [1]}),
        ("07", {"size": 64}),
        ("08", {"connections": 20}),
        ("08", {"turn": 10}),
        ("08", {"crowd": 2}),
        ("08", {"cores": 1}),
        ("09", {"stall": 100.0}),
        ("09", {"rate": 500.0}),
        ("09", {"connections": 20}),
        ("11", {"task": "20us"}),
        ("11", {"turn": 20.0}),
        ("12", {"size": 15}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, Mapping) else value,
)
def test_trials_of_another_setting_are_left_out(tmp_path, number, changed):
    (name,) = (name for name in CELLS if name.startswith(number))
    ramp = RAMP if number == "02" else {}
    before, _ = swept(name, *CELLS[name], **ramp)
    after, only = swept(name, *CELLS[name], **changed)
    others = [cell for cell in before if cell not in after]
    assert others
    every = enumerate(after + others)
    trials = [made.trial(key=str(n), factors=cell) for n, cell in every]
    made.write(tmp_path, trials)
    load = connlab.study.load
    assert json.loads(json.dumps(only)) == only  # as results keep it
    taken = load("made", made.STUDY, root=tmp_path, only=only, warn=False)
    assert set(taken["key"].astype(int)) == set(range(len(after)))


def test_counts_and_profiles_are_of_the_messages_asked_for(tmp_path):
    cell = {"model": "epoll", "connections": 50, "active": 50, "failure": None}
    own, others = ({"size": size} for size in (64, 4096))
    trees = [{"name": "", "value": n, "children": []} for n in (1, 2)]
    for file, first, later in (
        (counting.FILE, {"per_request": {"read": 1.0}}, {"per_request": {"read": 2.0}}),
        (profiling.FILE, {"tree": trees[0]}, {"tree": trees[1]}),
    ):
        rows = [cell | own | first, cell | others | later]
        lines = [row | {"repeat": 0} for row in rows]
        made.write(tmp_path, lines, study="why", file=file)
    names = {"run": "made", "root": tmp_path, "size": 64, "measured": None}
    names |= {"report": Mock(), "refused": None, "blind": None}
    names["figures"] = Mock(labels=lambda _: {})
    found = rules.execute("12-why", "cell-14", "9458abca", **names)
    assert found["counts"]["read"].tolist() == [1.0]
    assert [row["tree"] for row in found["taken"]] == trees[:1]
