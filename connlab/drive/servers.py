"""Servers that connlab did not write, run and measured like its models.

    a model's name | an entry of servers.toml | a command line with {port} | an address
        -> what figures need to know of it (a `connlab.schema.Model`)
        -> the words that start it

A server of our own is ``build/server MODEL …``. Any other is started by
``build/external``, which finds a free port, waits until something listens there, says
so in the same ready line, and ends it with all its descendants. So what drives models
drives these as well; only what our servers count themselves is missing. An entry with
``contract = true`` does all of that by itself. One with ``at = "HOST:PORT"`` in place
of a command runs there already: `connlab.drive.address` reaches it, and nothing is
started, looked at or ended. ``at:HOST:PORT`` names such a server without an entry.

``servers.toml`` names what ``runtimes/`` holds. The words of an entry's command may
have ``{port}``, ``{workers}`` (threads or processes that serve), ``{root}`` (the folder
of files that http serves), ``{folder}`` (``runtimes/NAME``), ``{build}``
(``build/runtimes/NAME``, where `make runtimes` leaves what it compiles) and
``{project}`` (the folder of ``servers.toml``).
"""

import functools
import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from connlab import schema
from connlab.drive import address, flags, programs
from connlab.drive.host import Host

FILE = "servers.toml"
PORT = "{port}"
#: names in ``build/lessons`` begin with it
LESSON = "lessons/"
#: family of a command line of which nothing else is known
FAMILY = "external"
#: load before its turns of a command line, of which nobody says that it compiles as it
#: runs: by then Java's NIO and virtual threads have, and Netty has not
WARM_UP_S = 2.0
#: seconds of such load at most
WARM_UP_MOST_S = 60.0
_PLACES = re.compile(r"\{(\w+)\}")
#: places that differ from trial to trial
_OF_A_TRIAL = ("port", "workers", "root")
_KNOWN_PLACES = (*_OF_A_TRIAL, "folder", "build", "project")
#: a name: of a folder, and before a colon of settings, in lists with commas
_NAME = re.compile(r"\w[\w.+-]*")
#: keys of an entry that cannot stand beside `at`
_STARTING = ("command", "build", "product", "version", "needs", "contract")
#: factors by which our servers differ, of which others hear of ``{workers}`` at most
_SETTINGS = [n for n in flags.SERVER if n not in ("workload", "redis", "root")]
_VERSION_TIMEOUT_S = 20


class ServersError(ValueError):
    """`servers.toml` says something that cannot be; a line for each such place."""


Family = Literal[
    *("blocking", "processes", "threads", "readiness", "completion", "coroutine"),
    FAMILY,
]
"""Families of ``server --list``, by which figures are coloured."""


class Need(programs.Declared):
    """Something that must be on the machine, and how to get it there."""

    any_of: tuple[str, ...] = Field(min_length=1)
    """Programs, or files (with a slash; ``*`` for any name), of which one is enough."""
    install: str
    at_least: int | None = None
    """The first number that ``PROGRAM --version`` has to print, or a higher one."""

    @property
    def path(self) -> str | None:
        """The first of them that is there and new enough, as a path."""
        paths = (path for name in self.any_of for path in _paths(name))
        return next((path for path in paths if self._is_new_enough(path)), None)

    @property
    def lack(self) -> str:
        """What is missing, and how to get it."""
        new = "" if self.at_least is None else f" {self.at_least} or later"
        return f"{' or '.join(self.any_of)}{new} is not here ({self.install})"

    def _is_new_enough(self, path: str) -> bool:
        if self.at_least is None:
            return True
        number = re.search(r"\d+", _first_line((path, "--version")))
        return number is not None and int(number[0]) >= self.at_least


