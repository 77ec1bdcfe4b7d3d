"""Files of a run: facts, a line each, that may be packed; and whole files of JSON.

trials.jsonl, trials.jsonl.gz -> read_log -> Log
bytes -> put -> a file, replaced atomically
"""

import contextlib
import fcntl
import gzip
import json
import math
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connlab.schema.facts import is_trial

TRIALS = "trials.jsonl"
#: what the name of a packed file of facts ends with
PACKED = ".gz"
_GZIP = b"\x1f\x8b"  # RFC 1952, which no line of JSON begins with


def facts_file(path: Path) -> Path:
    """Return the path of a file of facts, packed if only the packed one exists."""
    packed = path.with_name(path.name + PACKED)
    return packed if packed.is_file() and not path.is_file() else path


def facts_bytes(path: Path) -> bytes:
    """Return a file of facts, unpacked; OSError if missing or damaged."""
    file = facts_file(path)
    data = file.read_bytes()
    if data[:2] != _GZIP:
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        then = "put back a whole copy, or remove it and measure the study anew"
        raise gzip.BadGzipFile(f"{file} is damaged ({error}); {then}") from error


@dataclass(frozen=True)
class Log:
    """The whole lines of a file of facts, and remarks about the others.

    `lines` are objects of JSON by the number of their line in the file `name`.
    """

    name: str
    lines: Mapping[int, dict]
    remarks: tuple[str, ...]
    whole_bytes: int

    @property
    def trials(self) -> tuple[dict, ...]:
        return tuple(self.lines.values())

    def by_key(self) -> tuple[dict[str, dict], list[str]]:
        """Return the trials of a file of trials by key, and remarks about the others.

        Of lines with the same key the last counts (`connlab.schema.Trial` says why).
        """
        whole = {n: line for n, line in self.lines.items() if is_trial(line)}
        others = [n for n in self.lines if n not in whole]
        remarks = [*self.remarks, *_left_out(self.name, others, "no trial")]
        counts = Counter(line["key"] for line in whole.values())
        twice = [key for key, count in counts.items() if count > 1]
        remarks += [f"trial {key} stands twice; the last counts" for key in twice]
        return {line["key"]: line for line in whole.values()}, remarks


def read_log(path: Path) -> Log:
    """Read a file of facts, packed or not; a missing one is empty.

    A last line without a newline does not count, even if it looks complete. A line in
    the middle that is no JSON object is left out and remarked.
    """
    try:
        data = facts_bytes(path)
    except FileNotFoundError:
        return Log(path.name, {}, (), 0)
    whole = data.rfind(b"\n") + 1
    lines, unreadable = {}, []
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if isinstance(value, dict):
            lines[number] = value
        else:
            unreadable.append(number)
    remarks = _left_out(path.name, unreadable, "unreadable")
    if whole < len(data):
        cut = len(data) - whole
        remarks.append(f"{path.name}: the last line is cut short ({cut} bytes lost)")
    return Log(path.name, lines, tuple(remarks), whole)


def _left_out(name: str, numbers: Sequence[int], what: str) -> list[str]:
    """Return the remark about lines that do not count; there is none without any."""
    if not numbers:
        return []
    more = f", the first of {len(numbers)} such lines" if len(numbers) > 1 else ""
    return [f"{name}: line {numbers[0]} is {what} and left out{more}"]


def put(path: Path, data: bytes, *, flush: bool = False) -> None:
    """Replace a file as a whole, or raise OSError and leave the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


@contextlib.contextmanager
def alone(folder: Path, *, or_else: str = "") -> Iterator[None]:
    """Hold the lock of a folder for a block: wait for it, or raise RuntimeError."""
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if or_else else 0))
        except BlockingIOError:
            raise RuntimeError(or_else) from None
        yield
    finally:
        os.close(lock)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object from a file, None when there is none to be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def finite(value: Any) -> Any:
    """Return a value with None for every number that JSON cannot say."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any) -> str:
    """Return a result as JSON, indented, with null for what is no finite number."""
    return json.dumps(finite(value), indent=1, allow_nan=False, default=str)
