"""The paper set from made-up results, by each renderer that is there."""

import json
import re
import shutil
import subprocess

import nbformat
import publish_made as made
import pytest

from connlab import publish
from connlab.publish import checking, prepare, renderers, rendering

QUARTO = pytest.mark.skipif(
    not shutil.which("quarto"), reason="quarto is not on the PATH"
)


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("quarto", marks=QUARTO)]
)
def paper(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    made.write_run(folder / "runs")
    sources = made.copy_paper(folder)
    done = publish.render(
        made.RUN, root=folder / "runs", paper=sources, renderer=request.param
    )
    assert done.instead == ""  # or the other renderer would be tested twice
    return done


def text_of(rendered):
    """Return the text of the page, and of the supplement behind it."""
    files = [rendered.html, rendered.supplement]
    pages = [checking.read_page(f.read_text("utf-8")) for f in files if f]
    return " ".join("".join(t for page in pages for t in page.text).split())


def pdf_text(path):
    tool = shutil.which("pdftotext")
    if not tool:
        pytest.skip("pdftotext is not installed")
    done = subprocess.run([tool, "-q", path, "-"], capture_output=True, text=True)
    return " ".join(done.stdout.split())


def set_anew(folder, change):
    """Set the made-up paper after a change to the run's folder or the sources."""
    run = made.write_run(folder / "runs")
    paper = made.copy_paper(folder)
    change(run, paper)
    return publish.render(
        made.RUN, root=folder / "runs", paper=paper, renderer="embedded"
    )


def edit(run, change):
    """Change the results of the study."""
    path = run / made.STUDY / "results.json"
    content = json.loads(path.read_text())
    change(content)
    made.write_json(path, content)


def append(paper, section, text):
    with (paper / "sections" / section).open("a") as file:
        file.write(text)


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
        edit(run, spoil_results)
        execute(run)
        append(paper, "_limits.qmd", ASKED_IN_VAIN)
        append(paper, "_introduction.qmd", BY_FORMAT)
        rect = '<rect width="9" height="9"/>' * 3
        svg = f'<svg xmlns="http://www.w3.org/2000/svg">{rect}</svg>'
        (paper / "x.svg").write_text(svg)

    return set_anew(tmp_path_factory.mktemp("odd"), spoil)


def spoil_results(content):
    content["figures"].append(made.figure("surprise"))
    content["failures"] = [
        {"factors": {"model": m, "connections": c}, "n": 3, "reason": "busy"}
        for m in ("poll", "epoll")
        for c in (1, 10, 100)
    ]
    table = content["tables"][0]
    table["columns"][2]["label"] = "hourglass"
    for row in table["rows"]:
        row[2] = "—"


def execute(run):
    """Leave an executed notebook, whose output would fetch a script."""
    said = {"text/html": "<script src='https://x.org/a.js'></script>1"}
    shown = nbformat.v4.new_output("display_data", said)
    code = nbformat.v4.new_code_cell("draw()", execution_count=1, outputs=[shown])
    cells = [nbformat.v4.new_markdown_cell("# A made-up question"), code]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, run / made.STUDY / "notebook.ipynb")


def test_both_files_pass_the_checks(paper):
    assert publish.check(paper.html.parent) == []
    own = (made.STUDY, prepare.key(made.STUDY))  # the other studies were not run
    assert [line for line in paper.missing if line.startswith(own)] == []
    assert paper.problems == ()


def test_rendering_is_quick(paper):
    assert paper.seconds < 60  # beside other tests; 20 s alone


def test_results_reach_the_text(paper):
    text = text_of(paper)
    assert made.results()["answer"] in text
    assert "9.62 ms [9.42, 9.81]" in text
    assert "refused: fd_setsize" in text
    assert "made-up" in text


def test_results_reach_the_print(paper):
    text = pdf_text(paper.pdf)
    assert made.results()["answer"] in text
    assert "12.3 ± 0.4" in text


