"""Results to paper inputs: variables, fragments, pictures, stubs and stamps.

Everything written here can be thrown away and made again:

- ``paper/_variables.yml``, the tree behind ``{{< var study.answer >}}``;
- ``paper/_generated/STUDY/*``: pictures, tables, summary, findings, notes, failures;
- ``paper/_generated/facts.json``: numbers by their address, claims, links of figures;
- ``paper/_generated/paper.yml``, the head of the paper (authors, date, abstract);
- ``paper/data/STUDY/*``, what the figures link to.

What the sources ask for and the run does not have is written as well, as a stub that
says "not measured here" and why. Nothing is computed from measurements.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from connlab import report
from connlab.publish import (
    fragments,
    guide,
    ledger,
    model_pages,
    models,
    notebooks,
    numbers,
    provenance,
    published,
    reference,
    renderers,
    series,
    sources,
)
from connlab.publish import markdown as md
from connlab.publish.results import Run, Study
from connlab.study.results import Figure, Results, Table

GENERATED = "_generated"
DATA = "data"
VARIABLES = "_variables.yml"
MISSING = "not measured here"
NO_RESULTS = "the study left no results in this run"


@dataclass
class Prepared:
    """What was written, and what was asked for in vain."""

    variables: dict[str, Any]
    missing: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def prepare(run: Run, paper: Path, *, renderer: str) -> Prepared:
    """Write every input that the sources in ``paper`` take from ``run``.

    ``renderer`` says in words what will set the paper; it is printed.

    Returns
    -------
    Prepared
        The variables, and one line for each stub, stale study and study of the run
        that no source mentions.
    """
    for folder in (paper / GENERATED, paper / DATA):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    asked = sources.wanted(paper)
    prepared = Prepared(variables={})
    tree = prepared.variables
    registry = models.registry(run.manifest)
    for study in run.studies.values():
        if study.results:
            tree[key(study.name)] = study_variables(study, registry)
            write_study(study, registry, paper)
        if study.stale:
            prepared.stale.append(f"{study.name}: {'; '.join(study.stale)}")
    tree["run"] = provenance.run_variables(run)
    tree["provenance"] = provenance.variables(run, renderer=renderer)
    shown = sources.shown(paper, sources.INDEX)
    others = reference.beside(run)
    reference.write(run, others, paper)
    guide.write(run, others, paper)
    only = sources.page_only(paper)
    write_ledger(run, others, paper, shown=shown, page_only=only)
    provenance.write(run, paper, shown=shown)
    write_fixed(asked.includes, paper)
    if models.PIECE in asked.includes:
        pages = model_pages.write(run, registry, paper)
        models.write(registry, paper, pages=pages)
    write_facts(run, others, asked, paper, prepared)
    _stub_variables(asked.variables, run, tree, prepared)
    _stub_includes(asked, run, paper, prepared)
    prepared.unused += _unused(run, asked)
    (paper / VARIABLES).write_text(_yaml(tree), "utf-8")
    write_head(run, paper, tree)
    return prepared


def key(name: str) -> str:
    """Turn a study's name into the name of its branch among the variables."""
    return name.replace("-", "_")


def study_variables(study: Study, registry: models.Registry) -> dict[str, str]:
    """Lay out one study for ``{{< var … >}}``: question and answer as Markdown."""
    results = study.results
    assert results is not None
    answer = numbers.Marks(results).markdown(results.answer)
    return {
        "question": md.escape(results.question),
        "answer": models.named(answer, registry),
    }


# ---- what no run changes ------------------------------------------------------------


def write_fixed(includes: Iterable[str], paper: Path) -> None:
    """Write what the sources include and no run changes: published tables."""
    for include in includes:
        path = paper / include
        folder, label = path.parent.name, path.stem
        if folder == published.FOLDER:
            name = label.removeprefix("tbl-").removeprefix("published-")
            text = published.table(paper, name, label=label)
            if text:
                _write(path, text)


# ---- one study ---------------------------------------------------------------------


def write_study(study: Study, registry: models.Registry, paper: Path) -> None:
    """Write the pieces of one study that has results."""
    results = study.results
    assert results is not None
    folder, marks = paper / GENERATED / study.name, numbers.Marks(results)
    folder.mkdir(parents=True, exist_ok=True)
    said = {
        "summary": _summary(study, results, marks),
        "findings": _bullets(results.findings, marks),
        "notes": _bullets(
            (note for note in results.notes if not _OF_THE_SWEEP.search(note)), marks
        ),
    }
    for name, text in said.items():
        _write(folder / f"{name}.qmd", models.named(text, registry))
    _write(folder / "failures.qmd", _failures(results))
    notebooks.write_page(
        study.folder, paper / DATA / study.name, title=results.question
    )
    for figure in results.figures:
        _copy_picture(study, figure, paper)
    for table in results.tables:
        _write(folder / f"{table.id}.qmd", _table(table, marks))


