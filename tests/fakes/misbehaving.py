"""An echo server for one kind of trouble: misbehaving.py KIND PORT.

``good`` serves each client in a thread. The others do the same but for one thing, which
the function of that name does.
"""

import contextlib
import mmap
import os
import select
import signal
import socket
import sys
import threading
import time

#: so many processes a fork bomb of tests becomes, if nobody ends it
WILD_MOST = 1000


def good(sock: socket.socket) -> None:
    while data := sock.recv(65536):
        sock.sendall(data)


def wrong(sock: socket.socket) -> None:
    """Swaps the case of the 2000th byte of a connection and of those after it."""
    seen = 0
    while data := sock.recv(65536):
        keep = max(0, 2000 - seen)
        seen += len(data)
        sock.sendall(data[:keep] + bytes(b ^ 0x20 for b in data[keep:]))


def line(sock: socket.socket) -> None:
    """Answers whole lines, and so not what has no end of a line."""
    for text in sock.makefile("rb"):
        sock.sendall(text)


def text(sock: socket.socket) -> None:
    """Takes what comes for text, and ends a connection where it is none."""
    with contextlib.suppress(UnicodeDecodeError):
        while data := sock.recv(65536).decode():
            sock.sendall(data.encode())


def brief(sock: socket.socket) -> None:
    """Ends a connection after 64 KiB."""
    left = 1 << 16
    while left and (data := sock.recv(min(left, 4096))):
        left -= len(data)
        sock.sendall(data)


def hang(sock: socket.socket) -> None:
    sock.recv(1)
    time.sleep(1000)


def crash(sock: socket.socket) -> None:
    """Dies of the 200th connection in all, or of a reset."""
    crash.count = getattr(crash, "count", 0) + 1
    if crash.count > 200:
        os.kill(os.getpid(), signal.SIGSEGV)
    good(sock)


def chatty(sock: socket.socket) -> None:
    while data := sock.recv(65536):
        print("request", data[:60], flush=True)
        sock.sendall(data)


def greeter(sock: socket.socket) -> None:
    """Prints a line for each connection, and none for a request."""
    print("connected", sock.getpeername(), "on", sock.fileno(), flush=True)
    good(sock)


def fragile(sock: socket.socket) -> None:
    """Dies of SIGPIPE when it sends to a client that has gone."""
    while data := sock.recv(4096):
        time.sleep(0.01)
        sock.sendall(data)


def brittle(sock: socket.socket) -> None:
    """Does so too, but sends all that came at once, and so no second time."""
    while data := sock.recv(65536):
        time.sleep(0.01)
        sock.sendall(data)


def hasty(sock: socket.socket) -> None:
    """Keeps what finds no room, and closes at a client's end whatever it keeps."""
    kept = bytearray()
    while True:
        can_read, _, _ = select.select([sock], [sock] if kept else [], [])
        if can_read:
            if not (data := sock.recv(65536)):
                return
            kept += data
        with contextlib.suppress(BlockingIOError):
            del kept[: sock.send(kept, socket.MSG_DONTWAIT)]


def tardy(sock: socket.socket) -> None:
    """Thinks for a fifth of a second before each answer."""
    while data := sock.recv(65536):
        time.sleep(0.2)
        sock.sendall(data)


def shared(sock: socket.socket, buffer=bytearray(4096)) -> None:  # noqa: B008
    """Has one buffer for all clients."""
    while size := sock.recv_into(buffer):
        sock.sendall(memoryview(buffer)[:size])


def padded(sock: socket.socket) -> None:
    """Answers its whole buffer, however few bytes came."""
    while data := sock.recv(64):
        sock.sendall(data.ljust(64, b"\0"))


def backwards(sock: socket.socket) -> None:
    """Answers in pieces, the last one first."""
    while data := sock.recv(65536):
        half = len(data) // 2
        sock.sendall(data[half:] + data[:half])


def restless(sock: socket.socket) -> None:
    """Looks again and again whether something came."""
    sock.setblocking(False)
    while True:
        with contextlib.suppress(BlockingIOError):
            if not (data := sock.recv(65536)):
                return
            sock.setblocking(True)
            sock.sendall(data)
            sock.setblocking(False)


def leak(sock: socket.socket) -> None:
    """Never closes a connection."""
    leak.kept = [*getattr(leak, "kept", []), sock.dup()]
    good(sock)


def careless(sock: socket.socket) -> None:
    """Closes a connection at its end only, and not where it breaks."""
    try:
        good(sock)
    except OSError:
        careless.kept = [*getattr(careless, "kept", []), sock.dup()]


def listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=1024)


def serve(handle, listener: socket.socket) -> None:
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=in_thread, args=(handle, sock), daemon=True).start()


def in_thread(handle, sock: socket.socket) -> None:
    try:
        with sock:
            handle(sock)
    except OSError:
        if handle is crash:
            os.kill(os.getpid(), signal.SIGSEGV)


def daemon(port: int) -> None:
    """Forks twice, in sessions of their own, and the first two end."""
    for _ in range(2):
        if os.fork():
            os._exit(0)
        os.setsid()
    serve(good, listen(port))


def children(port: int) -> None:
    """Has a child in a session of its own that hears no SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    serve(good, listen(port))


def deaf(port: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(good, listen(port))


def wild(port: int) -> None:
    """Forks and forks once the first client has come, up to `WILD_MOST` processes.

    It has a bound of its own: a machine where the guard comes too late stays usable.
    """
    forks = mmap.mmap(-1, mmap.PAGESIZE)  # shared by all; a lost count does no harm
    listener = listen(port)
    listener.accept()
    time.sleep(0.3)
    while (done := int.from_bytes(forks[:4], "little")) < WILD_MOST:
        forks[:4] = (done + 1).to_bytes(4, "little")
        os.fork()
    time.sleep(1000)


def unreaped(port: int) -> None:
    """Forks for each client and waits for no child."""
    listener = listen(port)
    while True:
        sock, _ = listener.accept()
        if os.fork() == 0:
            in_thread(good, sock)
            os._exit(0)
        sock.close()


def mute(port: int) -> None:
    print("about to listen", port, flush=True)
    time.sleep(1000)


def swapped(port: int) -> None:
    """Listens at its port with the bytes swapped, as in C without htons()."""
    try:
        listener = listen(socket.htons(port))
    except OSError:  # a client of another test has that port at the moment
        listener = listen(0)
    serve(good, listener)


def elsewhere(_port: int) -> None:
    """Listens at a port of its own, and hears no SIGTERM."""
    deaf(0)


def abroad(_port: int) -> None:
    """Does so as a daemon."""
    daemon(0)


def ends(port: int) -> None:
    print("no such database", file=sys.stderr)
    sys.exit(3)


#: those that listen by themselves, or do not
ALONE = (
    *(daemon, children, deaf, wild, unreaped, mute, swapped),
    *(elsewhere, abroad, ends),
)

if __name__ == "__main__":
    kind, port = globals()[sys.argv[1]], int(sys.argv[2])
    if kind in (fragile, brittle):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if kind in ALONE:
        kind(port)
    else:
        serve(kind, listen(port))
