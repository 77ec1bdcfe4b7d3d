"""What studies report in the same way: one wording, one picture, one kind of name.

    frame    -> values by name, the level that most models hold, means in order
    compared -> words by name, a sentence and a tally, the picture of all ratios

A study says what is its own (what it compares, along which factor, what that is
called); how it is said stands here, so that two studies that find the same say so in
the same words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from connlab.study import figures, look
from connlab.study.cells import (
    CLIENT_BOUND,
    Compared,
    interval_of,
    ratio_frame,
    summarise,
)
from connlab.study.drawing import Picture, sentence
from connlab.study.formatting import (
    aside,
    counted,
    in_best_unit,
    listing,
    number_text,
    plain,
    span,
    whose,
)
from connlab.study.frames import LIMITS, but_for_client, failed_only, usable
from connlab.study.interval import Interval
from connlab.study.metrics import metric as metric_of
from connlab.study.results import Results

TOO_FEW = "This run cannot say: fewer than two servers have usable trials."
"""The answer where nothing could be compared."""

OVER_TRIALS = (
    "with 95 % intervals over trials. A dash stands for a cell without a usable trial."
)
"""How a table of cells ends its caption."""

PAIRED = "paired by block, with 95 % intervals. The band is ±5 %"
"""How a picture of ratios ends its caption."""

CORRECTED = "words are corrected for their number (Holm)."


# ---- trials and levels --------------------------------------------------------


def part(frame: pd.DataFrame, rows: pd.Series) -> pd.DataFrame:
    """Return some of the trials; they still know their run (``attrs``).

    Parameters
    ----------
    frame : DataFrame
        As from `connlab.study.load`.
    rows : Series of bool, shape (len(frame),)
        Which ones; a missing value stands for no.

    Raises
    ------
    ValueError
        When `rows` was made from other trials than those of `frame`.
    """
    if not rows.index.equals(frame.index):
        raise ValueError(
            f"rows marks {len(rows)} trials, other ones than the {len(frame)} of the "
            "frame: it has to be made from the same frame"
        )
    made = frame[rows.fillna(False).astype(bool)]
    made.attrs = frame.attrs
    return made


def common_level(frame: pd.DataFrame, *, by: str = "connections") -> int:
    """Return the highest level of `by` at which nearly all models have a say.

    That is a usable trial, or one that only a saturated client spoils. One model that
    holds next to nothing must not keep all others from being compared: three quarters
    of those that speak anywhere are enough.
    """
    held = frame[but_for_client(frame)].groupby(by)["model"].nunique()
    if held.empty:
        return int(frame[by].max())
    return int(held[held >= _NEARLY_ALL * held.max()].index.max())


_NEARLY_ALL = 0.75


def at_common_level(
    frame: pd.DataFrame, *, by: str = "connections"
) -> tuple[int, pd.DataFrame]:
    """Return the common level and its trials."""
    level = common_level(frame, by=by)
    return level, part(frame, frame[by] == level)


def baseline_of(frame: pd.DataFrame, wanted: str) -> str:
    """Return `wanted` if it was measured, else the model with most usable trials."""
    count = usable(frame)["model"].value_counts().sort_index()
    if wanted in count or count.empty:
        return wanted
    return str(count.idxmax())


def read_as(frame: pd.DataFrame, factors: Sequence[str]) -> str:
    """Say how a figure's points, bars and crosses are to be read."""
    trials = frame.groupby(list(factors)).size()
    said = (
        f"Means over {span(trials.min(), trials.max())} trials per point with 95 % "
        "intervals; crosses mark cells without a usable trial."
    )
    if failed_only(frame, ["client"]).any():
        said += (
            " Hollow: the client was the bottleneck, and the server could only be "
            "better."
        )
    return said


# ---- values -------------------------------------------------------------------


def key(name: str) -> str:
    """Return a name as part of a value's: ``epoll-et`` → ``epoll_et``."""
    return re.sub(r"\W", "_", name)


def keep_values(
    results: Results,
    frame: pd.DataFrame,
    kinds: Mapping[str, str],
    *,
    by: Sequence[str],
) -> None:
    """Keep every cell's interval of every kind, as MODEL_KIND_LEVEL….

    Parameters
    ----------
    results : Results
        Where they are kept.
    frame : DataFrame
        As from `connlab.study.load`.
    kinds : mapping of str to str
        Short names of metrics, and their columns.
    by : sequence of str
        "model" first, then the other factors.
    """
    for kind, metric in kinds.items():
        table = summarise(frame, metric, by=by).dropna(subset=["value"])
        for _, row in table.iterrows():
            levels = [key(str(row[factor])) for factor in by]
            name = "_".join([levels[0], kind, *levels[1:]])
            results.value(name, interval_of(row), metric_of(metric).unit)


