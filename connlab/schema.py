"""What a trial is: the facts on disk, and the columns that frames make of them.

This module is the one word that ``connlab.drive`` (which writes) and
``connlab.study`` (which reads) share. It holds three things:

- pydantic models of the lines in ``runs/NAME/STUDY/trials.jsonl``;
- `COLUMNS`, one row per flat column: name, unit, type, where its value stands in a
  trial, and what it means (``runs/README.md`` is generated from it);
- `flatten`, which turns one trial into one row.

Facts that come from the C programs keep their names and may grow new ones: a model
allows extra keys, so that a newer server never makes an older reader fail. Times are
integers in nanoseconds where a name ends in ``_ns`` and floats in seconds where it
ends in ``_s``. Flat columns are in SI units without prefix (seconds, bytes, 1/s).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1
CLIENT_QUEUE = 0.5
"""A client is the bottleneck when more than this part of the requests wait for it."""
CORES_APART = 1.1
"""Two cores count as two as long as a computation on one takes no more than so many
times as long while the other is busy."""

# --- where files stand ------------------------------------------------------------


def project_root() -> Path:
    """Return the folder that holds ``src_c`` and ``runs``.

    Notebooks run with their own folder as working directory, commands with the
    project's; both must find the same ``runs``. So: ``$CONNLAB_HOME`` if set, else the
    nearest ancestor of the working directory that looks like the project, else the
    folder that this package lies in.
    """
    if home := os.environ.get("CONNLAB_HOME"):
        return Path(home)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "src_c").is_dir() and (folder / "connlab").is_dir():
            return folder
    return Path(__file__).resolve().parent.parent


def run_folder(run: str, *, root: str | Path = "runs") -> Path:
    """Return ``root/run``; a relative `root` counts from the project's folder."""
    return project_root() / root / run


def study_folder(run: str, study: str, *, root: str | Path = "runs") -> Path:
    """Return the folder of one study in one run (it need not exist)."""
    return run_folder(run, root=root) / study


# --- facts ------------------------------------------------------------------------


class Facts(BaseModel):
    """A fact: frozen, and open to keys that a newer program adds."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)


class Model(Facts):
    """A row of ``server --list``: one way to wait for many clients."""

    name: str
    family: str
    label: str
    available: bool = True
    reason: str | None = None
    concurrent: bool = True
    holds: str | None = None
    isolates_slow: bool = True
    workers: str | None = None
    workers_each: int = 0


class Workload(Facts):
    """A row of ``server --list``: one kind of work."""

    name: str
    label: str = ""
    available: bool = True
    reason: str | None = None


class Registry(Facts):
    """The answer of ``server --list``."""

    models: tuple[Model, ...]
    workloads: tuple[Workload, ...] = ()


class Ready(Facts):
    """The server's first line."""

    model: str
    host: str
    port: int
    workload: str | None = None
    processes: int | None = None
    workers: int | None = None


class Stats(Facts):
    """The server's last line: what it counted itself, over its whole life."""

    accepted: int = 0
    refused: dict[str, int] = {}
    refused_total: int = 0
    open_max: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    errors: dict[str, int] = {}
    workers_started: int | None = None
    requests_per_worker: list[int] = []
    processes: int | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    context_switches_voluntary: int | None = None
    context_switches_involuntary: int | None = None
    seconds: float | None = None


class Samples(Facts):
    """What the driver saw of the server and its machine from outside.

    CPU figures cover the measurement window, and `window_s` is the width that they
    really cover. Memory and counts are the most that was seen between ready and the
    client's end. Kernel figures belong to the whole machine (or network namespace):
    on loopback the socket memory holds both ends of every connection.
    """

    window_s: float | None = None
    window_from: str | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    pss_bytes: int | None = None
    pss_baseline_bytes: int | None = None
    threads_max: int | None = None
    processes_max: int | None = None
    context_switches_voluntary: int | None = None
    context_switches_involuntary: int | None = None
    socket_memory_bytes: int | None = None
    socket_memory_baseline_bytes: int | None = None
    sockets_max: int | None = None
    time_wait_start: int | None = None
    listen_overflows: int | None = None
    listen_drops: int | None = None
    other_cpu_s: float | None = None
    softirq_cpu_s: float | None = None
    steal_s: float | None = None
    driver_cpu_s: float | None = None
    client_cpu_s: float | None = None
    companion_cpu_s: float | None = None
    samples: int = 0
    memory_samples: int = 0


