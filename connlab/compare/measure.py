"""Sets one after the other, until the ratios are known well enough."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from connlab.compare.plan import PAGE, Plan
from connlab.drive import interrupt, turns
from connlab.drive.host import LocalHost
from connlab.study import turns as ratios_of_turns
from connlab.study.interval import Interval

#: what is compared: metric, its unit, and its name in words
METRICS = {
    "rate": "requests/s",
    "cpu": "s",
    "p50": "s",
    "p99": "s",
}
_SUMMED = [
    "lead_in_requests",
    "requests",
    "seconds",
    "slice_seconds",
    "server_cpu_ns",
    "client_cpu_ns",
]
#: no look at the widths before so many sets: an early one is narrow by luck
SETS_MIN = 5


@dataclass
class Comparison:
    """What has been measured so far, and why it ended.

    ``sets`` has one row for each set and server: the columns of `METRICS`, and what of
    a core the server and the client used in that server's slices.
    """

    plan: Plan
    slices: list[pd.DataFrame] = field(default_factory=list)
    sets: list[pd.DataFrame] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    stopped: str = ""

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
        """The metrics whose widths decide: in an open loop the rate is given."""
        return ("cpu",) if self.plan.open_loop else ("rate", "cpu")

    def levels(self, server: str, metric: str) -> Interval:
        """Return a metric of one server: geometric mean over sets."""
        table = pd.concat(self.sets)
        values = table.loc[table["server"] == server, metric].dropna()
        return ratios_of_turns.geometric_mean(values)

    def ratios(self, metric: str) -> dict[str, Interval]:
        """Return each server's ratio to the baseline, the control's among them.

        Those of the servers that were asked for are one family; the control is a
        question of its own. A server that left has no ratio.
        """
        if not self.sets:
            return {}
        logs = self._log_ratios(metric)
        control = self.plan.control
        here = [name for name in logs if name != control]
        found = ratios_of_turns.ratios(logs[here]) if here else {}
        return found | ratios_of_turns.ratios(logs[[control]])

    def _log_ratios(self, metric: str) -> pd.DataFrame:
        if metric in ("rate", "cpu"):
            rounds = ratios_of_turns.per_round(pd.concat(self.slices))
        else:
            rounds = pd.concat(self.sets).assign(round=0)
        there = [s.name for s in self.plan.servers if s.name not in self.left]
        rounds = rounds[rounds["server"].isin(there)]
        logs = ratios_of_turns.log_ratios(rounds, metric, baseline=self.plan.baseline)
        return logs[[name for name in there if name != self.plan.baseline]]

    def widest(self) -> float:
        """Return the widest half-width of the ratios that decide."""
        found = [
            ratios_of_turns.width(ratio)
            for metric in self.decisive
            for ratio in self.ratios(metric).values()
        ]
        return max(found, default=float("inf"))


def compare(plan: Plan, *, show: Callable[[Comparison], None]) -> Comparison:
    """Measure sets until every ratio is narrow enough or the budget is spent.

    Parameters
    ----------
    plan : Plan
        What `make_plan` returns.
    show : callable
        Called after each set with what is known by then.

    Returns
    -------
    Comparison
        `stopped` says why: ``width``, ``budget``, ``interrupted`` or ``alone``, when
        no server but the baseline is left.

    Raises
    ------
    connlab.drive.turns.SetError
        When a program fails, or the baseline dies.
    """
    made = Comparison(plan)
    began = time.monotonic()
    host = LocalHost()
    with interrupt.noted(), _page(plan) as root:
        while not made.stopped:
            if not _measure_set(made, host, root):
                made.stopped = "interrupted"
            made.seconds = time.monotonic() - began
            show(made)
            made.stopped = made.stopped or _reason_to_stop(made)
    host.close()
    return made


def _reason_to_stop(made: Comparison) -> str:
    if len(made.left) >= len(made.plan.servers) - 2:
        return "alone"
    if made.n >= SETS_MIN and made.widest() <= made.plan.until:
        return "width"
    if made.seconds + made.seconds / made.n > made.plan.budget_s:
        return "budget"
    return ""


def _measure_set(made: Comparison, host: LocalHost, root: str | None) -> bool:
    """Add one set to what was measured; False when a signal came meanwhile."""
    plan = made.plan
    here = [s for s in plan.servers if s.name not in made.left]
    extra: dict[str, Any] = {"root": root} if root else {}
    setting = turns.Setting(
        servers=tuple({**server.factors, **extra} for server in here),
        client=plan.client,
        seed=plan.seed + made.n,
        cores=plan.cores,
        programs=plan.programs,
    )
    outcome = turns.run(setting, host=host)
    if outcome is None:
        return False
    names = [server.name for server in here]
    for name, server in zip(names, outcome.served, strict=True):
        if server.failure and name in (plan.baseline, plan.control):
            said = f"server {plan.baseline}: {server.failure}"
            raise turns.SetError(said, kind="server-died")
        if server.failure:
            made.left[name] = server.failure
    made.others.append(turns.others_share(outcome.slices)[0])
    slices = pd.DataFrame(outcome.slices).query("counted == 1")
    slices = slices.assign(trial=made.n, server=[names[i] for i in slices["target"]])
    made.slices.append(slices)
    made.sets.append(_summary(slices, names, outcome.reports).assign(trial=made.n))
    return True


def _summary(slices: pd.DataFrame, names: list, reports: list[dict]) -> pd.DataFrame:
    """Return one row for each server of a set: rate, cost, quantiles, cores."""
    sums = slices.groupby("server")[_SUMMED].sum()
    sums["all_requests"] = sums["lead_in_requests"] + sums["requests"]
    responses = {
        name: report.get("response") or {}
        for name, report in zip(names, reports, strict=True)
    }
    table = pd.DataFrame({"server": names}).set_index("server")
    table["rate"] = sums["requests"] / sums["seconds"]
    table["cpu"] = sums["server_cpu_ns"] / 1e9 / sums["all_requests"]
    for quantile in ("p50", "p99"):
        found = [responses[name].get(f"{quantile}_ns") or 0 for name in names]
        table[quantile] = [ns / 1e9 for ns in found]
    for side in ("server", "client"):
        table[f"{side}_busy"] = sums[f"{side}_cpu_ns"] / 1e9 / sums["slice_seconds"]
    return table.where(table > 0).reset_index()


@contextlib.contextmanager
def _page(plan: Plan) -> Iterator[str | None]:
    """Make the page that http servers are asked for; None for other workloads."""
    if plan.page_bytes is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="connlab-compare-") as folder:
        Path(folder, PAGE).write_bytes(b"x" * plan.page_bytes)
        yield folder
