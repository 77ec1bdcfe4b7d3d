"""The reference beside a run: agreement per claim, numbers beside each other."""

import json
import re
import shutil
from types import SimpleNamespace

import publish_made as made
import pytest
import yaml

from connlab import publish, schema
from connlab.publish import lacking, ledger, prepare, reference, rendering, results

#: of each claim: the run's verdict, the reference's, and whether they agree
CLAIMS = {
    "G1": ("holds", "holds", "agrees"),
    "G2": ("holds in part", "holds", "differs"),
    "T1": ("not testable here", "does not hold", reference.ONLY_THERE),
    "M1": ("does not hold", "not testable here", reference.ONLY_HERE),
    "W1": ("not testable here", "not testable here", reference.NEITHER),
}
VERDICTS = {claim: verdict for claim, (verdict, _, _) in CLAIMS.items()}
REFERENCE = {claim: verdict for claim, (_, verdict, _) in CLAIMS.items()}


@pytest.fixture
def runs(tmp_path):
    root = tmp_path / "runs"
    made.write_run(root, verdicts=VERDICTS)
    made.write_run(root, name=reference.NAME, verdicts=REFERENCE, scale=2.0)
    return root


def pieces(root, paper, name=made.RUN):
    """Write what the reference adds; return the sentence and the table."""
    run = made.load(root, name)
    reference.write(run, reference.others(run), paper)
    folder = paper / reference.PIECES
    return [(folder / f"{n}.qmd").read_text("utf-8") for n in ("agreement", "headline")]


@pytest.mark.parametrize(
    ("verdict", "other", "agreement"),
    [
        *CLAIMS.values(),
        ("holds", None, reference.ONLY_HERE),
        (None, "holds", reference.ONLY_THERE),
        (None, None, reference.NEITHER),
    ],
)
def test_two_verdicts_agree_only_if_they_are_equal(verdict, other, agreement):
    assert reference.agreement(verdict, other) == agreement


def counts(sentence):
    """Return the numbers that a sentence counts, after the machine's description."""
    return [int(n) for n in re.findall(r"\b\d+\b", sentence.partition("Of ")[2])]


def test_the_sentence_counts_each_kind(runs, tmp_path):
    sentence, _ = pieces(runs, tmp_path)
    assert counts(sentence) == [5, 2, 1, 1, 1, 1, 1]
    assert "(G2)" in sentence


def test_claims_are_named_in_the_order_of_their_numbers(tmp_path):
    """Of L1, L5 and L13 the last came second."""
    for name, verdict in ((made.RUN, "holds"), ("reference", "does not hold")):
        verdicts = dict.fromkeys(("L13", "L5", "L1"), verdict)
        made.write_run(tmp_path / "runs", name=name, verdicts=verdicts)
    assert "(L1, L5, L13)" in pieces(tmp_path / "runs", tmp_path)[0]


@pytest.mark.parametrize("name", reference.LEDGERS)
def test_claims_about_published_numbers_do_not_count(runs, tmp_path, name):
    """Our readings were counted, of which two need no trials."""
    (tmp_path / name).write_text("- {id: G1, published: a.csv}\n")
    assert counts(pieces(runs, tmp_path)[0])[:3] == [4, 1, 0]


def test_without_a_difference_no_claim_is_named(tmp_path):
    made.write_run(tmp_path / "runs", verdicts={"G1": "holds"})
    made.write_run(tmp_path / "runs", name="reference", verdicts={"G1": "holds"})
    sentence, _ = pieces(tmp_path / "runs", tmp_path)
    assert counts(sentence)[:4] == [1, 1, 1, 0]
    assert "G1" not in sentence


def test_the_table_has_the_highest_level_of_both_runs(runs, tmp_path):
    rows = made.cells(scale=2.0)
    rows = [r for r in rows if (r["model"], r["connections"]) != ("epoll", 5000)]
    made.write_cells(runs / reference.NAME / made.STUDY, rows)
    _, table = pieces(runs, tmp_path)
    lines = [line for line in table.splitlines() if "|" in line]
    rows = {line.split("|")[1].strip(): line for line in lines}
    assert "| 1000 |" in rows["epoll"]
    assert "| 5000 |" in rows["thread"]
    for times in (1, 2):
        number = made.value(times * made.milliseconds("epoll", 1000))["text"]
        assert number in rows["epoll"].replace("\\", "")


def test_the_table_says_that_its_numbers_are_stale(runs, tmp_path):
    assert "Stale" not in pieces(runs, tmp_path)[1]
    made.outdate(runs / made.RUN / made.STUDY)
    assert ": **Stale.** Requests per second" in pieces(runs, tmp_path)[1]


