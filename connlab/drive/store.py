"""The files of a run: facts are appended and flushed, never edited.

One trial is one line, written by one system call and flushed to the disk before the
next trial starts. What can go wrong with such a file is a last line cut short (power
lost, disk full); it is no fact yet, so it is cut off, and said.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from connlab import schema

TRIALS = schema.TRIALS
PROGRESS = "progress.json"
MANIFEST = "manifest.json"


class StoreError(RuntimeError):
    """A fact could not be kept; what was kept before is whole."""


@dataclass(frozen=True)
class Log:
    """What a file of trials holds: whole lines, and remarks about the others."""

    trials: tuple[dict, ...]
    remarks: tuple[str, ...]
    whole_bytes: int


def read(path: Path) -> Log:
    """Read a file of trials, packed or not; a missing one is empty.

    A last line without its end is not counted, even if it looks complete. A line in
    the middle that is no JSON object is left out and remarked.
    """
    try:
        data = schema.facts_bytes(path)
    except FileNotFoundError:
        return Log((), (), 0)
    whole = data.rfind(b"\n") + 1
    trials, remarks = [], []
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            trial = json.loads(line)
        except ValueError:
            trial = None
        if isinstance(trial, dict):
            trials.append(trial)
        else:
            remarks.append(f"{path.name}: line {number} is unreadable and left out")
    if whole < len(data):
        cut = len(data) - whole
        remarks.append(f"{path.name}: the last line is cut short ({cut} bytes lost)")
    return Log(tuple(trials), tuple(remarks), whole)


@contextlib.contextmanager
def journal(path: Path) -> Iterator[tuple[Log, Callable[[str], None]]]:
    """Open a file of trials for one writer: what it holds, and a way to append.

    Raises
    ------
    StoreError
        When another sweep writes the same file, or, from the append function, when
        the disk does not take a line; the file then ends with the line before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _unpack(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{path.name}: another sweep is writing it") from None
        log = read(path)
        if os.fstat(fd).st_size > log.whole_bytes:
            os.ftruncate(fd, log.whole_bytes)
        yield log, lambda line: _append(fd, path.name, line)
    finally:
        os.close(fd)


def _unpack(path: Path) -> None:
    """Make lines of a packed file, so that a kept run can go on."""
    packed = schema.facts_file(path)
    if packed != path:
        put(path, schema.facts_bytes(path), flush=True)
        packed.unlink()


def _append(fd: int, name: str, line: str) -> None:
    before = os.fstat(fd).st_size
    data = line.encode() + b"\n"
    try:
        written = os.write(fd, data)
        if written < len(data):
            os.write(fd, data[written:])
        os.fsync(fd)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, before)
        raise StoreError(f"{name}: {error.strerror}; nothing kept was lost") from error


def replace(path: Path, value: dict, *, flush: bool = False) -> None:
    """Write a JSON file as a whole: readers see the old one or the new one."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    put(path, text.encode(), flush=flush)


def put(path: Path, data: bytes, *, flush: bool = False) -> None:
    """Write a file as a whole, or raise OSError and leave what was there before."""
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


def read_json(path: Path) -> dict | None:
    """Return a JSON object from a file, None when there is none to be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None
