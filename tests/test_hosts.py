"""Rosters, certificates, clocks, and reports of several clients as one."""

import contextlib
import csv
import io
import itertools
import json
import os
import platform
import re
import shlex
import socket
import ssl
import stat
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest
from conftest import ROOT, wait_for
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from connlab import drive, notebook
from connlab.drive import capacity, hosts_asked, location
from connlab.drive.host import HostLost, ProgramError
from connlab.hosts import (
    agent,
    carrier,
    certificates,
    checking,
    clock,
    group,
    lab,
    remote,
    remote_programs,
    roster,
)
from connlab.schema import Model
from tests.client.harness import client, echo, reserved_port, serving

ROSTER = """
scheduler = "tls://10.0.0.9:8786"
certificates = "certificates"
server = "a"
clients = ["b", "c"]
[hosts.a]
address = "10.0.0.1"
cores = [0, 1]
[hosts.b]
address = "10.0.0.2"
[hosts.c]
address = "10.0.0.3"
"""


def loaded(folder: Path, text: str) -> roster.Roster:
    path = folder / "hosts.toml"
    path.write_text(text)
    return roster.load(path)


def test_a_roster_says_who_is_who(tmp_path):
    parsed = loaded(tmp_path, ROSTER)
    assert parsed.hosts[parsed.server].cores == (0, 1)
    assert parsed.certificates == tmp_path / "certificates"


CERTIFICATES = 'certificates = "certificates"\n'
OTHER = 'address = "10.0.0.4"\n[hosts.c]'


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        ('server = "a"', 'server = "aa"', ["aa", "'a'"]),
        ("clients =", "client =", ["'client'", "'clients'"]),
        ("cores =", "core =", ["core", "'cores'"]),
        ('["b", "c"]', '["b", "b"]', ["['b', 'b']", "each once"]),
        ("\nscheduler", "server =\nscheduler", ["line 1"]),
        # what agents and servers cannot bind, and a server beside its client
        ('"10.0.0.2"', '"lab2"', ["hosts.b.address", "'lab2'"]),
        ('["b", "c"]', '["a", "c"]', ["['a', 'c']", "not 'a'", "server"]),
        ('"10.0.0.2"', '"0.0.0.0"', ["hosts.b.address", "'0.0.0.0'"]),
        ('"10.0.0.2"', '"::"', ["hosts.b.address", "'::'"]),
        # schedulers that anybody reaches
        ("tls://10.0.0.9:8786", "tcp://10.0.0.9:8786", ["tls://"]),
        ("tls://10.0.0.9:8786", "tcp://0.0.0.0:1", ["tls://"]),
        ("tls://10.0.0.9:8786", "10.0.0.9:1", ["tls://"]),
        (CERTIFICATES, "", ["tls://10.0.0.9:8786", "needs certificates"]),
        # a core that would count as two, and what is no port and no address
        ("[0, 1]", "[0, 0]", ["hosts.a.cores", "[0, 0]", "each once"]),
        ("9:8786", "9:99999", ["scheduler 'tls://10.0.0.9:99999'", "ADDRESS:PORT"]),
        ("10.0.0.9:", "[::1:", ["scheduler 'tls://[::1:8786'", "ADDRESS:PORT"]),
        # whose log would be the scheduler's, or have no folder
        ("hosts.c]", f"hosts.scheduler]\n{OTHER}", ["host 'scheduler'", "a file's"]),
        ("hosts.c]", f'hosts."r/c"]\n{OTHER}', ["host 'r/c'", "a file's name"]),
    ],
)
def test_what_is_wrong_in_a_roster_is_named(tmp_path, old, new, texts):
    with pytest.raises(ValueError, match=r"^hosts\.toml: ") as error:
        loaded(tmp_path, ROSTER.replace(old, new))
    assert all(text in str(error.value) for text in texts)


def test_a_roster_in_another_encoding_is_named(tmp_path):
    path = tmp_path / "hosts.toml"
    path.write_bytes(ROSTER.replace('"b"', '"bär"').encode("latin-1"))
    with pytest.raises(ValueError, match=r"^hosts\.toml: .*utf-8"):
        roster.load(path)


@pytest.mark.parametrize("name", ["epol", "go"])
def test_one_trial_is_of_a_model_and_of_no_other_server(tmp_path, name):
    """A server of servers.toml was refused as ./build/external, and with status 1."""
    with pytest.raises(ValueError, match=f"unknown model '{name}'.*known: .*epoll"):
        checking.trial(loaded(tmp_path, ROSTER), {"model": name})


def test_a_scheduler_on_loopback_needs_no_certificates(tmp_path):
    bare = ROSTER.replace(CERTIFICATES, "")
    alone = bare.replace("tls://10.0.0.9", "tcp://127.0.0.1")
    assert loaded(tmp_path, alone).certificates is None