def test_models_are_called_as_on_the_figures(runs, tmp_path):
    rows = [{"name": "epoll", "family": "readiness", "label": "epoll, level-triggered"}]
    made.edit(runs / made.RUN / "manifest.json", registry={"models": rows})
    old = {"models": [rows[0] | {"label": "of long ago"}]}
    made.edit(runs / reference.NAME / "manifest.json", registry=old)
    assert "| epoll, level-triggered |" in pieces(runs, tmp_path)[1]


def test_the_reference_is_printed_alone(runs, tmp_path):
    assert reference.others(made.load(runs, reference.NAME)) == {}
    assert pieces(runs, tmp_path, reference.NAME) == ["\n", "\n"]


@pytest.mark.parametrize("names", [[], ["manifest.json"]])
def test_a_run_without_a_reference_is_printed_alone(runs, tmp_path, names):
    """Nor is a folder that has nothing but a manifest a reference."""
    folder = runs / reference.NAME
    folder.rename(tmp_path / "away")
    for name in names:
        folder.mkdir()
        shutil.copy(tmp_path / "away" / name, folder)
    assert reference.others(made.load(runs)) == {}
    assert pieces(runs, tmp_path) == ["\n", "\n"]


def test_a_reference_without_claims_gives_numbers_only(runs, tmp_path):
    shutil.rmtree(runs / reference.NAME / "claims")
    sentence, table = pieces(runs, tmp_path)
    assert sentence == "\n"
    assert "tbl-reference" in table


def prepared(root, folder):
    """Prepare the paper of the run; return what is missing, and where the rest is."""
    run, paper = made.load(root), made.copy_paper(folder)
    _, done = prepare.prepare(run, reference.others(run), paper, renderer="none")
    return done.missing, paper / prepare.GENERATED


def test_what_no_run_has_is_told_with_the_nearest(runs):
    run = made.load(runs)
    others, right = reference.others(run), next(iter(run.numbers))
    wrong, away = right.replace("model=", "modle="), right.replace(made.STUDY, "away")
    assert wrong != right != away
    rare = f"{made.STUDY}/label"  # its notebook has the word
    wanted = SimpleNamespace(numbers=[right, wrong, away, rare], claims=[])
    told = f"{wrong}; did you mean {right!r}?"
    assert prepare._unknown(run, others, wanted) == [told]
    assert prepare._unknown(run, {}, wanted) == []


@pytest.fixture
def lost(runs, tmp_path):
    """Return what is generated for a run that lost its study, which a reference has."""
    shutil.rmtree(runs / made.RUN / made.STUDY)
    made.edit(runs / made.RUN / "manifest.json", studies={})
    missing, generated = prepared(runs, tmp_path)
    assert any("throughput.svg" in line for line in missing)
    assert any("tails" in line for line in missing)
    return generated


def test_a_table_that_a_run_lacks_is_the_reference_s_and_says_so(lost, runs):
    name = reference.processor(made.load(runs, reference.NAME))
    text = (lost / made.STUDY / "tbl-response-time-tails.qmd").read_text("utf-8")
    assert f'[]{{.source of="{name}"}}' in text.splitlines()[0]
    assert "12\\.3" in text


def test_a_picture_that_a_run_lacks_is_the_reference_s_with_its_links(lost, runs):
    name = reference.processor(made.load(runs, reference.NAME))
    facts = json.loads((lost / "facts.json").read_text("utf-8"))
    picture = f"{prepare.GENERATED}/{made.STUDY}/throughput.svg"
    assert facts["borrowed"][picture] == name
    assert "data/response-time/throughput.csv" in facts["figures"][picture]
    assert (lost.parent / picture).read_text("utf-8") == made.picture()[".svg"]


def test_the_run_s_notebook_did_not_draw_the_picture_of_a_reference(runs, tmp_path):
    study = runs / made.RUN / made.STUDY
    left = [f for f in made.results()["figures"] if f["id"] != "fig-throughput"]
    made.edit(study / "results.json", figures=left)
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    made.write_json(study / "notebook.ipynb", notebook)
    _, generated = prepared(runs, tmp_path)
    facts = json.loads((generated / "facts.json").read_text("utf-8"))
    folder = f"{prepare.GENERATED}/{made.STUDY}"
    assert "notebook" not in facts["figures"][f"{folder}/throughput.svg"]
    assert "notebook" in facts["figures"][f"{folder}/response-time.svg"]


def test_what_no_reference_has_is_a_stub(lost):
    table = (lost / "winsock" / "tbl-winsock-ends.qmd").read_text("utf-8")
    assert lacking.MISSING.capitalize() in table
    picture = (lost / "uring" / "uring-rps-ratios.svg").read_text("utf-8")
    assert lacking.MISSING in picture


