"""A scheduler here and a worker on each host, started over SSH and ended with us.

    hosts.toml -> certificates made, if there are none -> scheduler
        -> each host: what it has built? -> files -> worker, until its input ends

``ssh`` is the user's own, with the keys and names of ``~/.ssh/config``. A worker lives
as long as the input of its ssh: whoever started it may be killed, and it ends. The
project and its Python have the same path on all hosts.
"""

import io
import os
import platform
import re
import shlex
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from connlab import schema
from connlab.drive import programs
from connlab.drive.host import die_with_parent
from connlab.hosts import carrier, certificates
from connlab.hosts.roster import Roster

#: no terminal, no questions, and it ends when the host has not answered for 45 s
SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15")
#: of a shell: wait for it, but 5 s at most
_END_WORKER = (
    "kill $worker; for i in 1 2 3 4 5; do sleep 1; kill -0 $worker || exit; done;"
    " kill -9 $worker"
)
#: below the project, here and on each host: settings and certificates
FOLDER = "build/hosts"
#: with it anybody runs code on every host: it stays there as long as the worker
_KEY = "worker.key"
_ASK_S, _READY_S, _END_S = 30.0, 60.0, 10.0


class Started:
    """The scheduler and the workers of a roster; a context manager that ends them.

    Raises RuntimeError when a host cannot be reached, has another architecture and no
    programs, or no worker of its comes up; all that was started has ended then.
    """

    def __init__(self, roster: Roster, say: Callable[[str], None] = print) -> None:
        self.roster, self.say = roster, say
        self.folder = schema.project_root() / FOLDER
        self.processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _start(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        carrier.write_settings(self.folder)
        folder = self.roster.certificates
        if folder and not certificates.last(folder):
            certificates.make(folder)
            self.say(f"certificates: made, end after {certificates.DAYS} days")
        self._start_scheduler()
        for name in self.roster.names:
            self._send(name)
            self._start_worker(name)
        await_workers(self.roster, self.processes, self.folder)

    def _start_scheduler(self) -> None:
        self._keep(
            "scheduler",
            carrier.scheduler_command(self.roster),
            stdin=subprocess.DEVNULL,
            env=os.environ | {"DASK_CONFIG": str(self.folder)},
            preexec_fn=die_with_parent,  # workers do when their input ends
        )

    def _keep(self, name: str, words: list[str], **options: Any) -> None:
        """Start a process of this name, in a session of its own, with a log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                words, stderr=log, start_new_session=True, **options
            )

    def _send(self, name: str) -> None:
        files = {f"{FOLDER}/dask.yaml": self.folder / "dask.yaml"}
        if folder := self.roster.certificates:
            for file in (certificates.AUTHORITY, "worker.pem", _KEY):
                files[f"{FOLDER}/{file}"] = folder / file
        files |= self._programs_for(name)
        root = shlex.quote(str(schema.project_root()))
        # -o: to root, tar would give them to whoever has our number there
        script = f"umask 077 && mkdir -p {root}/{FOLDER} && tar -xof - -C {root}"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path, file in files.items():
                tar.add(file, arcname=path)
        self._ask(name, script, packed.getvalue())

    def _programs_for(self, name: str) -> dict[str, Path]:
        root = shlex.quote(str(schema.project_root()))
        script = f"uname -m; cd {root} && sha256sum build/server build/client"
        output = self._ask(name, f"{script} 2>/dev/null || true")
        architecture, *words = output.split()
        theirs = dict(zip(words[1::2], words[::2], strict=True))
        built = programs.built()
        ours = {"build/server": built.server[-1], "build/client": built.client[-1]}
        differing = {
            path: Path(file)
            for path, file in ours.items()
            if not theirs.get(path, "").startswith(programs.digest(file))
        }
        if architecture == platform.machine():
            if differing:
                self.say(f"{name}: {', '.join(differing)} copied")
            return differing
        if len(theirs) < len(ours):
            raise RuntimeError(f"host {name}: a {architecture}; run `make build` there")
        return {}

    def _start_worker(self, name: str) -> None:
        root = schema.project_root()
        folder = root / FOLDER
        keys = folder if self.roster.certificates else None
        command = carrier.worker_command(self.roster, name, keys=keys, folder=folder)
        path, settings = shlex.quote(str(root)), shlex.quote(str(folder))
        script = (
            f"cd {path} && export PYTHONPATH={path} DASK_CONFIG={settings}"
            f" && exec 3<&0; {shlex.join(command)} </dev/null 3<&- & worker=$!;"
            f" (cat <&3; {_END_WORKER}) >/dev/null 2>&1 & exec 3<&-; wait $worker;"
            f" rm -f {settings}/{_KEY}"
        )
        words = self._ssh(name, script)
        self._keep(name, words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def _ssh(self, name: str, script: str) -> list[str]:
        """Return a command that runs a script there, whatever the login shell is."""
        place = self.roster.hosts[name]
        return [*SSH, place.ssh or place.address, shlex.join(["sh", "-c", script])]

    def _ask(self, name: str, script: str, content: bytes = b"") -> str:
        try:
            done = subprocess.run(
                self._ssh(name, script),
                input=content,
                capture_output=True,
                timeout=_ASK_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"host {name}: ssh: {error}") from None
        if done.returncode:
            errors = done.stderr.decode(errors="replace").strip().splitlines()
            raise RuntimeError(f"host {name}: ssh: {(errors or ['failed'])[-1]}")
        return done.stdout.decode()

    def close(self) -> None:
        """End the workers by the end of their input, then the scheduler."""
        for name, process in self.processes.items():
            if name != "scheduler":
                process.stdin.close()
        for name, process in reversed(self.processes.items()):
            if name == "scheduler":
                process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check(processes: Mapping[str, subprocess.Popen], folder: Path) -> None:
    """Raise RuntimeError when a process has ended, with the first error in its log."""
    for name, process in processes.items():
        if process.poll() is not None:
            log = (folder / f"{name}.log").read_text(errors="replace").strip()
            error = re.search(r"^\w*Error: .*|[^\n]*\Z", log, re.MULTILINE)
            raise RuntimeError(f"{name} ended: {error[0]}")


def await_workers(
    roster: Roster, processes: Mapping[str, subprocess.Popen], folder: Path
) -> None:
    """Return when each host of a roster has a worker.

    Raises RuntimeError when one has none after a minute, or a process has ended.
    """
    until = time.monotonic() + _READY_S
    while missing := _missing(roster):
        check(processes, folder)
        if time.monotonic() > until:
            raise RuntimeError(f"no worker came up on {', '.join(sorted(missing))}")
        time.sleep(0.2)


def _missing(roster: Roster) -> list[str]:
    try:
        return without_worker(roster)
    except OSError:
        return list(roster.names)  # the scheduler is not up yet


def without_worker(roster: Roster) -> list[str]:
    """Return the hosts of a roster that have no worker at its scheduler.

    Raises OSError when the scheduler does not answer.
    """
    with carrier.Engine(roster) as engine:
        workers = engine.workers()
    return [name for name in roster.names if name not in workers]
