"""Evaluating a run again, in place of measuring.

Who measures takes ``measure=False``: trials and lines that are on disk stay as they
are, and none is added. Who describes the machine takes `recorded`, the folder of the
run: models, cores and limits are those that its manifest names.

So figures, tables and numbers can be made anew from the facts of a run, also of one
that another machine measured and whose trials must not mix with those of this one.
"""

from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import store

REASON = "nothing is measured, as the run is evaluated again"


def manifest(recorded: Path) -> dict[str, Any]:
    """Return the manifest of a run that is evaluated again.

    FileNotFoundError when it has none that can be read.
    """
    path = recorded / store.MANIFEST
    facts = schema.read_json(path)
    if facts is None:
        raise FileNotFoundError(f"{path}: no manifest, so nobody knows the machine")
    return facts
