"""Which of these servers is faster, on this machine, in a minute?

    names -> plan -> sets of servers that take turns -> ratios -> a table

`plan` and `measure` start at once; `comparison` and `screen` import pandas and scipy.
"""

from connlab.compare.command import run
from connlab.compare.plan import make_plan
