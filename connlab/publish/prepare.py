"""Results to paper inputs: variables, fragments, pictures, stubs and stamps.

Everything written here can be thrown away and made again:

- ``paper/_variables.yml``, the tree behind ``{{< var study.values.name >}}``;
- ``paper/_generated/STUDY/*.qmd`` and the pictures that they show;
- ``paper/_generated/paper.yml``, the head of the paper (authors, date, abstract);
- ``paper/data/STUDY/*``, what the figures link to.

What the sources ask for and the run does not have is written as well, as a stub that
says "not measured here" and why. Nothing is computed from measurements.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from connlab import report
from connlab.publish import (
    guide,
    ledger,
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
from connlab.publish.results import Results, Run, Study, Table, Value, Word

GENERATED = "_generated"
DATA = "data"
VARIABLES = "_variables.yml"
MISSING = "not measured here"


@dataclass
class Prepared:
    """What was written, and what was asked for in vain."""

    variables: dict[str, Any]
    missing: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def prepare(run: Run, paper: Path, *, renderer: str) -> Prepared:
    """Write every input that the sources in ``paper`` take from ``run``.

    Parameters
    ----------
    run : Run
        From :func:`connlab.publish.results.load_run`.
    paper : path
        The folder with ``index.qmd``.
    renderer : str
        What will set the paper, in words; printed in it.

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
    for study in run.studies.values():
        if study.results:
            tree[key(study.name)] = study_variables(study)
            write_study(study, paper, asked=asked)
        if study.stale:
            prepared.stale.append(f"{study.name}: {'; '.join(study.stale)}")
    tree["run"] = provenance.run_variables(run)
    tree["provenance"] = provenance.variables(run, renderer=renderer)
    shown = _shown(run, asked.includes)
    other = reference.beside(run)
    reference.write(run, other, paper)
    guide.write(run, other, paper)
    only = _page_only(run, asked.includes, paper)
    write_ledger(run, other, paper, shown=shown, page_only=only)
    provenance.write(run, paper, shown=shown)
    write_fixed(asked.includes, paper)
    if models.PIECE in asked.includes:
        models.write((run.manifest.get("registry") or {}).get("models", ()), paper)
    write_facts(run, asked, paper, prepared)
    _stub_variables(asked.variables, run, tree, prepared)
    _stub_includes(asked, run, paper, prepared)
    prepared.unused += _unused(run, asked, shown)
    (paper / VARIABLES).write_text(_yaml(tree), "utf-8")
    write_head(run, paper, tree)
    return prepared


def key(name: str) -> str:
    """Turn a study's name into the name of its branch among the variables."""
    return name.replace("-", "_")


def study_variables(study: Study) -> dict[str, Any]:
    """Lay out one study for ``{{< var … >}}``: Markdown strings, nested by kind."""
    results = study.results
    assert results is not None
    words, marks = results.words, numbers.Marks(results)
    return {
        "number": str(results.number),
        "question": md.escape(results.question),
        "answer": marks.markdown(results.answer),
        "varied": md.escape(results.varied),
        "stopping": provenance.stopping(results),
        "trials": {k: str(v) for k, v in results.trials.items()},
        "values": {k: value_text(v) for k, v in results.values.items()},
        "short": {k: value_text(v, short=True) for k, v in results.values.items()},
        "words": {k: word_text(w) for k, w in words.items()},
        "effects": {k: value_text(w.effect) for k, w in words.items() if w.effect},
        "verdicts": {
            k: marks.markdown(w.verdict) for k, w in words.items() if w.verdict
        },
    }


def value_text(value: Value, *, short: bool = False) -> str:
    """Set a number with its interval; n, level and method show on hover."""
    text = value.text
    if short:
        text = _BEHIND_NUMBER.sub("", text)
    return md.span(text, "num", title=numbers.hover(value))


_BEHIND_NUMBER = re.compile(r"\s*(\[[^\]]*\]|\([^)]*no interval\))$")
"""The bounds behind a number, or that it has none."""


def word_text(word: Word) -> str:
    """Set a comparing word; the effect and the rule behind it show on hover."""
    parts = [f"effect {word.effect.text}" if word.effect else "", word.rule or ""]
    return md.span(word.word, "num word", title="; ".join(p for p in parts if p))


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


