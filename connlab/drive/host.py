"""Where a program runs: start, ready, sample, stop; pause and resume for a stall.

The functions of `Host` are all that the rest of the driver knows about the
place where a server or a client lives. `LocalHost` is this machine; another
implementation may speak to another one, and nothing else needs to change, because
facts come back as values and times are those of the driver's monotonic clock.

A program is started in a process group of its own (so that Ctrl-C at a terminal
reaches the driver alone, and that the group can be killed whole) and inherits the
core set from the thread that starts it, which costs two system calls and no helper
program. Standard output is a pipe of JSON lines, standard error a file in memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connlab.drive import cores as core_sets
from connlab.drive import interrupt, procfs

_PR_SET_PDEATHSIG = 1
_SLICE_S = 0.1
#: between the end of a program's output and the end of the program
_LAST_WORDS_S = 1.0
#: context switches stand in a file per thread, so those of more are not read
_FEW_THREADS = 64
_LINE_MAX_BYTES = 16 << 20
_DIAGNOSTICS_BYTES = 2000
_USAGE = 2


class ProgramError(RuntimeError):
    """A program did not print what it must; the text can be a trial's reason."""


class UsageError(ProgramError):
    """A program ended with status 2: it was asked for what it does not allow."""


class HostLost(RuntimeError):
    """A host does not answer any more, or has forgotten a program; names the host."""


