"""What any client may expect of an echo server: one conversation each.

    fresh connections -> send, receive -> the same bytes? -> Heard

`REQUIRED` holds for every echo server. `CONCURRENT` holds for one that serves more than
one client at a time, and `ISOLATING` for one in which a client that is slow holds up
nobody: a server without these is correct, and its reader is told what it lacks.
"""

import errno
import random
import select
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from connlab.judge.wire import (
    MIB,
    Mismatch,
    Silence,
    exchange,
    fill,
    filling,
    receive,
    reset,
    returned,
    same,
)

Address = tuple[str, int]
#: opens a connection whose time-out is the patience
Connect = Callable[[], socket.socket]
#: returns what its reader should know of how it went
Talk = Callable[[Connect], str | None]
#: seconds without a byte after which an answer is taken not to come
PATIENCE_S = 5.0
#: the same once several conversations have waited in vain
HURRIED_S = 1.0
HURRY_AFTER = 2
#: seconds after which messages that were answered right have shown enough
ENOUGH_S = 5.0
#: what a client meets that lacks something itself, with what bounds that
OURS = {
    errno.EADDRNOTAVAIL: "no port is free for a client (net.ipv4.ip_local_port_range)",
    errno.EMFILE: "this process may open no more descriptors (ulimit -n)",
    errno.ENFILE: "the system may open no more descriptors (fs.file-max)",
    errno.ENOBUFS: "the kernel has no memory for a socket",
    errno.ENOMEM: "the kernel has no memory for a socket",
}
#: seconds for which a client reads that ended its side, and sent all it could for half
_LATE_S = 2.0
#: seconds in which a server that can reads a second client's bytes
_MEANWHILE_S = 0.2


@dataclass(frozen=True)
class Heard:
    """How one conversation went; `failure` says what was sent and what came.

    `untried` says what this machine lacks for it, which tells nothing of the server.
    """

    name: str
    about: str
    failure: str | None = None
    late: bool = False
    seconds: float = 0.0
    untried: str | None = None

    @property
    def ok(self) -> bool | None:
        return None if self.untried else self.failure is None


@dataclass(frozen=True)
class Conversation:
    """One thing to expect: a name, what it shows, and how to try it."""

    name: str
    about: str
    talk: Talk


REQUIRED: list[Conversation] = []
CONCURRENT: list[Conversation] = []
ISOLATING: list[Conversation] = []


def _conversation(
    group: list[Conversation], name: str, about: str
) -> Callable[[Talk], Talk]:
    def add(talk: Talk) -> Talk:
        group.append(Conversation(name, about, talk))
        return talk

    return add


def hold(conversations: Iterable[Conversation], address: Address) -> list[Heard]:
    """Hold conversations one after the other; stops when nobody listens any more."""
    results: list[Heard] = []
    for conversation in conversations:
        hurried = sum(heard.late for heard in results) >= HURRY_AFTER
        patience_s = HURRIED_S if hurried else PATIENCE_S
        results.append(_try(conversation, address, patience_s))
        if not _listens(address):
            break
    return results


def _try(conversation: Conversation, address: Address, patience_s: float) -> Heard:
    began = time.monotonic()
    failure, late, untried, about = None, False, None, conversation.about
    try:
        said = conversation.talk(lambda: socket.create_connection(address, patience_s))
        about += f" ({said})" if said else ""
    except TimeoutError:
        failure, late = f"no answer within {patience_s:g} s", True
    except (Mismatch, OSError) as error:
        failure = str(error) or type(error).__name__
        late = isinstance(error, Silence)
        if untried := OURS.get(getattr(error, "errno", None) or 0):
            failure = None
    seconds = time.monotonic() - began
    return Heard(conversation.name, about, failure, late, seconds, untried)


def _listens(address: Address) -> bool:
    for pause_s in (0, 0.2):
        time.sleep(pause_s)
        try:
            socket.create_connection(address, PATIENCE_S).close()
            return True
        except OSError as error:
            if error.errno in OURS:
                return True
    return False


