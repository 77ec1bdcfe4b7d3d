"""What the machine's own calls cost, read from rounds and handed to other figures."""

import importlib
import json
import stat

import numpy as np
import pandas as pd
import pytest
import study_made as made

from connlab import drive
from connlab.claims import judge_all
from connlab.rounds import Rounds
from connlab.study import calibration

REPORT = {
    "event": "floor",
    "echo": {
        "throughput_rps": [150e3, 152e3, 148e3, 151e3, 149e3, 150e3],
        "server_cpu_per_request_s": [5.5e-6, 5.6e-6],
    },
    "ping_pong": {"round_trip_ns": [20_000.0, None, 19_000.0]},
}


def test_a_report_becomes_rows_in_base_units():
    rows = calibration.floors(REPORT)
    counts = rows["metric"].value_counts().to_dict()
    assert counts == {"floor_rps": 6, "floor_cpu_s": 2, "round_trip_s": 2}
    trip = rows[rows["metric"] == "round_trip_s"]
    assert trip["value"].tolist() == pytest.approx([20e-6, 19e-6])
    assert trip["repeat"].tolist() == [0, 2]


def test_of_a_hundred_sleeps_the_longest_is_printed_as_such():
    """Reports until 29 November 2026 have it as their 99th percentile as well."""
    late = {f"overshoot_{name}_ns": [26_000] for name in ("p50", "p99", "max")}
    rows = calibration.floors({"timer": late})
    assert rows["label"].tolist() == ["timer late, median", "timer late, longest"]


def test_lines_go_through_results(tmp_path):
    row = {"metric": "ceiling_rps", "value": 2e5, "lo": 1e5, "hi": 3e5}
    row |= {"n": 5, "level": 0.95, "method": "t"}
    rows = [
        row,
        row | {"metric": "round_trip_s", "value": 2e-5, "lo": np.nan, "hi": np.nan},
        row | {"metric": "switch_s"},  # on no figure
        row | {"metric": "floor_rps", "value": np.nan},
    ]
    records = calibration.line_records(pd.DataFrame(rows))
    folder = tmp_path / "made" / calibration.STUDY
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"lines": records}))
    lines = calibration.lines("made", root=tmp_path)
    assert set(lines) == {"throughput_rps", "response_mean_s"}
    (ceiling,) = lines["throughput_rps"].values()
    assert (ceiling.value, ceiling.lo, ceiling.n) == (2e5, 1e5, 5)
    (trip,) = lines["response_mean_s"].values()
    assert not trip.determined
    limits = [label in calibration.LIMITS for of in lines.values() for label in of]
    assert limits == [True, False]
    assert calibration.lines("none", root=tmp_path) == {}


def test_slices_of_turns_are_rates_and_disturbed_ones_are_left_out():
    columns = {"round": [0, 1, 2], "disturbed": [1], "requests": [10, 20, 30]}
    columns |= {k: [0.1] * 3 for k in ("seconds", "server_cpu_ns", "response_ns")}
    rounds = Rounds({"turns": columns | {"lead_in_requests": [0] * 3}})
    trials = pd.DataFrame({"key": ["a", "b"], "rounds": [rounds, None]})
    slices = calibration.slices_of(trials)
    assert slices["key"].tolist() == ["a", "a"]
    assert slices["window"].tolist() == [0, 2]
    assert slices["throughput_rps"].tolist() == pytest.approx([100, 300])
    none = calibration.slices_of(trials.drop(columns="rounds"))
    assert none.empty
    assert list(none) == list(slices)


@pytest.fixture
def program(tmp_path):
    """A floor that counts how often it was started."""
    path = tmp_path / "floor"
    report = {"thread": {"create_join_ns": [17e3]}, "switch": {"switch_ns": [1.5e3]}}
    report |= {"echo": {"throughput_rps": [None]}}
    text = f"#!/bin/sh\necho x >> {tmp_path}/count\necho '{json.dumps(report)}'\n"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def floor(tmp_path, program, rounds, **options):
    with pytest.MonkeyPatch.context() as patch:
        floors = importlib.import_module("connlab.drive.floor")
        patch.setattr(floors, "_built", lambda: (str(program),))
        where = {"run": "made", "root": tmp_path}
        return drive.floor(calibration.STUDY, rounds=rounds, **where, **options)


def test_a_round_that_is_there_is_not_measured_again(tmp_path, program):
    floor(tmp_path, program, 2)
    path = tmp_path / "made" / calibration.STUDY / "floor.jsonl"
    with path.open("a") as file:
        file.write('{"key": "cut off')
    floor(tmp_path, program, 3)
    assert (tmp_path / "count").read_text().count("x") == 3
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2]
    for changed in ({"duration": 0.2}, {"connections": 20}):
        floor(tmp_path, program, 2, **changed)
        measured = calibration.load_floors("made", root=tmp_path)
        assert set(measured["metric"]) == {"thread_create_s", "switch_s"}
        assert len(measured) == 4


def test_a_floor_that_fails_gives_its_last_words(tmp_path, program):
    program.write_text("#!/bin/sh\necho 'floor: socket: no' >&2\nexit 1\n")
    with pytest.raises(RuntimeError, match="exit 1: floor: socket: no"):
        floor(tmp_path, program, 1)
    with pytest.raises(ValueError, match="rounds: 0"):
        floor(tmp_path, program, 0)
    with pytest.raises(FileNotFoundError, match="make build"):
        floor(tmp_path, tmp_path / "nowhere", 1)


def test_the_ledger_judges_rounds_beside_trials(tmp_path, program):
    made.load(tmp_path, [made.trial(block=b) for b in range(2)])
    (tmp_path / "made" / "response-time").rename(tmp_path / "made" / calibration.STUDY)
    floor(tmp_path, program, 4)
    findings = {j.claim.id: j.finding for j in judge_all("made", root=tmp_path)}
    assert findings["L13"].verdict == "holds"
    assert findings["L13"].effect.value == pytest.approx(17e-6)
