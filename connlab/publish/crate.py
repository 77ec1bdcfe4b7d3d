"""A deposit described as an RO-Crate: every file, and what made what on which machine.

    files + run -> {"@context": …, "@graph": [descriptor, dataset, files, actions, …]}

Follows RO-Crate 1.2 (https://w3id.org/ro/crate/1.2): linked data in one flat list, each
entity once, referred to by its ``@id``. A study is a CreateAction: its notebook and the
machine are the instruments, sources and profile the objects, its folder the result.
How to cite stands in ``creditText``, because ``citation`` wants an address.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import yaml

from connlab.publish import provenance
from connlab.publish.results import Run, Study

NAME = "ro-crate-metadata.json"
SPECIFICATION = "https://w3id.org/ro/crate/1.2"
SOFTWARE = "connlab/__main__.py"  # a program in a crate is one of its files
LANGUAGE = "#software-python"
MACHINE = "#machine"

Entity = dict[str, Any]
Links = Entity | list[Entity]
Contents = Mapping[str, bytes]


def describe(run: Run, contents: Contents, stamp: Mapping[str, Any]) -> dict[str, Any]:
    """Return the crate's metadata, ready to be written as JSON.

    Parameters
    ----------
    run : Run
        From :func:`connlab.publish.results.load_run`.
    contents : mapping of str to bytes
        Every file of the deposit by its name, relative to the deposit.
    stamp : mapping
        What the renderer noted of the set paper: ``renderer`` and ``files``.
    """
    cff = yaml.safe_load(contents["CITATION.cff"])
    authors = [_author(n, author) for n, author in enumerate(cff["authors"], 1)]
    license_ = _license(cff["license"])
    by = {"author": _links(authors)}
    used = _used(run)
    parts = _parts(run, contents)
    alone = sorted(set(contents) - {name for names in parts.values() for name in names})
    actions = [*_studies(run, contents), _paper(run, stamp)]
    inside = {"hasPart": _files([*parts, *alone]), "mentions": _links(actions)}
    about = {"conformsTo": {"@id": SPECIFICATION}, "about": {"@id": "./"}}
    ours = {"name": cff["title"], "version": str(cff["version"]), **by}
    graph = [
        _entity(NAME, "CreativeWork", name="What this crate holds", **about),
        _root(run, cff) | by | {"license": _links([license_])} | inside,
        *(*authors, license_),
        *used,
        *_machine(run),
        *(*actions, *_statuses(actions)),
        *(_dataset(folder, names) for folder, names in parts.items()),
        *(_file(name, data) for name, data in contents.items()),
    ]
    software = next(entity for entity in graph if entity["@id"] == SOFTWARE)
    software |= {**ours, "softwareRequirements": _links(used)}
    return {"@context": f"{SPECIFICATION}/context", "@graph": graph}


def _parts(run: Run, contents: Contents) -> dict[str, list[str]]:
    """Return the folders that something is made from or into, with their files."""
    folders = ["src_c/", "paper/_output/", *map(_folder, run.studies.values())]
    parts = {f: [name for name in contents if name.startswith(f)] for f in folders}
    return {folder: names for folder, names in parts.items() if names}


def _entity(identifier: str, kind: str | list[str], **properties: Any) -> Entity:
    return {"@id": identifier, "@type": kind, **properties}


def _links(entities: Iterable[Entity]) -> Links:
    """Refer to entities: to one by itself, to several in a list."""
    links = [{"@id": entity["@id"]} for entity in entities]
    return links[0] if len(links) == 1 else links


def _files(names: Iterable[str]) -> Links:
    return _links({"@id": quote(name)} for name in names)


def _folder(study: Study) -> str:
    return f"runs/{study.folder.parent.name}/{study.folder.name}/"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


# ---- the whole ---------------------------------------------------------------


def _root(run: Run, cff: Mapping[str, Any]) -> Entity:
    day = provenance.date(run)
    who = ", ".join(_author(0, author)["name"] for author in cff["authors"])
    cited = f"{who} ({day[:4]}). {cff['title']}, version {cff['version']}."
    about = (
        f"Sources, run {run.name} on {_machine_name(run)}, and the paper set from it."
    )
    return _entity(
        "./",
        "Dataset",
        name=f"{cff['title']}: run {run.name} of {day}",
        description=f"{cff['abstract'].strip()} {about}",
        datePublished=day,
        creditText=f"{cited} Run {run.name}, {day}.",
        keywords=cff["keywords"],
    )


def _author(number: int, cff: Mapping[str, Any]) -> Entity:
    """Return a person; one who has a single name is an organization to CITATION.cff."""
    names = [cff.get("given-names"), cff.get("family-names")]
    kind = "Organization" if "name" in cff else "Person"
    name = cff.get("name") or " ".join(filter(None, names))
    return _entity(cff.get("orcid") or f"#author-{number}", kind, name=name)


def _license(name: str) -> Entity:
    about = f"{name} is its SPDX identifier; the text is in LICENSE."
    url = f"https://spdx.org/licenses/{name}"
    return _entity(url, "CreativeWork", name=name, description=about)


def _used(run: Run) -> list[Entity]:
    """Return what connlab ran with, in the versions that the run recorded."""
    versions = {"python": "3"} | (run.manifest.get("versions") or {})
    if made_by := (run.manifest.get("compiler") or {}).get("version"):
        versions["clang" if "clang" in made_by.lower() else "gcc"] = made_by
    return [_program(name, versions[name]) for name in _HOMES if name in versions]


def _program(name: str, version: str) -> Entity:
    kinds = ["SoftwareApplication", *(["ComputerLanguage"] * (name == "python"))]
    facts = {"name": name, "version": version, "url": _HOMES[name]}
    return _entity(f"#software-{name}", kinds, **facts)


_HOMES = {
    "clang": "https://clang.llvm.org",
    "gcc": "https://gcc.gnu.org",
    "numpy": "https://numpy.org",
    "pandas": "https://pandas.pydata.org",
    "papermill": "https://papermill.readthedocs.io",
    "pydantic": "https://docs.pydantic.dev",
    "python": "https://www.python.org",
    "scipy": "https://scipy.org",
    "statsmodels": "https://www.statsmodels.org",
}


def _machine(run: Run) -> list[Entity]:
    facts = [
        _entity(f"{MACHINE}-{_slug(name)}", "PropertyValue", name=name, value=value)
        for name, value in provenance.machine_facts(run.manifest)
    ]
    machine = _entity(
        MACHINE,
        "IndividualProduct",
        name=_machine_name(run),
        description=f"The machine of the run {run.name}, as its manifest describes it.",
        additionalProperty=_links(facts),
    )
    return [machine, *facts]


def _machine_name(run: Run) -> str:
    facts = run.manifest.get("machine") or {}
    cores = f"{facts['cores']} cores" if facts.get("cores") else ""
    kernel = f"Linux {facts['kernel']}" if facts.get("kernel") else ""
    parts = filter(None, (facts.get("cpu"), cores, kernel))
    return ", ".join(parts) or "a machine that was not recorded"


# ---- what made what ----------------------------------------------------------


def _studies(run: Run, contents: Contents) -> list[Entity]:
    studies = [s for s in run.studies.values() if _has(contents, _folder(s))]
    profiles = _profiles(studies, contents)
    return [_study(run, s, contents, profiles.get(s.name)) for s in studies]


def _has(contents: Contents, folder: str) -> bool:
    return any(name.startswith(folder) for name in contents)


def _study(run: Run, study: Study, contents: Contents, profile: str | None) -> Entity:
    """Return how a study came about; its folder holds more than the results named."""
    folder = _folder(study)
    notebook = _notebook(study, contents)
    read = ["src_c/", profile, "paper/claims.yml" if study.name == "claims" else None]
    named = re.compile(rf"{re.escape(folder)}(results\.json|trials\.jsonl|figures/.*)")
    return _entity(
        f"#study-{_slug(study.name)}",
        "CreateAction",
        name=study.results.question if study.results else study.name,
        instrument=_links([{"@id": notebook or SOFTWARE}, {"@id": MACHINE}]),
        object=_files(filter(None, read)),
        result=_files([folder, *filter(named.fullmatch, contents)]),
        **_times(run, study),
        **_outcome(study),
    )


def _outcome(study: Study) -> Entity:
    status = "Completed" if study.results else "Failed"
    error = {} if study.results else {"error": study.reason}
    return {"actionStatus": {"@id": f"http://schema.org/{status}ActionStatus"}} | error


def _statuses(actions: Iterable[Entity]) -> list[Entity]:
    """Return what the actions ended with, each once."""
    ended = {a["actionStatus"]["@id"] for a in actions if "actionStatus" in a}
    return [
        _entity(one, "ActionStatusType", name=one.rpartition("/")[2])
        for one in sorted(ended)
    ]


def _times(run: Run, study: Study) -> dict[str, str]:
    """Say when a study's last sweep began and ended; without one, when it was made."""
    entry = (run.manifest.get("studies") or {}).get(study.name) or {}
    began = entry.get("started_at")
    took = (entry.get("stopping") or {}).get("seconds")
    if began and took is not None:
        ended = datetime.fromisoformat(began) + timedelta(seconds=took)
        return {"startTime": began, "endTime": ended.isoformat(timespec="milliseconds")}
    made = study.results and study.results.made_at
    times = {"startTime": began, "endTime": made and made.isoformat()}
    return {name: time for name, time in times.items() if time}


