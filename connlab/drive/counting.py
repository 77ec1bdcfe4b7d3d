"""What the kernel does for a request, counted on servers that are not timed.

    perf stat -e syscalls:…,context-switches,… -- server   twice, short and long
        -> (events of the long run - those of the short one) / (their requests)

Starting, accepting and ending make events as well; they are alike in both runs, and
cancel. A tracepoint costs a fraction of a microsecond each time, which a timed trial
must not pay. ``perf`` and readable tracepoints (``perf_event_paranoid`` of -1 or
CAP_PERFMON, and files below ``/sys/kernel/tracing`` that only root may read, unless
somebody changed that) are needed; `missing` says what is not there.
"""

import contextlib
import functools
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import hosts_asked, programs, untimed
from connlab.drive.host import ProgramError

FILE = "counts.jsonl"
#: system calls that a server makes for a request, by the kernel's names
CALLS = (
    *("recvfrom", "sendto", "read", "write", "epoll_wait", "epoll_pwait"),
    *("epoll_pwait2", "epoll_ctl", "poll", "select", "pselect6", "ppoll"),
    *("io_uring_enter", "rt_sigtimedwait", "futex"),
)
#: events counted, and our names for those that are no system call
EVENTS = {f"syscalls:sys_enter_{name}": name for name in CALLS} | {
    "raw_syscalls:sys_enter": "system_calls",
    "sched:sched_wakeup": "wakeups",
    "context-switches": "switches",
    "page-faults": "page_faults",
}
#: counters of the processor, in runs of their own: each tracepoint costs cycles
HARDWARE = {
    "cycles": "cycles",
    "instructions": "instructions",
    "cache-misses": "cache_misses",
}
#: requests of the short and the long run, as shares of those asked for
RUN_SHARES = (0.1, 1.1)
#: per connection, as each that opens wakes the server as well
REQUESTS_MIN = 50
#: system calls that two starts of a server may differ by (24 starts did in none)
TOLERANCE = 50
#: pairs of runs tried before a cell is a failure
ATTEMPTS = 3


def missing() -> str | None:
    """Return why events cannot be counted here; None: they can."""
    if lack := untimed.perf_missing():
        return lack
    if not _countable("raw_syscalls:sys_enter"):
        return "perf may not read the kernel's tracepoints here (only root may)"
    return None


@functools.cache
def _countable(event: str) -> bool:
    """Whether perf counts an event here; many virtual machines hide the hardware's."""
    argv = ["perf", "stat", "-x,", "-e", event, "true"]
    done = programs.finished(argv, timeout_s=untimed.READY_S)
    return done.returncode == 0 and bool(parse(done.stderr))


def parse(text: str) -> dict[str, int]:
    """Return the events by name from what ``perf stat -x,`` prints.

    What perf could not count is left out.

    >>> parse("12,,context-switches,1,100.00,,\\n<not supported>,,cycles,0,,,")
    {'switches': 12}
    """
    rows = (line.split(",") for line in text.splitlines())
    names = EVENTS | HARDWARE
    return {
        names[row[2]]: int(row[0])
        for row in rows
        if len(row) > 2 and row[0].isdigit() and row[2] in names
    }


def count(
    study: str,
    *,
    run: str,
    cells: Sequence[Mapping[str, Any]],
    size: int = 64,
    requests: int = 10_000,
    root: str | Path = "runs",
    measure: bool = True,
) -> str | None:
    """Count what each cell's server does; return why not, None when it was counted.

    A line a cell goes to ``root/run/study/counts.jsonl``. With ``measure=False``
    nothing is measured, as the run is evaluated again.

    Parameters
    ----------
    cells : sequence of mapping
        ``model``, ``connections`` and ``active`` of each.
    size : int
        Bytes of a message of the echo.
    requests : int
        By how many, over all clients, the long run has more than the short one; at
        least 50 for each connection.

    Raises
    ------
    ValueError
        For `requests` below 100 or above 10 million.
    """
    if not measure:
        return None
    hosts_asked.refuse("events are counted")
    if not 100 <= requests <= 10_000_000:
        raise ValueError(f"requests: {requests}; allowed: 100 to 10000000")
    if reason := missing():
        return reason
    with _kept_open():
        untimed.measure(
            schema.study_folder(run, study, root=root) / FILE,
            ({**cell, "size": size, "asked": requests} for cell in cells),
            _counted,
        )
    return None


@contextlib.contextmanager
def _kept_open() -> Iterator[None]:
    """Keep the tracepoints open while the body runs.

    The last to close one waits until all processors have left it: 0.7 s for `EVENTS`.
    """
    argv = ["perf", "stat", "-o", "/dev/null", "-e", ",".join(EVENTS), "--", "cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL):
        yield  # cat ends with its input, as this process does


def _counted(model: schema.Model, cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the events per request of a cell, or why `ATTEMPTS` pairs gave none."""
    outcome = _pairs(model, cell, EVENTS)
    if outcome["failure"] is None and _countable("cycles"):
        hardware = _pairs(model, cell, HARDWARE)
        outcome["per_request"] |= hardware.get("per_request", {})
    return outcome


def _pairs(
    model: schema.Model, cell: Mapping[str, Any], events: Mapping[str, str]
) -> dict[str, Any]:
    """Count `events` in up to `ATTEMPTS` pairs of runs, until one can be used."""
    for _ in range(ATTEMPTS):
        try:
            runs = [_counted_run(model, cell, s, events) for s in RUN_SHARES]
            return _per_request(*runs)
        except ProgramError as error:
            outcome = {"failure": str(error)}
    return outcome


def _per_request(short: Mapping[str, int], long: Mapping[str, int]) -> dict[str, Any]:
    """Return the events per request: the differences between the two runs.

    Only system calls must be more in the long run. Where switches and wake-ups are
    fewer there, they count as 0: what requests add is within chance.

    >>> _per_request({"requests": 10, "sendto": 12}, {"requests": 30, "sendto": 32})
    {'failure': None, 'requests': 20, 'per_request': {'sendto': 1.0}}
    """
    requests = long["requests"] - short["requests"]
    if requests <= 0:
        raise ProgramError("the long run had no more requests than the short one")
    added = {k: n - short.get(k, 0) for k, n in long.items() if k != "requests"}
    calls = {*CALLS, "system_calls"}
    if fewer := sorted(k for k, n in added.items() if k in calls and n < -TOLERANCE):
        raise ProgramError(f"fewer in the long run: {', '.join(fewer)}")
    rates = {k: max(n, 0) / requests for k, n in added.items()}
    return {"failure": None, "requests": requests, "per_request": rates}


def _counted_run(
    model: schema.Model,
    cell: Mapping[str, Any],
    share: float,
    events: Mapping[str, str],
) -> dict[str, int]:
    """Return the counts and the requests of one server under one load."""
    factors = {name: cell[name] for name in ("connections", "active", "size")}
    requests = max(cell["asked"], REQUESTS_MIN * cell["connections"])
    factors["requests"] = max(1, round(requests * share / cell["active"]))
    with tempfile.NamedTemporaryFile("r", prefix="connlab-perf-") as table:
        perf = ["perf", "stat", "-x,", "-o", table.name, "-e", ",".join(events), "--"]
        report = untimed.traced(perf, model, factors)
        counts = parse(Path(table.name).read_text())
    needed = {"system_calls", "cycles"} & {*events.values()}
    if not needed <= counts.keys():
        raise ProgramError(f"{model.name}: perf counted nothing")
    return counts | {"requests": report["requests"]["completed"]}
