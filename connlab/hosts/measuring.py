"""One trial over the hosts of a roster: what ``connlab hosts trial`` runs."""

from collections.abc import Mapping
from typing import Any

from connlab.drive import programs, trials
from connlab.drive.cores import Cores
from connlab.hosts.carrier import Engine, Server
from connlab.hosts.group import HostGroup
from connlab.hosts.roster import Roster

_WARMUP_S = 0.2


def trial(roster: Roster, factors: Mapping[str, Any]) -> trials.Outcome | None:
    """Run one trial; see `connlab.drive.trials.run`.

    Raises HostLost when a host cannot be reached before the trial begins.
    """
    setting = trials.Setting(
        factors={"warmup": _WARMUP_S} | dict(factors),
        seed=1,
        cores=Cores((), (), shared=False),
        programs=programs.built(),
    )
    with Engine(roster) as engine:
        server = Server(engine, roster.server)
        clients = HostGroup([engine.host(name) for name in roster.clients], server)
        return trials.run(setting, server_host=server, client_host=clients)


def lines(outcome: trials.Outcome) -> list[str]:
    """Return throughput and latency of all, then what each client host saw."""
    report = outcome.client.model_dump(by_alias=True)
    text = [f"all: {_figures(report)}"]
    for name, host in report["hosts"].items():
        ahead_us, bound_us = host["offset_ns"] / 1e3, host["bound_ns"] / 1e3
        clock = f"clock {ahead_us:+.0f} µs ± {bound_us:.0f} µs"
        text.append(f"{name}: {_figures(host['report'])}, {clock}")
    return text


def _figures(report: Mapping[str, Any]) -> str:
    p99 = report["response"]["p99_ns"]
    p99_text = "unknown" if p99 is None else f"{p99 / 1e6:.3g} ms"
    return (
        f"{report['window']['throughput_rps']:.0f} requests/s, p99 {p99_text},"
        f" {report['connections']['established']} connections"
    )