def write_study(study: Study, paper: Path, *, asked: sources.Wanted) -> None:
    """Write the pieces of one study.

    Parameters
    ----------
    study : Study
        One that has results.
    paper : path
        The folder with the sources.
    asked : Wanted
        What the sources ask for. Pieces with a caption of their own that they do not
        include by name go into the piece ``rest``, so that a section can show all that
        a study makes.
    """
    results = study.results
    assert results is not None
    folder = paper / GENERATED / study.name
    folder.mkdir(parents=True, exist_ok=True)
    stamp, marks = _stamp(study), numbers.Marks(results)
    _write(folder / "summary.qmd", _summary(results, stamp, marks))
    _write(folder / "findings.qmd", _bullets(results.findings, marks))
    verdicts = [word.verdict for word in results.words.values() if word.verdict]
    _write(folder / "verdicts.qmd", _bullets(verdicts, marks))
    _write(folder / "notes.qmd", _bullets(results.notes, marks))
    _write(folder / "failures.qmd", _failures(results))
    notebooks.write_page(
        study.folder, paper / DATA / study.name, title=results.question
    )
    for figure in results.figures:
        if not figure.caption or _path(study, figure) in asked.pictures:
            _copy_picture(study, figure, paper)
            continue
        _write_figure(study, figure, paper, stamp)
    for table in results.tables:
        if not table.caption or table.id in asked.captions:
            kept, _ = _filled(table)
            rows = [
                [_together(marks.markdown(row[i])) for i in kept] for row in table.rows
            ]
            heads = [_head(table.columns[i].label, table.columns[i].unit) for i in kept]
            _write(folder / f"{table.id}.qmd", md.table(heads, rows, alone=False))
            continue
        kept, empty = _filled(table)
        text = md.table(
            [_head(table.columns[i].label, table.columns[i].unit) for i in kept],
            [
                [_together(marks.markdown(row[i])) for i in kept if i < len(row)]
                for row in table.rows
            ],
            caption=_caption(study, table.caption, paper),
            label=table.id,
        )
        notes = [*table.notes, *(f"No row has an entry under “{e}”" for e in empty)]
        _write(folder / f"{table.id}.qmd", stamp + text + _notes(notes))
    placed = _placed(study.name, asked.includes) | asked.captions
    pieces = [folder / f"{name}.qmd" for name in _pieces(results) if name not in placed]
    pieces = [piece for piece in pieces if piece.is_file()]
    _write(folder / "rest.qmd", "\n\n".join(p.read_text("utf-8") for p in pieces))


def _filled(table: Table) -> tuple[list[int], list[str]]:
    """Return the columns in which anything stands, and the labels of the others.

    A column of dashes takes the room of those that say something. The first names the
    rows and stays.
    """
    kept, empty = [], []
    for i, column in enumerate(table.columns):
        cells = {row[i] for row in table.rows if i < len(row)}
        if i == 0 or not table.rows or cells - _NOTHING:
            kept.append(i)
        else:
            empty.append(column.label)
    return kept, empty


_NOTHING = {"", "—", "–"}


def _notes(notes: Iterable[str]) -> str:
    """Set what stands below a table as one paragraph."""
    said = " ".join(note if note.endswith(".") else f"{note}." for note in notes)
    return f"\n::: {{.table-notes}}\n{md.escape(said)}\n:::\n" if said else ""


def write_ledger(
    run: Run, other: Run | None, paper: Path, *, shown: set[str], page_only: set[str]
) -> None:
    """Write the table of claims anew, with links and the reference's verdicts.

    Parameters
    ----------
    run, other : Run
        The run that is printed; its reference, or None.
    paper : path
        The folder with the sources.
    shown, page_only : set of str
        Identifiers of what the paper shows, and of what print leaves out.
    """
    results = reference.of_study(run, reference.CLAIMS)
    tables = results.tables if results else ()
    found = next((t for t in tables if t.id == ledger.LABEL), None)
    if results is None or found is None:
        return
    study = run.studies[reference.CLAIMS]
    these = ledger.claims(
        found,
        results,
        paper=paper,
        other=reference.of_study(other, reference.CLAIMS),
        shown=shown,
        page_only=page_only,
    )
    printed = ledger.table(these, caption=_caption(study, found.caption, paper))
    counted = ledger.overview(these, caption=_caption(study, ledger.OVERVIEW, paper))
    page = counted + ledger.unfolding(these, results, paper)
    text = md.only_html(page) + "\n" + md.only_print(printed)
    _write(paper / GENERATED / study.name / f"{found.id}.qmd", _stamp(study) + text)


def _pieces(results: Results) -> list[str]:
    """Name what is shown as it was made; the rest has its caption in a section."""
    return [piece.id for piece in (*results.figures, *results.tables) if piece.caption]


def _placed(study: str, includes: Iterable[str]) -> set[str]:
    return {Path(i).stem for i in includes if Path(i).parent.name == study}


def _shown(run: Run, includes: Iterable[str]) -> set[str]:
    """Name every figure and table that the paper will show."""
    shown = {Path(include).stem for include in includes}
    for name, study in run.studies.items():
        if study.results and f"{GENERATED}/{name}/rest.qmd" in includes:
            shown.update(_pieces(study.results))
    return shown


