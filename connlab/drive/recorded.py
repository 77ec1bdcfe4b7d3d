"""A run that is evaluated again, in place of this machine.

    CONNLAB_EVALUATE=runs/NAME -> sweeps and floors take what is there, and measure
                                  nothing; models, cores and limits are those that
                                  the manifest of that run names

So figures, tables and numbers can be made anew from the facts of a run, also of one
that another machine measured and whose trials must not mix with any of this one's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import store
from connlab.drive.reports import SweepReport

#: environment variable: the folder of the run that is evaluated again
FOLDER = "CONNLAB_EVALUATE"
WHY = "nothing is measured, as the run is evaluated again"


def folder() -> Path | None:
    """Return the folder of the run that is evaluated again; None: we measure."""
    told = os.environ.get(FOLDER)
    return schema.project_root() / told if told else None


def study(name: str, *, run: str, root: str | Path = "runs") -> Path | None:
    """Return the folder of a study in that run; None: we measure.

    Raises
    ------
    ValueError
        When another run is meant than the one that is evaluated again.
    """
    there = folder()
    asked = schema.study_folder(run, name, root=root)
    if there is not None and asked.parent.resolve() != there.resolve():
        raise ValueError(f"run: {run!r}; {FOLDER} has {there.name!r} evaluated again")
    return asked if there else None


def manifest() -> dict[str, Any]:
    """Return the manifest of the run that is evaluated again.

    Raises
    ------
    FileNotFoundError
        When it has none that can be read.
    """
    path = (folder() or Path()) / store.MANIFEST
    found = store.read_json(path)
    if found is None:
        raise FileNotFoundError(f"{path}: no manifest, so nobody knows the machine")
    return found


def models() -> tuple[schema.Model, ...]:
    """Return the models that the server had when the run was measured."""
    return schema.Registry.model_validate(manifest()["registry"]).models


def report(name: str, there: Path) -> SweepReport:
    """Return what a sweep would say that finds all trials of a study on disk."""
    log = store.read(there / store.TRIALS)
    rows = [schema.flatten(trial) for trial in log.trials]
    failed = [row for row in rows if row["failure"] is not None]
    return SweepReport(
        run=there.parent.name,
        study=name,
        planned=len(rows),
        done=0,
        resumed=len(rows),
        failed=len(failed),
        flagged=sum(not row["ok"] for row in rows) - len(failed),
        seconds=0.0,
        window_share=None,
        stopped_because=WHY,
        remarks=log.remarks,
    )
