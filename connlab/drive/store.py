"""The files of a run: facts are appended and flushed, never edited.

One trial is one line, written by one system call and flushed to the disk before the
next trial starts. The last line of such a file may be incomplete (power lost, disk
full); it is removed, with a remark.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from connlab import schema

PROGRESS = "progress.json"
MANIFEST = "manifest.json"

#: what a report says that was asked to measure nothing
NOT_MEASURED = "nothing is measured, as the run is evaluated again"


class StoreError(RuntimeError):
    """A fact could not be written; those written before are complete."""


@contextlib.contextmanager
def journal(path: Path) -> Iterator[tuple[schema.Log, Callable[[str], None]]]:
    """Open a file of trials for one writer: its log, and a function that appends.

    StoreError when another sweep writes the same file, or, from the append function,
    when the disk does not take a line; the file then ends with the line before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _unpack(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{path.name}: another sweep is writing it") from None
        log = schema.read_log(path)
        if os.fstat(fd).st_size > log.whole_bytes:
            os.ftruncate(fd, log.whole_bytes)
        yield log, lambda line: _append(fd, path.name, line)
    finally:
        os.close(fd)


def _unpack(path: Path) -> None:
    """Unpack a packed file, so that its run can go on.

    It is locked meanwhile: of two sweeps the second would else put what was packed in
    place of what the first has appended to. The folder's lock is that of the notebook.
    """
    packed = schema.facts_file(path)
    if packed == path:
        return
    with contextlib.suppress(FileNotFoundError), schema.alone(packed):
        if schema.facts_file(path) == packed:
            schema.put(path, schema.facts_bytes(path), flush=True)
            packed.unlink()


def _append(fd: int, name: str, line: str) -> None:
    before = os.fstat(fd).st_size
    data = line.encode() + b"\n"
    try:
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, before)
        raise StoreError(f"{name}: {error.strerror}; nothing kept was lost") from error


def recorded_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run that is evaluated again: it names the machine.

    FileNotFoundError when it has none that can be read.
    """
    path = folder / MANIFEST
    facts = schema.read_json(path)
    if facts is None:
        raise FileNotFoundError(f"{path}: no manifest, so nobody knows the machine")
    return facts


def replace(path: Path, value: dict, *, flush: bool = False) -> None:
    """Write a JSON file as a whole: readers see the old one or the new one."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    schema.put(path, text.encode(), flush=flush)


def digest(facts: Any, digits: int = 16) -> str:
    """Return the beginning of a hash of facts, by which they are known again."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
