"""What a column is called in a sentence, in which unit, and which end is good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from connlab import schema


@dataclass(frozen=True)
class Metric:
    """A column as readers meet it."""

    name: str
    label: str
    unit: str
    """Base unit of the column; for rates with what is counted: "requests/s"."""
    better: Literal["lower", "higher"]


_STATS = {
    "mean": "mean {}",
    "sd": "standard deviation of {}",
    "min": "shortest {}",
    "max": "longest {}",
    "p50": "median {}",
    "p90": "90th percentile of {}",
    "p99": "99th percentile of {}",
    "p999": "99.9th percentile of {}",
}
_CLOCKS = {
    "response": "response time",
    "service": "service time",
    "connect": "time to connect",
}
_NAMED = {
    "throughput_rps": ("throughput", "requests/s", "higher"),
    "bytes_per_s": ("bytes echoed", "bytes/s", "higher"),
    "received_per_s": ("bytes received by the server", "bytes/s", "higher"),
    "server_cpu_per_request_s": ("server CPU per request", "s", "lower"),
    "cpu_per_mib_s": ("server CPU per MiB", "s", "lower"),
    "server_cpu_s": ("server CPU", "s", "lower"),
    "server_cpu_share": ("server CPU share", "1", "lower"),
    "client_cpu_share": ("client CPU share", "1", "lower"),
    "pss_bytes": ("memory of the server", "bytes", "lower"),
    "pss_net_bytes": ("memory for the clients", "bytes", "lower"),
    "pss_per_connection_bytes": ("memory per connection", "bytes", "lower"),
    "socket_memory_bytes": ("socket buffers in the kernel", "bytes", "lower"),
    "threads_max": ("threads of the server", "count", "lower"),
    "threads": ("threads that the server started", "count", "lower"),
    "processes_max": ("processes of the server", "count", "lower"),
    "established": ("connections established", "count", "higher"),
    "surviving": ("connections surviving", "count", "higher"),
    "open_max": ("connections open at once", "count", "higher"),
    "context_switches_per_request": ("context switches per request", "count", "lower"),
    "fairness_jain": ("Jain's fairness index", "1", "higher"),
    "busy_workers": ("busy workers", "count", "higher"),
    "throughput_scaled_rps": ("throughput, time scaled", "requests/s", "higher"),
    "longest_wait_s": ("longest wait", "s", "lower"),
    "busiest_worker": ("requests of the busiest worker / mean", "1", "lower"),
    "thread_create_s": ("creation and end of a thread", "s", "lower"),
    "start_s": ("start-up time", "s", "lower"),
    "switch_s": ("context switch", "s", "lower"),
}


def metric(name: str) -> Metric:
    """Return what is known of a column.

    Columns without an entry here take unit and meaning from the schema; smaller
    counts as better for them.
    """
    if name in _NAMED:
        return Metric(name, *_NAMED[name])
    clock, _, rest = name.partition("_")
    stat = rest.removesuffix("_s")
    if clock in _CLOCKS and stat in _STATS:
        return Metric(name, _STATS[stat].format(_CLOCKS[clock]), "s", "lower")
    for column in schema.COLUMNS:
        if column.name == name:
            return Metric(name, column.description, column.unit, "lower")
    return Metric(name, name.replace("_", " "), "", "lower")


_OWN_COSTS = ("server_cpu", "pss", "threads", "processes", "context_switches")
_RATES_AND_TIMES = ("throughput", "bytes_per_s", "response_", "service_")


def client_matters(name: str) -> bool:
    """Whether a saturated client distorts a column.

    It does not change what a request costs the server, nor sizes and counts of tasks.
    """
    return not name.startswith(_OWN_COSTS)


def is_bounded_by_client(name: str) -> bool:
    """Whether a saturated client leaves a bound on what the server can do.

    In a closed loop a better client could only have found more throughput, and so a
    shorter response time (Little's law). Of other columns nothing can be said.
    """
    return name.startswith(_RATES_AND_TIMES)