class Stall(Facts):
    """A time in which the server stood still, because the trial asked for it."""

    from_s: float
    """After the start of the client."""
    seconds: float


class Server(Facts):
    """The server's side of a trial; what is missing was never said by it."""

    model: Model | None = None
    ready: Ready | None = None
    stats: Stats | None = None
    samples: Samples | None = None
    stall: Stall | None = None
    exit: int | None = None
    diagnostics: str | None = None


class Latency(Facts):
    """Moments and quantiles of one clock; all null when nothing was measured.

    In the open loop a request that was never answered waits longer than all that
    were: a quantile of the response is null where it falls on one of those. Moments
    are of what was answered.
    """

    n: int = 0
    mean_ns: float | None = None
    sd_ns: float | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    p50_ns: int | None = None
    p90_ns: int | None = None
    p99_ns: int | None = None
    p999_ns: int | None = None


class Census(Facts):
    """Connections, as asked for and as they ended."""

    asked: int
    attempted: int = 0
    established: int = 0
    refused: int = 0
    failed: int = 0
    surviving: int = 0


class Client(Facts):
    """The client's JSON object (``src_c/client.c`` says what each figure means)."""

    workload: str | None = None
    loop: str | None = None
    arrivals: str | None = None
    seed: int | None = None
    offered_rps: float | None = None
    threads: int | None = None
    processes: int | None = None
    active: int | None = None
    think_s: float | None = None
    connections: Census
    requests: dict[str, int] = {}
    bytes: dict[str, int] = {}
    errors: dict[str, int] = {}
    window: dict[str, Any] = {}
    response: Latency = Latency()
    service: Latency = Latency()
    connect: Latency = Latency()
    fairness: dict[str, Any] = {}
    self_: dict[str, Any] = Field({}, alias="self")
    stop: str | None = None


class Gate(Facts):
    """One verdict on one trial. `ok` is null where the gate does not apply."""

    ok: bool | None
    value: float | None = None
    threshold: float | None = None
    why: str | None = None


class Failure(Facts):
    """Why a trial has no usable figures.

    Kinds: ``unavailable`` (the model cannot run here), ``server-start``,
    ``server-died``, ``client-failed``, ``client-hung``, ``no-connection``,
    ``no-requests``.
    """

    kind: str
    reason: str


class Timeline(Facts):
    """Requests completed in consecutive steps from the start of the client's load.

    Warm-up and window follow each other; `warmup_detected_s` says after how many
    seconds throughput had settled, whatever warm-up was asked for.
    """

    step_ms: int
    start_ms: int
    requests: list[int]
    warmup_detected_s: float | None = None


class Trial(Facts):
    """One line of ``trials.jsonl``: a fresh server, a fresh client, self-contained."""

    schema_: int = Field(SCHEMA, alias="schema")
    key: str
    study: str
    block: int
    order: int
    repeat: int
    seed: int
    factors: dict[str, Any]
    started_at: str
    seconds: float
    environment: str
    binaries: dict[str, str]
    commands: dict[str, str] = {}
    cores: dict[str, list[int] | bool]
    server: Server
    client: Client | None = None
    timeline: Timeline | None = None
    gates: dict[str, Gate] = {}
    label: str | None = None
    failure: Failure | None = None


class Heartbeat(Facts):
    """``progress.json``: what a sweep is doing, rewritten after every trial."""

    schema_: int = Field(SCHEMA, alias="schema")
    run: str
    study: str
    state: str
    planned: int
    done: int
    resumed: int
    failed: int
    started_at: str
    updated_at: str
    seconds: float
    eta_s: float | None = None
    window_share: float | None = None
    current: dict[str, Any] | None = None
    message: str | None = None


