"""How many clients a server serves at a time, what they cost it, and what ends it.

levels -> so many connections, one byte each -> who is answered?
       -> what the server holds meanwhile    -> memory, threads, descriptors
"""

import contextlib
import resource
import select
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from connlab.drive import capacity, checkup, machine, trials
from connlab.drive.running import NotServing, Running, running

LEVELS = (1, 10, 100, 500, 1000, 1100, 3000, 10_000)
#: those for a server that starts slowly
FEW = {1, 100, 1000, 10_000}
#: a server with a process for each client is not driven beyond this
PROCESSES_MOST = 2000
#: what this process has open beside a crowd, and ports of clients that left last
_OWN_DESCRIPTORS, _OWN_PORTS = 256, 16
#: tasks of a user that others may take meanwhile; clients that show what each takes
_OTHER_TASKS, _SHOW = 16, 3
#: a crowd is left alone once nobody was answered for so long
_NO_PROGRESS_S = 2.0
_CROWD_S = 20.0
#: a SYN that finds no room is sent again after one second, and after two more
_CONNECT_S = 3.5
#: a client that needs longer was one whose SYN found no room
_SYN_AGAIN_S = 0.9
_REFUSED_MOST = 5
#: descriptors in an fd_set; a server has at most so many before its first client
_FD_SETSIZE, _OPEN_BEFORE = 1024, 20


@dataclass(frozen=True)
class Level:
    """What a crowd of a size met with; `waited` had to wait for room to connect."""

    clients: int
    connected: int = 0
    answered: int = 0
    waited: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    pss_bytes: int | None = None
    threads: int | None = None
    processes: int | None = None
    descriptors: int | None = None
    died: str | None = None

    @property
    def carried(self) -> bool:
        return self.answered == self.clients and self.died is None


@dataclass(frozen=True)
class Crowds:
    """All levels that were tried, and what they say of the server.

    `limit` names what kept it from more, None where it carried all that was tried;
    `untried` the crowds that this machine has no room for, and why. Memory, threads and
    processes are those of an idle connection.
    """

    levels: tuple[Level, ...]
    carried: int
    broke: int | None
    limit: str | None
    memory_bytes: float | None
    threads_each: float | None
    processes_each: float | None
    idle_pss_bytes: int | None
    descriptors_limit: int | None
    untried: str | None = None


def try_all(server: str, *, levels: Sequence[int]) -> Crowds:
    """Send crowds that grow, each to a fresh server, until one is not served whole."""
    tried: list[Level] = []
    baseline = limit = None
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    ports = checkup.port_count(machine.sysctl("net.ipv4.ip_local_port_range"))
    untried = _untried(levels, descriptors=hard, ports=ports)
    for clients in (n for n in levels if n not in untried):
        try:
            with running(server) as serving:
                baseline, limit = _baseline(serving), _descriptors_limit(serving)
                level = _meet(serving, clients)
                if not level.carried:
                    serving.wait_for_its_end()
        except NotServing as error:
            level = Level(clients, died=str(error))
        else:
            level = replace(level, died=serving.died())
        tried.append(level)
        if not level.carried or _too_many_processes(level, baseline):
            break
    crowd = _concluded(tried, baseline, limit, next(iter(untried.values()), None))
    bound = tasks_bound(server, crowd.broke) if crowd.broke else None
    return replace(crowd, limit=bound or crowd.limit)


def tasks_bound(server: str, clients: int) -> str | None:
    """Return the limit where a server needs a task per client and has no room.

    A task is a thread or a process, the limit that of the user or of a cgroup. None
    where they leave as many, or a client brings the server none.
    """
    if not _room_for_tasks():
        return None
    try:
        with running(server) as serving:
            bound, room = min(_room_for_tasks().items(), key=lambda item: item[1])
            before = _baseline(serving).threads or 0
            grown = (_meet(serving, _SHOW).threads or 0) - before
    except NotServing:
        return None
    return bound if grown >= _SHOW and room < clients + _OTHER_TASKS else None


def _room_for_tasks() -> dict[str, int]:
    """Return how many more tasks there may be, by the limit's name.

    That of the user does not bind root.
    """
    room = {}
    most, taken = machine.limits()["processes"]["soft"], checkup.user_tasks()
    if most and taken is not None:
        room[f"this user may have {most} processes and threads (ulimit -u)"] = (
            most - taken
        )
    for limit, used in capacity.cgroup_tasks():
        bound = f"this cgroup may have {limit} processes and threads (pids.max)"
        room[bound] = limit - used
    return room


def _untried(levels: Sequence[int], *, descriptors: int, ports: int) -> dict[int, str]:
    """Return why crowds do not fit into this machine, by their number of clients."""
    room = {
        f"one process may have {descriptors} descriptors (ulimit -n)": descriptors
        - _OWN_DESCRIPTORS,
        f"net.ipv4.ip_local_port_range gives clients {ports} ports": ports - _OWN_PORTS,
    }
    bound = min(room, key=room.get)
    return {n: f"{n} clients at once: {bound}" for n in levels if n > room[bound]}


def _baseline(serving: Running) -> Level:
    """Return what it holds once a few clients have come and gone."""
    _meet(serving, 5)
    time.sleep(0.1)
    return Level(0, **serving.held())


