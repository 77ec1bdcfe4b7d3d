"""What stands on each host: its programs, a lease on them, an echo of its clock.

Every call renews the lease. When nobody has called for `LEASE_S`, because the driver
was killed, its machine lost power, or the network between is cut, the agent kills
whatever it started. A driver whose connection closes is noticed at once: the agent is
then collected, which does the same.

The CPU time of a server is read on the spot, every `LOOK_S`, and handed over with the
next look that the driver takes: the window's edges lie between two readings of the same
clock, and nobody has to call while a window is open. Once these edges are known it is
read often around them, and rarely else.

Programs are started by the thread that carries all calls, and that lives as long as the
worker: ``PR_SET_PDEATHSIG``, by which ours die with their parent, follows the thread
that forked and not its process (prctl(2)).
"""

import contextlib
import dataclasses
import os
import platform
import resource
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import dask
from tornado.ioloop import PeriodicCallback

from connlab.drive import capacity, cores, machine, procfs, programs
from connlab.drive.capacity import Room
from connlab.drive.host import Ended, LocalHost, Reading
from connlab.hosts.clock import Echo, family

LEASE_S = 8.0
#: between two signs of life of a worker, a third of the scheduler's patience. Dask has
#: two in a second, each of which takes two milliseconds of a core that is measured
HEARTBEAT_S = 10.0
#: the ports that the kernel gives to clients: lowest and highest
EPHEMERAL = "net.ipv4.ip_local_port_range"
#: between two readings of a watched program, which may cost one part in so many of it
LOOK_S, LOOK_COST = 0.02, 100
#: how near an edge it is read so often, and how rarely else
NEAR_S, RARELY_S = 0.06, 0.5


class _Programs(dict[int, Any]):
    """The programs of an agent by handle; a missing one was ended by the lease."""

    def __missing__(self, handle: int) -> NoReturn:
        raise ProcessLookupError("the lease ended this program")


