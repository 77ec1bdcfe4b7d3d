"""Slow clients: --timeout-idle, --timeout-header and --timeout-body, and without them.

A limit is short here and its slack wide: what is compared is one limit with none.
"""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from tests.conformance.harness import (
    MIB,
    PATIENCE_S,
    SLOWER,
    Server,
    echoes,
    entry,
    eventually,
    fill,
    fixed_workers,
    is_quiet,
    names,
    one_a_family,
    receive,
    receive_all,
    refused,
    reset,
    serving,
    settled,
    unsanitized,
)

LIMIT_S = 0.25 * SLOWER
#: what nobody exceeds who is to stay, even if the machine is busy
ROOM_S = 0.8 * SLOWER
#: later than a limit by so much, a model that polls it late would be found out
SLACK_S = 1.5 * SLOWER

GET = b"GET /none HTTP/1.1\r\nHost: test\r\n\r\n"
POST = b"POST /guestbook HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n"
PUT = b"PUT /none HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n"


@pytest.fixture(params=names(timeouts=True))
def model(request: pytest.FixtureRequest) -> str:
    """Each model that takes a limit, where a test names none."""
    return request.param


def until_closed(sock: socket.socket) -> bytes:
    """What still comes, up to the end or a reset."""
    chunks = []
    with contextlib.suppress(ConnectionResetError):
        while chunk := sock.recv(1 << 16):
            chunks.append(chunk)
    return b"".join(chunks)


def drips(sock: socket.socket, text: bytes) -> float:
    """Send one byte at a time until the server closes; the seconds that it took."""
    start = time.monotonic()
    for byte in text:
        try:
            sock.sendall(bytes([byte]))
        except (BrokenPipeError, ConnectionResetError):
            break
        if not is_quiet(sock, 0.05):
            break
    return time.monotonic() - start


def sends_until_reset(sock: socket.socket) -> float:
    """Send without reading; how many seconds the last bytes lay before a reset.

    A client whose buffer is full may hear of it with its next window probe only, which
    come 0.2, 0.4, 0.8 ... s apart.
    """
    sock.setblocking(False)
    last = time.monotonic()
    while time.monotonic() - last < PATIENCE_S:
        try:
            sock.send(MIB[: 1 << 16])
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
        except ConnectionError:
            break
    return time.monotonic() - last


@contextlib.contextmanager
def cutting(model: str, *flags: object, **timeouts: int) -> Iterator[Server]:
    """A server that cuts so many clients, by what for, and sees no error."""
    with serving(model, *flags) as server:
        yield server
        stats = server.stop()
    assert stats["timeouts"] == {"idle": 0, "header": 0, "body": 0} | timeouts
    assert stats["errors"] == {}


def test_a_silent_client_is_closed_in_time(model):
    with cutting(model, "--timeout-idle", LIMIT_S, idle=2) as server:
        for asks in (False, True):
            since = time.monotonic()
            with server.connect() as sock:
                assert not asks or echoes(sock)
                assert until_closed(sock) == b""
                took = time.monotonic() - since
            assert LIMIT_S * 0.8 < took < LIMIT_S + SLACK_S


def test_a_client_that_thinks_for_less_than_the_limit_stays(model):
    flags = [f"--timeout-{kind}={ROOM_S}" for kind in ("idle", "header", "body")]
    flags += ["--workload", "work"]
    with cutting(model, *flags) as server, server.connect() as sock:
        for total in range(5, 40, 5):  # longer than one limit, all of it
            time.sleep(ROOM_S / 6)
            sock.sendall(b"5 ")
            time.sleep(0.02)
            sock.sendall(b"1\n")
            assert receive(sock, len(b"%d\n" % total)) == b"%d\n" % total


def test_a_delay_of_the_servers_own_is_nobodys_idleness(model):
    flags = ["--workload", "work", "--timeout-idle", 0.1, "--timeout-header", 0.1]
    with cutting(model, *flags) as server, server.connect() as sock:
        sock.sendall(b"300000 0\n")
        assert receive(sock, 7) == b"300000\n"


