"""Which cells kept their connections, and which rows say yes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from connlab.claims.finding import (
    Finding,
    RuleError,
    Untestable,
    cell_text,
    if_few,
    measured,
)
from connlab.drive.programs import unknown
from connlab.intervals import TRIALS_MIN
from connlab.study.formatting import listing
from connlab.study.frames import Cell, kept_all, not_accepted, select

_LEVELS = {
    "right": "as claimed at",
    "wrong": "otherwise at",
    "mixed": "now so, now otherwise at",
    "waiting": "not all accepted by the end at",
    "missing": "not measured at",
}


def survives(
    trials: pd.DataFrame,
    *,
    arm: Cell,
    passes: Sequence[int] = (),
    fails: Sequence[int] = (),
) -> Finding:
    """Judge whether cells pass and fail at the connections at which the claim says so.

    A cell passes when every trial of it kept all its connections and met no failure;
    it fails when none did. Levels that were not measured are named and left out, and
    so are those at which a trial ended with connections that the kernel kept and the
    server had yet to accept: it neither carried nor lost them. Trials that no server
    could have passed do not count (`_put_to_servers`). A server that carried
    more than a level that was not measured carried that, too. A level is tried and not
    estimated, so that one trial tells; where they are too few for an interval, the
    finding says how many. Of a level that was tried with several numbers of server
    processes those with the most count, as each has descriptors of its own.
    """
    tried_at = _by_most_processes(select(_put_to_servers(trials), arm))
    cells = dict(list(tried_at.groupby("connections")))
    none = trials.iloc[:0]
    most = max((n for n, c in cells.items() if _outcome(c, True) == "right"), default=0)
    levels: dict[str, list[str]] = {}
    for level, passing in [(n, True) for n in passes] + [(n, False) for n in fails]:
        outcome = _outcome(cells.get(level, none), passing)
        if passing and outcome == "missing" and level < most:
            outcome = "right"
        levels.setdefault(outcome, []).append(str(level))
    clauses = [f"{_LEVELS[k]} {listing(levels[k])}" for k in _LEVELS if k in levels]
    tried = [len(kept_all(cells[n])) for n in (*passes, *fails) if n in cells]
    why = f"connections: {'; '.join(clauses)}{if_few(*filter(None, tried))}"
    if levels.keys() <= {"missing", "waiting"}:
        raise Untestable(why)
    if "wrong" in levels and "right" not in levels:
        return Finding("does not hold", why)
    return Finding("holds" if levels.keys() == {"right"} else "holds in part", why)


_NO_CLIENT = ("unavailable: ", "client-failed: ", "host-lost: ")
"""What failures begin with after which nobody knows what a server would have kept."""
_OF_CLIENTS = ("limit-bound:descriptors", "limit-bound:ports")
"""Labels of limits that a client may meet, too."""


def _put_to_servers(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that tell how many connections a server keeps.

    Those without a client do not, nor do those whose client had no descriptors or
    ports left for its own side of connections while the server refused nobody.
    """
    unknown = pd.Series(pd.NA, index=trials.index, dtype="string")
    failure, label, refused = (
        trials.get(name, unknown).astype("string")
        for name in ("failure", "label", "refused_reason")
    )
    no_client = failure.str.startswith(_NO_CLIENT, na=False)
    of_client = failure.isna() & refused.isna() & label.isin(_OF_CLIENTS)
    return trials[~(no_client | of_client).astype(bool)]


def _processes(trials: pd.DataFrame) -> pd.Series:
    """Return of each trial how many processes its server had."""
    one = pd.Series(1, index=trials.index)
    return trials.get("processes", one).fillna(1).astype(int)


def _by_most_processes(trials: pd.DataFrame) -> pd.DataFrame:
    processes = _processes(trials)
    most = processes.groupby(trials["connections"]).transform("max")
    return trials[processes == most]


def _outcome(cell: pd.DataFrame, passing: bool) -> str:
    kept = kept_all(cell)
    if kept.empty:
        return "missing"
    if (kept & not_accepted(cell)).any():
        return "waiting"
    if kept.any() and not kept.all():
        return "mixed"
    return "right" if kept.all() == passing else "wrong"


