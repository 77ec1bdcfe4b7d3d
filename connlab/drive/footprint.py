"""What a server takes: memory of a silent connection, system calls of a request.

Both are measured with a server that is alone, since both would disturb any other
measurement: many connections, and a tracer (strace).
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from connlab import schema
from connlab.drive import flags, workers
from connlab.drive.host import LocalHost, ProgramError, serving
from connlab.drive.programs import Programs

Look = TypeVar("Look")

REPEATS = 4
#: the first connections, which pay for what all share
FIRST = 8
#: connections that stay silent; fewer where each has a thread or a process
IDLE, IDLE_WORKERS = {"descriptors": 1000, "fd_setsize": 900}, 200
SETTLE_S = 0.04
CALLS_CONNECTIONS = 20
#: requests per connection of two runs, whose difference is what requests call
CALLS_REQUESTS = (40, 240)
#: calls rarer than this per request are not worth a word
CALLS_RARE = 0.005
_STRACE_ROW = re.compile(
    r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z]\w*)\s*$"
)


def idle_memory(
    both: Programs, models: Sequence[schema.Model]
) -> dict[str, list[float]]:
    """Return what each silent connection adds to a server's PSS, in bytes.

    `REPEATS` values a model, each of a fresh server. A model that holds no more
    connections than it has workers is left out: there an idle client costs a worker,
    not memory.
    """
    kept = [m for m in models if holds(m)]
    return {m.name: [_per_idle(both, m) for _ in range(REPEATS)] for m in kept}


def holds(model: schema.Model) -> bool:
    """Whether a model can run here and holds more connections than it has workers."""
    return model.concurrent and model.available and model.holds != "workers"


def _per_idle(both: Programs, model: schema.Model) -> float:
    with serving([*both.server, model.name]) as (host, server, ready):
        address = (ready["host"], ready["port"])
        count, few, many = looks(model, address, lambda: settled_pss(host, server))
        return (many - few) / count


def looks(
    model: schema.Model, address: tuple[str, int], look: Callable[[], Look]
) -> tuple[int, Look, Look]:
    """Look at a server with a few silent connections, then with many more.

    Returns how many more, and what `look` returned both times.
    """
    count = IDLE.get(model.holds or "", IDLE_WORKERS)
    seen = []
    with contextlib.ExitStack() as opened:
        for more in (FIRST, count):
            for _ in range(more):
                opened.enter_context(socket.create_connection(address))
            seen.append(look())
    return count, *seen


def settled_pss(host: LocalHost, server: int) -> int:
    """Return the PSS of a server once it has stopped changing."""
    last, now = -1, 0
    while now != last:
        time.sleep(SETTLE_S)
        seen = host.sample(server, machine=False, memory=True).pss_bytes
        last, now = now, seen or 0
    return now


def system_calls(
    both: Programs, models: Sequence[schema.Model]
) -> dict[str, dict[str, float]]:
    """Return calls per echo request by name, the difference of two traced runs.

    Starting, accepting and ending make calls as well; both runs have as many
    connections, so that those cancel. Tracing makes calls slow, and so a turn of a
    loop finds more to do than it otherwise would. Without strace: nothing.
    """
    there = [m for m in models if m.concurrent and m.available]
    return {
        model.name: per_request(*(_traced(both, model, n) for n in CALLS_REQUESTS))
        for model in there
        if shutil.which("strace")
    }


def per_request(few: Mapping[str, int], many: Mapping[str, int]) -> dict[str, float]:
    """Return calls per request from the calls of both runs, the rare ones left out."""
    requests = (CALLS_REQUESTS[1] - CALLS_REQUESTS[0]) * CALLS_CONNECTIONS
    per = {name: (n - few.get(name, 0)) / requests for name, n in many.items()}
    ordered = sorted(per.items(), key=lambda item: -item[1])
    return {name: n for name, n in ordered if n >= CALLS_RARE}


def _traced(both: Programs, model: schema.Model, requests: int) -> dict[str, int]:
    told = {"model": model.name, "workers": workers.needed(model, CALLS_CONNECTIONS)}
    asks = {"connections": CALLS_CONNECTIONS, "requests": requests}
    with tempfile.NamedTemporaryFile("r", prefix="connlab-strace-") as table:
        argv = ["strace", "-f", "-c", "-o", table.name, *both.server]
        with serving([*argv, *flags.server_flags(told)]) as (host, _server, ready):
            words = flags.client_flags(asks, seed=1)
            address = f"{ready['host']}:{ready['port']}"
            client = host.start([*both.client, address, *words])
            if host.ready(client, timeout_s=120) is None:
                raise ProgramError(f"client of {model.name}, traced: no report")
        return parse_strace(table.read())


def parse_strace(text: str) -> dict[str, int]:
    """Return the calls by name from the table of ``strace -c``."""
    rows = (_STRACE_ROW.match(line) for line in text.splitlines())
    return {row[2]: int(row[1]) for row in rows if row and row[2] != "total"}
