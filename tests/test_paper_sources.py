"""The paper's sources: works, authors, project file."""

import json
import re
import tomllib

import publish_made as made
import pytest
import yaml

import connlab
from connlab import variances
from connlab.drive import turns
from connlab.publish import provenance, sources
from connlab.schema import derived

PAPER = made.ROOT / "paper"


def works():
    text = (PAPER / "references.bib").read_text("utf-8")
    entries = json.loads(made.pandoc(text, "--from=bibtex", "--to=csljson"))
    return {
        work["id"]: {field.lower(): value for field, value in work.items()}
        for work in entries
    }


def cited():
    text = "\n".join(p.read_text("utf-8") for p in sources.hand_written(PAPER))
    text = re.sub(r"`[^`]*`", "", text)
    keys = re.findall(r"(?<![\w.])@([a-z][a-z0-9-]*[a-z0-9])", text)
    return {key for key in keys if not key.startswith(("fig-", "tbl-", "sec-"))}


def test_every_cited_work_is_in_the_references():
    assert cited() <= set(works())
    assert len(cited()) > 15


def test_an_entry_has_what_a_reader_needs():
    for key, entry in works().items():
        assert {"author", "title"} <= set(entry), key
        assert {"doi", "url", "isbn", "publisher"} & set(entry), key
        assert "doi.org" not in entry.get("doi", ""), key


SENTENCE = re.compile(
    r"\[(?:[^\[\]]|\[[^\[\]]*\](?:\{[^{}]*\})?)*\]\{[^{}]*(?:\.claim|otherwise=)[^{}]*\}"
)


def test_every_number_stands_in_a_sentence_that_can_do_without_it():
    for path in sources.hand_written(PAPER):
        rest = SENTENCE.sub("", path.read_text("utf-8"))
        assert rest.count("[]{.number") == 0, path.name


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("the-machine/neighbours-cost-nothing", "lies within [±5 %]{.constant}"),
        ("bulk/larger-cheaper", "in larger messages than in the smallest."),
    ],
)
def test_a_sentence_says_no_more_than_its_claim_checks(claim, words):
    """What lies within the margin may be shown to cost something all the same.

    And all sizes may be cheaper than the smallest without the largest being cheapest.
    """
    texts = (path.read_text("utf-8") for path in sources.hand_written(PAPER))
    found = [each[0] for text in texts for each in SENTENCE.finditer(text)]
    (sentence,) = (each for each in found if f'of="{claim}"' in each)
    assert words in " ".join(sentence.split())


def test_the_supplement_has_the_lost_trials_of_each_study():
    text = (PAPER / "sections" / "_supplement.qmd").read_text("utf-8")
    shown = re.findall(r"_generated/([\w-]+)/failures\.qmd", text)
    studies = re.findall(r"^## .*\{#sec-more-([\w-]+)\}$", text, re.MULTILINE)
    studies.remove("intervals")  # which has no trials
    assert shown == studies


def test_that_a_client_waits_with_io_uring_is_said_where_one_did():
    """Where the kernel lacks it, the client waits with epoll, and no other asks."""
    text = (PAPER / "sections" / "_uring.qmd").read_text("utf-8")
    assert "client of these trials waits with io_uring" in text
    assert "waits with io_uring" not in SENTENCE.sub("", text)


def test_words_for_an_open_claim_stand_in_the_paragraph_of_the_claim():
    """Elsewhere they would be said besides, and not in its place."""
    for path in sources.hand_written(PAPER):
        for paragraph in path.read_text("utf-8").split("\n\n"):
            claims = re.findall(r"\{\.claim\s+of=\"([^\"]+)\"([^{}]*)\}", paragraph)
            open_, claimed = (
                [name for name, more in claims if ('when="open"' in more) is undecided]
                for undecided in (True, False)
            )
            assert set(open_) <= set(claimed), path.name
            assert len(open_) == len(set(open_)), path.name


def test_no_span_begins_with_a_space():
    """Pandoc drops it, and the word before the span would touch the one in it."""
    for path in sources.hand_written(PAPER):
        text = re.sub(r"(?s)^```.*?^```", "", path.read_text("utf-8"), flags=re.M)
        assert re.findall(r"\S*\[\s[^\[\]]*\]\{[^}]*\}", text) == [], path.name


