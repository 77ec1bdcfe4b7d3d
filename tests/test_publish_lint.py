"""No measurement may be typed into the paper."""

import publish_made as made
import pytest

from connlab.publish import lint, linting, published


def found(text, numbers=frozenset({"9.416", "1000"})):
    known = {"table": set(numbers)}.get
    return [problem for _, problem in linting.lint_text(text, known)]


@pytest.mark.parametrize(
    "typed",
    [
        "It took 9.2 ms.",
        "It took 35 µs",
        "It took 9.2\u00a0ms.",
        "It used 93.25 % of a core.",
        "It used 93.25% of a core.",
        "It did 110 000 requests/s.",
        "It did 110,000 messages per second.",
        "It did 95 req/s",
        "It did 2.3 MB/s.",
        "It held 1.825 GB.",
        "That is 1.3× as much.",
        "It was 17 times as much.",
        "It ran for 12 seconds.",
        "It grew 20 percent.",
        "It ran at 1.7 GHz.",
        "A 10-fold rise.",
    ],
)
def test_a_typed_measurement_is_found(typed):
    assert len(found(typed)) == 1, found(typed)


@pytest.mark.parametrize(
    "clean",
    [
        "It took {{< var response_time.values.epoll_p50_1000 >}}.",
        "Run `sleep 10 s` first.",
        "```sh\nsleep 10 s\n```",
        "Every number has a [95 %]{.constant} interval.",
        'They print [9.416 ms]{.published table="table"}.',
        "As shown before [@gutica, 12 s; see p. 3].",
        "The rule $t < 5 \\, s$ is fixed.",
        "Study 1 has 5 blocks of 1000 connections.",
        "In 2003 they said so.",
        "<!-- it took 9.2 ms -->",
        "![alt](figures/9s.svg){#fig-x width=90%}",
        "Version 0.15 was used.",
    ],
)
def test_what_was_not_measured_is_left_alone(clean):
    assert found(clean) == []


def test_a_published_number_must_be_in_its_table():
    text = 'They print [9.417 ms]{.published table="table"}.'
    assert found(text) == ["published '9.417 ms': 9.417 is not in table.csv"]


def test_a_published_number_must_name_a_table():
    assert "no such table" in found('[9 ms]{.published table="other"}')[0]
    assert "no such table" in found("[9 ms]{.published}")[0]


def test_comparisons_are_typed_nowhere_beside_a_study():
    section = "{{< include _generated/x/fig-x.qmd >}}\n\nSo epoll is faster.\n"
    assert found(section) == ["typed comparison 'faster'"]
    assert found("So epoll is faster.") == []


def test_a_claim_may_compare_and_types_no_number():
    section = "{{< include _generated/x/fig-x.qmd >}}\n\n"
    claim = (
        '[epoll is faster: []{.number of="x/y" model="epoll"} times]{.claim of="x/z"}'
    )
    assert found(section + claim) == []
    typed = claim.replace("times", "1.2 times")
    assert found(section + typed) == ["typed measurement '1.2 times'"]
    assert found(f"{section}Others are slower. {claim}") == [
        "typed comparison 'slower'"
    ]


def test_the_line_is_that_of_the_source():
    text = "---\na: 1 s\n---\n\n```\n2 s\n```\n\nIt took 3 s.\n"
    assert list(linting.lint_text(text, {}.get)) == [(9, "typed measurement '3 s'")]


def test_a_reference_at_the_begin_of_a_line_is_no_example():
    text = "- One\n  (@sec-idle)\n\nTwo (@sec-idle)\n(@fig-x). Three.\n"
    found = list(linting.lint_text(text, {}.get))
    assert found == [(2, "(@sec-idle) begins a line: an example's number")]


def test_a_measurement_typed_into_the_paper_fails_the_lint(tmp_path):
    paper = made.copy_paper(tmp_path)
    assert lint(paper) == []
    section = paper / "sections" / "_limits.qmd"
    section.write_text(section.read_text("utf-8") + "\nIt took 9.2 ms.\n", "utf-8")
    problems = lint(paper)
    assert len(problems) == 1
    assert problems[0].startswith("sections/_limits.qmd:")


def test_the_paper_is_clean():
    assert lint(made.ROOT / "paper") == []


def test_advice_names_the_line_and_reads_prose_alone():
    pytest.importorskip("proselint")
    text = (
        "---\na: very unique\n---\n\n`a very unique one`\n\n"
        "[A very unique server]{title='very unique'} says \"no\".\n"
    )
    assert {line for line, _ in linting.advise(text)} == {7}


def test_advice_is_no_problem(tmp_path):
    pytest.importorskip("proselint")
    paper = made.copy_paper(tmp_path)
    section = paper / "sections" / "_limits.qmd"
    section.write_text(section.read_text("utf-8") + "\nA very unique one.\n", "utf-8")
    assert {a.split(":")[0] for a in linting.advice(paper)} == {"sections/_limits.qmd"}
    assert lint(paper) == []


def test_without_proselint_there_is_no_advice(monkeypatch):
    monkeypatch.setattr(linting.importlib.util, "find_spec", lambda _: None)
    assert linting.advice(made.ROOT / "paper") == []


def test_published_tables_are_looked_up_by_name_only(tmp_path):
    (tmp_path / "published").mkdir()
    table = tmp_path / "published" / "t.csv"
    table.write_text('# T\n# source: 8.5 s\nclients,ms\n"1,000",9.416\n')
    assert published.numbers(tmp_path, "t") == {"1000", "9.416"}
    assert published.numbers(tmp_path, "../t") is None
