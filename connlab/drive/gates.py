"""What a trial is checked for: gates leave it out, findings do not; and who bound it.

Each check is a function of one trial's facts that gives a figure, a threshold and a
verdict. A verdict of None says that the check does not apply (one of the open loop in a
closed loop, a window too short to judge).

A gate asks whether the trial is what was asked for, and leaves it out of intervals if
not; the trial is kept, and counted. No gate may look at how well the server did: to
leave out the trials in which it starved its users would be to choose the result
(survivorship). What depends on that is a finding: it is recorded with the trial, and
the trial counts.

    gate      fails when                                       looks at the outcome
    census    the connections asked for, established and       no
              surviving are not the same number
    verified  an answer was wrong                              no
    arrivals  open loop: the requests due differ from the      no
              schedule by 5 sigma (paced: by 1 %)
    lag       open loop: the client's p99 lateness is over     only to let pass what
              0.2 ms and over 10 % of the p99 response; in     cannot matter
              turns such rounds are set aside before
    quiet     other programs and guests (steal) took over 5 %  no
              of the cores; in turns: over half of the cores
              in over half of the rounds

    finding         holds when                                      or else
    rate            open loop: answers come within 5 % of the rate  overloaded
                    at which requests are due
    answered        open loop: at most 0.1 % of the due requests    mean and p99.9 are
                    have no answer                                  not known
    little          closed loop: N = X (R + Z) within 5 %           users starve
    stationary      the rate changes by less than 10 % over the     not steady
                    window (or p > 0.01), warm-up was over by a
                    fifth of it
    client          the client had 5 % of its cores left, or the    a rate is a bound
                    server was waited for
    response_times  50 mean response times were counted             the window is short

A finding that does not hold has ``ok`` false, as a gate that is failed.

The label says what kept the throughput from being higher:

    limit-bound:NAME   a limit was met: descriptors, fd_setsize, threads, processes,
                       ports, memory, backlog, queue, buffers, workers, one-at-a-time
    server-bound       the server had no CPU time left: a faster client could not
                       have got more than a few percent more out of it
    client-bound       the client had none left and the server had, or most requests in
                       flight stood before the client; it may not rank servers
    unsaturated        both had some left; more load would have given more

Where both are busy all the time, CPU shares alone do not tell them apart: whoever finds
few events at a time spends more on each, and so fills its core. Then the queue decides:
the bottleneck is where requests wait, and the client says which part of them it found
answered but not yet received whenever it looked (``src_c/client/client_probe.c``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from connlab.drive import timelines
from connlab.schema import (
    CLIENT_QUEUE,
    EXCLUDING,
    UNANSWERED,
    Gate,
    Timeline,
    flatten,
    pick,
)

RATE = 0.05
LITTLE = 0.05
TREND = 0.10
TREND_P = 0.01
#: part of the window that may still have been warm-up
WARMUP_SLACK = 0.2
CLIENT_SHARE = 0.95
SERVER_SHARE = 0.90
OTHER_SHARE = 0.05
#: where servers take turns, others' work meets all of them alike
OTHER_SHARE_IN_TURNS = 0.5
TICK_S = 0.01
#: standard deviations that a count of random arrivals may be off
ARRIVALS_SIGMA = 5.0
#: the client may send late by so much, or by this part of the response time
LAG_NS = 200_000
LAG_PART = 0.10
#: mean response times that a window shall hold
RESPONSE_TIMES = 50.0

_LIMITS = {"queue_full": "queue"}


def judge(trial: Mapping) -> dict[str, Gate]:
    """Return the verdicts of the gates on one trial, by the gate's name.

    Parameters
    ----------
    trial : mapping
        A trial's facts, as `connlab.schema.Trial` dumps them. Without a client's
        report there is nothing to judge, and the result is empty.
    """
    return _checked(trial, EXCLUDING)


def find(trial: Mapping) -> dict[str, Gate]:
    """Return the findings on one trial, by name; empty where `judge` is."""
    return _checked(trial, FINDINGS)


def _checked(trial: Mapping, names: Sequence[str]) -> dict[str, Gate]:
    return {name: CHECKS[name](trial) for name in names} if trial.get("client") else {}


def rate(trial: Mapping) -> Gate:
    """Open loop: answers came at the rate at which requests fell due.

    That is not quite the rate that was offered, as random arrivals scatter; how far
    they may is what `arrivals` looks at.
    """
    due = _due_rps(trial)
    got = pick(trial, "client.window.throughput_rps")
    if not due or got is None:
        return _open_loop_only()
    return Gate(ok=abs(got / due - 1) <= RATE, value=got / due, threshold=RATE)


def _due_rps(trial: Mapping) -> float | None:
    """Return the rate of the arrivals in the window, else the one that was offered."""
    offered = pick(trial, "client.offered_rps")
    came = pick(trial, "client.window.arrivals")
    window_s = pick(trial, "client.window.seconds")
    return came / window_s if offered and came and window_s else offered


def arrivals(trial: Mapping) -> Gate:
    """Open loop: as many requests fell due as the rate and the schedule say."""
    offered = pick(trial, "client.offered_rps")
    window_s = _asking_s(trial)
    came = pick(trial, "client.window.arrivals")
    if not offered or not window_s or came is None:
        return _open_loop_only()
    kind = pick(trial, "factors.arrivals")
    if kind is not None and kind != pick(trial, "client.arrivals"):
        why = f"{pick(trial, 'client.arrivals')} in place of {kind}"
        return Gate(ok=False, why=why)
    due = offered * window_s
    random = pick(trial, "client.arrivals") != "paced"
    slack = ARRIVALS_SIGMA * math.sqrt(due) if random else 0.01 * due
    threshold = (slack + 1) / due
    return Gate(ok=abs(came - due) <= slack + 1, value=came / due, threshold=threshold)


def _asking_s(trial: Mapping) -> float | None:
    """Return for how long requests could fall due, in seconds.

    A slice ends with its last answer, but nothing falls due after its edge: counted to
    the last answer, a slow server would seem to have been asked less often. Totals of
    clients on several hosts hold the rounds that were set aside when all was merged.
    """
    turns = trial.get("turns")
    if not turns:
        return pick(trial, "client.window.seconds")
    rounds = len(turns["round"])
    if pick(trial, "client.hosts"):
        rounds += turns.get("late", 0)
    return rounds * (turns["slice_ms"] - turns["lead_in_ms"]) / 1e3


def answered(trial: Mapping) -> Gate:
    """Open loop: of the requests that fell due, all but a few were answered.

    Those that were not leave no response time. They waited longer than all others, so
    that quantiles up to 99.9 % are known as long as no more than 0.1 % are missing, and
    the mean is that of the others; where more are missing, there is no mean. Trials of
    clients that did not count them are not judged.
    """
    came = pick(trial, "client.window.arrivals")
    missing = pick(trial, "client.window.unanswered")
    if not came or missing is None:
        return _open_loop_only()
    share = missing / came
    why = f"{missing} of {came} were never answered"
    return Gate(ok=share <= UNANSWERED, value=share, threshold=UNANSWERED, why=why)


def census(trial: Mapping) -> Gate:
    """Connections asked for = established = surviving."""
    asked = pick(trial, "client.connections.asked")
    established = pick(trial, "client.connections.established") or 0
    surviving = pick(trial, "client.connections.surviving") or 0
    if not asked:
        return Gate(ok=None, why="no connection was asked for")
    least = min(established, surviving)
    why = f"{asked} asked, {established} established, {surviving} surviving"
    return Gate(ok=least == asked, value=least / asked, threshold=1.0, why=why)


def stationary(trial: Mapping) -> Gate:
    """Throughput does not drift inside the window, and warm-up was over before it.

    A burst, which is over when everybody has been answered, has no steady state.
    """
    if pick(trial, "client.stop") == "requests":
        return Gate(ok=None, why="a burst begins and ends")
    line = trial.get("timeline")
    warmup_s = pick(trial, "client.window.warmup_s")
    window_s = pick(trial, "client.window.seconds")
    if not line or warmup_s is None or not window_s:
        return Gate(ok=None, why="no timeline")
    line = Timeline.model_validate(line)
    steps = timelines.in_window(line, warmup_s=warmup_s, window_s=window_s)
    found = timelines.trend(steps)
    if found is None:
        return Gate(ok=None, why=f"{len(steps)} steps are too few to judge")
    late = warmup_s + WARMUP_SLACK * window_s
    warmed = line.warmup_detected_s
    drifts = abs(found.change) > TREND and found.p < TREND_P
    slow = warmed is not None and warmed > late and abs(found.change) > TREND
    why = f"p {found.p:.2g}, warm after {warmed} s"
    return Gate(
        ok=not drifts and not slow, value=found.change, threshold=TREND, why=why
    )


def little(trial: Mapping) -> Gate:
    """Closed loop: N = X · (R + Z), the users that Little's law finds busy.

    Where users reconnect, R holds the time to connect: it counts from when they meant
    to ask. Users who wait longer than the window leave no response time, so that less
    than N is found: a server that starves some of them does not pass.
    """
    told = trial["client"]
    if told.get("loop") != "closed" or told.get("stop") != "duration":
        return Gate(ok=None, why="needs a closed loop that lasts the whole window")
    if pick(trial, "factors.byte_rate") is not None:
        return Gate(ok=None, why="users wait for their byte rate")
    if trial.get("turns"):
        return Gate(ok=None, why="users rest between their server's turns")
    users = told.get("active") or pick(trial, "client.connections.established")
    rps = pick(trial, "client.window.throughput_rps")
    response_ns = pick(trial, "client.response.mean_ns")
    if not users or not rps or response_ns is None:
        return Gate(ok=None, why="nothing was answered")
    cycle_s = response_ns / 1e9 + (told.get("think_s") or 0)
    found = rps * cycle_s / users
    least = pick(trial, "client.fairness.requests_min")
    why = None if least is None else f"the user served least had {least} answers"
    return Gate(ok=abs(found - 1) <= LITTLE, value=found, threshold=LITTLE, why=why)


def verified(trial: Mapping) -> Gate:
    """Every answer was right, as far as the client can tell.

    Of echo it compares every byte; of work it knows the least value; of http it checks
    the status and the length of the body, not what it says.
    """
    errors = trial["client"].get("errors") or {}
    wrong = (errors.get("mismatch") or 0) + (errors.get("status") or 0)
    return Gate(ok=wrong == 0, value=wrong, threshold=0)


def client(trial: Mapping) -> Gate:
    """The client had CPU time left, or the server was the one that was waited for."""
    share = client_share(trial)
    if share is None:
        return Gate(ok=None, why="the client does not say")
    server, queue = server_share(trial), _waiting(trial)
    why = f"server {_percent(server)}, waiting before the client {_percent(queue)}"
    return Gate(
        ok=not _client_bound(share, server, queue),
        value=share,
        threshold=CLIENT_SHARE,
        why=why,
    )


def lag(trial: Mapping) -> Gate:
    """Open loop: the client sent when it meant to."""
    late_ns = pick(trial, "client.self.lag_p99_ns")
    if pick(trial, "client.loop") != "open" or late_ns is None:
        return _open_loop_only()
    response_ns = pick(trial, "client.response.p99_ns") or 0
    threshold_ns = max(LAG_NS, LAG_PART * response_ns)
    return Gate(
        ok=late_ns <= threshold_ns, value=late_ns / 1e9, threshold=threshold_ns / 1e9
    )


def quiet(trial: Mapping) -> Gate:
    """Nothing else burnt CPU time: other programs here, or other guests' (steal).

    The kernel counts in ticks of 10 ms per core, which a short window must allow. What
    others do meets all servers of a round alike, so of servers that take turns single
    rounds are left out (`disturbed`), for the whole set, which is left out where they
    are more than half.
    """
    rounds = pick(trial, "turns.round")
    if rounds and pick(trial, "turns.others"):
        share = len(pick(trial, "turns.disturbed") or ()) / len(rounds)
        why = f"share of {len(rounds)} rounds that were disturbed"
        return Gate(ok=share <= 0.5, value=share, threshold=0.5, why=why)
    samples = pick(trial, "server.samples") or {}
    window_s, other = samples.get("window_s"), samples.get("other_cpu_s")
    sets = trial.get("cores") or {}
    both = {*sets.get("server", ()), *sets.get("client", ())}
    cores = len(sets.get("watched") or both)
    if not window_s or other is None or not cores:
        return Gate(ok=None, why="not seen")
    share = (other + (samples.get("steal_s") or 0)) / (window_s * cores)
    allowed = OTHER_SHARE_IN_TURNS if trial.get("turns") else OTHER_SHARE
    threshold = allowed + 2 * TICK_S / (window_s * cores)
    return Gate(ok=share <= threshold, value=share, threshold=threshold)


def response_times(trial: Mapping) -> Gate:
    """The window held so many mean response times that its ends do not matter.

    Requests in flight when it opens are counted though they began before, those in
    flight at its end are not; a rate is off by about one response time's worth each.
    """
    if pick(trial, "client.stop") == "requests":
        return Gate(ok=None, why="a burst is counted to its last answer")
    counted = flatten(trial)["counted_response_times"]
    if counted is None:
        return Gate(ok=None, why="nothing was answered")
    return Gate(ok=counted >= RESPONSE_TIMES, value=counted, threshold=RESPONSE_TIMES)


def disturbed(
    others: Mapping[int, float], seconds: Mapping[int, float], *, cores: int
) -> list[int]:
    """Return the rounds in which others took more than half of the cores.

    Parameters
    ----------
    others, seconds : mapping of int to float
        By round: the cores that others took on average, and its length.
    cores : int
        How many cores server and client could use.
    """
    return [
        number
        for number, taken in others.items()
        if taken / cores > OTHER_SHARE_IN_TURNS + 2 * TICK_S / (seconds[number] * cores)
    ]


CHECKS: dict[str, Callable[[Mapping], Gate]] = {
    "census": census,
    "verified": verified,
    "rate": rate,
    "arrivals": arrivals,
    "answered": answered,
    "lag": lag,
    "little": little,
    "stationary": stationary,
    "client": client,
    "quiet": quiet,
    "response_times": response_times,
}
FINDINGS = tuple(name for name in CHECKS if name not in EXCLUDING)


def client_share(trial: Mapping) -> float | None:
    """Return how much of the CPU time it could have the client needed.

    Looking for events that had not come is not need. More threads than cores can
    only have the cores; so can client and companions together.
    """
    share = pick(trial, "client.self.cpu_share")
    if share is None:
        return None
    share = max(0.0, share - (pick(trial, "client.self.spin_share") or 0))
    crews = (pick(trial, "client.threads") or 1) * (
        pick(trial, "client.processes") or 1
    )
    cores = len(pick(trial, "cores.client") or []) or crews
    beside = _beside(trial, "client") if cores <= crews else 0.0
    return share * crews / min(crews, cores) + beside


def server_share(trial: Mapping) -> float | None:
    """Return how much of the CPU time it could have the server needed.

    A companion on the server's cores (Redis, where there are only two) belongs to
    what is served.
    """
    share = flatten(trial)["server_cpu_share"]
    return None if share is None else share + _beside(trial, "server")


def _beside(trial: Mapping, side: str) -> float:
    """Return the part of a side's cores that companions took in the window."""
    theirs = set(pick(trial, "cores.companions") or ())
    cores = set(pick(trial, f"cores.{side}") or ())
    samples = pick(trial, "server.samples") or {}
    spent, window_s = samples.get("companion_cpu_s"), samples.get("window_s")
    if not theirs or not theirs <= cores or not spent or not window_s:
        return 0.0
    return spent / (window_s * len(cores))


