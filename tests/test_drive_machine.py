"""What a manifest says of the sources that a run was measured with."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import drive_fakes
import pytest
from conftest import REFERENCE, with_reference

from connlab import schema
from connlab.drive import machine, procfs, store


@pytest.fixture
def sources(tmp_path, monkeypatch):
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


def test_studies_that_are_swept_at_once_all_stand_in_the_manifest(tmp_path):
    facts = {"made_at": "now", "environments": {}}

    def keep(study: str) -> None:
        entry = {"sweep": study}
        machine.keep_manifest(tmp_path, run="r", study=study, entry=entry, facts=facts)

    names = [f"study-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(keep, names))
    manifest = schema.read_json(tmp_path / "manifest.json")
    assert sorted(manifest["studies"]) == sorted(names)


def test_the_compiler_is_that_of_the_programs_that_are_measured(build_dir):
    assert machine.manifest()["compiler"]["version"]
    assert machine.manifest(drive_fakes.programs())["compiler"] is None


def test_sources_without_a_repository_name_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert machine._git() is None


def test_the_congestion_control_belongs_to_the_class():
    facts = machine.environment({})
    other = facts | {"congestion_control": "another"}
    assert machine.environment_class(facts) != machine.environment_class(other)
    assert machine.differences(facts, other) == "congestion_control"


@pytest.mark.parametrize(
    ("available", "whole", "quota", "more"),
    [
        ((0, 1), 2, None, {}),
        ((0, 4, 1), 2, None, {"physical_cores": 2}),
        ((0, 1), 2, 2.5, {"cpu_quota": 2.5}),
    ],
)
def test_what_few_machines_have_is_in_the_class_only_where_it_is(
    monkeypatch, available, whole, quota, more
):
    monkeypatch.setattr(machine.cores, "available", lambda: available)
    monkeypatch.setattr(procfs, "cpu_quota", lambda: quota)
    monkeypatch.setattr(machine.cores, "physical", lambda cores: [()] * whole)
    facts = machine.environment({})
    names = {"physical_cores", "cpu_quota"} & set(facts)
    assert {name: facts[name] for name in names} == more


ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {}\n\nprocessor\t: 1\n"


def test_processors_without_a_name_are_told_apart(monkeypatch):
    seen = set()
    for part in ("0xd0c", "0xd40"):
        files = {"/proc/cpuinfo": ARM.format(part)}
        monkeypatch.setattr(procfs, "read_text", lambda path, f=files: f.get(path, ""))
        seen.add(machine.environment({})["cpu"])
    assert len(seen) == 2


X86 = "cpu family\t: 26\nmodel\t\t: {}\nmodel name\t: AMD EPYC\nstepping\t: 1\n"


def test_processors_that_are_called_alike_are_told_apart(monkeypatch):
    seen = []
    for model in (2, 17):
        files = {"/proc/cpuinfo": X86.format(model)}
        monkeypatch.setattr(procfs, "read_text", lambda path, f=files: f.get(path, ""))
        seen.append(machine.environment({}))
    assert machine.differences(*seen) == "cpu_model"
    assert seen[0]["cpu_model"] == "family 26, model 2, stepping 1"


def test_trials_on_other_cores_are_of_another_class(monkeypatch):
    seen = [machine.environment({})]
    for text in ("0", "1", "1,0", "0,1"):
        monkeypatch.setenv(machine.cores.CHOSEN, text)
        monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: {0, 1})
        seen.append(machine.environment({}))
    assert len({machine.environment_class(facts) for facts in seen}) == 5


@with_reference
def test_a_class_measured_before_keeps_its_name():
    manifest = json.loads((REFERENCE / "manifest.json").read_text())
    for name, facts in manifest["environments"].items():
        assert machine.environment_class(facts) == name


def test_a_fact_that_only_the_older_class_has_is_a_difference():
    older = {"cpu": "a", "cpu_quota": 1.5}
    assert machine.differences(older, {"cpu": "a"}) == "cpu_quota"
    assert machine.differences({"cpu": "a"}, older) == "cpu_quota"


@pytest.mark.parametrize(("asked", "left"), [(1_000_000, None), (900, 900), (100, 100)])
def test_a_limit_is_lowered_and_never_raised(monkeypatch, tmp_path, asked, left):
    limits, done = {"descriptors": {"soft": 900, "hard": 900}}, Mock()
    monkeypatch.setattr(machine, "limits", lambda: limits)
    monkeypatch.setattr(machine.resource, "setrlimit", done)
    assert machine.lower_descriptors(asked) == left
    assert [call.args[1] for call in done.mock_calls] == [(left, left)] * bool(left)
    # of a run that is evaluated, nothing is lowered
    manifest = tmp_path / store.MANIFEST
    manifest.write_text(json.dumps({"machine": {"limits": limits}}))
    assert machine.lower_descriptors(asked, tmp_path) == left
    assert len(done.mock_calls) == bool(left)


def test_a_path_is_shortened_where_it_ends_and_not_within_a_name():
    root = str(schema.project_root())
    text = f"{root}/a {root}-old/b {root}2/c ({root})"
    assert machine.without_paths(text) == f"./a {root}-old/b {root}2/c (.)"