def test_both_say_which_renderer_set_them(paper):
    assert paper.renderer in text_of(paper)
    assert paper.renderer.split(" (")[0] in pdf_text(paper.pdf)


def test_authors_come_from_the_citation_file(paper):
    assert "The connlab authors" in text_of(paper)
    assert "The connlab authors" in pdf_text(paper.pdf)


def test_numbers_and_references_agree_between_page_and_print(paper):
    texts = [text_of(paper), pdf_text(paper.pdf)]
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


def test_a_missing_study_is_said_in_its_place(tmp_path):
    def lose(run, _):
        shutil.rmtree(run / made.STUDY)
        made.write_json(run / "manifest.json", made.manifest() | {"studies": {}})

    done = set_anew(tmp_path, lose)
    text = text_of(done)
    assert "Not measured here: response-time" in text
    assert "run made-up did not include the study response-time" in text
    assert "Not measured here" in pdf_text(done.pdf)
    assert any("response-time.svg" in line for line in done.missing)
    assert publish.check(done.html.parent) == []


def test_a_missing_value_and_table_are_said_in_their_place(odd):
    text = text_of(odd).replace("\xa0", " ")
    assert re.search(r"It is not measured here, see Table \d+", text)
    assert "the study made no tbl-none" in text


def test_oddities_pass_the_checks(odd):
    assert publish.check(odd.html.parent) == []
    assert odd.problems == ()


def test_a_stale_figure_is_stamped(tmp_path):
    def older(run, _):
        edit(run, lambda content: content.update(made_at="2025-01-01T00:00:00Z"))

    done = set_anew(tmp_path, older)
    text = text_of(done).replace("\u00a0", " ")
    assert re.search(r"Figure \d+. Stale. Mean response", text)
    assert "150 trials are newer than these results" in text
    assert "Stale" in pdf_text(done.pdf)
    assert done.stale


def test_what_no_source_shows_is_reported(odd):
    assert odd.unused == ("response-time/fig-surprise", "sundials")


def test_failures_of_one_kind_share_a_row(odd):
    html = odd.supplement.read_text("utf-8")
    assert html.count(">1, 10, 100</td>") == 2
    assert html.count(">9</td>") == 2


def test_a_column_without_entries_is_left_out(odd):
    assert ">hourglass" not in odd.html.read_text("utf-8")
    assert "9.62 ms [9.42, 9.81]" in text_of(odd)


def test_a_cell_of_a_table_spends_no_words_on_a_lack_of_an_interval(tmp_path):
    def alone(run, _):
        path = run / made.STUDY / "results.json"
        content = json.loads(path.read_text())
        content["tables"][1]["rows"] = [
            ["1000", "7.31 ms (one trial, no interval)"],
            ["2000", "7.32 ms (no interval)"],
        ]
        made.write_json(path, content)

    html = set_anew(tmp_path, alone).html.read_text("utf-8")
    assert "7.31 ms</td>" in html
    assert "7.32 ms</td>" in html


def test_text_of_results_is_not_markup(tmp_path):
    def answer(run, _):
        edit(run, lambda content: content.update(answer=NASTY))

    assert "a_b *c* [d](e) <f> $g$ @fig-x `h`" in text_of(set_anew(tmp_path, answer))


def test_print_leaves_out_what_is_for_the_page(odd):
    page, printed = text_of(odd).replace("\xa0", " "), pdf_text(odd.pdf)
    assert "A block for the page." in page
    assert re.search(r"Said on the page: Figure \d+\.", page)
    assert "A block for print." not in page
    assert "A block for print." in printed
    assert "Said in print." in printed
    assert "for the page" not in printed


def test_the_supplement_is_not_printed(paper):
    assert "Supplement: further figures and tables" in text_of(paper)
    assert "Supplement: further" not in pdf_text(paper.pdf)