def test_no_verb_takes_a_count_for_more_than_one():
    count_as_subject = r"\[\]\{\.number \.short[^{}]*\}\s+(?:are|were|have)\b"
    for path in sources.hand_written(PAPER):
        assert not re.search(count_as_subject, path.read_text("utf-8")), path.name


def test_the_citation_file_names_an_entity_and_this_version():
    cff = yaml.safe_load((made.ROOT / "CITATION.cff").read_text("utf-8"))
    (author,) = cff["authors"]
    assert set(author) == {"name"}
    assert "connlab" in author["name"]
    assert cff["version"] == connlab.__version__
    assert cff["license"] == "MIT"
    project = tomllib.loads((made.ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["version"] == cff["version"]


def test_authors_are_read_from_the_citation_file(tmp_path):
    cff = "title: T\nversion: 1\nauthors:\n  - given-names: A\n    family-names: B\n"
    (tmp_path / "CITATION.cff").write_text(cff)
    assert provenance.citation(tmp_path / "paper")["authors"] == ["A B"]


def test_the_project_sets_both_formats_alike_and_from_one_theme():
    """What it must not have, `lint` knows."""
    project = yaml.safe_load((PAPER / "_quarto.yml").read_text("utf-8"))
    assert set(project["format"]) == {"html", "typst"}
    assert project["filters"] == [
        {"at": "pre-ast", "path": f"_theme/{name}.lua"}
        for name in ("numbers", "common")
    ]
    assert project["number-sections"] is True
    assert project["crossref"] == {"title-delim": "."}
    assert (project["date-format"], project["csl"]) == ("iso", "references.csl")
    html, print_ = (project["format"][name] for name in ("html", "typst"))
    links = {link["text"]: link["href"] for link in html["format-links"]}
    page = (PAPER / "_theme/embedded.html").read_text("utf-8")
    for text, href in links.items():  # both pages lead to the same files
        assert f'<a href="{href}">{text}</a>' in page
    assert set(links.values()) == {"paper.pdf", "explorer.html"}
    extra = (PAPER / html["include-after-body"]).read_text("utf-8")
    scripts = re.findall(r'<script src="([^"]+)"', extra)
    assert scripts == ["_theme/enlarge.js"]
    for name in (*scripts, html["css"], *print_["template-partials"]):
        assert (PAPER / name).is_file()


def test_no_source_names_another_host():
    for path in (PAPER / "_theme").iterdir():
        text = path.read_text("utf-8")
        assert not re.search(r"(?:src|href)\s*=\s*['\"]https?://", text), path.name
        assert not re.search(r"url\(\s*['\"]?https?://|@import", text), path.name


def test_the_method_has_the_constants_of_the_code():
    """What it says has to do to compute a printed number again."""
    files = (PAPER / "sections" / f"_{name}.qmd" for name in ("method", "appendix"))
    text = " ".join(" ".join(f.read_text("utf-8") for f in files).split())
    assert f"fewer than [{variances.TRIALS_MIN}]{{.constant}} trials" in text
    assert f"Where [{variances.FAMILY_MIN}]{{.constant}} or more" in text
    assert f"groups of fewer than [{variances.FAMILY_MIN}]{{.constant}} are put" in text
    assert f"From [{variances.TREND_MIN}]{{.constant}} comparisons on" in text
    assert variances.DF_GAIN - 1 == 2
    assert "at most twice a comparison's own" in text
    lead_in = f"{1e3 * turns.LEAD_IN_S:g} ms]{{.constant}}, at most a tenth"
    assert f"begins with a lead-in: [{lead_in}" in text
    assert turns.LEAD_IN_OPEN == turns.LEAD_IN_AFAR == 1 / 5
    assert "in an open loop or over hosts a fifth of it" in text
    few, small_kib = derived._FEW, derived._SMALL // 1024
    users = f"up to [{few}]{{.constant}} users who echo [{small_kib} KiB]"
    assert users in text
