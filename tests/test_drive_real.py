"""Sweeps of the programs that `make build` makes: no fakes here."""

import pytest
from drive_fakes import measure, rows

from connlab import drive, schema
from connlab.drive import cores, location
from connlab.drive.floor import core_to_core_s


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    names = [model.name for model in drive.models() if model.available]
    fixed = {"connections": 20, "timeout": 5}
    report = measure(root, factors={"model": names}, fixed=fixed, duration=0.3)
    return report, {row["factors"]["model"]: row for row in rows(root)}


@pytest.mark.sweeps
def test_every_model_gives_a_whole_trial(measured):
    report, trials = measured
    assert report.done == len(trials) > 1
    for name, row in trials.items():
        assert row["failure"] is None, (name, row["failure"])
        flat = schema.flatten(row)
        assert flat["throughput_rps"] > 0
        assert flat["server_cpu_s"] > 0
        assert flat["threads_max"] >= 1
        assert flat["pss_baseline_bytes"] > 0
        assert row["timeline"]["requests"]
        assert row["server"]["samples"]["window_from"] == "start"
        assert row["gates"]["verified"]["ok"] is True


@pytest.mark.sweeps
def test_both_sides_count_the_same(measured):
    """Ours against theirs: what the client completed, the server answered."""
    for name, row in measured[1].items():
        completed = row["client"]["requests"]["completed"]
        sent = row["client"]["requests"]["sent"]
        assert completed <= row["server"]["stats"]["requests"] <= sent, name


@pytest.mark.sweeps
def test_cpu_time_seen_agrees_with_what_the_server_says(measured):
    """The window is part of the life, so its CPU time is at most that of the life."""
    for name, row in measured[1].items():
        stats = row["server"]["stats"]
        life = stats["cpu_user_s"] + stats["cpu_system_s"]
        sampled = schema.flatten(row)["server_cpu_s"]
        assert 0.3 * life < sampled <= life * 1.05 + 0.01, name


@pytest.mark.sweeps
def test_a_trial_keeps_how_far_apart_its_cores_were(tmp_path, monkeypatch):
    monkeypatch.setattr(location, "core_to_core_s", core_to_core_s)
    measure(tmp_path, factors={"model": ["epoll"]}, duration=0.2)
    (row,) = rows(tmp_path)
    times_s = row["core_to_core"].values()
    if cores.one_each(cores.available()).shared:
        assert set(times_s) == {None}
    else:
        assert all(s is None or 1e-9 < s < 1e-5 for s in times_s)
        assert any(times_s)


def test_a_limit_is_met_named_and_flagged(tmp_path):
    cell = {"factors": {"model": ["select"]}, "fixed": {"connections": 1200}}
    measure(tmp_path, **cell, duration=0.3)
    (row,) = rows(tmp_path)
    flat = schema.flatten(row)
    assert flat["label"] == "limit-bound:fd_setsize"
    assert row["gates"]["census"]["ok"] is False
    assert flat["refused_reason"] == "fd_setsize"
    assert 900 < flat["surviving"] < 1024


def test_a_rate_that_a_server_cannot_follow_is_a_finding(tmp_path):
    factors = {"model": ["iterative"], "rate": [5e5]}
    measure(tmp_path, factors=factors, fixed={"connections": 10}, duration=0.3)
    (row,) = rows(tmp_path)
    assert row["findings"]["rate"]["ok"] is False
    assert row["client"]["loop"] == "open"


@pytest.mark.serial
@pytest.mark.long
def test_most_of_a_sweep_lies_inside_measurement_windows(tmp_path):
    """Our own overhead is what is left; a busy machine only adds to it."""
    shares = []
    factors = {"model": ["thread", "epoll"], "connections": [1, 100]}
    window = {"duration": 1.0, "warmup": 0.1}
    while len(shares) < 6 and max(shares, default=0) < 0.8:
        study = f"share-{len(shares)}"
        report = measure(tmp_path, study, factors=factors, trials=3, **window)
        assert report.done == 12
        shares.append(report.window_share)
    assert max(shares) >= 0.8, shares