def test_certificates_are_of_one_authority_and_keys_are_private(tmp_path):
    certificates.make(tmp_path / "one")
    certificates.make(tmp_path / "two")
    load = x509.load_pem_x509_certificate
    authority = load((tmp_path / "one/ca.pem").read_bytes())
    stranger = load((tmp_path / "two/client.pem").read_bytes())
    for role in certificates.ROLES:
        key = tmp_path / "one" / f"{role}.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        path = key.with_suffix(".pem")
        load(path.read_bytes()).verify_directly_issued_by(authority)
        ssl.create_default_context().load_cert_chain(path, key)
    with pytest.raises((InvalidSignature, ValueError)):
        stranger.verify_directly_issued_by(authority)


def test_a_strict_peer_takes_a_certificate_of_the_run(tmp_path):
    """As every one from Python 3.13 on; hosts need not have the same Python."""
    certificates.make(tmp_path)

    def context(purpose: ssl.Purpose, role: str) -> ssl.SSLContext:
        made = ssl.create_default_context(purpose, cafile=tmp_path / "ca.pem")
        made.load_cert_chain(tmp_path / f"{role}.pem", tmp_path / f"{role}.key")
        made.check_hostname, made.verify_mode = False, ssl.CERT_REQUIRED
        made.verify_flags |= ssl.VERIFY_X509_STRICT
        return made

    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    driver = context(ssl.Purpose.SERVER_AUTH, "client").wrap_bio(back, there)
    host = context(ssl.Purpose.CLIENT_AUTH, "worker").wrap_bio(
        there, back, server_side=True
    )
    for side in (driver, host) * 2:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert driver.getpeercert()["subject"] == ((("commonName", "worker"),),)
    assert host.getpeercert()["subject"] == ((("commonName", "client"),),)


def test_certificates_are_made_anew_before_they_end(tmp_path, monkeypatch):
    assert not certificates.last(tmp_path)
    certificates.make(tmp_path)
    assert certificates.last(tmp_path)
    monkeypatch.setattr(certificates, "DAYS", 1)
    certificates.make(tmp_path)
    assert not certificates.last(tmp_path)


@pytest.mark.parametrize("remade", [False, True])
def test_certificates_whose_making_was_interrupted_do_not_count(
    tmp_path, monkeypatch, remade
):
    """Ctrl-C at every file, in an empty folder and over whole ones."""
    for files in range(2 * len(certificates.ROLES) + 1):
        if remade:
            certificates.make(tmp_path)
        effects = [*[DEFAULT] * files, KeyboardInterrupt]
        with monkeypatch.context() as patch:
            interrupted = Mock(wraps=certificates._write, side_effect=effects)
            patch.setattr(certificates, "_write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                certificates.make(tmp_path)
        assert not certificates.last(tmp_path)


def test_a_scheduler_that_is_not_there_is_named(tmp_path):
    with reserved_port() as port:
        url = f"tls://127.0.0.1:{port}"
        entries = loaded(tmp_path, ROSTER.replace("tls://10.0.0.9:8786", url))
        with pytest.raises(FileNotFoundError, match=r"certificates/ca\.pem"):
            carrier.Engine(entries)
        certificates.make(entries.certificates)
        with pytest.raises(OSError, match=f"^scheduler {url}: .*refused"):
            carrier.Engine(entries)


def engine_of(client: Mock) -> carrier.Engine:
    """Return the engine of a driver that has this client of Dask."""
    engine = object.__new__(carrier.Engine)
    engine._client, engine.lease_s = client, 8.0
    engine.roster = SimpleNamespace(hosts={"b": SimpleNamespace(address="10.0.0.2")})
    return engine


def test_a_scheduler_that_dask_has_given_up_is_a_host_that_is_lost():
    """Its client knows nothing then, not even that there are no workers."""
    engine = engine_of(Mock(scheduler_info=Mock(return_value={})))
    with pytest.raises(HostLost, match="^host b: no scheduler: it does not answer"):
        engine.make_agent("b", ())


@pytest.mark.parametrize(
    ("of_submit", "of_result"),
    [
        # the scheduler goes, or the worker does, or Dask has given up before
        (None, CancelledError("Agent-1 cancelled")),
        (None, Exception("Attempted to run task 'Agent-1'\nagain")),
        (Exception("Client is closed"), None),
    ],
)
def test_what_dask_raises_where_an_agent_is_made_is_a_host_that_is_lost(
    of_submit, of_result
):
    """Errors of its own, which ended a sweep without a report."""
    known = {"workers": {"tls://10.0.0.2:1": {"name": "b"}}}
    future = Mock(result=Mock(side_effect=of_result))
    submit = Mock(return_value=future, side_effect=of_submit)
    engine = engine_of(Mock(scheduler_info=Mock(return_value=known), submit=submit))
    text = str(of_submit or of_result).split("\n")[0]
    with pytest.raises(HostLost, match=f"^host b: {text}$"):
        engine.make_agent("b", ())


def test_commands_to_start_by_hand_are_those_that_we_start(tmp_path):
    """In docs/hosts.md; what is missing there would be missed on real machines."""
    text = (ROOT / "docs" / "hosts.md").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if "distributed.cli" in line]
    scheduler, worker = map(shlex.split, lines)
    entries = loaded(tmp_path, ROSTER.replace("10.0.0.9", "10.0.0.1"))
    keys = Path("certificates")
    entries = entries.model_copy(update={"certificates": keys})
    ours = carrier.worker_command(entries, "b", keys=keys, folder=tmp_path)
    assert ours[-2] == "--local-directory"  # by hand Dask chooses one
    assert scheduler[1:] == carrier.scheduler_command(entries)[1:]
    assert worker[1:] == ours[1:-2]