def _page_only(run: Run, includes: Iterable[str], paper: Path) -> set[str]:
    """Name every figure and table that the page shows and print does not."""
    supplement = sources.page_only(paper)
    printed = {Path(i).stem for i in includes if i not in supplement}
    return _shown(run, supplement) - printed


def _summary(results: Results, stamp: str, marks: numbers.Marks) -> str:
    counts = provenance.trials(results)
    body = marks.markdown(results.answer)
    asked = md.escape(results.question)
    small = f"{md.escape(results.varied)} {counts}".strip()
    body += f"\n\n::: {{.varied}}\n{small}\n:::"
    return f"{stamp}{md.callout('tip', asked, body)}"


def _write_figure(study: Study, figure: Any, paper: Path, stamp: str) -> None:
    picture = study.folder / figure.files.get("svg", "")
    folder = paper / GENERATED / study.name
    if not picture.is_file():
        reason = f"the study names the picture {picture.name!r}, which does not exist"
        _stub_figure(folder / f"{figure.id}.qmd", figure.id, reason)
        return
    shutil.copyfile(picture, folder / picture.name)
    shown = _links(study, figure, paper)
    caption = _caption(study, figure.caption, paper)
    image = f"{GENERATED}/{study.name}/{picture.name}"
    alt = md.attribute(series.brief(figure.alt))
    body = f'![{caption}]({image}){{#{figure.id} fig-alt="{alt}"}}'
    links_below = md.only_html(f"::: {{.figure-links}}\n{shown}\n:::") if shown else ""
    _write(folder / f"{figure.id}.qmd", f"{stamp}{body}\n\n{links_below}")


def _path(study: Study, figure: Any) -> str:
    """Return where a section looks for a picture."""
    return f"{GENERATED}/{study.name}/{Path(figure.files['svg']).name}"


def _copy_picture(study: Study, figure: Any, paper: Path) -> None:
    """Put a picture where its section looks for it."""
    source = study.folder / figure.files["svg"]
    if source.is_file():
        shutil.copyfile(source, paper / GENERATED / study.name / source.name)


def write_facts(
    run: Run, asked: sources.Wanted, paper: Path, prepared: Prepared
) -> None:
    """Write what numbers.lua looks up: numbers, claims, and links below figures."""
    numbers_, claims, links, stale = {}, {}, {}, []
    for study in run.studies.values():
        for where, row in report.numbers(study.folder).items():
            if row["text"]:
                numbers_[where] = _fact(row)
        states = {True: "yes", False: "no", None: "open"}
        for name, holds in report.read_claims(study.folder).items():
            claims[name] = states[holds]
        if study.results:
            for figure in study.results.figures:
                path = _path(study, figure)
                stale += [path] if study.stale else []
                said = asked.pictures.get(path)
                if said:
                    about = figure.model_copy(update=said)
                    links[path] = _links(study, about, paper)
    for name in (*asked.numbers, *asked.claims):
        if name not in numbers_ and name not in claims:
            study = name.partition("/")[0]
            has = study in run.studies and run.studies[study].results
            why_not = "the study gave no such number" if has else why(run, study)
            prepared.missing.append(f"{name}: {why_not}")
    for name in asked.pictures:
        path = paper / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, _EMPTY)
            prepared.missing.append(f"{name}: {why(run, path.parent.name)}")
    facts = {"numbers": numbers_, "claims": claims, "figures": links, "stale": stale}
    _write(paper / GENERATED / "facts.json", json.dumps(facts, ensure_ascii=False))


def _fact(row: dict[str, Any]) -> dict[str, str]:
    """Return a number as text, with what stands behind it."""
    n, level = int(row["n"]), row["level"] if row["lo"] is not None else None
    title = numbers.hover(
        Value(text=row["text"], n=n, level=level, method=row["method"], lo=row["lo"])
    )
    return {
        "text": row["text"],
        "short": _BEHIND_NUMBER.sub("", row["text"]),
        "title": title,
    }


def _links(study: Study, figure: Any, paper: Path) -> str:
    """Return what is offered below a figure on the page: values, picture, notebook."""
    links = []
    if figure.data:
        links = [_values(study, figure, paper)]
        links += [_offer(study, paper, figure.data, "data (CSV)")]
    links.append(_offer(study, paper, figure.files["svg"], "picture (SVG)"))
    page = f"{DATA}/{study.name}/{notebooks.PAGE}"
    if (paper / page).is_file():
        links.append(f"[notebook]({page})")
    return " · ".join(link for link in links if link)


