"""What the ledger says of its verdicts, taken together."""

from __future__ import annotations

import pytest

from connlab.study import claims
from connlab.study.verdicts import Finding

CLAIM = claims.ledger()[0]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (["holds"], "Of 1 claim of earlier reports 1 holds."),
        (
            ["holds", "holds", "does not hold"],
            "Of 3 claims of earlier reports 2 hold and 1 does not hold.",
        ),
        (
            ["not testable here", "holds in part", "not testable here"],
            "Of 3 claims of earlier reports 1 holds in part and 2 are not testable "
            "here.",
        ),
    ],
)
def test_the_answer_counts_in_whole_sentences(found, said):
    judged = [claims.Judged(CLAIM, Finding(verdict, "made up")) for verdict in found]
    assert claims.answer(judged) == said