def test_the_supplement_is_a_page_of_its_own(paper):
    if not paper.supplement:
        pytest.skip("Quarto sets one page")
    page, more = (
        checking.read_page(path.read_text("utf-8"))
        for path in (paper.html, paper.supplement)
    )
    assert "sec-more-pools" in more.ids
    assert "sec-more-pools" not in page.ids
    both = set(page.ids) & set(more.ids)
    assert not [name for name in both if name.startswith(("sec-", "fig-", "tbl-"))]
    assert "supplement.html#sec-more-pools" in page.links
    assert "index.html#sec-pools" in more.links
    assert "#sec-more-pools" in more.links
    assert "#sec-pools" not in more.links
    assert more.title.startswith("Supplement: ")
    stamp = json.loads((paper.html.parent / rendering.STAMP).read_text("utf-8"))
    assert stamp["files"]["supplement.html"] == rendering.digest(paper.supplement)


def test_a_paper_without_a_supplement_has_one_page(tmp_path):
    def leave_out(_, paper):
        index = paper / "index.qmd"
        text = index.read_text("utf-8")
        include = "{{< include sections/_supplement.qmd >}}"
        index.write_text(text.replace(include, ""), "utf-8")

    done = set_anew(tmp_path, leave_out)
    assert done.supplement is None
    assert not (done.html.parent / "supplement.html").exists()


def test_unknown_renderers_are_refused():
    with pytest.raises(ValueError, match="'quarto' and 'embedded'"):
        renderers.choose("latex")


def test_an_executed_notebook_becomes_a_page(odd):
    page = odd.html.parent / "data" / made.STUDY / "notebook.html"
    assert "A made-up question" in page.read_text("utf-8")
    assert "data/response-time/notebook.html" in odd.html.read_text("utf-8")


def test_a_broken_notebook_is_not_linked(tmp_path):
    def tear(run, _):
        (run / made.STUDY / "notebook.ipynb").write_text('{"cells": [')

    done = set_anew(tmp_path, tear)
    assert "notebook.html" not in done.html.read_text("utf-8")
    assert publish.check(done.html.parent) == []


def test_the_same_results_give_the_same_files(odd):
    folder = odd.html.parents[2]
    files = (odd.html, odd.pdf)
    before = [rendering.digest(path) for path in files]
    publish.render(made.RUN, root=folder / "runs", paper=folder / "paper")
    assert [rendering.digest(path) for path in files] == before


def test_a_rendering_that_fails_leaves_no_record(tmp_path):
    done = set_anew(tmp_path, lambda run, paper: None)
    paper = done.html.parent.parent
    (paper / "_theme" / "typst-template.typ").write_text("#let article = nothing\n")
    with pytest.raises(renderers.RenderError, match="typst"):
        publish.render(
            made.RUN, root=tmp_path / "runs", paper=paper, renderer="embedded"
        )
    assert any(
        "no record of the rendering" in p for p in publish.check(done.html.parent)
    )


def test_a_wide_table_stays_within_the_margins(tmp_path):
    cell = "108.2 thousand requests/s [107.9, 108.5]"

    def wide(content):
        table = content["tables"][0]
        names = [f"model_{i}" for i in range(9)]
        table["columns"] = [{"name": n, "label": f"{n} (1/s)"} for n in names]
        table["rows"] = [[cell] * 9 for _ in range(4)]

    done = set_anew(tmp_path, lambda run, paper: edit(run, wide))
    assert publish.check(done.html.parent) == []
    assert "thousand" in pdf_text(done.pdf)


def test_a_table_that_cannot_break_is_found(tmp_path):
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext is not installed")

    table = f"\n| a | b |\n|---|---|\n| {'x' * 70} | {'y' * 60} |\n"
    done = set_anew(tmp_path, lambda run, paper: append(paper, "_limits.qmd", table))
    found = publish.check(done.html.parent)
    assert any("runs into the margin" in problem for problem in found)
