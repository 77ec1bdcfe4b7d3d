"""Start one server, talk to it over plain sockets, read its statistics.

Nothing here uses connlab's own client or driver: the conformance suite is what
a stranger's client sees. ``CONNLAB_BUILD`` names another build directory, so
that the same suite runs against the sanitizer builds.
"""

import contextlib
import dataclasses
import functools
import json
import os
import resource
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import conftest
import psutil
import pytest
from conftest import ROOT

# what tests import from here
from connlab.judge.wire import MIB, echoes, fill, filling, receive, reset  # noqa: F401

BUILD = Path(os.environ.get("CONNLAB_BUILD", ROOT / "build"))
SERVER = Path(os.environ.get("CONNLAB_SERVER", BUILD / "server"))
SANITIZED = BUILD.name != "build"
TSAN = BUILD.name == "tsan"
#: of the models of one thread the one that TSan looks at: nobody races there, and all
#: hear of a stop in the same way
ONE_THREAD = "epoll"
#: what the names of ``build/lessons`` begin with
LESSON = "lessons/"
ACCEPTED_IN_KERNEL = ("uring", "uring-workers", "uring-handover")
#: for what preloads a library
unsanitized = pytest.mark.skipif(
    SANITIZED, reason="a sanitizer wants to be loaded first"
)
PATIENCE_S = 20.0 if SANITIZED else 10.0
#: what a bound on time is stretched by: a sanitizer looks at every access to memory
SLOWER = 3 if SANITIZED else 1

os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
os.environ.setdefault("TSAN_OPTIONS", "halt_on_error=0:exitcode=99")
os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")


def receive_all(sock: socket.socket) -> bytes:
    """Return everything up to the end of the stream."""
    with sock.makefile("rb") as stream:
        return stream.read()


def is_quiet(sock: socket.socket, seconds: float) -> bool:
    return not select.select([sock], [], [], seconds)[0]


@functools.cache
def registry() -> dict:
    return json.loads(conftest.ran(SERVER, "--list", check=True).stdout)


def models(*, lessons: bool = False, **wanted) -> list[dict]:
    """Available models whose registry entry has all the wanted values.

    With `lessons`, the servers of ``src_c/lessons`` that are built as well.
    """
    rows = registry()["models"]
    if lessons:
        built = (row for row in rows if (BUILD / "lessons" / row["name"]).exists())
        rows = rows + [row | {"name": LESSON + row["name"]} for row in built]
    return [
        row
        for row in rows
        if row["available"]
        and all(row[k] == v for k, v in wanted.items())
        and not (TSAN and not races(row))
    ]


def races(row: dict) -> bool:
    """Whether TSan may find something in a model; it does not follow a fork."""
    threads = row["workers"] != "none" and row["family"] != "processes"
    return threads or row["name"] == ONE_THREAD


def names(*, lessons: bool = False, **wanted) -> list[str]:
    return [model["name"] for model in models(lessons=lessons, **wanted)]


def accepting_themselves() -> list[str]:
    """Models whose connections no ring accepts: a library can stand between."""
    return [name for name in names() if name not in ACCEPTED_IN_KERNEL]


def one_a_family(chosen: list[str]) -> list:
    """Leave all but the first of each family to ``make test-long``."""
    first = {entry(name)["family"]: name for name in reversed(chosen)}.values()
    long = functools.partial(pytest.param, marks=pytest.mark.long)
    return [name if name in first else long(name) for name in chosen]


def entry(name: str) -> dict:
    """The registry's entry of a model; a lesson behaves as the model of its name."""
    bare = name.removeprefix(LESSON)
    return next(m for m in registry()["models"] if m["name"] == bare)