def test_a_clock_is_found_ahead_by_what_it_is():
    echoing = clock.Echo("127.0.0.1")
    here = clock.offset("127.0.0.1", echoing.port, echoing.token)
    echoing = clock.Echo("127.0.0.1", lambda: time.monotonic_ns() + 50_000_000)
    ahead = clock.offset("127.0.0.1", echoing.port, echoing.token)
    assert abs(here.ns) <= here.bound_ns
    assert abs(ahead.ns - 50_000_000) <= ahead.bound_ns
    assert ahead.differs(here, 1_000_000)
    assert not here.differs(clock.Offset(here.ns + 10, 0), 1_000_000)


def test_a_clock_that_is_closed_lets_go_of_its_port():
    echoing = clock.Echo("127.0.0.1")
    echoing.close()

    def free() -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            try:
                again.bind(("127.0.0.1", echoing.port))
            except OSError:
                return False
            return True

    wait_for(free)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_on_which_something_listens_is_passed_over(address):
    """Also when it listens on every address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    here = agent.Agent("127.0.0.1")
    with (
        socket.create_server((address, 0), family=family) as one,
        socket.create_server(("", 0), family=family) as everywhere,
    ):
        taken = [one.getsockname()[1], everywhere.getsockname()[1]]
        with socket.create_server((address, 0), family=family) as other:
            free = other.getsockname()[1]
        assert here.vacant(address, [*taken, free, taken[0]]) == free
        assert here.vacant(address, taken) == 0


def test_a_clock_tells_strangers_nothing_and_goes_on():
    echoing = clock.Echo("127.0.0.1")
    with pytest.raises(TimeoutError, match=f"UDP port {echoing.port} of 127"):
        clock.offset("127.0.0.1", echoing.port, bytes(clock.TOKEN_BYTES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.3)
        asking.sendto(b"short", ("127.0.0.1", echoing.port))
        with pytest.raises(TimeoutError):
            asking.recv(64)
    assert clock.offset("127.0.0.1", echoing.port, echoing.token).bound_ns > 0


def test_cores_that_a_host_lacks_are_named():
    with pytest.raises(RuntimeError, match=r"cores \[0, 4321\]; allowed there: \["):
        agent.Agent("127.0.0.1", watched=[0, 4321]).introduce()


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_an_agent_that_nobody_calls_ends_its_programs():
    lonely = agent.Agent("127.0.0.1", lease_s=0.5)
    pid = lonely.start(["/bin/sleep", "60"], watch=True)
    wait_for(lambda: gone(pid))
    wait_for(lambda: lonely.read_watched(pid) is None)
    with pytest.raises(ProcessLookupError):
        lonely.do("stop", pid, grace_s=0)


def test_a_fault_inside_an_agent_is_not_taken_for_a_lease_that_ended(monkeypatch):
    faulty = agent.Agent("127.0.0.1")
    monkeypatch.setattr(agent.machine, "manifest", lambda: {}["kernel"])
    with pytest.raises(KeyError, match="kernel"):
        faulty.do("describe")
    for name in ("ready", "sample", "printed_bytes", "ask_to_end", "stop"):
        limits = {"ready": {"timeout_s": 0.1}, "stop": {"grace_s": 0}}
        with pytest.raises(ProcessLookupError, match="the lease ended"):
            faulty.do(name, 1, **limits.get(name, {}))


def test_an_agent_that_is_called_keeps_them_and_one_collected_does_not():
    called = agent.Agent("127.0.0.1", lease_s=600.0)
    echoing = called._echo
    pid = called.start(["/bin/sleep", "60"])
    with called._lock:  # it looks at its lease by itself as well
        called._called_s -= 601
        called.do("renew")
    called.end_overdue()
    assert not gone(pid)
    called._called_s -= 590
    called.end_overdue()
    assert not gone(pid)
    del called
    wait_for(lambda: gone(pid))
    wait_for(lambda: echoing._socket.fileno() < 0)


def test_a_server_is_read_on_the_spot():
    watching = agent.Agent("127.0.0.1")
    pid = watching.start(["/bin/sleep", "60"], watch=True)
    wait_for(lambda: len(watching._readings[pid]) > 3)
    reading = watching.sample(pid)
    times = [taken.processes.time_s for taken in (*reading.before, reading)]
    assert len(times) > 4
    assert times == sorted(times)
    again = watching.sample(pid).before
    assert not [taken for taken in again if taken in reading.before]
    watching.stop(pid, grace_s=0)
    assert watching.read_watched(pid) is None


def test_a_reading_that_ended_after_a_look_is_told_with_the_next():
    """It was thrown away, though it may be the one at an edge of the window."""
    watching = agent.Agent("127.0.0.1")
    pid = watching.start(["/bin/sleep", "60"])
    look = watching.sample(pid)
    sooner, later = (
        replace(look, processes=replace(look.processes, time_s=time.monotonic() + s))
        for s in (-1, 1000)
    )
    watching._readings[pid] = [sooner, later]
    assert watching.sample(pid).before == (sooner,)
    assert watching._readings[pid] == [later]
    watching.stop(pid, grace_s=0)


# ---- a location for sweeps ---------------------------------------------------------


def test_an_existing_scheduler_takes_the_place_of_the_files(tmp_path, monkeypatch):
    path = tmp_path / "hosts.toml"
    path.write_text(ROSTER)
    assert roster.load_configured(path).scheduler == "tls://10.0.0.9:8786"
    monkeypatch.setenv(roster.SCHEDULER, "tls://10.0.0.77:1234")
    assert roster.load_configured(path).scheduler == "tls://10.0.0.77:1234"
    assert roster.load(path).scheduler == "tls://10.0.0.9:8786"
    monkeypatch.setenv(roster.SCHEDULER, "tcp://10.0.0.77:1234")
    with pytest.raises(ValueError, match="without TLS"):
        roster.load_configured(path)


def test_what_needs_one_machine_says_so(tmp_path, monkeypatch):
    assert notebook.left_out("00-the-machine", run="r", root=tmp_path) is None
    assert isinstance(location.configured(), location.ThisMachine)
    monkeypatch.setenv(hosts_asked.ROSTER, str(tmp_path / "hosts.toml"))
    with pytest.raises(ValueError, match=r"hosts\.toml; "):
        drive.floor("the-machine", run="r", root=tmp_path)
    with pytest.raises(ValueError, match="^00-the-machine: "):
        notebook.run("00", run="r", root=tmp_path)
    assert notebook.left_out("07-uring", run="r", root=tmp_path) is None
    reason = notebook.left_out("00-the-machine", run="r", root=tmp_path)
    failure = json.loads((tmp_path / "r/the-machine/failure.json").read_text())
    assert failure["reason"] == reason


def test_every_study_that_needs_one_machine_exists():
    studies = {notebook.study_of(path) for path in notebook.every()}
    assert hosts_asked.ONE_MACHINE.keys() <= studies


class FakeHost:
    """A host as `remote.RemoteHosts` meets it, that describes itself."""

    watches = True

    def __init__(self, engine, name: str, cores=()) -> None:
        self.engine, self.name, self.cores, self.lost = engine, name, tuple(cores), ""
        self.facts = {"cores": [0, 1, 2, 3], "descriptors": 100 * len(name)}
        self.facts["physical"] = {0: 0, 1: 0, 2: 2, 3: 2}


def over_hosts(
    monkeypatch: pytest.MonkeyPatch, clients=("b", "cc"), **options
) -> remote.RemoteHosts:
    def described(host: FakeHost) -> dict:
        facts = {"kernel": f"6.{len(host.name)}", "cores": 1, "cpu": "fast"}
        facts["binaries"] = {"server": f"that of {host.name}"}
        return {"environment": "e", "environments": {"e": facts}, "machine": facts}

    def rooms(hosts) -> list[tuple[capacity.Room, int]]:
        limits = {"a": (90, 7, 1e9), "b": (40, 99, 1), "cc": (30, 99, 1)}
        return [(capacity.Room(*limits[h.name]), 100 * len(h.name)) for h in hosts]

    monkeypatch.setattr(remote, "_rooms", rooms)
    monkeypatch.setattr(remote, "Server", FakeHost)
    monkeypatch.setattr(remote, "RemoteHost", FakeHost)
    monkeypatch.setattr(remote, "_described", described)
    engine = SimpleNamespace(roster=SimpleNamespace(server="a", clients=clients))
    return remote.RemoteHosts(engine, clients, **options)


def test_a_class_of_environment_knows_every_host(monkeypatch):
    hosts = over_hosts(monkeypatch)
    facts = hosts.environment({"server": "1"})
    assert facts["cpu"] == "fast"
    assert facts["cores"] == 4
    assert [client["kernel"] for client in facts["clients"]] == ["6.1", "6.2"]
    assert facts != over_hosts(monkeypatch, clients=("b",)).environment({"server": "1"})
    assert re.findall(r"\b(?:a|b|cc)\b", hosts.summary()) == ["a", "b", "cc"]
    assert hosts.descriptors() == 100
    assert facts["binaries"] == {"server": "that of a"}, "which another may not have"
    hosts.server.cores = (2, 3, 0, 1)
    assert hosts.environment({"server": "1"})["chosen_cores"] == [2, 3, 0, 1]


def test_room_is_that_of_the_server_and_of_the_least_client(monkeypatch):
    hosts = over_hosts(monkeypatch)
    assert hosts.room() == capacity.Room(60, 7, 1e9)
    assert over_hosts(monkeypatch, clients=("b",)).room().connections == 40
    assert hosts.tasks() == 100

    lost = Mock(side_effect=HostLost("host b: gone"))
    monkeypatch.setattr(remote, "_rooms", lost)
    assert hosts.room() == capacity.Room(60, 7, 1e9)


def test_a_server_gets_so_many_cores_of_its_host(monkeypatch):
    hosts = over_hosts(monkeypatch)
    assert hosts.cores({}).server == (0, 1, 2, 3)
    assert hosts.cores({"cores": 1}).client == ()
    assert len(hosts.cores({"cores": 2}).server) == 2
    with pytest.raises(ValueError, match="allowed here: 1 to 4"):
        hosts.cores({"cores": 5})
    sides = {"server_cores": (0, 1), "client_cores": (2, 3)}
    same_host = over_hosts(monkeypatch, stand_in=True, **sides)
    sets = same_host.cores({})
    assert (sets.server, sets.client, sets.shared) == ((0, 1), (2, 3), False)
    assert sets.remote, "its client sleeps, as those of all hosts do"
    assert same_host.cores_in_trial() == {"watched": [0, 1]}


EPOLL = Model(name="epoll", family="f", label="epoll")
PLACES = {"loopback": ("a",), "1 host": ("b",), "2 hosts": ("b", "cc")}


def test_a_cell_is_measured_at_the_place_of_its_arm(monkeypatch):
    sides = {"server_cores": (0, 1), "client_cores": (2, 3)}
    hosts = over_hosts(monkeypatch, PLACES, **sides)
    for arm, names in PLACES.items():
        clients = hosts.turning({"arm": arm}).clients
        assert tuple(host.name for host in clients.hosts) == names
        beside = (2, 3) if arm == "loopback" else ()
        assert hosts.cores({"arm": arm}).client == beside
        lack = hosts.lacks({"arm": arm, "connections": 1}, EPOLL)
        assert (lack is None) is (len(names) == 1)


def test_what_holds_of_all_places_is_asked_of_the_one_with_most_hosts(monkeypatch):
    hosts = over_hosts(monkeypatch, PLACES, client_cores=(2, 3), stand_in=True)
    facts = hosts.environment({"server": "1"})
    assert [client["kernel"] for client in facts["clients"]] == ["6.1", "6.2"]
    assert facts["stand_in"] is True
    assert "stand_in" not in over_hosts(monkeypatch).environment({"server": "1"})
    assert hosts.turning({}).clients is hosts.turning({"arm": "2 hosts"}).clients
    assert hosts.cores({}).client == hosts.cores({"arm": "1 host"}).client == (2, 3)


@pytest.mark.parametrize("arm", PLACES)
def test_the_server_of_all_places_is_told_of_each_ones_windows(monkeypatch, arm):
    """Else its agent would look at it more often in one place than in another."""
    hosts = over_hosts(monkeypatch, PLACES)
    assert hosts.turning({"arm": arm}).clients.server is hosts.server
    with hosts.turning({"arm": arm}).unwatched():
        assert not hosts.server.watches
    assert hosts.server.watches


def test_a_host_of_two_places_is_lost_once(monkeypatch):
    hosts = over_hosts(monkeypatch, PLACES)
    for host in (hosts.server, *hosts.turning({"arm": "loopback"}).clients.hosts):
        host.lost = "gone"
    hosts.turning({"arm": "1 host"}).clients.hosts[0].lost = "gone"
    assert hosts.lost() == ["a", "b"]
    clients = {arm: ", ".join(names) for arm, names in PLACES.items()}
    texts = [f"{arm}: server on a, clients on {who}" for arm, who in clients.items()]
    assert hosts.summary() == "; ".join(texts)


def test_cells_that_hosts_cannot_measure_have_a_reason(monkeypatch):
    hosts = over_hosts(monkeypatch)
    assert hosts.lacks({"connections": 50}, EPOLL) is None
    assert "in common" in hosts.lacks({"connections": 50, "together": True}, EPOLL)
    assert "2 hosts" in hosts.lacks({"connections": 1}, EPOLL)
    assert "1 active c" in hosts.lacks({"connections": 50, "active": 1}, EPOLL)
    assert "last answer" in hosts.lacks({"connections": 50, "requests": 1}, EPOLL)
    alone = over_hosts(monkeypatch, clients=("b",))
    assert alone.lacks({"connections": 50, "requests": 1}, EPOLL) is None
    other = Model(name="go", family="f", label="Go", digest="1")
    assert "loopback only" in hosts.lacks({"connections": 50}, other)


@pytest.mark.parametrize(
    ("changes", "commit", "problems"),
    [
        ({}, "1", []),
        ({}, "2" * 40, ["commit is 222222222222"]),
        ({"quiet": False}, "1", ["DASK_CONFIG"]),
        ({"architecture": "other"}, "1", []),  # which builds programs of its own
        ({"architecture": platform.machine()}, "1", ["build/server", "build/client"]),
    ],
)
def test_a_check_tells_what_is_wrong_with_a_host(
    monkeypatch, changes, commit, problems
):
    git = {"commit": "1", "dirty": False}
    monkeypatch.setattr(checking.machine, "manifest", lambda: {"git": git})
    digests = dict.fromkeys(("server", "client"), "ours")
    monkeypatch.setattr(checking.programs.Programs, "digests", lambda _: digests)
    theirs = "theirs" if "architecture" in changes else "ours"
    answers = {"digest": theirs, "describe": {"git": git | {"commit": commit}}}

    def call(method: Callable, *_arguments: object) -> SimpleNamespace:
        return SimpleNamespace(result=lambda: answers[method.__name__])

    facts = {"quiet": True, "architecture": platform.machine()} | changes
    found = checking.problems(SimpleNamespace(facts=facts, call=call))
    for problem, text in zip(found, problems, strict=True):
        assert text in problem


# ---- merging ---------------------------------------------------------------------


def test_shares_add_up_and_seeds_differ():
    argv = ["client", "h:1", "--connections", "50", "--rate", "100", "--seed", "7"]
    parts = group.divided(argv, 3)
    connections = [int(words[3]) for words in parts]
    assert sum(connections) == 50
    assert max(connections) - min(connections) <= 1
    assert sum(float(words[5]) for words in parts) == pytest.approx(100)
    assert len({words[7] for words in parts}) == 3
    for flag in ("--connections", "--active"):
        with pytest.raises(ProgramError, match=f"^{flag} 2; allowed: at least 3,"):
            group.divided(["c", flag, "2"], 3)
    for words in group.divided(["c", "--connections", "8", "--active", "7"], 5):
        assert int(words[4]) <= int(words[2]), "a client refuses it"


@pytest.mark.parametrize(
    ("flags", "lasts_s"),
    [
        ("--duration 2 --warmup 0.5", (0.5, 2.5)),
        ("--requests 10", (0, 0)),
        ("--duration 2 --warmup 0.5 --settle 3", (0, 0)),
        ("--duration 2 --response-times 50", (0, 0)),
    ],
)
def test_a_window_is_announced_where_its_edges_are_known(flags, lasts_s):
    """Else the server's agent would look often at moments that are no edges."""
    assert group._lasts_s(["client", "h:1", *flags.split()]) == lasts_s


