"""Numbers as text: no digit that the interval does not carry.

    9.2 ms [9.0, 9.4]     108.2 thousand requests/s [107.9, 108.5]     1.02 [0.98, 1.06]

A digit is printed when the interval's half-width is at least twice its place: a
half-width of 0.2 carries tenths, one of 0.12 carries hundredths. Without an interval
two digits are printed, because nobody knows more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from connlab.study.interval import Interval

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))
_THOUSANDS = ((1e6, "million "), (1e4, "thousand "))
_CARRIES = 2.0


def display_unit(unit: str, values: Sequence[float]) -> tuple[float, str]:
    """Choose the unit in which values are easiest to read.

    Parameters
    ----------
    unit : str
        Base unit: "s", "bytes", "bytes/s", "requests/s", "count", "1", "%", "".
    values : sequence of float
        What will be printed or drawn; the median decides.

    Returns
    -------
    factor : float
        What values are multiplied by.
    text : str
        The unit to print.
    """
    a = np.abs(np.asarray(values, dtype=float))
    a = a[np.isfinite(a) & (a > 0)]
    size = float(np.median(a)) if len(a) else 1.0
    if unit == "s":
        each, name = next(((e, n) for e, n in _TIMES if size >= e), _TIMES[-1])
        return (1e9 if name == "ns" else round(1 / each)), name
    if unit in ("bytes", "bytes/s"):
        each, name = next(((e, n) for e, n in _BYTES if size >= e), _BYTES[-1])
        return 1 / each, name + unit.removeprefix("bytes")
    if unit.endswith("/s"):
        for each, name in _THOUSANDS:
            if size >= each:
                factor = 1e-6 if each == 1e6 else 1e-3
                return factor, name + unit
        return 1.0, unit
    return 1.0, "" if unit in ("1", "count") else unit


def decimals(interval: Interval) -> int:
    """Return how many decimals the interval carries (negative: tens, hundreds)."""
    half = interval.half_width
    if not interval.determined or half <= 1e-12 * abs(interval.value):
        return _two_digits(interval.value) + (1 if interval.determined else 0)
    place = math.floor(math.log10(half))
    return -place + (1 if half / 10**place < _CARRIES - 1e-6 else 0)


def _two_digits(value: float) -> int:
    if value == 0 or not math.isfinite(value):
        return 0
    return 1 - math.floor(math.log10(abs(value)))


def rounded(value: float, places: int) -> str:
    """Return a number with so many decimals; thousands apart by a thin space."""
    if not math.isfinite(value):
        return "—"
    value = round(value, places)
    text = f"{value:,.{max(places, 0)}f}".replace(",", "\u202f")
    return text.replace("-", "−") if value else text.replace("-", "")


def number_text(interval: Interval, unit: str = "", *, bounds: bool = True) -> str:
    """Return an estimate with its unit and its interval.

    Parameters
    ----------
    interval : Interval
        Already in `unit` (see `display_unit`, `Interval.scaled`).
    unit : str
        Printed behind the number.
    bounds : bool
        Print the interval, or why there is none.

    Examples
    --------
    >>> number_text(Interval(9.234, 9.02, 9.42, 10, 0.95, "t"), "ms")
    '9.2 ms [9.0, 9.4]'
    """
    places = decimals(interval)
    text = rounded(interval.value, places)
    text += f" {unit}" if unit and unit != "%" else unit and "\u202f%"
    if not bounds:
        return text
    if not interval.determined:
        return f"{text} [no interval]"
    return f"{text} [{rounded(interval.lo, places)}, {rounded(interval.hi, places)}]"


def plus_minus(interval: Interval) -> str:
    """Return ``9.23 ± 0.20`` for the narrow cells of a table, else with bounds.

    Only intervals that lie evenly around their value are written with ±.
    """
    places = decimals(interval)
    if not interval.determined:
        return rounded(interval.value, places)
    up, down = interval.hi - interval.value, interval.value - interval.lo
    if abs(up - down) > 0.05 * (up + down):
        return number_text(interval)
    return f"{rounded(interval.value, places)} ± {rounded(interval.half_width, places)}"


def plain(value: float, *, digits: int = 3) -> str:
    """Return a setting or a label with few digits: 100, 0.5, 15 000."""
    if value == int(value) or abs(value) >= 10**digits:
        return rounded(value, 0)
    return f"{value:.{digits}g}"


def counted(count: float, noun: str) -> str:
    """Return ``1 connection``, ``10 connections``."""
    return f"{plain(count)} {noun}" + ("" if count == 1 else "s")


def listing(words: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    words = list(words)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
