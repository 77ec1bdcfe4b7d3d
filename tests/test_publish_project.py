"""What bit with real Quarto is found in the sources, each by a rule of its own."""

import functools
from pathlib import Path

import publish_made as made
import pytest
import yaml

from connlab.publish import lint, linting, project

NOTE = "\n::: {.callout-danger}\nMind the gap.\n:::\n"


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


def replace(paper: Path, name: str, old: str, new: str) -> None:
    path = paper / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


LATER = [{"at": "post-quarto", "path": "_theme/common.lua"}]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("filters", None, "callouts"),
        ("filters", LATER, "callouts"),
        ("filters", ["_theme/common.lua"], "callouts"),
        ("format.html.theme.dark", "darkly", "darkly"),
        ("format.html.lightbox", True, "lightbox"),
        ("format.html.embed-resources", False, "embed-resources"),
        ("html-table-processing", None, "html-table-processing"),
        ("csl", None, "csl"),
    ],
)
def test_the_project_file_is_read(place, value, said, paper):
    change_project(paper, place, value)
    problems = lint(paper)
    assert len(problems) == 1
    assert problems[0].startswith(f"{project.PROJECT}: ")
    assert said in problems[0]


EDITS = {
    "web fonts": ("$web-font-path: false;", "", "fonts from another host"),
    "web fonts too late": ("/*-- scss:defaults --*/", "", "fonts from another host"),
    "import": ("/*-- scss:rules --*/", "@import url(//x.org/a);", "is fetched"),
}


@pytest.mark.parametrize("name", EDITS)
def test_themes_fetch_nothing(name, paper):
    old, new, said = EDITS[name]
    replace(paper, "_theme/quarto.scss", old, new)
    problems = lint(paper)
    assert problems
    assert all(said in p for p in problems if "theme" in p)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("index.qmd", NOTE, "knows no callout 'danger'"),
        ("index.qmd", "\n```{=typst}\n#callout(body: [x])\n```\n", "Quarto's function"),
        ("_theme/embedded.typ", '\n#import "@preview/x:0.1.0": *\n', "is downloaded"),
        (
            "index.qmd",
            "\nWith --workers two.\n",
            "option '--workers' is not set as code",
        ),
    ],
)
def test_the_sources_are_read(name, text, said, paper):
    made.append(paper / name, text)
    problems = lint(paper)
    assert len(problems) == 1
    assert problems[0].startswith(f"{name}:")
    assert said in problems[0]


def test_lines_that_quarto_would_append_stand_to_the_letter(paper):
    replace(paper, ".gitignore", "/.quarto/\n", ".quarto/\n")
    assert lint(paper) == [".gitignore: Quarto would append the line /.quarto/"]


def test_the_ignored_lines_are_found_missing(paper):
    (paper / ".gitignore").unlink()
    assert [p for p in lint(paper) if ".gitignore" in p] == [
        f".gitignore: Quarto would append the line {line}" for line in project.IGNORED
    ]


def test_a_theme_without_fonts_needs_no_word(paper):
    change_project(paper, "format.html.theme", "litera")
    assert lint(paper) == []


@pytest.mark.parametrize("clean", ["`--workers`", "a -- b", "x--y", "<!-- --a -->"])
def test_dashes_and_code_are_no_options(clean):
    assert list(linting.lint_text(f"It says {clean} here.", {}.get)) == []
