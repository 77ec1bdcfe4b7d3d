"""The machine and its software, as a run's manifest records them.

Two parts matter: the *class of environment* (what must be equal for two trials to be
compared: kernel, processor, cores, congestion control, mitigations) is hashed into
every trial's key, and everything else is recorded once per run. No path of this machine
is recorded.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import connlab
from connlab import schema
from connlab.drive import cores, evaluation, hosts_asked, procfs, programs, store

SYSCTLS = (
    "fs.file-max",
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "kernel.pid_max",
    "kernel.sched_autogroup_enabled",
    "kernel.threads-max",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "vm.max_map_count",
    "vm.overcommit_memory",
)

_LIMITS = {
    "descriptors": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "locked_bytes": resource.RLIMIT_MEMLOCK,
    "stack_bytes": resource.RLIMIT_STACK,
    "address_space_bytes": resource.RLIMIT_AS,
}

_PACKAGES = ("numpy", "pandas", "pydantic", "scipy", "papermill")


def now() -> str:
    """Return the time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def sysctl(name: str) -> str | None:
    """Return a sysctl's value, None where the kernel has none of that name."""
    text = procfs.read_text(f"/proc/sys/{name.replace('.', '/')}")
    return " ".join(text.split()) or None


def limits() -> dict[str, dict[str, int | None]]:
    """Return soft and hard limits of this process by name; None is unlimited."""
    found = {}
    for name, number in _LIMITS.items():
        soft, hard = (
            None if value == resource.RLIM_INFINITY else value
            for value in resource.getrlimit(number)
        )
        found[name] = {"soft": soft, "hard": hard}
    return found


def lower_descriptors(limit: int) -> None:
    """Let this process, and all that it starts, have no more descriptors than that.

    Does nothing while a run is evaluated again.

    Raises
    ------
    ValueError
        When the limit is lower already.
    """
    if not evaluation.folder():
        hosts_asked.refuse("limits are lowered")
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def mitigations() -> dict[str, str]:
    """Return what the kernel says of each known weakness of the processor."""
    folder = "/sys/devices/system/cpu/vulnerabilities"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {name: procfs.read_text(f"{folder}/{name}").strip() for name in names}


def environment(binaries: Mapping[str, str]) -> dict[str, Any]:
    """Return what must be equal for two trials to be compared.

    What few machines have (a quota of CPU time, fewer physical cores than cores) stands
    in it only where it is so.
    """
    return _unusual() | {
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "cpu": _cpuinfo().get("model name") or platform.processor(),
        "cores": len(cores.available()),
        "governor": _governor(),
        "congestion_control": sysctl("net.ipv4.tcp_congestion_control"),
        "mitigations": mitigations(),
        "binaries": dict(binaries),
    }


def _unusual() -> dict[str, Any]:
    there, quota = cores.available(), procfs.cpu_quota()
    whole = len(cores.physical(there))
    found = {} if whole == len(there) else {"physical_cores": whole}
    return found if quota is None else found | {"cpu_quota": quota}


