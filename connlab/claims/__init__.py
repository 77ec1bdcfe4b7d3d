"""The claims ledger: what earlier reports claim, put to the test of a run.

    paper/claims.yml -> ledger    entries, judged one by one
                     -> rules     trials and a rule's own words -> a `Finding`
                     -> judging   once for each change of what verdicts are made from

A pair of cells has the ratio and the interval that the sections print of it.
"""

from connlab.claims.finding import Finding, RuleError
from connlab.claims.ledger import Claim, Judged, answer, judge_all, ledger, write
from connlab.claims.rules import apply
