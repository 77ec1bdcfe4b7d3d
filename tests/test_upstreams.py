"""What the tests of Redis stand on: a port that is one test's alone."""

import contextlib
import socket

import pytest

from tests import upstreams


def test_a_reserved_port_is_given_to_nobody_else(monkeypatch):
    with upstreams.reserved_port() as port:
        pass

    class Again:
        """As if chance named the same ports to every test."""

        def sample(self, _below, _count):
            return [port]

    monkeypatch.setattr(upstreams.random, "SystemRandom", Again)
    with upstreams.reserved_port() as first, upstreams.reserved_port() as second:
        assert first == port
        assert second != port
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_redis_listens_on_a_reserved_port_again_and_again():
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(upstreams.reserved_port())
        for _ in range(2):
            with upstreams.redis(port) as address:
                assert address == ("127.0.0.1", port)
                assert upstreams.command(address, "INCR", "n") == b":1\r\n"
                with socket.socket() as other, pytest.raises(OSError, match="in use"):
                    other.bind(address)
