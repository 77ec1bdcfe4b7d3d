"""What any client may expect of an echo server: one conversation each.

    fresh connections -> send, receive -> the same bytes? -> Heard

`REQUIRED` holds for every echo server. `CONCURRENT` holds for one that serves more than
one client at a time, and `ISOLATING` for one in which a client that is slow holds up
nobody: a server may do without and be right, and its reader shall know.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from connlab.judge.wire import (
    MIB,
    Mismatch,
    exchange,
    fill,
    filling,
    receive,
    reset,
    same,
    shown,
)

Address = tuple[str, int]
#: seconds without a byte after which an answer is taken not to come
PATIENCE_S = 5.0
#: the same once several conversations have waited in vain
HURRIED_S = 1.0
HURRY_AFTER = 2


@dataclass(frozen=True)
class Heard:
    """How one conversation went; `failure` says what was sent and what came."""

    name: str
    about: str
    failure: str | None = None
    late: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it went as it should."""
        return self.failure is None


@dataclass(frozen=True)
class Conversation:
    """One thing to expect: a name, what it shows, and how to try it."""

    name: str
    about: str
    talk: Callable[[Address, float], None]


def hold(conversations: Iterable[Conversation], address: Address) -> list[Heard]:
    """Hold conversations one after the other; stops when nobody listens any more."""
    results: list[Heard] = []
    for conversation in conversations:
        hurried = sum(h.late for h in results) >= HURRY_AFTER
        results.append(
            _held(conversation, address, HURRIED_S if hurried else PATIENCE_S)
        )
        if not _listens(address):
            break
    return results


def _held(conversation: Conversation, address: Address, patience_s: float) -> Heard:
    began = time.monotonic()
    failure, late = None, False
    try:
        conversation.talk(address, patience_s)
    except TimeoutError:
        failure, late = f"no answer within {patience_s:g} s", True
    except (Mismatch, OSError) as error:
        failure = str(error) or type(error).__name__
        late = "nothing for" in failure
    return Heard(
        conversation.name, conversation.about, failure, late, time.monotonic() - began
    )


def _listens(address: Address) -> bool:
    for pause_s in (0, 0.2):
        time.sleep(pause_s)
        try:
            socket.create_connection(address, PATIENCE_S).close()
        except OSError:
            continue
        return True
    return False


def _connect(address: Address, patience_s: float) -> socket.socket:
    return socket.create_connection(address, timeout=patience_s)


def _answered(sock: socket.socket, message: bytes) -> None:
    sock.sendall(message)
    same(message, _received(sock, len(message), message))


def _received(sock: socket.socket, length: int, sent: bytes) -> bytes:
    """Return what comes, also where it stops coming before all is there."""
    received = b""
    try:
        while len(received) < length:
            data = sock.recv(length - len(received))
            if not data:
                break
            received += data
    except TimeoutError:
        raise Mismatch(
            f"sent {len(sent)} bytes ({shown(sent)}), {len(received)} came back, then "
            f"nothing for {sock.gettimeout():g} s"
        ) from None
    return received


# ---- required ------------------------------------------------------------------


def lengths(address: Address, patience_s: float) -> None:
    for length in (1, 2, 15, 1024, 65_535, 65_536, 65_537):
        with _connect(address, patience_s) as sock:
            _answered(sock, MIB[:length])


def every_byte(address: Address, patience_s: float) -> None:
    with _connect(address, patience_s) as sock:
        for message in (bytes(range(256)), bytes(100), b"\n" * 10, b"no end of a line"):
            _answered(sock, message)


def one_connection(address: Address, patience_s: float) -> None:
    with _connect(address, patience_s) as sock:
        for n in range(200):
            _answered(sock, MIB[n : n + 1 + n % 50])


def byte_by_byte(address: Address, patience_s: float) -> None:
    with _connect(address, patience_s) as sock:
        same(MIB[:200], exchange(sock, MIB[:200], [1] * 200))


def mebibyte(address: Address, patience_s: float) -> None:
    dice = random.Random(2)
    for chunks in ([len(MIB)], [dice.randint(1, 30_000) for _ in range(50)]):
        with _connect(address, patience_s) as sock:
            same(MIB, exchange(sock, MIB, chunks))


