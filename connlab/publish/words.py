"""How often a run could tell: the comparing words of its studies, counted.

A comparison ends in a word: faster, slower, more, less, alike, or undetermined where
the interval allows none of these. The share of the last is what a
noisy machine costs. Verdicts on claims of earlier reports are no comparisons and are
not counted.
"""

from collections import Counter
from typing import Any

from connlab.publish import reference
from connlab.publish.results import load_run

UNDETERMINED = "undetermined"


def counted(run: str) -> dict[str, Counter[str]]:
    """Return how often each word stands in each study of a run that has any."""
    return {
        study.name: Counter(word.word for word in results.words.values())
        for study, results in load_run(run, root="runs", trials=False).evaluated
        if study.name != reference.CLAIMS and results.words
    }


def lines(studies: dict[str, Counter[str]]) -> list[str]:
    """Return a table: verdicts of each study and of all, by word, the commonest first.

    The share of those that are undetermined stands in brackets.
    """
    everything = sum(studies.values(), Counter())
    names = [name for name, _ in everything.most_common() if name != UNDETERMINED]
    heads = ["verdicts", UNDETERMINED, "", *names]
    widths = [max(5, len(head)) for head in heads]
    rows = [("", heads)]
    for study, words in [*studies.items(), ("in all", everything)]:
        share = f"({100 * _row(words)['undetermined']:.0f} %)"
        counts = [words.total(), words[UNDETERMINED], share]
        rows.append((study, [*counts, *(words[name] or "" for name in names)]))
    return [
        "  ".join([f"{study:14}", *map(str.rjust, map(str, row), widths)]).rstrip()
        for study, row in rows
    ]


def document(studies: dict[str, Counter[str]]) -> dict[str, Any]:
    """Return the counts as plain values, each with its share of undetermined."""
    return {
        "studies": {name: _row(words) for name, words in studies.items()},
        "all": _row(sum(studies.values(), Counter())),
    }


def _row(words: Counter[str]) -> dict[str, Any]:
    share = words[UNDETERMINED] / (words.total() or 1)
    return {"words": dict(words), "n": words.total(), "undetermined": share}
