"""One trial: a fresh server, a fresh client, and samples of both.

    start server -> ready -> look (idle) -> start client -> look … look
        -> the client's report -> stop client -> stop server -> one line of facts

Whatever goes wrong becomes a reason in the trial, never an exception: a server that
does not come up, dies midway or prints junk, a client that fails or hangs.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from connlab import schema
from connlab.drive import (
    flags,
    interrupt,
    machine,
    samples,
    servers,
    services,
    stall,
)
from connlab.drive.cores import Cores
from connlab.drive.host import Ended, Host, HostLost, ProgramError, Reading
from connlab.drive.programs import Programs, described

READY_S = 10.0
GRACE_S = 5.0
MEMORY_LOOK_S = 0.25
#: the time until the next look is at least this multiple of what a look costs
LOOK_COST = 50
#: time for a client to notice that its server is gone
NOTICE_S = 3.0


@dataclass(frozen=True)
class Setting:
    """The settings of a trial."""

    factors: Mapping[str, Any]
    seed: int
    cores: Cores
    programs: Programs
    model: schema.Model | None = None
    files: tuple[str, ...] = ("timeline",)


@dataclass(frozen=True)
class Outcome:
    """The result of a trial, before gates and labels."""

    server: schema.Server
    client: schema.Client | None
    failure: schema.Failure | None
    files: Mapping[str, bytes]
    seconds: float
    turns: schema.Turns | None = None


@dataclass
class _Course:
    """A trial that is under way."""

    setting: Setting
    server_host: Host
    client_host: Host
    began_s: float = field(default_factory=time.monotonic)
    server: int | None = None
    client: int | None = None
    snapshots: list[samples.Snapshot] = field(default_factory=list)
    ready: dict | None = None
    report: dict | None = None
    started_at_s: float = 0.0
    reported_at_s: float = 0.0
    stall: schema.Stall | None = None
    failure: schema.Failure | None = None


def run(setting: Setting, *, server_host: Host, client_host: Host) -> Outcome | None:
    """Run one trial; None when a signal asked to stop meanwhile (nothing is kept)."""
    server_host = servers.host_of(setting.factors["model"], server_host)
    course = _Course(setting, server_host, client_host)
    server_end = client_end = None
    try:
        _start_server(course)
        if course.ready is not None:
            _run_client(course)
    except ProgramError as error:
        course.failure = failed("server-start", str(error))
    except HostLost as error:
        course.failure = failed("host-lost", str(error))
    finally:
        grace_s = 0 if interrupt.requested() else GRACE_S
        if course.client is not None:
            wait_s = GRACE_S if course.report else 0
            client_end = _stop(course, client_host, course.client, 1.0, wait_s)
        if course.server is not None:
            server_end = _stop(course, server_host, course.server, grace_s)
    if interrupt.requested():
        return None
    return _outcome(course, server_end, client_end)


def _stop(
    course: _Course, host: Host, handle: int, grace_s: float, wait_s: float = 0
) -> Ended | None:
    """Stop a program; a host that is lost ends it itself."""
    try:
        return host.stop(handle, grace_s=grace_s, wait_s=wait_s)
    except HostLost as error:
        course.failure = course.failure or failed("host-lost", str(error))
        return None


def not_measured(model: schema.Model, kind: str, reason: str) -> Outcome:
    """Return the outcome of a server without a client: a failure, no figures."""
    return Outcome(schema.Server(model=model), None, failed(kind, reason), {}, 0.0)


def timeout_s(factors: Mapping[str, Any]) -> float:
    """Return how long a client may take, with ample time to connect.

    And with all the time that the factors say it shall wait beside its window.
    """
    lasting = longest_s(factors)
    if factors.get("requests") is not None:
        lasting = max(120.0, factors.get("timeout") or 0.0)
    if factors.get("rate") is not None:  # client --late repeats slices
        lasting += factors["duration"]
    connections = factors.get("connections") or 1
    connecting = connections / (factors.get("connect_rate") or 500)
    waits = ("connect_timeout", "settle", "warmup", "drain")
    waiting = sum(factors.get(name) or 0 for name in waits)
    return lasting + waiting + connecting + 15


def longest_s(factors: Mapping[str, Any]) -> float:
    """Return how long a window may last, in seconds; see ``client --duration-max``."""
    if not factors.get("response_times"):
        return factors["duration"]
    return factors.get("duration_max") or flags.LONGER * factors["duration"]


def _start_server(course: _Course) -> None:
    setting, host = course.setting, course.server_host
    argv = servers.argv(setting.programs, setting.factors)
    began = time.monotonic()
    course.server = host.start(argv, cores=setting.cores.server)
    try:
        ready = ready_line(host, course.server, READY_S)
    except ProgramError as error:
        raise ProgramError(f"server: {error}") from None
    if interrupt.requested():
        return
    if ready is None:
        raise ProgramError(f"not ready after {READY_S:g} s")
    course.ready = {"start_s": time.monotonic() - began} | ready
    course.snapshots.append(_snapshot(host.sample(course.server, memory=True)))


def ready_line(host: Any, handle: int, timeout_s: float) -> dict | None:
    """Return a server's first line; None when time is up or a signal came.

    `ProgramError` when it is none of `connlab.schema.Ready`.
    """
    line = host.ready(handle, timeout_s=timeout_s)
    if line is None:
        return None
    if line.get("event") != "ready":
        raise ProgramError(f"said {line.get('event')!r}, not 'ready'")
    try:
        schema.Ready.model_validate(line)
    except ValidationError as error:
        reason = described(error.errors()[0])
        raise ProgramError(f"its ready line is malformed: {reason}") from None
    return line


def _run_client(course: _Course) -> None:
    """Run the client to its end; that it fails is noted."""
    setting, host = course.setting, course.client_host
    target = f"{course.ready['host']}:{course.ready['port']}"
    words = flags.client_flags(setting.factors, seed=setting.seed, sets=setting.cores)
    argv = [*setting.programs.client, target, *words]
    course.started_at_s = time.monotonic()
    try:
        course.client = host.start(
            argv, cores=setting.cores.client, files=setting.files
        )
        with stall.during(
            setting.factors,
            course.server_host,
            course.server,
            started_at_s=course.started_at_s,
            # of clients on several hosts, which agree on it
            begins_s=(lambda: host.begins_s) if hasattr(host, "begins_s") else None,
        ) as watched:
            _attend(course)
        course.stall = watched.seen
    except ProgramError as error:
        course.failure = failed("client-failed", f"client: {error}")


def _attend(course: _Course) -> None:
    began = time.monotonic()
    allowed_s = timeout_s(course.setting.factors)
    until = began + allowed_s
    next_memory = began + MEMORY_LOOK_S
    pause = samples.LOOK_S
    gone = False
    while course.report is None and not interrupt.requested():
        course.report = course.client_host.ready(course.client, timeout_s=pause)
        course.reported_at_s = time.monotonic()
        memory = course.report is None and course.reported_at_s >= next_memory
        reading = course.server_host.sample(course.server, memory=memory)
        of_client = course.client_host.sample(course.client, machine=False)
        course.snapshots += map(_snapshot, reading.before)
        course.snapshots.append(_snapshot(reading, of_client))
        pause = max(samples.LOOK_S, LOOK_COST * (reading.cost_s + of_client.cost_s))
        if memory:
            next_memory = time.monotonic() + max(MEMORY_LOOK_S, pause)
        if reading.gone and not gone:
            gone, until = True, min(until, time.monotonic() + NOTICE_S)
        if course.report is None and time.monotonic() >= until:
            if not gone:
                reason = f"client: no report after {allowed_s:.3g} s"
                course.failure = failed("client-hung", reason)
            return


def _snapshot(server: Reading, client: Reading | None = None) -> samples.Snapshot:
    return samples.Snapshot(
        server, client, time.monotonic(), time.process_time(), services.cpu_s()
    )


def _outcome(
    course: _Course, server_end: Ended | None, client_end: Ended | None
) -> Outcome:
    usage = last_line(server_end, "stats", "usage")
    at = servers.address_of(course.setting.factors["model"])
    sampled = None
    if course.snapshots and at is None:
        sampled = samples.summarise(
            course.snapshots,
            samples.Report(course.report, course.started_at_s, course.reported_at_s),
            stats=usage,
            same_host=course.server_host is course.client_host,
        )
    server = schema.Server(
        model=course.setting.model,
        ready=schema.Ready.model_validate(course.ready) if course.ready else None,
        stats=counted(server_end),
        samples=sampled,
        unseen=at.why if at else None,
        stall=course.stall,
        exit=server_end.exit if server_end else None,
        diagnostics=diagnostics(server_end),
    )
    client, malformed = checked(course.report)
    failure = (course.snapshots and server_died(server_end)) or course.failure
    failure = failure or malformed or empty(client)
    if failure and failure.kind == "client-failed":
        text = diagnostics(client_end)
        if text and text not in failure.reason:
            failure = failed(failure.kind, f"{failure.reason}: {text}")
    files = client_end.files if client_end else {}
    return Outcome(server, client, failure, files, time.monotonic() - course.began_s)


def last_line(end: Ended | None, *events: str) -> dict | None:
    """Return the last line of these events that a program printed, if it did.

    What it used over its whole life is in the ``stats`` of our servers, and in the
    ``usage`` that ``build/external`` prints for others.
    """
    lines = [line for line in (end.lines if end else ()) if line.get("event") in events]
    return lines[-1] if lines else None


def counted(end: Ended | None) -> schema.Stats | None:
    """Return what a server counted itself; None where it printed nothing such."""
    line = last_line(end, "stats")
    try:
        return schema.Stats.model_validate(line) if line else None
    except ValidationError:
        return None


def server_died(end: Ended | None) -> schema.Failure | None:
    """Return the failure of a server that ended before it was asked to."""
    text = died(end)
    return None if text is None else failed("server-died", f"server: {text}")


def died(end: Ended | None) -> str | None:
    """Return how a program ended, and what it printed, if nobody had asked it to."""
    return ending(end) if end and end.early else None


def ending(end: Ended) -> str:
    """Return how a program ended, and its diagnostics."""
    return ": ".join(text for text in (end.how, diagnostics(end)) if text)


def checked(report: dict | None) -> tuple[schema.Client | None, schema.Failure | None]:
    """Return the client's report if it is a valid one, else the failure."""
    if report is None:
        return None, failed("client-failed", "client: no report")
    try:
        return schema.Client.model_validate(report), None
    except ValidationError as error:
        reason = f"client: its report is malformed: {described(error.errors()[0])}"
        return None, failed("client-failed", reason)