# --- columns ----------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A flat column: where its value stands in a trial and what it means.

    Attributes
    ----------
    name, unit, dtype, description : str
        `dtype` is a pandas dtype that knows missing values; `unit` is ``"1"`` for
        ratios, ``"count"`` for counts, ``""`` for text and truth values.
    path : str
        Dotted path into the trial, or a formula in words when `derive` is set.
    scale : float
        What the value at `path` is multiplied by to get to `unit`.
    derive : callable, optional
        Computes the value from the whole trial; then `path` only documents it.
    """

    name: str
    unit: str
    dtype: str
    path: str
    description: str
    scale: float | None = None
    derive: Callable[[Mapping], Any] | None = None


def pick(trial: Mapping, path: str) -> Any:
    """Return the value at a dotted `path` of nested mappings, or None."""
    value: Any = trial
    for step in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _sum(*values: float | None) -> float | None:
    return None if any(value is None for value in values) else sum(values)


def _product(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a * b


def client_cpu_s(trial: Mapping) -> float | None:
    """Return the CPU time of the client's whole life, as it told it; else None."""
    user, system = (pick(trial, f"client.self.cpu_{p}_s") for p in ("user", "system"))
    return _sum(user, system)


def _server_cpu(trial: Mapping) -> float | None:
    samples = pick(trial, "server.samples") or {}
    return _sum(samples.get("cpu_user_s"), samples.get("cpu_system_s"))


def _server_width(trial: Mapping) -> int:
    """Return how many cores the server could keep busy at once.

    A thread that only accepts answers nobody: where the server says how many workers
    it started, it has no more than these.
    """
    threads = pick(trial, "server.samples.threads_max") or 0
    each = max(1, pick(trial, "server.model.workers_each") or 0)
    workers = (pick(trial, "server.stats.workers_started") or 0) * each or threads
    return min(len(pick(trial, "cores.server") or []), threads, workers)


def _net(trial: Mapping, name: str) -> float | None:
    samples = pick(trial, "server.samples") or {}
    most = samples.get(f"{name}_bytes")
    base = samples.get(f"{name}_baseline_bytes")
    return None if most is None or base is None else max(0, most - base)


def _ok(trial: Mapping) -> bool:
    gates = (trial.get("gates") or {}).values()
    return not trial.get("failure") and all(g.get("ok") is not False for g in gates)


def _gates_failed(trial: Mapping) -> str | None:
    gates = (trial.get("gates") or {}).items()
    return ", ".join(name for name, g in gates if g.get("ok") is False) or None


def _errors(trial: Mapping) -> int | None:
    errors = pick(trial, "client.errors")
    return None if errors is None else sum(errors.values())


def _latency(clock: str, stat: str) -> Callable[[Mapping], float | None]:
    """Return a reader of one statistic in seconds; nothing timed gives None."""

    def read(trial: Mapping) -> float | None:
        told = pick(trial, f"client.{clock}") or {}
        value = told.get(f"{stat}_ns")
        return value * 1e-9 if told.get("n") and value is not None else None

    return read


def _failure(trial: Mapping) -> str | None:
    failure = trial.get("failure")
    return f"{failure['kind']}: {failure['reason']}" if failure else None


def _busiest_worker(trial: Mapping) -> float | None:
    """Return the busiest worker's requests over the mean; None with no request."""
    each = pick(trial, "server.stats.requests_per_worker") or ()
    return _ratio(max(each, default=0) * len(each), sum(each))


def _refused_reason(trial: Mapping) -> str | None:
    refused = pick(trial, "server.stats.refused") or {}
    reason = max(refused, key=refused.get, default=None)
    return reason if reason and refused[reason] else None


