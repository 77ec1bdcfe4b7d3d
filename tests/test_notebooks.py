"""Notebooks of the studies: form, what sections ask of them, small runs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import notebook_rules as rules
import pandas as pd
import pytest

from connlab import parameters
from connlab.drive import counting, profiling, servers
from connlab.hosts import lab

SECTIONS = rules.ROOT / "paper" / "sections"


@dataclass(frozen=True)
class Study:
    """A notebook: its question, parameters it must have, and those of a small run."""

    question: str
    wants: frozenset[str]
    few: dict[str, Any]


STUDIES = {
    "00-the-machine": Study(
        "Can this machine's numbers be trusted?",
        frozenset({"rounds", "known_ms", "trials", "slices"}),
        {"rounds": 2, "window": 0.01, "connections": 4, "slices": "[5, 20]"},
    ),
    "01-response-time": Study(
        "What does a request cost when every connection is busy?",
        frozenset({"models", "connections", "baseline", "engine"}),
        {"models": "[iterative, epoll]", "connections": "[1, 4]"},
    ),
    "03-pools": Study(
        "Is a pool of threads slower than a thread for every request?",
        frozenset({"run", "time_scale", "at_once", "pools", "delays", "sizes"}),
        {
            "at_once": "[32]",
            "few": 32,
            "pools": "[16]",
            "delays": "[wide]",
            "buckets": "[32]",
            "cores": "[1]",
            "sizes": "[1, 2, 3, 4, 6, 8]",
            "spinning": "[1]",
            "loads": "[0.5]",
        },
    ),
    "02-breaking-points": Study(
        "Where does each model break, and on what?",
        frozenset({"models", "ladder", "workers", "cases"}),
        {
            "models": "[iterative, epoll]",
            "ladder": "[1, 4]",
            "cases": False,
        },
    ),
    "04-guestbook": Study(
        "Does the way to wait still matter when a database is asked?",
        frozenset({"run", "models", "connections", "kept", "workers", "remarks"}),
        {"models": "[thread, epoll]", "connections": "[4]", "kept": "[4]"},
    ),
    "05-bulk": Study(
        "How many bytes does each model move, and at what cost?",
        frozenset({"models", "sizes", "byte_rate", "block"}),
        {
            "models": "[thread-pair, epoll]",
            "connections": "[4, 8]",
            "sizes": "[1024]",
            "size_at": 4,
            "block": 4,
        },
    ),
    "06-idle": Study(
        "What does a connection cost that says nothing?",
        frozenset(
            {"models", "idle", "active", "crowds", "talking", "sharing", "baseline"}
        ),
        {
            "models": "[poll, epoll]",
            "idle": "[0, 8]",
            "active": 4,
            "crowds": "[8]",
            "talking": "[1, 8]",
            "sharing": "[poll, epoll]",
            "holding": 1,
        },
    ),
    "07-uring": Study(
        "Is io_uring cheaper than epoll?",
        frozenset({"models", "engine", "baseline"}),
        {"models": "[epoll, uring, uring-poll]", "connections": "[1, 8]"},
    ),
    "08-cores": Study(
        "What do more workers bring on these cores?",
        frozenset({"models", "workers", "cores", "turn", "crowd"}),
        {
            "models": "[epoll-pool, pool]",
            "workers": "[1, 2]",
            "connections": 4,
            "crowd": 2,
        },
    ),
    "15-winsock": Study(
        "What remains of Windows' six models in their own API?",
        frozenset({"models", "byte_rate", "idle", "ladder"}),
        {
            "models": "[select, iocp]",
            "connections": "[4]",
            "byte_rate": 0,
            "idle": "[0, 8]",
            "active": 4,
            "ladder": "[63, 64]",
        },
    ),
    "14-hosts": Study(
        "How many clients can one machine stand for?",
        frozenset({"hosts", "models", "load", "crowds", "baseline"}),
        {
            "hosts": "[0, 1]",
            "models": "[poll, epoll]",
            "connections": 4,
            "crowds": "[40]",
            "accept": "[quiet, lag]",
        },
    ),
    "10-intervals": Study(
        "Do our intervals hold the truth as often as they say?",
        frozenset({"repetitions", "trials", "twins"}),
        {"repetitions": 20, "trials": "[4, 5]", "cvs": "[0.1]", "twins": 4},
    ),
    "11-load": Study(
        "How long do users wait at the same load?",
        frozenset({"models", "works", "loads", "beyond", "baseline", "task"}),
        {
            "models": "[thread, epoll]",
            "connections": "[4]",
            "loads": "[0.2, 0.5]",
            "accept": "[quiet, lag]",
        },
    ),
    "12-why": Study(
        "Where does the CPU time of a request go?",
        frozenset({"models", "connections", "active", "counted", "baseline"}),
        {
            "models": "[poll, epoll]",
            "connections": "[1, 8]",
            "active": 4,
            "counted": 2000,
            "profiled": "[8]",
            "profiles": 1,
            "rounds": 1,
            "window": 0.02,
        },
    ),
    "13-runtimes": Study(
        "What does a runtime cost?",
        frozenset({"servers", "connections", "load", "idle", "baseline"}),
        {
            "servers": "[python-selectors]",
            "connections": "[4]",
            "at": 4,
            "idle": 8,
        },
    ),
}


def code(name: str) -> str:
    """Return the code of a notebook."""
    notebook = json.loads((rules.ROOT / "notebooks" / f"{name}.ipynb").read_text())
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    return "\n".join("".join(c["source"]) for c in cells)


def made(name: str, what: str) -> set[str]:
    """Return the names that a notebook gives to its claims, figures or tables."""
    return set(re.findall(rf'report\.{what}\(\s*"([\w-]+)"', code(name)))


def asked(study: str, pattern: str) -> set[str]:
    """Return the names that the sections ask of a study."""
    text = "".join(path.read_text() for path in sorted(SECTIONS.glob("*.qmd")))
    return set(re.findall(pattern.format(study=study), text))


@pytest.mark.parametrize("name", STUDIES)
def test_a_notebook_keeps_the_rules(name):
    study = STUDIES[name]
    path = rules.ROOT / "notebooks" / f"{name}.ipynb"
    rules.check(path, question=study.question, wants=study.wants)
    assert "sys.path" not in code(name)


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("claim", r'\.claim of="{study}/([\w-]+)"'),
        ("figure", r"_generated/{study}/([\w-]+)\.svg"),
        ("table", r"_generated/{study}/tbl-([\w-]+)\.qmd"),
    ],
)
def test_sections_show_what_a_notebook_makes_and_no_more(name, what, pattern):
    assert asked(name[3:], pattern) == made(name, what)


def _lack(name: str) -> str | None:
    """Return why nothing of a study can be measured here; None: something can."""
    return servers.entries()["winsock-iocp"].reason if name == "15-winsock" else None


def _not_counted(name: str) -> set[str]:
    """Return the figures that need what perf counts, where it cannot."""
    counted = name != "12-why" or counting.missing() is None
    sampled = name != "12-why" or profiling.missing() is None
    lacking = set() if counted else {"why-predicted", "why-parts"}
    return lacking if sampled else lacking | {"why-profile", "why-flames"}


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_web_servers_are_asked_for_a_page_and_not_for_an_echo(tmp_path):
    there = [n for n in ("nginx", "apache-event") if servers.entries()[n].available]
    if not there:
        pytest.skip("neither nginx nor Apache is here")
    accept = "[quiet, stationary, little, client, response_times]"
    given = {"trials": 4, "duration": 0.1, "warmup": 0.05, "accept": accept}
    given |= STUDIES["13-runtimes"].few | {"web": f"[{', '.join(there)}]"}
    notebook = rules.ROOT / "notebooks" / "13-runtimes.ipynb"
    for _ in range(2):  # the second time nothing is measured
        rules.run(notebook, tmp_path, "runtimes", **given)
    cells = pd.read_csv(tmp_path / "runs/t/runtimes/cells.csv")
    pages = cells[cells["workload"] == "http"]
    assert set(pages["model"]) == {"epoll", *there}
    spent = pages[pages["metric"] == "server_cpu_per_request_s"]
    assert (spent["n"] == 4).all()
    assert (spent["lo"] > 0).all()
    pairs = pd.read_csv(tmp_path / "runs/t/runtimes/ratios.csv")
    assert set(pairs.loc[pairs["workload"] == "http", "model"]) == set(there)
    assert set(pairs.loc[pairs["workload"].isna(), "model"]) == {"python-selectors"}


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
@pytest.mark.parametrize("name", STUDIES)
def test_a_small_run_gives_numbers_of_plain_pandas(name, tmp_path):
    if lack := _lack(name):
        pytest.skip(lack)
    study = name[3:]
    if study == "hosts" and (lack := lab.missing()):
        pytest.skip(lack)
    given = {"trials": 2, "duration": 0.1, "warmup": 0.05, "accept": "[quiet]"}
    known = parameters.declared(rules.ROOT / "notebooks" / f"{name}.ipynb")
    given = {k: v for k, v in given.items() if k in known}
    said = rules.run(
        rules.ROOT / "notebooks" / f"{name}.ipynb",
        tmp_path,
        study,
        **given | STUDIES[name].few,
    )
    assert said["answer"]
    drawn = {f["id"].removeprefix("fig-") for f in said["figures"]}
    assert made(name, "figure") - drawn <= _not_counted(name)
    assert drawn <= made(name, "figure")
    cells = pd.read_csv(tmp_path / "runs" / "t" / study / "cells.csv")
    assert cells["n"].sum() > 0
