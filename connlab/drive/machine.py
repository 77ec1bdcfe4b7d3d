"""The machine and its software, as a run's manifest records them.

Two parts matter: the *class of environment* (what must be equal for two trials to be
compared: kernel, processor, cores, congestion control, mitigations) is hashed into
every trial's key, and everything else is recorded once per run. No path of this machine
is recorded.
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import resource
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import connlab
from connlab import schema
from connlab.drive import cores, hosts_asked, procfs, programs, store

SYSCTLS = (
    *("fs.file-max", "fs.nr_open", "kernel.io_uring_disabled", "kernel.pid_max"),
    *("kernel.sched_autogroup_enabled", "kernel.threads-max"),
    *("net.core.netdev_max_backlog", "net.core.rmem_default", "net.core.rmem_max"),
    *("net.core.somaxconn", "net.core.wmem_default", "net.core.wmem_max"),
    *("net.ipv4.ip_local_port_range", "net.ipv4.tcp_abort_on_overflow"),
    *("net.ipv4.tcp_autocorking", "net.ipv4.tcp_congestion_control"),
    *("net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_max_orphans"),
    *("net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_max_tw_buckets"),
    *("net.ipv4.tcp_mem", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies"),
    *("net.ipv4.tcp_tw_reuse", "net.ipv4.tcp_wmem"),
    *("vm.max_map_count", "vm.overcommit_memory"),
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
    values = {}
    for name, number in _LIMITS.items():
        soft, hard = (
            None if value == resource.RLIM_INFINITY else value
            for value in resource.getrlimit(number)
        )
        values[name] = {"soft": soft, "hard": hard}
    return values


def lower_descriptors(limit: int, recorded: Path | None = None) -> int | None:
    """Limit the descriptors of this process and all that it starts; return the limit.

    None where a process may have fewer already: it is left at that. With `recorded`,
    the folder of a run, nothing is changed: it is what this returned there.
    """
    if recorded:
        then = store.recorded_manifest(recorded)["machine"]["limits"]
    else:
        hosts_asked.refuse("limits are lowered")
        then = limits()
    hard = then["descriptors"]["hard"]
    if hard is not None and limit > hard:
        return None
    if not recorded:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return limit


def mitigations() -> dict[str, str]:
    """Return how the kernel treats each known weakness of the processor."""
    folder = "/sys/devices/system/cpu/vulnerabilities"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {name: procfs.read_text(f"{folder}/{name}").strip() for name in names}


def environment(binaries: Mapping[str, str]) -> dict[str, Any]:
    """Return what must be equal for two trials to be compared.

    A quota of CPU time, the number of physical cores and the cores that were chosen are
    in it only where there is a quota, where there are fewer than cores, and where some
    were chosen. `cpu_model` tells apart processors that a virtual machine calls alike
    ("AMD EPYC"); None where the kernel has no such numbers.
    """
    available, quota = cores.available(), procfs.cpu_quota()
    physical = len(cores.physical(available))
    unusual: dict[str, Any] = {}
    if physical != len(available):
        unusual["physical_cores"] = physical
    if quota is not None:
        unusual["cpu_quota"] = quota
    if os.environ.get(cores.CHOSEN):
        unusual["chosen_cores"] = list(available)
    return unusual | {
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "cpu": _cpu(),
        "cpu_model": _cpu_model(),
        "cores": len(available),
        "governor": _line("cpu/cpu0/cpufreq/scaling_governor"),
        "congestion_control": sysctl("net.ipv4.tcp_congestion_control"),
        "mitigations": mitigations(),
        "binaries": dict(binaries),
    }


def environment_class(facts: Mapping[str, Any]) -> str:
    """Return the hash of `environment` that stands in every trial."""
    return store.digest(facts, 12)


def differences(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """Return the names of the facts in which two environments differ, as a text."""
    if not before:
        return "unknown"
    names = dict.fromkeys([*now, *before])
    changed = [name for name in names if before.get(name) != now.get(name)]
    return ", ".join(changed) or "nothing that is known"


def manifest(both: programs.Programs | None = None) -> dict[str, Any]:
    """Return a run's manifest of this machine and its software.

    `both` programs are ``build/server`` and ``build/client`` by default; where one is
    missing, no hash of either is recorded.
    """
    both = both or programs.built()
    try:
        binaries = both.digests()
    except FileNotFoundError:
        binaries = {}
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
            "clocksource": _line("clocksource/clocksource0/current_clocksource"),
            "limits": limits(),
            "cgroup": cgroup(),
            "sysctls": {name: sysctl(name) for name in SYSCTLS},
        },
        "compiler": _compiler(both),
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
    with schema.alone(folder):  # sweeps of other studies may end meanwhile
        old = schema.read_json(path) or {}
        studies = old.get("studies") or {}
        before = studies.get(study) or {}
        earlier = dict(before.get("earlier") or {})
        if before.get("stopping"):
            earlier[before.get("sweep", "")] = before["stopping"]
        earlier.pop(entry["sweep"], None)
        renewed = {
            "made_at": old.get("made_at") or facts["made_at"],
            "renewed_at": facts["made_at"],
            "environments": (old.get("environments") or {}) | facts["environments"],
            "studies": studies | {study: before | entry | {"earlier": earlier}},
        }
        first = {"schema": schema.SCHEMA, "run": run}
        store.replace(path, first | facts | renewed, flush=True)


def cgroup() -> dict[str, str | None]:
    """Return the limits that containers and sessions put on this process.

    The least number of its own cgroup and all those above it; else what its own says.
    """
    limits = {}
    for name, files in procfs.CGROUP_FILES.items():
        paths = [f"{folder}/{f}" for folder in procfs.cgroups(name) for f, *_ in files]
        texts = [text for path in paths if (text := procfs.read_text(path).strip())]
        numbers = filter(str.isdigit, texts)
        limits[name] = min(numbers, key=int, default=next(iter(texts), None))
    return limits


def without_paths(text: str) -> str:
    """Return text in which the project's folder is ``.`` and home is ``~``."""
    for path, short in ((str(schema.project_root()), "."), (str(Path.home()), "~")):
        if len(path) > 1:  # and no other folder that begins with its name
            text = re.sub(rf"{re.escape(path)}(?![\w.-])", short, text)
    return text


