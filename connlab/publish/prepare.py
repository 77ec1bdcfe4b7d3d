"""Results to paper inputs: variables, fragments, pictures, stubs and stamps.

Everything written here can be thrown away and made again:

- ``paper/_variables.yml``, the tree behind ``{{< var study.answer >}}``;
- ``paper/_generated/STUDY/*``: pictures, tables, summary, findings, notes, failures;
- ``paper/_generated/facts.json``: numbers by their address, claims, links of figures;
- ``paper/_generated/paper.yml``, the head of the paper (authors, date, abstract);
- ``paper/data/STUDY/*``, what the figures link to.

What the sources ask for and the run does not have is written as well: that of a
reference, or a stub that says "not measured here" and why. Nothing is computed from
measurements.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from connlab import notebook
from connlab.parameters import suggestion
from connlab.publish import (
    figure_pages,
    fragments,
    guide,
    lacking,
    ledger,
    model_pages,
    models,
    numbers,
    provenance,
    published,
    reference,
    sources,
)
from connlab.publish import markdown as md
from connlab.publish.figure_pages import DATA, GENERATED
from connlab.publish.results import Registry, Run, Study
from connlab.study.formatting import called
from connlab.study.results import Results
from connlab.study.style import fonts

VARIABLES = "_variables.yml"


@dataclass(frozen=True, kw_only=True)
class Remarks:
    """A line for each stub, each stale study, and what nobody shows."""

    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Numbers and claims that no run has, with the nearest that one has."""


def prepare(
    run: Run, others: Mapping[str, Run], paper: Path, *, renderer: str
) -> tuple[dict[str, Any], Remarks]:
    """Write every input that the sources in ``paper`` take from ``run``.

    ``others`` are its references, by what readers call them. ``renderer`` says in words
    what will set the paper; it is printed. Return the variables, and the remarks.
    """
    for folder in (paper / GENERATED, paper / DATA):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    wanted = sources.wanted(paper)
    registry = run.registry
    variables: dict[str, Any] = {}
    for study, results in run.evaluated:
        variables[key(study.name)] = write_study(study, results, registry, paper)
    variables["run"] = provenance.run_variables(run, others)
    variables["provenance"] = provenance.variables(run, renderer=renderer)
    reference.write(run, others, paper)
    guide.write(run, others, paper)
    write_ledger(run, others, paper)
    provenance.write(run, paper)
    write_published(wanted.includes, paper)
    if models.PIECE in wanted.includes:
        models.write(registry, paper, model_pages.write(run, paper))
    studies = {key(name): name for name in run.studies}
    missing = (
        *write_facts(run, others, wanted, paper),
        *lacking.plant_variables(wanted.variables, run, studies, variables),
        *lacking.write_includes(wanted, run, others, paper),
    )
    fragments.write(paper / VARIABLES, _yaml(variables))
    write_head(run, paper, variables)
    stale = [f"{n}: {'; '.join(s.stale)}" for n, s in run.studies.items() if s.stale]
    return variables, Remarks(
        missing=missing,
        stale=tuple(stale),
        unused=tuple(_unused(run, wanted)),
        unknown=tuple(_unknown(run, others, wanted)),
    )


def key(name: str) -> str:
    """Turn a study's name into the name of its branch among the variables."""
    return name.replace("-", "_")


def write_published(includes: Iterable[str], paper: Path) -> None:
    """Write the published tables that the sources include; no run changes them."""
    for include in includes:
        path = paper / include
        if path.parent.name == published.FOLDER:
            name = path.stem.removeprefix("tbl-").removeprefix("published-")
            if text := published.table(paper, name, label=path.stem):
                fragments.write(path, text)


# ---- one study ---------------------------------------------------------------------


def write_study(
    study: Study, results: Results, registry: Registry, paper: Path
) -> dict[str, str]:
    """Write what a section includes; return what it asks for by ``{{< var … >}}``."""
    folder, marks = paper / GENERATED / study.name, numbers.Marks(results)
    question, answer = md.escape(results.question), marks.markdown(results.answer)
    notes = [note for note in results.notes if not _SWEEP_NOTE.search(note)]
    summary = fragments.fill(
        "summary.qmd",
        stale=study.stale,
        programs=study.other_programs,
        question=md.attribute(question),
        answer=answer,
        varied=provenance.trials(results),
    )
    pieces = {
        "summary": models.named(summary, registry),
        "findings": models.named(_bullets(results.findings, marks), registry),
        "notes": models.named(_bullets(notes, marks), registry),
        "failures": _failures(results),
    }
    pieces |= {
        table.id: numbers.table(table, marks, stale=bool(study.stale))
        for table in results.tables
    }
    fragments.write_all(folder, pieces)
    figure_pages.write_notebook(
        study.folder, paper / DATA / study.name, title=results.question
    )
    for figure in results.figures:
        fragments.copy(study.folder / figure.files["svg"], folder)
    alone = models.named(answer, registry) + " *(Stale.)*" * bool(study.stale)
    return {"question": question, "answer": alone}  # stands in sections of others


