"""Facts that are no trials: of servers that run apart from all that is timed.

    cells + how -> key -> not in the file yet -> measure -> one line

A line holds all about itself, as a trial does; what the file has is not repeated.
"""

import json
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from connlab import schema
from connlab.drive import cores, machine, programs, servers, store, workers
from connlab.drive.running import running, visit

#: until a server listens, and until a client's report is there
READY_S, _REPORT_S = 30.0, 120.0


def perf_missing() -> str | None:
    """Return why perf does not run here; None: it does, whatever it may count.

    Ubuntu's is a script that looks for the perf of the kernel that runs, and fails
    where that has none.
    """
    package = f"Debian: linux-perf, Ubuntu: linux-tools-{platform.release()}"
    if shutil.which("perf") is None:
        return f"perf is not installed ({package})"
    if programs.finished(["perf", "--version"], timeout_s=READY_S).returncode:
        return f"perf does not run with this kernel ({package})"
    return None


def measure(
    path: Path,
    settings: Iterable[Mapping[str, Any]],
    measure_one: Callable[
        [schema.Model, Mapping[str, Any]],
        Mapping[str, Any] | Sequence[Mapping[str, Any]],
    ],
) -> None:
    """Append a line, or several, for each of the settings that the file has not yet.

    The settings define a line, its ``model`` among them; with the class of environment
    and the server's binary (of one that connlab did not write, its ``digest``) they
    make its ``key``. `measure_one` returns the rest of each line, with ``failure``:
    None, or what went wrong. A failure is tried again by the next call.
    """
    both = programs.built()
    binaries = {"server": programs.digest(both.server[-1])}
    environment = machine.environment_class(machine.environment(binaries))
    with store.journal(path) as (log, append):
        kept = {row.get("key") for row in log.trials if not row.get("failure")}
        for row in settings:
            model = servers.check(row["model"], both)
            setting = {**row, "environment": environment}
            if digest := (model.model_extra or {}).get("digest"):
                setting["digest"] = digest
            key = store.digest(setting)
            if key not in kept:
                results = measure_one(model, setting)
                rows = [results] if isinstance(results, Mapping) else results
                common = {"schema": schema.SCHEMA, "key": key, **setting}
                lines = (json.dumps(common | row, default=str) for row in rows)
                append("\n".join(lines))


def traced(
    tracer: Sequence[str], model: schema.Model, factors: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a server under a tracer and one client to its end; return its report.

    Each on a core of its own, as in the timed trials of the same load: on which cores
    they are decides how often a server sleeps.
    """
    pair = cores.one_each(cores.available())
    count = workers.needed(model, factors["connections"])
    options = {"cores": pair.server, "ready_s": READY_S, "workers": count}
    with running(model.name, under=tracer, **options) as server:
        return visit(server, factors, sets=pair, timeout_s=_REPORT_S)[0]
