"""One file to deposit: the sources, one run, the paper set from it, where all is from.

    git ls-files + runs/NAME + paper/_output -> build/archive/connlab-NAME-DAY.zip

Unpacked, it is a tree in which ``make render RUN=NAME`` works, and an RO-Crate, which
`connlab.publish.crate` describes. The same inputs give the same bytes: names are
sorted, every entry carries the day of the run, and nothing tells of the clock or of
the folder that it was packed in.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from connlab import schema
from connlab.publish import crate, provenance, rendering, results
from connlab.publish.renderers import OUTPUT
from connlab.publish.results import Run

FOLDER = "build/archive"
PAPER = f"paper/{OUTPUT}"


class ArchiveError(RuntimeError):
    """There is nothing whole to deposit; the message says what to do first."""


@dataclass(frozen=True)
class Archived:
    """The deposit: where it is, how many files it holds, its size."""

    path: Path
    files: int
    size_bytes: int


def pack(run: str, *, folder: str | Path = FOLDER) -> Archived:
    """Write the deposit of one run.

    All of it is held in memory for a moment, so that what is described is what is
    packed.

    Raises
    ------
    FileNotFoundError
        When there is no such run; the message lists those that there are.
    ArchiveError
        When the run has no results, when ``paper/_output`` is not set from them, when
        a file names this machine's folders, and where git is missing.
    """
    home = schema.project_root()
    found = measured(run)
    stamp = _paper_of(found, home / PAPER)
    made = [*below(home, f"runs/{run}"), *below(home, PAPER)]
    names = sorted({*sources(home, run=run), *made})
    contents = {name: (home / name).read_bytes() for name in names}
    _refuse_paths({name: contents[name] for name in sorted(made)}, home)
    described = crate.describe(found, contents, stamp)
    text = json.dumps(described, indent=1, ensure_ascii=False) + "\n"
    day = provenance.date(found)
    target = home / folder / f"connlab-{run}-{day}.zip"
    write(target, {crate.NAME: text.encode()} | contents, day=day)
    return Archived(target, len(contents) + 1, target.stat().st_size)


def measured(run: str) -> Run:
    """Return a run that has results.

    Raises
    ------
    FileNotFoundError
        When there is no such run; the message lists those that there are.
    ArchiveError
        When it has no results.
    """
    found = results.load_run(run)
    if not any(study.results for study in found.studies.values()):
        raise ArchiveError(f"run {run!r} has no results yet; make paper RUN={run}")
    return found


# ---- what is packed ----------------------------------------------------------


def sources(home: Path, *, run: str) -> list[str]:
    """List the sources below a folder, without the facts of other runs.

    In a repository these are the files that git tracks; elsewhere (an unpacked deposit)
    all that no ``.gitignore`` names. Deleted files are left out.
    """
    inside = (home / ".git").exists()
    listed = _git(home, "ls-files", "-z") if inside else _not_ignored(home)
    ours = ("runs/README.md", f"runs/{run}/")
    return [
        name
        for name in listed.split("\0")
        if (home / name).is_file()
        and (name.startswith(ours) or not name.startswith("runs/"))
        and name != crate.NAME
    ]


def _not_ignored(home: Path) -> str:
    """Ask git through an empty repository elsewhere: its rules are not ours to copy."""
    with tempfile.TemporaryDirectory(prefix="connlab-") as empty:
        there = (f"--git-dir={empty}", f"--work-tree={home}")
        _git(home, *there, "init", "--quiet")
        rules = ("--others", "--exclude-per-directory=.gitignore")
        return _git(home, *there, "ls-files", "-z", *rules)


def _git(home: Path, *words: str) -> str:
    command = ["git", "-C", str(home), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise ArchiveError("git is missing; it tells sources from the rest") from None
    except subprocess.CalledProcessError as error:
        raise ArchiveError(f"git: {error.stderr.strip()}") from None
    return done.stdout


_PASSING = re.compile(r"\.part$|/notebook\.partial\.ipynb$|/\.ipynb_checkpoints/")


def below(home: Path, folder: str) -> list[str]:
    """List all files in a folder but those that are gone when their writer is done."""
    found = (p for p in (home / folder).rglob("*") if p.is_file())
    names = (path.relative_to(home).as_posix() for path in found)
    return [name for name in names if not _PASSING.search(name)]


# ---- what is refused ---------------------------------------------------------


def _paper_of(run: Run, output: Path) -> dict:
    """Return the stamp of the set paper, which must be that of this run as it is."""
    anew = f"make render RUN={run.name} sets it"
    try:
        stamp = json.loads((output / rendering.STAMP).read_text("utf-8"))
    except (OSError, ValueError):
        raise ArchiveError(f"{PAPER} holds no whole paper; {anew}") from None
    if stamp["run"] != run.name:
        raise ArchiveError(
            f"{PAPER} is set from run {stamp['run']!r}, not {run.name!r}; {anew}"
        )
    for name, digest in stamp["files"].items():
        if not _is(output / name, digest):
            raise ArchiveError(f"{PAPER}/{name} is not as it was set; {anew}")
    for name in _printed(run):
        if _bytes(run.folder / name) != _bytes(output / "data" / name):
            raise ArchiveError(f"{PAPER} is older than {run.name}/{name}; {anew}")
    return stamp


def _printed(run: Run) -> list[str]:
    """List what the paper copies from a run, to link to it."""
    studies = [s.folder.name for s in run.studies.values() if s.results]
    return ["manifest.json", *(f"{name}/results.json" for name in studies)]


def _is(path: Path, digest: str) -> bool:
    return path.is_file() and rendering.digest(path) == digest


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def word(text: str) -> bytes:
    """Return a pattern of a name or path that is not a part of a longer one."""
    return rb"(?<![\w.~-])" + re.escape(os.fsencode(text)) + rb"(?![\w-])"


def _refuse_paths(contents: Mapping[str, bytes], home: Path) -> None:
    """Refuse what names the folder it was made in: that tells of its maker only."""
    here = word(str(home))
    written = rb'"(?:in|out)put_path": *"/'  # by papermill, on whatever machine
    path = re.compile(here + b"|" + written)
    telling = [name for name, data in contents.items() if path.search(data)]
    if telling:
        raise ArchiveError(
            f"the path of a machine stands in {', '.join(telling)}; run those "
            "notebooks again (what is measured is kept), then make render"
        )


# ---- the file ----------------------------------------------------------------


def write(path: Path, contents: Mapping[str, bytes], *, day: str) -> None:
    """Write files by their names into a zip that knows the day and no more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    parents = {p for name in contents for p in PurePosixPath(name).parents if p.name}
    with zipfile.ZipFile(partial, "w") as packed:
        for folder in sorted(parents):
            packed.writestr(_entry(f"{folder}/", day=day, mode=0o40755), b"")
        for name, data in contents.items():
            mode = 0o100755 if data.startswith(b"#!") else 0o100644
            packed.writestr(_entry(name, day=day, mode=mode), data)
    os.replace(partial, path)


def _entry(name: str, *, day: str, mode: int) -> zipfile.ZipInfo:
    """Return an entry that knows no clock and no owner."""
    year, month, date = (int(number) for number in day.split("-"))
    entry = zipfile.ZipInfo(name, (year, month, date, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, which knows what may be started
    entry.external_attr = mode << 16
    return entry
