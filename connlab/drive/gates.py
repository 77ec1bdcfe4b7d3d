"""Checks of a trial: gates exclude it, findings do not; a label names its bottleneck.

Each check is a function of one trial's facts that gives a figure, a threshold and a
verdict. A verdict of None says that the check does not apply (one of the open loop in a
closed loop, a window too short to judge).

A gate checks whether the conditions of the trial were those of its factors, and leaves
it out of intervals if not; the trial is kept, and counted. No gate may look at how well
the server did: to leave out the trials in which it starved its users would be to choose
the result (survivorship). What depends on that is a finding: it is recorded with the
trial, and the trial counts.

    gate      fails when                                       looks at the outcome
    census    the connections asked for, established and       no
              surviving are not the same number
    workers   fewer workers started than the server was asked  no
              for, as memory or a limit ended before
    verified  an answer was wrong                              no
    arrivals  open loop: the requests due differ from the      no
              schedule by 5 sigma (paced: by 1 %)
    load      closed loop, in turns: fewer than a quarter of    no
              the users waited for an answer at a time
    lag       open loop: the client's p99 lateness is over     only to let pass what
              0.2 ms and over 10 % of the p99 response; in     cannot matter
              turns such slices are repeated before
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

A finding that does not hold has ``ok`` false, like a gate that fails.

The label says what kept the throughput from being higher:

    limit-bound:NAME   a limit was met: descriptors, fd_setsize, threads, processes,
                       ports, memory, backlog, queue, buffers, workers, one-at-a-time
    server-bound       the server had no CPU time left: a faster client could not
                       have got more than a few percent more out of it
    client-bound       the client had none left and the server had, or most requests in
                       flight stood before the client; it may not rank servers
    unsaturated        both had some left; more load would have given more

Where both are busy all the time, CPU shares do not tell which is the bottleneck: a
program that finds few events at a time spends more on each, and so fills its core. Then
the queue decides: the bottleneck is where requests wait, and the client reports which
part of them were answered but not yet received (``src_c/client/client_probe.c``).
"""

import math
from collections.abc import Callable, Mapping, Sequence

from connlab import schema
from connlab.drive import timelines
from connlab.drive.samples import LOOK_S
from connlab.schema import UNANSWERED, Gate, pick

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
#: a count of random arrivals may be off by so many standard deviations
ARRIVALS_SIGMA = 5.0
#: the client may send late by so much, or by this part of the response time
LAG_NS = 200_000
LAG_PART = 0.10
#: mean response times that a window shall hold
RESPONSE_TIMES = 50.0

#: which part of the requests in flight waited for the client
_QUEUE = "client.self.waiting_share"
_LIMITS = {"queue_full": "queue"}
_OPEN_LOOP_ONLY = Gate(ok=None, why="open loop only")


def judge(trial: Mapping, names: Sequence[str] = schema.EXCLUDING) -> dict[str, Gate]:
    """Return verdicts on one trial by the names of the checks, by default the gates.

    `trial` is as `connlab.schema.Trial` dumps it. Empty without a client's report.
    """
    return {name: CHECKS[name](trial) for name in names} if trial.get("client") else {}


def rate(trial: Mapping) -> Gate:
    """Open loop: answers came at the rate at which requests fell due: no overload.

    Not quite the rate that was offered, as random arrivals scatter (see `arrivals`).
    """
    due_rps = pick(trial, "client.offered_rps")
    count = pick(trial, "client.window.arrivals")
    window_s = pick(trial, "client.window.seconds")
    if due_rps and count and window_s:
        due_rps = count / window_s
    answered_rps = pick(trial, "client.window.throughput_rps")
    if not due_rps or answered_rps is None:
        return _OPEN_LOOP_ONLY
    ratio = answered_rps / due_rps
    return Gate(ok=abs(ratio - 1) <= RATE, value=ratio, threshold=RATE)


def arrivals(trial: Mapping) -> Gate:
    """Open loop: as many requests fell due as the rate and the schedule say."""
    due = _due(trial)
    count = pick(trial, "client.window.arrivals")
    if not due or count is None:
        return _OPEN_LOOP_ONLY
    planned, actual = pick(trial, "factors.arrivals"), pick(trial, "client.arrivals")
    if planned is not None and planned != actual:
        return Gate(ok=False, why=f"{actual} in place of {planned}")
    slack = 0.01 * due if actual == "paced" else ARRIVALS_SIGMA * math.sqrt(due)
    threshold = (slack + 1) / due
    ok = abs(count - due) <= slack + 1
    return Gate(ok=ok, value=count / due, threshold=threshold)


