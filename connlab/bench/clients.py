"""The load generator beside wrk and ab: what a request costs each of them.

    a server <── ours, wrk, ab, one after another, shuffled ──▶ next round, next server

All ask for the same page over as many connections, which stay open, from the same core.
CPU time is what the kernel says of a client's whole process when it has ended
(``wait4``), so that nobody's own word counts; start and report are included. Ours
checks status and length of every answer as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from connlab.bench.plan import BASE, PAGE, Plan
from connlab.bench.windows import web_root
from connlab.drive import flags
from connlab.drive.host import Host, LocalHost, ProgramError, describe_exit

OURS, PEERS = "client", ("wrk", "ab")
#: ab ends after so many requests, or when its time is up; it takes memory for each
AB_MOST = 5_000_000
READY_S = 10.0
#: a client that takes so much longer than its window hangs
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Said:
    """What a client printed: requests answered, their rate, and what went wrong."""

    requests: int
    throughput_rps: float
    wrong: str = ""


@dataclass(frozen=True)
class Spent:
    """What one run of one client cost, by round. What could not be had is None."""

    round: int
    client: str
    throughput_rps: float | None = None
    client_cpu_per_request_s: float | None = None
    server_cpu_per_request_s: float | None = None
    failure: str | None = None

    @property
    def arm(self) -> str:
        """Which arm of a round this is."""
        return self.client


def installed() -> tuple[str, ...]:
    """Return ours and those of its peers that this machine has."""
    return (OURS, *(name for name in PEERS if shutil.which(name)))


def seconds(plan: Plan) -> int:
    """Return the width of a window in seconds: whole ones, as wrk and ab want it."""
    return max(1, round(plan.seconds))


def measure(plan: Plan) -> list[Spent]:
    """Run every client once per round, in an order shuffled anew for each."""
    host, order, found = LocalHost(), random.Random(plan.seed), []
    with web_root() as root:
        for number in range(plan.rounds):
            names = list(installed())
            order.shuffle(names)
            with _served(plan, host, root) as (server, address):
                found += [
                    _spent(plan, Spent(number, name), host, server, address)
                    for name in names
                ]
    return found


@contextlib.contextmanager
def _served(plan: Plan, host: Host, root: str) -> Iterator[tuple[int, str]]:
    """Run the server of a round; yield its handle and its address."""
    told = {"model": BASE, "workload": "http", "root": root}
    argv = [*plan.programs.server, *flags.server_flags(told)]
    handle = host.start(argv, cores=plan.cores.server)
    try:
        ready = host.ready(handle, timeout_s=READY_S)
        if ready is None:
            raise ProgramError(f"server: not ready after {READY_S:g} s")
        yield handle, f"{ready['host']}:{ready['port']}"
    finally:
        host.stop(handle, grace_s=5.0)


def _spent(plan: Plan, place: Spent, host: Host, server: int, address: str) -> Spent:
    try:
        before = _server_cpu_s(host, server)
        text, cpu_s = _run(
            argv(plan, place.client, address),
            cores=plan.cores.client,
            timeout_s=seconds(plan) + PATIENCE_S,
        )
        server_s = _server_cpu_s(host, server) - before
        said = READERS[place.client](text)
    except (OSError, RuntimeError, ValueError) as error:
        return replace(place, failure=str(error))
    if said.wrong or not said.requests:
        return replace(place, failure=said.wrong or "no request was answered")
    return replace(
        place,
        throughput_rps=said.throughput_rps,
        client_cpu_per_request_s=cpu_s / said.requests,
        server_cpu_per_request_s=server_s / said.requests,
    )


def _server_cpu_s(host: Host, server: int) -> float:
    found = host.sample(server, machine=False).processes
    if found is None:
        raise ProgramError("server: gone")
    return found.cpu_s


def argv(plan: Plan, client: str, address: str) -> list[str]:
    """Return the command of a client that asks ``HOST:PORT`` for the page."""
    count, width = min(plan.connections), seconds(plan)
    url = f"http://{address}/{PAGE}"
    if client == "wrk":
        return ["wrk", "-t1", f"-c{count}", f"-d{width}s", url]
    if client == "ab":
        # -t sets -n as well, so -n has to come later
        return ["ab", "-q", "-k", f"-c{count}", f"-t{width}", f"-n{AB_MOST}", url]
    told = {
        "workload": "http",
        "path": f"/{PAGE}",
        "connections": count,
        "duration": width,
        "warmup": 0,
    }
    return [*plan.programs.client, address, *flags.client_flags(told, seed=plan.seed)]


def _run(
    argv: Sequence[str], *, cores: Sequence[int], timeout_s: float
) -> tuple[str, float]:
    """Run a program on `cores`; return what it printed and its CPU time in seconds.

    Raises
    ------
    RuntimeError
        When it fails, or is killed because it takes longer than `timeout_s`.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        with _pinned(cores):
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
            )
        end = threading.Timer(timeout_s, os.kill, (process.pid, signal.SIGKILL))
        end.start()
        try:
            _pid, status, usage = os.wait4(process.pid, 0)
        finally:
            end.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            how = describe_exit(process.returncode)
            raise RuntimeError(f"{argv[0]}: {how}: {_text(errors).strip()}")
        return _text(out), usage.ru_utime + usage.ru_stime


def _text(file) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


@contextlib.contextmanager
def _pinned(cores: Sequence[int]) -> Iterator[None]:
    """Let what is started meanwhile use only `cores`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# --- what they print ----------------------------------------------------------------


def read_ours(text: str) -> Said:
    """Read the JSON object of ``build/client``."""
    told = json.loads(text)
    errors = {kind: n for kind, n in told["errors"].items() if n}
    wrong = ", ".join(f"{n} {kind}" for kind, n in errors.items())
    return Said(told["requests"]["completed"], told["window"]["throughput_rps"], wrong)


def read_wrk(text: str) -> Said:
    """Read what wrk prints; it tells of errors in lines that are there only then."""
    wrong = re.findall(r"^ *(Socket errors:.*|Non-2xx .*)$", text, re.MULTILINE)
    return Said(
        int(_number("wrk", r"(\d+) requests in ", text)),
        _number("wrk", r"Requests/sec: +([\d.]+)", text),
        "; ".join(wrong),
    )


def read_ab(text: str) -> Said:
    """Read what ab prints; an answer that ended its connection counts as wrong."""
    done = int(_number("ab", r"Complete requests: +(\d+)", text))
    kept = int(_number("ab", r"Keep-Alive requests: +(\d+)", text))
    failed = int(_number("ab", r"Failed requests: +(\d+)", text))
    wrong = re.findall(r"^(Non-2xx .*)$", text, re.MULTILINE)
    if failed:
        wrong.append(f"Failed requests: {failed}")
    if kept < done:
        wrong.append(f"kept alive: {kept} of {done}")
    rate = _number("ab", r"Requests per second: +([\d.]+)", text)
    return Said(done, rate, "; ".join(wrong))


READERS: Mapping[str, Callable[[str], Said]] = {
    OURS: read_ours,
    "wrk": read_wrk,
    "ab": read_ab,
}


def _number(client: str, pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if not found:
        raise ValueError(f"{client}: nothing like {pattern!r} in {text[:200]!r}")
    return float(found[1])
