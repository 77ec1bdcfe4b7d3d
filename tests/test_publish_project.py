"""What bit with real Quarto is found in the sources, each by a rule of its own."""

import functools
from pathlib import Path

import publish_made as made
import pytest
import yaml

from connlab.publish import lint, linting, project


@pytest.fixture
def paper(tmp_path):
    return made.copy_paper(tmp_path)


def change_project(paper: Path, place: str, value: object) -> None:
    """Set what stands at a dotted place of the project file; None leaves it out."""
    path = paper / project.PROJECT
    tree = yaml.safe_load(path.read_text("utf-8"))
    *branches, leaf = place.split(".")
    below = functools.reduce(dict.__getitem__, branches, tree)
    below[leaf] = value
    if value is None:
        del below[leaf]
    path.write_text(yaml.safe_dump(tree), "utf-8")


@pytest.mark.parametrize(
    ("place", "value", "word"),
    [
        ("filters", None, "callouts"),
        ("filters", [{"at": "post-quarto", "path": "_theme/common.lua"}], "callouts"),
        ("filters", ["_theme/common.lua"], "callouts"),
        ("format.html.theme.dark", "darkly", "darkly"),
        ("format.html.lightbox", True, "lightbox"),
        ("format.html.embed-resources", False, "embed-resources"),
        ("html-table-processing", None, "html-table-processing"),
        ("csl", None, "csl"),
    ],
)
def test_the_project_file_is_read(place, value, word, paper):
    change_project(paper, place, value)
    (problem,) = lint(paper)
    assert problem.startswith(f"{project.PROJECT}: ")
    assert word in problem


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("$web-font-path: false;", "", "fonts"),
        ("/*-- scss:defaults --*/", "", "fonts"),  # too late
        ("/*-- scss:rules --*/", "@import url(//x.org/a);", "fetched"),
    ],
)
def test_themes_fetch_nothing(old, new, word, paper):
    made.replace(paper / "_theme/quarto.scss", old, new)
    problems = [problem for problem in lint(paper) if "theme" in problem]
    assert problems
    assert all(word in problem for problem in problems)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("index.qmd", "\n::: {.callout-danger}\nMind it.\n:::\n", "callout 'danger'"),
        ("index.qmd", "\n```{=typst}\n#callout(body: [x])\n```\n", "#callout"),
        ("_theme/embedded.typ", '\n#import "@preview/x:0.1.0": *\n', "downloaded"),
        ("index.qmd", "\nWith --workers two.\n", "option '--workers'"),
        ("sections/_limits.qmd", "\nIt took 9.2 ms.\n", "measurement '9.2 ms'"),
    ],
)
def test_the_sources_are_read(name, text, words, paper):
    made.append(paper / name, text)
    (problem,) = lint(paper)
    assert problem.startswith(f"{name}:")
    assert words in problem


def test_lines_that_quarto_would_append_stand_to_the_letter(paper):
    ignored = paper / ".gitignore"
    made.replace(ignored, "/.quarto/\n", ".quarto/\n")
    (problem,) = lint(paper)
    assert problem.startswith(".gitignore: ")
    assert problem.endswith(" /.quarto/")
    ignored.unlink()
    assert [problem.split()[-1] for problem in lint(paper)] == list(project.IGNORED)


def test_a_theme_without_fonts_passes(paper):
    change_project(paper, "format.html.theme", "litera")
    assert lint(paper) == []


@pytest.mark.parametrize("clean", ["`--workers`", "a -- b", "x--y", "<!-- --a -->"])
def test_dashes_and_code_are_no_options(clean):
    assert list(linting.lint_text(f"It says {clean} here.", {}.get)) == []


def test_the_page_says_in_both_renderers_what_it_is_about():
    tree = yaml.safe_load((made.PAPER / project.PROJECT).read_text("utf-8"))
    head = (made.PAPER / "index.qmd").read_text("utf-8").split("---")[1]
    about = tree["format"]["html"]["description-meta"].strip()
    assert about == yaml.safe_load(head)["subtitle"]
    assert tree["format"]["html"]["google-scholar"] is True
