"""connlab.compare: which of these servers is faster, on this machine, in a minute?

    names -> plan -> sets of servers that take turns -> ratios -> a table

Fresh sets follow each other until every ratio is known to the width that was asked
for, or the budget is spent. The first server is the baseline and takes part twice: the
ratio of the two says what the method itself is worth today.

`plan` and `measure` start at once; `comparison` and `screen` import pandas and scipy.
"""

from connlab.compare.command import run
from connlab.compare.plan import Plan, make_plan

__all__ = ["Plan", "make_plan", "run"]
