"""What both renderers share: the Lua filter, the citation style, the look in print."""

import re
from pathlib import Path

import publish_made as made
import pytest
import typst
from conftest import with_reference

from connlab.publish import markdown as md
from connlab.publish.lacking import MISSING

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
    module = "quarto = {}\n" if request.param == "quarto" else ""
    script.write_text(f'{module}return dofile("{THEME / "common.lua"}")\n')

    def write(text: str, to: str) -> str:
        words = ("--from=markdown", f"--to={to}", f"--lua-filter={script}")
        return made.pandoc(text, *words, cwd=made.ROOT)

    write.renderer = request.param
    return write


def test_an_option_in_prose_stays_on_its_line(filtered):
    text = f"Say `--only-watch` or `make x`.\n\n{TABLE.replace('| 1', '| `--one`')}"
    html, code = (filtered(text, to) for to in ("html", "typst"))
    assert '<code class="option">--only-watch</code>' in html
    assert html.count('class="option"') == code.count("#unbroken[") == 1
    assert "#unbroken[`--only-watch`]" in code
    assert "code.option { white-space: nowrap" in (THEME / "parts.css").read_text()


def test_a_bare_number_of_a_section_has_no_word_in_print(filtered):
    """In Quarto before 1.7 too; the embedded renderer has numbered it before."""
    code = filtered("Sections [-@sec-x] and @sec-y, [-@key].", "typst")
    bare = "#ref(<sec-x>, supplement: none)"
    assert (bare in code) == (filtered.renderer == "quarto")
    assert code.count("supplement: none") <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_no_callout_reaches_typst(kind, filtered):
    code = filtered(CALLOUT.format(kind), "typst")
    assert f'#remark(kind: "{kind}", title: [' in code
    assert "#emph[so]" in code
    assert "callout" not in code


def test_callouts_are_in_a_list_or_a_hidden_block_as_well(filtered):
    inner = CALLOUT.format("tip").replace("\n", "\n    ")
    outer = ":::: {.content-visible when-format='typst'}\n"
    text = f"1.  x\n\n    {inner}\n\n{outer}{CALLOUT.format('note')}::::\n"
    assert filtered(text, "typst").count("#remark(") == 2


def test_on_the_page_quarto_sets_its_own_callouts(filtered):
    html = filtered(CALLOUT.format("tip"), "html")
    embedded = filtered.renderer == "embedded"
    assert ('class="callout callout-tip" role="note"' in html) == embedded
    assert ('class="callout-tip"' in html) == (not embedded)


@pytest.mark.parametrize(
    ("name", "call"), [("table-notes", "#tablenotes["), ("varied", "#varied[")]
)
def test_small_print_is_small(name, call, filtered):
    text = f"::: {{.{name}}}\nSmall.\n:::\n"
    assert call in filtered(text, "typst")
    assert name in filtered(text, "html")


def test_pictures_keep_their_alt_text_in_print(filtered):
    code = filtered(PICTURE, "typst")
    path = {"embedded": "/a/b.svg", "quarto": "a/b.svg"}[filtered.renderer]
    assert f'#image("{path}", alt: "Two \\"lines\\" rise.")' in code
    assert "<fig-x>" in code


@with_reference
def test_a_picture_says_how_wide_it_must_be_to_be_read(filtered):
    """Its smallest letters have 10 px then, whoever drew it."""
    paths = [*made.ROOT.glob("runs/reference*/*/figures/*.svg")]
    paths += (made.ROOT / "paper" / "figures").glob("*.svg")
    near = [path.relative_to(made.ROOT) for path in paths]  # a folder may have spaces
    html = filtered("".join(f"![x]({path})\n\n" for path in near), "html")
    widths = re.findall(r'style="--legible: (\d+)px"', html)
    assert len(paths) == len(widths) > 9
    for path, width in zip(paths, map(int, widths), strict=True):
        text = path.read_text("utf-8")
        letters = re.findall(r'font(?:-size)?(?:: |=")([\d.]+)', text)
        unit = float(re.search(r'<svg[^>]* width="([\d.]+)pt"', text)[1])
        assert width - 1 < unit * 10 / min(map(float, letters)) <= width


def test_of_a_picture_without_letters_no_width_is_known(filtered, tmp_path):
    (tmp_path / "x.svg").write_text('<svg viewBox="0 0 9 9"><rect/></svg>')
    for name in ("x.svg", "none.svg"):
        assert "--legible" not in filtered(f"![x]({tmp_path / name})\n", "html")


