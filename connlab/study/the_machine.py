"""Study 00: can this machine's numbers be trusted?

    rounds of the floor -> what the machine's own calls cost -> floors
    trials A and A      -> the ratio of a server to itself   -> a control
                        -> the client's ceiling, noise, drift
    trials with a delay -> the delay, found again            -> a control
    both controls       -> the answer in one sentence        -> results.json

Nothing here compares two servers. What is found bounds what every other study of the
run may say: floors and ceilings are drawn into their figures, and a difference smaller
than the one between a server and itself is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from connlab.schema import CLIENT_QUEUE, CORES_APART
from connlab.study import budget, calibration, figures, look, repeating
from connlab.study.calibration import Control
from connlab.study.cells import Compared, compare_cells, compare_trials, ratio_frame
from connlab.study.drawing import Picture, sentence
from connlab.study.formatting import (
    aside,
    counted,
    in_best_unit,
    listing,
    number_text,
    phrase,
    plain,
)
from connlab.study.frames import but_for_client, cells, usable
from connlab.study.interval import Interval
from connlab.study.metrics import metric as metric_of
from connlab.study.results import Results, start
from connlab.study.tables import Column, Table

STUDY = calibration.STUDY
NUMBER = 0
QUESTION = "Can this machine's numbers be trusted?"
FACTORS = ("arm",)
TWINS = ("A", "B")
"""Two names of the same program: the A/A control."""
DEARER = "dearer"
"""Arm of the twins' sibling, each of whose requests costs a known time more."""
TOGETHER = "on one core"
"""Arm A once more, but server and client share one core."""
PUSHED = "pushed"
"""The client against a server that should be faster than it: its ceiling."""
ONCE, TWICE = "delayed", "delayed twice"
"""The same work with a known delay, and with two of it: the positive control. What an
answer takes besides is in both, so that their difference is the delay alone. The server
spins: a sleep would end later the longer it is (epoll_wait(2) allows itself a
thousandth, and a core that idles longer wakes up later), so it is not known."""

COST = "server_cpu_per_request_s"
AA_METRICS = (
    "throughput_rps",
    "response_mean_s",
    "response_p99_s",
    COST,
)
_SHORT = {q.name: q for q in calibration.QUANTITIES}
_HARD_RATE = 0.05


def fastest(models: Sequence[Any]) -> str:
    """Return the server that costs least per request: io_uring, where there is one."""
    there = [m.name for m in models if m.available]
    return "uring" if "uring" in there else "epoll"


def grids(
    *,
    model: str,
    fast: str,
    connections: int,
    crowd: int,
    known_ms: float,
    extra_ns: int,
) -> list[dict[str, list[Any]]]:
    """Return the grids of the sweep: two twins, one core, the ceiling, known delays.

    Parameters
    ----------
    model : str
        Server of all arms but one.
    fast : str
        Server that shows the client's ceiling.
    connections : int
        Clients of the twins.
    crowd : int
        Clients of the fast server.
    known_ms : float
        The delay of one client's work, in milliseconds.
    extra_ns : int
        CPU time that a request costs the twins' dearer sibling besides.
    """
    twin = {"model": [model], "connections": [connections]}
    work = {
        "model": [model],
        "workload": ["work"],
        "delay_kind": ["spin"],
        "connections": [1],
    }
    return [
        {"arm": list(TWINS), **twin},
        {"arm": [DEARER], **twin, "extra_ns": [extra_ns]},
        {"arm": [TOGETHER], **twin, "together": [True]},
        {"arm": [PUSHED], "model": [fast], "connections": [crowd]},
        {"arm": [ONCE], **work, "delay": [f"fixed:{known_ms:g}"]},
        {"arm": [TWICE], **work, "delay": [f"fixed:{2 * known_ms:g}"]},
    ]


def begin(frame: pd.DataFrame, *, root: str | Path = "runs") -> Results:
    """Begin the results: what was varied, counted, left out."""
    return start(frame, number=NUMBER, question=QUESTION, factors=FACTORS, root=root)


# ---- floors and the ceiling ---------------------------------------------------


def bounds(results: Results, frame: pd.DataFrame, measured: pd.DataFrame) -> dict:
    """Keep floors and the client's ceiling, as values and as lines for all figures.

    Parameters
    ----------
    results : Results
    frame : DataFrame
        The trials, for the ceiling.
    measured : DataFrame
        As from `connlab.study.calibration.load_floors`.

    Returns
    -------
    dict of str to Interval
        By the quantity's name; ``ceiling`` when a trial allows it.
    """
    found = calibration.floor_intervals(measured)
    for name, interval in found.items():
        results.value(name, interval, _SHORT[name].unit)
    ceiling = client_ceiling(frame)
    if ceiling is not None:
        results.value("ceiling", ceiling, "requests/s")
    results.lines = calibration.lines_of(found, ceiling=ceiling)
    return found | ({"ceiling": ceiling} if ceiling is not None else {})


