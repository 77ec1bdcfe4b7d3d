"""Columns of a frame that take more than one fact of a trial.

    DERIVED: name of the column -> function of the trial -> its value, or None

``columns.csv`` declares them, with the formula in words as their path.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from connlab.schema.facts import Gate


def pick(trial: Mapping, path: str) -> Any:
    """Return the value at a dotted `path` of nested mappings, or None."""
    value: Any = trial
    for step in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def level_text(level: Any) -> str:
    """Return a factor's level as on a command line: a pair as ``MIN-MAX``."""
    pair = level if isinstance(level, list | tuple) else [level]
    return "-".join(map(str, pair))


def ratio(above: float | None, below: float | None) -> float | None:
    """Return above / below; None where either is missing, or below is zero."""
    return None if above is None or not below else above / below


def total(*values: float | None) -> float | None:
    """Return the sum of all; None where one is missing."""
    return None if None in values else sum(values)


def product(a: float | None, b: float | None) -> float | None:
    """Return a × b; None where either is missing."""
    return None if a is None or b is None else a * b


# ---- verdicts ------------------------------------------------------------------

EXCLUDING = ("census", "workers", "verified", "arrivals", "load", "lag", "quiet")
"""Gates, which exclude a trial: they check the machine, the load, connections,
workers and answers, and the client in an open loop. All other checks depend on how well
the server did; they are findings, and exclude nothing."""

FINDINGS = ("rate", "answered", "little", "stationary", "client", "response_times")


def verdicts(trial: Mapping) -> tuple[dict[str, Mapping], dict[str, Mapping]]:
    """Return the verdicts of a trial's gates, and its findings, each by name.

    Old lines have findings among their gates, and no gate ``load``.
    """
    checks = {**(trial.get("gates") or {}), **(trial.get("findings") or {})}
    if checks and "load" not in checks:
        checks["load"] = load_gate(trial).model_dump()
    gates = {name: gate for name, gate in checks.items() if name in EXCLUDING}
    return gates, {name: gate for name, gate in checks.items() if name not in gates}


LOAD = 0.25


def load_gate(trial: Mapping) -> Gate:
    """Closed loop, in turns: at least a quarter of the users waited for an answer.

    A steady closed loop without think time has all of them waiting. In turns some rest
    when a turn begins and ends, so that three quarters or more wait on average. A tenth
    of them are another load, with other costs. Until 26 November 2026 the client began
    32 users at a time, and of 10 000 some 700 waited: a request then costs what it
    costs with 700.
    """
    waiting, users = waiting_users(trial), _users(trial)
    if waiting is None or not users:
        return Gate(ok=None, why="needs a closed loop without think time, in turns")
    share, why = waiting / users, f"{waiting:.0f} of {users:.0f} users waited at a time"
    return Gate(ok=share >= LOAD, value=share, threshold=LOAD, why=why)


def _users(trial: Mapping) -> float | None:
    established = pick(trial, "client.connections.established")
    return pick(trial, "client.active") or established


def waiting_users(trial: Mapping) -> float | None:
    """Return how many users waited for an answer, on average over counted slices.

    Little's law: X · R. None where users think or wait for a byte rate, or where
    servers took no turns.
    """
    client, turns = trial.get("client") or {}, trial.get("turns") or {}
    rests = client.get("think_s") or pick(trial, "factors.byte_rate") is not None
    if client.get("loop") != "closed" or rests:
        return None
    waited_ns, seconds = (sum(turns.get(k) or ()) for k in ("response_ns", "seconds"))
    return ratio(waited_ns * 1e-9, seconds)


def _false(verdicts: Mapping[str, Mapping]) -> list[str]:
    return [name for name, gate in verdicts.items() if gate.get("ok") is False]


def excluding(trial: Mapping) -> list[str]:
    """Return the gates that exclude a trial."""
    return _false(verdicts(trial)[0])


def _findings(trial: Mapping) -> list[str]:
    return _false(verdicts(trial)[1])


def _failure(trial: Mapping) -> str | None:
    failure = trial.get("failure")
    return f"{failure['kind']}: {failure['reason']}" if failure else None


# ---- the client ----------------------------------------------------------------