def test_cells_of_cards_name_their_columns_and_stay_cells(filtered):
    """What a phone shows as blocks is a table to a screen reader by its roles."""
    text = "::: {.cards}\n| a | b |\n|---|---|\n| 1 | — |\n\n: Made up.\n:::\n"
    html = filtered(text, "html")
    for role, count in (("table", 1), ("rowgroup", 2), ("row", 2), ("cell", 2)):
        assert html.count(f'role="{role}"') == count
    assert html.count('role="columnheader"') == 2
    assert re.search(r'<td role="cell" data-label="a">1</td>', html)
    assert re.search(r'<td class="none" role="cell" data-label="b">', html)
    assert "cards" not in filtered(text, "typst")


def test_a_number_and_its_unit_stand_on_one_line(filtered):
    text = "At 70 % of ±5\n%, in [1 to 3 s]{.x} (4 µs); 3 servers, a % b\n"
    html = filtered(text, "html")
    for kept in ("70\xa0%", "±5\xa0%,", "3\xa0s<", "4\xa0µs)"):
        assert kept in html
    assert html.count("\xa0") == 4
    assert "70~%" in filtered(text, "typst").replace("\\", "")
    for form in ("html", "typst"):
        in_a_table = filtered("| a |\n|---|\n| 70 % |\n", form)
        assert "\xa0" not in in_a_table
        assert "~" not in in_a_table


def test_a_table_scrolls_in_a_box_that_a_keyboard_reaches(filtered):
    box = '<div class="table-wrap" tabindex="0" role="region" aria-label="Table: Made'
    assert box in filtered(TABLE, "html")


def test_html_is_not_seen_in_print(filtered):
    text = "x\n\n```{=html}\n<table><tr><td>cell</td></tr></table>\n```\n"
    assert "cell" in filtered(text, "html")
    assert filtered(text, "typst").strip() == "x"


def test_the_template_has_every_function_that_the_filter_calls():
    code = (THEME / "common.lua").read_text("utf-8")
    calls = set(re.findall(r"#(\w+)[\[(\"']", code))
    template = (THEME / "typst-template.typ").read_text("utf-8")
    missing = {c for c in calls - {"image", "ref"} if f"#let {c}(" not in template}
    assert calls >= {"remark", "tablenotes", "varied", "image"}
    assert missing == set()


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("--workers", "`--workers`"),
        ("8 of --max-conn_x", "8 of --max-conn\\_x"),
        ("with --max-connections, or", "with `--max-connections`, or"),
        ("`--x`", "\\`--x\\`"),
        ("--a and --b", "`--a` and `--b`"),
    ],
)
def test_options_of_programs_are_code(text, escaped):
    assert md.escape(text) == escaped


# ---- citations ---------------------------------------------------------------------


def cited(text: str) -> str:
    files = ["--csl=references.csl", "--bibliography=references.bib"]
    return made.pandoc(text, "--to=plain", "--citeproc", *files, cwd=THEME.parent)


def test_works_are_cited_by_author_and_date():
    text = cited(
        "[@stevens2003; @kegel] @gutica: "
        "[@gutica; @tran2014] [@tene-wrk2; @hdrhistogram]"
    )
    assert text.startswith(
        "(Stevens et al. 2003; Kegel 1999) Gutica and Khoo (n.d.): "
        "(Gutica and Khoo, n.d.; Tran and Rees 2014) (Tene, n.d.-b, n.d.-a)"
    )
    for entry in (
        "Stevens, W. Richard, Bill Fenner, and Andrew M. Rudoff. 2003. UNIX Network "
        "Programming, Volume 1: The Sockets Networking API. 3rd ed. Addison-Wesley.",
        "Tene, Gil. n.d.-b. wrk2: A Constant Throughput, Correct Latency Recording "
        "Variant of wrk. Software. https://github.com/giltene/wrk2.",
    ):
        assert entry in text


def test_every_work_can_be_listed_and_names_of_programs_keep_their_case():
    works = cited("---\nnocite: '@*'\n---\n")
    assert works.count("\n\n") > 25
    assert not re.search(r"Io_uring|Epoll Event|Wrk", works)


# ---- pages of print ----------------------------------------------------------------


