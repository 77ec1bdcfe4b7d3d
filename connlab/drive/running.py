"""A server for as long as a block of code runs, and clients that come to it once."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connlab.drive import flags, interrupt, procfs, programs, servers, trials
from connlab.drive.cores import Cores
from connlab.drive.host import Ended, LocalHost, ProgramError

#: a server that is judged and has more processes is ended
PROCESSES_MOST = 4000
#: seconds until a server listens: ``build/external`` gives it 9, then 2 to end, and
#: says where it should have listened once it has ended
READY_S = trials.READY_S + 3
#: seconds between looks where a server listens that is not ready
_LOOK_S = 1.0


class NotServing(ProgramError):
    """A server that never listened; the text says how it ended and what it printed.

    `elsewhere` is where it listened meanwhile, by the last look.
    """

    def __init__(self, text: str, elsewhere: Sequence[procfs.Listener] = ()) -> None:
        super().__init__(text)
        self.elsewhere = list(elsewhere)


@dataclass
class Running:
    """A server that listens; `ended` is known once the block is left."""

    host: LocalHost
    handle: int
    ready: dict[str, Any]
    ended: Ended | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self.ready["host"], self.ready["port"]

    def held(self) -> dict[str, Any]:
        """Return what all processes of the server hold; nothing where it is not known.

        Without those that started it: the server's are the descendants of the program
        that was started, as a daemon's first process is gone.
        """
        processes, launchers, weights = self._processes()
        if processes is None:
            return {}
        return {
            "pss_bytes": procfs.pss_bytes(weights),
            "threads": processes.threads - launchers,
            "processes": processes.processes - launchers,
            "descriptors": procfs.descriptors(self.handle),
        }

    def anonymous_bytes(self) -> int | None:
        """Return the memory of all processes that is of no file: heaps and stacks."""
        processes, _launchers, weights = self._processes()
        return procfs.pss_bytes(weights, field="Pss_Anon") if processes else None

    def _processes(self) -> tuple[procfs.Processes | None, int, tuple]:
        """Return all processes, how many only started the server, and the others."""
        processes = procfs.processes(self.handle)
        launchers = {self.handle, *procfs.children(self.handle)}
        weights = processes.weights if processes else ()
        others = tuple(row for row in weights if row[0] not in launchers)
        return processes, len(launchers), others

    def programs(self) -> list[Path]:
        """Return the files that its processes run, also those behind a shell."""
        found = []
        for pid in procfs.descendants(self.handle):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/exe").readlink())
        return list(dict.fromkeys(found))

    def wait_for_its_end(self) -> None:
        """Give a server that answers no longer a moment to end by itself.

        Its port closes a little before those that started it have reported its end;
        asked to end in between, it would not count as one that `died`.
        """
        settled(
            lambda: self.host.sample(self.handle, machine=False).gone, expected=True
        )

    def died(self) -> str | None:
        """Return how it ended and what it printed, if nobody had asked it to."""
        return trials.died(self.ended)


def _ready(process: Running, ready_s: float) -> dict[str, Any]:
    """Wait for the first line of a server; raise `NotServing` where there is none."""
    host, handle, elsewhere = process.host, process.handle, []
    until = time.monotonic() + ready_s
    try:
        while (left_s := until - time.monotonic()) > 0 and not interrupt.requested():
            if ready := trials.ready_line(host, handle, min(left_s, _LOOK_S)):
                return ready
            elsewhere = procfs.listeners(procfs.descendants(handle)) or elsewhere
    except ProgramError as error:
        raise NotServing(str(error), elsewhere) from None
    raise NotServing(f"not ready after {ready_s:g} s", elsewhere)


@contextlib.contextmanager
def running(
    server: str,
    *,
    cores: Sequence[int] = (),
    both: programs.Programs | None = None,
    under: Sequence[str] = (),
    files: Sequence[str] = (),
    ready_s: float = READY_S,
    grace_s: float = trials.GRACE_S,
    **factors: Any,
) -> Iterator[Running]:
    """Start a server, wait until it listens, end it with all that it started.

    `server` is a model, an entry of ``servers.toml`` or a command line with ``{port}``;
    `factors` are its settings by the names of `connlab.drive.flags.FLAGS`. `under` are
    the words of a tracer that runs it, such as valgrind; then SIGTERM goes to the
    server, so that the tracer ends by itself. `files` are flags of the server that take
    a file; `Running.ended` has what it wrote there. After `grace_s` it is killed.
    Raises `NotServing` when it does not come up within `ready_s`.
    """
    both = both or programs.built()
    host, process = LocalHost(), None
    try:
        try:
            words = servers.argv(both, {"model": server, **factors})
            if (entry := servers.entry_of(server)) and not entry.contract:
                words[1:1] = ["--processes", str(PROCESSES_MOST)]  # of build/external
            # a tracer does not see to it by itself that it dies with us
            handle = host.start(
                [*under, *words], cores=cores, files=files, bound=bool(under)
            )
        except ProgramError as error:
            raise NotServing(str(error)) from None
        process = Running(host, handle, {})
        process.ready = _ready(process, ready_s)
        yield process
    finally:
        if process is not None:
            if under and process.ready:
                host.ask_to_end(process.handle, pid=process.ready.get("pid"))
            process.ended = host.stop(process.handle, grace_s=grace_s)
        host.close()


def start_client(
    server: Running,
    asks: Mapping[str, Any],
    *,
    under: Sequence[str] = (),
    sets: Cores | None = None,
    files: Sequence[str] = (),
) -> int:
    """Start a client of a server; return its handle on the server's host.

    It waits as in a trial on these cores; without them it may use all, and sleeps.
    """
    name, port = server.address
    words = [*under, *programs.built().client, f"{name}:{port}"]
    words += flags.client_flags(asks, seed=1, sets=sets)
    cores = sets.client if sets else ()
    return server.host.start(words, cores=cores, files=files)


def visit(
    server: Running,
    asks: Mapping[str, Any],
    *,
    under: Sequence[str] = (),
    sets: Cores | None = None,
    files: Sequence[str] = (),
    timeout_s: float = 60.0,
) -> tuple[dict[str, Any], Ended]:
    """Run a client against a server to its end; return its report, and how it ended.

    `asks` are its settings by the names of `connlab.drive.flags.FLAGS`, `sets` the
    cores as for `start_client`; the others are as for `running`. Raises `ProgramError`
    with what it printed when it fails, or takes longer than `timeout_s`.
    """
    host, report = server.host, None
    client = start_client(server, asks, under=under, sets=sets, files=files)
    try:
        report = host.ready(client, timeout_s=timeout_s)
    finally:
        ended = host.stop(client, grace_s=0, wait_s=timeout_s if report else 0)
    if report is None:
        raise ProgramError(f"the client did not end within {timeout_s:g} s")
    if ended.exit:
        raise ProgramError(trials.ending(ended))
    return report, ended


def settled(
    measure: Callable[[], Any], *, expected: Any = 0, seconds: float = 2.0
) -> Any:
    """Return what is measured: `expected` at once, any other value after `seconds`."""
    deadline = time.monotonic() + seconds
    while (value := measure()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    return value
