"""connlab.drive.warming: load for servers that compile as they run, before a set."""

import shlex
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from drive_fakes import estimate, trials_of

from connlab.drive import cores, interrupt, servers, warming
from connlab.drive.host import ProgramError

MINE = "./mine {port}"
CORES = cores.Cores(server=(0,), client=(1,), shared=False)
#: an echo server with a thread for each client, that writes a line for each
ECHO = """
import socket, sys, threading
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    def serve(client):
        while text := client.recv(4096):
            client.sendall(text)
    while True:
        client, _ = listener.accept()
        with open(sys.argv[2], "a") as log:
            log.write("client\\n")
        threading.Thread(target=serve, args=[client], daemon=True).start()
"""


@pytest.fixture
def compiles(monkeypatch):
    """An entry, ``jit``, with four seconds of warm-up, beside one without."""
    text = '[{0}]\nlabel = "{0}"\nfamily = "readiness"\nlanguage = "Java"\n'
    text += 'command = "x {{port}}"\n{1}\n'
    entries = text.format("jit", "warm_up = 4") + text.format("plain", "")
    monkeypatch.setattr(servers, "entries", lambda: servers.parse(entries))


@pytest.mark.parametrize(
    ("factors", "seconds", "users"),
    [
        ({"model": "jit", "connections": 3}, 4, warming.USERS),
        ({"model": "jit", "connections": 1000}, 4, 1000),
        ({"model": "jit", "connections": 1000, "active": 70}, 4, 70),
        ({"model": "jit", "connections": 3, "warm_up": 0.5}, 0.5, warming.USERS),
        # who knows how many it serves at a time?
        ({"model": MINE, "connections": 3}, servers.WARM_UP_S, 3),
        ({"model": "jit", "connections": 3, "warm_up": 0}, 0, None),
        ({"model": "plain", "connections": 3}, 0, None),
        ({"model": "epoll", "connections": 3}, 0, None),
        ({"model": "lessons/epoll", "connections": 3}, 0, None),
    ],
)
def test_who_compiles_is_asked_by_two_clients_as_fast_as_it_can(
    compiles, factors, seconds, users
):
    whole = {"rate": 100.0, "think": "5", "warmup": 9, "response_times": 50, "size": 7}
    load = warming.load(whole | factors)
    if users is None:
        assert load is None
    else:
        assert load["duration"] == seconds / warming.CLIENTS
        assert (load["connections"], load["active"]) == (users, None)
        assert (load["rate"], load["think"], load["warmup"]) == (None, None, 0)
        assert (load["response_times"], load["size"]) == (None, 7)


def warmed(host: Mock) -> list[list[str]]:
    """Warm a server up; return the words of each client that was started."""
    factors = {"model": MINE, "connections": 2, "duration": 1.0}
    warming.warm_up(factors, lambda load: ["client"], host=host, cores=CORES)
    assert all(call.kwargs == {"cores": (1,)} for call in host.start.call_args_list)
    assert host.stop.call_count == host.start.call_count
    return [call.args[0] for call in host.start.call_args_list]


def test_its_second_client_meets_a_server_that_has_seen_one_leave():
    assert warmed(Mock()) == [["client"]] * 2


def test_a_server_that_fails_meanwhile_is_left_to_the_client_of_the_set():
    failing = SimpleNamespace(ready=Mock(side_effect=ProgramError("refused")))
    host = Mock(ready=failing.ready)
    assert warmed(host) == [["client"]]


def test_a_signal_ends_it(monkeypatch):
    host = Mock()
    monkeypatch.setattr(interrupt, "requested", lambda: 2)
    assert warmed(host) == []


def clients(tmp_path, **fixed) -> int:
    """Return how many clients came to a server of a set."""
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    (folder / "echo.py").write_text(ECHO)
    words = [sys.executable, str(folder / "echo.py"), "{port}", str(folder / "log")]
    line = shlex.join(words).replace("'{port}'", "{port}")
    fixed |= {"connections": 4}
    trials = trials_of(folder, ["epoll", line], beside="server", fixed=fixed)
    assert all(trial.failure is None for trial in trials.values())
    return len((folder / "log").read_text().splitlines())


def test_a_set_begins_when_its_servers_have_compiled(build_dir, tmp_path):
    cold = clients(tmp_path, warm_up=0)
    assert cold >= 4
    assert clients(tmp_path, warm_up=0.2) == cold + 4 * warming.CLIENTS


@pytest.mark.parametrize("model", ["epoll", MINE])
def test_a_sweep_refuses_a_warm_up_that_cannot_be(tmp_path, model):
    with pytest.raises(ValueError, match="^warm-up: -1 s; allowed: 0 to 60 s$"):
        estimate(
            "s",
            run="r",
            root=tmp_path,
            factors={"model": [model]},
            fixed={"warm_up": -1},
        )


def test_an_estimate_counts_it(compiles, tmp_path, monkeypatch):
    monkeypatch.setattr(servers.Entry, "reason", None)
    factors = {"model": ["epoll", "jit"], "connections": [5]}
    common = {"run": "r", "root": tmp_path, "factors": factors, "beside": "model"}
    with_it = estimate("s", trials=3, **common)
    without = estimate("s", trials=3, fixed={"warm_up": 0}, **common)
    none = estimate("s", trials=3, warmup=0, **common)
    assert with_it.seconds == pytest.approx(without.seconds + 3 * 4)
    assert none.seconds < without.seconds
