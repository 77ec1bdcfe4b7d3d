"""Columns of the trial itself: what was asked, when it ran, and its verdicts."""

from __future__ import annotations

from collections.abc import Mapping

from connlab.schema.column import Column, pick

EXCLUDING = ("census", "verified", "arrivals", "lag", "quiet")
"""Gates, which leave a trial out: they look at the machine, at the client in an open
loop, at connections and at right answers. All else that a trial was checked for depends
on how well the server did; it is a finding, and leaves nothing out."""


def verdicts(trial: Mapping) -> tuple[dict[str, Mapping], dict[str, Mapping]]:
    """Return the verdicts of a trial's gates, and its findings, each by name.

    A line of before findings were told apart has all of them as gates; it is read as
    one that is written today.
    """
    every = {**(trial.get("gates") or {}), **(trial.get("findings") or {})}
    gates = {name: gate for name, gate in every.items() if name in EXCLUDING}
    return gates, {name: gate for name, gate in every.items() if name not in gates}


def _false(verdicts: Mapping[str, Mapping]) -> list[str]:
    return [name for name, gate in verdicts.items() if gate.get("ok") is False]


def excluding(trial: Mapping) -> list[str]:
    """Return the gates by which a trial is left out."""
    return _false(verdicts(trial)[0])


def _ok(trial: Mapping) -> bool:
    return not trial.get("failure") and not excluding(trial)


def _gates_failed(trial: Mapping) -> str | None:
    gates, findings = verdicts(trial)
    return ", ".join(_false({**gates, **findings})) or None


def _failure(trial: Mapping) -> str | None:
    failure = trial.get("failure")
    return f"{failure['kind']}: {failure['reason']}" if failure else None


FACTORS = (
    Column("model", "", "string", "factors.model", "way to wait (`server --list`)"),
    Column("workload", "", "string", "factors.workload", "echo, work or http"),
    Column("workers", "count", "Int64", "factors.workers", "worker threads asked for"),
    Column("processes", "count", "Int64", "factors.processes", "copies of the server"),
    Column("backlog", "count", "Int64", "factors.backlog", "listen backlog asked for"),
    Column(
        "extra_ns", "ns", "Int64", "factors.extra_ns", "known cost added to requests"
    ),
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
    Column("slice", "ms", "float64", "factors.slice", "length of a turn; none: alone"),
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
    Column(
        "response_times",
        "1",
        "float64",
        "factors.response_times",
        "mean response times that a window shall hold",
    ),
    Column(
        "duration_max",
        "s",
        "float64",
        "factors.duration_max",
        "longest window to reach them; none: five times the duration",
    ),
    Column("warmup", "s", "float64", "factors.warmup", "warm-up asked for"),
    Column("settle", "s", "float64", "factors.settle", "wait for first answers"),
)

IDENTITY = (
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
    Column(
        "beside",
        "count",
        "Int64",
        "turns.beside",
        "servers that took turns under the trial's client, its own among them",
    ),
    Column("family", "", "string", "server.model.family", "family of the model"),
    Column("model_label", "", "string", "server.model.label", "name for figures"),
    Column(
        "model_version",
        "",
        "string",
        "server.model.version",
        "what a server that connlab did not write calls its version",
    ),
)

VERDICT = (
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
        "excluded_by",
        "",
        "string",
        "gates whose ok is false",
        "gates that leave the trial out",
        derive=lambda t: ", ".join(_false(verdicts(t)[0])) or None,
    ),
    Column(
        "findings",
        "",
        "string",
        "findings whose ok is false",
        "what the trial shows of the server and does not leave it out",
        derive=lambda t: ", ".join(_false(verdicts(t)[1])) or None,
    ),
    Column(
        "gates_failed",
        "",
        "string",
        "gates and findings whose ok is false",
        "both of the above",
        derive=_gates_failed,
    ),
)