def client_ceiling(frame: pd.DataFrame) -> Interval | None:
    """Return what the client could send at most; None without a usable trial."""
    mine = _arms(frame, [PUSHED])
    if calibration.pushed(mine).empty:
        return None
    return calibration.client_ceiling(mine)


def costs(results: Results, found: Mapping[str, Interval]) -> Picture | None:
    """Draw what the machine's calls cost; None when no floor was measured."""
    times = {n: i for n, i in found.items() if n in _SHORT and _SHORT[n].unit == "s"}
    if not times:
        return None
    labels = {name: _SHORT[name].label for name in times}
    return results.figure(
        STUDY,
        figures.costs(times, labels),
        caption="What the machine's own calls cost, with 95 % intervals over rounds, "
        "each a fresh process. No server here can be faster than the calls that it "
        "has to make.",
    )


def table(results: Results, found: Mapping[str, Interval]) -> Table:
    """Tabulate every bound."""
    rows = []
    for name, interval in found.items():
        label, unit = "the client's ceiling", "requests/s"
        if name in _SHORT:
            label, unit = _SHORT[name].label, _SHORT[name].unit
        text = number_text(*in_best_unit(interval, unit))
        rows.append((label, text, str(interval.n), interval.method))
    heads = (
        Column("bound", "bound"),
        Column("value", "value with interval"),
        Column("n", "n"),
        Column("method", "interval"),
    )
    return results.table(
        STUDY,
        Table(heads, tuple(rows)),
        caption="Bounds of this machine: what its calls cost at least, what a busy "
        "core costs another, and what the client sends at most (its throughput over "
        "its share of a core).",
    )


def floor_said(found: Mapping[str, Interval]) -> str:
    """Say the floor in one sentence."""
    wanted = {
        "floor_cpu": "one recv and one send take {} of CPU time",
        "round_trip": "a message there and back takes {}",
        "switch": "handing over to another thread takes {}",
        "thread": "making a thread and seeing it end takes {}",
        "process": "the same for a process takes {}",
    }
    said = [
        _in_words(found[name], "s", text)
        for name, text in wanted.items()
        if name in found
    ]
    if not said:
        return "The floor was not measured."
    return f"{sentence(listing(said))}."


def _in_words(interval: Interval, unit: str, words: str) -> str:
    """Put an interval in the base unit `unit` into words, as `phrase` does."""
    interval, shown = in_best_unit(interval, unit)
    return phrase(interval, words, unit=shown)


def neighbour_said(found: Mapping[str, Interval]) -> str:
    """Say whether what one core does slows the other."""
    beside = found.get("neighbour")
    if beside is None:
        return "What a busy core costs another was not measured."
    told = "While the client's core is busy, a computation on the server's takes {}"
    text = phrase(beside, told)
    means = {
        True: "the cores are two",
        False: "they share what they work with, so that costs of a server hold what "
        "the client did meanwhile",
        None: "whether the cores are two is undetermined",
    }[two_cores(beside)]
    return f"{text} times as long as alone: {means}."


def two_cores(beside: Interval) -> bool | None:
    """Return whether a busy core leaves another as it is; None if undetermined."""
    if not beside.determined or beside.lo <= CORES_APART < beside.hi:
        return None
    return bool(beside.hi <= CORES_APART)


def apart(results: Results, frame: pd.DataFrame) -> Interval | None:
    """Return what a request costs with a core each, over what it costs on one core.

    CPU time of the server; None with too few trials. Kept as the value ``apart``.
    """
    good = usable(frame, COST)
    own, shared = (_arms(good, [name]) for name in (TWINS[0], TOGETHER))
    if min(len(own), len(shared)) < 2:
        return None
    found = compare_trials(own, shared, COST).ratio
    results.value("apart", found, "1")
    return found


def apart_said(found: Interval | None) -> str:
    """Say what it costs a server that its client has another core."""
    if found is None:
        return "What it costs that server and client have a core each was not measured."
    told = "With a core of its own, a server spends {} times the CPU time on a request"
    text = f"{phrase(found, told)} that it spends on the core of its client"
    if not found.determined or found.contains(1):
        return f"{text}: no difference is shown."
    if found.value < 1:
        return f"{text}: there they get in each other's way."
    return (
        f"{text}: what both touch travels between the caches of two cores. That is in "
        "the costs of every model of this run."
    )


