"""A made-up run for the tests of the paper: no number in it was ever measured.

Three servers answer as if each had one rate that it cannot exceed; the numbers come
from that sentence and a fixed pattern of scatter, so that tests know what must appear.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from conftest import REFERENCE, ROOT, ran

from connlab.publish import Rendered, checking, renderers, sources
from connlab.publish.results import Run, load_run

PAPER = ROOT / "paper"
RUN = "made-up"
STUDY = "response-time"
MADE_AT = "2026-01-02T03:04:05+00:00"
MODELS = {"select": 96_000, "thread": 88_000, "epoll": 104_000}
FIGURES = (
    "throughput",
    "response-time",
    "response-time-ratios",
    "response-time-published",
)
LEVELS = (1, 10, 100, 1000, 5000)


def value(middle: float, *, unit: str = "ms", n: int = 10) -> dict:
    """Return one number of ``results.json`` with an interval of two per cent."""
    lo, hi = 0.98 * middle, 1.02 * middle
    text = f"{middle:.3g} {unit} [{lo:.3g}, {hi:.3g}]"
    bounds = {"value": middle, "lo": lo, "hi": hi, "unit": unit, "text": text}
    return bounds | {"n": n, "level": 0.95, "method": "t over trials"}


def milliseconds(model: str, clients: int) -> float:
    return max(0.05, clients / MODELS[model] * 1e3)


def figure(name: str) -> dict:
    """Return the entry of a figure, whose caption a section has."""
    stem = f"figures/{name}"
    files = {"svg": f"{stem}.svg", "pdf": f"{stem}.pdf"}
    return {"id": f"fig-{name}", "files": files, "data": f"{stem}.csv"}


def results() -> dict:
    """Return a whole ``results.json``; all that sections claim of the study holds."""
    cells = {(m, c): value(milliseconds(m, c)) for m in MODELS for c in LEVELS}
    cells.pop(("select", 5000))
    rows = [
        [str(c)] + [cells[m, c]["text"] if (m, c) in cells else "—" for m in MODELS]
        for c in LEVELS
    ]
    columns = [{"name": "connections", "label": "Connections"}]
    columns += [{"name": m, "label": f"{m} (ms)"} for m in MODELS]
    tails = {"id": "tbl-response-time-tails", "columns": columns[:2]}
    lost = {"factors": {"model": "select", "connections": 5000}}
    claimed = [claim.split("/") for claim in sources.wanted(PAPER).claims]
    return {
        "schema": 1,
        "study": STUDY,
        "number": 1,
        "question": "How does response time grow with the connections (made up)?",
        "answer": "In this made-up run all three servers slow down in proportion.",
        "run": RUN,
        "made_at": MADE_AT,
        "machine": "a machine that does not exist (made-up numbers)",
        "trials": {"total": 150, "used": 140, "failed": 10, "excluded": 0},
        "stopping": "targets reached",
        "words": {"response_mean_s model=epoll": {"word": "faster"}},
        "numbers": [
            {k: cell[k] for k in ("text", "n", "level", "method")}
            for cell in cells.values()
        ],
        "claims": {n: {"holds": True, "why": "made"} for s, n in claimed if s == STUDY},
        "figures": [figure(name) for name in FIGURES],
        "tables": [
            {"id": "tbl-response-time", "columns": columns, "rows": rows},
            tails | {"rows": [["1000", "12.3 ± 0.4"]]},
        ],
        "failures": [lost | {"n": 10, "reason": "refused: fd_setsize"}],
        "findings": ["epoll is faster than thread at 1000 connections (made up)."],
        "notes": ["These numbers were made up for a test."],
    }


def cells(*, scale: float = 1.0) -> list[dict]:
    """Return the rows of ``cells.csv`` that the study of response times leaves."""
    rows = []
    for model in MODELS:
        for clients in LEVELS[:-1] if model == "select" else LEVELS:
            mean = scale * milliseconds(model, clients)
            for metric, number in (
                ("response_mean_s", value(mean)),
                ("throughput_rps", value(clients / mean, unit="thousand requests/s")),
                ("waiting_users", value(0.9 * clients, unit="")),
            ):
                cell = {"study": STUDY, "model": model, "connections": clients}
                rows.append({**cell, "metric": metric, **number})
    return rows


def ratios() -> list[dict]:
    """Return a row of ``ratios.csv`` for each ratio that the sections ask for."""
    rows = []
    for address in sources.wanted(PAPER).numbers:
        name, _, levels = address.partition(" ")
        study, _, metric = name.partition("/")
        # a level may have blanks: server=pool of 16
        factors = dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", levels))
        if study == STUDY and "against" in factors:
            cell = {"study": study, "metric": metric, **factors}
            rows.append({**cell, **value(1.2, unit=""), "verdict": "higher"})
    return rows


def write_cells(study: Path, rows: list[dict], name: str = "cells.csv") -> None:
    pd.DataFrame(rows).to_csv(study / name, index=False)


def claims(verdicts: dict[str, str]) -> dict:
    """Return ``results.json`` of a ledger whose claims have these verdicts."""
    heads = ("id", "says", "number", "effect", "verdict", "likeness", "why")
    labels = ("", "Claim", "Published", "Found here", "Verdict", "Likeness", "Because")
    rows = [
        [claim, f"Made-up claim {claim}.", "9 ms", "—", word, "high", "made up"]
        for claim, word in verdicts.items()
    ]
    columns = [{"name": n, "label": h} for n, h in zip(heads, labels, strict=True)]
    return {
        "schema": 1,
        "study": "claims",
        "number": 10,
        "question": "Which made-up findings hold?",
        "answer": "Some do.",
        "made_at": MADE_AT,
        "tables": [{"id": "tbl-claims", "columns": columns, "rows": rows}],
    }


def manifest() -> dict:
    """Return a manifest of a machine that does not exist."""
    return {
        "schema": 1,
        "run": RUN,
        "made_at": MADE_AT,
        "environment": "0123456789ab",
        "machine": {
            "cpu": "Imaginary CPU",
            "cores": 4,
            "kernel": "0.0.0-made-up",
            "memory_bytes": 8 * 2**30,
            "limits": {"descriptors": {"soft": 1024, "hard": 4096}},
            "sysctls": {"net.core.somaxconn": "4096"},
            "mitigations": {"meltdown": "Not affected", "retbleed": "Mitigation: x"},
        },
        "compiler": {"cc": "cc 0.0", "cflags": "-O2"},
        "versions": {"python": "3.11.0", "connlab": "0.1.0"},
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
        "programs": {"server": "aaaa", "client": "bbbb"},
        "studies": {STUDY: {"parameters": {"seed": 7}}},
    }


def trial(n: int, *, server: str = "aaaa") -> dict:
    return {
        "study": STUDY,
        "key": str(n),
        "started_at": "2026-01-01T00:00:00+00:00",
        "binaries": {"server": server, "client": "bbbb"},
    }


def write_run(
    root: Path,
    *,
    trials: int = 150,
    name: str = RUN,
    verdicts: dict[str, str] | None = None,
    scale: float = 1.0,
) -> Path:
    """Write the made-up run below ``root`` and return its folder.

    With `verdicts` it has judged claims; its times are multiplied by `scale`.
    """
    folder = root / name
    study = folder / STUDY
    (study / "figures").mkdir(parents=True)
    write_json(folder / "manifest.json", manifest() | {"run": name})
    write_json(study / "results.json", results() | {"run": name})
    write_cells(study, cells(scale=scale))
    write_cells(study, ratios(), "ratios.csv")
    if verdicts:
        (folder / "claims").mkdir()
        write_json(folder / "claims" / "results.json", claims(verdicts))
    lines = [json.dumps(trial(n)) for n in range(trials)]
    (study / "trials.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    for name in FIGURES:
        for ending, text in picture().items():
            (study / "figures" / f"{name}{ending}").write_text(text, "utf-8")
    return folder


def load(root: Path, name: str = RUN) -> Run:
    return load_run(name, root=root)


def changed(root: Path, **entries: object) -> Run:
    """Write the made-up run with other entries of its manifest; return it as read."""
    edit(write_run(root) / "manifest.json", **entries)
    return load(root)


def picture() -> dict[str, str]:
    """Return a figure that says that it is made up, and its data, by ending."""
    rows = [(m, c, milliseconds(m, c)) for m in MODELS for c in LEVELS]
    table = pd.DataFrame(rows, columns=["model", "connections", "response_ms"])
    font = 'style="font-size: 8px" font-family="DejaVu Sans"'
    text = f'<text x="99" y="99" {font}>MADE-UP NUMBERS</text>'
    size = 'width="460.8pt" height="259.2pt" viewBox="0 0 460.8 259.2"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{text}</svg>'
    return {".csv": table.to_csv(index=False), ".svg": svg}


def write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


def edit(path: Path, **changes: object) -> None:
    """Replace entries of a JSON file."""
    write_json(path, json.loads(path.read_text("utf-8")) | changes)


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def outdate(study: Path) -> None:
    """Let the results of a study be older than its trials."""
    edit(study / "results.json", made_at="2025-01-01T00:00:00+00:00")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def pandoc(text: str, *words: str, cwd: Path | None = None) -> str:
    """Return what pandoc makes of a text; it has to have nothing to say about it."""
    done = ran(renderers.pandoc(), "--wrap=none", *words, cwd=cwd, input=text)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def text_of(rendered: Rendered) -> str:
    """Return the text of a set paper's page, and of the supplement behind it."""
    files = [path for path in (rendered.html, rendered.supplement) if path]
    pages = [checking.Page(path.read_text("utf-8")) for path in files]
    text = " ".join("".join(page.text for page in pages).split())
    return text.replace("\u00a0", " ")


