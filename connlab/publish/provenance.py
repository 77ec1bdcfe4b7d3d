"""Where the numbers come from: machine, versions, seed, stopping, what was left out.

The manifest grows with the drive side, so its facts are printed as they are found: a
fact that this module has no label for appears under its own name.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import connlab
from connlab.publish import endings, fragments
from connlab.publish import markdown as md
from connlab.publish.results import Run, Study
from connlab.publish.sources import look_up, sections, text_of
from connlab.study.formatting import counted
from connlab.study.results import FILE, Results, commit_of, machine_of


def citation(paper: Path) -> dict[str, Any]:
    """Read CITATION.cff beside the paper's folder; its ``authors`` by their names."""
    cff = yaml.safe_load((paper.parent / "CITATION.cff").read_text("utf-8"))
    return cff | {"authors": list(map(author, cff["authors"]))}


def author(person: Mapping[str, str]) -> str:
    """Return the name of an author in CITATION.cff: an entity's, or a person's two."""
    names = (person.get(name) for name in ("name", "given-names", "family-names"))
    return " ".join(filter(None, names))


def date(run: Run) -> str:
    """Return the last day on which its studies were measured.

    It moves neither with an evaluation nor with a rendering.
    """
    return _days(run)[-1]


def measured_on(run: Run) -> str:
    """Return the day on which its studies were measured, or the first and the last."""
    days = _days(run)
    return " to ".join(dict.fromkeys([days[0], days[-1]]))


def _days(run: Run) -> list[str]:
    studies = run.studies.values()
    days = sorted({str(s.entry.get("started_at", ""))[:10] for s in studies} - {""})
    return days or [str(run.manifest.get("made_at", ""))[:10]]


#: what server and client do, before "caches, memory and the network stack"
_APART = "run on disjoint cores but share"
_SHARED = "share the only core, so that each slows the other, and with it"


def run_variables(run: Run, others: Mapping[str, Run]) -> dict[str, Any]:
    """Return what the sources say of a run; `others` are its references by label."""
    counts = [results.trials for _, results in run.evaluated]
    runs = "one other run" if len(others) == 1 else f"{len(others)} other runs"
    return {
        "name": f"`{run.name}`",
        "date": date(run),
        "machine": machine(run),
        "others": f"; @sec-findings sets them beside those of {runs}" if others else "",
        "placement": _SHARED if look_up(run.manifest, "machine.cores") == 1 else _APART,
        "trials": {
            name: str(sum(count.get(name, 0) for count in counts))
            for name in ("total", "used", "failed", "excluded")
        },
    }


def variables(run: Run, *, renderer: str) -> dict[str, Any]:
    commit = commit_of(run.manifest)
    studies = run.studies.values()
    seeds = {look_up(study.entry, "parameters.seed") for study in studies} - {None}
    return {
        "renderer": md.escape(renderer),
        # that of the commit beside it, which measured
        "version": look_up(run.manifest, "versions.connlab") or connlab.__version__,
        "sources": f"sources at commit `{commit[:12]}`"
        if commit
        else "sources that are no repository",
        "seed": ", ".join(sorted(map(str, seeds))) or "not recorded",
        "command": f"`{endings.command(run)}`",
        "targets": endings.targets(run),
    }


def machine(run: Run) -> str:
    """Describe the machine in one phrase: that of the table, else a study's."""
    machines = [results.machine for _, results in run.evaluated]
    texts = filter(None, (machine_of(run.manifest), *machines))
    return md.escape(next(texts, "this machine"))


def trials(results: Results) -> str:
    """Say how many trials stand behind a study, and how many do not."""
    counts = results.trials
    if not counts:
        return ""
    total = counted(counts.get("total", 0), "trial")
    if "broke" in counts:  # a trial that fails is what the study looks for
        broke, n = counts["broke"] or "none", counts["unsound"]
        others = f" and {n} other{'s' * (n > 1)} failed a check" if n else ""
        return f"{total}; in {broke} of them a server broke{others}."
    used = f"{counts.get('used', 0)} of {counts.get('total', 0)} trials are used"
    lost = [f"{counts[n]} {n}" for n in ("failed", "excluded") if counts.get(n)]
    return ", ".join([used, *lost]) + "."