def ceiling_said(frame: pd.DataFrame) -> str:
    """Say what the client can send, and whether it was what held the server up."""
    ceiling = client_ceiling(frame)
    if ceiling is None:
        return "No trial is usable, so the client's ceiling is not known."
    good = calibration.pushed(_arms(frame, [PUSHED]))
    share = good["client_waiting_share"].median()
    at_most = pd.notna(share) and share > CLIENT_QUEUE
    text = f"The client can send {{}} {'at most' if at_most else 'at least'}"
    text = _in_words(ceiling, "requests/s", text)
    if pd.notna(share):
        text += (
            f": {share:.0%} of the requests in flight waited for it in the median of "
            f"{counted(len(good), 'trial')}"
        )
    return f"{text}. What comes near that measures the client."


# ---- controls -----------------------------------------------------------------


def twins(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of the A/A control."""
    return _arms(frame, TWINS)


def _arms(frame: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    return frame[frame["arm"].isin(arms)]


def aa(results: Results, frame: pd.DataFrame) -> Control | None:
    """Compare a server with itself in throughput; None with too few trials.

    A client that is the limit is the same one for both. Kept as the value ``aa``.
    """
    rate = "throughput_rps"
    good = frame[but_for_client(frame) & frame[rate].notna()]
    a, b = (_arms(good, [name]) for name in TWINS)
    if min(len(a), len(b)) < 2:
        return None
    control = calibration.aa(b, a, rate)
    results.value("aa", control.effect, "1")
    return control


def itself(results: Results, frame: pd.DataFrame) -> list[Compared]:
    """Compare the twins in every metric, and keep the words as AA_METRIC."""
    mine = twins(frame)
    base = TWINS[0]
    found = [
        one
        for metric in AA_METRICS
        for one in compare_cells(mine, metric, baseline=base, within=[], by="arm")
    ]
    for one in found:
        label = metric_of(one.metric).label
        ratio = aside(one.comparison.ratio)
        said = f"By {label} a server is {one.word} itself {ratio}."
        if one.word == "undetermined":
            said = f"Whether a server equals itself in {label} is undetermined."
        results.word(f"aa_{one.metric}", one, verdict=said)
    return found


def forest(results: Results, found: Sequence[Compared]) -> Picture | None:
    """Draw the ratio of a server to itself, a row per metric."""
    if not found:
        return None
    rows = ratio_frame(found)
    holds = (rows["lo"] <= 1) & (rows["hi"] >= 1)
    known = rows["lo"].notna()
    words = holds.map({True: "holds 1", False: "leaves out 1"}).where(known, "unknown")
    picture = figures.forest(
        rows.assign(word=words),
        labels=[metric_of(one.metric).label for one in found],
        x_label="the server under its second name / under its first",
    )
    return results.figure(
        f"{STUDY}-itself",
        picture,
        caption="A server compared with itself: the same program under two names, "
        "paired by block, with 95 % intervals. Every interval should hold 1; of "
        "twenty such intervals one may miss it. The band is ±5 %.",
    )


def delay(results: Results, frame: pd.DataFrame, *, known_ms: float) -> Control | None:
    """Find the known delay again; None with too few trials. Kept as ``delay_found``."""
    good = usable(frame, "response_mean_s")
    treated, control = (_arms(good, [name]) for name in (TWICE, ONCE))
    if min(len(treated), len(control)) < 2:
        return None
    found = calibration.positive_control(treated, control, known=known_ms / 1000)
    results.value("delay_found", found.effect, "1")
    return found


def extra(results: Results, frame: pd.DataFrame, *, extra_ns: int) -> Control | None:
    """Find the known cost of a request again; None with too few trials.

    The twins' sibling spends so much more CPU time on each request, and takes turns
    with them. Kept as ``extra_found``.
    """
    good = usable(frame, COST)
    dearer, twin = (_arms(good, [name]) for name in (DEARER, TWINS[0]))
    if min(len(dearer), len(twin)) < 2:
        return None
    found = calibration.known_cost(dearer, twin, known=extra_ns / 1e9)
    results.value("extra_found", found.effect, "1")
    return found


def control_said(control: Control | None, what: str) -> str:
    """Say how a control ended."""
    if control is None:
        return f"The control of {what} has fewer than two usable trials."
    word = "held" if control.ok else "did not hold"
    ratio = aside(control.effect, "{}, 1 expected")
    return f"The control of {what} {word}: {control.text} {ratio}."


# ---- noise --------------------------------------------------------------------


def drifting(results: Results, frame: pd.DataFrame) -> Picture | None:
    """Draw the twins' throughput in the order of the trials, with the trend."""
    found = drift(frame)
    if found is None:
        return None
    return results.figure(
        f"{STUDY}-drift",
        figures.drifting(found, label="throughput"),
        caption="Each trial of the A/A control in the order they ran, against the "
        "median of its arm. The lines are the trend over the sweep and its interval.",
    )


def drift(frame: pd.DataFrame) -> repeating.Drift | None:
    """Return how throughput moved over the sweep; None without two usable trials."""
    good = usable(twins(frame), "throughput_rps")
    if len(good) < 2:
        return None
    ordered = good.assign(place=range(len(good)))
    return repeating.drift(ordered, "throughput_rps", cell=["arm"], time="place")


def windows(
    results: Results, frame: pd.DataFrame, measured: pd.DataFrame
) -> Picture | None:
    """Draw the twins' throughput over time inside their trials; keep its budget.

    Parameters
    ----------
    measured : DataFrame
        As from `connlab.study.frames.load_windows`.
    """
    mine = _windows(frame, measured)
    if mine.empty:
        return None
    good = usable(twins(frame), "throughput_rps")
    budget.variance(results, good, mine, name=f"{STUDY}-variance")
    return results.figure(
        f"{STUDY}-windows",
        figures.timeline(mine, by="arm", styles=_NAMES),
        caption="Throughput inside the trials of the A/A control, in steps of a tenth "
        "of a second from the client's start: each trial thin, the mean thick.",
    )


_NAMES = {
    "A": look.Style("A", look.color("readiness"), "o"),
    "B": look.Style("B again", look.color("threads"), "s"),
}


def _windows(frame: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    good = usable(twins(frame), "throughput_rps")[["key", "arm"]]
    return measured.merge(good, on="key")


def noise(frame: pd.DataFrame, measured: pd.DataFrame) -> str:
    """Say how much scatters inside a trial, how much between trials, and the drift."""
    good = usable(twins(frame), "throughput_rps")
    mine = _windows(frame, measured)
    if len(good) < 2 or mine.empty:
        return "Too few trials are usable to say how steady the machine is."
    parts = repeating.variance_components(
        mine, "throughput_rps", nesting=["key"], innermost="window"
    ).components
    mean = good["throughput_rps"].mean()
    inside, between = (parts[k] ** 0.5 / mean for k in ("window", "key"))
    text = (
        f"Throughput scatters by {inside:.1%} between the tenths of a second of one "
        f"trial and by {between:.1%} between trials beyond that (standard deviation / "
        f"mean, {counted(len(good), 'trial')})."
    )
    found = drift(frame)
    if found is None or not found.change.determined:
        return text
    change = number_text(found.change.scaled(100), "%")
    trend = "moved" if found.drifting else "shows no trend"
    return f"{text} Over the sweep it {trend} ({change}, p {found.p:.2g})."


def left_out(frame: pd.DataFrame) -> str:
    """Say how many trials are not used, and what else burnt CPU time meanwhile."""
    table = cells(frame.assign(all="all"), ["all"]).iloc[0]
    lost = int(table["trials"] - table["used"])
    text = f"Of {counted(int(table['trials']), 'trial')} {lost} may not be used"
    if lost:
        text += f", most often because: {table['reason']}"
    others = (frame["other_cpu_s"] / frame["duration"]).dropna()
    if others.empty:
        return text + "."
    text += f". Anything else took {others.median():.1%} of a core in the median trial"
    busy = int((others > _HARD_RATE).sum())
    return f"{text} and more than {_HARD_RATE:.0%} in {plain(busy)}."


def answer(
    same: Control | None, found: Control | None, beside: Interval | None = None
) -> str:
    """Answer the question in one sentence, from the two controls and the cores."""
    if same is None or found is None:
        return "This run cannot say: a control has fewer than two usable trials."
    ratio = number_text(same.effect)
    share = number_text(found.effect.scaled(100), "%")
    said = (
        f"a server differs from itself by a factor of {ratio}, and of a known delay "
        f"{share} is found again"
    )
    coupled = beside is not None and two_cores(beside) is False
    if same.ok and found.ok and not coupled:
        return f"Yes, as far as its controls reach: {said}."
    bad = [
        text
        for wrong, text in (
            (not same.ok, "the A/A control did not hold"),
            (not found.ok, "the known delay was not recovered within 1 %"),
            (coupled, "server and client share a physical core"),
        )
        if wrong
    ]
    return f"Only with care: {listing(bad)}; {said}."
