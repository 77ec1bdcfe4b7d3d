"""Which tests may run beside which: the locks of conftest.py, asked by threads."""

import os
import sys
import threading
from pathlib import Path

import conftest
import pytest


@pytest.fixture
def lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks that nobody else asks for."""
    monkeypatch.setattr(conftest, "_lane", tmp_path / "lane")


def entering(kind: str) -> tuple[threading.Thread, threading.Event, threading.Event]:
    """Want in as a test of a kind; return what says that it is in, and ends it."""
    inside, end = threading.Event(), threading.Event()

    def test() -> None:
        with conftest._admitted(kind):
            inside.set()
            end.wait(20)

    thread = threading.Thread(target=test)
    thread.start()
    return thread, inside, end


@pytest.mark.parametrize("kind", conftest.KINDS)
@pytest.mark.parametrize("other", conftest.KINDS)
def test_a_kind_runs_beside_its_like_only_and_behind_earlier_ones(lane, other, kind):
    """The last of the kinds runs beside nobody."""
    earlier = conftest.KINDS.index(other) < conftest.KINDS.index(kind)
    beside = earlier or kind == other != "serial"
    for lock, free in ((other, beside), (f"{other}-wanted", not earlier)):
        with conftest._locked(lock, alone=False):
            assert conftest._in_the_way_of(kind) == (None if free else lock)


def test_who_waits_enters_when_the_other_has_ended(lane):
    running, inside, end = entering("sweeps")
    assert inside.wait(20)
    waiting, inside_too, end_too = entering("plain")
    assert not inside_too.wait(0.1)
    end.set()
    assert inside_too.wait(20)
    end_too.set()
    for thread in (running, waiting):
        thread.join(20)
    assert conftest._in_the_way_of("serial") is None


CRASHES = """
import os, pytest
@pytest.mark.serial
def test_a(): os._exit(3)
@pytest.mark.serial
def test_b(): pass
def test_c(): pass
"""


def test_a_test_that_ends_its_worker_is_given_to_no_other(tmp_path: Path):
    """The others of its group are run; by itself pytest-xdist goes round and round."""
    (tmp_path / "test_it.py").write_text(CRASHES)
    config = ("-c", conftest.ROOT / "pyproject.toml", "--rootdir", tmp_path)
    two = ("-p", "conftest", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider")
    env = conftest.of_no_session(os.environ)
    env["PYTHONPATH"] = str(conftest.ROOT / "tests")
    words = [sys.executable, "-m", "pytest", "-q", *config, *two, tmp_path]
    done = conftest.ran(*words, env=env, timeout=60)
    assert "1 failed, 2 passed" in done.stdout
