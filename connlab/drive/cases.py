"""The 24 test cases of report 001 (Tran & Rees), for every model.

Their table asks six questions of a client and six of each server: are lengths
varied, do the same bytes come back, are there as many answers as requests, do both
sides count them alike, are sockets closed, does memory leak. Their select server
failed three; their leaks of possibly lost memory were "permitted". Here a case
holds or does not, and each answer carries the figures that it rests on.

    server under test + our client, over TCP -> both sides' own counts, compared
    the same once more under valgrind        -> its leak summaries, parsed
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from connlab.drive import recorded, store
from connlab.drive.programs import Programs, built, models

FILE = "cases.jsonl"
CONNECTIONS = 4
REQUESTS = 25
SIZES = "1-2000"
_WAIT_S = 60
_LOST = re.compile(r"(definitely|indirectly|possibly) lost: ([\d,]+) bytes")
_NO_LEAKS = "no leaks are possible"
_TCP_LISTEN, _TCP_TIME_WAIT = 0x0A, 0x06

#: what is asked -> (their cases for servers, in the order thread, select, epoll;
#: their case for the client)
QUESTIONS = {
    "varied lengths": ((2, 3, 4), 1),
    "the same bytes": ((6, 7, 8), 5),
    "as many answers as requests": ((10, 11, 12), 9),
    "requests counted": ((14, 15, 16), 13),
    "sockets closed": ((17, 18, 19), 20),
    "no memory leaked": ((21, 22, 23), 24),
}


@dataclass(frozen=True)
class Answer:
    """Whether one question holds for one subject.

    `holds` is None where it could not be asked here; `evidence` says what was
    compared, or why it could not be.
    """

    question: str
    subject: str
    their_cases: tuple[int, ...]
    holds: bool | None
    evidence: str


@dataclass(frozen=True)
class _Conversation:
    """What both sides said of one run."""

    client: dict
    server: dict
    per_connection: tuple[dict, ...]
    log: tuple[dict, ...]
    sockets_left: int
    descriptors_left: int
    client_errors: str = ""
    server_errors: str = ""


def run(
    names: Sequence[str] | None = None,
    *,
    programs: Programs | None = None,
    valgrind: bool = True,
) -> tuple[Answer, ...]:
    """Ask all questions of the client and of each model.

    Parameters
    ----------
    names
        Models; all that are available when left out.
    valgrind
        Whether to ask about leaks, which takes a few seconds a model.

    Raises
    ------
    RuntimeError
        When a server does not come up or does not end; its words are in the text.
    """
    programs = programs or built()
    names = names or [model.name for model in models(programs) if model.available]
    answers: list[Answer] = []
    for name in names:
        talk = _converse(programs, name)
        answers += _about_server(name, talk)
        answers.append(_leaks(programs, name) if valgrind else _not_asked(name))
    answers += _about_client(talk)
    answers.append(_client_leaks(programs) if valgrind else _not_asked("client"))
    return tuple(answers)


def ask_all(
    names: Sequence[str], folder: Path, *, valgrind: bool = True
) -> tuple[Answer, ...]:
    """Ask all questions of these models and of the client; keep the answers.

    While a run is evaluated again, return those that the folder holds of them.
    """
    if recorded.folder():
        subjects = {*names, "client"}
        return tuple(one for one in read(folder) if one.subject in subjects)
    answers = run(names, valgrind=valgrind)
    keep(answers, folder)
    return answers


def read(folder: Path) -> list[Answer]:
    """Return what `keep` wrote into a folder; nothing where there is no such file."""
    rows = store.read(folder / FILE).trials
    return [Answer(**row | {"their_cases": (*row["their_cases"],)}) for row in rows]


def keep(answers: Sequence[Answer], folder: Path) -> Path:
    """Write the answers to ``folder/cases.jsonl``, a line each; return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    lines = [json.dumps(asdict(answer)) + "\n" for answer in answers]
    path.write_text("".join(lines))
    return path


# --- one run ----------------------------------------------------------------


@contextlib.contextmanager
def _serving(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen, dict]]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{command[-1]}: no ready line: {process.stderr.read()}")
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _converse(
    programs: Programs,
    model: str,
    *,
    server_prefix: Sequence[str] = (),
    client_prefix: Sequence[str] = (),
) -> _Conversation:
    with tempfile.TemporaryDirectory() as folder:
        log, table = Path(folder, "log.csv"), Path(folder, "connections.csv")
        server = [*server_prefix, *programs.server, model, "--log", str(log)]
        with _serving(server) as (process, ready):
            before = _descriptors(process.pid)
            client = _client(programs, ready, table, client_prefix)
            sockets = settled(lambda: open_sockets(ready["port"]))
            descriptors = settled(lambda: _descriptors(process.pid) - before)
            process.terminate()
            out, errors = process.communicate(timeout=_WAIT_S)
        if not out:
            raise RuntimeError(f"{model}: no stats line: {errors[-2000:]}")
        return _Conversation(
            client=json.loads(client.stdout),
            server=json.loads(out.splitlines()[-1]),
            per_connection=tuple(csv.DictReader(table.open())),
            log=tuple(csv.DictReader(log.open())),
            sockets_left=sockets,
            descriptors_left=descriptors,
            client_errors=client.stderr,
            server_errors=errors,
        )


def _client(
    programs: Programs, ready: dict, table: Path, prefix: Sequence[str]
) -> subprocess.CompletedProcess:
    command = [*prefix, *programs.client, f"{ready['host']}:{ready['port']}"]
    command += ["--connections", str(CONNECTIONS), "--requests", str(REQUESTS)]
    command += ["--size", SIZES, "--per-connection", str(table)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_WAIT_S, check=True
    )


