"""Redis for a sweep: there for a block of code, and nothing left afterwards."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import wait_for

from connlab.drive import redis, services
from tests import upstreams

installed = pytest.mark.skipif(
    not shutil.which(redis.PROGRAM), reason="redis-server is not installed"
)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_without_the_program_the_reason_is_said():
    with redis.serving(program="no-such-redis") as place:
        assert place.address is None
        assert "no-such-redis" in str(place)


def test_a_program_that_does_not_come_up_is_an_error():
    with pytest.raises(redis.RedisError, match="true"):
        redis.serving(program=shutil.which("true")).__enter__()


@installed
def test_it_holds_the_remarks_and_is_gone_afterwards():
    with redis.serving(remarks=7) as place:
        assert place.address.startswith("127.0.0.1:")
        assert f"Redis {place.version}" in str(place)
        assert redis.command(port_of(place.address), "LLEN", redis.REMARKS) == ":7\r\n"
    with pytest.raises(ConnectionRefusedError):
        redis.command(port_of(place.address), "PING")


@installed
def test_its_cpu_time_is_that_of_a_companion():
    before = services.cpu_s()
    with redis.serving() as place:
        for _ in range(200):
            redis.command(port_of(place.address), "LRANGE", redis.REMARKS, "0", "-1")
        assert services.cpu_s() > 0
    assert before == services.cpu_s() == 0


@installed
def test_two_do_not_meet():
    with redis.serving(remarks=1) as one, redis.serving(remarks=2) as other:
        assert one.address != other.address
        assert redis.command(port_of(one.address), "LLEN", redis.REMARKS) == ":1\r\n"


_HOLDER = """
import time
from connlab.drive import redis
with redis.serving(remarks=0) as place:
    print(place.address, flush=True)
    time.sleep(60)
"""


@installed
def test_it_dies_with_whoever_started_it(tmp_path):
    env = os.environ | {"TMPDIR": str(tmp_path)}  # nobody removes its files
    words = [sys.executable, "-c", _HOLDER]
    holder = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)
    port = port_of(holder.stdout.readline())
    assert redis.command(port, "PING") == "+PONG\r\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    wait_for(lambda: not upstreams.answers(("127.0.0.1", port)), seconds=5)
