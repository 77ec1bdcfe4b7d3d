"""The schema: unique columns, paths that exist, and one row per trial."""

import json

import numpy as np
import pandas as pd
import pytest
import study_made as made
from pydantic import ValidationError

from connlab import schema
from connlab.rounds import Rounds
from connlab.schema.derived import DERIVED


def _trial(**changes) -> dict:
    trial = made.trial("epoll", 100)
    server, client = trial["server"], trial["client"]
    trial["factors"] |= {"size": 64, "novel": 5}
    server["stats"] = {"refused": {"descriptors": 2}, "refused_total": 2}
    server["samples"] |= {"window_s": 2.0, "cpu_user_s": 0.5, "cpu_system_s": 1.0}
    server["samples"] |= {"pss_bytes": 3000, "pss_baseline_bytes": 1000}
    client["window"] |= {"requests": 1000, "throughput_rps": 1000.0}
    client["response"] |= {"n": 1000, "p50_ns": 2_000_000}
    client["errors"] = {"reset": 1, "closed": 2}
    client["self"] = {"cpu_user_s": 0.1, "cpu_system_s": 0.2}
    return trial | changes


def test_flatten_gives_si_units_and_derived_figures():
    row = schema.flatten(_trial())
    numbers = {
        "response_p50_s": 0.002,
        "server_cpu_s": 1.5,
        "server_cpu_share": 0.75,
        "server_cpu_per_request_s": 1.5 / 2000,
        "client_cpu_s": 0.3,
        "pss_net_bytes": 2000,
        "pss_per_connection_bytes": 20,
        "errors_total": 3,
        "novel": 5,
    }
    assert {name: row[name] for name in numbers} == pytest.approx(numbers)
    words = [row[name] for name in ("refused_reason", "family", "size")]
    assert words == ["descriptors", "readiness", "64"]
    assert row["ok"] is True


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ({"threads": 0, "memory": 0}, None),
        ({"threads": 1, "memory": 2, "stopping": 3}, "memory"),
        ({"threads": 0, "stopping": 3}, None),
        ({}, None),
    ],
)
def test_the_limit_that_refused_most_is_no_stop(refused, reason):
    trial = {"server": {"stats": {"refused": refused}}}
    assert schema.refused_reason(trial) == reason


@pytest.mark.parametrize(
    ("cores", "threads", "workers", "workers_each", "share"),
    [
        (2, 3, None, 0, 0.375),
        (2, 3, 0, 0, 0.375),
        (2, 3, 2, 0, 0.375),
        (2, 2, 1, 0, 0.75),
        (2, 3, 1, 2, 0.375),
        (1, 3, 2, 0, 0.75),
    ],
)
def test_the_servers_share_is_of_the_cores_that_its_workers_could_use(
    cores, threads, workers, workers_each, share
):
    trial = _trial(cores={"server": list(range(cores)), "client": [9], "shared": False})
    trial["server"]["model"]["workers_each"] = workers_each
    trial["server"]["stats"]["workers_started"] = workers
    trial["server"]["samples"]["threads_max"] = threads
    assert schema.flatten(trial)["server_cpu_share"] == pytest.approx(share)


@pytest.mark.parametrize(
    ("workers_each", "share"), [(0, 0.75), (1, 0.75 / 4), (2, 0.75 / 4)]
)
def test_threads_that_serve_a_client_each_count_even_where_nobody_saw_them(
    workers_each, share
):
    """Of 20 clients that come anew in each turn there is none between two turns."""
    trial = _trial(cores={"server": [0, 1, 2, 3], "client": [9], "shared": False})
    trial["server"]["model"]["workers_each"] = workers_each
    trial["server"]["stats"] |= {"workers_started": 5000, "open_max": 20}
    trial["server"]["samples"]["threads_max"] = 1
    assert schema.flatten(trial)["server_cpu_share"] == pytest.approx(share)


def in_turns(factors: dict, *, loop: str = "closed", **more) -> dict:
    """Return a trial of three slices of 20 ms, of which others disturbed the second."""
    kept = {"round": [4, 5, 6], "disturbed": [5], "lead_in_ms": 1.0, "pause_ms": None}
    kept |= {"requests": [38, 5, 38], "lead_in_requests": [4, 0, 4]}
    kept |= {"seconds": [0.019] * 3, "server_cpu_ns": [8_000_000, 9_000_000, 8_000_000]}
    kept |= {"rest_cpu_ns": [2_000_000, 0, 2_000_000], "response_ns": [0] * 3}
    trial = _trial(turns=kept | more)
    trial["factors"] = factors
    trial["client"] |= {"loop": loop, "active": factors.get("active")}
    trial["client"]["connections"]["established"] = factors["connections"]
    trial["client"]["window"] |= {"requests": 81, "bytes": 8100, "seconds": 0.057}
    return trial


def test_slices_last_as_long_as_their_lead_ins_as_well():
    kept = in_turns(ECHO)["turns"] | {"beside": 2, "slice_ms": 20.0}
    assert schema.Turns(**kept).slices_s == pytest.approx(0.06)


