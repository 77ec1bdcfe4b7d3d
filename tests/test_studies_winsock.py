"""Study 15: names, the published table, and servers that run at an address."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import notebook_rules as rules
import pandas as pd
import pytest

from connlab.drive import servers
from connlab.studies import winsock

KIN = {"winsock-iocp": "uring", "winsock-blocking": "thread-pair"}


def here(*models: str) -> pd.DataFrame:
    """Return a text for each model and kind of clients, its own name."""
    rows = [(model, clients, model) for model in models for clients in winsock.CLIENTS]
    return pd.DataFrame(rows, columns=[*winsock.ROWS, "threads"]).set_index(
        winsock.ROWS
    )


def test_a_models_name_is_one_under_wine_unless_there_is_an_entry_of_it():
    known = {"winsock-iocp": 1, "windows-iocp": 2}
    found = winsock.named(["iocp", "windows-iocp"], known)
    assert found == ["winsock-iocp", "windows-iocp"]
    assert [winsock.system(name) for name in found] == ["Wine", "Windows"]
    assert winsock.system("uring") == "Linux"


def test_under_wine_alone_there_is_a_column_of_wine():
    table = winsock.side_by_side(here(*KIN, *KIN.values()), KIN, {"threads": "threads"})
    heads = ["threads, printed", "threads, Wine", "threads, Linux"]
    assert list(table) == [*winsock.ROWS, *heads]
    assert table["threads, printed"].tolist() == ["2", "2", "2016", "2016"]
    assert table["threads, Wine"].tolist() == [m for m in KIN for _ in range(2)]
    assert table["threads, Linux"].tolist() == [k for k in KIN.values() for _ in "12"]


def test_what_ran_on_windows_stands_in_a_column_of_its_own():
    kin = KIN | {"windows-iocp": "uring"}
    table = winsock.side_by_side(here(*kin, *KIN.values()), kin, {"threads": "threads"})
    assert list(table["threads, Windows"].dropna()) == ["windows-iocp"] * 2
    assert list(table["threads, Wine"].dropna()) == [m for m in KIN for _ in "12"]
    assert table["threads, printed"].tolist()[-2:] == ["2", "2"]


def test_a_model_on_windows_has_the_bound_of_its_api():
    atlas = pd.DataFrame({"model": ["windows-iocp"], "carried": [7]})
    trials = pd.DataFrame({"model": [], "connections": [], "threads": []})
    found = winsock.ends(atlas, trials)
    assert found["bound"].tolist() == [winsock.BOUNDS["winsock-iocp"]]
    assert found["threads"].isna().all()


def test_a_connection_that_waits_in_the_kernels_queue_is_not_held():
    counts = {"established": [2000, 50, 50], "surviving": [1990, 50, 50]}
    frame = pd.DataFrame(counts | {"accepted": [1647, 51, None]}, dtype="Int64")
    held = winsock.as_accepted(frame)
    assert held["established"].tolist() == [1647, 50, 50]
    assert held["surviving"].tolist() == [1647, 50, 50]
    assert held["accepted"].isna().tolist() == [False, False, True]


ENTRY = """
[windows-iocp]
label = "completion ports (Windows)"
family = "completion"
nearest = "uring"
language = "C"
at = "127.0.0.3:{port}"
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """Return the project's folder with a ``servers.toml`` of its own."""
    made = tmp_path / "home"
    made.mkdir()
    for path in rules.ROOT.iterdir():
        if path.name not in (servers.FILE, "runs"):
            (made / path.name).symlink_to(path)
    monkeypatch.setenv("CONNLAB_HOME", str(made))
    return made


@pytest.mark.long
@pytest.mark.serial
@pytest.mark.skipif(not rules.BUILT, reason="needs the programs in build")
def test_the_notebook_takes_a_server_at_an_address(home, tmp_path):
    """A server of ours stands in for the one on Windows."""
    with socket.create_server(("127.0.0.3", 0)) as free:
        port = free.getsockname()[1]
    (home / servers.FILE).write_text(ENTRY.format(port=port))
    argv = [rules.ROOT / "build/server", "epoll", "--listen", f"127.0.0.3:{port}"]
    given = {"models": "[windows-iocp]", "connections": "[4]", "byte_rate": 0}
    given |= {"active": 4, "idle": "[0, 4]", "ladder": "[4, 8]", "trials": 4}
    given |= {"duration": 0.1, "warmup": 0.05, "accept": "[quiet]"}
    notebook = rules.ROOT / "notebooks" / "15-winsock.ipynb"
    with ExitStack() as stack:
        server = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE))
        stack.callback(server.kill)
        server.stdout.readline()
        found = rules.run(notebook, tmp_path, "winsock", **given)
        assert server.poll() is None
    assert found["answer"].startswith("On Windows, 1 of 1 models carried all")
    assert any("were not measured" in note for note in found["notes"])
    tables = {table["id"]: table for table in found["tables"]}
    heads = [column["name"] for column in tables["tbl-winsock-holding"]["columns"]]
    assert heads[2:5] == [
        "connected, printed",
        "connected, Windows",
        "connected, Linux",
    ]
    (row, _rate_limited) = tables["tbl-winsock-holding"]["rows"]
    assert row[3] == "4 of 4"
    assert row[6] == "—"  # its threads: nobody saw any
    cells = pd.read_csv(tmp_path / "runs/t/winsock/cells.csv")
    there = cells[(cells["model"] == "windows-iocp") & cells["value"].notna()]
    assert {"bytes_per_s", "carried"} <= set(there["metric"])
    assert not {"server_cpu_share", "pss_net_bytes", "threads"} & set(there["metric"])
    assert json.dumps(found)
