"""What a server under test may find where it looks for Redis.

`redis()` is the real one, on a port and in a directory of its own. The others are
sockets that behave as Redis must not.
"""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest
from conftest import wait_for

from connlab.judge.wire import reset
from tests.client.harness import reserved_port, serving

Address = tuple[str, int]


def command(address: Address, *words: str) -> bytes:
    """Return Redis's raw reply to one short command."""
    with socket.create_connection(address, timeout=5) as sock:
        sock.sendall((" ".join(words) + "\r\n").encode())
        return sock.recv(65536)


def answers(address: Address) -> bool:
    with contextlib.suppress(OSError):
        return command(address, "PING") == b"+PONG\r\n"
    return False


@contextlib.contextmanager
def redis(port: int | None = None) -> Iterator[Address]:
    """Run redis-server for the duration of a block; skip when there is none.

    It listens on a port that the caller has reserved, or on one of its own.
    """
    program = shutil.which("redis-server")
    if not program:
        pytest.skip("redis-server is not installed")
    with contextlib.ExitStack() as stack:
        address = ("127.0.0.1", port or stack.enter_context(reserved_port()))
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        words = ["--port", str(address[1]), "--bind", "127.0.0.1", "--dir", directory]
        words += ["--save", "", "--appendonly", "no"]
        process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: process.poll() is not None or answers(address), seconds=10)
            assert process.poll() is None
            yield address
        finally:
            process.kill()
            process.wait()


def kill_used(address: Address) -> None:
    """Have Redis close every connection over which it has replied before.

    Not one on which the first request is made: that one would fail, rightly.
    """
    for line in command(address, "CLIENT", "LIST").decode().split("\n"):
        facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if facts.get("cmd") in ("lrange", "ltrim"):
            command(address, "CLIENT", "KILL", "ID", facts["id"])


@contextlib.contextmanager
def stub(talk: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Listen, and have a thread talk to each connection, for a block's duration."""
    with serving(lambda sock, _: talk(sock)) as server:
        yield "127.0.0.1", server.port


def silent(sock: socket.socket) -> None:
    """Read everything and say nothing."""
    while sock.recv(65536):
        pass


def saying(reply: bytes, *, piece: int = 1 << 16, pause_s: float = 0.0):
    """Return a talk that answers every read with the same bytes, in pieces."""

    def talk(sock: socket.socket) -> None:
        while sock.recv(65536):
            for at in range(0, len(reply), piece):
                sock.sendall(reply[at : at + piece])
                time.sleep(pause_s)

    return talk


def leaving(sock: socket.socket) -> None:
    """Read a request and hang up."""
    sock.recv(65536)


def once(*, waits: bool = False, resets: bool = False):
    """Return a talk that answers one visit or remark, and closes.

    It closes together with its reply; or, if it ``waits``, once the next request has
    come, which gets no byte of a reply; with a reset, not an end, if it ``resets``.
    """

    def talk(sock: socket.socket) -> None:
        asked = sock.recv(65536)
        sock.sendall(b":1\r\n+OK\r\n" if b"LPUSH" in asked else b":7\r\n*0\r\n")
        if waits:
            sock.recv(65536)
        if resets:
            reset(sock)

    return talk