@pytest.fixture
def reported(client_program, tmp_path) -> Callable[..., tuple[dict, bytes]]:
    """Return what runs a client, and returns its report and its histogram."""

    def run(*words: object) -> tuple[dict, bytes]:
        path = tmp_path / "histogram.csv"
        with serving(echo) as server:
            report = client(server.port, *words, "--histogram", path)
        return report, path.read_bytes()

    return run


def test_merged_quantiles_are_those_of_all_answers(reported):
    loads = [["--connections", 3 * n, "--duration", 0.2, "--seed", n] for n in (1, 2)]
    reports, files = zip(*(reported(*words) for words in loads), strict=True)
    counts = []
    merged = group.merged(reports, files)
    again = group.added_histograms({"histogram": content} for content in files)
    assert group._slots([again]) == group._slots(files)
    for content in files:
        for row in csv.DictReader(io.StringIO(content.decode())):
            if row["clock"] == "response":
                middle = (int(row["lower_ns"]) + int(row["upper_ns"])) // 2
                counts += [middle] * int(row["count"])
    assert merged["connections"]["established"] == 9
    assert merged["fairness"]["users"] == 9
    assert merged["response"]["n"] == len(counts) == merged["window"]["requests"]
    wanted = np.quantile(counts, 0.99, method="inverted_cdf")
    assert merged["response"]["p99_ns"] == pytest.approx(wanted, rel=0.005)
    assert merged["response"]["mean_ns"] == pytest.approx(np.mean(counts), rel=0.01)
    assert merged["response"]["sd_ns"] == pytest.approx(np.std(counts), rel=0.05)