def settled(measure: Callable[[], int], *, seconds: float = 2.0) -> int:
    """Return what is measured once it is 0, or after a while as it is."""
    until = time.monotonic() + seconds
    while (found := measure()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def _descriptors(pid: int) -> int:
    """Count the sockets that a process holds open, but for those of its own family.

    A server is ready when it listens; prefork-pass makes the pair of Unix sockets
    over which it passes descriptors a moment later.
    """
    held = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            held.append(os.readlink(link))
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    unix = {f"socket:[{line.split()[6]}]" for line in lines}
    return sum(one.startswith("socket:") and one not in unix for one in held)


def open_sockets(port: int) -> int:
    """Count the server's sockets on `port` that are neither listening nor done."""
    open_ones = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, state = int(fields[1].split(":")[1], 16), int(fields[3], 16)
        open_ones += local == port and state not in (_TCP_LISTEN, _TCP_TIME_WAIT)
    return open_ones


# --- what it shows ----------------------------------------------------------


def _answer(question: str, subject: str, holds: bool | None, evidence: str) -> Answer:
    servers, client = QUESTIONS[question]
    their = dict(zip(("thread", "select", "epoll"), servers, strict=True))
    cases = (client,) if subject == "client" else (their.get(subject),)
    return Answer(question, subject, tuple(c for c in cases if c), holds, evidence)


def _about_server(name: str, talk: _Conversation) -> list[Answer]:
    client, server = talk.client, talk.server
    sent, got = client["bytes"]["sent"], client["bytes"]["received"]
    asked, told = client["requests"]["sent"], client["requests"]["completed"]
    mismatches = client["errors"]["mismatch"]
    lengths = {(row["bytes_in"], row["requests"]) for row in talk.log}
    rows = sorted((int(r["requests"]), int(r["bytes_in"])) for r in talk.log)
    theirs = sorted(
        (int(r["requests"]), int(r["bytes_out"])) for r in talk.per_connection
    )
    return [
        _answer(
            "varied lengths",
            name,
            len(lengths) > 1 and server["bytes_in"] == sent,
            f"messages of {SIZES} bytes: sent {sent}, received {server['bytes_in']}",
        ),
        _answer(
            "the same bytes",
            name,
            mismatches == 0 and sent == got == server["bytes_out"] > 0,
            f"{got} of {sent} bytes came back, {mismatches} differ",
        ),
        _answer(
            "as many answers as requests",
            name,
            asked == told == CONNECTIONS * REQUESTS,
            f"{told} answers to {asked} requests",
        ),
        _answer(
            "requests counted",
            name,
            server["requests"] == told and rows == theirs,
            f"server {server['requests']}, client {told}; connection by connection",
        ),
        _answer(
            "sockets closed",
            name,
            talk.sockets_left == 0 and talk.descriptors_left <= 0,
            f"{talk.sockets_left} sockets, {max(0, talk.descriptors_left)}"
            " descriptors left",
        ),
    ]


def _about_client(talk: _Conversation) -> list[Answer]:
    client = talk.client
    per = [int(row["requests"]) for row in talk.per_connection]
    sizes = {row["bytes_out"] for row in talk.per_connection}
    sent = client["bytes"]["sent"]
    asked = client["requests"]["sent"]
    return [
        _answer("varied lengths", "client", len(sizes) > 1, f"sizes {SIZES}"),
        _answer("the same bytes", "client", sent > 0, f"{sent} bytes sent"),
        _answer(
            "as many answers as requests", "client", asked > 1, f"{asked} requests"
        ),
        _answer(
            "requests counted",
            "client",
            sum(per) == client["requests"]["completed"],
            f"{sum(per)} over {len(per)} connections",
        ),
        _answer(
            "sockets closed",
            "client",
            talk.sockets_left == 0,
            f"{talk.sockets_left} sockets left",
        ),
    ]


# --- leaks ------------------------------------------------------------------


def _valgrind() -> list[str] | None:
    found = shutil.which("valgrind")
    return [found, "--leak-check=full", "--error-exitcode=0"] if found else None


def _not_asked(subject: str) -> Answer:
    return _answer("no memory leaked", subject, None, "valgrind was not run")


def lost(
    text: str, *, kinds: Sequence[str] = ("definitely", "indirectly", "possibly")
) -> tuple[int, int]:
    """Return the bytes lost in all processes, and how many processes said so."""
    told = (n for kind, n in _LOST.findall(text) if kind in kinds)
    lost = sum(int(n.replace(",", "")) for n in told)
    said = text.count("LEAK SUMMARY") + text.count(_NO_LEAKS)
    return lost, said


def _verdict(subject: str, text: str) -> Answer:
    bytes_lost, said = lost(text)
    evidence = (
        f"{bytes_lost} bytes lost definitely, indirectly or possibly ({said} reports)"
    )
    return _answer(
        "no memory leaked", subject, bytes_lost == 0 if said else None, evidence
    )


def _leaks(programs: Programs, name: str) -> Answer:
    prefix = _valgrind()
    if prefix is None:
        return _not_asked(name)
    try:
        talk = _converse(programs, name, server_prefix=prefix)
    except subprocess.TimeoutExpired:
        late = f"the server did not end under valgrind within {_WAIT_S} s"
        return _answer("no memory leaked", name, None, late)
    return _verdict(name, talk.server_errors)


def _client_leaks(programs: Programs) -> Answer:
    prefix = _valgrind()
    if prefix is None:
        return _not_asked("client")
    first = next(model.name for model in models(programs) if model.available)
    talk = _converse(programs, first, client_prefix=prefix)
    return _verdict("client", talk.client_errors)
