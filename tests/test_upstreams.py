"""What the tests of Redis stand on: a port that is one test's alone."""

import random
import socket
from types import SimpleNamespace

import pytest

from tests import upstreams
from tests.client.harness import reserved_port


def test_a_reserved_port_is_given_to_nobody_else(monkeypatch):
    with reserved_port() as port:
        same = SimpleNamespace(sample=lambda _below, _count: [port])
        monkeypatch.setattr(random, "SystemRandom", lambda: same)
        with reserved_port() as other:
            assert other != port
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_redis_listens_on_a_reserved_port_again_and_again():
    with reserved_port() as port:
        for _ in range(2):
            with upstreams.redis(port) as address:
                assert address == ("127.0.0.1", port)
                assert upstreams.command(address, "INCR", "n") == b":1\r\n"
                with socket.socket() as other, pytest.raises(OSError, match="in use"):
                    other.bind(address)
