"""A real Redis for the guestbook: on loopback, in memory, for as long as it is needed.

    serving() -> redis-server on a free port, in a folder of its own, remarks in it
              -> its address for the server's --redis
              -> gone, with its folder, at the end of the block or with us

It keeps nothing on disk. Where redis-server is not installed there is a reason in
place of an address.
"""

import contextlib
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from connlab.drive import hosts_asked, services, store
from connlab.drive.host import LocalHost

PROGRAM = "redis-server"
REMARKS = "guestbook:remarks"

_READY_S = 10.0
_ATTEMPTS = 5


class RedisError(RuntimeError):
    """Redis was installed but could not be started."""


@dataclass(frozen=True)
class Redis:
    """Where Redis listens, or why there is none."""

    address: str | None
    """HOST:PORT for ``--redis``; None where it cannot be had."""
    reason: str | None
    version: str | None

    def __str__(self) -> str:
        if self.address is None:
            return f"not measured here: {self.reason}"
        return f"Redis {self.version}, for the time of this sweep"

    __repr__ = __str__


@contextlib.contextmanager
def serving(
    *, remarks: int = 20, program: str = PROGRAM, measure: bool = True
) -> Iterator[Redis]:
    """Run a Redis for a block of code, with `remarks` of some 50 bytes in it.

    Yields one without an address, and with the reason, where the program is not
    installed or with ``measure=False``; raises `RedisError` when it does not come up.
    """
    if not measure:
        yield Redis(None, store.NOT_MEASURED, None)
        return
    hosts_asked.refuse("the database runs")
    path = shutil.which(program)
    if path is None:
        yield Redis(None, f"{program} is not installed", None)
        return
    temporary = tempfile.TemporaryDirectory(prefix="connlab-redis-")
    with temporary as folder, contextlib.closing(LocalHost()) as host:
        pid, port = _started(host, path, folder)
        for number in range(remarks):
            command(port, "LPUSH", REMARKS, f"remark-{number:04d}-" + "x" * 40)
        version = re.search(r"redis_version:(\S+)", command(port, "INFO", "server"))
        with services.joined(pid):
            yield Redis(f"127.0.0.1:{port}", None, version and version[1])


def command(port: int, *words: str) -> str:
    """Return Redis's raw reply to one short command without spaces in its words."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        sock.sendall((" ".join(words) + "\r\n").encode())
        return sock.recv(1 << 16).decode("utf-8", "replace")


def _started(host: LocalHost, path: str, folder: str) -> tuple[int, int]:
    """Start it on a port that was free a moment ago; another one if it is not.

    Returns its process and the port.
    """
    for _ in range(_ATTEMPTS):
        with socket.create_server(("127.0.0.1", 0)) as sock:
            port = sock.getsockname()[1]
        words = [path, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        words += ["--logfile", f"{folder}/log", "--save", "", "--appendonly", "no"]
        pid = host.start([*words, "--daemonize", "no"], bound=True)
        if _answers(host, pid, port):
            return pid, port
        host.stop(pid, grace_s=0)
    raise RedisError(f"{os.path.basename(path)} did not come up on {_ATTEMPTS} ports")


def _answers(host: LocalHost, pid: int, port: int) -> bool:
    deadline = time.monotonic() + _READY_S
    while not host.sample(pid, machine=False).gone and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if command(port, "PING").startswith("+PONG"):
                return True
        time.sleep(0.02)
    return False
