"""What sets of servers have shown so far: levels, ratios, and when it is enough."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median_low
from typing import Any

import numpy as np
import pandas as pd

from connlab import schema
from connlab.compare.measure import Set
from connlab.compare.plan import Plan
from connlab.drive import gates, machine, servers, turns
from connlab.intervals import CLIENT_BOUND, interval, stands
from connlab.studies.load import OVERLOAD
from connlab.study import turns as ratios_of_turns
from connlab.study.interval import Interval

#: what is compared, and its unit
METRICS = {"rate": "requests/s", "cpu": "s", "p50": "s", "p99": "s"}
#: a verdict on a ratio, said of a rate and of a cost
_WORDS = {
    "rate": {"higher": "faster", "lower": "slower"},
    "cpu": {"higher": "dearer", "lower": "cheaper"},
}
_SUMMED = [
    *("lead_in_requests", "requests", "seconds", "slice_seconds"),
    *("server_cpu_ns", "client_cpu_ns"),
]
#: columns of seconds from ns in a client's report
_REPORTED = {
    "p50": ("response", "p50_ns"),
    "p99": ("response", "p99_ns"),
    "lag_p99": ("self", "lag_p99_ns"),
}
#: no look at the widths before so many sets: an early one is narrow by luck
SETS_MIN = 5


@dataclass
class Comparison:
    """What has been measured so far, and why it ended.

    ``sets`` has one row for each set and server: the columns of `METRICS`, the CPU
    time of the client per request (``client``), and the share of a core that server
    and client used in that server's slices, and how late 99 % of requests left at most
    (``lag_p99``, s). ``places`` has of each set its number and the time from core to
    core (`connlab.schema.placement`).
    """

    plan: Plan
    slices: list[pd.DataFrame] = field(default_factory=list)
    sets: list[pd.DataFrame] = field(default_factory=list)
    places: list[dict[str, Any]] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    set_seconds: list[float] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, Counter] = field(default_factory=dict)
    """How often requests of a server failed, by kind (``client --help``)."""
    engine: str = ""
    """How the client waited; empty where it did not say."""
    seconds: float = 0.0
    stopped: str = ""
    failure: str = ""
    """Why no further set could be measured, where it `stopped` as ``failed``."""

    def add(self, measured: Set) -> None:
        """Take one more set in."""
        outcome, names = measured.outcome, measured.names
        self.failed |= measured.failed
        for name, report in zip(names, outcome.reports, strict=True):
            counts = Counter(report.get("errors") or {})
            if counts.total():
                self.errors[name] = self.errors.get(name, Counter()) + counts
        self.engine = (outcome.reports[0].get("self") or {}).get("engine", "")
        self.others.append(turns.others_share(outcome.slices)[0])
        self.set_seconds.append(outcome.seconds)
        slices = pd.DataFrame(outcome.slices).query("counted == 1")
        slices = slices.astype({"server_cpu_ns": float}).assign(
            trial=measured.number, server=[names[i] for i in slices["target"]]
        )
        self.slices.append(slices)
        whole = self.plan.whole_slices
        summary = _summary(slices, names, outcome.reports, whole=whole)
        if self.plan.location.remote:
            summary = summary.assign(**_clients_afar(outcome.reports))
        self.sets.append(summary.assign(trial=measured.number))
        place = {"core_to_core": measured.core_to_core.model_dump()}
        self.places.append({"key": measured.number, **place})
        schema.note_moves(self.places)

    @property
    def cores_off(self) -> pd.Series:
        """Of each set, by number, whether the cores were where they usually are."""
        off = {p["key"]: p["core_to_core"].get("off", 0.0) for p in self.places}
        return pd.Series(off, dtype=float)

    @property
    def core_to_core_s(self) -> float | None:
        """How long a cache line usually took from core to core and back."""
        names = ("before_s", "after_s")
        times = [p["core_to_core"][name] for p in self.places for name in names]
        return median_low([s for s in times if s]) if any(times) else None

    def fail(self, error: turns.SetError) -> None:
        """Keep why no further set can be measured."""
        self.stopped, self.failure = "failed", str(error)

    @property
    def n(self) -> int:
        """How many sets were measured."""
        return len(self.sets)

    @property
    def others_share(self) -> float:
        """How many cores were kept busy by programs that are not ours."""
        return fmean(self.others) if self.others else 0.0

    @property
    def decisive(self) -> tuple[str, ...]:
        """The metrics whose widths decide: in an open loop the rate is given.

        CPU time does not where all are at addresses; then the median waits do.
        """
        costs = ("cpu",) if self.with_cpu_time else ()
        return costs or ("p50",) if self.plan.open_loop else ("rate", *costs)

    @property
    def with_cpu_time(self) -> set[str]:
        """The servers whose CPU time can be compared: neither side is at an address."""
        measured = {
            server.name
            for server in self.plan.servers
            if servers.address_of(server.factors["model"]) is None
        }
        pairs = self.plan.against.items()
        return {name for name, base in pairs if {name, base} <= measured}

    @property
    def unpinned(self) -> list[str]:
        """The servers of this machine that somebody else started, on any core.

        Of one that left nothing is compared.
        """
        return [
            server.name
            for server in self.plan.servers[:-1]  # the last is the control
            if server.name not in self.failed
            and (place := servers.address_of(server.factors["model"]))
            and place.here
        ]

    @property
    def remaining(self) -> list[str]:
        """The servers that are still there, in the order of the plan."""
        return [s.name for s in self.plan.servers if s.name not in self.failed]

    def levels(self, server: str, metric: str) -> Interval:
        """Return a metric of one server: geometric mean over sets."""
        table = self.all_sets
        values = table.loc[table["server"] == server, metric].dropna()
        return interval(values)

    @property
    def all_sets(self) -> pd.DataFrame:
        """The rows of all sets; a quantile is none that is unknown in one of them.

        Without that set, the others would seem to be all.
        """
        table = pd.concat(self.sets)
        for metric in ("p50", "p99"):
            unknown = table.loc[np.isinf(table[metric]), "server"]
            table[metric] = table[metric].mask(table["server"].isin(unknown))
        return table

    def ratios(self, metric: str) -> dict[str, Interval]:
        """Return each server's ratio to the one it is held against.

        The intervals of a `family` hold all at once (Bonferroni;
        `connlab.study.turns.ratios`). A server that left has no ratio.
        """
        if not self.sets:
            return {}
        logs = self.log_ratios(metric)
        family = self.family(metric, logs)
        intervals: dict[str, Interval] = {}
        for names in (family, *([name] for name in logs if name not in family)):
            intervals |= ratios_of_turns.ratios(logs[names], self.cores_off)
        return intervals

    def family(self, metric: str, names: Iterable[str]) -> list[str]:
        """Return of these servers those that were asked for, and can be compared.

        The control is a question of its own.
        """
        asked = [name for name in names if name != self.plan.control]
        return [n for n in asked if metric != "cpu" or n in self.with_cpu_time]

    def log_ratios(self, metric: str) -> pd.DataFrame:
        """Return a row for each set and a column for each server but the baseline."""
        if metric in ("rate", "cpu"):
            rounds = ratios_of_turns.per_round(
                pd.concat(self.slices),
                whole=self.plan.whole_slices,
                in_ticks=self.plan.in_ticks,
            )
        else:
            rounds = self.all_sets.assign(round=0)
        columns = {}
        for name, base in self.plan.against.items():
            if {name, base} <= set(self.remaining):
                pair = rounds[rounds["server"].isin((name, base))]
                logs = ratios_of_turns.log_ratios(pair, metric, baseline=base)
                columns[name] = logs[name]
        return pd.DataFrame(columns)

    def widest(self) -> float:
        """Return the widest half-width of the ratios that decide."""
        widths = [
            ratios_of_turns.width(ratio)
            for metric in self.decisive
            for name, ratio in self.ratios(metric).items()
            if metric != "cpu" or name in self.with_cpu_time
        ]
        return max(widths, default=float("inf"))

    def busy(self) -> dict[str, tuple[float, float]]:
        """Return the share of a core that each server, and the client for it, used."""
        table = pd.concat(self.sets).groupby("server")[["server_busy", "client_busy"]]
        means = table.mean()
        return {name: tuple(means.loc[name]) for name in self.remaining}

    def limits(self) -> dict[str, str | None]:
        """Return what kept each server from more, as trials of studies are labelled.

        ``client-bound``, ``server-bound`` or ``unsaturated`` (`drive.gates`); None
        where it is not known. Empty in an open loop, which asks for no more.
        """
        if not self.sets or self.plan.open_loop:
            return {}
        waiting = pd.concat(self.sets).groupby("server")["waiting"].mean()
        shared, limits = self.plan.cores.shared, {}
        for name, (server, client) in self.busy().items():
            seen = None if math.isnan(server) else server
            limits[name] = gates.bottleneck(client, seen, waiting[name], shared=shared)
        return limits

    def strain(self) -> dict[str, float]:
        """Return how long each server's turns lasted, over how long was planned.

        The median over turns. In an open loop nothing falls due after the planned end,
        and a turn ends with its last answer (`connlab.studies.load`). Empty in a closed
        loop.
        """
        if not self.sets or not self.plan.open_loop:
            return {}
        lasted_s = pd.concat(self.slices).groupby("server")["slice_seconds"].median()
        return {
            n: lasted_s.get(n, math.nan) / self.plan.slice_s for n in self.remaining
        }

    def overloaded(self) -> dict[str, float]:
        """Return the strain of those who may be overloaded.

        Their turns outlast the plan by more than what an answer takes, so that the
        last request waited for others.
        """
        slice_s = self.plan.slice_s
        return {
            name: strain
            for name, strain in self.strain().items()
            if strain >= OVERLOAD
            and not (strain - 1) * slice_s <= self.levels(name, "p50").value
        }

    def late(self) -> dict[str, int]:
        """Return in how many sets the client asked each server later than it meant to.

        As trials are judged (`connlab.drive.gates.lag`); only those with any. Empty in
        a closed loop.
        """
        if not self.sets or not self.plan.open_loop:
            return {}
        table = pd.concat(self.sets).set_index("server")
        p99_s = table["p99"].where(np.isfinite(table["p99"]), 0)
        allowed_s = (1e9 * p99_s).map(gates.lag_allowed_ns) / 1e9
        late = (table["lag_p99"] > allowed_s).groupby(level="server").sum()
        return {n: int(late[n]) for n in self.remaining if late[n]}

    def falling(self) -> dict[str, float]:
        """Return whose CPU time per request was still falling as it was measured.

        To how much of what it had been, from the first third of a set's rounds to the
        last, against the baseline; those whose interval says by 5 % or more. A server
        that compiles as it runs needs a longer warm-up then.
        """
        if not self.sets:
            return {}
        rounds = ratios_of_turns.per_round(
            pd.concat(self.slices), in_ticks=self.plan.in_ticks
        )
        cpu = rounds.set_index(["trial", "round", "server"])["cpu"].unstack()
        found = {}
        for name in self._not_ours:
            ratios = cpu[name] / cpu[self.plan.baseline]
            change = interval(ratios_of_turns.last_over_first(ratios).dropna())
            if change.hi < 1 / (1 + ratios_of_turns.MARGIN):
                found[name] = change.value
        return found

    @property
    def _not_ours(self) -> list[str]:
        """The servers that connlab did not write, and whose CPU time is known."""
        return [
            server.name
            for server in self.plan.servers
            if server.name in self.with_cpu_time.difference(self.failed)
            and not servers.is_ours(server.factors["model"])
        ]

    def words(self, metric: str, ratios: Mapping[str, Interval]) -> dict[str, str]:
        """Return what each server's ratio of a metric shows; see `word`.

        The control asks the method, not the servers, whoever the limit was.
        """
        limits = self.limits() if metric != "cpu" else {}
        bound = {name for name, limit in limits.items() if limit == CLIENT_BOUND}
        pairs = self.plan.against.items()
        limited = {name: (name in bound, base in bound) for name, base in pairs}
        limited[self.plan.control] = (False, False)
        return {name: word(r, metric, limited[name]) for name, r in ratios.items()}

    def enough(self) -> str:
        """Return why no further set is needed: ``alone``, ``width``, ``budget``."""
        if len(self.remaining) <= 2:
            return "alone"
        if self.n >= SETS_MIN and self.widest() <= self.plan.until:
            return "width"
        if self.seconds + fmean(self.set_seconds) > self.plan.budget_s:
            return "budget"
        return ""


def compare(
    plan: Plan,
    sets: Iterable[Set],
    *,
    show: Callable[[Comparison], None],
    began: float | None = None,
) -> Comparison:
    """Take sets in until every ratio is narrow enough or the budget is spent.

    The end of `sets` means that a signal came; `show` is called after each. `began` is
    of the monotonic clock, now if not said. `Comparison.stopped` says why it ended:
    ``width``, ``budget``, ``interrupted``, ``alone``, when no server but the baseline
    is left, or ``failed``. Raises connlab.drive.turns.SetError where the first set has
    no outcome; where a later one has none, those before it are kept.
    """
    comparison = Comparison(plan)
    began = time.monotonic() if began is None else began
    comparison.stopped = "interrupted"
    try:
        for measured in sets:
            comparison.add(measured)
            comparison.seconds = time.monotonic() - began
            show(comparison)
            if reason := comparison.enough():
                comparison.stopped = reason
                return comparison
    except turns.SetError as error:
        if not comparison.sets:
            raise
        comparison.fail(error)
    comparison.seconds = time.monotonic() - began
    return comparison


def _summary(
    slices: pd.DataFrame, names: tuple, reports: list[dict], *, whole: bool
) -> pd.DataFrame:
    sums = slices.groupby("server")[_SUMMED].sum()
    sums["all_requests"] = sums["lead_in_requests"] + sums["requests"]
    table = pd.DataFrame({"server": names}).set_index("server")
    counted = ("all_requests", "slice_seconds") if whole else ("requests", "seconds")
    table["rate"] = sums[counted[0]] / sums[counted[1]]
    table["cpu"] = sums["server_cpu_ns"] / 1e9 / sums["all_requests"]
    for column, (section, key) in _REPORTED.items():
        # 0 where nothing was timed; null, so unknown, where more requests were never
        # answered than the quantile leaves out
        times_ns = [(report.get(section) or {}).get(key, 0) for report in reports]
        table[column] = [math.inf if ns is None else ns / 1e9 for ns in times_ns]
    usages = [report.get("self") or {} for report in reports]
    for side in ("server", "client"):
        table[f"{side}_busy"] = sums[f"{side}_cpu_ns"] / 1e9 / sums["slice_seconds"]
    spun = [usage.get("spin_share") or 0 for usage in usages]
    needed = (table["client_busy"] - spun).clip(lower=0)
    table["client"] = needed * sums["slice_seconds"] / sums["all_requests"]
    table = table.where(table > 0)
    table["client_busy"] = needed  # 0 is a share as any other
    waiting = [usage.get("waiting_share") for usage in usages]
    table["waiting"] = np.array(waiting, dtype=float)
    return table.reset_index()


def _clients_afar(reports: list[dict]) -> dict[str, list[float]]:
    """Return what clients on other hosts used: slices have CPU times of the servers'.

    The share of a core is that of the host that was worst off.
    """
    usages = [report["self"] for report in reports]
    requests = [report["window"]["requests"] for report in reports]
    pairs = zip(usages, requests, strict=True)
    return {
        "client": [usage["cpu_window_s"] / n if n else math.nan for usage, n in pairs],
        "client_busy": [usage["cpu_share"] - usage["spin_share"] for usage in usages],
    }


def word(
    ratio: Interval, metric: str, client_bound: tuple[bool, bool] = (False, False)
) -> str:
    """Return what a ratio shows: ``faster``, ``alike``, ``cannot tell``, …

    `client_bound`: whether the client was the limit of the server, and of the one that
    it is held against; then only what `connlab.intervals.stands` can be told.
    """
    verdict = ratios_of_turns.verdict(ratio)
    terms = _WORDS.get(metric, {"higher": "longer", "lower": "shorter"})
    side = next((key for key in terms if key in verdict), "")
    ahead = side == ("higher" if metric == "rate" else "lower")
    doubtful = any(client_bound) and not (side and stands(ahead, client_bound))
    if verdict == "undetermined" or doubtful:
        return "cannot tell"
    if side and "alike" in verdict:
        return f"{terms[side]}, by less than 5 %"
    return terms.get(side, "alike")


# ---- as JSON ------------------------------------------------------------------


def document(comparison: Comparison) -> dict[str, Any]:
    """Return all of it as plain values, in seconds, requests/s and ratios.

    ``each_set`` has a row for each set and server, with the log of the server's ratio
    to the one it is held against, so that every level and ratio can be made again.
    """
    plan = comparison.plan
    content = {
        "schema": 1,
        "made_at": machine.now(),
        "machine": plan.location.environment(plan.programs.digests()),
        "cores": plan.cores.in_trial(),
        "servers": [
            {
                "name": server.name,
                "against": plan.against.get(server.name),
                "settings": dict(server.factors),
            }
            for server in plan.servers
        ],
        "baseline": plan.baseline,
        "control": plan.control,
        "client": dict(plan.client) | {"page_bytes": plan.page_bytes},
        "seed": plan.seed,
        "until": plan.until,
        "budget_s": plan.budget_s,
        "stopped": comparison.stopped,
        "failure": comparison.failure or None,
        "seconds": comparison.seconds,
        "sets": comparison.n,
        "cores_off": comparison.cores_off.tolist(),
        "core_to_core_s": comparison.core_to_core_s,
        "decisive": list(comparison.decisive),
        "widest": comparison.widest(),
        "others_share": comparison.others_share,
        "strain": comparison.strain(),
        "slice_s": plan.slice_s,
        "late_sets": comparison.late(),
        "falling": comparison.falling(),
        "engine": comparison.engine,
        "failed": comparison.failed,
        "errors": comparison.errors,
        "units": METRICS,
        "levels": {
            name: {m: _bounds(comparison.levels(name, m)) for m in METRICS}
            for name in (comparison.remaining if comparison.sets else ())
        },
        "ratios": {metric: _ratios(comparison, metric) for metric in METRICS},
        "each_set": _each_set(comparison) if comparison.sets else [],
    }
    if plan.location.remote:
        content["hosts"] = plan.location.manifest(plan.programs)["hosts"]
    return schema.finite(content)


def _ratios(comparison: Comparison, metric: str) -> dict[str, dict]:
    intervals = comparison.ratios(metric)
    words = comparison.words(metric, intervals)
    known = [name for name, ratio in intervals.items() if math.isfinite(ratio.value)]
    family = comparison.family(metric, known)
    at_once = {name: len(family) if name in family else 1 for name in intervals}
    return {
        name: _bounds(ratio) | {"word": words[name], "simultaneous": at_once[name]}
        for name, ratio in intervals.items()
    }


def _bounds(interval: Interval) -> dict[str, Any]:
    numbers = {"value": interval.value, "lo": interval.lo, "hi": interval.hi}
    return numbers | {"n": interval.n, "level": interval.level}


def _each_set(comparison: Comparison) -> list[dict[str, Any]]:
    table = pd.concat(comparison.sets).set_index(["trial", "server"])
    for metric in METRICS:
        logs = comparison.log_ratios(metric).rename_axis("trial")
        table[f"log_ratio_{metric}"] = logs.rename_axis(columns="server").stack()
    return table.reset_index().rename(columns={"trial": "set"}).to_dict("records")
