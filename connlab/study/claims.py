"""The claims ledger: what earlier reports claim, put to the test, one by one.

    paper/claims.yml + trials of a run (or published numbers) -> a verdict each
                                                  -> runs/NAME/claims/results.json

An entry is data: who claims it, the claim in our words, the number as published, the
conditions there and here, and a rule of `connlab.study.rules` over the trials of
one study. Nothing in the ledger can name a verdict: it comes from the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from connlab import schema
from connlab.study import calibration, frames, results, rules
from connlab.study.finding import VERDICTS, Finding, Verdict, untestable
from connlab.study.formatting import counted, listing
from connlab.study.tables import Column, Table

STUDY = "claims"
CASES = "cases"
QUESTION = "Which findings of earlier reports hold here?"


class Claim(BaseModel):
    """One entry of the ledger.

    Exactly one of `study` (with a rule over its trials), `published` (with a rule over
    the published numbers of a table in ``paper/published``) and `untestable` (why it
    cannot be tested here) says where the verdict comes from. A claim that takes several
    studies lists them; its rule tells their trials apart by the column ``study``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[A-Z]\d+[a-z]?$")
    source: str
    says: str
    number: str = ""
    conditions: str
    here: str
    likeness: Literal["high", "medium", "low"]
    primary: bool = True
    figure: str = ""
    study: str | tuple[str, ...] = ""
    published: str = ""
    untestable: str = ""
    rule: dict[str, Any] = Field(default_factory=dict)

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies whose trials the rule takes; none for other claims."""
        named = (self.study,) if isinstance(self.study, str) else self.study
        return tuple(filter(None, named))

    @model_validator(mode="after")
    def _one_origin(self) -> Claim:
        origins = [bool(self.study), bool(self.published), bool(self.untestable)]
        if sum(origins) != 1:
            raise ValueError(f"{self.id}: want one of study, published, untestable")
        if bool(self.rule) == bool(self.untestable):
            raise ValueError(f"{self.id}: a rule is wanted unless it is untestable")
        return self


@dataclass(frozen=True)
class Judged:
    """A claim with what was found."""

    claim: Claim
    finding: Finding


def ledger(path: Path | None = None) -> tuple[Claim, ...]:
    """Return the entries of ``paper/claims.yml``.

    Raises
    ------
    ValueError
        For an entry that breaks the ledger's form, naming it; and for an id that
        stands twice.
    """
    path = path or schema.project_root() / "paper" / "claims.yml"
    claims = tuple(Claim.model_validate(e) for e in yaml.safe_load(path.read_text()))
    ids = [claim.id for claim in claims]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise ValueError(f"{path.name}: {', '.join(twice)} stands more than once")
    return claims


def published(name: str, folder: Path | None = None) -> pd.DataFrame:
    """Return a published table, its repeated tests as rows.

    Columns test_1, test_2 … become one row each, in ``test`` and ``value``.
    """
    folder = folder or schema.project_root() / "paper" / "published"
    table = pd.read_csv(folder / name, comment="#")
    tests = [c for c in table if c.startswith("test_")]
    if not tests:
        return table
    keys = [c for c in table if c not in tests]
    return table.melt(keys, tests, var_name="test", value_name="value")


def judge(claim: Claim, frame: pd.DataFrame | None) -> Finding:
    """Apply a claim's rule; `frame` is None when no study of it was run."""
    if claim.untestable:
        return untestable(claim.untestable)
    if frame is None or frame.empty:
        return untestable(f"study {listing(claim.studies)} was not run")
    return rules.apply(frame, claim.rule)


def judge_all(
    run: str, *, root: str | Path = "runs", path: Path | None = None
) -> tuple[Judged, ...]:
    """Judge every entry of the ledger by the trials of one run."""
    loaded: dict[str, pd.DataFrame | None] = {}
    judged = []
    for claim in ledger(path):
        if claim.published:
            frame = published(claim.published)
        else:
            found = [_study(name, loaded, run, root) for name in claim.studies]
            frame = _together([each for each in found if each is not None])
        judged.append(Judged(claim, judge(claim, frame)))
    return tuple(judged)


