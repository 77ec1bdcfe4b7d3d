"""Evaluating a run again, in place of measuring.

    CONNLAB_EVALUATE=runs/NAME -> sweeps and floors read what is on disk, and measure
                                  nothing; models, cores and limits are those that
                                  the manifest of that run names

So figures, tables and numbers can be made anew from the facts of a run, also of one
that another machine measured and whose trials must not mix with those of this one.
"""

import os
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import store

FOLDER = schema.EVALUATE
REASON = "nothing is measured, as the run is evaluated again"


def folder() -> Path | None:
    """Return the folder of the run that is evaluated again; None: we measure."""
    name = os.environ.get(FOLDER)
    return schema.project_root() / name if name else None


def study(name: str, *, run: str, root: str | Path = "runs") -> Path | None:
    """Return the folder of a study in that run; None: we measure.

    ValueError when another run is meant than the one that is evaluated again.
    """
    evaluated = folder()
    if evaluated is None:
        return None
    path = schema.study_folder(run, name, root=root)
    if path.parent.resolve() != evaluated.resolve():
        raise ValueError(
            f"run: {run!r}; {FOLDER} has {evaluated.name!r} evaluated again"
        )
    return path


def manifest() -> dict[str, Any]:
    """Return the manifest of the run that is evaluated again.

    FileNotFoundError when it has none that can be read.
    """
    path = (folder() or Path()) / store.MANIFEST
    facts = schema.read_json(path)
    if facts is None:
        raise FileNotFoundError(f"{path}: no manifest, so nobody knows the machine")
    return facts
