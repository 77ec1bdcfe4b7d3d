"""The ledger: verdict first, a row or a card each, counted by report, with links."""

import re
from types import SimpleNamespace

import publish_made as made
import pytest
from bs4 import BeautifulSoup

from connlab.publish import ledger, reference
from connlab.study.results import Results

VERDICTS = {"G1": "holds", "T1": "not testable here"}


def judged(verdicts=VERDICTS):
    return Results.model_validate(made.claims(verdicts))


def claims(others=(), paper=made.ROOT / "nowhere", shown=(), verdicts=VERDICTS):
    return ledger.claims(
        judged(verdicts), paper=paper, others=dict(others), shown=set(shown)
    )


def printed(page_only=(), **named):
    return ledger.table(claims(**named), caption="C", page_only=set(page_only))


def cells(text, row):
    line = next(x for x in text.splitlines() if row in x)
    return [cell.strip() for cell in line.strip("|").split("|")]


def read(html):
    """Take a page apart: rows of cells by their labels, summaries, links, titles."""
    soup = BeautifulSoup(html, "html.parser")
    summaries = soup.find_all("summary")
    rows = [
        {c.get("data-label") or c["scope"]: c.get_text() for c in row(["th", "td"])}
        for row in soup.find_all("tr")
    ]
    return SimpleNamespace(
        rows=rows,
        summaries=[" ".join(s.get_text(" ").split()) for s in summaries],
        links=[a["href"] for a in soup.find_all("a")],
        titles=[tag["title"] for tag in soup.find_all(title=True)],
    )


def page(**named):
    paper = named.get("paper", made.ROOT / "nowhere")
    results = judged(named.get("verdicts", VERDICTS))
    return ledger.unfolding(claims(**named), results, paper)


def test_the_verdict_comes_first():
    head = cells(printed(), "Verdict")
    assert head == ["", "Verdict", "Claim", "Found here", "Published"]


def test_a_quotation_stands_beside_its_claim_with_its_line(tmp_path):
    (tmp_path / "claims.yml").write_text("- {id: G1, quote: it fails, line: 7}\n")
    assert "“it fails” (line 7)" in printed(paper=tmp_path)
    assert "“it fails” (line 7)" in page(paper=tmp_path)
    row = "- {id: G1, quote: \"1000's 475 2,300\", columns: 'a, b', line: 7}\n"
    (tmp_path / "claims.yml").write_text(row)
    assert "“1000’s 475 2,300” (a, b; line 7)" in printed(paper=tmp_path)
    (tmp_path / "claims.yml").write_text("- {id: G1, quote: ''}\n")
    assert "(line" not in printed(paper=tmp_path)


def test_the_reference_stands_behind_the_verdict():
    text = printed(others={"AMD": judged({"G1": "does not hold"})})
    assert cells(text, "claim G1")[1:4] == ["holds", "does not hold", "differs"]
    assert cells(text, "claim T1")[1:4] == [VERDICTS["T1"], "—", reference.NEITHER]


def test_a_claim_about_published_numbers_cannot_differ(tmp_path):
    (tmp_path / "claims.yml").write_text("- {id: G1, published: a.csv}\n- {id: T1}\n")
    text = printed(others={"AMD": judged()}, paper=tmp_path)
    assert "trials" in cells(text, "claim G1")[3]
    assert cells(text, "claim T1")[3] == reference.NEITHER


def test_all_columns_are_aligned_to_the_left():
    rule = printed().splitlines()[1].strip("|").split("|")
    assert all(cell.startswith(":") and not cell.endswith(":") for cell in rule)


AUTHORS = "Lovelace and Babbage 1843"