def _meet(serving: Running, clients: int) -> Level:
    began = time.monotonic()
    errors: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        socks, waited = _connected(serving.address, clients, errors)
        for sock in socks:
            stack.callback(sock.close)
        answered = _answered(socks, errors)
        seconds = time.monotonic() - began
        counts = (clients, len(socks), answered, waited, dict(errors), seconds)
        return Level(*counts, **serving.held())


def _connected(
    address: tuple[str, int], clients: int, errors: Counter[str]
) -> tuple[list[socket.socket], int]:
    """Return the connections, and how many of them had to wait for room.

    Not all where that takes long: each may wait a second.
    """
    socks, waited, until = [], 0, time.monotonic() + _CROWD_S
    for _ in range(clients):
        began = time.monotonic()
        if began > until or sum(errors.values()) > _REFUSED_MOST:
            break
        try:
            socks.append(socket.create_connection(address, timeout=_CONNECT_S))
        except OSError as error:
            errors[f"connect: {_error_name(error)}"] += 1
        waited += time.monotonic() - began > _SYN_AGAIN_S
    return socks, waited


def _answered(socks: Sequence[socket.socket], errors: Counter[str]) -> int:
    poller = select.poll()
    waiting = {}
    for sock in socks:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.send(b"x")
        poller.register(sock, select.POLLIN)
        waiting[sock.fileno()] = sock
    answered, until = 0, time.monotonic() + _CROWD_S
    while waiting and time.monotonic() < until:
        ready = poller.poll(_NO_PROGRESS_S * 1000)
        if not ready:
            break
        for fd, _events in ready:
            answered += _is_answer(waiting.pop(fd), errors)
            poller.unregister(fd)
    return answered


def _is_answer(sock: socket.socket, errors: Counter[str]) -> bool:
    try:
        answer = sock.recv(16)
    except OSError as error:
        errors[_error_name(error)] += 1
        return False
    if answer != b"x":
        errors["closed" if not answer else "another answer"] += 1
    return answer == b"x"


def _error_name(error: OSError) -> str:
    return "no answer" if isinstance(error, TimeoutError) else error.strerror or "?"


def _too_many_processes(level: Level, baseline: Level) -> bool:
    more = (level.processes or 0) - (baseline.processes or 0)
    return more >= level.clients / 2 and level.clients * 3 > PROCESSES_MOST


def _descriptors_limit(serving: Running) -> int | None:
    """Return the limit of the process that serves, which may have set its own."""
    try:
        soft, _ = resource.prlimit(serving.ready["pid"], resource.RLIMIT_NOFILE)
    except (KeyError, OSError):
        return None
    return None if soft == resource.RLIM_INFINITY else soft


# ---- what it shows ----------------------------------------------------------------


def _concluded(
    levels: Sequence[Level],
    baseline: Level | None,
    limit: int | None,
    untried: str | None = None,
) -> Crowds:
    carried = [level for level in levels if level.carried]
    broke = next((level for level in levels if not level.carried), None)
    last = carried[-1] if carried else None

    def per_client(name: str) -> float | None:
        before, after = getattr(baseline, name, None), getattr(last, name, None)
        if before is None or after is None:
            return None
        return max(0, after - before) / last.clients

    return Crowds(
        levels=tuple(levels),
        carried=last.clients if last else 0,
        broke=broke.clients if broke else None,
        limit=_limit(broke, last, limit) if broke else None,
        memory_bytes=per_client("pss_bytes"),
        threads_each=per_client("threads"),
        processes_each=per_client("processes"),
        idle_pss_bytes=baseline.pss_bytes if baseline else None,
        descriptors_limit=limit,
        untried=None if broke else untried,
    )


def _limit(broke: Level, last: Level | None, descriptors: int | None) -> str:
    carried = last.clients if last else 0
    beyond = carried < _FD_SETSIZE <= broke.clients
    is_full = descriptors and (broke.descriptors or 0) >= 0.95 * descriptors
    # all places but those of what it had open before the first client
    near = _FD_SETSIZE - _OPEN_BEFORE <= broke.answered < _FD_SETSIZE
    if beyond and near and not is_full:
        return "FD_SETSIZE: select() cannot watch a descriptor from 1024 on"
    died = " ".join(trials.without_frames(broke.died or "").split())
    if died and beyond:
        return (
            f"it ended ({died}) between {carried} and {broke.clients} clients: if it "
            "waits in select(), FD_SETSIZE is 1024, and FD_SET() beyond it writes over "
            "other memory"
        )
    if died:
        return f"it ended: {died}"
    if broke.answered == 1:
        return "one client at a time"
    if is_full:
        return f"descriptors: it may have {descriptors}"
    if broke.connected < broke.clients:
        return "the listen backlog: it accepts more slowly than clients come"
    if broke.errors:
        errors = ", ".join(f"{n} × {name}" for name, n in broke.errors.items())
        return f"it turned clients away ({errors})"
    few = f"{broke.answered} clients at a time, the others wait"
    if broke.threads is not None and broke.threads < broke.answered:
        return f"{few}: it has no more room, or accepts more slowly than clients come"
    return f"workers: {few}"
