"""Programs on several hosts that begin at one moment, soon after all have connected.

    started with --begin-told -> each says "connected" -> clocks are asked
        -> one moment, told to each on its own clock -> nobody talks

Clocks are asked last, as they may drift while thousands connect.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence

from connlab.drive.host import Ended, HostLost, ProgramError
from connlab.hosts.agent import Agent
from connlab.hosts.carrier import Pending, RemoteHost
from connlab.hosts.clock import Offset

#: what a program is started with that awaits its moment, and the event it then says
FLAG, EVENT = "--begin-told", "connected"
#: to carry the moment to every host
AHEAD_S, AHEAD_PER_HOST_S = 0.1, 0.005
#: windows, and what is known of a clock, may differ by so much
TOLERANCE_NS = 1_000_000


class RemoteProgram:
    """A program on a host: what it has reported, and how it ended."""

    def __init__(self, host: RemoteHost, handle: int) -> None:
        self.host, self.handle, self.name = host, handle, host.name
        self.connected = False
        self.report: dict | None = None
        self.ended: Ended | None = None
        self.failure = ""

    def ask(self, timeout_s: float) -> Pending:
        """Ask for the next line; within `timeout_s` no other call gets in there."""
        return self.host.call(Agent.ready, self.handle, timeout_s=timeout_s)

    def read(self, call: Pending) -> None:
        """Take the line that was asked for: it has connected, or its report."""
        try:
            line = call.result()
        except ProgramError as error:
            raise type(error)(f"on {self.name}: {error}") from error
        if line is not None and line.get("event") == EVENT:
            self.connected = True
        else:
            self.report = line or self.report

    def files(self) -> dict[str, bytes]:
        """Return the files that it left; HostLost where nobody saw its end."""
        if self.ended is None:
            raise HostLost(self.failure or self.host.lost)
        return self.ended.files


def start_all(
    hosts: Sequence[RemoteHost],
    commands: Sequence[Sequence[str]],
    *,
    cores: Sequence[int],
    files: Sequence[str],
) -> list[RemoteProgram]:
    """Start a program on each host at once, that awaits its moment.

    HostLost or ProgramError when one cannot be started; the others then have ended.
    """
    calls: list[tuple[RemoteHost, Pending]] = []
    programs: list[RemoteProgram] = []
    failure: HostLost | ProgramError | None = None
    for host, words in zip(hosts, commands, strict=True):
        try:
            call = host.starting([*words, FLAG], cores=cores, files=files)
            calls.append((host, call))
        except HostLost as error:
            failure = failure or error
    for host, call in calls:
        try:
            programs.append(RemoteProgram(host, call.result()))
        except (HostLost, ProgramError) as error:
            failure = failure or error
    if failure is None:
        return programs
    for program in programs:
        with contextlib.suppress(HostLost):
            program.host.stop(program.handle, grace_s=0)
    raise failure


def ask_all(programs: Sequence[RemoteProgram], timeout_s: float = 0.0) -> None:
    """Ask every agent for a line; where none is awaited, only renew its lease.

    None is awaited of a program that has reported, and none of those that have
    connected until all have: others may be seconds later, and the lease's end would
    take histogram and all with it.
    """
    connecting = not all(program.connected for program in programs)
    calls = [
        program.host.call(Agent.renew)
        if program.report is not None or (connecting and program.connected)
        else program.ask(timeout_s)
        for program in programs
    ]
    for program, call in zip(programs, calls, strict=True):
        program.read(call)


def schedule(programs: Sequence[RemoteProgram]) -> tuple[float, dict[str, Offset]]:
    """Tell each program when to begin; HostLost when one does not answer.

    Returns that moment in seconds of the driver's monotonic clock, and how far each
    host's clock is ahead of it.
    """
    offsets = _offsets(programs)
    ahead_s = AHEAD_S + AHEAD_PER_HOST_S * len(offsets)
    begin_ns = time.monotonic_ns() + int(1e9 * ahead_s)
    calls = []
    for program in programs:
        line = str(begin_ns + offsets[program.name].ns)
        calls.append(program.host.call(Agent.tell, program.handle, line))
    for call in calls:
        call.result()
    return begin_ns / 1e9, offsets


def _offsets(programs: Sequence[RemoteProgram]) -> dict[str, Offset]:
    hosts = {program.name: program.host for program in programs}
    return {name: host.measured_offset() for name, host in hosts.items()}


def check_clocks(
    programs: Sequence[RemoteProgram], before: Mapping[str, Offset]
) -> dict[str, dict[str, int]]:
    """Return what is known of each host's clock; ProgramError where one drifted."""
    after = _offsets(programs)
    for name, offset in before.items():
        if offset.differs(after[name], TOLERANCE_NS):
            drift_ms = abs(after[name].ns - offset.ns) / 1e6
            raise ProgramError(f"the clock of {name} drifted by {drift_ms:.3g} ms")
    return {
        name: {
            "offset_ns": offset.ns,
            "bound_ns": offset.bound_ns,
            "offset_after_ns": after[name].ns,
        }
        for name, offset in before.items()
    }


def end_all(
    programs: Sequence[RemoteProgram], *, grace_s: float, wait_s: float
) -> None:
    """End those that run; begin with all before the first is waited for.

    A lost host's agent ends its program when the lease ends.
    """
    calls, limits = [], {"grace_s": grace_s, "wait_s": wait_s}
    for program in programs:
        if program.ended is None:
            with contextlib.suppress(HostLost):
                call = program.host.stopping(program.handle, **limits)
                calls.append((program, call))
    for program, call in calls:
        try:
            program.ended = call.result()
        except HostLost as error:
            program.failure = str(error)


def ended_as_one(programs: Sequence[RemoteProgram], **files: bytes) -> Ended:
    """Return how all of them ended, with `files` of all."""
    ends = [program.ended for program in programs if program.ended]
    return Ended(
        exit=next((end.exit for end in ends if end.exit), 0),
        early=any(end.early for end in ends),
        lines=(),
        diagnostics="\n".join(end.diagnostics for end in ends if end.diagnostics),
        files=files,
    )
