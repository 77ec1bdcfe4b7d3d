"""A study added as CONTRIBUTING.md says: notebook, results, page, one number."""

import json
import re
import shutil
from pathlib import Path

import nbformat
import notebook_rules as rules
import numpy as np
import pandas as pd
import publish_made as made
import pytest
from conftest import connlab, shown
from test_paper_sources import SENTENCE

from connlab import paper, profiles, publish
from connlab.publish import checking, lacking

NAME = "20-tails"


def cells(script: str) -> list[nbformat.NotebookNode]:
    """Return the cells of a script, apart by ``# %%``."""
    made_cells = []
    for block in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        kind, _, source = block.partition("\n")
        if "markdown" in kind:
            made_cells.append(nbformat.v4.new_markdown_cell(source.strip()))
        else:
            tags = {"tags": [kind.strip()]} if kind.strip() else {}
            made_cells.append(nbformat.v4.new_code_cell(source.strip(), metadata=tags))
    return made_cells


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """Return a copy of the project to which the study was added."""
    folder = tmp_path_factory.mktemp("project")
    paper = made.copy_paper(folder)
    shutil.copytree(rules.ROOT / "notebooks", folder / "notebooks")
    (folder / "build").symlink_to(rules.ROOT / "build")
    script = shown("python", 'drive.sweep("tails"')
    notebook = nbformat.v4.new_notebook(cells=cells(script))
    nbformat.write(notebook, folder / "notebooks" / f"{NAME}.ipynb")
    with (folder / "notebooks" / "profiles" / "smoke.yaml").open("a") as profile:
        profile.write(shown("yaml", NAME))
    section = shown("markdown", "sec-tails")
    (paper / "sections" / "_tails.qmd").write_text(section, "utf-8")
    last = "{{< include sections/_limits.qmd >}}"
    added = "{{< include sections/_tails.qmd >}}\n\n" + last
    made.replace(paper / "index.qmd", last, added)
    return folder


def connlab_in(tree: Path, *words: str) -> None:
    done = connlab(*words, timeout=300, CONNLAB_HOME=str(tree))
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def test_the_text_keeps_the_rules_of_notebooks_and_sections(tree):
    rules.check(tree / "notebooks" / f"{NAME}.ipynb")
    assert publish.lint(tree / "paper") == []
    assert ".number" not in SENTENCE.sub("", shown("markdown", "sec-tails"))


def test_profile_smoke_has_time_for_it(tree, monkeypatch):
    """Else a test of what profiles promise fails for whoever adds a study."""
    monkeypatch.setenv("CONNLAB_HOME", str(tree))
    plan = paper.plan(profiles.load("smoke"))
    assert NAME in plan
    assert sum(plan.values()) < 240


@pytest.mark.long
@pytest.mark.sweeps
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_a_study_of_this_text_ends_in_a_section_with_its_number(tree):
    connlab_in(tree, "notebook", "20", "--run", "t", "--profile", "smoke", *ANY)
    connlab_in(tree, "render", "--run", "t")
    html = (tree / "paper" / "_output" / "index.html").read_text("utf-8")
    text = checking.Page(html).text
    printed = re.search(r"hundredth\b[^\d.]+takes\s+([\d.\u202f]+)\s+(\w+)", text)
    assert printed, text[text.rfind("hundredth") :][:300]
    number, unit = printed[1].replace("\u202f", ""), UNITS[printed[2]]
    whole, _, decimals = number.partition(".")
    zeros = 0 if decimals else len(whole) - len(whole.rstrip("0"))
    carried = 10.0 ** (zeros - len(decimals))
    assert float(number) * unit == pytest.approx(p99(tree), abs=0.51 * carried * unit)
    assert f"{lacking.MISSING.capitalize()}: tails" not in text


UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
ANY = ("-p", "accept", "[quiet, client, lag, stationary, little]")
"""What a busy machine fails; the number is compared, not believed."""


def p99(tree: Path) -> float:
    """Return the geometric mean of epoll's 99th percentiles, by plain pandas.

    A busy machine may leave a window without an answer, which has none.
    """
    path = tree / "runs" / "t" / "tails" / "trials.jsonl"
    trials = pd.DataFrame(json.loads(line) for line in path.read_text().splitlines())
    rows = pd.json_normalize(trials.to_dict("records"))
    rows = rows[(rows["factors.model"] == "epoll") & rows["failure"].isna()]
    rows = rows[rows["client.response.n"] > 0]
    return float(np.exp(np.log(rows["client.response.p99_ns"] * 1e-9).mean()))