def _paper(run: Run, stamp: Mapping[str, Any]) -> Entity:
    printed = [f"{_folder(s)}results.json" for s in run.studies.values() if s.results]
    return _entity(
        "#paper",
        "CreateAction",
        name="Set the paper",
        description=f"Set with {stamp['renderer']}.",
        instrument={"@id": SOFTWARE},
        object=_files(printed),
        result=_files(f"paper/_output/{name}" for name in stamp["files"]),
    )


def _notebook(study: Study, contents: Contents) -> str | None:
    pattern = re.compile(rf"notebooks/\d+-{re.escape(study.name)}\.ipynb")
    return next(filter(pattern.fullmatch, contents), None)


def _profiles(studies: Iterable[Study], contents: Contents) -> dict[str, str]:
    """Find the profile that each study was run with, if its parameters are one's.

    No fact names the profile, but the executed notebook holds what it was given. Where
    several profiles ask for the same, the one that fits most studies is meant.
    """
    fits = {study.name: _fitting(study, contents) for study in studies}
    votes = Counter(profile for fitting in fits.values() for profile in fitting)
    return {name: max(fit, key=votes.__getitem__) for name, fit in fits.items() if fit}


def _fitting(study: Study, contents: Contents) -> list[str]:
    notebook = _notebook(study, contents)
    executed = contents.get(f"{_folder(study)}notebook.ipynb")
    if notebook is None or executed is None:
        return []
    told = json.loads(executed)["metadata"].get("papermill", {}).get("parameters", {})
    given = {name: v for name, v in told.items() if name not in ("run", "root")}
    asked = {
        name: yaml.safe_load(text)["notebooks"]
        for name, text in contents.items()
        if re.fullmatch(r"notebooks/profiles/[^/]+\.yaml", name)
    }
    stem = PurePosixPath(notebook).stem
    fits = (n for n in asked if stem in asked[n] and (asked[n][stem] or {}) == given)
    return list(fits)


