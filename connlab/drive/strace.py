"""System calls of a request, counted by a tracer (strace), of servers not timed."""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence

from connlab import schema
from connlab.drive import untimed

CALLS_CONNECTIONS = 20
#: requests per connection of two runs, whose difference is what requests call
CALLS_REQUESTS = (40, 240)
#: calls rarer than this per request are left out
CALLS_RARE = 0.005
#: whose numbers have the decimal comma of some locales
_STRACE_ROW = re.compile(
    r"^\s*[\d.,]+\s+[\d.,]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z]\w*)\s*$"
)


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