@pytest.mark.parametrize("lasts", [("--duration", "0.2"), ("--requests", "5")])
def test_one_report_merged_is_itself(reported, lasts):
    """Of few answers the 99th percentile is the last one, which is known exactly."""
    report, histogram = reported(*lasts)
    merged = group.merged([report], [histogram])
    for kind in ("response", "service", "connect"):
        for name in ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "n", "min_ns", "max_ns"):
            assert merged[kind][name] == report[kind][name], kind
    jain = report["fairness"]["jain"]
    assert merged["fairness"]["jain"] == pytest.approx(jain, rel=1e-5)


def test_fairness_is_that_of_users_who_connected():
    """As in one report: a host where nobody did has no user with the least."""
    some = {"users": 2, "jain": 1.0, "requests_min": 5, "requests_max": 5}
    nobody = dict.fromkeys(some, 0)
    reports = [
        {"fairness": each | {"longest_wait_ns": 1}, "window": {"requests": requests}}
        for each, requests in ((some, 10), (nobody, 0))
    ]
    merged = group._fairness(reports)
    assert (merged["users"], merged["jain"], merged["requests_min"]) == (2, 1.0, 5)
    assert group._fairness(reports[1:])["requests_min"] == 0


def test_requests_of_turns_add_and_an_end_that_one_client_saw_stands(reported):
    turns = ("--slice", "5ms", "--duration", 0.05)
    runs = [reported("--connections", n, *turns) for n in (1, 2)]
    reports = [report["targets"][0] for report, _ in runs]
    early = {"round": 3, "reason": "hung"}
    reports[1]["slices"]["ended_early"] = early
    merged = group.merged(reports, [histogram for _, histogram in runs], 0)
    for name in ("requests", "lead_in_requests", "client_cpu_s"):
        each = [report["slices"][name] for report in reports]
        assert merged["slices"][name] == pytest.approx(sum(each))
    assert merged["slices"]["requests"] == merged["window"]["requests"]
    assert merged["slices"]["ended_early"] == early


