"""Does a server recover from more clients than it can hold, once they are gone?

    start -> load it beyond its limit -> clients leave -> a few clients -> stop
      |                                     |                 |
      what it has open                 what it has open     are they answered?

Each trial of a sweep has a server of its own, so a sweep cannot see this.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import flags, machine, procfs, untimed
from connlab.drive.running import Running, running, settled, visit

FILE = "recovery.jsonl"
AGAIN = 5
#: the kernel repeats an answer to a SYN after 1, 2 and 4 s: a client that was in the
#: backlog may be accepted that late, after it has left
_SETTLE_S = 8.0
#: until workers have started and the first clients are gone
_START_S = 0.1


@dataclass(frozen=True)
class Recovery:
    """What one server held during and after too many clients.

    `held` connections survived; `sockets` and `tasks` (threads of all its processes)
    are what it has open more than before the load, once that has settled; `again` of
    `AGAIN` new clients were answered. `error` says why nothing is known.
    """

    model: str
    connections: int
    held: int | None = None
    sockets: int | None = None
    tasks: int | None = None
    settled_s: float | None = None
    again: int | None = None
    error: str = ""

    @property
    def recovered(self) -> bool:
        """Everything is closed, and new clients are served."""
        clean = self.sockets == 0 and (self.tasks or 0) <= 0
        return not self.error and clean and self.again == AGAIN


def run(model: str, *, connections: int, duration: float = 0.5) -> Recovery:
    """Load a server with so many connections for `duration` seconds; see what stays.

    There should be more connections than it can hold.
    """
    few = {"connections": AGAIN, "requests": 1}  # each asks once: nobody waits
    crowd = {"connections": connections, "duration": duration, "warmup": 0}
    try:
        with running(model, grace_s=0) as server:
            _client(server, few)
            time.sleep(_START_S)
            before = _open(server.handle)
            load = _client(server, crowd)
            start = time.monotonic()
            after = settled(
                lambda: _open(server.handle), expected=before, seconds=_SETTLE_S
            )
            settled_s = time.monotonic() - start
            again = _client(server, few)
    except RuntimeError as error:
        return Recovery(model, connections, error=str(error))
    return Recovery(
        model,
        connections,
        held=load["connections"]["surviving"],
        sockets=max(0, after[0] - before[0]),
        tasks=after[1] - before[1],
        settled_s=round(settled_s, 2),
        again=again["requests"]["completed"],
    )


def try_all(
    crowds: Mapping[str, int], folder: Path, *, measure: bool = True
) -> list[dict[str, Any]]:
    """Load each model with so many connections, unless the folder holds that already.

    With ``measure=False`` none is. Each `Recovery` becomes a line of
    ``folder/recovery.jsonl``; the newest of each model is returned.
    """
    if measure:
        loads = [{"model": model, "connections": n} for model, n in crowds.items()]
        untimed.measure(folder / FILE, loads, _line)
    newest = {row["model"]: row for row in schema.read_log(folder / FILE).trials}
    return [newest[model] for model in crowds if model in newest]


def _line(model: schema.Model, load: Mapping[str, Any]) -> dict[str, Any]:
    seen = run(model.name, connections=load["connections"])
    return asdict(seen) | {"recovered": seen.recovered, "failure": seen.error or None}


def _client(server: Running, factors: Mapping) -> dict:
    factors = flags.completed(
        {"connect_timeout": 1, "timeout": 5, **factors},
        descriptors=machine.limits()["descriptors"]["hard"],
    )
    return visit(server, factors)[0]


def _open(pid: int) -> tuple[int, int]:
    """Return the sockets and the threads of a process and those below it."""
    pids = procfs.descendants(pid)
    return procfs.sockets(pids), procfs.tasks(pids)