def test_a_head_that_drips_is_cut_and_answered_408(model):
    """Each byte comes well within the limit; the head has one, from its first byte."""
    head = b"GET /none HTTP/1.1\r\nHost: test\r\nX-Slow: " + b"z" * 200
    flags = ["--workload", "http", "--timeout-header", LIMIT_S]
    with cutting(model, *flags, header=1) as server, server.connect() as sock:
        sock.sendall(GET)
        assert b"404 Not Found" in sock.recv(1 << 16)
        time.sleep(LIMIT_S * 1.5)  # nothing has begun: no head is late
        assert LIMIT_S * 0.8 < drips(sock, head) < LIMIT_S + SLACK_S
        assert until_closed(sock).startswith(b"HTTP/1.1 408 Request Timeout")


def test_a_line_of_work_that_drips_is_cut(model):
    flags = ["--workload", "work", "--timeout-header", LIMIT_S]
    with cutting(model, *flags, header=1) as server, server.connect() as sock:
        assert LIMIT_S * 0.8 < drips(sock, b"0" * 30) < LIMIT_S + SLACK_S
        assert until_closed(sock) == b"ERR the line took too long\n"


def test_a_body_that_drips_is_cut(model):
    """Where the answer was given before, as to a PUT, no second one follows."""
    flags = ["--workload", "http", "--timeout-body", LIMIT_S]
    with cutting(model, *flags, body=2) as server:
        for request in (POST, PUT):
            with server.connect() as sock:
                sock.sendall(request)
                if request is PUT:
                    assert b" 405 " in sock.recv(1 << 16)
                assert LIMIT_S * 0.8 < drips(sock, b"x" * 99) < LIMIT_S + SLACK_S
                rest = until_closed(sock)
                assert rest.startswith(b"HTTP/1.1 408") == (request is POST)


def test_a_client_that_never_reads_is_closed(model):
    flags = ["--timeout-idle", LIMIT_S]
    with cutting(model, *flags, idle=1) as server, server.connect() as sock:
        assert sends_until_reset(sock) < LIMIT_S + 2 * SLACK_S