def test_rates_of_clients_add_and_one_that_was_cut_short_is_seen(reported):
    """Whatever the clients of other hosts saw; its report is not that of a trial."""
    report, histogram = reported("--duration", "0.1", "--connect-rate", "100")
    assert group.merged([report] * 2, [histogram] * 2)["connect_rate"] == 200
    ends = ["duration", "server_gone", "interrupted"]
    each = [report | {"stop": stop} for stop in ends]
    for reports in itertools.permutations(each):
        assert group.merged(reports, [histogram] * 3)["stop"] == "interrupted"
    assert group.merged(each[:2], [histogram] * 2)["stop"] == "server_gone"


def test_edges_of_a_window_are_told_by_our_clock():
    """A clock that is ahead of it told a later moment."""
    report = {"window": {"begin_ns": 1_000, "end_ns": 3_000}}
    assert group._edges(report, clock.Offset(400, 1)) == (600, 2_600)
    assert group._edges({"window": {}}, clock.Offset(400, 1)) is None


def test_unanswered_requests_are_slower_than_all_others():
    moments = {"n": 98, "min_ns": 100, "max_ns": 101}
    quantiles = group._quantiles({(100, 102): 98}, 2, moments)
    assert quantiles["p50_ns"] == 101
    assert quantiles["p99_ns"] is None