class Entry(programs.Declared):
    """One server of ``servers.toml``."""

    name: str
    label: str
    family: Family
    language: str
    command: str = ""
    at: str = ""
    """Where it runs already, HOST:PORT; then it has no command."""
    workloads: tuple[Literal["echo", "http"], ...] = ("echo",)
    build: tuple[str, ...] = ()
    """Commands that compile it, one after the other, run in ``runtimes/NAME``."""
    product: str = ""
    """The file that `build` leaves; the entry is available once it is there."""
    version: str = ""
    """The command that prints its version, run in an empty folder."""
    needs: tuple[Need, ...] = ()
    holds: Literal["one", "workers", "threads", "processes", "descriptors"] = (
        "descriptors"
    )
    """What bounds how many clients it serves at a time, as in ``server --list``."""
    nearest: str = "epoll"
    """The model that waits in the same way."""
    warm_up: float = Field(0.0, ge=0, le=WARM_UP_MOST_S)
    """Seconds of load that it gets before it takes turns (`connlab.drive.warming`): one
    that compiles as it runs is another server until it has."""
    contract: bool = False
    """Whether it keeps the contract of ``build/server``: it finds a port itself where
    that is 0, prints the ready and the stats line, and ends its processes on SIGTERM.
    Then it is started as it is, without ``build/external``."""

    @property
    def folder(self) -> Path:
        """Where its source is, if it is in ``runtimes``."""
        return schema.project_root() / "runtimes" / self.name

    @property
    def build_folder(self) -> Path:
        """Where `make runtimes` leaves what it compiles."""
        return schema.project_root() / "build" / "runtimes" / self.name

    @property
    def takes_workers(self) -> bool:
        """Whether it is told how many workers it has."""
        return "{workers}" in self.command

    @property
    def lacks(self) -> tuple[Need, ...]:
        """What is not on this machine."""
        return tuple(need for need in self.needs if need.path is None)

    @property
    def available(self) -> bool:
        """Whether it can run here."""
        return self.reason is None

    @property
    def reason(self) -> str | None:
        """Why it cannot run here; None: it can."""
        if self.lacks:
            return "; ".join(need.lack for need in self.lacks)
        if self.product and not glob.glob(self.fill(self.product)):
            return "not built (make runtimes)"
        if self.built_from.is_file():
            if not (built_from := self.built_from.read_text()):
                return "its build did not end (make runtimes)"
            if built_from != self.source:
                return "its source has changed since it was built (make runtimes)"
        return None

    @property
    def built_from(self) -> Path:
        """The file in which `make runtimes` leaves the `source` of what it built.

        Empty until the last command of a build has succeeded.
        """
        return self.build_folder / "built-from"

    @property
    def source(self) -> str:
        """A hash of the commands and of the files that they compile, elsewhere."""
        compiled = "{build}" in self.product and "{folder}" not in self.command
        files = sorted(self.folder.rglob("*")) if compiled else []
        return _digest("\n".join(self.build), *files)

    def fill(self, text: str, **values: object) -> str:
        """Return a text with its places filled; one without a value stays."""
        values = {
            "folder": self.folder,
            "build": self.build_folder,
            "project": schema.project_root(),
            **values,
        }
        paths = [need.path for need in self.needs]
        values |= {f"need{i}": path for i, path in enumerate(paths, 1) if path}
        return _filled(text, values)

    def words(self, text: str, **values: object) -> list[str]:
        """Return the words of a command, filled; a folder may have a space in it."""
        return [self.fill(word, **values) for word in shlex.split(text)]


def entries() -> dict[str, Entry]:
    """Return the entries of ``servers.toml`` by name; none where there is no file.

    Raises `ServersError` with the entry, the key and what is allowed.
    """
    path = schema.project_root() / FILE
    try:
        stamp = path.stat().st_mtime_ns
    except FileNotFoundError:
        return {}
    return _entries(path, stamp)


def tables(names: Sequence[str]) -> dict[str, Entry]:
    """Return entries of ``servers.toml`` by name; ValueError where one is not there."""
    known = entries()
    for name in names:
        if name not in known:
            raise ValueError(programs.unknown("table of servers.toml", name, known))
    return {name: known[name] for name in names}


