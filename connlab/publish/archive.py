"""One file to deposit: the sources, one run, the paper set from it, where all is from.

    git ls-files + runs/NAME + paper/_output -> build/archive/connlab-NAME-DAY.zip

Unpacked, it is a tree in which ``make render RUN=NAME`` works, without the references
that the paper has beside the run; and an RO-Crate, which `connlab.publish.crate`
describes. The same inputs give the same bytes: names are sorted, every entry carries
the day of the run, and neither the time nor the folder of the packing is in it.
"""

import io
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


def pack(run: str) -> Archived:
    """Write the deposit of one run.

    All of it is held in memory for a moment, so that what is described is what is
    packed.

    ArchiveError is raised when the run has no results, when ``paper/_output`` is not
    set from them, when a file names this machine's folders, and where git is missing.
    """
    home = schema.project_root()
    loaded = measured(run)
    stamp = _paper_of(loaded, home / PAPER)
    written = [*below(home, f"runs/{run}"), *below(home, PAPER)]
    names = sorted({*sources(home, run=run), *written})
    contents = {name: (home / name).read_bytes() for name in names}
    _refuse_paths({name: contents[name] for name in sorted(written)}, home)
    metadata = crate.describe(loaded, contents, stamp)
    text = json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"
    day = provenance.date(loaded)
    target = home / FOLDER / f"connlab-{run}-{day}.zip"
    return write(target, {crate.NAME: text.encode()} | contents, day=day)


def measured(run: str) -> Run:
    """Load a run; one without results raises ArchiveError."""
    loaded = results.load_run(run)
    if not loaded.evaluated:
        raise ArchiveError(f"run {run!r} has no results yet; make paper RUN={run}")
    return loaded


def sources(home: Path, *, run: str) -> list[str]:
    """List the sources below a folder, without the facts of other runs.

    In a repository these are the files that git tracks; elsewhere (an unpacked deposit)
    all that no ``.gitignore`` names. Deleted files are left out.
    """
    in_git = (home / ".git").exists()
    listed = _git(home, "ls-files", "-z") if in_git else _not_ignored(home)
    of_run = ("runs/README.md", f"runs/{run}/")
    return [
        name
        for name in listed.split("\0")
        if (home / name).is_file()
        and (name.startswith(of_run) or not name.startswith("runs/"))
        and name != crate.NAME
    ]


def _not_ignored(home: Path) -> str:
    """List what no .gitignore names, by git with an empty repository elsewhere."""
    with tempfile.TemporaryDirectory(prefix="connlab-") as empty:
        repository = (f"--git-dir={empty}", f"--work-tree={home}")
        _git(home, *repository, "init", "--quiet")
        rules = ("--others", "--exclude-per-directory=.gitignore")
        return _git(home, *repository, "ls-files", "-z", *rules)


def _git(home: Path, *words: str) -> str:
    command = ["git", "-C", str(home), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise ArchiveError("git is missing; it tells sources from the rest") from None
    except subprocess.CalledProcessError as error:
        raise ArchiveError(f"git: {error.stderr.strip()}") from None
    return done.stdout


_TEMPORARY = re.compile(r"\.part$|/notebook\.partial\.ipynb$|/\.ipynb_checkpoints/")


def below(home: Path, folder: str) -> list[str]:
    """List all files in a folder but those that are gone when their writer is done."""
    paths = (path for path in (home / folder).rglob("*") if path.is_file())
    names = (path.relative_to(home).as_posix() for path in paths)
    return [name for name in names if not _TEMPORARY.search(name)]


def _paper_of(run: Run, output: Path) -> dict:
    """Return the stamp of the set paper, which must be that of this run as it is."""
    remedy = f"make render RUN={run.name} sets it"
    stamp = schema.read_json(output / rendering.STAMP)
    if stamp is None:
        raise ArchiveError(f"{PAPER} holds no whole paper; {remedy}")
    if stamp["run"] != run.name:
        raise ArchiveError(
            f"{PAPER} is set from run {stamp['run']!r}, not {run.name!r}; {remedy}"
        )
    for name, digest in stamp["files"].items():
        if rendering.digest(output / name) != digest:
            raise ArchiveError(f"{PAPER}/{name} is not as it was set; {remedy}")
    result_files = [f"{study.folder.name}/results.json" for study, _ in run.evaluated]
    for name in ("manifest.json", *result_files):  # copied by the paper, to link to
        copy = output / "data" / name
        if rendering.digest(run.folder / name) != rendering.digest(copy):
            raise ArchiveError(f"{PAPER} is older than {run.name}/{name}; {remedy}")
    if stamp.get("numbers") != rendering.numbers_of(run):
        raise ArchiveError(f"{PAPER} has other numbers than {run.name}; {remedy}")
    return stamp


def word(text: str) -> bytes:
    """Return a pattern of a name or path that is not part of a longer one.

    Also as JSON may spell it. There the line before one may end in ``\\n``, whose
    letter is no part of the name.
    """
    spellings = dict.fromkeys((os.fsencode(text), json.dumps(text)[1:-1].encode()))
    # the name comes first, as a search for letters is fast
    one = rb"%(name)b(?:(?<![\w.~-]%(name)b)|(?<=\\[nrt]%(name)b))(?![\w-])"
    return b"|".join(one % {b"name": re.escape(name)} for name in spellings)


def _refuse_paths(contents: Mapping[str, bytes], home: Path) -> None:
    papermill = rb'"(?:in|out)put_path": *"/'
    path = re.compile(word(str(home)) + b"|" + papermill)
    names = [name for name, data in contents.items() if path.search(data)]
    if names:
        raise ArchiveError(
            f"the path of a machine stands in {', '.join(names)}; run those "
            "notebooks again (what is measured is kept), then make render"
        )


def write(path: Path, contents: Mapping[str, bytes], *, day: str) -> Archived:
    """Write files by their names into a zip that knows the day and no more."""
    buffer = io.BytesIO()
    parents = {p for name in contents for p in PurePosixPath(name).parents if p.name}
    with zipfile.ZipFile(buffer, "w") as packed:
        for folder in sorted(parents):
            packed.writestr(_entry(f"{folder}/", day=day, mode=0o40755), b"")
        for name, data in contents.items():
            mode = 0o100755 if data.startswith(b"#!") else 0o100644
            packed.writestr(_entry(name, day=day, mode=mode), data)
    schema.put(path, buffer.getvalue())
    return Archived(path, len(contents), path.stat().st_size)


def _entry(name: str, *, day: str, mode: int) -> zipfile.ZipInfo:
    year, month, date = (int(number) for number in day.split("-"))
    entry = zipfile.ZipInfo(name, (year, month, date, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, which knows what may be started
    entry.external_attr = mode << 16
    return entry
