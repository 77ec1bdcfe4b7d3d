"""Talking to a server over plain sockets, as a stranger's client would.

What came is compared with what was sent, and a `Mismatch` says both.
"""

import contextlib
import math
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter

#: random bytes, in which no two places look alike
MIB = random.Random(1).randbytes(1 << 20)
#: bytes of each side that a mismatch shows: up to four characters each, in one word
_SHOWN = 12
#: bytes of a message, each of which is counted to see whether its order is another
_COUNTED = 16 << 20


class Mismatch(AssertionError):
    """An answer that is not what was sent; the text says both."""


class Silence(Mismatch):
    """An answer, or the end of a connection, that did not come in time."""

    def __init__(self, sent: bytes, received: bytes, seconds: float) -> None:
        text = f"{_came(sent, received)}, then nothing"
        if received == sent:
            text = f"{len(sent)} bytes came back, then the server did not close"
        super().__init__(f"{text} for {seconds:g} s")


def receive(sock: socket.socket, length: int) -> bytes:
    """Return exactly ``length`` bytes, or fewer when the stream ended first."""
    chunks, remaining = [], length
    while remaining > 0:
        chunk = sock.recv(min(remaining, 1 << 16))
        if not chunk:
            break
        chunks.append(chunk)
        remaining -= len(chunk)
    return b"".join(chunks)


def echoes(sock: socket.socket, message: bytes = b"hello") -> bool:
    """Whether one small message comes back unchanged."""
    sock.sendall(message)
    return receive(sock, len(message)) == message


def returned(
    sock: socket.socket,
    sent: bytes,
    most: int = sys.maxsize,
    *,
    until: float = math.inf,
) -> bytes:
    """Return what comes back of `sent`: `most` bytes, or all until the stream ends.

    What comes after `until`, a time of the monotonic clock, is not waited for.
    Raises `Silence` where neither comes in time, `Mismatch` where a reset comes first.
    """
    received = bytearray()
    try:
        while (missing := most - len(received)) and time.monotonic() < until:
            data = sock.recv(min(missing, 1 << 16))
            if not data:
                break
            received += data
    except TimeoutError:
        raise Silence(sent, bytes(received), sock.gettimeout() or 0.0) from None
    except ConnectionResetError:
        why = "then a reset: the server closed before it had read all"
        raise Mismatch(f"{_came(sent, bytes(received))}, {why}") from None
    return bytes(received)


def exchange(
    sock: socket.socket,
    message: bytes,
    chunks: list[int],
    *,
    until: float = math.inf,
) -> bytes:
    """Send in the given chunks, none held back, and meanwhile read what is `returned`.

    Until the connection ends, the time is up, or more has come than a mismatch shows: a
    server may send without end.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sender = threading.Thread(target=_send, args=(sock, message, chunks), daemon=True)
    sender.start()
    try:
        return returned(sock, message, len(message) + _SHOWN, until=until)
    finally:
        sender.join(1.0)
        if sender.is_alive():  # nobody reads any more: closing would not wake it
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sender.join()


def _send(sock: socket.socket, message: bytes, chunks: list[int]) -> None:
    start = 0
    try:
        for size in chunks:
            sock.sendall(message[start : start + size])
            start += size
        sock.sendall(message[start:])
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        return  # what came back tells


def reset(sock: socket.socket) -> None:
    """Close with a reset instead of an orderly end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def fill(
    sock: socket.socket, *, most: int = 256 << 20, most_s: float = math.inf
) -> int:
    """Send `MIB` over and over, reading nothing, until no more fits.

    For `most_s` seconds at most, as a server may take a little again and again, and
    until it closes: what came back tells then. The time-out of the socket stays what it
    was. Returns the bytes sent; `filling` knows which they were.
    """
    patience_s = sock.gettimeout()
    sock.setblocking(False)
    stream, sent, idle = memoryview(MIB), 0, 0
    until = time.monotonic() + most_s
    while sent < most and idle < 10 and time.monotonic() < until:
        at = sent % len(MIB)
        try:
            sent += sock.send(stream[at : at + (1 << 16)])
            idle = 0
        except BlockingIOError:
            idle += 1
            time.sleep(0.02)
        except ConnectionError:
            break
    sock.settimeout(patience_s)
    return sent


def filling(sent: int) -> bytes:
    """Return the bytes that `fill` sent."""
    whole, rest = divmod(sent, len(MIB))
    return MIB * whole + MIB[:rest]


def same(sent: bytes, received: bytes) -> None:
    """Raise `Mismatch` unless the answer is what was sent."""
    if received != sent:
        raise Mismatch(difference(sent, received))


def difference(sent: bytes, received: bytes) -> str:
    """Say where an answer leaves what was sent, with the bytes around that place."""
    pairs = zip(sent, received, strict=False)
    shortest = min(len(sent), len(received))
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), shortest)
    if at == len(received) < len(sent):
        end = f"then nothing more; sent next: {readable(sent[at:])}"
        return f"sent {len(sent)} bytes, {at} came back, {end}"
    if at == len(sent):
        return f"sent {len(sent)} bytes, more came back: {readable(received[at:])}"
    sides = (
        f"from byte {at} on sent {readable(sent[at:])}, came {readable(received[at:])}"
    )
    if len(received) > len(sent):
        return f"sent {len(sent)} bytes, more came back; {sides}"
    if len(sent) <= _COUNTED and Counter(received) == Counter(sent):
        return f"sent {len(sent)} bytes, which came back in another order; {sides}"
    return f"sent {len(sent)} bytes; {sides}"


def _came(sent: bytes, received: bytes) -> str:
    return f"sent {len(sent)} bytes ({readable(sent)}), {len(received)} came back"


def readable(data: bytes) -> str:
    """Return the beginning of some bytes as a reader can see it."""
    return repr(data[:_SHOWN])[1:] + (" …" if len(data) > _SHOWN else "")
