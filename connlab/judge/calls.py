"""The system calls that a server makes for a request, counted by strace."""

import contextlib
import math
import shlex
import shutil
import tempfile
import time
from dataclasses import dataclass

from connlab.drive.host import ProgramError
from connlab.drive.running import NotServing, running, visit
from connlab.drive.strace import parse_strace, per_request

#: requests of two runs, so that what starting and ending take cancels
REQUESTS = (20, 2020)
#: seconds that the longer one may take: with a slow server it has fewer requests
_MANY_S = 10
_WAIT_S = 30
#: calls that are rarer in a request are those of starting and ending
_RARE = 0.02


@dataclass(frozen=True)
class Calls:
    """Calls per request by name, the most frequent first; or why they are not known."""

    per_request: dict[str, float]
    missing: str = ""

    @property
    def total(self) -> float:
        return sum(self.per_request.values())


def count(server: str) -> Calls:
    """Count the calls of one client's requests, one after the other."""
    strace = shutil.which("strace")
    if strace is None:
        return Calls({}, "strace is not here (apt install strace)")
    try:
        few, each_s = _under_strace(server, strace, REQUESTS[0])
        most = REQUESTS[0] + int(_MANY_S / each_s)
        many, _ = _under_strace(server, strace, min(REQUESTS[1], most))
    except NotServing as error:
        return Calls({}, f"not under strace: {error}")
    if not few[1] or not many[1]:
        return Calls({}, "under strace nobody was answered")
    return between(few, many)


def _under_strace(
    server: str, strace: str, requests: int
) -> tuple[tuple[str, int], float]:
    """Return the table of strace with its requests, and the seconds that each took."""
    answered, each_s = 0, math.inf
    with tempfile.NamedTemporaryFile("r", prefix="connlab-strace-") as table:
        # -I 2: SIGTERM ends strace too, which then writes its table
        words = [strace, "-f", "-c", "-I", "2", "-o", table.name]
        with (
            running(f"{shlex.join(words)} {server}") as serving,
            contextlib.suppress(ProgramError),
        ):
            began = time.monotonic()
            report, _ = visit(serving, {"requests": requests}, timeout_s=_WAIT_S)
            answered = report["requests"]["completed"]
            each_s = (time.monotonic() - began) / max(1, answered)
        return (table.read(), answered), each_s


def between(few: tuple[str, int], many: tuple[str, int]) -> Calls:
    """Return calls per request from two tables of ``strace -c`` and their requests."""
    less, more = (parse_strace(text) for text, _ in (few, many))
    if not more:
        return Calls({}, "strace wrote no table")
    requests = many[1] - few[1]
    if requests <= 0:
        return Calls({}, f"under strace it answered {many[1]} requests at most")
    rates = per_request(less, more, requests=requests, rare=_RARE)
    return Calls({name: round(rate, 2) for name, rate in rates.items()})