_OF_THE_SWEEP = re.compile(rf"^the sweep ended early|{provenance.FLAGGED}")
"""Notes on how a sweep went: the appendix has that of every study in a table."""


def _table(table: Table, marks: numbers.Marks) -> str:
    """Set a table whose caption its section has.

    A column of dashes takes the room of those that say something and is left out; the
    first names the rows and stays. That a number has no interval is seen by its lack of
    brackets, and told on hover.
    """
    kept = [
        i
        for i in range(len(table.columns))
        if i == 0 or not table.rows or {row[i] for row in table.rows} - _NOTHING
    ]
    # a unit like "/s" must not break behind its stroke
    heads = [md.escape(table.columns[i].label.replace("/", "/\u2060")) for i in kept]
    rows = [[_cell(marks.markdown(row[i])) for i in kept] for row in table.rows]
    return md.table(heads, rows, alone=False)


_NOTHING = {"", "—", "–"}


def write_ledger(
    run: Run,
    others: Sequence[Run],
    paper: Path,
    *,
    shown: set[str],
    page_only: set[str],
) -> None:
    """Write the table of claims anew, with links and the references' verdicts."""
    results = reference.of_study(run, reference.CLAIMS)
    names = reference.labels(others)
    there = [reference.of_study(other, reference.CLAIMS) for other in others]
    known = {name: r for name, r in zip(names, there, strict=True) if r}
    these = results and ledger.claims(results, paper=paper, others=known, shown=shown)
    if not these:
        return
    study = run.studies[reference.CLAIMS]
    said = [_caption(study, c, paper) for c in (ledger.CAPTION, ledger.OVERVIEW)]
    printed = ledger.table(these, caption=said[0], page_only=page_only)
    counted = ledger.overview(these, caption=said[1])
    page = counted + ledger.unfolding(these, results, paper)
    text = md.only_html(page) + "\n" + md.only_print(printed)
    where = paper / GENERATED / study.name / f"{ledger.LABEL}.qmd"
    _write(where, _stamp(study) + text)


def _summary(study: Study, results: Results, marks: numbers.Marks) -> str:
    counts = provenance.trials(results)
    return _stamp(study) + fragments.fill(
        "summary.qmd",
        question=md.attribute(md.escape(results.question)),
        answer=marks.markdown(results.answer),
        varied=counts,
    )


def _path(study: Study, figure: Figure) -> str:
    """Return where a section looks for a picture."""
    return f"{GENERATED}/{study.name}/{Path(figure.files['svg']).name}"


def _copy_picture(study: Study, figure: Figure, paper: Path) -> None:
    """Put a picture where its section looks for it."""
    source = study.folder / figure.files["svg"]
    if source.is_file():
        shutil.copyfile(source, paper / GENERATED / study.name / source.name)


def write_facts(
    run: Run,
    others: Sequence[Run],
    asked: sources.Wanted,
    paper: Path,
    prepared: Prepared,
) -> None:
    """Write what numbers.lua looks up: numbers, claims, and links below figures."""
    links, stale = {}, []
    numbers_, claims = _numbers(run), _claims(run)
    for study in run.studies.values():
        if study.results:
            for figure in study.results.figures:
                path = _path(study, figure)
                stale += [path] if study.stale else []
                said = asked.pictures.get(path)
                if said:
                    links[path] = _links(study, figure, said, paper)
    for name in (*asked.numbers, *asked.claims):
        if name not in numbers_ and name not in claims:
            study = name.partition("/")[0]
            why_not = why(run, study, "the study gave no such number")
            prepared.missing.append(f"{name}: {why_not}")
    for name in asked.pictures:
        path = paper / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, fragments.fill("missing.svg", missing=MISSING))
            prepared.missing.append(f"{name}: {why(run, path.parent.name)}")
    references = [
        {
            "name": name,
            "numbers": {k: v for k, v in _numbers(other).items() if k in asked.numbers},
            "claims": {k: v for k, v in _claims(other).items() if k in asked.claims},
        }
        for name, other in zip(reference.labels(others), others, strict=True)
    ]
    facts = {
        "numbers": numbers_,
        "claims": claims,
        "figures": links,
        "stale": stale,
        "references": references,
    }
    _write(paper / GENERATED / "facts.json", json.dumps(facts, ensure_ascii=False))