FACTORS = (
    Column("model", "", "string", "factors.model", "way to wait (`server --list`)"),
    Column("workload", "", "string", "factors.workload", "echo, work or http"),
    Column("workers", "count", "Int64", "factors.workers", "worker threads asked for"),
    Column("processes", "count", "Int64", "factors.processes", "copies of the server"),
    Column("backlog", "count", "Int64", "factors.backlog", "listen backlog asked for"),
    Column("queue", "count", "Int64", "factors.queue", "bound of the pool's queue"),
    Column("buckets", "count", "Int64", "factors.buckets", "locks of workload work"),
    Column("delay_kind", "", "string", "factors.delay_kind", "sleep or spin"),
    Column("cores", "count", "Int64", "factors.cores", "cores given to the server"),
    Column(
        "together", "", "boolean", "factors.together", "on one core with the client"
    ),
    Column(
        "descriptors",
        "count",
        "Int64",
        "factors.descriptors",
        "lowered limit of descriptors per process; none: the machine's own",
    ),
    Column("arm", "", "string", "factors.arm", "name of an arm; no program sees it"),
    Column("stall", "ms", "float64", "factors.stall", "stall of the server asked for"),
    Column("connections", "count", "Int64", "factors.connections", "connections asked"),
    Column("active", "count", "Int64", "factors.active", "connections that talk"),
    Column("size", "bytes", "string", "factors.size", "message size, or MIN-MAX"),
    Column("threads", "count", "Int64", "factors.threads", "threads of the client"),
    Column(
        "client_processes",
        "count",
        "Int64",
        "factors.client_processes",
        "processes of the client",
    ),
    Column(
        "requests",
        "count",
        "Int64",
        "factors.requests",
        "requests per connection in all (in place of a duration)",
    ),
    Column("rate", "1/s", "float64", "factors.rate", "offered rate; none: closed loop"),
    Column("arrivals", "", "string", "factors.arrivals", "poisson or paced"),
    Column("byte_rate", "bytes/s", "float64", "factors.byte_rate", "limit per block"),
    Column("block_size", "count", "Int64", "factors.block", "connections in a block"),
    Column("think", "ms", "string", "factors.think", "think time, closed loop"),
    Column("connect_rate", "1/s", "float64", "factors.connect_rate", "connects per s"),
    Column(
        "requests_per_connection",
        "count",
        "Int64",
        "factors.requests_per_connection",
        "requests before a connection is replaced; 0: never",
    ),
    Column("delay", "ms", "string", "factors.delay", "distribution of the delay asked"),
    Column("path", "", "string", "factors.path", "path that http asks for"),
    Column("root", "", "string", "factors.root", "folder that http serves"),
    Column("redis", "", "string", "factors.redis", "HOST:PORT of the guestbook"),
    Column("remarks", "count", "Int64", "factors.remarks", "remarks in the guestbook"),
    Column("sources", "", "string", "factors.sources", "source addresses FIRST-LAST"),
    Column("timeout", "s", "float64", "factors.timeout", "patience for an answer"),
    Column(
        "connect_timeout",
        "s",
        "float64",
        "factors.connect_timeout",
        "patience for a connection",
    ),
    Column("drain", "s", "float64", "factors.drain", "wait after the window"),
    Column("engine", "", "string", "factors.engine", "how the client shall wait"),
    Column("spin", "us", "string", "factors.spin", "how long the client looks"),
    Column("duration", "s", "float64", "factors.duration", "window asked for"),
    Column("warmup", "s", "float64", "factors.warmup", "warm-up asked for"),
    Column("settle", "s", "float64", "factors.settle", "wait for first answers"),
)

