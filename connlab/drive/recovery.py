"""Does a server recover from more clients than it can hold, once they are gone?

    start -> load it beyond its limit -> clients leave -> a few clients -> stop
      |                                     |                 |
      what it has open                 what it has open     are they answered?

Each trial of a sweep has a server of its own, so a sweep cannot see this.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from connlab.drive import flags, machine, recorded, store
from connlab.drive.programs import Programs, built

FILE = "recovery.jsonl"
AGAIN = 5
_SETTLE_S = 3.0
#: until workers have started and the first clients are gone
_START_S = 0.1
_WAIT_S = 60


@dataclass(frozen=True)
class Recovery:
    """What one server had before, during and after too many clients.

    `sockets` and `tasks` (threads of all its processes) are what it has open more
    than before the load, once things have settled; `again` of `AGAIN` new clients
    were answered. `error` says why there is no answer.
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


def run(
    model: str,
    *,
    connections: int,
    duration: float = 0.5,
    programs: Programs | None = None,
) -> Recovery:
    """Load a server with so many connections, let them go, and look.

    Parameters
    ----------
    model : str
        Name from ``server --list``.
    connections : int
        How many come at once; more than it can hold, for this to be a question.
    duration : float
        Seconds that they stay.
    """
    programs = programs or built()
    server = subprocess.Popen(
        [*programs.server, model],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        ready = json.loads(server.stdout.readline())
        return _seen(programs, model, server.pid, ready["port"], connections, duration)
    except (subprocess.SubprocessError, ValueError, OSError) as error:
        return Recovery(model, connections, error=f"{type(error).__name__}: {error}")
    finally:
        server.kill()
        server.communicate()


def try_all(crowds: Mapping[str, int], folder: Path) -> list[Recovery]:
    """Load each model with so many connections; keep what was seen in a folder.

    While a run is evaluated again, return what that folder holds of these models.
    """
    if recorded.folder():
        return [one for one in read(folder) if one.model in crowds]
    found = [run(model, connections=crowd) for model, crowd in crowds.items()]
    keep(found, folder)
    return found


def read(folder: Path) -> list[Recovery]:
    """Return what `keep` wrote into a folder; nothing where there is no such file."""
    names = {field.name for field in fields(Recovery)}
    rows = store.read(folder / FILE).trials
    return [Recovery(**{k: v for k, v in row.items() if k in names}) for row in rows]


def keep(found: Iterable[Recovery], folder: Path) -> Path:
    """Write ``folder/recovery.jsonl``, a line per model; return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    rows = [asdict(one) | {"recovered": one.recovered} for one in found]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _seen(programs, model, pid, port, connections, duration) -> Recovery:
    _client(programs, port, AGAIN, 0.2, one_by_one=True)
    time.sleep(_START_S)
    before = _open(pid)
    load = _client(programs, port, connections, duration)
    began = time.monotonic()
    after = _settled(pid, before)
    settled_s = time.monotonic() - began
    again = _client(programs, port, AGAIN, 0.2, one_by_one=True)
    return Recovery(
        model,
        connections,
        held=load["connections"]["surviving"],
        sockets=max(0, after[0] - before[0]),
        tasks=after[1] - before[1],
        settled_s=round(settled_s, 2),
        again=again["requests"]["completed"],
    )


def _client(programs, port, connections, duration, *, one_by_one=False) -> dict:
    """Run a client; one by one: each user asks once and leaves, so nobody waits."""
    hard = machine.limits()["descriptors"]["hard"]
    told = {"connections": connections, "connect_timeout": 1, "timeout": 5}
    told |= {"requests": 1} if one_by_one else {"duration": duration, "warmup": 0}
    told = flags.with_enough_processes(told, descriptors=hard)
    words = flags.client_flags(told, seed=1)
    done = subprocess.run(
        [*programs.client, f"127.0.0.1:{port}", *words],
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=True,
    )
    return json.loads(done.stdout)


def _settled(pid: int, before: tuple[int, int]) -> tuple[int, int]:
    """Return what is open once it is as before, or after a while as it is."""
    until = time.monotonic() + _SETTLE_S
    while (now := _open(pid)) != before and time.monotonic() < until:
        time.sleep(0.02)
    return now


def _open(pid: int) -> tuple[int, int]:
    """Return the sockets and the threads of a process and those below it."""
    sockets = tasks = 0
    for each in _family(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            tasks += len(list(Path(f"/proc/{each}/task").iterdir()))
            for link in Path(f"/proc/{each}/fd").iterdir():
                with suppress(FileNotFoundError):
                    sockets += link.readlink().name.startswith("socket:")
    return sockets, tasks


def _family(pid: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [pid, *(p for child in text.split() for p in _family(int(child)))]
    return [pid]
