"""Study 13: models compared with different ones are one family."""

from unittest.mock import Mock

import notebook_rules as rules
import numpy as np
import pandas as pd
import pytest
from study_made import crossed, usable

from connlab.intervals import ratios
from connlab.report import Report
from connlab.studies.runtimes import ratios_to

MEANS = {"epoll": 1.0, "thread": 2.0, "go": 3.0, "tokio": 1.5}


@pytest.fixture
def trials() -> pd.DataFrame:
    """Return trials of four models at two numbers of connections, in blocks."""
    frame = crossed(model=[*MEANS], connections=(1, 50), block=range(6))
    scatter = np.random.default_rng(3).lognormal(0, 0.05, len(frame))
    frame["cost"] = frame["model"].map(MEANS) * scatter
    return usable(frame, label="server-bound")


PAIRS = [("thread", "epoll"), ("tokio", "epoll"), ("go", "thread")]
PER_CELL = {"within": ["connections"]}
NUMBERS = ["value", "lo", "hi", "n"]


def test_each_model_is_divided_by_its_own(trials):
    found = ratios_to(trials, "cost", pairs=PAIRS, **PER_CELL)
    pairs = list(found[["model", "against"]].itertuples(index=False, name=None))
    assert sorted(pairs) == sorted(PAIRS * 2)
    for row in found.itertuples():
        ratio = MEANS[row.model] / MEANS[row.against]
        assert row.value == pytest.approx(ratio, rel=0.1)
    alone = ratios(trials, "cost", baseline="epoll", **PER_CELL)
    assert set(found) == set(alone)


def test_comparisons_at_the_same_connections_scatter_alike():
    """Not those at 1 and at 10, which scatter ten times as much."""
    models = [f"m{number}" for number in range(8)]
    trials = crossed(model=models, connections=(1, 10), block=range(5))
    spreads = 0.002 * trials["connections"]
    trials["cost"] = np.random.default_rng(4).lognormal(0, spreads)
    trials = usable(trials, label="server-bound")
    pairs = [(model, "m0") for model in models[1:]]
    key = ["connections", "model"]
    found = ratios_to(trials, "cost", pairs=pairs, **PER_CELL).sort_values(key)
    same = ratios(trials, "cost", baseline="m0", **PER_CELL).sort_values(key)
    assert found["method"].str.contains("moderated").all()
    assert found[NUMBERS].to_numpy() == pytest.approx(same[NUMBERS].to_numpy())


def test_pairs_of_one_baseline_are_the_family_that_ratios_makes(trials):
    """Six comparisons moderate each other, and these are four."""
    found = ratios_to(trials, "cost", pairs=PAIRS[:2], **PER_CELL)
    some = trials[trials["model"] != "go"]
    same = ratios(some, "cost", baseline="epoll", **PER_CELL)
    key = ["connections", "model"]
    found, same = (
        table.sort_values(key)[NUMBERS].to_numpy() for table in (found, same)
    )
    assert found == pytest.approx(same)


def test_a_pair_is_as_wide_as_its_whole_family_makes_it(trials):
    two = ratios_to(trials, "cost", pairs=[("go", "thread")], **PER_CELL)
    four = ratios_to(trials, "cost", pairs=PAIRS[1:], **PER_CELL)
    four = four[four["model"] == "go"]
    assert two["value"].tolist() == pytest.approx(four["value"].tolist())
    assert (four["lo"].to_numpy() < two["lo"].to_numpy()).all()
    assert (four["hi"].to_numpy() > two["hi"].to_numpy()).all()


def test_no_pairs_have_no_ratios(trials):
    assert ratios_to(trials, "cost", pairs=[], **PER_CELL).empty


def test_the_equal_load_is_one_that_a_server_reaches_on_as_many_cores():
    """With four cores, where two were measured too, it was a share of both."""
    reached = {("epoll", 1): 1e5, ("epoll", 2): 2e5, ("go", 1): 9e4, ("go", 2): 1.7e5}
    reached |= {("python-asyncio", 1): 35_000.0, ("python-asyncio", 2): 9e4}
    frame = pd.DataFrame([*reached], columns=["model", "cores"])
    frame = usable(frame, throughput_rps=[*reached.values()], connections=50)
    frame = frame.assign(workload="echo", rate=np.nan, active=np.nan, slice=100.0)
    in_short_turns = frame.assign(throughput_rps=1e6, slice=20.0)
    study, drive = Mock(), Mock()
    study.load.return_value = pd.concat([frame, in_short_turns, in_short_turns])
    names = {"compared": ["epoll", "go", "python-asyncio"], "one": 1, "few": {}}
    names |= {"shorter": [20.0]}
    names |= {"at": 50, "load": 0.3, "baseline": "epoll", "drive": drive}
    rules.execute("13-runtimes", "cell-07", study=study, **names)
    factors = drive.sweep.call_args.kwargs["factors"]
    assert factors["rate"] == [30_000.0]
    assert factors["model"] == ["epoll", "go"]


@pytest.mark.parametrize(
    ("java", "kept"), [(0.06, ["java-nio"]), (0.003, []), (np.nan, [])]
)
def test_starts_that_clocks_cannot_tell_apart_have_no_ratio(java, kept):
    starts = {"epoll": 0.0014, "go": 0.0023, "java-nio": java}
    frame = usable(crossed(model=[*starts], block=range(5)))
    frame["start_s"] = frame["model"].map(starts) + frame["block"] * 1e-6
    report = Mock(spec=Report)
    report.cells.side_effect = report.ratios.side_effect = lambda frame: frame
    held = frame.assign(pss_per_connection_bytes=1.0)
    names = {"starts": frame.assign(failure_kind=None), "resting": held}
    found = rules.execute("13-runtimes", "cell-24", report=report, **names)
    assert found["later"]["model"].tolist() == kept