def _due(trial: Mapping) -> float | None:
    """Return how many requests the rate lets fall due while the client asks.

    A slice ends with its last answer, but nothing falls due after its planned end: with
    the time to the last answer, a slow server would seem to get fewer requests. Each
    client on other hosts totals the slices that it had itself, also those of rounds
    that the merge set aside.
    """
    turns, offered = trial.get("turns"), pick(trial, "client.offered_rps")
    if not offered:
        return None
    if not turns:
        return offered * (pick(trial, "client.window.seconds") or 0.0)
    slice_s = (turns["slice_ms"] - turns["lead_in_ms"]) / 1e3
    if hosts := pick(trial, "client.hosts"):
        reports = [host["report"] for host in hosts.values()]
        return sum(r["offered_rps"] * r["slices"]["counted"] for r in reports) * slice_s
    return offered * len(turns["round"]) * slice_s


def answered(trial: Mapping) -> Gate:
    """Open loop: of the requests that fell due, all but a few were answered.

    The others have no response time. They waited longest, so that quantiles up to
    99.9 % are known as long as no more than 0.1 % are missing, and the mean is that of
    the answered ones; where more are missing, there is no mean. Trials of clients that
    did not count them are not judged.
    """
    due = pick(trial, "client.window.arrivals")
    missing = pick(trial, "client.window.unanswered")
    if not due or missing is None:
        return _OPEN_LOOP_ONLY
    share = missing / due
    why = f"{missing} of {due} were never answered"
    return Gate(ok=share <= UNANSWERED, value=share, threshold=UNANSWERED, why=why)


def census(trial: Mapping) -> Gate:
    """Connections asked for = established = surviving."""
    wanted = pick(trial, "client.connections.asked")
    established = pick(trial, "client.connections.established") or 0
    surviving = pick(trial, "client.connections.surviving") or 0
    if not wanted:
        return Gate(ok=None, why="no connection was asked for")
    fewest = min(established, surviving)
    why = f"{wanted} asked, {established} established, {surviving} surviving"
    return Gate(ok=fewest == wanted, value=fewest / wanted, threshold=1.0, why=why)


def workers(trial: Mapping) -> Gate:
    """Workers asked for = started, in all processes; of a fixed number only.

    More may start, in place of some that ended.
    """
    asked = pick(trial, "server.ready.workers")
    started = pick(trial, "server.stats.workers_started")
    fixed = pick(trial, "server.model.workers") == "fixed"
    if not (fixed and asked) or started is None:
        return Gate(ok=None, why="no fixed number of workers")
    asked *= pick(trial, "server.ready.processes") or 1
    why = f"{asked} asked, {started} started"
    return Gate(ok=started >= asked, value=started / asked, threshold=1.0, why=why)


def stationary(trial: Mapping) -> Gate:
    """Throughput does not drift inside the window, and warm-up was over before it.

    A burst, which is over when everybody has been answered, has no steady state.
    """
    if pick(trial, "client.stop") == "requests":
        return Gate(ok=None, why="a burst begins and ends")
    timeline = trial.get("timeline")
    warmup_s = pick(trial, "client.window.warmup_s")
    window_s = pick(trial, "client.window.seconds")
    if not timeline or warmup_s is None or not window_s:
        return Gate(ok=None, why="no timeline")
    steps = timelines.in_window(timeline, warmup_s=warmup_s, window_s=window_s)
    trend = timelines.trend(steps)
    if trend is None:
        return Gate(ok=None, why=f"{len(steps)} steps are too few to judge")
    change, p = trend
    warm_s = timeline.get("warmup_detected_s")
    latest_s = warmup_s + WARMUP_SLACK * window_s
    late = warm_s is not None and warm_s > latest_s
    drifts = abs(change) > TREND and (p < TREND_P or late)
    why = f"p {p:.2g}, warm after {warm_s} s"
    return Gate(ok=not drifts, value=change, threshold=TREND, why=why)


def little(trial: Mapping) -> Gate:
    """Closed loop: N = X · (R + Z), the users that Little's law finds busy.

    Where users reconnect, R includes the time to connect: it counts from when they
    meant to ask. Users who wait longer than the window leave no response time, so that
    the law gives less than N: a server that starves some of them does not pass.
    """
    report = trial["client"]
    if report.get("loop") != "closed" or report.get("stop") != "duration":
        return Gate(ok=None, why="needs a closed loop that lasts the whole window")
    if pick(trial, "factors.byte_rate") is not None:
        return Gate(ok=None, why="users wait for their byte rate")
    if trial.get("turns"):
        return Gate(ok=None, why="users rest between their server's turns")
    users = report.get("active") or pick(trial, "client.connections.established")
    rps = pick(trial, "client.window.throughput_rps")
    response_ns = pick(trial, "client.response.mean_ns")
    if not users or not rps or response_ns is None:
        return Gate(ok=None, why="nothing was answered")
    cycle_s = response_ns / 1e9 + (report.get("think_s") or 0)
    ratio = rps * cycle_s / users
    fewest = pick(trial, "client.fairness.requests_min")
    why = None if fewest is None else f"the user served least had {fewest} answers"
    return Gate(ok=abs(ratio - 1) <= LITTLE, value=ratio, threshold=LITTLE, why=why)


