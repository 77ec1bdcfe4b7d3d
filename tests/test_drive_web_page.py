"""The page that web servers are asked for."""

import os
from pathlib import Path

from connlab.drive import web_page


def test_servers_that_run_as_somebody_else_may_read_it():
    before = os.umask(0o077)
    try:
        with web_page.page(7) as folder:
            file = Path(folder, web_page.PAGE)
            modes = [path.stat().st_mode & 0o777 for path in (file.parent, file)]
            assert (modes, file.read_bytes()) == ([0o755, 0o644], b"x" * 7)
    finally:
        os.umask(before)
    assert not Path(folder).exists()
