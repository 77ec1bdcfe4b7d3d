"""One trial: a fresh server, a fresh client, and what was seen of both.

    start server -> ready -> look (idle) -> start client -> look … look
        -> the client's report -> stop client -> stop server -> one line of facts

Whatever goes wrong becomes a reason in the trial, never an exception: a server that
does not come up, dies midway or prints junk, a client that fails or hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationError

from connlab import schema
from connlab.drive import (
    address,
    flags,
    interrupt,
    machine,
    samples,
    servers,
    services,
    stall,
)
from connlab.drive.cores import Cores
from connlab.drive.host import (
    Ended,
    Host,
    HostLost,
    ProgramError,
    Reading,
    describe_exit,
)
from connlab.drive.programs import Programs

READY_S = 10.0
GRACE_S = 5.0
LOOK_S = 0.1
MEMORY_LOOK_S = 0.25
#: a look may cost one part in so many of the time until the next
LOOK_COST = 50
#: how long a client may take to notice that its server is gone
NOTICE_S = 3.0


class _Telling(Protocol):
    """Where a program says something; all that `patiently` needs of a host."""

    def ready(self, handle: int, *, timeout_s: float) -> dict | None: ...


@dataclass(frozen=True)
class Setting:
    """All that a trial needs to know; equal for the whole sweep but for the cell."""

    factors: Mapping[str, Any]
    seed: int
    cores: Cores
    programs: Programs
    model: schema.Model | None = None
    timeout_s: float | None = None
    files: tuple[str, ...] = ("timeline",)


@dataclass(frozen=True)
class Outcome:
    """What a trial gave, before gates and labels."""

    server: schema.Server
    client: schema.Client | None
    failure: schema.Failure | None
    files: Mapping[str, bytes]
    seconds: float
    turns: schema.Turns | None = None


@dataclass
class _Course:
    """What has been seen of a trial that is under way."""

    looks: list[samples.Look] = field(default_factory=list)
    ready: dict | None = None
    client: dict | None = None
    started_at_s: float = 0.0
    reported_at_s: float = 0.0
    stall: schema.Stall | None = None
    failure: schema.Failure | None = None


def run(setting: Setting, *, server_host: Host, client_host: Host) -> Outcome | None:
    """Run one trial; None when a signal asked to stop meanwhile (nothing is kept)."""
    began = time.monotonic()
    course = _Course()
    at = servers.at(setting.factors["model"])
    server_host = address.place(at, setting.factors["model"], server_host)
    server = client = None
    server_end = client_end = None
    try:
        try:
            server = _start_server(setting, course, server_host)
        except ProgramError as error:
            course.failure = failed("server-start", str(error))
        if server is not None and course.failure is None:
            try:
                client = _start_client(setting, course, client_host)
                with stall.during(
                    setting.factors,
                    server_host,
                    server,
                    started_at_s=course.started_at_s,
                    begins_s=_begins_s(client_host),
                ) as watched:
                    _attend(setting, course, server_host, server, client_host, client)
                course.stall = watched.seen
            except ProgramError as error:
                course.failure = failed("client-failed", f"client: {error}")
    except HostLost as error:
        course.failure = failed("host-lost", str(error))
    finally:
        grace_s = 0 if interrupt.asked() else GRACE_S
        if client is not None:
            wait_s = GRACE_S if course.client else 0
            client_end = _stop(course, client_host, client, 1.0, wait_s)
        if server is not None:
            server_end = _stop(course, server_host, server, grace_s)
    if interrupt.asked():
        return None
    return _outcome(
        setting, course, server_end, client_end, began, server_host is client_host
    )


def _begins_s(client_host: Host) -> Callable[[], float | None] | None:
    """Return what tells when clients begin that agree on it; None: they do not."""
    if not hasattr(client_host, "begins_s"):
        return None
    return lambda: client_host.begins_s


def _stop(
    course: _Course, host: Host, handle: int, grace_s: float, wait_s: float = 0
) -> Ended | None:
    """Stop a program; a host that is lost ends it itself."""
    try:
        return host.stop(handle, grace_s=grace_s, wait_s=wait_s)
    except HostLost as error:
        course.failure = course.failure or failed("host-lost", str(error))
        return None


def unavailable(model: schema.Model, reason: str) -> Outcome:
    """Return the outcome of a cell that cannot run here: a reason, no figures."""
    failure = failed("unavailable", reason or "not available here")
    return Outcome(schema.Server(model=model), None, failure, {}, 0.0)


def timeout_s(factors: Mapping[str, Any]) -> float:
    """Return how long a client may take: its own time, and much time to connect."""
    own = 120.0 if factors.get("requests") is not None else longest_s(factors)
    if factors.get("rate") is not None:  # client --late makes up for rounds set aside
        own += factors["duration"]
    connecting = factors.get("connections", 1) / (factors.get("connect_rate") or 500)
    before = (factors.get("settle") or 0) + factors.get("warmup", 0)
    return own + before + connecting + 15


def longest_s(factors: Mapping[str, Any]) -> float:
    """Return how long a window may last, in seconds; see ``client --duration-max``."""
    if not factors.get("response_times"):
        return factors["duration"]
    return factors.get("duration_max") or flags.LONGER * factors["duration"]


def _start_server(setting: Setting, course: _Course, host: Host) -> int | None:
    argv = servers.argv(setting.programs, setting.factors)
    began = time.monotonic()
    handle = host.start(argv, cores=setting.cores.server)
    try:
        course.ready = patiently(host, handle, READY_S)
        if course.ready is not None:
            course.ready.setdefault("start_s", time.monotonic() - began)
        if course.ready is None and not interrupt.asked():
            course.failure = failed("server-start", f"not ready after {READY_S:g} s")
        elif course.ready and course.ready.get("event") != "ready":
            event = course.ready.get("event")
            course.failure = failed("server-start", f"said {event!r}, not 'ready'")
    except ProgramError as error:
        course.failure = failed("server-start", f"server: {error}")
    if course.failure is None and course.ready:
        reading = host.sample(handle, memory=True)
        course.looks.append(_look(reading, None))
    return handle


def patiently(host: _Telling, handle: int, timeout_s: float) -> dict | None:
    """Return a program's next JSON line; None when time is up or a signal came."""
    until = time.monotonic() + timeout_s
    while not interrupt.asked() and time.monotonic() < until:
        line = host.ready(handle, timeout_s=until - time.monotonic())
        if line is not None:
            return line
    return None


