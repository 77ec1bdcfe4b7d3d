"""The system calls that a server makes for a request, counted by strace."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from connlab.drive import programs
from connlab.judge.running import NotServing, running

REQUESTS = 2000
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
        """All of them, per request."""
        return sum(self.per_request.values())


def count(server: str) -> Calls:
    """Count the calls of one client's requests, one after the other."""
    strace = shutil.which("strace")
    if strace is None:
        return Calls({}, "strace is not here (apt install strace)")
    with tempfile.NamedTemporaryFile("r", prefix="connlab-strace-") as table:
        try:
            with running(f"{strace} -f -c -I 2 -o {table.name} {server}") as serving:
                done = _asked(serving.address)
        except NotServing as error:
            return Calls({}, f"not under strace: {error}")
        if not done:
            return Calls({}, "under strace nobody was answered")
        return parse(Path(table.name).read_text(), requests=done)


def parse(text: str, *, requests: int) -> Calls:
    """Return calls per request from the table that ``strace -c`` writes."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 5 or not words[3].isdigit() or words[-1] == "total":
            continue
        if (each := int(words[3]) / requests) * _RARE >= 1:
            found[words[-1]] = round(each, 2)
    if not found:
        return Calls({}, "strace wrote no table")
    return Calls(dict(sorted(found.items(), key=lambda one: -one[1])))


def _asked(address: tuple[str, int]) -> int:
    host, port = address
    words = [*programs.built().client, f"{host}:{port}", "--requests", str(REQUESTS)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_WAIT_S, check=False
        )
        return json.loads(done.stdout)["requests"]["completed"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return 0
