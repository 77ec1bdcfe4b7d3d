"""The files of a run: whole lines, one writer, nothing lost."""

import errno
import fcntl
import gzip
import json
import os
import re
import threading

import pytest
from conftest import python
from drive_fakes import full

from connlab import schema
from connlab.drive import store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "t.jsonl"


@pytest.fixture
def packed(path):
    """Return a packed file beside where its lines would be."""
    packed = path.with_name("t.jsonl.gz")
    schema.put(packed, gzip.compress(b'{"a":1}\n'))
    return packed


def test_what_is_appended_is_read(path):
    assert schema.read_log(path).trials == ()
    with store.journal(path) as (log, append):
        assert log.trials == ()
        append('{"a":1}')
        append('{"a":2}')
    assert schema.read_log(path).trials == ({"a": 1}, {"a": 2})


def test_a_packed_file_is_read_and_goes_on(path, packed):
    assert schema.read_log(path).trials == ({"a": 1},)
    assert packed.exists()
    with store.journal(path) as (log, append):
        assert log.trials == ({"a": 1},)
        append('{"a":2}')
    assert path.read_text() == '{"a":1}\n{"a":2}\n'
    assert not packed.exists()


def test_of_two_sweeps_one_unpacks(path, packed):
    lock = os.open(packed, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    second = threading.Thread(target=store._unpack, args=[path])
    second.start()
    second.join(0.2)
    assert second.is_alive()
    assert not path.exists()
    path.write_text('{"a":1}\n{"a":2}\n')  # the first has unpacked it and goes on
    packed.unlink()
    os.close(lock)
    second.join(10)
    assert not second.is_alive()
    assert path.read_text() == '{"a":1}\n{"a":2}\n'


_WHOLE = gzip.compress(b'{"a":1}\n' * 999)
_DAMAGED = {  # by names, as bytes hold the time at which they were packed
    "cut in its length": _WHOLE[:-1],
    "cut in its data": _WHOLE[:-9],
    "cut at its beginning": _WHOLE[:12],
    "another checksum": bytes([*_WHOLE[:-8], _WHOLE[-8] ^ 1, *_WHOLE[-7:]]),
}


@pytest.mark.parametrize("data", _DAMAGED.values(), ids=_DAMAGED)
def test_a_damaged_packed_file_is_said_and_kept(path, packed, data):
    packed.write_bytes(data)
    with pytest.raises(OSError, match=rf"^{re.escape(str(packed))} is damaged"):
        schema.read_log(path)
    assert packed.read_bytes() == data


@pytest.mark.parametrize("tail", ['{"a":3', '{"a":3}', "\x00\x00"])
def test_a_line_without_its_end_is_cut_off_and_said(path, tail):
    schema.put(path, f'{{"a":1}}\n{tail}'.encode())
    with store.journal(path) as (log, append):
        assert log.trials == ({"a": 1},)
        assert "cut short" in log.remarks[0]
        append('{"a":2}')
    assert path.read_text() == '{"a":1}\n{"a":2}\n'


def test_an_unreadable_line_in_the_middle_stays_and_is_said(path):
    schema.put(path, b'{"a":1}\nrubbish\n{"a":2}\n')
    with store.journal(path) as (log, _append):
        assert log.trials == ({"a": 1}, {"a": 2})
        assert "line 2" in log.remarks[0]
    assert "rubbish" in path.read_text()


def test_only_one_sweep_writes_a_file(path):
    with store.journal(path), pytest.raises(store.StoreError, match="another sweep"):
        store.journal(path).__enter__()


def test_a_full_disk_leaves_whole_lines(path):
    """A limit on the size of files stands for the end of the disk."""
    code = f"""
import resource, pathlib
from connlab import schema
from connlab.drive import store
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
with store.journal(pathlib.Path({str(path)!r})) as (log, append):
    append('{{"a":"' + 60 * "x" + '"}}')
    try:
        append('{{"b":"' + 60 * "x" + '"}}')
    except store.StoreError as error:
        print(error)
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert os.strerror(errno.EFBIG) in done.stdout
    lines = path.read_text().splitlines()
    assert [list(json.loads(line)) for line in lines] == [["a"]]


def test_a_line_is_written_to_its_end(path, monkeypatch):
    write = os.write
    with store.journal(path) as (_log, append), monkeypatch.context() as patched:
        patched.setattr(store.os, "write", lambda fd, data: write(fd, data[:3]))
        append('{"a":1}')
    assert path.read_text() == '{"a":1}\n'


def test_replace_never_shows_half_a_file(tmp_path):
    path = tmp_path / "p.json"
    store.replace(path, {"a": 1}, flush=True)
    with pytest.raises(TypeError):
        store.replace(path, {"a": object()})
    assert schema.read_json(path) == {"a": 1}
    assert schema.read_json(tmp_path / "none.json") is None


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(
    path, monkeypatch, call
):
    schema.put(path, b"old", flush=True)
    with monkeypatch.context() as patched:
        patched.setattr(store.os, call, full)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            schema.put(path, b"new", flush=True)
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
