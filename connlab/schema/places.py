"""Where files stand: the project, a run, a study in it, its trials."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

TRIALS = "trials.jsonl"
#: what the name of a packed file of facts ends with
PACKED = ".gz"
_GZIP = b"\x1f\x8b"  # RFC 1952, which no line of JSON begins with


def project_root() -> Path:
    """Return the folder that holds ``src_c`` and ``runs``.

    Notebooks run with their own folder as working directory, commands with the
    project's; both must find the same ``runs``. So: ``$CONNLAB_HOME`` if set, else the
    nearest ancestor of the working directory that looks like the project, else the
    folder that this package lies in.
    """
    if home := os.environ.get("CONNLAB_HOME"):
        return Path(home)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "src_c").is_dir() and (folder / "connlab").is_dir():
            return folder
    return Path(__file__).resolve().parents[2]


def run_folder(run: str, *, root: str | Path = "runs") -> Path:
    """Return ``root/run``; a relative `root` counts from the project's folder."""
    return project_root() / root / run


class NoSuchRun(FileNotFoundError, ValueError):
    """A run that is asked for is not there; the message lists those that are."""


def existing_run(run: str, *, root: str | Path = "runs") -> Path:
    """Return the folder of a run.

    Raises
    ------
    NoSuchRun
        When there is none of that name.
    """
    folder = run_folder(run, root=root)
    if folder.is_dir():
        return folder
    known = sorted(path.parent.name for path in folder.parent.glob("*/manifest.json"))
    there = ", ".join(known) or "none"
    raise NoSuchRun(f"there is no run {run!r} below {root}/; there is {there}")


def study_folder(run: str, study: str, *, root: str | Path = "runs") -> Path:
    """Return the folder of one study in one run (it need not exist)."""
    return run_folder(run, root=root) / study


def facts_file(path: Path) -> Path:
    """Return where a file of facts is: as it is written, or packed to be kept.

    One that does not exist is where it will be written.
    """
    packed = path.with_name(path.name + PACKED)
    return packed if packed.is_file() and not path.is_file() else path


def facts_bytes(path: Path) -> bytes:
    """Return the lines of a file of facts, unpacked.

    Raises
    ------
    OSError
        When there is no such file, or what is packed is damaged.
    """
    data = facts_file(path).read_bytes()
    if data[:2] != _GZIP:
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error) as error:
        raise gzip.BadGzipFile(f"{path.name}{PACKED}: {error}") from error
