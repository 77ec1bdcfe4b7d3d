"""What a sweep says while it runs.

At a terminal a bar; elsewhere (papermill, a log file, CI) plain lines, few enough to
read. Beside it a heartbeat file that a program can watch.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

_LINE_EVERY_S = 2.0
_LINES = 20


class Show(Protocol):
    """Shows one trial more."""

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
    """Print a line at once, so that it is there when the machine goes off."""
    print(text, flush=True)


@contextlib.contextmanager
def shown(title: str, *, enabled: bool = True) -> Iterator[Show]:
    """Show progress inside the block: nothing, a bar, or lines."""
    if not enabled:
        yield lambda **_facts: None
    elif sys.stderr.isatty() and sys.stdout.isatty():
        with _bar(title) as show:
            yield show
    else:
        yield _lines(title)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Show]:
    from tqdm import tqdm

    with tqdm(desc=title, unit="trial", dynamic_ncols=True, leave=False) as bar:

        def show(*, done: int, planned: int, eta_s: float, note: str) -> None:
            bar.total = planned
            bar.set_postfix_str(f"{note}, {duration_text(eta_s)} left", refresh=False)
            bar.update(done - bar.n)

        yield show


def _lines(title: str) -> Show:
    last = {"at": time.monotonic(), "done": 0}

    def show(*, done: int, planned: int, eta_s: float, note: str) -> None:
        step = max(1, planned // _LINES)
        late = time.monotonic() - last["at"] >= _LINE_EVERY_S
        if done < planned and not (late and done - last["done"] >= step):
            return
        last.update(at=time.monotonic(), done=done)
        say(
            f"{title}: {done}/{planned} trials, {note}, {duration_text(eta_s)} left"
            if done < planned
            else f"{title}: {done}/{planned} trials"
        )

    return show
