"""Where the numbers come from: machine, versions, seed, stopping, what was left out.

The manifest grows with the drive side, so its facts are printed as they are found: a
fact that this module has no label for appears under its own name.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import date as Date
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import connlab
from connlab import schema
from connlab.publish import fragments
from connlab.publish import markdown as md
from connlab.publish.results import Run
from connlab.publish.sources import look_up
from connlab.study.metrics import metric
from connlab.study.results import FILE, Results, commit_of, machine_of


@dataclass(frozen=True)
class Citation:
    """What CITATION.cff says of the software and its authors."""

    title: str
    authors: tuple[str, ...]
    version: str
    year: int | None


def citation(paper: Path) -> Citation:
    """Read CITATION.cff beside the paper's folder, else at the project's root."""
    for folder in (paper.parent, schema.project_root()):
        path = folder / "CITATION.cff"
        if path.is_file():
            cff = yaml.safe_load(path.read_text("utf-8"))
            break
    else:
        raise FileNotFoundError(f"CITATION.cff is not beside {paper}")
    names = [
        a.get("name") or f"{a.get('given-names', '')} {a.get('family-names', '')}"
        for a in cff["authors"]
    ]
    released = cff.get("date-released")
    year = released.year if isinstance(released, Date) else None
    version = str(cff.get("version") or connlab.__version__)
    return Citation(cff["title"], tuple(n.strip() for n in names), version, year)


def date(run: Run) -> str:
    """Give the day of the results: the paper's date does not move by rendering."""
    made = [s.results.made_at for s in run.studies.values() if s.results]
    days = [m for m in made if isinstance(m, datetime)]
    if days:
        return max(day.replace(tzinfo=None) for day in days).date().isoformat()
    return str(run.manifest.get("started_at", ""))[:10]


def measured_on(run: Run) -> str:
    """Give the day on which its studies were measured, or the first and the last."""
    studies = run.manifest.get("studies", {}).values()
    days = sorted({str(study.get("started_at", ""))[:10] for study in studies} - {""})
    return " to ".join(dict.fromkeys([*days[:1], *days[-1:]])) or date(run)


def run_variables(run: Run) -> dict[str, Any]:
    """Name the run and its machine for the text."""
    found = {"name": f"`{run.name}`", "date": date(run), "machine": machine(run)}
    totals = {"total": 0, "used": 0, "failed": 0, "excluded": 0}
    for study in run.studies.values():
        for name in totals if study.results else ():
            totals[name] += study.results.trials.get(name, 0)
    return {**found, "trials": {k: str(v) for k, v in totals.items()}}


def variables(run: Run, *, renderer: str) -> dict[str, Any]:
    """Name what set the paper, and the versions behind it."""
    made = commit_of(run.manifest)
    seeds = _seeds(run)
    return {
        "renderer": md.escape(renderer),
        "version": connlab.__version__,
        "commit": f"`{made[:12]}`" if made else "an unrecorded commit",
        "seed": ", ".join(seeds) or "not recorded",
    }


def _seeds(run: Run) -> list[str]:
    entries = (run.manifest.get("studies") or {}).values()
    seeds = [look_up(entry, "parameters.seed") for entry in entries]
    return sorted({str(seed) for seed in seeds if seed is not None})


def machine(run: Run) -> str:
    """Describe the machine in one phrase, from the first study that does."""
    told = [s.results.machine for s in run.studies.values() if s.results]
    said = (facts.get("text") for facts in (*told, machine_of(run.manifest)))
    return md.escape(next(filter(None, said), "this machine"))


def trials(results: Results) -> str:
    """Say how many trials stand behind a study, and how many do not."""
    counts = results.trials
    if not counts:
        return ""
    parts = [f"{counts.get('used', 0)} of {counts.get('total', 0)} trials are used"]
    for name in ("failed", "excluded"):
        if counts.get(name):
            parts.append(f"{counts[name]} {name}")
    return ", ".join(parts) + "."