@pytest.mark.parametrize(("unanswered", "median_ns"), [(0, 0), (1, None)])
def test_where_nobody_was_answered_no_time_is_known(unanswered, median_ns):
    """As one client reports it: 0 of no requests, nothing of those without answers."""
    nothing = {"n": 0, "min_ns": 0, "max_ns": 0}
    assert group._quantiles({}, unanswered, nothing)["p50_ns"] == median_ns


def fake(name: str, lost: str = "") -> Mock:
    """Return a host whose agent starts a program; or is lost when asked, or before."""
    host = Mock(spec=["name", "lost", "revive", "starting", "result", "stopping"])
    host.name, host.lost = name, f"host {name}: gone"
    before = carrier.Pending(host, None)
    host.starting.return_value = before if lost == "before" else host
    host.stopping.return_value = host
    host.result.return_value = 7
    host.result.side_effect = HostLost(host.lost) if lost == "asked" else None
    return host


@pytest.mark.parametrize("lost", ["asked", "before"])
def test_clients_that_were_started_end_when_another_host_is_lost(lost):
    hosts = [fake("b"), fake("c", lost), fake("d")]
    clients = group.HostGroup(hosts, fake("a"))
    with pytest.raises(HostLost, match="host c"):
        clients.start(["client", "x:1", "--connections", "6"])
    assert [host.stopping.called for host in hosts] == [True, False, True]


