"""What a sweep prints before it starts and after it ended."""

from dataclasses import dataclass

from connlab.drive.progress import duration_text


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
            *([f"  to go on: -p budget {self.budget_s:g}s"] if self.budget_s else []),
            *(f"  {reached}" for reached in self.reached),
            *(f"  note: {remark}" for remark in self.remarks),
        ]
        return "\n".join(lines)

    __repr__ = __str__
