"""Every model under the workloads that wait: work, and http with its guestbook."""

import concurrent.futures
import contextlib
import errno
import hashlib
import http.client
import itertools
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import upstreams
from tests.client.harness import reserved_port
from tests.conformance.harness import (
    PATIENCE_S,
    SANITIZED,
    Server,
    entry,
    eventually,
    fixed_workers,
    is_quiet,
    names,
    receive,
    receive_all,
    refused,
    serving,
    settled,
    unsanitized,
)

MODELS = names()
CONCURRENT = names(concurrent=True)
HOST = b"Host: test\r\n"
GET = b"GET %s HTTP/1.1\r\n" + HOST + b"\r\n"
VISIT = GET % b"/guestbook"


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    """Each model, where a test names none."""
    return request.param


def ask(server: Server, text: bytes) -> bytes:
    with server.connect() as sock:
        sock.sendall(text)
        sock.shutdown(socket.SHUT_WR)
        return receive_all(sock)


@pytest.mark.parametrize("kind", ["sleep", "spin"])
def test_work_answers_pipelined_lines_in_order(model, kind):
    with serving(model, "--workload", "work", "--delay-kind", kind) as server:
        lines = b"30000 5\n0 5\n10 6\n20000 5\n"
        start = time.monotonic()
        assert ask(server, lines) == b"30000\n30000\n10\n50000\n"
        assert time.monotonic() - start >= (0.05 if kind == "sleep" else 0.03)
    assert server.stats["requests"] == 4
    if kind == "spin":
        assert server.stats["cpu_user_s"] + server.stats["cpu_system_s"] >= 0.05


@pytest.mark.parametrize("model", names(family="readiness", workers="none"))
def test_an_answer_does_not_wait_until_the_next_one_is_computed(model):
    flags = ["--workload", "work", "--delay-kind", "spin"]
    with serving(model, *flags) as server, server.clients(6) as socks:
        for sock in socks:
            sock.sendall(b"0 0\n")
            assert receive(sock, 2) == b"0\n"
        with server.halted():
            for sock in socks:
                sock.sendall(b"100000 0\n")
        assert select.select(socks, [], [], PATIENCE_S)[0]
        time.sleep(0.01)
        assert len(select.select(socks, [], [], 0)[0]) < len(socks)


def test_buckets_are_one_for_the_whole_server(model):
    """Whatever thread or process serves a connection, it adds to the same sum."""
    flags = ["--workload", "work", "--buckets", 3, *fixed_workers(model, 4)]
    with serving(model, *flags) as server:
        for i in range(1, 13):
            assert ask(server, b"5 2\n") == b"%d\n" % (5 * i)
        assert ask(server, b"0 1\n") == b"0\n"
        assert ask(server, b"0 3\n") == b"ERR BUCKET is not there\n"


@pytest.mark.parametrize("model", CONCURRENT)
def test_sleeps_of_clients_overlap(model):
    delay_s, clients = 0.3, 4
    with (
        serving(model, "--workload", "work", *fixed_workers(model, 4)) as server,
        server.clients(clients) as socks,
    ):
        start = time.monotonic()
        for i, sock in enumerate(socks):
            sock.sendall(b"%d %d\n" % (delay_s * 1e6, i))
        assert [receive(sock, 7) for sock in socks] == [b"300000\n"] * clients
        assert delay_s <= time.monotonic() - start < delay_s * clients * 0.8


def test_bad_line_is_told_and_closes(model):
    with serving(model, "--workload", "work") as server:
        with server.connect() as sock:
            sock.sendall(b"0 1\nrubbish\n0 1\n")
            want = b"0\nERR want DELAY_US BUCKET, two whole numbers\n"
            assert receive_all(sock) == want
        with server.connect() as sock:
            sock.sendall(b"7" * 60000)  # a segment: more under way would reset it
            assert receive_all(sock) == b"ERR the line is too long\n"
        assert ask(server, b"0 1\n") == b"0\n"


