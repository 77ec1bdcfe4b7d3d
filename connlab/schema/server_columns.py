"""Columns of what the server said, and of what was seen of it from outside."""

from __future__ import annotations

from collections.abc import Mapping

from connlab.schema.column import Column, pick, ratio, total


def _server_cpu(trial: Mapping) -> float | None:
    samples = pick(trial, "server.samples") or {}
    return total(samples.get("cpu_user_s"), samples.get("cpu_system_s"))


def _server_width(trial: Mapping) -> int:
    """Return how many cores the server could keep busy at once.

    A thread that only accepts answers nobody: where the server says how many workers
    it started, it has no more than these.
    """
    threads = pick(trial, "server.samples.threads_max") or 0
    each = max(1, pick(trial, "server.model.workers_each") or 0)
    workers = (pick(trial, "server.stats.workers_started") or 0) * each or threads
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
    most = samples.get(f"{name}_bytes")
    base = samples.get(f"{name}_baseline_bytes")
    return None if most is None or base is None else max(0, most - base)


def _busiest_worker(trial: Mapping) -> float | None:
    """Return the busiest worker's requests over the mean; None with no request."""
    each = pick(trial, "server.stats.requests_per_worker") or ()
    return ratio(max(each, default=0) * len(each), sum(each))


def _refused_reason(trial: Mapping) -> str | None:
    refused = pick(trial, "server.stats.refused") or {}
    reason = max(refused, key=refused.get, default=None)
    return reason if reason and refused[reason] else None


SERVER = (
    Column(
        "start_s",
        "s",
        "float64",
        "server.ready.start_s",
        "from the start of the server's program until it took connections",
    ),
    Column(
        "server_cpu_s",
        "s",
        "float64",
        "server.samples.cpu_user_s + server.samples.cpu_system_s",
        "CPU time of the server's processes in the window",
        derive=_server_cpu,
    ),
    Column(
        "server_cpu_user_s",
        "s",
        "float64",
        "server.samples.cpu_user_s",
        "the part in user mode",
    ),
    Column(
        "server_cpu_system_s",
        "s",
        "float64",
        "server.samples.cpu_system_s",
        "the part in the kernel",
    ),
    Column(
        "server_cpu_share",
        "1",
        "float64",
        "server CPU / (server.samples.window_s × cores it could use)",
        "CPU time over what min(cores, threads, workers) could give",
        derive=lambda t: ratio(
            _server_cpu(t),
            (pick(t, "server.samples.window_s") or 0) * _server_width(t),
        ),
    ),
    Column(
        "server_cpu_per_request_s",
        "s",
        "float64",
        "server CPU / (server.samples.window_s × client.window.throughput_rps), in "
        "turns server CPU / requests of the slices",
        "CPU time of the server per request, in the window",
        derive=lambda t: ratio(_server_cpu(t), _served_requests(t)),
    ),
    Column(
        "stall_from_s",
        "s",
        "float64",
        "server.stall.from_s",
        "when the stall began, after the client's start",
    ),
    Column(
        "stall_seen_s",
        "s",
        "float64",
        "server.stall.seconds",
        "how long the server stood still in fact",
    ),
    Column(
        "pss_bytes",
        "bytes",
        "Int64",
        "server.samples.pss_bytes",
        "proportional set size of the server's processes, the most seen",
    ),
    Column(
        "pss_baseline_bytes",
        "bytes",
        "Int64",
        "server.samples.pss_baseline_bytes",
        "the same before any client came",
    ),
    Column(
        "pss_net_bytes",
        "bytes",
        "Int64",
        "pss_bytes − pss_baseline_bytes",
        "memory that the clients cost in the server's processes",
        derive=lambda t: _net(t, "pss"),
    ),
    Column(
        "pss_per_connection_bytes",
        "bytes",
        "float64",
        "pss_net_bytes / established",
        "the same per connection",
        derive=lambda t: ratio(
            _net(t, "pss"), pick(t, "client.connections.established")
        ),
    ),
    Column(
        "socket_memory_bytes",
        "bytes",
        "Int64",
        "server.samples.socket_memory_bytes − socket_memory_baseline_bytes",
        "TCP buffers in the kernel, whole machine: on loopback both ends",
        derive=lambda t: _net(t, "socket_memory"),
    ),
    Column(
        "sockets_max",
        "count",
        "Int64",
        "server.samples.sockets_max",
        "TCP sockets in use, whole machine: on loopback both ends",
    ),
    Column(
        "time_wait_start",
        "count",
        "Int64",
        "server.samples.time_wait_start",
        "sockets in TIME_WAIT before the trial",
    ),
    Column(
        "threads_max",
        "count",
        "Int64",
        "server.samples.threads_max",
        "threads of the server, the most seen",
    ),
    Column(
        "processes_max",
        "count",
        "Int64",
        "server.samples.processes_max",
        "processes of the server, the most seen",
    ),
    *(
        Column(
            f"context_switches_{kind}",
            "count",
            "Int64",
            f"server.samples.context_switches_{kind}",
            f"{kind} context switches of the server, whole life",
        )
        for kind in ("voluntary", "involuntary")
    ),
    Column(
        "context_switches_per_request",
        "count",
        "float64",
        "both kinds / server.stats.requests",
        "context switches of the server per request, whole life",
        derive=lambda t: ratio(
            total(
                pick(t, "server.samples.context_switches_voluntary"),
                pick(t, "server.samples.context_switches_involuntary"),
            ),
            pick(t, "server.stats.requests"),
        ),
    ),
    Column(
        "listen_overflows",
        "count",
        "Int64",
        "server.samples.listen_overflows",
        "connections that found the accept queue full, whole machine",
    ),
    Column(
        "listen_drops",
        "count",
        "Int64",
        "server.samples.listen_drops",
        "connection requests dropped by a listening socket, whole machine",
    ),
    Column(
        "other_cpu_s",
        "s",
        "float64",
        "server.samples.other_cpu_s",
        "CPU time burnt by anything else in the window",
    ),
    Column(
        "companion_cpu_s",
        "s",
        "float64",
        "server.samples.companion_cpu_s",
        "CPU time of what the server asks, such as Redis, in the window",
    ),
    Column(
        "steal_s",
        "s",
        "float64",
        "server.samples.steal_s",
        "time that the hypervisor gave to others in the window",
    ),
    Column(
        "accepted",
        "count",
        "Int64",
        "server.stats.accepted",
        "connections accepted, as the server counted",
    ),
    Column(
        "refused_by_server",
        "count",
        "Int64",
        "server.stats.refused_total",
        "connections refused, as the server counted",
    ),
    Column(
        "refused_reason",
        "",
        "string",
        "largest of server.stats.refused",
        "why the server refused most of them",
        derive=_refused_reason,
    ),
    Column(
        "open_max",
        "count",
        "Int64",
        "server.stats.open_max",
        "connections open at once, as the server counted",
    ),
    Column(
        "server_requests",
        "count",
        "Int64",
        "server.stats.requests",
        "requests served, as the server counted",
    ),
    *(
        Column(
            f"bytes_{way}",
            "bytes",
            "Int64",
            f"server.stats.bytes_{way}",
            f"bytes that the server {done}, as it counted, over its whole life",
        )
        for way, done in (("in", "received"), ("out", "sent"))
    ),
    Column(
        "workers_started",
        "count",
        "Int64",
        "server.stats.workers_started",
        "worker threads that really ran",
    ),
    Column(
        "busiest_worker",
        "1",
        "float64",
        "most of server.stats.requests_per_worker over their mean",
        "requests of the busiest worker over the mean of all (1: balanced)",
        derive=_busiest_worker,
    ),
)
