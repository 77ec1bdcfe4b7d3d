"""What a busy core costs another: told where the program can tell it, else None."""

import importlib
import json
import stat

import pytest

#: the module; the package's own name `floor` is its function
floor = importlib.import_module("connlab.drive.floor")


def _prints(slowdown) -> str:
    return "echo '" + json.dumps({"neighbour": {"slowdown": slowdown}}) + "'"


def _neighbour(monkeypatch, path, text=None, mode=stat.S_IRWXU):
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    monkeypatch.setattr(floor, "_built", lambda: (str(path),))
    return floor.neighbour(0.01)


@pytest.mark.parametrize(
    ("script", "slowdown"),
    [
        (_prints([1.25]), 1.25),
        (_prints([None]), None),
        (_prints([]), None),
        ("echo '{}'", None),
        ("echo nothing", None),
        ("echo 'floor: --what neighbour: want echo,…' >&2; exit 2", None),
        ("kill -9 $$", None),
        (None, None),
    ],
)
def test_a_program_that_cannot_tell_of_neighbours_ends_nothing(
    tmp_path, monkeypatch, script, slowdown
):
    text = script and f"#!/bin/sh\n{script}\n"
    assert _neighbour(monkeypatch, tmp_path / "floor", text) == slowdown


def test_a_program_that_may_not_be_run_tells_nothing(tmp_path, monkeypatch):
    mode = stat.S_IRUSR | stat.S_IXUSR
    path = tmp_path / "floor"
    assert _neighbour(monkeypatch, path, "no program\n", mode) is None


def test_a_program_that_hangs_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(floor, "_TIMEOUT_S", 0.1)
    text = "#!/bin/sh\nexec sleep 30\n"
    assert _neighbour(monkeypatch, tmp_path / "floor", text) is None
