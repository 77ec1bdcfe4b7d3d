"""Where two servers change places: recovered from costs that are known."""

import numpy as np
import pandas as pd
import pytest
from study_made import crossed, usable

from connlab.intervals import intervals
from connlab.studies import bounds, idle

LEVELS = [1, 10, 100, 1000]


def trials(*, at: float, blocks: int = 6, noise: float = 0.0) -> pd.DataFrame:
    """Return costs of poll that pass those of epoll where `at` clients talk."""
    dice = np.random.default_rng(2)
    epoll = crossed(block=range(blocks), active=LEVELS).assign(model="epoll")
    epoll["cost"] = dice.uniform(1, 2, len(epoll))  # what the machine did in a trial
    ratio = (at / epoll["active"]) ** 0.3
    ratio *= np.exp(noise * dice.standard_normal(len(epoll)))
    poll = epoll.assign(model="poll", cost=epoll["cost"] * ratio)
    return usable(pd.concat([poll, epoll], ignore_index=True))


def crossings(frame: pd.DataFrame) -> pd.DataFrame:
    return idle.crossings(frame, "cost", sides=["poll", "epoll"], along="active")


def test_a_known_crossing_is_recovered_in_every_block():
    frame = trials(at=30)
    assert crossings(frame)["crossing"].tolist() == pytest.approx([30] * 6)
    two = crossings(frame[frame["active"].isin([LEVELS[0], LEVELS[-1]])])
    assert two["crossing"].tolist() == pytest.approx([30] * 6)
    none = crossings(frame[frame["active"] == LEVELS[0]])
    assert none.empty
    assert set(none) == set(two)


def test_noise_moves_it_and_not_far():
    places = crossings(trials(at=30, blocks=50, noise=0.1))["crossing"].dropna()
    assert np.exp(np.log(places).mean()) == pytest.approx(30, rel=0.15)
    assert places.std() > 0


@pytest.mark.parametrize("at", [0.1, 20000])
def test_sides_that_do_not_change_places_have_no_crossing(at):
    places = crossings(trials(at=at))["crossing"]
    assert len(places) == 6
    assert places.isna().all()


def test_a_block_in_which_they_do_not_leaves_no_number_to_print():
    """Its place lies beyond the range, and the mean of the others within it."""
    frame = trials(at=700)
    beyond = (frame["block"] == 2) & (frame["model"] == "poll")
    frame.loc[beyond, "cost"] *= 1.5
    places = crossings(frame).assign(connections=1000)
    assert places["crossing"].isna().sum() == 1
    cells = intervals(places, "crossing", ["connections", "sides"])
    assert (cells["n"].item(), cells["trials"].item()) == (5, 6)
    assert bounds.complete(cells)["value"].isna().all()


def test_a_baseline_measured_once_more_moves_no_crossing():
    frame = trials(at=30).assign(carried=False)
    once_more = frame.query("model == 'epoll' and active == 10")
    again = pd.concat([frame, once_more.assign(carried=True, cost=99.0)])
    assert crossings(again)["crossing"].tolist() == pytest.approx([30] * 6)


def test_unusable_trials_and_absent_sides_do_not_count():
    frame = trials(at=30)
    frame.loc[(frame["block"] == 2) & (frame["active"] == 1000), "ok"] = False
    assert set(crossings(frame)["block"]) == {0, 1, 3, 4, 5}
    assert crossings(frame.query("model == 'epoll'")).empty
    assert crossings(frame.iloc[:0]).empty
