"""A run of a reader's own machine in one file to give: checked, stripped, packed.

    runs/NAME -> build/contribution/connlab-run-PROCESSOR-DAY.zip

Stripped of what tells who measured: names of the host and of the user, home and the
project's folder. Packed is what the reference keeps of a run: no PDF of a figure, no
histograms but those of study 09.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connlab import schema
from connlab.publish import archive, provenance, results
from connlab.publish.results import Run

FOLDER = "build/contribution"
#: bytes of the packed file: what a clone of the project can bear of one machine
SIZE_MOST = 15 * 2**20

_LEFT_OUT = re.compile(
    r"/figures/[^/]*\.pdf$|/latency/|\.failed\.ipynb$|\.partial\.ipynb$|\.part$"
    r"|/\.ipynb_checkpoints/"
)
_KEPT = re.compile(r"/doubts/latency/")
_COMMON = frozenset({"root", "localhost"})  # of any machine; "root" is a parameter, too


class ContributionError(RuntimeError):
    """The run is nothing to give yet; the message says what to do first."""


@dataclass(frozen=True)
class Contribution:
    """The packed run; `replaced` counts what told of its maker, by what it was."""

    path: Path
    files: int
    size_bytes: int
    missing: tuple[str, ...]
    replaced: Mapping[str, int]


def pack(run: str, *, folder: str | Path = FOLDER) -> Contribution:
    """Check a run, strip it and write it into one file.

    Parameters
    ----------
    run : str
        Name of the run below ``runs``.
    folder : path
        Where the file goes; relative paths count from the project's folder.

    Raises
    ------
    FileNotFoundError
        When there is no such run; the message lists those that there are.
    ContributionError
        When it has no results, results of other trials, or is too large.
    """
    home = schema.project_root()
    found = results.load_run(run)
    _refuse(found)
    name = f"{_slug(found.manifest)}-{provenance.date(found)}"
    contents, replaced = {}, dict.fromkeys(_telling(home), 0)
    for path in _files(found.folder):
        below = path.relative_to(found.folder).as_posix()
        contents[f"{name}/{below}"] = _stripped(path.read_bytes(), home, replaced)
    target = home / folder / f"connlab-run-{name}.zip"
    archive.write(target, contents, day=provenance.date(found))
    size = target.stat().st_size
    if size > SIZE_MOST:
        target.unlink()
        raise ContributionError(
            f"run {run!r} packs to {size / 2**20:.1f} MiB; at most "
            f"{SIZE_MOST // 2**20} MiB are taken: PROFILE=full measures less"
        )
    missing = tuple(n for n, study in found.studies.items() if not study.results)
    told = {what: count for what, count in replaced.items() if count}
    return Contribution(target, len(contents), size, missing, told)


def _refuse(run: Run) -> None:
    """Refuse a run without results, or whose results are not of its trials."""
    if not any(study.results for study in run.studies.values()):
        raise ContributionError(
            f"run {run.name!r} has no results yet; make paper RUN={run.name}"
        )
    stale = [f"{n} ({'; '.join(s.stale)})" for n, s in run.studies.items() if s.stale]
    if stale:
        raise ContributionError(
            f"results that are not of their trials: {', '.join(stale)}; "
            f"make evaluate RUN={run.name} makes them anew"
        )


def _slug(manifest: Mapping) -> str:
    """Return the processor's name as part of a file's name."""
    environment = manifest.get("environment")
    known = manifest.get("environments", {}).get(environment, {})
    words = re.findall(r"[a-z0-9]+", str(known.get("cpu", "")).lower())
    left = [w for w in words if w not in ("r", "tm", "cpu", "processor", "core")]
    return "-".join(left[:6]) or "unknown"


def _files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    named = ((path, "/" + path.relative_to(folder).as_posix()) for path in found)
    return [p for p, name in named if _KEPT.search(name) or not _LEFT_OUT.search(name)]


# ---- what tells of its maker ---------------------------------------------------------


def _telling(home: Path) -> dict[str, tuple[str, str]]:
    """Return by what it is: what is looked for, and what stands there afterwards.

    Folders come before names, as they hold them.
    """
    host = socket.gethostname()
    found = {
        "the project's folder": (str(home), "."),
        "home": (str(Path.home()), "~"),
        "the host's name": (host, "host"),
        "the host's short name": (host.split(".")[0], "host"),
        "the user's name": (_user(), "user"),
    }
    return {
        what: (text, instead)
        for what, (text, instead) in found.items()
        if len(text) > 1 and text not in _COMMON
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        return ""


def _stripped(data: bytes, home: Path, replaced: dict[str, int]) -> bytes:
    """Return a file without what tells of its maker, counting what it was.

    A file that is no text is compressed numbers or a picture: it holds no name.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    for what, (told, instead) in _telling(home).items():
        whole = rf"(?<![\w.~-]){re.escape(told)}(?![\w-])"
        text, count = re.subn(whole, instead, text)
        replaced[what] += count
    anybodys = re.compile(rf"{re.escape(os.sep)}(?:home|Users)/[\w.-]+")
    return anybodys.sub("~", text).encode()
