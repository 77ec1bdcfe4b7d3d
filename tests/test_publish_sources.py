"""Includes and variables of the sources."""

import pytest
from conftest import lay

from connlab.publish import sources


@pytest.fixture
def paper(tmp_path):
    one = "---\ntitle: T\n---\nOne {{< var a.b >}}.\n\n"
    one += "{{< include sections/_two.qmd >}}\n"
    two = (
        "Two {{< var c >}}.\n<!-- {{< var hidden >}} -->\n"
        "{{< include _generated/x/fig-x.qmd >}}\n"
    )
    lay(tmp_path, {"index.qmd": one, "sections/_two.qmd": two})
    return tmp_path


def test_wanted_follows_includes_and_skips_comments(paper):
    wanted = sources.wanted(paper)
    assert wanted.variables == ("a.b", "c")
    assert wanted.includes == ("sections/_two.qmd", "_generated/x/fig-x.qmd")


def test_the_abstract_asks_as_well(paper):
    (paper / sources.ABSTRACT).write_text("{{< var only.here >}}")
    assert "only.here" in sources.wanted(paper).variables


def test_expand_replaces_nested_names(paper):
    lay(paper, {"_generated/x/fig-x.qmd": "FIGURE"})
    done = sources.expand(paper, "index.qmd", {"a": {"b": "1 ms"}, "c": "2"})
    assert done.problems == []
    assert "One 1 ms." in done.text
    assert "Two 2." in done.text
    assert "FIGURE" in done.text
    assert done.metadata == {"title": "T"}


def test_what_does_not_resolve_stays_visible(paper):
    done = sources.expand(paper, "index.qmd", {"a": {"b": {"c": "deep"}}, "c": "2"})
    assert "**?var:a.b**" in done.text
    variable, include = done.problems
    assert "variable a.b" in variable
    assert "_generated/x/fig-x.qmd" in include


def test_an_escaped_short_code_is_shown(paper):
    (paper / "index.qmd").write_text("Write `{{{< var a.b >}}}`.\n")
    done = sources.expand(paper, "index.qmd", {})
    assert done.text == "Write `{{< var a.b >}}`.\n"
    assert done.problems == []


def test_a_file_that_includes_itself_ends(paper):
    (paper / "index.qmd").write_text("{{< include index.qmd >}}")
    assert sources.expand(paper, "index.qmd", {}).problems


def test_made_files_are_not_hand_written(paper):
    lay(paper, {"_generated/a.qmd": ""})
    names = [p.name for p in sources.hand_written(paper)]
    assert names == ["index.qmd", "_two.qmd"]


def test_what_the_supplement_includes_is_for_the_page_only(paper):
    assert sources.page_only(paper) == set()
    (paper / sources.SUPPLEMENT).write_text(
        "{{< include _generated/x/fig-y.qmd >}}\n<!-- {{< include no.qmd >}} -->\n"
        "![C](_generated/x/z.svg){#fig-z fig-alt='z'}\n\n: T {#tbl-t}\n"
        "{{< include _generated/x/fig-x.qmd >}}\n"
    )
    assert sources.page_only(paper) == {"fig-y", "fig-z", "tbl-t"}


def test_works_are_the_keys_of_the_references(paper):
    assert sources.bibliography(paper) == {}
    (paper / sources.REFERENCES).write_text(
        "@misc{one,\n  note = {a @ b}\n}\n@book{ two2001 ,\n  author = {B, A and C},"
        "\n  year = {2001}\n}\n"
    )
    assert sources.bibliography(paper) == {"one": "", "two2001": "B and C 2001"}