_SWEEP_NOTE = re.compile(rf"^the sweep ended early|{provenance.FLAGGED}")
"""Notes on how a sweep went: the appendix has that of every study in a table."""


def _bullets(items: Sequence[str], marks: numbers.Marks) -> str:
    """Return a list, or a paragraph of a single item."""
    bullet = "- " if len(items) > 1 else ""
    return "".join(f"{bullet}{marks.markdown(item)}\n" for item in items)


def _failures(results: Results) -> str:
    if not results.failures:
        return "No cell of the grid lost a trial.\n"
    factors = pd.DataFrame([f.factors for f in results.failures], dtype=object)
    *fixed, last = factors
    lost = factors.where(factors.notna(), "—").map(str)
    lost = lost.apply(lambda levels: levels.map(partial(called, levels.name)))
    lost["trials"] = [cell.n for cell in results.failures]
    lost["reason"] = [cell.reason for cell in results.failures]
    groups = lost.groupby([*fixed, "reason"], sort=False, as_index=False)
    rows = groups.agg({last: ", ".join, "trials": "sum"})
    rows = rows[[*fixed, last, "trials", "reason"]]
    return md.table(
        [name.replace("_", " ") for name in rows],
        rows.map(md.escape).to_numpy().tolist(),
        caption=fragments.caption("failures"),
        label=f"tbl-{results.study}-failures",
        align="l" * len(fixed) + "lrl",
    )


# ---- the ledger of claims ------------------------------------------------------------


def write_ledger(run: Run, others: Mapping[str, Run], paper: Path) -> None:
    """Write the table of claims anew, with links and the references' verdicts."""
    results = run.results_of(reference.CLAIMS)
    references = {
        label: judged
        for label, other in others.items()
        if (judged := other.results_of(reference.CLAIMS))
    }
    claims = results and ledger.claims(
        results,
        paper=paper,
        others=references,
        shown=sources.identifiers(paper, sources.INDEX),
    )
    if not claims:
        return
    study = run.studies[reference.CLAIMS]
    stale = "**Stale.** " if study.stale else ""
    text = fragments.fill(
        "claims.qmd",
        stale=study.stale,
        programs=study.other_programs,
        overview=ledger.overview(claims, caption=stale + fragments.caption("reports")),
        unfolding=ledger.unfolding(claims, results, paper),
        printed=ledger.table(
            claims,
            caption=stale + fragments.caption("claims"),
            page_only=sources.page_only(paper),
        ),
    )
    fragments.write(paper / GENERATED / study.name / f"{ledger.LABEL}.qmd", text)


# ---- numbers, claims, and links below figures ----------------------------------------


def write_facts(
    run: Run, others: Mapping[str, Run], wanted: sources.Wanted, paper: Path
) -> list[str]:
    """Write what numbers.lua looks up: numbers, claims, and links below figures.

    Return why numbers, claims and pictures that the sources ask for are missing.
    """
    figures = figure_pages.drawn(run)
    stale = [study.name for study, _ in run.evaluated if study.stale]
    stale += [path for path, (study, _) in figures.items() if study.stale]
    run_numbers, claims = _numbers(run), _claims(run)
    missing = []
    for name in (*wanted.numbers, *wanted.claims):
        if name not in run_numbers and name not in claims:
            study_name = name.partition("/")[0]
            why = lacking.reason(run, study_name, "the study gave no such number")
            missing.append(f"{name}: {why}")
    borrowed: dict[str, str] = {}
    for name in wanted.pictures:
        if not (paper / name).exists():
            missing.append(f"{name}: {lacking.reason(run, Path(name).parent.name)}")
            if found := lacking.write_picture(name, others, paper):
                borrowed[name], figures[name] = found
    links = {
        path: figure_pages.links(
            *figures[path], picture, paper, source=borrowed.get(path, "")
        )
        for path, picture in wanted.pictures.items()
        if path in figures
    }
    references = [
        {
            "name": label,
            "numbers": {
                n: v for n, v in _numbers(other).items() if n in wanted.numbers
            },
            "claims": {n: v for n, v in _claims(other).items() if n in wanted.claims},
        }
        for label, other in others.items()
    ]
    facts = {
        "numbers": run_numbers,
        "claims": claims,
        "figures": links,
        "stale": stale,
        "borrowed": borrowed,
        "references": references,
    }
    text = json.dumps(facts, ensure_ascii=False)
    fragments.write(paper / GENERATED / "facts.json", text)
    return missing


