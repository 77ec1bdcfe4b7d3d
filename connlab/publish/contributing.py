"""A run of a reader's own machine in one file to give: checked, stripped, packed.

    runs/NAME -> build/contribution/connlab-run-PROCESSOR-DAY.zip

Stripped of what tells who measured: names of the host and of the user, home and the
project's folder. Packed is what the reference keeps of a run: trials compressed, no PDF
of a figure, no histograms but those of study 09.
"""

from __future__ import annotations

import getpass
import gzip
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connlab import schema
from connlab.publish import archive, provenance
from connlab.publish.archive import ArchiveError
from connlab.publish.results import Run

FOLDER = "build/contribution"
#: bytes of the packed file: what a clone of the project can bear of one machine
SIZE_MOST = 15 * 2**20

_LEFT_OUT = re.compile(r"/figures/[^/]*\.pdf$|/latency/|\.failed\.ipynb$")
_KEPT = re.compile(r"/doubts/latency/")
_TRIALS = (schema.TRIALS, schema.TRIALS + schema.PACKED)
_ANYBODYS = re.compile(rb"/(?:home|Users)/[\w.\x80-\xff-]+")
# of any machine; "root" is a parameter, "vm." begins sysctls
_COMMON = frozenset({"root", "localhost", "vm"})


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

    Raises
    ------
    FileNotFoundError
        When there is no such run; the message lists those that there are.
    ArchiveError
        When it has no results, results of other trials, or is too large.
    """
    home = schema.project_root()
    found = archive.measured(run)
    _refuse_stale(found)
    name = f"{_slug(found.manifest)}-{provenance.date(found)}"
    telling = _telling(home)
    contents, replaced = {}, dict.fromkeys(telling, 0)
    for path in _files(home, run):
        below = path.removeprefix(f"runs/{run}/")
        trials = Path(path).name in _TRIALS
        data = schema.facts_bytes(home / path) if trials else (home / path).read_bytes()
        data = _stripped(data, telling, replaced)
        if trials:
            below = below.removesuffix(schema.PACKED) + schema.PACKED
            data = gzip.compress(data, mtime=0)  # alike each time, without a clock
        contents[f"{name}/{below}"] = data
    target = home / folder / f"connlab-run-{name}.zip"
    archive.write(target, contents, day=provenance.date(found))
    size = target.stat().st_size
    if size > SIZE_MOST:
        target.unlink()
        raise ArchiveError(
            f"run {run!r} packs to {size / 2**20:.1f} MiB; at most "
            f"{SIZE_MOST // 2**20} MiB are taken: PROFILE=full measures less"
        )
    missing = tuple(n for n, study in found.studies.items() if not study.results)
    told = {what: count for what, count in replaced.items() if count}
    return Contribution(target, len(contents), size, missing, told)


def _refuse_stale(run: Run) -> None:
    """Refuse results that are not of the run's trials."""
    stale = [f"{n} ({'; '.join(s.stale)})" for n, s in run.studies.items() if s.stale]
    if stale:
        raise ArchiveError(
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


def _files(home: Path, run: str) -> list[str]:
    found = sorted(archive.below(home, f"runs/{run}"))
    return [n for n in found if _KEPT.search(n) or not _LEFT_OUT.search(n)]


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


def _stripped(
    data: bytes, telling: Mapping[str, tuple[str, str]], replaced: dict[str, int]
) -> bytes:
    """Return a file without what tells of its maker, counting what it was.

    A file that is no text is compressed numbers or a picture: it holds no name.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return data
    for what, (told, instead) in telling.items():
        data, count = re.subn(archive.word(told), instead.encode(), data)
        replaced[what] += count
    return _ANYBODYS.sub(b"~", data)