def outlasts(trials: pd.DataFrame, *, arm: Cell, baseline: Cell) -> Finding:
    """Judge whether one cell holds at more connections than another.

    It does where every trial kept all its connections up to a level at which the other
    broke. Limits that lie between the same two levels are not told apart, whichever of
    these a cell was tried at, and what was never tried is no limit; nor is a level at
    which connections waited to be accepted, which was not carried either.
    Servers of as many processes are compared, as each process has its own descriptors;
    the fewest processes that tell the two apart decide. Where few trials made the
    levels on both sides of a limit, the finding says how many.
    """
    tried = _put_to_servers(trials)
    sides = [_whole_up_to(measured(tried, cell)) for cell in (arm, baseline)]
    why = "never measured with as many processes"
    for processes in sorted(sides[0].keys() & sides[1].keys()):
        y, x = (side[processes] for side in sides)
        why = f"whole up to {y.whole} connections, against {x.whole}"
        if y.whole >= x.broke or x.whole >= y.broke:
            why += if_few(*y.trials, *x.trials)
            return Finding("holds" if y.whole >= x.broke else "does not hold", why)
        lowest = min(y.whole, x.whole)
        if lowest in (y.highest, x.highest):
            why += f", and {lowest} was the most that was tried"
        elif y.whole != x.whole:
            why += ", and no level that was tried tells them apart"
    raise Untestable(why)


class _Limit(NamedTuple):
    """Up to how many connections a server was whole."""

    whole: int
    """The highest level carried below the first that broke; 0 where there is none."""
    broke: float
    """The first level that broke; infinite where none did."""
    highest: int
    """The highest level that was tried."""
    trials: list[int]
    """How many made the levels `whole` and `broke`."""


def _whole_up_to(cell: pd.DataFrame) -> dict[int, _Limit]:
    """Return the limit of a server by its processes."""
    found = {}
    for number, rows in cell.groupby(_processes(cell)):
        kept, level = kept_all(rows), rows["connections"]
        unbroken, tried = kept.groupby(level).all(), kept.groupby(level).size()
        whole = (kept & ~not_accepted(rows)).groupby(level).all()
        broke = min(unbroken.index[~unbroken], default=math.inf)
        most = max(whole.index[whole & (whole.index < broke)], default=0)
        beside = [n for at, n in tried.items() if at in (most, broke)]
        found[number] = _Limit(int(most), broke, int(max(tried.index)), beside)
    return found


def serves_more(trials: pd.DataFrame, *, arm: Cell, baseline: Cell) -> Finding:
    """Judge whether a larger share of clients is connected in one cell than another.

    All trials with a report count, flagged by gates or not: lost connections are what
    the claim is about. So are those that the kernel connected and that the server never
    accepted, where it counts them. Two cells differ when every share of the one lies
    beyond every share of the other, which four trials of each show by chance once in 35
    times. Where the baseline leaves nobody out, no share can rise.
    """
    y, x = (_shares(measured(trials, cell)) for cell in (arm, baseline))
    why = f"{_range(y)} of the clients are connected, against {_range(x)}"
    if min(len(y), len(x)) < TRIALS_MIN:
        raise Untestable(f"shares need {TRIALS_MIN} trials of each cell")
    if min(x.min(), y.min()) >= 1:
        raise Untestable(
            "every client was connected in both, so that no share can rise"
        )
    if y.min() > x.max():
        return Finding("holds", why)
    if y.max() < x.min():
        return Finding("does not hold", why)
    raise Untestable(why)


def _shares(rows: pd.DataFrame) -> pd.Series:
    """Return the share of the clients that were connected, in trials with a report."""
    connected = rows["established"]
    accepted = rows.get("accepted", connected)
    fewer = (accepted < connected).fillna(False).astype(bool)
    return (connected.mask(fewer, accepted) / rows["connections"]).dropna()


def _range(shares: pd.Series) -> str:
    low, high = (f"{100 * share:.3g}\u202f%" for share in (shares.min(), shares.max()))
    return f"{low} to {high}"


def all_true(trials: pd.DataFrame, *, column: str, arm: Cell) -> Finding:
    """Judge whether a column of truth values is true in every row.

    A row without a value keeps the claim from holding whole.
    """
    if column not in trials:
        raise RuleError(f"rule all_true: {unknown('column', column, trials)}")
    values = select(trials, arm)[column]
    answers = values.dropna().astype(bool)
    if answers.empty:
        raise Untestable(f"nothing was asked: {cell_text(arm)}")
    missing = len(values) - len(answers)
    why = f"{int(answers.sum())} of {len(answers)} hold"
    why += f", {missing} not asked" if missing else ""
    if answers.all() and not missing:
        return Finding("holds", why)
    return Finding("holds in part" if answers.any() else "does not hold", why)