def verified(trial: Mapping) -> Gate:
    """Every answer was right, as far as the client can tell.

    Of echo it compares every byte; of work it knows the least value; of http it checks
    the status and the length of the body, not what it says.
    """
    errors = trial["client"].get("errors") or {}
    wrong = (errors.get("mismatch") or 0) + (errors.get("status") or 0)
    return Gate(ok=wrong == 0, value=wrong, threshold=0)


def client(trial: Mapping) -> Gate:
    """The client had CPU time left, or requests waited for the server.

    Else the rate is a lower bound of what the server can do.
    """
    share = client_share(trial)
    if share is None:
        return Gate(ok=None, why="the client does not say")
    server, queue = server_share(trial), pick(trial, _QUEUE)
    why = f"server {_percent(server)}, waiting before the client {_percent(queue)}"
    ok = not client_bound(share, server, queue)
    return Gate(ok=ok, value=share, threshold=CLIENT_SHARE, why=why)


def lag(trial: Mapping) -> Gate:
    """Open loop: the client sent when it meant to.

    In turns, slices in which it did not have been repeated already.
    """
    late_ns = pick(trial, "client.self.lag_p99_ns")
    if pick(trial, "client.loop") != "open" or late_ns is None:
        return _OPEN_LOOP_ONLY
    response_ns = pick(trial, "client.response.p99_ns") or 0
    threshold_ns = lag_allowed_ns(response_ns)
    ok = late_ns <= threshold_ns
    return Gate(ok=ok, value=late_ns / 1e9, threshold=threshold_ns / 1e9)


def lag_allowed_ns(response_p99_ns: float) -> float:
    """Return how late 99 % of requests may leave where they took so long at most."""
    return max(LAG_NS, LAG_PART * response_p99_ns)


def quiet(trial: Mapping) -> Gate:
    """Other programs here and other guests (steal) used little CPU time.

    The kernel counts in ticks of 10 ms per core, which the threshold allows for. Others
    disturb all servers of a round alike, so of servers that take turns single rounds
    are left out (`disturbed`), and the whole set where they are more than half.

    A kernel with CONFIG_IRQ_TIME_ACCOUNTING charges no process with receiving packets,
    which over loopback happens in the middle of sending. `/proc/stat` counts it, so
    that this work of the trial itself passes for that of others: servers measured alone
    may fail with nobody there (``accept`` overlooks the gate), while the half that
    turns allow leaves room for it. The gate stays as it is: a container cannot always
    tell which kernel it has, and without the option processes are charged with the same
    ticks, so that leaving them out would hide as much of others' work.
    """
    rounds = pick(trial, "turns.round")
    if rounds and pick(trial, "turns.others"):
        share = len(pick(trial, "turns.disturbed") or ()) / len(rounds)
        why = f"share of {len(rounds)} rounds that were disturbed"
        return Gate(ok=share <= 0.5, value=share, threshold=0.5, why=why)
    samples = pick(trial, "server.samples") or {}
    window_s, other_s = samples.get("window_s"), samples.get("other_cpu_s")
    sets = trial.get("cores") or {}
    used = {*sets.get("server", ()), *sets.get("client", ())}
    cores = len(sets.get("watched") or used)
    if not window_s or other_s is None or not cores:
        return Gate(ok=None, why="not seen")
    share = (other_s + (samples.get("steal_s") or 0)) / (window_s * cores)
    allowed = OTHER_SHARE_IN_TURNS if trial.get("turns") else OTHER_SHARE
    threshold = allowed + 2 * TICK_S / (window_s * cores)
    return Gate(ok=share <= threshold, value=share, threshold=threshold)


def response_times(trial: Mapping) -> Gate:
    """The window held so many mean response times that its ends do not matter.

    Requests in flight at its start are counted though they began before, those in
    flight at its end are not; each shifts a rate by about one response time.
    """
    if pick(trial, "client.stop") == "requests":
        return Gate(ok=None, why="a burst is counted to its last answer")
    counted = schema.flatten(trial)["counted_response_times"]
    if counted is None:
        return Gate(ok=None, why="nothing was answered")
    return Gate(ok=counted >= RESPONSE_TIMES, value=counted, threshold=RESPONSE_TIMES)