def _start_client(setting: Setting, course: _Course, host: Host) -> int | None:
    if course.ready is None:
        return None
    target = f"{course.ready['host']}:{course.ready['port']}"
    words = flags.client_flags(setting.factors, seed=setting.seed)
    argv = [*setting.programs.client, target, *words]
    course.started_at_s = time.monotonic()
    return host.start(argv, cores=setting.cores.client, files=setting.files)


def _attend(
    setting: Setting,
    course: _Course,
    server_host: Host,
    server: int,
    client_host: Host,
    client: int | None,
) -> None:
    """Wait for the client's report, looking at the server now and then."""
    if client is None:
        return
    began = time.monotonic()
    allowed = setting.timeout_s or timeout_s(setting.factors)
    until = began + allowed
    next_memory = began + MEMORY_LOOK_S
    pause = LOOK_S
    gone_at = None
    while course.client is None and not interrupt.asked():
        course.client = client_host.ready(client, timeout_s=pause)
        course.reported_at_s = time.monotonic()
        memory = course.client is None and course.reported_at_s >= next_memory
        reading = server_host.sample(server, memory=memory)
        other = client_host.sample(client, machine=False)
        course.looks += [_look(one, None) for one in reading.before]
        course.looks.append(_look(reading, other))
        pause = max(LOOK_S, LOOK_COST * (reading.cost_s + other.cost_s))
        if memory:
            next_memory = time.monotonic() + max(MEMORY_LOOK_S, pause)
        if reading.gone and gone_at is None:
            gone_at = time.monotonic()
            until = min(until, gone_at + NOTICE_S)
        if course.client is None and time.monotonic() >= until:
            if gone_at is None:
                reason = f"client: no report after {allowed:.3g} s"
                course.failure = failed("client-hung", reason)
            return


def _look(server: Reading, client: Reading | None) -> samples.Look:
    now, own = time.monotonic(), time.process_time()
    return samples.Look(server, client, now, own, services.cpu_s())