def stopping(results: Results) -> str:
    """Say when a study stopped, from what it recorded."""
    facts = results.stopping
    if isinstance(facts.get("text"), str):
        return md.escape(facts["text"])
    return md.escape(", ".join(f"{k.replace('_', ' ')} {v}" for k, v in facts.items()))


def write(run: Run, paper: Path, *, shown: set[str]) -> None:
    """Write the appendix: studies, machine and versions, data, how to cite.

    Only figures that the paper shows are referred to.
    """
    target = paper / "_generated" / "provenance"
    target.mkdir(parents=True, exist_ok=True)
    pieces = {
        "cite": cite(run, citation(paper)),
        "links": _links(run, paper / "data"),
        "tbl-studies": _studies(run),
        "tbl-excluded": _excluded(run),
        "tbl-machine": _machine(run),
        "tbl-data": _data(run, shown),
    }
    for name, text in pieces.items():
        (target / f"{name}.qmd").write_text(text, "utf-8")


def cite(run: Run, cited: Citation) -> str:
    """Set how to cite the software, its version and the run."""
    return fragments.fill(
        "cite.qmd",
        cited=cited,
        title=md.escape(cited.title),
        year=cited.year or date(run)[:4],
        run=run.name,
        date=date(run),
    )


FLAGGED = "used on request although flagged"
"""What a study notes of trials that were let in by name of a check."""


def _readable(text: str) -> str:
    """Call metrics by their labels, and set a space before a per cent sign."""
    plain = text.replace("\\_", "_")
    called = re.sub(
        r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", lambda m: metric(m[0]).label, plain
    )
    return re.sub(r"(?<=\d)%", "\u202f%", called)


def _studies(run: Run) -> str:
    rows = []
    for name, study in sorted(run.studies.items(), key=_number):
        found = study.results
        if found is None:
            rows.append([md.escape(name), "—", "—", "—", md.escape(study.reason)])
            continue
        if not found.trials:
            continue
        counts = [str(found.trials.get(k, "—")) for k in ("used", "failed", "excluded")]
        state = "; ".join(study.stale) if study.stale else _readable(stopping(found))
        flagged = [note for note in found.notes if FLAGGED in note]
        said = "; ".join([state, *flagged]).replace("\\", "")
        rows.append([md.escape(name), *counts, md.escape(said)])
    heads = ["Study", "used", "failed", "excluded", "when it stopped, or its state"]
    caption = f"Trials of run `{run.name}`, by study."
    return md.table(heads, rows, caption=caption, label="tbl-studies")


def _excluded(run: Run) -> str:
    """Count the trials that no interval rests on, by study and reason."""
    rows = []
    for name, study in sorted(run.studies.items(), key=_number):
        lost: Counter[str] = Counter()
        for failed in study.results.failures if study.results else ():
            lost[failed.reason] += failed.n
        said = ", ".join(f"{reason} ({n})" for reason, n in lost.most_common())
        if said:
            rows.append([md.escape(name), str(lost.total()), md.escape(said)])
    caption = (
        "Trials that failed or were left out by rule, by the commonest reason of their "
        "cell."
    )
    return md.table(
        ["Study", "trials", "reasons"],
        rows or [["none", "0", "no cell of any grid lost a trial"]],
        caption=caption,
        label="tbl-excluded",
        widths=(16, 8, 76),
        align="lrl",
    )


def _machine(run: Run) -> str:
    rows = [[md.escape(k), md.escape(v)] for k, v in machine_facts(run.manifest)]
    caption = (
        "Machine, limits and versions of the run. The manifest holds more: the other "
        "system settings and each mitigation of the processor."
    )
    rows = rows or [["manifest", "not recorded"]]
    return md.table(
        ["Fact", "Value"], rows, caption=caption, label="tbl-machine", **_PAIRS
    )