ECHO = {"workload": "echo", "connections": 50, "size": 64}


@pytest.mark.parametrize(
    ("factors", "loop", "whole"),
    [
        (ECHO, "closed", False),
        (ECHO | {"connections": 100}, "closed", False),
        (ECHO | {"connections": 101}, "closed", True),
        (ECHO | {"connections": 1000, "active": 50}, "closed", False),
        (ECHO | {"size": 65536}, "closed", True),
        (ECHO | {"size": "16-1024"}, "closed", False),
        (ECHO | {"size": [16, 65536]}, "closed", True),
        (ECHO | {"workload": "work", "delay": "fixed:5ms"}, "closed", True),
        (ECHO | {"workload": "http"}, "closed", True),
        (ECHO | {"connections": 1000, "rate": 100.0}, "open", False),
        (ECHO | {"connections": 1000, "think": "fixed:1s"}, "closed", False),
    ],
)
def test_a_rate_is_of_whole_slices_where_answers_outlast_the_lead_in(
    factors, loop, whole
):
    row = schema.flatten(in_turns(factors, loop=loop))
    rate = 84 / 0.040 if whole else 76 / 0.038
    assert row["throughput_rps"] == pytest.approx(rate)
    assert row["bytes_per_s"] == pytest.approx(100 * rate)


@pytest.mark.parametrize(
    ("size", "largest"),
    [
        (None, 0),
        (64, 64),
        ("64.0", 64),  # as the client takes it
        ("1e3", 1000),
        ("16-1024", 1024),
        ([16, 65536], 65536),
        ("0x40", 0),
        ("nan", 0),
        ("", 0),
        ([], 0),
    ],
)
def test_the_largest_message_is_0_where_its_size_is_no_number(size, largest):
    """Reading such a trial raised ValueError; to a sweep it was 0 already."""
    trial = in_turns(ECHO | {"size": size})
    assert schema.largest_message(trial["factors"]) == largest
    assert schema.counts_whole_slices(trial) == (largest > 1024)


@pytest.mark.parametrize(
    ("seconds", "response_ns"),
    [
        (0.019, 0),  # not summed
        (0.019, 20_000_000),
        (0.020, 20_000_000),  # the answer under way at the lead-in's end counts whole
    ],
)
def test_with_one_slow_answer_at_a_time_its_rate_is_right(seconds, response_ns):
    """Four answers of 5 ms in 20 ms, none of them in the lead-in."""
    work = {"workload": "work", "connections": 1, "delay": "fixed:5ms"}
    slow = {"requests": [4] * 3, "lead_in_requests": [0] * 3}
    slow |= {"seconds": [seconds] * 3, "response_ns": [response_ns] * 3}
    trial = in_turns(work, **slow)
    assert schema.flatten(trial)["throughput_rps"] == pytest.approx(200)
    rates = np.exp(Rounds(trial).logs["throughput_rps"])
    assert rates[[0, 2]] == pytest.approx(200)


def test_rounds_that_others_disturbed_are_in_no_mean():
    row = schema.flatten(in_turns(ECHO, response_p99_ns=[2e6, 9e9, 4e6]))
    assert row["slice_p99_s"] == pytest.approx(0.003)
    assert row["server_cpu_per_request_s"] == pytest.approx(16e-3 / 84)
    assert row["rest_cpu_share"] == pytest.approx(0.2)
    whole = schema.flatten(in_turns(ECHO, disturbed=[4, 5, 6]))
    assert whole["throughput_rps"] == 1000.0  # as the client reports it
    before = in_turns(ECHO)
    del before["turns"]["rest_cpu_ns"]
    assert schema.flatten(before)["rest_cpu_share"] is None


@pytest.mark.parametrize(
    ("asked", "usual", "warmed"), [(None, 5, 5), (0, 5, 0), (2, None, 2), (None,) * 3]
)
def test_how_long_a_server_was_warmed_up_is_known(asked, usual, warmed):
    trial = in_turns(ECHO | {"warm_up": asked})
    trial["server"]["model"] = {"name": "netty"} | ({"warm_up": usual} if usual else {})
    assert schema.flatten(trial)["warmed_s"] == warmed
    del trial["turns"]
    assert schema.flatten(trial)["warmed_s"] is None


@pytest.mark.parametrize(
    ("first", "warmed", "asked_s", "skipped"),
    [
        (0, 0, 0.1, {0, 1}),
        (0, 0, None, {1}),  # none was asked for
        (0, 3, 0.1, {1}),
        (5, 0, 0.1, {6}),
    ],
)
def test_a_first_round_that_was_to_be_warm_up_counts_nowhere(
    first, warmed, asked_s, skipped
):
    kept = {"round": [first, first + 1, first + 2], "disturbed": [first + 1]}
    trial = in_turns(ECHO | {"warmup": asked_s}, **kept)
    trial["turns"]["requests"] = [19, 5, 38]
    trial["client"]["slices"] = {"warmup": warmed}
    assert schema.skipped_rounds(trial) == skipped
    rate = 2000 if 0 in skipped else 57 / 0.038
    assert schema.flatten(trial)["throughput_rps"] == pytest.approx(rate)
    logs = Rounds(trial).logs["throughput_rps"]
    counted = [n not in skipped for n in kept["round"]]
    assert np.isfinite(logs).tolist() == counted


