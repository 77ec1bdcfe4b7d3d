"""Calibration: floors, ceilings and controls on machines whose truth is known."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import study_made as made

from connlab.study import calibration, interval, load

REPORT = {
    "event": "floor",
    "echo": {
        "throughput_rps": [150e3, 152e3, 148e3, 151e3, 149e3, 150e3],
        "server_cpu_per_request_s": [5.5e-6, 5.6e-6],
    },
    "ping_pong": {"round_trip_ns": [20_000.0, 21_000.0, 19_000.0]},
    "timer": {"resolution_ns": 1, "overshoot_p50_ns": [50_000]},
}


def test_a_report_becomes_rows_in_base_units():
    rows = calibration.floors(REPORT)
    assert len(rows) == 6 + 2 + 3 + 1
    trip = rows[rows.name == "round_trip"]
    assert trip.value.tolist() == pytest.approx([20e-6, 21e-6, 19e-6])
    assert set(trip.unit) == {"s"}


def test_medians_where_repeats_allow_and_means_where_not():
    found = calibration.floor_intervals(calibration.floors(REPORT))
    assert "order statistics" in found["floor_rps"].method
    assert found["floor_rps"].contains(150e3)
    assert "t over trials" in found["round_trip"].method
    assert not found["timer_p50"].determined


def _arms(tmp_path, shift=1.0, cv=0.01, blocks=8):
    rng = np.random.default_rng(3)
    base = [made.trial(block=b, cv=cv) for b in range(blocks)]
    twin = []
    for b in range(blocks):
        t = made.trial(block=b, cv=cv, seed=9, key=f"twin-{b}")
        rate = t["client"]["window"]["throughput_rps"]
        t["client"]["window"]["throughput_rps"] = rate * shift * (1 + 0 * rng.random())
        twin.append(t)
    frame = load("made", "response-time", root=made.write(tmp_path, base + twin))
    is_twin = frame.key.str.startswith("twin")
    return frame[~is_twin], frame[is_twin]


def test_a_server_is_like_itself(tmp_path):
    c = calibration.aa(*_arms(tmp_path), "throughput_rps")
    assert c.ok
    assert c.effect.contains(1.0)


def test_a_server_that_differs_from_itself_is_caught(tmp_path):
    c = calibration.aa(*_arms(tmp_path, shift=1.1), "throughput_rps")
    assert not c.ok
    assert "differs from itself" in c.text


def test_a_wide_interval_proves_nothing(tmp_path):
    c = calibration.aa(*_arms(tmp_path, cv=0.3, blocks=4), "throughput_rps")
    assert not c.ok
    assert "wider than" in c.text or "differs" in c.text


def _delayed(tmp_path, known=0.005, factor=1.0):
    base, slow = [], []
    for b in range(6):
        t = made.trial(connections=1, block=b, key=f"base-{b}")
        base.append(t)
        u = made.trial(connections=1, block=b, key=f"slow-{b}")
        u["client"]["response"]["mean_ns"] += known * factor * 1e9
        slow.append(u)
    frame = load("made", "response-time", root=made.write(tmp_path, base + slow))
    is_slow = frame.key.str.startswith("slow")
    return frame[is_slow], frame[~is_slow]


def test_a_known_delay_is_found_again(tmp_path):
    c = calibration.positive_control(*_delayed(tmp_path), known=0.005)
    assert c.ok
    assert c.effect.value == pytest.approx(1.0, abs=1e-6)


def test_a_delay_that_shrank_is_caught(tmp_path):
    c = calibration.positive_control(*_delayed(tmp_path, factor=0.9), known=0.005)
    assert not c.ok
    assert "90" in c.text
    with pytest.raises(ValueError, match="above 0"):
        calibration.positive_control(*_delayed(tmp_path), known=0)


def test_the_clients_ceiling_is_its_rate_at_full_share(tmp_path):
    frame = load(
        "made",
        "response-time",
        root=made.write(tmp_path, made.sweep(("epoll",), (100,))),
    )
    i = calibration.client_ceiling(frame)
    assert i.value == pytest.approx(frame.throughput_rps.mean() / 0.8)
    assert i.n == 5


def test_lines_come_back_as_they_were_kept(tmp_path):
    found = calibration.floor_intervals(calibration.floors(REPORT))
    ceiling = interval.t_interval([140e3, 141e3, 139e3])
    records = calibration.lines_of(found, ceiling=ceiling)
    folder = tmp_path / "made" / calibration.STUDY
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"lines": records}))
    lines = calibration.lines("made", root=tmp_path)
    assert lines["throughput_rps"]["the client's ceiling"].value == ceiling.value
    assert lines["response_mean_s"]["loopback round trip"].lo == found["round_trip"].lo
    assert calibration.lines("none", root=tmp_path) == {}


def test_what_was_not_measured_gives_no_line():
    rows = calibration.floors({"event": "floor"})
    assert isinstance(rows, pd.DataFrame)
    assert rows.empty
    assert calibration.lines_of(calibration.floor_intervals(rows)) == []
