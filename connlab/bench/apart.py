"""What would disturb the windows, measured apart: idle memory and system calls."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from connlab import schema
from connlab.bench.plan import Arm, Plan, factors
from connlab.drive import procfs

MEMORY_REPEATS = 3
#: idle connections for models that give each a thread or a process
MEMORY_WORKERS = 200
#: the first connections, which pay for what all share
MEMORY_FIRST = 8
SETTLE_S = 0.2
CALLS_CONNECTIONS = 20
#: requests per connection of two runs, whose difference is what requests call
CALLS_REQUESTS = (40, 240)
#: calls rarer than this per request are not worth a word
CALLS_RARE = 0.005

_STRACE_ROW = re.compile(
    r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z]\w*)\s*$"
)


@dataclass(frozen=True)
class Memory:
    """Bytes of the server's processes (PSS) for one more connection that is idle."""

    model: str
    connections: int
    bytes: tuple[float, ...]


@dataclass(frozen=True)
class Calls:
    """System calls per request, by name, the most frequent first."""

    model: str
    per_request: Mapping[str, float]
    failure: str | None = None


@contextlib.contextmanager
def serving(argv: Sequence[str]) -> Iterator[dict]:
    """Run a server for the duration of a block; yield its ready line."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    ready = None
    try:
        ready = json.loads(process.stdout.readline())
        yield ready
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(ready["pid"] if ready else process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


# --- memory -------------------------------------------------------------------------


def idle_memory(plan: Plan) -> list[Memory]:
    """Open connections that stay silent; return what each adds to the server's PSS.

    Models that hold no more connections than they have workers are left out: an idle
    client costs them a worker, not memory.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found = []
    for model in plan.models:
        if not model.concurrent or model.holds == "workers":
            continue
        many = model.holds in ("descriptors", "fd_setsize")
        count = plan.idle if many else min(plan.idle, MEMORY_WORKERS)
        if model.holds == "fd_setsize":
            count = min(count, 900)
        runs = [_bytes_per_idle(plan, model, count) for _ in range(MEMORY_REPEATS)]
        found.append(Memory(model.name, count, tuple(runs)))
    return found


def _bytes_per_idle(plan: Plan, model: schema.Model, count: int) -> float:
    argv = [*plan.programs.server, model.name]
    with serving(argv) as ready, contextlib.ExitStack() as opened:
        address = (ready["host"], ready["port"])

        def connect(number: int) -> int:
            for _ in range(number):
                opened.enter_context(socket.create_connection(address))
            return _settled_pss(ready["pid"])

        before = connect(MEMORY_FIRST)
        return (connect(count) - before) / count


def _settled_pss(pid: int) -> int:
    """Return the PSS of a process tree once it has stopped changing."""
    last, now = -1, _pss(pid)
    while now != last:
        time.sleep(SETTLE_S)
        last, now = now, _pss(pid)
    return now


def _pss(pid: int) -> int:
    found, family = procfs.tree(pid)
    return procfs.pss_bytes(tuple((one, 1.0) for one in (*found, *family))) or 0


# --- system calls -------------------------------------------------------------------


def system_calls(plan: Plan) -> list[Calls]:
    """Count system calls per echo request, as the difference of two traced runs.

    Starting, accepting and ending make calls as well; both runs have as many
    connections, so that those cancel. Tracing makes calls slow, and so a turn of a
    loop finds more to do than it otherwise would. Without strace: nothing.
    """
    if not shutil.which("strace"):
        return []
    return [_calls_of(plan, model) for model in plan.models if model.concurrent]


def _calls_of(plan: Plan, model: schema.Model) -> Calls:
    try:
        few, many = (_traced(plan, model, n) for n in CALLS_REQUESTS)
    except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
        return Calls(model.name, {}, str(error))
    return Calls(model.name, per_request(few, many))


def per_request(few: Mapping[str, int], many: Mapping[str, int]) -> dict[str, float]:
    """Return calls per request from the calls of both runs, the rare ones left out."""
    requests = (CALLS_REQUESTS[1] - CALLS_REQUESTS[0]) * CALLS_CONNECTIONS
    per = {name: (n - few.get(name, 0)) / requests for name, n in many.items()}
    ordered = sorted(per.items(), key=lambda item: -item[1])
    return {name: n for name, n in ordered if n >= CALLS_RARE}


def _traced(plan: Plan, model: schema.Model, requests: int) -> dict[str, int]:
    told = factors(plan, Arm("echo", CALLS_CONNECTIONS, model.name))
    workers = [f"--workers={told['workers']}"] if "workers" in told else []
    asked = {
        "connections": CALLS_CONNECTIONS,
        "requests": requests,
        "size": plan.size,
    }
    flags = [f"--{name}={value}" for name, value in asked.items()]
    with tempfile.NamedTemporaryFile("r", prefix="connlab-strace-") as table:
        traced = ["strace", "-f", "-c", "-o", table.name, *plan.programs.server]
        with serving([*traced, model.name, *workers]) as ready:
            done = subprocess.run(
                [*plan.programs.client, f"{ready['host']}:{ready['port']}", *flags],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"client: {done.stderr.strip()}")
        return parse_strace(table.read())


def parse_strace(text: str) -> dict[str, int]:
    """Return the calls by name from the table of ``strace -c``."""
    rows = (_STRACE_ROW.match(line) for line in text.splitlines())
    return {row[2]: int(row[1]) for row in rows if row and row[2] != "total"}
