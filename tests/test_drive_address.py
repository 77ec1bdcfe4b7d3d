"""connlab.drive.address: servers that run already; nobody starts or sees them."""

import contextlib
import errno
import json
import os
import re
import selectors
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest
from conftest import ROOT, connlab
from drive_fakes import rows, trials_of

from connlab import runtimes, schema, study
from connlab.drive import address, programs, servers
from connlab.intervals import intervals, ratios
from connlab.judge import judging
from connlab.studies import winsock
from tests.client.harness import started

HOST = "127.0.0.2"
#: gates that a busy machine fails, whatever the server is
OF_TIME = ["quiet", "stationary", "little", "client", "response_times"]


@contextlib.contextmanager
def running() -> Iterator[tuple[subprocess.Popen, str]]:
    """Run a server as somebody by hand would; yield it and its name for connlab."""
    flags = ("epoll", "--listen", f"{HOST}:0")
    with started(ROOT / "build/server", *flags) as (process, port):
        yield process, f"at:{HOST}:{port}"


def fade(listener: socket.socket, requests: int) -> None:
    """Echo for so many messages, then close every socket, the listener's as well."""
    with selectors.DefaultSelector() as ready, listener:
        ready.register(listener, selectors.EVENT_READ)
        clients = []
        while requests > 0:
            for key, _events in ready.select():
                if key.fileobj is listener:
                    clients.append(listener.accept()[0])
                    ready.register(clients[-1], selectors.EVENT_READ)
                elif data := key.fileobj.recv(4096):
                    key.fileobj.sendall(data)
                    requests -= 1
                else:
                    ready.unregister(key.fileobj)
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ("host", "here"),
    [
        *[("127.0.0.9", True), ("localhost", True), ("::1", socket.has_ipv6)],
        *[("192.0.2.10", False), ("no-such-host.invalid", False)],
    ],
)
def test_whether_an_address_is_of_this_machine(host, here):
    assert address.Address(host, 7000).here == here


# ---- how it is named --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "shown"),
    [
        ("192.0.2.10:7000", "192.0.2.10", "192.0.2.10:7000"),
        ("windows.example:80", "windows.example", "windows.example:80"),
        ("[2001:db8::1]:7000", "2001:db8::1", "[2001:db8::1]:7000"),
    ],
)
def test_an_address_is_read_and_said_as_it_is_typed(text, host, shown):
    parsed = address.parse(text)
    assert parsed.host == host
    assert str(parsed) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "host:", ":7000", "host:0", "host:65536", "2001:db8::1:70"),
        # an error of the codec, that named nothing, or ended a sweep
        *("a b:1", "192.0.2..10:7000", f"{'a' * 64}.example:7000"),
    ],
)
def test_what_is_no_address_is_refused_with_what_is_allowed(build_dir, text):
    with pytest.raises(ValueError, match="allowed: HOST:PORT") as error:
        servers.check(f"at:{text}", programs.built())
    assert repr(text) in str(error.value)


def test_an_entry_may_have_an_address_in_place_of_a_command(monkeypatch):
    text = '[far]\nlabel = "far"\nfamily = "completion"\nlanguage = "C"\n'
    entries = servers.parse(text + 'at = "192.0.2.10:7000"')
    monkeypatch.setattr(servers, "entries", lambda: entries)
    model = servers.model("far")
    assert model.available
    assert model.at == "192.0.2.10:7000"
    assert servers.argv(programs.built(), {"model": "far"}) == []
    assert servers.shown_command({"model": "far"}) == "at:192.0.2.10:7000"
    messages = []
    runtimes.make(["far"], say=messages.append)
    assert "192.0.2.10:7000" in messages[0]


