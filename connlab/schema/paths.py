"""Where files stand: the project, a run, a study in it."""

import os
from pathlib import Path


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


def run_name(run: str, *, root: str | Path = "runs") -> str:
    """Return the name of a run; of a link to another (``reference``) that one's.

    A link that leads elsewhere, as to another disk, is the run.
    """
    folder = run_folder(run, root=root)
    target = folder.resolve()
    return target.name if target.parent == folder.parent.resolve() else run


class NoSuchRun(FileNotFoundError, ValueError):
    """A run does not exist; the message lists those that do."""


def existing_run(run: str, *, root: str | Path = "runs") -> Path:
    """Return the folder of a run, or raise NoSuchRun."""
    folder = run_folder(run, root=root)
    if folder.is_dir():
        return folder
    runs = sorted(path.parent.name for path in folder.parent.glob("*/manifest.json"))
    existing = ", ".join(runs) or "none"
    raise NoSuchRun(f"there is no run {run!r} below {root}/; there is {existing}")


def study_folder(run: str, study: str, *, root: str | Path = "runs") -> Path:
    """Return the folder of one study in one run (it need not exist)."""
    return run_folder(run, root=root) / study