def poppler(tool: str, *words: str | Path) -> str:
    """Return what a tool of Poppler prints; skip the test where it is missing."""
    program = shutil.which(tool)
    if not program:
        pytest.skip(f"{tool} is not installed")
    return subprocess.check_output([program, *words], text=True)


def text_of_pdf(path: Path) -> str:
    return " ".join(poppler("pdftotext", "-q", path, "-").split())


def project_of_reference(folder: Path, *studies: str) -> Path:
    """Make a project whose one run holds studies of the reference; return the run."""
    for name in ("connlab", "notebooks", "paper", "pyproject.toml", "src_c"):
        (folder / name).symlink_to(ROOT / name)
    run = folder / "runs" / "reference"
    run.mkdir(parents=True)
    shutil.copy(REFERENCE / "manifest.json", run)
    for study in studies:
        shutil.copytree(REFERENCE / study, run / study)
    return run


def copy_model(name: str, folder: Path) -> None:
    source = Path("src_c", "models", f"{name}.c")
    (folder / source).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / source, folder / source)


def copy_paper(folder: Path) -> Path:
    """Copy the sources of the paper, without anything generated, to work on."""
    generated = shutil.ignore_patterns(
        "_generated", "_output", "_variables.yml", "data", "notebooks", ".quarto"
    )
    target = folder / "paper"
    shutil.copytree(ROOT / "paper", target, ignore=generated)
    shutil.copyfile(ROOT / "CITATION.cff", folder / "CITATION.cff")
    return target