def print_pages(body: str, folder: Path) -> list[str]:
    """Set Typst's own code with the template; return the text of each page."""
    template = (THEME / "typst-template.typ").read_text("utf-8")
    show = '#show: doc => article(title: [T], sectionnumbering: "1.1", doc)\n'
    source = folder / "test.typ"
    source.write_text(f"{template}\n{show}\n{body}", "utf-8")
    output = str(folder / "test.pdf")
    typst.compile(str(source), output=output, ignore_system_fonts=True)
    text = made.poppler("pdftotext", "-q", "-layout", folder / "test.pdf", "-")
    return text.split("\f")[:-1]


def print_each(bodies: list[str], folder: Path) -> list[list[str]]:
    """Set each body from the top of a page on, under a mark; return its pages."""
    document = "\n#pagebreak()\n".join(f"MARK\n\n{body}" for body in bodies)
    parts: list[list[str]] = []
    for page in print_pages(document, folder):
        if "MARK" in page:
            parts.append([])
        parts[-1].append(page)
    assert len(parts) == len(bodies)
    return parts


def table(rows: int, *, kind: str = "table") -> str:
    """Write a table as pandoc does (and as Quarto does, with its own kind)."""
    cells = "".join(f"[row {i}], [value],\n" for i in range(rows))
    head = "table.header([name], [number],),\ntable.hline(),\n"
    body = f"align(center)[#table(columns: 2, align: (auto, auto,), {head}{cells})]"
    return f"#figure({body}, caption: [Made up.], kind: {kind})\n"


@pytest.mark.parametrize("kind", ["table", '"quarto-float-tbl", supplement: "Table"'])
@pytest.mark.parametrize("rows", [8, 30])
def test_no_row_of_a_table_stands_alone_on_a_page(rows, kind, tmp_path):
    parted, spaces = 0, range(0, 230, 7)
    bodies = [f"#v({space}mm)\n\n" + table(rows, kind=kind) for space in spaces]
    for space, pages in zip(spaces, print_each(bodies, tmp_path), strict=True):
        counts = [len(re.findall(r"row \d+", page)) for page in pages]
        assert sum(counts) == rows
        assert min(filter(None, counts)) >= 3, f"{space} mm from the top: {counts}"
        heads = ["name" in page for page in pages]
        assert all(h for h, count in zip(heads, counts, strict=True) if count)
        parted += len([count for count in counts if count]) > 1
    assert (parted > 3) == (rows > 8)


@pytest.mark.parametrize("words", [1, 60])
def test_a_table_of_few_but_high_rows_is_parted(words, tmp_path):
    cell = "[value]", f"[{'many ' * words}]"
    body = f"#v(120mm)\n\n{table(8).replace(*cell)}"
    (pages,) = print_each([body], tmp_path)
    assert len(pages) == 1 + (words > 1)
    assert all(page.count("row ") >= 3 for page in pages)


def test_an_interval_in_a_table_stays_on_its_line(tmp_path):
    cells = [f"[{'x' * n} {n} \\[10.4, 13.0\\]]," for n in range(30)]
    code = f"#table(columns: (28mm, 1fr), {'[], '.join(cells)} [])"
    (page,) = print_pages(code, tmp_path)
    assert page.count("[10.4, 13.0]") == 30


def test_a_table_that_is_held_together_stays_one_table_for_a_reader(tmp_path):
    print_pages(table(30), tmp_path)
    tags = made.poppler("pdfinfo", "-struct", tmp_path / "test.pdf")
    assert len(re.findall(r"^ *Table\b", tags, re.MULTILINE)) == 1
    assert len(re.findall(r"^ *TR\b", tags, re.MULTILINE)) == 31


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
    below, lengths = 0, range(0, 600, 60)
    sections = SECTIONS.replace("HEIGHT", str(height)).replace("KIND", kind)
    bodies = [sections.replace("WORDS", str(words)) for words in lengths]
    for words, pages in zip(lengths, print_each(bodies, tmp_path), strict=True):
        text = "\f".join(pages)
        heading, picture = text.index("Its section"), text.index("PICTURE")
        assert heading < picture, f"after {words} words"
        below += text.count("\f", 0, heading) == text.count("\f", 0, picture)
    assert below > 2


# ---- sentences of a run --------------------------------------------------------------

NUMBER = '[]{.number of="s/m" model="a"}'
CLAIMED = f'[It pays {NUMBER} times.]{{.claim of="s/c" otherwise="Not known."}}'
NO_FACTS = {"numbers": {}, "claims": {}, "figures": {}, "borrowed": {}}
NO_FACTS |= {"stale": [], "references": []}


