"""What runtimes/ holds does what any client may expect, where its tools are here."""

import contextlib
import errno
import http.client
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import conftest
import pytest

from connlab import runtimes, schema
from connlab.drive import machine, programs, servers
from connlab.drive.running import running
from connlab.judge import calls, conversations
from connlab.judge.wire import MIB, echoes
from tests.conformance.harness import eventually

ENTRIES = servers.entries()
ECHO = [name for name, entry in ENTRIES.items() if "echo" in entry.workloads]
HTTP = [name for name, entry in ENTRIES.items() if "http" in entry.workloads]
#: those whose descriptors are their process's own
NATIVE = [name for name in ECHO if not ENTRIES[name].contract]
#: their build takes longer than a test suite may: those that are built are tried
SLOW_TO_BUILD = ("tokio-current", "tokio-multi", "python-uvloop", "netty", "asio")
#: what a server is known to do otherwise, as its community writes it
KNOWN = {"winsock-select-64": {"a hundred"}}


@pytest.fixture
def built(build_dir, request) -> str:
    """Return the name of a server that can run here; else skip and say why not.

    One whose tools are here and whose build fails is no reason to skip.
    """
    name = request.param
    entry = ENTRIES[name]
    if entry.reason and not entry.lacks and name not in SLOW_TO_BUILD:
        with conftest._locked("build"):  # several may be of one program
            assert not entry.reason or runtimes.make([name]) == []
    if entry.reason:
        pytest.skip(f"{name}: {entry.reason}")
    return name


@pytest.mark.long
@pytest.mark.parametrize("built", ECHO, indirect=True)
def test_an_echo_server_passes_every_conversation(built):
    known = KNOWN.get(built, set())
    # What fails leaves clients behind that others would be refused for: it comes last.
    talks = sorted(conversations.EVERY, key=lambda talk: talk.name in known)
    with running(built) as server:
        heard = conversations.hold(talks, server.address)
    assert len(heard) == len(conversations.EVERY)
    failed = {talk.name: talk.failure for talk in heard if not talk.ok}
    assert failed.keys() == known, failed
    assert not server.ended.early
    assert server.ended.lines[-1].get("killed", False) is False


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.parametrize("built", NATIVE, indirect=True)
def test_a_server_without_descriptors_goes_on_once_clients_have_left(built):
    """One ended at an accept() that failed, and one accepted nobody any more."""
    with running(built) as server:
        with socket.create_connection(server.address, 10) as sock:
            assert echoes(sock)
        pid = server.ready["pid"]
        most = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 5
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
        with contextlib.ExitStack() as stack:
            for _ in range(30):
                client = socket.create_connection(server.address, 10)
                stack.enter_context(client)
            time.sleep(0.3)
        assert eventually(lambda: _answers(server.address), seconds=20)
    assert not server.ended.early


def _answers(address: tuple[str, int]) -> bool:
    """Whether a client is served; it may be turned away before others are closed."""
    with contextlib.suppress(OSError), socket.create_connection(address, 5) as sock:
        return echoes(sock)
    return False


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.parametrize("built", NATIVE, indirect=True)
def test_hundreds_of_clients_may_wait_to_be_accepted(built):
    """Beside the others, asyncio's had room for 100 of them, and Node's for 511."""
    if int(machine.sysctl("net.core.somaxconn")) < 1024:
        pytest.skip("net.core.somaxconn is less than 1024")
    with running(built) as server, contextlib.ExitStack() as stack:
        os.kill(server.ready["pid"], signal.SIGSTOP)
        for _ in range(600):  # a SYN that finds no room is sent again after a second
            stack.enter_context(socket.create_connection(server.address, 0.9))
        os.kill(server.ready["pid"], signal.SIGCONT)


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.parametrize("built", ["libuv", "asio"], indirect=True)
def test_a_request_registers_nothing_anew(built):
    """For libuv two calls of epoll_ctl stood for each: its cost was that of ours."""
    counted = calls.count(servers.command_line(built, programs.built()))
    if counted.missing:
        pytest.skip(counted.missing)
    assert counted.total >= 2
    assert "epoll_ctl" not in counted.per_request, counted