def parse(text: str) -> dict[str, Entry]:
    """Return the entries that a text in the form of ``servers.toml`` has.

    >>> parse('''
    ... [mine]
    ... label = "mine"
    ... family = "readiness"
    ... language = "C"
    ... command = "./mine --port {port}"
    ... ''')["mine"].workloads
    ('echo',)
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ServersError(f"{FILE}: {error}") from None
    found, errors = {}, []
    for name, table in tables.items():
        if not isinstance(table, dict):
            wrong = [f"want a table, [{name}]"]
        elif not _NAME.fullmatch(name):
            wrong = [f"name {name!r}; allowed: letters, digits, '_', '-', '.' and '+'"]
        elif "name" in table:
            wrong = [programs.unknown("key", "name", _KEYS)]
        else:
            wrong = _entry_errors(found, name, table)
        errors += [f"{FILE}: {name}: {text}" for text in wrong]
    if errors:
        raise ServersError("\n".join(errors))
    return found


def is_command(text: str) -> bool:
    """Whether a server is given as a command line and not by name."""
    return PORT in text


def is_address(name: str) -> bool:
    """Whether a server is given as where it runs already."""
    return name.startswith(address.WORD)


def entry_of(name: str) -> Entry | None:
    """Return the entry of a server that connlab did not write; None for any other.

    That of a command line or an address has nothing else. Raises ValueError for a text
    after ``at:`` that is no address.
    """
    bare = {"name": name, "label": name, "family": FAMILY, "language": ""}
    if is_address(name):
        at = address.parse(name.removeprefix(address.WORD))
        return Entry(**bare, at=str(at))
    if is_command(name):
        return Entry(**bare, command=name, warm_up=WARM_UP_S)
    return entries().get(name)


def address_of(name: str) -> address.Address | None:
    """Return where a server runs already; None for one that is to be started."""
    entry = entry_of(name)
    return address.parse(entry.at) if entry and entry.at else None


def warm_up_s(factors: Mapping[str, Any]) -> float:
    """Return the seconds of load that a server gets before it takes turns.

    Those that the factor ``warm_up`` says, else its entry; none for a model.
    """
    if (asked := factors.get("warm_up")) is not None:
        return float(asked)
    entry = None if is_lesson(factors["model"]) else entry_of(factors["model"])
    return entry.warm_up if entry else 0.0


def check_warm_up(seconds: float) -> None:
    """Raise ValueError for a warm-up that no server can have."""
    if not 0 <= seconds <= WARM_UP_MOST_S:
        most = f"0 to {WARM_UP_MOST_S:g} s"
        raise ValueError(f"warm-up: {seconds:g} s; allowed: {most}")


def is_ours(name: str) -> bool:
    """Whether connlab wrote a server: a model, a lesson, or a model under Wine."""
    entry = None if is_lesson(name) else entry_of(name)
    return entry is None or entry.contract


def host_of(name: str, host: Host) -> Host:
    """Return where a server lives: at its address, else where servers are started."""
    at = address_of(name)
    return host if at is None else address.Elsewhere(name, at)


def model(name: str) -> schema.Model | None:
    """Return what is known of an external server; None for any other name.

    `digest` identifies what was measured (command, version, compiled file), and is part
    of the key of its trials. Of a server that runs already only its address is known.
    """
    entry = entry_of(name)
    if entry is None:
        return None
    workers = "fixed" if entry.takes_workers else None
    if is_command(name):
        try:
            words = shlex.split(name)
        except ValueError as error:
            raise ValueError(f"server {name!r}: {str(error).lower()}") from None
        label, digest = Path(words[0]).name, _digest(name, *words)
        facts = {"label": label, "digest": digest, "workers": workers}
        return _model(name, **facts, warm_up=entry.warm_up)
    if is_address(name):
        return _model(name, label=entry.at, at=entry.at, digest=_digest(name))
    names = {"label", "family", "language", "holds", "nearest", "workloads"}
    names |= {"warm_up"} if entry.warm_up else set()
    facts = entry.model_dump(include=names) | {"concurrent": entry.holds != "one"}
    if entry.at:
        return _model(name, **facts, at=entry.at, digest=_digest(f"at:{entry.at}"))
    version = version_of(entry)
    warm_up = f" {entry.warm_up:g} s" if entry.warm_up else ""
    files = [entry.fill(entry.product), *sorted(entry.folder.rglob("*"))]
    return _model(
        name,
        **facts,
        available=entry.available,
        reason=entry.reason,
        workers=workers,
        version=version,
        digest=_digest(f"{entry.command} {version}{warm_up}", *files),
    )


def is_lesson(name: str) -> bool:
    """Whether a server's name stands for one of ``build/lessons``."""
    return name.startswith(LESSON)


def lessons(both: programs.Programs) -> dict[str, schema.Model]:
    """Return the lessons that are built, each as its model without settings.

    With a `digest` as other servers have that are not ``build/server``.
    """
    plain = {"workers": "none", "workloads": ("echo",)}
    found = {}
    for model in programs.registry(programs=both).models:
        name = f"{LESSON}{model.name}"
        if (file := _lesson(both, name)).is_file():
            own = {"name": name, "digest": programs.digest(str(file)), **plain}
            found[name] = model.model_copy(update=own)
    return found