def test_an_only_round_counts_without_warm_up():
    trial = in_turns(ECHO | {"warmup": 0.1}, round=[0, 1, 2], disturbed=[1, 2])
    trial["client"]["slices"] = {"warmup": 0}
    assert schema.counted_rounds(trial, "requests") == [38]


@pytest.mark.parametrize(
    ("holds", "per_connection", "requests"),
    [("descriptors", 0, 84), ("descriptors", 1, 84), ("processes", 1, 126)],
)
def test_a_slice_after_which_the_clock_stood_still_has_no_cpu_time(
    holds, per_connection, requests
):
    """Its time is in the rest before the next one; but a tick may have had none."""
    spent = {"server_cpu_ns": [8_000_000, 0, 8_000_000], "requests": [38, 42, 38]}
    trial = in_turns(ECHO | {"requests_per_connection": per_connection}, **spent)
    trial["turns"]["disturbed"] = []
    trial["server"]["model"]["holds"] = holds
    cost_s = schema.flatten(trial)["server_cpu_per_request_s"]
    assert cost_s == pytest.approx(16e-3 / requests)


def test_threads_of_one_physical_core_are_marked():
    assert schema.flatten(_trial())["cores_siblings"] is None
    sets = {"server": [0], "client": [1], "shared": False, "siblings": True}
    assert schema.flatten(_trial(cores=sets))["cores_siblings"] is True


def test_a_failed_gate_or_a_failure_is_not_ok():
    failed = schema.flatten(_trial(gates={"census": {"ok": False}}))
    assert (failed["ok"], failed["gates_failed"]) == (False, "census")
    failure = {"kind": "server-died", "reason": "signal 9"}
    dead = schema.flatten(_trial(client=None, failure=failure))
    assert (dead["ok"], dead["failure"]) == (False, "server-died: signal 9")
    assert dead["throughput_rps"] is dead["established"] is None


def test_a_trial_survives_the_way_to_disk_with_keys_of_newer_programs():
    trial = schema.Trial.model_validate(_trial(future={"x": 1}))
    line = trial.model_dump_json(by_alias=True)
    assert "\n" not in line
    back = json.loads(line)
    assert back["schema"] == 1
    assert back["future"] == {"x": 1}
    assert back["client"]["self"]["cpu_user_s"] == 0.1
    assert schema.Trial.model_validate(back) == trial


def test_facts_are_frozen_and_checked():
    trial = schema.Trial.model_validate(_trial())
    with pytest.raises(ValidationError):
        trial.block = 2
    with pytest.raises(ValidationError):
        schema.Trial.model_validate(_trial(block="three"))


def test_a_relative_root_counts_from_the_project(tmp_path, monkeypatch):
    monkeypatch.setenv("CONNLAB_HOME", str(tmp_path))
    assert schema.study_folder("n", "s") == tmp_path / "runs" / "n" / "s"
    assert schema.run_folder("n", root="/r").as_posix() == "/r/n"


def test_no_request_has_no_busiest_worker():
    column = next(c for c in schema.COLUMNS if c.name == "busiest_worker")

    def share(counts):
        trial = {"server": {"stats": {"requests_per_worker": counts}}}
        return schema.value_of(column, trial)

    assert share([30, 10]) == 1.5
    assert share([0, 0]) is None
    assert schema.value_of(column, {}) is None


@pytest.mark.parametrize(("unanswered", "valid"), [(1, True), (11, False), (0, True)])
def test_a_mean_without_those_who_waited_longest_is_none(unanswered, valid):
    """Left out, the requests that got no answer would make a server look faster."""
    client = {
        "connections": {"asked": 1},
        "window": {"arrivals": 10_000, "unanswered": unanswered, "seconds": 1.0},
        "response": {"n": 9_000, "mean_ns": 1e6, "max_ns": 9e6, "p50_ns": 8e5},
        "service": {"n": 9_000, "mean_ns": 1e6},
    }
    flat = schema.flatten(_trial(client=client))
    assert (flat["response_mean_s"] is not None) is valid
    assert (flat["response_max_s"] is not None) is valid
    assert flat["response_p50_s"] == pytest.approx(8e-4)
    assert flat["service_mean_s"] == pytest.approx(1e-3)


def test_each_column_is_declared_once_with_type_meaning_and_place():
    names = [column.name for column in schema.COLUMNS]
    assert len(names) == len(set(names))
    assert set(DERIVED) <= set(names)
    assert {column.better for column in schema.COLUMNS} <= {"higher", "lower", ""}
    assert all(column.description and column.path for column in schema.COLUMNS)
    for dtype in {column.dtype for column in schema.COLUMNS}:
        pd.Series([None], dtype=dtype)
