"""What both renderers share: the Lua filter, the citation style, the look in print."""

import re
import shutil
import subprocess
from pathlib import Path

import publish_made as made
import pytest
import typst
import yaml

from connlab.publish import markdown as md

THEME = made.ROOT / "paper" / "_theme"
KINDS = ("note", "tip", "warning", "caution", "important")
CALLOUT = "::: {{.callout-{} title='Is it *so*?'}}\nSo it is.\n:::\n"
PICTURE = '![A caption.](a/b.svg){#fig-x fig-alt="Two \\"lines\\" rise."}\n'
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n\n: Made-up tails. More of it. {#tbl-x}\n"


@pytest.fixture(params=["embedded", "quarto"])
def filtered(request, tmp_path):
    """Return what writes Markdown through the filter, as each renderer runs it.

    Quarto's own part is only that a module of its name is there.
    """
    script = tmp_path / "filter.lua"
    said = "quarto = {}\n" if request.param == "quarto" else ""
    script.write_text(f'{said}return dofile("{THEME / "common.lua"}")\n')

    def write(text: str, to: str) -> str:
        words = ("--from=markdown", f"--to={to}", f"--lua-filter={script}")
        return made.pandoc(text, *words)

    write.renderer = request.param
    return write


@pytest.mark.parametrize("kind", KINDS)
def test_no_callout_reaches_typst(kind, filtered):
    said = filtered(CALLOUT.format(kind), "typst")
    assert f'#remark(kind: "{kind}", title: [' in said
    assert "Is it #emph[so]?" in said
    assert "callout" not in said


def test_callouts_are_in_a_list_or_a_hidden_block_as_well(filtered):
    inner = CALLOUT.format("tip").replace("\n", "\n    ")
    outer = ":::: {.content-visible when-format='typst'}\n"
    said = filtered(
        f"1.  x\n\n    {inner}\n\n{outer}{CALLOUT.format('note')}::::\n", "typst"
    )
    assert said.count("#remark(") == 2


def test_on_the_page_quarto_sets_its_own_callouts(filtered):
    said = filtered(CALLOUT.format("tip"), "html")
    own = 'class="callout callout-tip" role="note"'
    assert (own in said) == (filtered.renderer == "embedded")
    assert 'class="callout-tip"' in said or own in said


@pytest.mark.parametrize(
    ("name", "call"), [("table-notes", "#tablenotes["), ("varied", "#varied[")]
)
def test_small_print_is_small(name, call, filtered):
    text = f"::: {{.{name}}}\nSmall.\n:::\n"
    assert call in filtered(text, "typst")
    assert name in filtered(text, "html")


def test_pictures_keep_their_alt_text_in_print(filtered):
    said = filtered(PICTURE, "typst")
    place = {"embedded": "/a/b.svg", "quarto": "a/b.svg"}[filtered.renderer]
    assert f'#image("{place}", alt: "Two \\"lines\\" rise.")' in said
    assert "<fig-x>" in said


def test_a_table_scrolls_in_a_box_that_a_keyboard_reaches(filtered):
    said = filtered(TABLE, "html")
    box = (
        '<div class="table-wrap" tabindex="0" role="region" aria-label="Table: Made-up'
    )
    assert box in said


def test_html_is_not_seen_in_print(filtered):
    text = "x\n\n```{=html}\n<table><tr><td>cell</td></tr></table>\n```\n"
    assert "cell" in filtered(text, "html")
    assert filtered(text, "typst").strip() == "x"


def test_the_template_has_every_function_that_the_filter_calls():
    calls = set(
        re.findall(r"#(\w+)[\[(\"']", (THEME / "common.lua").read_text("utf-8"))
    )
    template = (THEME / "typst-template.typ").read_text("utf-8")
    missing = {c for c in calls - {"image"} if f"#let {c}(" not in template}
    assert calls >= {"remark", "tablenotes", "varied", "image"}
    assert missing == set()


def test_options_of_programs_are_code():
    assert md.escape("--workers") == "`--workers`"
    assert md.escape("8 of --max-conn_x") == "8 of --max-conn\\_x"
    assert md.escape("with --max-connections, or") == "with `--max-connections`, or"
    assert md.escape("`--x`") == "\\`--x\\`"
    assert "--" not in re.sub("`[^`]*`", "", md.escape("--a and --b"))


# ---- citations ---------------------------------------------------------------------


def cited(text: str) -> str:
    files = ["--csl=references.csl", "--bibliography=references.bib"]
    return made.pandoc(text, "--to=plain", "--citeproc", *files, cwd=THEME.parent)


def test_works_are_cited_by_author_and_date():
    said = cited(
        "[@stevens2003; @kegel] @gutica: "
        "[@gutica; @tran2014] [@tene-wrk2; @hdrhistogram]"
    )
    assert said.startswith(
        "(Stevens et al. 2003; Kegel 1999) Gutica and Khoo (n.d.): "
        "(Gutica and Khoo, n.d.; Tran and Rees 2014) (Tene, n.d.-b, n.d.-a)"
    )
    for entry in (
        "Stevens, W. Richard, Bill Fenner, and Andrew M. Rudoff. 2003. UNIX Network "
        "Programming, Volume 1: The Sockets Networking API. 3rd ed. Addison-Wesley.",
        "Tene, Gil. n.d.-b. wrk2: A Constant Throughput, Correct Latency Recording "
        "Variant of wrk. Software. https://github.com/giltene/wrk2.",
    ):
        assert entry in said


def test_every_work_can_be_listed_and_names_of_programs_keep_their_case():
    works = cited("---\nnocite: '@*'\n---\n")
    assert works.count("\n\n") > 25
    assert not re.search(r"Io_uring|Epoll Event|Wrk", works)


# ---- pages of print ----------------------------------------------------------------


def print_pages(body: str, folder: Path) -> list[str]:
    """Set Typst's own code with the template; return the text of each page."""
    tool = shutil.which("pdftotext")
    if not tool:
        pytest.skip("pdftotext is not installed")
    template = (THEME / "typst-template.typ").read_text("utf-8")
    show = '#show: doc => article(title: [T], sectionnumbering: "1.1", doc)\n'
    source = folder / "test.typ"
    source.write_text(f"{template}\n{show}\n{body}", "utf-8")
    typst.compile(str(source), output=str(folder / "test.pdf"))
    command = [tool, "-q", "-layout", str(folder / "test.pdf"), "-"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return said.split("\f")[:-1]


def table(rows: int, *, kind: str = "table") -> str:
    """Write a table as pandoc does (and as Quarto does, with its own kind)."""
    cells = "".join(f"[row {i}], [value],\n" for i in range(rows))
    head = "table.header([name], [number],),\ntable.hline(),\n"
    body = f"align(center)[#table(columns: 2, align: (auto, auto,), {head}{cells})]"
    return f"#figure({body}, caption: [Made up.], kind: {kind})\n"


@pytest.mark.parametrize("kind", ["table", '"quarto-float-tbl", supplement: "Table"'])
@pytest.mark.parametrize("rows", [8, 30])
def test_no_row_of_a_table_stands_alone_on_a_page(rows, kind, tmp_path):
    parted = 0
    for space in range(0, 230, 7):
        pages = print_pages(f"#v({space}mm)\n\n" + table(rows, kind=kind), tmp_path)
        counts = [len(re.findall(r"row \d+", page)) for page in pages]
        shown = [count for count in counts if count]
        assert sum(shown) == rows
        assert min(shown) >= 3, f"{space} mm from the top: {counts}"
        for page, count in zip(pages, counts, strict=True):
            assert not count or "name" in page, "a head is missing"
        parted += len(shown) > 1
    assert (parted > 3) == (rows > 8)


def test_a_table_that_is_held_together_stays_one_table_for_a_reader(tmp_path):
    tool = shutil.which("pdfinfo")
    if not tool:
        pytest.skip("pdfinfo is not installed")
    print_pages(table(30), tmp_path)
    command = [tool, "-struct", str(tmp_path / "test.pdf")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"^ *Table\b", said, re.MULTILINE)) == 1
    assert len(re.findall(r"^ *TR\b", said, re.MULTILINE)) == 31


SECTIONS = """
#lorem(WORDS)

= Earlier
#lorem(60)

= Its section
#lorem(30)

#figure(rect(width: 100%, height: HEIGHTmm)[PICTURE], caption: [Made up.], kind: KIND,
  supplement: "Figure")

#lorem(400)

= Next
#lorem(300)
"""


@pytest.mark.parametrize("height", [40, 110])
@pytest.mark.parametrize("kind", ["image", '"quarto-float-fig"'])
def test_no_picture_stands_above_the_heading_of_its_section(kind, height, tmp_path):
    below = 0
    for words in range(0, 600, 60):
        body = SECTIONS.replace("WORDS", str(words)).replace("HEIGHT", str(height))
        pages = print_pages(body.replace("KIND", kind), tmp_path)
        said = "\f".join(pages)
        heading, picture = said.index("Its section"), said.index("PICTURE")
        assert heading < picture, f"after {words} words"
        below += said.count("\f", 0, heading) == said.count("\f", 0, picture)
    assert below > 2


# ---- the project file ----------------------------------------------------------------


def test_quarto_is_given_what_makes_it_set_alike():
    project = yaml.safe_load((THEME.parent / "_quarto.yml").read_text("utf-8"))
    assert project["filters"] == [
        {"at": "pre-ast", "path": f"_theme/{name}.lua"}
        for name in ("numbers", "common")
    ]
    assert project["crossref"] == {"title-delim": "."}
    assert (project["date-format"], project["csl"]) == ("iso", "references.csl")
    html = project["format"]["html"]
    assert html["embed-resources"] is True
    assert "lightbox" not in html  # its links lead to files beside the page
    assert html["format-links"] == [{"text": "PDF", "href": "paper.pdf"}]
    extra = THEME.parent / html["include-after-body"]
    scripts = re.findall(r'<script src="([^"]+)"', extra.read_text("utf-8"))
    assert scripts == ["_theme/enlarge.js"]
    for name in (*scripts, html["css"]):
        assert (THEME.parent / name).is_file()


# ---- sentences of a run --------------------------------------------------------------

NUMBER = '[]{.number of="s/m" model="a"}'
CLAIMED = f'[It pays {NUMBER} times.]{{.claim of="s/c" otherwise="Not known."}}'


def sentence(text, tmp_path, *, numbers=(), claims=(), references=()):
    """Return Markdown as the page's plain text, with these facts of a run."""
    facts = {"numbers": dict(numbers), "claims": dict(claims)}
    facts |= {"figures": {}, "stale": []}
    (tmp_path / "_generated").mkdir(exist_ok=True)
    facts |= {"references": list(references)}
    made.write_json(tmp_path / "_generated" / "facts.json", facts)
    words = (f"--lua-filter={THEME / 'numbers.lua'}", "--to=plain")
    return " ".join(made.pandoc(text, *words, cwd=tmp_path).replace("_", "").split())


KNOWN = {"s/m model=a": {"text": "2 [1, 3]", "short": "2", "title": "n = 4"}}


PAYS = "It pays 2 [1, 3] times."
BETWEEN = f'One. [It pays {NUMBER} times.]{{otherwise=""}} Two.'
BARE = f'[It pays {NUMBER} times.]{{.claim of="s/c"}}'


@pytest.mark.parametrize(
    ("text", "numbers", "state", "said"),
    [
        (CLAIMED, KNOWN, "yes", PAYS),
        (CLAIMED, KNOWN, "no", f"{PAYS} (This run shows otherwise.)"),
        (CLAIMED, KNOWN, "open", f"{PAYS} (This run cannot tell.)"),
        (CLAIMED, {}, "open", "Not known."),
        (BETWEEN, {}, "yes", "One. Two."),
        (BETWEEN, KNOWN, "yes", f"One. {PAYS} Two."),
        (BARE, {}, "open", "It pays not measured here times."),
    ],
)
def test_a_sentence_says_what_the_run_thinks_of_it(
    text, numbers, state, said, tmp_path
):
    assert sentence(text, tmp_path, numbers=numbers, claims={"s/c": state}) == said


FAR = {"s/m model=a": {"text": "4 [3, 5]", "short": "4", "title": "n = 9"}}
UNSURE = {
    "s/m model=a": {
        "text": "2 (no interval)",
        "short": "2",
        "title": "",
        "unsure": True,
    }
}


@pytest.mark.parametrize(
    ("numbers", "state", "why"),
    [
        ({}, "open", "not measured here"),
        (UNSURE, "open", "this run cannot tell"),
        (KNOWN, "open", "this run cannot tell"),
    ],
)
def test_where_a_run_cannot_tell_the_first_reference_that_can_is_printed(
    numbers, state, why, tmp_path
):
    known = {"numbers": numbers, "claims": {"s/c": state}}
    there = [
        {"name": "A", "numbers": FAR, "claims": {"s/c": "open"}},
        {"name": "B", "numbers": FAR, "claims": {"s/c": "yes"}},
    ]
    shown = sentence(CLAIMED, tmp_path, **known, references=there)
    assert shown == f"It pays 4 [3, 5] times. (Reference on B; {why}.)"
    inside = f'One[; it pays {NUMBER} times]{{otherwise=""}}.'
    shown = sentence(inside, tmp_path, numbers=UNSURE, references=there)
    assert shown == (
        "One; it pays 4 [3, 5] times (reference on A; this run cannot tell)."
    )


def test_what_a_run_can_tell_is_not_taken_from_a_reference(tmp_path):
    there = [{"name": "A", "numbers": FAR, "claims": {"s/c": "yes"}}]
    for state, said in (("yes", ""), ("no", " (This run shows otherwise.)")):
        known = {"numbers": KNOWN, "claims": {"s/c": state}, "references": there}
        shown = sentence(CLAIMED, tmp_path, **known)
        assert shown == f"It pays 2 [1, 3] times.{said}"


def test_a_sentence_about_this_run_is_not_taken_from_a_reference(tmp_path):
    there = [{"name": "A", "numbers": FAR, "claims": {"s/c": "yes"}}]
    known = {"numbers": KNOWN, "claims": {"s/c": "open"}, "references": there}
    own = CLAIMED.replace(" otherwise", ' here="yes" otherwise')
    shown = sentence(own, tmp_path, **known)
    assert shown == "It pays 2 [1, 3] times. (This run cannot tell.)"


def test_a_sentence_that_has_to_be_sure_gives_way_to_what_stands_otherwise(tmp_path):
    own = CLAIMED.replace(" otherwise", ' sure="yes" otherwise')
    known = {"claims": {"s/c": "yes"}}
    assert sentence(own, tmp_path, numbers=UNSURE, **known) == "Not known."
    assert sentence(own, tmp_path, numbers=KNOWN, **known) == "It pays 2 [1, 3] times."


def test_a_reference_without_an_interval_settles_nothing(tmp_path):
    there = [{"name": "A", "numbers": UNSURE, "claims": {"s/c": "yes"}}]
    known = {"numbers": KNOWN, "claims": {"s/c": "open"}, "references": there}
    shown = sentence(CLAIMED, tmp_path, **known)
    assert shown == "It pays 2 [1, 3] times. (This run cannot tell.)"