@dataclass(frozen=True)
class Reading:
    """What a program and its machine use at a moment. Times in seconds.

    `before` has the readings that the host took by itself since the last one.
    `processes` is None where the program is gone, and where it cannot be read at all
    (`unseen`).
    """

    processes: procfs.Processes | None
    machine: procfs.Machine | None = None
    pss_bytes: int | None = None
    context_switches: tuple[int, int] | None = None
    cost_s: float = 0.0
    before: tuple[Reading, ...] = ()
    unseen: bool = False

    @property
    def gone(self) -> bool:
        """Whether the program has ended."""
        return self.processes is None and not self.unseen


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    `exit` is negative for a signal, None for a program that somebody else had started
    and that was left running; `early`: it ended before it was told to; `lines`: the
    JSON objects that `ready` had not returned yet.
    """

    exit: int | None
    early: bool
    lines: tuple[dict, ...]
    diagnostics: str
    files: Mapping[str, bytes]

    @property
    def how(self) -> str:
        """``exit 1`` or ``killed by SIGKILL``, "" where it was left running."""
        return "" if self.exit is None else describe_exit(self.exit)


class Host(Protocol):
    """A place where programs run. A handle is an opaque number."""

    def start(
        self,
        argv: Sequence[str],
        *,
        cores: Sequence[int] = (),
        files: Sequence[str] = (),
    ) -> int:
        """Start a program, on `cores` if given; return its handle.

        For each name in `files` the program gets a flag ``--NAME PATH``; what it
        writes there comes back from `stop`.
        """

    def ready(self, handle: int, *, timeout_s: float) -> dict | None:
        """Return the program's next JSON line, None after `timeout_s` without one.

        None as well when a signal came. Raises `ProgramError` when it ended first or
        printed something else.
        """

    def sample(
        self, handle: int, *, machine: bool = True, memory: bool = False
    ) -> Reading:
        """Read what the program uses, with memory when asked (which costs more)."""

    def ask_to_end(self, handle: int) -> None:
        """Send the program SIGTERM and do not wait; `stop` it soon after.

        So several programs end at the same time.
        """

    def stop(self, handle: int, *, grace_s: float, wait_s: float = 0) -> Ended:
        """End the program and all that it started.

        It may end by itself for `wait_s`, then gets SIGTERM, and after `grace_s` more
        its whole group is killed.
        """

    def pause(self, handle: int) -> None:
        """Stop the program and all that it started until `resume`."""

    def resume(self, handle: int) -> None:
        """Continue what `pause` stopped; does nothing to any other."""


@dataclass
class _Program:
    process: subprocess.Popen
    pidfd: int
    errors_fd: int
    files: dict[str, int]
    resources: contextlib.ExitStack
    pending: bytearray = field(default_factory=bytearray)
    eof: bool = False
    asked_to_end: bool = False
    early: bool = False

    @property
    def alive(self) -> bool:
        return not _polled([self.pidfd], 0)

    def wait(self, timeout_s: float) -> bool:
        """Wait a slice at most for output or the end; return whether it has ended."""
        stdout = [] if self.eof else [self.process.stdout.fileno()]
        return self.pidfd in _polled([self.pidfd, *stdout], min(timeout_s, _SLICE_S))

    def wait_until_ended(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.alive and time.monotonic() < deadline and not interrupt.requested():
            self.wait(deadline - time.monotonic())
            self.drain()

    def ask_to_end(self, pid: int | None = None) -> None:
        if not self.asked_to_end:
            self.early |= not self.alive
            self.asked_to_end = True
            with contextlib.suppress(ProcessLookupError):
                if pid is None:
                    signal.pidfd_send_signal(self.pidfd, signal.SIGTERM)
                else:
                    os.kill(pid, signal.SIGTERM)

    def drain(self) -> None:
        while not self.eof and len(self.pending) < _LINE_MAX_BYTES:
            try:
                chunk = os.read(self.process.stdout.fileno(), 1 << 18)
            except BlockingIOError:
                return
            self.eof = not chunk
            self.pending += chunk

    def next_line(self) -> bytes | None:
        line, newline, rest = self.pending.partition(b"\n")
        if not newline:
            return None
        self.pending = rest
        return bytes(line)

    def lines_left(self) -> tuple[dict, ...]:
        """Return the JSON objects printed last; a line of anything else is skipped."""
        lines = []
        while (line := self.next_line()) is not None:
            with contextlib.suppress(ProgramError):
                lines.append(_parsed(line))
        return tuple(lines)

    def how_it_ended(self) -> ProgramError:
        if self.alive:
            return ProgramError("closed its standard output")
        end = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT)
        status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        text = ": ".join(filter(None, (describe_exit(status), self.diagnostics())))
        return UsageError(text) if status == _USAGE else ProgramError(text)

    def diagnostics(self) -> str:
        begins = max(0, os.fstat(self.errors_fd).st_size - _DIAGNOSTICS_BYTES)
        text = os.pread(self.errors_fd, _DIAGNOSTICS_BYTES, begins)
        return text.decode("utf-8", "replace").strip()


class LocalHost:
    """Programs on this machine; see `Host`. CPU time is that of the cores `watched`.

    By default those that programs may use.
    """

    def __init__(self, watched: Sequence[int] = ()) -> None:
        self._programs: dict[int, _Program] = {}
        self._cores = tuple(watched) or core_sets.available()

    def start(
        self,
        argv: Sequence[str],
        *,
        cores: Sequence[int] = (),
        files: Sequence[str] = (),
        listening: bool = False,
        bound: bool = False,
    ) -> int:
        """Start a program; see `Host.start`. Its files live in memory.

        One that is `listening` gets a standard input, for `tell`; one that is `bound`
        is killed when this thread ends, as ours see to by themselves.
        """
        argv = list(argv)
        try:
            with contextlib.ExitStack() as undo, on_cores(cores), all_descriptors():
                errors_fd = _memory_file("stderr", undo)
                fds = {name: _memory_file(name, undo) for name in files}
                for name, fd in fds.items():
                    argv += [f"--{name}", f"/proc/{os.getpid()}/fd/{fd}"]
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE if listening else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors_fd,
                    process_group=0,
                    preexec_fn=die_with_parent if bound else None,
                    bufsize=0,
                )
                undo.enter_context(process)
                undo.callback(process.kill)
                pidfd = os.pidfd_open(process.pid)
                undo.callback(os.close, pidfd)
                resources = undo.pop_all()  # it runs: `stop` closes and ends all of it
        except OSError as error:
            name = os.path.basename(argv[0])
            raise ProgramError(f"{name}: cannot start: {error.strerror}") from error
        os.set_blocking(process.stdout.fileno(), False)
        program = _Program(process, pidfd, errors_fd, fds, resources)
        self._programs[process.pid] = program
        return process.pid

    def tell(self, handle: int, line: str) -> None:
        """Write a line to the standard input of a program that is listening."""
        with contextlib.suppress(BrokenPipeError):
            self._programs[handle].process.stdin.write(f"{line}\n".encode())

    def ready(self, handle: int, *, timeout_s: float) -> dict | None:
        program = self._programs[handle]
        deadline = time.monotonic() + timeout_s
        while True:
            line = program.next_line()
            if line is not None:
                return _parsed(line)
            ended = program.wait(deadline - time.monotonic())
            program.drain()
            if b"\n" in program.pending:
                continue
            if ended or program.eof:
                program.wait_until_ended(_LAST_WORDS_S)
                raise program.how_it_ended()
            if time.monotonic() >= deadline or interrupt.requested():
                return None

    def sample(
        self, handle: int, *, machine: bool = True, memory: bool = False
    ) -> Reading:
        start = time.monotonic()
        alive = self._programs[handle].alive
        processes = procfs.processes(handle) if alive else None
        weights = processes.weights if processes else ()
        few = processes is not None and processes.threads <= _FEW_THREADS
        pids = [pid for pid, _weight in weights]
        return Reading(
            processes=processes,
            machine=procfs.machine(self._cores) if machine else None,
            pss_bytes=procfs.pss_bytes(weights) if memory else None,
            context_switches=procfs.context_switches(pids) if few else None,
            cost_s=time.monotonic() - start,
        )

    def printed_bytes(self, handle: int) -> int:
        """Return how much the program has written on standard error."""
        return os.fstat(self._programs[handle].errors_fd).st_size

    def ask_to_end(self, handle: int, *, pid: int | None = None) -> None:
        """Send SIGTERM; see `Host.ask_to_end`. `pid`: to what a tracer runs."""
        self._programs[handle].ask_to_end(pid)

    def stop(self, handle: int, *, grace_s: float, wait_s: float = 0) -> Ended:
        program = self._programs.pop(handle)
        program.early |= not program.asked_to_end and not program.alive
        program.wait_until_ended(wait_s)
        if grace_s > 0:
            program.ask_to_end()
            program.wait_until_ended(grace_s)
        _signal_group(handle, signal.SIGKILL)
        status = program.process.wait()
        program.drain()
        ended = Ended(
            exit=status,
            early=program.early,
            lines=program.lines_left(),
            diagnostics=program.diagnostics(),
            files={
                name: os.pread(fd, os.fstat(fd).st_size, 0)
                for name, fd in program.files.items()
            },
        )
        program.resources.close()
        return ended

    def pause(self, handle: int) -> None:
        _signal_group(handle, signal.SIGSTOP)

    def resume(self, handle: int) -> None:
        _signal_group(handle, signal.SIGCONT)

    def close(self) -> None:
        """Kill whatever is still running."""
        for handle in list(self._programs):
            self.stop(handle, grace_s=0)


@contextlib.contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Let the calling thread, and what it starts meanwhile, use only `cores`."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def all_descriptors() -> Iterator[None]:
    """Let this process, and what it starts meanwhile, open as many files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def die_with_parent() -> None:
    """Ask for SIGKILL when the thread that forked this process ends (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _polled(fds: Sequence[int], timeout_s: float) -> list[int]:
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _events in poller.poll(max(0, timeout_s * 1000))]


def _memory_file(name: str, undo: contextlib.ExitStack) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    undo.callback(os.close, fd)
    return fd


def _parsed(line: bytes) -> dict:
    with contextlib.suppress(ValueError):
        if isinstance(value := json.loads(line), dict):
            return value
    shown = line[:80].decode("utf-8", "replace")
    raise ProgramError(f"printed {shown!r} in place of a JSON object")


def _signal_group(handle: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(handle, number)


def describe_exit(status: int) -> str:
    """Return ``exit 1`` or ``killed by SIGKILL`` for a status (negative: signal)."""
    if status >= 0:
        return f"exit {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
