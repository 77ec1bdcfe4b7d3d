"""The main job: build, measure every notebook of a profile, set the paper, check it.

A study that fails does not stop the others: the paper says why it has no results, and
the exit status tells. Called again, it goes on where it was stopped; what is measured
already is not measured again.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connlab import notebook, profiles
from connlab.parameters import validate
from connlab.schema import alone, existing_run, project_root, run_folder

if TYPE_CHECKING:
    from connlab.publish import Rendered

_NOTEBOOK_S = 8.0  # of a notebook beside its budget: kernel, figures
_SHORT_S = 14.0  # of one without a budget, as in profile smoke
_PAGES_S = 45.0  # of the paper: verdicts, HTML, PDF, checks
_BELIEVED_S = 60.0  # of the estimate, before the pace of this machine counts as much


@dataclass(frozen=True)
class Result:
    """The paper that was set, and the time each phase took."""

    rendered: Rendered
    seconds: dict[str, float]
    failed: dict[str, str]
    problems: list[str]


def build() -> None:
    """Compile server and client; quiet when there is nothing to do."""
    command = ["make", "--no-print-directory", "build"]
    subprocess.run(command, cwd=project_root(), check=True)


def plan(profile: profiles.Profile) -> dict[str, float]:
    """Return the expected seconds of each notebook of a profile, in order.

    They are those that the profile states, else its budget, else a few. A sweep prints
    an exact estimate before it starts. ParameterError for one that a notebook refuses.
    """
    from connlab.drive import stopping

    cost = {}
    for stem in profile.notebooks:
        given = validate(notebook.find(stem), profile.parameters(stem))
        budget = given.get("budget")
        usual_s = _SHORT_S if budget is None else _NOTEBOOK_S + stopping.seconds(budget)
        cost[stem] = profile.seconds.get(stem, usual_s)
    return cost


def left_s(cost: Mapping[str, float], taken: Mapping[str, float]) -> float:
    """Return the seconds that are left of a paper, at the pace of what is done.

    A slow machine is believed, a fast one is not: notebooks whose trials are there
    already take no time.

    Parameters
    ----------
    cost, taken : mapping of str to float
        Expected seconds of each notebook, and those that it took, of those that ended.
    """
    done = sum(cost[stem] for stem in cost if stem in taken)
    took = sum(taken[stem] for stem in cost if stem in taken)
    pace = max(1.0, (took + _BELIEVED_S) / (done + _BELIEVED_S))
    return pace * (sum(cost.values()) - done + _PAGES_S)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let nobody else make a paper of this project: each would spoil the other."""
    busy = "another paper is being made here; wait for it"
    with alone(project_root(), or_else=busy):
        yield


@_alone()
def make(
    profile: profiles.Profile,
    *,
    run: str,
    renderer: str | None = None,
    say: Callable[[str], None] = print,
) -> Result:
    """Build, measure, set and check the paper of a profile.

    A renderer that is not installed is refused before measuring. A run that other
    programs measured is kept under another name; ValueError where it is a reference.
    RuntimeError while another paper of this project is being made.
    """
    from connlab.drive.progress import duration_text
    from connlab.publish import check, render, renderers
    from connlab.study.formatting import counted

    chosen = renderers.choose(renderer)
    if chosen.instead:
        say(f"paper: {chosen.instead}; the embedded renderer will set the paper")
    cost = plan(profile)
    say(f"paper: profile {profile.name} ({profile.about}), run {run}")
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    with _timed(seconds, "build"):
        build()
    if renamed := _rename_outdated(run):
        say(f"paper: {renamed}")
    for stem in list(cost):
        if reason := notebook.left_out(stem, run=run):
            say(f"paper: {stem}: {reason}")
            del cost[stem]
    total = sum(cost.values()) + _PAGES_S
    say(f"paper: {counted(len(cost), 'notebook')}, about {duration_text(total)}")
    with notebook.Kernels() as kernels:
        for stem, expected in cost.items():
            left = duration_text(left_s(cost, seconds))
            say(f"paper: {stem}, about {duration_text(expected)}; {left} left of all")
            parameters = profile.parameters(stem)
            with _timed(seconds, stem):
                try:
                    notebook.run(stem, run=run, parameters=parameters, kernels=kernels)
                except notebook.NotebookError as error:
                    failed[stem] = str(error)
                    say(f"paper: {error}; going on with the rest")
    with _timed(seconds, "claims"):
        say(f"paper: {judge(run)}")
    with _timed(seconds, "render"):
        rendered = render(run, renderer=renderer)
    with _timed(seconds, "check"):
        problems = check()
    return Result(rendered, seconds, failed, problems)


def judge(run: str) -> str:
    """Test the claims ledger on the trials of a run; return a summary of the verdicts.

    The verdicts go to ``runs/NAME/claims``, from where the paper prints them. They are
    made anew only if their inputs have changed.
    """
    from connlab.claims import judging

    existing_run(run)
    return judging.judge(run)


def _rename_outdated(run: str) -> str | None:
    """Keep an outdated run under another name; return a line that says so."""
    from connlab.drive import outdated
    from connlab.publish import reference

    folder = run_folder(run)
    if (changes := outdated.changes(folder)) is None:
        return None
    if folder.resolve() in reference.folders(folder.parent):
        raise ValueError(
            f"run: {run!r} is a reference, which was measured with other {changes}; "
            f"allowed: any other name, or `make render RUN={run}`, measuring nothing"
        )
    kept = outdated.rename_run(folder)
    return (
        f"run {run} was measured with other {changes}; it is kept as {kept.name}, "
        "and all is measured anew"
    )


@contextlib.contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[phase] = time.monotonic() - start
