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
    found = schema.read_json(path)
    if found is None:
        raise FileNotFoundError(f"{path}: no manifest, so nobody knows the machine")
    return found
