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


def test_what_was_never_measured_is_not_outdated(run):
    folder, _ = run
    assert outdated.changes(folder) is None


OLD = {"binaries": {"server": "old", "client": "new"}, "kernel": "5.9"}
RUNS = {
    "without trials": ([], None),
    "of today": ([NOW], None),
    "with hosts of one study": ([NOW | {"stand_in": True}], None),
    "with one study of today": ([NOW | {"kernel": "5.9"}, NOW], None),
    "of another build and kernel": ([NOW | OLD], "kernel, binaries"),
    # measured in one run, every study would fail: its trials are of another class
    **{
        f"with {name}": ([NOW | {name: [1, 0]}], name)
        for name in ("chosen_cores", "cpu_quota", "clients")
    },
}


@pytest.mark.parametrize(("environments", "changes"), RUNS.values(), ids=RUNS)
def test_what_changed_since_a_run_is_named(run, environments, changes):
    folder, keep = run
    keep(*environments)
    assert outdated.changes(folder) == changes


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
