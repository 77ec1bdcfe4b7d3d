"""One interleaved set: several fresh servers, one fresh client that takes turns.

    start each server -> ready -> client HOST:PORT HOST:PORT … --slice … -> its report
        -> stop the client -> stop each server -> slices, reports, failures

What `trials.run` is for one server. A server that does not come up is named and the
set ends; one that dies meanwhile ends its own slices, and the others go on.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connlab.drive import flags, interrupt, trials
from connlab.drive.cores import Cores
from connlab.drive.host import Ended, Host, ProgramError
from connlab.drive.programs import Programs

#: what a set takes beside its slices: programs that start, connections, their end
OVERHEAD_S = 0.5


@dataclass(frozen=True)
class Setting:
    """What is run: the settings of each server, and of the client for all of them.

    `servers` and `client` are factors by the names of `flags.FLAGS`; `slice_s` is the
    length of a slice and `lead_in_s` the part at its beginning that is not counted.
    """

    servers: tuple[Mapping[str, Any], ...]
    client: Mapping[str, Any]
    slice_s: float
    lead_in_s: float
    seed: int
    cores: Cores
    programs: Programs


@dataclass(frozen=True)
class Outcome:
    """What a set gave. `reports`, `failures` are by server, in the order of the set.

    `slices` holds the rows of the client's table (``client --help`` names its columns),
    with numbers as numbers.
    """

    slices: list[dict[str, Any]]
    reports: list[dict]
    client: dict
    failures: list[str | None]
    seconds: float


class SetError(RuntimeError):
    """A set that gave nothing; the text says which program failed, and how."""


def run(setting: Setting, *, host: Host) -> Outcome | None:
    """Run one set; None when a signal asked to stop meanwhile (nothing is kept).

    Raises
    ------
    SetError
        When a server does not come up, or the client fails.
    """
    began = time.monotonic()
    servers: list[int] = []
    ended: list[Ended] = []
    client = report = client_end = None
    try:
        targets = _start_servers(setting, host, servers)
        if targets is not None:
            client = host.start(
                [*setting.programs.client, *targets, *_client_flags(setting, servers)],
                cores=setting.cores.client,
                files=("slices",),
            )
            report = _report(setting, host, client)
    except ProgramError as error:
        raise SetError(f"client: {error}") from None
    finally:
        grace_s = 0 if interrupt.asked() else trials.GRACE_S
        if client is not None:
            client_end = host.stop(client, grace_s=1.0, wait_s=grace_s)
        ended += [host.stop(server, grace_s=grace_s) for server in servers]
    if interrupt.asked():
        return None
    return Outcome(
        slices=_rows(client_end.files["slices"]),
        reports=report.get("targets") or [report],
        client=report,
        failures=[_failure(each) for each in ended],
        seconds=time.monotonic() - began,
    )


def _start_servers(
    setting: Setting, host: Host, servers: list[int]
) -> list[str] | None:
    """Start all servers, noting their handles; return where they listen."""
    targets = []
    for factors in setting.servers:
        argv = [*setting.programs.server, *flags.server_flags(factors)]
        try:
            servers.append(host.start(argv, cores=setting.cores.server))
            ready = trials.patiently(host, servers[-1], trials.READY_S)
        except ProgramError as error:
            raise SetError(f"server {factors['model']}: {error}") from None
        if interrupt.asked():
            return None
        if ready is None or ready.get("event") != "ready":
            waited = f"not ready after {trials.READY_S:g} s"
            raise SetError(f"server {factors['model']}: {waited}")
        targets.append(f"{ready['host']}:{ready['port']}")
    return targets


def _client_flags(setting: Setting, servers: Sequence[int]) -> list[str]:
    words = flags.client_flags(setting.client, seed=setting.seed)
    words += ["--slice", f"{setting.slice_s * 1e3:g}ms"]
    words += ["--lead-in", f"{setting.lead_in_s * 1e3:g}ms"]
    for pid in servers:
        words += ["--watch", str(pid)]
    return words


def _report(setting: Setting, host: Host, client: int) -> dict:
    allowed_s = trials.timeout_s(setting.client) + len(setting.servers)
    report = trials.patiently(host, client, allowed_s)
    if report is None and not interrupt.asked():
        raise SetError(f"client: no report after {allowed_s:.0f} s")
    return report or {}


def _failure(ended: Ended) -> str | None:
    """Return how a server ended that ended before it was asked to."""
    if not ended.early:
        return None
    said = f": {ended.diagnostics}" if ended.diagnostics else ""
    return f"{trials.describe_exit(ended.exit)}{said}"


def _rows(text: bytes) -> list[dict[str, Any]]:
    table = csv.DictReader(io.StringIO(text.decode()))
    return [{name: _number(value) for name, value in row.items()} for row in table]


def _number(text: str) -> float | int | str | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def most_connections(servers: int, *, descriptors: int | None) -> int | None:
    """Return how many connections each of `servers` may get from one client process."""
    if not descriptors:
        return None
    return (descriptors - flags.OWN_DESCRIPTORS) // servers