def client_cpu_s(trial: Mapping) -> float | None:
    """Return the CPU time of the client's whole life, if its report has it."""
    user, system = (pick(trial, f"client.self.cpu_{p}_s") for p in ("user", "system"))
    return total(user, system)


def _errors(trial: Mapping) -> int | None:
    errors = pick(trial, "client.errors")
    return None if errors is None else sum(errors.values())


UNANSWERED = 0.001
"""Share of an open loop's requests without an answer that leaves a mean as it is."""


def _unanswered_share(trial: Mapping) -> float:
    """Return the share of the window's requests that were never answered.

    0 in a closed loop, and where the client did not count them.
    """
    missing = pick(trial, "client.window.unanswered")
    return ratio(missing, pick(trial, "client.window.arrivals")) or 0.0


def _latency(clock: str, stat: str) -> Callable[[Mapping], float | None]:
    """Return a function that reads one statistic in seconds, None if nothing was timed.

    Requests without an answer waited longer than all others, nobody knows how long:
    then the response's moments and maximum are None as well. (Unknown quantiles are
    null in the client's report.)
    """
    needs_all = clock == "response" and stat in ("mean", "sd", "max")

    def read(trial: Mapping) -> float | None:
        if needs_all and _unanswered_share(trial) > UNANSWERED:
            return None
        stats = pick(trial, f"client.{clock}") or {}
        value = stats.get(f"{stat}_ns")
        return value * 1e-9 if stats.get("n") and value is not None else None

    return read


def _slice_p99(trial: Mapping) -> float | None:
    """Return the median over the counted rounds of each slice's own p99."""
    counted = [ns for ns in counted_rounds(trial, "response_p99_ns") if ns]
    return statistics.median(counted) * 1e-9 if counted else None


def _counted_response_times(trial: Mapping) -> float | None:
    if pick(trial, "client.stop") == "requests":
        return None
    mean_ns = pick(trial, "client.response.mean_ns")
    counted = ratio(pick(trial, "client.window.seconds"), mean_ns)
    return None if counted is None else counted * 1e9


# ---- turns -----------------------------------------------------------------------


def counts_whole_slices(trial: Mapping) -> bool:
    """Whether a rate in turns is of whole slices, and not of what follows the lead-in.

    Where answers take longer than the lead-in, the server works on them in time that
    would not count: with one user and answers of 5 ms the rate would be 5 % too high.
    In a closed loop a slice begins and ends at rest, so that all of it can be counted.
    Quick echoes of few users are steady by the end of the lead-in.
    """
    factors, turns = trial.get("factors") or {}, trial.get("turns") or {}
    if not turns or turns.get("pause_ms") is not None or factors.get("think"):
        return False
    if pick(trial, "client.loop") != "closed":
        return False
    quick = factors.get("workload") == "echo" and largest_message(factors) <= _SMALL
    return not quick or (_users(trial) or 0) > _FEW


def largest_message(factors: Mapping) -> float:
    """Return the bytes of the largest message: of 64, ``16-64`` or a pair of these.

    0 where none is given, or what is given is no number of bytes.
    """
    try:
        largest = float(level_text(factors.get("size")).rpartition("-")[2])
    except ValueError:
        return 0.0
    return largest if math.isfinite(largest) else 0.0


_SMALL, _FEW = 1024, 100


def counts_answers(trial: Mapping) -> bool:
    """Whether a rate of whole slices is of a lone user, who always waits for an answer.

    It is then of the answers, over the time that they took. Trials do not hold how long
    a slice was, and seconds with the lead-in count a part of it twice: since 29
    November 2026 seconds begin with the answer that was under way as the lead-in ended.
    """
    return counts_whole_slices(trial) and _users(trial) == 1


def skipped_rounds(trial: Mapping) -> set[int]:
    """Return the numbers of the rounds that count in no mean and no ratio.

    Those that others disturbed, and the very first where it was to be warm-up: until
    29 November 2026 the client's warm-up began with `--settle`, so that none was left
    where that took as long. An only round stays.
    """
    turns = trial.get("turns") or {}
    disturbed = set(turns.get("disturbed") or ())
    cold = pick(trial, "factors.warmup") and pick(trial, "client.slices.warmup") == 0
    others = set(turns.get("round") or ()) - disturbed
    return disturbed | {0} if cold and len(others) > 1 and 0 in others else disturbed