def sentence(text, tmp_path, **facts):
    """Return Markdown as the page's plain text, with these facts of a run."""
    (tmp_path / "_generated").mkdir(exist_ok=True)
    made.write_json(tmp_path / "_generated" / "facts.json", NO_FACTS | facts)
    words = (f"--lua-filter={THEME / 'numbers.lua'}", "--to=plain")
    return " ".join(made.pandoc(text, *words, cwd=tmp_path).replace("_", "").split())


def number(text, *, unsure=False):
    facts = {"text": text, "short": text[0], "title": "n = 4", "unsure": unsure}
    return {"s/m model=a": facts}


KNOWN, FAR = number("2 [1, 3]"), number("4 [3, 5]")
UNSURE = number("2 (no interval)", unsure=True)
OPEN = "cannot tell"  # what a run adds to a reference's sentence
ELSE = "otherwise in this run"
FILTER = (THEME / "numbers.lua").read_text("utf-8")
NOT_MEASURED = re.search(r'^local not_measured = "(.+)"$', FILTER, re.MULTILINE)[1]

PAYS = "It pays 2 [1, 3] times."
DENIED = f"In this run this does not hold: {PAYS}"
DOUBTED = f"This run cannot tell whether this holds: {PAYS}"
BETWEEN = f'One. [It pays {NUMBER} times.]{{otherwise=""}} Two.'
BARE = f'[It pays {NUMBER} times.]{{.claim of="s/c"}}'
OF_THIS_RUN = CLAIMED.replace(" otherwise", ' here="yes" otherwise')
SURE = CLAIMED.replace(" otherwise", ' sure="yes" otherwise')


def reference(name, state, numbers=FAR):
    return {"name": name, "numbers": numbers, "claims": {"s/c": state}}


TOLD, UNTOLD = ([reference("A", "yes", numbers)] for numbers in (FAR, UNSURE))
TWO, THREE = (f"This run cannot tell whether these {n} hold:" for n in ("two", "three"))
OPENLY = f'[Not shown: {NUMBER} times.]{{.claim of="s/c" when="open"}}'
SHOWN = "Not shown: 2 [1, 3] times."
OTHER = CLAIMED.replace("s/c", "s/d")


@pytest.mark.parametrize(
    ("text", "numbers", "state", "references", "shown"),
    [
        (CLAIMED, KNOWN, "yes", (), PAYS),
        (CLAIMED, KNOWN, "no", (), DENIED),
        (CLAIMED, KNOWN, "open", (), DOUBTED),
        (CLAIMED, {}, "open", (), "Not known."),
        (BETWEEN, {}, "yes", (), "One. Two."),
        (BETWEEN, KNOWN, "yes", (), f"One. {PAYS} Two."),
        # without its number no sentence can be read: whether the study is there decides
        (f"One. {BARE}", {}, "open", (), "One."),
        (BARE, {"s/m model=b": KNOWN["s/m model=a"]}, "open", (), NOT_MEASURED),
        # what the run can tell, or what is about it, is not taken from a reference
        (CLAIMED, KNOWN, "yes", TOLD, PAYS),
        (CLAIMED, KNOWN, "no", TOLD, DENIED),
        (OF_THIS_RUN, KNOWN, "open", TOLD, DOUBTED),
        # nor is what it contradicts; where it lacks the number, the remark says so
        (CLAIMED, UNSURE, "no", TOLD, DENIED.replace("[1, 3]", "(no interval)")),
        (CLAIMED, {}, "no", TOLD, f"It pays 4 [3, 5] times. (From the A run; {ELSE}.)"),
        # a reference without an interval settles nothing
        (CLAIMED, KNOWN, "open", UNTOLD, DOUBTED),
        # what has to be sure gives way to what stands otherwise
        (SURE, UNSURE, "yes", (), "Not known."),
        (SURE, KNOWN, "yes", (), PAYS),
        # sentences in a row share the remark that each would have
        (f"{CLAIMED} {CLAIMED}", KNOWN, "open", (), f"{TWO} (1) {PAYS} (2) {PAYS}"),
        (
            f"{CLAIMED} {CLAIMED} {CLAIMED}",
            *(KNOWN, "open", ()),
            f"{THREE} (1) {PAYS} (2) {PAYS} (3) {PAYS}",
        ),
        (
            f"{CLAIMED}\n{CLAIMED} Other.",
            *(KNOWN, "no", ()),
            f"In this run these two do not hold: (1) {PAYS} (2) {PAYS} Other.",
        ),
        (f"{CLAIMED} More. {CLAIMED}", KNOWN, "open", (), f"{DOUBTED} More. {DOUBTED}"),
        (f"{CLAIMED}\n\n{CLAIMED}", KNOWN, "open", (), f"{DOUBTED} {DOUBTED}"),
        (f"{CLAIMED} {CLAIMED}", KNOWN, "yes", (), f"{PAYS} {PAYS}"),
        # unless they are unlike: that of s/d is open
        (f"{OTHER} {CLAIMED}", KNOWN, "no", (), f"{DOUBTED} {DENIED}"),
        # and those for an open claim end what shares a remark
        (
            f"{OTHER} {CLAIMED} {OPENLY} {OTHER}",
            *(KNOWN, "open", ()),
            f"{DOUBTED} {SHOWN} {DOUBTED}",
        ),
    ],
)
def test_a_sentence_with_the_state_of_its_claim(
    text, numbers, state, references, shown, tmp_path
):
    facts = {"numbers": numbers, "claims": {"s/c": state, "s/d": "open"}}
    assert sentence(text, tmp_path, **facts, references=references) == shown