def _waiting(trial: Mapping) -> float | None:
    """Return which part of the requests in flight waited for the client."""
    return pick(trial, "client.self.waiting_share")


def _client_bound(
    share: float | None, server: float | None, queue: float | None
) -> bool:
    if share is None or share < CLIENT_SHARE:
        return False
    if server is None or server < SERVER_SHARE:
        return True
    return queue is not None and queue > CLIENT_QUEUE


def label(trial: Mapping) -> str | None:
    """Return who was the bottleneck; None when there is nothing to go by.

    Of a server that nobody could look at, only what the client met is known.
    """
    limit = limit_met(trial)
    if limit:
        return f"limit-bound:{limit}"
    if trial.get("failure") or not trial.get("client"):
        return None
    server, share = server_share(trial), client_share(trial)
    if pick(trial, "cores.shared") and server is not None and share is not None:
        if server + share < SERVER_SHARE:
            return "unsaturated"
        return "client-bound" if share > server else "server-bound"
    if _client_bound(share, server, _waiting(trial)):
        return "client-bound"
    if server is not None and server >= SERVER_SHARE:
        return "server-bound"
    return None if pick(trial, "server.unseen") else "unsaturated"


def limit_met(trial: Mapping) -> str | None:
    """Return the name of the limit that a trial met, if it met one."""
    refused = pick(trial, "server.stats.refused") or {}
    reason = max(refused, key=refused.get, default=None)
    if reason and refused[reason]:
        return _LIMITS.get(reason, reason)
    for name, count in (pick(trial, "client.limits") or {}).items():
        if count:
            return name
    missing = census(trial).ok is False if trial.get("client") else False
    if missing and pick(trial, "server.samples.listen_overflows"):
        return "backlog"
    many = (pick(trial, "client.active") or 1) > 1
    if many and pick(trial, "server.model.concurrent") is False:
        return "one-at-a-time"
    return "workers" if _all_workers_wait(trial) else None


def _all_workers_wait(trial: Mapping) -> bool:
    """Return whether the served delays alone kept all workers busy (Little's law)."""
    if pick(trial, "server.model.workers") != "fixed":
        return False
    workers = pick(trial, "server.stats.workers_started")
    delay_s = pick(trial, "client.delay.mean_s")
    rps = pick(trial, "client.window.throughput_rps")
    if not workers or not delay_s or not rps:
        return False
    return rps * delay_s >= SERVER_SHARE * workers


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"


def _open_loop_only() -> Gate:
    return Gate(ok=None, why="open loop only")