def check(
    name: str, both: programs.Programs, known: schema.Registry | None = None
) -> schema.Model:
    """Return what is known of a server by name or command line.

    `known` lists the models of the host that they run on; by default this machine's.
    Raises ValueError for an unknown name, with the nearest known one, and for a command
    line or an address that cannot be read.
    """
    known = known or programs.registry(programs=both)
    built = {row.name: row for row in known.models} | lessons(both)
    if name in built and name in entries():
        raise ServersError(f"{FILE}: {name} is a model's name; allowed: any other")
    if (row := built.get(name) or model(name)) is not None:
        return row
    if not is_lesson(name) and any(c.isspace() or c == "/" for c in name):
        raise ValueError(
            f"server {name!r}: a command line needs {PORT}, where the port goes"
        )
    raise ValueError(programs.unknown("server", name, [*built, *entries()]))


def able(
    name: str,
    workload: str,
    both: programs.Programs,
    known: schema.Registry | None = None,
) -> schema.Model:
    """Return what `check` does; ValueError for a server that cannot do a workload here.

    A command line is taken for one that can.
    """
    row = check(name, both, known)
    allowed = (row.model_extra or {}).get("workloads")
    if allowed and workload not in allowed:
        given = f"server {name}: workload {workload}"
        raise ValueError(f"{given}; allowed: {', '.join(allowed)}")
    if not row.available:
        raise ValueError(f"server {name} cannot run here: {row.reason}")
    return row


def check_settings(name: str, factors: Mapping[str, Any]) -> None:
    """Raise ValueError for a setting that a server of others, or a lesson, is not told.

    Tables would show it as if it held. Such a server is one process in any case.
    """
    if (seconds := factors.get("warm_up")) is not None:
        check_warm_up(seconds)
    entry = None if is_lesson(name) else entry_of(name)
    if entry is None and not is_lesson(name):
        return
    takes_workers = entry is not None and entry.takes_workers
    allowed = "no settings but workers" if takes_workers else "no settings"
    for setting in _SETTINGS:
        value = factors.get(setting)
        if value is None or (setting == "processes" and str(value) == "1"):
            continue
        if not (takes_workers and setting == "workers"):
            given = f"server {name}:{setting}={value}"
            raise ValueError(f"{given}: this server takes {allowed}")


def argv(both: programs.Programs, factors: Mapping[str, Any]) -> list[str]:
    """Return the words that start the server of a trial with these factors.

    There are none for a server that runs already.
    """
    name = factors["model"]
    if is_lesson(name):
        return [str(_lesson(both, name))]
    entry = entry_of(name)
    if entry is None:
        return [*both.server, *flags.server_flags(factors)]
    if entry.at:
        return []
    if entry.contract:
        return _command(entry, factors, port=0)
    program = Path(programs.built().client[-1]).with_name("external")
    words = ["--name", name, "--workload", str(factors.get("workload") or "echo")]
    return [str(program), *words, "--", *_command(entry, factors)]


def command_line(name: str, both: programs.Programs) -> str:
    """Return a command line with ``{port}`` that starts a server of any kind.

    Raises ValueError for a server that runs already, which nothing can start.
    """
    if place := address_of(name):
        raise ValueError(
            f"server {name}: runs at {place} already; allowed: one that can be started"
        )
    if is_command(name):
        return name
    if is_lesson(name):
        return f"{shlex.quote(str(_lesson(both, name)))} {PORT}"
    if entry := entry_of(name):
        return shlex.join(_command(entry, {}))
    return shlex.join([*both.server, name, "--listen", f"127.0.0.1:{PORT}"])


def shown_command(factors: Mapping[str, Any]) -> str:
    """Return what one would type for the same server, without paths of ours."""
    name = factors["model"]
    if is_lesson(name):
        return name
    entry = entry_of(name)
    if entry is None:
        return " ".join(["server", *flags.server_flags(factors)])
    place = address_of(name)
    return f"{address.WORD}{place}" if place else entry.command


def version_of(entry: Entry) -> str:
    """Return the first line that an entry's version command prints.

    "" for none, and where the command fails: what it prints then is no version.
    """
    if not entry.version or entry.lacks:
        return ""
    return _first_line(tuple(entry.words(entry.version)))


