"""Every check of the rendered paper trips on a made-up defect."""

import base64
import json
import re

import pytest
from conftest import lay

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

#: what is wrong with a text that stands in a paragraph
IN_TEXT = {
    "{{< var a.b >}}": "short code.*var a.b",
    "?var:a.b": r"variable.*\?var:a.b",
    "?@fig-x": r"resolve.*\?@fig-x",
    "@fig-x": "as text.*@fig-x",
    "(???)": r"resolve.*\(\?\?\?\)",
    "nan ms": "a number.*nan ms",
    "it took None ms": "missing.*took None ms",
    "None ms": "missing.*None ms",
    "9 [None, 2]": r"missing.*\[None, 2",
    "9 [1, None]": r"missing.*1, None\]",
    "a half-width of None here": "missing.*of None",
    "it is None.": "missing.*is None",
    '<span class="citation">(<strong>nobody?</strong>)</span>': "citation 'nobody'",
}
#: and with an element that stands before the heading
ELEMENTS = {
    '<script src="https://x.org/a.js"></script>': "fetches https://x.org/a.js",
    '<link rel="stylesheet" href="//x.org/a">': "fetches //x.org/a",
    '<link rel="stylesheet" href="data:text/css,%40import%20%22https%3A%2F%2Fx.org'
    '%2Fa%22%3B">': "style.*https://x.org/a",
    f'<link href="{IN_BASE64}">': "style.*https://x.org/font",
}
DEFECTS = [
    *(("Section 1", text, problem) for text, problem in IN_TEXT.items()),
    *(("<h2", f"{element}<h2", problem) for element, problem in ELEMENTS.items()),
    ('alt="a line"', 'alt=" "', "alt text"),
    (' alt="a line"', "", "alt text"),
    (IMAGE, "figures/gone.svg", "image figures/gone.svg.*exist"),
    (IMAGE, "data:,", "image data:,.*empty"),
    (IMAGE, "https://x.org/a.png", "fetches https://x.org/a.png"),
    ("<figcaption>C</figcaption>", "", "'fig-a'.*caption"),
    ('href="#one"', 'href="#two"', "link #two"),
    ("data/x.csv", "data/y.csv", "link data/y.csv"),
    ('id="fig-a"', 'id="one"', "'one'.* 2 times"),
    ("<title>T</title>", "<title> </title>", "title"),
    (' lang="en"', "", "language"),
    (".a {", "@import 'https://x.org/a'; .a {", "style.*https://x.org/a"),
    ("color: red", "background: url(http://x.org/a)", "style.*http://x.org/a"),
]


@pytest.fixture
def output(tmp_path):
    lay(tmp_path, {"data/x.csv": "a\n", "index.html": FINE, "paper.pdf": b"%PDF-1.7\n"})
    stamp(tmp_path)
    return tmp_path


def stamp(folder, **changes):
    names = ("index.html", "paper.pdf")
    files = {name: rendering.digest(folder / name) for name in names}
    facts = {"files": files, "problems": []} | changes
    (folder / rendering.STAMP).write_text(json.dumps(facts))


@pytest.mark.parametrize(("old", "new", "pattern"), DEFECTS)
def test_a_defect_is_found(output, old, new, pattern):
    assert old in FINE
    problems = checking.check_page(FINE.replace(old, new, 1), output)
    assert any(re.search(pattern, problem) for problem in problems), problems


@pytest.mark.parametrize(
    "text",
    [
        "None of the servers broke.",
        "Two fell. None was lost.",
        "Two fell.\nNone of them rose.",
        "• None fails more than one.",
    ],
)
def test_a_sentence_may_begin_with_none(text):
    assert list(checking.leftovers(text)) == []


def test_links_into_the_other_page_are_followed(output):
    (output / "supplement.html").write_text(FINE, "utf-8")
    linked = FINE.replace('href="#one"', 'href="supplement.html#{}"')
    for name, broken in (("one", []), ("two", ["supplement.html#two"])):
        problems = checking.check_page(linked.replace("{}", name), output)
        assert [problem.split()[1] for problem in problems] == broken


def test_the_supplement_is_checked(output):
    (output / "supplement.html").write_text(FINE.replace("<title>T", "<title>"))
    (problem,) = checking.check(output)
    assert re.match("supplement.html: .*title", problem)


def test_titles_of_pages_beside_the_paper_are_read(output):
    lay(output, {"data/x.html": FINE.replace("<title>T", "<title>As in @tbl-x")})
    (problem,) = checking.check(output)
    assert re.match("data/x.html: .*as text.*@tbl-x", problem)


@pytest.mark.parametrize(
    ("content", "word"),
    [(None, "exist"), (b"%PDF-1.7\nolder\n", "stale"), (b"<html>", "a PDF")],
)
def test_another_pdf_than_the_rendered_one_is_found(output, content, word):
    pdf = output / "paper.pdf"
    pdf.unlink() if content is None else pdf.write_bytes(content)
    assert any(re.match(f"paper.pdf: .*{word}", p) for p in checking.check(output))


def test_a_word_in_the_margin_is_found():
    page = '<page width="595.0" height="842.0">{}</page>'
    word = '<word xMin="{}" yMin="1.0" xMax="{}" yMax="2.0">wide</word>'
    places = (("74.0", "521.0"), ("74.0", "545.0"), ("50.0", "90.0"))
    pages = [page.format(word.format(*place)) for place in places]
    problems = checking.overfull("".join(pages))
    found = [" ".join(problem.split()[:3]) for problem in problems]
    assert found == ["page 2: 'wide'", "page 3: 'wide'"]


def test_problems_of_the_renderer_are_passed_on(output):
    stamp(output, problems=["unresolved reference @fig-x"])
    assert any("unresolved reference @fig-x" in p for p in checking.check(output))


def test_an_empty_folder_is_not_fine(tmp_path):
    files = {problem.partition(":")[0] for problem in checking.check(tmp_path)}
    assert files == {rendering.STAMP, "index.html", "paper.pdf"}


def test_a_fine_page_has_no_problems(output):
    """Nor have links and styles that share an identifier, or a link to another host."""
    page = output / "index.html"
    twice = '<link id="quarto-bootstrap" href="data:text/css,a%7B%7D">' * 2
    page.write_text(FINE.replace("<style>", f'{twice}<style id="one">', 1))
    stamp(output)
    assert checking.check(output) == []
