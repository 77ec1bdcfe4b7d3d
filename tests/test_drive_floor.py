"""What a busy core costs another: told where the program can tell it, else None."""

import importlib
import json
import os
import sys

import pytest

#: the module; the package's own name `floor` is its function
floor = importlib.import_module("connlab.drive.floor")

SHELL = "#!/bin/sh\n"
HANGS = SHELL + "exec sleep 30\n"


def _prints(slowdown) -> str:
    report = json.dumps({"neighbour": {"slowdown": slowdown}})
    return f"{SHELL}echo '{report}'\n"


@pytest.mark.parametrize(
    ("text", "slowdown"),
    [
        (_prints([1.25]), 1.25),
        (_prints([None]), None),
        (_prints([]), None),
        (SHELL + "echo '{}'\n", None),
        (SHELL + "echo nothing\n", None),
        (SHELL + "echo 'floor: --what neighbour: want echo,…' >&2; exit 2\n", None),
        (SHELL + "kill -9 $$\n", None),
        (HANGS, None),
        ("no program\n", None),
        (None, None),
    ],
)
def test_a_program_that_cannot_tell_of_neighbours_ends_nothing(
    tmp_path, monkeypatch, text, slowdown
):
    path = tmp_path / "floor"
    if text:
        path.write_text(text)
        path.chmod(0o700)
    if text == HANGS:
        monkeypatch.setattr(floor, "_TIMEOUT_S", 0.1)
    monkeypatch.setattr(floor, "_built", lambda: (str(path),))
    assert floor.neighbour(0.01) == slowdown


def test_ctrl_c_leaves_the_floor_alone(tmp_path, monkeypatch):
    """The terminal signals a group: who notes that is to get what was measured."""
    path = tmp_path / "floor"
    path.write_text(
        f"#!{sys.executable}\nimport json, os\n"
        'print(json.dumps({"echo": {"server_cpu_per_request_s": [os.getpgrp()]}}))\n'
    )
    path.chmod(0o700)
    monkeypatch.setattr(floor, "_built", lambda: (str(path),))
    assert floor.echo(1, size=1, duration=0.01, pair=(0, 0)) != os.getpgrp()
