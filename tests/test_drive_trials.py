"""One trial, and every way in which its programs can fail."""

import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from conftest import python
from drive_fakes import trial

from connlab.drive import trials

pytestmark = pytest.mark.usefixtures("client_program")


@pytest.mark.serial
def test_a_good_trial_has_both_sides_and_samples():
    outcome = trial()
    assert outcome.failure is None
    assert outcome.client.connections.surviving == 3
    assert outcome.client.seed == 5
    assert outcome.server.stats.requests >= outcome.client.window["requests"]
    samples = outcome.server.samples
    assert samples.window_s == pytest.approx(0.3, abs=0.02)
    cpu = samples.cpu_user_s + samples.cpu_system_s
    assert 0 < cpu <= samples.window_s * 1.05
    assert samples.pss_baseline_bytes > 0
    assert samples.threads_max == 1
    assert outcome.files["timeline"].startswith(b"start_ms")


@pytest.mark.parametrize(
    ("model", "factors", "kind", "words"),
    [
        ("exits", {}, "server-start", "bind: "),
        ("junk", {}, "server-start", "hello, world"),
        ("vague", {}, "server-start", "its ready line is malformed: host"),
        ("dies", {"duration": 1.0}, "server-died", "killed by SIGKILL"),
        (
            "good",
            {"think": "usage"},
            "client-failed",
            "exit 2: client: --think usage: ",
        ),
        ("good", {"think": "text"}, "client-failed", "all went well"),
        ("good", {"think": "half"}, "client-failed", "malformed: connections.asked"),
    ],
)
def test_a_program_that_fails_is_a_reason(model, factors, kind, words):
    failure = trial(model, **factors).failure
    assert failure.kind == kind
    assert words in failure.reason


def test_a_client_that_does_not_notice_a_dead_server_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(trials, "timeout_s", lambda _: 5.0)
    monkeypatch.setattr(trials, "NOTICE_S", 0.1)
    reading = SimpleNamespace(before=(), gone=True, cost_s=0.0)
    host = Mock()
    host.ready.side_effect = lambda *_, timeout_s: time.sleep(timeout_s)
    host.sample.return_value = reading
    course = SimpleNamespace(
        setting=SimpleNamespace(factors={}),
        **{"server": 1, "server_host": host, "client": 2, "client_host": host},
        **{"report": None, "snapshots": [], "failure": None},
    )
    trials._attend(course)
    assert course.failure is None  # whoever looks at the server says why
    assert len(course.snapshots) > 1


def test_a_server_that_never_gets_ready(monkeypatch):
    monkeypatch.setattr(trials, "READY_S", 0.3)
    monkeypatch.setattr(trials, "GRACE_S", 0.1)
    failure = trial("mute").failure
    assert failure.kind == "server-start"
    assert "0.3 s" in failure.reason


def test_a_server_that_dies_midway_leaves_what_the_client_saw():
    outcome = trial("dies", duration=5.0)
    assert outcome.client.connections.established == 3
    assert outcome.client.connections.surviving == 0
    assert outcome.seconds < 5


def test_a_server_whose_own_counts_are_none_is_measured_without_them():
    outcome = trial("miscounts")
    assert outcome.failure is None
    assert outcome.server.stats is None
    assert outcome.client.window["requests"] > 0


def test_a_client_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(trials, "GRACE_S", 0.2)
    monkeypatch.setattr(trials, "timeout_s", lambda factors: 0.5)
    began = time.monotonic()
    outcome = trial(think="hang")
    assert outcome.failure.kind == "client-hung"
    assert "0.5 s" in outcome.failure.reason
    assert time.monotonic() - began < 20


def test_a_client_that_reports_and_lingers_is_ended(monkeypatch):
    monkeypatch.setattr(trials, "GRACE_S", 0.2)
    began = time.monotonic()
    outcome = trial(think="linger")
    assert outcome.failure is None
    assert time.monotonic() - began < 20


def test_patience_grows_with_what_is_asked():
    base = {"duration": 1.0, "warmup": 0.1, "connections": None}
    short = trials.timeout_s(base)
    assert trials.timeout_s(base | {"duration": 60.0}) >= short + 59
    assert trials.timeout_s(base | {"connections": 100_000}) > short + 60
    assert trials.timeout_s(base | {"connections": 100, "connect_rate": 1}) > 100


@pytest.mark.parametrize("wait", ["connect_timeout", "drain"])
def test_a_client_has_the_time_to_wait_as_long_as_it_shall(wait):
    """One that was to drain for 30 s was taken for one that hangs, and killed."""
    base = {"duration": 1.0, "warmup": 0.1, "connections": 3}
    assert trials.timeout_s(base | {wait: 30.0}) > 1 + 30


def test_of_a_traceback_a_reason_keeps_what_went_wrong():
    code = "def f(): raise OSError(98, 'taken') from None\nf()"
    traceback = python("-c", code).stderr
    assert traceback.count("\n") > 2
    failure = trials.failed("server-died", f"server: exit 1: {traceback}")
    assert failure.reason == "server: exit 1: OSError: [Errno 98] taken"
    assert trials.failed("x", "no frames\nat all").reason == "no frames\nat all"