@dataclass(frozen=True)
class Mean:
    """The mean of a model, in the unit that reads best."""

    label: str
    interval: Interval
    unit: str

    @property
    def label_first(self) -> str:
        """As in "epoll with 9.2 ms [9.0, 9.4]"."""
        return f"{self.label} with {number_text(self.interval, self.unit)}"

    @property
    def label_last(self) -> str:
        """As in "9.2 ms [9.0, 9.4] (epoll)"."""
        return whose(self.interval, self.label, unit=self.unit)


def ranked(frame: pd.DataFrame, metric: str) -> list[Mean]:
    """Return the models' means of a metric, the smallest first.

    Parameters
    ----------
    frame : DataFrame
        Trials of one cell per model; models without a usable trial, or of which only
        a bound is known, do not rank. There may be none.
    metric : str
        A column that `connlab.study.metrics` knows the unit of.
    """
    rows = summarise(frame, metric, by=["model"]).dropna(subset=["value"])
    rows = rows[~_bounds(rows)]
    names, unit = look.styles(frame), metric_of(metric).unit
    return [
        Mean(names[str(row["model"])].label, *in_best_unit(interval_of(row), unit))
        for _, row in rows.sort_values("value").iterrows()
    ]


def _bounds(rows: pd.DataFrame) -> pd.Series:
    """Mark the cells of which only a bound is known."""
    return rows["label"].eq(CLIENT_BOUND).fillna(False).astype(bool)


def that_rank(frame: pd.DataFrame, metric: str) -> str:
    """Say which models `ranked` is about, where the client limited others.

    Returns
    -------
    str
        " of the models that the client did not limit", to stand behind what is ranked;
        empty where every model ranks.
    """
    rows = summarise(frame, metric, by=["model"]).dropna(subset=["value"])
    return " of the models that the client did not limit" if any(_bounds(rows)) else ""


def bottleneck(frame: pd.DataFrame) -> str:
    """Say who was the bottleneck of how many trials."""
    saturated = failed_only(frame, ["client"])
    good = part(frame, but_for_client(frame))
    counts = good["label"].fillna("not labelled").value_counts()
    if counts.empty:
        return "No trial is usable, so no bottleneck can be named."
    said = [f"{n} {_label_text(label)}" for label, n in counts.items()]
    also = ", or so but for the client," if saturated.any() else ""
    text = f"Of {counted(len(good), 'usable trial')}{also} {listing(said)}."
    if counts.get(CLIENT_BOUND, 0) > 0:
        text += (
            " Where the client was the bottleneck a server could only be better, and "
            "nothing else is said of it."
        )
    return text


def _label_text(label: str) -> str:
    """Return a trial's label with the limit that it names in words."""
    kind, _, limit = label.partition(":")
    return f"{kind} ({LIMITS.get(limit, limit)})" if limit else kind


# ---- comparisons --------------------------------------------------------------


def word_name(one: Compared) -> str:
    """Name a word: ARM_BASELINE_LEVEL…; MODEL_ARM_BASELINE of a model with itself."""
    arms, where = [one.arm, one.baseline], list(one.where.values())
    parts = [*where, *arms] if "model" in one.where else [*arms, *where]
    return "_".join(key(str(part)) for part in parts)


def keep_words(
    results: Results,
    frame: pd.DataFrame,
    found: Sequence[Compared],
    *,
    verdict: Callable[[Compared, Mapping[str, look.Style]], str],
    name: Callable[[Compared], str] = word_name,
) -> None:
    """Keep every comparing word under its name, with its sentence.

    Parameters
    ----------
    results : Results
        Where they are kept.
    frame : DataFrame
        The trials, for the models' labels.
    found : sequence of Compared
        May be empty.
    verdict : callable
        Takes a comparison and the models' styles, returns a sentence.
    name : callable
        Takes a comparison, returns a name that no other has.
    """
    if not found:
        return
    names = look.styles(frame)
    for one in found:
        results.word(name(one), one, verdict=verdict(one, names))


def settled(one: Compared, *, arm: str, base: str, times: str) -> str:
    """Say a word other than "undetermined": "A is faster than B (2 times …)."."""
    effect = aside(one.comparison.ratio, f"{{}} times {times}")
    return f"{arm} is {one.word} {base} {effect}."


def verdict(one: Compared, *, arm: str, base: str, question: str, times: str) -> str:
    """Say a comparison as a sentence, whatever its word is.

    Parameters
    ----------
    one : Compared
    arm, base : str
        What is compared, and with what, where.
    question : str
        What is open where the word is "undetermined": "Whether A or B serves more".
    times : str
        What the ratio counts: "its throughput".
    """
    if one.word == "undetermined":
        return f"{question} is undetermined {aside(one.comparison.ratio)}."
    return settled(one, arm=arm, base=base, times=times)


