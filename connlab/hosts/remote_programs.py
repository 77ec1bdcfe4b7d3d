"""Programs on several hosts that begin at one moment, soon after all have connected.

    started with --begin-told -> each says "connected" -> clocks are asked
        -> one moment, told to each on its own clock -> nobody talks

Clocks are asked last, as they may drift while thousands connect.
"""

import time
from collections.abc import Sequence

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


def refuse_drift(name: str, before: Offset, after: Offset) -> None:
    """Raise ProgramError where a host's clock went on faster or slower than ours."""
    if before.differs(after, TOLERANCE_NS):
        drift_ms = abs(after.ns - before.ns) / 1e6
        raise ProgramError(f"the clock of {name} drifted by {drift_ms:.3g} ms")


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
        """Take the line that was asked for: it has connected, or its report.

        ProgramError for a report before that: it was cut short, and others would wait
        for its word.
        """
        try:
            line = call.result()
        except ProgramError as error:
            raise type(error)(f"on {self.name}: {error}") from error
        if line is not None and line.get("event") == EVENT:
            self.connected = True
        elif line is not None and not self.connected:
            how = f"on {self.name}: {line.get('stop')}"
            raise ProgramError(f"{how} before all of its users had connected")
        else:
            self.report = line or self.report

    def files(self) -> dict[str, bytes]:
        """Return the files that it left; HostLost where nobody saw its end."""
        if self.ended is None:
            raise HostLost(self.failure)
        return self.ended.files


class RemotePrograms:
    """Programs on several hosts, a few on one at most, that begin and end as one."""

    def __init__(self) -> None:
        self.programs: list[RemoteProgram] = []
        #: how far each host's clock was ahead when its programs were told their moment
        self.offsets: dict[str, Offset] = {}

    def start_all(
        self,
        hosts: Sequence[RemoteHost],
        commands: Sequence[Sequence[str]],
        *,
        cores: Sequence[int],
        files: Sequence[str],
    ) -> None:
        """Start a program more on each host at once, that awaits its moment.

        HostLost or ProgramError when one cannot be started; the others then have ended.
        """
        calls = [
            host.starting([*words, FLAG], cores=cores, files=files, listening=True)
            for host, words in zip(hosts, commands, strict=True)
        ]
        failure: HostLost | ProgramError | None = None
        for host, call in zip(hosts, calls, strict=True):
            try:
                self.programs.append(RemoteProgram(host, call.result()))
            except (HostLost, ProgramError) as error:
                failure = failure or error
        if failure is not None:
            self.end_all(grace_s=0, wait_s=0)
            raise failure

    @property
    def connected(self) -> bool:
        """Whether all of them have connected."""
        return all(program.connected for program in self.programs)

    @property
    def reported(self) -> bool:
        """Whether all of them have reported."""
        return all(program.report is not None for program in self.programs)

    def ask_all(self, timeout_s: float = 0.0) -> None:
        """Ask every agent for a line; where none is awaited, only renew its lease.

        None is awaited of a program that has reported, and none of those that have
        connected until all have: others may be seconds later, and the lease's end would
        take histogram and all with it.
        """
        connecting = not self.connected
        calls = [
            program.host.call(Agent.renew)
            if program.report is not None or (connecting and program.connected)
            else program.ask(timeout_s)
            for program in self.programs
        ]
        for program, call in zip(self.programs, calls, strict=True):
            program.read(call)

    def schedule(self) -> float:
        """Tell each program when to begin; HostLost when one does not answer.

        Returns that moment in seconds of the driver's monotonic clock.
        """
        self.offsets = self._measured_offsets()
        ahead_s = AHEAD_S + AHEAD_PER_HOST_S * len(self.offsets)
        begin_ns = time.monotonic_ns() + int(1e9 * ahead_s)
        calls = []
        for program in self.programs:
            line = str(begin_ns + self.offsets[program.name].ns)
            calls.append(program.host.call(Agent.tell, program.handle, line))
        for call in calls:
            call.result()
        return begin_ns / 1e9

    def _measured_offsets(self) -> dict[str, Offset]:
        hosts = {program.name: program.host for program in self.programs}
        return {name: host.measured_offset() for name, host in hosts.items()}

    def check_clocks(self) -> dict[str, dict[str, int]]:
        """Return what is known of each host's clock; ProgramError where one drifted."""
        after, known = self._measured_offsets(), {}
        for name, offset in self.offsets.items():
            refuse_drift(name, offset, after[name])
            known[name] = {
                "offset_ns": offset.ns,
                "bound_ns": offset.bound_ns,
                "offset_after_ns": after[name].ns,
            }
        return known

    def end_all(self, *, grace_s: float, wait_s: float) -> None:
        """End those that run; begin with all before the first is waited for.

        A lost host's agent ends its program when the lease ends.
        """
        running = [program for program in self.programs if program.ended is None]
        limits = {"grace_s": grace_s, "wait_s": wait_s}
        calls = [program.host.stopping(program.handle, **limits) for program in running]
        for program, call in zip(running, calls, strict=True):
            try:
                program.ended = call.result()
            except HostLost as error:
                program.failure = str(error)

    def ended_as_one(self, **files: bytes) -> Ended:
        """Return how all of them ended, with `files` of all."""
        ends = [program.ended for program in self.programs if program.ended]
        return Ended(
            exit=next((end.exit for end in ends if end.exit), 0),
            early=any(end.early for end in ends),
            lines=(),
            diagnostics="\n".join(end.diagnostics for end in ends if end.diagnostics),
            files=files,
        )
