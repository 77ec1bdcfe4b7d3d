"""What a sweep prints while it runs.

At a terminal a bar; elsewhere (papermill, a log file, CI) plain lines, few enough to
read. Beside it a heartbeat file that a program can watch.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

_LINE_EVERY_S = 2.0
_LINES = 20


class Show(Protocol):
    """A function that shows the progress after each trial."""

    def __call__(self, *, done: int, planned: int, eta_s: float, note: str) -> None: ...


def duration_text(seconds: float) -> str:
    """Return seconds as people say them: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s" if seconds >= 10 or seconds == whole else f"{seconds:.1f} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def say(text: str) -> None:
    """Print a line unbuffered, so that it is not lost when the machine fails."""
    print(text, flush=True)


@contextlib.contextmanager
def display(title: str, *, enabled: bool = True) -> Iterator[Show]:
    """Show progress inside the block: nothing, a bar, or lines."""
    if not enabled:
        yield lambda **_facts: None
    elif sys.stderr.isatty() and sys.stdout.isatty():
        from tqdm import tqdm

        with tqdm(desc=title, unit="trial", dynamic_ncols=True, leave=False) as bar:

            def show(*, done: int, planned: int, eta_s: float, note: str) -> None:
                bar.total = planned
                note = f"{note}, {duration_text(eta_s)} left"
                bar.set_postfix_str(note, refresh=False)
                bar.update(done - bar.n)

            yield show
    else:
        yield _lines(title)


def _lines(title: str) -> Show:
    last_s, last_done = time.monotonic(), 0

    def show(*, done: int, planned: int, eta_s: float, note: str) -> None:
        nonlocal last_s, last_done
        text = f"{title}: {done}/{planned} trials"
        if done < planned:
            step = max(1, planned // _LINES)
            if time.monotonic() - last_s < _LINE_EVERY_S or done - last_done < step:
                return
            text += f", {note}, {duration_text(eta_s)} left"
        last_s, last_done = time.monotonic(), done
        say(text)

    return show
