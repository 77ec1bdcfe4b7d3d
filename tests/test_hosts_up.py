"""Scheduler and workers over SSH, with a stand-in for ssh that stays here."""

import contextlib
import hashlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import ROOT, connlab, wait_for

from connlab.hosts import certificates, roster, starting
from tests.client.harness import reserved_port
from tests.drive_fakes import processes

#: for tests whose workers take what is copied from one folder, below build
together = pytest.mark.xdist_group("hosts-up")

FAKE_SSH = """#!/bin/sh
# ssh FLAG... TARGET COMMAND: note the target, run the command here
while [ $# -gt 2 ]; do shift; done
echo "$1" >>"$SSH_LOG"
eval "exec $2"
"""


ROSTER = """
scheduler = "tls://127.0.0.1:{port}"
certificates = "certificates"
server = "a"
clients = ["2"]
[hosts.a]
address = "127.0.0.2"
[hosts.2]
address = "127.0.0.3"
ssh = "me@b"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a hosts.toml of two hosts on loopback, with the stand-in on the PATH.

    The name of one is a number.
    """
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(FAKE_SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_LOG", str(tmp_path / "ssh.log"))
    path = tmp_path / "hosts.toml"
    with reserved_port() as port:
        path.write_text(ROSTER.format(port=port))
        yield path


@contextlib.contextmanager
def coming_up(place: Path) -> Iterator[subprocess.Popen]:
    """Yield `hosts up` when all is up; see that nothing of it stays."""
    command = [sys.executable, "-u", "-m", "connlab", "hosts", "up", str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout.readline().startswith("certificates: made")
            assert started.stdout.readline().startswith("up: a, 2;")
            yield started
        finally:
            started.kill()
    wait_for(lambda: not workers(place), every_s=0.1)
    wait_for(lambda: not (ROOT / starting.FOLDER / "worker.key").exists())


@pytest.mark.long
@pytest.mark.sweeps
@together
@pytest.mark.usefixtures("server_program")
def test_workers_come_up_over_ssh_and_end_with_it(place):
    with coming_up(place) as started:
        checked = connlab("hosts", "check", place)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        done = connlab("hosts", "trial", place, "--connections", 4)
        assert done.returncode == 0, done.stderr
        assert [text.split(":")[0] for text in done.stdout.splitlines()] == ["all", "2"]
        assert {where.split(".")[0] for where in listening(place)} == {"127"}
        started.terminate()
        assert started.wait(20) == 0
    targets = sorted((place.parent / "ssh.log").read_text().split())
    assert targets == ["127.0.0.2"] * 3 + ["me@b"] * 3


@pytest.mark.long
@pytest.mark.sweeps
@together
@pytest.mark.usefixtures("server_program")
def test_nothing_is_left_by_a_command_that_was_killed(place):
    """Nor the scheduler, which has the port of the next one."""
    with coming_up(place) as started:
        assert workers(place)
        started.kill()


@pytest.mark.long
@pytest.mark.sweeps
@together
@pytest.mark.usefixtures("server_program")
def test_a_worker_that_does_not_hear_is_killed(place):
    with coming_up(place) as started:
        lines = workers(place).items()  # also of the shells that wait for them
        pids = [pid for pid, line in lines if line.startswith(sys.executable)]
        assert len(pids) > len(roster.load(place).hosts), "and the scheduler"
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        started.terminate()
        started.wait(60)


def workers(place: Path) -> dict[int, str]:
    """Return the workers and the scheduler of a hosts.toml."""
    port = roster.load(place).scheduler.encode()
    return {
        pid: line.decode().replace("\0", " ")
        for pid, line, _ in processes()
        if port in line and b"distributed.cli" in line
    }


def listening(place: Path) -> list[str]:
    """Return the addresses on which they take connections."""
    sockets = (psutil.Process(pid).net_connections("tcp") for pid in workers(place))
    found = (each for some in sockets for each in some)
    return [each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN]


def test_a_host_that_ssh_does_not_reach_is_named(place, monkeypatch):
    (place.parent / "bin" / "ssh").write_text("#!/bin/sh\necho no route >&2; exit 255")
    monkeypatch.setattr(starting.Started, "_start_scheduler", lambda self: None)
    with pytest.raises(RuntimeError, match="host a: .*no route"):
        starting.Started(roster.load(place)).__enter__()


def test_programs_are_copied_where_they_are_others(place, monkeypatch, build_dir):
    messages: list[str] = []
    starter = starting.Started(roster.load(place), messages.append)
    answers: list[str] = []
    monkeypatch.setattr(starter, "_ask", lambda name, script: answers[-1])
    machine = os.uname().machine
    digest = hashlib.sha256((build_dir / "server").read_bytes()).hexdigest()
    answers.append(f"{machine}\n{digest} build/server\n")
    assert list(starter._programs_for("a")) == ["build/client"]
    assert messages == ["a: build/client copied"]
    answers.append(f"other\n{digest} build/server\n")
    with pytest.raises(RuntimeError, match="host a: .*other.*`make build`"):
        starter._programs_for("a")
    digests = "".join(f"1234 build/{name}\n" for name in ("server", "client"))
    answers.append(f"other\n{digests}")
    assert starter._programs_for("a") == {}


def test_only_the_certificate_of_a_worker_leaves_the_machine(place):
    starter = starting.Started(roster.load(place))
    certificates.make(starter.roster.certificates)
    starter.folder = place.parent
    (place.parent / "dask.yaml").write_text("")
    sent: list[bytes] = []
    starter._programs_for = lambda name: {}
    starter._ask = lambda name, script, stdin=b"": sent.append(stdin) or ""
    starter._send("a")
    archive = sent[0]
    assert b"build/hosts/worker.key" in archive
    assert b"client.key" not in archive
    assert b"scheduler.key" not in archive


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may own and give what it has")
def test_what_is_copied_belongs_to_who_copies_it(place, monkeypatch):
    """Also when it is root, whose tar keeps the owner that a file has here."""
    monkeypatch.setattr(starting.schema, "project_root", lambda: place.parent)
    starter = starting.Started(roster.load(place))
    certificates.make(starter.roster.certificates)
    os.chown(starter.roster.certificates / "worker.key", 4321, 4321)
    starter.folder = place.parent
    (place.parent / "dask.yaml").write_text("")
    starter._programs_for = lambda name: {}
    starter._send("a")
    copied = (place.parent / starting.FOLDER / "worker.key").stat()
    assert (copied.st_uid, stat.S_IMODE(copied.st_mode)) == (0, 0o600)


def test_logs_are_left_to_the_programs_that_write_them(place, monkeypatch):
    logs = []
    monkeypatch.setattr(
        starting.subprocess, "Popen", lambda words, *, stderr, **_: logs.append(stderr)
    )
    started = starting.Started(roster.load(place))
    started.folder = place.parent
    started._start_scheduler()
    started._start_worker("a")
    assert [Path(log.name).name for log in logs] == ["scheduler.log", "a.log"]
    assert all(log.closed for log in logs)