@dataclasses.dataclass
class Server:
    """A running server; ``stop()`` returns its stats line."""

    process: subprocess.Popen
    ready: dict
    stats: dict | None = None
    stderr: str = ""

    @property
    def address(self) -> tuple[str, int]:
        return self.ready["host"], self.ready["port"]

    def connect(self, *, timeout: float = PATIENCE_S) -> socket.socket:
        return socket.create_connection(self.address, timeout=timeout)

    @contextlib.contextmanager
    def clients(self, count: int) -> Iterator[list[socket.socket]]:
        """So many connections for the duration of a block."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.connect()) for _ in range(count)]

    def serves(self) -> bool:
        """Whether somebody who comes now is answered."""
        with self.connect(timeout=2) as late:
            return answers(late)

    def stop(self, signum: int = signal.SIGTERM) -> dict:
        """The statistics; a lesson keeps none, and ends as signals end a program."""
        if self.stats is None:
            lesson = self.ready["model"] == "lesson"
            out, self.stderr = ended_by(self.process, signum)
            assert self.process.returncode == (-signum if lesson else 0), self.stderr
            lines = [json.loads(line) for line in out.splitlines()]
            assert lesson or lines[-1]["event"] == "stats", out
            self.stats = {} if lesson else lines[-1]
        return self.stats

    def stopped_in(self, signum: int = signal.SIGTERM) -> float:
        began = time.monotonic()
        self.stop(signum)
        return time.monotonic() - began

    @contextlib.contextmanager
    def halted(self) -> Iterator[None]:
        """Let the process stand still: a signal alone may come after what follows."""
        tasks = Path(f"/proc/{self.process.pid}/task")

        def states() -> set[str]:
            stats = [(task / "stat").read_text() for task in tasks.iterdir()]
            return {stat.rpartition(")")[2].split()[0] for stat in stats}

        self.process.send_signal(signal.SIGSTOP)
        assert eventually(lambda: states() == {"T"})
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def tree(self) -> list[int]:
        """Process ids of the server and its descendants."""
        pids = [self.process.pid]
        for pid in pids:  # those that are added as well
            pids += children_of(pid)
        return pids

    def tasks(self) -> int:
        return self._total(lambda proc: len(os.listdir(proc / "task")))

    def descriptors(self) -> int:
        return self._total(lambda proc: len(os.listdir(proc / "fd")))

    def resident_bytes(self) -> int:
        pages = self._total(lambda proc: int((proc / "statm").read_text().split()[1]))
        return pages * resource.getpagesize()

    def page_faults(self) -> int:
        """Pages that it has got from the kernel since it started."""
        return self._total(
            lambda proc: int((proc / "stat").read_text().rpartition(")")[2].split()[7])
        )

    def _total(self, measure: Callable[[Path], int]) -> int:
        total = 0
        for pid in self.tree():
            with contextlib.suppress(OSError):
                total += measure(Path(f"/proc/{pid}"))
        return total


@contextlib.contextmanager
def serving(
    model: str, *flags: object, preexec: Callable[[], None] | None = None
) -> Iterator[Server]:
    """A server for the duration of a block; its exit is checked."""
    program = [BUILD / model] if model.startswith(LESSON) else [SERVER, model]
    command = [*program, *map(str, flags), *few_rings(model, flags)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, preexec_fn=preexec, **pipes)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        server = Server(process, json.loads(line))
        yield server
        server.stop()
        assert "Sanitizer" not in server.stderr, server.stderr
    except (AssertionError, OSError):
        process.kill()
        skip_without_memory_for_rings(process.stderr)
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()


def ended_by(process: subprocess.Popen, signum: int = signal.SIGTERM) -> tuple:
    """Ask once, as anybody would; what it then printed on stdout and stderr.

    TSan puts the handler of a signal off until the next call, which may be the one
    that waits for ever: there, and only there, it is asked again each second.
    """
    for _ in range(10 if TSAN else 0):
        process.send_signal(signum)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=1)
    process.send_signal(signum)
    return process.communicate(timeout=PATIENCE_S)


def children_of(pid: int) -> list[int]:
    """Ids of those that it started; psutil would read every process of the machine."""
    children = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return children


def few_rings(model: str, flags: Sequence[object]) -> list[str]:
    """Flags for two rings where users have memory for few, and a server takes eight."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    scarce = os.geteuid() != 0 and 0 <= limit < 64 << 20
    if not scarce or "--workers" in flags or model not in names(family="completion"):
        return []
    return ["--workers", "2"] if entry(model)["workers"] == "fixed" else []


def skip_without_memory_for_rings(errors: TextIO) -> None:
    """Skip where a user's other servers have what of memory he may lock.

    What failed may have other reasons, but such a server is no longer whole.
    """
    said = "" if errors.closed else errors.read()
    if "all rings of a user may take" in said:
        pytest.skip(said.splitlines()[0])


def cpu_seconds(server: Server) -> float:
    """CPU time of the server's own process, all threads, to 10 ms."""
    return sum(psutil.Process(server.process.pid).cpu_times()[:2])


def counted(stats: dict, **wanted: object) -> bool:
    """Whether the statistics say what is wanted; a lesson's say nothing."""
    return not stats or {name: stats[name] for name in wanted} == wanted


def answers(sock: socket.socket) -> bool:
    """Whether it echoes, and neither breaks nor keeps silent."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        return echoes(sock)
    return False


eventually = functools.partial(conftest.eventually, seconds=PATIENCE_S, every_s=0.01)
#: what the server says about a mistake
refused = functools.partial(conftest.refused, SERVER)


def settled(measure: Callable[[], int]) -> int:
    """What is measured once it stands still: some may be coming or leaving yet."""
    now, since = measure(), time.monotonic()
    until = since + PATIENCE_S
    while time.monotonic() - since < 0.1:
        assert time.monotonic() < until, f"not in {PATIENCE_S} s; {now} at last"
        time.sleep(0.02)
        if now != (later := measure()):
            now, since = later, time.monotonic()
    return now


def limit_descriptors(count: int) -> Callable[[], None]:
    """For ``preexec``: a hard limit of open files."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def ignore_children() -> None:
    """For ``preexec``: as some who start programs do for themselves."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


NOBODY = 65534


def fixed_workers(model: str, count: int) -> list:
    """Flags for so many workers, where the model has a fixed number of them."""
    return ["--workers", count] if entry(model)["workers"] == "fixed" else []


def a_worker_each(model: str, clients: int) -> list:
    """Flags for a worker for each client, where a client holds one."""
    return ["--workers", clients] if entry(model)["holds"] == "workers" else []


def nobody_may_run(program: Path) -> bool:
    """Whether the user that root becomes in `limit_tasks` can start a program."""
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return conftest.ran(program, "--list", **who).returncode == 0
    return False


def limit_tasks(count: int) -> Callable[[], None]:
    """For ``preexec``: room for so many more processes and threads of one user.

    RLIMIT_NPROC bounds all that a user runs, on the whole machine; root becomes one
    that runs nothing.
    """
    user = NOBODY if os.geteuid() == 0 else os.getuid()
    facts = [process.info for process in psutil.process_iter(["uids", "num_threads"])]
    its = [f["num_threads"] for f in facts if f["uids"] and f["uids"].real == user]
    most = count + sum(its)
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    return limit_a_user(resource.RLIMIT_NPROC, most)


def limit_a_user(kind: int, most: int) -> Callable[[], None]:
    """For ``preexec``: a limit that does not bind root, so root becomes a user."""

    def apply() -> None:
        resource.setrlimit(kind, (most, most))
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)

    return apply
