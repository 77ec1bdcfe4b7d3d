"""How the studies of a run ended, how precise they became, and which profile they fit.

manifest of a run -> sweeps of a study -> budget, what ended them, widest interval
                  -> studies whose every interval met its target
profiles          -> the one whose durations are those of the run
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connlab import profiles
from connlab.publish import fragments
from connlab.publish.results import Run
from connlab.publish.sources import look_up
from connlab.study.formatting import plain
from connlab.study.metrics import metric

_REASONS = {
    r"the budget of .* is used": "budget",
    r"every target was met": "targets",
    r"no more trials would help": "no more trials would help",
    r"the most trials allowed": "most trials allowed",
    r"(all .*blocks|the one block|.* per cell) (is|are) there": "planned trials",
}
"""What `connlab.drive.sweeps` says when a sweep ends, and what a table says of it."""
_FEW = re.compile(r"fewer than (\d+) in some")
_DEFAULT = "quick"
"""The profile of a plain ``make paper``."""


@dataclass(frozen=True)
class Ending:
    """How the sweeps of a study ended, as a table says it."""

    budget: str
    by: str
    widest: str
    """The interval that is widest against its target, and of what it is."""
    target: str
    reached: bool
    """Whether every interval met its target; of no target, that there was none."""


def ending(entry: Mapping[str, Any]) -> Ending | None:
    """Read how a study ended from its entry in the manifest; None where none says it.

    Of several sweeps budgets and reasons are joined, each once.
    """
    sweeps = [*(entry.get("earlier") or {}).values(), entry.get("stopping")]
    sweeps = [sweep for sweep in sweeps if sweep]
    if not sweeps:
        return None
    budgets = [(s.get("rule") or {}).get("budget_s") for s in sweeps]
    reasons = [_reason(s.get("reason") or "") for s in sweeps]
    widths = [w for s in sweeps for w in s.get("widths") or ()]
    known = [w for w in widths if w.get("half_width") is not None]
    widest = max(known, key=lambda w: w["half_width"] / w["target"], default=None)
    return Ending(
        budget="; ".join(dict.fromkeys(_duration(b) for b in budgets if b)) or "—",
        by="; ".join(dict.fromkeys(filter(None, reasons))) or "—",
        widest=_width(widest) if widest else "—",
        target=f"±{100 * widest['target']:.3g}\u202f%" if widest else "—",
        reached=all(map(_reached, sweeps)),
    )


def _reached(sweep: Mapping[str, Any]) -> bool:
    """Whether all targets were met; an older manifest says it of each interval."""
    if "met" in sweep:
        return bool(sweep["met"])
    return all(width.get("met") for width in sweep.get("widths") or ())


def _reason(text: str) -> str:
    """Return a reason in a word or two; one that is not known as it stands."""
    words = next((w for r, w in _REASONS.items() if re.match(r, text)), text)
    few = _FEW.search(text)
    return f"{words}, with fewer than {few[1]} in some cells" if few else words


def _width(width: Mapping[str, Any]) -> str:
    """Set a width with so many decimals that it does not seem to meet a target."""
    half, target = width["half_width"], width["target"]
    places = next((n for n in (1, 2, 3) if round(half, n + 2) > target), 1)
    return f"{metric(width['metric']).label} ±{100 * half:.{places}f}\u202f%"


def _duration(seconds: float) -> str:
    whole = seconds % 60 == 0
    return f"{plain(seconds / 60)} min" if whole else f"{plain(seconds)} s"


def targets(run: Run) -> str:
    """Say how many studies reached their targets; nothing where none has any."""
    all_endings = [ending(study.entry) for study in run.studies.values()]
    known = [end for end in all_endings if end and end.target != "—"]
    reached = sum(end.reached for end in known)
    text = fragments.fill("targets.qmd", studies=len(known), reached=reached)
    return text.strip()


def command(run: Run) -> str:
    """Return the command that measures as a run was measured.

    That of the profile whose windows are those of all its studies, if there is one.
    """
    fits = [name for name in profiles.names() if _fits(run, profiles.load(name))]
    if len(fits) != 1 or fits[0] == _DEFAULT:
        return "make paper"
    return f"make paper PROFILE={fits[0]}"


def _fits(run: Run, profile: profiles.Profile) -> bool:
    """Whether windows are as long as a profile says, of all studies that it has."""
    windows = []
    for stem, parameters in profile.notebooks.items():
        study = run.studies.get(stem.partition("-")[2])
        measured = study and look_up(study.entry, "parameters.duration")
        if measured is not None and "duration" in parameters:
            windows.append((parameters["duration"], measured))
    return bool(windows) and all(wanted == measured for wanted, measured in windows)
