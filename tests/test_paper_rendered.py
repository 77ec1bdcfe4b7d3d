"""The paper set from made-up results, by each renderer that is there."""

import json
import re
import shutil

import nbformat
import publish_made as made
import pytest
from bs4 import BeautifulSoup
from publish_made import text_of, text_of_pdf

from connlab import publish
from connlab.publish import checking, lacking, numbers, prepare, renderers, rendering


def set_anew(folder, change=None, renderer="embedded"):
    """Set the made-up paper after a change to the run's folder or the sources."""
    run = made.write_run(folder / "runs")
    paper = made.copy_paper(folder)
    if change:
        change(run, paper)
    return publish.render(made.RUN, root=run.parent, paper=paper, renderer=renderer)


@pytest.fixture(scope="module", params=["embedded", "quarto"])
def paper(request, tmp_path_factory):
    if request.param == "quarto" and not shutil.which("quarto"):
        pytest.skip("quarto is not on the PATH")
    folder = tmp_path_factory.mktemp(request.param)
    done = set_anew(folder, renderer=request.param)
    assert done.instead == ""  # or the other renderer would be tested twice
    return done


def results(run):
    return run / made.STUDY / "results.json"


QUESTION = "A made-up question"
NUMBER = "9.62 ms [9.42, 9.81]"
NASTY = "a_b *c* [d](e) <f> $g$ @fig-x `h` {{< var x >}} # | ^ ~"
UNBREAKABLE = f"\n| a | b |\n|---|---|\n| {'x' * 70} | {'y' * 60} |\n"
ASKED_IN_VAIN = """
It is {{< var response_time.nothing >}}, see @tbl-none.

{{< include _generated/response-time/tbl-none.qmd >}}
"""
CROWD = 'a "crowd" & us?'
WIDE = """
{{< include _generated/response-time/tbl-wide.qmd >}}

: Nine models. {#tbl-wide}
"""
COUNTED = f"\n\n{'It answered 1000. Then it did so again. ' * 40}\n"
BY_FORMAT = """
::: {.content-visible when-format="html"}
Block-of-page.

![C](x.svg){#fig-extra fig-alt="x"}
:::

Inline [page: @fig-extra]{.content-visible when-format="html"}\
[print]{.content-hidden when-format="html"}.

::: {.content-visible when-format="typst"}
Block-of-print.
:::
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Return a paper whose run and sources have every oddity that can be set."""

    def spoil(run, paper):
        shutil.copytree(run / made.STUDY, run / "sundials")
        spoil_results(run)
        execute(run)
        made.append(paper / "sections/_limits.qmd", ASKED_IN_VAIN + WIDE + COUNTED)
        made.append(paper / "sections/_introduction.qmd", BY_FORMAT)
        made.replace(paper / "_quarto.yml", "many clients?", CROWD.replace('"', r"\""))
        rect = '<rect width="9" height="9"/>' * 3
        svg = f'<svg xmlns="http://www.w3.org/2000/svg">{rect}</svg>'
        (paper / "x.svg").write_text(svg)

    return set_anew(tmp_path_factory.mktemp("odd"), spoil)


def spoil_results(run):
    content = made.results()
    table, tails = content["tables"]
    table["columns"][2]["label"] = "hourglass"
    for row in table["rows"]:
        row[2] = "—"
    tails["rows"] = [
        ["1000", "7.31 ms (one trial, no interval)"],
        ["2000", "7.32 ms (no interval)"],
    ]
    busy, levels = {"n": 3, "reason": "busy"}, (1, 10, 100)
    cells = [{"model": m, "connections": c} for m in ("poll", "epoll") for c in levels]
    content["failures"] = [{"factors": cell} | busy for cell in cells]
    columns = [{"name": f"m{i}", "label": f"model_{i} (1/s)"} for i in range(9)]
    rows = [["108.2 thousand requests/s [107.9, 108.5]"] * 9] * 4
    content["tables"].append({"id": "tbl-wide", "columns": columns, "rows": rows})
    content["figures"].append(made.figure("surprise"))
    made.write_json(results(run), content)


def execute(run):
    """Leave an executed notebook, whose output would fetch a script."""
    html = {"text/html": "<script src='https://x.org/a.js'></script>1"}
    output = nbformat.v4.new_output("display_data", html)
    code = nbformat.v4.new_code_cell("draw()", execution_count=1, outputs=[output])
    cells = [nbformat.v4.new_markdown_cell(f"# {QUESTION}"), code]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, run / made.STUDY / "notebook.ipynb")


# ---- a whole run ---------------------------------------------------------------------


def test_both_files_pass_the_checks(paper):
    assert publish.check(paper.html.parent) == []
    study = (made.STUDY, prepare.key(made.STUDY))  # the other studies were not run
    assert [line for line in paper.missing if line.startswith(study)] == []
    assert paper.problems == ()
    assert paper.seconds < 60  # beside other tests; 20 s alone


