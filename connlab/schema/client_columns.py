"""Columns of what the client said."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connlab.schema.column import Column, pick, product, ratio, total


def client_cpu_s(trial: Mapping) -> float | None:
    """Return the CPU time of the client's whole life, as it told it; else None."""
    user, system = (pick(trial, f"client.self.cpu_{p}_s") for p in ("user", "system"))
    return total(user, system)


def _errors(trial: Mapping) -> int | None:
    errors = pick(trial, "client.errors")
    return None if errors is None else sum(errors.values())


UNANSWERED = 0.001
"""Share of an open loop's requests without an answer that leaves a mean as it is."""


def unanswered_share(trial: Mapping) -> float:
    """Return which part of the requests due in the window were never answered.

    0 in a closed loop, and where the client did not count them.
    """
    missing = pick(trial, "client.window.unanswered")
    return ratio(missing, pick(trial, "client.window.arrivals")) or 0.0


def _latency(clock: str, stat: str) -> Callable[[Mapping], float | None]:
    """Return a reader of one statistic in seconds; nothing timed gives None.

    So do the response's moments and maximum where requests had no answer: those waited
    longer than all that had one, and nobody knows how long. (Of quantiles the client
    says itself which are known.)
    """
    unknown = clock == "response" and stat in ("mean", "sd", "max")

    def read(trial: Mapping) -> float | None:
        if unknown and unanswered_share(trial) > UNANSWERED:
            return None
        told = pick(trial, f"client.{clock}") or {}
        value = told.get(f"{stat}_ns")
        return value * 1e-9 if told.get("n") and value is not None else None

    return read


def _counted_response_times(trial: Mapping) -> float | None:
    if pick(trial, "client.stop") == "requests":
        return None
    mean_ns = pick(trial, "client.response.mean_ns")
    counted = ratio(pick(trial, "client.window.seconds"), mean_ns)
    return None if counted is None else counted * 1e9


