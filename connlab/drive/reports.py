"""What a sweep prints before it starts and after it ended."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from connlab.drive.progress import duration_text


@dataclass(frozen=True)
class Estimate:
    """What a sweep will cost.

    Attributes
    ----------
    trials, seconds : int, float
        What is left to do at least, if every cell stops as early as it may.
    trials_max, seconds_max : int, float
        The same if every cell needs all the trials that it may have.
    cells, resumed : int
        Cells of the grid; trials that are on disk already.
    """

    trials: int
    seconds: float
    trials_max: int
    seconds_max: float
    cells: int
    resumed: int

    def __str__(self) -> str:
        count = str(self.trials)
        if self.trials_max > self.trials:
            count += f" to {self.trials_max}"
        duration = duration_text(self.seconds)
        if self.seconds_max > self.seconds * 1.01:
            duration += f" to {duration_text(self.seconds_max)}"
        resumed = f", {self.resumed} are there already" if self.resumed else ""
        cells = "1 cell" if self.cells == 1 else f"{self.cells} cells"
        return f"{cells}, {count} trials to do, about {duration}{resumed}"


@dataclass(frozen=True)
class Reached:
    """The widest interval of one target metric, over all cells.

    `half_width` is relative, of a `ratio` to the baseline or of the metric itself;
    `factors` are those of the cell, as far as they vary.
    """

    metric: str
    target: float
    half_width: float
    n: int
    factors: dict[str, Any]
    cells_met: int
    cells: int
    ratio: bool = False

    def __str__(self) -> str:
        cell = ", ".join(f"{name} {value}" for name, value in self.factors.items())
        metric = f"ratio of {self.metric}" if self.ratio else self.metric
        return (
            f"{metric}: ±{self.half_width:.1%} at the widest ({cell}; n {self.n}),"
            f" target ±{100 * self.target:.3g}% met in {self.cells_met}"
            f" of {self.cells} cells"
        )


@dataclass(frozen=True)
class SweepReport:
    """What a sweep did.

    Attributes
    ----------
    run, study : str
        Where the trials are: ``runs/RUN/STUDY/trials.jsonl``.
    planned : int
        Trials that the sweep wanted in the end.
    done, resumed : int
        Trials measured now, and found on disk.
    failed, flagged : int
        Trials, of both, with a failure; without one but with a gate not passed.
    seconds : float
        Wall time of the sweep.
    window_share : float or None
        Part of it that lay inside measurement windows; None if nothing was measured.
    stopped_because : str
        Why it ended.
    complete : bool
        Whether it ended by its own rule.
    reached : tuple of Reached
        How wide intervals are, per target metric; empty without targets.
    remarks : tuple of str
        What a reader of the data must know.
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
    reached: tuple[Reached, ...] = ()
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = [f"{self.done} trials measured"]
        for count, text in (
            (self.resumed, "were there already"),
            (self.failed, "failed"),
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
            *(f"  {reached}" for reached in self.reached),
            *(f"  note: {remark}" for remark in self.remarks),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = [html.escape(line) for line in str(self).splitlines()]
        return "<p>" + "<br>".join(lines) + "</p>"
