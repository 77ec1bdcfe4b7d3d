"""What all tests share: the built programs, and a lane of its own for timing tests.

`pytest -n 2` runs two tests at once. A test marked ``serial`` measures time or fills
the machine, so nothing may run beside it: every test holds a shared lock, a serial one
holds it alone. That keeps one pytest session with one closing line.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# A property that holds is no less true on a machine that is busy.
hypothesis.settings.register_profile("connlab", deadline=None)
hypothesis.settings.load_profile("connlab")

ROOT = Path(__file__).resolve().parents[1]

REFERENCE = ROOT / "runs" / "reference"

#: a mark for tests that look at it
with_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason="the deposit of another run has no runs/reference"
)

_lane: Path | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Agree on the lock's files before workers start; they inherit the name.

    A test is a client as well, with a descriptor for each connection that it opens:
    it may have as many as the system allows.
    """
    global _lane
    name = f"/tmp/connlab-tests-{os.getuid()}-{os.getpid()}"
    _lane = Path(os.environ.setdefault("CONNLAB_TEST_LANE", name))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the lock's files when the session that made them ends."""
    if _lane and _lane.name.endswith(f"-{os.getpid()}"):
        for suffix in (".door", ".room", ".build"):
            _lane.with_suffix(suffix).unlink(missing_ok=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put serial tests last, where they hold up nobody."""
    items.sort(key=lambda item: item.get_closest_marker("serial") is not None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let a serial test run alone; outside of the time that a test is given.

    Whoever wants in passes the door. A serial test keeps the door shut while it
    waits for the room to empty, so that it does not wait forever.
    """
    alone = item.get_closest_marker("serial") is not None
    with contextlib.ExitStack() as stack:
        door = stack.enter_context(_lane.with_suffix(".door").open("w"))
        room = stack.enter_context(_lane.with_suffix(".room").open("w"))
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        return (yield)


def make(*words: str) -> None:
    """Call make in the project's folder; no two tests compile at once."""
    command = ["make", "--no-print-directory", *words]
    with _lane.with_suffix(".build").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """Return the directory of the built programs, building them when run by hand."""
    make("build")
    return ROOT / "build"


@pytest.fixture(scope="session")
def server_program(build_dir: Path) -> Path:
    """Return the path of the server."""
    return build_dir / "server"


@pytest.fixture(scope="session")
def client_program(build_dir: Path) -> Path:
    """Return the path of the client."""
    return build_dir / "client"
