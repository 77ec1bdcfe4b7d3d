"""What intervals show of a bound, and numbers that some trials do not have."""

from math import inf, nan

import pandas as pd
import pytest

from connlab.intervals import intervals
from connlab.studies import bounds


def rows(*pairs: tuple[float, float]) -> pd.DataFrame:
    return pd.DataFrame(pairs, columns=["lo", "hi"], dtype=float)


LOW, HIGH = rows((1, 3)), rows((4, 6))


@pytest.mark.parametrize(
    ("row", "other", "answer"),
    [
        (HIGH, LOW, True),
        (LOW, HIGH, False),
        (LOW, LOW, None),
        (LOW, LOW.iloc[:0], None),
        (HIGH, 3, True),
        (HIGH, 7, False),
        (HIGH, 5, None),
        (rows((nan, nan)), 5, None),
        (rows(), 5, None),
    ],
)
def test_an_interval_is_more_than_another_only_where_they_are_apart(row, other, answer):
    assert bounds.more(row, other) is answer


@pytest.mark.parametrize(
    ("intervals_", "answer"),
    [
        (rows((1, 3), (2, 4)), True),
        (rows((1, 3), (4.5, 6)), False),
        (rows((1, 3), (3.5, 6)), None),
        (rows((-inf, 0.5)), False),
        # an unknown one is no yes, and takes nothing from a no
        (rows((1, 3), (nan, nan)), None),
        (rows((4.5, 6), (nan, nan)), False),
        (rows(), None),
    ],
)
def test_all_intervals_lie_within_two_numbers_or_not_or_it_is_unknown(
    intervals_, answer
):
    assert bounds.within(intervals_, 1, 4) is answer


def test_a_cell_has_a_number_where_each_trial_has_one():
    trials = pd.DataFrame({"model": ["a"] * 5 + ["b"] * 5, "place": [*range(1, 11)]})
    trials["place"] = trials["place"].where(trials.index != 7).astype(float)
    trials = trials.assign(ok=True, label=None, reason=None)
    cells = intervals(trials, "place", "model")
    assert cells["value"].notna().all()
    kept = bounds.complete(cells).set_index("model")
    assert kept.loc["a", ["value", "lo", "hi"]].notna().all()
    assert kept.loc["b", ["value", "lo", "hi"]].isna().all()
    assert kept["n"].tolist() == [5, 4]
