"""What a server takes: memory of a silent connection, system calls of a request.

Both are measured with a server that is alone, since both would disturb any other
measurement: many connections, and a tracer (strace).
"""

import contextlib
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from connlab import schema
from connlab.drive import untimed
from connlab.drive.host import ProgramError, all_descriptors
from connlab.drive.running import Running, running

Reading = TypeVar("Reading")

REPEATS = 4
#: the first connections, which also pay for what all share
FIRST = 8
#: connections that stay silent; fewer where each has a thread or a process
IDLE, IDLE_WORKERS = {"descriptors": 1000, "fd_setsize": 900}, 200
SETTLE_S = 0.04
CALLS_CONNECTIONS = 20
#: requests per connection of two runs, whose difference is what requests call
CALLS_REQUESTS = (40, 240)
#: calls rarer than this per request are left out
CALLS_RARE = 0.005
#: whose numbers have the decimal comma of some locales
_STRACE_ROW = re.compile(
    r"^\s*[\d.,]+\s+[\d.,]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z]\w*)\s*$"
)


def idle_memory(models: Sequence[schema.Model]) -> dict[str, list[float]]:
    """Return what each silent connection adds to a server's PSS, in bytes.

    `REPEATS` values a model, each of a fresh server. A model that holds no more
    connections than it has workers is left out: there an idle client costs a worker,
    not memory.
    """
    return {
        model.name: [_per_idle(model) for _ in range(REPEATS)]
        for model in models
        if holds(model)
    }


def holds(model: schema.Model) -> bool:
    """Whether a model can run here and holds more connections than it has workers."""
    return model.concurrent and model.available and model.holds != "workers"


def _per_idle(model: schema.Model) -> float:
    with running(model.name) as server:
        count, before, after = before_and_after(model, server, settled_pss)
        return (after - before) / count


def before_and_after(
    model: schema.Model, server: Running, read: Callable[[Running], Reading]
) -> tuple[int, Reading, Reading]:
    """Read a server with a few silent connections, then with many more.

    Returns how many more, and what `read` returned both times.
    """
    count = IDLE.get(model.holds or "", IDLE_WORKERS)
    readings = []
    with all_descriptors(), contextlib.ExitStack() as stack:
        for more in (FIRST, count):
            for _ in range(more):
                stack.enter_context(socket.create_connection(server.address))
            readings.append(read(server))
    return count, *readings


def settled_pss(server: Running) -> int:
    """Return the PSS of a server once it has stopped changing.

    Raises `ProgramError` when it is not known, as the server has ended.
    """
    last, now = -1, 0
    while now != last:
        time.sleep(SETTLE_S)
        reading = server.host.sample(server.handle, machine=False, memory=True)
        if reading.pss_bytes is None:
            raise ProgramError(f"{server.ready['model']}: its memory cannot be read")
        last, now = now, reading.pss_bytes
    return now


def system_calls(models: Sequence[schema.Model]) -> dict[str, dict[str, float]]:
    """Return calls per echo request by name, the difference of two traced runs.

    Starting, accepting and ending make calls as well; both runs have as many
    connections, so that those cancel. Tracing makes calls slow, so a turn of a loop
    finds more to do than it otherwise would. Nothing where strace is not installed.
    """
    if shutil.which("strace") is None:
        return {}
    requests = (CALLS_REQUESTS[1] - CALLS_REQUESTS[0]) * CALLS_CONNECTIONS
    calls = {}
    for model in models:
        if model.concurrent and model.available:
            few, many = (_traced(model, n) for n in CALLS_REQUESTS)
            rates = per_request(few, many, requests=requests, rare=CALLS_RARE)
            calls[model.name] = rates
    return calls


def per_request(
    few: Mapping[str, int], many: Mapping[str, int], *, requests: int, rare: float
) -> dict[str, float]:
    """Return calls per request, the most frequent first, from the calls of two runs.

    One has so many `requests` more. Calls that are `rare` per request are left out.
    """
    rates = {name: (n - few.get(name, 0)) / requests for name, n in many.items()}
    ordered = sorted(rates.items(), key=lambda item: -item[1])
    return {name: rate for name, rate in ordered if rate >= rare}


def _traced(model: schema.Model, requests: int) -> dict[str, int]:
    factors = {"connections": CALLS_CONNECTIONS, "requests": requests}
    with tempfile.NamedTemporaryFile("r", prefix="connlab-strace-") as table:
        strace = ["strace", "-f", "-c", "-o", table.name]
        untimed.traced(strace, model, factors)
        return parse_strace(table.read())


def parse_strace(text: str) -> dict[str, int]:
    """Return the calls by name from the table of ``strace -c``."""
    rows = (_STRACE_ROW.match(line) for line in text.splitlines())
    return {row[2]: int(row[1]) for row in rows if row and row[2] != "total"}