def test_a_long_sleep_does_not_hold_up_the_stop(model):
    with serving(model, "--workload", "work") as server:
        sock = server.connect()
        sock.sendall(b"0 1\n60000000 1\n")  # the longest that is allowed
        assert receive(sock, 2) == b"0\n"  # it has read both lines
        assert is_quiet(sock, 0.1)
        assert server.stopped_in() < (3 if SANITIZED else 1.6)
        sock.close()


def test_who_leaves_during_a_sleep_leaks_nothing(model):
    with serving(model, "--workload", "work", *fixed_workers(model, 4)) as server:
        assert ask(server, b"0 1\n") == b"0\n"
        before = settled(server.descriptors)  # all workers are there
        for _ in range(20):
            sock = server.connect()
            sock.sendall(b"20000 1\n")
            sock.close()
        assert eventually(lambda: ask(server, b"0 1\n") == b"400000\n")
        assert eventually(lambda: server.descriptors() < before + 10)


@contextlib.contextmanager
def web(model: str, root: Path, redis: tuple | Callable | None = None) -> Iterator:
    """A server of pages; `redis` is where Redis is, or how a stub of it talks."""
    flags = ["--workload", "http", "--root", root, *fixed_workers(model, 4)]
    with contextlib.ExitStack() as stack:
        if callable(redis):
            redis = stack.enter_context(upstreams.stub(redis))
        if redis:
            flags += ["--redis", "{}:{}".format(*redis)]
        yield stack.enter_context(serving(model, *flags))


