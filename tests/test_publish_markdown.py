"""Markdown pieces mean the same to both renderers, whatever text they hold."""

import publish_made as made
import pytest

from connlab.publish import markdown as md


def plain(text, to="plain"):
    return made.pandoc(text, "--from=markdown", f"--to={to}").strip()


@pytest.mark.parametrize(
    "text",
    [
        "a_b *c* **d** [e](f) <g> `h` $i$ @fig-j ^k^ ~l~ #m |n| \\o {p}",
        "a &lt; b & c",
        "* not a list",
        "9.2 ms [9.0, 9.4]",
        "net.ipv4.tcp_mem",
    ],
)
def test_escaped_text_is_printed_as_it_is(text):
    assert plain("x " + md.escape(text)) == "x " + text


@pytest.mark.parametrize(
    "text",
    ["(a) beyond", "a) x", "1. x", "- x", "+ x", "# x", "ix. x", "(@) x", "9.2 ms"],
)
def test_escaped_text_begins_no_list(text):
    assert plain(md.escape(text)) == text
    assert plain(md.escape(text), to="html") == f"<p>{text}</p>"


def test_text_goes_on_one_line_but_keeps_its_spaces():
    assert md.escape("a\n  b\t5\u202f000\u00a0ms") == "a b 5\u202f000\u00a0ms"


def test_a_span_shows_its_title():
    html = plain(md.span("9 [8, 10]", 'n = 10, "t" {{< x >}}'), to="html")
    assert '<span class="num" title="n = 10, ”t” { {&lt; x &gt;}}">9 [8, 10]' in html


def test_a_column_beside_long_ones_still_holds_its_longest_word():
    """Its share of the line is what print gives it, and words do not break."""
    text = md.table(
        ["what", "which", "rest"],
        [["throughput", "[io_uring, completions](#models){.x}", "many words " * 30]],
    )
    rule = text.splitlines()[1].strip("|").split("|")
    share = [len(dashes) / sum(map(len, rule)) for dashes in rule]
    assert share[0] * 130 >= len("throughput")
    assert len("completions") <= share[1] * 130 < 30


def test_a_table_has_caption_label_and_sides():
    text = md.table(["a", "b"], [["x", "1"], ["y", "—"]], caption="C", label="tbl-t")
    html = plain(text, to="html")
    assert '<table id="tbl-t">' in html
    assert "<caption>C</caption>" in html
    assert html.count("text-align: right") == 3
    assert html.count("text-align: left") == 3


def test_sentences_that_begin_with_a_number_are_no_numbers():
    title = "n = 10 trials, 95 % interval, t over trials, and more to tell"
    said = "1000 clients took 1.8 s, and ten times as many 22 s"
    text = md.table(["said", "found"], [[said, md.span("9 [8, 10]", title)]])
    html = plain(text, to="html")
    assert html.count("text-align: left") == html.count("text-align: right") == 2


def test_titles_of_numbers_make_no_table_wide():
    title = "n = 10 trials, 95 % interval, t over trials"
    number = md.escape("9.2 ± 0.3 [1]")
    titled = md.span("9.2 ± 0.3 [1]", title)
    heads = ["first", "second"]
    rows = ([["a", cell, cell]] * 2 for cell in (number, titled))
    bare, marked = (md.table(["m", *heads], cells, caption="C") for cells in rows)
    assert bare.splitlines()[1] == marked.splitlines()[2]  # the same widths
    assert marked.startswith("::: {.narrow}\n")
    assert marked.endswith(":::\n")
    wide = md.table(["m" * 40, *heads], [["a", titled, titled]], caption="C")
    assert wide.startswith("| mmm")


def test_cells_with_bars_stay_one_cell():
    html = plain(md.table(["a"], [[md.escape("x | y")]]), to="html")
    assert "x | y" in html
    assert html.count("<td") == 1
