"""build/external: a server that is not ours is started, told of, and ended whole."""

import contextlib
import errno
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import refused

from tests.conformance.harness import echoes, eventually, unsanitized
from tests.drive_fakes import alive

MISBEHAVING = Path(__file__).parent / "fakes" / "misbehaving.py"


def line(kind: str) -> str:
    """Return the command line of a server that misbehaves."""
    words = [sys.executable, "-S", "-E", str(MISBEHAVING), kind]
    return f"{shlex.join(words)} {{port}}"


@pytest.fixture
def external(build_dir, nobody_left):
    """A way to start the program; what it started is looked for at the end."""
    started = []

    def start(
        kind: str,
        *flags: str,
        program=sys.executable,
        errors=subprocess.PIPE,
        preexec=None,
    ) -> subprocess.Popen:
        command = [program, *shlex.split(line(kind))[1:]]
        words = [build_dir / "external", *flags, "--", *command]
        pipes = {"stdout": subprocess.PIPE, "stderr": errors, "text": True}
        options = {"process_group": 0, "preexec_fn": preexec}
        started.append(subprocess.Popen(words, **pipes, **options))
        return started[-1]

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert eventually(lambda: not alive(), seconds=5), alive()


def ready(process: subprocess.Popen) -> dict:
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return json.loads(line)


def ended(process: subprocess.Popen) -> dict:
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("kind", ["good", "daemon", "children"])
def test_it_says_where_the_server_listens_and_ends_all_of_it(external, kind):
    process = external(kind, "--name", "mine")
    listening = ready(process)
    assert (listening["event"], listening["model"]) == ("ready", "mine")
    assert 0 < listening["start_s"] < 10
    with socket.create_connection((listening["host"], listening["port"]), 5) as sock:
        assert echoes(sock)
    used = ended(process)
    assert used["event"] == "usage"
    assert used["cpu_user_s"] > 0
    assert used["context_switches_voluntary"] > 0


@pytest.mark.parametrize("name", [None, "C:\\new\\", "one\ntwo\tthree\x01", "müde"])
def test_a_name_is_told_as_it_was_given(external, tmp_path, name):
    """The command's stands for one that is missing; JSON may want it in other words."""
    program = tmp_path / 'say "hello\\there"'
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    flags = ["--name", name] if name else []
    process = external("good", *flags, program=program)
    assert ready(process)["model"] == (name or str(program))
    ended(process)


def test_whoever_hears_no_sigterm_is_killed_and_that_is_told(external):
    process = external("deaf", "--grace", "1")
    ready(process)
    assert ended(process)["killed"] is True


@pytest.mark.parametrize("kind", ["good", "daemon", "children", "deaf"])
def test_killed_without_a_word_it_leaves_nobody(external, kind):
    process = external(kind)
    ready(process)
    process.kill()
    process.wait()


def test_killed_as_it_starts_it_leaves_nobody(external):
    """Its guard may not have looked yet who its parent is."""
    for _ in range(100):
        process = external("good")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until = time.monotonic() + 10
        while not children.read_bytes() and time.monotonic() < until:
            continue
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        ("mute", 1, [" 127.0.0.1:", "about to listen"]),
        ("ends", 3, ["no such database"]),
    ],
)
def test_what_never_listens_is_told_with_its_own_words(external, kind, status, said):
    """It is given up, or its end is passed on."""
    process = external(kind, "--patience", "1")
    out, errors = process.communicate(timeout=20)
    assert (out, process.returncode) == ("", status)
    assert [words for words in said if words not in errors] == []


def test_what_ends_well_and_never_listened_is_told(external):
    """Status 1 stands for its 0, and "exit 1" was all that was said."""
    process = external("good", program="true")
    out, errors = process.communicate(timeout=20)
    assert (out, process.returncode) == ("", 1)
    assert "exit 0 before anything listened on 127.0.0.1:" in errors


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_that_ends_the_server_is_passed_on(external, number):
    """Also one that its guard blocks, as it waits for it: that was a status of 143."""
    process = external("good")
    os.kill(ready(process)["pid"], number)
    process.communicate(timeout=20)
    assert process.returncode == -number


@pytest.mark.serial
@pytest.mark.parametrize(
    "many", [False, pytest.param(True, marks=unsanitized)], ids=["few", "many"]
)
def test_a_server_that_forks_and_forks_is_ended(external, preloaded, many):
    """Tasks of the machine were counted in 16 bits, which had no room for 100 more."""
    preexec = preloaded("external_faults.c", TASKS=1) if many else None
    process = external("wild", "--processes", "100", preexec=preexec)
    ready(process)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert "100 processes" in errors


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "no command"),
        (["--"], 2, "no command"),
        (["./no", "{port}"], 2, "./no: no option; want -- before CMD"),
        (["--patience", "soon", "--", "x"], 2, "--patience soon: want"),
        (["--greace", "9", "--", "x"], 2, "--grace"),
        (["--name", "--", "./no"], 2, "--name (nothing): want a name"),
        (["--workload=", "--", "./no"], 2, "--workload: want a name"),
        (["--", "./no", "{port}"], 127, f"./no: {os.strerror(errno.ENOENT)}"),
    ],
)
def test_what_cannot_be_run_is_named(build_dir, words, status, message):
    assert message in refused(build_dir / "external", *words, status=status)


@unsanitized
def test_a_command_that_cannot_be_forked_is_said(build_dir, preloaded):
    """Nobody is awaited, nor sent SIGTERM: it went to all processes of the user."""
    full = {"preexec_fn": preloaded("external_faults.c", FORKS=1)}
    told = refused(build_dir / "external", "--", "true", status=1, **full)
    assert told == f"external: fork: {os.strerror(errno.EAGAIN)}\n"


def test_a_script_whose_interpreter_is_not_there_is_not_said_to_be_missing(
    build_dir, tmp_path
):
    """It had the ends of lines of Windows, and was there for all to see."""
    script = tmp_path / "echo.py"
    script.write_bytes(b"#!/usr/bin/env\r\nprint(1)\r\n")
    script.chmod(0o755)
    told = refused(build_dir / "external", "--", str(script), "{port}", status=127)
    assert f"{script}: what its first line (#!)" in told


def test_a_name_without_a_slash_is_not_looked_for_here(build_dir, tmp_path):
    """A file of that name, which nobody had tried, was said to have a wrong line."""
    (tmp_path / "nowhere-in-path.py").write_text("#!/usr/bin/env python3\n")
    external = (build_dir / "external").resolve()
    words = ["--", "nowhere-in-path.py", "{port}"]
    told = refused(external, *words, status=127, cwd=tmp_path)
    assert told == f"external: nowhere-in-path.py: {os.strerror(errno.ENOENT)}\n"


def test_what_a_server_prints_without_end_does_not_fill_the_memory(external):
    errors = os.memfd_create("stderr")
    process = external("chatty", errors=errors)
    listening = ready(process)
    os.posix_fallocate(errors, 0, 80 << 20)
    os.lseek(errors, 80 << 20, os.SEEK_SET)
    with socket.create_connection((listening["host"], listening["port"]), 5) as sock:
        assert echoes(sock)
        assert eventually(lambda: os.fstat(errors).st_blocks * 512 < 10 << 20)
        assert echoes(sock, b"the last words")
    assert b"the last words" in os.pread(errors, 4096, os.fstat(errors).st_size - 200)
    os.close(errors)