CLIENT = (
    Column("loop", "", "string", "client.loop", "closed or open"),
    Column("stop", "", "string", "client.stop", "why the client stopped"),
    Column(
        "throughput_rps",
        "1/s",
        "float64",
        "client.window.throughput_rps",
        "requests completed in the window per second",
    ),
    Column(
        "bytes_per_s",
        "bytes/s",
        "float64",
        "client.window.bytes / client.window.seconds",
        "bytes that came back in the window per second",
        derive=lambda t: ratio(
            pick(t, "client.window.bytes"), pick(t, "client.window.seconds")
        ),
    ),
    Column(
        "warmup_detected_s",
        "s",
        "float64",
        "timeline.warmup_detected_s",
        "when throughput had settled, from the start of the load",
    ),
    Column(
        "window_s",
        "s",
        "float64",
        "client.window.seconds",
        "width of the measurement window",
    ),
    Column(
        "counted_response_times",
        "1",
        "float64",
        "client.window.seconds / client.response.mean_ns",
        "mean response times that were counted; none: a burst",
        derive=_counted_response_times,
    ),
    Column(
        "window_requests",
        "count",
        "Int64",
        "client.window.requests",
        "requests completed in the window",
    ),
    Column(
        "dialing_s",
        "s",
        "float64",
        "client.self.dialing_s",
        "time until all connections had been tried",
    ),
    Column(
        "offered_rps", "1/s", "float64", "client.offered_rps", "offered; open loop only"
    ),
    *(
        Column(name, "count", "Int64", f"client.connections.{name}", text)
        for name, text in (
            ("asked", "connections asked for, as the client understood it"),
            ("attempted", "connections that the client tried to open"),
            ("established", "connections that were opened"),
            ("refused", "connections never opened: refused, as the client saw it"),
            ("failed", "connections never opened for another reason"),
            ("surviving", "connections open and healthy at the end"),
        )
    ),
    Column(
        "requests_sent", "count", "Int64", "client.requests.sent", "sent, whole life"
    ),
    Column(
        "requests_completed",
        "count",
        "Int64",
        "client.requests.completed",
        "answered, whole life",
    ),
    Column(
        "requests_unanswered",
        "count",
        "Int64",
        "client.requests.unanswered",
        "sent and never answered; open loop: due and never answered",
    ),
    Column(
        "window_unanswered",
        "count",
        "Int64",
        "client.window.unanswered",
        "due in the window and never answered; open loop only",
    ),
    Column(
        "errors_total",
        "count",
        "Int64",
        "sum of client.errors",
        "errors of all kinds that the client met",
        derive=_errors,
    ),
    *(
        Column(f"errors_{kind}", "count", "Int64", f"client.errors.{kind}", text)
        for kind, text in (
            ("connect_refused", "connect: refused"),
            ("connect_timeout", "connect: no answer in time"),
            ("connect_other", "connect: any other error"),
            ("reset", "connections reset by the server"),
            ("closed", "connections closed by the server"),
            ("timeout", "requests without an answer in time"),
            ("mismatch", "answers whose bytes differ from what was sent"),
            ("send", "other errors while sending"),
            ("receive", "other errors while receiving"),
            ("status", "answers of http with a status of failure"),
        )
    ),
    *(
        Column(
            f"{clock}_{stat}_s",
            "s",
            "float64",
            f"client.{clock}.{stat}_ns",
            f"{text} of the {meaning}",
            derive=_latency(clock, stat),
        )
        for clock, meaning in (
            ("response", "time from the intended send to the answer"),
            ("service", "time from the actual send to the answer"),
            ("connect", "time to connect"),
        )
        for stat, text in (
            ("mean", "mean"),
            ("sd", "standard deviation"),
            ("min", "smallest"),
            ("max", "largest"),
            ("p50", "median"),
            ("p90", "90 % quantile"),
            ("p99", "99 % quantile"),
            ("p999", "99.9 % quantile"),
        )
    ),
    Column(
        "delay_mean_s",
        "s",
        "float64",
        "client.delay.mean_s",
        "mean of the delays asked for; workload work",
    ),
    Column(
        "delay_spread_s",
        "s",
        "float64",
        "client.delay.spread_s",
        "half the width of their distribution, where it has one",
    ),
    Column(
        "busy_workers",
        "count",
        "float64",
        "client.window.throughput_rps * client.delay.mean_s",
        "requests that their delay was passing for, on average (Little's law)",
        derive=lambda t: product(
            pick(t, "client.window.throughput_rps"), pick(t, "client.delay.mean_s")
        ),
    ),
    Column("response_n", "count", "Int64", "client.response.n", "responses timed"),
    Column(
        "fairness_jain",
        "1",
        "float64",
        "client.fairness.jain",
        "Jain index of requests over connections; 1 is fair",
    ),
    Column(
        "fairness_requests_min",
        "count",
        "Int64",
        "client.fairness.requests_min",
        "requests of the connection served least",
    ),
    Column(
        "fairness_requests_max",
        "count",
        "Int64",
        "client.fairness.requests_max",
        "requests of the connection served most",
    ),
    Column(
        "longest_wait_s",
        "s",
        "float64",
        "client.fairness.longest_wait_ns",
        "longest time that a connection went without an answer",
        scale=1e-9,
    ),
    Column(
        "client_cpu_s",
        "s",
        "float64",
        "client.self.cpu_user_s + client.self.cpu_system_s",
        "CPU time of the client, whole life",
        derive=client_cpu_s,
    ),
    Column(
        "client_cpu_share",
        "1",
        "float64",
        "client.self.cpu_share",
        "CPU time of the client in the window over the time of its threads",
    ),
    Column(
        "client_spin_share",
        "1",
        "float64",
        "client.self.spin_share",
        "the part of it that went into looking for what had not come yet",
    ),
    Column(
        "client_engine", "", "string", "client.self.engine", "how the client waited"
    ),
    Column(
        "client_waiting_share",
        "1",
        "float64",
        "client.self.waiting_share",
        "requests in flight whose answer waited for the client, of those looked at",
    ),
    *(
        Column(
            f"client_lag_{stat}_s",
            "s",
            "float64",
            f"client.self.lag_{stat}_ns",
            f"{stat} of how late the client itself sent",
            scale=1e-9,
        )
        for stat in ("p50", "p99", "max")
    ),
)
