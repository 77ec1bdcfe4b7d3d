"""What the sources ask for and a run does not have: a reference's, or a stub.

a table, a picture     -> that of the first reference that has it, named as such;
                          else "not measured here"
a variable, a summary  -> "not measured here", with the reason
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from connlab.publish import figure_pages, fragments, numbers, sources
from connlab.publish import markdown as md
from connlab.publish.results import NO_RESULTS, Run, Study
from connlab.study.results import Figure

MISSING = "not measured here"


def reason(run: Run, name: str, lack: str = NO_RESULTS) -> str:
    """Say why a run has no results for a study; of one that has, what it lacks."""
    study = run.studies.get(name)
    if study is None:
        return f"run {run.name} did not include the study {name}"
    return lack if study.results else study.reason or NO_RESULTS


def plant_variables(
    names: Iterable[str], run: Run, studies: Mapping[str, str], tree: dict[str, Any]
) -> Iterator[str]:
    """Plant a stub for each variable that is not in the `tree`; yield its reason.

    `studies` are the names of studies by their branch.
    """
    for dotted in names:
        value = sources.look_up(tree, dotted)
        if value is not None and not isinstance(value, dict):
            continue
        branch, _, rest = dotted.partition(".")
        study = studies.get(branch, branch.replace("_", "-"))
        why = reason(run, study, f"the study gave no {rest}")
        _plant(tree, dotted, md.span(MISSING, why, "missing"))
        yield f"{dotted}: {why}"


def _plant(tree: dict[str, Any], dotted: str, text: str) -> None:
    *branches, leaf = dotted.split(".")
    for branch in branches:
        if not isinstance(tree.get(branch), dict):
            tree[branch] = {}
        tree = tree[branch]
    tree[leaf] = text


def write_includes(
    wanted: sources.Wanted, run: Run, others: Mapping[str, Run], paper: Path
) -> Iterator[str]:
    """Write each included piece that is not there; yield why it was not."""
    for include in wanted.includes:
        path = paper / include
        if path.exists() or not include.startswith(f"{figure_pages.GENERATED}/"):
            continue
        name, label = path.parent.name, path.stem
        why = reason(run, name, f"the study made no {label}")
        captioned = label in wanted.captions
        borrowed = captioned and _table_of_reference(others, name, label)
        stub = _stub(name, label, why, captioned=captioned)
        fragments.write(path, borrowed or stub)
        yield f"{name}/{label}: {why}"


def _table_of_reference(others: Mapping[str, Run], name: str, label: str) -> str | None:
    for source, other in others.items():
        results = other.results_of(name)
        table = results and results.table(label)
        if table and table.rows:
            return numbers.table(table, numbers.Marks(results), source=source)
    return None


def _stub(name: str, label: str, why: str, *, captioned: bool) -> str:
    missing, why = md.escape(MISSING.capitalize()), md.escape(why)
    if label.startswith("tbl-"):
        return md.table(
            ["", "Reason"],
            [[missing, _begun(why)]],
            caption=None if captioned else f"{missing}: {why}.",
            label=label,
        )
    if label in ("findings", "notes"):
        return "\n"  # the summary of the same study says it already
    return fragments.fill(
        "missing.qmd", missing=missing, study=md.attribute(name), why=_begun(why)
    )


def _begun(sentence: str) -> str:
    """Begin a sentence with a capital, unless its first word is a name of a file."""
    return re.sub("^[a-z]+(?= )", lambda word: word[0].capitalize(), sentence)


def write_picture(
    wanted: str, others: Mapping[str, Run], paper: Path
) -> tuple[str, tuple[Study, Figure]] | None:
    """Write a picture that the run does not have, of the first reference that has it.

    Return the reference with its study and figure; None: a stub was written.
    """
    for source, other in others.items():
        if figure := figure_pages.drawn(other).get(wanted):
            svg = figure[0].folder / figure[1].files["svg"]
            if fragments.copy(svg, (paper / wanted).parent):
                return source, figure
    text = fragments.fill("missing.svg", missing=MISSING)
    fragments.write(paper / wanted, text)
    return None
