"""When programs on several hosts begin: soon after the last of them has connected.

    started with --begin-told -> each says "connected" -> clocks are asked
        -> one moment, told to each on its own clock -> nobody talks

Clocks are asked last, as they may drift while thousands connect.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from connlab.hosts.agent import Agent
from connlab.hosts.carrier import RemoteHost
from connlab.hosts.clock import Offset

#: what a program is started with that awaits its moment, and the event it then says
FLAG, EVENT = "--begin-told", "connected"
#: to carry the moment to every host
AHEAD_S, AHEAD_PER_HOST_S = 0.1, 0.005


def told(
    programs: Sequence[tuple[RemoteHost, int]],
) -> tuple[float, dict[str, Offset]]:
    """Tell each program, by host and handle, when to begin.

    Returns
    -------
    begins_s : float
        By the driver's monotonic clock.
    offsets : dict of str to Offset
        How far each host's clock was ahead, by the name of the host.

    Raises
    ------
    HostLost
        When one does not answer.
    """
    hosts = {host.name: host for host, _ in programs}
    offsets = {name: host.measured_offset() for name, host in hosts.items()}
    ahead_s = AHEAD_S + AHEAD_PER_HOST_S * len(hosts)
    begin_ns = time.monotonic_ns() + int(1e9 * ahead_s)
    calls = [
        host.call(Agent.tell, handle, str(begin_ns + offsets[host.name].ns))
        for host, handle in programs
    ]
    for call in calls:
        call.result()
    return begin_ns / 1e9, offsets
