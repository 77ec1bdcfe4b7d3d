"""The system calls that a server makes for a request, counted by strace."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from connlab.drive import programs
from connlab.drive.running import NotServing, running

#: requests of two runs, so that what starting and ending take cancels
REQUESTS = (100, 2100)
_WAIT_S = 30
#: calls rarer than one in so many requests are those of starting and ending
_RARE = 50


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
        few, many = (_under_strace(server, strace, requests) for requests in REQUESTS)
    except NotServing as error:
        return Calls({}, f"not under strace: {error}")
    if not few[1] or not many[1]:
        return Calls({}, "under strace nobody was answered")
    return between(few, many)


def _under_strace(server: str, strace: str, requests: int) -> tuple[str, int]:
    with tempfile.NamedTemporaryFile("r", prefix="connlab-strace-") as table:
        # -I 2: SIGTERM ends strace too, which then writes its table.
        with running(f"{strace} -f -c -I 2 -o {table.name} {server}") as serving:
            done = _answered_requests(serving.address, requests)
        return Path(table.name).read_text(), done


def between(few: tuple[str, int], many: tuple[str, int]) -> Calls:
    """Return calls per request from two tables of ``strace -c`` and their requests."""
    less, more = table(few[0]), table(many[0])
    if not more:
        return Calls({}, "strace wrote no table")
    requests = many[1] - few[1]
    per_request = {
        name: round((calls - less.get(name, 0)) / requests, 2)
        for name, calls in more.items()
        if (calls - less.get(name, 0)) * _RARE >= requests
    }
    return Calls(dict(sorted(per_request.items(), key=lambda item: -item[1])))


def table(text: str) -> dict[str, int]:
    """Return the counts by name that ``strace -c`` wrote."""
    lines = [line.split() for line in text.splitlines()]
    rows = [words for words in lines if len(words) >= 5 and words[3].isdigit()]
    return {words[-1]: int(words[3]) for words in rows if words[-1] != "total"}


def _answered_requests(address: tuple[str, int], requests: int) -> int:
    host, port = address
    words = [*programs.built().client, f"{host}:{port}", "--requests", str(requests)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_WAIT_S, check=False
        )
        return json.loads(done.stdout)["requests"]["completed"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return 0