@pytest.mark.parametrize(
    ("numbers", "state", "references", "shown"),
    [
        (KNOWN, "open", (), SHOWN),
        # nor is a reference asked
        (KNOWN, "open", TOLD, SHOWN),
        (KNOWN, "yes", TOLD, PAYS),
        (KNOWN, "no", (), DENIED),
        (KNOWN, "missing", (), f"{PAYS} {NOT_MEASURED}"),
        # words that lack a number, or its interval, say nothing
        ({}, "open", (), "Not known."),
        (
            UNSURE,
            "open",
            TOLD,
            f"It pays 4 [3, 5] times. (From the A run; this run {OPEN}.)",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_claim_that_is_open_may_have_words_of_its_own(
    first, numbers, state, references, shown, tmp_path
):
    text = f"{CLAIMED}\n{OPENLY}" if first else f"{OPENLY} {CLAIMED}"
    claims = {} if state == "missing" else {"s/c": state}
    facts = {"numbers": numbers, "claims": claims, "references": references}
    assert sentence(f"One. {text} Two.", tmp_path, **facts) == f"One. {shown} Two."


def test_words_for_an_open_claim_about_this_run_need_no_interval(tmp_path):
    ours = OPENLY.replace(" when", ' here="yes" when')
    text = f"{OF_THIS_RUN} {ours}"
    facts = {"numbers": UNSURE, "claims": {"s/c": "open"}, "references": TOLD}
    assert sentence(text, tmp_path, **facts) == "Not shown: 2 (no interval) times."
    facts |= {"numbers": KNOWN, "stale": ["s"]}
    assert sentence(text, tmp_path, **facts) == f"{SHOWN} (Stale.)"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("225.193129 ms", "225 ms"),
        ("1.851024866 s", "1.85 s"),
        ("0.012345 s", "0.0123 s"),
        ("12345.678", "12346"),
        ("93.25 %", "93.25 %"),
        ("2250", "2250"),
    ],
)
def test_a_published_number_has_few_digits_and_all_of_them_in_its_title(
    printed, shown, tmp_path
):
    text = f'In [{printed}]{{.published table="t"}}.'
    assert sentence(text, tmp_path) == f"In {shown}."
    words = (f"--lua-filter={THEME / 'numbers.lua'}", "--to=html")
    html = made.pandoc(text, *words, cwd=tmp_path)
    assert (f'title="{printed} as published"' in html) is (printed != shown)
    assert ('class="published num"' in html) is (printed != shown)


def test_a_number_has_the_unit_of_its_sentence_on_hover_too(tmp_path):
    text = "9 requests/s [8, 10]"
    facts = {"text": text, "short": "9", "title": f"{text}, n = 4", "unsure": False}
    pages = NUMBER.replace(' model="a"', ' model="a" unit="pages/s"')
    shown = sentence(pages, tmp_path, numbers={"s/m model=a": facts})
    assert shown == "9 pages/s [8, 10]"
    words = (f"--lua-filter={THEME / 'numbers.lua'}", "--to=html")
    html = made.pandoc(pages, *words, cwd=tmp_path)
    assert 'title="9 pages/s [8, 10], n = 4"' in html


def test_references_in_a_row_are_named_once(tmp_path):
    facts = {"numbers": UNSURE, "claims": {"s/c": "open"}, "references": TOLD}
    theirs = "It pays 4 [3, 5] times."
    for count, several in ((2, "Both"), (3, "These three"), (7, "All these")):
        shown = sentence(" ".join([CLAIMED] * count), tmp_path, **facts)
        named = f"({several} sentences: from the A run; this run {OPEN}.)"
        assert shown == " ".join([*[theirs] * count, named])


def test_a_reference_that_contradicts_the_one_that_is_printed_is_named(tmp_path):
    references = [reference("A", "no"), reference("B", "yes"), reference("C", "no")]
    shown = sentence(CLAIMED, tmp_path, claims={"s/c": "open"}, references=references)
    assert shown.startswith("It pays 4 [3, 5] times. (From the B run; ")
    assert shown.endswith(" on A and C.)")


def test_a_sentence_of_a_study_that_was_measured_again_since_is_stale(tmp_path):
    facts = {"numbers": KNOWN, "claims": {"s/c": "yes"}}
    assert sentence(CLAIMED, tmp_path, **facts, stale=["s"]) == f"{PAYS} (Stale.)"
    assert sentence(CLAIMED, tmp_path, **facts, stale=["t"]) == PAYS


def test_a_claim_without_a_number_is_as_stale_as_its_study(tmp_path):
    text, claims = '[It pays.]{.claim of="s/c"}', {"s/c": "yes"}
    assert sentence(text, tmp_path, claims=claims, stale=["s"]) == "It pays. (Stale.)"
    assert sentence(text, tmp_path, claims=claims, stale=["t"]) == "It pays."


@pytest.mark.parametrize(
    "source", [{"borrowed": {"a/b.svg": "AMD EPYC"}}, {"stale": ["a/b.svg"]}]
)
def test_a_picture_of_other_trials_says_so_first(source, tmp_path):
    first = "From the AMD EPYC run; not measured here." if "borrowed" in source else ""
    shown = sentence(PICTURE, tmp_path, **source)
    assert f"{first or 'Stale.'} A caption." in shown
    assert sentence(PICTURE, tmp_path) == "[A caption.]"


def test_a_table_of_a_reference_names_it_first(tmp_path):
    made_there = TABLE.replace("| a |", '| []{.source of="AMD EPYC"}a |')
    shown = sentence(made_there, tmp_path)
    assert "From the AMD EPYC run; not measured here. Made-up tails." in shown
    stale = sentence(TABLE.replace("| a |", "| []{.source}a |"), tmp_path)
    assert "Stale. Made-up tails." in stale
    assert "Reference" not in sentence(TABLE, tmp_path)


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [({}, MISSING), (UNSURE, f"this run {OPEN}"), (KNOWN, f"this run {OPEN}")],
)
def test_where_a_run_cannot_tell_the_first_reference_that_can_is_printed(
    numbers, reason, tmp_path
):
    references = [reference("A", "open"), reference("B", "yes")]
    facts = {"numbers": numbers, "claims": {"s/c": "open"}, "references": references}
    shown = sentence(CLAIMED, tmp_path, **facts)
    assert shown.startswith("It pays 4 [3, 5] times. (")
    assert shown.endswith(f" the B run; {reason}.)")
    inside = f'One[; it pays {NUMBER} times]{{otherwise=""}}.'
    shown = sentence(inside, tmp_path, numbers=UNSURE, references=references)
    assert shown.startswith("One; it pays 4 [3, 5] times (")
    assert shown.endswith(f" the A run; this run {OPEN}).")


def test_models_of_unequal_length_leave_no_gaps(tmp_path):
    """Two in a row were both as high as the longer; the last page had one model."""
    lines = " #linebreak() ".join(["a line"] * 12)
    cells = "".join(
        f"[short {i}], [long {i} #linebreak() {lines}],\n" for i in range(6)
    )
    (page,) = print_pages(f"#models(\n{cells})\n", tmp_path)
    assert page.count("short") == page.count("long") == 6


def test_a_note_at_the_head_of_a_section_stays_with_what_follows(tmp_path):
    """Two sections of a reference began below a page, with a note and nothing else."""
    box = '#remark(kind: "{}", title: [Title])[{}]\n'
    head = "= Section\n" + box.format("note", "note here") + box.format("tip", "answer")
    bodies = [f"#v({height}mm)\n{head}" for height in range(150, 230, 10)]
    for pages in print_each(bodies, tmp_path):
        page = next(page for page in pages if "Section" in page)
        assert "note here" in page
        assert "answer" in page
