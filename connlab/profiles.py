"""Profiles: which notebooks a paper needs, with which parameters.

A profile is ``notebooks/profiles/NAME.yaml``: a line about it, and for each notebook
the parameters that differ from those the notebook itself states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from connlab import notebook
from connlab.parameters import suggestion

_KEYS = ["about", "notebooks", "seconds"]


class ProfileError(ValueError):
    """There is no such profile, or it does not fit the notebooks."""


@dataclass(frozen=True)
class Profile:
    """What one ``make paper`` measures."""

    name: str
    about: str
    notebooks: Mapping[str, Mapping[str, Any]]
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What notebooks took where the profile was planned, for the estimate."""

    def parameters(
        self, nb: str | Path, given: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the parameters for a notebook: the profile's, and `given` over them.

        None are the profile's if the notebook is not in it. More `trials` than its
        `max_trials` raise this limit, unless it is given too.
        """
        given = given or {}
        values = {**self.notebooks.get(Path(nb).stem, {}), **given}
        most, trials = values.get("max_trials"), given.get("trials")
        if "max_trials" not in given and isinstance(most, int):
            values["max_trials"] = max(most, trials if isinstance(trials, int) else 0)
        return values


def home() -> Path:
    """Return the directory of the project's profiles."""
    return notebook.home() / "profiles"


def names() -> list[str]:
    """Return the profiles there are, the shortest to run first."""
    rank = {"smoke": 0, "quick": 1, "full": 2}
    stems = [p.stem for p in home().glob("*.yaml")]
    return sorted(stems, key=lambda name: (rank.get(name, 3), name))


def load(name: str) -> Profile:
    """Read a profile and check that each notebook in it exists.

    ProfileError names the profile or the notebook, and those there are; of seconds that
    are none what is allowed.
    """
    path = home() / f"{name}.yaml"
    if not path.is_file():
        raise ProfileError(_unknown("profile", name, names()))
    try:
        data = _table(yaml.safe_load(path.read_text("utf-8")), path.name)
    except yaml.YAMLError as error:
        raise ProfileError(f"{path.name}: {' '.join(str(error).split())}") from None
    for key in data:
        if key not in _KEYS:
            raise ProfileError(f"{path.name}: {_unknown('key', key, _KEYS)}")
    stems = [p.stem for p in notebook.every()]
    notebooks, seconds = (
        _table(data.get(key), f"{path.name}: {key}") for key in ("notebooks", "seconds")
    )
    for stem in (*notebooks, *seconds):
        if stem not in stems:
            raise ProfileError(f"{path.name}: {_unknown('notebook', stem, stems)}")
    for stem, took in seconds.items():
        if type(took) not in (int, float) or not took >= 0:
            where = f"{path.name}: seconds: {stem}"
            raise ProfileError(f"{where}: {took!r}; allowed: a number from 0 on")
    return Profile(
        name=name,
        about=str(data.get("about", "")),
        notebooks={
            s: _table(notebooks[s], f"{path.name}: {s}") for s in sorted(notebooks)
        },
        seconds={s: float(t) for s, t in seconds.items()},
    )


def _table(value: Any, where: str) -> dict[str, Any]:
    """Return names and values, none for nothing; ProfileError for anything else."""
    if not isinstance(value or {}, dict):
        raise ProfileError(f"{where}: names and values are wanted")
    return value or {}


def _unknown(kind: str, word: object, known: list[str]) -> str:
    names = ", ".join(known) or "none"
    return f"no {kind} {word!r}; {suggestion(str(word), known)}there are: {names}"
