"""Each engine of the load generator, where this machine has it."""

import platform
import re
from pathlib import Path

import pytest
from conftest import ran

from tests.client.harness import ENGINES, FakeServer, Handler, client, command, serving

#: how the client says that there is no io_uring
NO_URING = (
    "built without io_uring",
    "client: uring: Function not implemented",
    "client: uring: Operation not permitted",
)
#: one that has io_uring, but not all that the client asks of it
OLD_KERNEL = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < (6, 12)


@pytest.fixture(scope="session", autouse=True)
def built(build_dir: Path) -> None:
    """Have the programs, also where tests are run by hand."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Give the flag of each engine; skip io_uring where this machine has none."""
    flag = f"--engine {request.param}"
    done = ran(*command(9, flag))
    old = OLD_KERNEL and done.stderr.startswith("client: uring: ")
    if request.param == "uring" and (old or any(t in done.stderr for t in NO_URING)):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return flag


@pytest.fixture
def load():
    """Load a server of ours; return the client's result, and what the server saw."""

    def against(handler: Handler, *flags: object) -> tuple[dict, FakeServer]:
        with serving(handler) as server:
            return client(server.port, *flags), server

    return against
