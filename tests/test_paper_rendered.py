"""The paper set from made-up results, by each renderer that is there."""

import json
import re
import shutil
import subprocess

import nbformat
import publish_made as made
import pytest
from publish_made import text_of, text_of_pdf

from connlab import publish
from connlab.publish import checking, prepare, renderers, rendering

QUARTO = pytest.mark.skipif(
    not shutil.which("quarto"), reason="quarto is not on the PATH"
)


def nothing(run, paper):
    """Leave a made-up run and the sources as they are."""


def set_anew(folder, change=nothing, renderer="embedded"):
    """Set the made-up paper after a change to the run's folder or the sources."""
    run = made.write_run(folder / "runs")
    paper = made.copy_paper(folder)
    change(run, paper)
    return publish.render(made.RUN, root=run.parent, paper=paper, renderer=renderer)


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("quarto", marks=QUARTO)]
)
def paper(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    done = set_anew(folder, renderer=request.param)
    assert done.instead == ""  # or the other renderer would be tested twice
    return done


def results(run):
    return run / made.STUDY / "results.json"


NASTY = "a_b *c* [d](e) <f> $g$ @fig-x `h` {{< var x >}} # | ^ ~"
ASKED_IN_VAIN = """
It is {{< var response_time.nothing >}}, see @tbl-none.

{{< include _generated/response-time/tbl-none.qmd >}}
"""
BY_FORMAT = """
::: {.content-visible when-format="html"}
A block for the page.

![C](x.svg){#fig-extra fig-alt="x"}
:::

Said [on the page: @fig-extra]{.content-visible when-format="html"}\
[in print]{.content-hidden when-format="html"}.

::: {.content-visible when-format="typst"}
A block for print.
:::
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Return a paper whose run and sources have every oddity that can be set."""

    def spoil(run, paper):
        shutil.copytree(run / made.STUDY, run / "sundials")
        spoil_results(run)
        execute(run)
        made.append(paper / "sections" / "_limits.qmd", ASKED_IN_VAIN)
        made.append(paper / "sections" / "_introduction.qmd", BY_FORMAT)
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
    cells = [(m, c) for m in ("poll", "epoll") for c in (1, 10, 100)]
    content["failures"] = [
        {"factors": {"model": m, "connections": c}, "n": 3, "reason": "busy"}
        for m, c in cells
    ]
    content["figures"].append(made.figure("surprise"))
    made.write_json(results(run), content)


def execute(run):
    """Leave an executed notebook, whose output would fetch a script."""
    said = {"text/html": "<script src='https://x.org/a.js'></script>1"}
    shown = nbformat.v4.new_output("display_data", said)
    code = nbformat.v4.new_code_cell("draw()", execution_count=1, outputs=[shown])
    cells = [nbformat.v4.new_markdown_cell("# A made-up question"), code]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, run / made.STUDY / "notebook.ipynb")


# ---- a whole run ---------------------------------------------------------------------


def test_both_files_pass_the_checks(paper):
    assert publish.check(paper.html.parent) == []
    own = (made.STUDY, prepare.key(made.STUDY))  # the other studies were not run
    assert [line for line in paper.missing if line.startswith(own)] == []
    assert paper.problems == ()
    assert paper.seconds < 60  # beside other tests; 20 s alone


@pytest.mark.parametrize(
    "said",
    [made.results()["answer"], "12.3 ± 0.4", "The connlab authors", made.RUN],
)
def test_results_reach_page_and_print(paper, said):
    assert said in text_of(paper)
    assert said in text_of_pdf(paper.pdf)


def test_what_only_the_page_has_reaches_it(paper):
    text = text_of(paper)
    assert "9.62 ms [9.42, 9.81]" in text
    assert "refused: fd_setsize" in text


def test_both_say_which_renderer_set_them(paper):
    assert paper.renderer in text_of(paper)
    assert paper.renderer.split(" (")[0] in text_of_pdf(paper.pdf)


def test_numbers_and_references_agree_between_page_and_print(paper):
    texts = [text_of(paper), text_of_pdf(paper.pdf)]
    for said in (r"Figure (\d+)\. Throughput", r"Table (\d+)\. Quantiles"):
        numbers = [re.search(said, t.replace("\u00a0", " ")).group(1) for t in texts]
        assert numbers[0] == numbers[1]


def test_the_contents_have_two_levels(paper):
    html = paper.html.read_text("utf-8")
    nav = re.search(r"<nav\b.*?</nav>", html, re.DOTALL).group()
    for name in ("sec-pools", "sec-pools-spread"):
        assert f'href="#{name}"' in nav


def test_the_figure_links_to_its_data(paper):
    page = checking.read_page(paper.html.read_text("utf-8"))
    assert "data/response-time/throughput.csv" in page.links
    assert (paper.html.parent / "data/response-time/throughput.csv").is_file()
    assert "data/response-time/throughput.html" in page.links


def test_figures_are_vectors_in_print(paper):
    tool = shutil.which("pdfimages")
    if not tool:
        pytest.skip("pdfimages is not installed")
    done = subprocess.run([tool, "-list", paper.pdf], capture_output=True, text=True)
    assert len(done.stdout.splitlines()) <= 2


def test_a_number_shows_n_and_interval_on_hover(paper):
    pages = [p.read_text("utf-8") for p in (paper.html, paper.supplement) if p]
    title = 'title="n = 10, 95 % interval, t over trials"'
    assert re.search(rf"<span[^>]*{title}[^>]*>\s*9\.62", "".join(pages))


