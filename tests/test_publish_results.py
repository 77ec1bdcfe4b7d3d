"""What a run offers to the paper, and the reasons where it offers nothing."""

import json

import publish_made as made
import pytest

from connlab.publish import results


@pytest.fixture
def run(tmp_path):
    return made.write_run(tmp_path)


def load(run):
    return results.load_run(run.name, root=run.parent)


def test_a_whole_run_is_read(run):
    study = load(run).studies[made.STUDY]
    assert study.reason is None
    assert study.stale == []
    assert study.results.numbers[0].n == 10
    assert study.results.figures[1].id == "fig-response-time"


def test_a_run_that_is_not_there_names_those_that_are(run):
    with pytest.raises(FileNotFoundError, match=r"'mad-up'.*made-up"):
        results.load_run("mad-up", root=run.parent)


def test_trials_without_results_are_counted_in_the_reason(run):
    (run / made.STUDY / "results.json").unlink()
    study = load(run).studies[made.STUDY]
    assert study.results is None
    assert study.reason == "150 trials were run, but the study was not evaluated"


def without_answer():
    content = made.results()
    del content["answer"]
    return content


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": 1, "study"', "cannot be read"),
        (json.dumps(without_answer()), "answer"),
        (json.dumps(made.results() | {"schema": 2}), "schema 2"),
    ],
)
def test_what_cannot_be_read_becomes_a_reason(run, text, said):
    (run / made.STUDY / "results.json").write_text(text, "utf-8")
    study = load(run).studies[made.STUDY]
    assert study.results is None
    assert said in study.reason


def test_a_study_that_failed_says_why(run):
    folder = run / "idle"
    folder.mkdir()
    made.write_json(folder / "failure.json", {"reason": "io_uring is not allowed"})
    study = load(run).studies["idle"]
    assert study.results is None
    assert study.reason == "io_uring is not allowed"


def test_a_study_of_the_manifest_without_folder_is_known(run):
    studies = {"idle": {"reason": "it was not in this profile"}, made.STUDY: {}}
    made.edit(run / "manifest.json", studies=studies)
    assert load(run).studies["idle"].reason == "it was not in this profile"


def test_newer_trials_make_results_stale(run):
    with (run / made.STUDY / "trials.jsonl").open("a") as lines:
        late = made.trial(999) | {"started_at": "2026-02-01T00:00:00+00:00"}
        lines.write(json.dumps(late) + "\n")
    assert load(run).studies[made.STUDY].stale == [
        "1 trials are newer than these results"
    ]


def test_fewer_trials_make_results_stale(run):
    path = run / made.STUDY / "trials.jsonl"
    path.write_text("".join(path.read_text().splitlines(True)[:40]))
    assert "150 trials, the run now holds 40" in load(run).studies[made.STUDY].stale[0]


def test_a_torn_last_line_is_not_a_trial(run):
    with (run / made.STUDY / "trials.jsonl").open("a") as lines:
        lines.write('{"study": "response-ti')
    assert load(run).studies[made.STUDY].stale == []


def test_other_binaries_than_the_runs_newest_are_named_and_leave_nothing_stale(run):
    assert load(run).studies[made.STUDY].other_programs == []
    made.edit(run / "manifest.json", programs={"server": "cccc", "client": "bbbb"})
    study = load(run).studies[made.STUDY]
    assert (study.other_programs, study.stale) == (["server"], [])


def test_mixed_binaries_make_results_stale(run):
    path = run / made.STUDY / "trials.jsonl"
    mixed = [made.trial(n, server="ab"[n % 2]) for n in range(150)]
    path.write_text("".join(json.dumps(t) + "\n" for t in mixed))
    stale = load(run).studies[made.STUDY].stale
    assert any("2 different server binaries" in reason for reason in stale)


def test_another_commit_makes_results_stale(run):
    made.edit(run / made.STUDY / "results.json", commit="f" * 40)
    assert "evaluated at commit ffffffffff" in load(run).studies[made.STUDY].stale[0]
