"""The entries of the ledger, and the verdict on each.

    paper/claims.yml, rereadings.yml + trials of a run (or published numbers)
        -> a verdict each -> runs/NAME/claims/results.json

An entry is data: who claims it, the claim in our words, a quotation, the number as
published, the conditions there and here, and a rule of `connlab.claims.rules` over the
trials of one study. Nothing in the ledger can name a verdict: it comes from the rule.
``rereadings.yml`` holds what we read in a report's numbers though nobody claims it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from connlab import figures, notebook, schema
from connlab.claims import forest
from connlab.claims.finding import VERDICTS, Finding, RuleError, Untestable, Verdict
from connlab.claims.published import published
from connlab.claims.rules import apply
from connlab.drive.programs import described, unknown
from connlab.parameters import suggestion
from connlab.report import RATIOS, Report
from connlab.study import calibration, frames
from connlab.study.formatting import counted, listing

STUDY = "claims"
CASES = "cases"
QUESTION = "Which findings of earlier reports hold here?"


class Claim(BaseModel):
    """One entry of the ledger.

    Exactly one of `study` (with a rule over its trials), `published` (with a rule over
    the published numbers of a table in ``paper/published``) and `untestable` (why it
    cannot be tested here) says where the verdict comes from. A claim that takes several
    studies lists them; its rule tells their trials apart by the column ``study``.
    `columns` names those of a quotation that is the row of a table. `instead` says in
    short what stands here for something that the claim names; it is printed with the
    effect, all of `here` is not. `again` names the claim that this entry tests once
    more, in another setting.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[A-Z]\d+[a-z]?$")
    source: str
    says: str
    quote: str = ""
    line: int | None = None
    columns: str = ""
    number: str = ""
    conditions: str
    here: str
    instead: str = ""
    likeness: Literal["high", "medium", "low"]
    figure: str = ""
    study: str | tuple[str, ...] = ""
    published: str = ""
    untestable: str = ""
    again: str = ""
    rule: dict[str, Any] = Field(default_factory=dict)

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies whose trials the rule takes; none for other claims."""
        names = (self.study,) if isinstance(self.study, str) else self.study
        return tuple(filter(None, names))

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        origins = [bool(self.study), bool(self.published), bool(self.untestable)]
        if sum(origins) != 1:
            raise ValueError("want one of study, published, untestable")
        if bool(self.rule) == bool(self.untestable):
            raise ValueError("a rule is wanted unless it is untestable")
        return self

    @model_validator(mode="after")
    def _quoted_with_its_line(self) -> Self:
        if bool(self.quote) != (self.line is not None):
            raise ValueError("want both quote and line, or neither")
        return self


@dataclass(frozen=True)
class Judged:
    """A claim with its finding."""

    claim: Claim
    finding: Finding


def ledger(path: Path | None = None) -> tuple[Claim, ...]:
    """Return the entries of ``paper/claims.yml``.

    ValueError has a line for each entry of the wrong form, with its id: a key or value
    that is not allowed, a study or published table that the project does not have; then
    for an id that stands twice, or a claim that an entry tests again and that is not
    there.
    """
    path = path or schema.project_root() / "paper" / "claims.yml"
    claims, errors = [], []
    for place, entry in enumerate(_entries(path), 1):
        try:
            claims.append(Claim.model_validate(entry))
            wrong = _unknown(claims[-1])
        except ValidationError as error:
            wrong = [described(e, Claim.model_fields) for e in error.errors()]
        id_ = entry.get("id") if isinstance(entry, dict) else None
        errors += [f"{path.name}: {id_ or f'entry {place}'}: {text}" for text in wrong]
    if errors:
        raise ValueError("\n".join(errors))
    ids = [claim.id for claim in claims]
    repeated = sorted({i for i in ids if ids.count(i) > 1})
    if repeated:
        raise ValueError(f"{path.name}: {', '.join(repeated)} stands more than once")
    for claim in claims:
        if claim.again not in ("", *ids):
            what = f"again: {unknown('claim', claim.again, ids)}"
            raise ValueError(f"{path.name}: {claim.id}: {what}")
    return tuple(claims)


def _entries(path: Path) -> list[Any]:
    try:
        entries = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        text = " ".join(str(error).split())
        hint = "a text with a colon or a quotation mark in it stands in quotes"
        raise ValueError(f"{path.name}: {text} ({hint})") from None
    if not isinstance(entries, list):
        raise ValueError(f"{path.name}: want a list of entries, each from '- id: …' on")
    return entries


def _unknown(claim: Claim) -> list[str]:
    """Name what a claim asks for that the project does not have.

    Its studies, its published table, and of its rule the factors, metrics and others
    that are columns of trials or of that table. Ratios that a study prints, the floor
    of study 00 and the 24 cases have columns of their own, which the run knows.
    """
    folder = schema.project_root() / "paper" / "published"
    studies = [*map(notebook.study_of, notebook.every()), CASES]
    wrong = [unknown("study", s, studies) for s in claim.studies if s not in studies]
    tables = sorted(path.name for path in folder.glob("*.csv"))
    if claim.published and claim.published not in tables:
        wrong.append(unknown("published table", claim.published, tables))
    if wrong or {CASES, calibration.STUDY} & {*claim.studies}:
        return wrong
    columns, where = [column.name for column in schema.COLUMNS], "runs/README.md"
    if claim.published:
        columns, where = list(published(claim.published)), claim.published
    return [
        f"unknown {what} {name!r}; {suggestion(str(name), columns)}{where} has them all"
        for what, name in _asked(claim.rule)
        if name not in columns
    ]


def _asked(rule: Any) -> Iterator[tuple[str, str]]:
    """Give the factors, metrics and other columns that a rule and its parts name."""
    if not isinstance(rule, dict) or rule.get("rule") == "printed_ratio":
        return
    if "metric" in rule:
        yield "metric", rule["metric"]
    for side in ("arm", "baseline"):
        if isinstance(cell := rule.get(side), dict):
            yield from (("factor", name) for name in cell)
    yield from (("factor", rule[key]) for key in ("factor", "other") if key in rule)
    yield from (("column", rule[key]) for key in ("clients", "by") if rule.get(key))
    if isinstance(times := rule.get("times"), dict):
        yield from (("column", name) for name in times)
    for part in rule.get("parts") or ():
        yield from _asked(part)


def judge_all(
    run: str,
    *,
    root: str | Path = "runs",
    path: Path | None = None,
    studies: dict[str, tuple] | None = None,
) -> tuple[Judged, ...]:
    """Judge every entry of the ledger by the trials of one run.

    `studies` keeps what was read of the run, for the next ledger. RuleError names the
    claim whose rule cannot be applied.
    """
    studies = {} if studies is None else studies
    judged = []
    for claim in ledger(path):
        for name in {*claim.studies} - {*studies}:
            ratios = schema.study_folder(run, name, root=root) / RATIOS
            printed = pd.read_csv(ratios) if ratios.is_file() else None
            try:
                studies[name] = _load(name, run, root), printed, "was not run"
            except frames.RunError:
                studies[name] = None, None, "cannot be read"
        trials, printed = (
            _together([studies[name][i] for name in claim.studies]) for i in (0, 1)
        )
        if claim.published:
            trials = published(claim.published)
        if trials is None:  # as of a claim that cannot be tested here
            missing = (f"study {name} {studies[name][2]}" for name in claim.studies)
            why = claim.untestable or "; ".join(missing)
            judged.append(Judged(claim, Untestable(why).finding))
            continue
        try:
            judged.append(Judged(claim, apply(trials, claim.rule, printed)))
        except RuleError as error:
            raise RuleError(f"claim {claim.id}: {error}") from None
    return tuple(judged)


def _together(tables: Sequence[pd.DataFrame | None]) -> pd.DataFrame | None:
    """Join the tables that hold anything; None without one."""
    there = [table for table in tables if table is not None and not table.empty]
    if len(there) > 1:
        return pd.concat(there, ignore_index=True)
    return there[0] if there else None


def _load(name: str, run: str, root: str | Path) -> pd.DataFrame | None:
    """Return the trials of a study, or the answers of the 24 cases; None without any.

    RunError for trials that do not mix. Study 00 has rounds of the floor beside its
    trials: rows with the arm ``floor`` and a column per cost.
    """
    if name == CASES:
        path = schema.run_folder(run, root=root) / CASES / "cases.jsonl"
        if not (cases := schema.read_log(path).trials):
            return None
        return pd.DataFrame(cases).drop_duplicates(["subject", "question"], keep="last")
    try:
        trials = frames.load(run, name, root=root, measure=False, warn=False)
    except (FileNotFoundError, frames.NoTrials):
        return None
    if name != calibration.STUDY:
        return trials
    costs = calibration.load_floors(run, root=root)
    rounds = costs.pivot(index="repeat", columns="metric", values="value").reset_index()
    rounds = rounds.assign(arm="floor", block=rounds["repeat"], ok=True, failure=None)
    return pd.concat([trials, rounds], ignore_index=True)


# ---- for the paper -----------------------------------------------------------

LABELS = {
    "id": "",
    "says": "Claim",
    "number": "Published",
    "effect": "Found here",
    "verdict": "Verdict",
    "likeness": "Likeness",
    "why": "Because",
}
"""Heads of the table's columns."""