# ---- the file ------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _entries(path: Path, _mtime_ns: int) -> dict[str, Entry]:
    return parse(path.read_text(encoding="utf-8"))


_KEYS = [key for key in Entry.model_fields if key != "name"]


def _entry_errors(
    found: dict[str, Entry], name: str, table: Mapping[str, Any]
) -> list[str]:
    """Put a table's entry into what was `found`; return what is wrong with it."""
    try:
        found[name] = Entry.model_validate({**table, "name": name})
    except ValidationError as error:
        return [
            programs.described(e, Need.model_fields if "needs" in e["loc"] else _KEYS)
            for e in error.errors()
        ]
    return _at_or_command_errors(found[name])


def _at_or_command_errors(entry: Entry) -> list[str]:
    """Return the errors in an entry's address, or in the places of its command."""
    if entry.at:
        errors = [f"{name} beside at" for name in _STARTING if getattr(entry, name)]
        try:
            address.parse(entry.at)
        except ValueError as error:
            errors.append(f"at: {error}")
        return errors
    if not entry.command:
        return ["command is missing, and at as well"]
    allowed = [*_KNOWN_PLACES, *(f"need{i + 1}" for i in range(len(entry.needs)))]
    errors = list(_text_errors("command", entry.command, allowed))
    if not errors and PORT not in entry.command:
        errors.append(f"command has no {PORT}")
    fixed = [place for place in allowed if place not in _OF_A_TRIAL]
    for key, texts in (
        ("build", entry.build),
        ("product", (entry.product,)),
        ("version", (entry.version,)),
    ):
        errors += [e for text in texts for e in _text_errors(key, text, fixed)]
    return errors


def _text_errors(key: str, text: str, allowed: Sequence[str]) -> Iterator[str]:
    """Give what is wrong with the quotes of a command, or the places of a text."""
    if key != "product":
        try:
            shlex.split(text)
        except ValueError as error:
            yield f"{key}: {text!r}; {str(error).lower()}"
    for place in _PLACES.findall(text):
        if place not in allowed:
            yield f"{key}: {programs.unknown('place', place, allowed)}"


# ---- what is there ----------------------------------------------------------------


def _paths(name: str) -> list[str]:
    """Return the paths of a program, also where only root looks, or of files."""
    if "/" in name:
        return sorted(glob.glob(name))
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return [path] if path else []


def _model(name: str, **facts: Any) -> schema.Model:
    plain = {"family": FAMILY, "label": name, "holds": "descriptors", "external": True}
    return schema.Model(name=name, **(plain | facts))


def _lesson(both: programs.Programs, name: str) -> Path:
    return Path(both.server[-1]).parent / name


def _digest(text: str, *paths: str | Path) -> str:
    """Return a hash of a text and of those of the paths that are files."""
    digest = hashlib.sha256(text.encode())
    for path in paths:  # or words: one may be longer than any name of a file
        if os.path.isfile(path):
            digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]


@functools.lru_cache(maxsize=64)
def _first_line(words: tuple[str, ...]) -> str:
    # where Java finds too little memory it leaves a file in its folder, which then is
    # no longer that in which a path may begin
    words = [os.path.abspath(w) if "/" in w and os.path.exists(w) else w for w in words]
    try:
        with tempfile.TemporaryDirectory(prefix="connlab-") as folder:
            done = programs.finished(words, timeout_s=_VERSION_TIMEOUT_S, cwd=folder)
    except (OSError, subprocess.SubprocessError):
        return ""
    said = "" if done.returncode else (done.stdout + done.stderr).strip()
    return next(iter(said.splitlines()), "")


def _command(
    entry: Entry, factors: Mapping[str, Any], port: int | str = PORT
) -> list[str]:
    workers, root = factors.get("workers") or 1, factors.get("root") or "."
    values = {"port": port, "workers": workers, "root": root}
    if is_command(entry.name):  # whose other places are its own
        return [_filled(word, values) for word in shlex.split(entry.command)]
    if "{build}" in entry.command:  # its own files; nobody may have built anything
        entry.build_folder.mkdir(parents=True, exist_ok=True)
    return entry.words(entry.command, **values)


def _filled(text: str, values: Mapping[str, object]) -> str:
    return _PLACES.sub(lambda place: str(values.get(place[1], place[0])), text)