def write(run: Run, paper: Path) -> None:
    """Write the appendix: studies, machine and versions, how to cite."""
    cited = citation(paper)
    title, day = md.escape(cited["title"]), date(run)
    pieces = {
        "cite": fragments.fill(
            "cite.qmd", cited=cited, title=title, run=run.name, date=day, year=day[:4]
        ),
        "links": _links(run, paper / "data"),
        "tbl-studies": _studies(run, paper),
        "tbl-excluded": _excluded(run, paper),
        "tbl-machine": _machine(run),
    }
    fragments.write_all(paper / "_generated" / "provenance", pieces)


FLAGGED = "used on request although flagged"
"""What a study notes of trials whose failed check its parameter `accept` names."""


def _in_order(run: Run, paper: Path) -> list[Study]:
    """Return the studies as their sections come, those without one last, by name."""
    order = [Path(path).stem.removeprefix("_") for path in sections(paper)]
    places = {name: place for place, name in enumerate(order)}
    return sorted(
        run.studies.values(), key=lambda s: (places.get(s.name, len(order)), s.name)
    )


_KINDS = ("used", "failed", "excluded")


def _studies(run: Run, paper: Path) -> str:
    rows = []
    for study in _in_order(run, paper):
        name, results = _study(study.name, paper), study.results
        if results is None:
            rows.append([name, *"—" * 5, md.escape(study.reason), "—", "—"])
        elif results.trials:
            counts = [str(results.trials.get(kind, "—")) for kind in _KINDS]
            rows.append([name, *counts, _window(study), *_ending(study)])
    heads = ["Study", *_KINDS, "window (warm-up)", "budget", "ended by"]
    heads += ["widest interval", "target"]
    widths = (20, 7, 8, 10, 12, 10, 28, 24, 8)
    return _table("studies", heads, rows, widths, "lrrrlllll", run=run.name)


def _table(
    name: str,
    heads: list[str],
    rows: list[list[str]],
    widths: tuple[int, ...],
    align: str,
    **facts: str,
) -> str:
    """Set a table of the appendix, with its caption of ``templates/captions.qmd``."""
    text = fragments.caption(name, **facts)
    label = f"tbl-{name}"
    return md.table(heads, rows, caption=text, label=label, widths=widths, align=align)


_SECTION = re.compile(r"^# .*\{#(sec-[\w-]+)\}", re.MULTILINE)


def _study(name: str, paper: Path) -> str:
    """Return the name of a study, with the number of its section if it has one."""
    section = _SECTION.search(text_of(paper / "sections" / f"_{name}.qmd"))
    return md.escape(name) + (f" ([-@{section[1]}])" if section else "")


def _window(study: Study) -> str:
    """Return how long a trial was measured, and how long it ran before."""
    keys = ("parameters.duration", "parameters.warmup")
    seconds, before = (look_up(study.entry, key) for key in keys)
    return "—" if seconds is None else f"{seconds:g} s ({before or 0:g} s)"


def _ending(study: Study) -> list[str]:
    """Return budget, what ended a study or its state, widest interval and target."""
    end = endings.ending(study.entry)
    stopped = end.by if end else study.results.stopping
    flagged = [note for note in study.results.notes if FLAGGED in note]
    state = md.escape("; ".join([*(study.stale or [stopped]), *flagged]))
    if end is None:
        return ["—", state, "—", "—"]
    return [md.escape(end.budget), state, md.escape(end.widest), md.escape(end.target)]


def _excluded(run: Run, paper: Path) -> str:
    rows = []
    for study in _in_order(run, paper):
        lost: Counter[str] = Counter()
        for cell in study.results.failures if study.results else ():
            lost[cell.reason] += cell.n
        reasons = ", ".join(f"{reason} ({n})" for reason, n in lost.most_common())
        if reasons:
            rows.append([md.escape(study.name), str(lost.total()), md.escape(reasons)])
    rows = rows or [["none", "0", "no cell of any grid lost a trial"]]
    return _table("excluded", ["Study", "trials", "reasons"], rows, (16, 8, 76), "lrl")


def _machine(run: Run) -> str:
    rows = [[_fact(k), md.escape(v)] for k, v in machine_facts(run.manifest)]
    rows = rows or [["manifest", "not recorded"]]
    return _table("machine", ["Fact", "Value"], rows, _PAIR, "ll")