@pytest.mark.parametrize(
    "words",
    [made.results()["answer"], "12.3 ± 0.4", "connlab authors", made.RUN],
)
def test_results_reach_page_and_print(paper, words):
    assert words in text_of(paper)
    assert words in text_of_pdf(paper.pdf)


def test_both_say_who_wrote_what(paper):
    page = paper.html.read_text("utf-8")
    said = dict(re.findall(r'<meta name="(\w+)" content="([^"]*)"', page))
    title = "How should a server wait for many clients?"
    assert said["citation_title"] == title
    assert said["citation_author"] == said["author"] == "The connlab authors"
    assert said["description"].startswith("Models of concurrency")
    told = made.poppler("pdfinfo", paper.pdf)
    assert re.search(r"Author:\s+The connlab authors\n", told)


def test_the_page_has_more_and_both_name_the_renderer(paper):
    text = text_of(paper)
    assert NUMBER in text
    assert "refused: fd_setsize" in text
    assert paper.renderer in text
    assert paper.renderer.split(" (")[0] in text_of_pdf(paper.pdf)


def test_numbers_and_references_agree_between_page_and_print(paper):
    texts = [text_of(paper), text_of_pdf(paper.pdf)]
    for head in (r"Figure (\d+)\. Throughput", r"Table (\d+)\. Quantiles"):
        page, pdf = (re.search(head, t.replace("\u00a0", " "))[1] for t in texts)
        assert page == pdf


def test_the_contents_have_two_levels(paper):
    html = paper.html.read_text("utf-8")
    nav = re.search(r"<nav\b.*?</nav>", html, re.DOTALL).group()
    for name in ("sec-pools", "sec-pools-spread"):
        assert f'href="#{name}"' in nav


def test_the_figure_links_to_its_data(paper):
    page = checking.Page(paper.html.read_text("utf-8"))
    assert "data/response-time/throughput.csv" in page.links
    assert (paper.html.parent / "data/response-time/throughput.csv").is_file()
    assert "data/response-time/throughput.html" in page.links


def test_figures_are_vectors_in_print(paper):
    head = 2
    assert len(made.poppler("pdfimages", "-list", paper.pdf).splitlines()) <= head


def test_a_number_shows_n_and_interval_on_hover(paper):
    pages = [p.read_text("utf-8") for p in (paper.html, paper.supplement) if p]
    title = f'title="{numbers.hover(10, 0.95, "t over trials")}"'
    assert re.search(rf"<span[^>]*{title}[^>]*>\s*9\.62", "".join(pages))


def test_the_supplement_is_a_page_of_its_own_and_not_printed(paper):
    assert "Supplement: further" in text_of(paper)
    assert "Supplement: further" not in text_of_pdf(paper.pdf)
    if not paper.supplement:
        pytest.skip("Quarto sets one page")
    files = (paper.html, paper.supplement)
    page, supplement = (checking.Page(path.read_text("utf-8")) for path in files)
    assert "sec-more-pools" in supplement.ids
    shared = set(page.ids) & set(supplement.ids)
    assert not [name for name in shared if name.startswith(("sec-", "fig-", "tbl-"))]
    assert "supplement.html#sec-more-pools" in page.links
    assert {"index.html#sec-pools", "#sec-more-pools"} <= set(supplement.links)
    assert "#sec-pools" not in supplement.links
    assert supplement.title.startswith("Supplement: ")
    stamp = json.loads((paper.html.parent / rendering.STAMP).read_text("utf-8"))
    assert stamp["files"]["supplement.html"] == rendering.digest(paper.supplement)


# ---- oddities ------------------------------------------------------------------------


def test_oddities_pass_the_checks(odd):
    assert publish.check(odd.html.parent) == []
    assert odd.problems == ()
    assert odd.unused == ("response-time/fig-surprise", "sundials")


def test_a_title_may_have_quotes(odd):
    """They ended it where the page says it in its metadata."""
    for path in (odd.html, odd.supplement):
        page = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        said = page.select_one("meta[name=citation_title]")["content"]
        assert said.endswith(f" for {CROWD}")
        assert page.title.get_text().endswith(said)


def test_a_number_that_ends_a_sentence_begins_no_list(odd):
    """Of a source that pandoc had wrapped Typst took such a line for an item."""
    source = next(odd.html.parents[1].rglob("paper.typ")).read_text("utf-8")
    assert source.count("answered 1000. Then") == 40


def test_a_wide_table_stays_within_the_margins(odd):
    assert "108.2" in text_of_pdf(odd.pdf)
    assert "model_8" in text_of(odd)


def test_a_missing_value_and_table_are_marked_in_their_place(odd):
    text = text_of(odd)
    assert re.search(rf"{lacking.MISSING}, see Table \d+", text)
    assert "tbl-none" in text