@pytest.fixture
def paper(tmp_path):
    (tmp_path / "claims.yml").write_text(
        "- {id: G1, figure: fig-a, source: ada}\n"
        "- {id: T1, figure: tbl-b, source: bob}\n"
        "- {id: M1, figure: fig-c}\n- {id: L1, source: ada}\n- {id: L2, source: bob}\n"
    )
    (tmp_path / "references.bib").write_text(
        "@misc{ada,\n  author = {Lovelace, Ada and Babbage, Charles},\n"
        "  year = {1843}\n}\n\n@misc{bob,\n  author = {{B\\_b}}\n}\n"
    )
    return tmp_path


def test_numbers_link_to_what_the_paper_shows(paper):
    text = printed(paper=paper, shown={"fig-a"})
    assert cells(text, "claim G1")[0] == "[G1](#fig-a)"
    assert cells(text, "claim T1")[0] == "T1"


def test_print_gets_no_link_to_what_only_the_page_shows(paper):
    named = {"paper": paper, "shown": {"tbl-b"}}
    assert cells(printed(**named, page_only={"tbl-b"}), "claim T1")[0] == "T1"
    assert read(page(**named)).links == ["#tbl-b"]


def test_without_a_ledger_nothing_links():
    assert read(page(shown={"fig-a"})).links == []


def test_a_report_unfolds_to_its_claims(paper):
    verdicts = {"G1": "holds", "G2": "holds", "L1": "does not hold", "L2": "holds"}
    html = page(paper=paper, verdicts=verdicts)
    reports = [read("<details" + x) for x in html.split("<details")[1:]]
    counts = [re.findall(r"^\w|\d \w+", x) for r in reports for x in r.summaries]
    assert counts == [
        ["G", "2 tests", "2 hold"],
        ["L", "2 tests", "1 holds", "1 does"],
    ]
    rows = reports[1].rows[1:]
    assert [row["row"] for row in rows] == ["L1", "L2"]
    assert [row["Verdict"] for row in rows] == ["does not hold", "holds"]
    claim, cited = made.claims(verdicts)["tables"][0]["rows"][2][1], AUTHORS
    assert rows[0]["Claim"] == f"{claim} {cited}"
    assert rows[1]["Claim"].endswith(" B_b")


def test_a_report_is_named_by_its_authors(paper):
    (summary,) = read(page(paper=paper, verdicts={"G1": "holds"})).summaries
    assert summary.startswith(f"G: {AUTHORS} 1 ")


def test_verdicts_are_counted_by_report(paper):
    verdicts = {"G1": "holds", "L1": "does not hold", "L2": "holds"}
    text = ledger.overview(claims(paper=paper, verdicts=verdicts), caption="C")
    assert cells(text, "Report")[1] == "tests"  # one claim may be put to several
    assert cells(text, "G: @ada") == ["G: @ada", "1", "1", "—", "—", "—"]
    assert cells(text, "L: others") == ["L: others", "2", "1", "—", "1", "—"]
    assert ": C {#tbl-claims}" in text


def test_digits_that_nobody_can_measure_are_kept_behind_the_number():
    table, numbers = claims(), ("9.416260757", "0.00036335", "1461.298685")
    table.rows.loc[0, "number"] = "{} ms at 1000, {} s < {} ms".format(*numbers)
    text = ledger.table(table, caption="", page_only=set())
    assert "42 ms at 1000, 0.000363 s \\< 1461 ms" in text
    html = read(ledger.unfolding(table, judged(), made.ROOT / "nowhere"))
    assert html.rows[1]["Published"] == "9.42 ms at 1000, 0.000363 s < 1461 ms"
    assert html.titles == [f"{number} as published" for number in numbers]


def test_long_numbers_are_set_in_groups_and_other_runs_by_their_labels():
    text = "216637 and 19990, 1.2345678, 123456.5 and 100000."
    grouped = "216\u202f637 and 19990, 1.2345678, 123456.5 and 100\u202f000."
    assert ledger._grouped(text) == grouped
    one, two = {"AMD": judged()}, {"AMD": judged(), "Intel": judged()}
    assert "AMD" in cells(printed(others=one), "Verdict")
    assert "Other runs" in cells(printed(others=two), "Verdict")
