"""What waiting costs: every model against the floor of this machine, in one run.

    floor ┐
    model ├ a round, shuffled ─▶ round ─▶ … ─▶ ratios over rounds ─▶ targets
    model ┘

The server has one core and the client another. The floor (``build/floor``) is what the
same exchange of bytes costs without any way to wait: two processes that only receive
and send, asking nobody which connections are ready. Every round measures it anew, so
that a ratio compares neighbours in time; each window is a fresh server and a fresh
client. Memory of connections that stay silent and system calls (under ``strace``) are
measured apart, because each would disturb the windows; so is the load generator, beside
wrk and ab where they are installed.

``python -m connlab bench`` (``make bench``) prints the tables and leaves a JSON file
with every window in ``runs/bench/``.
"""

from connlab.bench.command import main

__all__ = ["main"]
