"""Study 15: names, the published table, and servers that run at an address."""

import socket

import notebook_rules as rules
import pandas as pd
import pytest
from conftest import linked

from connlab.drive import servers
from connlab.studies import winsock
from tests.client.harness import started

KIN = {"winsock-iocp": "uring", "winsock-blocking": "thread-pair"}


def side_by_side(kin: dict[str, str]) -> pd.DataFrame:
    """Return the table in which each model is printed as its own name."""
    rows = [(m, n, m) for m in (*kin, *KIN.values()) for n in winsock.CLIENTS]
    names = pd.DataFrame(rows, columns=[*winsock.ROWS, "threads"])
    names = names.set_index(winsock.ROWS)
    return winsock.side_by_side(names, kin, {"threads": "threads"})


def test_a_models_name_is_one_under_wine_unless_there_is_an_entry_of_it():
    entries = {"winsock-iocp": 1, "windows-iocp": 2}
    names = winsock.named(["iocp", "windows-iocp"], entries)
    assert names == ["winsock-iocp", "windows-iocp"]
    assert [winsock.system(name) for name in names] == ["Wine", "Windows"]
    assert winsock.system("uring") == "Linux"


@pytest.mark.parametrize(
    ("model", "climbs"), [("select", True), ("winsock-select", True), ("iocp", False)]
)
def test_select_climbs_with_64_sockets_too_by_whichever_name(model, climbs):
    """By that of its entry it did not."""
    made = rules.execute("15-winsock", "cell-04", "cell-05", models=[model])
    servers_of = [name for grid in made["ramp"] for name in grid["model"]]
    assert ("winsock-select-64" in servers_of) == climbs


def test_under_wine_alone_there_is_a_column_of_wine():
    table = side_by_side(KIN)
    heads = ["threads, printed", "threads, Wine", "threads, Linux"]
    assert list(table) == [*winsock.ROWS, *heads]
    assert table["threads, printed"].tolist() == ["2", "2", "2016", "2016"]
    assert table["threads, Wine"].tolist() == [m for m in KIN for _ in range(2)]
    assert table["threads, Linux"].tolist() == [k for k in KIN.values() for _ in "12"]


def test_what_ran_on_windows_stands_in_a_column_of_its_own():
    table = side_by_side(KIN | {"windows-iocp": "uring"})
    assert list(table["threads, Windows"].dropna()) == ["windows-iocp"] * 2
    assert list(table["threads, Wine"].dropna()) == [m for m in KIN for _ in "12"]
    assert table["threads, printed"].tolist()[-2:] == ["2", "2"]


def test_where_only_the_ramp_was_measured_the_published_numbers_stand_alone(cells):
    """The ramp comes first, and a budget may end before all else."""
    columns = ["model", "clients", "connections", "threads", "pss_net_bytes", "label"]
    columns += ["server_cpu_share", "received_per_s", "bytes_per_s", "established"]
    columns += ["attempted", "byte_rate", "accepted", "ok", "reason", "key"]
    nothing = pd.DataFrame(columns=columns).astype({"ok": bool, "byte_rate": float})
    about = {"kin": {"winsock-iocp": "uring"}, "names": {"winsock-iocp": "ports"}}
    _, results = cells("15-winsock", "cell-13", "cell-14", bulk=nothing, **about)
    (table,) = results["tables"]
    printed = ["7000 of 7000", "12000 of 12000"]
    assert [row[2] for row in table["rows"]] == printed
    assert {word for row in table["rows"] for word in row[3:5]} == {"—"}


def test_a_model_on_windows_has_the_bound_of_its_api():
    atlas = pd.DataFrame({"model": ["windows-iocp"], "carried": [7]})
    trials = pd.DataFrame({"model": [], "connections": [], "threads": []})
    ends = winsock.ends(atlas, trials)
    assert ends["bound"].tolist() == [winsock.BOUNDS["winsock-iocp"]]
    assert ends["threads"].isna().all()


def test_a_connection_that_waits_in_the_kernels_queue_is_not_held():
    counts = {"established": [2000, 50, 50], "surviving": [1990, 50, 50]}
    frame = pd.DataFrame(counts | {"accepted": [1647, 51, None]}, dtype="Int64")
    accepted = winsock.as_accepted(frame)
    assert accepted["established"].tolist() == [1647, 50, 50]
    assert accepted["surviving"].tolist() == [1647, 50, 50]
    assert accepted["accepted"].isna().tolist() == [False, False, True]


def test_a_window_that_may_hold_the_start_of_threads_is_marked():
    rows = [
        ("winsock-blocking", 1000, 2000, 1, True),  # half a second of threads or more
        ("winsock-blocking", 927, 1854, 1, True),
        ("winsock-iocp", 990, 2, 1, True),  # still accepting
        ("winsock-iocp", 1000, 2, 1, False),
        ("thread-pair", 1000, 2000, 1, False),
        ("winsock-blocking", 1000, 2000, None, False),  # counted when all is warm
        ("windows-iocp", None, None, 1, False),
    ]
    columns = ["model", "accepted", "threads", "byte_rate", "marked"]
    frame = pd.DataFrame(rows, columns=columns).assign(connections=1000)
    frame = frame.astype({"accepted": "Int64", "threads": "Int64"})
    assert winsock.starting(frame).tolist() == frame["marked"].tolist()
    assert winsock.starting(frame.iloc[:0]).empty


ENTRY = """
[windows-iocp]
label = "completion ports (Windows)"
family = "completion"
nearest = "uring"
language = "C"
at = "127.0.0.3:{port}"
"""


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_the_notebook_takes_a_server_at_an_address(tmp_path, monkeypatch):
    """A server of ours stands in for the one on Windows."""
    with socket.create_server(("127.0.0.3", 0)) as free:
        port = free.getsockname()[1]
    home = linked(tmp_path / "home", but=(servers.FILE, "runs"))
    (home / servers.FILE).write_text(ENTRY.format(port=port))
    monkeypatch.setenv("CONNLAB_HOME", str(home))
    program = rules.ROOT / "build/server"
    flags = ("epoll", "--listen", f"127.0.0.3:{port}")
    options = {"models": "[windows-iocp]", "connections": "[4]", "byte_rate": 0}
    options |= {"active": 4, "idle": "[0, 4]", "ladder": "[4, 8]", "trials": 4}
    options |= {"duration": 0.1, "warmup": 0.05, "accept": "[quiet]"}
    with started(program, *flags) as (server, _):
        results = rules.run("15-winsock", tmp_path, **options)
        assert server.poll() is None
    assert results["answer"].startswith("On Windows, 1 of 1 ")
    assert any("not measured" in note for note in results["notes"])
    tables = {table["id"]: table for table in results["tables"]}
    table = tables["tbl-winsock-holding"]
    heads = [column["name"].split(", ") for column in table["columns"][2:5]]
    assert heads == [["connected", x] for x in ("printed", "Windows", "Linux")]
    (row, _rate_limited) = table["rows"]
    assert row[3] == "4 of 4"
    assert row[6] == "—"  # its threads: nobody saw any
    cells = pd.read_csv(tmp_path / "runs/t/winsock/cells.csv")
    measured = cells[(cells["model"] == "windows-iocp") & cells["value"].notna()]
    assert {"bytes_per_s", "carried"} <= set(measured["metric"])
    unseen = {"server_cpu_share", "pss_net_bytes", "threads"}
    assert unseen.isdisjoint(measured["metric"])
