"""A run of a reader's own machine in one file to give: checked, stripped, packed.

    runs/NAME -> build/contribution/connlab-run-PROCESSOR-DAY-NAME.zip

Stripped of the names of hosts and of the user, of addresses, of home and of the
project's folder, which say who measured. Packed is what the reference keeps of a run:
trials compressed, no PDF of a figure, no histograms but those of study 09.
"""

import getpass
import gzip
import ipaddress
import json
import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from connlab import notebook, schema
from connlab.publish import archive, provenance
from connlab.publish.archive import ArchiveError
from connlab.publish.results import Run

FOLDER = "build/contribution"
#: bytes of the packed file: what a clone of the project can bear of one machine
SIZE_MOST = 15 * 2**20

_LEFT_OUT = re.compile(r"/figures/[^/]*\.pdf$|/latency/|\.failed\.ipynb$")
_KEPT = re.compile(r"/doubts/latency/")
_LISTENING = re.compile(rb'"host": *"([\da-fA-F.:]+)"')
_ELSEWHERE = re.compile(rb'"at": *"\[?([^"\]]+)\]?:\d+"')
"""Of a server that ran already, its host."""
_FACTS = (".jsonl", ".jsonl" + schema.PACKED)
_PICTURES = re.compile(rb'("image/png": *"[^"]*")')
"""Of a notebook, as letters: a short name may stand in them by chance."""
_HOMES = re.compile(rb"/(?:home|Users)/(?:\\u[\da-fA-F]{4}|[\w.\x80-\xff-])+")
# of any machine; "root" is a parameter, "vm." begins sysctls
_COMMON = frozenset({"root", "localhost", "vm"})


@dataclass(frozen=True)
class Contribution(archive.Archived):
    """The packed run; `replaced` counts the private names in it, by their kind."""

    missing: tuple[str, ...]
    replaced: Mapping[str, int]


def pack(run: str) -> Contribution:
    """Check a run, strip it and write it into one file.

    One without results, with results of other trials, or too large, raises
    ArchiveError.
    """
    home = schema.project_root()
    loaded = archive.measured(run)
    _refuse_stale(loaded)
    files = sorted(archive.below(home, f"runs/{run}"))
    files = [n for n in files if _KEPT.search(n) or not _LEFT_OUT.search(n)]
    older = {name + schema.PACKED for name in files}  # beside those that count
    files = [name for name in files if name not in older]
    private = _private_names(home, loaded.manifest, [home / name for name in files])
    contents, replaced = {}, Counter()
    called = _stripped(run.encode(), private, Counter()).decode()
    name = f"{_slug(loaded.manifest)}-{provenance.date(loaded)}-{called}"
    for path in files:
        below = path.removeprefix(f"runs/{run}/")
        facts = path.endswith(_FACTS)
        data = schema.facts_bytes(home / path) if facts else (home / path).read_bytes()
        data = _stripped(data, private, replaced)
        if below == "manifest.json":  # its indents take two fifths of it
            data = json.dumps(json.loads(data), ensure_ascii=False).encode()
        if facts:
            below = below.removesuffix(schema.PACKED) + schema.PACKED
            data = gzip.compress(data, mtime=0)  # alike each time, without a clock
        contents[f"{name}/{below}"] = data
    target = home / FOLDER / f"connlab-run-{name}.zip"
    packed = archive.write(target, contents, day=provenance.date(loaded))
    if packed.size_bytes > SIZE_MOST:
        target.unlink()
        raise ArchiveError(
            f"run {run!r} packs to {packed.size_bytes / 2**20:.1f} MiB; at most "
            f"{SIZE_MOST // 2**20} MiB are taken: PROFILE=full measures less"
        )
    return Contribution(**vars(packed), missing=_missing(loaded), replaced=+replaced)


def _refuse_stale(run: Run) -> None:
    stale = [f"{n} ({'; '.join(s.stale)})" for n, s in run.studies.items() if s.stale]
    if stale:
        raise ArchiveError(
            f"results that are not of their trials: {', '.join(stale)}; "
            f"make evaluate RUN={run.name} makes them anew"
        )


def _missing(run: Run) -> tuple[str, ...]:
    """Return the studies without results, also those that the run never began."""
    names = [*map(notebook.study_of, notebook.every()), *run.studies]
    return tuple(n for n in dict.fromkeys(names) if not run.results_of(n))


def _slug(manifest: Mapping) -> str:
    machine = manifest.get("environments", {}).get(manifest.get("environment"), {})
    words = re.findall(r"[a-z0-9]+", str(machine.get("cpu", "")).lower())
    words = [w for w in words if w not in ("r", "tm", "cpu", "processor", "core")]
    return "-".join(words[:6]) or "unknown"


def _private_names(
    home: Path, manifest: Mapping, paths: Sequence[Path]
) -> dict[str, tuple[str, str]]:
    """Return each private name of these machines and its replacement, by its kind.

    Folders come before names, as they hold them. A name that is a word of the data,
    such as server or redis, tells nobody anything; ``at:HOST:PORT`` is no word.
    """
    declared = " ".join(f"{column.name} {column.path}" for column in schema.COLUMNS)
    known = json.dumps([manifest.get("registry"), manifest.get("studies")])
    words = set(re.findall(r"\w+", declared + re.sub(r'"at:[^"]*"', "", known)))
    host = socket.gethostname()
    names = {
        "the project's folder": (str(home), "."),
        "home": (str(Path.home()), "~"),
        "the host's name": (host, "host"),
        "the host's short name": (host.split(".")[0], "host"),
        "the user's name": (_user(), "user"),
    }
    for number, name in enumerate(_hosts(manifest), 1):
        names[f"the name of host {number}"] = (name, f"host{number}")
    for number, address in enumerate(_addresses(manifest, paths), 1):
        names[f"address {number}"] = (address, f"address{number}")
    return {
        kind: (text, replacement)
        for kind, (text, replacement) in names.items()
        if len(text) > 1 and text not in _COMMON | words
    }


def _hosts(manifest: Mapping) -> list[str]:
    """Return the hosts that somebody named; those of a lab are called by number."""
    environments = (manifest.get("environments") or {}).values()
    if any(environment.get("stand_in") for environment in environments):
        return []
    return list(manifest.get("hosts") or ())


def _addresses(manifest: Mapping, paths: Sequence[Path]) -> list[str]:
    """Return where servers of a run over hosts listened, and those that ran already."""
    patterns = (_ELSEWHERE, _LISTENING) if _hosts(manifest) else (_ELSEWHERE,)
    found: set[str] = set()
    for path in (path for path in paths if path.name.endswith(_FACTS)):
        facts = schema.facts_bytes(path)
        found |= {m.decode() for pattern in patterns for m in pattern.findall(facts)}
    return sorted(filter(_is_away, found))


def _is_away(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_loopback
    except ValueError:  # a name
        return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        return ""


def _stripped(
    data: bytes, private: Mapping[str, tuple[str, str]], replaced: Counter[str]
) -> bytes:
    """Return a file without private names, and count them in ``replaced``.

    A file that is no text is compressed numbers or a picture: it holds no name.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return data
    pieces = _PICTURES.split(data)  # every second one is a picture
    for at in range(0, len(pieces), 2):
        for kind, (text, replacement) in private.items():
            name = archive.word(text)
            pieces[at], count = re.subn(name, replacement.encode(), pieces[at])
            replaced[kind] += count
        pieces[at] = _HOMES.sub(b"~", pieces[at])
    return b"".join(pieces)