def disturbed(
    others: Mapping[int, float], seconds: Mapping[int, float], *, cores: int
) -> list[int]:
    """Return the rounds in which others took more than half of the cores.

    `others` are by round the cores that others took on average, `seconds` the length of
    rounds; `cores` is how many server and client could use.
    """
    return [
        number
        for number, taken in others.items()
        if taken / cores > OTHER_SHARE_IN_TURNS + 2 * TICK_S / (seconds[number] * cores)
    ]


CHECKS: dict[str, Callable[[Mapping], Gate]] = {
    check.__name__: check
    for check in (
        *(census, workers, verified, rate, arrivals, answered, lag),
        *(little, stationary, client, quiet, response_times),
    )
} | {"load": schema.load_gate}


def client_share(trial: Mapping) -> float | None:
    """Return the part of the CPU time available to the client that it needed.

    Polling without an event is not counted. More threads than cores can only have the
    cores; so can client and companions together.
    """
    share = pick(trial, "client.self.cpu_share")
    if share is None:
        return None
    share = max(0.0, share - (pick(trial, "client.self.spin_share") or 0))
    processes = pick(trial, "client.processes") or 1
    threads = (pick(trial, "client.threads") or 1) * processes
    cores = len(pick(trial, "cores.client") or []) or threads
    companions = _companions_share(trial, "client") if cores <= threads else 0.0
    return share * threads / min(threads, cores) + companions


def server_share(trial: Mapping) -> float | None:
    """Return the part of the CPU time available to the server that it needed.

    A companion on the server's cores (Redis, where there are only two) belongs to
    what is served. None for a burst that may have been over before two looks: most of
    what is between the readings around it is not the burst.
    """
    if _too_short(trial):
        return None
    share = schema.flatten(trial)["server_cpu_share"]
    return None if share is None else share + _companions_share(trial, "server")


def _too_short(trial: Mapping) -> bool:
    """Whether this is a burst in which the driver may not have looked twice."""
    burst = pick(trial, "client.stop") == "requests"
    return burst and (pick(trial, "client.window.seconds") or 0) < 2 * LOOK_S


def _companions_share(trial: Mapping, side: str) -> float:
    companions = set(pick(trial, "cores.companions") or ())
    cores = set(pick(trial, f"cores.{side}") or ())
    samples = pick(trial, "server.samples") or {}
    spent_s, window_s = samples.get("companion_cpu_s"), samples.get("window_s")
    if not companions or not companions <= cores or not spent_s or not window_s:
        return 0.0
    return spent_s / (window_s * len(cores))


def client_bound(
    share: float | None, server: float | None, queue: float | None
) -> bool:
    """Whether the client was the limit, by the shares of a core that both sides used.

    Where both are full, `queue` tells: the share of answers that waited for the client.
    """
    if share is None or share < CLIENT_SHARE:
        return False
    if server is None or server < SERVER_SHARE:
        return True
    return queue is not None and queue > schema.CLIENT_QUEUE


def bottleneck(
    share: float | None,
    server: float | None,
    queue: float | None,
    *,
    shared: bool = False,
) -> str | None:
    """Return which side had no CPU time left, as in a label; None: not known.

    Of one core that both `shared` the side that used more is the bottleneck.
    """
    if shared and server is not None and share is not None:
        if server + share < SERVER_SHARE:
            return "unsaturated"
        return "client-bound" if share > server else "server-bound"
    if client_bound(share, server, queue):
        return "client-bound"
    if server is None:
        return None
    return "server-bound" if server >= SERVER_SHARE else "unsaturated"


def label(trial: Mapping) -> str | None:
    """Return the bottleneck; None when it is not known.

    Of a server that could not be sampled, or not in a burst as short as that, only the
    client's side is known.
    """
    if limit := limit_met(trial):
        return f"limit-bound:{limit}"
    if trial.get("failure") or not trial.get("client"):
        return None
    server, share = server_share(trial), client_share(trial)
    shared = bool(pick(trial, "cores.shared"))
    found = bottleneck(share, server, pick(trial, _QUEUE), shared=shared)
    unseen = pick(trial, "server.unseen") or _too_short(trial)
    return found or (None if unseen else "unsaturated")


def limit_met(trial: Mapping) -> str | None:
    """Return the name of the limit that a trial met, if it met one."""
    if reason := schema.refused_reason(trial):
        return _LIMITS.get(reason, reason)
    for name, count in (pick(trial, "client.limits") or {}).items():
        if count:
            return name
    missing = trial.get("client") and census(trial).ok is False
    if missing and pick(trial, "server.samples.listen_overflows"):
        return "backlog"
    several = (pick(trial, "client.active") or 1) > 1
    if several and pick(trial, "server.model.concurrent") is False:
        return "one-at-a-time"
    return "workers" if _all_workers_wait(trial) else None


def _all_workers_wait(trial: Mapping) -> bool:
    """Whether the served delays alone kept all workers busy (Little's law)."""
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
