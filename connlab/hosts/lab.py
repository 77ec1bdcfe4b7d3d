"""Hosts of network namespaces on this machine: a stand-in for a lab, as root.

                    bridge 10.N.0.254   <- scheduler and driver
          /               |              \\
    veth 10.N.0.1   veth 10.N.0.2   veth 10.N.0.3
    worker h1       worker h2       worker h3

Nothing leaves the machine: no address is routed further. All have one clock and share
the cores, so a lab shows whether the harness works and what the network stack costs,
not what several machines can do.

    owner --- pipe ---> keeper       reads a word: the owner has taken it down itself
                                     reads the end: the owner is dead; down with it

The keeper of a lab that is owned is a process of its own, in a session of its own, so
that neither Ctrl-C nor SIGKILL of the owner ends it. The kernel closes the owner's end
of the pipe whatever becomes of it. Owner and keeper hold a lock on the number of the
lab, the keeper until it is down: who wants to own one with the same number waits.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from connlab import schema
from connlab.drive import procfs
from connlab.hosts import carrier, certificates, roster, starting

#: the network 10.N.0.0/24
NUMBER = 77
HOSTS_MOST = 64
PORT = 8786
#: a command of a dead owner may have been under way, and make something yet
_AGAIN_S = 0.5
#: how long another lab of the same number may be in use
_WAIT_S = 600.0


def missing() -> str | None:
    """Return why no lab can be made here, None if one can."""
    for tool in ("ip", "nsenter"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    name = f"clprobe{os.getpid()}"  # a link's may have 15 characters
    done = _ip("netns", "add", name, check=False)
    if done.returncode:
        who = "" if os.geteuid() == 0 else " (only root may)"
        return f"network namespaces cannot be made{who}: {done.stderr.strip()}"
    # enters it, which a chroot whose root is no mount point refuses
    lo = _ip("-n", name, "link", "set", "lo", "up", check=False)
    bridge = _ip("link", "add", name, "type", "bridge", check=False)
    _ip("link", "del", name, check=False)
    _ip("netns", "del", name, check=False)
    if lo.returncode:
        return f"network namespaces cannot be entered: {lo.stderr.strip()}"
    return bridge.stderr.strip() if bridge.returncode else None


class Lab:
    """A lab whose state stands in `folder`: certificates, logs, ``hosts.toml``."""

    def __init__(self, folder: Path, number: int = NUMBER) -> None:
        self.folder, self.number = folder, number
        self.roster = folder / "hosts.toml"
        self.bridge = f"clbr{number}"
        self.scheduler = f"tls://{self.address(254)}:{PORT}"
        self.keeper: subprocess.Popen | None = None
        self._lock = -1
        #: the scheduler and the workers that this process has started
        self.processes: dict[str, subprocess.Popen] = {}

    def space(self, host: int | str) -> str:
        return f"connlab{self.number}-{host}"

    def link(self, host: int | str) -> str:
        return f"clv{self.number}-{host}"

    def address(self, host: int) -> str:
        """Return the address of a host; 254 is the bridge."""
        return f"10.{self.number}.0.{host}"

    def up(self, hosts: int, *, owned: bool = False) -> None:
        """Make networks, certificates, scheduler and workers; wait for all workers.

        One that is `owned` goes down with this process, also when that is killed;
        others stay until somebody calls `down`.

        Raises ValueError when so many hosts are not allowed, RuntimeError when
        namespaces cannot be made, a worker does not come up, or the number of one to be
        owned is in use for `_WAIT_S`.
        """
        if not 2 <= hosts <= HOSTS_MOST:
            raise ValueError(f"hosts: {hosts}; allowed: 2 to {HOSTS_MOST}")
        if reason := missing():
            raise RuntimeError(reason)
        if owned and not self.keeper:
            self._lock = _locked(self.number)
            self.keeper = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self.folder), str(self.number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[self._lock],
                env=_python_environment(),
            )
        try:
            self._clear()
            certificates.make(self.folder / "certificates")
            carrier.write_settings(self.folder)
            self._make_networks(hosts)
            self._write_roster(hosts)
            entries = roster.load(self.roster)
            self._start("scheduler", [], carrier.scheduler_command(entries))
            for host in range(1, hosts + 1):
                self.start_worker(host)
            starting.await_workers(entries, self.processes, self.folder)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Remove all of it; nothing if there is nothing."""
        self._clear()
        if self.keeper:
            self.keeper.communicate(b"done")
            os.close(self._lock)
            self.keeper = None

    def _clear(self) -> None:
        for pid in self._running():
            _kill(pid)
        for process in self.processes.values():
            process.wait()
        self.processes = {}
        for link in json.loads(_ip("-json", "link", check=False).stdout or "[]"):
            # with its namespace it would go too, but only some time later
            if link["ifname"].startswith(self.link("")):
                _ip("link", "del", link["ifname"], check=False)
        spaces = _ip("-json", "netns", "list", check=False).stdout
        for name in (space["name"] for space in json.loads(spaces or "[]")):
            if name.startswith(self.space("")):
                for pid in _ip("netns", "pids", name, check=False).stdout.split():
                    _kill(int(pid))
                _ip("netns", "del", name, check=False)
        _ip("link", "del", self.bridge, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _running(self) -> list[int]:
        """Return scheduler and workers of this number's lab, whoever started them."""
        words = "distributed.cli", self.scheduler
        return [
            int(name)
            for name in filter(str.isdigit, os.listdir("/proc"))
            if all(word in procfs.read_text(f"/proc/{name}/cmdline") for word in words)
        ]

    def _make_networks(self, hosts: int) -> None:
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address(254)}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for host in range(1, hosts + 1):
            space, link = self.space(host), self.link(host)
            _ip("netns", "add", space)
            peer = ("type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "add", link, *peer)
            _ip("link", "set", link, "master", self.bridge, "up")
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def _write_roster(self, hosts: int) -> None:
        names = [f"h{host}" for host in range(1, hosts + 1)]
        lines = [
            f'scheduler = "{self.scheduler}"',
            'certificates = "certificates"',
            f'server = "{names[0]}"',
            f"clients = {json.dumps(names[1:])}",
        ]
        for host, name in enumerate(names, 1):
            lines += ["", f"[hosts.{name}]", f'address = "{self.address(host)}"']
        self.roster.write_text("\n".join(lines) + "\n")

    def start_worker(self, host: int) -> None:
        """Start a host's worker, also anew."""
        name, entries = f"h{host}", roster.load(self.roster)
        command = carrier.worker_command(
            entries, name, keys=entries.certificates, folder=self.folder
        )
        # unlike `ip netns exec` this leaves /sys, and with it the cgroup, in view
        prefix = ["nsenter", f"--net=/run/netns/{self.space(host)}"]
        self._start(name, prefix, command)

    def _start(self, name: str, prefix: list[str], command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=_python_environment() | {"DASK_CONFIG": str(self.folder)},
            )


def _ip(*words: str, check: bool = True) -> subprocess.CompletedProcess:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _python_environment() -> dict[str, str]:
    """Return an environment in which Python finds this package."""
    paths = [str(schema.project_root()), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": ":".join(filter(None, paths))}


def _locked(number: int) -> int:
    """Return a descriptor that holds the lock, as soon as nobody else has it."""
    path = Path(tempfile.gettempdir()) / f"connlab-lab-{number}"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(lock)
                raise RuntimeError(f"lab {number}: in use by another process") from None
            time.sleep(_AGAIN_S)


def _keep(folder: Path, number: int) -> None:
    """Wait for the owner's end; see above."""
    if sys.stdin.buffer.read():
        return
    for _ in range(2):
        Lab(folder, number).down()
        time.sleep(_AGAIN_S)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), int(sys.argv[2]))