def pipelined(address: Address, patience_s: float) -> None:
    message = b"".join(b"%06d\n" % n for n in range(5000))
    with _connect(address, patience_s) as sock:
        _answered(sock, message)


def half_closed(address: Address, patience_s: float) -> None:
    with _connect(address, patience_s) as sock:
        sock.sendall(b"last words")
        sock.shutdown(socket.SHUT_WR)
        same(b"last words", _received(sock, 11, b"last words"))


def silent_end(address: Address, patience_s: float) -> None:
    with _connect(address, patience_s) as sock:
        sock.shutdown(socket.SHUT_WR)
        try:
            same(b"", sock.recv(1))
        except TimeoutError:
            raise Mismatch(
                f"the client ended; the server did not close for {patience_s:g} s"
            ) from None


def reads_late(address: Address, patience_s: float) -> None:
    with _connect(address, patience_s) as sock:
        sent = fill(sock, most=32 << 20)
        sock.settimeout(patience_s)
        same(filling(sent), _received(sock, sent, filling(min(sent, 100))))


def resets(address: Address, patience_s: float) -> None:
    for _ in range(300):
        sock = _connect(address, patience_s)
        sock.sendall(b"x" * 1000)
        reset(sock)
    with _connect(address, patience_s) as sock:
        _answered(sock, b"still here")


def in_a_row(address: Address, patience_s: float) -> None:
    for n in range(500):
        with _connect(address, patience_s) as sock:
            _answered(sock, b"client %d" % n)


# ---- of servers that serve many at a time -----------------------------------------


def idle_neighbour(address: Address, patience_s: float) -> None:
    with _connect(address, patience_s) as idle, _connect(address, patience_s) as sock:
        _answered(sock, b"the second")
        _answered(idle, b"the first")


def hundred(address: Address, patience_s: float) -> None:
    with ExitStack() as stack:
        socks = [stack.enter_context(_connect(address, patience_s)) for _ in range(100)]
        for n, sock in enumerate(socks):
            sock.sendall(b"%05d" % n)
        for n, sock in enumerate(socks):
            same(b"%05d" % n, _received(sock, 5, b"%05d" % n))


def slow_sender(address: Address, patience_s: float) -> None:
    with _connect(address, patience_s) as slow, _connect(address, patience_s) as sock:
        for byte in b"slowly":
            slow.sendall(bytes([byte]))
            _answered(sock, b"quick")
        same(b"slowly", receive(slow, 6))


def mute_reader(address: Address, patience_s: float) -> None:
    """One client sends and never reads; another is answered all the same."""
    with _connect(address, patience_s) as mute, _connect(address, patience_s) as sock:
        _answered(sock, b"before")
        sent = fill(mute, most=128 << 20)
        if sent >= 128 << 20:
            raise Mismatch(
                f"took {sent >> 20} MiB from a client that reads nothing: a server "
                "that keeps all of it can be made to run out of memory"
            )
        _answered(sock, b"after")


REQUIRED: Sequence[Conversation] = (
    Conversation("lengths", "one message of 1 to 65 537 bytes", lengths),
    Conversation("every byte", "zeros, newlines, all 256 values", every_byte),
    Conversation("one connection", "200 messages in turn", one_connection),
    Conversation("byte by byte", "200 bytes, each sent alone", byte_by_byte),
    Conversation("a mebibyte", "whole and in odd chunks, read meanwhile", mebibyte),
    Conversation("pipelined", "5 000 messages without waiting", pipelined),
    Conversation("half-closed", "a client that only listens any more", half_closed),
    Conversation("silent end", "a client that ends without a word", silent_end),
    Conversation("reads late", "a client that first sends all it can", reads_late),
    Conversation("in a row", "500 clients after each other", in_a_row),
    Conversation("resets", "300 clients that break off", resets),
)
CONCURRENT: Sequence[Conversation] = (
    Conversation(
        "idle neighbour", "a second client beside a silent one", idle_neighbour
    ),
    Conversation("a hundred", "a hundred clients at a time", hundred),
)
ISOLATING: Sequence[Conversation] = (
    Conversation("slow sender", "a client that sends a byte now and then", slow_sender),
    Conversation("mute reader", "a client that sends and never reads", mute_reader),
)
EVERY = (*REQUIRED, *CONCURRENT, *ISOLATING)