def test_the_paper_shows_both_verdicts_and_their_agreement(runs, monkeypatch):
    paper, loaded, load_run = made.copy_paper(runs.parent), [], results.load_run

    def loading(name, **options):
        loaded.append(name)
        return load_run(name, **options)

    monkeypatch.setattr(results, "load_run", loading)
    done = publish.render(made.RUN, root=runs, paper=paper, renderer="embedded")
    text = made.text_of(done)
    for word in ("Reference", *(agreement for _, _, agreement in CLAIMS.values())):
        assert word in text
    html = done.html.read_text("utf-8")
    assert html.count("tbl-reference") >= 2  # the table, and the sentence on it
    assert publish.check(done.html.parent) == []
    assert loaded == [made.RUN, reference.NAME]  # each once
    stamp = schema.read_json(done.html.parent / rendering.STAMP)
    assert stamp["beside"] == [reference.NAME]


def test_a_broken_reference_does_not_stop_the_paper(runs, tmp_path):
    (runs / reference.NAME / "claims" / "results.json").write_text("{")
    missing, _ = prepared(runs, tmp_path)
    others = reference.others(made.load(runs)).values()
    assert [other.name for other in others] == [reference.NAME]
    assert not [line for line in missing if line.startswith("reference")]


AMD, INTEL = "reference-amd", "reference-intel"


@pytest.fixture
def two(tmp_path):
    """Return runs with two references, of which `reference` means the second."""
    root = tmp_path / "runs"
    made.write_run(root, verdicts=VERDICTS)
    for name, cpu in ((AMD, "AMD EPYC"), (INTEL, "Intel(R) Xeon(R) Processor")):
        made.write_run(root, name=name, verdicts=REFERENCE)
        machine = made.manifest()["machine"] | {"cpu": cpu}
        made.edit(root / name / "manifest.json", machine=machine)
    (root / "reference").symlink_to(INTEL)
    return root


def test_a_run_stands_beside_every_reference_the_first_first(two):
    beside = reference.others(made.load(two))
    assert [run.name for run in beside.values()] == [INTEL, AMD]
    assert list(beside) == ["Intel Xeon", "AMD EPYC"]  # their processors


def test_trials_of_a_reference_are_not_read(two, monkeypatch):
    """They are thousands, and tell what is stale of the run alone."""
    run = made.load(two)
    monkeypatch.setattr(schema, "read_log", lambda path: pytest.fail(str(path)))
    assert all(other.evaluated for other in reference.others(run).values())


@pytest.mark.parametrize("name", [INTEL, "reference"])
def test_a_reference_stands_beside_the_others_only(two, name):
    beside = reference.others(made.load(two, name))
    assert [run.name for run in beside.values()] == [AMD]


def test_a_link_means_the_run_that_it_leads_to(two):
    assert schema.run_name("reference", root=two) == INTEL
    assert schema.run_name(made.RUN, root=two) == made.RUN


def test_references_of_one_processor_are_called_by_their_names(two):
    shutil.copy(two / AMD / "manifest.json", two / INTEL / "manifest.json")
    assert list(reference.others(made.load(two))) == [INTEL, AMD]


def test_verdicts_of_two_references_stand_in_one_cell(two, tmp_path):
    path = two / AMD / "claims" / "results.json"
    made.replace(path, '"does not hold"', '"holds"')
    run = made.load(two)
    paper = made.copy_paper(tmp_path)
    prepare.write_ledger(run, reference.others(run), paper)
    written = paper / prepare.GENERATED / reference.CLAIMS / f"{ledger.LABEL}.qmd"
    text = written.read_text("utf-8")
    assert "does not hold (Intel Xeon), holds (AMD EPYC)" in text


def test_what_a_reader_has_to_know_of_a_run_is_said_of_it_under_its_name(
    runs, tmp_path
):
    note = yaml.safe_dump({made.RUN: {"caption": "In {run} x.", "text": "More."}})
    (tmp_path / reference.REMARKS).write_text(note)
    run, other = made.load(runs), made.load(runs, reference.NAME)
    said = ["In this run x.", "More."]
    assert reference.remarks(run, {"B": other}, tmp_path, "caption", "text") == said
    told = reference.remarks(other, {"A": run}, tmp_path, "caption")
    assert told == ["In the A run x."]
    assert reference.remarks(None, {"B": other}, tmp_path, "caption") == []
    pieces(runs, tmp_path)
    written = (tmp_path / reference.PIECES / "remarks.qmd").read_text("utf-8")
    assert written.strip() == "In this run x. More."
