"""Mistakes on the command line are named, with what is allowed."""

import errno
import json
import os
import resource
import signal
import subprocess

import pytest
from conftest import ran

from tests.client.harness import CLIENT, command, echo, refused, serving

#: a second target, and how long each is asked
TURNS = "127.0.0.1:2 --slice 20ms"
#: a workload that takes a delay
WORK = "--workload work"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--connections 0", ["--connections", "0", "1 to 10000000"]),
        ("--connections 2.5", ["--connections", "2.5"]),
        ("--size 9-3", ["--size", "9-3", "1 to", "MIN-MAX"]),
        ("--rate -5", ["--rate", "-5"]),
        ("--arrivals uniform", ["--arrivals", "uniform", "poisson or paced"]),
        ("--workload ftp", ["--workload", "ftp", "echo, work or http"]),
        ("--delay uniform:1:2", ["--delay", "uniform:1:2", "SPREAD"]),
        ("--sources ::1", ["--sources", "::1"]),
        ("--engine select", ["--engine", "select", "epoll"]),
        ("--conections 5", ["--conections", "--connections"]),
        ("--requests-per 5", ["--requests-per", "see --help"]),
        ("--duration", ["--duration", "seconds"]),
        ("--active 3 --connections 2", ["--active 3", "--connections, 2"]),
        ("--requests 5 --duration 1", ["--requests 5", "--duration 1"]),
        ("--requests 5 --rate 7", ["--requests 5", "--rate 7"]),
        ("--think 5 --rate 7", ["--think 5", "--rate 7", "without"]),
        ("--byte-rate 5 --rate 7", ["--byte-rate 5", "--rate 7"]),
        ("--settle 5 --rate=7", ["--settle 5", "--rate 7", "without --rate"]),
        ("--path page --workload http", ["--path", "page", "/"]),
        ("--path /page", ["--path /page", "echo", "--workload http"]),
        ("--delay 5", ["--delay 5", "workload echo", "--workload work"]),
        ("--buckets 5", ["--buckets 5", "workload echo", "--workload work"]),
        ("--workload=work --size=9", ["--size 9", "work", "--workload echo"]),
        ("--block 5", ["--block 5", "--byte-rate"]),
        ("--sources 0.0.0.0-255.255.255.255", ["--sources", "0.0.0.0-255"]),
        (
            "--sources 127.0.0.1-128.0.0.1",
            ["--sources 127.0.0.1-128.0.0.1", " 128.0.0.1 "],
        ),
        ("--requests 5 --response-times 50", ["--response-times"]),
        ("--duration 1 --duration-max 0.5", ["--duration-max"]),
        ("--response-times -1", ["--response-times"]),
        ("--begin-told --begin-at 1", ["--begin-told", "--begin-at"]),
        # what needs slices
        ("127.0.0.1:2", ["127.0.0.1:2", "--slice"]),
        ("--slices x.csv", ["--slices x.csv", "together with --slice"]),
        ("--watch 1", ["--watch 1", "together with --slice"]),
        ("--only-watch", ["--only-watch: ", "together with --slice"]),
        ("--lead-in 1", ["--lead-in 1", "together with --slice"]),
        ("--late 1ms --rate 7", ["--late 1ms", "together with --slice"]),
        pytest.param(
            " ".join(f"127.0.0.1:{i}" for i in range(1, 65)),
            ["127.0.0.1:64", "64 targets"],
            id="65 targets",
        ),
        ("--connections 4,5", ["--connections 4,5", "one for each target, 1"]),
        (f"{TURNS} --connections 4,5,6", ["4,5,6", "one for each target, 2"]),
        (f"{TURNS} --connections 4,", ["--connections 4,", "number for each"]),
        (f"{TURNS} --connections 4,0", ["--connections 4,0", "number for each"]),
        (f"{TURNS} --connections 9,3 --active 4", ["--active 4", "--connections, 3"]),
        # no server takes as long
        (f"{WORK} --delay 61s", ["--delay 61s", "60 s"]),
        (f"{WORK} --delay uniform:40s:21s", ["--delay uniform:", "60 s"]),
        # nobody waits as long
        ("--think 1000000000000s", ["--think 1000000000000s", "up to 86400 s"]),
        ("--think uniform:50000s:40000s", ["--think uniform:", "86400 s"]),
        # slices
        ("--slice 0", ["--slice 0", "0.1ms to 60s"]),
        ("--slice 20m", ["--slice 20m", "0.1ms to 60s"]),
        ("--slice 61s", ["--slice 61s", "0.1ms to 60s"]),
        (f"{TURNS} --lead-in 20ms", ["--lead-in 20ms", "--slice 20ms"]),
        (f"{TURNS} --lead-in -1", ["--lead-in -1", "0 to ", "--slice"]),
        (f"{TURNS} --watch 1 --watch 1 --watch 1", ["--watch", "3", "one per"]),
        (f"{TURNS} --watch 1,", ["--watch 1,", "PIDs with commas"]),
        (f"{TURNS} --watch x", ["--watch x", "PIDs with commas"]),
        (f"{TURNS} --watch 0", ["--watch 0", "PIDs with commas"]),
        pytest.param(
            f"{TURNS} --watch {','.join(['1'] * 65)}",
            ["--watch 1,1,1", "1 to 64 PIDs with commas"],
            id="65 PIDs",
        ),
        pytest.param(
            TURNS + " --watch 1" * 65,
            ["--watch 1: one too many", "64"],
            id="65 times --watch",
        ),
        (f"{TURNS} --watch 1,2147483646", ["--watch 2147483646", "no such process"]),
        (f"{TURNS} --requests=5", ["--requests 5", "--slice 20ms", "without --slice"]),
        (f"{TURNS} --byte-rate 5", ["--byte-rate 5", "--slice 20ms"]),
        (f"{TURNS} --timeline=x", ["--timeline x", "--slice 20ms", "without --slice"]),
        (f"{TURNS} --think 5 --rate 7", ["--think 5", "--rate 7"]),
        (f"{TURNS} --late 1ms", ["--late 1ms", "together with --rate"]),
        (f"{TURNS} --late=0 --rate=7", ["--late 0", "0.001 to 60000 ms"]),
        # moments that a clock fixes
        (f"{TURNS} --pause 5ms", ["--begin-at"]),
        (f"{TURNS} --pause 5ms --begin-at 1 --settle 1", ["without --pause"]),
        (f"{TURNS} --only-watch", ["together with --pause"]),
        # below the default of another
        ("--duration-max 0.5", ["--duration-max 0.5", "--duration, 1, or more"]),
        ("--timeline x --histogram x", ["--histogram x", "--timeline is written"]),
    ],
)
def test_mistakes_are_named(flags, words):
    message = refused("127.0.0.1:1", *flags.split())
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    "target", ["", "localhost", "127.0.0.1:", "1.2.3.4:http", ":1"]
)
def test_targets_that_are_none(target):
    assert target in refused(target)


