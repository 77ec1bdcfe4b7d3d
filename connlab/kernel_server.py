"""Kernels that are forked from one process, which has imported what all of them use.

    Forked(spec) -> launch_kernel -> a fork server's child -> `connlab.kernel.main`

The imports take seconds of a core, so where many notebooks only read trials they would
be a fifth of the work. Where trials are measured each notebook has an interpreter of
its own, started while the one before draws (`connlab.notebook.Kernels`).
"""

import multiprocessing
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_client.provisioning import LocalProvisioner

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["connlab.kernel"])


class Forked(LocalProvisioner):
    """Starts a kernel as a child of the fork server, with a session of its own."""

    async def launch_kernel(self, cmd: list[str], **asked: Any) -> Any:
        """Start it; `cmd` ends with the arguments of the kernel."""
        arguments = cmd[cmd.index("connlab.kernel") + 1 :]
        where = asked.get("cwd") or os.getcwd(), asked["env"]
        self.process = _Child(target=_serve, args=(arguments, *where))
        self.process.start()
        self.pid = self.pgid = self.process.pid
        return self.connection_info


class _Child(_CONTEXT.Process):
    """A child of the fork server, with what Jupyter asks of a ``subprocess.Popen``."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        if self.pid is not None and self.poll() is None:
            os.kill(self.pid, number)


def _serve(arguments: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
    from connlab import kernel

    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    end_with_parent()  # not with the fork server, which lives as long as any kernel
    kernel.main([*arguments, "--quiet"])


def end_with_parent() -> None:
    """Let this process end as soon as the one that asked for it is gone."""

    def watch() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
