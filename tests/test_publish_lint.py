"""No measurement may be typed into the paper."""

import re

import publish_made as made
import pytest
from conftest import lay

from connlab.publish import lint, linting, published


def problems(text):
    tables = {"table": {"9.416", "1000"}}
    return [problem for _, problem in linting.lint_text(text, tables.get)]


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
    assert len(problems(typed)) == 1, problems(typed)


@pytest.mark.parametrize(
    "clean",
    [
        "It took {{< var response_time.values.epoll_p50_1000 >}}.",
        "Run `sleep 10 s` first.",
        "```sh\nsleep 10 s\n```",
        "Every number has a [95 %]{.constant} interval.",
        'They print [9.416 ms]{.published table="table"}.',
        'They print [9.4 ms]{.published table="table" full="9.416"}.',
        'So [106 times]{.published table="table" full="1000 / 9.416"}.',
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
    assert problems(clean) == []


@pytest.mark.parametrize(
    ("span", "facts"),
    [
        ('[9.417 ms]{.published table="table"}', ("9.417", "table.csv")),
        ('[9 ms]{.published table="other"}', ("9 ms", "no such table")),
        ("[9 ms]{.published}", ("9 ms", "no such table")),
        ('[9.5 ms]{.published table="table" full="9.416"}', ("9.5", "rounded")),
        ('[9 ms]{.published table="table" full="9.416"}', ("9 ms", "rounded")),
        ('[9.417 ms]{.published table="table" full="9.417"}', ("9.417", "table.csv")),
        ('[9.4 ms]{.published table="table" full="9.416 + 9.416"}', ("9.4", "rounded")),
        ('[2.7]{.published table="table" full="9.416 / 3.5"}', ("3.5", "table.csv")),
    ],
)
def test_a_published_number_must_be_in_a_table(span, facts):
    (problem,) = problems(f"They print {span}.")
    assert all(fact in problem for fact in facts)


STUDY = "{{< include _generated/x/fig-x.qmd >}}\n\n"
CLAIM = '[epoll is faster: []{.number of="x/y" model="epoll"} times]{.claim of="x/z"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{STUDY}So epoll is faster.\n", [("comparison", "faster")]),
        ("So epoll is faster.", []),
        (STUDY + CLAIM, []),
        (STUDY + CLAIM.replace("times", "1.2 times"), [("measurement", "1.2 times")]),
        (f"{STUDY}Others are slower. {CLAIM}", [("comparison", "slower")]),
    ],
)
def test_beside_a_study_only_a_claim_compares_and_types_no_number(text, expected):
    found = [re.match(r"\w+ (\w+) '(.*)'$", problem) for problem in problems(text)]
    assert [match.groups() for match in found] == expected


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ("---\na: 1 s\n---\n\n```\n2 s\n```\n\nIt took 3 s.\n", 9, "'3 s'"),
        # at the begin of a line it would number an example
        (
            "- One\n  (@sec-idle)\n\nTwo (@sec-idle)\n(@fig-x). Three.\n",
            2,
            "(@sec-idle) begins",
        ),
    ],
)
def test_the_line_is_that_of_the_source(text, line, fact):
    ((number, problem),) = linting.lint_text(text, {}.get)
    assert number == line
    assert fact in problem


@pytest.fixture
def section(tmp_path):
    return made.copy_paper(tmp_path) / "sections" / "_limits.qmd"


def test_advice_names_the_line_and_reads_prose_alone():
    pytest.importorskip("proselint")
    text = (
        "---\na: very unique\n---\n\n`a very unique one`\n\n"
        "[A very unique server]{title='very unique'} says \"no\".\n"
    )
    assert {line for line, _ in linting.advise(text)} == {7}


def test_advice_is_no_problem(section):
    pytest.importorskip("proselint")
    paper = section.parents[1]
    made.append(section, "\nA very unique one.\n")
    assert {a.split(":")[0] for a in linting.advice(paper)} == {"sections/_limits.qmd"}
    assert lint(paper) == []


@pytest.mark.parametrize("ledger", ["claims.yml", "rereadings.yml"])
def test_a_claim_of_no_reference_or_figure_of_the_paper_is_found(section, ledger):
    paper = section.parents[1]
    entry = "{id: K1, source: jonse, figure: fig-throughputt}"
    made.append(paper / ledger, f"\n- {entry}\n")
    source, figure = lint(paper)
    assert re.match(rf"{ledger}: K1: source 'jonse'.*did you mean 'jones", source)
    assert re.match(rf"{ledger}: K1: .*mean 'fig-throughput'", figure)


def test_without_proselint_there_is_no_advice(monkeypatch):
    monkeypatch.setattr(linting.importlib.util, "find_spec", lambda _: None)
    assert linting.advice(made.ROOT / "paper") == []


def test_published_tables_are_looked_up_by_name_only(tmp_path):
    table = '# T\n# source: 8.5 s\nclients,ms\n"1,000",9.416\n'
    lay(tmp_path, {"published/t.csv": table})
    assert published.numbers(tmp_path, "t") == {"1000", "9.416"}
    assert published.numbers(tmp_path, "../t") is None