_BEHIND_NUMBER = re.compile(r"\s*(\[[^\]]*\]|\([^)]*no interval\))$")
"""The bounds behind a number, or that it has none."""


def _numbers(run: Run) -> dict[str, dict[str, Any]]:
    """Return the numbers of a run by their address, with what stands behind them."""
    folders = [study.folder for study in run.studies.values()]
    rows = [item for folder in folders for item in report.numbers(folder).items()]
    return {
        where: {
            "text": row["text"],
            "short": _BEHIND_NUMBER.sub("", row["text"]),
            "title": numbers.title(row),
            "unsure": row["lo"] is None,
        }
        for where, row in rows
        if row["text"]
    }


def _claims(run: Run) -> dict[str, str]:
    """Return what a run says of each claim: yes, no or open."""
    states = {True: "yes", False: "no", None: "open"}
    folders = [study.folder for study in run.studies.values() if study.results]
    found = [item for folder in folders for item in report.read_claims(folder).items()]
    return {name: states[holds] for name, holds in found}


def _links(study: Study, figure: Figure, said: Mapping[str, str], paper: Path) -> str:
    """Return what is offered below a figure on the page: values, picture, notebook."""
    links = []
    if figure.data:
        links = [_values(study, figure.data, said, paper)]
        links += [_offer(study, paper, figure.data, "data (CSV)")]
    links.append(_offer(study, paper, figure.files["svg"], "picture (SVG)"))
    page = f"{DATA}/{study.name}/{notebooks.PAGE}"
    if (paper / page).is_file():
        links.append(f"[notebook]({page})")
    return " · ".join(link for link in links if link)


def _values(study: Study, data: str, said: Mapping[str, str], paper: Path) -> str:
    """Link to the page that has a figure's values in words and as a table."""
    names = sources.works(paper)
    page = series.write_page(
        study.folder / data,
        paper / DATA / study.name,
        title=re.sub(r"@([\w-]+)", lambda m: names.get(m[1], m[0]), said["caption"]),
        alt=said["alt"],
    )
    return f"[values (table)]({page.relative_to(paper).as_posix()})" if page else ""


def _offer(study: Study, paper: Path, name: str, label: str) -> str:
    source = study.folder / name
    if not source.is_file():
        return ""
    target = paper / DATA / study.name / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return f"[{label}]({DATA}/{study.name}/{source.name})"


def _cell(text: str) -> str:
    """Set a cell: a number and its half-width on one line, no word on a lack of one."""
    return _NO_INTERVAL.sub("", text.replace(" ± ", "\u00a0±\u00a0"))


_NO_INTERVAL = re.compile(r" \((?:one trial, )?no interval\)")


def _failures(results: Results) -> str:
    if not results.failures:
        return "No cell of the grid lost a trial.\n"
    *fixed, last = dict.fromkeys(k for f in results.failures for k in f.factors)
    rows: dict[tuple, list] = {}
    for failed in results.failures:
        same = (*(str(failed.factors.get(k, "—")) for k in fixed), failed.reason)
        rows.setdefault(same, []).append((failed.factors.get(last, "—"), failed.n))
    cells = [
        [
            *same[:-1],
            ", ".join(str(level) for level, _ in lost),
            str(sum(n for _, n in lost)),
            same[-1],
        ]
        for same, lost in rows.items()
    ]
    heads = [*(name.replace("_", " ") for name in (*fixed, last)), "trials", "reason"]
    caption = "Trials that failed or were left out by rule, and the commonest reason."
    return md.table(
        heads,
        [[md.escape(cell) for cell in row] for row in cells],
        caption=caption,
        label=f"tbl-{results.study}-failures",
        align="l" * len(fixed) + "lrl",
    )


def _bullets(items: Iterable[str], marks: numbers.Marks) -> str:
    return "".join(f"- {marks.markdown(item)}\n" for item in items) or "\n"


# ---- stamps and stubs --------------------------------------------------------------


def _stamp(study: Study) -> str:
    """Say that results are stale, or from other programs than the run's newest."""
    return fragments.fill("stamps.qmd", stale=study.stale, apart=study.apart)


def _caption(study: Study, text: str, paper: Path) -> str:
    """Set a caption: plain text, but for works that it cites by their keys."""
    said = md.citing(md.escape(text), sources.works(paper))
    return f"**Stale.** {said}" if study.stale else said