def _cpu() -> str:
    """Return the name of the processor; on Arm the numbers that stand for it."""
    facts = _cpuinfo()
    numbers = [f"{n} {facts[n]}" for n in ("CPU implementer", "CPU part") if n in facts]
    return facts.get("model name") or ", ".join(numbers) or platform.processor()


def _cpu_model() -> str | None:
    facts = _cpuinfo()
    names = {"family": "cpu family", "model": "model", "stepping": "stepping"}
    return ", ".join(f"{k} {facts[v]}" for k, v in names.items() if v in facts) or None


def _cpuinfo() -> dict[str, str]:
    first = procfs.read_text("/proc/cpuinfo").split("\n\n", 1)[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _line(path: str) -> str | None:
    return procfs.read_text(f"/sys/devices/system/{path}").strip() or None


def _system() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _compiler(both: programs.Programs) -> dict[str, Any] | None:
    flags = schema.read_json(Path(both.server[-1]).with_name("flags.json"))
    return json.loads(without_paths(json.dumps(flags))) if flags else None


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "connlab": connlab.__version__}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _git() -> dict[str, Any] | None:
    commit = _git_output("rev-parse", "HEAD")
    if commit is None:
        return None
    sources = ["--", ".", ":(exclude)runs"]
    changed = _git_output("status", "--porcelain", "--untracked-files=no", *sources)
    return {"commit": commit, "dirty": changed is None or bool(changed)}


def _git_output(*words: str) -> str | None:
    argv = ["git", "-C", str(schema.project_root()), *words]
    try:
        done = programs.finished(argv, timeout_s=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return None if done.returncode else done.stdout.strip()


def _registry(both: programs.Programs) -> dict[str, Any] | None:
    """Return what the server lists, so that figures and paper know every model."""
    try:
        return programs.registry(programs=both).model_dump(by_alias=True)
    except (FileNotFoundError, RuntimeError):
        return None