def verdict_of_models(
    one: Compared,
    names: Mapping[str, look.Style],
    *,
    does: str,
    times: str,
    where: str,
) -> str:
    """Say how two models compare: who does something better, and where.

    Parameters
    ----------
    one : Compared
        Two models in one cell.
    names : mapping of str to Style
        Their labels.
    does : str
        What the better one does: "serves more".
    times : str
        See `verdict`.
    where : str
        The cell: "at 10 connections".
    """
    arm, base = names[one.arm].label, names[one.baseline].label
    return verdict(
        one,
        arm=arm,
        base=f"{base} {where}",
        question=f"Whether {arm} or {base} {does} {where}",
        times=times,
    )


DIFFER = {
    "faster than": "different",
    "slower than": "different",
    "indistinguishable from": "indistinguishable within ±5 %",
    "undetermined": "undetermined",
}
"""What a tally says of each word: what so many came out as."""


def tally(
    frame: pd.DataFrame,
    found: Sequence[Compared],
    *,
    said: Mapping[str, str] = DIFFER,
) -> str:
    """Count the words of comparisons with one baseline, in a clause.

    Parameters
    ----------
    frame : DataFrame
        The trials, for the baseline's label.
    found : sequence of Compared
        At least one.
    said : mapping of str to str
        What is said of each word, in the order of the clause; words of which the same
        is said count together.
    """
    count = dict.fromkeys(said.values(), 0)
    for one in found:
        count[said[one.word]] += 1
    base = look.styles(frame)[found[0].baseline].label
    parts = listing([f"{n} {what}" for what, n in count.items() if n])
    first, rest = parts.split(" ", 1)
    total = counted(len(found), "comparison")
    return f"of {total} with {base} {first} came out {rest}"


def lead(found: Sequence[Compared]) -> str:
    """Return how the answer to "does it differ?" begins.

    "Yes" when any corrected comparison says faster or slower, "No, not here" when all
    are shown to be indistinguishable, else "Undecided".
    """
    words = {one.word for one in found}
    if words & {"faster than", "slower than"}:
        return "Yes"
    return "No, not here" if words == {"indistinguishable from"} else "Undecided"


def at_most(found: Sequence[Compared]) -> list[Compared]:
    """Return each model's comparison with itself at the highest level (`arm`)."""
    last: dict[str, Compared] = {}
    for one in found:
        model = one.where["model"]
        if model not in last or int(one.arm) > int(last[model].arm):
            last[model] = one
    return list(last.values())


def ratios(
    results: Results,
    frame: pd.DataFrame,
    found: Sequence[Compared],
    *,
    name: str,
    what: str,
    pronoun: str = "that",
) -> Picture | None:
    """Draw how models compare with a baseline, level by level; None without any.

    Parameters
    ----------
    results : Results
        Where the figure is kept.
    frame : DataFrame
        The trials, for labels and colours.
    found : sequence of Compared
        Models at several numbers of connections, all with the same baseline.
    name : str
        Of the figure.
    what : str
        What is divided, as it stands within a sentence: "mean response time".
    pronoun : str
        "that", or "those" for a plural `what`.
    """
    if not found:
        return None
    styles = look.styles(frame)
    base = styles[found[0].baseline].label
    labels = [
        f"{styles[one.arm].label}, {plain(float(one.where['connections']))} conn."
        for one in found
    ]
    return results.figure(
        name,
        figures.forest(
            ratio_frame(found),
            labels=labels,
            x_label=f"{what} / {pronoun} of {base}",
            styles=styles,
        ),
        caption=f"{sentence(what)} in relation to {base}, {PAIRED}; {CORRECTED}",
    )


def ratios_to_itself(
    results: Results,
    frame: pd.DataFrame,
    found: Sequence[Compared],
    *,
    name: str,
    level: Callable[[Compared], float],
    said: Callable[[float], str],
    x_label: str,
    caption: str,
) -> Picture:
    """Draw how each model compares with itself, model by model.

    Parameters
    ----------
    results, frame, name
        As in `ratios`.
    found : sequence of Compared
        At least one; `where` names the model.
    level : callable
        Takes a comparison, returns the level that a model's rows are sorted by.
    said : callable
        Takes that level, returns its text.
    x_label, caption : str
        Of the figure.
    """
    styles = look.styles(frame)
    order = list(styles)
    found = sorted(found, key=lambda o: (order.index(o.where["model"]), level(o)))
    labels = [f"{styles[o.where['model']].label}, {said(level(o))}" for o in found]
    rows = ratio_frame(found)
    picture = figures.forest(
        rows.assign(arm=rows["model"]), labels=labels, x_label=x_label, styles=styles
    )
    return results.figure(name, picture, caption=caption)
