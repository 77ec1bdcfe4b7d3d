"""What a run says: the facts that the paper is assembled from, checked.

A study leaves ``runs/NAME/STUDY/results.json``, whose model is
`connlab.study.results.Results`. Nothing is computed here. Whatever is missing or broken
becomes a reason in plain words, because the paper has to print that reason in the place
where the result should stand.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from connlab import report, schema
from connlab.study import frames
from connlab.study.formatting import counted
from connlab.study.results import FILE, SCHEMA, Results, commit_of

Rows = Mapping[str, Mapping[str, Any]]
"""Numbers by their address, as `connlab.report.numbers` reads them."""
Registry = Sequence[Mapping[str, Any]]
"""Rows of ``server --list``: name, family, label of each model and more."""


class Study(BaseModel):
    """One study of a run: its results, or the reason why there are none."""

    name: str
    folder: Path
    entry: dict[str, Any] = Field(default_factory=dict)
    """What the run's manifest says of it."""
    results: Results | None = None
    reason: str | None = None
    stale: list[str] = Field(default_factory=list)
    other_programs: list[str] = Field(default_factory=list)
    """Programs that its trials ran, where the run's newest study ran others."""


class Run(BaseModel):
    """A run as the paper sees it: who measured where, and what came out."""

    name: str
    folder: Path
    manifest: dict[str, Any] = Field(default_factory=dict)
    studies: dict[str, Study] = Field(default_factory=dict)

    @property
    def evaluated(self) -> list[tuple[Study, Results]]:
        """The studies that have results, with these."""
        return [(s, s.results) for s in self.studies.values() if s.results]

    @cached_property
    def numbers(self) -> Rows:
        """Every number of the run by its address.

        Tables beside results that are missing or unreadable say nothing: nobody knows
        of which trials they are.
        """
        rows: dict[str, dict[str, Any]] = {}
        for study, _ in self.evaluated:
            rows |= report.numbers(study.folder)
        return rows

    @property
    def registry(self) -> Registry:
        """The models that the manifest holds."""
        return (self.manifest.get("registry") or {}).get("models") or []

    def is_stale(self, *names: str) -> bool:
        """Whether the results of one of these studies are not those of its trials."""
        return any(s.stale for name in names if (s := self.studies.get(name)))

    def results_of(self, name: str) -> Results | None:
        """Return the results of a study, if the run has any."""
        study = self.studies.get(name)
        return study.results if study else None


def load_run(run: str, *, root: str | Path = "runs", trials: bool = True) -> Run:
    """Read the manifest of a run and each folder of it that holds trials or results.

    Without `trials`, which take longest to read, nobody knows which of them are newer
    than results. A run that does not exist raises `connlab.schema.NoSuchRun`, which
    lists those that do.
    """
    folder = schema.existing_run(run, root=root)
    manifest = schema.read_json(folder / "manifest.json") or {}
    studies = {}
    for sub in sorted(p for p in folder.iterdir() if p.is_dir()):
        if any((sub / name).exists() for name in _MARKS):
            studies[sub.name] = load_study(sub, manifest=manifest, trials=trials)
    for name, entry in (manifest.get("studies") or {}).items():
        none = Study(name=name, folder=folder / name, reason=NO_RESULTS)
        studies.setdefault(name, none).entry = entry or {}
    return Run(name=run, folder=folder, manifest=manifest, studies=studies)


_MARKS = (FILE, schema.TRIALS, schema.TRIALS + schema.PACKED, "failure.json")
NO_RESULTS = "the study left no results in this run"


def load_study(folder: Path, *, manifest: dict[str, Any], trials: bool = True) -> Study:
    """Read one study's folder into a :class:`Study`, never raising for its content."""
    study = {"name": folder.name, "folder": folder}
    path = folder / FILE
    log = schema.read_log(folder / schema.TRIALS).trials if trials else ()
    failed = (schema.read_json(folder / "failure.json") or {}).get("reason")
    if not path.exists():
        held = counted(len(log), "trial") if trials else "trials"
        count = f"the run holds {held} of the study, which was not evaluated"
        return Study(**study, reason=failed or count)
    try:
        results = Results.model_validate_json(path.read_text("utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        message = " ".join(str(error).splitlines()[:3])
        return Study(**study, reason=f"{FILE} cannot be read: {message}")
    if results.schema_ != SCHEMA:
        reason = f"{FILE} has schema {results.schema_}, this version reads {SCHEMA}"
        return Study(**study, reason=reason)
    stale = staleness(results, log, folder, manifest=manifest)
    if failed:
        stale.append(f"the last attempt to measure it anew failed: {failed}")
    programs = other_programs(log, manifest=manifest)
    return Study(**study, results=results, stale=stale, other_programs=programs)


_PROGRAMS = ("server", "client")


def other_programs(
    trials: Sequence[dict[str, Any]], *, manifest: dict[str, Any]
) -> list[str]:
    """Name the programs of a study's trials that its run's newest study did not run.

    Its figures show its trials all the same; it is not to be compared with studies
    that ran others.
    """
    newest = manifest.get("programs") or {}
    return [
        program
        for program in _PROGRAMS
        if newest.get(program) and _digests(trials, program) - {newest[program]}
    ]


def _digests(trials: Sequence[dict[str, Any]], program: str) -> set[str]:
    return {(t.get("binaries") or {}).get(program) for t in trials} - {None}


def staleness(
    results: Results,
    trials: Sequence[dict[str, Any]],
    folder: Path,
    *,
    manifest: dict[str, Any],
) -> list[str]:
    """List why the figures of a study no longer show its trials, if so.

    `folder` is that of the study.
    """
    reasons = []
    newer = [t for t in trials if _is_after(t.get("started_at"), results.made_at)]
    total = results.trials.get("total")
    if newer:
        later = counted(len(newer), "trial")
        reasons.append(f"the run holds {later} newer than these results")
    elif total is not None and trials and total not in _counts(trials, folder):
        made_from = counted(total, "trial")
        reasons.append(f"made from {made_from}, the run now holds {len(trials)}")
    for program in _PROGRAMS:
        count = len(_digests(trials, program))
        if count > 1:
            reasons.append(f"its trials ran {count} different {program} binaries")
    old, new = results.commit, commit_of(manifest)
    if old and new and old != new:
        reasons.append(f"evaluated at commit {old[:10]}, the run is at {new[:10]}")
    return reasons


def _counts(trials: Sequence[dict[str, Any]], folder: Path) -> Iterator[int]:
    """Yield how many trials there are, with and without those of absent programs.

    A study of programs that need not be here leaves them out of its frame and says so.
    Then as many as its notebook takes: a run may hold trials of other settings, too.
    """
    absent = sum((t.get("failure") or {}).get("kind") == "unavailable" for t in trials)
    yield from (len(trials), len(trials) - absent)
    place = {"root": folder.parent.parent, "measure": False, "warn": False}
    with contextlib.suppress(frames.RunError, ValueError):
        frame = frames.load(folder.parent.name, folder.name, **place)
        absent = frame["failure_kind"].eq("unavailable").sum()
        yield from (len(frame), len(frame) - absent)


def _is_after(text: str | None, other: datetime | None) -> bool:
    try:
        return datetime.fromisoformat(text) > other
    except (TypeError, ValueError):  # one is missing, or is no time
        return False