def test_the_supplement_is_a_page_of_its_own_and_not_printed(paper):
    assert "Supplement: further figures and tables" in text_of(paper)
    assert "Supplement: further" not in text_of_pdf(paper.pdf)
    if not paper.supplement:
        pytest.skip("Quarto sets one page")
    page, more = (
        checking.read_page(path.read_text("utf-8"))
        for path in (paper.html, paper.supplement)
    )
    assert "sec-more-pools" in more.ids
    both = set(page.ids) & set(more.ids)
    assert not [name for name in both if name.startswith(("sec-", "fig-", "tbl-"))]
    assert "supplement.html#sec-more-pools" in page.links
    assert {"index.html#sec-pools", "#sec-more-pools"} <= set(more.links)
    assert "#sec-pools" not in more.links
    assert more.title.startswith("Supplement: ")
    stamp = json.loads((paper.html.parent / rendering.STAMP).read_text("utf-8"))
    assert stamp["files"]["supplement.html"] == rendering.digest(paper.supplement)


# ---- oddities ------------------------------------------------------------------------


def test_oddities_pass_the_checks(odd):
    assert publish.check(odd.html.parent) == []
    assert odd.problems == ()
    assert odd.unused == ("response-time/fig-surprise", "sundials")


def test_a_missing_value_and_table_are_said_in_their_place(odd):
    text = text_of(odd)
    assert re.search(rf"It is {prepare.MISSING}, see Table \d+", text)
    assert "tbl-none" in text


def test_failures_of_one_kind_share_a_row(odd):
    html = odd.supplement.read_text("utf-8")
    assert html.count(">1, 10, 100</td>") == 2
    assert html.count(">9</td>") == 2


def test_a_column_without_entries_is_left_out(odd):
    assert ">hourglass" not in odd.html.read_text("utf-8")
    assert "9.62 ms [9.42, 9.81]" in text_of(odd)


def test_a_cell_of_a_table_spends_no_words_on_a_lack_of_an_interval(odd):
    html = odd.html.read_text("utf-8")
    assert "7.31 ms</td>" in html
    assert "7.32 ms</td>" in html


def test_print_leaves_out_what_is_for_the_page(odd):
    page, printed = text_of(odd), text_of_pdf(odd.pdf)
    assert "A block for the page." in page
    assert re.search(r"Said on the page: Figure \d+\.", page)
    assert "A block for print." not in page
    assert "A block for print." in printed
    assert "Said in print." in printed
    assert "for the page" not in printed


def test_an_executed_notebook_becomes_a_page(odd):
    page = odd.html.parent / "data" / made.STUDY / "notebook.html"
    assert "A made-up question" in page.read_text("utf-8")
    assert "data/response-time/notebook.html" in odd.html.read_text("utf-8")


def test_the_same_results_give_the_same_files(odd):
    folder = odd.html.parents[2]
    files = (odd.html, odd.pdf)
    before = [rendering.digest(path) for path in files]
    publish.render(made.RUN, root=folder / "runs", paper=folder / "paper")
    assert [rendering.digest(path) for path in files] == before


# ---- what is lacking, stale, or wrong ------------------------------------------------


def test_a_missing_study_is_said_in_its_place(tmp_path):
    def lose(run, _):
        shutil.rmtree(run / made.STUDY)
        made.edit(run / "manifest.json", studies={})

    done = set_anew(tmp_path, lose)
    said = prepare.MISSING.capitalize()
    assert f"{said}: {made.STUDY}" in text_of(done)
    assert said in text_of_pdf(done.pdf)
    assert any("response-time.svg" in line for line in done.missing)
    assert publish.check(done.html.parent) == []


def test_a_stale_figure_is_stamped_and_text_is_not_markup(tmp_path):
    def older(run, _):
        made.edit(results(run), made_at="2025-01-01T00:00:00Z", answer=NASTY)

    done = set_anew(tmp_path, older)
    assert re.search(r"Figure \d+. Stale. ", text_of(done))
    assert "a_b *c* [d](e) <f> $g$ @fig-x `h`" in text_of(done)
    assert "Stale" in text_of_pdf(done.pdf)
    assert done.stale


def test_a_paper_without_a_supplement_has_one_page(tmp_path):
    def leave_out(_, paper):
        index = paper / "index.qmd"
        include = "{{< include sections/_supplement.qmd >}}"
        index.write_text(index.read_text("utf-8").replace(include, ""), "utf-8")

    done = set_anew(tmp_path, leave_out)
    assert done.supplement is None
    assert not (done.html.parent / "supplement.html").exists()


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


def test_a_wide_table_stays_within_the_margins_and_a_torn_notebook_has_no_page(
    tmp_path,
):
    def wide(run, _):
        (run / made.STUDY / "notebook.ipynb").write_text('{"cells": [')
        table = made.results()["tables"][0]
        names = [f"model_{i}" for i in range(9)]
        table["columns"] = [{"name": n, "label": f"{n} (1/s)"} for n in names]
        table["rows"] = [["108.2 thousand requests/s [107.9, 108.5]"] * 9] * 4
        made.edit(results(run), tables=[table])

    done = set_anew(tmp_path, wide)
    assert publish.check(done.html.parent) == []
    assert "thousand" in text_of_pdf(done.pdf)
    assert "notebook.html" not in done.html.read_text("utf-8")


def test_a_table_that_cannot_break_is_found(tmp_path):
    table = f"\n| a | b |\n|---|---|\n| {'x' * 70} | {'y' * 60} |\n"
    limits = tmp_path / "paper" / "sections" / "_limits.qmd"
    done = set_anew(tmp_path, lambda run, paper: made.append(limits, table))
    assert "xxx" in text_of_pdf(done.pdf)
    found = publish.check(done.html.parent)
    assert any("margin" in problem for problem in found)