def counted_rounds(trial: Mapping, name: str) -> list[Any]:
    """Return a list of `turns` without `skipped_rounds`.

    Empty where servers took no turns, or where the trial lacks the list.
    """
    turns, skipped = trial.get("turns") or {}, skipped_rounds(trial)
    pairs = zip(turns.get("round") or (), turns.get(name) or (), strict=False)
    return [value for number, value in pairs if number not in skipped]


def _of_counted_rounds(trial: Mapping, name: str) -> float | None:
    values = counted_rounds(trial, name)
    return total(*values) if values else None


def _window(trial: Mapping) -> tuple[float | None, float | None]:
    """Return the requests and the seconds that a rate is made of.

    In turns, of the rounds that others left alone.
    """
    requests, seconds = (
        _of_counted_rounds(trial, name) for name in ("requests", "seconds")
    )
    if requests is None or seconds is None:
        window = pick(trial, "client.window") or {}
        return window.get("requests"), window.get("seconds")
    response_ns = _of_counted_rounds(trial, "response_ns")
    if response_ns and counts_answers(trial):
        seconds = response_ns * 1e-9
    elif counts_whole_slices(trial):
        requests += _of_counted_rounds(trial, "lead_in_requests") or 0
        lead_in_s = trial["turns"]["lead_in_ms"] / 1e3
        seconds += len(counted_rounds(trial, "seconds")) * lead_in_s
    return requests, seconds


def _throughput(trial: Mapping) -> float | None:
    """Return requests per second; alone as the client reports it."""
    if _of_counted_rounds(trial, "seconds") is None:
        return pick(trial, "client.window.throughput_rps")
    return ratio(*_window(trial))


def _bytes_rate(trial: Mapping) -> float | None:
    """Return bytes per second: of a request, times requests per second in turns."""
    window = pick(trial, "client.window") or {}
    if not trial.get("turns"):
        return ratio(window.get("bytes"), window.get("seconds"))
    each = ratio(window.get("bytes"), window.get("requests"))
    return product(each, _throughput(trial))


def cpu_in_ticks(trial: Mapping) -> bool:
    """Whether the CPU time of a slice is known in steps of 10 ms only.

    That of children that have ended is (``src_c/client/client_watch.h``), so of a
    process per connection where clients come anew. Their sum over rounds is known.
    """
    anew = pick(trial, "factors.requests_per_connection")
    return bool(anew) and pick(trial, "server.model.holds") == "processes"


def _cpu_per_request(trial: Mapping) -> float | None:
    """Return seconds of the server's CPU time, in turns of whole slices.

    Without the slices after which its clock had not moved, as the server still ran: the
    clock tells of them later, in the time between two turns.
    """
    names = ("server_cpu_ns", "requests", "lead_in_requests")
    columns = (counted_rounds(trial, name) for name in names)
    rows = [row for row in zip(*columns, strict=False) if row[0] is not None]
    if not cpu_in_ticks(trial):
        rows = [row for row in rows if row[0] > 0]
    spent_ns = sum(row[0] for row in rows)
    requests = sum(sum(row[1:]) for row in rows)
    if spent_ns and requests:
        return spent_ns * 1e-9 / requests
    return ratio(_server_cpu(trial), _served_requests(trial))


def _warmed_s(trial: Mapping) -> float | None:
    """Return the seconds of load that a server had before its turns.

    None where it took none, or nobody had said yet that it needs any.
    """
    if not trial.get("turns"):
        return None
    asked = pick(trial, "factors.warm_up")
    return pick(trial, "server.model.warm_up") if asked is None else asked


def _rest_cpu_share(trial: Mapping) -> float | None:
    """Return the share of the server's CPU time that it spends between its turns."""
    rest_ns, spent_ns = (
        _of_counted_rounds(trial, name) for name in ("rest_cpu_ns", "server_cpu_ns")
    )
    return ratio(rest_ns, total(rest_ns, spent_ns))


# ---- the server ----------------------------------------------------------------


def _server_cpu(trial: Mapping) -> float | None:
    samples = pick(trial, "server.samples") or {}
    return total(samples.get("cpu_user_s"), samples.get("cpu_system_s"))


