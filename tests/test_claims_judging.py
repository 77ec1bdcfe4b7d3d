"""Claims are judged once, and again when an input of a verdict has changed."""

import json
import re
from unittest.mock import Mock

import pytest
import study_made as made
import yaml

from connlab import claims, schema
from connlab.claims import judging

OURS = claims.ledger(schema.project_root() / "paper" / "rereadings.yml")
CLAIM = next(c for c in OURS if c.study == "response-time")


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """Return what judges one claim of a made-up run, and counts how often anew."""
    made.write(tmp_path, made.sweep(("thread", "epoll"), (10,)), study="response-time")
    (tmp_path / "made" / "manifest.json").write_text("{}")
    ledger = tmp_path / "claims.yml"
    ledger.write_text(yaml.safe_dump([CLAIM.model_dump(mode="json")]), "utf-8")
    judge_all = Mock(wraps=claims.judge_all)
    monkeypatch.setattr(claims, "judge_all", judge_all)

    def judge():
        paths = {"root": tmp_path, "ledger": ledger, "kept": tmp_path / "kept"}
        assert re.findall(r"\d+", judging.judge("made", **paths)) == ["1"] * 3
        return judge_all.call_count

    return judge


def test_a_run_without_changes_is_not_judged_again(judge):
    assert [judge(), judge(), judge()] == [1, 1, 1]


def test_what_is_drawn_from_trials_is_no_input(judge, tmp_path):
    judge()
    figures = tmp_path / "made" / "response-time" / "figures"
    figures.mkdir()
    (figures / "facts.json").write_text("{}")
    (tmp_path / "made" / "response-time" / "notebook.ipynb").write_text("{}")
    (tmp_path / "made" / "doubts").mkdir()  # a study that no entry names
    (tmp_path / "made" / "doubts" / "results.json").write_text("{}")
    assert judge() == 1


@pytest.mark.parametrize(
    "name", ["made/response-time/trials.jsonl", "made/manifest.json", "claims.yml"]
)
def test_an_input_that_changed_is_judged_anew(judge, tmp_path, name):
    judge()
    with (tmp_path / name).open("a") as file:
        file.write("\n")
    assert [judge(), judge()] == [2, 2]


def test_a_trial_file_that_is_gone_or_new_is_judged_anew(judge, tmp_path):
    judge()
    (tmp_path / "made" / "response-time").rename(tmp_path / "made" / "pools")
    assert judge() == 2


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"key": "x"}', "\x00"])
def test_a_key_that_cannot_be_read_is_made_anew(judge, tmp_path, text):
    judge()
    (path,) = (tmp_path / "kept").iterdir()
    path.write_text(text, "utf-8")
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


def test_published_tables_are_inputs(judge, monkeypatch, tmp_path):
    published = tmp_path / "paper" / "published"
    published.mkdir(parents=True)
    monkeypatch.setattr(judging.schema, "project_root", lambda: tmp_path)
    judge()
    for text in ("a table", "another"):
        before = judge()
        (published / "table.csv").write_text(text, "utf-8")
        assert judge() == before + 1
