"""What a run offers to the paper, and the reasons where it offers nothing."""

import json
import re

import publish_made as made
import pytest

from connlab.publish import prepare, results


@pytest.fixture
def run(tmp_path):
    return made.write_run(tmp_path)


def study_of(run, name=made.STUDY):
    return made.load(run.parent).studies[name]


def test_a_whole_run_is_read(run):
    study = study_of(run)
    assert study.reason is None
    assert study.stale == []
    assert study.results.numbers[0].n == 10
    assert study.results.figures[1].id == "fig-response-time"


def test_a_run_that_is_not_there_names_those_that_are(run):
    with pytest.raises(FileNotFoundError, match=r"'mad-up'.*made-up"):
        results.load_run("mad-up", root=run.parent)


def test_trials_without_results_are_counted_in_the_reason(run):
    (run / made.STUDY / "results.json").unlink()
    study = study_of(run)
    assert study.results is None
    assert "150 trials" in study.reason
    (run / made.STUDY / "trials.jsonl").write_text(json.dumps(made.trial(1)) + "\n")
    assert "1 trial " in study_of(run).reason


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"schema": 1, "study"', "results.json"),
        (
            json.dumps({k: v for k, v in made.results().items() if k != "answer"}),
            "answer",
        ),
        (json.dumps(made.results() | {"schema": 2}), "schema 2"),
    ],
)
def test_what_cannot_be_read_becomes_a_reason(run, text, word):
    (run / made.STUDY / "results.json").write_text(text, "utf-8")
    study = study_of(run)
    assert study.results is None
    assert word in study.reason


@pytest.mark.parametrize("text", [None, "{", json.dumps({"schema": 2})])
def test_without_results_the_numbers_beside_them_count_for_nothing(run, text):
    """A section said "not measured here", and its sentences had old numbers."""
    assert made.load(run.parent).numbers
    path = run / made.STUDY / "results.json"
    path.unlink() if text is None else path.write_text(text)
    assert not made.load(run.parent).numbers


def test_a_study_that_failed_has_its_reason(run):
    (run / "idle").mkdir()
    reason = "io_uring is not allowed"
    made.write_json(run / "idle" / "failure.json", {"reason": reason})
    study = study_of(run, "idle")
    assert study.results is None
    assert study.reason == reason


def test_a_study_of_the_manifest_without_folder_is_known(run):
    made.edit(run / "manifest.json", studies={"idle": {}, made.STUDY: {}})
    assert study_of(run, "idle").reason == results.NO_RESULTS


def stale(run):
    """Return the numbers in each reason why the study's results are stale."""
    reasons = study_of(run).stale
    return [[int(n) for n in re.findall(r"\b\d+\b", reason)] for reason in reasons]


@pytest.fixture
def trials(run):
    return run / made.STUDY / "trials.jsonl"


def test_newer_trials_make_results_stale(run, trials):
    late = made.trial(999) | {"started_at": "2026-02-01T00:00:00+00:00"}
    made.append(trials, json.dumps(late) + "\n")
    assert stale(run) == [[1]]
    assert "1 trial " in study_of(run).stale[0]


def test_fewer_trials_make_results_stale(run, trials):
    trials.write_text("".join(trials.read_text().splitlines(True)[:40]))
    assert stale(run) == [[150, 40]]


def test_trials_of_absent_programs_may_be_left_out_of_results(run, trials):
    absent = {"kind": "unavailable", "reason": "not built"}
    for n in (998, 999):
        made.append(trials, json.dumps(made.trial(n) | {"failure": absent}) + "\n")
    assert stale(run) == []
    made.append(trials, json.dumps(made.trial(997)) + "\n")
    assert stale(run) == [[150, 153]]


def test_a_torn_last_line_is_not_a_trial(run, trials):
    made.append(trials, '{"study": "response-ti')
    assert stale(run) == []


def test_other_binaries_than_the_runs_newest_are_named_and_leave_nothing_stale(run):
    assert study_of(run).other_programs == []
    made.edit(run / "manifest.json", programs={"server": "cccc", "client": "bbbb"})
    study = study_of(run)
    assert (study.other_programs, study.stale) == (["server"], [])


def test_the_answer_of_stale_results_says_so_wherever_it_stands(run, tmp_path):
    """As in the section of another study, or in the abstract."""
    paper = made.copy_paper(tmp_path)

    def answer():
        loaded = made.load(run.parent)
        variables, _ = prepare.prepare(loaded, {}, paper, renderer="none")
        return variables[prepare.key(made.STUDY)]["answer"]

    assert "Stale" not in answer()
    made.outdate(run / made.STUDY)
    assert answer().endswith(" *(Stale.)*")


def test_mixed_binaries_make_results_stale(run, trials):
    mixed = [made.trial(n, server="ab"[n % 2]) for n in range(150)]
    trials.write_text("".join(json.dumps(t) + "\n" for t in mixed))
    (reason,) = study_of(run).stale
    assert re.search("2 .*server binaries", reason)
