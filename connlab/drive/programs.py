"""The two programs that are driven, and what they say about themselves.

``server --list`` is the only list of models; nothing here knows a model's name.
"""

import functools
import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from connlab import schema
from connlab.drive import store
from connlab.parameters import suggestion

_LIST_TIMEOUT_S = 20


@dataclass(frozen=True)
class Programs:
    """The command that starts each program, and the file that identifies it."""

    server: tuple[str, ...]
    client: tuple[str, ...]

    def digests(self) -> dict[str, str]:
        """Return a hash of each program's file, as recorded with every trial."""
        return {"server": digest(self.server[-1]), "client": digest(self.client[-1])}


def built() -> Programs:
    """Return ``build/server`` and ``build/client`` (``$CONNLAB_BUILD`` moves them)."""
    folder = Path(os.environ.get("CONNLAB_BUILD") or schema.project_root() / "build")
    return Programs((str(folder / "server"),), (str(folder / "client"),))


def registry(
    recorded: Path | None = None, *, programs: Programs | None = None
) -> schema.Registry:
    """Return what ``server --list`` says: the models and the workloads.

    With `recorded`, the folder of a run, what it said when that was measured. Raises
    FileNotFoundError when the server has not been built, RuntimeError when it cannot
    list its models.
    """
    if recorded:
        return schema.Registry.model_validate(
            store.recorded_manifest(recorded)["registry"]
        )
    command = (programs or built()).server
    return _registry(command, _stamp(command[-1]))


def models(recorded: Path | None = None) -> tuple[schema.Model, ...]:
    """Return the models of `registry`, in its order."""
    return registry(recorded).models


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Return the text of an error about a name, with the nearest known one."""
    known = list(known)
    hint = suggestion(str(name), known).rstrip()
    meant = f"; {hint}" if hint else ""
    return f"unknown {what} {name!r}{meant} (known: {', '.join(known)})"


class Declared(BaseModel):
    """What somebody wrote into a file: a key that nobody knows is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


#: what pydantic calls by names of Python, as who writes a file knows it
_WANTED = {"tuple_type": 'a list, as ["…"]', "model_type": 'a table, as {key = "…"}'}


def described(error: Mapping[str, Any], known: Iterable[str] = ()) -> str:
    """Return one of pydantic's errors in our words.

    `known` are the keys that may stand where one is that nobody knows.
    """
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return unknown("key", error["loc"][-1], known)
    if error["type"] == "missing":
        return f"{key} is missing"
    if error["type"] == "value_error":  # a validator of ours has said it all
        return ": ".join(filter(None, (key, str(error["ctx"]["error"]))))
    wanted = _WANTED.get(error["type"])
    told = f"input should be {wanted}" if wanted else error["msg"].lower()
    return f"{key}: {error['input']!r}; {told}"


def finished(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cwd: str | None = None,
    apart: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its status; what it prints is text.

    With `apart` Ctrl-C at the terminal does not reach it: who called may have noted
    that (`drive.interrupt`), and is to get what it measures.

    Raises OSError where it cannot run, TimeoutExpired where it does not end.
    """
    return subprocess.run(
        argv,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
        process_group=0 if apart else None,
    )


def digest(path: str) -> str:
    """Return a hash of a program's file; raise FileNotFoundError if it is not built."""
    return _digest(*_stamp(path))


def _stamp(path: str) -> tuple[str, int, int]:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        name = os.path.basename(path)
        raise FileNotFoundError(f"{name} is not built; run `make build`") from None
    return path, status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=16)
def _digest(path: str, _mtime_ns: int, _size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


@functools.lru_cache(maxsize=16)
def _registry(command: tuple[str, ...], _stamp: tuple) -> schema.Registry:
    try:
        done = finished([*command, "--list"], timeout_s=_LIST_TIMEOUT_S)
        if done.returncode == 0:
            return schema.Registry.model_validate_json(done.stdout)
        reason = f"exit {done.returncode}: {done.stderr}"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reason = str(error)
    raise RuntimeError(f"server --list: {reason}")
