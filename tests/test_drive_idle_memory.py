"""What idle connections take in a server and in the kernel."""

import os
import signal

import pytest
import study_made as made
from conftest import is_running, wait_for
from drive_fakes import models
from drive_fakes import programs as fakes

from connlab.drive import hosts_asked, idle_memory
from connlab.drive.host import ProgramError
from connlab.drive.running import running
from connlab.studies.idle import held

SLABINFO = """\
slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>
TCPv6                91    143   2496   13    8 : tunables    0    0    0
eventpoll_epi       411    544    128   32    1 : tunables    0    0    0
"""


def test_a_cache_has_the_bytes_of_its_objects_in_use():
    slabs = {"TCPv6": 91 * 2496, "eventpoll_epi": 52608}
    assert idle_memory.parse_slabs(SLABINFO) == slabs
    assert idle_memory.parse_slabs("") == {}


def test_of_what_both_ends_have_the_server_has_half():
    added = {"pss": 300.0, "TCP": 4000.0, "eventpoll_epi": 128.0, "stacks": 2.0}
    summed = idle_memory._summed(added)
    assert summed["server_bytes"] == 300
    assert summed["kernel_bytes"] == 2000 + 128 + 2


def test_a_kernel_that_does_not_tell_leaves_its_part_unknown(tmp_path):
    summed = idle_memory._summed({"pss": 300.0, "stacks": 0.0, "page_tables": 4.0})
    assert summed["kernel_bytes"] is None
    rows = [
        {"model": "epoll", "repeat": 0, "failure": None, **summed},
        {"model": "poll", "repeat": 0, "failure": "it broke"},
    ]
    made.write(tmp_path, rows, study="idle", file=idle_memory.FILE)
    (row,) = held("made", root=tmp_path).to_dict("records")
    assert row["server_bytes"] == 300
    assert row["kernel_bytes"] != row["kernel_bytes"]


def test_repeats_out_of_range_are_refused(tmp_path):
    with pytest.raises(ValueError, match="repeats"):
        idle_memory.hold("idle", run="r", models=[], repeats=-1, root=tmp_path)


def test_on_other_hosts_nothing_is_read_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv(hosts_asked.ROSTER, "hosts.toml")
    options = {"run": "r", "models": ["epoll"], "root": tmp_path}
    assert "another host" in idle_memory.hold("idle", **options)
    assert held("r", root=tmp_path).empty


@pytest.mark.serial
@pytest.mark.skipif(idle_memory.missing() is not None, reason="needs /proc/slabinfo")
def test_a_thread_takes_a_stack_in_the_kernel(tmp_path, build_dir):
    options = {"run": "r", "repeats": 3, "root": tmp_path}
    for asked in (["epoll", "thread", "pool"], ["epoll", "thread"]):
        assert idle_memory.hold("idle", models=asked, **options) is None
    # other programs come and go beside the servers, so one of three may be off
    medians = held("r", root=tmp_path).groupby("model")["kernel_bytes"].median()
    assert medians.index.tolist() == ["epoll", "thread"]
    assert 1000 < medians["epoll"] < 50_000
    assert 10_000 < medians["thread"] < 200_000


@pytest.mark.serial
def test_a_thread_takes_more_memory_than_a_connection(build_dir, monkeypatch):
    monkeypatch.setattr(idle_memory, "REPEATS", 1)
    monkeypatch.setattr(idle_memory, "IDLE", {"descriptors": 400})
    compared = models("epoll", "thread", "iterative", "pool")
    memory = idle_memory.pss_each(compared)
    assert memory.keys() == {"epoll", "thread"}
    assert 50 < memory["epoll"][0] < 2000
    assert 4096 < memory["thread"][0] < 64 * 1024


def test_a_server_that_has_ended_holds_no_memory_that_is_known():
    """None would be a connection that frees memory."""
    with running("good", both=fakes()) as server:
        os.kill(server.handle, signal.SIGKILL)
        wait_for(lambda: not is_running(server.handle))
        with pytest.raises(ProgramError, match="good: "):
            idle_memory.settled_pss(server)
