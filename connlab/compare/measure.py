"""Fresh sets of servers, one after the other, as long as somebody asks for the next.

    plan -> start servers -> they take turns -> stop them -> a Set -> start servers ...

Nothing here imports pandas or scipy: the first server is up before they are loaded.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from connlab import schema
from connlab.compare.plan import Plan, Server
from connlab.drive import interleaving, trials, turns, web_page
from connlab.drive.host import LocalHost

#: why a client gives a server up (``client --help``, ended_early), but for "hung"
_LEFT = {
    "gone": "it closed all connections",
    "refused": "it refused connections",
    "unconnected": "not all connections could be made",
}


@dataclass(frozen=True)
class Set:
    """What fresh servers gave in one set, in the order of `names`.

    ``failed`` says how servers ended that died in it; they take part in no later one.
    ``core_to_core`` is what a trial keeps of the cores (`connlab.schema.placement`).
    """

    number: int
    names: tuple[str, ...]
    outcome: turns.Outcome
    failed: dict[str, str] = field(default_factory=dict)
    core_to_core: schema.CoreToCore = field(default_factory=schema.CoreToCore)


def sets(plan: Plan) -> Iterator[Set]:
    """Measure set after set, until a signal asks to stop (`drive.interrupt`).

    A server that does not start again is named with the next set, without it. Raises
    connlab.drive.turns.SetError when a program fails, the baseline dies, or hosts were
    never on time together.
    """
    local, failed, lost = LocalHost(), set(), {}
    with page(plan) as root, contextlib.closing(local):
        for number in itertools.count():
            remaining = tuple(s for s in plan.servers if s.name not in failed)
            setting = _setting(plan, remaining, number, root)
            clients = plan.location.turning(plan.client)
            before_s = plan.location.core_to_core(plan.cores)
            try:
                outcome = interleaving.run_set(
                    setting,
                    name="compare",
                    host=plan.location.server or local,
                    clients=clients,
                )
            except turns.SetError as error:
                if error.server is not None:
                    error.name = remaining[error.server].name
                if not number or error.name in (None, plan.baseline, plan.control):
                    raise
                failed.add(error.name)
                lost[error.name] = str(error)
                continue
            if outcome is None:
                return
            names = tuple(server.name for server in remaining)
            died = _died(plan, names, outcome)
            if clients and (failure := interleaving.never_in_time(outcome)):
                raise turns.SetError(failure.reason, kind=failure.kind)
            failed |= died.keys()
            after_s = plan.location.core_to_core(plan.cores)
            apart = schema.CoreToCore(before_s=before_s, after_s=after_s)
            yield Set(number, names, outcome, lost | died, apart)


def _setting(
    plan: Plan, servers: Sequence[Server], number: int, root: str | None
) -> turns.Setting:
    extra = {"root": root} if root else {}
    return turns.Setting(
        servers=tuple({**server.factors, **extra} for server in servers),
        client=plan.client,
        seed=plan.seed + number,
        cores=plan.cores,
        programs=plan.programs,
        slice_s=plan.slice_s,
    )


def _died(plan: Plan, names: tuple, outcome: turns.Outcome) -> dict[str, str]:
    results = zip(names, outcome.served, outcome.reports, strict=True)
    died = {
        name: failure
        for name, server, report in results
        if (failure := _failure(server, report))
    }
    for name in (plan.baseline, plan.control):
        if name in died:
            reason = f"server {plan.baseline}: {died[name]}"
            raise turns.SetError(reason, kind="server-died")
    return died


def _failure(server: turns.Served, report: dict) -> str | None:
    return server.failure or _wrong(report) or _left(report) or _lost(report, server)


def _wrong(report: dict) -> str | None:
    errors = report.get("errors") or {}
    wrong = (errors.get("mismatch") or 0) + (errors.get("status") or 0)
    return (
        f"wrong answers: {wrong}, on {report['active']} connections" if wrong else None
    )


def _left(report: dict) -> str | None:
    """Return why the client gave a server up before the end of the set."""
    reason = (report.get("slices", {}).get("ended_early") or {}).get("reason")
    if reason != "hung":
        return _LEFT.get(reason)
    active, completed = report["active"], report["requests"].get("completed", 0)
    # in an open loop more requests than clients may lack an answer
    waiting = min(report["errors"]["timeout"], active)
    hung = f"hung, {waiting} of {active} clients without an answer"
    if waiting == active and completed:
        return f"{hung}, after {completed} answers"
    asked = "so many at once" if waiting < active else "at all"
    return f"{hung}; does it serve {asked}?"


def _lost(report: dict, server: turns.Served) -> str | None:
    """Return how many users had no connection in the end: it served fewer than others.

    With what the client met, and what the server says that it lacked. Users who
    reconnect try again; that requests failed is said at the end.
    """
    of_all = report["connections"]
    lost = of_all["asked"] - of_all["surviving"]
    if not lost or report.get("requests_per_connection"):
        return None
    counts = {**report["errors"], **report.get("limits", {})}
    refused = (trials.last_line(server.ended, "stats") or {}).get("refused") or {}
    counts |= {f"refused for lack of {name}": n for name, n in refused.items()}
    why = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    return f"{lost} of {of_all['asked']} connections were lost: {why}"


def page(plan: Plan) -> contextlib.AbstractContextManager[str | None]:
    """Make the page that http servers are asked for; None for other workloads."""
    if plan.page_bytes is None:
        return contextlib.nullcontext()
    return web_page.page(plan.page_bytes)