# ---- files -------------------------------------------------------------------


def _dataset(folder: str, names: list[str]) -> Entity:
    kept = _FOLDERS.get(folder, "Facts of a study, and what was made of them.")
    about = {"name": folder, "description": kept, "hasPart": _files(names)}
    return _entity(quote(folder), "Dataset", **about)


_FOLDERS = {
    "src_c/": "Servers, one for each way to wait, and their load generator, in C.",
    "paper/_output/": "The paper as set from the run, as a page and for print.",
}


def _file(name: str, data: bytes) -> Entity:
    facts = {
        "name": name,
        "encodingFormat": _format(name, data),
        "contentSize": str(len(data)),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    if name != SOFTWARE and not re.fullmatch(r"notebooks/[^/]+\.ipynb", name):
        return _entity(quote(name), "File", **facts)
    language = {"programmingLanguage": {"@id": LANGUAGE}}
    return _entity(quote(name), ["File", "SoftwareSourceCode"], **facts, **language)


def _format(name: str, data: bytes) -> str:
    """Return the media type, from a table of our own: each machine's differs."""
    if known := _FORMATS.get(PurePosixPath(name).suffix):
        return known
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"


_FORMATS = {
    ".bib": "application/x-bibtex",
    ".c": "text/x-c",
    ".cff": "application/yaml",
    ".css": "text/css",
    ".csv": "text/csv",
    ".gz": "application/gzip",
    ".h": "text/x-c",
    ".html": "text/html",
    ".ipynb": "application/x-ipynb+json",
    ".js": "text/javascript",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".qmd": "text/markdown",
    ".sh": "application/x-sh",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
