"""A stalled server: it stands still when and as long as asked, and goes on after."""

import time
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
from conftest import wait_for
from drive_fakes import trial

from connlab.drive import stall
from connlab.drive.host import HostLost, LocalHost

FACTORS = {"duration": 0.6, "warmup": 0.1}


def test_it_comes_in_the_middle_of_the_window():
    assert stall.begin_s(FACTORS | {"stall": 200}) == pytest.approx(0.3)
    assert stall.begin_s(FACTORS | {"stall": 2000}) == pytest.approx(0.1)


@pytest.mark.parametrize("stall_ms", [None, 0])
def test_without_the_factor_nothing_happens(stall_ms):
    host, factors = Mock(), FACTORS | {"stall": stall_ms}
    with stall.during(factors, host, 1, started_at_s=0.0) as watched:
        pass
    assert host.mock_calls == []
    assert watched.seen is None


@pytest.mark.timed
@pytest.mark.parametrize("takes_s", [0, 0.1])
def test_it_lasts_as_long_as_asked(takes_s):
    """Never shorter; longer by as much as a busy machine lets threads wait."""
    times, began = [], time.monotonic()

    def pause(handle: int) -> None:
        time.sleep(takes_s)
        times.append(time.monotonic())

    host = SimpleNamespace(pause=pause, resume=lambda _: times.append(time.monotonic()))
    factors = FACTORS | {"stall": 100, "duration": 0.2}
    with stall.during(factors, host, 1, started_at_s=began) as watched:
        wait_for(lambda: watched.seen)
    paused, resumed = times
    assert 0.149 <= paused - began - takes_s < 0.35
    assert 0.099 <= resumed - paused < 0.4
    assert watched.seen.seconds == pytest.approx(resumed - paused, abs=0.02)
    assert watched.seen.from_s == pytest.approx(paused - began, abs=0.02)


def test_leaving_early_lets_the_server_go_on():
    host, began = Mock(), time.monotonic()
    factors = FACTORS | {"stall": 5000, "duration": 5, "warmup": 0}
    with stall.during(factors, host, 1, started_at_s=began):
        wait_for(lambda: host.mock_calls)
    assert host.mock_calls == [call.pause(1), call.resume(1)]
    assert time.monotonic() - began < 2


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_host_that_is_lost_is_no_traceback():
    """Whoever attends to the trial meets it as well, and makes it a reason."""
    factors = FACTORS | {"stall": 10, "duration": 0.02, "warmup": 0}
    lost = Mock(side_effect=HostLost("host a: gone"))
    host, began = SimpleNamespace(pause=lost, resume=lost), time.monotonic()
    with stall.during(factors, host, 1, started_at_s=began) as watched:
        wait_for(lambda: lost.call_count == 2)
    assert watched.seen is None


def test_a_trial_keeps_what_happened(client_program):
    outcome = trial(duration=2.0, warmup=0.1, stall=400)
    assert outcome.failure is None, outcome.failure
    assert outcome.server.exit == 0
    assert outcome.server.stall.seconds == pytest.approx(0.6, abs=0.21)
    assert outcome.client.response.max_ns > 100e6


def test_a_program_that_is_gone_can_be_resumed():
    host = LocalHost()
    host.resume(2**22 + 1)
