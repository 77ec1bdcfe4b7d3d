"""What a server under test may find where it looks for Redis.

`redis()` is the real one, on a port and in a directory of its own. The others are
sockets that behave as Redis must not.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import pytest

Address = tuple[str, int]


def free_port() -> int:
    """Return a port that nobody listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def command(address: Address, *words: str) -> bytes:
    """Return Redis's raw reply to one short command."""
    with socket.create_connection(address, timeout=5) as sock:
        sock.sendall((" ".join(words) + "\r\n").encode())
        return sock.recv(65536)


def _answers(address: Address) -> bool:
    with contextlib.suppress(OSError):
        return command(address, "PING") == b"+PONG\r\n"
    return False


@contextlib.contextmanager
def redis(port: int | None = None) -> Iterator[Address]:
    """Run redis-server for the duration of a block; skip when there is none."""
    program = shutil.which("redis-server")
    if not program:
        pytest.skip("redis-server is not installed")
    address = ("127.0.0.1", port or free_port())
    flags = {"--port": str(address[1]), "--bind": "127.0.0.1", "--save": ""}
    with tempfile.TemporaryDirectory() as directory:
        words = [word for pair in flags.items() for word in pair]
        process = subprocess.Popen(
            [program, *words, "--dir", directory, "--appendonly", "no"],
            stdout=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 10
            while not _answers(address):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield address
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def stub(talk: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Listen, and have a thread talk to each connection, for a block's duration."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    threading.Thread(target=guarded, args=(sock,), daemon=True).start()

        def guarded(sock: socket.socket) -> None:
            with contextlib.suppress(OSError), sock:
                talk(sock)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


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
