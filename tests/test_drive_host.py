"""LocalHost: start, ready, sample, stop, whatever the program does."""

import errno
import os
import signal
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import drive_fakes
import pytest
from conftest import is_running, python, wait_for

from connlab.drive import interrupt
from connlab.drive.host import LocalHost, ProgramError
from connlab.drive.running import running


@pytest.fixture
def host():
    here = LocalHost()
    yield here
    here.close()


def _python(code: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", code]


def _server(model: str) -> list[str]:
    return [*drive_fakes.programs().server, model]


def _started(host: LocalHost, argv: list[str], **options) -> int:
    handle = host.start(argv, **options)
    assert host.ready(handle, timeout_s=10) is not None
    return handle


def test_a_program_is_ready_sampled_and_stopped(host):
    handle = host.start(_server("good"))
    assert host.ready(handle, timeout_s=10)["event"] == "ready"
    reading = host.sample(handle, memory=True)
    assert reading.processes.threads == 1
    assert reading.pss_bytes > 1 << 20
    assert reading.machine.busy_s > 0
    ended = host.stop(handle, grace_s=5)
    assert ended.exit == 0
    assert not ended.early
    assert ended.lines[-1]["event"] == "stats"
    assert not Path(f"/proc/{handle}").exists()


def test_it_runs_on_the_cores_it_was_given_and_the_caller_keeps_its_own(host):
    before = os.sched_getaffinity(0)
    core = min(before)
    handle = _started(host, _server("good"), cores=[core])
    assert os.sched_getaffinity(handle) == {core}
    assert os.sched_getaffinity(0) == before


@pytest.mark.timed
def test_no_line_in_time_is_none(host):
    handle = host.start(_server("mute"))
    began = time.monotonic()
    assert host.ready(handle, timeout_s=0.2) is None
    assert 0.15 < time.monotonic() - began < 1


@pytest.mark.parametrize("asked", [False, True])
def test_an_early_end_is_an_error_with_status_and_diagnostics(host, asked):
    handle = host.start(_server("exits"))
    with pytest.raises(ProgramError, match="exit 1: server: bind: "):
        host.ready(handle, timeout_s=10)
    if asked:
        host.ask_to_end(handle)
    assert host.stop(handle, grace_s=1).early


def test_a_missing_program_is_an_error(host):
    with pytest.raises(ProgramError, match="no-such-server: cannot start"):
        host.start(["./no-such-server"])


@pytest.mark.parametrize("call", ["memfd_create", "pidfd_open"])
def test_a_program_for_which_no_descriptors_are_left_does_not_run(
    host, monkeypatch, call
):
    before = os.listdir("/proc/self/fd")
    none_left = Mock(side_effect=OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    monkeypatch.setattr(os, call, none_left)
    with pytest.raises(ProgramError, match=os.strerror(errno.EMFILE)):
        host.start(_server("good"), files=["timeline"])
    assert not any(is_running(each.args[0]) for each in none_left.mock_calls)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.timed
def test_a_stubborn_program_is_killed(host):
    handle = _started(host, _server("stubborn"))
    began = time.monotonic()
    assert host.stop(handle, grace_s=0.3).exit == -9
    assert time.monotonic() - began < 2


@pytest.mark.timed
def test_children_are_seen_and_do_not_outlive_the_program(host):
    handle = _started(host, _server("children"))
    reading = host.sample(handle)
    assert reading.processes.processes == 3
    host.stop(handle, grace_s=2)
    pids = [pid for pid, _share in reading.processes.weights]
    wait_for(lambda: not any(map(is_running, pids)), seconds=2)


def test_cpu_time_agrees_with_what_the_program_says_itself(host):
    """The oracle is the program's own clock, read with another call."""
    code = """
import time, json
print(json.dumps({"event": "ready"}), flush=True)
until = time.process_time() + 0.3
while time.process_time() < until: pass
print(json.dumps({"cpu": time.process_time()}), flush=True)
time.sleep(30)
"""
    handle = _started(host, _python(code))
    reported_s = host.ready(handle, timeout_s=10)["cpu"]
    assert host.sample(handle).processes.cpu_s == pytest.approx(reported_s, abs=0.02)


def test_files_come_back_as_values(host):
    code = "import sys; open(sys.argv[2], 'w').write('a,b' + chr(10))"
    handle = host.start(_python(code), files=["timeline"])
    assert host.stop(handle, grace_s=1, wait_s=10).files == {"timeline": b"a,b\n"}


@pytest.mark.parametrize("before", [0, 3 << 30])
def test_much_on_standard_error_neither_blocks_nor_floods(host, before):
    code = f"""
import os, sys
os.lseek(2, {before}, os.SEEK_SET)
sys.stderr.write("x" * 1_000_000 + "the end")
print("{{}}", flush=True)
"""
    handle = host.start(_python(code))
    assert host.ready(handle, timeout_s=10) == {}
    ended = host.stop(handle, grace_s=1, wait_s=5)
    assert ended.diagnostics.endswith("the end")
    assert len(ended.diagnostics) <= 2000


def test_nothing_is_left_open():
    """In a process of its own: what other tests left is opened and closed any time."""
    code = f"""
import os
from connlab.drive.host import LocalHost
here = LocalHost()
before = len(os.listdir("/proc/self/fd"))
for _ in range(3):
    handle = here.start({_python("print('{}')")!r}, files=["timeline"])
    here.ready(handle, timeout_s=10)
    here.stop(handle, grace_s=1, wait_s=5)
print(len(os.listdir("/proc/self/fd")) - before)
"""
    done = python("-c", code)
    assert done.stdout == "0\n", done.stderr


_STARTED = f"""
host = LocalHost()
handle = host.start({_server("good")!r})
host.ready(handle, timeout_s=10)
print(handle, flush=True)
os.kill(os.getpid(), 9)
"""
#: its tracer does not ask to die with us
_TRACED = """
tracer = ["sh", "-c", '"$@"; :', "sh"]
with running("good", both=drive_fakes.programs(), under=tracer) as server:
    print(*procfs.descendants(server.handle), flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.timed
@pytest.mark.parametrize("code", [_STARTED, _TRACED])
def test_a_server_dies_with_its_driver(code):
    code = f"""
import os
from connlab.drive import procfs
from connlab.drive.host import LocalHost
from connlab.drive.running import running
from tests import drive_fakes
{code}
"""
    done = python("-c", code)
    pids = [int(word) for word in done.stdout.split()]
    assert pids, done.stderr
    wait_for(lambda: not any(map(is_running, pids)), seconds=2)


def test_a_server_ends_when_it_is_told_to_and_its_tracer_after_it():
    tracer = ["sh", "-c", '"$@"; echo "{}"', "sh"]
    with running("good", both=drive_fakes.programs(), under=tracer) as server:
        pass
    stats, last_words = server.ended.lines
    assert (stats["event"], last_words) == ("stats", {})
    assert (server.ended.exit, server.ended.early) == (0, False)


def test_a_signal_that_was_noted_is_forgotten_after_its_block(host):
    """Or whoever waits next would be stopped at once."""
    with interrupt.noted():
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested()
    assert not interrupt.requested()
    slow = "import time; time.sleep(0.3); print('{}', flush=True); time.sleep(9)"
    _started(host, _python(slow))


SLOW_TO_END = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(0)))
print('{"event": "ready"}', flush=True)
while True:
    time.sleep(60)
"""


@pytest.mark.timed
def test_programs_that_are_asked_together_end_together(host):
    handles = [_started(host, _python(SLOW_TO_END)) for _ in range(3)]
    began = time.monotonic()
    for handle in handles:
        host.ask_to_end(handle)
    ends = [host.stop(handle, grace_s=10) for handle in handles]
    assert time.monotonic() - began < 2.5
    assert [(end.exit, end.early) for end in ends] == [(0, False)] * 3