def _outcome(
    setting: Setting,
    course: _Course,
    server_end: Ended | None,
    client_end: Ended | None,
    began: float,
    same_host: bool,
) -> Outcome:
    stats = last_stats(server_end)
    told = samples.Report(course.client, course.started_at_s, course.reported_at_s)
    at = servers.at(setting.factors["model"])
    sampled = (
        samples.summarise(
            course.looks, told, stats=last_usage(server_end), same_host=same_host
        )
        if course.looks and at is None
        else None
    )
    server = schema.Server(
        model=setting.model,
        ready=schema.Ready.model_validate(course.ready) if _is_ready(course) else None,
        stats=schema.Stats.model_validate(stats) if stats else None,
        samples=sampled,
        unseen=at.why if at else None,
        stall=course.stall,
        exit=server_end.exit if server_end else None,
        diagnostics=said(server_end),
    )
    client, malformed = checked(course.client)
    failure = (course.looks and server_died(server_end)) or course.failure
    failure = failure or malformed or empty(client)
    if failure and failure.kind == "client-failed":
        failure = _with_diagnostics(failure, client_end)
    files = client_end.files if client_end else {}
    return Outcome(server, client, failure, files, time.monotonic() - began)


def _is_ready(course: _Course) -> bool:
    return bool(course.ready) and course.ready.get("event") == "ready"


def last_stats(end: Ended | None) -> dict | None:
    """Return the statistics that a server printed when it ended, if it did."""
    return _last(end, ("stats",))


def last_usage(end: Ended | None) -> dict | None:
    """Return what a server used over its whole life, as its last line says.

    One of ours says it in its statistics, of another ``build/external`` says it.
    """
    return _last(end, ("stats", "usage"))


def _last(end: Ended | None, events: tuple[str, ...]) -> dict | None:
    lines = [line for line in (end.lines if end else ()) if line.get("event") in events]
    return lines[-1] if lines else None


def server_died(end: Ended | None) -> schema.Failure | None:
    """Return the failure of a server that ended before it was asked to."""
    if end is None or not end.early:
        return None
    return failed("server-died", f"server: {ending(end)}")


def ending(end: Ended) -> str:
    """Return how a program ended, and what it said of it."""
    how = None if end.exit is None else describe_exit(end.exit)
    return ": ".join(part for part in (how, said(end)) if part)


def checked(
    told: dict | None,
) -> tuple[schema.Client | None, schema.Failure | None]:
    """Return the client's report if it is one, else why not."""
    if told is None:
        return None, failed("client-failed", "client: no report")
    try:
        return schema.Client.model_validate(told), None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        reason = f"client: its report is malformed: {place}: {first['msg']}"
        return None, failed("client-failed", reason)


def empty(client: schema.Client | None) -> schema.Failure | None:
    """Return the failure of a client that reported but has nothing to report."""
    if client is None:
        return None
    if not client.connections.established:
        errors = _nonzero(client.errors)
        return failed("no-connection", f"no connection was established{errors}")
    if not client.window.get("requests"):
        errors = _nonzero(client.errors)
        return failed("no-requests", f"no request was answered in the window{errors}")
    return None


def _nonzero(errors: Mapping[str, int] | None) -> str:
    told = [f"{kind} {count}" for kind, count in (errors or {}).items() if count]
    return f" ({', '.join(told)})" if told else ""


def _with_diagnostics(failure: schema.Failure, end: Ended | None) -> schema.Failure:
    text = said(end)
    if not text or text in failure.reason:
        return failure
    return failed(failure.kind, f"{failure.reason}: {text}")


def said(end: Ended | None) -> str | None:
    """Return what a program said on standard error, without paths."""
    return machine.without_paths(end.diagnostics) or None if end else None


def failed(kind: str, reason: str) -> schema.Failure:
    """Return a failure whose reason names no folders and no frames of a traceback."""
    told = machine.without_paths(_without_frames(reason))
    return schema.Failure(kind=kind, reason=told[:500])


def _without_frames(text: str) -> str:
    """Leave out the frames of a Python traceback: what went wrong comes last."""
    before, traceback, frames = text.partition("Traceback (most recent call last):")
    return before + frames.rstrip().rpartition("\n")[2] if traceback else text
