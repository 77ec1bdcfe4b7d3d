"""A run that is evaluated again: it stands in for this machine, and nothing is run."""

import json

import pytest
import study_made as made
from conftest import REFERENCE, with_reference

from connlab import drive, schema
from connlab.drive import cases, recovery, redis, store
from connlab.drive.floor import FILE as FLOOR

pytestmark = with_reference


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> dict:
    """Return the manifest of the reference; nothing can be measured meanwhile."""
    monkeypatch.setenv("PATH", "")  # whatever is looked for is not there
    monkeypatch.setenv("CONNLAB_BUILD", "/nowhere")
    return json.loads((REFERENCE / "manifest.json").read_text())


def lines(path: str) -> list[dict]:
    return list(schema.read_log(REFERENCE / path).trials)


def test_a_sweep_takes_what_is_there_and_writes_nothing(tmp_path):
    trials = made.sweep(("select", "epoll"), (1, 2000), blocks=3)
    made.write(tmp_path, trials, tail='{"schema": 1, "ke')
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    factors = {"model": ["no model of this build"], "connections": [3]}
    where = {"run": "made", "root": tmp_path}
    report = drive.sweep("response-time", factors=factors, measure=False, **where)
    assert (report.done, report.resumed, report.failed) == (0, 12, 0)
    assert report.stopped_because == store.NOT_MEASURED
    assert report.flagged == 3  # select beyond FD_SETSIZE
    assert "cut short" in report.remarks[0]
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_rounds_of_the_floor_are_those_on_disk(reference):
    rounds = len(lines(f"the-machine/{FLOOR}"))
    asked = {"run": "reference", "rounds": 10**6, "measure": False}
    assert drive.floor("the-machine", **asked) == rounds


def test_models_cores_and_limits_are_of_the_machine_that_was_measured(reference):
    names = [model["name"] for model in reference["registry"]["models"]]
    assert [model.name for model in drive.models(REFERENCE)] == names
    assert drive.core_count(REFERENCE) == reference["machine"]["cores"]
    report = drive.doctor(REFERENCE)
    assert reference["machine"]["cpu"] in str(report)
    held = {capacity.model: capacity.connections for capacity in report.capacities}
    hard = reference["machine"]["limits"]["descriptors"]["hard"]
    assert held["epoll"] == hard - 16
    lowered = {
        capacity.model: capacity
        for capacity in drive.doctor(REFERENCE, descriptors=500).capacities
    }
    assert lowered["epoll"].connections == 484


def test_what_was_seen_beside_the_trials_is_read_back(reference):
    folder = REFERENCE / "breaking-points"
    recoveries = recovery.try_all({"epoll": 1, "fork": 1}, folder, measure=False)
    kept = lines("breaking-points/recovery.jsonl")
    assert {row["model"]: row for row in recoveries} == {
        row["model"]: row for row in kept if row["model"] in ("epoll", "fork")
    }
    answers = cases.ask_all(["poll"], REFERENCE / "cases", measure=False)
    assert [row["subject"] for row in answers] == ["poll"] * 6 + ["client"] * 6
    assert {row["question"] for row in answers} == set(cases.QUESTIONS)


def test_no_redis_is_started(reference):
    with redis.serving(program="/bin/false", measure=False) as place:
        assert place.address is None
        assert place.reason == store.NOT_MEASURED


def test_without_a_manifest_nobody_knows_the_machine(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"manifest\.json"):
        drive.models(tmp_path)
