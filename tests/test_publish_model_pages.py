"""A page for each model, from its source and a run."""

import json
import shutil

import publish_made as made
import pytest

from connlab.publish import checking, model_pages, numbers

EPOLL = {"name": "epoll", "family": "readiness", "label": "epoll, level-triggered"}
GONE = {"name": "gone", "family": "threads", "label": "a model without a file"}
ATLAS = {
    "id": "tbl-breaking-points-atlas",
    "columns": [
        {"name": "model", "label": "model"},
        {"name": "broke", "label": "broke at"},
    ],
    "rows": [["select", "1059"], [EPOLL["label"], "<b>1244</b>"]],
}


@pytest.fixture
def paper(tmp_path):
    made.copy_model("epoll", tmp_path)
    run = made.write_run(tmp_path / "runs")
    made.edit(run / "manifest.json", registry={"models": [EPOLL, GONE]})
    return tmp_path / "paper"


def written(paper):
    run = made.load(paper.parent / "runs")
    links = model_pages.write(run, paper)
    assert links == {"epoll": "data/models/epoll.html"}
    return (paper / links["epoll"]).read_text("utf-8")


def test_loop_sides_and_code_are_those_of_the_source(paper):
    text = written(paper)
    assert "epoll_wait -&gt; " in text
    for word in ("Good", "Bad", "Look", "Needs", "Try"):
        assert f"<dt>{word}</dt>" in text
    code = text.split("<h2>The code</h2>")[1]
    assert "#include &lt;err.h&gt;" in code
    assert "struct epoll_set {" in code
    assert "Good:" not in code


def test_each_number_of_the_model_is_there_with_what_is_behind_it(paper):
    text = written(paper)
    cells = [c for c in made.cells() if c["model"] == "epoll"]
    assert len([c for c in cells if c["metric"] == "throughput_rps"]) > 3
    for cell in cells:
        printed = f"<td>{cell['text']}</td>" in text
        assert printed == (cell["metric"] in model_pages.METRICS)
        assert numbers.hover(cell["n"], cell["level"], cell["method"]) in text
    assert "<td>connections 1000</td>" in text


def test_work_is_called_as_the_paper_calls_it(paper):
    row = {"study": made.STUDY, "model": "epoll", "work": "spin"}
    row |= {"metric": "throughput_rps", **made.value(1.2, unit="")}
    folder = paper.parent / "runs" / made.RUN / made.STUDY
    made.write_cells(folder, [row])
    assert "<td>work computing</td>" in written(paper)


def test_of_a_number_without_an_interval_none_is_told(paper):
    row = {"study": made.STUDY, "model": "epoll", "metric": "throughput_rps"}
    row |= made.value(1.2, unit="", n=2) | {"lo": None, "hi": None}
    folder = paper.parent / "runs" / made.RUN / made.STUDY
    made.write_cells(folder, [row])
    assert "<td>n = 2, t over trials</td>" in written(paper)


def test_ratios_of_a_model_name_what_they_are_against(paper):
    row = {"study": made.STUDY, "model": "epoll", "against": "thread"}
    row |= {"metric": "throughput_rps", **made.value(1.2, unit="")}
    folder = paper.parent / "runs" / made.RUN / made.STUDY
    made.write_cells(folder, [row | {"verdict": "higher"}], "ratios.csv")
    text = written(paper).split("<h2>Its numbers as ratios</h2>")[1]
    assert "<td>against thread</td>" in text
    assert "<td>higher</td>" in text


def test_where_a_model_breaks_is_what_the_study_found(paper):
    assert f"Run {made.RUN} " in written(paper)
    assert "<dt>broke at</dt>" not in written(paper)
    folder = paper.parent / "runs" / made.RUN / "breaking-points"
    folder.mkdir()
    content = made.results() | {"study": "breaking-points", "tables": [ATLAS]}
    made.write_json(folder / "results.json", content | {"run": made.RUN})
    (folder / "trials.jsonl").write_text(json.dumps(made.trial(1)) + "\n")
    text = written(paper)
    assert "<dt>broke at</dt><dd>&lt;b&gt;1244&lt;/b&gt;</dd>" in text
    assert "1059" not in text


def test_numbers_and_limits_of_stale_results_say_so(paper):
    runs = paper.parent / "runs" / made.RUN
    shutil.copytree(runs / made.STUDY, runs / "breaking-points")
    made.edit(runs / "breaking-points" / "results.json", tables=[ATLAS])
    assert "stale" not in written(paper)
    made.outdate(runs / made.STUDY)
    made.outdate(runs / "breaking-points")
    text = written(paper)
    assert f"<td>{made.STUDY} (stale)</td>" in text
    assert "<h2>Where it breaks (stale)</h2>" in text


def test_the_page_asks_no_other_host_and_has_a_title(paper):
    read = checking.Page(written(paper))
    assert read.title == "epoll, level-triggered (epoll)"
    assert read.fetched == ["data:,"]
    assert "../../index.html#sec-models-readiness" in read.links