def table(judged: Sequence[Judged]) -> pd.DataFrame:
    """Return the ledger as a table of text, in its order."""
    rows = [
        (c.id, c.says, c.number, found(c, f), f.verdict, c.likeness, f.why)
        for c, f in ((j.claim, j.finding) for j in judged)
    ]
    return pd.DataFrame(rows, columns=list(LABELS))


def found(claim: Claim, finding: Finding) -> str:
    """Return the effect, of which cells it is, and what stands for what was claimed."""
    about = "; ".join(filter(None, [finding.of, claim.instead]))
    return f"{finding.effect_text} ({about})".lstrip() if about else finding.effect_text


def answer(judged: Sequence[Judged]) -> str:
    """Return one sentence that counts claims and verdicts."""
    claims = counted(sum(not j.claim.again for j in judged), "claim")
    counts = Counter(j.finding.verdict for j in judged)
    numbers = [(verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict]]
    clauses = [f"{n} {_CLAUSES[verdict][n > 1]}" for verdict, n in numbers]
    tests = counted(len(judged), "test")
    return f"We put {claims} of earlier reports to {tests}: {listing(clauses)}."


_CLAUSES: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
    "not testable here": ("is not testable here", "are not testable here"),
}
"""Clause for one claim with a verdict, and for several."""


def write(
    judged: Sequence[Judged],
    run: str,
    *,
    rereadings: Sequence[Judged] = (),
    root: str | Path = "runs",
) -> None:
    """Write ``runs/NAME/claims/results.json``, which the paper prints."""
    report = Report.without_trials(
        STUDY, run=run, number=10, question=QUESTION, root=root
    )
    report.answer(answer(judged))
    report.table(STUDY, table(judged), LABELS)
    if rereadings:
        report.table("rereadings", table(rereadings), LABELS)
    both = (*judged, *rereadings)
    ratios = forest.rows({entry.claim.id: entry.finding for entry in both})
    if len(ratios):
        figures.style()
        report.figure(forest.NAME, forest.draw(ratios), ratios)
    report.write()
