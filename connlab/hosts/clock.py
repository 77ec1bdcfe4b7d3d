"""How far another host's monotonic clock is ahead of ours, by UDP.

    ask --token, number--> echo --number, its time--> offset = its time - middle of ours

The shortest of several round trips decides, and half of it is the bound: the reply was
written somewhere between (NTP's clock filter, RFC 5905). Only who knows the token of
the agent gets a reply.
"""

import contextlib
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

TOKEN_BYTES = 16
ROUND_TRIPS = 30
#: a reply that takes longer says nothing
PATIENCE_S = 0.2
UNANSWERED_MOST = 3
_NUMBER = struct.Struct("!I")
_REPLY = struct.Struct("!IQ")


@dataclass(frozen=True)
class Offset:
    """Their clock minus ours, in ns, and by how much that may be wrong."""

    ns: int
    bound_ns: int

    def __str__(self) -> str:
        return f"{self.ns / 1e3:+.0f} µs ± {self.bound_ns / 1e3:.0f} µs"

    def differs(self, other: Self, limit_ns: int) -> bool:
        """Whether two offsets differ by more than `limit_ns` and their bounds."""
        return abs(self.ns - other.ns) > limit_ns + self.bound_ns + other.bound_ns


class Echo:
    """Tells the time of this host to who knows the token, from a thread of its own."""

    def __init__(self, address: str, now: Callable = time.monotonic_ns) -> None:
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self._now = now
        self._socket = socket.socket(family(address), socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self.port = self._socket.getsockname()[1]
        self._closed = threading.Event()
        threading.Thread(target=self._answer_all, daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more: the thread ends, and closes its socket."""
        self._closed.set()
        # of a socket without a peer it says that there is none, and wakes who waits
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _answer_all(self) -> None:
        with self._socket:
            while True:
                question, peer = self._socket.recvfrom(64)
                now = self._now()
                if self._closed.is_set():
                    return
                token, number = question[: -_NUMBER.size], question[-_NUMBER.size :]
                if secrets.compare_digest(token, self.token):
                    with contextlib.suppress(OSError):
                        reply = _REPLY.pack(*_NUMBER.unpack(number), now)
                        self._socket.sendto(reply, peer)


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def offset(address: str, port: int, token: bytes) -> Offset:
    """Return how far the clock behind an `Echo` is ahead; OSError without a reply."""
    offsets: list[Offset] = []
    with socket.socket(family(address), socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE_S)
        sock.connect((address, port))
        for number in range(ROUND_TRIPS):
            if result := _round_trip(sock, token, number):
                offsets.append(result)
            if number + 1 - len(offsets) > UNANSWERED_MOST:
                break
    if not offsets:
        raise TimeoutError(f"its clock does not reply on UDP port {port} of {address}")
    return min(offsets, key=lambda offset: offset.bound_ns)


def _round_trip(sock: socket.socket, token: bytes, number: int) -> Offset | None:
    sent_ns = time.monotonic_ns()
    try:
        sock.send(token + _NUMBER.pack(number))
        while True:
            echoed, theirs_ns = _REPLY.unpack(sock.recv(64))
            if echoed == number:
                break
    except (OSError, struct.error):
        return None
    received_ns = time.monotonic_ns()
    return Offset(
        theirs_ns - (sent_ns + received_ns) // 2, (received_ns - sent_ns + 1) // 2
    )