def test_one_that_reads_slowly_but_reads_is_served(model):
    """Every pause is within the limit; the whole answer takes several of them.

    Little room at the client's side, so that the server sees each time that it reads.
    """
    flags = ["--timeout-idle", ROOM_S]
    with serving(model, *flags) as server, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        sock.connect(server.address)
        sent = fill(sock)
        sock.settimeout(PATIENCE_S)
        for _ in range(8):
            time.sleep(ROOM_S / 7)
            assert len(receive(sock, sent // 9)) == sent // 9
        assert len(receive(sock, sent - 8 * (sent // 9))) == sent - 8 * (sent // 9)


def test_off_by_default(model):
    with cutting(model, "--workload", "http") as server, server.connect() as sock:
        sock.sendall(GET[:20])
        assert is_quiet(sock, 2 * LIMIT_S)
        sock.sendall(GET[20:])
        assert b"404 Not Found" in sock.recv(1 << 16)


@pytest.mark.parametrize("model", names(timeouts=True, isolates_slow=False))
def test_clients_who_hold_every_worker_hold_it_for_so_long(model):
    """What the limits are for: as many silent clients as there are workers."""
    flags = fixed_workers(model, 2)
    workers = 2 if flags else 1
    flags += ["--timeout-idle", LIMIT_S]
    with (
        cutting(model, *flags, idle=workers) as server,
        server.clients(workers) as silent,
    ):
        with server.connect() as late:
            start = time.monotonic()
            assert echoes(late)
            assert time.monotonic() - start < LIMIT_S + SLACK_S
        assert [receive_all(sock) for sock in silent] == [b""] * workers


@unsanitized
@pytest.mark.timed
def test_a_limit_holds_though_all_but_one_worker_are_busy(preloaded):
    """One of them looked for who is late: worker 0, busy in 15 of 16 such runs."""
    flags = ["--workers", 16, "--timeout-idle", LIMIT_S]
    preexec = preloaded("faults.c", SEND_MS=3000)
    with (
        serving("epoll-pool", *flags, preexec=preexec) as server,
        contextlib.ExitStack() as busy,
    ):
        for _ in range(15):
            busy.enter_context(server.connect()).sendall(b"hello")
            time.sleep(0.02)
        since = time.monotonic()
        with server.connect() as silent:
            assert until_closed(silent) == b""
        assert time.monotonic() - since < LIMIT_S + SLACK_S
        assert server.stop()["timeouts"]["idle"] == 1


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon", "1s", "86401", ""])
def test_a_limit_that_is_no_number_of_seconds_is_refused(value):
    message = refused("iterative", f"--timeout-header={value}")
    assert f"{f'--timeout-header {value}'.rstrip()}: " in message
    assert "86400" in message


#: what computes for one client in the thread that waits for others
LOOPS = [
    name
    for family in ("readiness", "completion", "coroutine")
    for name in names(family=family)
]


@pytest.mark.timed
@pytest.mark.parametrize("model", LOOPS)
def test_who_sent_in_time_is_answered_by_a_loop_that_was_busy(model):
    """It was cut: its deadline had passed before the loop looked at its socket."""
    limit_s = 0.5 * SLOWER
    flags = ["--workload", "work", "--delay-kind", "spin", "--timeout-idle", limit_s]
    with serving(model, *flags, *fixed_workers(model, 1)) as server:
        with server.clients(2) as (busy, waiting):
            for sock in (busy, waiting):
                sock.sendall(b"0 0\n")
                assert receive(sock, 2) == b"0\n"
            busy.sendall(b"%d 1\n" % (limit_s * 1.2e6))
            time.sleep(0.05)
            waiting.sendall(b"0 0\n")
            assert receive(waiting, 2) == b"0\n"
            assert waiting.recv(1) == b""
        stats = server.stop()
    assert stats["requests"] == 4
    assert 1 <= stats["timeouts"]["idle"] <= 2


@pytest.mark.timed
@pytest.mark.parametrize("model", LOOPS)
def test_who_sent_in_time_is_answered_by_a_loop_that_stood_still(model):
    """The wait of a process that was stopped ends, and tells of nobody (EINTR)."""
    flags = ["--timeout-idle", LIMIT_S, *fixed_workers(model, 1)]
    with serving(model, *flags) as server, server.connect() as sock:
        assert echoes(sock)
        with server.halted():
            sock.sendall(b"in time")
            time.sleep(2 * LIMIT_S)
        assert receive(sock, 7) == b"in time"


@pytest.mark.timed
@pytest.mark.parametrize("model", names(family="completion"))
def test_who_sent_in_time_is_answered_each_time_that_a_loop_stood_still(model):
    """A delay follows: a ring that had looked twice before it cut at once later."""
    flags = ["--workload", "work", "--timeout-idle", LIMIT_S, *fixed_workers(model, 1)]
    with cutting(model, *flags) as server, server.connect() as sock:
        sock.sendall(b"0 0\n")
        assert receive(sock, 2) == b"0\n"
        for total in (1000, 2000, 3000):
            with server.halted():
                sock.sendall(b"1000 0\n")
                time.sleep(2 * LIMIT_S)
            assert receive(sock, 5) == b"%d\n" % total


@pytest.mark.timed
@pytest.mark.parametrize("model", one_a_family(LOOPS))
def test_who_read_in_time_is_sent_the_rest_by_a_loop_that_stood_still(model):
    flags = ["--timeout-idle", ROOM_S, *fixed_workers(model, 1)]
    with serving(model, *flags) as server, server.connect() as sock:
        left = fill(sock)
        sock.settimeout(PATIENCE_S)
        with server.halted():
            while not is_quiet(sock, 0.05):
                left -= len(sock.recv(1 << 20))
            time.sleep(1.5 * ROOM_S)
        assert left > 0
        assert len(receive(sock, left)) == left


@pytest.mark.timed
@pytest.mark.parametrize("model", names())
@pytest.mark.parametrize("lines", [1, 20_000])
def test_a_reset_while_a_delay_passes_is_noticed_where_the_row_says_so(model, lines):
    """A thread that sleeps looks at nothing else; a poller may go on looking.

    A ring that had filled a buffer with what a client sent looked no more.
    """
    delay_s = 0.5 * SLOWER
    with serving(model, "--workload", "work") as server:
        sock = server.connect()
        sock.sendall(b"0 0\n" * lines)
        assert receive(sock, 2 * lines) == b"0\n" * lines
        open_now = settled(server.descriptors)
        sock.sendall(b"%d 0\n" % (delay_s * 1e6))
        time.sleep(0.05)
        reset(sock)
        noticed = eventually(
            lambda: server.descriptors() < open_now, seconds=delay_s / 2
        )
        assert noticed == entry(model)["notices_reset"]
        assert eventually(lambda: server.descriptors() < open_now)
        assert server.stop()["errors"] == {"ECONNRESET": 1}
