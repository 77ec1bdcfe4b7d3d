"""Each runs/reference-* in the repository: facts that hold, of one evaluation."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import REFERENCE, ROOT, in_repository, with_reference

from connlab import schema
from connlab.publish import contributing, reference, results
from connlab.study import calibration, frames
from connlab.study.interval import Interval
from connlab.study.results import commit_of

RUNS = reference.folders(ROOT / "runs")
TRIALS = sorted(path for run in RUNS for path in run.glob(f"*/{schema.TRIALS}*"))

pytestmark = with_reference

of_each_run = pytest.mark.parametrize(
    "folder", RUNS, ids=lambda p: p.name, scope="module"
)
of_each_study = pytest.mark.parametrize(
    "path", TRIALS, ids=lambda path: "/".join(path.parts[-3:-1])
)


@pytest.fixture(scope="module")
def run(folder: Path) -> results.Run:
    return results.load_run(folder.name, root=folder.parent)


@of_each_run
def test_there_are_trials_to_look_at(folder):
    assert [path for path in TRIALS if path.is_relative_to(folder)]


def test_the_reference_is_the_first_of_them():
    assert RUNS[0] == REFERENCE.resolve()


@in_repository
@of_each_run
def test_what_a_clone_holds_of_it_is_small(folder):
    command = ["git", "ls-files", "-z", "."]
    listed = subprocess.check_output(command, cwd=folder, text=True)
    files = [folder / name for name in listed.split("\0") if name]
    assert sum(path.stat().st_size for path in files) < contributing.SIZE_MOST


@of_each_study
def test_each_line_is_a_trial_of_its_study_on_a_machine_of_the_manifest(path):
    lines = schema.facts_bytes(path).splitlines()
    trials = [schema.Trial.model_validate_json(line) for line in lines]
    assert {trial.study for trial in trials} == {path.parent.name}
    assert len({trial.key for trial in trials}) == len(trials)
    assert {trial.schema_ for trial in trials} == {schema.SCHEMA}
    manifest = json.loads((path.parents[1] / "manifest.json").read_text())
    assert {trial.environment for trial in trials} <= manifest["environments"].keys()


@of_each_run
def test_the_results_of_each_study_can_be_read(run):
    unread = {name: s.reason for name, s in run.studies.items() if not s.results}
    assert unread == {}


@of_each_run
def test_all_studies_were_evaluated_at_the_commit_of_the_run(run):
    commits = {name: study.results.commit for name, study in run.studies.items()}
    assert set(commits.values()) == {commit_of(run.manifest)}, commits


@of_each_run
def test_no_result_is_older_than_its_trials(run):
    stale = {name: s.stale for name, s in run.studies.items() if s.stale}
    assert stale == {}


def beyond(
    cells: pd.DataFrame, lines: Mapping[str, Mapping[str, Interval]]
) -> list[str]:
    """Return a sentence for each cell whose interval lies above that of a limit.

    A limit without an interval refutes nothing. All limits are rates.
    """
    lowest = cells["lo"].fillna(cells["value"])
    return [
        f"{metric} from {low:.4g} on is beyond {label}, at most {line.hi:.4g}"
        for metric, by_label in lines.items()
        for label, line in by_label.items()
        if label in calibration.LIMITS and line.determined
        for low in lowest[(cells["metric"] == metric) & (lowest > line.hi)]
    ]


def test_a_point_is_beyond_a_limit_when_its_whole_interval_is():
    ceiling = Interval(10.0, 9.0, 11.0, 5, 0.95, "t")
    for_orientation = Interval(1.0, 0.9, 1.1, 5, 0.95, "t")
    both = {calibration.CEILING: ceiling, "two calls": for_orientation}
    lines = {"throughput_rps": both}
    rates = [12.0, 12.0, 10.5, 13.0]
    cells = pd.DataFrame({"metric": "throughput_rps", "value": rates})
    cells["lo"] = [11.5, 10.5, np.nan, np.nan]
    assert len(beyond(cells, lines)) == 2
    assert beyond(cells.assign(metric="response_mean_s"), lines) == []
    assert beyond(cells, {}) == []


@pytest.mark.parametrize(
    "path",
    sorted(REFERENCE.parent.glob("*/*/cells.csv")),
    ids=lambda p: "/".join(p.parts[-3:]),
)
def test_no_point_of_a_run_is_beyond_what_figures_draw_as_a_limit(path):
    """A run of this machine (`make paper PROFILE=smoke`) is asked as well.

    The client's ceiling is that of the client which study 00 measured: not of one that
    waits in another way, as in studies of the Intel reference and where messages are
    large.
    """
    ours, known = engines_of(path.parent), engines_of(path.parents[1] / "the-machine")
    if ours and ours.isdisjoint(known):
        pytest.skip(f"its client waits with {' and '.join(sorted(ours))}")
    lines = calibration.lines(path.parts[-3], root=REFERENCE.parent)
    assert beyond(pd.read_csv(path), lines) == []


def engines_of(study: Path) -> set[str]:
    """Return how the clients of a study wait; empty where it has no trials."""
    if not schema.facts_file(study / schema.TRIALS).is_file():
        return set()
    facts = schema.facts_bytes(study / schema.TRIALS)
    found = re.findall(rb'"engine": ?"(epoll|uring)"', facts)
    return {engine.decode() for engine in set(found)}


@of_each_run
def test_a_client_that_kept_only_some_users_waiting_is_remarked(folder, run):
    trials = frames.load(folder.name, "response-time", root=folder.parent, warn=False)
    busy = trials.query("ok and connections == 1000").dropna(subset=["waiting_users"])
    share = (busy["waiting_users"] / busy["asked"]).astype(float)
    by_model = share.groupby(busy["model"]).median()
    remarks = reference.remarks(run, {}, ROOT / "paper", "caption")
    assert bool(remarks) == (by_model.min() < 0.75), by_model


@of_each_run
def test_turns_that_ended_after_few_answers_are_remarked(folder, run):
    """1000 users have had 25 answers each by now, in some 100 ms."""
    facts = schema.facts_bytes(folder / "response-time" / schema.TRIALS)
    trials = map(json.loads, facts.splitlines())
    answers = [
        np.median(trial["turns"]["requests"]) / 1000
        for trial in trials
        if trial["factors"]["model"] == "epoll"
        and trial["factors"]["connections"] == 1000
    ]
    text = " ".join(reference.remarks(run, {}, ROOT / "paper", "text"))
    assert ("had eight answers" in text) == (np.median(answers) < 20), answers


@of_each_run
def test_runtimes_that_met_short_turns_and_no_warm_up_are_remarked(folder, run):
    trials = frames.load(folder.name, "runtimes", root=folder.parent, warn=False)
    busy = trials[trials["beside"].notna() & trials["active"].isna()]
    long_turns = busy.query("rate.isna() and workload == 'echo'")["slice"].max() > 20
    warmed = busy.query("model == 'netty'")["warmed_s"].notna().all()
    assert long_turns == warmed
    text = " ".join(reference.remarks(run, {}, ROOT / "paper", "text"))
    assert ("Runtimes had turns of 20 ms" in text) == (not long_turns)
    assert ("no warm-up" in text) == (not warmed)


@of_each_run
def test_a_client_that_slept_is_remarked(folder, run):
    facts = schema.facts_bytes(folder / "response-time" / schema.TRIALS)
    waits = {match.decode() for match in re.findall(rb'"spin": ?"([^"]+)"', facts)}
    text = " ".join(reference.remarks(run, {}, ROOT / "paper", "text"))
    assert ("client slept" in text) == (waits != {"always"}), waits
