"""Every check of the rendered paper trips on a made-up defect."""

import base64
import json

import pytest

from connlab.publish import checking, rendering

IMAGE = "data:image/svg+xml;base64," + "A" * 200
FINE = f"""<!DOCTYPE html><html lang="en"><head><title>T</title>
<style>.a {{ color: red; }}</style></head><body>
<h2 id="one">One</h2><p>See <a href="#one">Section 1</a>,
<a href="https://example.org/paper">a paper</a>, <a href="data/x.csv">data</a>.</p>
<figure id="fig-a"><img src="{IMAGE}" alt="a line"><figcaption>C</figcaption></figure>
<pre><code>{{{{< var x >}}}} ??</code></pre></body></html>"""

FETCHING = b"@import url(https://x.org/font);body{}"
IN_BASE64 = "data:text/css;charset=utf-8;base64," + base64.b64encode(FETCHING).decode()

DEFECTS = {
    "short code": ("Section 1", "{{< var a.b >}}", "short code"),
    "variable": ("Section 1", "?var:a.b", "variable or include"),
    "cross-reference": ("Section 1", "?@fig-x", "cross-reference does not resolve"),
    "reference left": ("Section 1", "@fig-x", "left as text"),
    "question marks": ("Section 1", "(???)", "reference does not resolve"),
    "nan": ("Section 1", "nan ms", "not a number"),
    "none": ("Section 1", "it took None ms", "a value is missing"),
    "none first": ("Section 1", "None ms", "a value is missing"),
    "none between": ("Section 1", "9 [None, 2]", "a value is missing"),
    "none after": ("Section 1", "9 [1, None]", "a value is missing"),
    "none in prose": ("Section 1", "a half-width of None here", "a value is missing"),
    "none at the end": ("Section 1", "it is None.", "a value is missing"),
    "alt": ('alt="a line"', 'alt=" "', "no alt text"),
    "no alt": (' alt="a line"', "", "no alt text"),
    "picture": (IMAGE, "figures/gone.svg", "does not exist"),
    "empty picture": (IMAGE, "data:,", "is empty"),
    "caption": ("<figcaption>C</figcaption>", "", "no caption"),
    "anchor": ('href="#one"', 'href="#two"', "leads nowhere"),
    "file": ("data/x.csv", "data/y.csv", "leads to no file"),
    "twice": ('id="fig-a"', 'id="one"', "stands 2 times"),
    "title": ("<title>T</title>", "<title> </title>", "no title"),
    "language": (' lang="en"', "", "language"),
    "script": ("<h2", '<script src="https://x.org/a.js"></script><h2', "another host"),
    "style sheet": ("<h2", '<link rel="stylesheet" href="//x.org/a"><h2', "another"),
    "image": (IMAGE, "https://x.org/a.png", "another host"),
    "css import": (".a {", "@import 'https://x.org/a'; .a {", "its style fetches"),
    "css url": ("color: red", "background: url(http://x.org/a)", "its style fetches"),
    "css in an address": (
        "<h2",
        '<link rel="stylesheet" href="data:text/css,%40import%20%22https%3A%2F%2Fx.org'
        '%2Fa%22%3B"><h2',
        "its style fetches",
    ),
    "css in base64": ("<h2", f'<link href="{IN_BASE64}"><h2', "its style fetches"),
    "citation": (
        "Section 1",
        '<span class="citation">(<strong>nobody?</strong>)</span>',
        "not in the references",
    ),
}


@pytest.fixture
def output(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_text("a\n")
    (tmp_path / "index.html").write_text(FINE)
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7\n")
    stamp(tmp_path)
    return tmp_path


def stamp(folder, **changes):
    names = ("index.html", "paper.pdf")
    files = {name: rendering.digest(folder / name) for name in names}
    facts = {"files": files, "problems": []} | changes
    (folder / rendering.STAMP).write_text(json.dumps(facts))


def test_a_fine_page_has_no_problems(output):
    """Nor has its link to another host, which nobody follows but a reader."""
    assert checking.check(output) == []


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found(output, name):
    old, new, said = DEFECTS[name]
    assert old in FINE
    problems = checking.check_page(FINE.replace(old, new, 1), output)
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize(
    "said",
    [
        "None of the servers broke.",
        "Two fell. None was lost.",
        "Two fell.\nNone of them rose.",
        "• None fails more than one.",
    ],
)
def test_a_sentence_may_begin_with_none(said):
    assert list(checking.leftovers(said)) == []


def test_links_into_the_other_page_are_followed(output):
    (output / "supplement.html").write_text(FINE, "utf-8")
    linked = FINE.replace('href="#one"', 'href="supplement.html#{}"')
    for name, expected in (("one", []), ("two", ["leads nowhere"])):
        problems = checking.check_page(linked.replace("{}", name), output)
        assert [p.split(" ", 2)[2] for p in problems] == expected


def test_the_supplement_is_checked(output):
    (output / "supplement.html").write_text(FINE.replace("<title>T", "<title>"))
    assert checking.check(output) == ["supplement.html: it has no title"]


def test_a_missing_file_is_found(output):
    (output / "paper.pdf").unlink()
    assert "paper.pdf: it does not exist" in checking.check(output)


def test_a_pdf_of_an_earlier_rendering_is_stale(output):
    (output / "paper.pdf").write_bytes(b"%PDF-1.7\nolder\n")
    assert any("paper.pdf: stale" in p for p in checking.check(output))


def test_a_file_that_is_not_a_pdf_is_found(output):
    (output / "paper.pdf").write_bytes(b"<html>")
    assert "paper.pdf: it is not a PDF" in checking.check(output)


def test_a_word_in_the_margin_is_found():
    page = '<page width="595.0" height="842.0">{}</page>'
    word = '<word xMin="{}" yMin="1.0" xMax="{}" yMax="2.0">wide</word>'
    places = (("74.0", "521.0"), ("74.0", "545.0"), ("50.0", "90.0"))
    pages = [page.format(word.format(*place)) for place in places]
    assert list(checking.overfull("".join(pages))) == [
        "page 2: 'wide' runs into the margin",
        "page 3: 'wide' runs into the margin",
    ]


def test_what_the_renderer_said_is_passed_on(output):
    stamp(output, problems=["unresolved reference @fig-x"])
    assert any("unresolved reference" in p for p in checking.check(output))


def test_an_empty_folder_is_not_fine(tmp_path):
    problems = checking.check(tmp_path)
    assert any("no record of the rendering" in p for p in problems)
    assert "index.html: it does not exist" in problems


def test_links_and_styles_may_share_an_identifier(output):
    page = output / "index.html"
    twice = '<link id="quarto-bootstrap" href="data:text/css,a%7B%7D">' * 2
    page.write_text(FINE.replace("<style>", f'{twice}<style id="one">', 1))
    stamp(output)
    assert checking.check(output) == []