def machine_facts(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """List the facts of a manifest that a reader needs to judge the numbers.

    Returns
    -------
    list of (str, str)
        Label and plain text.
    """
    get = partial(look_up, manifest)
    facts = [
        ("processor", get("machine.cpu")),
        ("cores", get("machine.cores")),
        ("physical cores", get("machine.physical_cores")),
        ("memory", _bytes(get("machine.memory_bytes"))),
        ("virtual machine", {True: "yes", False: "no"}.get(get("machine.hypervisor"))),
        ("frequency governor", get("machine.governor")),
        ("clock source", get("machine.clocksource")),
        ("system", get("machine.system")),
        ("kernel", get("machine.kernel")),
        ("C library", get("machine.libc")),
        ("mitigations in force", _mitigated(get("machine.mitigations"))),
        *[
            (f"limit of {name.replace('_', ' ')}", _limit(entry))
            for name, entry in (get("machine.limits") or {}).items()
        ],
        *[(name, (get("machine.sysctls") or {}).get(name)) for name in _SYSCTLS],
        ("compiler and flags", _join(get("compiler"))),
        ("versions", _join(get("versions"))),
        ("git commit", commit_of(manifest)),
        ("uncommitted changes", {True: "yes", False: "no"}.get(get("git.dirty"))),
        ("programs (SHA-256)", _join(get("programs"), most=16)),
        *_other_programs(manifest),
        ("class of environment", get("environment")),
        ("made at", get("made_at")),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _other_programs(manifest: dict[str, Any]) -> list[tuple[str, str | None]]:
    """List the programs of studies that others than the newest measured."""
    newest, found = manifest.get("programs"), {}
    for study, entry in (manifest.get("studies") or {}).items():
        binaries = entry.get("binaries")
        if binaries and binaries != newest:
            found.setdefault(_join(binaries, most=16), []).append(study)
    return [
        (f"programs of {', '.join(names)}", which) for which, names in found.items()
    ]


_PAIRS: dict[str, Any] = {"widths": (26, 62), "align": "ll"}

_SYSCTLS = (
    "fs.file-max",
    "fs.nr_open",
    "kernel.threads-max",
    "kernel.pid_max",
    "vm.max_map_count",
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mem",
)


def _bytes(count: Any) -> str | None:
    return f"{count / 2**30:.1f} GiB" if isinstance(count, int | float) else None


def _limit(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    soft, hard = entry.get("soft"), entry.get("hard")
    if soft == hard:
        return "none" if soft is None else str(soft)
    raised = "at will" if hard is None else f"to {hard}"
    return f"{soft} (may be raised {raised})"


def _mitigated(found: Any) -> str | None:
    if not isinstance(found, dict):
        return None
    names = [k for k, v in found.items() if str(v).startswith("Mitigation")]
    return ", ".join(n.replace("_", " ") for n in names) or "none"


def _join(found: Any, *, most: int | None = None) -> str | None:
    if not isinstance(found, dict):
        return found and str(found)
    plain = {k: v for k, v in found.items() if not isinstance(v, dict | list)}
    said = {k: "yes" if v is True else str(v)[:most] for k, v in plain.items() if v}
    return ", ".join(f"{k} {v}" for k, v in said.items())


def _links(run: Run, data: Path) -> str:
    """Copy manifest and results to where the page can link to them."""
    links = []
    found = [s.folder / FILE for s in run.studies.values() if s.results]
    for source in (run.folder / "manifest.json", *found):
        if source.is_file():
            name = source.relative_to(run.folder)
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, data / name)
            links.append(f"[{name.as_posix()}](data/{name.as_posix()})")
    shown = " · ".join(links)
    return (
        md.only_html(f"::: {{.figure-links}}\nAs data: {shown}\n:::") if links else ""
    )


def _data(run: Run, shown: set[str]) -> str:
    rows = []
    for study in run.studies.values():
        for figure in study.results.figures if study.results else ():
            where = f"`{study.name}/{figure.data}`" if figure.data else "none"
            name = f"@{figure.id}" if figure.id in shown else "not in the paper"
            rows.append([name, where])
    caption = f"The data behind each figure, below `runs/{run.name}/`."
    rows = rows or [["none", "none"]]
    return md.table(
        ["Figure", "File"], rows, caption=caption, label="tbl-data", **_PAIRS
    )


def _number(item: tuple[str, Any]) -> tuple[int, str]:
    found = item[1].results
    return (found.number if found else 99, item[0])
