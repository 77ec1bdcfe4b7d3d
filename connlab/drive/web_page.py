"""The page that web servers are asked for where only its length matters.

a length -> a folder with that page, for the flag `root` -> gone again
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: the page's name in its folder
PAGE = "page"


@contextlib.contextmanager
def page(size: int) -> Iterator[str]:
    """Make a folder with a page of `size` bytes for a block; yield its path.

    Servers that run as somebody else may read it.
    """
    with tempfile.TemporaryDirectory(prefix="connlab-page-") as folder:
        file = Path(folder, PAGE)
        file.write_bytes(b"x" * size)
        file.chmod(0o644)
        file.parent.chmod(0o755)
        yield folder
