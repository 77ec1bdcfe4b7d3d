"""Load before a set, for servers that compile as they run.

A runtime with a just-in-time compiler is slow at first, and its compiler needs the core
that its server has. Netty took 21 us of CPU time a request in its first half second of
full load, 8 us after a second and a half, and 4.5 us after three; Node.js and Java's
NIO are as fast as they get after half a second. Then its clients left, and with the
next ones it took 11 us again and another two seconds: what it had compiled was for
connections that never end, and was thrown away (deoptimization). After that it stayed
as fast with others.

In the tenths of a second that a server has in a set one would measure how far the
compiler has come. So each is asked by two clients before, one after the other, for as
many seconds together as its entry in ``servers.toml`` says (``warm_up``), or the factor
of that name.
"""

from collections.abc import Callable, Mapping
from typing import Any

from connlab.drive import flags, interrupt, servers, trials
from connlab.drive.cores import Cores
from connlab.drive.host import Host, ProgramError

#: clients, one after the other
CLIENTS = 2
#: users of a server that is known to serve so many: one alone keeps it waiting, so that
#: it runs, and compiles, less in the same time
USERS = 50
#: what of the set's load the warm-up does not have: it asks as fast as it can
_PACE = ("rate", "arrivals", "think", "byte_rate", "requests")


def load(factors: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the factors of each client of a server's warm-up; None: it needs none.

    `factors` are those of the server and of the client of its set.
    """
    seconds = servers.warm_up_s(factors)
    if not seconds:
        return None
    users = flags.users(factors)
    if not servers.is_command(factors["model"]):
        users = max(users, USERS)
    alone = {"connections": users, "active": None, "warmup": 0}
    alone |= {"duration": seconds / CLIENTS} | dict.fromkeys((*_PACE, *flags.LASTING))
    return {**factors, **alone}


def warm_up(
    factors: Mapping[str, Any],
    command: Callable[[Mapping[str, Any]], list[str]],
    *,
    host: Host,
    cores: Cores,
) -> None:
    """Let clients ask a server that needs it, until they report or a signal comes.

    `command` returns the words of a client with these factors. What goes wrong here
    goes wrong again under the client of the set, which reports it.
    """
    asked = load(factors)
    for _ in range(CLIENTS if asked else 0):
        if interrupt.requested():
            return
        client, wait_s = host.start(command(asked), cores=cores.client), 0.0
        try:
            if host.ready(client, timeout_s=trials.timeout_s(asked)):
                wait_s = trials.GRACE_S
        except ProgramError:
            return
        finally:
            host.stop(client, grace_s=0, wait_s=wait_s)
