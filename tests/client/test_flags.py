"""Mistakes on the command line are named, with what is allowed."""

from __future__ import annotations

import errno
import os
import subprocess

import pytest

from tests.client.harness import refused


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--connections", "0"], ["--connections", "0", "1 to 10000000"]),
        (["--connections", "2.5"], ["--connections", "2.5"]),
        (["--size", "9-3"], ["--size", "9-3", "1 to"]),
        (["--rate", "-5"], ["--rate", "-5"]),
        (["--arrivals", "uniform"], ["--arrivals", "uniform", "poisson or paced"]),
        (["--workload", "ftp"], ["--workload", "ftp", "echo, work or http"]),
        (["--delay", "uniform:1:2"], ["--delay", "uniform:1:2", "SPREAD"]),
        (["--sources", "::1"], ["--sources", "::1"]),
        (["--engine", "select"], ["--engine", "select", "epoll"]),
        (["--conections", "5"], ["--conections", "--connections"]),
        (["--requests-per", "5"], ["--requests-per", "see --help"]),
        (["--duration"], ["--duration", "seconds"]),
        (["--active", "3", "--connections", "2"], ["--active 3", "--connections, 2"]),
        (["--requests", "5", "--duration", "1"], ["--requests 5", "--duration 1"]),
        (["--requests", "5", "--rate", "7"], ["--requests 5", "--rate 7"]),
        (["--think", "5", "--rate", "7"], ["--think 5", "--rate 7", "without"]),
        (["--byte-rate", "5", "--rate", "7"], ["--byte-rate 5", "--rate 7"]),
        (["--settle", "5", "--rate=7"], ["--settle 5", "--rate 7", "without --rate"]),
        (["--path", "page", "--workload", "http"], ["--path", "page", "/"]),
        (["--path", "/page"], ["--path /page", "echo", "--workload http"]),
        (["--delay", "5"], ["--delay 5", "workload echo", "--workload work"]),
        (["--buckets", "5"], ["--buckets 5", "workload echo", "--workload work"]),
        (["--workload=work", "--size=9"], ["--size 9", "work", "--workload echo"]),
        (["--block", "5"], ["--block 5", "--byte-rate"]),
        (["--sources", "0.0.0.0-255.255.255.255"], ["--sources", "0.0.0.0-255"]),
        (
            ["--sources", "127.0.0.1-128.0.0.1"],
            ["--sources 127.0.0.1-128.0.0.1", " 128.0.0.1 "],
        ),
        (["127.0.0.1:2"], ["127.0.0.1:2"]),
    ],
)
def test_mistakes_are_named(client_program, flags, words):
    message = refused(client_program, "127.0.0.1:1", *flags)
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    "target", ["", "localhost", "127.0.0.1:", "1.2.3.4:http", ":1"]
)
def test_targets_that_are_none(client_program, target):
    done = subprocess.run([client_program, target], capture_output=True, text=True)
    assert done.returncode == 2
    assert "client: " in done.stderr


@pytest.mark.parametrize("port", [0, 65536, 70000, 2**64 + 80])
def test_ports_that_are_none(client_program, port):
    """One too large is not taken modulo 65536."""
    target = f"127.0.0.1:{port}"
    message = refused(client_program, target)
    assert message.startswith(f"client: {target}: ")
    assert message.endswith(" 1 to 65535\n")


def test_file_that_cannot_be_written(client_program):
    flags = ["127.0.0.1:1", "--timeline", "/nowhere/to/be.csv"]
    done = subprocess.run([client_program, *flags], capture_output=True, text=True)
    assert done.returncode == 1
    reason = os.strerror(errno.ENOENT)
    assert done.stderr == f"client: /nowhere/to/be.csv: {reason}\n"


def test_help_fits_a_terminal(client_program):
    done = subprocess.run([client_program, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for flag in ["--connections N", "--rate R", "--requests-per-connection N"]:
        assert flag in done.stdout
