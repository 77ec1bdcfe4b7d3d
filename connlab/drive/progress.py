"""What a sweep prints before it starts, while it runs and after it ended.

While it runs: at a terminal a bar; elsewhere (papermill, a log file, CI) plain lines,
few enough to read.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_LINE_EVERY_S = 2.0
_LINES = 20

Show = Callable[..., None]
"""Shows the progress after each trial: `done`, `planned`, `eta_s` and a `note`."""


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


@dataclass(frozen=True)
class Estimate:
    """What a sweep will cost.

    `trials` and `seconds` are left to do at least, if every cell stops as early as it
    may, and `trials_max` and `seconds_max` if every cell needs all that it may have.
    The grid has so many `cells`; `resumed` trials are on disk already.
    """

    trials: int
    seconds: float
    trials_max: int
    seconds_max: float
    cells: int
    resumed: int

    def __str__(self) -> str:
        count = _counted(self.trials, "trial")
        if self.trials_max > self.trials:
            count = f"{self.trials} to {self.trials_max} trials"
        duration = duration_text(self.seconds)
        if self.seconds_max > self.seconds * 1.01:
            duration += f" to {duration_text(self.seconds_max)}"
        there = "is" if self.resumed == 1 else "are"
        resumed = f", {self.resumed} {there} there already" if self.resumed else ""
        cells = _counted(self.cells, "cell")
        return f"{cells}, {count} to do, about {duration}{resumed}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True)
class SweepReport:
    """What a sweep did; its trials are in ``runs/RUN/STUDY/trials.jsonl``.

    It wanted `planned` trials in the end; `done` were measured now, `resumed` found on
    disk. Of both, `failed` have a failure (`unavailable`: their model cannot run here),
    and `flagged` have none but did not pass a gate. It took `seconds` of wall time; the
    part `window_share` lay inside measurement windows, None if nothing was measured.
    `complete`: it ended by its own rule. `reached` says how wide intervals are, per
    target metric; `remarks` are what a reader of the data must know. Where the budget
    ended it, `budget_s` is what would let it go on for as long again.
    """

    run: str
    study: str
    planned: int
    done: int
    resumed: int
    failed: int
    flagged: int
    seconds: float
    window_share: float | None
    stopped_because: str
    complete: bool = True
    reached: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    unavailable: int = 0
    budget_s: float | None = None

    def __str__(self) -> str:
        counts = [f"{_counted(self.done, 'trial')} measured"]
        for count, text in (
            (self.resumed, "were there already"),
            (self.unavailable, "of servers that are not available here"),
            (self.failed - self.unavailable, "failed"),
            (self.flagged, "did not pass a gate"),
        ):
            if count:
                counts.append(f"{count} {text}")
        took = f"took {duration_text(self.seconds)}"
        if self.window_share is not None:
            took += f", {self.window_share:.0%} of it inside measurement windows"
        lines = [
            f"{self.run}/{self.study}: {', '.join(counts)}",
            f"  {took}",
            f"  stopped: {self.stopped_because}",
            *([f"  to go on: -p budget {self.budget_s:.0f}s"] if self.budget_s else []),
            *(f"  {reached}" for reached in self.reached),
            *(f"  note: {remark}" for remark in self.remarks),
        ]
        return "\n".join(lines)

    __repr__ = __str__
