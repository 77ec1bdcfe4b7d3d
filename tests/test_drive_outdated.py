"""Which runs can go on, and what becomes of those that cannot."""

import json

import pytest

from connlab.drive import machine, outdated, programs, store

NOW = {"kernel": "6.1", "binaries": {"server": "new", "client": "new"}}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return the folder of a run, and a function that writes its manifest."""
    built = type("Built", (), {"digests": lambda self: NOW["binaries"]})
    monkeypatch.setattr(programs, "built", built)
    monkeypatch.setattr(machine, "environment", lambda binaries: dict(NOW))
    folder = tmp_path / "quick"
    folder.mkdir()

    def keep(*environments: dict, **more: str) -> None:
        classes = {machine.environment_class(facts): facts for facts in environments}
        newest = list(classes)[-1] if classes else None
        manifest = {"made_at": "2026-01-02T03:04:05", "environment": newest, **more}
        manifest["environments"] = classes
        (folder / store.MANIFEST).write_text(json.dumps(manifest))

    return folder, keep


def test_a_run_of_today_or_without_trials_goes_on(run):
    folder, keep = run
    assert outdated.changes(folder) is None
    keep()
    assert outdated.changes(folder) is None
    keep(NOW)
    assert outdated.changes(folder) is None


def test_hosts_of_one_study_do_not_make_a_run_outdated(run):
    folder, keep = run
    keep(NOW | {"stand_in": True})
    assert outdated.changes(folder) is None


@pytest.mark.parametrize("name", ["chosen_cores", "cpu_quota", "clients"])
def test_what_only_the_older_run_had_is_a_change(run, name):
    """Its trials are of another class: measured in one run, every study would fail."""
    folder, keep = run
    keep(NOW | {name: [1, 0]})
    assert outdated.changes(folder) == name


def test_one_study_of_today_is_enough(run):
    folder, keep = run
    keep(NOW | {"kernel": "5.9"}, NOW)
    assert outdated.changes(folder) is None


def test_what_changed_is_named(run):
    folder, keep = run
    keep(NOW | {"binaries": {"server": "old", "client": "new"}, "kernel": "5.9"})
    assert outdated.changes(folder) == "kernel, binaries"


def test_an_old_run_keeps_all_under_the_day_of_its_last_trial(run):
    folder, keep = run
    keep(NOW, renewed_at="2026-02-03T04:05:06")
    (folder / "trials.jsonl").write_text("{}\n")
    kept = outdated.rename_run(folder)
    assert kept.name == "quick-2026-02-03"
    assert (kept / "trials.jsonl").read_text() == "{}\n"
    assert not folder.exists()


def test_no_run_is_written_over(run):
    folder, keep = run
    for expected in ("quick-2026-01-02", "quick-2026-01-02-2", "quick-2026-01-02-3"):
        folder.mkdir(exist_ok=True)
        keep(NOW)
        assert outdated.rename_run(folder).name == expected
