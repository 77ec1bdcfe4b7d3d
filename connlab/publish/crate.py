"""A deposit described as an RO-Crate: every file, and what made what on which machine.

    files + run -> {"@context": …, "@graph": [descriptor, dataset, files, actions, …]}

Follows RO-Crate 1.2 (https://w3id.org/ro/crate/1.2): linked data in one flat list, each
entity once, referred to by its ``@id``. A study is a CreateAction: its notebook and the
machine are the instruments, the sources the object, its folder the result.
How to cite stands in ``creditText``, because ``citation`` wants an address.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import yaml
from rocrate.model import ContextEntity, Dataset, Entity, File
from rocrate.rocrate import ROCrate

from connlab.publish import provenance
from connlab.publish.results import Run, Study
from connlab.report import CELLS, RATIOS
from connlab.study.formatting import listing
from connlab.study.results import machine_of

NAME = "ro-crate-metadata.json"
VERSION = "1.2"
SOFTWARE = "connlab/__main__.py"  # a program in a crate is one of its files
PYTHON = "#python"
NUMBERS = (CELLS, RATIOS)
"""Tables that have every number of a study; the paper prints them from there."""

Contents = Mapping[str, bytes]


def describe(run: Run, contents: Contents, stamp: Mapping[str, Any]) -> dict[str, Any]:
    """Return the crate's metadata, ready to be written as JSON.

    ``contents`` holds every file of the deposit by its name there; ``stamp`` is what
    the renderer noted of the set paper: ``renderer``, ``files`` and runs ``beside``.
    """
    crate = ROCrate(version=VERSION)
    crate.metadata["name"] = "What this crate holds"
    cff = yaml.safe_load(contents["CITATION.cff"])
    authors = [_author(crate, n, person) for n, person in enumerate(cff["authors"], 1)]
    _add(crate, PYTHON, "ComputerLanguage", name="Python", url="https://www.python.org")
    parts = _parts(crate, run, contents)
    machine = _machine(crate, run)
    measured = [s for s in run.studies.values() if crate.get(quote(_folder(s)))]
    actions = [_study(crate, study, contents) for study in measured]
    dataset, software = crate.root_dataset, crate.get(SOFTWARE)
    for name, value in _dataset_facts(run, cff, authors, machine).items():
        dataset[name] = value
    dataset["author"] = authors
    dataset["hasPart"] = parts
    dataset["license"] = _license(crate, cff["license"])
    dataset["mentions"] = [*actions, _paper(crate, run, contents, stamp)]
    software["name"] = cff["title"]
    software["version"] = str(cff["version"])
    software["author"] = authors
    return crate.metadata.generate()


def _add(crate: ROCrate, identifier: str, kind: str, **properties: Any) -> Entity:
    return crate.add(ContextEntity(crate, identifier, {"@type": kind, **properties}))


def _links(names: Iterable[str]) -> list[dict[str, str]]:
    return [{"@id": quote(name)} for name in names]


def _folder(study: Study) -> str:
    return f"runs/{study.folder.parent.name}/{study.folder.name}/"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


# ---- the deposit as a whole --------------------------------------------------


def _dataset_facts(
    run: Run, cff: Mapping[str, Any], authors: list[Entity], machine: Entity
) -> dict[str, Any]:
    day = provenance.date(run)
    names = ", ".join(author["name"] for author in authors)
    citation = f"{names} ({day[:4]}). {cff['title']}, version {cff['version']}."
    holds = f"Sources, run {run.name} on {machine['name']}, and the paper set from it."
    return {
        "name": f"{cff['title']}: run {run.name} of {day}",
        "description": f"{cff['abstract'].strip()} {holds}",
        "datePublished": day,  # rocrate would write today's
        "creditText": f"{citation} Run {run.name}, {day}.",
        "keywords": cff["keywords"],
    }


def _author(crate: ROCrate, number: int, person: Mapping[str, Any]) -> Entity:
    """Add a person; one who has a single name is an organization to CITATION.cff."""
    kind = "Organization" if "name" in person else "Person"
    name = provenance.author(person)
    return _add(crate, person.get("orcid") or f"#author-{number}", kind, name=name)


def _license(crate: ROCrate, name: str) -> Entity:
    return _add(
        crate,
        f"https://spdx.org/licenses/{name}",
        "CreativeWork",
        name=name,
        description=f"{name} is its SPDX identifier; the text is in LICENSE.",
    )


def _machine(crate: ROCrate, run: Run) -> Entity:
    facts = [
        _add(crate, f"#machine-{_slug(k)}", "PropertyValue", name=k, value=value)
        for k, value in provenance.machine_facts(run.manifest)
    ]
    return _add(
        crate,
        "#machine",
        "IndividualProduct",
        name=machine_of(run.manifest) or "a machine not recorded",
        description=f"The machine of the run {run.name}, as its manifest describes it.",
        additionalProperty=facts,
    )


# ---- what made what ----------------------------------------------------------


def _study(crate: ROCrate, study: Study, contents: Contents) -> Entity:
    folder = _folder(study)
    inputs = ["src_c/", *(["paper/claims.yml"] if study.name == "claims" else [])]
    tables = "|".join(map(re.escape, NUMBERS))
    files = rf"(results\.json|{tables}|trials\.jsonl(\.gz)?|figures/.*)"
    outputs = re.compile(re.escape(folder) + files)
    notebook = re.compile(rf"notebooks/\d+-{re.escape(study.name)}\.ipynb")
    program = next(filter(notebook.fullmatch, contents), SOFTWARE)
    status = ("Completed" if study.results else "Failed") + "ActionStatus"
    url = f"http://schema.org/{status}"
    return crate.add_action(
        [crate.get(program), crate.get("#machine")],
        identifier=f"#study-{_slug(study.name)}",
        object=_links(inputs),
        result=_links([folder, *filter(outputs.fullmatch, contents)]),
        properties={
            "name": study.results.question if study.results else study.name,
            "actionStatus": _add(crate, url, "ActionStatusType", name=status),
            **_times(study),
            **({} if study.results else {"error": study.reason}),
        },
    )


def _times(study: Study) -> dict[str, str]:
    """Return when a study's last sweep began and ended, else when it was evaluated."""
    start = study.entry.get("started_at")
    seconds = (study.entry.get("stopping") or {}).get("seconds")
    if start and seconds is not None:
        end = datetime.fromisoformat(start) + timedelta(seconds=seconds)
        return {"startTime": start, "endTime": end.isoformat(timespec="milliseconds")}
    evaluated = study.results and study.results.made_at
    times = {"startTime": start, "endTime": evaluated and evaluated.isoformat()}
    return {name: time for name, time in times.items() if time}