def _study(name: str, loaded: dict, run: str, root) -> pd.DataFrame | None:
    if name and name not in loaded:
        try:
            loaded[name] = _load(name, run, root)
        except (FileNotFoundError, frames.RunError):
            loaded[name] = None
    return loaded.get(name)


def _together(found: Sequence[pd.DataFrame]) -> pd.DataFrame | None:
    """Return the trials of several studies as one frame; None without any."""
    if len(found) < 2:
        return found[0] if found else None
    return pd.concat(found, ignore_index=True)


def _load(name: str, run: str, root) -> pd.DataFrame:
    """Return the trials of a study, or the 24 cases, a row for each answer.

    Study 00 has rounds of the floor beside its trials: rows with the arm ``floor``.
    """
    if name == calibration.STUDY:
        rounds = calibration.floor_rows(calibration.load_floors(run, root=root))
        trials = frames.load(run, name, root=root)
        return pd.concat([trials, rounds], ignore_index=True)
    if name != CASES:
        return frames.load(run, name, root=root)
    path = schema.run_folder(run, root=root) / CASES / "cases.jsonl"
    if not path.exists():
        raise FileNotFoundError(path.name)
    return pd.read_json(path, lines=True)


def counts(judged: Sequence[Judged]) -> dict[str, int]:
    """Return how many claims got each verdict."""
    found = [j.finding.verdict for j in judged]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


# ---- for the paper -----------------------------------------------------------

COLUMNS = (
    Column("id", "", ""),
    Column("says", "Claim", ""),
    Column("number", "Published", ""),
    Column("effect", "Found here", ""),
    Column("verdict", "Verdict", ""),
    Column("likeness", "Likeness", ""),
    Column("why", "Because", ""),
)


def table(judged: Sequence[Judged]) -> Table:
    """Return the ledger as a table, in its order."""
    rows = [
        (
            j.claim.id,
            j.claim.says,
            j.claim.number,
            j.finding.effect_text or "—",
            j.finding.verdict,
            j.claim.likeness,
            j.finding.why,
        )
        for j in judged
    ]
    return Table(COLUMNS, tuple(rows), ())


def answer(judged: Sequence[Judged]) -> str:
    """Return one sentence that counts the verdicts."""
    said = [f"{n} {_SAID[word][n > 1]}" for word, n in counts(judged).items() if n]
    return f"Of {counted(len(judged), 'claim')} of earlier reports {listing(said)}."


_SAID: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
    "not testable here": ("is not testable here", "are not testable here"),
}
"""What is said of one claim with a verdict, and of several."""


def write(
    judged: Sequence[Judged], run: str, *, root: str | Path = "runs"
) -> results.Results:
    """Write ``runs/NAME/claims/results.json``, which the paper prints."""
    found = results.bare(STUDY, run=run, number=10, question=QUESTION, root=root)
    found.answer = answer(judged)
    found.table(STUDY, table(judged), caption=_CAPTION)
    for j in judged:
        found.words[j.claim.id] = _word(j)
    for verdict, n in counts(judged).items():
        found.values[verdict.replace(" ", "_")] = {"value": n, "text": str(n)}
    found.write()
    return found


_CAPTION = (
    "What earlier reports claim, and what was found here: effect with its 95 % "
    "interval over trials, verdict, and how alike the conditions are."
)


def _word(j: Judged) -> Mapping[str, Any]:
    effect = j.finding.effect
    return {
        "word": j.finding.verdict,
        "effect": effect and results.value_of(effect, j.finding.unit),
        "verdict": f"{j.claim.says} {j.finding.verdict.capitalize()}.",
        "rule": j.finding.why,
    }