def test_the_tables_that_the_guide_shows_can_be_read(build_dir):
    text = (ROOT / "docs" / "windows.md").read_text()
    (tables,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    models = {model.name for model in programs.models()}
    for name, entry in servers.parse(tables).items():
        assert winsock.system(name) == "Windows"
        assert name.removeprefix("windows-") in winsock.IN_PRINT
        assert entry.nearest in models


def test_the_guide_lets_in_all_ports_that_it_loads():
    """It opened one, and had a second model started at the next."""
    text = (ROOT / "docs" / "windows.md").read_text()
    first, last = map(int, re.search(r"localport=(\d+)-(\d+)", text).groups())
    loaded = {int(port) for port in re.findall(r"192\.0\.2\.10:(\d+)", text)}
    assert {7000, 7001} <= loaded <= {*range(first, last + 1)}


def test_another_address_is_another_server():
    names = ["at:192.0.2.10:7000", "at:192.0.2.10:7001", "at:192.0.2.11:7000"]
    assert len({servers.model(name).digest for name in names}) == 3


def test_who_refuses_at_first_is_waited_for_as_long_as_patience_lasts(monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        place = address.Address(*listener.getsockname())
        opens = threading.Timer(0.3, listener.listen)
        opens.start()
        assert address._unreachable(place, 20) == ""
        opens.join()
    monkeypatch.setattr(address, "PATIENCE_S", 0.1)
    assert address._unreachable(place, 20) == os.strerror(errno.ECONNREFUSED)


# ---- how it is measured -----------------------------------------------------------

#: what would take a look at the server, or its own word
UNSEEN = (
    *("server_cpu_s", "server_cpu_share", "server_cpu_per_request_s", "pss_bytes"),
    *("pss_per_connection_bytes", "threads_max", "start_s", "accepted", "other_cpu_s"),
)


def test_what_the_client_sees_is_measured_and_nothing_else(build_dir, tmp_path):
    with running() as (process, name):
        (trial,) = trials_of(tmp_path, [name]).values()
        assert process.poll() is None
        assert trials_of(tmp_path, [name]) == {name: trial}  # not measured again
    assert trial.failure is None
    assert trial.client.connections.surviving == 4
    assert trial.server.samples is None
    assert name.removeprefix("at:") in trial.server.unseen
    row = schema.flatten(trial.model_dump(by_alias=True))
    assert row["throughput_rps"] > 0
    assert row["response_p99_s"] > 0
    assert {column: row[column] for column in UNSEEN} == dict.fromkeys(UNSEEN)
    assert row["label"] in (None, "client-bound")
    assert trial.commands["server"] == name


def test_it_takes_turns_with_servers_that_are_started(build_dir, tmp_path):
    with running() as (process, name):
        turns = {"beside": "server", "baseline": {"model": name}}
        trials = trials_of(tmp_path, [name, "poll"], **turns)
        assert process.poll() is None
    far, near = trials[name], trials["poll"]
    assert far.turns.set == near.turns.set
    assert far.turns.round == near.turns.round
    assert sum(far.turns.requests) > 0
    assert set(far.turns.server_cpu_ns) == {None}
    assert far.server.samples is None
    assert sum(near.turns.server_cpu_ns) > 0
    assert near.server.stats.accepted == 4
    assert far.client.connections.surviving == 4


def test_frames_intervals_and_ratios_live_without_what_is_not_seen(build_dir, tmp_path):
    with running() as (_process, name):
        trials_of(tmp_path, ["epoll", "poll", name], beside="server", trials=4)
    measured = study.load("r", "s", root=tmp_path, accept=OF_TIME)
    rate = intervals(measured, "throughput_rps", "model").set_index("model")
    assert rate.loc[name, "n"] == 4
    cost = intervals(measured, "server_cpu_per_request_s", "model").set_index("model")
    assert cost.loc["poll", "n"] == 4
    assert cost["n"][name] == 0
    speeds = ratios(measured, "throughput_rps", baseline="epoll")
    assert set(speeds["model"]) == {"poll", name}
    costs = ratios(measured, "server_cpu_per_request_s", baseline="epoll")
    assert set(costs["model"]) == {"poll"}


def test_a_target_that_it_cannot_meet_keeps_no_sweep_going(build_dir, tmp_path):
    with running() as (_process, name):
        targets = {"server_cpu_per_request_s": 0.9}
        options = {"beside": "server", "targets": targets, "max_trials": 30}
        trials_of(tmp_path, ["epoll", name], duration=0.1, trials=4, **options)
    assert len(rows(tmp_path)) == 8


@pytest.mark.long
@pytest.mark.serial
def test_a_comparison_takes_it_as_it_runs(build_dir):
    with running() as (process, name):
        words = ["epoll", name, "--connections", 4, "--json", "--until", "20%"]
        done = connlab("compare", *words)
        assert process.poll() is None
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["levels"][name]["rate"]["value"] > 0
    assert document["levels"][name]["cpu"]["value"] is None
    assert document["levels"]["epoll"]["cpu"]["value"] > 0
    assert document["ratios"]["rate"][name]["value"] > 0
    assert document["ratios"]["cpu"][name]["value"] is None


# ---- what goes wrong --------------------------------------------------------------


@pytest.mark.parametrize("beside", [(), "server"])
def test_where_nobody_answers_a_row_says_so(build_dir, tmp_path, beside):
    with running() as (process, name):
        process.kill()
        process.wait()
        trials = trials_of(tmp_path, ["epoll", name], beside=beside)
    assert trials[name].failure.kind == "server-start"
    assert name.removeprefix("at:") in trials[name].failure.reason
    assert os.strerror(errno.ECONNREFUSED) in trials[name].failure.reason
    assert trials["epoll"].failure is None


@pytest.mark.parametrize("beside", [(), "server"])
def test_a_server_that_goes_away_is_a_row_with_its_reason(build_dir, tmp_path, beside):
    listener = socket.create_server((HOST, 0))
    name = f"at:{HOST}:{listener.getsockname()[1]}"
    threading.Thread(target=fade, args=(listener, 50), daemon=True).start()
    trials = trials_of(tmp_path, ["epoll", name], beside=beside)
    assert trials["epoll"].failure is None
    assert trials[name].failure.kind == "server-died"
    assert name.removeprefix("at:") in trials[name].failure.reason
    assert trials[name].server.exit is None


def test_it_can_neither_be_stopped_nor_judged(build_dir, tmp_path):
    with pytest.raises(ValueError, match=r"^stall: 100; .*127\.0\.0\.2:7"):
        trials_of(tmp_path, ["at:127.0.0.2:7"], fixed={"connections": 1, "stall": 100})
    with pytest.raises(ValueError, match="at:127.0.0.2:7"):
        judging.judge(["at:127.0.0.2:7"])
