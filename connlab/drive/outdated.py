"""Runs that other programs or another machine measured: kept under a name of their own.

Trials of two classes of environment are never analysed together, so whoever changes a
server, or boots another kernel, has to begin a new run. The old one stays.
"""

from collections.abc import Mapping
from pathlib import Path

from connlab import schema
from connlab.drive import location, machine, programs, store


def changes(folder: Path) -> str | None:
    """Return in what a run differs from what would be measured now ("binaries").

    None: there is no run, or some of its trials are of the environment of today.
    """
    manifest = schema.read_json(folder / store.MANIFEST) or {}
    recorded = manifest.get("environments") or {}
    current = location.configured().environment(programs.built().digests())
    if not recorded or any(_holds(current, facts) for facts in recorded.values()):
        return None
    return machine.differences(recorded.get(manifest.get("environment")), current)


def rename_run(folder: Path) -> Path:
    """Rename a run, so that its name is free; return where it is now.

    The new name ends with the day on which the run was last measured.
    """
    manifest = schema.read_json(folder / store.MANIFEST)
    measured_at = manifest.get("renewed_at") or manifest["made_at"]
    name = f"{folder.name}-{measured_at[:10]}"
    number, kept = 1, folder.with_name(name)
    while kept.exists():
        number += 1
        kept = folder.with_name(f"{name}-{number}")
    return folder.rename(kept)


def _holds(current: Mapping, facts: Mapping) -> bool:
    """Whether facts are those of today; study 14 adds to them what its hosts are."""
    names = current if "stand_in" in facts else {*current, *facts}
    return all(facts.get(name) == current.get(name) for name in names)
