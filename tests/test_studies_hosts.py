"""Places of clients, and what follows for links and crowds."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from connlab.hosts import places
from connlab.studies import hosts


@pytest.mark.parametrize(
    ("count", "name"), [(0, "loopback"), (1, "1 host"), (2, "2 hosts")]
)
def test_places_have_names(count, name):
    assert places.name(count) == name


def test_a_place_needs_as_many_hosts_as_there_are():
    roster = SimpleNamespace(clients=("b",), server="a")
    with pytest.raises(ValueError, match="2; allowed: 0 to 1"):
        places._places(SimpleNamespace(roster=roster), [0, 2])


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


def test_models_that_turn_are_marked():
    words = pd.DataFrame([["lower", "higher"], ["lower", "undetermined"]])
    assert hosts.turned(words).tolist() == [True, False]


def test_a_product_keeps_the_width_of_its_interval():
    cell = {"metric": "s", "value": 2.0, "lo": 1.0, "hi": 4.0, "n": 5, "unit": "s"}
    product = hosts.times(pd.DataFrame([cell]), 3, metric="cores", unit="1")
    assert product.to_dict("records") == [
        {"metric": "cores", "value": 6, "lo": 3, "hi": 12, "n": 5, "unit": "1"}
    ]


def test_room_is_that_of_the_run(tmp_path):
    (tmp_path / "r").mkdir()
    machine = {"sysctls": {"net.ipv4.ip_local_port_range": "1000 1999"}}
    machine |= {"limits": {"descriptors": {"hard": 500}}}
    environments = {"x": {}, "y": {"stand_in": True}}
    manifest = {"machine": machine, "environments": environments}
    (tmp_path / "r" / "manifest.json").write_text(json.dumps(manifest))
    assert hosts.limits("r", root=tmp_path) == {"ports": 1000, "descriptors": 500}
    assert hosts.on_one_machine("r", root=tmp_path)
