"""Which cells of a sweep take turns, and what a set leaves of each."""

from __future__ import annotations

import json

import pytest

from connlab import drive, schema
from connlab.drive import beside, plan, turns, works
from connlab.study import load


def model(name: str, **facts) -> schema.Model:
    told = {"family": "readiness", "label": name, "holds": "descriptors"} | facts
    return schema.Model(name=name, **told)


MODELS = {
    one.name: one
    for one in (
        model("epoll"),
        model("poll"),
        model("select", holds="fd_setsize"),
        model("iterative", holds="one"),
        model("prefork", holds="workers"),
        model("gone", available=False, reason="no kernel for it"),
    )
}


def sets(cells: list[dict], together=("model",)) -> list[list[str]]:
    """Return the models of each set of one block."""
    slots = plan.round_of(range(len(cells)), number=0, counts=[0] * len(cells), seed=1)
    found = beside.groups(slots, cells, MODELS, beside=together)
    return sorted(sorted(cells[s.cell]["model"] for s in group) for group in found)


def cell(name: str, connections: int = 10, **more) -> dict:
    return {"model": name, "connections": connections, "slice": 20.0, **more}


def test_cells_that_differ_in_the_model_take_turns():
    cells = [cell("epoll", n) for n in (1, 10)] + [cell("poll", n) for n in (1, 10)]
    assert sets(cells) == [["epoll", "poll"], ["epoll", "poll"]]


def test_without_beside_every_cell_is_measured_alone():
    assert sets([cell("epoll"), cell("poll")], ()) == [["epoll"], ["poll"]]


def test_settings_of_the_server_may_differ_too():
    cells = [cell("epoll", workers=n) for n in (1, 2)]
    assert sets(cells) == [["epoll"], ["epoll"]]
    assert sets(cells, ("model", "workers")) == [["epoll", "epoll"]]


@pytest.mark.parametrize(
    "alone",
    [
        cell("gone"),
        cell("iterative"),
        cell("prefork"),
        cell("select", 1500),
        cell("poll", requests=5),
        cell("poll", stall=50),
    ],
)
def test_what_leaves_users_unserved_is_measured_alone(alone):
    others = [{**alone, "model": "epoll"}, {**alone, "model": "poll"}]
    found = sets([alone, *others])
    assert [alone["model"]] in found


@pytest.mark.parametrize(
    "served", [cell("iterative", 1), cell("prefork", workers=10), cell("select", 900)]
)
def test_what_serves_all_takes_turns(served):
    assert len(sets([served, {**served, "model": "epoll"}])) == 1


def test_a_set_has_only_so_many_connections():
    cells = [cell("epoll", 15_000, workers=n) for n in range(5)]
    sizes = [len(group) for group in sets(cells, ("workers",))]
    assert sorted(sizes) == [1, 2, 2]


@pytest.mark.parametrize("name", ["connections", "size", "duration", "cores"])
def test_only_settings_of_the_server_stand_beside_each_other(name):
    with pytest.raises(ValueError, match=f"beside: '{name}'; allowed: arm, model"):
        works.prepare("s", run="r", factors={"model": ["epoll"]}, beside=name)


def test_other_programs_are_what_neither_server_nor_client_used():
    rows = [
        {
            "busy_ns": 2_000_000,
            "steal_ns": 100_000,
            "slice_seconds": 0.001,
            "server_cpu_ns": 800_000,
            "rest_cpu_ns": 100_000,
            "client_cpu_ns": 900_000,
        }
    ] * 10
    assert turns.others_share(rows) == pytest.approx((0.2, 0.1))


def test_companions_are_no_strangers():
    row = dict.fromkeys(("rest_cpu_ns", "steal_ns"), 0)
    row |= {"busy_ns": 3_000_000, "slice_seconds": 0.001}
    row |= {"server_cpu_ns": 1_000_000, "client_cpu_ns": 1_000_000}
    found = turns.others_share([row], companion_cpu_s=0.0008)
    assert found == pytest.approx((0.2, 0.0))


