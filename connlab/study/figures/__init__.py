"""Figures: one function per kind, each from numbers to a `Picture`.

    curves     a metric against a factor, a curve per model
    forest     ratios with the margin of "alike"
    tails      quantiles of latency, out to the tail
    drifting   trials in the order they ran

Every value has its interval; a point without one is hollow. Cells that failed are
crosses with the reason in words. The data of a picture are its CSV, and its alt text
is made from them.
"""

from connlab.study.drawing import Picture
from connlab.study.figures.courses import drifting
from connlab.study.figures.curves import curves, curves_of, tails
from connlab.study.figures.rows import forest

__all__ = [
    "Picture",
    "curves",
    "curves_of",
    "drifting",
    "forest",
    "tails",
]
