"""A request to stop, noted at once and obeyed at a safe place.

Python raises KeyboardInterrupt between any two bytecodes, also between the start of a
process and the line that keeps its id; such a process would be left behind. So a
sweep only notes the signal here. Everything that waits does so in short slices and
calls `requested` between them.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_caught: list[int] = []


def requested() -> int | None:
    """Return the first signal that has asked this process to stop, None for none."""
    return _caught[0] if _caught else None


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Note SIGINT, SIGTERM and SIGHUP inside the block instead of dying of them.

    What was noted is forgotten at its end. Only the main thread may change handlers;
    elsewhere the block changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _caught.clear()
    before = {
        number: signal.signal(number, lambda n, _frame: _caught.append(n))
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _caught.clear()