_IDENTITY = (
    Column("key", "", "string", "key", "hash that a sweep resumes by"),
    Column("study", "", "string", "study", "name of the study"),
    Column("block", "count", "Int64", "block", "block that the trial was run in"),
    Column("order", "count", "Int64", "order", "place in the block, shuffled"),
    Column("repeat", "count", "Int64", "repeat", "how many-th trial of its cell"),
    Column("seed", "", "Int64", "seed", "seed given to the client"),
    Column("started_at", "", "string", "started_at", "start of the trial, UTC"),
    Column("seconds", "s", "float64", "seconds", "wall time of the trial"),
    Column("environment", "", "string", "environment", "class of environment"),
    Column("server_binary", "", "string", "binaries.server", "hash of the server"),
    Column("client_binary", "", "string", "binaries.client", "hash of the client"),
    Column(
        "server_cores",
        "count",
        "Int64",
        "number of cores.server",
        "cores that the server could use",
        derive=lambda t: len(pick(t, "cores.server") or []) or None,
    ),
    Column(
        "client_cores",
        "count",
        "Int64",
        "number of cores.client",
        "cores that the client could use",
        derive=lambda t: len(pick(t, "cores.client") or []) or None,
    ),
    Column(
        "cores_shared",
        "",
        "boolean",
        "cores.shared",
        "server and client had to share cores",
    ),
    Column(
        "cores_siblings",
        "",
        "boolean",
        "cores.siblings",
        "they did not, but had threads of one physical core",
    ),
    Column("family", "", "string", "server.model.family", "family of the model"),
    Column("model_label", "", "string", "server.model.label", "name for figures"),
)

_VERDICT = (
    Column(
        "ok",
        "",
        "boolean",
        "no failure and no gate failed",
        "may be used by rule",
        derive=_ok,
    ),
    Column("label", "", "string", "label", "who was the bottleneck"),
    Column(
        "failure",
        "",
        "string",
        "failure.kind: failure.reason",
        "why there are no figures; none: there are",
        derive=_failure,
    ),
    Column("failure_kind", "", "string", "failure.kind", "kind of the failure, if one"),
    Column(
        "gates_failed",
        "",
        "string",
        "gates whose ok is false",
        "names of the gates that the trial failed",
        derive=_gates_failed,
    ),
)

_CLIENT = (
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
        derive=lambda t: _ratio(
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
        derive=lambda t: _product(
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

_SERVER = (
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
        derive=lambda t: _ratio(
            _server_cpu(t),
            (pick(t, "server.samples.window_s") or 0) * _server_width(t),
        ),
    ),
    Column(
        "server_cpu_per_request_s",
        "s",
        "float64",
        "server CPU / (server.samples.window_s × client.window.throughput_rps)",
        "CPU time of the server per request, in the window",
        derive=lambda t: _ratio(
            _server_cpu(t),
            (pick(t, "server.samples.window_s") or 0)
            * (pick(t, "client.window.throughput_rps") or 0),
        ),
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
        derive=lambda t: _ratio(
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
        derive=lambda t: _ratio(
            _sum(
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

COLUMNS: tuple[Column, ...] = FACTORS + _IDENTITY + _VERDICT + _CLIENT + _SERVER


def value_of(column: Column, trial: Mapping) -> Any:
    """Return the value of one column for one trial (a plain mapping)."""
    if column.derive is not None:
        return column.derive(trial)
    value = pick(trial, column.path)
    return value if value is None or column.scale is None else value * column.scale


def flatten(trial: Mapping) -> dict[str, Any]:
    """Turn a trial, as read from its JSON line, into one flat row.

    Parameters
    ----------
    trial : mapping
        ``json.loads`` of a line of ``trials.jsonl``.

    Returns
    -------
    dict
        One entry per column of `COLUMNS`, missing values as None, then the factors
        that `COLUMNS` does not know, under their own names.
    """
    row = {column.name: value_of(column, trial) for column in COLUMNS}
    for name, value in (trial.get("factors") or {}).items():
        row.setdefault(name, value)
    for column in FACTORS:
        if column.dtype == "string" and row[column.name] is not None:
            row[column.name] = _text(row[column.name])
    return row


def _text(level: Any) -> str:
    """Return a level of a factor as a flag spells it: a pair is ``MIN-MAX``."""
    if isinstance(level, list | tuple):
        return "-".join(map(str, level))
    return str(level)
