"""The page of a figure: its values in words and as a table."""

import html
import re

import publish_made as made
import pytest

from connlab.publish import checking, figure_pages
from connlab.publish.results import Study
from connlab.study.results import Figure

VALUES = "<b>: 10 ms at 1 to 20 ms at 1 000; no value at 2 000 (beyond FD_SETSIZE)."
ALT = f"Line chart of time. {VALUES} All are in the table linked below. Ends."


@pytest.fixture
def page(tmp_path):
    data = tmp_path / "time.csv"
    data.write_text("model,max_ms,n\n<b>,1.23456789,10.0\nepoll,,3\n", "utf-8")
    return figure_pages.write_values(data, tmp_path / "data", title="A & B", alt=ALT)


def test_the_page_has_the_values_in_words_and_as_a_table(page):
    text = page.read_text("utf-8")
    assert page.name == "time.html"
    assert f"<p>{html.escape(VALUES)}</p>" in text
    assert "linked below" not in text
    assert "<p>Ends.</p>" in text
    row = '<td>&lt;b&gt;</td><td class="number">1.235</td><td class="number">10</td>'
    assert row in text
    assert '<th scope="col">max ms</th>' in text
    assert 'href="time.csv"' in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.99996", "0.99996"),
        ("1.0000004", "1.0000004"),
        ("1.0", "1"),
        ("0.98765", "0.9877"),
        ("nan", "nan"),
    ],
)
def test_a_bound_beside_1_is_not_rounded_onto_it(text, shown):
    assert figure_pages._cell(text) == (shown, True)


def test_what_is_alike_in_every_row_is_no_column(tmp_path):
    data = tmp_path / "time.csv"
    data.write_text("model,unit,value,why\nepoll,ms,1,\npoll,ms,2,\n", "utf-8")
    page = figure_pages.write_values(data, tmp_path, title="A", alt="")
    text = page.read_text("utf-8")
    assert re.findall(r'<th scope="col">(\w+)</th>', text) == ["model", "value"]
    assert "unit ms" in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("model", "metric mean response time in s"),
        ("against", "metric mean response time"),
    ],
)
def test_values_have_a_unit_and_ratios_none(tmp_path, more, said):
    """A figure draws milliseconds of what its data have in seconds."""
    data = tmp_path / "time.csv"
    rows = [f"response_mean_s,epoll,{value}" for value in (0.1, 0.2)]
    data.write_text("\n".join([f"metric,{more},value", *rows]), "utf-8")
    page = figure_pages.write_values(data, tmp_path, title="A", alt="")
    assert f"In every row: {said}; {more} epoll." in page.read_text("utf-8")


def test_the_page_asks_no_other_host_and_has_a_title(page):
    text = page.read_text("utf-8")
    read = checking.Page(text)
    assert read.title == "A & B"
    assert read.fetched == ["data:,"]
    assert "Content-Security-Policy" in text


def test_a_caption_is_a_title_without_markdown():
    """Titles had "`epoll`", "*Long* delays" and "@tbl-runtimes" in them."""
    caption = "Cost of `epoll` as @a2001 *has* it (@tbl-how-much; limits: @sec-x)."
    title = figure_pages._in_words(caption, {"a2001": "A 2001"})
    shown = "(table “how-much”; limits: section “x”)"
    assert title == f"Cost of epoll as A 2001 has it {shown}."


@pytest.mark.parametrize(
    ("stale", "source", "first"),
    [
        ([], "", ""),
        (["newer trials"], "", "Stale. "),
        (["newer trials"], "B", "From the B run; not measured here. "),
    ],
)
def test_values_of_other_trials_say_so_as_their_caption_does(
    tmp_path, stale, source, first
):
    folder, paper = made.write_run(tmp_path / "runs") / made.STUDY, tmp_path / "paper"
    study = Study(name=made.STUDY, folder=folder, stale=stale)
    figure = Figure(**made.figure("throughput"))
    shown = {"caption": "Rates of `a`.", "alt": ""}
    figure_pages.links(study, figure, shown, paper, source=source)
    page = (paper / "data" / made.STUDY / "throughput.html").read_text("utf-8")
    assert f"<h1>{first}Rates of a.</h1>" in page


def test_without_data_there_is_no_page(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    for name in ("none.csv", "empty.csv", "ragged.csv"):
        data = tmp_path / name
        assert not figure_pages.write_values(data, tmp_path, title="", alt="")
