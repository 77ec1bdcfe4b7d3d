"""Recovery: a server that is sound again, and one that is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from connlab.drive import recovery

ROOT = Path(__file__).resolve().parent.parent


def test_recovered_wants_everything_closed_and_everybody_answered():
    good = recovery.Recovery("m", 9, sockets=0, tasks=0, again=recovery.AGAIN)
    assert good.recovered
    for bad in ({"sockets": 1}, {"tasks": 2}, {"again": 0}, {"error": "died"}):
        assert not replace(good, **bad).recovered


def test_what_was_seen_is_kept_a_line_each(tmp_path):
    path = recovery.keep([recovery.Recovery("m", 9, error="died")], tmp_path / "new")
    (row,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert (row["model"], row["recovered"], row["error"]) == ("m", False, "died")


@pytest.mark.serial
@pytest.mark.skipif(
    not (ROOT / "build" / "server").exists()
    or not (ROOT / "build" / "client").exists(),
    reason="needs build/server and build/client",
)
def test_select_is_sound_again_after_more_than_it_can_watch():
    result = recovery.run("select", connections=1300, duration=0.2)
    assert result.held < 1024
    assert result.recovered, result
    missing = recovery.run("no-such-model", connections=1)
    assert missing.error
    assert not missing.recovered