@pytest.fixture
def root():
    """A folder that a server may read which does not run as we do."""
    with tempfile.TemporaryDirectory(prefix="connlab-root-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "page.html").write_bytes(b"<p>a page</p>")
        (folder / "mib").write_bytes(MIB)
        yield folder


@pytest.mark.long
@pytest.mark.parametrize("built", HTTP, indirect=True)
def test_a_web_server_gives_files_and_keeps_the_connection(built, root):
    with running(built, workload="http", root=str(root)) as server:
        client = http.client.HTTPConnection(*server.address, timeout=10)
        for path, status, body in [
            ("/page.html", 200, b"<p>a page</p>"),
            ("/nothing", 404, None),
            ("/mib", 200, MIB),
            *[("/page.html", 200, b"<p>a page</p>")] * 300,
        ]:
            client.request("GET", path)
            answer = client.getresponse()
            content = answer.read()
            assert answer.status == status
            assert body is None or content == body
            assert not answer.will_close
        client.close()
    assert not server.ended.early


def test_nginx_is_told_the_folders_that_were_given(tmp_path):
    """In a name, & was the place that it stands for, and | the end of it."""
    nginx = tmp_path / "nginx"
    nginx.write_text("#!/bin/sh\ncat /dev/fd/3\n")
    nginx.chmod(0o755)
    start = ENTRIES["nginx"].folder / "start.sh"
    words = ["sh", start, nginx, "80", "/me & you|us", "/d & e"]
    conf = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert 'root "/me & you|us";' in conf
    assert 'pid "/d & e/80.pid";' in conf


@pytest.mark.parametrize("name", ENTRIES)
def test_a_version_is_known_of_what_can_run(name):
    if ENTRIES[name].reason:
        pytest.skip(ENTRIES[name].reason)
    version = servers.version_of(ENTRIES[name])
    assert any(c.isdigit() for c in version)
    assert ".jar" not in version  # the name of a file


def test_a_version_is_that_of_what_was_built(monkeypatch, tmp_path):
    """Go's was that of the compiler which was installed by then."""
    entry = ENTRIES["go"].model_copy(update={"needs": ()})
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    entry.build_folder.mkdir(parents=True)
    program = entry.build_folder / "echo"
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo go1.2.3\n')
    program.chmod(0o755)
    assert servers.version_of(entry) == "go1.2.3"


@pytest.mark.long
def test_go_builds_the_same_program_in_every_clone(monkeypatch, tmp_path):
    """It asked git, which refuses a clone of another user's, and kept the commit."""
    if ENTRIES["go"].lacks:
        pytest.skip(ENTRIES["go"].reason)
    source = ENTRIES["go"].folder
    monkeypatch.setattr(servers, "entries", lambda: ENTRIES)
    programs_built = set()
    for home in (tmp_path / "one", tmp_path / "another"):
        shutil.copytree(source, home / "runtimes" / "go")
        (home / ".git").mkdir()  # in which git finds no repository, and fails
        monkeypatch.setattr(schema, "project_root", lambda home=home: home)
        assert runtimes.make(["go"], say=str) == []
        programs_built.add((ENTRIES["go"].build_folder / "echo").read_bytes())
    assert len(programs_built) == 1


def test_no_library_of_another_version_stays_with_netty(monkeypatch, tmp_path):
    """Both were on the class path, and which was measured nobody knew."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    need = servers.Need(any_of=(str(tool),), install="")
    entry = ENTRIES["netty"].model_copy(update={"needs": (need,) * 3})
    monkeypatch.setattr(servers, "entries", lambda: {"netty": entry})
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    old = entry.build_folder / "lib" / "netty-transport-4.1.0.Final.jar"
    product = entry.build_folder / "classes" / "EchoServer.class"
    for path in (old, product):
        path.parent.mkdir(parents=True)
        path.touch()
    assert runtimes.make(["netty"], say=str) == []
    assert not old.exists()


def test_what_cannot_be_built_is_left_out_and_the_others_are_not(monkeypatch, tmp_path):
    table = "label = 'x'\nfamily = 'threads'\nlanguage = 'C'\ncommand = 'x {port}'"
    builds = {"one": "no-such-compiler", "two": "false", "three": "true"}
    text = "".join(f"[{n}]\n{table}\nbuild = ['{b}']\n" for n, b in builds.items())
    entries, said = servers.parse(text), []
    monkeypatch.setattr(servers, "entries", lambda: entries)
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    runtimes.make(say=said.append)
    missing, failed, made = (line.split(maxsplit=1)[1].strip() for line in said)
    assert missing == f"left out: no-such-compiler: {os.strerror(errno.ENOENT)}"
    assert failed == "left out: false: exit 1"
    assert made == "ready"


def test_a_product_whose_source_has_changed_is_not_run(monkeypatch, tmp_path):
    """Someone edited a server, and measured the one that was built before."""
    table = "label = 'x'\nfamily = 'threads'\nlanguage = 'C'"
    table += "\ncommand = '{build}/x {port}'\nproduct = '{build}/x'"
    entry = servers.parse(f"[x]\n{table}\nbuild = ['cp x.c {{build}}/x']\n")["x"]
    monkeypatch.setattr(servers, "entries", lambda: {"x": entry})
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    source = tmp_path / "runtimes" / "x" / "x.c"
    source.parent.mkdir(parents=True)
    source.write_text("one")
    assert runtimes.make(say=str) == []
    assert entry.available
    source.write_text("two")
    assert "make runtimes" in entry.reason
    assert runtimes.make(say=str) == []
    assert entry.available


def test_what_is_half_built_is_not_run(monkeypatch, tmp_path):
    """Left out as it was built, a server was measured where its product was there."""
    table = "label = 'x'\nfamily = 'threads'\nlanguage = 'C'"
    table += "\ncommand = '{build}/x {port}'\nproduct = '{build}/x'"
    build = "build = ['touch {build}/x', 'test -e {build}/library']"
    entry = servers.parse(f"[x]\n{table}\n{build}\n")["x"]
    monkeypatch.setattr(servers, "entries", lambda: {"x": entry})
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    assert runtimes.make(say=str) == ["x"]
    assert entry.reason == "its build did not end (make runtimes)"
    (entry.build_folder / "library").touch()
    assert runtimes.make(say=str) == []
    assert entry.available


def test_what_is_not_in_servers_toml_is_named():
    with pytest.raises(ValueError, match="'node'"):
        runtimes.make(["nodee"])