def _server_width(trial: Mapping) -> int:
    """Return how many cores the server could keep busy at once.

    A thread that only accepts serves nobody: where the server reports how many workers
    it started, no more than these count. The driver may have seen none of the threads
    that serve a client each, where clients come anew in every turn and it looked
    between two of these; the server counted its clients.
    """
    each = pick(trial, "server.model.workers_each") or 0
    seen = pick(trial, "server.samples.threads_max") or 0
    threads = max(seen, each * (pick(trial, "server.stats.open_max") or 0))
    started = pick(trial, "server.stats.workers_started") or 0
    workers = started * max(1, each) or threads
    return min(len(pick(trial, "cores.server") or []), threads, workers)


def _served_requests(trial: Mapping) -> float:
    """Return the requests that the server's CPU time was spent on."""
    if turns := trial.get("turns"):
        return sum(turns["lead_in_requests"]) + sum(turns["requests"])
    return (pick(trial, "server.samples.window_s") or 0) * (
        pick(trial, "client.window.throughput_rps") or 0
    )


def _net(trial: Mapping, name: str) -> float | None:
    samples = pick(trial, "server.samples") or {}
    peak = samples.get(f"{name}_bytes")
    base = samples.get(f"{name}_baseline_bytes")
    return None if peak is None or base is None else max(0, peak - base)


def _busiest_worker(trial: Mapping) -> float | None:
    """Return the busiest worker's requests over the mean; None with no request."""
    requests = pick(trial, "server.stats.requests_per_worker") or ()
    return ratio(max(requests, default=0) * len(requests), sum(requests))


def refused_reason(trial: Mapping) -> str | None:
    """Return which limit made the server refuse most; None if it refused none.

    To have been about to end is no limit.
    """
    refused = dict(pick(trial, "server.stats.refused") or {})
    refused.pop("stopping", None)
    reason = max(refused, key=refused.get, default=None)
    return reason if reason and refused[reason] else None


DERIVED: dict[str, Callable[[Mapping], Any]] = {
    "server_cores": lambda t: len(pick(t, "cores.server") or []) or None,
    "client_cores": lambda t: len(pick(t, "cores.client") or []) or None,
    "ok": lambda t: not t.get("failure") and not excluding(t),
    "failure": _failure,
    "excluded_by": lambda t: ", ".join(excluding(t)) or None,
    "findings": lambda t: ", ".join(_findings(t)) or None,
    "gates_failed": lambda t: ", ".join(excluding(t) + _findings(t)) or None,
    "window_requests": lambda t: _window(t)[0],
    "window_s": lambda t: _window(t)[1],
    "throughput_rps": _throughput,
    "bytes_per_s": _bytes_rate,
    "counted_response_times": _counted_response_times,
    "errors_total": _errors,
    **{
        f"{clock}_{stat}_s": _latency(clock, stat)
        for clock in ("response", "service", "connect")
        for stat in ("mean", "sd", "min", "max", "p50", "p90", "p99", "p999")
    },
    "slice_p99_s": _slice_p99,
    "waiting_users": waiting_users,
    "busy_workers": lambda t: product(_throughput(t), pick(t, "client.delay.mean_s")),
    "client_cpu_s": client_cpu_s,
    "server_cpu_s": _server_cpu,
    "server_cpu_share": lambda t: ratio(
        _server_cpu(t), (pick(t, "server.samples.window_s") or 0) * _server_width(t)
    ),
    "server_cpu_per_request_s": _cpu_per_request,
    "rest_cpu_share": _rest_cpu_share,
    "warmed_s": _warmed_s,
    "pss_net_bytes": lambda t: _net(t, "pss"),
    "pss_per_connection_bytes": lambda t: ratio(
        _net(t, "pss"), pick(t, "client.connections.established")
    ),
    "socket_memory_bytes": lambda t: _net(t, "socket_memory"),
    "context_switches_per_request": lambda t: ratio(
        total(
            pick(t, "server.samples.context_switches_voluntary"),
            pick(t, "server.samples.context_switches_involuntary"),
        ),
        pick(t, "server.stats.requests"),
    ),
    "refused_reason": refused_reason,
    "busiest_worker": _busiest_worker,
}