def empty(client: schema.Client | None) -> schema.Failure | None:
    """Return the failure of a client whose report holds too little to be a trial's.

    It was cut short, as where a process of it died, or has no connection or no request.
    """
    if client is None:
        return None
    if client.stop == "interrupted":
        return failed("client-failed", "the client was stopped, or lost a process")
    counts = [f"{kind} {n}" for kind, n in (client.errors or {}).items() if n]
    errors = f" ({', '.join(counts)})" if counts else ""
    if not client.connections.established:
        return failed("no-connection", f"no connection was established{errors}")
    if not client.window.get("requests"):
        return failed("no-requests", f"no request was answered in the window{errors}")
    return None


def diagnostics(end: Ended | None) -> str | None:
    """Return what a program printed on standard error, without paths."""
    return machine.without_paths(end.diagnostics) or None if end else None


def failed(kind: str, reason: str) -> schema.Failure:
    """Return a failure whose reason names no folders and no frames of a traceback."""
    reason = machine.without_paths(without_frames(reason))[:500]
    return schema.Failure(kind=kind, reason=reason)


def without_frames(text: str) -> str:
    """Return what a program printed, of a traceback only its last line."""
    before, traceback, frames = text.partition("Traceback (most recent call last):")
    return before + frames.rstrip().rpartition("\n")[2] if traceback else text