_BEHIND_NUMBER = re.compile(r"\s*(\[[^\]]*\]|\([^)]*no interval\))$")
"""The bounds behind a number, or that it has none."""


def _numbers(run: Run) -> dict[str, dict[str, Any]]:
    return {
        address: {
            "text": row["text"],
            "short": _BEHIND_NUMBER.sub("", row["text"]),
            "title": numbers.title(row),
            "unsure": row["lo"] is None,
        }
        for address, row in run.numbers.items()
        if row["text"]
    }


def _claims(run: Run) -> dict[str, str]:
    states = {True: "yes", False: "no", None: "open"}
    return {
        f"{study.name}/{name}": states[claimed.holds]
        for study, results in run.evaluated
        for name, claimed in results.claims.items()
    }


def _unknown(run: Run, others: Mapping[str, Run], wanted: sources.Wanted) -> list[str]:
    """Return what sections ask of the studies of a run and no run has.

    But none whose name stands in the notebook and in no run: few machines have it.
    Without a reference nobody knows what a longer run would have: then there is none.
    """
    runs = [run, *others.values()] if others else []
    numbers_ = [name for each in runs for name in each.numbers]
    claims = [name for each in runs for name in _claims(each)]
    text_of = {
        notebook.study_of(path): path.read_text("utf-8") for path in notebook.every()
    }
    evaluated = {study.name for study, _ in run.evaluated}
    unknown = []
    for asked, known in ((wanted.numbers, numbers_), (wanted.claims, claims)):
        begun = {name.partition(" ")[0] for name in known}
        for name in asked if known else ():
            study, _, metric = (first := name.partition(" ")[0]).partition("/")
            rare = first not in begun and metric in text_of.get(study, "")
            if name not in known and study in evaluated and not rare:
                unknown.append(f"{name}; {suggestion(name, known)}".rstrip("; "))
    return unknown


def _unused(run: Run, wanted: sources.Wanted) -> list[str]:
    mentioned = {Path(i).parent.name for i in wanted.includes}
    mentioned |= {v.split(".")[0].replace("_", "-") for v in wanted.variables}
    shown = {*wanted.pictures, *wanted.includes}
    figures = figure_pages.drawn(run)
    unused = []
    for study, results in sorted(run.evaluated, key=lambda pair: pair[0].name):
        if study.name not in mentioned:
            unused.append(study.name)
            continue
        pieces = {path: f.id for path, (of, f) in figures.items() if of is study}
        folder = f"{GENERATED}/{study.name}"
        pieces |= {f"{folder}/{table.id}.qmd": table.id for table in results.tables}
        unused += [
            f"{study.name}/{name}" for path, name in pieces.items() if path not in shown
        ]
    return unused


# ---- the head of the paper ---------------------------------------------------------


def write_head(run: Run, paper: Path, variables: dict[str, Any]) -> None:
    """Write authors, date and abstract where the project file picks them up.

    And where Quarto's Typst finds the font that the figures were laid out for: letters
    of another one would not fit.
    """
    head: dict[str, Any] = {
        "author": [{"name": name} for name in provenance.citation(paper)["authors"]],
        "date": provenance.date(run),
        "font-paths": [f"{GENERATED}/fonts"],
    }
    for font in fonts().glob("DejaVuSans*.ttf"):
        fragments.copy(font, paper / GENERATED / "fonts")
    if (paper / sources.ABSTRACT).is_file():
        expanded = sources.expand(paper, sources.ABSTRACT, variables)
        head["abstract"] = expanded.text.strip()
    fragments.write(paper / GENERATED / "paper.yml", _yaml(head))


def _yaml(tree: dict[str, Any]) -> str:
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=True, width=88)
