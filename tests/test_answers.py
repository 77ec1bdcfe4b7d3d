"""What notebooks say of a run that holds little: the reference with trials left out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import publish_made as made
import pytest
from conftest import REFERENCE, with_reference

from connlab import evaluate, notebook, schema

pytestmark = [with_reference, pytest.mark.long]


@pytest.fixture
def evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Return a function: a study's results from changed trials of the reference.

    Its second argument maps a trial to the one that takes its place, None for none.
    """
    run = made.project_of_reference(tmp_path)
    monkeypatch.setenv("CONNLAB_HOME", str(tmp_path))
    monkeypatch.setattr(evaluate.paper, "judge", lambda run: "claims: of no study")

    def results(number: str, change: Callable[[dict], dict | None]) -> dict:
        study = notebook.study_of(notebook.find(number))
        shutil.copytree(REFERENCE / study, run / study, dirs_exist_ok=True)
        facts = schema.facts_file(run / study / schema.TRIALS)
        changed = map(change, schema.read_log(facts).trials)
        facts.unlink()
        lines = [json.dumps(trial) + "\n" for trial in changed if trial]
        (run / study / schema.TRIALS).write_text("".join(lines))
        assert evaluate.make("reference", nb=number) == {}
        return json.loads((run / study / "results.json").read_text())

    return results


@pytest.mark.parametrize(
    ("number", "model", "label"),
    [
        ("01", "epoll", "epoll, level-triggered"),
        ("04", "epoll", "epoll, level-triggered"),
        ("05", "epoll", "epoll, level-triggered"),
        ("07", "epoll", "io_uring"),
        ("08", "pool", "pool"),
    ],
)
def test_one_model_is_named_once(evaluated, number, model, label):
    def of_model(trial: dict) -> dict | None:
        return trial if trial["factors"]["model"] == model else None

    answer = evaluated(number, of_model)["answer"]
    assert answer.count(label) == 1


def test_one_number_of_workers_has_an_answer(evaluated):
    def few(trial: dict) -> dict | None:
        stays = trial["factors"]["requests_per_connection"] == 0
        return trial if stays or trial["factors"]["workers"] == 1 else None

    assert evaluated("08", few)["answer"]


def test_a_guestbook_that_nobody_served_anew_has_an_answer(evaluated):
    def failed(trial: dict) -> dict:
        stays = trial["factors"]["requests_per_connection"] == 0
        failure = {"kind": "no-connection", "reason": "made up"}
        return trial if stays else trial | {"failure": failure}

    assert evaluated("04", failed)["answer"]
