"""When a sweep has measured enough.

    n_min whole blocks -> look -> block -> look -> … until each metric of each cell is
        as narrow as its target, or n_max blocks are measured, or the budget is used

What has to be narrow is what will be printed. Of a cell measured alone that is its own
interval. Of servers that took turns it is the ratio of each to the baseline: its
interval is made of the log ratios of the trials, and holds together with those of all
other pairs of the sweep (Bonferroni). Its variance is moderated by the other pairs of
its set (`connlab.variances`), as in what the study prints. More trials go to whole
sets, only those that have a ratio still too wide.

Two studies print other comparisons of the same trials, at which the rule does not look:
study 08 each model against itself with the fewest workers, study 13 also each runtime
against the model that waits in the same way, in one family with those to the baseline.
Their printed intervals may stay wider than the target.

The rule looks after whole blocks only, so that every cell has as many trials as the
others when it is judged. Stopping as soon as an interval is narrow makes it cover
somewhat less than it says; n_min keeps that loss small. Study 10 simulates it for the
mean of one cell: 0.90 to 0.94 in place of 0.95 where the first look is after four
trials, 0.92 to 0.95 after five. Ratios that stop together, each at the level of their
family, lose less: simulated families of 1 to 5 held all at once in 0.92 to 0.98 of
sweeps, of 15 in 0.97 and more, and of 8 to 45 whose trials a budget gave to the widest
in 0.94 and more.

With a budget, time beyond n_min blocks goes where intervals are widest: a round then
holds only the sets and cells that are furthest from their target.

Without targets n_min blocks are all, but for those that other programs spoilt: where
they leave a cell too few trials for an interval, up to `SPARE` blocks follow.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.drive.programs import unknown
from connlab.variances import (
    LEVEL,
    TRIALS_MIN,
    Fit,
    level_of_each,
    moderated_by_cell,
)

#: default relative half-widths to reach
TARGETS = {"throughput_rps": 0.05, "response_p99_s": 0.10}
#: the same for the ratios of servers that take turns
RATIO_TARGETS = {"throughput_rps": 0.05, "server_cpu_per_request_s": 0.05}
#: where a row keeps the log ratios to its baseline
RATIOS = "log_ratios"
#: n_max when only targets are given, as a multiple of n_min
_N_MAX = 3
#: blocks that may follow where a busy machine spoilt too many trials for an interval
SPARE = 2
#: with a budget, a round has the cells at least this near to the worst one
_NEAR_WORST = 0.5
#: gates that a trial may fail and the next one of its cell pass
TRANSIENT = {"quiet", "lag"}
_UNITS = {"h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0, "": 1.0}


@dataclass(frozen=True)
class Rule:
    """When to stop: at least `n_min` trials per cell, at most `n_max`.

    `sets` holds the cells that are compared with one baseline; a cell in none is alone.
    `shared` holds those that share trials, which may be several sets.
    """

    n_min: int
    n_max: int
    targets: Mapping[str, float]
    budget_s: float | None = None
    sets: tuple[tuple[int, ...], ...] = ()
    shared: tuple[tuple[int, ...], ...] = ()

    @property
    def most(self) -> int:
        """The trials of a cell at most, with those in place of spoilt ones."""
        return self.n_max + (0 if self.targets else SPARE)


@dataclass(frozen=True)
class Width:
    """How wide the interval of one metric in one cell is.

    `half_width` is relative, to the mean or, of a `ratio`, to the geometric mean; None
    where usable trials are missing (two, of a ratio `TRIALS_MIN`). Then `hope`
    says whether more trials may help: they do where one was usable or the machine was
    not quiet, they do not where a limit was met.
    """

    cell: int
    metric: str
    n: int
    half_width: float | None
    target: float
    hope: bool = False
    ratio: bool = False

    @property
    def met(self) -> bool:
        return self.half_width is not None and self.half_width <= self.target

    @property
    def pending(self) -> bool:
        """Whether more trials are worth their time."""
        return self.hope if self.half_width is None else not self.met

    @property
    def need(self) -> float:
        """How far it is from its target; 1 is just met."""
        return math.inf if self.half_width is None else self.half_width / self.target


def rule(
    *,
    trials: int,
    max_trials: int | None = None,
    targets: Mapping[str, float] | float | None = None,
    budget: float | str | None = None,
    metrics: Sequence[str] = (),
    in_turns: bool = False,
) -> Rule:
    """Return the rule that arguments of `connlab.drive.sweep` mean.

    With `targets` or `budget` alone there are at most three times `trials`. ValueError
    for numbers that cannot be, and metrics that are not in `metrics`.
    """
    if trials < 1:
        raise ValueError(f"trials: {trials}; allowed: 1 or more")
    if max_trials is not None and max_trials < trials:
        raise ValueError(f"max_trials: {max_trials}; allowed: {trials} (trials) up")
    if max_trials is None and targets is None and budget is None:
        return Rule(trials, trials, {})
    default = RATIO_TARGETS if in_turns else TARGETS
    if isinstance(targets, int | float):
        targets = dict.fromkeys(default, float(targets))
    targets = dict(default if targets is None else targets)
    for metric, width in targets.items():
        if metrics and metric not in metrics:
            raise ValueError(f"targets: {unknown('metric', metric, metrics)}")
        if not 0 < width < 1:
            raise ValueError(f"targets: {metric}: {width}; allowed: between 0 and 1")
    most = _N_MAX * trials if max_trials is None else max_trials
    return Rule(trials, most, targets, None if budget is None else seconds(budget))


def seconds(text: float | str, *, name: str = "budget") -> float:
    """Return a span of time in seconds: ``90``, ``"90s"``, ``"10m"``, ``"1h30m"``.

    ValueError for any other text, with the `name` of what it was given for.
    """
    if isinstance(text, int | float):
        total_s = float(text)
    else:
        number = r"(\d+(?:\.\d+)?)\s*"
        spans = re.findall(rf"{number}(h|min|m|s|)", text)
        whole = rf"({number}(h|min|m|s)\s*)*({number})?"
        if not spans or not re.fullmatch(whole, text.strip()):
            raise ValueError(f"{name}: {text!r}; allowed: 90, '90s', '10m', '1h30m'")
        total_s = sum(float(count) * _UNITS[unit] for count, unit in spans)
    if not total_s > 0:
        raise ValueError(f"{name}: {text!r}; allowed: more than 0 s")
    return total_s


def relative_half_width(values: Sequence[float]) -> float | None:
    """Return the half-width of the 95 % t interval of a mean, over that mean.

    None for fewer than two values; infinite for a mean of 0 whose values differ.
    """
    if len(values) < 2:
        return None
    fit = Fit.of(values)
    if fit.error == 0:
        return 0.0
    return fit.reach(LEVEL) / abs(fit.mean) if fit.mean else math.inf


def widths(rows: Sequence[Sequence[Mapping[str, Any]]], rule: Rule) -> list[Width]:
    """Return the width of the interval of each target metric in each cell.

    `rows` are, per cell, its trials as flat rows (`connlab.schema.flatten`); only those
    count that no gate leaves out, and of them those that have the metric. A trial in
    turns has its log ratios to the baseline under `RATIOS`; a baseline has none, and no
    width.
    """
    of_ratios = {metric: _ratio_widths(rows, metric, rule) for metric in rule.targets}
    result = []
    for cell, trials in enumerate(rows):
        if any(row.get(RATIOS) == {} for row in trials):
            continue
        for metric, target in rule.targets.items():
            ratio = cell in of_ratios[metric]
            values = _values(trials, metric)
            half = of_ratios[metric][cell] if ratio else relative_half_width(values)
            hope = 0 < len(values) < (TRIALS_MIN if ratio else 2) or any(
                _spoilt(row) for row in trials if row.get(metric) is not None
            )
            result.append(Width(cell, metric, len(values), half, target, hope, ratio))
    return result


def _ratio_widths(
    rows: Sequence[Sequence[Mapping]], metric: str, rule: Rule
) -> dict[int, float | None]:
    """Return the widths of the ratios, by cell, each moderated by those of its set."""
    cells = [cell for cell, trials in enumerate(rows) if _has_ratio(trials)]
    set_of = {cell: members for members in rule.sets for cell in members}
    unmoderated = [_fit(rows[cell], metric) for cell in cells]
    fits = moderated_by_cell(unmoderated, [set_of.get(cell) for cell in cells])
    widths = [ratio_half_width(fit, len(cells)) for fit in fits]
    return dict(zip(cells, widths, strict=True))


def _fit(trials: Sequence[Mapping], metric: str) -> Fit:
    """Fit the log ratios of a cell, as printed ones are (`connlab.intervals`)."""
    used = [(row.get(RATIOS) or {}, row) for row in trials if is_used(row)]
    used = [(logs, row) for logs, row in used if logs.get(metric) is not None]
    off = [row.get("cores_off") or 0.0 for _, row in used]
    return Fit.of([logs[metric] for logs, _ in used], off)


def _has_ratio(trials: Sequence[Mapping]) -> bool:
    return any(row.get(RATIOS) for row in trials)


def _values(trials: Sequence[Mapping], metric: str) -> list[float]:
    """Return the metric of each trial that counts, in turns its log ratio."""
    used = [row for row in trials if is_used(row)]
    if _has_ratio(trials):
        used = [row.get(RATIOS) or {} for row in used]
    return [row[metric] for row in used if row.get(metric) is not None]


def is_used(row: Mapping[str, Any]) -> bool:
    """Whether no failure and no gate leaves a trial out."""
    return not row.get("failure") and not row.get("excluded_by")


def ratio_half_width(fit: Fit, family: int) -> float | None:
    """Return how far the bounds of a ratio lie from it: 0.05 for ±5 %.

    By t on logarithms, at the level that lets all pairs of the family hold together
    (Bonferroni); None for fewer than `TRIALS_MIN` trials.
    """
    if fit.n < TRIALS_MIN:
        return None
    return math.expm1(min(fit.reach(level_of_each(family)), 100.0))


def _spoilt(row: Mapping[str, Any]) -> bool:
    """Whether only transient gates leave a trial out."""
    failed = set((row.get("excluded_by") or "").split(", ")) - {""}
    return not row.get("failure") and bool(failed) and failed <= TRANSIENT


def next_round(rows: Sequence[Sequence[Mapping]], rule: Rule) -> tuple[int, ...] | str:
    """Return the cells to measure next, or why no more trials are needed: a sentence.

    Called after whole rounds only. Without a budget a round is all cells that are
    measured alone, if one of them is too wide, and all sets that have a ratio too wide.
    """
    counts = tuple(len(trials) for trials in rows)
    fewest = min(counts)
    if fewest < rule.n_min:
        return tuple(cell for cell, n in enumerate(counts) if n == fewest)
    if not rule.targets and (again := _spoilt_cells(rows, rule)):
        return again
    reached = widths(rows, rule) if rule.targets else ()
    if not reached:  # nor where a set is its baseline alone
        return _are_there(counts)
    pending = [width for width in reached if width.pending]
    if not pending:
        if unmet := {width.cell for width in reached if not width.met}:
            return (
                f"no more trials would help after {_blocks(counts)}: {len(unmet)} of "
                f"{len(rows)} cells have no interval, the others met their targets"
            )
        return f"every target was met after {_blocks(counts)}"
    units = _units(rule, reached, len(rows))
    need: dict[int, float] = {}
    for width in pending:
        if counts[width.cell] < rule.n_max:
            unit = units[width.cell]
            need[unit] = max(width.need, need.get(unit, 0.0))
    if not need:
        return (
            f"the most trials allowed ({max(counts)} per cell) are there; "
            f"{len({width.cell for width in pending})} of {len(rows)} cells are wider "
            "than their target or have too few trials that may be used"
        )
    if rule.budget_s is not None:
        limit = max(need.values()) * _NEAR_WORST  # infinite where the worst is
        need = {unit: ratio for unit, ratio in need.items() if ratio >= limit}
    return tuple(cell for cell, unit in enumerate(units) if unit in need)


def _blocks(counts: Sequence[int]) -> str:
    """Return how many trials cells have, in blocks where it is as many each."""
    low, high = min(counts), max(counts)
    if low < high:
        return f"{low} to {high} trials per cell"
    return "1 block" if low == 1 else f"{low} blocks"


def _are_there(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    if low < high:
        return f"{_blocks(counts)} are there"
    return "the one block is there" if low == 1 else f"all {low} blocks are there"


def _spoilt_cells(rows: Sequence[Sequence[Mapping]], rule: Rule) -> tuple[int, ...]:
    """Return the cells to measure again, as spoilt trials left too few for an interval.

    What shares trials with such a cell comes along, and with one that is measured alone
    all of that kind: their trials are paired by block.
    """
    together = rule.shared or rule.sets
    in_set = {n: members for members in together if len(members) > 1 for n in members}
    alone = tuple(n for n in range(len(rows)) if n not in in_set)
    again: set[int] = set()
    for cell, trials in enumerate(rows):
        used = sum(map(is_used, trials))
        if (
            used < TRIALS_MIN <= rule.n_min
            and len(trials) < rule.most
            and any(map(_spoilt, trials))
        ):
            again.update(in_set.get(cell, alone))
    return tuple(sorted(again))


def _units(rule: Rule, reached: Sequence[Width], cells: int) -> list[int]:
    """Return for each cell the number of the unit that it is measured with.

    A unit is what shares trials; without a budget all cells alone are one, which is a
    block.
    """
    in_sets = {width.cell for width in reached if width.ratio}
    units = list(range(cells)) if rule.budget_s is not None else [0] * cells
    for members in rule.shared or rule.sets:
        if in_sets & set(members):
            for cell in members:
                units[cell] = -1 - members[0]
    return units
