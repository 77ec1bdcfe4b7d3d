"""runs/reference as it lies in the repository: facts that hold, of one evaluation."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from conftest import REFERENCE as RUN
from conftest import with_reference

from connlab import schema
from connlab.publish import contributing, results
from connlab.study import calibration
from connlab.study.results import commit_of

TRIALS = sorted(RUN.glob(f"*/{schema.TRIALS}*"))

pytestmark = with_reference


@pytest.fixture(scope="module")
def run() -> results.Run:
    return results.load_run(RUN.name, root=RUN.parent)


def test_there_are_trials_to_look_at() -> None:
    assert TRIALS


def test_what_a_clone_holds_of_it_is_small() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "."],
        cwd=RUN,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [RUN / name for name in listed.stdout.split("\0") if name]
    assert sum(path.stat().st_size for path in files) < contributing.SIZE_MOST


@pytest.mark.parametrize("path", TRIALS, ids=lambda path: path.parent.name)
def test_each_line_is_a_trial_of_its_study_and_no_other(path: Path) -> None:
    lines = schema.facts_bytes(path).splitlines()
    trials = [schema.Trial.model_validate_json(line) for line in lines]
    assert {trial.study for trial in trials} == {path.parent.name}
    assert len({trial.key for trial in trials}) == len(trials)
    assert {trial.schema_ for trial in trials} == {schema.SCHEMA}


@pytest.mark.parametrize("path", TRIALS, ids=lambda path: path.parent.name)
def test_its_trials_are_of_machines_that_the_manifest_describes(path: Path) -> None:
    known = json.loads((RUN / "manifest.json").read_text())["environments"]
    lines = schema.facts_bytes(path).splitlines()
    assert {json.loads(line)["environment"] for line in lines} <= known.keys()


def test_the_results_of_each_study_can_be_read(run: results.Run) -> None:
    unread = {name: s.reason for name, s in run.studies.items() if not s.results}
    assert unread == {}


def test_all_studies_were_evaluated_at_the_commit_of_the_run(run: results.Run) -> None:
    commits = {name: study.results.commit for name, study in run.studies.items()}
    assert set(commits.values()) == {commit_of(run.manifest)}, commits


def test_no_result_is_older_than_its_trials(run: results.Run) -> None:
    stale = {name: s.stale for name, s in run.studies.items() if s.stale}
    assert stale == {}


@pytest.mark.parametrize(
    "path",
    sorted(RUN.parent.glob("*/*/cells.csv")),
    ids=lambda p: "/".join(p.parts[-3:]),
)
def test_no_point_of_a_run_is_beyond_what_figures_draw_as_a_limit(path: Path) -> None:
    """A run of this machine (`make paper PROFILE=smoke`) is asked as well."""
    lines = calibration.lines(path.parts[-3], root=RUN.parent)
    assert calibration.beyond(pd.read_csv(path), lines) == []