def _paper(
    crate: ROCrate, run: Run, contents: Contents, stamp: Mapping[str, Any]
) -> Entity:
    files = ("results.json", *NUMBERS)
    inputs = [f"{_folder(study)}{name}" for study, _ in run.evaluated for name in files]
    return crate.add_action(
        crate.get(SOFTWARE),
        identifier="#paper",
        object=_links(filter(contents.__contains__, inputs)),
        result=_links(f"paper/_output/{name}" for name in stamp["files"]),
        properties={
            "name": "Set the paper",
            "description": f"Set with {stamp['renderer']}.{_beside(stamp)}",
        },
    )


def _beside(stamp: Mapping[str, Any]) -> str:
    """Name the runs whose numbers the paper prints and this crate does not hold."""
    if not stamp.get("beside"):
        return ""
    return f" It prints numbers of {listing(stamp['beside'])} too, which are not here."


# ---- files -------------------------------------------------------------------


def _parts(crate: ROCrate, run: Run, contents: Contents) -> list[dict[str, str]]:
    """Add all files, and as folders those that something is made from or into."""
    for name, data in contents.items():
        _file(crate, name, data)
    folders = []
    for folder in ("src_c/", "paper/_output/", *map(_folder, run.studies.values())):
        names = [name for name in contents if name.startswith(folder)]
        if names:
            holds = _FOLDERS.get(folder, "Facts of a study, and what was made of them.")
            facts = {"name": folder, "description": holds, "hasPart": _links(names)}
            crate.add(Dataset(crate, dest_path=folder, properties=facts))
            folders.append(folder)
    alone = [name for name in contents if not name.startswith(tuple(folders))]
    return _links([*folders, *alone])


_FOLDERS = {
    "src_c/": "Servers, one for each way to wait, and their load generator, in C.",
    "paper/_output/": "The paper as set from the run, as a page and for print.",
}


def _file(crate: ROCrate, name: str, data: bytes) -> None:
    facts: dict[str, Any] = {
        "name": name,
        "encodingFormat": _format(name, data),
        "contentSize": str(len(data)),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    if name == SOFTWARE or re.fullmatch(r"notebooks/[^/]+\.ipynb", name):
        facts["@type"] = ["File", "SoftwareSourceCode"]
        facts["programmingLanguage"] = {"@id": PYTHON}
    crate.add(File(crate, dest_path=name, properties=facts))


def _format(name: str, data: bytes) -> str:
    """Return the media type, not by `mimetypes`: its table differs by machine."""
    if media_type := _FORMATS.get(PurePosixPath(name).suffix):
        return media_type
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"


_FORMATS = {
    **{".c": "text/x-c", ".h": "text/x-c", ".py": "text/x-python"},
    **{".js": "text/javascript", ".sh": "application/x-sh"},
    **{".css": "text/css", ".csv": "text/csv", ".html": "text/html"},
    **{".md": "text/markdown", ".qmd": "text/markdown"},
    **{".json": "application/json", ".jsonl": "application/jsonl"},
    **{".ipynb": "application/x-ipynb+json", ".toml": "application/toml"},
    **dict.fromkeys((".cff", ".yaml", ".yml"), "application/yaml"),
    **{".bib": "application/x-bibtex", ".pdf": "application/pdf"},
    **{".gz": "application/gzip", ".png": "image/png", ".svg": "image/svg+xml"},
}
