"""Places of clients, and what follows for links and crowds."""

import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import notebook_rules as rules
import pandas as pd
import pytest

from connlab.hosts import places
from connlab.report import Report
from connlab.studies import hosts
from connlab.study.frames import NoTrials, as_trials


@pytest.mark.parametrize(
    ("count", "name"), [(0, "loopback"), (1, "1 host"), (2, "2 hosts")]
)
def test_places_have_names(count, name):
    assert places.name(count) == name


def test_a_place_needs_as_many_hosts_as_there_are():
    roster = SimpleNamespace(clients=("b",), server="a")
    with pytest.raises(ValueError, match="2; allowed: 0 to 1"):
        places._places(SimpleNamespace(roster=roster), [0, 2])


@pytest.mark.parametrize(
    ("clients", "counts"),
    [(None, [0, 1, 4]), (5, [0, 1, 4]), (2, [0, 1, 2]), (1, [0, 1])],
)
def test_a_profile_may_ask_for_more_hosts_than_there_are(monkeypatch, clients, counts):
    """The full profile failed where hosts.toml has fewer than four clients."""
    roster = SimpleNamespace(clients=tuple("bcdefg"[: clients or 0]))
    monkeypatch.setattr(places.rosters, "load_configured", lambda path: roster)
    found = Path("hosts.toml") if clients else None
    monkeypatch.setattr(places.hosts_asked, "roster", lambda: found)
    assert places.reachable([0, 1, 4]) == counts


def test_on_loopback_the_servers_host_says_which_cores_are_threads_of_one(monkeypatch):
    """And not the machine that asks, whose core 1 may have no second thread."""
    physical = {0: 0, 3: 0, 1: 1, 4: 1, 2: 2, 5: 2}
    facts = {"cores": list(physical), "physical": physical}
    made = SimpleNamespace(cores=(), facts=facts)
    monkeypatch.setattr(places, "RemoteHost", lambda engine, name: made)
    monkeypatch.setattr(places, "RemoteHosts", lambda *_, **options: options)
    roster = SimpleNamespace(clients=("b",), server="a")
    found = places._places(SimpleNamespace(roster=roster), [0, 1])
    sets = [found[f"{side}_cores"] for side in ("server", "client")]
    assert sorted(core for cores in sets for core in cores) == list(range(6))
    used = [{physical[core] for core in cores} for cores in sets]
    assert used[0].isdisjoint(used[1])


def test_a_run_without_this_study_is_evaluated_and_says_so():
    """It was made without root, so its notebook ended at once; that one failed."""
    drive, study, missing = Mock(), Mock(), Mock(side_effect=SystemExit)
    study.load.side_effect = NoTrials("run 'none' has no study 'hosts'")
    names = {"drive": drive, "study": study, "not_measured": missing}
    names |= {"question": "?", "measure": False}
    ids = ("cell-04", "cell-05", "cell-06", "cell-08")
    with pytest.raises(SystemExit):
        rules.execute("14-hosts", *ids, **names)
    assert missing.call_args.kwargs["reason"] == "this run holds no trials"


def test_a_link_is_full_of_frames():
    assert hosts.messages_per_s(8 * 1000, 10) == pytest.approx(10)
    bits = hosts.messages_per_s(10e9, 64) * (64 + hosts.AROUND) * 8
    assert bits == pytest.approx(10e9)
    # 65536 bytes are 45 whole segments and a part of one
    many = hosts.messages_per_s(8e9, 65536)
    assert many == pytest.approx(1e9 / (65536 + 46 * hosts.AROUND))


@pytest.mark.parametrize(
    ("connections", "most_each", "least"),
    [(9, 3, 3), (10, 3, 4), (1, 3, 1), (9, None, 1)],
)
def test_the_fewest_that_hold_all(connections, most_each, least):
    assert hosts.units_needed(connections, most_each) == least


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([["lower", "lower"], ["higher", "alike"]], True),
        ([["lower", "higher"], ["undetermined", "undetermined"]], False),
        # what is unknown in one place may turn there
        ([["lower", "lower"], ["higher", "undetermined"]], None),
        ([["undetermined", "undetermined"]], None),
        ([["lower", None]], None),
        ([["lower"], ["higher"]], None),
        ([], None),
    ],
)
def test_no_model_turns_where_each_is_known_in_every_place(words, answer):
    assert hosts.none_turns(pd.DataFrame(words)) is answer


def test_a_product_keeps_the_width_of_its_interval():
    cell = {"model": "epoll", "metric": "s", "value": 2.0, "lo": 1.0, "hi": 4.0, "n": 5}
    memory = pd.DataFrame({"model": ["epoll"] * 4, "server_bytes": range(4, 8)})
    silence = Mock(held=lambda *_, **__: as_trials(memory.assign(kernel_bytes=1)))
    report = Mock(spec=Report)
    names = {"cost": pd.DataFrame([cell]), "report": report, "silence": silence}
    rate = rules.execute("14-hosts", "cell-24", **names)["messages_per_s"]
    cores, held = (c.args[0].iloc[0] for c in report.cells.mock_calls)
    assert cores[["value", "lo", "hi"]].tolist() == [2 * rate, rate, 4 * rate]
    assert (cores["metric"], cores["unit"], cores["n"]) == ("cores_for_10g", "1", 5)
    assert (held["metric"], held["unit"]) == ("memory_for_million", "bytes")
    assert held["lo"] < 6e6 < held["value"] < 7e6 < held["hi"]


def of_crowds(tmp_path: Path, crowded: pd.DataFrame) -> dict:
    """Run the cell about crowds in a run that has a manifest."""
    (tmp_path / "r").mkdir()
    machine = {"sysctls": {"net.ipv4.ip_local_port_range": "1000 1999"}}
    machine |= {"limits": {"descriptors": {"hard": 500}}}
    (tmp_path / "r" / "manifest.json").write_text(json.dumps({"machine": machine}))
    names = {"crowded": crowded, "report": Mock(spec=Report)}
    names |= {"run": "r", "root": tmp_path}
    return rules.execute("14-hosts", "cell-22", **names)


def test_room_is_that_of_the_run(tmp_path):
    columns = ["arm", "connections", "established", "failure"]
    found = of_crowds(tmp_path, pd.DataFrame(columns=columns))["limits"]
    assert found == {"ports": 1000, "descriptors": 500}


@pytest.mark.parametrize(
    ("opened", "failures", "told"),
    [
        ([9, 9], [None, None], ["9", None]),
        ([9, 7], [None, None], ["7 to 9", None]),
        ([9, None], [None, "client-failed: x"], ["9", "client-failed: x"]),
        ([None, None], ["client-hung: x"] * 2, [None, "client-hung: x"]),
        ([9, 9], ["no-requests: x", None], ["9", None]),  # all were opened
    ],
)
def test_of_the_trials_of_a_crowd_none_is_chosen(tmp_path, opened, failures, told):
    crowded = pd.DataFrame({"arm": ["1 host"] * 2, "connections": 10})
    crowded["established"] = pd.array(opened, dtype="Int64")
    crowded["failure"] = pd.array(failures, dtype="string")
    report = of_crowds(tmp_path, crowded)["report"]
    (call,) = report.table.mock_calls
    (row,) = call.args[1].to_dict("records")
    assert (row["place"], row["connections"]) == ("1 host", 10)
    assert [None if pd.isna(row[k]) else row[k] for k in ("opened", "failed")] == told