def request(
    server: Server, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes, dict]:
    connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, {"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read(), dict(response.getheaders())
    finally:
        connection.close()


def statuses(stream: bytes) -> list[int]:
    return [int(part[:3]) for part in stream.split(b"HTTP/1.1 ")[1:]]


def test_files_errors_and_pipelining(model, root):
    with web(model, root) as server:
        assert request(server, "GET", "/")[:2] == (200, b"<h1>here</h1>\n")
        assert request(server, "GET", "/a%20file.txt")[:2] == (200, b"with a blank\n")
        status, body, headers = request(server, "HEAD", "/large.bin")
        assert (status, body, headers["Content-Length"]) == (200, b"", "12000000")
        paths = [b"/", b"/nope", b"/%2e%2e/secret", b"/../secret", b"/out", b"/%zz"]
        pipeline = b"".join(GET % path for path in paths)
        want = [200, 404, 404, 404, 404, 400]
        assert statuses(ask(server, pipeline)) == want
        assert statuses(ask(server, b"DELETE / HTTP/1.1\r\n" + HOST + b"\r\n")) == [405]
        assert statuses(ask(server, b"GET / HTTP/1.1\r\n\r\n")) == [400]
        # the absolute form has a path, or none; a bare LF ends no line
        assert statuses(ask(server, GET % b"http://h?x=/nope")) == [200]
        assert statuses(ask(server, GET % b"http://\x01\x02/")) == [400]
        bare = b"GET / HTTP/1.1\n" + HOST + b"\r\n"
        assert statuses(ask(server, bare + GET % b"/")) == [400]
        assert statuses(ask(server, GET % b"/" * 500)) == [200] * 500
        # and no Redis was named
        assert request(server, "GET", "/guestbook")[0] == 503
        assert request(server, "GET", "/")[0] == 200
    assert server.stats["requests"] == 516


def test_requests_that_come_byte_by_byte(model, root):
    with web(model, root) as server, server.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n":
            sock.sendall(bytes([byte]))
            time.sleep(0.0005)
        assert receive_all(sock).endswith(b"\r\n\r\n<h1>here</h1>\n")


def test_a_large_file_arrives_whole_and_costs_little_memory(model, root):
    want = hashlib.sha256((root / "large.bin").read_bytes()).digest()
    with web(model, root) as server:
        before = settled(server.resident_bytes)  # all workers are there
        with server.connect() as sock:
            sock.sendall(GET % b"/large.bin")
            grown = settled(server.resident_bytes) - before  # all buffers are full
            stream = receive(sock, 12_000_000)
            head, body = stream.split(b"\r\n\r\n", 1)
            body += receive(sock, 12_000_000 - len(body))
            assert b"Content-Length: 12000000" in head
            assert hashlib.sha256(body).digest() == want
        if not SANITIZED and entry(model)["workers"] != "per-connection":
            assert grown < 2_000_000


@unsanitized
@pytest.mark.parametrize("model", CONCURRENT)
def test_an_answer_takes_no_fresh_memory_each_time(model, root):
    with web(model, root) as server:
        answer = len(ask(server, GET % b"/page.html"))
        with server.clients(4) as socks:
            for _ in range(2):
                before = server.page_faults()
                for _ in range(400):
                    for sock in socks:
                        sock.sendall(GET % b"/page.html")
                    for sock in socks:
                        receive(sock, answer)
            assert server.page_faults() - before < 400


@pytest.mark.parametrize("model", names(concurrent=True, isolates_slow=True))
def test_slow_readers_of_a_large_file_hold_up_nobody(model, root):
    with web(model, root) as server, server.clients(8) as slow:
        for sock in slow:
            sock.sendall(GET % b"/large.bin")
        for _ in range(20):
            assert request(server, "GET", "/")[0] == 200


@pytest.fixture(scope="session")
def redis_server() -> Iterator[tuple]:
    with upstreams.redis() as address:
        yield address


@pytest.fixture
def redis(redis_server) -> tuple:
    """One that knows of no visit yet."""
    assert upstreams.command(redis_server, "FLUSHALL") == b"+OK\r\n"
    return redis_server


def visits(body: bytes) -> int:
    return int(body.split(b"Visits: ")[1].split(b"<")[0])


def test_remarks_are_kept_escaped_and_counted(model, root, redis):
    with web(model, root, redis) as server:
        assert visits(request(server, "GET", "/guestbook")[1]) == 1
        form = b"remark=%3Cscript%3E+%26+caf%C3%A9"
        status, body, headers = request(server, "POST", "/guestbook", form)
        assert (status, body, headers["Location"]) == (303, b"", "/guestbook")
        status, page, headed = request(server, "HEAD", "/guestbook")
        assert (status, page) == (200, b"")
        status, page, headers = request(server, "GET", "/guestbook")
        assert headers["Content-Length"] == headed["Content-Length"]
        assert "<li>&lt;script&gt; &amp; café</li>".encode() in page
        assert visits(page) == 2
        assert headers["Content-Length"] == str(len(page))
        assert request(server, "POST", "/guestbook", b"remark=")[0] == 400
        assert request(server, "POST", "/guestbook", b"remark=" + b"a" * 1001)[0] == 413
        assert request(server, "POST", "/guestbook", b"a" * 20000)[0] == 413
        assert request(server, "PUT", "/guestbook", b"x")[0] == 405
        for i in range(105):
            upstreams.command(redis, "LPUSH", "guestbook:remarks", str(i))
        request(server, "POST", "/guestbook", b"remark=last")
        assert upstreams.command(redis, "LLEN", "guestbook:remarks") == b":100\r\n"


def test_connections_to_redis_are_kept(model, root, redis):
    with web(model, root, redis) as server:
        for _ in range(3):
            assert statuses(ask(server, VISIT * 20)) == [200] * 20
        assert visits(request(server, "GET", "/guestbook")[1]) == 61
    opened = server.stats["upstream_opened"]
    assert 1 <= opened <= 4  # one per process or loop that served a connection


@pytest.mark.parametrize("model", CONCURRENT)
def test_no_visit_is_lost_when_many_ask_at_once(model, root, redis):
    """More clients than connections to Redis: the rest wait in line."""
    clients = 24
    with (
        web(model, root, redis) as server,
        concurrent.futures.ThreadPoolExecutor(clients) as pool,
    ):
        done = pool.map(lambda _: statuses(ask(server, VISIT * 10)), range(clients))
        assert list(itertools.chain.from_iterable(done)) == [200] * 240
        assert visits(request(server, "GET", "/guestbook")[1]) == 241


def test_redis_away_is_503_and_its_return_is_noticed(model, root):
    with reserved_port() as port, web(model, root, ("127.0.0.1", port)) as server:
        for _ in range(2):
            status, _, headers = request(server, "GET", "/guestbook")
            assert (status, headers["Retry-After"]) == (503, "1")
            assert request(server, "POST", "/guestbook", b"remark=1")[0] == 503
            assert request(server, "GET", "/")[0] == 200
            with upstreams.redis(port):
                assert request(server, "POST", "/guestbook", b"remark=1")[0] == 303
                for count in range(1, 6):
                    status, body, _ = request(server, "GET", "/guestbook")
                    assert (status, visits(body)) == (200, count)
    assert server.stats["errors"]["ECONNREFUSED"] == 4


@pytest.mark.timed
def test_silent_redis_is_503_in_time_and_holds_up_nobody_else(model, root):
    with web(model, root, upstreams.silent) as server:
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            asking = [pool.submit(request, server, "GET", "/guestbook") for _ in "12"]
            time.sleep(0.1)
            if entry(model)["concurrent"]:
                for _ in range(5):
                    assert request(server, "GET", "/")[0] == 200
                assert not any(answer.done() for answer in asking)
            assert [answer.result()[0] for answer in asking] == [503, 503]
        rounds = 1 if entry(model)["concurrent"] else 2
        assert 0.9 * rounds < time.monotonic() - start < 1.6 * rounds + SANITIZED
    assert server.stats["errors"]["ETIMEDOUT"] == 2


@pytest.mark.timed
@pytest.mark.parametrize(
    "model", names(family="readiness") + names(family="completion")
)
def test_those_who_wait_in_line_for_a_silent_redis_give_up_too(model, root):
    """40 clients, 16 connections to Redis: all are told within the same second."""
    with web(model, root, upstreams.silent) as server:
        start = time.monotonic()
        with server.clients(40) as socks:
            for sock in socks:
                sock.sendall(b"GET /guestbook HTTP/1.0\r\n\r\n")
            assert [statuses(receive_all(sock)) for sock in socks] == [[503]] * 40
        assert 0.9 < time.monotonic() - start < 1.8 + SANITIZED


BAD_TALKS = {
    "nonsense": upstreams.saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "error": upstreams.saying(b"-LOADING dataset\r\n-LOADING dataset\r\n"),
    "leaving": upstreams.leaving,
    "endless": upstreams.saying(b":1\r\n*9\r\n$99999\r\n" + b"a" * 200_000),
    "cut": upstreams.saying(b":1\r\n*1\r\n$5\r\nab"),
}


def each_client_of_redis() -> list[str]:
    """Return the first model of each family, and others that wait in their own way."""
    families = dict.fromkeys(entry(name)["family"] for name in MODELS)
    first = [names(family=family)[0] for family in families]
    return list(dict.fromkeys([*first, "thread", "epoll", *MODELS[-1:]]))


@pytest.mark.parametrize("talk", BAD_TALKS)
@pytest.mark.parametrize("model", each_client_of_redis())
def test_redis_that_misbehaves_is_503(model, talk, root):
    with web(model, root, BAD_TALKS[talk]) as server:
        for _ in range(2):
            assert request(server, "GET", "/guestbook")[0] == 503
        assert request(server, "GET", "/")[0] == 200


@pytest.mark.parametrize("model", each_client_of_redis())
def test_a_connection_that_redis_refuses_is_not_counted_as_opened(model, root):
    with reserved_port() as port, web(model, root, ("127.0.0.1", port)) as server:
        assert request(server, "GET", "/guestbook")[0] == 503
    assert server.stats["errors"] == {"ECONNREFUSED": 1}
    assert server.stats["upstream_opened"] == 0


def test_a_reply_in_small_pieces_is_put_together(model, root):
    reply = b":7\r\n*2\r\n$2\r\n<>\r\n$-1\r\n"
    talk = upstreams.saying(reply, piece=3, pause_s=0.002)
    with web(model, root, talk) as server:
        for _ in range(2):
            status, body, _ = request(server, "GET", "/guestbook")
            assert status == 200
            assert b"<li>&lt;&gt;</li>\n<li></li>" in body


def test_who_leaves_while_redis_is_asked_leaks_nothing(model, root):
    """The reply to one who has left must not reach the next."""
    reply = b":%d\r\n*0\r\n"
    numbers = iter(range(1, 1000))

    def talk(sock: socket.socket) -> None:
        while sock.recv(65536):
            time.sleep(0.05)
            sock.sendall(reply % next(numbers))

    get = b"GET /guestbook HTTP/1.0\r\n\r\n"
    with web(model, root, talk) as server:
        assert visits(ask(server, get)) == 1
        before = server.descriptors()
        for _ in range(10):
            sock = server.connect()
            sock.sendall(get)
            sock.close()
        seen = [visits(ask(server, get)) for _ in range(3)]
        assert seen == sorted(set(seen))
        assert seen[0] > 1
        assert eventually(lambda: server.descriptors() <= before + 16)


ONE_REPLY = {
    "closes": upstreams.once(),
    "closes later": upstreams.once(waits=True),
    "resets later": upstreams.once(waits=True, resets=True),
}


def visit(server: Server, count: int) -> list[int]:
    """Visits over one connection, each tenth request a remark; their statuses."""
    found = []
    connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        for i in range(count):
            if i % 10 == 9:
                connection.request("POST", "/guestbook", b"remark=here")
            else:
                connection.request("GET", "/guestbook")
            response = connection.getresponse()
            response.read()
            found.append(response.status)
            time.sleep(0.005)
    return found


def visit_together(server: Server, clients: int, count: int) -> list[int]:
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = pool.map(lambda _: visit(server, count), range(clients))
        return list(itertools.chain.from_iterable(answers))


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("talk", ONE_REPLY)
def test_redis_that_leaves_after_a_reply_costs_no_visitor_an_error(
    model, talk, clients, root
):
    """An idle connection breaks: unnoticed, or only when it is used again."""
    with web(model, root, ONE_REPLY[talk]) as server:
        want = ([200] * 9 + [303]) * 2 * clients
        assert visit_together(server, clients, 20) == want
    assert server.stats["upstream_opened"] > 1


def test_client_kill_and_restart_of_redis_cost_no_visitor_an_error(model, root):
    clients = 4
    want = ([200] * 9 + [303]) * 2 * clients
    with (
        reserved_port() as port,
        web(model, root, ("127.0.0.1", port)) as server,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        for _ in range(2):  # the second time it has been restarted
            with upstreams.redis(port) as address:
                visits = pool.submit(visit_together, server, clients, 20)
                while not visits.done():
                    upstreams.kill_used(address)
                    time.sleep(0.02)
                assert visits.result() == want


@pytest.mark.parametrize("model", ["epoll", "epoll-et", "coroutine", "stackless"])
def test_an_idle_connection_that_redis_closes_is_closed(model, root, redis):
    with web(model, root, redis) as server:
        before = settled(server.descriptors)
        assert visit(server, 1) == [200]
        assert eventually(lambda: server.descriptors() == before + 1)
        upstreams.kill_used(redis)
        assert eventually(lambda: server.descriptors() == before)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--redis", "nowhere"], "--redis nowhere: want HOST:PORT"),
        (["--redis", "127.0.0.1:http7"], "--redis 127.0.0.1:http7: "),
        (["--root", "/dev/null"], f"--root /dev/null: {os.strerror(errno.ENOTDIR)}"),
    ],
)
def test_wrong_flags_are_named_with_what_is_allowed(flags, message):
    assert message in refused("epoll", "--workload", "http", *flags)


def test_a_guestbook_page_that_is_too_large_is_said_and_not_cut(tmp_path):
    page = tmp_path / "guestbook.html"
    flags = ["--workload", "http", "--root", tmp_path]
    page.write_bytes(bytes(16 * 1024 + 1))
    message = f"--root {tmp_path}: guestbook.html has more than 16384 bytes"
    assert message in refused("epoll", *flags)
    page.write_bytes(bytes(16 * 1024))
    with serving("epoll", *flags) as server:
        assert request(server, "GET", "/guestbook.html")[0] == 200
