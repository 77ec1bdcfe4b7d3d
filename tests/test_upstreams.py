"""What the tests of Redis stand on: a port that is one test's alone."""

import random
import socket
from types import SimpleNamespace

import pytest

from tests.client.harness import reserved_port


def test_a_reserved_port_is_given_to_nobody_else(monkeypatch):
    with reserved_port() as port:
        same = SimpleNamespace(sample=lambda _below, _count: [port])
        monkeypatch.setattr(random, "SystemRandom", lambda: same)
        with reserved_port() as other:
            assert other != port
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