def _fact(name: str) -> str:
    """Return a fact's name; a long one of a sysctl may break between its words."""
    parts = re.split(r"(?<=[._])(?=[a-z])", name)
    return "`<wbr>`{=html}".join(map(md.escape, parts))


def machine_facts(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """List what a reader of the numbers has to know: label and plain text."""
    get = partial(look_up, manifest)
    memory = get("machine.memory_bytes")
    facts = [
        ("processor", get("machine.cpu")),
        ("processor model", get("machine.cpu_model")),
        ("cores", get("machine.cores")),
        ("physical cores", get("machine.physical_cores")),
        ("memory", memory and f"{memory / 2**30:.1f} GiB"),
        ("virtual machine", _YES_NO.get(get("machine.hypervisor"))),
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
        ("uncommitted changes", _YES_NO.get(get("git.dirty"))),
        ("programs (SHA-256)", _join(get("programs"), most=16)),
        *_other_programs(manifest),
        *_other_environments(manifest),
        ("class of environment", get("environment")),
        ("made at", get("made_at")),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _other_programs(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    studies: dict[str, list[str]] = {}
    for study, entry in (manifest.get("studies") or {}).items():
        binaries = entry.get("binaries")
        if binaries and binaries != manifest.get("programs"):
            studies.setdefault(_join(binaries, most=16), []).append(study)
    return [
        (f"programs of {', '.join(names)}", programs)
        for programs, names in studies.items()
    ]


def _other_environments(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Name studies that were measured with another kernel or processor, and what it is.

    Of those over hosts it is the server's; how many cores they have says their study.
    """
    known = manifest.get("environments") or {}
    newest = known.get(manifest.get("environment"))
    studies: dict[str, list[str]] = {}
    for study, entry in (manifest.get("studies") or {}).items() if newest else ():
        facts = known.get(entry.get("environment")) or newest
        over_hosts = "clients" in facts or "clients" in newest
        untold = {"binaries"} | (_OF_HOSTS if over_hosts else set())
        names = [n for n in {**facts, **newest} if facts.get(n) != newest.get(n)]
        told = [_told(n, facts.get(n)) for n in names if n not in untold]
        if told:
            studies.setdefault(", ".join(told), []).append(study)
    return [
        (f"environment of {', '.join(names)}", text) for text, names in studies.items()
    ]


_OF_HOSTS = {"clients", "stand_in", "cores", "chosen_cores", "physical_cores"}


def _told(name: str, value: Any) -> str:
    value = _mitigated(value) if name == "mitigations" else value
    return f"{name.replace('_', ' ')} {'none' if value is None else value}"


_YES_NO = {True: "yes", False: "no"}
_PAIR = (26, 62)
"""Widths of a table of two columns."""

_SYSCTLS = (
    *("fs.file-max", "fs.nr_open", "kernel.threads-max", "kernel.pid_max"),
    *("vm.max_map_count", "net.core.somaxconn", "net.ipv4.ip_local_port_range"),
    *("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_mem"),
)


def _limit(entry: Mapping[str, int | None]) -> str:
    soft, hard = entry.get("soft"), entry.get("hard")
    if soft == hard:
        return "none" if soft is None else str(soft)
    raised = "at will" if hard is None else f"to {hard}"
    return f"{soft} (may be raised {raised})"


def _mitigated(entry: Mapping[str, str] | None) -> str | None:
    if entry is None:
        return None
    names = [k for k, v in entry.items() if str(v).startswith("Mitigation")]
    return ", ".join(n.replace("_", " ") for n in names) or "none"


def _join(entry: Mapping[str, Any] | None, *, most: int | None = None) -> str:
    """Join a fact's plain values on one line, each cut to ``most`` characters."""
    return ", ".join(
        f"{k} {'yes' if v is True else str(v)[:most]}"
        for k, v in (entry or {}).items()
        if v and not isinstance(v, dict | list)
    )


def _links(run: Run, data: Path) -> str:
    names = ["manifest.json", *(f"{s.folder.name}/{FILE}" for s, _ in run.evaluated)]
    links = [
        f"[{name}](data/{name})"
        for name in names
        if fragments.copy(run.folder / name, (data / name).parent)
    ]
    return fragments.fill("links.qmd", links=links)