def environment_class(facts: Mapping[str, Any]) -> str:
    """Return the hash of `environment` that stands in every trial."""
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differences(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """Say in which facts two environments differ, for a reader."""
    if not before:
        return "unknown"
    both = dict.fromkeys([*now, *before])
    names = [name for name in both if before.get(name) != now.get(name)]
    return ", ".join(names) or "nothing that is known"


def manifest(both: programs.Programs | None = None) -> dict[str, Any]:
    """Return all that a run's manifest says of this machine and its software.

    Parameters
    ----------
    both : Programs, optional
        The two programs, ``build/server`` and ``build/client`` if not said; where
        one is missing both are recorded as null.
    """
    binaries = _digests(both or programs.built())
    facts = environment(binaries)
    shared = {name: value for name, value in facts.items() if name != "binaries"}
    return {
        "schema": schema.SCHEMA,
        "made_at": now(),
        "environment": environment_class(facts),
        "environments": {environment_class(facts): facts},
        "machine": shared
        | {
            "system": _system(),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * procfs.PAGE_BYTES,
            "online_cores": os.cpu_count(),
            "physical_cores": len(cores.physical(cores.available())),
            "hypervisor": "hypervisor" in _cpuinfo().get("flags", "").split(),
            "clocksource": _clocksource(),
            "limits": limits(),
            "cgroup": cgroup(),
            "sysctls": {name: sysctl(name) for name in SYSCTLS},
        },
        "compiler": _compiler(),
        "versions": _versions(),
        "git": _git(),
        "programs": binaries,
        "registry": _registry(both),
    }


def keep_manifest(
    folder: Path, *, run: str, study: str, entry: dict, facts: dict
) -> None:
    """Write or renew a run's manifest with one study's entry.

    How a sweep of other cells of the study ended (``stopping``) stays, under
    ``earlier``, by the hash that ``sweep`` gives. The machine's facts are those of the
    newest sweep; each class of environment that ever added trials stays listed under
    ``environments``.
    """
    path = folder / store.MANIFEST
    old = schema.read_json(path) or {}
    studies = dict(old.get("studies") or {})
    before = studies.get(study) or {}
    studies[study] = before | entry | {"earlier": _earlier(before, entry["sweep"])}
    value = {"schema": schema.SCHEMA, "run": run} | facts
    value["made_at"] = old.get("made_at") or facts["made_at"]
    value["renewed_at"] = facts["made_at"]
    value["environments"] = (old.get("environments") or {}) | facts["environments"]
    value["studies"] = studies
    store.replace(path, value, flush=True)


def _earlier(before: Mapping[str, Any], sweep: str) -> dict[str, dict]:
    """Return how each sweep of a study ended, but the one that runs now."""
    ended = dict(before.get("earlier") or {})
    if before.get("stopping"):
        ended[before.get("sweep", "")] = before["stopping"]
    ended.pop(sweep, None)
    return ended


def cgroup() -> dict[str, str | None]:
    """Return the limits that a container puts on this process, where it does."""
    paths = procfs.cgroup_paths()
    unified = f"{procfs.CGROUPS}{paths.get('', '/').rstrip('/')}"
    old_cpu = (
        f"{procfs.CGROUPS}/cpu{paths.get('cpu', '/').rstrip('/')}/cpu.cfs_quota_us"
    )
    old_pids = f"{procfs.CGROUPS}/pids{paths.get('pids', '/').rstrip('/')}/pids.max"
    old_memory = (
        f"{procfs.CGROUPS}/memory{paths.get('memory', '/').rstrip('/')}"
        "/memory.limit_in_bytes"
    )
    read = {
        "cpu": (f"{unified}/cpu.max", old_cpu),
        "memory": (f"{unified}/memory.max", old_memory),
        "pids": (f"{unified}/pids.max", old_pids),
    }
    return {
        name: next((t for p in files if (t := procfs.read_text(p).strip())), None)
        for name, files in read.items()
    }


def without_paths(text: str) -> str:
    """Return text in which the project's folder is ``.`` and home is ``~``."""
    for path, short in ((str(schema.project_root()), "."), (str(Path.home()), "~")):
        if len(path) > 1:
            text = text.replace(path, short)
    return text


def _cpuinfo() -> dict[str, str]:
    first = procfs.read_text("/proc/cpuinfo").split("\n\n", 1)[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _governor() -> str | None:
    path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    return procfs.read_text(path).strip() or None


def _clocksource() -> str | None:
    folder = "/sys/devices/system/clocksource/clocksource0"
    return procfs.read_text(f"{folder}/current_clocksource").strip() or None


def _system() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _compiler() -> dict[str, Any] | None:
    """Return what `make build` recorded of the compiler, the flags and the library."""
    server = programs.built().server[-1]
    flags = schema.read_json(Path(server).with_name("flags.json"))
    return json.loads(without_paths(json.dumps(flags))) if flags else None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "connlab": connlab.__version__}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _git() -> dict[str, Any] | None:
    commit = _git_says("rev-parse", "HEAD")
    if commit is None:
        return None
    what = ["--", ".", ":(exclude)runs"]  # facts are no sources
    changed = _git_says("status", "--porcelain", "--untracked-files=no", *what)
    return {"commit": commit, "dirty": changed is None or bool(changed)}


def _git_says(*words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(schema.project_root()), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _registry(both: programs.Programs | None) -> dict[str, Any] | None:
    """Return what the server can do, so that figures and paper know every model."""
    try:
        return programs.registry(both).model_dump(by_alias=True)
    except (FileNotFoundError, RuntimeError):
        return None


def _digests(both: programs.Programs) -> dict[str, str]:
    try:
        return both.digests()
    except FileNotFoundError:
        return {}