def _values(study: Study, figure: Any, paper: Path) -> str:
    """Link to the page that has a figure's values in words and as a table."""
    names = sources.names(paper)
    page = series.write_page(
        study.folder / figure.data,
        paper / DATA / study.name,
        title=re.sub(r"@([\w-]+)", lambda m: names.get(m[1], m[0]), figure.caption),
        alt=figure.alt,
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


def _head(label: str, unit: str | None) -> str:
    """Set a column's head; a unit like "/s" must not break behind its stroke."""
    text = f"{label} ({unit})" if unit else label
    return md.escape(text.replace("/", "/\u2060"))


def _together(cell: str) -> str:
    """Keep a number and its half-width on one line."""
    return cell.replace(" ± ", "\u00a0±\u00a0")


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
    return _stale_stamp(study) + _apart_stamp(study)


def _stale_stamp(study: Study) -> str:
    if not study.stale:
        return ""
    body = md.escape("; ".join(study.stale)) + ". Evaluate the study again."
    return md.callout("warning", "Stale", body) + "\n"


def _apart_stamp(study: Study) -> str:
    if not study.apart:
        return ""
    which = " and ".join(study.apart)
    body = (
        f"These trials ran another build of the {which} than the newest of this run "
        "(@tbl-machine has both): compare them with each other, not with those of "
        "studies that ran another."
    )
    return md.callout("note", "Other programs", body) + "\n"


def _caption(study: Study, text: str, paper: Path) -> str:
    """Set a caption: plain text, but for works that it cites by their keys."""
    said = md.citing(md.escape(text), sources.works(paper))
    return f"**Stale.** {said}" if study.stale else said


def why(run: Run, name: str) -> str:
    """Say why a run has no results for a study."""
    study = run.studies.get(name)
    if study is None:
        return f"run {run.name} did not include the study {name}"
    return study.reason or "the study left no results in this run"


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
        has = name in run.studies and run.studies[name].results
        reason = f"the study gave no {rest}" if has else why(run, name)
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
        has = name in run.studies and run.studies[name].results
        reason = f"the study made no {label}" if has else why(run, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        prepared.missing.append(f"{name}/{label}: {reason}")
        if label.startswith("fig-"):
            _stub_figure(path, label, reason)
        elif label in asked.captions:  # the section has it
            cells = [[md.escape(MISSING.capitalize()), md.escape(reason)]]
            _write(path, md.table(["", "Reason"], cells, alone=False))
        elif label.startswith("tbl-"):
            cells = [[md.escape(MISSING.capitalize()), md.escape(reason)]]
            caption = f"{MISSING.capitalize()}: {md.escape(reason)}."
            _write(path, md.table(["", "Reason"], cells, caption=caption, label=label))
        elif label in ("findings", "notes", "verdicts", "rest"):
            _write(path, "\n")  # the summary of the same study says it already
        else:
            title = f"{MISSING.capitalize()}: {name}"
            _write(path, md.callout("important", title, f"{md.escape(reason)}."))


def _stub_figure(path: Path, label: str, reason: str) -> None:
    picture = path.parent / f"{label}-missing.svg"
    _write(picture, _EMPTY)
    where = f"{GENERATED}/{path.parent.name}/{picture.name}"
    caption = f"{MISSING.capitalize()}: {md.escape(reason)}."
    alt = md.attribute(f"An empty frame: {MISSING}, {reason}")
    _write(path, f'![{caption}]({where}){{#{label} fig-alt="{alt}"}}\n')


_EMPTY = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 120">
<rect x="1" y="1" width="638" height="118" rx="6" fill="#f6f6f6" stroke="#999"
 stroke-dasharray="7 5"/>
<text x="320" y="67" font-family="DejaVu Sans, sans-serif" font-size="19"
 text-anchor="middle" fill="#555">not measured here</text>
</svg>
"""


def _unused(run: Run, asked: sources.Wanted, shown: set[str]) -> list[str]:
    named = {Path(i).parent.name for i in asked.includes}
    named |= {v.split(".")[0].replace("_", "-") for v in asked.variables}
    found = []
    for name, study in sorted(run.studies.items()):
        if study.results and name not in named:
            found.append(name)
        elif study.results:
            pieces = _pieces(study.results)
            found += [f"{name}/{p}" for p in pieces if p not in shown]
            found += [f"{name}/{p}" for p in _not_placed(study, asked)]
    return found


def _not_placed(study: Study, asked: sources.Wanted) -> list[str]:
    """Name the figures and tables whose captions no section has."""
    assert study.results is not None
    folder = f"{GENERATED}/{study.name}"
    wanted = {*asked.pictures, *asked.includes}
    figures = {
        f"{folder}/{Path(f.files['svg']).name}": f.id
        for f in study.results.figures
        if not f.caption
    }
    tables = {
        f"{folder}/{t.id}.qmd": t.id for t in study.results.tables if not t.caption
    }
    return [name for path, name in (figures | tables).items() if path not in wanted]


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
