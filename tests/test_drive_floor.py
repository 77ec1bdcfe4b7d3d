"""What a busy core costs another: told where the program can tell it, else None."""

from __future__ import annotations

import importlib
import json
import stat

import pytest

#: the module; the package's own name `floor` is its function
floor = importlib.import_module("connlab.drive.floor")


def _told(slowdown) -> str:
    return "echo '" + json.dumps({"neighbour": {"slowdown": slowdown}}) + "'"


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (_told([1.25]), 1.25),
        (_told([None]), None),
        (_told([]), None),
        ("echo '{}'", None),
        ("echo nothing", None),
        ("echo 'floor: --what neighbour: want echo,…' >&2; exit 2", None),
        ("kill -9 $$", None),
        (None, None),
    ],
)
def test_a_program_that_cannot_tell_of_neighbours_ends_nothing(
    tmp_path, monkeypatch, script, found
):
    path = tmp_path / "floor"
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(stat.S_IRWXU)
    monkeypatch.setattr(floor, "_built", lambda: (str(path),))
    assert floor.neighbour(0.01) == found


def test_a_program_that_may_not_be_run_tells_nothing(tmp_path, monkeypatch):
    path = tmp_path / "floor"
    path.write_text("no program\n")
    path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setattr(floor, "_built", lambda: (str(path),))
    assert floor.neighbour(0.01) is None


def test_a_program_that_hangs_tells_nothing(tmp_path, monkeypatch):
    path = tmp_path / "floor"
    path.write_text("#!/bin/sh\nexec sleep 30\n")
    path.chmod(stat.S_IRWXU)
    monkeypatch.setattr(floor, "_built", lambda: (str(path),))
    monkeypatch.setattr(floor, "_TIMEOUT_S", 0.1)
    assert floor.neighbour(0.01) is None
