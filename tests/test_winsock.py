"""The six models of Windows Sockets, cross-built and run under Wine.

Conformance is the suite of the Linux models, told by ``CONNLAB_SERVER`` to start
``src_c/winsock/under-wine``. Wine stands between: what it bounds (descriptors of its
own server) and how fast it is are no properties of the models, so nothing here asks
for either.
"""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import ROOT, make, ran, refused, session_of_its_own
from drive_fakes import measure, rows

from connlab import study
from tests.conformance.harness import Server, echoes

COMPILER = "x86_64-w64-mingw32-gcc"
UNDER_WINE = ROOT / "src_c" / "winsock" / "under-wine"
MODELS = {"blocking", "select", "async-select", "event-select", "overlapped", "iocp"}

#: of the conformance suite, without what Wine's rates decide; a group of clients more,
#: which stays, is no leak
ECHO = (
    "not thousand_who and not (leak_nothing and (2000 or event-select or overlapped))"
)
STOP = "signal_ends or cannot_delay_the_stop"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which("wine")),
        reason=f"{COMPILER} or wine is not here (make setup-test)",
    ),
]


@pytest.fixture(scope="session")
def environ() -> dict[str, str]:
    """Return an environment in which the conformance suite starts the built server."""
    make("winsock", "CI=true")
    kept = {k: v for k, v in os.environ.items() if k != "DISPLAY"}
    return kept | {"CONNLAB_SERVER": str(UNDER_WINE)}


def start(environ: dict[str, str], *words: str) -> Server:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    pipes |= {"stdin": subprocess.DEVNULL}
    process = subprocess.Popen([UNDER_WINE, *words], env=environ, **pipes)
    return Server(process, json.loads(process.stdout.readline()))


@contextmanager
def clients_of(server: Server, count: int) -> Iterator[list[socket.socket]]:
    with server.clients(count) as clients:
        assert all(map(echoes, clients))
        yield clients


@pytest.mark.early
@pytest.mark.xdist_group("winsock-conformance")  # which bounds how long a stop takes
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("suite", "chosen"), [("test_echo.py", ECHO), ("test_stopping.py", STOP)]
)
def test_conformance(environ, suite, chosen):
    path = f"tests/conformance/{suite}"
    tests = re.findall(r"^def test_(\w+)", (ROOT / path).read_text("utf-8"), re.M)
    words = set(re.findall(r"[a-z]+_\w+", chosen))
    assert not [word for word in words if not any(word in name for name in tests)]
    session_of_its_own("-n", "2", "-k", chosen, path, environ=environ)


def test_the_list_has_the_six_models_in_the_words_of_the_other_server(environ):
    listed = json.loads(ran(UNDER_WINE, "--list", env=environ, timeout=120).stdout)
    assert {model["name"] for model in listed["models"]} == MODELS
    assert all(model["available"] for model in listed["models"])
    assert [workload["name"] for workload in listed["workloads"]] == ["echo"]
    make("build")
    linux = json.loads(subprocess.check_output([ROOT / "build" / "server", "--list"]))
    for key in ("family", "holds", "workers", "slow_client"):
        values = {model[key] for model in linux["models"]}
        assert {model[key] for model in listed["models"]} <= values


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["MODEL", "iocp"]),
        (["epol"], ["epol", "iocp"]),
        (["iocp", "select"], ["select", "one MODEL"]),
        (["iocp", "--workload", "http"], ["--workload", "http", "echo"]),
        (["iocp", "--workers", "0"], ["--workers", "0", "1 to 64"]),
        (["iocp", "--workers"], ["--workers"]),
        (["select", "--workers", "2"], ["--workers", "2", "select"]),
        (["iocp", "--fd-setsize", "64"], ["--fd-setsize", "64", "iocp"]),
        (["iocp", "--listen", "nowhere"], ["--listen", "nowhere", "HOST:PORT"]),
        (["iocp", "--listen", "127.0.0.1:70000"], ["70000", "65535"]),
        (["iocp", "--listen", "example:0"], ["--listen", "example", "numeric"]),
        (["iocp", "--colour", "red"], ["--colour"]),
    ],
)
def test_bad_usage_names_flag_value_and_what_is_allowed(environ, words, expected):
    said = refused(UNDER_WINE, *words, env=environ, timeout=120)
    assert [word for word in expected if word not in said] == []


def test_failed_set_up_names_the_call_and_exits_1(environ):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ("iocp", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        said = refused(UNDER_WINE, *words, status=1, env=environ, timeout=120)
    assert said.startswith("server: bind: ")


def test_a_socket_too_many_for_an_fd_set_is_refused_and_counted(environ):
    server = start(environ, "select", "--fd-setsize", "64")
    with clients_of(server, 63) as clients:
        with server.connect() as late:
            assert late.recv(1) == b""
        assert echoes(clients[0])
    stats = server.stop()
    assert stats["accepted"] == stats["open_max"] == 63
    assert stats["refused"]["fd_setsize"] == stats["refused_total"] == 1


@pytest.mark.parametrize(
    ("words", "clients", "counts"),
    [
        (["event-select"], 127, 1),
        (["overlapped"], 127, 1),
        (["iocp", "--workers", "3"], 20, 3),
    ],
)
def test_three_threads_serve_them(environ, words, clients, counts):
    """One waits for 63 clients; for completions wait as many as are asked for."""
    server = start(environ, *words)
    with clients_of(server, clients):
        pass
    stats = server.stop()
    assert stats["accepted"] == stats["requests"] == clients
    assert stats["workers_started"] == 3
    assert len(stats["requests_per_worker"]) == counts
    assert sum(stats["requests_per_worker"]) == clients
    assert stats["errors"] == {}


def test_a_server_whose_launcher_is_killed_ends(environ):
    server = start(environ, "iocp")
    with server.connect() as client:
        assert echoes(client)
        server.process.kill()
        assert client.recv(1) == b""
    assert json.loads(server.process.communicate()[0])["requests"] == 1


def test_nothing_of_it_stays(environ, tmp_path):
    server = start(environ | {"TMPDIR": str(tmp_path)}, "async-select")
    prefixes = list(tmp_path.glob("*/drive_c"))
    server.stop()
    assert server.ready["pid"] == server.process.pid
    assert len(prefixes) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_measures_it_with_what_it_counted(environ, tmp_path):
    factors = {"model": ["winsock-iocp", "winsock-select"], "connections": [4]}
    measure(tmp_path, factors=factors, beside="model", duration=0.2)
    measured = study.load("r", "s", root=tmp_path, accept=["quiet"])
    assert set(measured["model"]) == {"winsock-iocp", "winsock-select"}
    assert (measured["accepted"] == 4).all()
    assert (measured["bytes_in"] == measured["bytes_out"]).all()
    assert (measured["server_cpu_s"] > 0).all()
    version = subprocess.check_output(["wine", "--version"], text=True).strip()
    versions = {row["server"]["model"]["version"] for row in rows(tmp_path)}
    assert versions == {version}
