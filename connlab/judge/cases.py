"""The six questions of 24 published cases, put to a server that is not ours.

Tran and Rees asked them of three servers and of a client. What rests on the server's
own statistics cannot be asked here, as nobody knows where it keeps them.
"""

import contextlib
import itertools
import shlex
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connlab.drive import cases, procfs, turns
from connlab.drive.cases import CONNECTIONS, QUESTIONS, REQUESTS, SIZES, Answer
from connlab.drive.host import ProgramError
from connlab.drive.running import NotServing, Running, running, visit
from connlab.judge import naming
from connlab.judge.wire import echoes, reset

#: a question of ours beside theirs
WAITED = "ended children waited for"
_TABLE = "per-connection"
_WAIT_S = 30
#: clients that reset their connection
_VANISH = 10
#: until the server has seen that: before, none of them has left anything
_SEEN_S = 0.2
#: rounds of clients that come and go, and how many in each
_ROUNDS, _CLIENTS = 4, 250
#: all that come meanwhile, with those that ask
VISITORS = f"{_ROUNDS * _CLIENTS} more clients that come and go"
#: seconds that a round may take
_ROUND_S = 10
#: bytes a connection that a server may keep in each round, beside what it caches
_KEPT_BYTES = 100
#: programs that free memory when they collect garbage, which so few clients may not
#: make them do; CPython is none of them, as it counts references
COLLECT = (
    *("java", "node", "nodejs", "deno", "bun", "dotnet", "ruby", "pypy"),
    *("beam.smp", "dart", "julia", "lua", "luajit", "mono", "racket", "sbcl"),
)
#: the same are those with this in their file
_GO = b" Go buildinf:"
#: what belongs to a thread that a signal ended is "possibly lost", and no fault
_SURELY = ("definitely", "indirectly")
#: seconds in which a client asks alone, and the bytes that a server which prints for
#: each request prints at least: for one, and in all, as it may for connections
_ALONE_S, _LINE_BYTES, _LINES_BYTES = 0.5, 10, 1000
#: how often a server is looked at while its client is silent, and the seconds between
_LOOKS, _LOOK_S = 20, 0.02


@dataclass(frozen=True)
class Asked:
    """What a server answered.

    `prints`: whether it printed something for each request. `busy_share`: how often
    it ran while its client was silent. `died`: how it ended, where nobody had asked it.
    """

    answers: tuple[Answer, ...]
    prints: bool
    busy_share: float
    died: str | None = None


def ask_all(server: str, *, valgrind: str | None) -> Asked:
    """Ask the six questions of a server; with valgrind's path, of leaks as well.

    NotServing when it does not come up.
    """
    with running(server) as serving:
        pid = serving.handle
        before, unreaped = procfs.descriptors(pid), procfs.zombies(pid)
        report, errors, rows = _ask_client(serving)
        port = serving.address[1]
        sockets = cases.settled(lambda: cases.open_sockets(port))
        left_open = _left(serving, procfs.descriptors, before, again=_ask_client)
        zombies = _left(serving, procfs.zombies, unreaped, again=_ask_client)
        before = procfs.descriptors(pid)
        _vanish(serving)
        left_broken = _left(serving, procfs.descriptors, before, again=_vanish)
        collectors = filter(None, map(_collector, serving.programs()))
        growth, collector = None, next(collectors, "")
        with contextlib.suppress(OSError):
            growth = _growth(serving)
        prints, busy_share = report is not None and _prints(serving), 0.0
        try:
            busy_share = _busy_share(serving)
        except OSError:
            serving.wait_for_its_end()
    died = serving.died()
    if report is None:
        answers = tuple(_answer(question, None, errors) for question in QUESTIONS)
        return Asked(answers, prints, busy_share, died)
    results = _answers_of(report, rows)
    results["sockets closed"] = (
        sockets == left_open == left_broken == 0,
        f"left open: sockets {sockets}, descriptors {left_open}; descriptors of "
        f"{_VANISH} clients that reset their connection: {left_broken}",
    )
    results[WAITED] = (zombies == 0, f"left as zombies: {zombies}")
    results["no memory leaked"] = _leaks(server, valgrind, growth, collector)
    answers = tuple(_answer(name, *results[name]) for name in (*QUESTIONS, WAITED))
    return Asked(answers, prints, busy_share, died)


def _left(
    serving: Running,
    count: Callable[[int], int],
    before: int,
    *,
    again: Callable[[Running], Any],
) -> int:
    """Return how many more there are of something for clients that have gone.

    A virtual machine opens descriptors, of libraries and pollers, when it first needs
    them, and who waits for children before it accepts leaves the last ones: only what
    the same clients leave a second time is theirs. `again` sends them.
    """

    def more() -> int:
        return max(0, count(serving.handle) - before)

    if left := cases.settled(more):
        before += left
        again(serving)
        left = min(left, cases.settled(more))
    return left


def _vanish(serving: Running) -> None:
    """Send some clients that reset their connection before they are answered."""
    with contextlib.suppress(OSError):
        for _ in range(_VANISH):
            with socket.create_connection(serving.address, _ROUND_S) as sock:
                sock.sendall(b"gone")
                reset(sock)
    time.sleep(_SEEN_S)


