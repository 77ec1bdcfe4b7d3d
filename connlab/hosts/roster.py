"""Who is who: ``hosts.toml``.

scheduler = "tls://10.0.0.9:8786"
certificates = "certificates"        # a folder, beside the file
server = "a"
clients = ["b", "c"]

[hosts.a]
address = "10.0.0.1"                 # of the test network; the server binds it
cores = [0, 1]                       # all, if not given
ssh = "me@a"                         # for `hosts up`; the address, if not given

[hosts.b]
address = "10.0.0.2"
"""

import os
import tomllib
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ValidationError, model_validator

from connlab.drive.programs import Declared, described, unknown

#: environment variable: a scheduler that exists, as tls://ADDRESS:PORT
SCHEDULER = "CONNLAB_SCHEDULER"


def _of_one_host(text: str) -> str:
    address = ip_address(text)
    if address.is_unspecified:  # servers and agents would listen on all there are
        raise ValueError(f"{text!r} is every address; want that of the test network")
    return str(address)


def _each_once(cores: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(cores)) < len(cores):  # one that counts twice would be two
        raise ValueError(f"{list(cores)}; want each once")
    return cores


class Place(Declared):
    """One host: its address in the test network, the cores that programs may use.

    `ssh` is what ssh calls it.
    """

    address: Annotated[str, AfterValidator(_of_one_host)]
    cores: Annotated[tuple[int, ...], AfterValidator(_each_once)] = ()
    ssh: str = ""


class Roster(Declared):
    """The content of a ``hosts.toml``; `certificates` is relative to the file."""

    scheduler: str
    certificates: Path | None = None
    server: str
    clients: tuple[str, ...]
    hosts: dict[str, Place]

    @model_validator(mode="after")
    def _names_are_hosts(self) -> Self:
        for name in self.hosts:
            if name == "scheduler" or Path(name).name != name:
                wanted = "want a file's name, as of a log, and not the scheduler's"
                raise ValueError(f"host {name!r}: {wanted}")
        for name in (self.server, *self.clients):
            if name not in self.hosts:
                raise ValueError(unknown("host", name, self.hosts))
        clients = list(self.clients)
        if not clients or len({self.server, *clients}) <= len(clients):
            others = f"want one or more, each once, and not {self.server!r}"
            raise ValueError(f"clients {clients}: {others}, which runs the server")
        _check_scheduler(self.scheduler, has_certificates=bool(self.certificates))
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The server's host, then those of the clients."""
        return (self.server, *self.clients)


def load_configured(path: Path) -> Roster:
    """Read a ``hosts.toml`` as `load` does; `SCHEDULER` replaces its scheduler."""
    return load(path, scheduler=os.environ.get(SCHEDULER))


def load(path: Path, *, scheduler: str | None = None) -> Roster:
    """Read a ``hosts.toml``; `scheduler` replaces the one that the file names.

    ValueError when it is not one, naming the place, the value and what is allowed.
    """
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: {error}") from None
    content |= {"scheduler": scheduler} if scheduler else {}
    try:
        roster = Roster.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{path.name}: {_first_error(error)}") from None
    if roster.certificates is None:
        return roster
    return roster.model_copy(update={"certificates": path.parent / roster.certificates})


def _check_scheduler(url: str, *, has_certificates: bool) -> None:
    """Refuse (ValueError) a scheduler through which anybody may run code on all hosts.

    That is one beyond loopback without TLS, or without certificates.
    """
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("tls", "tcp") and parts.hostname and parts.port
    except ValueError:  # a port beyond 65535, a bracket that nobody closes
        is_one = False
    if not is_one:
        raise ValueError(f"scheduler {url!r}: want tls://ADDRESS:PORT")
    if parts.scheme == "tls" and not has_certificates:
        raise ValueError(f"scheduler {url!r}: TLS needs certificates = FOLDER")
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname):
        raise ValueError(
            f"scheduler {url!r}: without TLS whoever reaches it runs code on every"
            " host; allowed beyond loopback is tls:// with certificates"
        )


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _first_error(error: ValidationError) -> str:
    """Return the text of one mistake; a key that nobody knows explains the others."""
    errors = error.errors()
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    model = Place if first["loc"][:1] == ("hosts",) else Roster
    return described(first, model.model_fields)
