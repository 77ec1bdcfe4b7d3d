"""Numbers as text: no digit that the interval does not carry.

    9.2 ms [9.0, 9.4]     108.2 thousand requests/s [107.9, 108.5]     1.02 [0.98, 1.06]
    9.2 ms (one trial, no interval)

A digit is printed when the interval's half-width is at least twice its place: a
half-width of 0.2 carries tenths, one of 0.12 carries hundredths; of unequal sides the
shorter one counts, so that 0.9 is not printed as 1 below a 5.8. Without an interval
two digits are printed, because nobody knows more, and the text says that there is none.

More than four digits help no reader. Bounds that then read like the number itself are
left out: 5101 threads and not 5101 [5101, 5101]. Where both bounds lie on one side of 0
neither is rounded to 0, nor one beside 1 onto it, since the verdict on a ratio is
whether its interval holds 1: 0.92 [0.85, 0.9996]. Nearer than 0.0001 it is printed as
that far from 1, unless the interval carries finer digits.

What is printed with bounds is remembered (`printed_in`): the paper shows n and method
of each number, which a sentence does not carry.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from connlab.study.interval import Interval

DONE = {"echo": "echo", "spin": "computing", "sleep": "waiting", "http": "a page"}
"""What a request does, by the name of its work, as readers are told."""

_OF_WORK = ("work", "part", "delay_kind")
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))
_CARRIES = 2.0
_MOST_DIGITS = 4
_FINEST = 6
_BESIDE_1 = 4
_GROUPED_FROM = 1e5
_printed: dict[str, set[tuple[int, float, str]]] = {}
"""Numbers with bounds that this process printed: text -> n, level and method."""


def display_unit(unit: str, values: Sequence[float]) -> tuple[float, str]:
    """Return what values are multiplied by to read best, and the unit to print.

    `unit` is their base unit: "s", "bytes", "bytes/s", "requests/s", "count", "1", "%"
    or ""; the median of the values decides.
    """
    a = np.abs(np.asarray(values, dtype=float))
    a = a[np.isfinite(a) & (a > 0)]
    size = float(np.median(a)) if len(a) else 1.0
    if unit == "s":
        scale, name = next((row for row in _TIMES if size >= row[0]), _TIMES[-1])
        return (1e9 if name == "ns" else round(1 / scale)), name
    if unit in ("bytes", "bytes/s"):
        scale, name = next((row for row in _BYTES if size >= row[0]), _BYTES[-1])
        return 1 / scale, name + unit.removeprefix("bytes")
    if unit.endswith("/s") and size >= 1e6:
        return 1e-6, f"million {unit}"
    if unit.endswith("/s") and size >= 1e4:
        return 1e-3, f"thousand {unit}"
    return 1.0, "" if unit in ("1", "count") else unit


def decimals(interval: Interval) -> int:
    """Return how many decimals the interval carries (negative: tens, hundreds).

    Where all trials are alike, a whole number is printed whole.
    """
    half = interval.half_width
    if interval.lo > 0:  # on a logarithmic scale the lower side is the shorter one
        half = min(half, abs(interval.value - interval.lo))
    if half == 0 and interval.value == round(interval.value):
        return 0
    if not interval.determined or half <= 1e-12 * abs(interval.value):
        size = abs(interval.value)
        two_digits = 1 - math.floor(math.log10(size)) if 0 < size < math.inf else 0
        return two_digits + (1 if interval.determined else 0)
    place = math.floor(math.log10(half))
    return -place + (1 if half / 10**place < _CARRIES - 1e-6 else 0)


def rounded(value: float, places: int) -> str:
    """Return a number with so many decimals; from six digits on in groups of three."""
    if not math.isfinite(value):
        return "—"
    value = round(value, places)
    grouped = "," if abs(value) >= _GROUPED_FROM else ""
    text = f"{value:{grouped}.{max(places, 0)}f}".replace(",", "\u202f")
    return text.replace("-", "−") if value else text.replace("-", "")


def in_best_unit(interval: Interval, unit: str) -> tuple[Interval, str]:
    """Return an interval, converted from its base unit to `display_unit`, and that."""
    factor, shown = display_unit(unit, [interval.value])
    return interval.scaled(factor), shown


def number_text(interval: Interval, unit: str = "") -> str:
    """Return an estimate, already in `unit`, with its unit and its interval.

    Examples
    --------
    >>> number_text(Interval(9.234, 9.02, 9.42, 10, 0.95, "t"), "ms")
    '9.2 ms [9.0, 9.4]'
    >>> number_text(Interval(9.234, math.nan, math.nan, 1, 0.95, "t"), "ms")
    '9.2 ms (one trial, no interval)'
    """
    places = _places(interval)
    lo, value, hi = (
        rounded(x, places) for x in (interval.lo, interval.value, interval.hi)
    )
    if not unit:
        finest = min(_FINEST, max(_BESIDE_1, decimals(interval)))
        lo, hi = (_beside_1(x, places, finest) for x in (interval.lo, interval.hi))
        if interval.lo > 1 or interval.hi < 1:
            value = _beside_1(interval.value, places, finest)
    text = value + (f" {unit}" if unit and unit != "%" else unit and "\u202f%")
    if not interval.determined:
        return f"{text} ({'one trial, ' if interval.n == 1 else ''}no interval)"
    if lo == value == hi:
        return text
    text += f" [{lo}, {hi}]"
    method = interval.method + (f"; {interval.note}" if interval.note else "")
    source = (int(interval.n), float(interval.level), method)  # numpy's are no JSON
    _printed.setdefault(text, set()).add(source)
    return text


def _places(interval: Interval) -> int:
    carried, whole = decimals(interval), float(interval.value).is_integer()
    if not interval.determined or (interval.half_width == 0 and whole):
        return carried
    size = abs(interval.value) or interval.half_width
    most = _MOST_DIGITS - 1 - math.floor(math.log10(size)) if size else carried
    places = min(carried, most)
    nearest = max(interval.lo, -interval.hi)  # to 0; negative where that lies between
    while places < _FINEST and nearest > 1e-3 * size and round(nearest, places) == 0:
        places += 1
    return places


def _beside_1(value: float, places: int, finest: int) -> str:
    """Return a ratio or its bound as text, not 1 where it only lies beside it."""
    if 1e-9 < abs(value - 1) < 0.1:
        while places < finest and round(value, places) == 1:
            places += 1
        if round(value, places) == 1:
            value = 1 + math.copysign(10**-places, value - 1)
    return rounded(value, places)


def printed_in(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return text, n, level and method of the numbers with bounds in texts.

    Sorted by text; one that stands for several estimates comes with each.
    """
    page = "\n".join(texts)
    return [
        {"text": text, "n": n, "level": level, "method": method}
        for text, sources in sorted(_printed.items())
        if text in page
        for n, level, method in sorted(sources)
    ]


def plain(value: float) -> str:
    """Return a setting or a label with few digits: 100, 0.5, 15000."""
    if value == int(value) or abs(value) >= 999.5:  # which three digits round to 1e+03
        return rounded(value, 0)
    return f"{value:.3g}"


def counted(count: float, noun: str) -> str:
    """Return ``1 connection``, ``10 connections``."""
    return f"{plain(count)} {noun}" + ("" if count == 1 else "s")


def called(factor: str, level: str) -> str:
    """Return how readers know a level of a factor: ``computing`` for work ``spin``."""
    return DONE.get(level, level) if factor in _OF_WORK else level


def span(low: object, high: object) -> str:
    """Return ``5`` for equal ends, else ``3 to 5``."""
    return f"{low}" if low == high else f"{low} to {high}"


def listing(words: Iterable[str]) -> str:
    """Return ``a, b and c``."""
    words = list(words)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
