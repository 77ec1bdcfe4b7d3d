"""Notebooks of the studies: form, what sections ask of them, small runs."""

import json
import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import notebook_rules as rules
import pandas as pd
import pytest

from connlab import notebook, parameters, profiles, schema
from connlab.drive import counting, profiling, servers
from connlab.hosts import lab

STUDIES = [p.stem for p in notebook.every()]
#: what a small run has beyond profile smoke: cases take long, a law needs six sizes
EXTRA = {
    "02-breaking-points": {"cases": False},
    "03-pools": {"sizes": [1, 2, 3, 4, 6, 8]},
    "14-hosts": {"models": ["poll", "epoll"], "crowds": [40]},
}
#: the name of a smoke run by the programs that are built, which CI has
MADE = os.environ.get("CONNLAB_SMOKE_RUN")


def small(name: str) -> dict[str, Any]:
    """Return the parameters of a small run."""
    return profiles.load("smoke").parameters(name) | EXTRA.get(name, {})


def code(name: str) -> str:
    return "\n".join(rules.code(name).values())


def names_made(name: str, kind: str) -> set[str]:
    """Return the names that a notebook gives to its claims, figures or tables."""
    return {made for of, made in rules.names_made(code(name)) if of == kind}


@pytest.mark.parametrize(
    "cell",
    [
        "drive.models()",
        "drive.sweep('s', run=run)",
        "drive.sweep('s', measure=True)",
        "drive.sweep('s', **common)",
        "study.load(run, 's', only=kinds)",
    ],
)
def test_a_cell_that_does_not_hear_of_an_evaluation_is_found(cell):
    with pytest.raises(AssertionError):
        rules.check_evaluation(cell)


@pytest.mark.parametrize("number", [1, 2, None])
@pytest.mark.parametrize("make", ["Report(trials, {})", "Report.without_trials({})"])
def test_a_report_of_another_number_is_found(make, number):
    cell = make.format("" if number is None else f"number={number}")
    with nullcontext() if number == 2 else pytest.raises(AssertionError):
        rules.check_number(rules.path_of("02-breaking-points"), cell)


@pytest.mark.parametrize("names", [("it", "it"), ("it", "that")])
def test_a_name_that_two_cells_give_is_found(names):
    tables = "\n".join(f"report.table({name!r}, frame)" for name in names)
    unique = len(set(names)) == 2
    with nullcontext() if unique else pytest.raises(AssertionError):
        rules.check_names(f"{tables}\nreport.figure('it', grid)")


@pytest.mark.parametrize("name", STUDIES)
def test_a_notebook_keeps_the_rules(name):
    path = rules.path_of(name)
    rules.check(path)
    assert notebook.title_of(path) in code(name)  # the report's question
    assert "sys.path" not in code(name)


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("claim", r'\.claim of="{study}/([\w-]+)"'),
        ("figure", r"_generated/{study}/([\w-]+)\.svg"),
        ("table", r"_generated/{study}/tbl-([\w-]+)\.qmd"),
    ],
)
def test_sections_show_what_a_notebook_makes_and_no_more(name, kind, pattern):
    sections = (rules.ROOT / "paper" / "sections").glob("*.qmd")
    text = "".join(path.read_text() for path in sections)
    shown = set(re.findall(pattern.format(study=name[3:]), text))
    assert shown == names_made(name, kind)


def test_no_study_denies_the_turns_that_another_takes():
    """Study 03 said that servers with other numbers of users cannot take any."""
    assert 'beside=["model", "connections"]' in code("06-idle")
    for name in STUDIES:
        cells = parameters.cells_of(rules.path_of(name))
        told = "".join("".join(cell["source"]) for cell in cells)
        assert "users cannot take turns" not in told


def test_sizes_of_messages_are_told_at_the_connections_that_they_had():
    """These are `size_at`, which the text took for the fewest that were measured."""
    text = (rules.ROOT / "paper" / "sections" / "_supplement.qmd").read_text()
    told = [p for p in text.split("\n\n") if "fig-bulk-sizes" in p]
    assert len(told) == 2
    for paragraph in told:
        assert "fewest connections" not in paragraph
        assert "as many connections as its values name" in paragraph
    assert "connections == @size_at" in code("05-bulk")


@pytest.mark.parametrize("number", ["01", "04", "05", "07", "08"])
def test_figures_draw_the_trials_that_tables_count(number):
    text = code(notebook.find(number).stem)
    assert re.search(r"\bcounted\((measured|anew)\)", text)
    assert not re.search(r'query\("[^"]*\bok\b', text)


def _lack(name: str) -> str | None:
    """Return why nothing of a study can be measured here; None: something can."""
    if name == "15-winsock":
        return servers.entries()["winsock-iocp"].reason
    return lab.missing() if name == "14-hosts" else None


def _not_counted(name: str) -> set[str]:
    """Return the figures that need what perf counts, where it cannot."""
    counted = name != "12-why" or counting.missing() is None
    sampled = name != "12-why" or profiling.missing() is None
    lacking = set() if counted else {"why-predicted", "why-parts", "why-off"}
    return lacking if sampled else lacking | {"why-profile", "why-flames"}


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_web_servers_are_asked_for_a_page_and_not_for_an_echo(tmp_path):
    here = [n for n in ("nginx", "apache-event") if servers.entries()[n].available]
    if not here:
        pytest.skip("neither nginx nor Apache is here")
    accept = "[quiet, stationary, little, client, response_times]"
    values = {"trials": 4, "duration": 0.1, "warmup": 0.05, "accept": accept}
    values["max_trials"] = 4  # also where other programs spoil one
    values = small("13-runtimes") | values | {"web": f"[{', '.join(here)}]"}
    for _ in range(2):  # the second time nothing is measured
        rules.run("13-runtimes", tmp_path, **values)
    cells = pd.read_csv(tmp_path / "runs/t/runtimes/cells.csv")
    pages = cells[cells["workload"] == "http"]
    assert set(pages["model"]) == {"epoll", *here}
    spent = pages[pages["metric"] == "server_cpu_per_request_s"]
    assert (spent["n"] == 4).all()
    assert (spent["lo"] > 0).all()
    pairs = pd.read_csv(tmp_path / "runs/t/runtimes/ratios.csv")
    assert set(pairs.loc[pairs["workload"] == "http", "model"]) == set(here)
    assert set(pairs.loc[pairs["workload"].isna(), "model"]) == {"python-selectors"}


#: where a figure lacks trials when others make the client late or disturb the rounds
ALONE = ("00-the-machine", "11-load", "13-runtimes", "14-hosts")


def _measured(name: str, tmp_path: Path) -> Path:
    """Return the folder of a study in a small run, made here unless there is one."""
    if MADE and name not in EXTRA:
        return schema.run_folder(MADE) / name[3:]
    rules.run(name, tmp_path, **small(name))
    return tmp_path / "runs" / "t" / name[3:]


@pytest.mark.long
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.serial if name in ALONE else pytest.mark.sweeps
        )
        for name in STUDIES
        if name != "09-doubts"  # which reads what others measured
    ],
)
def test_a_small_run_gives_numbers_of_plain_pandas(name, tmp_path):
    if lack := _lack(name):
        pytest.skip(lack)
    folder = _measured(name, tmp_path)
    results = json.loads((folder / "results.json").read_text())
    assert results["answer"]
    drawn = {f["id"].removeprefix("fig-") for f in results["figures"]}
    assert names_made(name, "figure") - drawn <= _not_counted(name)
    assert drawn <= names_made(name, "figure")
    assert pd.read_csv(folder / "cells.csv")["n"].sum() > 0
