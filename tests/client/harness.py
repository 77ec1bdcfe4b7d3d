"""Servers of our own that the load generator is pointed at, and how to read it."""

import contextlib
import functools
import itertools
import json
import os
import random
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import conftest

from tests.conformance.harness import BUILD, SERVER  # noqa: F401 (for tests)

CLIENT = BUILD / "client"
ENGINES = ["epoll", "uring"]
#: first and last of the ports that the kernel chooses from
PORTS_GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass
class FakeServer:
    """What one saw; written by its threads, read afterwards."""

    port: int
    peers: list[str] = field(default_factory=list)
    bytes_in: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, data: bytes) -> bytes:
        with self.lock:
            self.bytes_in += len(data)
        return data


Handler = Callable[[socket.socket, FakeServer], None]


@contextlib.contextmanager
def serving(handler: Handler) -> Iterator[FakeServer]:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        server = FakeServer(listener.getsockname()[1])
        threading.Thread(target=accept, args=(listener, handler, server)).start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def accept(listener: socket.socket, handler: Handler, server: FakeServer) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, peer = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.peers.append(peer[0])
            threading.Thread(
                target=serve_one, args=(handler, connection, server), daemon=True
            ).start()


def serve_one(handler: Handler, connection: socket.socket, server: FakeServer) -> None:
    """Run the handler; a client that leaves is not an error of the test."""
    with connection, contextlib.suppress(OSError):
        handler(connection, server)


def echo(connection: socket.socket, server: FakeServer) -> None:
    while data := connection.recv(65536):
        connection.sendall(server.count(data))


@contextlib.contextmanager
def started(program: Path, *flags: str) -> Iterator[tuple[subprocess.Popen, int]]:
    with subprocess.Popen([program, *flags], stdout=subprocess.PIPE) as process:
        try:
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            process.terminate()


def command(port: int, *flags: object) -> list[object]:
    """Return the client's words; a text of flags may hold several, as one types."""
    split = (flag.split() if isinstance(flag, str) else [str(flag)] for flag in flags)
    return [CLIENT, f"127.0.0.1:{port}", *itertools.chain.from_iterable(split)]


def client(port: int, *flags: object, **options: object) -> dict:
    done = conftest.ran(*command(port, *flags), timeout=30, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SLICE_S = 0.02


def in_turns(ports: list[int], *flags: object) -> list[object]:
    """Return a client's words on several targets, with slices of 20 ms if no other."""
    words = command(ports[0], *(f"127.0.0.1:{port}" for port in ports[1:]), *flags)
    return words if "--slice" in words else [*words, "--slice", f"{SLICE_S * 1000:g}ms"]


def errors(result: dict) -> dict[str, int]:
    return {kind: n for kind, n in result["errors"].items() if n}


def refused(*words: object, status: int = 2) -> str:
    """Run the client with a mistake; return its one line about it."""
    said = conftest.refused(CLIENT, *words, status=status)
    assert said.startswith("client: ")
    assert said.count("\n") == 1
    return said


def sockets(pid: int) -> set[str]:
    """Return the names of a process's sockets, that on which it listens among them."""
    names = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            names.add(os.readlink(link))
    return {name for name in names if name.startswith("socket:")}


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Keep a port from all other tests for a block; nobody listens on it at first.

    It is bound without SO_REUSEADDR, which is set afterwards: who sets it as well, as
    Redis does, may listen there; who asks for a port as we do is refused. It lies,
    where there is room, below the ports that the kernel hands out: a connection of
    another test that happens to come from it would keep a server from listening there.
    """
    below = range(10_000, int(PORTS_GIVEN.read_text().split()[0]))
    tried = random.SystemRandom().sample(below, min(20, len(below)))
    with socket.socket() as sock:
        for port in tried:
            with contextlib.suppress(OSError):
                sock.bind(("127.0.0.1", port))
                break
        else:
            sock.bind(("127.0.0.1", 0))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield sock.getsockname()[1]


wait_for = functools.partial(conftest.wait_for, seconds=10, every_s=0.01)