class Agent(LocalHost):
    """A `connlab.drive.host.Host` that lives where its programs do.

    From another host all is called through `do`.
    """

    def __init__(
        self, address: str, lease_s: float = LEASE_S, watched: Sequence[int] = ()
    ) -> None:
        super().__init__(watched)
        self._programs = _Programs()
        self._echo = Echo(address)
        self._readings: dict[int, list[Reading]] = {}
        self._edges: tuple[float, ...] = ()
        self._lease_s = lease_s
        self._lock = threading.RLock()
        self._called_s = time.monotonic()
        _repeat(self.end_overdue)

    def __del__(self) -> None:
        """Kill what is running and close the clock: the driver has gone, or another
        agent is in this one's place.
        """
        self.close()
        self._echo.close()

    def do(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of this agent, which renews the lease."""
        with self._lock:
            try:
                return getattr(self, name)(*arguments, **options)
            finally:
                self._called_s = time.monotonic()

    def renew(self) -> None:
        """Do nothing but what every call does."""

    def end_overdue(self) -> float:
        """End all programs once the lease is over; return when to ask again."""
        if self._lock.acquire(blocking=False):  # else a call is under way
            try:
                if time.monotonic() - self._called_s > self._lease_s:
                    self.close()
            finally:
                self._lock.release()
        return self._lease_s / 8

    def introduce(self) -> dict[str, Any]:
        """Return where the clock is asked, and what a reader must know of the host.

        RuntimeError when it lacks a core that is to be watched.
        """
        allowed = os.sched_getaffinity(0)
        if not allowed.issuperset(self._cores):
            reason = f"allowed there: {sorted(allowed)}"
            raise RuntimeError(f"cores {list(self._cores)}; {reason}")
        return {
            "port": self._echo.port,
            "token": self._echo.token,
            "pid": os.getpid(),
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
            "quiet": not dask.config.get("distributed.worker.profile.enabled", True),
            "cores": list(cores.available()),
            "physical": {core: cores.place(core) for core in cores.available()},
            "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            "ephemeral": int((machine.sysctl(EPHEMERAL) or "0").split()[0]),
        }

    def digest(self, path: str) -> str | None:
        """Return the hash of a program's file, as trials keep it; None without one."""
        with contextlib.suppress(OSError):
            return programs.digest(path)
        return None

    def describe(self) -> dict[str, Any]:
        """Return what a run's manifest says of this host and its programs."""
        return machine.manifest()

    def room(self) -> tuple[Room, int]:
        """Return what one set may use of this host now, and its limit of tasks."""
        return capacity.local_room(), capacity.tasks()

    def vacant(self, address: str, ports: Sequence[int]) -> int:
        """Return the first of these ports that a server may bind here; 0: none."""
        for port in ports:
            with contextlib.suppress(OSError):
                socket.create_server((address, port), family=family(address)).close()
                return port
        return 0

    def start(self, argv: Sequence[str], *, watch: bool = False, **options: Any) -> int:
        """Start a program, and read by itself what it uses if told to `watch`."""
        handle = super().start(argv, **options)
        if watch:
            self._readings[handle], self._edges = [], ()
            _repeat(self.read_watched, handle)
        return handle

    def expect(self, edges_s: Sequence[float]) -> None:
        """Look often at these moments of this host's monotonic clock, and rarely else.

        Until another program is started that is watched.
        """
        self._edges = tuple(edges_s)

    def read_watched(self, handle: int) -> float | None:
        """Read a watched program; return the seconds until the next time.

        None when nobody watches it any more.
        """
        readings = self._readings.get(handle)
        if readings is None:
            return None
        began = time.monotonic()
        readings.append(Reading(procfs.processes(handle), procfs.machine(self._cores)))
        now = time.monotonic()
        shortest_s = max(LOOK_S, LOOK_COST * (now - began))
        if not self._edges or any(abs(now - edge) < NEAR_S for edge in self._edges):
            return shortest_s
        ahead_s = [edge - NEAR_S - now for edge in self._edges if edge > now]
        return max(shortest_s, min([RARELY_S, *ahead_s]))

    def sample(self, handle: int, **options: bool) -> Reading:
        """Read what a program uses; with what was read of it since the last time."""
        reading = super().sample(handle, **options)
        readings = self._readings.get(handle, [])
        # one that is under way may end after this look began: it is of the next
        before = tuple(r for r in readings if _time_s(r) <= _time_s(reading))
        del readings[: len(before)]
        return dataclasses.replace(reading, before=before)

    def stop(self, handle: int, **limits: float) -> Ended:
        self._readings.pop(handle, None)
        _ = self._programs[handle]  # one that is missing says who ended it
        return super().stop(handle, **limits)


def dask_setup(worker: Any) -> None:
    """Let a worker's heart beat rarely: a call tells sooner that an agent is gone.

    Dask calls it by this name before the worker registers. Each beat's reply asks for
    the next one after half a second.
    """

    async def beat() -> None:
        await worker.heartbeat()
        rare.callback_time = HEARTBEAT_S * 1e3

    rare = PeriodicCallback(beat, HEARTBEAT_S * 1e3)
    worker.periodic_callbacks["heartbeat"] = rare


def _repeat(method: Callable[..., float | None], *arguments: Any) -> None:
    """Call an agent's method from a thread, anew after the seconds that it returns.

    Until it returns None, or the agent is gone, which the thread does not keep alive.
    """
    reference = weakref.WeakMethod(method)

    def repeat() -> None:
        pause_s: float | None = 0.0
        while pause_s is not None:
            time.sleep(pause_s)
            alive = reference()
            if alive is None:
                return
            pause_s = alive(*arguments)
            del alive

    threading.Thread(target=repeat, daemon=True).start()


def _time_s(reading: Reading) -> float:
    """Return when a reading was taken, never if its program had ended."""
    return reading.processes.time_s if reading.processes else float("inf")
