"""connlab.compare: which of these servers is faster, on this machine, in a minute?

    names -> plan -> sets of servers that take turns -> ratios -> a table

Fresh sets follow each other until every ratio is known to the width that was asked
for, or the budget is spent. The first server is the baseline and takes part twice: the
ratio of the two says what the method itself is worth today.
"""

from connlab.compare.measure import Comparison, compare
from connlab.compare.plan import Plan, make_plan
from connlab.compare.screen import run

__all__ = ["Comparison", "Plan", "compare", "make_plan", "run"]
