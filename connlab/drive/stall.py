"""A stall: the server stands still for a while, in the middle of the window.

    client started ... warm-up ... | half a window | stop .. go on | the rest |

The factor ``stall`` says for how many milliseconds. All of the server's processes get
SIGSTOP and then SIGCONT, so the kernel goes on taking bytes for it while no program
answers: what a garbage collector, a page fault or a noisy neighbour does, at a known
time and for a known length. When it began and how long it took in fact is kept with
the trial (``server.stall``).
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from connlab import schema
from connlab.drive.host import Host, HostLost

#: between two questions whether it is known when the load begins
_SOON_S = 0.01


class Watched:
    """What became of a stall; `seen` is None until it is over, or if it never came."""

    seen: schema.Stall | None = None


@contextlib.contextmanager
def during(
    factors: Mapping[str, Any],
    host: Host,
    server: int,
    *,
    started_at_s: float,
    begins_s: Callable[[], float | None] | None = None,
) -> Iterator[Watched]:
    """Stall the server once while the body runs, if the factors say so.

    On leaving, the server is going again, whatever has happened. `server` is its handle
    on `host`; the factors are ``stall`` in ms (nothing, or 0: no stall), ``warmup`` and
    ``duration`` in s. `started_at_s` is when the client was started and `begins_s`
    returns when its load begins (by default then), None as long as that is not known;
    both by the driver's monotonic clock. The time to connect is not considered: the
    stall is in the middle of the window as far as that was short.
    """
    watched = Watched()
    length_s = (factors.get("stall") or 0) / 1000
    if length_s <= 0:
        yield watched
        return
    wait_s = begin_s(factors)
    begins = begins_s or (lambda: started_at_s)
    leaving = threading.Event()

    def stall() -> None:
        while (load_at_s := begins()) is None:
            if leaving.wait(_SOON_S):
                return
        if leaving.wait(max(0.0, load_at_s + wait_s - time.monotonic())):
            return
        with contextlib.suppress(HostLost):  # whoever attends to the trial sees it too
            try:
                host.pause(server)
                start = time.monotonic()  # another host takes time to be told
                leaving.wait(length_s)
            finally:
                host.resume(server)
            seconds = time.monotonic() - start
            watched.seen = schema.Stall(from_s=start - started_at_s, seconds=seconds)

    thread = threading.Thread(target=stall, name="stall", daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        leaving.set()
        thread.join()


def begin_s(factors: Mapping[str, Any]) -> float:
    """Return how long after the client's start a stall in the middle begins."""
    half = (factors["duration"] - factors["stall"] / 1000) / 2
    return factors.get("warmup", 0) + max(0.0, half)