def _repeated(times: int, once: Callable[[int], object]) -> str | None:
    """Call ``once(n)`` as often; less often when answers take long, and say so."""
    until = time.monotonic() + ENOUGH_S
    for n in range(times):
        if time.monotonic() > until:
            return f"{n} of them, as it answers slowly"
        once(n)
    return None


def _answered(sock: socket.socket, message: bytes) -> str | None:
    """Send a message and see it come back; what came back tells what cannot be sent.

    Where only a part came in time, the rest would come before the answer to another.
    """
    with suppress(ConnectionError):
        sock.sendall(message)
    return _returned(sock, message)


def _returned(
    sock: socket.socket, sent: bytes, *, more: int = 0, until: float | None = None
) -> str | None:
    """See all of what was sent come back; with `more`, and nothing else, but an end.

    Less of it when that takes long, and say so, here and below.
    """
    until = time.monotonic() + ENOUGH_S if until is None else until
    return _same_by(until, sent, returned(sock, sent, len(sent) + more, until=until))


def _returned_late(sock: socket.socket, sent: int, *, most_s: float) -> str | None:
    """See what `fill` sent come back."""
    until, whole = time.monotonic() + most_s, filling(sent)
    return _same_by(until, whole, returned(sock, whole, sent, until=until))


def _exchanged(sock: socket.socket, message: bytes, chunks: list[int]) -> str | None:
    """See a message come back while it is sent."""
    until = time.monotonic() + ENOUGH_S
    return _same_by(until, message, exchange(sock, message, chunks, until=until))


def _same_by(until: float, sent: bytes, received: bytes) -> str | None:
    """See that all came back; where the time is up, that what came is right."""
    if time.monotonic() < until:
        same(sent, received)
        return None
    same(sent[: len(received)], received)
    return "a part of it, as it answers slowly"


# ---- required ------------------------------------------------------------------


@_conversation(REQUIRED, "lengths", "one message of 1 to 65 537 bytes")
def _lengths(connect: Connect) -> str | None:
    lengths = (1, 2, 15, 1024, 65_535, 65_536, 65_537)
    said: list[str | None] = []

    def message(n: int) -> None:
        with connect() as sock:
            said.append(_answered(sock, MIB[: lengths[n]]))

    return _repeated(len(lengths), message) or next(filter(None, said), None)


@_conversation(REQUIRED, "every byte", "zeros, newlines, all 256 values")
def _every_byte(connect: Connect) -> str | None:
    messages = (bytes(range(256)), bytes(100), b"\n" * 10, b"no end of a line")
    with connect() as sock:
        for message in messages:
            if said := _answered(sock, message):
                return said
    return None


@_conversation(REQUIRED, "one connection", "200 messages in turn")
def _one_connection(connect: Connect) -> str | None:
    with connect() as sock:
        return _repeated(200, lambda n: _answered(sock, MIB[n : n + 1 + n % 50]))


@_conversation(REQUIRED, "byte by byte", "200 bytes, each sent alone")
def _byte_by_byte(connect: Connect) -> str | None:
    with connect() as sock:
        return _exchanged(sock, MIB[:200], [1] * 200)


@_conversation(REQUIRED, "a mebibyte", "a mebibyte, whole and in odd chunks")
def _mebibyte(connect: Connect) -> str | None:
    dice, said = random.Random(2), None
    for chunks in ([len(MIB)], [dice.randint(1, 30_000) for _ in range(50)]):
        with connect() as sock:
            said = _exchanged(sock, MIB, chunks) or said
    return said


@_conversation(REQUIRED, "pipelined", "5 000 messages without waiting")
def _pipelined(connect: Connect) -> str | None:
    with connect() as sock:
        return _answered(sock, b"".join(b"%06d\n" % n for n in range(5000)))


@_conversation(REQUIRED, "half-closed", "a client that ended its side and still reads")
def _half_closed(connect: Connect) -> str | None:
    with connect() as sock:
        sock.sendall(b"last words")
        sock.shutdown(socket.SHUT_WR)
        _returned(sock, b"last words", more=1)
    with connect() as sock:  # of whom the server may have answers that found no room
        sent = fill(sock, most=32 << 20, most_s=_LATE_S / 2)
        with suppress(OSError):  # the server has ended the connection
            sock.shutdown(socket.SHUT_WR)
        return _returned_late(sock, sent, most_s=_LATE_S)


