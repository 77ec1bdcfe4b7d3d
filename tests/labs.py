"""Labs of network namespaces, for the tests of what is measured over hosts."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

from connlab.hosts import lab
from tests.conftest import wait_for  # by this name, as scripts import tests
from tests.drive_fakes import running

until = functools.partial(wait_for, seconds=30, every_s=0.05)


@contextlib.contextmanager
def up(
    folder: Path, number: int, count: int = 3, *, owned: bool = True
) -> Iterator[lab.Lab]:
    """Have a lab of so many hosts for a block."""
    made = lab.Lab(folder, number)
    try:
        made.up(count, owned=owned)
        yield made
    finally:
        made.down()


def all_running(network: lab.Lab) -> list[str]:
    """Return servers and clients that run on any of the first three hosts."""
    return [name for host in (1, 2, 3) for name in running(network.space(host))]
