"""Servers that run already, at an address: reached, but never started, seen or ended.

    at:HOST:PORT | an entry of servers.toml with `at` -> the Host of that server

Somebody started it by hand, mostly on another machine, perhaps of another system. So
nothing is known but what the client sees; what its processes use is null, with `why`
as the reason.
"""

import contextlib
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from connlab.drive import interrupt
from connlab.drive.host import Ended, ProgramError, Reading

#: a server is named by its address with this before it
WORD = "at:"
#: how long one that refuses may take to answer after all: its backlog was full
PATIENCE_S = 1.0
#: how long a connection may take to be made; Ctrl-C has to wait for it
REACH_S = 1.5
_RETRY_S = 0.1
_ADDRESS = re.compile(r"(?:\[([^\[\]\s]+)\]|([^\[\]:\s/]+)):(\d{1,5})")


@dataclass(frozen=True)
class Address:
    """Where a server listens: the name or number of its host, and its port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.shown_host}:{self.port}"

    @property
    def shown_host(self) -> str:
        """The host as it stands before a port: a number of IPv6 in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def here(self) -> bool:
        """Whether it is on this machine: one of its addresses can be bound here."""
        try:
            found = socket.getaddrinfo(self.host, 0, type=socket.SOCK_DGRAM)
        except OSError:
            return False
        for family, *_, place in found:
            with (
                contextlib.suppress(OSError),
                socket.socket(family, socket.SOCK_DGRAM) as probe,
            ):
                probe.bind(place)
                return True
        return False

    @property
    def why(self) -> str:
        """Why nothing is known of the server but what the client sees."""
        return f"not measured here: the server runs at {self}, started by hand"


def parse(text: str) -> Address:
    """Return the address that ``HOST:PORT`` or ``[HOST]:PORT`` means.

    Examples
    --------
    >>> parse("192.0.2.10:7000").port
    7000
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or not 1 <= int(match[3]) <= 65535:
        raise ValueError(
            f"address {text!r}; allowed: HOST:PORT, with a port of 1 to 65535"
        )
    host = match[1] or match[2]
    try:
        host.encode("idna")  # as whoever looks for it does
    except UnicodeError:
        raise ValueError(
            f"address {text!r}; allowed: HOST:PORT, between dots in HOST 1 to 63"
            " characters of a name"
        ) from None
    return Address(host, int(match[3]))


class Elsewhere:
    """The place of one server that somebody else started.

    Its functions are those of `connlab.drive.host.Host`, with one program at most.
    """

    def __init__(self, name: str, address: Address) -> None:
        self.name, self.address = name, address

    def start(self, argv: Sequence[str], **_options: Sequence) -> int:
        """Start nothing; return a handle that means the server."""
        return 0

    def ready(self, handle: int, *, timeout_s: float) -> dict | None:
        """Return a ready line once a connection to the server was made.

        How long it took to start is not known. Raises `ProgramError` where nobody
        answers at its address.
        """
        if reason := _unreachable(self.address, timeout_s):
            raise ProgramError(f"nothing answers at {self.address}: {reason}")
        return {
            "event": "ready",
            "model": self.name,
            "host": self.address.shown_host,
            "port": self.address.port,
            "start_s": None,
        }

    def sample(self, handle: int, **_options: bool) -> Reading:
        return Reading(processes=None, unseen=True)

    def ask_to_end(self, handle: int) -> None:
        """Do nothing: whoever started the server ends it."""

    def stop(self, handle: int, *, grace_s: float, wait_s: float = 0) -> Ended:
        """Leave the server alone; it has ended early if nobody answers now.

        That is not tried without a `grace_s`.
        """
        reason = _unreachable(self.address, REACH_S) if grace_s > 0 else ""
        text = f"nothing answers at {self.address} any more: {reason}" if reason else ""
        return Ended(None, bool(reason), (), text, {})

    def pause(self, handle: int) -> None:
        """Raise ProgramError: a server elsewhere cannot be made to stand still."""
        raise ProgramError(f"the server at {self.address} cannot be stopped from here")

    def resume(self, handle: int) -> None:
        """Do nothing; see `pause`."""


def _unreachable(address: Address, timeout_s: float) -> str:
    """Return why no connection can be made, "" once one was.

    A refusal counts when it lasts for `PATIENCE_S`.
    """
    deadline = time.monotonic() + min(PATIENCE_S, timeout_s)
    pair, reach_s = (address.host, address.port), min(REACH_S, timeout_s)
    while True:
        try:
            socket.create_connection(pair, timeout=reach_s).close()
            return ""
        except OSError as error:
            if time.monotonic() >= deadline or interrupt.requested():
                return error.strerror or str(error) or type(error).__name__
        time.sleep(_RETRY_S)
