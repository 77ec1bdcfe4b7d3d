"""Claims are judged once, and again when an input of a verdict has changed."""

import json

import pytest
import study_made as made
import yaml

from connlab import claims, schema
from connlab.claims import judging

OURS = claims.ledger(schema.project_root() / "paper" / "rereadings.yml")
CLAIM = next(c for c in OURS if c.published)


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """Judge one claim of a made-up run; the list says how often that took work."""
    made.write(tmp_path, made.sweep(("thread", "epoll"), (10,)), study="response-time")
    (tmp_path / "made" / "manifest.json").write_text("{}")
    ledger = tmp_path / "claims.yml"
    ledger.write_text(yaml.safe_dump([CLAIM.model_dump(mode="json")]), "utf-8")
    worked = []

    def counted(*given, **named):
        worked.append(given)
        return judge_all(*given, **named)

    judge_all = claims.judge_all
    monkeypatch.setattr(claims, "judge_all", counted)

    def once():
        answer = judging.judge(
            "made", root=tmp_path, ledger=ledger, kept=tmp_path / "kept"
        )
        assert answer.startswith("Of 1 claim of earlier reports 1 ")
        return len(worked)

    return once


def append(path, text):
    path.write_text(path.read_text("utf-8") + text, "utf-8")


def test_nothing_new_is_not_judged_anew(judge):
    assert [judge(), judge(), judge()] == [1, 1, 1]


def test_what_is_drawn_from_trials_is_no_input(judge, tmp_path):
    judge()
    figures = tmp_path / "made" / "response-time" / "figures"
    figures.mkdir()
    (figures / "facts.json").write_text("{}")
    (tmp_path / "made" / "response-time" / "notebook.ipynb").write_text("{}")
    assert judge() == 1


@pytest.mark.parametrize(
    "name", ["made/response-time/trials.jsonl", "made/manifest.json", "claims.yml"]
)
def test_an_input_that_changed_is_judged_anew(judge, tmp_path, name):
    judge()
    append(tmp_path / name, "\n")
    assert [judge(), judge()] == [2, 2]


def test_a_trial_file_that_is_gone_or_new_is_judged_anew(judge, tmp_path):
    judge()
    trials = tmp_path / "made" / "response-time" / "trials.jsonl"
    other = tmp_path / "made" / "pools" / "trials.jsonl"
    other.parent.mkdir()
    trials.rename(other)
    assert judge() == 2


@pytest.mark.parametrize("left", ["", "{", "[1, 2]", '{"key": "x"}', "\x00"])
def test_a_key_that_cannot_be_read_is_made_anew(judge, tmp_path, left):
    judge()
    (note,) = (tmp_path / "kept").iterdir()
    note.write_text(left, "utf-8")
    assert [judge(), judge()] == [2, 2]


def test_verdicts_that_are_gone_or_altered_are_made_anew(judge, tmp_path):
    judge()
    verdicts = tmp_path / "made" / "claims" / "results.json"
    before = json.loads(verdicts.read_text("utf-8"))
    verdicts.unlink()
    assert judge() == 2
    verdicts.write_text(json.dumps(before | {"answer": "All hold."}), "utf-8")
    assert judge() == 3
    assert json.loads(verdicts.read_text("utf-8"))["answer"] == before["answer"]


def test_code_and_libraries_are_inputs(judge, monkeypatch, tmp_path):
    judge()
    monkeypatch.setattr(judging.importlib.metadata, "version", lambda name: "0.0")
    assert judge() == 2
    monkeypatch.setattr(judging.schema, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    assert judge() == 3