def test_a_client_that_is_cut_short_while_it_connects_ends_the_trial():
    """The others waited for its word until the time of the trial was over."""
    program = remote_programs.RemoteProgram(fake("b"), 7)

    def read(line: dict | None) -> None:
        program.read(SimpleNamespace(result=lambda: line))

    report = {"event": "result", "stop": "interrupted"}
    read(None)
    with pytest.raises(ProgramError, match="^on b: interrupted before .* connected$"):
        read(report)
    read({"event": remote_programs.EVENT})
    read(report)
    assert program.report == report


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("late_ns", "told"), [(1_200_000, False), (50_000_000, True)])
def test_windows_that_lie_apart_by_more_than_clocks_may_fail_a_trial(
    side, late_ns, told
):
    clients = group.HostGroup([fake("h2"), fake("h3")], fake("h1"))
    bounds = {"h2": 100_000, "h3": 150_000}
    clients.offsets = {n: clock.Offset(0, bound) for n, bound in bounds.items()}
    late = [late_ns if edge == side else 0 for edge in (0, 1)]
    windows = {"h2": (0, 10**9), "h3": (late[0], 10**9 + late[1])}
    if told:
        with pytest.raises(ProgramError, match="^windows are 50 ms apart; h3 is last$"):
            clients._check_windows(windows)
    else:
        clients._check_windows(windows)


@pytest.mark.parametrize("late_ns", [500_000, 30_000_000])
def test_a_servers_clock_that_drifts_fails_a_trial(late_ns):
    """Its CPU time would be that of another window; no program there awaits a moment.

    In turns one does, and reads it.
    """
    offset, after = clock.Offset(7, 1000), clock.Offset(7 + late_ns, 1000)
    server = SimpleNamespace(name="a", offset=offset, measured_offset=lambda: after)
    clients = group.HostGroup([], server)
    if late_ns < remote_programs.TOLERANCE_NS:
        assert clients.check_clocks() == {}
    else:
        with pytest.raises(ProgramError, match="^the clock of a drifted by 30 ms$"):
            clients.check_clocks()


def test_timelines_add_up():
    header = "start_ms,requests,bytes,errors,max_response_ns,active\n"
    files = [header + "0,1,64,0,500,2\n100,3,64,0,10,2\n", header + "0,4,64,1,900,3\n"]
    merged = group.added_timelines({"timeline": text.encode()} for text in files)
    rows = list(csv.DictReader(io.StringIO(merged.decode())))
    assert [row["requests"] for row in rows] == ["5", "3"]
    assert [row["max_response_ns"] for row in rows] == ["900", "10"]
    assert rows[0]["active"] == "5"


def test_a_process_that_ends_meanwhile_does_not_keep_a_lab_up(monkeypatch, tmp_path):
    """One that ended between two calls of the search left all networks in place."""
    stat_of = os.stat

    def gone(path, **options):
        if re.fullmatch(r"/proc/\d+/cmdline", str(path)):
            raise ProcessLookupError(path)
        return stat_of(path, **options)

    monkeypatch.setattr(os, "stat", gone)
    assert [*lab.Lab(tmp_path / "lab", 177)._running()] == []


def test_no_lab_is_made_where_a_namespace_cannot_be_entered(monkeypatch):
    """As in a chroot whose root is no mount point; study 14 is not measured then."""
    asked = []

    def ip(*words, check=True):
        asked.append(words)
        entered = "-n" in words
        return SimpleNamespace(returncode=entered, stderr="mount: no" * entered)

    monkeypatch.setattr(lab.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(lab, "_ip", ip)
    assert lab.missing() == "network namespaces cannot be entered: mount: no"
    assert [words[:2] for words in asked[-2:]] == [("link", "del"), ("netns", "del")]


@pytest.mark.parametrize(("user", "who"), [(0, "made: no"), (1000, "(only root may)")])
def test_who_may_make_no_namespace_is_told_that_root_may(monkeypatch, user, who):
    refused = SimpleNamespace(returncode=1, stderr="no")
    monkeypatch.setattr(lab.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(lab, "_ip", lambda *words, check=True: refused)
    monkeypatch.setattr(lab.os, "geteuid", lambda: user)
    assert who in lab.missing()