def why(run: Run, name: str, lacking: str = NO_RESULTS) -> str:
    """Say why a run has no results for a study; of one that has, what it lacks."""
    study = run.studies.get(name)
    if study is None:
        return f"run {run.name} did not include the study {name}"
    return lacking if study.results else study.reason or NO_RESULTS


def _stub_variables(
    asked: Iterable[str], run: Run, tree: dict[str, Any], prepared: Prepared
) -> None:
    names = {key(name): name for name in run.studies}
    for dotted in asked:
        found = sources.look_up(tree, dotted)
        if found is not None and not isinstance(found, dict):
            continue
        branch, _, rest = dotted.partition(".")
        name = names.get(branch, branch.replace("_", "-"))
        reason = why(run, name, f"the study gave no {rest}")
        _plant(tree, dotted, md.span(MISSING, "missing", title=reason))
        prepared.missing.append(f"{dotted}: {reason}")


def _plant(tree: dict[str, Any], dotted: str, text: str) -> None:
    *branches, leaf = dotted.split(".")
    for branch in branches:
        below = tree.get(branch)
        if not isinstance(below, dict):
            below = tree[branch] = {}
        tree = below
    tree[leaf] = text


def _stub_includes(
    asked: sources.Wanted, run: Run, paper: Path, prepared: Prepared
) -> None:
    for include in asked.includes:
        path = paper / include
        if path.exists() or not include.startswith(f"{GENERATED}/"):
            continue
        name, label = path.parent.name, path.stem
        reason = why(run, name, f"the study made no {label}")
        prepared.missing.append(f"{name}/{label}: {reason}")
        _write(path, _stub(name, label, reason, captioned=label in asked.captions))


def _stub(name: str, label: str, reason: str, *, captioned: bool) -> str:
    """Say in the place of a piece that a run has none of it, and why."""
    missing, why_not = md.escape(MISSING.capitalize()), md.escape(reason)
    if label.startswith("tbl-"):
        caption = None if captioned else f"{missing}: {why_not}."
        cells = [[missing, why_not]]
        return md.table(
            ["", "Reason"],
            cells,
            caption=caption,
            label=None if captioned else label,
            alone=not captioned,
        )
    if label in ("findings", "notes"):
        return "\n"  # the summary of the same study says it already
    return md.callout("important", f"{missing}: {name}", f"{why_not}.")


def _unused(run: Run, asked: sources.Wanted) -> list[str]:
    """Name the studies that no source mentions, and pieces that no section shows."""
    named = {Path(i).parent.name for i in asked.includes}
    named |= {v.split(".")[0].replace("_", "-") for v in asked.variables}
    found = []
    for name, study in sorted(run.studies.items()):
        if study.results and name not in named:
            found.append(name)
        elif study.results:
            found += [f"{name}/{piece}" for piece in _not_placed(study, asked)]
    return found


def _not_placed(study: Study, asked: sources.Wanted) -> list[str]:
    """Name the figures and tables that no section shows."""
    assert study.results is not None
    wanted = {*asked.pictures, *asked.includes}
    pieces = {_path(study, figure): figure.id for figure in study.results.figures}
    pieces |= {
        f"{GENERATED}/{study.name}/{table.id}.qmd": table.id
        for table in study.results.tables
    }
    return [name for path, name in pieces.items() if path not in wanted]


# ---- the head of the paper ---------------------------------------------------------


def write_head(run: Run, paper: Path, variables: dict[str, Any]) -> None:
    """Write authors, date and abstract where the project file picks them up.

    And where Quarto's Typst finds the font that the figures were laid out for: letters
    of another one would not fit.
    """
    citation = provenance.citation(paper)
    head: dict[str, Any] = {
        "author": [{"name": name} for name in citation.authors],
        "date": provenance.date(run),
        "font-paths": [f"{GENERATED}/fonts"],
    }
    fonts = paper / GENERATED / "fonts"
    fonts.mkdir(exist_ok=True)
    for font in renderers.figure_fonts().glob("DejaVuSans*.ttf"):
        shutil.copyfile(font, fonts / font.name)
    if (paper / sources.ABSTRACT).is_file():
        expanded = sources.expand(paper, sources.ABSTRACT, variables)
        head["abstract"] = expanded.text.strip()
    _write(paper / GENERATED / "paper.yml", _yaml(head))


def _yaml(tree: dict[str, Any]) -> str:
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=True, width=88)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