@_conversation(REQUIRED, "silent end", "a client that ends without sending anything")
def _silent_end(connect: Connect) -> None:
    with connect() as sock:
        sock.shutdown(socket.SHUT_WR)
        _returned(sock, b"", more=1)


@_conversation(REQUIRED, "reads late", "a client that first sends all it can")
def _reads_late(connect: Connect) -> str | None:
    with connect() as sock:
        sent = fill(sock, most=32 << 20, most_s=ENOUGH_S)
        return _returned_late(sock, sent, most_s=ENOUGH_S)


@_conversation(REQUIRED, "own answers", "a second client while the first reads late")
def _own_answers(connect: Connect) -> str | None:
    """See each get its own bytes, though answers to the first wait meanwhile.

    A server may well read from the second only when the first has gone.
    """
    asked = b"of the second " * 700
    with connect() as first, connect() as second:
        sent = fill(first, most=32 << 20, most_s=ENOUGH_S)
        second.sendall(asked)
        select.select([second], [], [], _MEANWHILE_S)
        _returned_late(first, sent, most_s=ENOUGH_S)
        first.close()
        return _returned(second, asked)


@_conversation(REQUIRED, "in a row", "500 clients, one after the other")
def _in_a_row(connect: Connect) -> str | None:
    def client(n: int) -> None:
        with connect() as sock:
            _answered(sock, b"client %d" % n)

    return _repeated(500, client)


@_conversation(REQUIRED, "resets", "300 clients that vanish before they are answered")
def _resets(connect: Connect) -> str | None:
    def vanish(n: int) -> None:
        with connect() as sock, suppress(OSError):  # it need not have read all
            sock.sendall(MIB[: 16 << 10] if n % 3 else MIB[:1000])
            if n % 3:  # after an orderly end, send() to nobody raises SIGPIPE:
                sock.shutdown(socket.SHUT_WR)
            if n % 3 < 2:  # the first one after a reset, else the second
                reset(sock)
        if n % 30 == 29:
            stays()

    def stays() -> None:
        with connect() as sock:
            _answered(sock, b"still here")

    said = _repeated(300, vanish)
    stays()
    return said


# ---- of servers that serve many at a time -----------------------------------------


@_conversation(CONCURRENT, "idle neighbour", "a second client beside a silent one")
def _idle_neighbour(connect: Connect) -> None:
    with connect() as idle, connect() as sock:
        _answered(sock, b"the second")
        _answered(idle, b"the first")


@_conversation(CONCURRENT, "a hundred", "a hundred clients at the same time")
def _hundred(connect: Connect) -> str | None:
    until, said = time.monotonic() + ENOUGH_S, None
    with ExitStack() as stack:
        socks = [stack.enter_context(connect()) for _ in range(100)]
        for n, sock in enumerate(socks):
            sock.sendall(b"%05d" % n)
        for n, sock in enumerate(socks):
            said = _returned(sock, b"%05d" % n, until=until) or said
    return said


@_conversation(ISOLATING, "slow sender", "a client that sends a byte now and then")
def _slow_sender(connect: Connect) -> str | None:
    with connect() as slow, connect() as sock:
        for byte in b"slowly":
            slow.sendall(bytes([byte]))
            if said := _answered(sock, b"quick"):
                return said
        same(b"slowly", receive(slow, 6))
    return None


@_conversation(ISOLATING, "mute reader", "a client that sends and never reads")
def _mute_reader(connect: Connect) -> str | None:
    with connect() as mute, connect() as sock:
        if said := _answered(sock, b"before"):
            return said
        sent = fill(mute, most=128 << 20, most_s=4 * ENOUGH_S)
        if sent >= 128 << 20:
            raise Mismatch(
                f"took {sent >> 20} MiB from a client that reads nothing: a server "
                "that keeps all of it can be made to run out of memory"
            )
        return _answered(sock, b"after")


EVERY = (*REQUIRED, *CONCURRENT, *ISOLATING)
