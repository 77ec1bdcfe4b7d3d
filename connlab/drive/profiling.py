"""Where a server spends its CPU time: profiles by sampling, of servers not timed.

    perf record -e cpu-clock -g, sampling off -- server
        load runs -> on -> off -> perf script -> tree of functions

The timer of ``cpu-clock`` needs no hardware counters, so this works in virtual
machines. It interrupts what runs, and not where interrupts are masked: that time shows
in the function that unmasks them. perf 5.10 or later (``--control``), the kernel's
symbols (``kptr_restrict``) and leave to look into the kernel (``perf_event_paranoid``
of 1 or less, or CAP_PERFMON) are needed; `missing` says what is not there.

Of user space only the innermost function is kept: neither the servers nor the C
library are compiled with frame pointers.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import cores, hosts_asked, programs, untimed, workers
from connlab.drive.host import ProgramError
from connlab.drive.running import running, start_client

FILE = "profiles.jsonl"
#: marks a function of the kernel, as ``stackcollapse-perf.pl --kernel`` does
KERNEL = "_[k]"
#: samples a second of CPU time; no divisor of a timer's frequency
HERTZ = 1999
#: a profile of fewer samples is a failure
SAMPLES_MIN = 20
#: how long each attempt samples, in times of the first
LENGTHS = (1, 4, 16)
#: until all clients have connected and talk: at least, and more for each
_SETTLE_S, _SETTLE_EACH_S = 0.15, 0.0008
_REPORT_S = 60.0
#: without the thread that looks for BPF programs: perf waits a second for its end
_RECORD = ("perf", "record", "--no-bpf-event", "-q", "-B", "-N", "-g")
_CLOCK = ("-F", str(HERTZ), "-e")


def missing() -> str | None:
    """Return why the kernel cannot be sampled here; None: it can."""
    if lack := untimed.perf_missing():
        return lack
    with tempfile.TemporaryDirectory(prefix="connlab-perf-") as folder:
        # of the kernel alone: perf falls back to user space where it may not see both
        argv = [*_RECORD, *_CLOCK, "cpu-clock:k", "-o", f"{folder}/data", "--", "true"]
        done = programs.finished(argv, timeout_s=untimed.READY_S)
    if done.returncode:
        return "perf may not sample the kernel here (kernel.perf_event_paranoid)"
    return None if _symbols() else "the kernel hides its symbols (kernel.kptr_restrict)"


def _symbols(path: str = "/proc/kallsyms") -> bool:
    """Whether a file of symbols tells addresses; they are all zero where it may not.

    The first are zero in any case on x86-64 before Linux 6.15: where each processor's
    own data begin.
    """
    try:
        with open(path) as lines:
            return any(int(line.split()[0], 16) for line in islice(lines, 1000))
    except (OSError, ValueError):
        return False


def profile(
    study: str,
    *,
    run: str,
    cells: Sequence[Mapping[str, Any]],
    repeats: int = 4,
    size: int = 64,
    seconds: float = 0.3,
    root: str | Path = "runs",
    measure: bool = True,
) -> str | None:
    """Sample the server of each cell; return why not, None when it was sampled.

    A line a profile goes to ``root/run/study/profiles.jsonl``. With ``measure=False``
    nothing is measured, as the run is evaluated again.

    Parameters
    ----------
    cells : sequence of mapping
        ``model``, ``connections`` and ``active`` of each.
    repeats : int
        Profiles of each cell, each of a fresh server; 0: none.
    size : int
        Bytes of a message of the echo.
    seconds : float
        How long each is sampled.

    Raises
    ------
    ValueError
        For `repeats` outside 0 to 1000, or `seconds` outside 0.05 to 600.
    """
    if not measure:
        return None
    hosts_asked.refuse("servers are sampled")
    if not 0 <= repeats <= 1000:
        raise ValueError(f"repeats: {repeats}; allowed: 0 to 1000")
    if not 0.05 <= seconds <= 600:
        raise ValueError(f"seconds: {seconds}; allowed: 0.05 to 600")
    if reason := missing():
        return reason
    fixed = {"size": size, "seconds": seconds, "hertz": HERTZ}
    untimed.measure(
        schema.study_folder(run, study, root=root) / FILE,
        ({**cell, **fixed, "repeat": n} for n in range(repeats) for cell in cells),
        _profiled,
    )
    return None


def _profiled(model: schema.Model, cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the samples of one server, or why there are none.

    Where other programs left it too little time for a profile, a fresh one is sampled
    for longer.
    """
    for factor in LENGTHS:
        try:
            stacks = _stacks(model, cell, factor * cell["seconds"])
            if len(stacks) >= SAMPLES_MIN:
                return {"failure": None, "samples": len(stacks), "tree": tree(stacks)}
            failure = f"{len(stacks)} samples; wanted: {SAMPLES_MIN} or more"
        except (ProgramError, subprocess.TimeoutExpired) as error:
            failure = str(error)
    return {"failure": failure}


