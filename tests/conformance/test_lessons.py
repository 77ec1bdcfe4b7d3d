"""What lessons promise beyond an echo: short, by themselves, and not to be stopped."""

import errno
import os
import re
import socket
import time
from pathlib import Path

import conftest
import pytest

from tests.conformance.harness import (
    BUILD,
    LESSON,
    ROOT,
    answers,
    cpu_seconds,
    echoes,
    entry,
    eventually,
    limit_descriptors,
    names,
    serving,
)

SOURCES = sorted((ROOT / "src_c" / "lessons").glob("*.c"))
LESSONS = [name for name in names(lessons=True) if name.startswith(LESSON)]
#: those whose clients share one table of descriptors
SHARED = [
    name
    for name in LESSONS
    if entry(name)["concurrent"] and entry(name)["family"] != "processes"
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_lesson_is_one_file_that_can_be_read_at_one_sitting(source):
    text = source.read_text()
    assert text.count("\n") <= 120
    included = re.findall(r"^#include +(.)", text, re.MULTILINE)
    assert set(included) == {"<"}, "a header of the project is included"
    opening = text[: text.index("*/")]
    assert f"{source.name} -- " in opening
    assert "->" in opening
    assert f"models/{source.name}" in re.sub(r"\n \* ", " ", opening)


@pytest.mark.parametrize("name", SHARED)
def test_out_of_descriptors_a_lesson_serves_those_it_has_and_goes_on(name):
    with serving(name, preexec=limit_descriptors(16)) as server:
        socks = [server.connect(timeout=0.3) for _ in range(16)]
        inside = [sock for sock in socks if answers(sock)]
        assert 5 < len(inside) < 16
        assert all(map(echoes, inside))
        spent_s = cpu_seconds(server)
        time.sleep(0.3)
        assert cpu_seconds(server) - spent_s < 0.1
        for sock in socks:
            sock.close()
        assert eventually(server.serves)


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def port_of_ours(name: str) -> int:
    """A free port that the kernel gives to nobody, nor this function to another."""
    path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    highest = int(path.read_text().split()[0]) - 1 - LESSONS.index(name)
    return next(filter(is_free, range(highest, 1024, -len(LESSONS))))


@pytest.mark.parametrize("name", LESSONS)
def test_the_port_of_a_lesson_is_its_argument_and_on_loopback_only(name):
    port = port_of_ours(name)
    with serving(name, port) as server:
        assert server.ready["port"] == port
        assert server.ready["host"] == "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=2)
        said = conftest.refused(BUILD / name, port, status=1)
    assert said == f"{Path(name).name}: listen: {os.strerror(errno.EADDRINUSE)}\n"
    # A ring is taken down after its process is gone, and has the socket until then.
    assert eventually(lambda: is_free(port))
    with serving(name, port) as server:
        assert server.ready["port"] == port
