"""What a delay does to a burst: its mean and its spread, each for itself.

    bursts under each delay -> throughput against that under small delays -> ratios
                            -> beside the ratio that the means alone would give

The report moves both at once from its small delays to its large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from connlab.study import figures
from connlab.study.cells import Compared, compare_cells, ratio_frame
from connlab.study.drawing import Picture
from connlab.study.formatting import phrase, plain
from connlab.study.pools_plan import (
    CAP,
    DELAYS,
    IN_WORDS,
    STUDY,
    THREAD,
    Plan,
    burst,
    pool_of,
)
from connlab.study.pools_published import published_move, scaled, styles
from connlab.study.results import Results


@dataclass(frozen=True)
class Moved:
    """A delay against the small one, for one server."""

    server: str
    delay: str
    found: Compared
    expected: float
    """Ratio that the means alone would give."""


def moved(frame: pd.DataFrame, plan: Plan) -> list[Moved]:
    """Compare the throughput under each delay with that under the small one."""
    found = []
    for server, n in ((THREAD, plan.many), (pool_of(CAP), plan.few)):
        rows = frame[(frame["server"] == server) & (frame["connections"] == n)]
        names = [name for name in DELAYS if name in ("small", *plan.delays)]
        parts = [burst(rows, plan, delay=name).assign(dist=name) for name in names]
        every = compare_cells(
            pd.concat(parts), "throughput_rps", baseline="small", within=[], by="dist"
        )
        for one in sorted(every, key=lambda c: names.index(c.arm)):
            expected = DELAYS["small"][0] / DELAYS[one.arm][0]
            found.append(Moved(server, one.arm, one, expected))
    return found


def delays(results: Results, frame: pd.DataFrame, plan: Plan) -> Picture | None:
    """Draw what each delay does to the throughput, published and found."""
    found = moved(frame, plan)
    if not found:
        return None
    rows, labels = ratio_frame([m.found for m in found]), []
    rows["arm"] = [m.server for m in found]
    labels = [f"{m.server}: {m.delay}, {IN_WORDS[m.delay]}" for m in found]
    for server, name in ((THREAD, THREAD), ("pool", "“pool of 512”")):
        c = published_move(server)
        row = {"arm": f"published {server}", "value": c.ratio.value, "lo": c.ratio.lo}
        more = {"hi": c.ratio.hi, "n": c.ratio.n, "word": c.word}
        rows = pd.concat([rows, pd.DataFrame([row | more])], ignore_index=True)
        labels.append(f"published, {name}: large")
    picture = figures.forest(
        rows,
        labels=labels,
        x_label="throughput / that with small delays",
        styles=styles(plan),
    )
    return results.figure(
        f"{STUDY}-delays",
        picture,
        caption="What a delay does to the throughput of a burst, against small delays "
        f"({IN_WORDS['small']}): ratios with 95 % intervals. {scaled(plan)} Large "
        "delays have another mean and another spread at once.",
    )


def spread(found: Sequence[Moved]) -> str:
    """Say what mean and spread do each for itself."""
    said = []
    for one in found:
        times = phrase(one.found.comparison.ratio, "{} times the throughput")
        expected = plain(one.expected, digits=2)
        server = "a thread per request" if one.server == THREAD else f"a {one.server}"
        said.append(
            f"{one.delay} delays ({IN_WORDS[one.delay]}) give {server} {times}, where "
            f"the mean alone would give {expected}"
        )
    if not said:
        return "Only one distribution of delays was measured."
    return (
        f"Against small delays, {'; '.join(said)}. In a burst the spread counts as far "
        "as the last answer is waited for; workers that never rest do not feel it."
    )