def _stacks(
    model: schema.Model, cell: Mapping[str, Any], seconds: float
) -> list[tuple[str, ...]]:
    with tempfile.TemporaryDirectory(prefix="connlab-perf-") as folder:
        _sample(model, cell, seconds, Path(folder))
        argv = ["perf", "script", "-i", f"{folder}/data", "-F", "ip,sym,dso"]
        done = programs.finished(argv, timeout_s=_REPORT_S)
    if done.returncode:
        raise ProgramError(f"perf script: {done.stderr.strip()[:200]}")
    return list(parse(done.stdout))


def _sample(
    model: schema.Model, cell: Mapping[str, Any], seconds: float, folder: Path
) -> None:
    """Run one server under load, sampled for a while; leaves ``folder/data``."""
    clients, control = cell["connections"], folder / "control"
    os.mkfifo(control)
    fd = os.open(control, os.O_RDWR | os.O_CLOEXEC)
    factors = {name: cell[name] for name in ("connections", "active", "size")}
    factors["duration"] = seconds + _REPORT_S
    pair = cores.one_each(cores.available())
    perf = [*_RECORD, *_CLOCK, "cpu-clock", "-D", "-1", "--control", f"fifo:{control}"]
    perf += ["-o", str(folder / "data"), "--"]
    options = {"cores": pair.server, "ready_s": untimed.READY_S}
    options["workers"] = workers.needed(model, clients)
    try:
        with running(model.name, under=perf, **options) as server:
            client = start_client(server, factors, sets=pair)
            time.sleep(_SETTLE_S + _SETTLE_EACH_S * clients)
            os.write(fd, b"enable\n")
            time.sleep(seconds)
            os.write(fd, b"disable\n")
            if server.host.stop(client, grace_s=0).early:
                raise ProgramError(f"client of {model.name}, sampled: it ended early")
    finally:
        os.close(fd)


def parse(text: str) -> Iterator[tuple[str, ...]]:
    """Give the stack of each sample that ``perf script -F ip,sym,dso`` prints.

    Outermost function first. Those of the kernel end in `KERNEL`; of user space only
    the innermost is given, or its file where that has no symbol.

    >>> list(parse("\\tffffffff81a1b2c3 schedule ([k])\\n  7f10 recv (/a/libc.so)"))
    [('recv', 'schedule_[k]')]
    """
    for sample in text.split("\n\n"):
        # a caller without a file is what a frame pointer that is none points to
        lines = [line for line in sample.splitlines() if line.strip()]
        resolved = [line for line in lines if "([unknown])" not in line]
        frames = [_frame(line) for line in resolved or lines[:1]]
        kernel = [name for name in frames if name.endswith(KERNEL)]
        user = [name for name in frames if not name.endswith(KERNEL)][:1]
        if frames:
            yield (*user, *reversed(kernel))


def _frame(line: str) -> str:
    """Return the function of a line: address, name, file in brackets."""
    address, _, rest = line.strip().partition(" ")
    name, _, file = rest.rpartition(" (")
    if name in ("", "[unknown]"):
        name = f"[{file.rstrip(')').rpartition('/')[2]}]"
    return name + KERNEL if int(address, 16) >= 1 << 63 else name


def tree(stacks: Iterable[Sequence[str]]) -> dict[str, Any]:
    """Merge stacks: ``name``, ``value`` (samples) and ``children`` of each function.

    The form is that of d3-flame-graph.

    >>> root = tree([("a", "b"), ("a",)])
    >>> root["value"], root["children"][0]["children"]
    (2, [{'name': 'b', 'value': 1}])
    """
    root: dict[str, Any] = {"name": "", "value": 0}
    for stack in stacks:
        node: Any = root
        node["value"] += 1
        for name in stack:
            children = node.setdefault("children", [])
            node = next((child for child in children if child["name"] == name), None)
            if node is None:
                node = {"name": name, "value": 0}
                children.append(node)
            node["value"] += 1
    return root
