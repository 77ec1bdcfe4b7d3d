"""How far another host's monotonic clock is ahead of ours, by UDP.

    ask --token, number--> echo --number, its time--> offset = its time - middle of ours

The shortest of several round trips decides, and half of it is the bound: the reply was
written somewhere between (NTP's clock filter, RFC 5905). Only who knows the token of
the agent gets a reply.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TOKEN_BYTES = 16
ASKED = 30
#: a reply that takes longer says nothing
PATIENCE_S = 0.2
_NUMBER = struct.Struct("!I")
_REPLY = struct.Struct("!IQ")


@dataclass(frozen=True)
class Offset:
    """Their clock minus ours, in ns, and by how much that may be wrong."""

    ns: int
    bound_ns: int

    def differs(self, other: Offset, limit_ns: int) -> bool:
        """Whether two offsets differ by more than `limit_ns` and their bounds."""
        return abs(self.ns - other.ns) > limit_ns + self.bound_ns + other.bound_ns


class Echo:
    """Tells the time of this host to who knows the token, from a thread of its own."""

    def __init__(
        self, address: str, now: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self._now = now
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self.port = self._socket.getsockname()[1]
        self._closed = threading.Event()
        threading.Thread(target=self._answer, daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more: the thread ends, and closes its socket."""
        self._closed.set()
        # of a socket without a peer it says that there is none, and wakes who waits
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _answer(self) -> None:
        with self._socket:
            while True:
                asked, peer = self._socket.recvfrom(64)
                if self._closed.is_set():
                    return
                self._reply(asked, peer)

    def _reply(self, asked: bytes, peer: Any) -> None:
        now = self._now()
        known = secrets.compare_digest(asked[: -_NUMBER.size], self.token)
        if len(asked) == TOKEN_BYTES + _NUMBER.size and known:
            (number,) = _NUMBER.unpack(asked[TOKEN_BYTES:])
            with contextlib.suppress(OSError):
                self._socket.sendto(_REPLY.pack(number, now), peer)


def offset(address: str, port: int, token: bytes, *, asked: int = ASKED) -> Offset:
    """Return how far the clock behind an `Echo` is ahead.

    Raises
    ------
    OSError
        When no reply came.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    best = None
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.settimeout(PATIENCE_S)
        asking.connect((address, port))
        silent = 0
        for number in range(asked):
            found = _asked_once(asking, token, number)
            silent += found is None
            if found and (best is None or found.bound_ns < best.bound_ns):
                best = found
            if silent > 3:
                break
    if best is None:
        raise TimeoutError(f"the clock of {address} does not reply")
    return best


def _asked_once(asking: socket.socket, token: bytes, number: int) -> Offset | None:
    sent = time.monotonic_ns()
    try:
        asking.send(token + _NUMBER.pack(number))
        while True:
            echoed, theirs = _REPLY.unpack(asking.recv(64))
            if echoed == number:
                break
    except (OSError, struct.error):
        return None
    came = time.monotonic_ns()
    return Offset(theirs - (sent + came) // 2, (came - sent + 1) // 2)
