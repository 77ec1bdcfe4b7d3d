"""What a manifest says of the sources that a run was measured with."""

from __future__ import annotations

import subprocess

import pytest

from connlab import schema
from connlab.drive import machine


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Return a repository with a program and a fact, both committed."""

    def git(*words: str) -> None:
        named = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
        subprocess.run(["git", "-C", tmp_path, *named, *words], check=True)

    git("init", "-q")
    (tmp_path / "runs").mkdir()
    for name in ("server.c", "runs/trials.jsonl"):
        (tmp_path / name).write_text("old\n")
    git("add", ".")
    git("commit", "-q", "-m", "all")
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "dirty"), [("server.c", True), ("runs/trials.jsonl", False)]
)
def test_a_fact_that_is_written_does_not_change_the_sources(sources, changed, dirty):
    assert machine._git()["dirty"] is False
    (sources / changed).write_text("new\n")
    assert machine._git()["dirty"] is dirty


def test_sources_without_a_repository_name_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert machine._git() is None


def test_the_congestion_control_belongs_to_the_class():
    facts = machine.environment({})
    other = facts | {"congestion_control": "another"}
    assert machine.environment_class(facts) != machine.environment_class(other)
    assert machine.differences(facts, other) == "congestion_control"