@pytest.mark.parametrize("port", [0, 65536, 70000, 2**64 + 80])
def test_ports_that_are_none(port):
    """One too large is not taken modulo 65536."""
    target = f"127.0.0.1:{port}"
    message = refused(target)
    assert message.startswith(f"client: {target}: ")
    assert message.endswith(" 1 to 65535\n")


def test_file_that_cannot_be_written():
    flags = ["127.0.0.1:1", "--timeline", "/nowhere/to/be.csv"]
    said = refused(*flags, status=1)
    assert said == f"client: /nowhere/to/be.csv: {os.strerror(errno.ENOENT)}\n"


@pytest.mark.parametrize(
    "file", ["--timeline", "--per-connection", "--histogram", "--slices", None]
)
def test_a_disk_that_is_full_is_said_and_is_the_status(file):
    """Of each of its files, and of where its result goes."""
    with serving(echo) as server, open("/dev/full", "w") as full:
        words = command(server.port, "--duration 0.2")
        words += [file, "/dev/full"] if file else []
        words += ["--slice", "20ms"] if file == "--slices" else []
        out = subprocess.PIPE if file else full
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == f"client: write: {os.strerror(errno.ENOSPC)}\n"
    assert not file or json.loads(done.stdout)["stop"] == "duration"


def no_room() -> None:
    """For ``preexec``: files end at 1000 bytes, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_rows_that_a_process_could_not_write_are_said(tmp_path):
    """One of them writes, and what it could not was missing without a word."""
    path = tmp_path / "slices.csv"
    with serving(echo) as server:
        flags = "--connections 2 --processes 2 --slice 20ms --duration 0.5"
        words = command(server.port, flags, "--slices", path)
        done = ran(*words, preexec_fn=no_room, timeout=30)
    assert done.returncode == 1
    assert done.stderr == f"client: {path}: not all of it was written\n"
    assert path.stat().st_size == 1000


def test_help_fits_a_terminal():
    done = ran(CLIENT, "--help")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for flag in ["--connections N", "--rate R", "--requests-per-connection N"]:
        assert flag in done.stdout