def test_failures_of_one_kind_share_a_row(odd):
    html = odd.supplement.read_text("utf-8")
    assert html.count(">1, 10, 100</td>") == 2
    assert html.count(">9</td>") == 2


def test_a_column_without_entries_is_left_out(odd):
    assert ">hourglass" not in odd.html.read_text("utf-8")
    assert NUMBER in text_of(odd)


def test_a_cell_without_an_interval_is_a_number_alone(odd):
    html = odd.html.read_text("utf-8")
    assert "7.31 ms</td>" in html
    assert "7.32 ms</td>" in html


def test_print_leaves_out_what_is_for_the_page(odd):
    page, printed = text_of(odd), text_of_pdf(odd.pdf)
    assert "Block-of-page." in page
    assert re.search(r"Inline page: Figure \d+\.", page)
    assert "Block-of-print." not in page
    assert "Block-of-print." in printed
    assert "Inline print." in printed
    assert "Block-of-page" not in printed


def test_an_executed_notebook_becomes_a_page(odd):
    page = odd.html.parent / "data" / made.STUDY / "notebook.html"
    assert QUESTION in page.read_text("utf-8")
    assert "data/response-time/notebook.html" in odd.html.read_text("utf-8")


def test_the_same_results_give_the_same_files(odd):
    folder = odd.html.parents[2]
    files = (odd.html, odd.pdf)
    before = [rendering.digest(path) for path in files]
    publish.render(made.RUN, root=folder / "runs", paper=folder / "paper")
    assert [rendering.digest(path) for path in files] == before


# ---- what is lacking, stale, or wrong ------------------------------------------------


def test_the_record_of_a_rendering_outlives_a_mistyped_run(tmp_path):
    made.write_run(tmp_path / "runs")
    stamp = made.copy_paper(tmp_path) / renderers.OUTPUT / rendering.STAMP
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text("{}")
    with pytest.raises(FileNotFoundError):
        publish.render("mistyped", root=tmp_path / "runs", paper=tmp_path / "paper")
    assert stamp.read_text() == "{}"


def test_a_missing_study_is_marked_in_its_place(tmp_path):
    def lose(run, _):
        shutil.rmtree(run / made.STUDY)
        made.edit(run / "manifest.json", studies={})

    done = set_anew(tmp_path, lose)
    missing = lacking.MISSING.capitalize()
    assert f"{missing}: {made.STUDY}" in text_of(done)
    assert f"Run {made.RUN} did not include the study" in text_of(done)
    assert missing in text_of_pdf(done.pdf)
    assert any("response-time.svg" in line for line in done.missing)
    assert publish.check(done.html.parent) == []


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """Return a paper of a run that is older than its trials, without a supplement.

    Its answer has markup, a table of it is wider than a page, its notebook is torn.
    """

    def spoil(run, paper):
        made.edit(results(run), made_at="2025-01-01T00:00:00Z", answer=NASTY)
        (run / made.STUDY / "notebook.ipynb").write_text('{"cells": [')
        made.append(paper / "sections" / "_limits.qmd", UNBREAKABLE)
        include = "{{< include sections/_supplement.qmd >}}"
        made.replace(paper / "index.qmd", include, "")

    return set_anew(tmp_path_factory.mktemp("wrong"), spoil)


def test_a_stale_figure_is_stamped_and_text_is_not_markup(wrong):
    for float_ in ("Figure", "Table"):
        assert re.search(rf"{float_} \d+. Stale. ", text_of(wrong))
    assert NASTY.partition(" {{")[0] in text_of(wrong)
    assert "Stale" in text_of_pdf(wrong.pdf)
    assert wrong.stale


def test_a_paper_without_a_supplement_has_one_page(wrong):
    assert wrong.supplement is None
    assert not (wrong.html.parent / "supplement.html").exists()


def test_a_torn_notebook_has_no_page(wrong):
    assert "notebook.html" not in wrong.html.read_text("utf-8")


def test_a_table_that_cannot_break_is_found(wrong):
    assert "xxx" in text_of_pdf(wrong.pdf)
    assert any("margin" in problem for problem in publish.check(wrong.html.parent))


def test_unknown_renderers_are_refused():
    with pytest.raises(ValueError, match="quarto.*embedded"):
        renderers.choose("latex")


def test_a_rendering_that_fails_leaves_no_record(tmp_path):
    def spoil(run, paper):
        theme = paper / "_theme" / "typst-template.typ"
        theme.write_text("#let article = nothing\n")

    with pytest.raises(renderers.RenderError, match="typst"):
        set_anew(tmp_path, spoil)
    problems = publish.check(tmp_path / "paper" / renderers.OUTPUT)
    assert any(rendering.STAMP in problem for problem in problems)
