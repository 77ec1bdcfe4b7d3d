"""The ledger's table: shares of the line, links, the reference's columns."""

from __future__ import annotations

import publish_made as made
import pytest

from connlab.publish import ledger
from connlab.publish.results import Results

VERDICTS = {"G1": "holds", "T1": "not testable here"}


def found(verdicts=VERDICTS):
    return Results.model_validate(made.claims(verdicts))


def table(other=None, links=None, paper=made.ROOT / "nowhere"):
    here = found()
    return ledger.table(
        here.tables[0], here, caption="C", paper=paper, other=other, links=links or {}
    )


def cells(text, row):
    line = next(x for x in text.splitlines() if row in x)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_alone_it_has_the_columns_of_the_ledger():
    heads = table().splitlines()[0].strip("|").split("|")
    assert [h.strip() for h in heads][1:] == [
        "Claim",
        "Published",
        "Found here",
        "Verdict",
        "Likeness",
        "Because",
    ]


def test_the_reference_stands_behind_the_verdict():
    text = table(other=found({"G1": "does not hold"}))
    assert cells(text, "claim G1")[4:7] == ["holds", "does not hold", "differs"]
    assert cells(text, "claim T1")[4:7] == [
        "not testable here",
        "—",
        "tested by neither",
    ]


def test_a_claim_about_published_numbers_cannot_differ(tmp_path):
    (tmp_path / "claims.yml").write_text("- {id: G1, published: a.csv}\n- {id: T1}\n")
    text = table(other=found(), paper=tmp_path)
    assert cells(text, "claim G1")[6] == "needs no trials"
    assert cells(text, "claim T1")[6] == "tested by neither"


def test_all_columns_are_aligned_to_the_left():
    rule = table().splitlines()[1].strip("|").split("|")
    assert all(part.startswith(":") and not part.endswith(":") for part in rule)


@pytest.fixture
def paper(tmp_path):
    (tmp_path / "claims.yml").write_text(
        "- {id: G1, figure: fig-a}\n- {id: T1, figure: fig-b}\n"
        "- {id: M1, figure: fig-c}\n- {id: L1}\n"
    )
    return tmp_path


def test_numbers_link_to_what_the_paper_shows(paper):
    links = ledger.numbered(paper, shown={"fig-a", "fig-b"}, page_only={"fig-b"})
    assert links["G1"] == "[G1](#fig-a)"
    assert "M1" not in links
    assert "L1" not in links
    assert cells(table(links=links), "claim G1")[0] == "[G1](#fig-a)"


def test_print_gets_no_link_to_what_only_the_page_shows(paper):
    link = ledger.numbered(paper, shown={"fig-b"}, page_only={"fig-b"})["T1"]
    on_page, in_print = link.split("}[")
    assert on_page == '[[T1](#fig-b)]{.content-visible when-format="html"'
    assert in_print == 'T1]{.content-hidden when-format="html"}'


def test_without_a_ledger_nothing_links(tmp_path):
    assert ledger.numbered(tmp_path, shown={"fig-a"}, page_only=set()) == {}