# ---- with the real programs ------------------------------------------------------


def swept(root):
    """Measure three models side by side, or find that they are measured."""
    return drive.sweep(
        "sides",
        run="r",
        factors={"model": ["epoll", "poll", "iterative"], "connections": [4]},
        trials=4,
        duration=0.2,
        warmup=0.06,
        beside="model",
        progress=False,
        root=root,
    )


@pytest.fixture
def measured(client_program, tmp_path):
    """Return a sweep of three models side by side, and its trials."""
    return swept(tmp_path), load("r", "sides", root=tmp_path)


@pytest.mark.serial
def test_servers_take_turns_and_leave_a_line_each(measured):
    report, frame = measured
    assert report.done == 12
    pairs = frame[frame["model"] != "iterative"]
    assert set(pairs["beside"]) == {2}
    assert pairs.groupby("block")["set"].nunique().eq(1).all()
    assert frame.loc[frame["model"] == "iterative", "set"].isna().all()
    # what other programs and a saturated client do is no fault of the driver
    flagged = set(pairs["gates_failed"].dropna())
    assert flagged <= {"quiet", "client", "client, quiet"}, flagged
    for kept in pairs["rounds"]:
        assert len(kept["round"]) == pytest.approx(10, abs=2)
        assert sum(kept["seconds"]) == pytest.approx(0.2, rel=0.3)
    rounds = [tuple(kept["round"]) for kept in pairs["rounds"]]
    assert rounds[0] == rounds[1]


@pytest.mark.serial
def test_the_commands_are_those_that_ran(measured, tmp_path):
    lines = (tmp_path / "r" / "sides" / "trials.jsonl").read_text().splitlines()
    for trial in map(json.loads, lines):
        words = trial["commands"]["client"].split()
        count = trial["turns"]["beside"] if trial["turns"] else 1
        assert words.count("HOST:PORT") == count
        assert ("--slice" in words) is (trial["turns"] is not None)
        asked = float(words[words.index("--duration") + 1])
        assert asked == pytest.approx(0.2 * count)
        assert trial["commands"]["server"].split()[1] == trial["factors"]["model"]


@pytest.mark.serial
def test_columns_agree_with_the_rounds_they_come_from(measured):
    pairs = measured[1].dropna(subset=["set"])
    for row in pairs.to_dict("records"):
        kept = row["rounds"]
        requests, all_of_them = (
            sum(kept["requests"]),
            sum(kept["requests"]) + sum(kept["lead_in_requests"]),
        )
        rate = requests / sum(kept["seconds"])
        assert row["throughput_rps"] == pytest.approx(rate, rel=1e-3)
        cost = sum(kept["server_cpu_ns"]) / 1e9 / all_of_them
        assert row["server_cpu_per_request_s"] == pytest.approx(cost)
        assert row["pss_net_bytes"] >= 0


@pytest.mark.serial
def test_a_sweep_in_turns_is_resumed(measured, tmp_path):
    again = swept(tmp_path)
    assert (again.done, again.resumed) == (0, 12)


def test_a_server_that_does_not_come_up_fails_alone(monkeypatch):
    asked = []

    def run(setting, *, host):
        asked.append([server["model"] for server in setting.servers])
        if "poll" in asked[-1]:
            place = asked[-1].index("poll")
            raise turns.SetError("server poll: no", kind="server-start", server=place)
        raise turns.SetError("client: hung", kind="client-hung")

    monkeypatch.setattr(turns, "run", run)
    setting = type(
        "Setting",
        (),
        {
            "factors": {"duration": 1.0, "warmup": 0.1, "slice": 20.0},
            "seed": 1,
            "cores": None,
            "programs": None,
        },
    )
    cells = [cell("epoll"), cell("poll")]
    made = beside.run(cells, setting, models=MODELS, host=None)
    assert asked == [["epoll", "poll"], ["epoll"]]
    assert [one.failure.kind for one in made] == ["client-hung", "server-start"]