def _answer(question: str, holds: bool | None, evidence: str) -> Answer:
    their_cases = QUESTIONS.get(question, ())[:3]
    return Answer(question, "server", their_cases, holds, evidence)


def _ask_client(serving: Running) -> tuple[dict | None, str, list[dict]]:
    asks = {**cases.ASKS, "timeout": 3}
    try:
        report, ended = visit(serving, asks, files=[_TABLE], timeout_s=_WAIT_S)
    except ProgramError as error:
        return None, str(error), []
    return report, "", turns.table(ended.files[_TABLE])


def _answers_of(report: dict, rows: list[dict]) -> dict[str, tuple[bool | None, str]]:
    sent, received = report["bytes"]["sent"], report["bytes"]["received"]
    requests, answered = report["requests"]["sent"], report["requests"]["completed"]
    mismatches = report["errors"]["mismatch"]
    sizes = {row["bytes_out"] for row in rows}
    return {
        "varied lengths": (
            len(sizes) > 1 and received == sent,
            f"messages of {SIZES} bytes: {sent} bytes sent, {received} came back",
        ),
        "the same bytes": (
            mismatches == 0 and sent == received > 0,
            f"{received} of {sent} bytes came back, {mismatches} messages differ",
        ),
        "as many answers as requests": (
            requests == answered == CONNECTIONS * REQUESTS,
            f"{answered} answers to {requests} requests",
        ),
        "requests counted": (None, "the server's own count is not known here"),
    }


def _growth(serving: Running) -> int | None:
    """Return by how many bytes its memory grows at least in a round of clients.

    TimeoutError when it answers too slowly for that.
    """
    sizes = []
    for _ in range(_ROUNDS):
        until = time.monotonic() + _ROUND_S
        for _ in range(_CLIENTS):
            if time.monotonic() > until:
                raise TimeoutError
            with socket.create_connection(serving.address, _WAIT_S) as sock:
                echoes(sock)
        sizes.append(serving.anonymous_bytes())
    if None in sizes:
        return None
    return min(after - before for before, after in itertools.pairwise(sizes))


def _prints(serving: Running) -> bool:
    """Whether it prints something for each request, and not for connections only."""
    before = serving.host.printed_bytes(serving.handle)
    try:
        report, _ = visit(serving, {"duration": _ALONE_S}, timeout_s=_WAIT_S)
    except ProgramError:
        return False
    least = _LINE_BYTES * report["requests"]["completed"]
    printed = serving.host.printed_bytes(serving.handle) - before
    return printed >= max(least, _LINES_BYTES)


def _busy_share(serving: Running) -> float:
    """Return how often it runs, or would with a core, while its one client is silent.

    CPU time does not tell, where other programs leave it little.
    """
    runs = []
    with socket.create_connection(serving.address, _WAIT_S) as sock:
        echoes(sock)
        for _ in range(_LOOKS):
            time.sleep(_LOOK_S)
            runs.append(procfs.runs(serving.handle))
    return sum(runs) / _LOOKS


def _collector(program: Path) -> str:
    """Return what collects the garbage of a program; "" where nothing does."""
    if naming.unversioned(program) in COLLECT:
        return program.name
    with contextlib.suppress(OSError):
        if _GO in program.read_bytes():
            return "Go"
    return ""


def _leaks(
    server: str, valgrind: str | None, growth: int | None, collector: str
) -> tuple[bool | None, str]:
    """Judge what valgrind finds lost, and by how much its memory grows with clients.

    What a list keeps of clients that have gone, and the stack of a thread that nobody
    joins, valgrind does not call lost.
    """
    holds, told = None, []
    if valgrind:
        lost, reports = _lost(server, valgrind, visited=True)
        if reports:
            told.append(f"valgrind, bytes lost: {lost}; reports: {reports}")
            if lost:  # a process may lose some that is of no client
                alone, of_reports = _lost(server, valgrind, visited=False)
                told.append(f"without clients: {alone}; reports: {of_reports}")
                lost -= alone * reports // max(1, of_reports)
            holds = lost <= 0
    if growth is None:
        told.append(f"its memory could not be watched through {_CLIENTS} clients")
        return holds, "; ".join(told)
    told.append(f"{max(0, growth)} bytes more at least with each {_CLIENTS} clients")
    if growth < _CLIENTS * _KEPT_BYTES:
        holds = holds is not False
    elif collector:
        told[-1] += f", which {collector} may free when it collects garbage"
    else:
        holds = False
    return holds, "; ".join(told)


def _lost(server: str, valgrind: str, *, visited: bool) -> tuple[int, int]:
    """Return the bytes lost in all processes, and how many processes reported.

    None reported of clients that were not served whole, unless some are lost: threads
    that wait in io_uring_enter keep valgrind's lock, and the others starve.
    """
    whole = True
    with tempfile.TemporaryDirectory() as folder:
        words = [valgrind, "--leak-check=full", f"--log-file={folder}/%p"]
        try:
            with running(f"{shlex.join(words)} {server}") as serving:
                if visited:
                    report, _, _ = _ask_client(serving)
                    whole = report is not None and cases.is_whole(report)
        except NotServing:
            return 0, 0
        texts = (path.read_text() for path in Path(folder).iterdir())
        lost, reports = cases.lost("".join(texts), kinds=_SURELY)
        return (lost, reports) if lost or whole else (0, 0)
